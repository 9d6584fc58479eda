"""RequestQueue: the requests that a crawl still has to send. In its database they survive a kill."""

from __future__ import annotations

import pickle
import zlib
from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from scrapy.utils.request import request_from_dict

from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.text import logger_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator
    from pathlib import Path

    from scrapy import Request, Spider

    from scrapy_urlnorm.stores import Database

logger = logger_of(__name__)

T = TypeVar("T", bound="Hashable")

# The ids of requests are never used again: whoever remembers one cannot mean another request.
_TABLES = """
CREATE TABLE IF NOT EXISTS request (
  id INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL, request BLOB NOT NULL,
  checksum INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS request_of_queue ON request (queue);
"""
ANNOUNCED = ""  #: the queue of requests of which a shared store may not know yet


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


def require_requests(database: Database, state: Path) -> None:
    """Raise `StoreError` if *database*, which has the requests of the queue *state*, is an empty file."""
    assert database.path is not None
    is_empty = database.path.exists() and not database.path.stat().st_size
    if is_empty and set(state.parent.iterdir()) == {state}:
        # A run that is killed before its first write leaves an empty file too, and either nothing
        # beside it, or the files of Scrapy's own queue, which it was to take over.
        raise StoreError(
            f"the database {str(database.path)!r} is an empty file: the requests that waited there "
            "are lost; restore the file, or name another JOBDIR"
        )


def is_damaged(data: object, checksum: object) -> bool:
    """Return whether *data* is not what was written with *checksum*; where bits fell it is no bytes."""
    return not isinstance(data, bytes) or zlib.crc32(data) != checksum


def plain(data: bytes) -> Request:
    """Return the request that was `encoded`, without callbacks, which may have gone since.

    Raises `StoreError` for a request that cannot be read.
    """
    try:
        return request_from_dict({**pickle.loads(data), "callback": None, "errback": None})
    except Exception as error:
        raise StoreError(
            f"a request in the queue cannot be read ({error!r}): restore the classes that it is "
            "made of, or name another JOBDIR"
        ) from error


class RequestQueue:
    """Requests in queues by name, in an open *database*.

    A request that is handed out stays in the database until `done` is told of it. Whoever uses
    this says when a transaction ends. Raises `StoreError` for what the database cannot do.
    """

    most_changes = 1_000  #: in a transaction of which nobody says when it ends

    def __init__(self, database: Database) -> None:
        self.database = database
        database.ensure(_TABLES)
        #: How many requests were damaged. They are deleted.
        self.damaged = self._drop_damaged()
        counts = "SELECT queue, count(*) FROM request WHERE queue != ? GROUP BY 1"
        self._waiting = Counter(dict(database.read(counts, ANNOUNCED)))
        self.handed_out: dict[Hashable, int] = {}  #: requests, with the ids of their rows
        self._ids_out: set[int] = set()

    @staticmethod
    def is_in(database: Database) -> bool:
        return bool(database.read("SELECT 1 FROM sqlite_master WHERE name = 'request'"))

    def _drop_damaged(self) -> int:
        rows = self.database.each("SELECT id, request, checksum FROM request")
        return self._delete([id_ for id_, data, wanted in rows if is_damaged(data, wanted)])

    def _delete(self, ids: Iterable[int]) -> int:
        return self.database.write_many("DELETE FROM request WHERE id = ?", [(id_,) for id_ in ids])

    def _insert(self, queue: str, request: bytes) -> None:
        insert = "INSERT INTO request (queue, request, checksum) VALUES (?, ?, ?)"
        self.database.write(insert, queue, request, zlib.crc32(request))

    def __len__(self) -> int:
        return self._waiting.total()

    def waiting(self, queue: str) -> int:
        return self._waiting[queue]

    def one_of_each(self) -> Iterator[bytes]:
        select = "SELECT request FROM request WHERE queue = ? LIMIT 1"
        for queue in list(self._waiting):
            yield self.database.read(select, queue)[0][0]

    def all(self) -> Iterator[bytes]:
        return (data for (data,) in self.database.each("SELECT request FROM request"))

    def push(self, queue: str, request: bytes) -> None:
        self._insert(queue, request)
        self._waiting[queue] += 1
        if self.database.changes >= self.most_changes:
            self.commit()

    def commit(self) -> None:
        self.database.commit()

    def give_up(self, error: Exception) -> None:
        self.database.give_up(error)

    def close(self) -> None:
        self.database.commits_itself = True
        self.database.close()

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

    def _next(self, queue: str, newest: bool) -> tuple[int, bytes] | None:
        if queue not in self._waiting:
            return None
        ids = f"SELECT id FROM request WHERE queue = ? ORDER BY id {'DESC' if newest else 'ASC'}"
        # Few are handed out: to skip them here is faster than to mark them in the database.
        for (number,) in self.database.each(ids, queue):
            if number not in self._ids_out:
                select = "SELECT request FROM request WHERE id = ?"
                return number, self.database.read(select, number)[0][0]
        return None

    def done(self, requests: Iterable[Hashable]) -> None:
        """Delete requests that were handed out and need not be sent again."""
        ids = [self.handed_out.pop(request) for request in requests]
        self._delete(ids)
        self._ids_out.difference_update(ids)

    def announce(self, request: bytes) -> int:
        """Write *request* down at once, before a shared store is told of its key; return its id."""
        self._insert(ANNOUNCED, request)
        self.database.commit()
        return int(self.database.read("SELECT max(id) FROM request")[0][0])

    def announced(self) -> list[tuple[int, bytes]]:
        select = "SELECT id, request FROM request WHERE queue = ? ORDER BY id"
        return self.database.read(select, ANNOUNCED)

    def settle(self, number: int) -> None:
        """Forget a request that was announced: it is in the queue, or was seen."""
        self._delete([number])
