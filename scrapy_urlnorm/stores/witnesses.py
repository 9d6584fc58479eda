"""SharedWitnesses: pages that arrived under learned keys, shared by all crawlers of a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_VALUE = 48  #: bytes of a value: a key of 20, and the digest of a content


class SharedWitnesses(ABC):
    """Maps a learned key to a few bytes about a page that arrived under it.

    Each call is one round trip. A store that cannot answer raises `StoreError`. An entry that the
    store has lost, or thrown away when memory was short, counts as no witness.
    """

    @abstractmethod
    def put(self, key: bytes, value: bytes) -> None:
        """Record that a page arrived under *key*, in place of another crawler's record.

        Raises `ValueError` for a *value* of more than `MAX_VALUE` bytes.
        """

    @abstractmethod
    def get(self, key: bytes) -> bytes | None:
        """Return the value that any crawler put under *key*; ``None`` when none did."""

    @abstractmethod
    def drop(self, keys: Iterable[bytes]) -> None:
        """Take out *keys*: their pages are witnesses no more."""
