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
from typing import TYPE_CHECKING

from scrapy_urlnorm.exceptions import LogFormatError, naming

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader


class Log:
    """A log as the reader of a format knows it."""

    #: Whether the same lines can be read a second time from ``path``.
    can_be_reopened = False

    def __init__(
        self, path: str = "-", crawl: str | None = None, *, skip_bad: bool = False
    ) -> None:
        self.path = path  #: ``-`` is standard input
        self.crawl = crawl  #: the crawl whose lines are wanted, of a log that several wrote
        self.skip_bad = skip_bad
        self.skipped = 0  #: rows that could not be read
        self.first_bad: str | None = None  #: what was wrong with the first of them

    def bad(self, line: int, reason: str) -> None:
        """Raise LogFormatError for a row that cannot be read, or count it: see ``skip_bad``."""
        name = "standard input" if self.path == "-" else self.path
        message = f"{name}, line {line}: {reason}"
        if not self.skip_bad:
            raise LogFormatError(message)
        self.skipped += 1
        self.first_bad = self.first_bad or message


#: Bytes of the longest line that is a row. A line without an end must not fill the memory.
MAX_LINE = 16 * 1024 * 1024
SAMPLE = 20  #: lines that decide on the format of a log
GZIP_MAGIC = b"\x1f\x8b"
_PIECE = 256 * 1024  # bytes that are read at once
_BLANKS = " \t\r\n"  # no part of a line, at both of its ends
_BLANK_BYTES = _BLANKS.encode()


@contextmanager
def open_log(path: str) -> Iterator[BufferedReader]:
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


def _unpacked(stream: BufferedReader) -> BufferedReader:
    if stream.peek(2)[:2] == GZIP_MAGIC:
        return gzip.open(stream)  # type: ignore[return-value]  # a GzipFile reads like one
    return stream


def numbered_lines(stream: BufferedReader, log: Log) -> Iterator[tuple[int, str]]:
    """Yield (number, line) without line ends, and without empty lines; see `blocks`.

    Lines of another crawl than that of *log* are passed over before they are read.
    """
    # Only they have this mark: in a JSON text the quotes would be escaped.
    mark = b"" if log.crawl is None else b'"crawl":"%s"' % log.crawl.encode()
    for before, block in blocks(stream, log):
        for number, line in enumerate(block.split(b"\n"), before + 1):
            if (stripped := line.strip(_BLANK_BYTES)) and mark in stripped:
                yield number, text_of(stripped)


def blocks(stream: BufferedReader, log: Log) -> Iterator[tuple[int, bytes]]:
    """Yield (number, block): whole lines, as many as there are, and how many lines were before.

    No line of a pipe waits for the next one. The mark that some editors put in front of UTF-8 is no
    part of the first line. *log* is told what cannot be read, once all lines before it are out.
    """
    number = 0
    begun = b""  # of a line whose end was not there yet
    try:
        while line := begun + stream.readline(MAX_LINE - len(begun)):
            is_whole = len(line) < MAX_LINE or line.endswith(b"\n")
            if is_whole:
                yield number, line if number else line.removeprefix(BOM_UTF8)
            number += 1
            if not is_whole:
                log.bad(number, f"longer than {MAX_LINE} bytes")
            while line and not line.endswith(b"\n"):
                line = stream.readline(MAX_LINE)
            piece = stream.read1(min(_PIECE, MAX_LINE))
            end = piece.rfind(b"\n") + 1
            if end:
                yield number, piece[:end]
                number += piece.count(b"\n")
            begun = piece[end:]
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        log.bad(number + 1, f"the compressed data is cut off or damaged ({error})")


def text_of(data: bytes) -> str:
    """Return lines as text. Bytes that are no UTF-8 become lone surrogates, which `url_of` encodes."""
    return data.decode("utf-8", "surrogateescape")


def lines_in(block: bytes) -> list[bytes]:
    """Return the lines of a block without line ends, and without empty lines."""
    return [text for line in block.split(b"\n") if (text := line.strip(_BLANK_BYTES))]


def urls_in(block: bytes) -> list[str]:
    """Return the URLs of a block, one a line; see `url_of`."""
    urls = [url for line in text_of(block).split("\n") if (url := line.strip(_BLANKS))]
    return urls if block.isascii() else list(map(url_of, urls))


_SURROGATE = re.compile(r"[\ud800-\udfff]")


def url_of(text: str) -> str:
    """Return the URL *text* with bytes that are no UTF-8 percent-encoded.

    A client sends such a byte as it is (see `text_of`): ``%E9`` in a line in Latin-1.
    Text that is not ``scheme://...`` is no URL and stays as it is.
    """
    return with_bytes_escaped(text) if "://" in text else text


def with_bytes_escaped(text: str) -> str:
    return text if text.isascii() else _SURROGATE.sub(_percent_encode, text)


def _percent_encode(match: re.Match[str]) -> str:
    code = ord(match[0])
    # Python's "surrogateescape" makes these of bytes from 0x80 (PEP 383); others come from bad JSON.
    is_byte = 0xDC80 <= code <= 0xDCFF
    data = bytes([code - 0xDC00]) if is_byte else match[0].encode("utf-8", "surrogatepass")
    return "".join(f"%{byte:02X}" for byte in data)
