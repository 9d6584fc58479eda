"""Scrapy's HTTP cache: the folder of a spider, or its dbm file (``SPIDER.db``).

Every response of the crawl is there as it came over the wire. Rows come in the order of the
crawl, by the time at which each response was stored.
"""

from __future__ import annotations

import ast
import dbm
import gzip
import io
import pickle
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from w3lib.http import headers_raw_to_dict

from scrapy_urlnorm.exceptions import LogFormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from scrapy_urlnorm.logs.source import Log

_GZIP_MAGIC = b"\x1f\x8b"


class _Stored(NamedTuple):
    url: str
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


def matches(path: str) -> bool:
    """Whether it is a folder as FilesystemCacheStorage makes it, or a file of DbmCacheStorage."""
    if Path(path).is_dir():
        return next(Path(path).glob("*/*/pickled_meta"), None) is not None
    return path.endswith(".db") and bool(dbm.whichdb(path))


def rows(path: str, log: Log) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the row of each response to a GET."""
    from scrapy_urlnorm.logs.response_row import Responses

    responses = Responses()
    found = _in_folder(path) if Path(path).is_dir() else _in_dbm(path)
    for number, read in enumerate(found, start=1):
        try:
            stored = read()
            row = None if stored is None else responses.row(*stored)
        except _DAMAGED as error:
            log.bad(number, f"the response cannot be read ({error!r})")
            continue
        if row is not None:
            yield number, row


#: What damaged files raise.
_DAMAGED = (
    *(ValueError, TypeError, LookupError, SyntaxError, MemoryError, RecursionError),
    *(EOFError, OSError, pickle.UnpicklingError, AttributeError),
)


# --- FilesystemCacheStorage -----------------------------------------------------------------------


def _in_folder(path: str) -> Iterator[Callable[[], _Stored | None]]:
    """Yield a function for each response that reads it."""
    folders = [meta.parent for meta in Path(path).glob("*/*/pickled_meta")]
    for folder in sorted(folders, key=_stored_at):
        yield partial(_of_folder, folder)


def _stored_at(folder: Path) -> float:
    try:
        return float(_meta(folder)["timestamp"])
    except _DAMAGED:
        return 0.0  # reading it fails again, and is reported then


def _meta(folder: Path) -> dict[str, Any]:
    # Beside it stands the same as a pickle; this one can be read without running anything.
    return dict(ast.literal_eval(_read(folder / "meta").decode()))


def _of_folder(folder: Path) -> _Stored | None:
    meta = _meta(folder)
    if meta.get("method") != "GET":
        return None
    headers = headers_raw_to_dict(_read(folder / "response_headers")) or {}
    return _Stored(
        meta["url"], int(meta["status"]), _pairs(headers), _read(folder / "response_body")
    )


def _read(path: Path) -> bytes:
    """Return what is in a file, which is gzipped where ``HTTPCACHE_GZIP`` is set.

    The body may have come gzipped from the site, so the file of the headers tells.
    """
    data = path.read_bytes()
    with path.with_name("response_headers").open("rb") as headers:
        return gzip.decompress(data) if headers.read(2) == _GZIP_MAGIC else data


# --- DbmCacheStorage ------------------------------------------------------------------------------


def _in_dbm(path: str) -> Iterator[Callable[[], _Stored | None]]:
    """Yield a function for each response that reads it. The file does not tell the method."""
    try:
        with dbm.open(path, "r") as database:
            keys: Any = database.keys()  # an older gdbm cannot be iterated
            times = [(float(database[key]), key) for key in keys if key.endswith(b"_time")]
            for _, key in sorted(times):
                yield partial(_of_dbm, database, key.removesuffix(b"_time") + b"_data")
    except (*dbm.error, ValueError) as error:
        raise LogFormatError(f"{path}: {error}") from error


def _of_dbm(database: Any, key: bytes) -> _Stored:
    stored = _Plain(io.BytesIO(database[key])).load()
    return _Stored(
        str(stored["url"]), int(stored["status"]), _pairs(stored["headers"]), stored["body"]
    )


class _Plain(pickle.Unpickler):
    """Reads numbers, text, bytes and addresses, and nothing that could run."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in (("ipaddress", "IPv4Address"), ("ipaddress", "IPv6Address")):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"a response has no {module}.{name}")


def _pairs(headers: Mapping[bytes, Iterable[bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, values in headers.items() for value in values]
