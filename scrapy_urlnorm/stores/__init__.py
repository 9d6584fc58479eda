"""Seen-sets: which keys were seen, in memory or in a file.

``open_store`` turns what a setting says into a store. A store on disk carries its format, the key
version and the digest of the rules that its keys were made with; opened with others, it refuses.
"""

from __future__ import annotations

from typing import Any, Protocol

from ..exceptions import ConfigError
from .file import FileStore
from .memory import MemoryStore

__all__ = ["FileStore", "MemoryStore", "Seen", "open_store"]

ACCEPTED = "memory, file:PATH"


class Seen(Protocol):
    """A set of keys (1 to 255 bytes each); `StoreError` when it cannot do its work."""

    def open(self) -> None: ...
    def add(self, key: bytes) -> bool:
        """Put *key* in; True when it was not there."""
        ...

    def __contains__(self, key: bytes) -> bool: ...
    def forget(self, key: bytes) -> None: ...
    def __len__(self) -> int: ...
    def close(self) -> None: ...


def open_store(
    spec: str, *, digest: str, key_version: int = 1, jobdir: str | None = None, **options: Any
) -> Seen:
    """Return the store that *spec* names, not yet opened; `ConfigError` for an unknown one."""
    kind, _, rest = spec.partition(":")
    if options:
        raise ConfigError(f"unknown option {next(iter(options))!r} of the store {spec!r}")
    if kind == "memory" and not rest:
        return MemoryStore()
    if kind == "file" and rest:
        return FileStore(rest, digest=digest, key_version=key_version)
    raise ConfigError(f"{spec!r} is not a store; accepted: {ACCEPTED}")
