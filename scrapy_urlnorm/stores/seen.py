"""Seen: the one contract of all stores, and the identity that a lasting store carries.

`SharedPages` is what crawlers at one store tell each other about pages that arrived.
"""

from __future__ import annotations

import json
import secrets
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.exceptions import StoreError, StoreMismatchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from typing_extensions import Self


class Seen(ABC):
    """A set of keys that a crawl has seen. A key is bytes, at least one.

    A store that cannot answer raises `StoreError`. It never guesses. After an error the caller may
    make the same call again.
    """

    name: str  #: the store in words, for messages: kind and place, no password
    is_shared = False  #: whether other crawlers may use it at the same time

    def open(self) -> None:  # noqa: B027 - a store may have nothing to open
        """Connect to the store, or read it. The second of two calls does nothing.

        Raises `StoreMismatchError` when the store was made with other rules, and another
        `StoreError` when it cannot be used.
        """

    @abstractmethod
    def add(self, key: bytes) -> bool:
        """Add *key*; return whether it was new.

        Atomic: when several crawlers add a key at once, one of them is told that it is new.
        """

    def add_many(self, keys: Iterable[bytes]) -> int:
        """Add *keys*, as fast as the store can; return how many were new."""
        return sum(map(self.add, keys))

    @abstractmethod
    def __contains__(self, key: object) -> bool: ...

    @abstractmethod
    def forget(self, key: bytes) -> bool:
        """Take *key* out; return whether the store had it."""

    @abstractmethod
    def __len__(self) -> int: ...

    def leave_notes(self, notes: Mapping[str, str]) -> None:  # noqa: B027 - nobody to read them
        """Leave *notes*, text by name, for the other crawlers at a shared store.

        A note replaces an older one of the same name.
        """

    def notes(self) -> dict[str, str]:
        """Return the notes, text by name, that all crawlers left at a shared store."""
        return {}

    def shared_pages(self) -> SharedPages:
        """Return the pages of all crawlers at a shared store.

        Raises `StoreError` when this store is not shared.
        """
        raise StoreError(f"{self.name} is not shared, so it has no pages of other crawlers")

    def close(self) -> None:  # noqa: B027 - or to close
        """Write what is not written yet, and free the store for other processes.

        Deletes nothing. The second of two calls does nothing.
        """

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


MAX_VALUE = 48  #: bytes of a value of `SharedPages`: a key of 20, and the digest of a content


class SharedPages(ABC):
    """Maps a cluster key to a few bytes about a page that arrived under it, at any crawler.

    Each call is one round trip. A store that cannot answer raises `StoreError`. An entry that the
    store has lost, or thrown away when memory was short, counts as no page.
    """

    @abstractmethod
    def put(self, key: bytes, value: bytes) -> None:
        """Record that a page arrived under *key*, in place of another crawler's record.

        Raises `ValueError` for a *value* of more than `MAX_VALUE` bytes.
        """

    @abstractmethod
    def get(self, key: bytes) -> bytes | None:
        """Return the value that any crawler put under *key*; ``None`` when none did."""


def key_bytes(key: object) -> bytes:
    """Return *key* as bytes; raise `TypeError` or `ValueError` if it is not a key."""
    if not isinstance(key, bytes):
        raise TypeError(f"a key is bytes, not {key!r}")
    if not key:
        raise ValueError("a key has at least one byte")
    return key


_MARK, _FORMAT, _SALT_BYTES = b"scrapy-urlnorm seen ", 2, 16


class Identity(NamedTuple):
    """The rules and formats that a lasting store was made with. The store keeps them with its keys."""

    digest: str  #: of the normalizer: rules, options, lists, site rules
    key_version: int = 1  #: of this package's keys
    format: int = _FORMAT  #: of the stores' own layouts
    salt: bytes = b""  #: of the store's hashes, so that nobody can make two URLs with one hash

    def salted(self) -> Identity:
        """Return the identity of a new store with a salt that no other store has."""
        return self._replace(salt=secrets.token_bytes(_SALT_BYTES))

    def to_bytes(self) -> bytes:
        """Return one line, without its end."""
        return _MARK + json.dumps({**self._asdict(), "salt": self.salt.hex()}).encode("ascii")

    @classmethod
    def from_bytes(cls, line: bytes, where: str) -> Identity:
        """Read a line of `to_bytes`; raise `StoreMismatchError`, naming *where*, for any other."""
        # Hostile JSON can be nested too deep, or name a number that is too large.
        with suppress(ValueError, KeyError, TypeError, RecursionError, OverflowError):
            if line.startswith(_MARK):
                fields = dict(json.loads(line[len(_MARK) :]))
                salt = bytes.fromhex(fields.get("salt", ""))
                numbers = int(fields["key_version"]), int(fields["format"])
                found = cls(str(fields["digest"]), *numbers, salt)
                if len(salt) == _SALT_BYTES or found.format != _FORMAT:
                    return found
        raise StoreMismatchError(
            f"{where} is not a store of this package, it begins with {line[:40]!r}: name another "
            "place, or move it away to start anew there"
        )

    def require(self, found: Identity, where: str, anew: str) -> None:
        """Raise `StoreMismatchError` unless *found*, read from *where*, fits this one.

        The salts may differ. *anew* tells the user how to start anew with an empty store.
        """
        if found[:3] == self[:3]:
            return
        raise StoreMismatchError(
            f"{where} was made with {found._in_words()}; this crawl has {self._in_words()}. Its "
            "keys mean nothing under other rules. Three ways on: "
            f"start anew ({anew}); "
            "keep the old rules (the settings and site rules, or the version of scrapy-urlnorm, "
            "that it was made with); "
            "or make the keys again with `scrapy-urlnorm rekey`, from a log of the URLs crawled "
            "(--anew keeps the requests that wait in a database)"
        )

    def _in_words(self) -> str:
        return f"rules {self.digest}, key version {self.key_version}, format {self.format}"
