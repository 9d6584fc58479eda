"""The record of drops: which requests a crawl did not send, behind which URL, and by which rules.

`DropRecord` is written by the crawl, `Drops` reads it. One row for each key: the first URL with
the key, an example of those that were dropped, the rules, how often, and when. Beside it stand
exact counts by host and rules, how the crawl went on, and how the tests of learned rules ended.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import time
from collections import Counter
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from scrapy_urlnorm.report.database import ReadDatabase
from scrapy_urlnorm.text import shortened
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

logger = logging.getLogger(__name__)

#: Rows that are kept; of more keys, those of every second, fourth, ... hash.
MAX_ROWS = 100_000
#: Pairs of host and rules that are counted. What comes later counts for `OTHER_HOSTS`.
MAX_COUNTS = 20_000
OTHER_HOSTS = ""
#: Points of the course of a crawl.
MAX_POINTS = 1_000
#: New rows that wait in memory. The crawl has them written every few seconds besides.
_BATCH = 1_000
_LONGEST_RULE = 160
_LONGEST_URL = 2_000

_APPLICATION, _VERSION = 0x75726C64, 1  # "urld"
_TABLES = f"""
BEGIN;
CREATE TABLE dropped (
  key BLOB PRIMARY KEY, place INTEGER NOT NULL, url TEXT NOT NULL, first TEXT, rules TEXT NOT NULL,
  count INTEGER NOT NULL, since REAL NOT NULL, last REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE saved (
  host TEXT NOT NULL, rules TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (host, rules));
CREATE TABLE progress (id INTEGER PRIMARY KEY, requests INTEGER NOT NULL, saved INTEGER NOT NULL);
CREATE TABLE tested (rule TEXT PRIMARY KEY, agreed INTEGER NOT NULL);
CREATE TABLE sample (parts INTEGER NOT NULL);
INSERT INTO sample VALUES (1);
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
COMMIT;
"""
_ADD_DROP = """
INSERT INTO dropped VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET count = count + excluded.count, last = excluded.last
"""
_ADD_SAVED = """
INSERT INTO saved VALUES (?, ?, ?)
ON CONFLICT (host, rules) DO UPDATE SET count = count + excluded.count
"""


class Drop(NamedTuple):
    """What is known of the dropped requests with one key.

    *first* is the URL that they stand behind, as far as it was still known. Times are seconds since
    1970.
    """

    url: str  #: of one of them
    first: str | None
    rules: tuple[str, ...]  #: names of the catalogue, or learned rules in words; () if not known
    times: int
    since: float
    last: float


class Point(NamedTuple):
    """How far a crawl was: answers that came, and requests that it had not needed."""

    requests: int
    saved: int


def rule_in_words(rule: object) -> str:
    """Return the name by which the record knows a learned rule."""
    origin = getattr(rule, "origin", None)
    text = str(rule).removesuffix(f" in {origin}") if origin else str(rule)
    return shortened(text, _LONGEST_RULE)


class DropRecord:
    """Writes the record at *path*. Whatever fails ends the record, and not the crawl.

    A drop costs a look into a dict. What has come together is written in one transaction by
    `flush`; a kill loses what came since. *progress* says how far the crawl is.
    """

    def __init__(self, path: Path, progress: Callable[[], Point]) -> None:
        self._path = path
        self._progress = progress
        self._new: dict[bytes, list[object]] = {}
        self._saved: Counter[tuple[str, str]] = Counter()
        self._points: list[Point] = []
        self._until_point = self._step = 1
        self._parts = 1
        self._rows = 0  # at most so many are in the table
        self._counts = 0
        self._before = Point(0, 0)
        self._connection: sqlite3.Connection | None = None
        with self._ending_on_failure():
            self._connection = self._open()

    def _open(self) -> sqlite3.Connection:
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))  # URLs may carry secrets
        connection = sqlite3.connect(self._path, timeout=0, isolation_level=None)
        try:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if (application, version) == (0, 0):
                connection.executescript(_TABLES)
            elif (application, version) != (_APPLICATION, _VERSION):
                raise sqlite3.DatabaseError("it is not a record of this version: delete it")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            (self._parts,) = connection.execute("SELECT parts FROM sample").fetchone()
            (self._rows,) = connection.execute("SELECT count(*) FROM dropped").fetchone()
            (self._counts,) = connection.execute("SELECT count(*) FROM saved").fetchone()
            last = "SELECT requests, saved FROM progress ORDER BY id DESC LIMIT 1"
            self._before = Point(*(connection.execute(last).fetchone() or (0, 0)))
        except BaseException:
            connection.close()
            raise
        return connection

    def dropped(
        self, key: bytes, url: str, first: str | None, rules: Iterable[object], *, saves: bool
    ) -> None:
        """Take note of a request that is not sent, because of *first*, which has its key.

        *rules* are what made them one, as far as that is known; *saves* whether stock Scrapy would
        have sent it.
        """
        if self._connection is None:
            return
        if saves:
            self._count(url, rules)
        row = self._new.get(key)
        if row is not None:
            row[5] += 1  # type: ignore[operator]
            row[7] = time.time()
            return
        place = crc32(key)
        if self._parts > 1 and place % self._parts:
            return
        now = time.time()
        url, first = url[:_LONGEST_URL], first and first[:_LONGEST_URL]
        self._new[key] = [key, place, url, first, _listed(tuple(rules)), 1, now, now]
        if len(self._new) >= _BATCH:
            self.flush()

    def _count(self, url: str, rules: Iterable[object]) -> None:
        host = split(url).host or OTHER_HOSTS
        if self._counts + len(self._saved) >= MAX_COUNTS:
            host = OTHER_HOSTS
        self._saved[host, _listed(tuple(rules))] += 1
        self._until_point -= 1
        if not self._until_point:
            self._until_point = self._step
            self._points.append(self._progress())

    def tested(self, results: Iterable[tuple[object, int]]) -> None:
        """Write down what is learned by now, and how many tests each rule has passed in this run."""
        with self._ending_on_failure():
            if self._connection is None:
                return
            before = dict(self._connection.execute("SELECT rule, agreed FROM tested"))
            rows = {rule_in_words(rule): agreed for rule, agreed in results}
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute("DELETE FROM tested")
            self._connection.executemany(
                "INSERT INTO tested VALUES (?, ?)",
                [(rule, agreed + before.get(rule, 0)) for rule, agreed in rows.items()],
            )
            self._connection.execute("COMMIT")

    def flush(self) -> None:
        """Write down what has come together."""
        if self._connection is None or not (self._new or self._saved or self._points):
            return
        with self._ending_on_failure():
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(_ADD_DROP, self._new.values())
            saved = [(*about, number) for about, number in self._saved.items()]
            self._connection.executemany(_ADD_SAVED, saved)
            self._connection.executemany(
                "INSERT INTO progress (requests, saved) VALUES (?, ?)", self._since_before()
            )
            self._rows += len(self._new)
            self._counts += len(self._saved)
            if self._rows > MAX_ROWS:
                self._thin_out(self._connection)
            self._thin_out_points(self._connection)
            self._connection.execute("COMMIT")
        self._new.clear()
        self._saved.clear()
        self._points.clear()

    def _since_before(self) -> list[Point]:
        """Return the points, counted on from where an earlier run with this JOBDIR ended."""
        requests, saved = self._before
        return [Point(requests + each.requests, saved + each.saved) for each in self._points]

    def _thin_out(self, connection: sqlite3.Connection) -> None:
        """Keep the rows of every second hash, if there are really too many."""
        (self._rows,) = connection.execute("SELECT count(*) FROM dropped").fetchone()
        while self._rows > MAX_ROWS:
            self._parts *= 2
            connection.execute("DELETE FROM dropped WHERE place % ? != 0", (self._parts,))
            connection.execute("UPDATE sample SET parts = ?", (self._parts,))
            (self._rows,) = connection.execute("SELECT count(*) FROM dropped").fetchone()

    def _thin_out_points(self, connection: sqlite3.Connection) -> None:
        (points,) = connection.execute("SELECT count(*) FROM progress").fetchone()
        while points > MAX_POINTS:
            connection.execute(
                "DELETE FROM progress WHERE id IN (SELECT id FROM (SELECT id, row_number() OVER"
                " (ORDER BY id DESC) AS number FROM progress) WHERE number % 2 = 0)"
            )
            self._step *= 2
            (points,) = connection.execute("SELECT count(*) FROM progress").fetchone()

    def close(self) -> None:
        """Write down the rest, and where the crawl ended; a second time does nothing."""
        if self._connection is None:
            return
        self._points.append(self._progress())
        self.flush()
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    @contextmanager
    def _ending_on_failure(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, UnicodeError) as error:
            logger.warning(
                "Dropped requests are not written down in %(path)s any more, the crawl goes on: "
                "%(error)s",
                {"path": str(self._path), "error": error},
            )
            if self._connection is not None:
                with suppress(sqlite3.Error):
                    self._connection.close()
            self._connection = None


@lru_cache(maxsize=1024)
def _listed(rules: tuple[object, ...]) -> str:
    return json.dumps([rule_in_words(rule) for rule in rules])


class Drops(ReadDatabase):
    """The record at *path*, opened for reading. Raises `StoreError` as every `ReadDatabase`."""

    def of(self, key: bytes) -> Drop | None:
        """Return what is known of the dropped requests with *key*."""
        row = self._one(f"SELECT {_COLUMNS} FROM dropped WHERE key = ?", key)
        return None if row is None else self._drop(row)

    def all(self) -> Iterator[Drop]:
        """Return all rows, the latest first."""
        return map(self._drop, self._read(f"SELECT {_COLUMNS} FROM dropped ORDER BY last DESC"))

    def _drop(self, row: tuple[str, str | None, str, int, float, float]) -> Drop:
        url, first, rules, times, since, last = row
        names = tuple(self._json("a row of dropped requests", rules))
        return Drop(url, first, names, times, since, last)

    @property
    def parts(self) -> int:
        """Of so many keys, one has a row."""
        return int(self._one("SELECT parts FROM sample")[0])

    def saved(self) -> Iterator[tuple[str, tuple[str, ...], int]]:
        """Return by host and rules how many requests were dropped that stock Scrapy sends."""
        for host, rules, count in self._read("SELECT host, rules, count FROM saved"):
            yield host, tuple(self._json("a row of saved requests", rules)), count

    def progress(self) -> list[Point]:
        """Return how the crawl went on."""
        return [
            Point(*row) for row in self._read("SELECT requests, saved FROM progress ORDER BY id")
        ]

    def tested(self) -> dict[str, int]:
        """Return how many tests each rule has passed that was learned when the crawl ended."""
        return dict(self._read("SELECT rule, agreed FROM tested"))


_COLUMNS = "url, first, rules, count, since, last"
