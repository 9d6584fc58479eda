"""The database of pending requests: order, what a commit means, and what it refuses."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.pending import PendingRequests


@pytest.fixture
def path(tmp_path):
    return tmp_path / "pending"


def decode(data):
    return data.decode()


def drain(pending, queue="a", *, newest=True):
    """All requests of *queue*, as they are handed out."""
    requests = []
    while (request := pending.pop(queue, decode, newest=newest)) is not None:
        requests.append(request)
    return requests


@pytest.mark.parametrize(("newest", "expected"), [(True, "dcba"), (False, "abcd")])
def test_the_order_of_a_queue(path, newest, expected):
    """Newest first or oldest first, each queue by itself."""
    with closing(PendingRequests(path)) as pending:
        for letter in "abcd":
            pending.push("one", letter.encode())
            pending.push("other", b"x")
        assert pending.waiting("one") == 4
        assert pending.peek("one", decode, newest=newest) == expected[0]
        assert "".join(drain(pending, "one", newest=newest)) == expected
        assert pending.waiting("one") == 0
        assert pending.peek("one", decode, newest=newest) is None
        assert len(pending) == pending.waiting("other") == 4


def test_what_was_handed_out_is_passed_over(path):
    """A request comes out once, whether it is done or not, wherever later ones go in."""
    with closing(PendingRequests(path)) as pending:
        for letter in "abc":
            pending.push("a", letter.encode())
        assert pending.pop("a", decode, newest=True) == "c"
        pending.push("a", b"d")
        pending.done(["c"])
        pending.push("a", b"e")
        assert drain(pending) == ["e", "d", "b", "a"]


def test_what_is_not_done_waits_in_the_next_run(path):
    """Waiting or handed out, it is there again in its place; what is done is not."""
    with closing(PendingRequests(path)) as pending:
        for letter in "abcd":
            pending.push("a", letter.encode())
        assert pending.pop("a", decode, newest=True) == "d"
        assert pending.pop("a", decode, newest=True) == "c"
        pending.done(["d"])
        pending.commit()
    with closing(PendingRequests(path)) as pending:
        assert pending.waiting("a") == len(pending) == 3
        assert drain(pending) == ["c", "b", "a"]


def test_one_of_each_queue(path):
    """Every queue in which something waits is represented."""
    with closing(PendingRequests(path)) as pending:
        for queue in "abc":
            pending.push(queue, queue.encode())
            pending.push(queue, queue.encode())
        drain(pending, "b")
        assert sorted(pending.one_of_each()) == [b"a", b"c"]


def test_one_that_cannot_be_decoded_is_left_to_another_run(path):
    """The others come out, and it stays in the database."""

    def strict(data):
        return None if data == b"bad" else data.decode()

    with closing(PendingRequests(path)) as pending:
        for data in (b"good", b"bad", b"better", b"bad"):
            pending.push("a", data)
        assert [pending.pop("a", strict, newest=True) for _ in range(3)] == ["better", "good", None]
        pending.done(["better", "good"])
        pending.commit()
    with closing(PendingRequests(path)) as pending:
        assert drain(pending) == ["bad", "bad"]


def test_keys_are_held_until_they_are_released(path):
    """Also over runs."""
    with closing(PendingRequests(path)) as pending:
        pending.hold([b"1", b"2"])
        pending.commit()
    with closing(PendingRequests(path)) as pending:
        assert pending.keys_held == 2
        assert sorted(pending.held()) == [b"1", b"2"]
        pending.release()
        pending.commit()
    with closing(PendingRequests(path)) as pending:
        assert pending.keys_held == 0
        assert list(pending.held()) == []


WRITER = """
import os, signal, sys
from scrapy_urlnorm.pending import PendingRequests
pending = PendingRequests(sys.argv[1])
for number in range(10):
    pending.push("a", b"%d" % number)
    pending.hold([b"%d" % number])
pending.pop("a", bytes, newest=False)
pending.commit()
pending.push("a", b"lost")
pending.hold([b"lost"])
pending.done([b"0"])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_its_last_commit(path):
    """Request and key are there together or not at all."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", WRITER, str(path)], env=environment, check=False)
    with closing(PendingRequests(path)) as pending:
        assert drain(pending, newest=False) == [str(number) for number in range(10)]
        assert [int(key) for key in pending.held()] == list(range(10))


def test_what_was_not_committed_is_undone(path):
    """`close` commits nothing by itself."""
    with closing(PendingRequests(path)) as pending:
        pending.push("a", b"1")
    with closing(PendingRequests(path)) as pending:
        assert len(pending) == 0


def test_a_second_crawl_is_refused(path):
    """While one has it open, another is told why it cannot."""
    with closing(PendingRequests(path)), pytest.raises(StoreError, match="another crawl uses it"):
        PendingRequests(path)
    PendingRequests(path).close()


@pytest.mark.parametrize("content", [b"somebody's notes" * 100, None], ids=["text", "database"])
def test_another_file_is_refused(path, content):
    """A file that is none of ours is named and stays as it is."""
    if content is None:
        with closing(sqlite3.connect(path)) as database:
            database.execute("CREATE TABLE note (text)")
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="pending"):
        PendingRequests(path)
    assert path.read_bytes() == before


def test_another_version_is_refused(path):
    """A database of a later version is not touched, and the error says what to do."""
    PendingRequests(path).close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match=r"version 99.*name another JOBDIR"):
        PendingRequests(path)


def test_an_unreadable_place(tmp_path):
    """A folder that is not there is an error that names the file."""
    with pytest.raises(StoreError, match=r"no.*pending"):
        PendingRequests(tmp_path / "no" / "pending")
