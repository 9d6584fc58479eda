"""Where requests wait: in a `RequestQueue` to be sent, on a `Shelf` for a page (see `awaiting`).

In the database of a crawl they survive a kill.
"""

from __future__ import annotations

import pickle
import zlib
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy.squeues import PickleFifoDiskQueue, PickleLifoDiskQueue
from scrapy.utils.request import request_from_dict

from scrapy_urlnorm.crawl.components import components_of
from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.text import logger_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from typing_extensions import Self

    from scrapy_urlnorm.stores import Database

logger = logger_of(__name__)

_TABLE = """
CREATE TABLE IF NOT EXISTS {table} (
  id INTEGER PRIMARY KEY AUTOINCREMENT, {group} {type} NOT NULL, request BLOB NOT NULL,
  checksum INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS {table}_of_{group} ON {table} ({group});
"""
_TYPES: dict[type, str] = {str: "TEXT", bytes: "BLOB"}
FOLDER = "requests.queue"  #: in JOBDIR, where Scrapy's scheduler has its queues
MAX_HELD = 100_000  #: requests on a shelf
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
        message = "A request is left to another run, because this one cannot read it: %s"
        logger.error(message, error, extra={"spider": spider})
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


class RequestTable:
    """Requests as bytes in a *table* of an open *database*, by the column *group*, of the type *kind*.

    The ids of requests are never used again: whoever remembers one cannot mean another request.
    """

    def __init__(self, database: Database, table: str, group: str, kind: type[str | bytes]) -> None:
        self.database, self._table, self._group = database, table, group
        database.ensure(_TABLE.format(table=table, group=group, type=_TYPES[kind]))
        rows = database.each(f"SELECT id, {group}, request, checksum FROM {table}")
        #: How many requests were damaged. They are deleted.
        self.damaged = self.delete(
            [id_ for id_, value, *row in rows if not isinstance(value, kind) or is_damaged(*row)]
        )

    def delete(self, ids: Iterable[int]) -> int:
        delete = f"DELETE FROM {self._table} WHERE id = ?"
        return self.database.write_many(delete, [(id_,) for id_ in ids])

    def insert(self, group: str | bytes, request: bytes) -> None:
        insert = f"INSERT INTO {self._table} ({self._group}, request, checksum) VALUES (?, ?, ?)"
        self.database.write(insert, group, request, zlib.crc32(request))

    def counts(self) -> Counter[Any]:
        """Return how many requests each group has."""
        counts = f"SELECT {self._group}, count(*) FROM {self._table} GROUP BY 1"
        return Counter(dict(self.database.read(counts)))

    def ids(self, group: str | bytes, *, newest: bool = False) -> Iterator[int]:
        """Yield the ids of a group, those of its oldest or newest requests first."""
        order = "DESC" if newest else "ASC"
        ids = f"SELECT id FROM {self._table} WHERE {self._group} = ? ORDER BY id {order}"
        return (id_ for (id_,) in self.database.each(ids, group))

    def request(self, id_: int) -> bytes:
        select = f"SELECT request FROM {self._table} WHERE id = ?"
        return bytes(self.database.read(select, id_)[0][0])


class RequestQueue(RequestTable):
    """Requests in queues by name. *encode* makes bytes of a request, which *decode* reads.

    A request that is handed out stays in the database until `done` is told of it. Whoever uses
    this says when a transaction ends. Raises `StoreError` for what the database cannot do.
    """

    most_changes = 1_000  #: in a transaction of which nobody says when it ends

    def __init__(
        self, database: Database, encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]
    ) -> None:
        super().__init__(database, "request", "queue", str)
        self._encode, self._decode = encode, decode
        self._waiting = self.counts()
        del self._waiting[ANNOUNCED]
        self.handed_out: dict[Any, int] = {}  #: requests, with the ids of their rows
        self._ids_out: set[int] = set()

    @staticmethod
    def is_in(database: Database) -> bool:
        return bool(database.read("SELECT 1 FROM sqlite_master WHERE name = 'request'"))

    def __len__(self) -> int:
        return self._waiting.total()

    def waiting(self, queue: str) -> int:
        return self._waiting[queue]

    def one_of_each(self) -> Iterator[bytes]:
        return (self.request(next(self.ids(queue))) for queue in list(self._waiting))

    def all(self) -> Iterator[bytes]:
        return (data for (data,) in self.database.each("SELECT request FROM request"))

    def push(self, queue: str, request: Any) -> None:
        """Let a request wait. Raises `ValueError` for one that cannot be serialized."""
        self.insert(queue, self._encode(request))
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

    def pop(self, queue: str, *, newest: bool) -> Any:
        """Hand out the newest or the oldest request of *queue*; ``None`` if there is none.

        One that this run cannot read is left to another, and the next one is tried.
        """
        while queue in self._waiting:
            # Few are handed out: to skip them here is faster than to mark them in the database.
            id_ = next(each for each in self.ids(queue, newest=newest) if each not in self._ids_out)
            self._ids_out.add(id_)
            self._waiting[queue] -= 1
            if not self._waiting[queue]:
                del self._waiting[queue]  # there may be a queue for each of many hosts
            if (request := self._decode(self.request(id_))) is not None:
                self.handed_out[request] = id_
                return request
        return None

    def done(self, requests: Iterable[Any]) -> None:
        """Delete requests that were handed out and need not be sent again."""
        ids = [self.handed_out.pop(request) for request in requests]
        self.delete(ids)
        self._ids_out.difference_update(ids)

    def announce(self, request: Any) -> int:
        """Write *request* down at once, before a shared store is told of its key; return its id.

        Raises `ValueError` for one that cannot be serialized.
        """
        self.insert(ANNOUNCED, self._encode(request))
        self.database.commit()
        return int(self.database.read("SELECT max(id) FROM request")[0][0])

    def announced(self) -> list[tuple[int, Any]]:
        """Return what was announced, by its id; ``None`` for what this run cannot read."""
        return [(id_, self._decode(self.request(id_))) for id_ in self.ids(ANNOUNCED)]

    def settle(self, id_: int) -> None:
        """Forget a request that was announced: it is in the queue, or was seen."""
        self.delete([id_])


class Shelf:
    """Requests in memory, by a key; of one key those that came first go first."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}  # of requests, by key
        self._total = 0
        self._requests: dict[bytes, deque[Request]] = {}

    def __contains__(self, key: bytes) -> bool:
        return key in self._numbers

    def __len__(self) -> int:
        return self._total

    def __iter__(self) -> Iterator[bytes]:
        """Yield the keys that there are now; others may come and go meanwhile."""
        return iter(list(self._numbers))

    def next_key(self) -> bytes | None:
        """Return each key in turn; ``None`` if there is none."""
        if not self._numbers:
            return None
        key = next(iter(self._numbers))
        self._numbers[key] = self._numbers.pop(key)  # the last one now
        return key

    def put(self, key: bytes, request: Request) -> bool:
        """Keep *request*. Return ``False`` if there is no room: then send it."""
        if self._total >= MAX_HELD:
            return False
        self._write(key, request)
        self._numbers[key] = self._numbers.get(key, 0) + 1
        self._total += 1
        return True

    def take(self, key: bytes) -> Request | None:
        """Return the first request with *key*, which is not kept any more; ``None`` if there is none."""
        request = self._read(key) if key in self._numbers else None
        if request is not None:
            self._numbers[key] -= 1
            self._total -= 1
            if not self._numbers[key]:
                del self._numbers[key]
        return request

    def clear(self, key: bytes) -> list[Request]:
        """Return all requests with *key*, which are not kept any more."""
        self._total -= self._numbers.pop(key, 0)
        return list(self._requests.pop(key, ()))

    def _write(self, key: bytes, request: Request) -> None:
        self._requests.setdefault(key, deque()).append(request)

    def _read(self, key: bytes) -> Request | None:
        found = self._requests.get(key)
        request = found.popleft() if found else None
        if not found:
            self._requests.pop(key, None)
        return request


class DatabaseShelf(Shelf):
    """Requests in the *database* of the crawl; of these, memory has the keys.

    What cannot be serialized is in memory alone, and what this run cannot read is left to another.
    """

    def __init__(self, database: Database, spider: Spider | None) -> None:
        super().__init__()
        self._rows, self._spider = RequestTable(database, "twin", "key", bytes), spider
        self.damaged = self._rows.damaged
        self._numbers = self._rows.counts()
        self._total = sum(self._numbers.values())

    def clear(self, key: bytes) -> list[Request]:
        ids = list(self._rows.ids(key))
        found = [decoded(self._rows.request(id_), self._spider) for id_ in ids]
        self._rows.delete(ids)
        return [request for request in found if request is not None] + super().clear(key)

    def _write(self, key: bytes, request: Request) -> None:
        try:
            self._rows.insert(key, encoded(request, self._spider))
        except ValueError:
            super()._write(key, request)

    def _read(self, key: bytes) -> Request | None:
        for id_ in self._rows.ids(key):  # there may be thousands
            if (request := decoded(self._rows.request(id_), self._spider)) is not None:
                self._rows.delete([id_])
                return request
        return super()._read(key)


class DiskQueue:
    """One of the queues that Scrapy's priority queue makes, for one priority and one host.

    `push` raises `ValueError` for a request that cannot be serialized. `pop` leaves a request whose
    callback this spider does not have to another run.
    """

    newest: ClassVar[bool]  #: whether the newest request is the first one out
    stock: ClassVar[type]  #: Scrapy's own queue of that order

    @classmethod
    def from_crawler(cls, crawler: Crawler, key: str) -> Self:
        queue = components_of(crawler).find(RequestQueue)
        if queue is None:
            # No ValueError: Scrapy's scheduler takes that for a request it cannot serialize.
            raise StoreError(
                f"{cls.__qualname__} is a queue of SCHEDULER = 'scrapy_urlnorm.Scheduler'; this "
                f"crawl has {crawler.settings['SCHEDULER']!r}"
            )
        return cls(queue, key.rpartition(f"{FOLDER}/")[2])

    def __init__(self, queue: RequestQueue, name: str) -> None:
        self._queue, self._name = queue, name

    def push(self, request: Request) -> None:
        self._queue.push(self._name, request)

    def pop(self) -> Any:
        return self._queue.pop(self._name, newest=self.newest)

    def close(self) -> None:
        """Do nothing: the scheduler closes the database."""

    def __len__(self) -> int:
        return self._queue.waiting(self._name)


class LifoDiskQueue(DiskQueue):
    """The newest request first: a crawl in depth-first order."""

    newest = True
    stock = PickleLifoDiskQueue


class FifoDiskQueue(DiskQueue):
    """The oldest request first: a crawl in breadth-first order."""

    newest = False
    stock = PickleFifoDiskQueue
