"""Shelves: where twins wait, requests whose page may arrive under another spelling. See `awaiting`."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from scrapy_urlnorm.crawl.database import RequestTable, decoded, encoded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request, Spider

    from scrapy_urlnorm.stores import Database

MAX_HELD = 100_000  #: requests on a shelf


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
