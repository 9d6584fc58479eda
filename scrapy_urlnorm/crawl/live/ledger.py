"""Ledger: the pages that arrived and the requests kept back, in the database.

Memory does not grow with either. With JOBDIR it is the database of the waiting requests. So one
transaction takes a request out of the queue and writes it down as kept back: after a kill it is in
one of the two places.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.crawl.database import checksum
from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.logs.page_identity import Identity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrapy_urlnorm.crawl.database import Database
    from scrapy_urlnorm.crawl.live.register import Keys

_ROWS_AT_ONCE = 200
#: What the column ``is_parked`` says of a request: it is withheld behind a page, or waits for
#: another request, or for all others.
WITHHELD, PARKED, DEFERRED = range(3)


class Page(NamedTuple):
    """A page that arrived."""

    own: bytes
    url: str
    content: Identity | None  #: ``None`` where nothing was to be compared when it arrived
    depth: int

    @property
    def vote(self) -> object:
        """The content, or the page if its content is not known: it votes once when audits agree."""
        return self.own if self.content is None else self.content.name


class Kept(NamedTuple):
    """A request that is kept back."""

    number: int
    own: bytes
    request: bytes


class Ledger:
    """Pages, and requests that are kept back, each by its learned key.

    Raises `StoreError` for everything that the database cannot do.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._out: set[int] = set()  # rows that could not be deleted, though the request was sent

    # --- pages ------------------------------------------------------------------------------

    def add_page(self, site: str, learned: bytes | None, page: Page, *, has_url: bool) -> None:
        """Write a page down, in place of one with the same own key.

        *has_url* is false where a URL alone does not make a key: then no other key can be made
        for the page when rules change.
        """
        content = json.dumps(page.content) if page.content else None
        self._database.write(
            "INSERT OR REPLACE INTO page (site, learned, own, url, content, depth)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            *(site, learned, page.own, page.url if has_url else None, content, page.depth),
        )

    def witness(self, learned: bytes, own: bytes) -> Page | None:
        """Return a page that arrived under this learned key and another own key."""
        rows = self._database.read(
            "SELECT own, url, content, depth FROM page WHERE learned = ? AND own != ?"
            " ORDER BY depth LIMIT 1",
            *(learned, own),
        )
        return _page(rows[0]) if rows else None

    def page(self, own: bytes) -> Page | None:
        """Return the page that arrived under this own key."""
        rows = self._database.read("SELECT own, url, content, depth FROM page WHERE own = ?", own)
        return _page(rows[0]) if rows else None

    def pages(self, site: str, after: int) -> list[tuple[int, str | None]]:
        """Return numbers and URLs of the next pages of *site* after number *after*."""
        return self._database.read(
            "SELECT id, url FROM page WHERE site = ? AND id > ? ORDER BY id LIMIT ?",
            *(site, after, _ROWS_AT_ONCE),
        )

    def rekey_pages(self, keys: Sequence[tuple[bytes | None, int]]) -> None:
        """Give pages other learned keys: each of *keys* is one, and the number of its page."""
        self._database.write_many("UPDATE page SET learned = ? WHERE id = ?", keys)

    def count_pages(self) -> dict[str, int]:
        """Return how many pages each site has."""
        return dict(self._database.read("SELECT site, count(*) FROM page GROUP BY 1"))

    def forget_pages(self, site: str) -> None:
        """Delete all pages of *site*."""
        self._database.write("DELETE FROM page WHERE site = ?", site)

    # --- requests kept back -----------------------------------------------------------------

    def keep(self, keys: Keys, request: bytes, state: int) -> None:
        """Write down a request that is kept back: `WITHHELD`, `PARKED` or `DEFERRED`."""
        self._database.write(
            "INSERT INTO withheld (site, learned, own, request, checksum, is_parked)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            *(keys.site, keys.learned, keys.own, request, checksum(request), state),
        )

    def drop(self, number: int) -> None:
        """Delete a request that was sent. If the database refuses, skip its row from now on."""
        self._out.add(number)
        with suppress(StoreError):
            for each in tuple(self._out):
                self._database.write("DELETE FROM withheld WHERE id = ?", each)
                self._out.discard(each)

    def first_parked(self) -> Kept | None:
        """Return the first of all parked requests."""
        return next(self.all_parked(), None)

    def all_parked(self) -> Iterator[Kept]:
        """Return the requests that wait, for whatever it is."""
        return self._kept("is_parked")

    def parked(self, learned: bytes) -> Iterator[Kept]:
        """Return the requests parked behind a learned key."""
        return self._kept("is_parked = ? AND learned = ?", PARKED, learned)

    def parked_behind_others(self, site: str | None = None) -> Iterator[Kept]:
        """Return the requests that are parked behind another one, of one site or of all."""
        if site is None:
            return self._kept("is_parked = ?", PARKED)
        return self._kept("is_parked = ? AND site = ?", PARKED, site)

    def deferred(self, site: str) -> Iterator[Kept]:
        """Return the deferred requests of *site* by own key: in no meaningful order."""
        after = (b"", 0)
        while rows := self._database.read(
            "SELECT id, own, request FROM withheld WHERE is_parked = ? AND site = ?"
            " AND (own, id) > (?, ?) ORDER BY own, id LIMIT ?",
            *(DEFERRED, site, *after, _ROWS_AT_ONCE),
        ):
            for number, own, request in rows:
                after = (own, number)
                if number not in self._out:
                    yield Kept(number, own, request)

    def withheld_with(self, learned: bytes) -> Iterator[Kept]:
        """Return the requests withheld that have a learned key."""
        return self._kept("NOT is_parked AND learned = ?", learned)

    def withheld(self, site: str, after: int = 0) -> Iterator[Kept]:
        """Return the requests withheld of *site*, after number *after*."""
        return self._kept("NOT is_parked AND site = ?", site, after=after)

    def sample(self, site: str, after: bytes = b"", most: int = 20) -> list[Kept]:
        """Return the next requests withheld of *site* by own key: in no meaningful order."""
        rows = self._database.read(
            "SELECT id, own, request FROM withheld WHERE NOT is_parked AND site = ? AND own > ?"
            " ORDER BY own LIMIT ?",
            *(site, after, most),
        )
        return [Kept(*row) for row in rows if row[0] not in self._out]

    def count_withheld(self) -> dict[str, int]:
        """Return how many requests of each site are withheld."""
        select = "SELECT site, count(*) FROM withheld WHERE NOT is_parked GROUP BY 1"
        return dict(self._database.read(select))

    def all_kept(self) -> Iterator[Kept]:
        """Return all requests that are kept back."""
        return self._kept("1")

    def _kept(self, where: str, *values: object, after: int = 0) -> Iterator[Kept]:
        while rows := self._database.read(
            f"SELECT id, own, request FROM withheld WHERE id > ? AND {where} ORDER BY id LIMIT ?",
            *(after, *values, _ROWS_AT_ONCE),
        ):
            for row in rows:
                after = row[0]
                if after not in self._out:
                    yield Kept(*row)

    def unpark(self, number: int) -> None:
        """Turn a parked request into one that is withheld behind a page."""
        self._database.write("UPDATE withheld SET is_parked = 0 WHERE id = ?", number)

    def rekey_kept(self, number: int, learned: bytes) -> None:
        """Give a request that is kept back another learned key."""
        self._database.write("UPDATE withheld SET learned = ? WHERE id = ?", learned, number)

    def sites_with_kept(self) -> list[str]:
        """Return the sites of which requests are kept back."""
        return [site for (site,) in self._database.read("SELECT DISTINCT site FROM withheld")]

    # --- under which rules ------------------------------------------------------------------

    def salts(self) -> dict[str, bytes]:
        """Return, by site, the salt of the rules that its keys in here were made with."""
        return dict(self._database.read("SELECT name, salt FROM site"))

    def set_salt(self, site: str, salt: bytes) -> None:
        """Write that all keys of *site* in here were made with *salt*, empty without rules."""
        if salt:
            self._database.write("INSERT OR REPLACE INTO site VALUES (?, ?)", site, salt)
        else:
            self._database.write("DELETE FROM site WHERE name = ?", site)


def _page(row: tuple[Any, ...]) -> Page:
    own, url, content, depth = row
    return Page(own, url or "", Identity(*json.loads(content)) if content else None, depth)
