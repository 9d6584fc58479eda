"""Ledger: the pages that arrived and the requests kept back behind them, in the database.

Memory does not grow with either. In JOBDIR it is the database of the requests that wait, so that
a request leaves the queue and is kept back in one transaction; a killed crawl finds it in one
place or the other.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.crawl.database import checksum
from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.logs.page_identity import Identity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_urlnorm.crawl.database import Database
    from scrapy_urlnorm.crawl.live.register import Keys

_ROWS_AT_ONCE = 200


class Page(NamedTuple):
    """A page that arrived."""

    own: bytes
    url: str
    content: Identity | None  #: ``None`` where nothing was to be compared when it arrived
    depth: int

    @property
    def vote(self) -> object:
        """What counts once when audits agree: the content, or the page if that is not known."""
        return self.own if self.content is None else self.content.bag_digest or self.content.digest


class Kept(NamedTuple):
    """A request that is kept back."""

    number: int
    own: bytes
    request: bytes


class Ledger:
    """Pages by their learned key, and requests kept back by theirs.

    Whatever the database cannot do is a `StoreError`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._out: set[int] = set()  # requests put back that could not be deleted

    # --- pages ------------------------------------------------------------------------------

    def add_page(self, site: str, learned: bytes | None, page: Page, *, has_url: bool) -> None:
        """Take note of a page; of one with the same own key only this one stays.

        *has_url* is false where a URL alone does not make a key: it cannot get another one.
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

    def pages(self, site: str, after: int) -> list[tuple[int, str | None]]:
        """Return numbers and URLs of the next pages of *site* after number *after*."""
        return self._database.read(
            "SELECT id, url FROM page WHERE site = ? AND id > ? ORDER BY id LIMIT ?",
            *(site, after, _ROWS_AT_ONCE),
        )

    def rekey_page(self, number: int, learned: bytes | None) -> None:
        """Give a page another learned key."""
        self._database.write("UPDATE page SET learned = ? WHERE id = ?", learned, number)

    def count_pages(self) -> dict[str, int]:
        """Return how many pages each site has."""
        return dict(self._database.read("SELECT site, count(*) FROM page GROUP BY 1"))

    def forget_pages(self, site: str) -> None:
        """Take out all pages of *site*."""
        self._database.write("DELETE FROM page WHERE site = ?", site)

    # --- requests kept back -----------------------------------------------------------------

    def keep(self, keys: Keys, request: bytes, *, is_parked: bool) -> None:
        """Keep a request back."""
        self._database.write(
            "INSERT INTO withheld (site, learned, own, request, checksum, is_parked)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            *(keys.site, keys.learned, keys.own, request, checksum(request), int(is_parked)),
        )

    def drop(self, number: int) -> None:
        """Take a request out: it has been put back. Where that fails it is out all the same."""
        self._out.add(number)
        with suppress(StoreError):
            for each in tuple(self._out):
                self._database.write("DELETE FROM withheld WHERE id = ?", each)
                self._out.discard(each)

    def first_parked(self) -> Kept | None:
        """Return the request that was parked first, of all."""
        return next(self.all_parked(), None)

    def parked(self, learned: bytes) -> Iterator[Kept]:
        """Return the requests parked behind a learned key."""
        return self._kept("is_parked AND learned = ?", learned)

    def all_parked(self, site: str | None = None) -> Iterator[Kept]:
        """Return the requests that are parked, of one site or of all."""
        if site is None:
            return self._kept("is_parked")
        return self._kept("is_parked AND site = ?", site)

    def withheld(self, site: str, after: int = 0) -> Iterator[Kept]:
        """Return the requests withheld of *site*, after number *after*."""
        return self._kept("NOT is_parked AND site = ?", site, after=after)

    def sample(self, site: str) -> list[Kept]:
        """Return some of the requests withheld of *site*, in an order that means nothing."""
        rows = self._database.read(
            "SELECT id, own, request FROM withheld WHERE NOT is_parked AND site = ?"
            " ORDER BY own LIMIT ?",
            *(site, _ROWS_AT_ONCE),
        )
        return [Kept(*row) for row in rows if row[0] not in self._out]

    def all_kept(self) -> Iterator[Kept]:
        """Return everything that is kept back."""
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
        """A request that was parked stands behind a witness from now on."""
        self._database.write("UPDATE withheld SET is_parked = 0 WHERE id = ?", number)

    def rekey_kept(self, number: int, learned: bytes) -> None:
        """Give a request that is kept back another learned key."""
        self._database.write("UPDATE withheld SET learned = ? WHERE id = ?", learned, number)

    def sites_with_kept(self) -> list[str]:
        """Return the sites of which requests are kept back."""
        return [site for (site,) in self._database.read("SELECT DISTINCT site FROM withheld")]

    # --- under which rules ------------------------------------------------------------------

    def salts(self) -> dict[str, bytes]:
        """Return, by site, the salt of the rules that all its keys here were made by."""
        return dict(self._database.read("SELECT name, salt FROM site"))

    def set_salt(self, site: str, salt: bytes) -> None:
        """All keys of *site* in here were made with *salt*; the empty one stands for no rules."""
        if salt:
            self._database.write("INSERT OR REPLACE INTO site VALUES (?, ?)", site, salt)
        else:
            self._database.write("DELETE FROM site WHERE name = ?", site)


def _page(row: tuple[Any, ...]) -> Page:
    own, url, content, depth = row
    return Page(own, url or "", Identity(*json.loads(content)) if content else None, depth)
