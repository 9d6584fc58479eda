"""The store in memory: less than twenty bytes a key."""

from __future__ import annotations

import os
import sys
from hashlib import blake2b
from itertools import compress
from secrets import token_bytes
from struct import Struct, unpack
from typing import TYPE_CHECKING

from scrapy_urlnorm.stores.seen import Awaited, Seen, key_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

_PARTS = 256
_KEYS_A_BUCKET = 20  # more: less memory, slower search
#: Keys that are remembered although all their requests ended without a page, some 20 MB. Of more, the
#: oldest are forgotten whole: what has one of them is new again, and is sent.
MAX_DEAD = 100_000

_pack = Struct("=q").pack
#: Tables for bytes.translate: [pair of bits][value] marks the bytes whose pair has that value.
_HAS_VALUE = [
    [bytes(byte >> shift & 3 == value for byte in range(256)) for value in range(4)]
    for shift in (0, 2, 4, 6)
]
_salt = token_bytes(16)


def _blake2b_hash(key: bytes) -> int:
    digest = blake2b(key, digest_size=8, key=_salt).digest()
    return int.from_bytes(digest, sys.byteorder, signed=True)


def _is_good(info: sys._hash_info, seed: str) -> bool:
    """Whether Python's own hash has 64 bits (on some platforms 32) that nobody can predict."""
    is_random = seed in ("", "random")
    return info.width == 64 and info.algorithm.startswith("siphash") and is_random


#: 64 bits that depend on the whole key and on a salt of this process.
_hash: Callable[[bytes], int] = (
    hash if _is_good(sys.hash_info, os.environ.get("PYTHONHASHSEED", "")) else _blake2b_hash
)


class MemorySeen(Seen):
    """Keeps 72 bits of a key: a 64-bit hash of it and its first byte.

    A new key is wrongly taken as seen when all 72 bits equal those of another. The chance that
    this happens even once while 100 million keys are added is 1 in a million (the birthday
    bound, n * n / 2 / 2**72). That is so for keys with a random first byte, as fingerprints have;
    for keys that all begin alike the chance is 1 in 3,700.

    The hashes lie packed in buckets, chosen by the first byte of a key and the low bits of its
    hash. One bucket after the other is split into four (linear hashing: Litwin 1980, "Linear
    hashing: a new tool for file and table addressing"), so no add waits for a table to be rebuilt.
    """

    name = "the store in memory"

    def __init__(self) -> None:
        # The first quarter of the list is in use. A round of splits spreads it over the whole list.
        self._buckets = [b""] * (4 * _PARTS)
        self._mask = _PARTS - 1  # of addresses in the first quarter
        self._new_mask = 4 * _PARTS - 1
        self._split_count = 0  # buckets split in this round, from the first one on
        self._room = _PARTS * _KEYS_A_BUCKET  # keys to go until the next split
        self._awaited: dict[bytes, Awaited] = {}
        self._dead: dict[bytes, None] = {}  # keys with nothing under way, the oldest first

    def add(self, key: bytes) -> bool:
        hashed = _hash(key)
        address = hashed & self._mask ^ key[0]
        if address < self._split_count:
            address = hashed & self._new_mask ^ key[0]
        buckets = self._buckets
        bucket = buckets[address]
        entry = _pack(hashed)
        at = bucket.find(entry)
        if at >= 0 and (not at & 7 or _position(bucket, entry, at) >= 0):
            return False
        buckets[address] = bucket + entry
        self._room -= 1
        if self._room <= 0:
            self._split()
        return True

    def awaited(self, key: bytes) -> Awaited | None:
        return self._awaited.get(key)

    def expect(self, key: bytes, awaited: Awaited) -> None:
        self._awaited[key] = awaited
        self._dead.pop(key, None)
        if awaited.under_way <= 0:
            self._dead[key] = None
            if len(self._dead) > MAX_DEAD:
                self.forget(next(iter(self._dead)))

    def change_under_way(self, key: bytes, change: int) -> Awaited | None:
        found = self.awaited(key)
        if found is not None:
            found = found._replace(under_way=max(0, found.under_way + change))
            self.expect(key, found)
        return found

    def arrived(self, key: bytes) -> None:
        if self._awaited.pop(key, None) is not None:
            self._dead.pop(key, None)

    def _find(self, key: object) -> tuple[int, int]:
        """Return the number of the bucket of *key*, and the position of the key there or -1."""
        key = key_bytes(key)
        hashed = _hash(key)
        address = hashed & self._mask ^ key[0]
        if address < self._split_count:
            address = hashed & self._new_mask ^ key[0]
        return address, _position(self._buckets[address], _pack(hashed))

    def __contains__(self, key: object) -> bool:
        return self._find(key)[1] >= 0

    def forget(self, key: bytes) -> bool:
        address, at = self._find(key)
        self.arrived(key)
        if at < 0:
            return False
        bucket = self._buckets[address]
        self._buckets[address] = bucket[:at] + bucket[at + 8 :]
        self._room += 1
        return True

    def __len__(self) -> int:
        in_use = self._mask + 1 + 3 * self._split_count
        return in_use * _KEYS_A_BUCKET - self._room

    def _split(self) -> None:
        buckets = self._buckets
        at = self._split_count
        size = self._mask + 1
        bucket = buckets[at]
        bit = self._mask.bit_length()  # this bit of the hash and the next choose one of the four
        byte = bit >> 3 if sys.byteorder == "little" else 7 - (bit >> 3)
        deciding = bucket[byte::8]
        entries = unpack("8s" * len(deciding), bucket)
        for has_value in _HAS_VALUE[(bit & 7) >> 1]:
            buckets[at] = b"".join(compress(entries, deciding.translate(has_value)))
            at += size
        self._room += 3 * _KEYS_A_BUCKET
        self._split_count += 1
        if self._split_count == size:
            self._split_count = 0
            self._mask = self._new_mask
            self._new_mask = 4 * self._new_mask + 3
            buckets.extend([b""] * (self._new_mask - self._mask))


def _position(bucket: bytes, entry: bytes, start: int = 0) -> int:
    """Return the position of *entry* in *bucket* from *start* on, or -1.

    Only multiples of 8 count: elsewhere its bytes are the end of one entry and the
    beginning of the next.
    """
    at = bucket.find(entry, start)
    while at & 7 and at >= 0:
        at = bucket.find(entry, at + 1)
    return at
