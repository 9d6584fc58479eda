"""What a crawl saved, and why, as rows in the database of the crawl.

`FilteredRecord` writes what the dupefilter merged: a row for each key, exact counts by host and
rules, and how the crawl went on. A request that is held because of what was learned has a row of its
own (table ``held``) as long as it is held: nothing of it is copied, `held_figures` counts these rows.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections import Counter
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.text import shortened
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from scrapy_urlnorm.stores.sqlite import Database

logger = logging.getLogger(__name__)

#: Rows that are kept; of more keys, those of every second, fourth, ... hash.
MAX_ROWS = 100_000
#: Pairs of host and rules that are counted. What comes later counts for `OTHER_HOSTS`.
MAX_COUNTS = 20_000
OTHER_HOSTS = ""
#: Points of the course of a crawl.
MAX_POINTS = 1_000
#: New rows, or points, that wait in memory.
_BATCH = 1_000
_LONGEST_RULE = 160
_LONGEST_URL = 2_000

# A point counts what was merged; by its time, what is held by then can be added.
_TABLES = """
CREATE TABLE IF NOT EXISTS filtered (
  key BLOB PRIMARY KEY, place INTEGER NOT NULL, url TEXT NOT NULL, first TEXT, rules TEXT NOT NULL,
  count INTEGER NOT NULL, since REAL NOT NULL, last REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS saved (
  host TEXT NOT NULL, rules TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (host, rules));
CREATE TABLE IF NOT EXISTS progress (
  requests INTEGER PRIMARY KEY, saved INTEGER NOT NULL, at REAL NOT NULL);
"""
_ADD_FILTERED = """
INSERT INTO filtered VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET count = count + excluded.count, last = excluded.last
"""
_ADD_SAVED = """
INSERT INTO saved VALUES (?, ?, ?)
ON CONFLICT (host, rules) DO UPDATE SET count = count + excluded.count
"""


class HeldFigures(NamedTuple):
    """Requests that are held and that stock Scrapy would have sent."""

    total: int = 0
    by_rule: Mapping[str, int] = {}  #: the rule in words -> its requests; several may share one


def held_figures(database: Database, before: HeldFigures | None = None) -> HeldFigures:
    """Return what is held for good in *database* now, less what was held *before*.

    The total is less than nothing where this run sent what an earlier one had held. Raises
    `StoreError` if the database cannot be read, or has no table ``held``.
    """
    total, by_rule = 0, Counter[str]()
    for rules, count in database.read(
        "SELECT rules, count(*) FROM held WHERE state = 0 AND saves = 1 GROUP BY rules"
    ):
        total += count
        by_rule.update(dict.fromkeys(json.loads(rules), count))
    if before is not None:
        total -= before.total
        by_rule.subtract(before.by_rule)
    return HeldFigures(total, dict(+by_rule))


def rule_in_words(rule: object) -> str:
    """Return the name by which the database knows a rule, the same in every run."""
    origin = getattr(rule, "origin", None)
    text = str(rule).removesuffix(f" in {origin}") if origin else str(rule)
    return shortened(text, _LONGEST_RULE)


@lru_cache(maxsize=1024)
def _listed(rules: tuple[object, ...]) -> str:
    return json.dumps([rule_in_words(rule) for rule in rules])


class FilteredRecord:
    """Writes down what the dupefilter filters. What fails of it ends the record, and not the crawl.

    A filtered request costs a look into a dict. What has come together goes into the transaction
    of *database*, which has to be open, when that ends; and before, when it is much. Where the
    database itself fails, whoever needs it stops the crawl.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._has_ended = False
        self._new: dict[bytes, list[object]] = {}
        self._saved: Counter[tuple[str, str]] = Counter()
        self._points: list[tuple[int, int, float]] = []
        self._parts = self._step = 1
        self._rows = self._counts = self._total = self._answers = 0
        with self._ending_on_failure():
            database.ensure(_TABLES)
            self._rows = self._number("count(*) FROM filtered")
            self._counts = self._number("count(*) FROM saved")
            self._total = self._number("coalesce(sum(count), 0) FROM saved")
            self._answers = self._number("coalesce(max(requests), 0) FROM progress")
            database.before_commit.append(self.write)

    def _number(self, select: str) -> int:
        return int(self._database.read(f"SELECT {select}")[0][0])

    def add(
        self, key: bytes, url: str, first: str | None, rules: Iterable[object], *, saves: bool
    ) -> None:
        """Take note that a request for *url* is not sent, because of *first*, which has its key.

        *rules* are what made them one, as far as that is known; *saves* whether stock Scrapy would
        have sent the request.
        """
        if self._has_ended:
            return
        if saves:
            self._count(url, rules)
        now = time.time()
        row = self._new.get(key)
        if row is not None:
            row[5] += 1  # type: ignore[operator]
            row[7] = now
        elif (place := crc32(key)) % self._parts == 0:
            first = first and first[:_LONGEST_URL]
            row = [key, place, url[:_LONGEST_URL], first, _listed(tuple(rules)), 1, now, now]
            self._new[key] = row
            if len(self._new) >= _BATCH:
                self.write()

    def _count(self, url: str, rules: Iterable[object]) -> None:
        host = split(url).host or OTHER_HOSTS
        if self._counts + len(self._saved) >= MAX_COUNTS:
            host = OTHER_HOSTS
        self._saved[host, _listed(tuple(rules))] += 1
        self._total += 1

    def answered(self) -> None:
        """Take note that an answer came."""
        self._answers += 1
        if self._answers % self._step == 0 and not self._has_ended:
            self._points.append((self._answers, self._total, time.time()))
            if len(self._points) >= _BATCH:
                self.write()

    def write(self) -> None:
        """Put what has come together into the transaction of the database."""
        if self._has_ended:
            return
        # Taken away first: what is written may end the transaction, which calls this again.
        rows, self._new = self._new, {}
        saved, self._saved = self._saved, Counter()
        points, self._points = self._points, []
        write_many = self._database.write_many
        with self._ending_on_failure():
            if rows:
                write_many(_ADD_FILTERED, list(rows.values()))
            if saved:
                write_many(_ADD_SAVED, [(*about, number) for about, number in saved.items()])
            if points:
                write_many("INSERT OR REPLACE INTO progress VALUES (?, ?, ?)", points)
                self._thin_out_points()
            self._rows += len(rows)
            self._counts += len(saved)
            if self._rows > MAX_ROWS:
                self._thin_out()

    def _thin_out(self) -> None:
        """Keep the rows of every second hash, if there are really too many."""
        while (rows := self._number("count(*) FROM filtered")) > MAX_ROWS:
            self._parts *= 2
            self._database.write("DELETE FROM filtered WHERE place % ? != 0", self._parts)
        self._rows = rows

    def _thin_out_points(self) -> None:
        while self._number("count(*) FROM progress") > MAX_POINTS:
            self._step *= 2
            self._database.write("DELETE FROM progress WHERE requests % ? != 0", self._step)

    def close(self) -> None:
        """Write the rest, and where the crawl ended; a second time does nothing."""
        self._points.append((self._answers, self._total, time.time()))
        self.write()
        self._end()

    def _end(self) -> None:
        self._has_ended = True
        with suppress(ValueError):  # a second time, or it failed at the beginning
            self._database.before_commit.remove(self.write)

    @contextmanager
    def _ending_on_failure(self) -> Iterator[None]:
        try:
            yield
        except (StoreError, sqlite3.Error, UnicodeError) as error:
            logger.warning(
                "Filtered requests are not written down any more, the crawl goes on: %(error)s",
                {"error": error},
            )
            self._end()
