"""FileStore: keys in memory, and each new one appended to a file."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import IO

from ..exceptions import StoreError, StoreMismatchError, StoreUnavailableError
from .memory import MemoryStore

logger = logging.getLogger(__name__)

FORMAT = 1
_HEADER = re.compile(rb"scrapy-urlnorm seen format=(\d+) key=(\d+) rules=([0-9a-f]+)\n")
_FLUSH_EVERY = 64  #: keys that a crash may lose: their pages are fetched once more


class FileStore(MemoryStore):
    """A header line, then for every key its length in one byte and its bytes.

    A key cut short by a crash is cut off, and said. Raises `StoreMismatchError` for a file of
    other rules, another key version or another format; the file stays as it is.
    """

    def __init__(self, path: str | os.PathLike[str], *, digest: str, key_version: int = 1) -> None:
        super().__init__()
        self._path = Path(path)
        self._header = f"scrapy-urlnorm seen format={FORMAT} key={key_version} rules={digest}\n"
        self._file: IO[bytes] | None = None
        self._unflushed = 0

    def open(self) -> None:
        """Read what is there and prepare to append."""
        if self._file is not None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = self._path.open("a+b")
        except OSError as error:
            raise StoreUnavailableError(f"{self._path} cannot be opened: {error}") from error
        try:
            self._read(file)
        except BaseException:
            file.close()
            raise
        self._file = file

    def close(self) -> None:
        """Write what is waiting; the store can be opened again."""
        if self._file is not None:
            file, self._file = self._file, None
            try:
                file.close()
            except OSError as error:
                raise StoreError(f"{self._path} cannot be written: {error}") from error
            self._buckets.clear()
            self._count = 0

    def add(self, key: bytes) -> bool:
        """Put *key* in; True when it was not there."""
        if not 0 < len(key) < 256:
            raise StoreError(f"a key has 1 to 255 bytes, this one {len(key)}")
        if self._file is None:
            raise StoreError(f"{self._path} is not open")
        is_new = super().add(key)
        if is_new:
            try:
                self._file.write(bytes((len(key),)) + key)
                self._unflushed += 1
                if self._unflushed >= _FLUSH_EVERY:
                    self._unflushed = 0
                    self._file.flush()
            except OSError as error:
                raise StoreError(f"{self._path} cannot be written: {error}") from error
        return is_new

    def forget(self, key: bytes) -> None:
        """Take *key* out for this run; the file still has it."""
        super().forget(key)

    def _read(self, file: IO[bytes]) -> None:
        file.seek(0)
        data = file.read()
        header = data[: data.find(b"\n") + 1]
        if not data or (not header and self._header.encode().startswith(data)):
            file.truncate(0)
            file.write(self._header.encode())
            file.flush()
            return
        self._check(header)
        place = len(header)
        while place < len(data):
            end = place + 1 + data[place]
            if end > len(data) or end == place + 1:
                break
            super().add(data[place + 1 : end])
            place = end
        if place < len(data):
            logger.warning(
                "%(path)s ended in a key half written: %(bytes)d bytes were cut off",
                {"path": str(self._path), "bytes": len(data) - place},
            )
            file.truncate(place)
        file.seek(0, os.SEEK_END)

    def _check(self, header: bytes) -> None:
        match = _HEADER.fullmatch(header)
        if match is None:
            raise StoreMismatchError(f"{self._path} is not a file of this package")
        if header != self._header.encode():
            raise StoreMismatchError(
                f"{self._path} was written as {header.decode().strip()!r} and cannot be opened as "
                f"{self._header.strip()!r}: its keys would not be found. Go back to the rules of "
                "before, or begin anew with another file (the pages are fetched again)."
            )
