"""Words for messages to people."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown *word*: the one of *known* closest to it.

    >>> did_you_mean("sort-querry", ["sort-query", "www"])
    "; did you mean 'sort-query'?"
    >>> did_you_mean("nosuch", ["sort-query", "www"])
    '.'
    """
    close = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else "."
