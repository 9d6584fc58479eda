"""How a Redis is reached: the URL of a store there, and a connection that asks until it answers."""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha1
from importlib.resources import files
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import redis
from redis import exceptions
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.retry import Retry
from redis.sentinel import Sentinel

from scrapy_urlnorm.exceptions import ConfigError, StoreError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from urllib.parse import SplitResult

SPIDER = "%(spider)s"  #: stands in a prefix for the name of the spider, as in scrapy-redis's keys
DEFAULT_WAIT = 5.0  #: seconds to wait for one server
FAILOVER_WAIT = 60.0  #: and for a cluster or sentinels, which need time to promote a replica
DEFAULT_TIMEOUT = 5.0  #: seconds, or what is left of the time to wait if that is less
LEAST_TIMEOUT = 1.0  #: seconds that Redis has to answer, however short the wait is

_TIMEOUTS = ("socket_connect_timeout", "socket_timeout")
#: Options that a store takes: its own, and of redis-py these and those that begin with ``ssl_``.
_OPTIONS = (
    "client_name", "db", "health_check_interval", "max_connections", "password", "prefix",
    "protocol", "socket_connect_timeout", "socket_keepalive", "socket_timeout", "ttl", "username",
    "wait",
)  # fmt: skip

#: After these nobody knows whether Redis did what it was asked to do.
NO_ANSWER = (exceptions.ConnectionError, exceptions.TimeoutError, OSError)
_FAILING_OVER = (
    exceptions.ReadOnlyError,
    exceptions.ClusterDownError,
    exceptions.MasterDownError,
    exceptions.TryAgainError,
    exceptions.RedisClusterException,  # no node to be found, or none for a slot
)


class Place(NamedTuple):
    """A Redis, and what a store there is to be like; for *ttl* see `RedisSeen`."""

    name: str  #: for messages, without a password
    connect: Callable[[float], Any]  #: makes a client that waits at most so many seconds
    prefix: str  #: of the names of all that is kept there
    ttl: int = 0
    wait: float = DEFAULT_WAIT  #: seconds to wait for an answer


def parse_redis(spec: str, spider: str | None = None) -> Place:
    """Read the URL of a Redis store, with its options in the query string.

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
    given: dict[str, Any] = dict(parse_qsl(parts.query, True))
    for key in given:
        if key not in _OPTIONS and not key.startswith("ssl_"):
            accepted = ", ".join(_OPTIONS)
            raise ConfigError(
                f"unknown option {key!r} of the store {name}; accepted: {accepted}, ssl_..."
            )

    def number(key: str, default: float) -> Any:
        value = given.pop(key, default)
        with suppress(TypeError, ValueError, OverflowError):
            if (found := type(default)(value)) >= 0:
                return found
        accepted = "seconds" if isinstance(default, float) else "whole seconds, 0 for none"
        raise ConfigError(f"{key}={value!r} of the store {name}; accepted: {accepted}")

    kind = parts.scheme.partition("+")[2]
    prefix = _prefix(given.pop("prefix", f"{SPIDER}:urlnorm"), name, spider)
    ttl, wait = number("ttl", 0), number("wait", FAILOVER_WAIT if kind else DEFAULT_WAIT)
    timeouts = {key: number(key, DEFAULT_TIMEOUT) for key in _TIMEOUTS}
    connect = _connector(parts._replace(query=urlencode(given)), name, timeouts)
    return Place(name, connect, prefix, ttl, wait)


def _prefix(prefix: str, name: str, spider: str | None) -> str:
    if SPIDER in prefix:
        if spider is None:
            raise ConfigError(
                f"prefix={prefix!r} of the store {name} needs the name of a spider, and there is "
                "none here; accepted: a prefix without it, as ?prefix=SPIDER:urlnorm, or the name "
                "(on the command line --spider NAME)"
            )
        prefix = prefix.replace(SPIDER, spider)
    if not prefix or "{" in prefix or "}" in prefix:
        raise ConfigError(f"prefix={prefix!r} of the store {name}; accepted: text without {{ or }}")
    return prefix


def _connector(
    parts: SplitResult, name: str, timeouts: Mapping[str, float]
) -> Callable[[float], Any]:
    scheme, _, kind = parts.scheme.partition("+")
    url = f"{scheme}://{parts.netloc}{parts.path}?{parts.query}"
    # `RedisConnection` tries again itself: it has to know whether an add may have been done twice.
    never: dict[str, Any] = {"retry": Retry(NoBackoff(), 0)}

    def within(seconds: float) -> dict[str, Any]:
        return {key: min(seconds, most) for key, most in timeouts.items()}

    if kind == "sentinel":
        nodes, service, settings = _sentinels(parts, name)
        return lambda seconds: Sentinel(nodes, **within(seconds)).master_for(
            service, **never, **within(seconds), **settings
        )
    if kind == "cluster":
        if int(redis.__version__.partition(".")[0]) < 6:  # from 6 on *retry* is enough
            never["cluster_error_retry_attempts"] = 0
        return lambda seconds: RedisCluster.from_url(url, **never, **within(seconds))
    try:
        redis.Redis.from_url(url)  # this checks the URL; a client connects at its first command
    except ValueError as error:
        raise ConfigError(f"the store {name}: {error}") from error
    return lambda seconds: redis.Redis.from_url(url, **never, **within(seconds))


def _sentinels(
    parts: SplitResult, name: str
) -> tuple[list[tuple[str, int]], str, dict[str, object]]:
    """Return the sentinels' hosts and ports, the name of the service, and its options."""
    login, _, hosts = parts.netloc.rpartition("@")
    service, _, db = parts.path.strip("/").partition("/")
    try:
        found = [urlsplit(f"//{node}") for node in hosts.split(",")]
        nodes = [(node.hostname or "", node.port or 26379) for node in found]
        settings: dict[str, object] = {"db": int(db or 0), **dict(parse_qsl(parts.query))}
        if not service or not all(host for host, _ in nodes):
            raise ValueError
    except ValueError:
        raise ConfigError(
            f"the store {name}; accepted: redis+sentinel://HOST:PORT,HOST:PORT/SERVICE/DB"
        ) from None
    given = zip(("username", "password"), map(unquote, login.partition(":")[::2]), strict=True)
    return nodes, service, settings | {key: value for key, value in given if value}


class Script(NamedTuple):
    """A script for Redis to run as one step."""

    text: str
    sha: str  #: by which Redis finds the script once it has it
    answers: tuple[type, ...]  #: types of the values that it returns

    @classmethod
    def load(cls, package: str, *names: str, answers: tuple[type, ...] = (int,)) -> Script:
        folder = files(package)
        text = "".join(folder.joinpath(name).read_text("ascii") for name in names)
        return cls(text, sha1(text.encode("ascii"), usedforsecurity=False).hexdigest(), answers)

    def run(self, client: Any, *arguments: Any) -> Any:
        try:
            return client.evalsha(self.sha, *arguments)
        except exceptions.NoScriptError:
            return client.eval(self.text, *arguments)


class RedisConnection:
    """A connection to *place*, whatever stands there: one server, a cluster, or sentinels.

    Every failure of Redis is a `StoreError` that begins with *name*. While Redis does not answer,
    it is asked again for the time to wait, then a `StoreUnavailableError` is raised. An attempt has
    half of that time, or `LEAST_TIMEOUT`, and there are two at least.
    """

    def __init__(self, place: Place, name: str) -> None:
        self.name = name
        self.is_open = False
        self._place = place
        self._client: Any = None

    def open(self) -> None:
        self.is_open = True  # it connects at the first question

    def close(self) -> None:
        self.is_open = False
        if self._client is not None:
            with suppress(exceptions.RedisError, OSError):
                self._client.close()
            self._client = None

    def do(self, work: Callable[[Any], Any]) -> tuple[Any, bool]:
        """Do *work* with the client, again and again until Redis answers.

        Returns the result of *work*, and whether Redis surely did it only once.
        """
        if not self.is_open:
            raise StoreError(f"{self.name} is not open")
        wait = self._place.wait
        give_up = monotonic() + wait
        is_sure = is_first = True
        pause = 0.0
        while True:
            begun = monotonic()
            try:
                if self._client is None:
                    self._client = self._place.connect(max(wait / 2, LEAST_TIMEOUT))
                return work(self._client), is_sure
            except StoreError:
                raise
            except Exception as error:
                if not _may_pass(error):
                    raise self._refusal(error) from error
                is_sure = is_sure and not isinstance(error, NO_ANSWER)
                now = monotonic()
                # Another attempt that takes as long would end too late.
                if now + pause + max(now - begun, 1e-3) > give_up and not is_first:
                    raise StoreUnavailableError(
                        f"{self.name} does not answer: {error}. Resume the crawl when it does"
                    ) from error
            sleep(pause)
            is_first = False
            pause = min(2 * pause + 0.05, 1.0)

    def _refusal(self, error: Exception) -> StoreError:
        if "'maxmemory'" in str(error):
            return StoreError(
                f"{self.name} is out of memory (Redis' maxmemory): nothing that was seen is lost; "
                "raise maxmemory or make room, and resume"
            )
        return StoreError(
            f"{self.name} refuses: {error}. Set that right and resume, or name another place for "
            "the store"
        )

    def eviction(self) -> str:
        """Return the policy by which Redis throws keys away when memory is short; "" for none."""

        def ask(client: Any) -> Any:
            with suppress(exceptions.ResponseError, AttributeError):  # INFO may be forbidden
                memory = client.info("memory")
                return memory.get("maxmemory") and memory.get("maxmemory_policy")

        return str(self.do(ask)[0] or "").replace("noeviction", "")


def _may_pass(error: Exception) -> bool:
    if isinstance(error, exceptions.AuthenticationError):
        return False
    # A master that wants replicas and has none (min-replicas-to-write) refuses until it has.
    return isinstance(error, (*NO_ANSWER, *_FAILING_OVER)) or "NOREPLICAS" in str(error)
