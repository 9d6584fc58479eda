"""RedisConnection: asks a Redis again until it answers, for a while; its failures are StoreErrors."""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha1
from importlib.resources import files
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from redis import exceptions

from scrapy_urlnorm.exceptions import StoreError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_urlnorm.stores.redis_url import Place

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
    `LEAST_TIMEOUT`. *way_out* ends the message of that error: what to do but to resume the crawl.
    """

    def __init__(self, place: Place, name: str, wait: float, way_out: str = "") -> None:
        self.name = name
        self.is_open = False
        self._place = place
        self._wait = wait
        self._way_out = way_out
        self._client: Any = None
        self._timeout = 0.0  # seconds; for the next client

    def open(self) -> None:
        """Be ready to connect at the first question."""
        self.is_open = True
        self._reconnect(self._first_timeout)

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
        give_up = monotonic() + self._wait
        is_sure = is_first = True
        pause = 0.0
        while True:
            try:
                if self._client is None:
                    self._client = self._place.connect(self._timeout)
                result = work(self._client)
            except StoreError:
                raise
            except Exception as error:
                if not _may_pass(error):
                    self._fail(error)
                is_sure = is_sure and not isinstance(error, NO_ANSWER)
                left = give_up - monotonic() - pause
                if left <= 0 and not is_first:
                    self._reconnect(self._first_timeout)
                    raise StoreUnavailableError(
                        f"{self.name} does not answer: {error}. Resume the crawl when it "
                        f"does{self._way_out}"
                    ) from error
            else:
                if not is_first:
                    self._reconnect(self._first_timeout)
                return result, is_sure
            sleep(pause)
            self._reconnect(left)
            is_first = False
            pause = min(2 * pause + 0.05, 1.0)

    @property
    def _first_timeout(self) -> float:
        return self._wait / 2

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

    def _fail(self, error: Exception) -> NoReturn:
        if "'maxmemory'" in str(error):
            raise StoreError(
                f"{self.name} is out of memory (Redis' maxmemory): nothing that was seen is lost; "
                "raise maxmemory or make room, and resume"
            ) from error
        raise StoreError(
            f"{self.name} refuses: {error}. Set that right and resume, or name another place for "
            "the store"
        ) from error
