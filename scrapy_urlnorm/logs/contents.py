"""Names the contents of a log that tells what its pages show, by what all of its rows say.

Such a log is read more than once, for two things are known only when the crawl is over. *Twins* have
equal bytes or equal words, and one content whatever their lines. *Units* change by themselves, as the
second fetches in the log show: see `units`.
"""

from __future__ import annotations

import json
from contextlib import contextmanager, nullcontext, suppress
from hashlib import blake2b
from itertools import chain
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, cast

from scrapy_urlnorm.domains import domain_or_host
from scrapy_urlnorm.logs.blocks import from_hashed
from scrapy_urlnorm.logs.differences import family_of
from scrapy_urlnorm.logs.source import Log, numbered_lines, open_log
from scrapy_urlnorm.logs.units import Units
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from io import BufferedReader

    from scrapy_urlnorm.logs.blocks import Block


#: What the key ``pair`` says: right after the fetch of this URL before, or long after it.
AT_ONCE, LATE = "at once", "late"
#: Digests remembered, in about 130 MB. Later rows are compared by their lines alone.
MAX_NAMES = 1_000_000
#: Sites with pairs whose units are learned; pairs of each; pages that are kept for a second fetch.
_MAX_SITES, _MAX_PAIRS, _MAX_KEPT = 500, 5_000, 20_000


class Contents:
    """Names the content of every row.

    *rows* reads the rows of the log, those in whose line a text stands, anew at each call. In the
    end each row is to be asked for once, in the same order.
    """

    def __init__(self, rows: Callable[[str], Iterable[Mapping[str, Any]]]) -> None:
        self._twins = _Twins()
        self._names: dict[int, str] = {}
        self._restless: dict[str, _Restless] = {}
        for row in filter(_is_page, rows('"pair":')):
            site = _site_of(row)
            if is_pair(row) and (site in self._restless or len(self._restless) < _MAX_SITES):
                self._restless.setdefault(site, _Restless()).fetched_twice.add(row["url"])
        for row in filter(_is_page, rows("")):
            with suppress(ValueError):
                self._learn(row)

    def _learn(self, row: Mapping[str, Any]) -> None:
        site = _site_of(row)
        restless = self._restless.get(site)
        if not is_pair(row):
            self._twins.add(site, row)
        if restless is None or (blocks := _blocks(row)) is None:
            return
        if is_pair(row):
            restless.learn(row["url"], blocks, is_late=row["pair"] == LATE)
        else:
            restless.saw(row["url"], blocks)

    def of(self, row: Mapping[str, Any]) -> str | None:
        """Return the name of the content of a row; None when the row does not tell what it shows.

        Twins get one name: that of the twin that is asked for first. Raises ValueError for what
        no crawl log has.
        """
        blocks, site = _blocks(row), _site_of(row)
        if blocks is None:
            return None
        if site in self._restless and _is_page(row):
            name = self._restless[site].name(row["url"], blocks)
        else:
            name = _STILL.name(blocks, ())
        name = str(row.get("kind") or name or row.get("bag_digest") or "")
        twins = self._twins.of(site, row)
        if not name or twins is None:
            return name or None
        if twins not in self._names and len(self._names) < MAX_NAMES:
            self._names[twins] = name
        return self._names.get(twins, name)


_STILL = Units()


def is_pair(row: Mapping[str, Any]) -> bool:
    """Whether a row is a second fetch of a page, which only tells what changes by itself there."""
    return bool(row.get("pair"))


def _is_page(row: Mapping[str, Any]) -> bool:
    return row.get("status") == 200 and isinstance(row.get("url"), str)


def _site_of(row: Mapping[str, Any]) -> str:
    url = row.get("url")
    return domain_or_host((split(url).host or "").lower()) if isinstance(url, str) else ""


def _blocks(row: Mapping[str, Any]) -> list[Block] | None:
    blocks = row.get("blocks")
    if blocks is not None and not isinstance(blocks, str):
        raise ValueError(f"'blocks' must be text, not {blocks!r:.60}")
    return None if blocks is None else from_hashed(blocks)


class _Twins:
    """Classes of rows of one site that share a ``digest`` or a ``bag_digest``.

    Equality is transitive: each digest points to one that it was seen with (disjoint sets).
    """

    def __init__(self) -> None:
        self._parents: dict[int, int] = {}

    def add(self, site: str, row: Mapping[str, Any]) -> None:
        roots = {self._root(name) for name in self._digests(site, row)}
        if len(roots) > 1 and len(self._parents) < MAX_NAMES:
            parent = min(roots)
            self._parents.update((root, parent) for root in roots if root != parent)

    def of(self, site: str, row: Mapping[str, Any]) -> int | None:
        return next((self._root(name) for name in self._digests(site, row)), None)

    def _root(self, name: int) -> int:
        parents, root = self._parents, name
        while (parent := parents.get(root, root)) != root:
            root = parent
        while name != root:  # shorten the way for the next question
            parents[name], name = root, parents[name]
        return root

    def _digests(self, site: str, row: Mapping[str, Any]) -> Iterator[int]:
        for key in ("bag_digest", "digest"):
            if name := row.get(key):
                text = f"{site} {key} {name}".encode("utf-8", "surrogatepass")
                yield int.from_bytes(blake2b(text, digest_size=8).digest(), "big")


class _Restless:
    """A site of which pages were fetched twice, and what changes by itself there."""

    def __init__(self) -> None:
        self.units = Units()
        self.fetched_twice: set[str] = set()  #: URLs
        self._last: dict[str, list[Block]] = {}  # fetches of these URLs

    def saw(self, url: str, blocks: list[Block]) -> None:
        self.units.saw(blocks, url)
        if url in self.fetched_twice and len(self._last) < _MAX_KEPT:
            self._last[url] = blocks

    def learn(self, url: str, blocks: list[Block], *, is_late: bool) -> None:
        before, family = self._last.get(url), family_of(url)
        if before is None or self.units.pairs.total() + self.units.late > _MAX_PAIRS:
            return
        if is_late:
            self.units.learn_late(family, before, blocks)
        else:
            self.units.learn(family, before, blocks)
        self._last[url] = blocks

    def name(self, url: str, blocks: list[Block]) -> str | None:
        return self.units.name(blocks, self.units.left_out(family_of(url)))


# --- reading a log more than once -----------------------------------------------------------------


@contextmanager
def contents_of(
    head: list[tuple[int, str]], rest: Iterator[tuple[int, str]], log: Log
) -> Iterator[tuple[Contents, Iterable[tuple[int, str]]]]:
    """Give the contents of a log, and its lines for the last time that they are read.

    Lines that cannot be read again, as those of standard input, are copied to a temporary file.
    """
    with TemporaryFile() as file:
        copy = cast("BufferedReader", file)
        for _, line in () if log.can_be_reopened else chain(head, rest):
            copy.write(line.encode("utf-8", "surrogateescape") + b"\n")

        def rows(mark: str) -> Iterator[dict[str, Any]]:
            copy.seek(0)
            reopened = open_log(log.path) if log.can_be_reopened else nullcontext(copy)
            with reopened as stream:
                # Bad rows are reported when the log is read the last time.
                unheard = Log(crawl=log.crawl, skip_bad=True)
                found = numbered_lines(stream, unheard)
                marked = (line for line in found if mark in line[1])
                yield from (row for _, row in objects_in(marked, unheard))

        contents = Contents(rows)
        copy.seek(0)
        yield contents, chain(head, rest) if log.can_be_reopened else numbered_lines(copy, log)


def objects_in(lines: Iterable[tuple[int, str]], log: Log) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the object on each line; brackets and commas of an array are passed over."""
    loads = json.loads
    for number, line in lines:
        is_array = line[:1] + line[-1:] == "[]"
        bare = line if is_array else line.removeprefix("[").removesuffix("]").strip(", ")
        if bare in ("", "[]"):
            continue
        try:
            row = loads(bare)
        except RecursionError:
            log.bad(number, "nested too deeply")
        except ValueError as error:
            log.bad(number, f"no JSON object: {error}")
        else:
            if isinstance(row, dict):
                yield number, row
            else:
                log.bad(number, f"a row must be an object, not {line[:40]!r}")
