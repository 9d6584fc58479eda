"""Texts: the words of messages, lists that are compared, and files that are written in one piece."""

from __future__ import annotations

import logging
import os
from datetime import datetime, timezone
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


LONGEST_LINE = 300  #: characters of a line of the log


def logger_of(module: str) -> logging.Logger:
    """Return the logger of a *module* of this package: none of its lines is too long to be read."""
    logger = logging.getLogger(module)
    logger.addFilter(_shorten)
    return logger


def _shorten(record: logging.LogRecord) -> bool:
    """Leave out the middle of a long line; an error keeps all that it says, in several lines."""
    if len(message := record.getMessage()) > LONGEST_LINE:
        lines = wrap(message, LONGEST_LINE, break_on_hyphens=False)
        is_error = record.levelno >= logging.ERROR
        record.msg = "\n".join(lines) if is_error else shortened(message, LONGEST_LINE)
        record.args = None
    return True


def listed(words: Sequence[str], most: int = 5) -> str:
    """Return the first *words*, and how many more there are.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], 1)
    ('a, b, c', 'a and 2 more')
    """
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more:,} more" if more > 0 else "")


def moment(seconds: float) -> str:
    """Return a time in seconds since 1970 as a day and a time of day.

    >>> moment(0)
    '1970-01-01 00:00 UTC'
    """
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%d %H:%M} UTC"


def duration(seconds: float) -> str:
    """Return a time in *seconds* in the unit that people would say it in.

    >>> duration(1), duration(119), duration(600), duration(9_000)
    ('1 second', '119 seconds', '10 minutes', '2.5 hours')
    """
    if seconds < 120:
        return counted(round(seconds), "second")
    return f"{seconds / 60:.0f} minutes" if seconds < 7_200 else f"{seconds / 3_600:,.1f} hours"


def own_version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # takes a while

    try:
        return version("scrapy-urlnorm")
    except PackageNotFoundError:  # a source tree that is on the path and not installed
        return "unknown"


def counted(number: int, word: str) -> str:
    """Return *number* with its noun: *word* of one thing, *word* and "s" of others.

    >>> counted(1, "error"), counted(2_000, "URL")
    ('1 error', '2,000 URLs')
    """
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    """Return a share of 1 as every message has it; one that is not 0 never as ``0.0%``.

    >>> percent(0.0199), percent(1), percent(0.0001)
    ('2.0%', '100.0%', '0.1%')
    """
    return f"{max(share, 0.001) if share else share:.1%}"


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
    import difflib  # takes a while

    close = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else "."


def common_ends(one: Sequence[str], two: Sequence[str]) -> tuple[int, int]:
    """Return how many texts two lists begin and end with in common.

    >>> common_ends(["a", "b", "c"], ["a", "c"])
    (1, 1)
    """
    least = min(len(one), len(two))
    first = last = 0
    while first < least and one[first] == two[first]:
        first += 1
    while last < least - first and one[-1 - last] == two[-1 - last]:
        last += 1
    return first, last


def replace_file(path: Path, text: str) -> None:
    """Write *text* to a new file beside *path*, then put it in its place.

    Only its owner may read a new file (mode 0600); an older one keeps its mode. What is no file, such
    as ``/dev/stdout``, is written to. Raises OSError.
    """
    import tempfile  # takes a while

    path = path.resolve()
    if _is_no_file(path):
        path.write_text(text, encoding="utf-8")
        return
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        os.replace(name, path)  # noqa: PTH105 - the names are texts here
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def try_file(path: Path) -> None:
    """Raise OSError if `replace_file` could not write to *path*; make its folder."""
    import tempfile

    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    if _is_no_file(path):
        path.open("ab").close()  # a folder raises, too
    else:
        with tempfile.TemporaryFile(dir=path.parent):
            pass


def _is_no_file(path: Path) -> bool:
    return path.exists() and not path.is_file()
