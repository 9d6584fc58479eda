"""Reads the lines of a log from a file or standard input, plain or gzipped."""

from __future__ import annotations

import errno
import gzip
import os
import re
import sys
import zlib
from codecs import BOM_UTF8
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from scrapy_urlnorm.exceptions import naming

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader


class Log(Protocol):
    """A log as the reader of a format knows it."""

    path: str
    """Of the log; ``-`` is standard input."""

    @property
    def can_be_reopened(self) -> bool:
        """Whether the same lines can be read a second time from ``path``."""

    site: str | None
    """Scheme and host for rows that name none, such as ``https://shop.example``."""

    def bad(self, line: int, reason: str) -> None:
        """Raise LogFormatError for a row that cannot be read, or count it."""


MAX_LINE = 16 * 1024 * 1024
"""Bytes of the longest line that is a row. A line without an end must not fill the memory."""

_GZIP_MAGIC = b"\x1f\x8b"


@contextmanager
def open_log(path: str) -> Iterator[BinaryIO]:
    """Open a file, or standard input for ``-``; unpack it if it begins as gzip does.

    Raises OSError, which names the file.
    """
    with naming("standard input" if path == "-" else path):
        if path != "-":
            with Path(path).open("rb") as stream:
                yield _unpacked(stream)
        elif sys.stdin is None:  # the calling program closed it
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        else:
            yield _unpacked(sys.stdin.buffer)  # type: ignore[arg-type]  # it is a BufferedReader


def _unpacked(stream: BufferedReader) -> BinaryIO:
    if stream.peek(2)[:2] == _GZIP_MAGIC:
        return gzip.open(stream)  # type: ignore[return-value]  # a GzipFile reads like one
    return stream


def numbered_lines(stream: BinaryIO, log: Log) -> Iterator[tuple[int, str]]:
    """Yield (number, line) without line ends, and without empty lines.

    The mark that some editors put in front of UTF-8 is no part of the first line. Bytes that are
    no UTF-8 become lone surrogates, so that a list of URLs can be written again byte for byte;
    `url_of` turns such a line into the URL that a client requests.
    """
    number = 0
    try:
        while raw := stream.readline(MAX_LINE):
            number += 1
            if number == 1:
                raw = raw.removeprefix(BOM_UTF8)
            if len(raw) == MAX_LINE and not raw.endswith(b"\n"):
                log.bad(number, f"longer than {MAX_LINE} bytes")
                while raw and not raw.endswith(b"\n"):
                    raw = stream.readline(MAX_LINE)
                continue
            line = raw.decode("utf-8", "surrogateescape").strip(" \t\r\n")
            if line:
                yield number, line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        log.bad(number + 1, f"the compressed data is cut off or damaged ({error})")


_SURROGATE = re.compile(r"[\ud800-\udfff]")


def url_of(text: str) -> str:
    """Return the URL *text* with bytes that are no UTF-8 percent-encoded.

    A client sends such a byte as it is (see `numbered_lines`): ``%E9`` in a line in Latin-1.
    Text that is not ``scheme://...`` is no URL and stays as it is.
    """
    return with_bytes_escaped(text) if "://" in text else text


def with_bytes_escaped(text: str) -> str:
    """Return *text* with a percent-encoded byte for each byte that is no UTF-8."""
    return text if text.isascii() else _SURROGATE.sub(_percent_encode, text)


def _percent_encode(match: re.Match[str]) -> str:
    code = ord(match[0])
    # Python's "surrogateescape" makes these of bytes from 0x80 (PEP 383); others come from bad JSON.
    is_byte = 0xDC80 <= code <= 0xDCFF
    data = bytes([code - 0xDC00]) if is_byte else match[0].encode("utf-8", "surrogatepass")
    return "".join(f"%{byte:02X}" for byte in data)
