"""The store in an append-only file, which holds its keys in memory as well."""

from __future__ import annotations

import logging
import os
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, BinaryIO
from zlib import crc32

from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.stores.lock import lock
from scrapy_urlnorm.stores.memory import MemorySeen
from scrapy_urlnorm.stores.seen import Seen, key_bytes

if TYPE_CHECKING:
    from filelock import BaseFileLock

    from scrapy_urlnorm.stores.seen import Identity

logger = logging.getLogger(__name__)

_KEY_SIZE = 20
_record = Struct(f"<{_KEY_SIZE}sI")
_FORGET = 0xFFFF_FFFF  # a record with its CRC inverted deletes the key
_READ_RECORDS = 4096


class FileSeen(Seen):
    """Writes a record of 24 bytes for every key added or taken out: the key and its CRC-32.

    The file begins with a header, a line with an `Identity`. A key that has not 20 bytes is
    stored as its BLAKE2b digest of 20 bytes.

    `add` writes the key to the file, without a buffer, before it returns: a killed process loses
    nothing. When the machine itself stops, the keys are lost that the operating system had not
    written to the disk yet, and their pages are crawled again; `close` waits for the disk. The
    next `open` cuts off a record that is not whole, and says so in the log.

    The file is locked while it is open: a second crawl on it gets a `StoreError`.
    """

    def __init__(self, path: str | os.PathLike[str], identity: Identity) -> None:
        self.path = Path(path)
        self.name = f"the file {str(self.path)!r}"
        self._identity = identity
        self._memory = MemorySeen()
        self._lock: BaseFileLock | None = None
        self._file = -1  # its descriptor
        self._end = 0  # where the next record is written: behind the last whole one

    def open(self) -> None:
        if self._file >= 0:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = lock(self.path, self.name)
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
            self._file = os.open(self.path, flags, 0o666)
            self._read()
        except (OSError, ValueError) as error:  # ValueError: no system has such a path
            self._let_go()
            raise self._failure("open", error) from error
        except BaseException:
            self._let_go()
            raise

    def _read(self) -> None:
        """Read header and records; cut off what is behind the last whole record."""
        header = self._identity.to_bytes() + b"\n"
        with os.fdopen(os.dup(self._file), "rb") as file:
            line = file.readline(4096)
            if len(line) < len(header) and header.startswith(line):
                # A new file, or one whose first write was cut short.
                self._end = 0
                self._write(header)
                return
            found = self._identity.from_bytes(line, self.name)
            self._identity.require(found, self.name, f"delete {str(self.path)!r}")
            self._end = len(line)
            damaged = self._read_records(file)
        if damaged:
            logger.warning(
                "%(store)s is damaged: %(damaged)d keys in it cannot be read and count as new",
                {"store": self.name, "damaged": damaged},
            )
        torn = os.fstat(self._file).st_size - self._end
        if torn:
            logger.warning(
                "%(store)s ended in %(torn)d bytes that are no whole record, after a crash: they "
                "were cut off; keys in them count as new",
                {"store": self.name, "torn": torn},
            )
            os.ftruncate(self._file, self._end)

    def _read_records(self, file: BinaryIO) -> int:
        """Take the keys of all records into memory; return how many records are damaged.

        Bad records at the very end do not count as damaged: they are cut off.
        """
        end = self._end
        bad = 0  # records since the last good one
        damaged = 0
        while data := file.read(_record.size * _READ_RECORDS):
            whole = len(data) - len(data) % _record.size
            for key, check in _record.iter_unpack(data[:whole]):
                end += _record.size
                crc = crc32(key)
                if check == crc:
                    self._memory.add(key)
                elif check == crc ^ _FORGET:
                    self._memory.forget(key)
                else:
                    bad += 1
                    continue
                self._end = end
                damaged += bad
                bad = 0
        return damaged

    def add(self, key: bytes) -> bool:
        if len(key) != _KEY_SIZE:
            key = _digest(key)
        if key in self._memory:
            return False
        self._record(key, crc32(key))
        return self._memory.add(key)

    def __contains__(self, key: object) -> bool:
        return _digest(key_bytes(key)) in self._memory

    def forget(self, key: bytes) -> bool:
        key = _digest(key_bytes(key))
        if key not in self._memory:
            return False
        self._record(key, crc32(key) ^ _FORGET)
        return self._memory.forget(key)

    def __len__(self) -> int:
        return len(self._memory)

    def close(self) -> None:
        if self._file < 0:
            return
        try:
            os.fsync(self._file)
        except OSError as error:
            raise self._failure("write", error) from error
        finally:
            self._let_go()

    def _let_go(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        self._memory = MemorySeen()

    def _record(self, key: bytes, check: int) -> None:
        if self._file < 0:
            raise StoreError(f"{self.name} is not open")
        try:
            self._write(_record.pack(key, check))
        except OSError as error:
            raise self._failure("write", error) from error

    def _write(self, data: bytes) -> None:
        """Append *data*; after an error the next call overwrites the part that was written."""
        os.lseek(self._file, self._end, os.SEEK_SET)
        written = 0
        while written < len(data):  # a short write: the disk is filling up, the next write raises
            written += os.write(self._file, data[written:])
        self._end += len(data)

    def _failure(self, doing: str, error: Exception) -> StoreError:
        return StoreError(
            f"cannot {doing} {self.name}: {getattr(error, 'strerror', None) or error}. What was seen before is "
            "safe: set that right and resume, or name another place for the store"
        )


def _digest(key: bytes) -> bytes:
    return key if len(key) == _KEY_SIZE else blake2b(key_bytes(key), digest_size=_KEY_SIZE).digest()
