"""The pages that arrived, and what makes a request repeat one of them.

They are a table in the database of the crawl, so memory does not grow with them. Raises `StoreError`
for everything that the database cannot do.
"""

from __future__ import annotations

import json
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs

from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.learning.aliases import Pattern
from scrapy_urlnorm.learning.media import DOOR
from scrapy_urlnorm.logs.page_identity import FILE, WALL, Identity
from scrapy_urlnorm.report.filtered import SUPPRESSED
from scrapy_urlnorm.stores.sqlite import from_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_urlnorm.crawl.online.keys import ClusterKeys, Keys
    from scrapy_urlnorm.crawl.requests import Asked
    from scrapy_urlnorm.site_rules import SiteRule
    from scrapy_urlnorm.stores import Seen
    from scrapy_urlnorm.stores.sqlite import Database

_TABLES = """
CREATE TABLE IF NOT EXISTS page (
  id INTEGER PRIMARY KEY AUTOINCREMENT, site TEXT NOT NULL, cluster BLOB,
  fingerprint BLOB NOT NULL UNIQUE, url TEXT, content TEXT, depth INTEGER NOT NULL,
  purpose TEXT NOT NULL DEFAULT '', plain TEXT);
CREATE INDEX IF NOT EXISTS page_of_site ON page (site);
CREATE INDEX IF NOT EXISTS page_of_cluster ON page (cluster) WHERE cluster IS NOT NULL;
"""
#: So many pages, those that came last, are remembered; how many more there may be for a while.
MAX_PAGES, _FORGOTTEN = 500_000, 1_000
AT_ONCE = 200
#: Pages of one site in which contradictions are looked for; and of one cluster, that one in which
#: the values of a parameter stand in the same order.
_MOST_COMPARED, _MOST_ORDERS = 5_000, 50
#: Hexadecimal digits of the digest of a page's words that crawlers tell one another.
TOLD_WORDS = 24
#: An entry of a shared page has 48 bytes: fingerprint, digest of the page, digest of its words.
_FINGERPRINT, _DIGEST, _WORDS = slice(0, 20), slice(20, 36), slice(36, None)
#: Other crawlers are not told the depth of a page. With DEPTH_LIMIT, none that is as deep as this
#: represents a request.
_DEPTH_UNKNOWN = 1 << 30


class Page(NamedTuple):
    """A page that arrived."""

    fingerprint: bytes
    url: str  #: "" if it arrived at another crawler
    content: Identity | None  #: ``None`` where nothing was to be compared when it arrived
    depth: int
    purpose: str = ""  #: what its request was for, see `purpose_of`

    @property
    def vote(self) -> str:
        """What votes once when audits agree: the content, or the page if that is not known."""
        return self.fingerprint.hex() if self.content is None else self.content.name

    @property
    def is_wall(self) -> bool:
        return self.content is not None and self.content.kind == WALL

    @property
    def is_binary(self) -> bool:
        return self.content is not None and self.content.kind == FILE


def same_content(one: Identity | None, other: Identity | None) -> bool:
    """Return whether two pages have one name; unknown content equals none."""
    if one is None or other is None:
        return False
    if one.agrees(other):
        return True
    words, others = one.bag_digest, other.bag_digest
    return bool(words and others and words[:TOLD_WORDS] == others[:TOLD_WORDS])


class Reason(NamedTuple):
    """What makes two URLs one: a rule, or a pattern of page aliases.

    A rule is tested for HTML and for binary pages apart: what is true of one need not be of the
    other.
    """

    rule: SiteRule | Pattern
    support: int
    is_binary: bool = False

    @property
    def key(self) -> str:
        """Its name in the tables of the database."""
        return f"binary {self.rule.identity}" if self.is_binary else self.rule.identity

    @property
    def is_alias(self) -> bool:
        return isinstance(self.rule, Pattern)

    @property
    def is_door(self) -> bool:
        return not isinstance(self.rule, Pattern) and self.rule.note == DOOR


class Match(NamedTuple):
    """The representative that a request would repeat, and the reasons for it."""

    keys: Keys  #: of the request
    page: Page
    rules: tuple[Reason, ...]

    @property
    def is_alias(self) -> bool:
        return any(reason.is_alias for reason in self.rules)


def _told_key(keys: Keys, purpose: str) -> bytes:
    if not purpose:
        return keys.cluster
    return blake2b(keys.cluster + purpose.encode(errors="replace"), digest_size=16).digest()


class Pages:
    """Pages by fingerprint and by cluster key, those in a *shared* store too: one's own has none."""

    def __init__(self, database: Database, keys: ClusterKeys, shared: Seen | None = None) -> None:
        self._database = database
        self._keys = keys
        self._shared = shared if shared is not None and shared.is_shared else None
        database.ensure(_TABLES)
        self._added = 0

    def add(self, asked: Asked, keys: Keys | None, content: Identity | None) -> Page:
        known, keys = keys, keys or self._keys.plain_keys(asked)
        page = Page(keys.fingerprint, asked.url, content, asked.depth, asked.purpose)
        url = page.url if self._keys.by_url else None  # else no other key can be made of it
        plain = url and self._keys.normalized(url)
        self._database.write(
            "INSERT OR REPLACE INTO page (site, cluster, fingerprint, url, content, depth,"
            " purpose, plain) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            *(keys.site, known and known.cluster, page.fingerprint, url),
            *(json.dumps(content) if content else None, page.depth, page.purpose),
            None if plain == url else plain,
        )
        self._added += 1
        if not self._added % _FORGOTTEN:
            oldest = "(SELECT max(id) FROM page) - ?"
            self._database.write(f"DELETE FROM page WHERE id <= {oldest}", MAX_PAGES)
        if known is not None and not known.is_plain:
            self._tell(known, page)
        return page

    def __len__(self) -> int:
        return int(self._database.read("SELECT count(*) FROM page")[0][0])

    @property
    def contents(self) -> int:
        """How many different pages arrived."""
        count = "SELECT count(DISTINCT ifnull(content, id)) FROM page"
        return int(self._database.read(count)[0][0])

    @property
    def last(self) -> int:
        """The number of the page that came last."""
        return int(self._database.read("SELECT ifnull(max(id), 0) FROM page")[0][0])

    def clusters_since(self, number: int) -> set[bytes]:
        """Return the cluster keys that no page had before, of those that were not held at a sample."""
        new = "id > ? AND cluster NOT NULL AND fingerprint NOT IN (SELECT fingerprint FROM sampled)"
        old = "SELECT cluster FROM page WHERE id <= ? AND cluster NOT NULL"
        select = f"SELECT cluster FROM page WHERE {new} EXCEPT {old}"
        return {cluster for (cluster,) in self._database.read(select, number, number)}

    def get(self, fingerprint: bytes) -> Page | None:
        return self._first("fingerprint = ?", fingerprint)

    def representative(self, keys: Keys, purpose: str = "", url: str = "") -> Page | None:
        """Return the page nearest to the start with this cluster key and another fingerprint.

        It is none with the values that *url* gives to one parameter, in another order: both may show
        the same, but each says that order in its links.
        """
        where = "cluster = ? AND fingerprint != ? AND purpose = ? ORDER BY depth"
        values = keys.cluster, keys.fingerprint, purpose
        if not (given := _repeated(url)):
            return self._first(where, *values) or self._told(keys, purpose)
        found = (page for _, page in self._find(f"{where} LIMIT ?", *values, _MOST_ORDERS))
        return next((page for page in found if not _reorders(page.url, given)), None)

    def _tell(self, keys: Keys, page: Page) -> None:
        """Tell the others of a page with a known content. An entry cannot say that one is binary."""
        if self._shared is not None and page.content is not None and not page.is_binary:
            words = (page.content.bag_digest or page.content.digest)[:TOLD_WORDS]
            digests = bytes.fromhex(page.content.digest) + bytes.fromhex(words)
            self._shared.put_page(_told_key(keys, page.purpose), page.fingerprint + digests)

    def _told(self, keys: Keys, purpose: str) -> Page | None:
        """Return a page of another crawler: it has this key, another fingerprint, and no URL."""
        entry = None
        if self._shared is not None:
            with suppress(StoreError):  # a store that does not answer knows of none
                entry = self._shared.page(_told_key(keys, purpose))
        if entry is None or entry[_FINGERPRINT] == keys.fingerprint:
            return None
        content = Identity(entry[_DIGEST].hex(), entry[_WORDS].hex())
        return Page(entry[_FINGERPRINT], "", content, _DEPTH_UNKNOWN, purpose=purpose)

    def has_cluster(self, url: str) -> bool:
        """Return whether a page of the cluster of *url* has arrived."""
        keys = self._keys.keys_of(url)
        return keys is not None and self.representative(keys) is not None

    def _first(self, where: str, *values: Any) -> Page | None:
        return next((page for _, page in self._find(f"{where} LIMIT 1", *values)), None)

    def _find(self, where: str, *values: Any) -> Iterator[tuple[bytes | None, Page]]:
        """Yield pages, each with its cluster key."""
        columns = "cluster, fingerprint, ifnull(url, ''), content, depth, purpose"
        select = f"SELECT {columns} FROM page WHERE {where}"
        for cluster, fingerprint, url, text, *rest in self._database.read(select, *values):
            content = Identity(*from_json(text)) if text else None
            yield cluster, Page(fingerprint, url, content, *rest)

    def together(self, site: str) -> Iterator[tuple[Page, Page]]:
        """Yield pages with one cluster key and purpose: the one nearest to the start, and another."""
        first: dict[tuple[bytes | None, str], Page] = {}
        for cluster, page in self._find(
            "site = ? AND url NOT NULL AND content NOT NULL AND cluster IN (SELECT cluster FROM page"
            " WHERE site = ? AND cluster NOT NULL GROUP BY 1 HAVING count(*) > 1)"
            " ORDER BY cluster, depth, id LIMIT ?",
            *(site, site, _MOST_COMPARED),
        ):
            known = first.setdefault((cluster, page.purpose), page)
            if known is not page:
                yield known, page

    def shared(self, least: int) -> list[list[Page]]:
        """Return the representatives of held requests, those with one content together.

        Of contents that pages with *least* different cluster keys have.
        """
        found: dict[Identity | None, list[Page]] = {}
        for _, page in self._find(
            "content IN (SELECT content FROM page WHERE content NOT NULL AND cluster IN (SELECT"
            " cluster FROM held WHERE state = ?) GROUP BY content HAVING count(DISTINCT cluster) >="
            " ?) AND cluster NOT NULL AND url NOT NULL ORDER BY id",
            *(SUPPRESSED, least),
        ):
            found.setdefault(page.content, []).append(page)
        return list(found.values())

    def rename(self, fingerprint: bytes, content: Identity) -> None:
        update = "UPDATE page SET content = ? WHERE fingerprint = ? AND content NOT NULL"
        self._database.write(update, json.dumps(content), fingerprint)

    def drop(self, fingerprint: bytes) -> bytes | None:
        """Have a page represent nothing any more; return the cluster key that it had."""
        select = "SELECT cluster FROM page WHERE fingerprint = ?"
        rows = self._database.read(select, fingerprint)
        self._database.write("UPDATE page SET cluster = NULL WHERE fingerprint = ?", fingerprint)
        return rows[0][0] if rows else None

    def remove(self, fingerprint: bytes) -> None:
        """Have a page represent nothing, whatever the rules are."""
        self._database.write("DELETE FROM page WHERE fingerprint = ?", fingerprint)

    def rekey(self, site: str) -> Iterator[None]:
        """Make the cluster keys of *site* anew, a page at each step: others may write meanwhile."""
        select = (
            "SELECT id, ifnull(plain, url), fingerprint FROM page WHERE site = ? AND id > ?"
            " ORDER BY id LIMIT ?"
        )
        number = 0
        while rows := self._database.read(select, site, number, AT_ONCE):
            keyed = []
            for number, plain, fingerprint in rows:
                cluster = plain and self._keys.cluster_of_plain(site, plain, fingerprint)
                keyed.append((cluster, number))
                yield
            self._database.write_many("UPDATE page SET cluster = ? WHERE id = ?", keyed)


def _repeated(url: str) -> dict[str, list[str]]:
    """Return the values of each parameter that *url* has several times."""
    query = url.partition("?")[2]
    values = parse_qs(query, keep_blank_values=True) if query.count("=") > 1 else {}
    return {name: found for name, found in values.items() if len(found) > 1}


def _reorders(url: str, given: dict[str, list[str]]) -> bool:
    values = _repeated(url)
    pairs = ((given[name], values[name]) for name in given.keys() & values.keys())
    return any(one != other and sorted(one) == sorted(other) for one, other in pairs)
