"""The requests that are held, and what each is held for.

They are a table in the database of the crawl. With JOBDIR one transaction takes a request out of the
queue and puts it here, so a kill finds it in one place. Raises `StoreError` for everything that the
database cannot do.
"""

from __future__ import annotations

import json
import time
import zlib
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.crawl.database import is_damaged
from scrapy_urlnorm.crawl.merges import stock_key
from scrapy_urlnorm.crawl.online.tables import AT_ONCE
from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.report.filtered import COALESCED, DEFERRED, LAST, SUPPRESSED, rule_in_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_urlnorm.crawl.frontier import CrawlFrontier
    from scrapy_urlnorm.crawl.online.keys import Keys
    from scrapy_urlnorm.crawl.online.tables import Match
    from scrapy_urlnorm.crawl.requests import Asked
    from scrapy_urlnorm.stores.sqlite import Database

_TABLES = """
CREATE TABLE IF NOT EXISTS held (
  id INTEGER PRIMARY KEY AUTOINCREMENT, site TEXT NOT NULL, cluster BLOB NOT NULL,
  fingerprint BLOB NOT NULL, state INTEGER NOT NULL, request BLOB NOT NULL,
  checksum INTEGER NOT NULL, url TEXT NOT NULL, behind TEXT, rules TEXT NOT NULL DEFAULT '[]',
  is_alias INTEGER NOT NULL DEFAULT 0, saves INTEGER NOT NULL DEFAULT 0,
  since REAL NOT NULL DEFAULT 0, depth INTEGER NOT NULL DEFAULT 0, purpose TEXT NOT NULL DEFAULT '');
CREATE INDEX IF NOT EXISTS held_of_site ON held (site, fingerprint);
CREATE INDEX IF NOT EXISTS held_of_state ON held (state, site);
CREATE INDEX IF NOT EXISTS held_of_cluster ON held (cluster);
CREATE INDEX IF NOT EXISTS held_of_rules ON held (rules) WHERE state = 0 AND saves = 1;
CREATE TABLE IF NOT EXISTS sampled (
  sample INTEGER, fingerprint BLOB, PRIMARY KEY (sample, fingerprint)) WITHOUT ROWID;
"""
#: What a request is held for: a page that arrived, one that is in flight, the time when the crawl is
#: idle, and when it has nothing else to do at all.
STATES = SUPPRESSED, COALESCED, DEFERRED, LAST


class Held(NamedTuple):
    """A request that is held: all that decides about it. *data*, which `CrawlFrontier.pack` wrote, is
    read when it is sent.
    """

    number: int
    fingerprint: bytes
    state: int
    data: bytes
    url: str
    behind: str  #: the URL of its representative
    rules: str  #: a list in JSON: those that it is suppressed by, in words; each has counted it
    depth: int
    purpose: str


_COLUMNS = "id, fingerprint, state, request, url, ifnull(behind, ''), rules, depth, purpose"
_HELD = f"SELECT {_COLUMNS} FROM held"
_SAMPLED = "SELECT fingerprint FROM sampled WHERE sample = ?"


class HeldRequests:
    """Holds requests, and sends them back through *frontier*.

    A number is never used again, so a search that goes on after others have sent and held requests
    never takes one for another.
    """

    def __init__(self, database: Database, frontier: CrawlFrontier) -> None:
        self._database = database
        self._frontier = frontier
        self._sent: set[int] = set()  # rows that could not be deleted, though the request was sent
        self.put_back = 0  #: how many were put last that a search may have gone past
        database.ensure(_TABLES)
        database.write("DELETE FROM sampled")
        #: How many requests were damaged. They are deleted.
        rows = database.each("SELECT id, request, checksum FROM held")
        damaged = [(number,) for number, data, checksum in rows if is_damaged(data, checksum)]
        database.write_many("DELETE FROM held WHERE id = ?", damaged)
        self.damaged = len(damaged)
        counted = "SELECT site, count(*) FROM held WHERE state = ? GROUP BY site"
        #: How many requests are suppressed, by site: to count them takes the longer the more there are.
        self.suppressed: Counter[str] = Counter(dict(database.read(counted, SUPPRESSED)))

    def hold(self, keys: Keys, asked: Asked, state: int, match: Match | None = None) -> bool:
        """Write a request down. Return ``False`` if that cannot be done: then send it."""
        try:
            data = self._frontier.pack(asked)
            self._database.write(
                "INSERT INTO held (site, cluster, fingerprint, state, request, checksum, url, depth,"
                " purpose, since, behind, rules, is_alias, saves)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                *(keys.site, keys.cluster, keys.fingerprint, state, data, zlib.crc32(data)),
                *(asked.url, asked.depth, asked.purpose, time.time(), *_why(asked.url, match)),
            )
        except StoreError:
            self._frontier.count("errors")
            return False
        except Exception:  # noqa: BLE001 - pickle raises what the objects in the request raise
            return False
        self.suppressed[keys.site] += state == SUPPRESSED
        return True

    def suppress(self, held: Held, match: Match) -> None:
        self._database.write(
            "UPDATE held SET cluster = ?, state = ?, behind = ?, rules = ?, is_alias = ?, saves = ?,"
            " since = CASE WHEN state = ? THEN since ELSE ? END WHERE id = ?",
            *(match.keys.cluster, SUPPRESSED, *_why(held.url, match)),
            *(SUPPRESSED, time.time(), held.number),
        )
        self.suppressed[match.keys.site] += held.state != SUPPRESSED

    def put_last(self, held: Held) -> None:
        self._database.write("UPDATE held SET state = ? WHERE id = ?", LAST, held.number)
        self.put_back += 1

    def request_of(self, held: Held) -> Asked | None:
        """Return the request; ``None`` if this run cannot read it, which leaves it to another."""
        return self._frontier.unpack(held.data)

    def send(self, held: Held, asked: Asked | None = None) -> bool:
        """Put a request back into the queue. Return ``False`` if this run cannot read it.

        It is in the queue before it leaves the table: a kill in between repeats it. A row that
        cannot be deleted is skipped from now on, and deleted with the next one.
        """
        is_released = held.state == SUPPRESSED and asked is None  # else it waited, or tests a rule
        asked = asked or self.request_of(held)
        if asked is None:
            return False
        if self._database.read("SELECT 1 FROM held WHERE id = ?", held.number):
            self._frontier.send(asked, held.data)
            self._sent.add(held.number)
            self.suppressed[asked.site] -= held.state == SUPPRESSED
            with suppress(StoreError):
                for number in tuple(self._sent):
                    self._database.write("DELETE FROM held WHERE id = ?", number)
                    self._sent.discard(number)
            self._frontier.count("learned/released", is_released)
        return True

    def find(
        self,
        *states: int,
        site: str = "",
        cluster: bytes = b"",
        beside: int = 0,
        in_order: bool = True,
    ) -> Iterator[Held]:
        """Yield the requests in these *states* (without, in any), of a site, with a cluster key.

        If *beside* is the number of a test, then those in none of its samples. They come in the order
        in which they were held, or else, those of a site, by fingerprint: in a random order.
        """
        values = [each for each in (site, cluster, beside) if each]
        where = f"state IN ({', '.join(map(str, states or STATES))})"
        where += " AND site = ?" * bool(site) + " AND cluster = ?" * bool(cluster)
        where += f" AND fingerprint NOT IN ({_SAMPLED})" * bool(beside)
        last: tuple[object, ...] = (0,)
        after, order = "id > ?", "id"
        if not in_order:
            after, order, last = "(fingerprint, id) > (?, ?)", "fingerprint, id", (b"", 0)
        # Each index has its rows in the order that is asked for. With any other, all rows would be
        # sorted to yield the next few.
        index = "cluster" if cluster else "state" if in_order else "site"
        by = f"INDEXED BY held_of_{index}" if site or cluster else "NOT INDEXED"
        while rows := self._database.read(
            f"{_HELD} {by} WHERE {where} AND {after} ORDER BY {order} LIMIT ?",
            *(*values, *last, AT_ONCE),
        ):
            for held in map(Held._make, rows):
                last = (held.number,) if in_order else (held.fingerprint, held.number)
                if held.number not in self._sent:
                    yield held

    def numbered(self, numbers: Iterable[int]) -> Iterator[Held]:
        for number in numbers:
            yield from map(Held._make, self._database.read(f"{_HELD} WHERE id = ?", number))

    def has(self, site: str, fingerprint: bytes) -> bool:
        select = "SELECT id FROM held WHERE site = ? AND fingerprint = ?"
        rows = self._database.read(select, site, fingerprint)
        return any(number not in self._sent for (number,) in rows)

    def count(self, state: int) -> int:
        return int(self._database.read("SELECT count(*) FROM held WHERE state = ?", state)[0][0])

    def note(self, test: int) -> None:
        """Write down which requests are suppressed now, under the number of the test that drew from them.

        And under 0 which are held at all: no page that is sent for the sample led to them.
        """
        insert = "INSERT OR IGNORE INTO sampled SELECT ?, fingerprint FROM held"
        self._database.write(f"{insert} WHERE state = ?", test, SUPPRESSED)
        self._database.write(insert, 0)

    def count_beside(self, test: int) -> tuple[int, int]:
        """Count suppressed requests, and those of them that are in no sample of a test."""
        beside = f"SELECT count(*), sum(fingerprint NOT IN ({_SAMPLED})) FROM held WHERE state = ?"
        now, later = self._database.read(beside, test, SUPPRESSED)[0]
        return now, later or 0

    def sites(self) -> list[str]:
        return [site for (site,) in self._database.read("SELECT DISTINCT site FROM held")]


def _why(url: str, match: Match | None) -> tuple[object, ...]:
    if match is None:
        return None, "[]", False, False
    rules = json.dumps([rule_in_words(reason.rule) for reason in match.rules])
    behind = match.page.url
    saves = not behind or stock_key(behind) != stock_key(url)
    return behind, rules, match.is_alias, saves
