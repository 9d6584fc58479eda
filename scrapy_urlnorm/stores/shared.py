"""The store in Redis: one frontier for many crawlers."""

from __future__ import annotations

import logging
from contextlib import suppress
from hashlib import blake2b, sha1
from importlib.resources import files
from itertools import islice
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from redis import exceptions

from ..exceptions import StoreError, StoreMismatchError, StoreUnavailableError
from .seen import Identity, Seen, key_bytes
from .witnesses import RedisWitnesses, SharedWitnesses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from .redis_url import Place

logger = logging.getLogger(__name__)

GROUPS = 32  #: parts of a crawl's keys, each in a slot of its own in a cluster


class Script(NamedTuple):
    """A script on a group, for Redis to run as one step; see ``table.lua``."""

    text: str
    sha: str  #: what Redis knows it by once it has it

    @classmethod
    def load(cls, name: str) -> Script:
        folder = files(__package__)
        text = "".join(folder.joinpath(part).read_text("ascii") for part in ("table.lua", name))
        return cls(text, sha1(text.encode("ascii"), usedforsecurity=False).hexdigest())


_SEEN = Script.load("seen.lua")
_WITNESSES = Script.load("witnesses.lua")
_PIPELINED = 1000
_GONE = -1  # what the script says of a group that is not there
_NO_ANSWER = (exceptions.ConnectionError, exceptions.TimeoutError)
_FAILING_OVER = (
    exceptions.ReadOnlyError,
    exceptions.ClusterDownError,
    exceptions.MasterDownError,
    exceptions.TryAgainError,
    exceptions.RedisClusterException,  # no node to be found, or none for a slot
)


class RedisSeen(Seen):
    """Keeps 69 bits of a key, in sets of integers that Redis packs: about ten bytes a key.

    A new key is wrongly taken as seen when all 69 bits (of its BLAKE2b digest) equal those of
    another. The chance that this happens even once while 100 million keys are added is 1 in
    100,000 (the birthday bound, n * n / 2 / 2**69).

    Every check is one script, run by Redis as one step, and one round trip: of many crawlers
    that add a key, one is told that it is new. Nothing is deleted when a crawl ends.

    With a time to live (*ttl*, whole seconds) a key is forgotten between one and two times as
    long after it was added; without, never.

    While Redis does not answer, an operation is tried again for *wait* seconds; then it is a
    `StoreUnavailableError`. When the answer to an add was lost, the key counts as new: its page
    may be fetched twice, and is not lost. A Redis that comes back without the keys (restarted
    without persistence) is a `StoreError` too.
    """

    is_shared = True

    def __init__(
        self, place: Place, identity: Identity, *, prefix: str, ttl: int, wait: float
    ) -> None:
        self.name = f"the Redis store {place.name} (prefix {prefix!r})"
        self._place = place
        self._identity = identity
        self._prefix = prefix
        self._ttl = ttl
        self._wait = wait
        self._redis: Any = None

    def open(self) -> None:
        if self._redis is not None:
            return
        try:
            self._retrying(self._identify)
            self._check_eviction()
        except BaseException:
            self.close()
            raise

    def _identify(self) -> None:
        if self._redis is None:
            self._redis = self._place.connect()
        identity = f"{self._prefix}:identity"
        found = self._redis.get(identity)
        if found is None:
            pipeline = self._redis.pipeline(transaction=False)
            for number in range(GROUPS):
                pipeline.hsetnx(self._group(number), "buckets", 1)
                pipeline.hget(self._group(number), "keys")
            has_keys = any(pipeline.execute()[1::2])
            # Whoever adds keys has set the identity before.
            if has_keys and not self._redis.exists(identity):
                raise StoreError(
                    f"{self.name} has keys, but what says how they were made is gone: delete all "
                    f"that begins with {self._prefix!r}, or name another prefix"
                )
            self._redis.set(identity, self._to_bytes(), nx=True)
            found = self._redis.get(identity) or b""
        line, _, ttl = found.partition(b"\n")
        anew = f"name another prefix, or delete all that begins with {self._prefix!r}"
        self._identity.require(Identity.from_bytes(line, self.name), self.name, anew)
        if int(ttl) != self._ttl:
            raise StoreMismatchError(
                f"{self.name} was made with the time to live {int(ttl)} (0: none), this crawl has "
                f"{self._ttl}: keep that, or {anew}"
            )

    def _to_bytes(self) -> bytes:
        return b"%b\n%d" % (self._identity.to_bytes(), self._ttl)

    def _check_eviction(self) -> None:
        """Warn when Redis would throw keys away rather than refuse new ones."""
        with suppress(exceptions.RedisError, AttributeError):  # not everybody may ask
            memory = self._redis.info("memory")
            policy = memory.get("maxmemory_policy", "noeviction")
            if memory.get("maxmemory") and (
                policy.startswith("allkeys") or (policy.startswith("volatile") and self._ttl)
            ):
                logger.warning(
                    "%(store)s: Redis is set to throw away keys when memory is short "
                    "(maxmemory-policy %(policy)s); pages are then crawled again. With "
                    "noeviction it says so instead",
                    {"store": self.name, "policy": policy},
                )

    def close(self) -> None:
        if self._redis is not None:
            with suppress(exceptions.RedisError, OSError):
                self._redis.close()
            self._redis = None

    def add(self, key: bytes) -> bool:
        group, member = self._locate(key)
        result, is_sure = self._retrying(lambda: self._run(_SEEN, group, "add", member))
        return bool(result == 1 or not is_sure)

    def add_many(self, keys: Iterable[bytes]) -> int:
        return sum(map(sum, map(self._add_some, _chunks(keys))))

    def _add_some(self, keys: list[bytes]) -> list[bool]:
        """Add *keys* in one round trip; of each, whether it was new."""
        calls = [(group, ("add", member)) for group, member in map(self._locate, keys)]
        return [result == 1 or not is_sure for result, is_sure in self._ask_many(_SEEN, calls)]

    def __contains__(self, key: object) -> bool:
        group, member = self._locate(key_bytes(key))
        return self._ask(group, "has", member) == 1

    def forget(self, key: bytes) -> bool:
        group, member = self._locate(key)
        return self._ask(group, "forget", member) == 1

    def __len__(self) -> int:
        return sum(self._ask(self._group(number), "len") for number in range(GROUPS))

    def leave_notes(self, notes: Mapping[str, str]) -> None:
        if notes:
            self._retrying(lambda: self._client().hset(f"{self._prefix}:notes", mapping=notes))

    def notes(self) -> dict[str, str]:
        found = self._retrying(lambda: self._client().hgetall(f"{self._prefix}:notes"))[0]
        return {name.decode(): note.decode() for name, note in found.items()}

    def witness_table(self) -> SharedWitnesses:
        return RedisWitnesses(self._locate, self._ask_of_witnesses)

    def _ask_of_witnesses(self, calls: Mapping[str, tuple[object, ...]]) -> list[bytes | None]:
        return [result for result, _ in self._ask_many(_WITNESSES, list(calls.items()))]

    def _client(self) -> Any:
        if self._redis is None:
            raise StoreError(f"{self.name} is not open")
        return self._redis

    def _ask(self, group: str, operation: str, member: int = 0) -> int:
        result: int = self._retrying(lambda: self._run(_SEEN, group, operation, member))[0]
        return result

    def _group(self, number: int) -> str:
        return f"{self._prefix}:{{{number:02x}}}"

    def _locate(self, key: bytes) -> tuple[str, int]:
        """Return the group of *key* and the integer that stands for it."""
        digest = blake2b(key if key else key_bytes(key), digest_size=9).digest()
        return self._group(digest[8] % GROUPS), int.from_bytes(digest[:8], "big", signed=True)

    def _run(self, script: Script, group: str, operation: object, *arguments: object) -> Any:
        redis = self._client()
        arguments = (1, group, operation, self._ttl, *arguments)
        try:
            result = redis.evalsha(script.sha, *arguments)
        except exceptions.NoScriptError:
            result = redis.eval(script.text, *arguments)
        return self._checked(result)

    def _ask_many(
        self, script: Script, calls: Sequence[tuple[str, tuple[Any, ...]]]
    ) -> list[tuple[Any, bool]]:
        """Run *script* for each group and arguments in *calls*, in one round trip.

        Returns of each what `_retrying` does.
        """

        def ask(call: tuple[str, tuple[Any, ...]]) -> tuple[Any, bool]:
            return self._retrying(lambda: self._run(script, call[0], *call[1]))

        if len(calls) == 1:
            return [ask(calls[0])]
        results, is_sure = self._retrying(lambda: self._pipelined(script, calls))
        return [
            # The script is not loaded there yet, or it is an error that comes again.
            ask(call) if isinstance(result, Exception) else (self._checked(result), is_sure)
            for call, result in zip(calls, results, strict=True)
        ]

    def _pipelined(self, script: Script, calls: Sequence[tuple[str, tuple[Any, ...]]]) -> list[Any]:
        pipeline = self._client().pipeline(transaction=False)
        for group, (operation, *rest) in calls:
            # By name: a cluster's pipeline has no method for it.
            pipeline.execute_command("EVALSHA", script.sha, 1, group, operation, self._ttl, *rest)
        results: list[Any] = pipeline.execute(raise_on_error=False)
        for result in results:
            if isinstance(result, _NO_ANSWER):
                raise result
        return results

    def _checked(self, result: Any) -> Any:
        if result == _GONE:
            raise StoreError(
                f"{self.name} has lost its keys (was Redis restarted without persistence, or its "
                "database flushed?): restore them from a backup, or stop and start the crawl anew"
            )
        return result

    def _retrying(self, work: Callable[[], Any]) -> tuple[Any, bool]:
        """Do *work* until Redis answers; its result, and whether it was done just once."""
        is_sure = True
        give_up = None
        pause = 0.0
        while True:
            try:
                return work(), is_sure
            except exceptions.AuthenticationError as error:
                self._fail(error)
            except (*_NO_ANSWER, *_FAILING_OVER) as error:
                is_sure = is_sure and not isinstance(error, _NO_ANSWER)
                now = monotonic()
                if give_up is None:
                    give_up = now + self._wait
                elif now + pause > give_up:
                    raise StoreUnavailableError(
                        f"{self.name} does not answer: {error}. Resume the crawl when it does, or "
                        "let it go on meanwhile with ?fallback=memory"
                    ) from error
            except exceptions.RedisError as error:
                self._fail(error)
            sleep(pause)
            pause = min(2 * pause + 0.05, 1.0)

    def _fail(self, error: Exception) -> NoReturn:
        if "'maxmemory'" in str(error):
            raise StoreError(
                f"{self.name} is out of memory (Redis' maxmemory): nothing that was seen is lost; "
                "raise maxmemory or make room, and resume"
            ) from error
        raise StoreError(f"{self.name} refuses: {error}") from error


def _chunks(keys: Iterable[bytes]) -> Iterator[list[bytes]]:
    rest = iter(keys)
    while chunk := list(islice(rest, _PIPELINED)):
        yield chunk
