"""A lock on a file: one process at a time may use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filelock import BaseFileLock, FileLock, Timeout

from scrapy_urlnorm.exceptions import StoreError

if TYPE_CHECKING:
    from pathlib import Path


def lock(path: Path, name: str) -> BaseFileLock:
    """Lock *path*, by a file beside it whose name ends in ``.lock`` and which is never deleted.

    ``release()``, or the end of the process, unlocks it. Raises `StoreError`, which says *name*,
    when another process has locked it, and `OSError` when the lock file cannot be made.
    """
    held = FileLock(f"{path}.lock", thread_local=False)
    try:
        held.acquire(timeout=0)
    except Timeout as error:
        raise StoreError(
            f"{name} is in use by another process: wait for it to end, or name another "
            "place; many crawlers share a redis:// store"
        ) from error
    except NotImplementedError as error:  # a file system without locks
        raise StoreError(f"cannot lock {name}: {error}; name a place on another disk") from error
    return held
