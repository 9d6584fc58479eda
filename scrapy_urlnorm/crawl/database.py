"""RequestQueue: the requests that a crawl still has to send, in its database. They survive a kill."""

from __future__ import annotations

import logging
import pickle
import zlib
from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from scrapy.utils.request import request_from_dict

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from scrapy import Request, Spider

    from scrapy_urlnorm.stores import Database

logger = logging.getLogger(__name__)

T = TypeVar("T", bound="Hashable")

# The ids of requests are never used again: whoever remembers one cannot mean another request.
_TABLES = """
CREATE TABLE IF NOT EXISTS request (
  id INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL, request BLOB NOT NULL,
  checksum INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS request_of_queue ON request (queue);
CREATE TABLE IF NOT EXISTS announced (
  id INTEGER PRIMARY KEY AUTOINCREMENT, request BLOB NOT NULL, checksum INTEGER NOT NULL);
"""


def checksum(data: bytes) -> int:
    """Return the number that a row keeps beside its request, to notice damage."""
    return zlib.crc32(data)


def encoded(request: Request, spider: Spider | None) -> bytes:
    """Return *request* as bytes. Raises `ValueError` for one that cannot be serialized."""
    try:
        return pickle.dumps(request.to_dict(spider=spider), protocol=4)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(str(error)) from error


def decoded(data: bytes, spider: Spider | None) -> Request | None:
    """Return the request that was `encoded`; ``None`` for one that this run cannot do."""
    try:
        return request_from_dict(pickle.loads(data), spider=spider)
    except Exception as error:  # noqa: BLE001 - whatever its pickled objects raise
        message = "A request is left to another run, because this one cannot read it: %(error)s"
        logger.error(message, {"error": error}, extra={"spider": spider})
        return None


class RequestQueue:
    """Requests in queues by name, in an open *database*.

    A request that is handed out stays in the database until `done` is told of it. Whoever uses
    this says when a transaction ends. Raises `StoreError` for what the database cannot do.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        database.ensure(_TABLES)
        #: How many requests were damaged. They are deleted.
        self.damaged = self._drop_damaged("request") + self._drop_damaged("announced")
        counts = database.read("SELECT queue, count(*) FROM request GROUP BY 1")
        self._waiting = Counter(dict(counts))
        self.handed_out: dict[Hashable, int] = {}  #: requests, with the ids of their rows
        self._ids_out: set[int] = set()

    @staticmethod
    def is_in(database: Database) -> bool:
        """Return whether *database* has the tables of a queue."""
        return bool(database.read("SELECT 1 FROM sqlite_master WHERE name = 'request'"))

    def _drop_damaged(self, table: str) -> int:
        rows = self.database.each(f"SELECT id, request, checksum FROM {table}")
        damaged = [(number,) for number, data, wanted in rows if checksum(data) != wanted]
        return self.database.write_many(f"DELETE FROM {table} WHERE id = ?", damaged)

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
            yield self.database.read(select, queue)[0][0]

    def all(self) -> Iterator[bytes]:
        """Return all requests."""
        return (data for (data,) in self.database.each("SELECT request FROM request"))

    def push(self, queue: str, request: bytes) -> None:
        """Put *request* into *queue*."""
        insert = "INSERT INTO request (queue, request, checksum) VALUES (?, ?, ?)"
        self.database.write(insert, queue, request, checksum(request))
        self._waiting[queue] += 1

    def pop(self, queue: str, decode: Callable[[bytes], T | None], *, newest: bool) -> T | None:
        """Hand out the newest or the oldest request of *queue*; ``None`` if there is none.

        *decode* makes the request of its bytes. Where it returns ``None`` the request is left to
        another run, and the next one is tried.
        """
        while (found := self._next(queue, newest)) is not None:
            number, data = found
            self._ids_out.add(number)
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
        # Few are handed out: to skip them here is faster than to mark them in the database.
        for (number,) in self.database.each(ids, queue):
            if number not in self._ids_out:
                select = "SELECT request FROM request WHERE id = ?"
                return number, self.database.read(select, number)[0][0]
        return None

    def done(self, requests: Iterable[Hashable]) -> None:
        """Delete requests that were handed out and need not be sent again."""
        rows = [(self.handed_out.pop(request),) for request in requests]
        self.database.write_many("DELETE FROM request WHERE id = ?", rows)
        self._ids_out.difference_update(number for (number,) in rows)

    # --- requests whose keys a shared store is about to be told of --------------------------------

    def announce(self, request: bytes) -> int:
        """Write *request* down at once, before the store is told of its key; return its id."""
        insert = "INSERT INTO announced (request, checksum) VALUES (?, ?)"
        self.database.write(insert, request, checksum(request))
        self.database.commit()
        return int(self.database.read("SELECT max(id) FROM announced")[0][0])

    def announced(self) -> list[tuple[int, bytes]]:
        """Return the requests that are announced, and their ids."""
        return self.database.read("SELECT id, request FROM announced ORDER BY id")

    def settle(self, number: int) -> None:
        """Forget a request that was announced: it is in the queue, or was seen."""
        self.database.write("DELETE FROM announced WHERE id = ?", number)
