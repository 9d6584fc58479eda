"""SharedWitnesses: which pages arrived under a learned key, told by all crawlers of a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_VALUE = 48  #: bytes of a value: a key of 20, and the digest of a content


class SharedWitnesses(ABC):
    """Maps a learned key to what is known of a page that arrived under it.

    Each call is one round trip. Whatever the store cannot do is a `StoreError`; what it has lost,
    or thrown away when memory was short, is no witness.
    """

    @abstractmethod
    def put(self, key: bytes, value: bytes) -> None:
        """Say that a page arrived under *key*. What another crawler said of it goes.

        Raises `ValueError` for a *value* of more than `MAX_VALUE` bytes.
        """

    @abstractmethod
    def get(self, key: bytes) -> bytes | None:
        """Return what was put under *key*, by any crawler; ``None`` when nothing was."""

    @abstractmethod
    def drop(self, keys: Iterable[bytes]) -> None:
        """Take out *keys*: their pages are witnesses no more."""
