"""The store in an append-only file."""

from __future__ import annotations

import errno
import os
from unittest import mock

import pytest
from store_contract import DIGEST, IDENTITY, SeenStoreContract, fingerprint

from scrapy_urlnorm.exceptions import StoreError, StoreMismatchError
from scrapy_urlnorm.stores import open_store

RECORD = 24


class TestFile(SeenStoreContract):
    """The file keeps the contract."""

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path):
        self.path = tmp_path / "job" / "seen"

    def make(self):
        return open_store(f"file:{self.path}", digest=DIGEST)


def open_file(path, digest=DIGEST, **options):
    store = open_store(f"file:{path}", digest=digest, **options)
    store.open()
    return store


def filled(path, count=10):
    with open_file(path) as store:
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
    store = open_file(path)
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
    with open_file(path) as store:
        assert f"ended in {RECORD - cut} bytes" in caplog.text
        assert [store.add(fingerprint(number)) for number in range(10)] == [False] * 9 + [True]
    caplog.clear()
    with open_file(path) as store:
        assert len(store) == 10
    assert not caplog.records


def test_a_header_cut_short_is_written_again(tmp_path):
    """A crash at the very start leaves a file that can be used."""
    path = tmp_path / "seen"
    path.write_bytes(IDENTITY.to_bytes()[:30])
    with open_file(path) as store:
        assert store.add(b"key")
    with open_file(path) as store:
        assert b"key" in store


def test_zeros_at_the_end_are_cut_off(tmp_path, caplog):
    """What a file system leaves after a power cut is not taken for keys."""
    path = filled(tmp_path / "seen")
    with path.open("ab") as file:
        file.write(b"\0" * 1000)
    with open_file(path) as store:
        assert len(store) == 10
        assert b"\0" * 20 not in store
    assert "1000 bytes" in caplog.text
    caplog.clear()
    open_file(path).close()
    assert not caplog.records


def test_damage_in_the_middle_is_said(tmp_path, caplog):
    """One record that cannot be read costs one key."""
    path = filled(tmp_path / "seen")
    data = bytearray(path.read_bytes())
    data[-3 * RECORD] ^= 1
    path.write_bytes(data)
    with open_file(path) as store:
        assert len(store) == 9
        assert fingerprint(7) not in store
    assert "1 keys in it cannot be read" in caplog.text


@pytest.mark.parametrize("other", [{"digest": "f" * 16}, {"key_version": 2}])
def test_other_rules_or_versions_are_refused(tmp_path, other):
    """The error names both and three ways on, and the file stays as it is."""
    path = filled(tmp_path / "seen")
    before = path.read_bytes()
    with pytest.raises(StoreMismatchError) as error:
        open_file(path, **other)
    message = str(error.value)
    for words in (DIGEST, str(next(iter(other.values()))), str(path), "start anew"):
        assert words in message
    assert "keep the old rules" in message
    assert "scrapy-urlnorm rekey" in message
    assert path.read_bytes() == before
    with open_file(path) as store:
        assert len(store) == 10


@pytest.mark.parametrize("content", [b"\x00\x14" + fingerprint(1), b"a\n" * 9, b"\n"])
def test_a_foreign_file_is_refused(tmp_path, content):
    """A file of something else is neither read nor overwritten."""
    path = tmp_path / "requests.seen"
    path.write_bytes(content)
    with pytest.raises(StoreMismatchError, match="not a store of this package"):
        open_file(path)
    assert path.read_bytes() == content


def test_a_file_in_use_is_refused(tmp_path):
    """Two crawls on one file would not see each other's keys."""
    with open_file(tmp_path / "seen"), pytest.raises(StoreError, match="in use"):
        open_file(tmp_path / "seen")
    open_file(tmp_path / "seen").close()


def test_a_path_that_cannot_be_opened_is_named(tmp_path):
    """A directory in the place of the file is an error that names it."""
    with pytest.raises(StoreError, match=str(tmp_path)):
        open_file(tmp_path)


def test_a_read_only_directory_is_named(tmp_path):
    """The error says what cannot be opened and why."""
    denied = OSError(errno.EACCES, os.strerror(errno.EACCES))
    with mock.patch("os.open", side_effect=denied), pytest.raises(StoreError) as error:
        open_file(tmp_path / "seen")
    assert str(tmp_path / "seen") in str(error.value)
    assert "Permission denied" in str(error.value)


def test_a_store_that_is_not_open_says_so(tmp_path):
    """Adding without opening is an error, not a key lost."""
    store = open_store(f"file:{tmp_path / 'seen'}", digest=DIGEST)
    with pytest.raises(StoreError, match="not open"):
        store.add(b"x")


def test_a_full_disk_is_an_error_and_no_key_is_lost(tmp_path):
    """A key that could not be written is not seen; the file goes on when there is room."""
    path = filled(tmp_path / "seen")
    real_write = os.write
    store = open_file(path)

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
    with open_file(path) as store:
        assert len(store) == 11
