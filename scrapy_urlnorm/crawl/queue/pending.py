"""PendingRequests: what a crawl still has to do, in a database that a killed process leaves whole."""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections import Counter
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy_urlnorm.exceptions import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
    from os import PathLike

    from typing_extensions import Self

T = TypeVar("T", bound="Hashable")

_VERSION = 2  # of the tables; 1 had no checksums and nothing that is withheld
_APPLICATION = 0x75726C6E  # "urln", so that `file` and others tell it from any SQLite database

_QUEUE_TABLES = """
CREATE TABLE request (
  id INTEGER PRIMARY KEY, queue TEXT NOT NULL, request BLOB NOT NULL, checksum INTEGER);
CREATE INDEX request_of_queue ON request (queue);
CREATE TABLE key (key BLOB NOT NULL);
"""

#: Pages that arrived and requests that stand behind them; `scrapy_urlnorm.crawl.live` fills them.
#: The salt of a site tells under which of its rules the learned keys were made.
_LEARNED_TABLES = """
CREATE TABLE site (name TEXT PRIMARY KEY, salt BLOB NOT NULL);
CREATE TABLE page (
  id INTEGER PRIMARY KEY, site TEXT NOT NULL, learned BLOB, own BLOB NOT NULL UNIQUE,
  url TEXT, content BLOB, depth INTEGER NOT NULL);
CREATE INDEX page_of_site ON page (site);
CREATE INDEX page_of_key ON page (learned) WHERE learned IS NOT NULL;
CREATE TABLE withheld (
  id INTEGER PRIMARY KEY, site TEXT NOT NULL, learned BLOB NOT NULL, own BLOB NOT NULL,
  request BLOB NOT NULL, checksum INTEGER NOT NULL, is_parked INTEGER NOT NULL);
CREATE INDEX withheld_of_site ON withheld (site);
CREATE INDEX withheld_of_key ON withheld (learned);
"""


def checksum(data: bytes) -> int:
    """Return what a row keeps beside its request, to notice damage."""
    return zlib.crc32(data)


class Database:
    """A SQLite database that names itself in its errors.

    Everything between two commits is one transaction: a process that is killed leaves what the
    last commit left. (A machine that stops may undo the last commits too, as SQLite's
    ``synchronous=NORMAL`` says.)

    Whatever the database cannot do is a `StoreError`.
    """

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._database = connection
        self.name = name  #: in words, for messages
        self.changes = 0  #: rows written since the last commit
        self._undone: sqlite3.Error | None = None  # why SQLite gave the last transaction up

    @classmethod
    def temporary(cls) -> Self:
        """Make one for this process alone: SQLite keeps it in memory, and from 2 MB on in a file.

        That file has no name and mode 0600, and goes with the process. Each statement is a
        transaction, so that a full disk refuses that one and leaves what was written before.
        """
        database = cls(sqlite3.connect("", isolation_level=None), "the temporary database")
        with database._doing("open"):
            database._database.executescript(
                f"PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; {_LEARNED_TABLES}"
            )
        return database

    def write(self, statement: str, *values: object) -> int:
        """Run a statement that changes one table; how many rows it changed."""
        with self._doing("write"):
            changed = self._database.execute(statement, values).rowcount
        self.changes += max(0, changed)
        return changed

    def write_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Run a statement that changes one row with each of *rows*."""
        with self._doing("write"):
            self._database.executemany(statement, rows)
        self.changes += len(rows)

    def read(self, select: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows that *select* finds."""
        with self._doing("read"):
            return self._database.execute(select, values).fetchall()

    def commit(self) -> None:
        """Make everything since the last commit last."""
        with self._doing("write"):
            self._database.commit()
        self.changes = 0

    def close(self) -> None:
        """Let go; what was not committed is undone."""
        with suppress(sqlite3.Error):
            self._database.rollback()
            self._database.close()

    @contextmanager
    def _doing(self, what: str) -> Iterator[None]:
        """Turn an error of SQLite's into one that says what to do.

        On a full disk SQLite undoes the whole transaction. What is in memory does not go with
        what is left of it, so nothing can be done from then on but to open it anew.
        """
        was_writing = self._database.in_transaction
        try:
            if self._undone is not None:
                raise self._undone
            yield
        except sqlite3.Error as error:
            if was_writing and not self._database.in_transaction:
                self._undone = error
            hint = (
                "another crawl uses it: give each crawl a JOBDIR of its own"
                if "locked" in str(error)
                else "what was written before is safe: set that right and resume, or name another "
                "JOBDIR"
            )
            raise StoreError(f"cannot {what} {self.name}: {error}; {hint}") from error


class PendingRequests(Database):
    """Requests, in queues by name, and the keys that the store may not have on disk yet.

    A request that is handed out stays in the database until it is done. The file is made with
    mode 0600: requests carry cookies and headers.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        name = f"the queue {str(path)!r}"
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            connection = sqlite3.connect(path, timeout=0)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"cannot open {name}: {error}; name another JOBDIR") from error
        super().__init__(connection, name)
        with self._doing("open"):
            try:
                self._prepare()
                #: Requests that were found damaged, and taken out.
                self.damaged = self._drop_damaged("request") + self._drop_damaged("withheld")
                self._waiting = Counter(
                    dict(self._database.execute("SELECT queue, count(*) FROM request GROUP BY 1"))
                )
                (self.keys_held,) = self._database.execute("SELECT count(*) FROM key").fetchone()
            except BaseException:
                self._database.close()
                raise
        self.handed_out: dict[Hashable, int] = {}  #: requests, and their numbers here
        self._numbers_out: set[int] = set()

    def _prepare(self) -> None:
        """Lock the database and see that it is ours, or make it."""
        database = self._database
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        (application,) = database.execute("PRAGMA application_id").fetchone()
        (version,) = database.execute("PRAGMA user_version").fetchone()
        tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,)
        if tables and (application, version) == (_APPLICATION, 1):
            database.executescript(
                "BEGIN; ALTER TABLE request ADD COLUMN checksum INTEGER;"
                f"{_LEARNED_TABLES} PRAGMA user_version = {_VERSION}; COMMIT;"
            )
        elif tables and (application, version) != (_APPLICATION, _VERSION):
            raise StoreError(
                f"{self.name} is not one of this version of scrapy-urlnorm (application "
                f"{application}, version {version}; this one has {_APPLICATION}, {_VERSION}): end "
                "the crawl with the version that began it, or name another JOBDIR"
            )
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        if not tables:
            marks = f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {_VERSION};"
            database.executescript(f"BEGIN; {_QUEUE_TABLES} {_LEARNED_TABLES} {marks} COMMIT;")
        database.execute("BEGIN IMMEDIATE")  # from now on it is locked
        database.commit()

    def _drop_damaged(self, table: str) -> int:
        """Take out the requests whose bytes are not those that were written; how many."""
        rows = self._database.execute(
            f"SELECT id, request, checksum FROM {table} WHERE checksum IS NOT NULL"
        )
        damaged = [(number,) for number, data, wanted in rows if checksum(data) != wanted]
        self._database.executemany(f"DELETE FROM {table} WHERE id = ?", damaged)
        return len(damaged)

    def __len__(self) -> int:
        """Return how many requests wait, in all queues."""
        return self._waiting.total()

    def waiting(self, queue: str) -> int:
        """Return how many requests wait in *queue*."""
        return self._waiting[queue]

    def one_of_each(self) -> Iterator[bytes]:
        """Return one request of each queue."""
        select = "SELECT request FROM request WHERE queue = ? LIMIT 1"
        for queue in list(self._waiting):
            with self._doing("read"):
                (request,) = self._database.execute(select, (queue,)).fetchone()
            yield request

    def all(self) -> Iterator[bytes]:
        """Return all requests."""
        return self._column("SELECT request FROM request")

    def push(self, queue: str, request: bytes) -> None:
        """Put *request* into *queue*."""
        insert = "INSERT INTO request (queue, request, checksum) VALUES (?, ?, ?)"
        self.write(insert, queue, request, checksum(request))
        self._waiting[queue] += 1

    def pop(self, queue: str, decode: Callable[[bytes], T | None], *, newest: bool) -> T | None:
        """Hand out the newest request of *queue*, or the oldest, made of its bytes by *decode*.

        One of which that makes ``None`` is left to another run.
        """
        while (found := self._next(queue, newest)) is not None:
            number, data = found
            self._numbers_out.add(number)
            self._waiting[queue] -= 1
            if not self._waiting[queue]:
                del self._waiting[queue]  # there may be a queue for each of many hosts
            request = decode(data)
            if request is not None:
                self.handed_out[request] = number
                return request
        return None

    def peek(self, queue: str, decode: Callable[[bytes], T | None], *, newest: bool) -> T | None:
        """Return the request that is next, if *decode* can make it."""
        found = self._next(queue, newest)
        return None if found is None else decode(found[1])

    def _next(self, queue: str, newest: bool) -> tuple[int, bytes] | None:
        if queue not in self._waiting:
            return None
        order = "DESC" if newest else "ASC"
        ids = f"SELECT id FROM request WHERE queue = ? ORDER BY id {order}"
        with self._doing("read"):
            # Those handed out are few, and passed over faster than marked in the database.
            for (number,) in self._database.execute(ids, (queue,)):
                if number not in self._numbers_out:
                    select = "SELECT request FROM request WHERE id = ?"
                    return number, self._database.execute(select, (number,)).fetchone()[0]
        return None

    def done(self, requests: Iterable[Hashable]) -> None:
        """Take out requests that were handed out and need not be again."""
        numbers = [self.handed_out.pop(request) for request in requests]
        self.write_many("DELETE FROM request WHERE id = ?", [(number,) for number in numbers])
        self._numbers_out.difference_update(numbers)

    def hold(self, keys: Iterable[bytes]) -> None:
        """Keep *keys* until `release`."""
        rows = [(key,) for key in keys]
        self.write_many("INSERT INTO key VALUES (?)", rows)
        self.keys_held += len(rows)

    def held(self) -> Iterator[bytes]:
        """Return the keys that are kept."""
        return self._column("SELECT key FROM key")

    def release(self) -> None:
        """Let go of the keys: the store has them on disk."""
        self.write("DELETE FROM key")
        self.keys_held = 0

    def _column(self, select: str) -> Iterator[bytes]:
        with self._doing("read"):
            for (value,) in self._database.execute(select):
                yield value
