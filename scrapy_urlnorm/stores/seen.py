"""Seen: the one contract of all stores, and the identity that a lasting store carries."""

from __future__ import annotations

import json
import secrets
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.exceptions import StoreMismatchError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self


MAX_VALUE = 48  #: bytes of a page in a shared store: a key of 20, and the digest of a content


class Awaited(NamedTuple):
    """What a store knows of a key of which no page has arrived yet."""

    url: str  #: of the request that claimed it
    callback: str = ""  #: the name of its callback; "" for the spider's default
    under_way: int = 1  #: requests with the key that have not ended; 0: all have, without a page


class Seen(ABC):
    """A set of keys that a crawl has seen. A key is bytes, at least one.

    A key that was claimed is awaited until its page has arrived. So what has to be remembered grows
    with the queue and with the keys that brought no page, not with the crawl: what is there and not
    awaited has arrived.

    A store that cannot answer raises `StoreError`. It never guesses. After an error the caller may
    make the same call again.
    """

    name: str  #: the store in words, for messages: kind and place, no password
    is_shared = False  #: whether other crawlers may use it at the same time
    caches_keys = False  #: whether a shared store may say what it said some seconds ago

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

    def claim(self, key: bytes, url: str, callback: str = "") -> bool:
        """Add *key*; return whether it was new. Then its page is awaited: see `Awaited`."""
        is_new = self.add(key)
        if is_new:
            self.expect(key, Awaited(url, callback))
        return is_new

    @abstractmethod
    def awaited(self, key: bytes) -> Awaited | None:
        """Return what is known of a key whose page is awaited; ``None`` for any other."""

    @abstractmethod
    def expect(self, key: bytes, awaited: Awaited) -> None:
        """Have the page of *key*, which is there, be awaited, in place of what was known of it."""

    @abstractmethod
    def change_under_way(self, key: bytes, change: int) -> Awaited | None:
        """Count so many requests more under way, if the page of *key* is awaited.

        Return what is known of it now.
        """

    @abstractmethod
    def arrived(self, key: bytes) -> None:
        """Take note that the page of *key* is not awaited any more."""

    @abstractmethod
    def __contains__(self, key: object) -> bool: ...

    @abstractmethod
    def forget(self, key: bytes) -> bool:
        """Take *key* out; return whether the store had it."""

    @abstractmethod
    def __len__(self) -> int: ...

    def close(self) -> None:  # noqa: B027 - or to close
        """Write what is not written yet, and free the store for other processes.

        Deletes nothing. The second of two calls does nothing.
        """

    # What crawlers at a shared store tell one another; nobody reads it in a store of one's own.

    def leave_notes(self, notes: Mapping[str, str]) -> None:  # noqa: B027
        """Leave *notes*, text by name, in place of older ones of the same names."""

    def notes(self) -> dict[str, str]:
        return {}

    def put_page(self, key: bytes, value: bytes) -> None:  # noqa: B027
        """Record that a page arrived under the cluster key *key*, in place of another record.

        Raises `ValueError` for a *value* of more than `MAX_VALUE` bytes.
        """

    def page(self, key: bytes) -> bytes | None:
        """Return what any crawler put under *key*; ``None`` where none did, or it is lost."""
        return None

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def key_bytes(key: object) -> bytes:
    if not isinstance(key, bytes):
        raise TypeError(f"a key is bytes, not {key!r}")
    if not key:
        raise ValueError("a key has at least one byte")
    return key


_MARK, _FORMAT, _SALT_BYTES = b"scrapy-urlnorm seen ", 3, 16


class Identity(NamedTuple):
    """The rules and formats that a lasting store was made with. It keeps them with its keys."""

    digest: str  #: of the normalizer: rules, options, lists, site rules
    key_version: int = 1  #: of this package's keys
    format: int = _FORMAT  #: of the stores' own layouts
    salt: bytes = b""  #: of the store's hashes, so that nobody can make two URLs with one hash

    def salted(self) -> Identity:
        return self._replace(salt=secrets.token_bytes(_SALT_BYTES))

    def to_bytes(self) -> bytes:
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
            f"keys mean nothing under other rules. Two ways on: start anew ({anew}), or keep the old "
            "rules (the settings and site rules, or the version of scrapy-urlnorm, that it was made "
            "with)"
        )

    def _in_words(self) -> str:
        return f"rules {self.digest}, key version {self.key_version}, format {self.format}"
