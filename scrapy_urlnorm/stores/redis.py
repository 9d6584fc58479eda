"""The store in Redis: one frontier for many crawlers."""

from __future__ import annotations

import logging
from itertools import islice
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.stores.redis_connection import Script
from scrapy_urlnorm.stores.redis_groups import GROUPS, Call, RedisGroups
from scrapy_urlnorm.stores.seen import Seen, key_bytes
from scrapy_urlnorm.stores.witnesses import MAX_VALUE, SharedWitnesses

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from scrapy_urlnorm.stores.redis_url import Place
    from scrapy_urlnorm.stores.seen import Identity

logger = logging.getLogger(__name__)

_PIPELINED = 1000
_SEEN = Script.load(__package__, "table.lua", "seen.lua")
_WITNESSES = Script.load(__package__, "table.lua", "witnesses.lua", answers=(bytes, type(None)))


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
    """

    is_shared = True

    def __init__(
        self, place: Place, identity: Identity, *, prefix: str, ttl: int, wait: float
    ) -> None:
        self._groups = RedisGroups(place, identity, prefix=prefix, ttl=ttl, wait=wait)
        self.name = self._groups.name
        self._notes = f"{prefix}:notes"
        self._unreadable: set[bytes] = set()  # names of notes that the log has warned of

    def open(self) -> None:
        if self._groups.open():
            try:
                len(self)  # finds a group that is lost
            except BaseException:
                self._groups.close()
                raise

    def close(self) -> None:
        self._groups.close()

    def add(self, key: bytes) -> bool:
        return self._new(*self._groups.ask(_SEEN, self._call("add", key)))

    def add_many(self, keys: Iterable[bytes]) -> int:
        return sum(map(sum, map(self._add_some, _chunks(keys))))

    def _add_some(self, keys: list[bytes]) -> list[bool]:
        """Add *keys* in one round trip; return for each whether it was new."""
        calls = [self._call("add", key) for key in keys]
        return [self._new(*answer) for answer in self._groups.ask_many(_SEEN, calls)]

    def _new(self, result: object, is_sure: bool) -> bool:
        return result != 0 or not is_sure

    def __contains__(self, key: object) -> bool:
        return bool(self._groups.ask(_SEEN, self._call("has", key_bytes(key)))[0] == 1)

    def forget(self, key: bytes) -> bool:
        return bool(self._groups.ask(_SEEN, self._call("forget", key))[0] == 1)

    def _call(self, operation: str, key: bytes) -> Call:
        group, entry = self._groups.locate(key)
        return Call(group, operation, (entry,))

    def __len__(self) -> int:
        calls = [Call(number, "len") for number in range(GROUPS)]
        return sum(result for result, _ in self._groups.ask_many(_SEEN, calls))

    def leave_notes(self, notes: Mapping[str, str]) -> None:
        if notes:
            self._groups.connection.do(lambda client: client.hset(self._notes, mapping=notes))

    def notes(self) -> dict[str, str]:
        notes: dict[str, str] = self._groups.connection.do(self._read_notes)[0]
        return notes

    def _read_notes(self, client: Any) -> dict[str, str]:
        found = client.hgetall(self._notes).items()
        notes = {self._decoded(name, name): self._decoded(name, note) for name, note in found}
        return {name: note for name, note in notes.items() if name is not None and note is not None}

    def _decoded(self, name: bytes, text: bytes) -> str | None:
        """Return *text* of the note *name* as text; ``None``, with one warning, if it is none."""
        try:
            return text.decode()
        except UnicodeDecodeError as error:
            if name not in self._unreadable:
                self._unreadable.add(name)
                logger.warning(
                    "The note %(name)r at %(store)s cannot be read and counts for nothing: "
                    "%(error)s. Somebody else wrote it: HDEL %(key)s takes it away",
                    {"name": name, "store": self.name, "error": error, "key": self._notes},
                )
            return None

    def witness_table(self) -> SharedWitnesses:
        return RedisWitnesses(self._groups)


class RedisWitnesses(SharedWitnesses):
    """The witnesses in the groups of a `RedisSeen`: about 20 bytes an entry, and its value.

    Redis packs the hashes that hold them. Of a key the same 69 bits are kept as by that store. An
    entry lives as long as a key there: between one and two times the time to live, or for ever.
    """

    def __init__(self, groups: RedisGroups) -> None:
        self._groups = groups

    def put(self, key: bytes, value: bytes) -> None:
        if len(value) > MAX_VALUE:
            raise ValueError(f"a value of {len(value)} bytes: {value!r}; at most {MAX_VALUE}")
        self._ask("put", key, value)

    def get(self, key: bytes) -> bytes | None:
        return self._ask("get", key)

    def _ask(self, operation: str, key: bytes, *value: bytes) -> bytes | None:
        group, entry = self._groups.locate(key)
        result: bytes | None
        result, _ = self._groups.ask(_WITNESSES, Call(group, operation, (entry, *value)))
        return result

    def drop(self, keys: Iterable[bytes]) -> None:
        entries: dict[int, list[int]] = {}
        for key in keys:
            group, entry = self._groups.locate(key)
            entries.setdefault(group, []).append(entry)
        if entries:
            calls = [Call(group, "drop", tuple(some)) for group, some in entries.items()]
            self._groups.ask_many(_WITNESSES, calls)


def _chunks(keys: Iterable[bytes]) -> Iterator[list[bytes]]:
    rest = iter(keys)
    while chunk := list(islice(rest, _PIPELINED)):
        yield chunk
