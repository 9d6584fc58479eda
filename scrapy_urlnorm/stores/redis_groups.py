"""RedisGroups: the parts of a store in Redis, each of which Redis changes as one step."""

from __future__ import annotations

import logging
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from redis import exceptions

from scrapy_urlnorm.exceptions import StoreError, StoreMismatchError
from scrapy_urlnorm.stores.redis_connection import NO_ANSWER, RedisConnection, Script
from scrapy_urlnorm.stores.seen import SALTED, Identity, key_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_urlnorm.stores.redis_url import Place

logger = logging.getLogger(__name__)

GROUPS = 32  #: parts of a crawl's keys; in a cluster each has a slot of its own

#: What else a user may do while Redis does not answer.
_WAY_OUT = ", or let it go on meanwhile with ?fallback=memory (not with SharedScheduler)"
_LOST = -1  # a script's answer when the group is gone, or another crawler made it anew
_MAKING = b"making "  # begins an identity record while its groups are being made
_MAKE = Script.load(__package__, "group.lua")


class Call(NamedTuple):
    """One operation of a script, on the group with this number."""

    group: int
    operation: str
    arguments: tuple[Any, ...] = ()


class RedisGroups:
    """The groups of one store, each a part of its keys, and a connection to their Redis.

    A new store gets a salt, which its identity record holds. Keys are hashed with the salt. Each
    group has a mark that is made of the salt and also stands in the group itself. By the mark a
    crawler notices that Redis has lost a group, even if another crawler has made a new one of the
    same name.

    Failures of Redis are those of `RedisConnection`.
    """

    def __init__(
        self, place: Place, identity: Identity, *, prefix: str, ttl: int, wait: float
    ) -> None:
        self.name = f"the Redis store {place.name} (prefix {prefix!r})"
        self.prefix = prefix
        self.connection = RedisConnection(place, self.name, wait, _WAY_OUT)
        self._identity = identity._replace(format=SALTED)
        self._ttl = ttl
        self._salt = b""
        self._groups = [(f"{prefix}:{{{number:02x}}}", "") for number in range(GROUPS)]  # and marks

    def open(self) -> bool:
        """Connect, and make the groups of a new store; return False if it is open already."""
        if self.connection.is_open:
            return False
        self.connection.open()
        try:
            self.connection.do(self._identify)
            self.connection.do(self._check_eviction)
        except BaseException:
            self.close()
            raise
        return True

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def locate(self, key: bytes) -> tuple[int, int]:
        """Return the number of the group of *key*, and the integer for *key* in that group."""
        data = key if key else key_bytes(key)
        digest = blake2b(data, digest_size=9, key=self._salt).digest()
        return digest[8] % GROUPS, int.from_bytes(digest[:8], "big", signed=True)

    def _identify(self, client: Any) -> None:
        place = f"{self.prefix}:identity"
        record = client.get(place)
        if record is None or record.startswith(_MAKING):
            record = self._make(client, place)
        self._adopt(record)

    def _make(self, client: Any, place: str) -> bytes:
        """Make a new store, or complete one that a crawler began; return its identity record.

        Every crawler that finds a store begun completes it, so one may be killed at any moment.
        """
        new = b"%b\n%d" % (self._identity.salted().to_bytes(), self._ttl)
        client.set(place, _MAKING + new, nx=True)
        record: bytes = client.get(place) or b""
        if not record.startswith(_MAKING):
            return record
        record = record.removeprefix(_MAKING)
        self._adopt(record)
        pipeline = client.pipeline(transaction=False)
        for group, mark in self._groups:
            pipeline.execute_command("EVAL", _MAKE.text, 1, group, mark, self._ttl)
        if not all(pipeline.execute()):
            raise StoreError(
                f"{self.name} has keys, but the record of how they were made is gone: delete all "
                f"that begins with {self.prefix!r}, or name another prefix"
            )
        client.set(place, record)
        return record

    def _adopt(self, record: bytes) -> None:
        """Use the salt of an identity record; raise `StoreMismatchError` if it does not fit."""
        line, _, ttl = record.partition(b"\n")
        anew = f"name another prefix, or delete all that begins with {self.prefix!r}"
        found = Identity.from_bytes(line, self.name)
        self._identity.require(found, self.name, anew)
        if ttl != b"%d" % self._ttl:
            raise StoreMismatchError(
                f"{self.name} was made with the time to live {ttl.decode('ascii', 'replace')} (0: "
                f"none), this crawl has {self._ttl}: keep that, or {anew}"
            )
        self._salt = found.salt
        self._groups = [(group, _mark(group, found.salt)) for group, _ in self._groups]

    def _check_eviction(self, client: Any) -> None:
        """Warn when Redis would throw keys away rather than refuse new ones."""
        with suppress(exceptions.ResponseError, AttributeError):  # INFO may be forbidden
            memory = client.info("memory")
            policy = memory.get("maxmemory_policy", "noeviction")
            if memory.get("maxmemory") and (
                policy.startswith("allkeys") or (policy.startswith("volatile") and self._ttl)
            ):
                logger.warning(
                    "%(store)s: Redis is set to throw away keys when memory is short "
                    "(maxmemory-policy %(policy)s); the crawl ends when it does. With noeviction "
                    "it refuses new keys instead, and none is lost",
                    {"store": self.name, "policy": policy},
                )

    def ask(self, script: Script, call: Call) -> tuple[Any, bool]:
        """Run *script* for *call*; return its result, and whether it surely ran only once."""
        return self.connection.do(lambda client: self._run(client, script, call))

    def ask_many(self, script: Script, calls: Sequence[Call]) -> list[tuple[Any, bool]]:
        """Return for each of *calls* what `ask` returns, in one round trip for all."""
        if len(calls) == 1:
            return [self.ask(script, calls[0])]
        results, is_sure = self.connection.do(lambda client: self._run_many(client, script, calls))
        return [
            # Redis has not loaded the script yet, or the error comes again and `ask` raises it.
            self.ask(script, call)
            if isinstance(result, Exception)
            else (self._checked(script, result), is_sure)
            for call, result in zip(calls, results, strict=True)
        ]

    def _run(self, client: Any, script: Script, call: Call) -> Any:
        return self._checked(script, script.run(client, *self._arguments(call)))

    def _run_many(self, client: Any, script: Script, calls: Sequence[Call]) -> list[Any]:
        pipeline = client.pipeline(transaction=False)
        for call in calls:
            # By name: a cluster's pipeline has no method for it.
            pipeline.execute_command("EVALSHA", script.sha, *self._arguments(call))
        results: list[Any] = pipeline.execute(raise_on_error=False)
        for result in results:
            if isinstance(result, NO_ANSWER):
                raise result
        return results

    def _arguments(self, call: Call) -> tuple[Any, ...]:
        group, mark = self._groups[call.group]
        return 1, group, call.operation, mark, self._ttl, *call.arguments

    def _checked(self, script: Script, result: Any) -> Any:
        """Return *result*; raise `StoreError` if it is no answer of *script* on a whole store."""
        if result == _LOST:
            raise StoreError(
                f"{self.name} has lost its keys, or some of them (was Redis restarted without "
                "persistence, its database flushed, or memory short?): restore them from a "
                "backup, or delete what is left and start the crawl anew"
            )
        if not isinstance(result, script.answers):
            raise StoreError(f"{self.name} answers {result!r}, as no Redis does: is it one?")
        return result


def _mark(group: str, salt: bytes) -> str:
    """Return the mark of *group*, which no other group has; "" in a store without a salt."""
    if not salt:
        return ""
    digest = blake2b(group.encode(), digest_size=8, key=salt).digest()
    return str(int.from_bytes(digest, "big", signed=True))
