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


class Place(NamedTuple):
    """A Redis: its name for messages, without a password, and how to connect to it."""

    name: str
    connect: Callable[[float], Any]  #: makes a client that waits at most so many seconds
    is_alone: bool = True  #: a single server, whose client does not look for another one


class Options(NamedTuple):
    """Options of a Redis store; see `RedisSeen`."""

    prefix: str
    ttl: int
    wait: float


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
    known = _REDIS_PY.union(Options._fields)
    for key in given:
        if key not in known and not key.startswith("ssl_"):
            raise ConfigError(
                f"unknown option {key!r} of the store {name}; accepted: "
                f"{', '.join(sorted(known))}, ssl_..."
            )

    def number(key: str, default: float) -> Any:
        value = given.pop(key, default)
        with suppress(TypeError, ValueError, OverflowError):
            if (found := type(default)(value)) >= 0:
                return found
        accepted = "seconds" if isinstance(default, float) else "whole seconds, 0 for none"
        raise ConfigError(f"{key}={value!r} of the store {name}; accepted: {accepted}")

    ours = Options(
        _prefix(given.pop("prefix", DEFAULT_PREFIX), name, spider),
        number("ttl", 0),
        number("wait", FAILOVER_WAIT if "+" in parts.scheme else DEFAULT_WAIT),
    )
    timeouts = {key: number(key, DEFAULT_TIMEOUT) for key in _TIMEOUTS}
    return _place(parts._replace(query=urlencode(given)), name, timeouts), ours


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
    scheme, _, kind = parts.scheme.partition("+")
    url = f"{scheme}://{parts.netloc}{parts.path}?{parts.query}"
    # `RedisConnection` tries again itself: it has to know whether an add may have been done twice.
    never: dict[str, Any] = {"retry": Retry(NoBackoff(), 0)}

    def within(seconds: float) -> dict[str, Any]:
        return {key: min(seconds, most) for key, most in timeouts.items()}

    def of_sentinels(seconds: float) -> Any:
        sentinel = Sentinel(nodes, **within(seconds))
        return sentinel.master_for(service, **never, **within(seconds), **settings)

    def of_cluster(seconds: float) -> Any:
        return RedisCluster.from_url(url, **never, **within(seconds))

    def alone(seconds: float) -> Any:
        return redis.Redis.from_url(url, **never, **within(seconds))

    if kind == "sentinel":
        nodes, service, settings = _sentinels(parts, name)
        return Place(name, of_sentinels, is_alone=False)
    if kind == "cluster":
        if int(redis.__version__.partition(".")[0]) < 6:  # from 6 on *retry* is enough
            never["cluster_error_retry_attempts"] = 0
        return Place(name, of_cluster, is_alone=False)
    try:
        alone(DEFAULT_TIMEOUT)  # this checks the URL; a client connects at its first command
    except ValueError as error:
        raise ConfigError(f"the store {name}: {error}") from error
    return Place(name, alone)


def _sentinels(
    parts: SplitResult, name: str
) -> tuple[list[tuple[str, int]], str, dict[str, object]]:
    """Return the sentinels' hosts and ports, the name of the service, and its options."""
    login, _, hosts = parts.netloc.rpartition("@")
    service, _, db = parts.path.strip("/").partition("/")
    nodes = []
    try:
        for node in hosts.split(","):
            host, _, port = node.rpartition(":") if ":" in node else (node, "", _SENTINEL_PORT)
            nodes.append((host.strip("[]"), int(port)))
        settings: dict[str, object] = {"db": int(db or 0), **dict(parse_qsl(parts.query))}
        if not service or not all(host for host, _ in nodes):
            raise ValueError
    except ValueError:
        raise ConfigError(
            f"the store {name}; accepted: redis+sentinel://HOST:PORT,HOST:PORT/SERVICE/DB"
        ) from None
    user, _, password = map(unquote, login.partition(":"))
    settings |= {"username": user} if user else {}
    settings |= {"password": password} if password else {}
    return nodes, service, settings


# --- the connection -------------------------------------------------------------------------

LEAST_TIMEOUT = 1.0  #: seconds that Redis has at least to answer, however short the wait is

#: After these nobody knows whether Redis did what it was asked to do.
NO_ANSWER = (exceptions.ConnectionError, exceptions.TimeoutError, OSError)
_FAILING_OVER = (
    exceptions.ReadOnlyError,
    exceptions.ClusterDownError,
    exceptions.MasterDownError,
    exceptions.TryAgainError,
    exceptions.RedisClusterException,  # no node to be found, or none for a slot
)


def _may_pass(error: Exception) -> bool:
    if isinstance(error, exceptions.AuthenticationError):
        return False
    # A master that wants replicas and has none (min-replicas-to-write) refuses until it has.
    return isinstance(error, (*NO_ANSWER, *_FAILING_OVER)) or "NOREPLICAS" in str(error)


class Script(NamedTuple):
    """A script for Redis to run as one step."""

    text: str
    sha: str  #: by which Redis finds the script once it has it
    answers: tuple[type, ...]  #: types of the values that it returns

    @classmethod
    def load(cls, package: str, *names: str, answers: tuple[type, ...] = (int,)) -> Script:
        """Read a script from files of *package*, joined in this order."""
        folder = files(package)
        text = "".join(folder.joinpath(name).read_text("ascii") for name in names)
        return cls(text, sha1(text.encode("ascii"), usedforsecurity=False).hexdigest(), answers)

    def run(self, client: Any, *arguments: Any) -> Any:
        """Run it: *arguments* are the number of keys, the keys, and the rest."""
        try:
            return client.evalsha(self.sha, *arguments)
        except exceptions.NoScriptError:
            return client.eval(self.text, *arguments)


class RedisConnection:
    """A connection to *place*, whatever stands there: one server, a cluster, or sentinels.

    Every failure of Redis is a `StoreError` that begins with *name*. While Redis does not answer,
    it is asked again for *wait* seconds, then a `StoreUnavailableError` is raised. The first
    attempt has half of that time, the next ones what is left of it, but never less than
    `LEAST_TIMEOUT`.
    """

    def __init__(self, place: Place, name: str, wait: float) -> None:
        self.name = name
        self.is_open = False
        self._place = place
        self._wait = wait
        self._client: Any = None
        self._timeout = 0.0  # seconds; for the next client
        self._is_hurried = False  # an attempt failed: the client has less than its time

    def open(self) -> None:
        """Be ready to connect at the first question."""
        self.is_open = True
        self._reconnect(self._wait / 2)

    def close(self) -> None:
        """Close the connection."""
        self.is_open = False
        self._disconnect()

    def do(self, work: Callable[[Any], Any]) -> tuple[Any, bool]:
        """Do *work* with the client, again and again until Redis answers.

        Returns the result of *work*, and whether Redis surely did it only once.
        """
        if not self.is_open:
            raise StoreError(f"{self.name} is not open")
        if self._is_hurried:
            self._reconnect(self._wait / 2)
            self._is_hurried = False
        give_up = monotonic() + self._wait
        is_sure = is_first = True
        pause = 0.0
        while True:
            try:
                if self._client is None:
                    self._client = self._place.connect(self._timeout)
                return work(self._client), is_sure
            except StoreError:
                raise
            except Exception as error:
                if not _may_pass(error):
                    raise self._refusal(error) from error
                is_sure = is_sure and not isinstance(error, NO_ANSWER)
                left = give_up - monotonic() - pause
                self._is_hurried = True
                if left <= 0 and not is_first:
                    raise StoreUnavailableError(
                        f"{self.name} does not answer: {error}. Resume the crawl when it does"
                    ) from error
            sleep(pause)
            self._reconnect(left)
            is_first = False
            pause = min(2 * pause + 0.05, 1.0)

    def _reconnect(self, timeout: float) -> None:
        """Connect anew before the next attempt, for answers within *timeout* seconds."""
        self._timeout = max(timeout, LEAST_TIMEOUT)
        if self._place.is_alone:  # clients of a cluster or of sentinels find another server
            self._disconnect()

    def _disconnect(self) -> None:
        if self._client is not None:
            with suppress(exceptions.RedisError, OSError):
                self._client.close()
            self._client = None

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

        def ask(client: Any) -> str:
            with suppress(exceptions.ResponseError, AttributeError):  # INFO may be forbidden
                memory = client.info("memory")
                if memory.get("maxmemory"):
                    return str(memory.get("maxmemory_policy", "noeviction"))
            return ""

        policy: str = self.do(ask)[0]
        return "" if policy == "noeviction" else policy
