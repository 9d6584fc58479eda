"""Database: a SQLite database whose errors say what to do.

It holds the requests that a crawl keeps back (`scrapy_urlnorm.crawl.live.ledger`), and with JOBDIR
the waiting requests too (`scrapy_urlnorm.crawl.queue.pending`).
"""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.exceptions import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Self

#: Pages that arrived and requests that are kept back behind them.
#: The salt of a site tells under which of its rules the learned keys were made.
LEARNED_TABLES = """
CREATE TABLE site (name TEXT PRIMARY KEY, salt BLOB NOT NULL);
CREATE TABLE page (
  id INTEGER PRIMARY KEY, site TEXT NOT NULL, learned BLOB, own BLOB NOT NULL UNIQUE,
  url TEXT, content BLOB, depth INTEGER NOT NULL);
CREATE INDEX page_of_site ON page (site);
CREATE INDEX page_of_key ON page (learned) WHERE learned IS NOT NULL;
CREATE TABLE withheld (
  id INTEGER PRIMARY KEY, site TEXT NOT NULL, learned BLOB NOT NULL, own BLOB NOT NULL,
  request BLOB NOT NULL, checksum INTEGER NOT NULL, is_parked INTEGER NOT NULL);
CREATE INDEX withheld_of_site ON withheld (site, own);
CREATE INDEX withheld_of_key ON withheld (learned);
"""
#: What was seen under each URL: what the miner learns from (`scrapy_urlnorm.crawl.live.rows`).
EVIDENCE_TABLE = """
CREATE TABLE evidence (
  site TEXT NOT NULL, url TEXT NOT NULL, status INTEGER NOT NULL, content TEXT, target TEXT,
  place INTEGER NOT NULL, PRIMARY KEY (site, url)) WITHOUT ROWID;
CREATE INDEX evidence_of_content ON evidence (site, content) WHERE content IS NOT NULL;
"""
#: What pages say of their other names (`scrapy_urlnorm.crawl.live.alias_memory`): by site, as JSON.
ALIAS_TABLE = "CREATE TABLE alias_site (site TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID;"


def checksum(data: bytes) -> int:
    """Return the number that a row keeps beside its request, to notice damage."""
    return zlib.crc32(data)


class Database:
    """A SQLite database that names itself in its errors.

    Everything between two commits is one transaction: after a kill the database is as the last
    commit left it. (If the machine stops, the last commits may be undone too: that is what
    SQLite's ``synchronous=NORMAL`` allows.)

    Raises `StoreError` for everything that the database cannot do.
    """

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._connection = connection
        self.name = name  #: in words, for messages
        self.changes = 0  #: rows written since the last commit
        self._undone: sqlite3.Error | None = None  # why SQLite undid the last transaction

    @classmethod
    def temporary(cls) -> Self:
        """Return one for this process alone, in memory, and from 2 MB on in a file.

        SQLite deletes that file at once, so it has no name; its mode is 0600. Each statement is a
        transaction: a full disk refuses that statement and keeps what was written before.
        """
        database = cls(sqlite3.connect("", isolation_level=None), "the temporary database")
        with database.doing("open"):
            database._connection.executescript(
                f"PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; {LEARNED_TABLES}"
                f"{EVIDENCE_TABLE} {ALIAS_TABLE}"
            )
        return database

    def write(self, statement: str, *values: object) -> int:
        """Run a statement that changes one table. Return how many rows it changed."""
        with self.doing("write"):
            changed = self._connection.execute(statement, values).rowcount
        self.changes += max(0, changed)
        return changed

    def write_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Run a statement once with each of *rows*. It changes one row each time."""
        with self.doing("write"):
            self._connection.executemany(statement, rows)
        self.changes += len(rows)

    def read(self, select: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows that *select* finds."""
        with self.doing("read"):
            return self._connection.execute(select, values).fetchall()

    def commit(self) -> None:
        """Make everything since the last commit last."""
        with self.doing("write"):
            self._connection.commit()
        self.changes = 0

    def close(self) -> None:
        """Close the database and undo what was not committed."""
        with suppress(sqlite3.Error):
            self._connection.rollback()
            self._connection.close()

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Turn an error of SQLite into a `StoreError` that says what to do.

        On a full disk SQLite undoes the whole transaction. Then the state in memory no longer fits
        the database, so every later statement fails too, until the database is opened anew.
        """
        was_writing = self._connection.in_transaction
        try:
            if self._undone is not None:
                raise self._undone
            yield
        except sqlite3.Error as error:
            if was_writing and not self._connection.in_transaction:
                self._undone = error
            hint = (
                "another crawl uses it: give each crawl a JOBDIR of its own"
                if "locked" in str(error)
                else "all that was written before is safe: mend that and resume, or name another "
                "JOBDIR"
            )
            raise StoreError(f"cannot {what} {self.name}: {error}; {hint}") from error
