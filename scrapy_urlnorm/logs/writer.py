"""Writes a crawl log that survives a killed crawl but for its last few rows."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.exceptions import LogFormatError

if TYPE_CHECKING:
    from collections.abc import Mapping

BATCH = 16
"""Rows of one gzip member: so many a killed crawl can lose. Fewer rows compress worse."""

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
        """Append a row."""
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
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            return 0
        end = self._end_of_members(size) if self._is_gzip else self._end_of_lines(size)
        if end < size:
            with self.path.open("r+b") as file:
                file.truncate(end)
        return max(0, size - end)

    def _end_of_members(self, size: int) -> int:
        """Return the offset behind the last complete gzip member (RFC 1952 section 2.2)."""
        end = 0
        with self.path.open("rb") as file:
            member = zlib.decompressobj(31)
            while data := file.read(_BLOCK):
                while data:
                    try:
                        member.decompress(data)
                    except zlib.error:
                        data = b""
                        file.seek(0, 2)
                        break
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

    def _end_of_lines(self, size: int) -> int:
        """Return the offset behind the last complete row, and give that its line end."""
        tail = b""
        with self.path.open("r+b") as file:
            at = size
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
