"""Readers of crawl logs: every format becomes a stream of `Observation`.

A format is a module with two functions: ``matches(sample)`` says whether the first lines look
like it, ``read(lines, log)`` turns lines into rows. A new one is a module and a line in `FORMATS`.
"""

from __future__ import annotations

import re
from itertools import chain, islice
from typing import TYPE_CHECKING, Protocol

from scrapy_urlnorm.exceptions import ConfigError, LogFormatError
from scrapy_urlnorm.logs import access, cdx, jsonl, table, urls
from scrapy_urlnorm.logs.observation import Observation
from scrapy_urlnorm.logs.source import numbered_lines, open_log

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_urlnorm.logs.source import Log

__all__ = ["FORMATS", "LogReader", "Observation", "read_log"]

_SAMPLE = 20  # lines that decide on the format
_SITE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#\s]+/?")


class Format(Protocol):
    """The two functions of a module that reads one format."""

    def matches(self, sample: list[str]) -> bool:
        """Whether these first lines look like it."""

    def read(self, lines: Iterable[tuple[int, str]], log: Log) -> Iterator[Observation]:
        """Turn numbered lines into rows; report bad lines to ``log``."""


# Tried in this order: the format that fits most lines (a list of URLs) comes last.
FORMATS: dict[str, Format] = {
    "jsonl": jsonl,
    "csv": table,
    "cdx": cdx,
    "access": access,
    "urls": urls,
}


class LogReader:
    """An iterator over the rows of one log, in its order.

    Parameters
    ----------
    path: of a file, plain or gzipped; ``-`` is standard input.
    format: a name of `FORMATS`; with None the first lines decide.
    site: scheme and host for rows that name none (access logs, lists of paths).
    skip_bad: count a row that cannot be read in `skipped` instead of raising an error.

    Raises ConfigError for an unknown format or a bad site; while reading LogFormatError, naming
    file, line and reason, and OSError.
    """

    def __init__(
        self,
        path: str,
        *,
        format: str | None = None,
        skip_bad: bool = False,
        site: str | None = None,
    ) -> None:
        if format is not None and format not in FORMATS:
            raise ConfigError(f"unknown log format {format!r}; known are {', '.join(FORMATS)}")
        if site is not None and not _SITE.fullmatch(site):
            raise ConfigError(f"site {site!r} must be scheme and host, as https://shop.example")
        self.path = path
        self.format = format
        self.site = site
        self.skip_bad = skip_bad
        self.skipped = 0
        self.first_bad: str | None = None
        self._rows = self._read()

    def __iter__(self) -> Iterator[Observation]:
        return self._rows

    def __next__(self) -> Observation:
        return next(self._rows)

    def bad(self, line: int, reason: str) -> None:
        """Raise LogFormatError for a row that cannot be read, or count it: see ``skip_bad``."""
        name = "standard input" if self.path == "-" else self.path
        message = f"{name}, line {line}: {reason}"
        if not self.skip_bad:
            raise LogFormatError(message)
        self.skipped += 1
        self.first_bad = self.first_bad or message

    def _read(self) -> Iterator[Observation]:
        with open_log(self.path) as stream:
            lines = numbered_lines(stream, self)
            head = list(islice(lines, _SAMPLE))
            if not head:
                return
            if self.format is None:
                self.format = self._detect([line for _, line in head])
            yield from FORMATS[self.format].read(chain(head, lines), self)

    def _detect(self, sample: list[str]) -> str:
        for name, module in FORMATS.items():
            if module.matches(sample):
                return name
        raise LogFormatError(
            f"{self.path}, line 1: no known format begins like {sample[0][:60]!r}; "
            f"name one of {', '.join(FORMATS)}"
        )


def read_log(
    path: str, *, format: str | None = None, skip_bad: bool = False, site: str | None = None
) -> LogReader:
    """Read the log at ``path``: see `LogReader`."""
    return LogReader(path, format=format, skip_bad=skip_bad, site=site)
