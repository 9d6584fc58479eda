"""PendingRequests: the requests that a crawl still has to send. They survive a kill."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from scrapy_urlnorm.crawl.database import (
    ALIAS_TABLE,
    EVIDENCE_TABLE,
    LEARNED_TABLES,
    Database,
    checksum,
)
from scrapy_urlnorm.exceptions import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator
    from os import PathLike

T = TypeVar("T", bound="Hashable")

#: What turns the tables of one version into those of the next.
_TO_NEXT_VERSION = {
    1: f"ALTER TABLE request ADD COLUMN checksum INTEGER; {LEARNED_TABLES}",
    2: EVIDENCE_TABLE,
    3: ALIAS_TABLE,
}
_VERSION = 4
_APPLICATION = 0x75726C6E  # "urln": other programs can tell the file from any SQLite database

_QUEUE_TABLES = """
CREATE TABLE request (
  id INTEGER PRIMARY KEY, queue TEXT NOT NULL, request BLOB NOT NULL, checksum INTEGER);
CREATE INDEX request_of_queue ON request (queue);
CREATE TABLE key (key BLOB NOT NULL);
"""


class PendingRequests(Database):
    """Requests, in queues by name, and the keys that the store may not have on disk yet.

    A request that is handed out stays in the database until `done` is told of it. The file has
    mode 0600, because requests carry cookies and headers.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        name = f"the queue {str(path)!r}"
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            connection = sqlite3.connect(path, timeout=0)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"cannot open {name}: {error}; name another JOBDIR") from error
        super().__init__(connection, name)
        with self.doing("open"):
            try:
                self._prepare()
                #: How many requests were damaged. They are deleted.
                self.damaged = self._drop_damaged("request") + self._drop_damaged("withheld")
                self._waiting = Counter(
                    dict(self._connection.execute("SELECT queue, count(*) FROM request GROUP BY 1"))
                )
                (self.keys_held,) = self._connection.execute("SELECT count(*) FROM key").fetchone()
            except BaseException:
                self._connection.close()
                raise
        self.handed_out: dict[Hashable, int] = {}  #: requests, with the numbers of their rows
        self._numbers_out: set[int] = set()

    def _prepare(self) -> None:
        """Lock the database. Make the tables if it is new, else see that they are ours."""
        database = self._connection
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        (application,) = database.execute("PRAGMA application_id").fetchone()
        (version,) = database.execute("PRAGMA user_version").fetchone()
        tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,)
        if tables and application == _APPLICATION and version in _TO_NEXT_VERSION:
            steps = " ".join(_TO_NEXT_VERSION[older] for older in range(version, _VERSION))
            database.executescript(f"BEGIN; {steps} PRAGMA user_version = {_VERSION}; COMMIT;")
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
            database.executescript(
                f"BEGIN; {_QUEUE_TABLES} {LEARNED_TABLES} {EVIDENCE_TABLE} {ALIAS_TABLE} {marks}"
                " COMMIT;"
            )
        database.execute("BEGIN IMMEDIATE")  # takes the lock, which locking_mode then keeps
        database.commit()

    def _drop_damaged(self, table: str) -> int:
        """Delete the requests whose bytes are not those that were written. Return how many."""
        rows = self._connection.execute(
            f"SELECT id, request, checksum FROM {table} WHERE checksum IS NOT NULL"
        )
        damaged = [(number,) for number, data, wanted in rows if checksum(data) != wanted]
        self._connection.executemany(f"DELETE FROM {table} WHERE id = ?", damaged)
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
            with self.doing("read"):
                (request,) = self._connection.execute(select, (queue,)).fetchone()
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
        """Hand out the newest or the oldest request of *queue*; ``None`` if there is none.

        *decode* makes the request of its bytes. Where it returns ``None`` the request is left to
        another run, and the next one is tried.
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
        with self.doing("read"):
            # Few are handed out: to skip them here is faster than to mark them in the database.
            for (number,) in self._connection.execute(ids, (queue,)):
                if number not in self._numbers_out:
                    select = "SELECT request FROM request WHERE id = ?"
                    return number, self._connection.execute(select, (number,)).fetchone()[0]
        return None

    def done(self, requests: Iterable[Hashable]) -> None:
        """Delete requests that were handed out and need not be sent again."""
        numbers = [self.handed_out.pop(request) for request in requests]
        self.write_many("DELETE FROM request WHERE id = ?", [(number,) for number in numbers])
        self._numbers_out.difference_update(numbers)

    def hold(self, keys: Iterable[bytes]) -> None:
        """Keep *keys* until `release`."""
        rows = [(key,) for key in keys]
        self.write_many("INSERT INTO key VALUES (?)", rows)
        self.keys_held += len(rows)

    def held(self) -> Iterator[bytes]:
        """Return the keys that are kept by `hold`."""
        return self._column("SELECT key FROM key")

    def release(self) -> None:
        """Delete the keys that were kept: the store has them on disk now."""
        self.write("DELETE FROM key")
        self.keys_held = 0

    def _column(self, select: str) -> Iterator[bytes]:
        with self.doing("read"):
            for (value,) in self._connection.execute(select):
                yield value
