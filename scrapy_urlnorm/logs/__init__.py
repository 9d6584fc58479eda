"""Readers of crawl logs: every format becomes a stream of `Observation`.

A format of lines is a module with two functions: ``matches(sample)`` says whether the first lines
look like it, ``read(lines, log)`` turns lines into rows. A format of files is one with ``matches(path)``
and ``rows(path, log)``, whose rows are those that `jsonl` reads. A new one is a module and a line in
`FORMATS` or `ARCHIVES`.
"""

from __future__ import annotations

import json
import os
import re
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Protocol

from scrapy_urlnorm.exceptions import ConfigError, LogFormatError
from scrapy_urlnorm.logs import access, cdx, httpcache, jsonl, parquet, table, urls, warc
from scrapy_urlnorm.logs.observation import Observation
from scrapy_urlnorm.logs.source import numbered_lines, open_log

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_urlnorm.logs.source import Log

__all__ = ["ARCHIVES", "FORMATS", "LogReader", "Observation", "read_log"]

_SAMPLE = 20  # lines that decide on the format
_SITE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#\s]+/?")


class Format(Protocol):
    """The two functions of a module that reads one format."""

    def matches(self, sample: list[str]) -> bool:
        """Whether these first lines look like it."""

    def read(self, lines: Iterable[tuple[int, str]], log: Log) -> Iterator[Observation]:
        """Turn numbered lines into rows; report bad lines to ``log``."""


class Archive(Protocol):
    """The two functions of a module that reads one format of files."""

    def matches(self, path: str) -> bool:
        """Whether the file or folder looks like it."""

    def rows(self, path: str, log: Log) -> Iterator[tuple[int, dict[str, Any]]]:
        """Turn it into numbered rows of a crawl log; report bad ones to ``log``."""


ARCHIVES: dict[str, Archive] = {"warc": warc, "parquet": parquet, "httpcache": httpcache}

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
    path: of a file, plain or gzipped, or of a folder for some of `ARCHIVES`; ``-`` is standard input.
    format: a name of `ARCHIVES` or `FORMATS`; with None the path and the first lines decide.
    site: scheme and host for rows that name none (access logs, lists of paths).
    skip_bad: count a row that cannot be read in `skipped` instead of raising an error.

    Raises ConfigError for an unknown format or a bad site; while reading LogFormatError, naming
    file, line and reason, and OSError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        skip_bad: bool = False,
        site: str | None = None,
    ) -> None:
        known = (*FORMATS, *ARCHIVES)
        if format is not None and format not in known:
            raise ConfigError(f"unknown log format {format!r}; known are {', '.join(known)}")
        if site is not None and not _SITE.fullmatch(site):
            raise ConfigError(f"site {site!r} must be scheme and host, as https://shop.example")
        self.path = os.fspath(path)
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

    @property
    def can_be_reopened(self) -> bool:
        """Whether its lines can be read a second time from ``path``."""
        return self.path != "-" and self.format not in ARCHIVES

    def _read(self) -> Iterator[Observation]:
        if self.format is None and self.path != "-":
            self.format = next((n for n, a in ARCHIVES.items() if a.matches(self.path)), None)
        if self.format in ARCHIVES:
            rows = ARCHIVES[self.format].rows(self.path, self)
            yield from jsonl.read(((n, json.dumps(row)) for n, row in rows), self)
            return
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
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    skip_bad: bool = False,
    site: str | None = None,
) -> LogReader:
    """Read the log at ``path``: see `LogReader`."""
    return LogReader(path, format=format, skip_bad=skip_bad, site=site)
