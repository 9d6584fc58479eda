"""Common lines: lines that stand on most pages of a site are no content.

`scrapy_urlnorm.CrawlLog` writes a hash of every line of a page, because the common lines of a site
are known only when the crawl is over. The reader therefore goes through such a log twice: it
counts lines first, then names contents by the other lines.

A line is common if it stands on more than half of a site's pages (menus, footers). Without such
lines a page and its printable view are one content. It has to be more than half: of two lines that
exclude each other ("in stock", "sold out") at most one is common then.

A site is a registrable domain with all its hosts. If lines were counted by host, a mirror of which
fewer pages were fetched would have other common lines, and its copies would differ from their
originals.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import contextmanager, suppress
from hashlib import blake2b
from itertools import chain
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, cast

from scrapy_urlnorm.domains import domain_or_host
from scrapy_urlnorm.logs.page import LINE_BYTES
from scrapy_urlnorm.logs.source import numbered_lines, open_log
from scrapy_urlnorm.logs.twins import MAX_NAMES, Twins
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from io import BufferedReader

    from scrapy_urlnorm.logs.source import Log

_WIDTH = LINE_BYTES * 8 // 6
_LINE = re.compile(f".{{{_WIDTH}}}")
_WELL_FORMED = re.compile(f"(?:[A-Za-z0-9+/]{{{_WIDTH}}})*")

PAGES = 300
"""So many different pages of a site decide what its common lines are."""

FEW = 10
"""A site with fewer pages than this has no common lines: chance would decide."""

MAX_LINES = 2_000_000
"""Lines counted at once, about 250 MB; sites that come later keep all their lines."""


class Contents:
    """Names the content of every row, from a first pass over the whole log."""

    def __init__(self) -> None:
        self._common = CommonLines()
        self._twins = Twins()
        self._names: dict[int, str] = {}

    def add(self, row: Mapping[str, Any]) -> None:
        """Take note of a row in the first pass."""
        url = row.get("url")
        if row.get("status") == 200 and isinstance(url, str):
            site = _site(url)
            self._common.add(site, row)
            self._twins.add(site, row)

    def finish(self) -> None:
        """End the first pass."""
        self._common.finish()

    def of(self, row: Mapping[str, Any]) -> str | None:
        """Return the name of the content of a row; None when the row has no lines.

        Twins get one name: that of the twin that is asked for first. Raises ValueError for lines
        that CrawlLog does not write.
        """
        site = _site(row["url"])
        name = self._common.content(site, row)
        twins = self._twins.of(site, row)
        if name is None or twins is None:
            return name
        if twins not in self._names and len(self._names) < MAX_NAMES:
            self._names[twins] = name
        return self._names.get(twins, name)


class CommonLines:
    """Per site, the lines that stand on most of its pages."""

    def __init__(self) -> None:
        self._contents: dict[str, set[str]] = {}
        self._counts: dict[str, Counter[str]] = {}
        self._common: dict[str, frozenset[str]] = {}
        self._held = 0

    def add(self, site: str, row: Mapping[str, Any]) -> None:
        """Count the lines of a page, once a content: one page under many URLs is one page."""
        text, name = row.get("lines"), row.get("bag_digest")
        if not (text and name) or site in self._common:
            return
        if site not in self._counts and self._held > MAX_LINES:
            return
        contents = self._contents.setdefault(site, set())
        if name in contents:
            return
        contents.add(str(name))
        counts = self._counts.setdefault(site, Counter())
        self._held -= len(counts)
        counts.update(set(_lines(text)))
        self._held += len(counts)
        if len(contents) == PAGES:
            self._decide(site)

    def finish(self) -> None:
        """Decide for the sites that have fewer than `PAGES` pages."""
        for site in list(self._counts):
            self._decide(site)

    def _decide(self, site: str) -> None:
        """Keep the common lines of *site*, and forget the counts."""
        counts, pages = self._counts.pop(site), len(self._contents.pop(site))
        self._held -= len(counts)
        self._common[site] = frozenset(
            line for line, count in counts.items() if pages >= FEW and count * 2 > pages
        )

    def content(self, site: str, row: Mapping[str, Any]) -> str | None:
        """Return the name of the content of a row of *site*; None when the row has no lines.

        A page made of common lines alone keeps them: without any line all such pages would be one
        content. Raises ValueError for lines that CrawlLog does not write.
        """
        text, kind = row.get("lines"), row.get("kind")
        if text is None:
            return None
        if kind:
            return str(kind)
        lines = _lines(text)
        common = self._common.get(site, frozenset())
        own = [line for line in lines if line not in common] or lines
        return blake2b("".join(sorted(own)).encode("ascii"), digest_size=16).hexdigest()


def _lines(text: object) -> list[str]:
    """Split into lines, as they stand: `LINE_BYTES` bytes are eight characters of base64."""
    if not isinstance(text, str) or not _WELL_FORMED.fullmatch(text):
        raise ValueError(f"'lines' must be {_WIDTH} characters of base64 a line")
    return _LINE.findall(text)


def _site(url: str) -> str:
    host = (split(url).host or "").lower()
    return domain_or_host(host)


@contextmanager
def two_passes(
    head: list[tuple[int, str]], rest: Iterator[tuple[int, str]], log: Log
) -> Iterator[tuple[Contents, Iterator[tuple[int, str]]]]:
    """Make the first pass over a log; give its `Contents`, and its lines for the second pass.

    Lines that cannot be read twice, as those of standard input, are copied to a temporary file.
    """
    if not log.can_be_reopened:
        with TemporaryFile() as copy:
            for _, line in chain(head, rest):
                copy.write(line.encode("utf-8", "surrogateescape") + b"\n")
            copy.seek(0)
            again = cast("BufferedReader", copy)
            contents = _learn(numbered_lines(again, _Deaf()))
            copy.seek(0)
            yield contents, numbered_lines(again, log)
    else:
        with open_log(log.path) as stream:
            contents = _learn(numbered_lines(stream, _Deaf()))
        yield contents, chain(head, rest)


class _Deaf:
    """A log whose bad rows are passed over: the second pass reports them."""

    path = ""
    site: str | None = None
    can_be_reopened = False

    def bad(self, line: int, reason: str) -> None:
        """Do nothing."""


def _learn(lines: Iterable[tuple[int, str]]) -> Contents:
    contents = Contents()
    for _, line in lines:
        with suppress(ValueError, RecursionError):
            row = json.loads(line)
            if isinstance(row, dict):
                contents.add(row)
    contents.finish()
    return contents
