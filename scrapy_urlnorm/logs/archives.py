"""Archives that hold whole responses or tables: WARC, Scrapy's HTTP cache, Parquet.

Each becomes rows as a crawl log has them. The content of a page is found as in a crawl.
"""

from __future__ import annotations

import ast
import dbm
import gzip
import io
import pickle
import zlib
from functools import cache, partial
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from w3lib.http import headers_raw_to_dict

from scrapy_urlnorm.exceptions import LogFormatError, MissingExtraError
from scrapy_urlnorm.logs.observation import COLUMNS
from scrapy_urlnorm.logs.source import GZIP_MAGIC, open_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware

    from scrapy_urlnorm.logs.source import Log

    Rows = Iterator[tuple[int, dict[str, Any]]]
    # URL, status, headers as Scrapy's Headers takes them, body
    Stored = tuple[str, int, Any, bytes]


@cache
def _compression() -> HttpCompressionMiddleware:
    from scrapy.crawler import Crawler
    from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
    from scrapy.spiders import Spider
    from scrapy.statscollectors import DummyStatsCollector

    crawler = Crawler(Spider)  # it is never run: it holds the default settings
    crawler.stats = DummyStatsCollector(crawler)
    return HttpCompressionMiddleware(crawler=crawler)


def _row(url: str, status: int, headers: Any, body: bytes) -> dict[str, Any] | None:
    """Return the row of a response to a GET of *url*, stored as it came over the wire.

    Scrapy's own components decompress the body and choose the class of the response, so that the
    row is the one that a crawl would have written. ``None`` for a body that is too large to be
    decompressed. Raises ValueError for what no response can be made of.
    """
    from scrapy.exceptions import IgnoreRequest
    from scrapy.http import Headers, Request
    from scrapy.responsetypes import responsetypes
    from w3lib.url import safe_url_string

    from scrapy_urlnorm.logs.page_identity import redirect_row, row_of

    collected = Headers(headers)
    location = collected.get(b"Location")
    if 300 <= status < 400 and location:
        return redirect_row(url, status, safe_url_string(location))
    kind = responsetypes.from_args(headers=collected, url=url, body=body)
    packed = kind(url, status=status, headers=collected, body=body)
    try:
        response = _compression().process_response(Request(url), packed)
    except IgnoreRequest:
        return None
    assert not isinstance(response, Request)
    return row_of(response, url)


# --- WARC (ISO 28500), as wget, browsertrix and the Internet Archive write it ---------------------

_MAX_BODY = 64 << 20  # bytes; what is larger is no page, and would have to fit into memory


def _is_warc(path: str) -> bool:
    has_name = Path(path).name.lower().endswith((".warc", ".warc.gz"))
    return has_name or (Path(path).is_file() and _begins_as_warc(path))


def _begins_as_warc(path: str) -> bool:
    with open_log(path) as stream:
        try:
            return stream.read(5) == b"WARC/"
        except (EOFError, zlib.error, gzip.BadGzipFile):
            return False


def _rows_of_warc(path: str, log: Log) -> Rows:
    """Yield a row for each response, by its number among the records. Revisits have none."""
    try:
        from warcio.archiveiterator import ArchiveIterator  # type: ignore[import-untyped]  # no types
        from warcio.exceptions import ArchiveLoadFailed  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtraError("warcio", "learn", "reading a WARC file") from error

    if not _begins_as_warc(path):
        raise LogFormatError(f"{path}: it does not begin with a WARC record")
    with Path(path).open("rb") as stream:
        records = iter(ArchiveIterator(stream))
        for number in count(1):
            try:
                record = next(records, None)
                if record is None:
                    return
                stored = _of_record(record)
                row = _row(*stored) if stored else None
            except (ValueError, EOFError, ArchiveLoadFailed) as error:
                log.bad(number, f"the record cannot be read ({error})")
                if isinstance(error, ValueError):
                    continue
                return
            if row is not None:
                yield number, row


def _of_record(record: Any) -> Stored | None:
    """Return a response without its transfer coding; content coding is not taken off.

    ``None`` for another record, and where the body is too large.
    """
    from warcio.bufferedreaders import ChunkedDataReader  # type: ignore[import-untyped]

    if record.rec_type != "response" or record.http_headers is None:
        return None
    url = record.rec_headers.get_header("WARC-Target-URI") or ""
    if not url:
        raise ValueError("it has no WARC-Target-URI")
    status = record.http_headers.get_statuscode()
    if not status.isdigit():
        raise ValueError(f"its HTTP status is {status!r}")
    stream = record.raw_stream
    if "chunked" in (record.http_headers.get_header("Transfer-Encoding") or "").lower():
        stream = ChunkedDataReader(stream)  # what is not chunked after all stays as it is
    body = bytearray()
    while part := stream.read(1 << 20):
        body += part
        if len(body) > _MAX_BODY:
            return None
    if record.raw_stream.limit > 0:
        raise EOFError(f"{record.raw_stream.limit} bytes are missing at its end")
    # Older writers put the URL into angle brackets, as the grammar of WARC 1.0 has it.
    return url.strip("<>"), int(status), record.http_headers.headers, bytes(body)


# --- Scrapy's HTTP cache: the folder of a spider, or its dbm file (SPIDER.db) ---------------------

#: What damaged files raise.
_DAMAGED = (
    *(ValueError, TypeError, LookupError, SyntaxError, MemoryError, RecursionError),
    *(EOFError, OSError, pickle.UnpicklingError, AttributeError),
)


def _is_cache(path: str) -> bool:
    if Path(path).is_dir():
        return next(Path(path).glob("*/*/pickled_meta"), None) is not None
    return path.endswith(".db") and bool(dbm.whichdb(path))


def _rows_of_cache(path: str, log: Log) -> Rows:
    """Yield the row of each response to a GET, by the time at which it was stored."""
    found = _in_folder(path) if Path(path).is_dir() else _in_dbm(path)
    for number, read in enumerate(found, start=1):
        try:
            stored = read()
            row = _row(*stored) if stored else None
        except _DAMAGED as error:
            log.bad(number, f"the response cannot be read ({error!r})")
            continue
        if row is not None:
            yield number, row


def _in_folder(path: str) -> Iterator[Callable[[], Stored | None]]:
    folders = [meta.parent for meta in Path(path).glob("*/*/pickled_meta")]
    return (partial(_of_folder, folder) for folder in sorted(folders, key=_stored_at))


def _stored_at(folder: Path) -> float:
    try:
        return float(_meta(folder)["timestamp"])
    except _DAMAGED:
        return 0.0  # reading it fails again, and is reported then


def _meta(folder: Path) -> dict[str, Any]:
    # Beside it stands the same as a pickle; this one can be read without running anything.
    return dict(ast.literal_eval(_unzipped(folder / "meta").decode()))


def _of_folder(folder: Path) -> Stored | None:
    meta = _meta(folder)
    if meta.get("method") != "GET":
        return None
    headers = headers_raw_to_dict(_unzipped(folder / "response_headers"))
    return meta["url"], int(meta["status"]), headers, _unzipped(folder / "response_body")


def _unzipped(path: Path) -> bytes:
    """Return what is in a file, which is gzipped where ``HTTPCACHE_GZIP`` is set.

    The body may have come gzipped from the site, so the file of the headers tells.
    """
    data = path.read_bytes()
    with path.with_name("response_headers").open("rb") as headers:
        return gzip.decompress(data) if headers.read(2) == GZIP_MAGIC else data


def _in_dbm(path: str) -> Iterator[Callable[[], Stored]]:
    """Yield a function for each response that reads it. The file does not tell the method."""
    try:
        with dbm.open(path, "r") as database:
            keys: Any = database.keys()  # an older gdbm cannot be iterated
            times = [(float(database[key]), key) for key in keys if key.endswith(b"_time")]
            for _, key in sorted(times):
                yield partial(_of_dbm, database, key.removesuffix(b"_time") + b"_data")
    except (*dbm.error, ValueError) as error:
        raise LogFormatError(f"{path}: {error}") from error


def _of_dbm(database: Any, key: bytes) -> Stored:
    stored = _Plain(io.BytesIO(database[key])).load()
    return str(stored["url"]), int(stored["status"]), dict(stored["headers"]), stored["body"]


class _Plain(pickle.Unpickler):
    """Reads numbers, text, bytes and addresses, and nothing that could run."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in (("ipaddress", "IPv4Address"), ("ipaddress", "IPv6Address")):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"a response has no {module}.{name}")


# --- Parquet with the columns of a crawl log: a file, a folder of them, or a pattern of names -----

_TABLE = "read_parquet(?, union_by_name = true)"


def _is_parquet(path: str) -> bool:
    return path.endswith(".parquet") or (Path(path).is_dir() and any(Path(path).rglob("*.parquet")))


def _rows_of_parquet(path: str, log: Log) -> Rows:
    """Yield a row for each line of the table. Other columns are not read."""
    try:
        import duckdb
    except ImportError as error:
        raise MissingExtraError("duckdb", "learn", "reading a Parquet file") from error

    place = f"{path}/**/*.parquet" if Path(path).is_dir() else path
    with duckdb.connect() as connection:
        try:
            described = connection.execute(f"DESCRIBE SELECT * FROM {_TABLE}", [place])
            types = {row[0]: row[1] for row in described.fetchall()}
            columns = [column for column in COLUMNS if column in types]
            if "url" not in columns:
                names = ", ".join(map(repr, types))
                raise LogFormatError(f"{path}: no column 'url'; it has {names}")
            values_of = ", ".join(_select(column, types[column]) for column in columns)
            result = connection.execute(f"SELECT {values_of} FROM {_TABLE}", [place])
            fetched = iter(partial(result.fetchmany, 10_000), [])
            for number, values in enumerate(chain.from_iterable(fetched), start=1):
                pairs = zip(columns, values, strict=True)
                yield number, {key: value for key, value in pairs if value is not None}
        except (duckdb.Error, OverflowError) as error:
            raise LogFormatError(f"{path}: {str(error).splitlines()[0]}") from error


def _select(column: str, kind: str) -> str:
    """Return the SQL that gives a column of the type *kind* with values as in a crawl log.

    Writers keep digests and texts as bytes, and whole numbers that may be missing as fractions.
    """
    name = f'"{column}"'
    if kind == "BLOB":
        return f"lower(hex({name}))" if "digest" in column else f"decode({name})"
    if kind in ("FLOAT", "DOUBLE"):
        return f"CAST({name} AS BIGINT)"
    if kind == "VARCHAR" or "INT" in kind or kind.endswith("]"):
        return name
    return f"CAST({name} AS VARCHAR)"


#: Of each format, what says whether the file or folder at a path looks like it, and what yields
#: numbered rows of a crawl log, and reports bad ones to the log.
ARCHIVES: dict[str, tuple[Callable[[str], bool], Callable[[str, Log], Rows]]] = {
    "warc": (_is_warc, _rows_of_warc),
    "parquet": (_is_parquet, _rows_of_parquet),
    "httpcache": (_is_cache, _rows_of_cache),
}
