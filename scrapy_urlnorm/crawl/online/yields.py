"""Yields: what the spider got out of each page. It has a veto over what the pages themselves say.

A spider may read what no comparison of pages reads: classes, headers, an answer that its callback
asked for. So pages that rules make one are no duplicates if the later one gave the spider an item,
or had it send a request, that the earlier one did not.

Left out of an item is what says where or when it was got: URLs of the page and of the one before it,
how another URL is spelled, fields named for the way there (``depth``, ``redirect_urls``), and fields
that move by themselves on pages of one purpose: values that never fall from one page to the next, as
a time does, and long numbers that never come twice.
Left out of the requests are those that stand as links on the later page and not on the earlier one:
that is for the comparison of pages.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.crawl.got import LONGEST, OR, SHOWN, Item, Sought
from scrapy_urlnorm.crawl.online.whole_pages import links_of
from scrapy_urlnorm.crawl.requests import site_of
from scrapy_urlnorm.stores.sqlite import from_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from scrapy_urlnorm.crawl.got import Got
    from scrapy_urlnorm.crawl.online.keys import ClusterKeys
    from scrapy_urlnorm.crawl.online.whole_pages import WholePages
    from scrapy_urlnorm.logs.whole import Node, Whole
    from scrapy_urlnorm.stores.sqlite import Database

_TABLE = """
CREATE TABLE IF NOT EXISTS yield (
  id INTEGER PRIMARY KEY, site TEXT NOT NULL, fingerprint BLOB NOT NULL UNIQUE, url TEXT NOT NULL,
  purpose TEXT NOT NULL, items BLOB NOT NULL, asked BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS yield_for ON yield (site, purpose, id);
"""
#: So many pages, those that came last, are remembered; how many more there may be for a while.
MAX_PAGES, _FORGOTTEN = 20_000, 500
#: Pairs of pages that are known to have given the same, and pages with a dropped item.
_MOST_SAME = _MOST_DROPPED = 100_000
#: Items of one page among which that is looked for which is like one of another page.
_NEAR = 10
_MOST_SAID = 120  # characters of a URL
#: Pages that are asked which fields move, and the least of them that show it.
_SAMPLE, _LEAST = 200, 8
#: A value so long that it comes twice by no accident: a number of a time, or at random.
_NUMBER = re.compile(r"[0-9a-fA-F.:TZ+-]{12,}")
_LINKS = ("href", "src", "action")
_NO_WORD = re.compile(r"\W+|_+")


class Other(NamedTuple):
    """What the spider got out of a page and not out of an earlier one."""

    earlier: bytes  #: the fingerprints of the two pages
    later: bytes
    words: str
    #: Values that say it; none where it is too much to look for.
    values: tuple[str, ...]
    needs_all: bool = False  #: whether the page has to show them all, as fields of one item

    def may_come_of(self, page: Whole, other: Whole) -> bool:
        """Whether a value, or all, stand where a page shows what the other one does not."""
        new, values = Counter(page.nodes) - Counter(other.nodes), self._said
        found = _found(values, new)
        return bool(new) and (found == values if self.needs_all else bool(found) or not values)

    def stays(self, later: Collection[Whole], earlier: Collection[Whole]) -> bool:
        """Whether a value is in the texts of all fetches of the later page, and of none of the earlier.

        What stands in a link is for the comparison of pages.
        """
        left = self._said
        for page, other in product(later, earlier):
            texts, others = (
                Counter(node for node in each.nodes if node.fragment is None)
                for each in (page, other)
            )
            left = _found(left, texts - others) - _found(left, others - texts)
        return bool(left)

    @property
    def _said(self) -> set[str]:
        return {_NO_WORD.sub("", value[:SHOWN].lower()) for value in self.values} - {""}


class _Row(NamedTuple):
    """What a page gave the spider, as the database has it."""

    number: int  #: in the order in which the pages arrived
    fingerprint: bytes
    url: str
    purpose: str
    items: list[Item]
    asked: list[Sought]  #: URLs of requests, and what they are for


@dataclass(eq=False)
class Yields:
    """Keeps what the last `MAX_PAGES` pages gave the spider, and compares it."""

    database: Database
    keys: ClusterKeys
    whole_pages: WholePages

    def __post_init__(self) -> None:
        self.database.ensure(_TABLE)
        select = "SELECT ifnull(max(id), 0) FROM yield"
        self._number = int(self.database.read(select)[0][0])
        self._same: set[tuple[bytes, ...]] = set()  # pages that gave the same
        self.dropped = set[bytes]()  #: pages of which a pipeline dropped an item
        self._moving: dict[tuple[str, str], tuple[int, frozenset[str]]] = {}

    def next_number(self) -> int:
        """Return the number of a page that has just arrived."""
        self._number += 1
        return self._number

    def add(self, fingerprint: bytes, got: Got) -> None:
        page = got.page
        self.database.write(
            "INSERT OR REPLACE INTO yield VALUES (?, ?, ?, ?, ?, ?, ?)",
            *(got.number, page.site, fingerprint, page.url, page.purpose),
            *(_packed(got.items), _packed(got.asked)),
        )
        if not got.number % _FORGOTTEN:
            self.database.write("DELETE FROM yield WHERE id <= ?", got.number - MAX_PAGES)

    def drop(self, fingerprint: bytes) -> None:
        """Take note that a pipeline dropped an item of a page."""
        if len(self.dropped) < _MOST_DROPPED:
            self.dropped.add(fingerprint)

    def asked(self, fingerprint: bytes) -> Iterator[bytes]:
        """Yield the cluster keys of what the spider asked for on a page, where URLs have them."""
        row = self._find(fingerprint)
        found = (self.keys.keys_of(url) for url, _ in (row.asked if row else ()))
        return (keys.cluster for keys in found if keys is not None)

    def may_differ(self, *pages: bytes) -> bool:
        """Return whether two pages may differ: not if they were compared, and gave the same."""
        return pages not in self._same

    def differ(self, *pages: bytes) -> Other | None:
        """Return what the later of two pages, by their fingerprints, gave the spider in addition."""
        found = [row for row in map(self._find, pages) if row is not None]
        if len(found) < 2:
            return None
        before, after = sorted(found)
        other = self._other_item(before, after) or self._other_request(before, after)
        if other is None:
            if len(self._same) >= _MOST_SAME:
                self._same.clear()
            self._same.add(pages)
        return other

    def _find(self, fingerprint: bytes) -> _Row | None:
        select = "SELECT id, url, purpose, items, asked FROM yield WHERE fingerprint = ?"
        for number, url, purpose, items, asked in self.database.read(select, fingerprint):
            with suppress(zlib.error):
                return _Row(number, fingerprint, url, purpose, _unpacked(items), _unpacked(asked))
        return None

    def _other_item(self, before: _Row, after: _Row) -> Other | None:
        left, new = before.items, []
        for item in after.items:
            if item in left:
                left.remove(item)
            else:
                new.append(item)
        moving = self._moving_of(site_of(after.url), after.purpose) if new else frozenset()
        for item in new:
            best = min(left[:_NEAR], key=lambda each: len(self._fields(each, item)), default=None)
            if best is None:
                said = ", ".join(f"{name} {value!r}" for name, value in item.items() if name)
                values = (value.partition(OR)[0] for name, value in item.items() if name)
                return _other(before, after, f"got another item: {said[:LONGEST]}", *values)
            left.remove(best)
            if names := [name for name in self._fields(best, item) if name not in moving]:
                old, now = (
                    [each.get(name, "").partition(OR)[0] for name in names] for each in (best, item)
                )
                said = f"got another {names[0] or 'item'}: {old[0]!r}, {now[0]!r}"
                pairs = zip(old, now, strict=True)
                shown = (other for one, other in pairs if one[:SHOWN] != other[:SHOWN])
                return _other(before, after, said, *shown)._replace(needs_all=True)
        return None

    def _fields(self, one: Item, other: Item) -> list[str]:
        """Return the fields in which two items differ: not so in two spellings of one URL."""
        found = []
        for name in {**one, **other}:
            first, second = (each.get(name, "").split(OR) for each in (one, other))
            if set(first).isdisjoint(second):
                is_url = first[0].startswith("http") and second[0].startswith("http")
                cluster_url = self.keys.cluster_url
                if not is_url or cluster_url(first[0]) != cluster_url(second[0]):
                    found.append(name)
        return found

    def _moving_of(self, site: str, purpose: str) -> frozenset[str]:
        """Return the fields that move by themselves, asked anew with a fifth more pages."""
        where = "FROM yield WHERE site = ? AND purpose = ?"
        count = self.database.read(f"SELECT count(*) {where}", site, purpose)[0][0]
        known, moving = self._moving.get((site, purpose), (0, frozenset[str]()))
        if count > 1.2 * known:
            select = f"SELECT items {where} ORDER BY id DESC LIMIT ?"
            found: dict[str, list[str]] = {}
            for (data,) in self.database.read(select, site, purpose, _SAMPLE):
                with suppress(zlib.error):
                    for item in _unpacked(data)[:1]:
                        for name, value in item.items():
                            found.setdefault(name, []).insert(0, value.partition(OR)[0])
            moving = frozenset(name for name, values in found.items() if _moves(values))
            self._moving[site, purpose] = count, moving
        return moving

    def _other_request(self, before: _Row, after: _Row) -> Other | None:
        known = {(self.keys.cluster_url(asked), purpose) for asked, purpose in before.asked}
        known.add((self.keys.cluster_url(after.url), after.purpose))  # the page itself
        new = {
            key: asked
            for asked, purpose in after.asked
            if ((key := self.keys.cluster_url(asked)), purpose) not in known
        }
        if new:
            links_before, links = self._links(before.fingerprint), self._links(after.fingerprint)
            for key, asked in new.items():
                stands = {(name, key) for name in _LINKS} & links
                if not stands or stands & links_before:
                    said = f"sent another request: {asked[:_MOST_SAID]}"
                    return _other(before, after, said, asked.split("/", 3)[-1])
        return None

    def _links(self, fingerprint: bytes) -> set[tuple[str, str]]:
        """Return the attributes and keys of the links on a page: who follows links sends no form."""
        page, key_of = self.whole_pages.get(fingerprint), self.keys.cluster_url
        links = ((name, links_of(page, f"//@{name}")) for name in _LINKS)
        return {(name, key_of(link)) for name, found in links for link in found}


def _found(values: set[str], nodes: Iterable[Node]) -> set[str]:
    text = " ".join(_NO_WORD.sub("", node.value.lower()) for node in nodes)
    patterns = {each: rf"(?<!\d){each}(?!\d)" if each.isdigit() else each for each in values}
    return {each for each, pattern in patterns.items() if re.search(pattern, text)}


def _other(before: _Row, after: _Row, said: str, *values: str) -> Other:
    return Other(before.fingerprint, after.fingerprint, f"the spider {said}", values)


def _moves(values: list[str]) -> bool:
    """Whether values, in the order of the pages, move by themselves."""
    if len(values) < _LEAST:
        return False
    if all(map(_NUMBER.fullmatch, values)) and len(set(values)) == len(values):
        return True
    return len(set(values)) >= _LEAST and all(a <= b for a, b in pairwise(map(_in_order, values)))


def _in_order(value: str) -> tuple[float, str]:
    with suppress(ValueError):
        return float(value), ""
    return float("-inf"), value


def _packed(said: object) -> bytes:
    return zlib.compress(json.dumps(said).encode(), 1)


def _unpacked(data: bytes) -> list[Any]:
    return list(from_json(zlib.decompress(data).decode()))
