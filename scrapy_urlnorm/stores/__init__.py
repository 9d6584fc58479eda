"""Stores: what a crawl has seen, in memory, on disk or in Redis.

``memory``          lost at the end of the crawl; 13 to 19 bytes a key
``file:PATH``       an append-only file; the keys are in memory as well
``lmdb:PATH``       on disk, resident memory does not grow with it (extra ``disk``)
``redis://...``     shared by many crawlers (extra ``redis``); see `redis_url.parse_redis`

>>> with open_store("memory", digest="0" * 16) as seen:
...     seen.add(b"key"), seen.add(b"key")
(True, False)
"""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.exceptions import ConfigError, MissingExtraError
from scrapy_urlnorm.stores.fallback import SeenWithFallback
from scrapy_urlnorm.stores.file import FileSeen
from scrapy_urlnorm.stores.memory import MemorySeen
from scrapy_urlnorm.stores.seen import Identity, Seen

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FileSeen", "Identity", "MemorySeen", "Seen", "default_spec", "open_store"]

logger = logging.getLogger(__name__)


# The files of a crawl in JOBDIR, for whoever writes them and for whoever reads them later.
FILE_NAME = "urlnorm.seen"  #: the store, append-only
LMDB_NAME = "urlnorm.lmdb"  #: the store, where lmdb is installed
PENDING_NAME = "urlnorm.pending"  #: waiting requests, pages that arrived, what is withheld (SQLite)
DROPS_NAME = "urlnorm.drops"  #: the record of dropped requests (SQLite)
RULES_NAME = "urlnorm-rules.toml"  #: learned rules
ROWS_NAME = "urlnorm-report.jsonl.gz"  #: the crawl log that a report is made from


class _Crawl(NamedTuple):
    """The crawl that a store belongs to."""

    identity: Identity
    jobdir: str | None
    spider: str | None


def _memory(spec: str, crawl: _Crawl) -> Seen:
    return MemorySeen()


def _file(spec: str, crawl: _Crawl) -> Seen:
    return FileSeen(_path(spec, crawl.jobdir, FILE_NAME), crawl.identity)


def _lmdb(spec: str, crawl: _Crawl) -> Seen:
    try:
        from scrapy_urlnorm.stores.lmdb import LmdbSeen
    except ImportError as error:
        raise MissingExtraError("lmdb", "disk", f"the store {spec!r}") from error
    return LmdbSeen(_path(spec, crawl.jobdir, LMDB_NAME), crawl.identity)


def _redis(spec: str, crawl: _Crawl, **options: object) -> Seen:
    try:
        from scrapy_urlnorm.stores.redis import RedisSeen
        from scrapy_urlnorm.stores.redis_url import parse_redis
    except ImportError as error:
        raise MissingExtraError("redis", "redis", "a store in Redis") from error
    place, ours = parse_redis(spec, options, crawl.spider)
    store = RedisSeen(place, crawl.identity, prefix=ours.prefix, ttl=ours.ttl, wait=ours.wait)
    if not ours.fallback:
        return store
    kind = ours.fallback.partition(":")[0]
    if kind not in _LOCAL:
        raise ConfigError(f"fallback={ours.fallback!r} of {store.name}; accepted: {_LOCAL_WORDS}")
    return SeenWithFallback(store, _LOCAL[kind](ours.fallback, crawl))


def _path(spec: str, jobdir: str | None, name: str) -> Path:
    path = spec.partition(":")[2]
    if path:
        return Path(path)
    if jobdir:
        return Path(jobdir, name)
    raise ConfigError(f"store {spec!r} names no path, and there is no JOBDIR to put it in")


_LOCAL: dict[str, Callable[..., Seen]] = {"memory": _memory, "file": _file, "lmdb": _lmdb}
_LOCAL_WORDS = "memory, file:PATH, lmdb:PATH"
_KINDS = _LOCAL | dict.fromkeys(
    ("redis", "rediss", "unix", "redis+cluster", "rediss+cluster", "redis+sentinel"), _redis
)
_ACCEPTED = f"{_LOCAL_WORDS}, redis://HOST:PORT/DB"


def open_store(
    spec: str,
    *,
    digest: str,
    key_version: int = 1,
    jobdir: str | None = None,
    spider: str | None = None,
    **options: object,
) -> Seen:
    """Return the store that *spec* names, not opened yet.

    *digest* and *key_version* are those of the normalizer that makes the keys; a lasting store
    that was made with others refuses to `open`. ``file`` and ``lmdb`` without a path mean a file
    in *jobdir*. *spider* replaces ``%(spider)s`` in the prefix of a store in Redis. *options* are
    those of the kind of store.

    Raises `ConfigError` for an unknown *spec* or option, or when the prefix needs *spider* and
    there is none; `MissingExtraError` when the store needs a package that is not installed.
    """
    kind, _, _ = spec.partition(":")
    make = _KINDS.get(kind)
    if (
        make is None
        or (make is _redis and "://" not in spec)
        or (kind == "memory" and spec != kind)
    ):
        raise ConfigError(f"unknown store {spec!r}; accepted: {_ACCEPTED}")
    try:
        return make(spec, _Crawl(Identity(digest, key_version), jobdir, spider), **options)
    except TypeError as error:
        raise ConfigError(
            f"store {spec!r} does not take the options {', '.join(map(repr, options))}"
        ) from error


def default_spec(jobdir: str | None) -> str:
    """Return the store, as `open_store` takes it, of a crawl whose settings name none.

    Without *jobdir* it is in memory. In *jobdir* it is the store that is there already; else LMDB
    when the package ``lmdb`` is installed (extra ``disk``); else an append-only file, and the log
    says why.
    """
    if jobdir is None:
        return "memory"
    file, lmdb = Path(jobdir, FILE_NAME), Path(jobdir, LMDB_NAME)
    if lmdb.exists():
        return f"lmdb:{lmdb}"
    if file.exists():
        return f"file:{file}"
    if importlib.util.find_spec("lmdb"):
        return f"lmdb:{lmdb}"
    logger.info(
        "Seen keys are kept in an append-only file and in memory: the package lmdb, which keeps "
        "them on disk alone, is not installed (pip install 'scrapy-urlnorm[disk]')"
    )
    return f"file:{file}"
