"""MemoryStore: a set of keys in some fourteen bytes each."""

from __future__ import annotations

from hashlib import blake2b

from ..exceptions import StoreError

_BUCKET_BYTES = 2
_SUFFIX_BYTES = 8
_KEPT = _BUCKET_BYTES + _SUFFIX_BYTES


class MemoryStore:
    """Buckets by the first bytes of a key; in each, eight bytes of every key, one after another.

    Of a key ten bytes are kept. Fingerprints are digests, so two different ones agree in these
    with a probability of 2**-80: once in ten million crawls of a billion pages. Keys of another
    length are hashed first. A set of Python's keeps some ninety bytes a key.
    """

    def __init__(self) -> None:
        self._buckets: dict[bytes, bytes] = {}
        self._count = 0

    def __enter__(self) -> MemoryStore:  # noqa: PYI034 - typing.Self is Python 3.11
        self.open()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def open(self) -> None:
        """Nothing to open."""

    def close(self) -> None:
        """Nothing to close."""

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: bytes) -> bool:
        prefix, suffix = _split(key)
        return _find(self._buckets.get(prefix, b""), suffix) >= 0

    def add(self, key: bytes) -> bool:
        """Put *key* in; True when it was not there."""
        if len(key) == 20:  # SHA-1: without another call
            prefix, suffix = key[:_BUCKET_BYTES], key[_BUCKET_BYTES:_KEPT]
        else:
            prefix, suffix = _split(key)
        buckets = self._buckets
        bucket = buckets.get(prefix)
        if bucket is None:
            buckets[prefix] = suffix
        elif suffix in bucket and _find(bucket, suffix) >= 0:
            return False
        else:
            buckets[prefix] = bucket + suffix
        self._count += 1
        return True

    def forget(self, key: bytes) -> None:
        """Take *key* out, if it is there."""
        prefix, suffix = _split(key)
        bucket = self._buckets.get(prefix, b"")
        place = _find(bucket, suffix)
        if place >= 0:
            self._buckets[prefix] = bucket[:place] + bucket[place + _SUFFIX_BYTES :]
            self._count -= 1


def _split(key: bytes) -> tuple[bytes, bytes]:
    if not key:
        raise StoreError("a key has at least one byte")
    if len(key) != 20:
        key = blake2b(key, digest_size=_KEPT).digest()
    return key[:_BUCKET_BYTES], key[_BUCKET_BYTES:_KEPT]


def _find(bucket: bytes, suffix: bytes) -> int:
    """Where *suffix* stands in *bucket*, at a multiple of its length; -1 if it does not."""
    place = bucket.find(suffix)
    while place % _SUFFIX_BYTES and place >= 0:
        place = bucket.find(suffix, place + 1)
    return place
