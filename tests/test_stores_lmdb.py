"""The store on disk, in real LMDB files."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import blake2b
from unittest import mock

import pytest
from store_contract import DIGEST, StoreFileContract, fingerprint, opened

from scrapy_urlnorm.exceptions import StoreError, StoreMismatchError
from scrapy_urlnorm.stores import Identity, open_store

lmdb = pytest.importorskip("lmdb", reason="the extra 'disk' is not installed")
disk = pytest.importorskip("scrapy_urlnorm.stores.lmdb")


class TestLmdb(StoreFileContract):
    """LMDB keeps the contract."""

    kind = "lmdb"


class TestLmdbInSmallBatches(TestLmdb):
    """Wherever a batch ends, the answers are the same."""

    @pytest.fixture(autouse=True)
    def _batches(self, monkeypatch):
        monkeypatch.setattr(disk, "BATCH_KEYS", 7)


def filled(path, count=10):
    with opened(f"lmdb:{path}") as store:
        assert store.add_many(map(fingerprint, range(count))) == count
    return path


def test_it_is_one_file(tmp_path):
    """Nothing lies beside it but what it is locked by."""
    filled(tmp_path / "seen")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seen", "seen.lock"]


def test_a_batch_is_written_when_it_is_full(tmp_path, monkeypatch):
    """So many keys wait in memory, not more."""
    monkeypatch.setattr(disk, "BATCH_KEYS", 100)
    with opened(f"lmdb:{tmp_path / 'seen'}") as store:
        for number in range(1000):
            store.add(fingerprint(number))
            assert len(store._pending) <= 100
            assert len(store) == number + 1


def test_a_batch_is_written_when_it_is_old(tmp_path, monkeypatch):
    """A slow crawl does not lose more than it added within a second."""
    clock = 0.0
    monkeypatch.setattr(disk, "monotonic", lambda: clock)
    with opened(f"lmdb:{tmp_path / 'seen'}") as store:
        store.add(fingerprint(1))
        clock = 0.9
        store.add(fingerprint(2))
        assert len(store._pending) == 2
        clock = 1.0
        store.add(fingerprint(3))
        assert len(store._pending) == 1
        clock = 1.9
        store.add(fingerprint(4))
        assert len(store._pending) == 2


def test_the_map_grows_by_itself(tmp_path, monkeypatch):
    """Starting from a map of 64 KB, thousands of keys fit."""
    monkeypatch.setattr(disk, "_FIRST_MAP_SIZE", 1 << 16)
    monkeypatch.setattr(disk, "BATCH_KEYS", 5000)
    path = filled(tmp_path / "seen", 30_000)
    assert path.stat().st_size > 1 << 16
    with opened(f"lmdb:{path}") as store:
        assert len(store) == 30_000
        assert not any(store.add(fingerprint(number)) for number in range(30_000))


def test_a_batch_is_written_in_parts(tmp_path, monkeypatch):
    """What of it was written before an error counts once, and the rest is kept."""
    monkeypatch.setattr(disk, "_TRANSACTION_KEYS", 10)
    path = tmp_path / "seen"
    with opened(f"lmdb:{path}") as store:
        store.add_many(map(fingerprint, range(95)))
        real, done = store._transact, []

        def fail_the_fourth(work):
            if len(done) == 3:
                raise StoreError("No space left")
            done.append(work)
            real(work)

        with mock.patch.object(store, "_transact", fail_the_fourth), pytest.raises(StoreError):
            store._write()
        assert len(store._pending) == 65
        assert len(store) == 95
    with opened(f"lmdb:{path}") as store:
        assert len(store) == 95
        assert store.add_many(map(fingerprint, range(95))) == 0


def test_an_lmdb_file_of_something_else_is_refused(tmp_path):
    """It stays as it is."""
    path = tmp_path / "other"
    with (
        lmdb.open(str(path), subdir=False, lock=False) as env,
        env.begin(write=True) as transaction,
    ):
        transaction.put(b"theirs", b"1")
    before = path.read_bytes()
    with pytest.raises(StoreMismatchError, match="not a store of this package"):
        opened(f"lmdb:{path}")
    assert path.read_bytes() == before


def test_a_store_that_is_not_open_says_so(tmp_path):
    """Adding without opening is an error, not a key lost."""
    store = open_store(f"lmdb:{tmp_path / 'seen'}", digest=DIGEST)
    for ask in (store.add, store.forget, store.__contains__):
        with pytest.raises(StoreError, match="not open"):
            ask(b"x")


def test_an_error_while_writing_loses_nothing(tmp_path, monkeypatch):
    """The batch stays in memory; the add that failed can be made again when there is room."""
    monkeypatch.setattr(disk, "BATCH_KEYS", 10)
    path = tmp_path / "seen"
    store = opened(f"lmdb:{path}")
    assert store.add_many(map(fingerprint, range(10))) == 10
    full = lmdb.DiskError("mdb_txn_commit: No space left on device")
    for _ in range(2):
        with (
            mock.patch.object(store, "_read", side_effect=full),
            pytest.raises(StoreError, match="No space left"),
        ):
            store.add(fingerprint(10))
        assert store.add(fingerprint(3)) is False
        assert fingerprint(10) not in store
    assert store.add(fingerprint(10)) is True
    store.close()
    with opened(f"lmdb:{path}") as store:
        assert len(store) == 11


# --- a file that is cut short ---------------------------------------------------------------

OPEN_ALL = """
import json, sys
from hashlib import sha1
from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.stores import open_store

path, digest, count, lengths = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
whole = open(path, "rb").read()
keys = [sha1(b"%d" % number, usedforsecurity=False).digest() for number in range(count)]
for length in lengths:
    with open(path, "wb") as file:
        file.write(whole[:length])
    try:
        with open_store(f"lmdb:{path}", digest=digest) as store:
            said = ["opened", sum(key in store for key in keys), store.add(b"another key")]
    except StoreError as error:
        said = [type(error).__name__, str(error)]
    print(json.dumps([length, *said]), flush=True)
"""


@pytest.mark.parametrize("is_old", [False, True])
def test_a_file_cut_short_is_an_error(tmp_path, is_old):
    """Wherever it ends: reading a page that is not there would end the process with SIGBUS."""
    count = 10_000
    path = tmp_path / "seen"
    if is_old:
        write_old(path, count)
    else:
        filled(path, count)
    page, size = 4096, path.stat().st_size
    steps = {
        0,
        1,
        8,
        24,
        96,
        152,
        160,
        1000,
        *range(page, size, page),
        *range(size - page, size, 500),
    }
    lengths = sorted(steps | {length - 1 for length in steps if length} | {size})
    command = [sys.executable, "-c", OPEN_ALL, str(path), DIGEST, str(count), json.dumps(lengths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = {length: rest for length, *rest in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 0, (max(said, default=0), done.stderr)
    assert said.pop(size) == ["opened", count, True]
    assert said.pop(0) == ["opened", 0, True]  # as good as none
    for length, (kind, message, *_) in said.items():
        assert kind in ("StoreError", "StoreMismatchError"), length
        assert str(path) in message
        if length >= 2 * page:
            assert f"{length:,} bytes of {size:,}" in message
            assert "start anew" in message


def test_a_file_that_is_replaced_while_it_is_open_is_noticed(tmp_path):
    """After an error it is opened again: what is there then has to be what was there before."""
    path = filled(tmp_path / "seen", 100)
    filled(tmp_path / "other", 10)
    store = opened(f"lmdb:{path}")
    store.add(fingerprint(100))
    with (
        mock.patch.object(store, "_read", side_effect=lmdb.DiskError("no space")),
        pytest.raises(StoreError),
    ):
        store.flush()
    ours = path.read_bytes()
    for others in ((tmp_path / "other").read_bytes(), b""):
        path.write_bytes(others)
        for _ in range(2):
            with pytest.raises(StoreError, match="was replaced"):
                store.add(fingerprint(1))
    path.write_bytes(ours)
    assert store.add(fingerprint(1)) is False
    store.close()
    with opened(f"lmdb:{path}") as store:
        assert len(store) == 101


# --- the salt, and files made before there was one --------------------------------------------


def hashes(path):
    """All that stands for keys in a file."""
    with lmdb.open(str(path), subdir=False, lock=False, max_dbs=1) as env:
        keys = env.open_db(b"keys", dupsort=True, dupfixed=True)
        with env.begin(keys) as transaction:
            return {bytes(first) + bytes(rest) for first, rest in transaction.cursor()}


def write_old(path, count):
    """Write what an older version had in a file after *count* keys."""
    with lmdb.open(str(path), subdir=False, lock=False, max_dbs=1, map_size=1 << 26) as env:
        keys = env.open_db(b"keys", dupsort=True, dupfixed=True)
        with env.begin(write=True) as transaction:
            transaction.put(b"identity", Identity(DIGEST).to_bytes())
            for entry in unsalted(count):
                transaction.put(entry[:1], entry[1:], db=keys)


def unsalted(count):
    """What stands for keys in a file without a salt."""
    return {blake2b(fingerprint(number), digest_size=9).digest() for number in range(count)}


def test_each_file_hashes_with_a_salt_of_its_own(tmp_path):
    """Nobody can search for two URLs with one hash."""
    one, two = hashes(filled(tmp_path / "one", 500)), hashes(filled(tmp_path / "two", 500))
    assert len(one) == len(two) == 500
    assert not one & two
    assert not one & unsalted(500)


def test_an_old_file_is_opened_and_goes_on(tmp_path):
    """Without a salt, as it was made."""
    path = tmp_path / "seen"
    write_old(path, 500)
    for known in (500, 20_000):
        with opened(f"lmdb:{path}") as store:
            assert len(store) == known
            assert store.add_many(map(fingerprint, range(20_000))) == 20_000 - known
            assert store.forget(fingerprint(3)) is True
            assert store.add(fingerprint(3)) is True
    assert hashes(path) == unsalted(20_000)
    with pytest.raises(StoreMismatchError, match="f" * 16):
        opened(f"lmdb:{path}", digest="f" * 16)
