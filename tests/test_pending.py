"""The database of pending requests: order, what a commit means, what it finds and refuses."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from scrapy_urlnorm.crawl.queue.pending import PendingRequests, checksum
from scrapy_urlnorm.exceptions import StoreError


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
from scrapy_urlnorm.crawl.queue.pending import PendingRequests
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


# --- what is found in a database that an earlier run left ----------------------------------------

VERSION_1 = """
CREATE TABLE request (id INTEGER PRIMARY KEY, queue TEXT NOT NULL, request BLOB NOT NULL);
CREATE INDEX request_of_queue ON request (queue);
CREATE TABLE key (key BLOB NOT NULL);
PRAGMA application_id = 0x75726C6E; PRAGMA user_version = 1;
"""


def test_a_database_of_version_1_is_taken_over(path):
    """Its requests have no checksums, come out in their order, and keys are held as before."""
    with closing(sqlite3.connect(path)) as database:
        database.executescript(VERSION_1)
        rows = [("a", letter.encode()) for letter in "abc"]
        database.executemany("INSERT INTO request (queue, request) VALUES (?, ?)", rows)
        database.execute("INSERT INTO key VALUES (?)", (b"k",))
        database.commit()
    with closing(PendingRequests(path)) as pending:
        assert pending.damaged == 0
        assert list(pending.held()) == [b"k"]
        pending.push("a", b"d")
        assert drain(pending, newest=False) == ["a", "b", "c", "d"]
        assert pending.read("SELECT count(*) FROM withheld") == [(0,)]
        pending.commit()
    with closing(PendingRequests(path)) as pending:  # it is one of this version from now on
        assert len(pending) == 4


INSERTS = {
    "request": "INSERT INTO request (queue, request, checksum) VALUES ('a', ?, ?)",
    "withheld": "INSERT INTO withheld (site, learned, own, request, checksum, is_parked)"
    " VALUES ('shop.test', x'00', x'01', ?, ?, 0)",
}


@pytest.mark.parametrize("table", INSERTS)
@pytest.mark.parametrize("byte", [0, 50, 99])
def test_a_flipped_byte_in_a_row_is_found(path, table, byte):
    """That request is taken out and counted; all others are whole."""
    requests = [bytes([letter]) * 100 for letter in b"abc"]
    with closing(PendingRequests(path)) as pending:
        for data in requests:
            pending.write(INSERTS[table], data, checksum(data))
        pending.commit()
    damaged = bytearray(requests[1])
    damaged[byte] ^= 0x40
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"UPDATE {table} SET request = ? WHERE id = 2", (bytes(damaged),))
        database.commit()
    with closing(PendingRequests(path)) as pending:
        assert pending.damaged == 1
        assert [row[0] for row in pending.read(f"SELECT request FROM {table} ORDER BY id")] == [
            requests[0],
            requests[2],
        ]
        assert len(pending) == (2 if table == "request" else 0)


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_the_file_is_for_its_owner_only(path):
    """Requests carry cookies and headers; what SQLite puts beside the file has its mode."""
    before = os.umask(0)
    try:
        with closing(PendingRequests(path)) as pending:
            pending.push("a", b"1")
            pending.commit()
            modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert path.name in modes
    assert set(modes.values()) == {0o600}
