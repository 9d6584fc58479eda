"""The store in memory, and what names a store."""

from __future__ import annotations

import os
import subprocess
import sys
from unittest import mock

import pytest
from store_contract import DIGEST, SeenStoreContract, fingerprint

from scrapy_urlnorm.exceptions import ConfigError, MissingExtraError
from scrapy_urlnorm.stores import MemorySeen, default_spec, memory, open_store


class TestMemory(SeenStoreContract):
    """The store in memory keeps the contract."""

    lasts = False

    def make(self):
        return open_store("memory", digest=DIGEST)


class TestMemoryWithoutPythonsHash(TestMemory):
    """So it does where Python's own hash is too short."""

    @pytest.fixture(autouse=True)
    def _other_hash(self):
        with mock.patch.object(memory, "_hash", memory._blake2b_hash):
            yield


@pytest.mark.parametrize("count", [1_000, 30_000, 400_000])
def test_memory_takes_few_bytes_a_key(count):
    """At most twenty, and forty kilobytes to begin with; whatever the number, all are found.

    From 327,680 keys on, the last pair of bits of a byte decides where one goes.
    """
    store = MemorySeen()
    store.add_many(map(fingerprint, range(count)))
    size = sum(map(sys.getsizeof, store._buckets)) + sys.getsizeof(store._buckets)
    assert size / count < 20 + 40_000 / count
    assert len(store) == count
    assert store.add_many(map(fingerprint, range(count))) == 0


@pytest.mark.parametrize(("seed", "is_fixed"), [("random", False), ("0", True), ("7", True)])
def test_nobody_can_search_for_two_keys_with_one_hash(seed, is_fixed):
    """Two processes hash a key differently, also where Python's own hash is the same in both."""
    code = "from scrapy_urlnorm.stores import memory; print(hash(b'key'), memory._hash(b'key'))"
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    said = [
        subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, check=True
        ).stdout.split()
        for _ in range(2)
    ]
    assert (said[0][0] == said[1][0]) is is_fixed
    assert said[0][1] != said[1][1]


@pytest.mark.parametrize(
    ("width", "algorithm", "seed", "is_good"),
    [(64, "siphash13", "", True), (64, "siphash24", "random", True), (32, "siphash13", "", False),
     (64, "fnv", "", False), (64, "siphash13", "0", False)],
)  # fmt: skip
def test_where_pythons_own_hash_is_good_enough(width, algorithm, seed, is_good):
    """With 64 bits, keyed, and by a key that nobody has chosen."""
    info = mock.Mock(width=width, algorithm=algorithm)
    assert memory._is_good(info, seed) is is_good


def test_bytes_of_two_neighbours_are_no_key():
    """An entry is found where an entry begins, nowhere else."""
    entry, other = b"abcdefgh", b"ijklmnop"
    across = entry[4:] + other[:4]
    assert memory._position(entry + other, across) == -1
    assert memory._position(entry + other + across, across) == 16
    assert memory._position(b"\0" * 7 + b"\1" + b"\0" * 8, b"\0" * 8) == 8


def test_no_add_waits_for_all_keys_to_be_moved():
    """Growing moves the keys of one bucket at a time."""
    store = MemorySeen()
    most = 0
    for number in range(50_000):
        before = store._buckets[:]
        store.add(fingerprint(number))
        if number % 100 == 0:
            pairs = zip(before, store._buckets, strict=False)
            most = max(most, sum(old is not new for old, new in pairs))
    assert most <= 5


@pytest.mark.parametrize("spec", ["tape:x", "memory:x", "memory:", "", "redis"])
def test_an_unknown_store_is_named(spec):
    """The error names what was asked for and what there is."""
    with pytest.raises(ConfigError, match="accepted: memory") as error:
        open_store(spec, digest=DIGEST)
    assert repr(spec) in str(error.value)


@pytest.mark.parametrize("spec", ["sqlite", "sqlite:"])
def test_a_database_without_a_path_lies_in_jobdir(spec, tmp_path):
    """Without JOBDIR there is no such place, and the error says so."""
    with open_store(spec, digest=DIGEST, jobdir=str(tmp_path)) as store:
        store.add(b"key")
    assert (tmp_path / "urlnorm.sqlite").exists()
    with pytest.raises(ConfigError, match="JOBDIR"):
        open_store(spec, digest=DIGEST)


@pytest.mark.parametrize("spec", ["memory", "sqlite:x"])
def test_an_unknown_option_is_named(spec):
    """An option that the store does not have is an error, not ignored."""
    with pytest.raises(ConfigError, match="colour") as error:
        open_store(spec, digest=DIGEST, colour="red")
    assert repr(spec) in str(error.value)


def test_the_default_store():
    """Memory; in JOBDIR a database."""
    assert default_spec(None) == "memory"
    assert default_spec("job") == "sqlite"


@pytest.mark.parametrize("spec", ["redis://x", "redis+cluster://x"])
def test_a_missing_extra_is_named(monkeypatch, spec):
    """The error gives the install command."""
    monkeypatch.setitem(sys.modules, "redis", None)
    for name in ("redis", "redis_connection"):
        monkeypatch.delitem(sys.modules, f"scrapy_urlnorm.stores.{name}", raising=False)
    with pytest.raises(MissingExtraError) as error:
        open_store(spec, digest=DIGEST)
    assert "pip install 'scrapy-urlnorm[redis]'" in str(error.value)


def test_a_key_between_two_others_is_new(monkeypatch):
    """A hash that happens to stand across two neighbours in a bucket is not taken for seen."""
    entries = [b"abcdefgh", b"ijklmnop", b"efghijkl"]
    hashes = [int.from_bytes(entry, sys.byteorder) for entry in entries]
    monkeypatch.setattr(memory, "_hash", lambda key: hashes[key[1]])
    keys = [bytes([hashed & 255, number]) for number, hashed in enumerate(hashes)]
    store = MemorySeen()
    assert [store.add(key) for key in keys] == [True, True, True]
    assert store.forget(keys[0])
    assert [key in store for key in keys] == [False, True, True]
