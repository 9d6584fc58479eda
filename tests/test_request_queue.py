"""The queue in the database of a crawl: order, what a commit means, and what it finds."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager

import pytest

from scrapy_urlnorm.crawl.database import RequestQueue
from scrapy_urlnorm.stores import Database, open_store


@pytest.fixture
def path(tmp_path):
    return tmp_path / "crawl.sqlite"


@contextmanager
def opened(path):
    """A queue whose transactions end when the test says so; what is left at the end is undone."""
    database = Database(path)
    database.open()
    database.commits_itself = False
    yield RequestQueue(database)
    database.give_up(RuntimeError("the end of the test"))


def decode(data):
    return data.decode()


def drain(queue, name="a", *, newest=True):
    """All requests of the queue *name*, as they are handed out."""
    requests = []
    while (request := queue.pop(name, decode, newest=newest)) is not None:
        requests.append(request)
    return requests


@pytest.mark.parametrize(("newest", "expected"), [(True, "dcba"), (False, "abcd")])
def test_the_order_of_a_queue(path, newest, expected):
    """Newest first or oldest first, each queue by itself."""
    with opened(path) as queue:
        for letter in "abcd":
            queue.push("one", letter.encode())
            queue.push("other", b"x")
        assert queue.waiting("one") == 4
        assert queue.peek("one", decode, newest=newest) == expected[0]
        assert "".join(drain(queue, "one", newest=newest)) == expected
        assert queue.waiting("one") == 0
        assert queue.peek("one", decode, newest=newest) is None
        assert len(queue) == queue.waiting("other") == 4


def test_what_was_handed_out_is_passed_over(path):
    """A request comes out once, whether it is done or not, wherever later ones go in."""
    with opened(path) as queue:
        for letter in "abc":
            queue.push("a", letter.encode())
        assert queue.pop("a", decode, newest=True) == "c"
        queue.push("a", b"d")
        queue.done(["c"])
        queue.push("a", b"e")
        assert drain(queue) == ["e", "d", "b", "a"]


def test_what_is_not_done_waits_in_the_next_run(path):
    """Waiting or handed out, it is there again in its place; what is done is not."""
    with opened(path) as queue:
        for letter in "abcd":
            queue.push("a", letter.encode())
        assert queue.pop("a", decode, newest=True) == "d"
        assert queue.pop("a", decode, newest=True) == "c"
        queue.done(["d"])
        queue.database.commit()
    with opened(path) as queue:
        assert queue.waiting("a") == len(queue) == 3
        assert drain(queue) == ["c", "b", "a"]


def test_one_of_each_queue(path):
    """Every queue in which something waits is represented."""
    with opened(path) as queue:
        for name in "abc":
            queue.push(name, name.encode())
            queue.push(name, name.encode())
        drain(queue, "b")
        assert sorted(queue.one_of_each()) == [b"a", b"c"]


def test_one_that_cannot_be_decoded_is_left_to_another_run(path):
    """The others come out, and it stays in the database."""

    def strict(data):
        return None if data == b"bad" else data.decode()

    with opened(path) as queue:
        for data in (b"good", b"bad", b"better", b"bad"):
            queue.push("a", data)
        assert [queue.pop("a", strict, newest=True) for _ in range(3)] == ["better", "good", None]
        queue.done(["better", "good"])
        queue.database.commit()
    with opened(path) as queue:
        assert drain(queue) == ["bad", "bad"]


def test_what_was_announced_waits_for_the_next_run(path):
    """It is on disk when `announce` returns, until it is settled; ids are never used again."""
    with opened(path) as queue:
        first, second = queue.announce(b"1"), queue.announce(b"2")
        queue.settle(second)
        queue.database.commit()
        queue.database.give_up(RuntimeError("killed"))
    with opened(path) as queue:
        assert queue.announced() == [(first, b"1")]
        queue.settle(first)
        assert queue.announce(b"3") > second
        queue.database.commit()
    with opened(path) as queue:
        assert [data for _, data in queue.announced()] == [b"3"]


def test_an_id_is_never_used_again(path):
    """Whoever remembers one cannot mean another request, in this run or a later one."""
    for letter in "abc":
        with opened(path) as queue:
            queue.push("a", letter.encode())
            ((number,),) = queue.database.read("SELECT max(id) FROM request")
            assert number == "abc".index(letter) + 1
            assert queue.pop("a", decode, newest=True) == letter
            queue.done([letter])
            queue.database.commit()


WRITER = """
import os, signal, sys
from scrapy_urlnorm.crawl.database import RequestQueue
from scrapy_urlnorm.stores import Database, open_store
database = Database(sys.argv[1])
store = open_store("sqlite", digest="0" * 16, jobdir="x", database=database)
store.open()
database.commits_itself = False
queue = RequestQueue(database)
for number in range(10):
    store.add(b"%d" % number)
    queue.push("a", b"%d" % number)
queue.pop("a", bytes, newest=False)
database.commit()
store.add(b"lost")
queue.push("a", b"lost")
queue.done([b"0"])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_its_last_commit(path):
    """Request and key are there together or not at all."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", WRITER, str(path)], env=environment, check=False)
    with opened(path) as queue:
        assert drain(queue, newest=False) == [str(number) for number in range(10)]
    with open_store(f"sqlite:{path}", digest="0" * 16) as store:
        assert len(store) == 10
        assert b"lost" not in store


@pytest.mark.parametrize("table", ["request", "announced"])
@pytest.mark.parametrize("byte", [0, 50, 99])
def test_a_flipped_byte_in_a_row_is_found(path, table, byte):
    """That request is taken out and counted; all others are whole."""
    requests = [bytes([letter]) * 100 for letter in b"abc"]
    with opened(path) as queue:
        for data in requests:
            queue.announce(data) if table == "announced" else queue.push("a", data)
        queue.database.commit()
    damaged = bytearray(requests[1])
    damaged[byte] ^= 0x40
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"UPDATE {table} SET request = ? WHERE id = 2", (bytes(damaged),))
    with opened(path) as queue:
        assert queue.damaged == 1
        found = list(queue.all()) if table == "request" else [row[1] for row in queue.announced()]
        assert found == [requests[0], requests[2]]
        assert len(queue) == (2 if table == "request" else 0)
