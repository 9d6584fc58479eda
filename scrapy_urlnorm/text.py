"""Words for messages to people."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def counted(number: int, word: str, words: str | None = None) -> str:
    """Return *number* with its noun: *word* of one thing, *words* (or *word* and "s") of others.

    >>> counted(1, "error"), counted(2_000, "URL"), counted(2, "page lost", "pages lost")
    ('1 error', '2,000 URLs', '2 pages lost')
    """
    return f"{number:,} {word if number == 1 else words or f'{word}s'}"


def shortened(text: str, most: int = 2_000) -> str:
    """Return *text*, without its middle if it has more than *most* characters.

    >>> shortened("a value that somebody made very long", 20)
    'a value th … ry long'
    """
    if len(text) <= most:
        return text
    return f"{text[: most // 2]} … {text[-(most // 2 - 3) :]}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown *word*: the one of *known* closest to it.

    >>> did_you_mean("sort-querry", ["sort-query", "www"])
    "; did you mean 'sort-query'?"
    >>> did_you_mean("nosuch", ["sort-query", "www"])
    '.'
    """
    close = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else "."
