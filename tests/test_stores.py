"""The store in memory, and what names a store."""

from __future__ import annotations

import os
import subprocess
import sys
from unittest import mock

import pytest
from store_contract import DIGEST, SeenStoreContract, add_all

from scrapy_urlnorm.exceptions import ConfigError, MissingExtraError
from scrapy_urlnorm.stores import MemorySeen, memory, open_store


class TestMemory(SeenStoreContract):
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
    store = MemorySeen()
    add_all(store, range(count))
    size = sum(map(sys.getsizeof, store._buckets)) + sys.getsizeof(store._buckets)
    assert size / count < 20 + 40_000 / count
    assert len(store) == count
    assert add_all(store, range(count)) == 0


@pytest.mark.parametrize(("seed", "is_fixed"), [("random", False), ("0", True), ("7", True)])
def test_nobody_can_search_for_two_keys_with_one_hash(seed, is_fixed):
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
    info = mock.Mock(width=width, algorithm=algorithm)
    assert memory._is_good(info, seed) is is_good


@pytest.mark.parametrize("spec", ["tape:x", "memory:x", "memory:", "", "redis"])
def test_an_unknown_store_is_named(spec):
    with pytest.raises(ConfigError, match="accepted: memory") as error:
        open_store(spec, digest=DIGEST)
    assert repr(spec) in str(error.value)


@pytest.mark.parametrize("spec", ["sqlite", "sqlite:"])
def test_a_database_without_a_path_lies_in_jobdir(spec, tmp_path):
    with open_store(spec, digest=DIGEST, jobdir=str(tmp_path)) as store:
        store.add(b"key")
    assert (tmp_path / "urlnorm.sqlite").exists()
    with pytest.raises(ConfigError, match="JOBDIR"):
        open_store(spec, digest=DIGEST)


@pytest.mark.parametrize("spec", ["redis://x", "redis+cluster://x"])
def test_a_missing_extra_is_named(monkeypatch, spec):
    monkeypatch.setitem(sys.modules, "redis", None)
    for name in ("redis", "redis_connection"):
        monkeypatch.delitem(sys.modules, f"scrapy_urlnorm.stores.{name}", raising=False)
    with pytest.raises(MissingExtraError) as error:
        open_store(spec, digest=DIGEST)
    assert "pip install 'redis'" in str(error.value)


def test_a_key_between_two_others_is_new(monkeypatch):
    entries = [b"abcdefgh", b"ijklmnop", b"efghijkl"]
    hashes = [int.from_bytes(entry, sys.byteorder) for entry in entries]
    monkeypatch.setattr(memory, "_hash", lambda key: hashes[key[1]])
    keys = [bytes([hashed & 255, number]) for number, hashed in enumerate(hashes)]
    store = MemorySeen()
    assert [store.add(key) for key in keys] == [True, True, True]
    assert store.forget(keys[0])
    assert [key in store for key in keys] == [False, True, True]
