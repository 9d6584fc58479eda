"""Caches the recent answers of a slow store."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from scrapy_urlnorm.stores.seen import Seen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scrapy_urlnorm.stores.witnesses import SharedWitnesses

SECONDS = 3.0  #: a key is remembered at least so long, and at most twice as long
MAX_KEYS = 50_000  #: remembered in each of two sets, some 10 MB in all


class SeenRecently(Seen):
    """Remembers for some seconds which keys *store* has, so that it need not be asked again.

    Every question to *store* takes a round trip. Most links of a page are also on the pages around
    it, so most questions were asked a moment ago. A key stays in a store unless another crawler
    takes it out or its time to live ends: this class notices that some seconds later.
    """

    def __init__(self, store: Seen) -> None:
        self.name = store.name
        self.is_shared = store.is_shared
        self._store = store
        self._new: set[bytes] = set()
        self._old: set[bytes] = set()
        self._turn = monotonic() + SECONDS

    def open(self) -> None:
        self._store.open()

    def add(self, key: bytes) -> bool:
        if self._remembers(key):
            return False
        is_new = self._store.add(key)
        self._new.add(key)
        return is_new

    def add_many(self, keys: Iterable[bytes]) -> int:
        return self._store.add_many(keys)

    def __contains__(self, key: object) -> bool:
        if isinstance(key, bytes) and self._remembers(key):
            return True
        is_there = key in self._store
        if is_there and isinstance(key, bytes):
            self._new.add(key)
        return is_there

    def _remembers(self, key: bytes) -> bool:
        now = monotonic()
        if now >= self._turn or len(self._new) >= MAX_KEYS:
            # After a long pause the newer set is too old as well.
            self._old = self._new if now < self._turn + SECONDS else set()
            self._new = set()
            self._turn = now + SECONDS
        return key in self._new or key in self._old

    def forget(self, key: bytes) -> bool:
        self._new.discard(key)
        self._old.discard(key)
        return self._store.forget(key)

    def __len__(self) -> int:
        return len(self._store)

    def leave_notes(self, notes: Mapping[str, str]) -> None:
        self._store.leave_notes(notes)

    def notes(self) -> dict[str, str]:
        return self._store.notes()

    def witness_table(self) -> SharedWitnesses:
        return self._store.witness_table()

    def flush(self) -> None:
        self._store.flush()

    def close(self) -> None:
        self._new, self._old = set(), set()
        self._store.close()
