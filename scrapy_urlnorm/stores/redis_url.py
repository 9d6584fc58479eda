"""URLs of a store in Redis, and the options in their query strings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.retry import Retry
from redis.sentinel import Sentinel

from scrapy_urlnorm.exceptions import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from urllib.parse import SplitResult

SPIDER = "%(spider)s"  #: stands in a prefix for the name of the spider, as in scrapy-redis's keys
DEFAULT_PREFIX = f"{SPIDER}:urlnorm"
DEFAULT_WAIT = 5.0  #: seconds to wait for one server
FAILOVER_WAIT = 60.0  #: and for a cluster or sentinels, which need time to promote a replica
DEFAULT_TIMEOUT = 5.0  #: seconds, or what is left of the time to wait if that is less
_SENTINEL_PORT = 26379

_TIMEOUTS = ("socket_connect_timeout", "socket_timeout")

#: Options of redis-py that a store takes, besides those that begin with ``ssl_``.
_REDIS_PY = frozenset(
    ("client_name", "db", "health_check_interval", "max_connections", "password", "protocol",
     "socket_connect_timeout", "socket_keepalive", "socket_timeout", "username")
)  # fmt: skip


@dataclass(frozen=True)
class Place:
    """A Redis: its name for messages, without a password, and how to connect to it."""

    name: str
    connect: Callable[[float], Any]  #: makes a client that waits at most so many seconds
    is_alone: bool = True  #: a single server, whose client does not look for another one


@dataclass(frozen=True)
class Options:
    """Options of a Redis store; see `RedisSeen`, and `SeenWithFallback` for *fallback*."""

    prefix: str = DEFAULT_PREFIX
    ttl: int = 0
    wait: float = DEFAULT_WAIT
    fallback: str = ""


def parse_redis(
    spec: str, options: Mapping[str, object], spider: str | None = None
) -> tuple[Place, Options]:
    """Read the URL of a Redis store; *options* take precedence over its query string.

    ``%(spider)s`` in a prefix stands for *spider*. The query is percent-decoded: ``%(spider)s``
    is no escape and stays, ``%25(spider)s`` becomes the same. No other ``%`` has a meaning.

    ``redis://``, ``rediss://`` and ``unix://`` are as redis-py takes them; ``redis+cluster://``
    and ``rediss+cluster://`` name any node of a cluster, and
    ``redis+sentinel://HOST:PORT,HOST:PORT/SERVICE/DB`` the sentinels of a service.

    Raises `ConfigError` for an unknown option or a bad value, and for a prefix that needs the
    spider when *spider* is None.
    """
    parts = urlsplit(spec)
    name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    given: dict[str, Any] = {**dict(parse_qsl(parts.query, True)), **options}
    ours = {key: given.pop(key) for key in list(given) if key in Options.__dataclass_fields__}
    for key in given:
        if key not in _REDIS_PY and not key.startswith("ssl_"):
            accepted = sorted(_REDIS_PY | Options.__dataclass_fields__.keys())
            raise ConfigError(
                f"unknown option {key!r} of the store {name}; accepted: {', '.join(accepted)}, "
                "ssl_..."
            )
    timeouts = _numbers(dict.fromkeys(_TIMEOUTS, DEFAULT_TIMEOUT), given, name)
    for key in _TIMEOUTS:
        given.pop(key, None)
    parts = parts._replace(query=urlencode(given))
    place = _place(parts, name, timeouts)
    wait = DEFAULT_WAIT if place.is_alone else FAILOVER_WAIT
    return place, _options(ours, name, spider, wait)


def _options(given: Mapping[str, Any], name: str, spider: str | None, wait: float) -> Options:
    values = {**given, **_numbers({"ttl": 0, "wait": wait}, given, name)}
    values["prefix"] = _prefix(values.get("prefix", DEFAULT_PREFIX), name, spider)
    return Options(**values)


def _numbers(
    defaults: Mapping[str, float], given: Mapping[str, Any], name: str
) -> dict[str, float]:
    """Return those in *given* that have a default, as numbers of its type."""
    return {
        key: _number(key, given[key], type(default), name) if key in given else default
        for key, default in defaults.items()
    }


def _number(key: str, value: Any, kind: type[float], name: str) -> float:
    try:
        number = kind(value)
        if number >= 0:
            return number
    except (TypeError, ValueError, OverflowError):
        pass
    accepted = "whole seconds, 0 for none" if kind is int else "seconds"
    raise ConfigError(f"{key}={value!r} of the store {name}; accepted: {accepted}")


def _prefix(prefix: object, name: str, spider: str | None) -> str:
    if isinstance(prefix, str) and SPIDER in prefix:
        if spider is None:
            raise ConfigError(
                f"prefix={prefix!r} of the store {name} needs the name of a spider, and there is "
                "none here; accepted: a prefix without it, as ?prefix=SPIDER:urlnorm, or the name "
                "(on the command line --spider NAME)"
            )
        prefix = prefix.replace(SPIDER, spider)
    if not isinstance(prefix, str) or not prefix or "{" in prefix or "}" in prefix:
        raise ConfigError(f"prefix={prefix!r} of the store {name}; accepted: text without {{ or }}")
    return prefix


def _place(parts: SplitResult, name: str, timeouts: Mapping[str, float]) -> Place:
    kind = parts.scheme.partition("+")[2]
    url = f"{parts.scheme.partition('+')[0]}://{parts.netloc}{parts.path}?{parts.query}"
    # `RedisGroups` tries again itself: it has to know whether an add may have been done twice.
    never: dict[str, Any] = {"retry": Retry(NoBackoff(), 0)}

    def within(seconds: float) -> dict[str, Any]:
        return {key: min(seconds, most) for key, most in timeouts.items()}

    if kind == "sentinel":
        nodes, service, settings = _sentinels(parts, name)
        return Place(
            name,
            lambda seconds: Sentinel(nodes, **within(seconds)).master_for(
                service, **never, **within(seconds), **settings
            ),
            is_alone=False,
        )
    if kind == "cluster":
        if int(redis.__version__.partition(".")[0]) < 6:  # from 6 on *retry* is enough
            never["cluster_error_retry_attempts"] = 0
        return Place(
            name,
            lambda seconds: RedisCluster.from_url(url, **never, **within(seconds)),
            is_alone=False,
        )

    def connect(seconds: float) -> Any:
        return redis.Redis.from_url(url, **never, **within(seconds))

    try:
        connect(DEFAULT_TIMEOUT)  # this checks the URL; a client connects at its first command
    except ValueError as error:
        raise ConfigError(f"the store {name}: {error}") from error
    return Place(name, connect)


def _sentinels(
    parts: SplitResult, name: str
) -> tuple[list[tuple[str, int]], str, dict[str, object]]:
    """Return the sentinels' hosts and ports, the name of the service, and its options."""
    service, _, db = parts.path.strip("/").partition("/")
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    nodes = []
    try:
        for node in parts.netloc.rpartition("@")[2].split(","):
            host, _, port = node.rpartition(":") if ":" in node else (node, "", _SENTINEL_PORT)
            nodes.append((host.strip("[]"), int(port)))
        settings: dict[str, object] = {"db": int(db or 0), **dict(parse_qsl(parts.query))}
        if not service or not all(host for host, _ in nodes):
            raise ValueError
    except ValueError:
        raise ConfigError(
            f"the store {name}; accepted: redis+sentinel://HOST:PORT,HOST:PORT/SERVICE/DB"
        ) from None
    if user:
        settings["username"] = unquote(user)
    if password:
        settings["password"] = unquote(password)
    return nodes, service, settings
