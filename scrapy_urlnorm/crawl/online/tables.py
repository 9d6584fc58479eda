"""What a crawl remembers for suppression: pages that arrived, and requests that are held.

Both are tables in the database of the crawl, so memory does not grow with them. With JOBDIR one
transaction takes a request out of the queue and puts it here, so a kill finds it in one place.
Raises `StoreError` for everything that the database cannot do.
"""

from __future__ import annotations

import json
import time
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.crawl.merges import stock_key
from scrapy_urlnorm.crawl.online.requests import depth_of
from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.learning.aliases import Pattern
from scrapy_urlnorm.learning.doors import DOOR
from scrapy_urlnorm.logs.page_identity import FILE, WALL, Identity
from scrapy_urlnorm.report.filtered import rule_in_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy import Request

    from scrapy_urlnorm.crawl.online.frontier import CrawlFrontier
    from scrapy_urlnorm.crawl.online.keys import ClusterKeys, Keys
    from scrapy_urlnorm.site_rules import SiteRule
    from scrapy_urlnorm.stores.sqlite import Database

_TABLES = """
CREATE TABLE IF NOT EXISTS page (
  id INTEGER PRIMARY KEY AUTOINCREMENT, site TEXT NOT NULL, cluster BLOB,
  fingerprint BLOB NOT NULL UNIQUE, url TEXT, content TEXT, depth INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS page_of_site ON page (site);
CREATE INDEX IF NOT EXISTS page_of_cluster ON page (cluster) WHERE cluster IS NOT NULL;
CREATE TABLE IF NOT EXISTS held (
  id INTEGER PRIMARY KEY AUTOINCREMENT, site TEXT NOT NULL, cluster BLOB NOT NULL,
  fingerprint BLOB NOT NULL, state INTEGER NOT NULL, request BLOB NOT NULL,
  checksum INTEGER NOT NULL, url TEXT NOT NULL, behind TEXT, rules TEXT NOT NULL DEFAULT '[]',
  is_alias INTEGER NOT NULL DEFAULT 0, saves INTEGER NOT NULL DEFAULT 0,
  since REAL NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS held_of_site ON held (site, fingerprint);
CREATE INDEX IF NOT EXISTS held_of_cluster ON held (cluster);
CREATE INDEX IF NOT EXISTS held_of_rules ON held (rules) WHERE state = 0 AND saves = 1;
"""
#: What a request is held for: a page that arrived, one that is in flight, the end of the crawl.
SUPPRESSED, COALESCED, DEFERRED = range(3)
STATES = ("suppressed", "coalesced", "deferred")
#: Pages of one site, sites, and pages of all sites, that are remembered before there is a rule.
MAX_PAGES_OF_SITE, MAX_SITES, MAX_PAGES = 100_000, 10_000, 500_000
_ROWS_AT_ONCE = 200
#: Pages of one site in which contradictions are looked for.
_MOST_COMPARED = 5_000


class Page(NamedTuple):
    """A page that arrived."""

    fingerprint: bytes
    url: str  #: "" if it arrived at another crawler
    content: Identity | None  #: ``None`` where nothing was to be compared when it arrived
    depth: int

    @property
    def vote(self) -> str:
        """The content, or the page if its content is not known: it votes once when audits agree."""
        return self.fingerprint.hex() if self.content is None else self.content.name

    @property
    def is_wall(self) -> bool:
        """Whether it asks for a password."""
        return self.content is not None and self.content.kind == WALL

    @property
    def is_binary(self) -> bool:
        """Whether it is known to be no HTML."""
        return self.content is not None and self.content.kind == FILE


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
    def is_door(self) -> bool:
        """Whether it is a rule for one page that asks for a password at every URL."""
        return not isinstance(self.rule, Pattern) and self.rule.note == DOOR

    @property
    def kind(self) -> str:
        """The kind of the rule, for log lines."""
        return self.rule.kind

    @property
    def is_alias(self) -> bool:
        """Whether it is a pattern of page aliases."""
        return isinstance(self.rule, Pattern)

    def __str__(self) -> str:
        return str(self.rule)


class Match(NamedTuple):
    """The representative that a request would repeat, and the reasons for it."""

    keys: Keys  #: of the request
    page: Page
    reasons: tuple[Reason, ...]

    @property
    def url(self) -> str:
        """The URL of the representative; "" if it arrived at another crawler."""
        return self.page.url

    @property
    def rules(self) -> tuple[Reason, ...]:
        """The reasons, as the dupefilter asks for them."""
        return self.reasons

    @property
    def is_alias(self) -> bool:
        """Whether the page names the URL of the request as another one of its own."""
        return any(reason.is_alias for reason in self.reasons)


class Pages:
    """Pages by fingerprint and by cluster key."""

    def __init__(self, database: Database, keys: ClusterKeys) -> None:
        self._database = database
        self._keys = keys
        database.ensure(_TABLES)
        self._counts = dict(database.read("SELECT site, count(*) FROM page GROUP BY 1"))
        self._total: int = sum(self._counts.values())

    def add(self, request: Request, keys: Keys | None, content: Identity | None) -> Page | None:
        """Remember the page of *request*. Return ``None`` if its site has too many already."""
        cluster = None if keys is None else keys.cluster
        keys = keys or self._keys.plain_keys(request)
        if self._counts.get(keys.site, 0) >= MAX_PAGES_OF_SITE:
            return None
        if keys.site not in self._counts:
            self._make_room()
        page = Page(keys.fingerprint, request.url, content, depth_of(request))
        self._database.write(
            "INSERT OR REPLACE INTO page (site, cluster, fingerprint, url, content, depth)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            *(keys.site, cluster, page.fingerprint),
            page.url if self._keys.by_url else None,  # else no other key can be made of it
            *(json.dumps(content) if content else None, page.depth),
        )
        self._counts[keys.site] = self._counts.get(keys.site, 0) + 1
        self._total += 1
        return page

    def __len__(self) -> int:
        """Return how many pages arrived, as far as they are remembered."""
        return self._total

    def _make_room(self) -> None:
        """Forget the oldest of too many sites without rules in force or page aliases."""
        while len(self._counts) >= MAX_SITES or self._total >= MAX_PAGES:
            site = next((each for each in self._counts if not self._keys.has_keys(each)), None)
            if site is None:
                return
            self._total -= self._counts.pop(site)
            self._database.write("DELETE FROM page WHERE site = ?", site)

    def get(self, fingerprint: bytes) -> Page | None:
        """Return the page that arrived under this fingerprint."""
        return self._first("fingerprint = ?", fingerprint)

    def representative(self, keys: Keys) -> Page | None:
        """Return the page nearest to the start with this cluster key and another fingerprint."""
        where = "cluster = ? AND fingerprint != ? ORDER BY depth"
        return self._first(where, keys.cluster, keys.fingerprint)

    def _first(self, where: str, *values: Any) -> Page | None:
        select = f"SELECT fingerprint, url, content, depth FROM page WHERE {where} LIMIT 1"
        for fingerprint, url, text, depth in self._database.read(select, *values):
            content = Identity(*json.loads(text)) if text else None
            return Page(fingerprint, url or "", content, depth)
        return None

    def contradictions(self, site: str) -> Iterator[tuple[tuple[str, Page], tuple[str, Page]]]:
        """Yield pairs of pages of *site*, each with its URL, with one cluster key and two names."""
        rows = self._database.read(
            "SELECT cluster, fingerprint, url, content, depth FROM page WHERE site = ? AND url NOT"
            " NULL AND content NOT NULL AND cluster IN (SELECT cluster FROM page WHERE site = ?"
            " AND cluster NOT NULL GROUP BY 1 HAVING count(*) > 1) ORDER BY cluster, depth LIMIT ?",
            *(site, site, _MOST_COMPARED),
        )
        first: dict[bytes, Page] = {}
        for cluster, fingerprint, url, text, depth in rows:
            page = Page(fingerprint, url, Identity(*json.loads(text)), depth)
            known = first.setdefault(cluster, page)
            if known.vote != page.vote:
                yield (known.url, known), (page.url, page)

    def shared(self, least: int) -> list[list[Page]]:
        """Return the representatives of held requests, those with one content together.

        Of contents that pages with *least* different cluster keys have.
        """
        rows = self._database.read(
            "SELECT content, fingerprint, ifnull(url, ''), depth FROM page WHERE content IN (SELECT"
            " content FROM page WHERE content NOT NULL AND cluster IN (SELECT cluster FROM held"
            " WHERE state = ?) GROUP BY content HAVING count(DISTINCT cluster) >= ?)"
            " AND cluster NOT NULL AND url NOT NULL ORDER BY id",
            *(SUPPRESSED, least),
        )
        found: dict[str, list[Page]] = {}
        for content, fingerprint, url, depth in rows:
            page = Page(fingerprint, url, Identity(*json.loads(content)), depth)
            found.setdefault(content, []).append(page)
        return list(found.values())

    def rename(self, fingerprint: bytes, content: Identity) -> None:
        """Take note that the content of a page has another name."""
        update = "UPDATE page SET content = ? WHERE fingerprint = ? AND content NOT NULL"
        self._database.write(update, json.dumps(content), fingerprint)

    def drop(self, fingerprint: bytes) -> bytes | None:
        """Have a page represent nothing any more; return the cluster key that it had."""
        select = "SELECT cluster FROM page WHERE fingerprint = ?"
        rows = self._database.read(select, fingerprint)
        self._database.write("UPDATE page SET cluster = NULL WHERE fingerprint = ?", fingerprint)
        return rows[0][0] if rows else None

    def rekey(self, site: str) -> Iterator[None]:
        """Make the cluster keys of *site* anew, a page at each step."""
        number = 0
        while rows := self._database.read(
            "SELECT id, url FROM page WHERE site = ? AND id > ? ORDER BY id LIMIT ?",
            *(site, number, _ROWS_AT_ONCE),
        ):
            keyed = []
            for number, url in rows:
                cluster = None if url is None else self._keys.cluster_of_page(site, url)
                keyed.append((cluster, number))
                yield
            self._database.write_many("UPDATE page SET cluster = ? WHERE id = ?", keyed)


class Held(NamedTuple):
    """A request that is held; *data* is the request as `CrawlFrontier.pack` wrote it."""

    number: int
    fingerprint: bytes
    cluster: bytes
    state: int
    data: bytes
    rules: str

    @property
    def counted(self) -> list[str]:
        """The rules that it is suppressed by, in words: each has counted it."""
        names: list[str] = json.loads(self.rules)
        return names


class HeldRequests:
    """Holds requests, and sends them back through *frontier*.

    A number is never used again, so a search that goes on after others have sent and held requests
    never takes one for another.
    """

    def __init__(self, database: Database, frontier: CrawlFrontier) -> None:
        self._database = database
        self._frontier = frontier
        self._sent: set[int] = set()  # rows that could not be deleted, though the request was sent
        database.ensure(_TABLES)
        #: How many requests were damaged. They are deleted.
        self.damaged = self._drop_damaged()

    def _drop_damaged(self) -> int:
        select = "SELECT id, request, checksum FROM held WHERE id > ? ORDER BY id LIMIT ?"
        damaged, number = [], 0
        while rows := self._database.read(select, number, _ROWS_AT_ONCE):
            number = rows[-1][0]
            damaged += [(row[0],) for row in rows if zlib.crc32(row[1]) != row[2]]
        self._database.write_many("DELETE FROM held WHERE id = ?", damaged)
        return len(damaged)

    def hold(self, keys: Keys, request: Request, state: int, match: Match | None = None) -> bool:
        """Write *request* down. Return ``False`` if that cannot be done: then send it."""
        try:
            data = self._frontier.pack(request)
            self._database.write(
                "INSERT INTO held (site, cluster, fingerprint, state, request, checksum, url, since,"
                " behind, rules, is_alias, saves) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                *(keys.site, keys.cluster, keys.fingerprint, state, data, zlib.crc32(data)),
                *(request.url, time.time(), *_why(request, match)),
            )
        except StoreError:
            self._frontier.count("learned/errors")
            return False
        except Exception:  # noqa: BLE001 - pickle raises what the objects in the request raise
            return False
        return True

    def suppress(self, held: Held, request: Request, match: Match) -> None:
        """Have a held request wait behind the page of *match* from now on."""
        self._database.write(
            "UPDATE held SET cluster = ?, state = ?, behind = ?, rules = ?, is_alias = ?, saves = ?,"
            " since = CASE WHEN state = ? THEN since ELSE ? END WHERE id = ?",
            *(match.keys.cluster, SUPPRESSED, *_why(request, match)),
            *(SUPPRESSED, time.time(), held.number),
        )

    def request_of(self, held: Held) -> Request | None:
        """Return the request; ``None`` if this run cannot read it, which leaves it to another."""
        return self._frontier.unpack(held.data)

    def send(self, held: Held, request: Request | None = None) -> bool:
        """Put a request back into the queue. Return ``False`` if this run cannot read it.

        It is in the queue before it leaves the table: a kill in between repeats it. A row that
        cannot be deleted is skipped from now on, and deleted with the next one.
        """
        request = request or self.request_of(held)
        if request is None:
            return False
        if self._database.read("SELECT 1 FROM held WHERE id = ?", held.number):
            self._frontier.send(request)
            self._sent.add(held.number)
            with suppress(StoreError):
                for number in tuple(self._sent):
                    self._database.write("DELETE FROM held WHERE id = ?", number)
                    self._sent.discard(number)
            self._frontier.count("learned/requeued")
        return True

    def find(
        self, *states: int, site: str = "", cluster: bytes = b"", in_order: bool = True
    ) -> Iterator[Held]:
        """Yield the requests in these *states* (without, in any), of a site, with a cluster key.

        They come in the order in which they were held, or else by fingerprint: in a random order.
        """
        values = {"site": site, "cluster": cluster}
        values = {name: value for name, value in values.items() if value}
        where = f"state IN ({', '.join(map(str, states or range(len(STATES))))})"
        where += "".join(f" AND {name} = ?" for name in values)
        column, last = "id" if in_order else "fingerprint", (0 if in_order else b"", 0)
        while rows := self._database.read(
            f"SELECT id, fingerprint, cluster, state, request, rules FROM held WHERE {where}"
            f" AND ({column}, id) > (?, ?) ORDER BY {column}, id LIMIT {_ROWS_AT_ONCE}",
            *(*values.values(), *last),
        ):
            for held in map(Held._make, rows):
                last = (held.number if in_order else held.fingerprint, held.number)
                if held.number not in self._sent:
                    yield held

    def places(self, state: int) -> Iterator[tuple[int, str, str, str]]:
        """Yield number, URL, URL of the representative, and rules of each request in a *state*."""
        select = "SELECT id, url, ifnull(behind, ''), rules FROM held WHERE state = ? AND id > ?"
        number = 0
        while rows := self._database.read(
            f"{select} ORDER BY id LIMIT {_ROWS_AT_ONCE}", state, number
        ):
            number = rows[-1][0]
            yield from (row for row in rows if row[0] not in self._sent)

    def numbered(self, numbers: Iterable[int]) -> Iterator[Held]:
        """Yield the requests with these numbers, as far as they are still held."""
        select = "SELECT id, fingerprint, cluster, state, request, rules FROM held WHERE id = ?"
        for number in numbers:
            yield from map(Held._make, self._database.read(select, number))

    def count(self, state: int, *, since: float = 0.0) -> int:
        """Return how many requests are in a *state*, *since* then or later (Unix time)."""
        select = "SELECT count(*) FROM held WHERE state = ? AND since >= ?"
        return int(self._database.read(select, state, since)[0][0])

    def counts(self) -> dict[str, int]:
        """Return how many requests are in each state."""
        found = dict(self._database.read("SELECT state, count(*) FROM held GROUP BY 1"))
        return {name: found.get(state, 0) for state, name in enumerate(STATES)}

    def sites(self, *states: int) -> list[str]:
        """Return the sites of which requests are held in one of these *states*."""
        where = ", ".join(map(str, states or range(len(STATES))))
        return [
            s
            for (s,) in self._database.read(
                f"SELECT DISTINCT site FROM held WHERE state IN ({where})"
            )
        ]


def _why(request: Request, match: Match | None) -> tuple[object, ...]:
    """Return what a row says of why its request is suppressed: behind, rules, is_alias, saves."""
    if match is None:
        return None, "[]", False, False
    rules = json.dumps([rule_in_words(reason.rule) for reason in match.reasons])
    saves = not match.url or stock_key(match.url) != stock_key(request.url)
    return match.url, rules, match.is_alias, saves
