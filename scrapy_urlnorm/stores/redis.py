"""The store in Redis: one set of keys, and one table of pages, for many crawlers."""

from __future__ import annotations

from hashlib import blake2b
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.exceptions import StoreError, StoreMismatchError
from scrapy_urlnorm.stores.redis_connection import RedisConnection, Script
from scrapy_urlnorm.stores.seen import MAX_VALUE, Awaited, Identity, Seen, key_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy_urlnorm.stores.redis_connection import Place

GROUPS = 32  #: parts of a crawl's keys; in a cluster each has a slot of its own
SECONDS = 6.0  #: after so long all keys that are remembered are forgotten
MAX_KEYS = 100_000  #: and when there are so many, some 10 MB

_LOST = -1  # a script's answer when the group is gone, or another crawler made it anew
_MAKING = b"making "  # begins an identity record while its groups are being made
_MAKE = Script.load(__package__, "group.lua")
_SEEN = Script.load(__package__, "table.lua", "seen.lua")
_AWAITED = Script.load(__package__, "table.lua", "awaited.lua", answers=(bytes, type(None)))
_PAGES = Script.load(__package__, "table.lua", "pages.lua", answers=(bytes, type(None)))


class RedisSeen(Seen):
    """Keeps 69 bits of a key, in sets of integers that Redis packs: about ten bytes a key.

    A new key is wrongly taken as seen when all 69 bits (of its BLAKE2b digest, made with a salt
    that the store has) equal those of another. The chance that this happens even once while 100
    million keys are added is 1 in 100,000 (the birthday bound, n * n / 2 / 2**69).

    Every check is one round trip, of one script that Redis runs as one step. With a time to live
    (*ttl*, whole seconds) Redis forgets a key, and a page, between one and two times as long after
    it was added. When the answer to an add was lost, the key counts as new. A Redis that has lost
    keys (restarted without persistence, flushed, or set to throw keys away) raises `StoreError`.

    The keys lie in groups. The mark of a group is made of the salt, which stands in the identity
    record. By it a crawler notices that Redis has lost a group, even if another crawler has made a
    new one of the same name.

    Most links of a page are also on the pages around it. With `caches_keys` a key that is there is
    remembered for `SECONDS` at most. That another crawler took it out is noticed then.
    """

    is_shared = True

    def __init__(self, place: Place, identity: Identity) -> None:
        self.name = f"the Redis store {place.name} (prefix {place.prefix!r})"
        self.connection = RedisConnection(place, self.name)
        self._identity = identity
        self._prefix, self._ttl = place.prefix, place.ttl
        self._salt = b""
        self._groups = [(f"{place.prefix}:{{{n:02x}}}", "") for n in range(GROUPS)]  # and marks
        self._notes = f"{place.prefix}:notes"
        self._known: set[bytes] = set()  # keys that are there
        self._known_until = 0.0
        self._arrived: set[bytes] = set()  # those of them that are not awaited

    def open(self) -> None:
        if self.connection.is_open:
            return
        self.connection.open()
        try:
            self.connection.do(self._identify)
            len(self)  # finds a group that is lost
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.connection.close()
        self._forget_answers()

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

    # --- what Redis is asked ---------------------------------------------------------------------

    def _call(self, operation: str, key: bytes, *values: bytes) -> tuple[Any, ...]:
        """Return the arguments of a script for one operation on *key*."""
        entry, rest = _signed(key or key_bytes(key), self._salt, 9)
        return (*self._on_group(rest[0] % GROUPS, operation), entry, *values)

    def _on_group(self, number: int, operation: str) -> tuple[Any, ...]:
        group, mark = self._groups[number]
        return 1, group, operation, mark, self._ttl

    def _ask(self, script: Script, call: tuple[Any, ...]) -> tuple[Any, bool]:
        """Run *script* for *call*; return its result, and whether it surely ran only once.

        Raises `StoreError` for what is no answer of *script* on a whole store.
        """
        result, is_sure = self.connection.do(lambda client: script.run(client, *call))
        if result == _LOST:
            raise StoreError(
                f"{self.name} has lost its keys, or some of them (was Redis restarted without "
                "persistence, its database flushed, or memory short?): restore them from a "
                "backup, or delete what is left and start the crawl anew"
            )
        if not isinstance(result, script.answers):
            raise StoreError(f"{self.name} answers {result!r}, as no Redis does: is it one?")
        return result, is_sure

    # --- what a store can be asked --------------------------------------------------------------

    def add(self, key: bytes) -> bool:
        return self._add("add", key)

    def claim(self, key: bytes, url: str, callback: str = "") -> bool:
        return self._add("claim", key, _packed(Awaited(url, callback)))

    def _add(self, operation: str, key: bytes, *values: bytes) -> bool:
        if self._remembers(key):
            return False
        self._arrived.discard(key)
        result, is_sure = self._ask(_SEEN, self._call(operation, key, *values))
        self._known.add(key)
        return result != 0 or not is_sure

    def awaited(self, key: bytes) -> Awaited | None:
        if self.caches_keys and key in self._arrived and self._remembers(key):
            return None
        found = self._ask(_AWAITED, self._call("get", key))[0]
        if found is None:
            self._arrived.add(key)
            return None
        return _unpacked(found)

    def expect(self, key: bytes, awaited: Awaited) -> None:
        self._arrived.discard(key)
        self._ask(_AWAITED, self._call("put", key, _packed(awaited)))

    def change_under_way(self, key: bytes, change: int) -> Awaited | None:
        found = self._ask(_AWAITED, self._call("change", key, b"%d" % change))[0]
        return None if found is None else _unpacked(found)

    def arrived(self, key: bytes) -> None:
        self._ask(_AWAITED, self._call("drop", key))
        self._arrived.add(key)

    def __contains__(self, key: object) -> bool:
        key = key_bytes(key)
        is_there = self._remembers(key) or self._ask(_SEEN, self._call("has", key))[0] == 1
        if is_there:
            self._known.add(key)
        return is_there

    def _remembers(self, key: bytes) -> bool:
        if (now := monotonic()) >= self._known_until or len(self._known) >= MAX_KEYS:
            self._forget_answers()
            self._known_until = now + SECONDS
        return self.caches_keys and key in self._known

    def _forget_answers(self) -> None:
        self._known.clear()
        self._arrived.clear()

    def forget(self, key: bytes) -> bool:
        self._known.discard(key)
        self.arrived(key)
        return bool(self._ask(_SEEN, self._call("forget", key))[0] == 1)

    def __len__(self) -> int:
        calls = [self._on_group(number, "len") for number in range(GROUPS)]
        return sum(self._ask(_SEEN, call)[0] for call in calls)

    def put_page(self, key: bytes, value: bytes) -> None:
        if len(value) > MAX_VALUE:
            raise ValueError(f"a value of {len(value)} bytes: {value!r}; at most {MAX_VALUE}")
        self._ask(_PAGES, self._call("put", key, value))

    def page(self, key: bytes) -> bytes | None:
        value: bytes | None = self._ask(_PAGES, self._call("get", key))[0]
        return value

    def leave_notes(self, notes: Mapping[str, str]) -> None:
        if notes:
            self.connection.do(lambda client: client.hset(self._notes, mapping=notes))

    def notes(self) -> dict[str, str]:
        def read(client: Any) -> dict[str, str]:
            # Whatever somebody else wrote there: who reads a note sees that it is none.
            found = client.hgetall(self._notes).items()
            return {
                name.decode(errors="replace"): note.decode(errors="replace") for name, note in found
            }

        notes: dict[str, str] = self.connection.do(read)[0]
        return notes


def _signed(data: bytes, salt: bytes, size: int) -> tuple[int, bytes]:
    digest = blake2b(data, digest_size=size, key=salt).digest()
    return int.from_bytes(digest[:8], "big", signed=True), digest[8:]


def _packed(awaited: Awaited) -> bytes:
    url, callback, under_way = awaited
    return f"{under_way} {callback} {url}".encode(errors="surrogatepass")


def _unpacked(entry: bytes) -> Awaited:
    under_way, callback, url = entry.decode(errors="surrogatepass").split(" ", 2)
    return Awaited(url, callback, int(under_way))
