"""The second look at a log that `scrapy_urlnorm.CrawlLog` wrote: lines of most pages do not count.

What stands on more than half of a host's pages (menus, footers) belongs to the site, not to the
page: with it left out, a page and its printable view are one content. More than half, because of
two lines that exclude each other ("in stock", "sold out") at most one stands there. Which lines
these are is known only when the crawl is over, so a row carries a hash of each of its lines.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import contextmanager, suppress
from hashlib import blake2b
from itertools import chain
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import urlsplit

from ..content import LINE_BYTES
from .source import numbered_lines, open_log

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from .source import Log

_WIDTH = LINE_BYTES * 8 // 6
_LINE = re.compile(f".{{{_WIDTH}}}")
_WELL_FORMED = re.compile(f"(?:[A-Za-z0-9+/]{{{_WIDTH}}})*")

PAGES = 300
"""Different pages of a host that decide what its common lines are."""

FEW = 10
"""With fewer pages than this no line is common: chance would decide."""

MAX_LINES = 2_000_000
"""Lines counted at once, about 250 MB; hosts that come later keep all their lines."""


class CommonLines:
    """Per host, the lines that stand on most of its pages."""

    def __init__(self) -> None:
        self._contents: dict[str, set[str]] = {}
        self._counts: dict[str, Counter[str]] = {}
        self._common: dict[str, frozenset[str]] = {}
        self._held = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Count a row: once a content, lest one page under many URLs look like the site."""
        text, url, name = row.get("lines"), row.get("url"), row.get("bag_digest")
        if row.get("status") != 200 or not (text and name and isinstance(url, str)):
            return
        host = _host(url)
        if host in self._common or (host not in self._counts and self._held > MAX_LINES):
            return
        contents = self._contents.setdefault(host, set())
        if name in contents:
            return
        contents.add(str(name))
        counts = self._counts.setdefault(host, Counter())
        self._held -= len(counts)
        counts.update(set(_lines(text)))
        self._held += len(counts)
        if len(contents) == PAGES:
            self._settle(host)

    def finish(self) -> None:
        """Settle the hosts with few pages."""
        for host in list(self._counts):
            self._settle(host)

    def _settle(self, host: str) -> None:
        counts, pages = self._counts.pop(host), len(self._contents.pop(host))
        self._held -= len(counts)
        self._common[host] = frozenset(
            line for line, count in counts.items() if pages >= FEW and count * 2 > pages
        )

    def content(self, row: Mapping[str, Any]) -> str | None:
        """Name the content of a row; None when it does not carry its lines.

        A page made of common lines alone keeps them: leaving all out would make one content of
        every such page. Raises ValueError for lines that are not what CrawlLog writes.
        """
        text, kind = row.get("lines"), row.get("kind")
        if text is None:
            return None
        if kind:
            return str(kind)
        lines = _lines(text)
        common = self._common.get(_host(row["url"]), frozenset())
        own = [line for line in lines if line not in common] or lines
        return blake2b("".join(sorted(own)).encode("ascii"), digest_size=16).hexdigest()


def _lines(text: object) -> list[str]:
    """Split into lines, as they stand: `LINE_BYTES` bytes are eight characters of base64."""
    if not isinstance(text, str) or not _WELL_FORMED.fullmatch(text):
        raise ValueError(f"'lines' must be {_WIDTH} characters of base64 a line")
    return _LINE.findall(text)


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""


@contextmanager
def two_passes(
    head: list[tuple[int, str]], rest: Iterator[tuple[int, str]], log: Log
) -> Iterator[tuple[CommonLines, Iterator[tuple[int, str]]]]:
    """Learn the common lines of a whole log, and give its lines once more.

    Standard input is copied to a temporary file, for it cannot be read twice.
    """
    if log.path == "-":
        with TemporaryFile() as copy:
            for _, line in chain(head, rest):
                copy.write(line.encode("utf-8", "surrogateescape") + b"\n")
            copy.seek(0)
            again = cast("BinaryIO", copy)
            common = _learn(numbered_lines(again, _Deaf()))
            copy.seek(0)
            yield common, numbered_lines(again, log)
    else:
        with open_log(log.path) as stream:
            common = _learn(numbered_lines(stream, _Deaf()))
        yield common, chain(head, rest)


class _Deaf:
    """The first pass says nothing about bad rows: the second one will."""

    path = ""
    site: str | None = None

    def bad(self, line: int, reason: str) -> None:
        """Pass over it."""


def _learn(lines: Iterable[tuple[int, str]]) -> CommonLines:
    common = CommonLines()
    for _, line in lines:
        with suppress(ValueError, RecursionError):
            row = json.loads(line)
            if isinstance(row, dict):
                common.add(row)
    common.finish()
    return common
