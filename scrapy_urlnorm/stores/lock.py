"""One process at a time on one file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..exceptions import StoreError

if TYPE_CHECKING:
    from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: two crawls on one file are not noticed there
    fcntl = None  # type: ignore[assignment]


def lock(path: Path, name: str) -> int:
    """Open *path* to read and write, make it if it is not there, and lock it.

    Returns a descriptor: closing it, or the end of the process, unlocks the file. Raises
    `StoreError` when another process has it, `OSError` when it cannot be opened.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            if not isinstance(error, BlockingIOError):
                raise
            raise StoreError(
                f"{name} is in use by another process: wait for it to end, or name another "
                "place; many crawlers share a redis:// store"
            ) from error
    return file
