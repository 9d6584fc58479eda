"""The store on disk, in real LMDB files."""

from __future__ import annotations

from unittest import mock

import pytest
from store_contract import DIGEST, StoreFileContract, fingerprint, opened

from scrapy_urlnorm.exceptions import StoreError, StoreMismatchError
from scrapy_urlnorm.stores import open_store

lmdb = pytest.importorskip("lmdb", reason="the extra 'disk' is not installed")
disk = pytest.importorskip("scrapy_urlnorm.stores.disk")


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
    """Nothing lies beside it."""
    filled(tmp_path / "seen")
    assert [path.name for path in tmp_path.iterdir()] == ["seen"]


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
