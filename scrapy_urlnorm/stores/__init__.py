"""Stores: what a crawl has seen, in memory, on disk or in Redis.

``memory``       lost at the end of the crawl; 13 to 19 bytes a key
``sqlite:PATH``  a database on disk; without a path, the one of the crawl in JOBDIR
``redis://...``  shared by many crawlers (extra ``redis``); see `redis_connection.parse_redis`

>>> with open_store("memory", digest="0" * 16) as seen:
...     seen.add(b"key"), seen.add(b"key")
(True, False)
"""

from __future__ import annotations

from pathlib import Path

from scrapy_urlnorm.exceptions import ConfigError, MissingExtraError
from scrapy_urlnorm.stores.memory import MemorySeen
from scrapy_urlnorm.stores.seen import Identity, Seen
from scrapy_urlnorm.stores.sqlite import DATABASE_NAME, Database, SqliteSeen

__all__ = ["DATABASE_NAME", "Database", "Identity", "MemorySeen", "Seen", "SqliteSeen"]

# The other files of a crawl in JOBDIR, for whoever writes them and for whoever reads them later.
RULES_NAME = "urlnorm-rules.toml"  #: learned rules
ROWS_NAME = "urlnorm-report.jsonl.gz"  #: the crawl log that a report is made from

#: What begins the URL of a store in Redis.
REDIS_SCHEMES = ("redis", "rediss", "unix", "redis+cluster", "rediss+cluster", "redis+sentinel")
_ACCEPTED = f"memory, sqlite:PATH, redis://HOST:PORT/DB; or with {', '.join(REDIS_SCHEMES[1:])}"


def open_store(
    spec: str,
    *,
    digest: str,
    key_version: int = 1,
    jobdir: str | None = None,
    spider: str | None = None,
    database: Database | None = None,
) -> Seen:
    """Return the store that *spec* names, not opened yet.

    *digest* and *key_version* are those of the normalizer that makes the keys; a lasting store
    that was made with others refuses to `open`. ``sqlite`` without a path means the database in
    *jobdir*; *database* is the one of the crawl, if a part of it has opened that already. *spider*
    replaces ``%(spider)s`` in the prefix of a store in Redis.

    Raises `ConfigError` for an unknown *spec* or option in it, or when the prefix needs *spider* and
    there is none; `MissingExtraError` when the store needs a package that is not installed.
    """
    identity = Identity(digest, key_version)
    kind, _, rest = spec.partition(":")
    if kind in REDIS_SCHEMES and rest.startswith("//"):
        try:
            from scrapy_urlnorm.stores.redis import RedisSeen
            from scrapy_urlnorm.stores.redis_connection import parse_redis
        except ImportError as error:
            raise MissingExtraError("redis", "redis", "a store in Redis") from error
        return RedisSeen(parse_redis(spec, spider), identity)
    if spec == "memory":
        return MemorySeen()
    if kind != "sqlite":
        raise ConfigError(f"unknown store {spec!r}; accepted: {_ACCEPTED}")
    path = database_path(spec, jobdir)
    if path is None:
        raise ConfigError(f"store {spec!r} names no path, and there is no JOBDIR to put it in")
    return SqliteSeen(Database(path) if database is None else database, identity)


def database_path(spec: str, jobdir: str | None) -> Path | None:
    """Return where the database of a crawl with this store is; ``None`` if it is temporary."""
    kind, _, path = spec.partition(":")
    if kind == "sqlite" and path:
        return Path(path)
    return Path(jobdir, DATABASE_NAME) if jobdir else None
