"""The store in an append-only file."""

from __future__ import annotations

import errno
import os
import random
from unittest import mock

import pytest
from store_contract import DIGEST, IDENTITY, StoreFileContract, fingerprint, opened

from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.stores import open_store

RECORD = 24


class TestFile(StoreFileContract):
    """The file keeps the contract."""

    kind = "file"


def filled(path, count=10):
    with opened(f"file:{path}") as store:
        assert store.add_many(map(fingerprint, range(count))) == count
    return path


def test_the_file_begins_with_its_identity(tmp_path):
    """The first line says in words what the keys were made with."""
    line = filled(tmp_path / "seen").read_bytes().partition(b"\n")[0]
    assert line == IDENTITY.to_bytes()
    assert DIGEST in line.decode()


def test_a_key_is_in_the_file_when_add_returns(tmp_path):
    """Nothing waits in a buffer of the process."""
    path = tmp_path / "seen"
    store = opened(f"file:{path}")
    size = path.stat().st_size
    for number in range(5):
        store.add(fingerprint(number))
        size += RECORD
        assert path.stat().st_size == size
    store.add(fingerprint(0))
    assert path.stat().st_size == size
    store.close()


@pytest.mark.parametrize("cut", [1, 5, 20, 23])
def test_a_torn_tail_is_cut_off_and_said(tmp_path, caplog, cut):
    """A key half written when the process was killed is gone, the others are not."""
    path = filled(tmp_path / "seen")
    path.write_bytes(path.read_bytes()[:-cut])
    with opened(f"file:{path}") as store:
        assert f"ended in {RECORD - cut} bytes" in caplog.text
        assert [store.add(fingerprint(number)) for number in range(10)] == [False] * 9 + [True]
    caplog.clear()
    with opened(f"file:{path}") as store:
        assert len(store) == 10
    assert not caplog.records


def test_a_header_cut_short_is_written_again(tmp_path):
    """A crash at the very start leaves a file that can be used."""
    path = tmp_path / "seen"
    path.write_bytes(IDENTITY.to_bytes()[:30])
    with opened(f"file:{path}") as store:
        assert store.add(b"key")
    with opened(f"file:{path}") as store:
        assert b"key" in store


def test_zeros_at_the_end_are_cut_off(tmp_path, caplog):
    """What a file system leaves after a power cut is not taken for keys."""
    path = filled(tmp_path / "seen")
    with path.open("ab") as file:
        file.write(b"\0" * 1000)
    with opened(f"file:{path}") as store:
        assert len(store) == 10
        assert b"\0" * 20 not in store
    assert "1000 bytes" in caplog.text
    caplog.clear()
    opened(f"file:{path}").close()
    assert not caplog.records


def test_damage_in_the_middle_is_said(tmp_path, caplog):
    """One record that cannot be read costs one key."""
    path = filled(tmp_path / "seen")
    data = bytearray(path.read_bytes())
    data[-3 * RECORD] ^= 1
    path.write_bytes(data)
    with opened(f"file:{path}") as store:
        assert len(store) == 9
        assert fingerprint(7) not in store
    assert "1 keys in it cannot be read" in caplog.text


def test_a_store_that_is_not_open_says_so(tmp_path):
    """Adding without opening is an error, not a key lost."""
    store = open_store(f"file:{tmp_path / 'seen'}", digest=DIGEST)
    with pytest.raises(StoreError, match="not open"):
        store.add(b"x")


def test_a_full_disk_is_an_error_and_no_key_is_lost(tmp_path):
    """A key that could not be written is not seen; the file goes on when there is room."""
    path = filled(tmp_path / "seen")
    real_write = os.write
    store = opened(f"file:{path}")

    def full(file, data):
        if len(data) == RECORD:
            return real_write(file, data[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with mock.patch("os.write", full):
        for _ in range(2):
            with pytest.raises(StoreError, match="No space left"):
                store.add(fingerprint(10))
        assert fingerprint(10) not in store
        assert fingerprint(3) in store
    assert store.add(fingerprint(10)) is True
    store.close()
    with opened(f"file:{path}") as store:
        assert len(store) == 11


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_file_is_read_or_refused(tmp_path, seed):
    """Bytes changed, cut out or put in anywhere: a StoreError, or a store that invents no key."""
    chance = random.Random(seed)
    path = filled(tmp_path / "seen", 50)
    data = bytearray(path.read_bytes())
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(data))
        size = chance.randrange(1, 40)
        data[at : at + chance.choice((0, size))] = chance.randbytes(chance.choice((0, size)))
    path.write_bytes(data)
    try:
        with opened(f"file:{path}") as store:
            known = len(store)
            assert known <= 50
            assert all(store.add(fingerprint(number)) for number in range(50, 100))
    except StoreError as error:
        assert str(path) in str(error)  # noqa: PT017 - or there is none
        assert path.read_bytes() == data
        return
    with opened(f"file:{path}") as store:
        assert len(store) == known + 50


@pytest.mark.parametrize("kind", ["file", "lmdb"])
@pytest.mark.parametrize("name", ["a\0b", "a\ud800"])
def test_a_path_that_no_system_has_is_an_error(tmp_path, kind, name):
    """It names the store."""
    pytest.importorskip("lmdb", reason="the extra 'disk' is not installed")
    with pytest.raises(StoreError, match="cannot open"):
        opened(f"{kind}:{tmp_path / name}")
