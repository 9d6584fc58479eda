"""SharedWitnesses: which pages arrived under a learned key, told by all crawlers of a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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


class RedisWitnesses(SharedWitnesses):
    """In the groups of a `RedisSeen`, in hashes that Redis packs: about 20 bytes and the value.

    It keeps the same 69 bits of a key as that store does, and an entry for as long as that keeps
    a key: between one and two times the time to live, without one for ever.
    """

    def __init__(
        self,
        locate: Callable[[bytes], tuple[str, int]],
        ask: Callable[[Mapping[str, tuple[object, ...]]], list[bytes | None]],
    ) -> None:
        self._locate = locate  # the group of a key and the integer that stands for it
        self._ask = ask  # the script, with arguments for each of some groups

    def put(self, key: bytes, value: bytes) -> None:
        if len(value) > MAX_VALUE:
            raise ValueError(f"a value of {len(value)} bytes: {value!r}; at most {MAX_VALUE}")
        group, entry = self._locate(key)
        self._ask({group: ("put", entry, value)})

    def get(self, key: bytes) -> bytes | None:
        group, entry = self._locate(key)
        return self._ask({group: ("get", entry)})[0]

    def drop(self, keys: Iterable[bytes]) -> None:
        groups: dict[str, list[int]] = {}
        for key in keys:
            group, entry = self._locate(key)
            groups.setdefault(group, []).append(entry)
        if groups:
            self._ask({group: ("drop", *entries) for group, entries in groups.items()})
