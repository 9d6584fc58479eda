"""WARC files (ISO 28500), as wget, browsertrix and the Internet Archive write them.

The content of a page is found as in a crawl: by its visible text. The reader, warcio, comes with
the extra ``learn``.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.exceptions import LogFormatError, MissingExtraError
from scrapy_urlnorm.logs.source import open_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_urlnorm.logs.source import Log


_MAX_BODY = 64 << 20  # bytes; what is larger is no page, and would have to fit into memory


def matches(path: str) -> bool:
    """Whether the file is called ``.warc`` or ``.warc.gz``, or begins as a WARC file does."""
    name = Path(path).name.lower()
    if name.endswith((".warc", ".warc.gz")):
        return True
    return Path(path).is_file() and _begins_as_warc(path)


def _begins_as_warc(path: str) -> bool:
    with open_log(path) as stream:
        try:
            return stream.read(5) == b"WARC/"
        except (EOFError, zlib.error, gzip.BadGzipFile):
            return False


def rows(path: str, log: Log) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the row of each response. Requests, metadata and revisits have none.

    A response with a body of more than 64 MiB has none either. A row is named by its number among the records of the file.
    """
    try:
        from warcio.archiveiterator import ArchiveIterator  # type: ignore[import-untyped]  # no types
        from warcio.exceptions import ArchiveLoadFailed  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtraError("warcio", "learn", "reading a WARC file") from error

    from scrapy_urlnorm.logs.response_row import Responses

    if not _begins_as_warc(path):
        raise LogFormatError(f"{path}: it does not begin with a WARC record")
    responses = Responses()
    number = 0
    with Path(path).open("rb") as stream:
        records = iter(ArchiveIterator(stream))
        while True:
            number += 1
            try:
                record = next(records, None)
                if record is None:
                    break
                if record.rec_type != "response" or record.http_headers is None:
                    continue
                parts = _parts(record)
                row = responses.row(*parts) if parts else None
            except (ValueError, EOFError, ArchiveLoadFailed) as error:
                log.bad(number, f"the record cannot be read ({error})")
                if isinstance(error, ValueError):
                    continue
                return
            if row is not None:
                yield number, row


def _parts(record: Any) -> tuple[str, int, list[tuple[str, str]], bytes] | None:
    """Return URL, status, headers and body; transfer coding is taken off, content coding is not.

    ``None`` where the body is too large.
    """
    url = record.rec_headers.get_header("WARC-Target-URI") or ""
    if not url:
        raise ValueError("it has no WARC-Target-URI")
    status = record.http_headers.get_statuscode()
    if not status.isdigit():
        raise ValueError(f"its HTTP status is {status!r}")
    stream = _unchunked(record)
    body = bytearray()
    while part := stream.read(1 << 20):
        body += part
        if len(body) > _MAX_BODY:
            return None
    if record.raw_stream.limit > 0:
        raise EOFError(f"{record.raw_stream.limit} bytes are missing at its end")
    # Older writers put the URL into angle brackets, as the grammar of WARC 1.0 has it.
    return url.strip("<>"), int(status), record.http_headers.headers, bytes(body)


def _unchunked(record: Any) -> Any:
    from warcio.bufferedreaders import ChunkedDataReader  # type: ignore[import-untyped]

    coding = record.http_headers.get_header("Transfer-Encoding") or ""
    if "chunked" in coding.lower():
        return ChunkedDataReader(record.raw_stream)  # what is not chunked after all stays as it is
    return record.raw_stream
