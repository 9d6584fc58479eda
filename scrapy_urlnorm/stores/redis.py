"""The store in Redis: one set of keys, and one table of pages, for many crawlers."""

from __future__ import annotations

import logging
from hashlib import blake2b
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.exceptions import StoreError, StoreMismatchError
from scrapy_urlnorm.stores.redis_connection import NO_ANSWER, RedisConnection, Script
from scrapy_urlnorm.stores.seen import MAX_VALUE, Identity, Seen, SharedPages, key_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scrapy_urlnorm.stores.redis_connection import Place

logger = logging.getLogger(__name__)

GROUPS = 32  #: parts of a crawl's keys; in a cluster each has a slot of its own
SECONDS = 3.0  #: a key is remembered at least so long, and at most twice as long
MAX_KEYS = 50_000  #: remembered in each of two sets, some 10 MB in all

_LOST = -1  # a script's answer when the group is gone, or another crawler made it anew
_MAKING = b"making "  # begins an identity record while its groups are being made
_MAKE = Script.load(__package__, "group.lua")
_PIPELINED = 1000
_SEEN = Script.load(__package__, "table.lua", "seen.lua")
_PAGES = Script.load(__package__, "table.lua", "pages.lua", answers=(bytes, type(None)))


class Call(NamedTuple):
    """One operation of a script, on the group with this number."""

    group: int
    operation: str
    arguments: tuple[Any, ...] = ()


class RedisSeen(Seen):
    """Keeps 69 bits of a key, in sets of integers that Redis packs: about ten bytes a key.

    A new key is wrongly taken as seen when all 69 bits (of its BLAKE2b digest, made with a salt
    that the store has) equal those of another. The chance that this happens even once while 100
    million keys are added is 1 in 100,000 (the birthday bound, n * n / 2 / 2**69).

    Every check is one round trip: Redis runs one script as one step. When many crawlers add a
    key at once, one of them is told that it is new. Nothing is deleted when a crawl ends.

    With a time to live (*ttl*, whole seconds) Redis forgets a key between one and two times as
    long after it was added; without one, never.

    While Redis does not answer, an operation is tried again for *wait* seconds; then it raises
    `StoreUnavailableError`. When the answer to an add was lost, the key counts as new: its page
    may be fetched twice, but is not lost. A Redis that has lost keys (restarted without
    persistence, flushed, or short of memory and set to throw keys away) raises `StoreError` too.

    The identity record has the salt. The keys lie in groups; the mark of a group is made of the
    salt, and also stands in the group itself. By it a crawler notices that Redis has lost a group,
    even if another crawler has made a new one of the same name.
    """

    is_shared = True

    def __init__(
        self, place: Place, identity: Identity, *, prefix: str, ttl: int, wait: float
    ) -> None:
        self.name = f"the Redis store {place.name} (prefix {prefix!r})"
        self.connection = RedisConnection(place, self.name, wait)
        self._identity = identity
        self._prefix = prefix
        self._ttl = ttl
        self._salt = b""
        self._groups = [(f"{prefix}:{{{number:02x}}}", "") for number in range(GROUPS)]  # and marks
        self._notes = f"{prefix}:notes"
        self._unreadable: set[bytes] = set()  # names of notes that the log has warned of

    def open(self) -> None:
        if self.connection.is_open:
            return
        self.connection.open()
        try:
            self.connection.do(self._identify)
            self._check_eviction()
            len(self)  # finds a group that is lost
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.connection.close()

    def _identify(self, client: Any) -> None:
        place = f"{self._prefix}:identity"
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
                f"that begins with {self._prefix!r}, or name another prefix"
            )
        client.set(place, record)
        return record

    def _adopt(self, record: bytes) -> None:
        """Use the salt of an identity record; raise `StoreMismatchError` if it does not fit."""
        line, _, ttl = record.partition(b"\n")
        anew = f"name another prefix, or delete all that begins with {self._prefix!r}"
        found = Identity.from_bytes(line, self.name)
        self._identity.require(found, self.name, anew)
        if ttl != b"%d" % self._ttl:
            raise StoreMismatchError(
                f"{self.name} was made with the time to live {ttl.decode('ascii', 'replace')} (0: "
                f"none), this crawl has {self._ttl}: keep that, or {anew}"
            )
        self._salt = found.salt
        self._groups = [
            (group, str(_signed(group.encode(), found.salt, 8)[0])) for group, _ in self._groups
        ]

    def _check_eviction(self) -> None:
        policy = self.connection.eviction()
        if policy.startswith("allkeys") or (policy.startswith("volatile") and self._ttl):
            logger.warning(
                "%(store)s: Redis is set to throw away keys when memory is short "
                "(maxmemory-policy %(policy)s); the crawl ends when it does. With noeviction "
                "it refuses new keys instead, and none is lost",
                {"store": self.name, "policy": policy},
            )

    # --- one question, or many in one round trip ------------------------------------------------

    def call(self, operation: str, key: bytes, *values: bytes) -> Call:
        """Return the call of *operation* on *key*."""
        entry, rest = _signed(key or key_bytes(key), self._salt, 9)
        return Call(rest[0] % GROUPS, operation, (entry, *values))

    def ask(self, script: Script, call: Call) -> tuple[Any, bool]:
        """Run *script* for *call*; return its result, and whether it surely ran only once."""
        return self.connection.do(
            lambda client: self._checked(script, script.run(client, *self._arguments(call)))
        )

    def ask_many(self, script: Script, calls: Sequence[Call]) -> list[tuple[Any, bool]]:
        """Return for each of *calls* what `ask` returns, in one round trip for all."""
        results, is_sure = self.connection.do(lambda client: self._run_many(client, script, calls))
        return [
            # Redis has not loaded the script yet, or the error comes again and `ask` raises it.
            self.ask(script, call)
            if isinstance(result, Exception)
            else (self._checked(script, result), is_sure)
            for call, result in zip(calls, results, strict=True)
        ]

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

    # --- what a store can be asked --------------------------------------------------------------

    def add(self, key: bytes) -> bool:
        return _is_new(*self.ask(_SEEN, self.call("add", key)))

    def add_many(self, keys: Iterable[bytes]) -> int:
        calls = (self.call("add", key) for key in keys)
        new = 0
        while some := list(islice(calls, _PIPELINED)):
            new += sum(_is_new(*answer) for answer in self.ask_many(_SEEN, some))
        return new

    def __contains__(self, key: object) -> bool:
        return bool(self.ask(_SEEN, self.call("has", key_bytes(key)))[0] == 1)

    def forget(self, key: bytes) -> bool:
        return bool(self.ask(_SEEN, self.call("forget", key))[0] == 1)

    def __len__(self) -> int:
        calls = [Call(number, "len") for number in range(GROUPS)]
        return sum(result for result, _ in self.ask_many(_SEEN, calls))

    def shared_pages(self) -> SharedPages:
        return RedisPages(self)

    def leave_notes(self, notes: Mapping[str, str]) -> None:
        if notes:
            self.connection.do(lambda client: client.hset(self._notes, mapping=notes))

    def notes(self) -> dict[str, str]:
        def read(client: Any) -> dict[str, str]:
            found = client.hgetall(self._notes).items()
            return dict(filter(None, (self._decoded(name, note) for name, note in found)))

        notes: dict[str, str] = self.connection.do(read)[0]
        return notes

    def _decoded(self, name: bytes, note: bytes) -> tuple[str, str] | None:
        try:
            return name.decode(), note.decode()
        except UnicodeDecodeError as error:
            if name not in self._unreadable:
                self._unreadable.add(name)
                logger.warning(
                    "The note %(name)r at %(store)s cannot be read and counts for nothing: "
                    "%(error)s. Somebody else wrote it: HDEL %(key)s takes it away",
                    {"name": name, "store": self.name, "error": error, "key": self._notes},
                )
            return None


class RedisPages(SharedPages):
    """The pages in the groups of *store*: about 20 bytes an entry, and its value.

    Redis packs the hashes that hold them. Of a key the same 69 bits are kept as by the store. An
    entry lives as long as a key there: between one and two times the time to live, or for ever.
    """

    def __init__(self, store: RedisSeen) -> None:
        self._store = store

    def put(self, key: bytes, value: bytes) -> None:
        if len(value) > MAX_VALUE:
            raise ValueError(f"a value of {len(value)} bytes: {value!r}; at most {MAX_VALUE}")
        self._store.ask(_PAGES, self._store.call("put", key, value))

    def get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._store.ask(_PAGES, self._store.call("get", key))[0]
        return value


def _signed(data: bytes, salt: bytes, size: int) -> tuple[int, bytes]:
    """Return the first eight bytes of a digest as an integer of Lua's, and the other bytes."""
    digest = blake2b(data, digest_size=size, key=salt).digest()
    return int.from_bytes(digest[:8], "big", signed=True), digest[8:]


def _is_new(result: object, is_sure: bool) -> bool:
    return result != 0 or not is_sure


class SeenRecently(Seen):
    """Remembers for some seconds which keys *store* has, so that it need not be asked again.

    Every question to *store* takes a round trip. Most links of a page are also on the pages around
    it, so most questions were asked a moment ago. A key stays in a store unless another crawler
    takes it out or its time to live ends: this class notices that some seconds later.
    """

    def __init__(self, store: Seen) -> None:
        self.name = store.name
        self.is_shared = store.is_shared
        self._store = store
        self._new: set[bytes] = set()
        self._old: set[bytes] = set()
        self._turn = monotonic() + SECONDS

    def open(self) -> None:
        self._store.open()

    def add(self, key: bytes) -> bool:
        if self._remembers(key):
            return False
        is_new = self._store.add(key)
        self._new.add(key)
        return is_new

    def add_many(self, keys: Iterable[bytes]) -> int:
        return self._store.add_many(keys)

    def __contains__(self, key: object) -> bool:
        if isinstance(key, bytes) and self._remembers(key):
            return True
        is_there = key in self._store
        if is_there and isinstance(key, bytes):
            self._new.add(key)
        return is_there

    def _remembers(self, key: bytes) -> bool:
        now = monotonic()
        if now >= self._turn or len(self._new) >= MAX_KEYS:
            # After a long pause the newer set is too old as well.
            self._old = self._new if now < self._turn + SECONDS else set()
            self._new = set()
            self._turn = now + SECONDS
        return key in self._new or key in self._old

    def forget(self, key: bytes) -> bool:
        self._new.discard(key)
        self._old.discard(key)
        return self._store.forget(key)

    def __len__(self) -> int:
        return len(self._store)

    def leave_notes(self, notes: Mapping[str, str]) -> None:
        self._store.leave_notes(notes)

    def notes(self) -> dict[str, str]:
        return self._store.notes()

    def shared_pages(self) -> SharedPages:
        return self._store.shared_pages()

    def close(self) -> None:
        self._new, self._old = set(), set()
        self._store.close()
