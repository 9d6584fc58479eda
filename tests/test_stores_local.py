"""The stores that need nothing installed: in memory and in a file."""

from __future__ import annotations

from hashlib import sha1

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_urlnorm.exceptions import (
    ConfigError,
    StoreError,
    StoreMismatchError,
    StoreUnavailableError,
)
from scrapy_urlnorm.stores import open_store

DIGEST = "0123456789abcdef"


def fingerprint(number):
    return sha1(str(number).encode()).digest()


def file_store(path, digest=DIGEST, key_version=1):
    store = open_store(f"file:{path}", digest=digest, key_version=key_version)
    store.open()
    return store


keys = st.one_of(
    st.binary(min_size=1, max_size=19),
    st.text("ab", min_size=10, max_size=10).map(lambda head: head.encode() + bytes(10)),
)


@given(st.lists(st.tuples(st.sampled_from(["add", "forget", "in"]), keys), max_size=60))
def test_memory_does_what_a_set_does(steps):
    """Any sequence of adding, asking and forgetting gives what a set gives."""
    store, model = open_store("memory", digest=DIGEST), set()
    for what, key in steps:
        if what == "add":
            assert store.add(key) is (key not in model)
            model.add(key)
        elif what == "forget":
            store.forget(key)
            model.discard(key)
        assert (key in store) is (key in model)
        assert len(store) == len(model)


def test_neighbouring_keys_do_not_look_like_another():
    """A key that stands across two others in a bucket is not there."""
    store = open_store("memory", digest=DIGEST)
    store.add(b"ab" + b"12345678" + bytes(10))
    store.add(b"ab" + b"abcdefgh" + bytes(10))
    assert b"ab" + b"5678abcd" + bytes(10) not in store
    assert store.add(b"ab" + b"5678abcd" + bytes(10))


def test_a_file_remembers(tmp_path):
    """Keys written by one process are seen by the next."""
    path = tmp_path / "job" / "seen"
    store = file_store(path)
    assert [store.add(fingerprint(n)) for n in (1, 2, 1)] == [True, True, False]
    store.close()
    store = file_store(path)
    assert len(store) == 2
    assert [store.add(fingerprint(n)) for n in (1, 2, 3)] == [False, False, True]
    store.close()


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_torn_tail_is_cut_off_and_said(tmp_path, caplog, cut):
    """A key half written when the process was killed is gone, the others are not."""
    path = tmp_path / "seen"
    store = file_store(path)
    for number in range(10):
        store.add(fingerprint(number))
    store.close()
    path.write_bytes(path.read_bytes()[:-cut])
    store = file_store(path)
    assert "half written" in caplog.text
    assert [store.add(fingerprint(n)) for n in range(10)] == [False] * 9 + [True]
    store.close()
    store = file_store(path)
    assert len(store) == 10
    store.close()


@pytest.mark.parametrize("other", [{"digest": "f" * 16}, {"key_version": 2}])
def test_other_rules_or_versions_are_refused(tmp_path, other):
    """The error names both, and the file stays as it is."""
    path = tmp_path / "seen"
    store = file_store(path)
    store.add(fingerprint(1))
    store.close()
    before = path.read_bytes()
    with pytest.raises(StoreMismatchError) as error:
        file_store(path, **other)
    assert DIGEST in str(error.value)
    assert str(next(iter(other.values()))) in str(error.value)
    assert path.read_bytes() == before


def test_a_foreign_file_is_refused(tmp_path):
    """A file of something else is neither read nor overwritten."""
    path = tmp_path / "requests.seen"
    path.write_bytes(b"\x00\x14" + fingerprint(1))
    with pytest.raises(StoreMismatchError, match="not a file of this package"):
        file_store(path)


def test_a_path_that_cannot_be_opened_is_named(tmp_path):
    """A directory in the place of the file is an error that names it."""
    with pytest.raises(StoreUnavailableError, match=str(tmp_path)):
        file_store(tmp_path)


def test_a_store_that_is_not_open_says_so(tmp_path):
    """Adding without opening is an error, not a key lost."""
    store = open_store(f"file:{tmp_path / 'seen'}", digest=DIGEST)
    with pytest.raises(StoreError, match="not open"):
        store.add(b"x")


@pytest.mark.parametrize("spec", ["tape:x", "memory:x", "file:", ""])
def test_an_unknown_store_is_named(spec):
    """The error names what was asked for and what there is."""
    with pytest.raises(ConfigError, match="accepted: memory"):
        open_store(spec, digest=DIGEST)
