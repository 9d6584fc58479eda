"""Writes a crawl log that survives a killed crawl but for its last few rows; keeps its key."""

from __future__ import annotations

import gzip
import json
import os
import secrets
import zlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from scrapy_urlnorm.exceptions import LogFormatError
from scrapy_urlnorm.masking import KEY_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping


#: Rows of one gzip member: so many a killed crawl can lose. Fewer rows compress worse.
BATCH = 16
_BLOCK = 1 << 16
_BINARY = getattr(os, "O_BINARY", 0)  # Windows would change line ends


class LogWriter:
    """Appends JSON lines to a file; gzipped when its name ends in ``.gz``.

    A row at the end that a killed writer wrote half is cut off first; `cut` is the number of
    its bytes. A gzipped log is a sequence of complete members, so every row on the disk can be
    read. Only its owner may read a new file (mode 0600); an older file keeps its mode.

    Raises OSError; LogFormatError for a ``.gz`` that holds no complete member.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.rows = 0
        self._is_gzip = self.path.suffix == ".gz"
        self._batch: list[str] = []
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.cut = self._repair()
        self._file = os.fdopen(
            os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _BINARY, 0o600), "ab"
        )

    def write(self, row: Mapping[str, Any]) -> None:
        self._batch.append(json.dumps(row, separators=(",", ":")) + "\n")
        self.rows += 1
        if not self._is_gzip or len(self._batch) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Hand the waiting rows to the operating system, in one piece."""
        data = "".join(self._batch).encode("utf-8")
        self._batch.clear()
        if data:
            self._file.write(gzip.compress(data, 6, mtime=0) if self._is_gzip else data)
            self._file.flush()

    def close(self) -> None:
        """Write the waiting rows, and close the file."""
        try:
            self.flush()
        finally:
            self._file.close()

    def _repair(self) -> int:
        if not self.path.exists():
            return 0
        with self.path.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            end = self._end_of_members(file) if self._is_gzip else _end_of_lines(file)
            if end < size:
                file.truncate(end)
        return max(0, size - end)

    def _end_of_members(self, file: BinaryIO) -> int:
        """Return the offset behind the last complete gzip member (RFC 1952 section 2.2)."""
        size, end = file.tell(), 0
        file.seek(0)
        member = zlib.decompressobj(31)
        with suppress(zlib.error):
            while data := file.read(_BLOCK):
                while data:
                    member.decompress(data)
                    data = member.unused_data
                    if member.eof:
                        end = file.tell() - len(data)
                        member = zlib.decompressobj(31)
        if size and not end:
            raise LogFormatError(
                f"{self.path} is no gzipped log that could be continued: move it away, or name "
                "another file"
            )
        return end


def _end_of_lines(file: BinaryIO) -> int:
    """Return the offset behind the last complete row, and give that its line end."""
    size = at = file.tell()
    tail = b""
    while at > 0 and b"\n" not in tail:
        step = min(_BLOCK, at)
        at -= step
        file.seek(at)
        tail = file.read(step) + tail
    torn = tail[tail.rfind(b"\n") + 1 :]
    if not torn:
        return size
    try:
        json.loads(torn)
    except ValueError:
        return size - len(torn)
    file.seek(size)
    file.write(b"\n")
    return size + 1


_KEY_FILE = "urlnorm-log.key"


def mask_key(log: str | Path) -> bytes:
    """Return the key of the folder of *log*; make it for the first log there.

    All logs of a folder have one key, so that a secret has one mask in a log that is continued,
    and in logs that are mined together. The key is random, only its owner may read it, and no log
    contains it. A pipe or a device is never continued: its key is not kept.

    Raises OSError; LogFormatError if the key file holds no key.
    """
    path = Path(log)
    if path.exists() and not path.is_file():
        return secrets.token_bytes(KEY_BYTES)
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.parent / _KEY_FILE
    with suppress(FileExistsError):
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as new:
            new.write(secrets.token_bytes(KEY_BYTES))
    key = file.read_bytes()
    if len(key) != KEY_BYTES:
        raise LogFormatError(
            f"{file} has {len(key)} bytes where the key of the logs in its folder has {KEY_BYTES}: "
            "put the right one there, or remove it if no log there is to go on"
        )
    return key
