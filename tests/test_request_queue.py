"""The queue in the database of a crawl: order, what a commit means, and what it finds."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager

import pytest

from scrapy_urlnorm.crawl.database import RequestQueue
from scrapy_urlnorm.stores import Database


@pytest.fixture
def path(tmp_path):
    return tmp_path / "crawl.sqlite"


@contextmanager
def opened(path, decode=bytes.decode):
    database = Database(path)
    database.open()
    database.commits_itself = False
    yield RequestQueue(database, str.encode, decode)
    database.give_up(RuntimeError("the end of the test"))


def drain(queue, name="a", *, newest=True):
    requests = []
    while (request := queue.pop(name, newest=newest)) is not None:
        requests.append(request)
    return requests


@pytest.mark.parametrize(("newest", "expected"), [(True, "dcba"), (False, "abcd")])
def test_the_order_of_a_queue(path, newest, expected):
    with opened(path) as queue:
        for letter in "abcd":
            queue.push("one", letter)
            queue.push("other", "x")
        assert queue.waiting("one") == 4
        assert "".join(drain(queue, "one", newest=newest)) == expected
        assert queue.waiting("one") == 0
        assert len(queue) == queue.waiting("other") == 4


def test_what_is_not_done_waits_in_the_next_run(path):
    with opened(path) as queue:
        for letter in "abcd":
            queue.push("a", letter)
        assert queue.pop("a", newest=True) == "d"
        assert queue.pop("a", newest=True) == "c"
        queue.done(["d"])
        queue.database.commit()
    with opened(path) as queue:
        assert queue.waiting("a") == len(queue) == 3
        assert drain(queue) == ["c", "b", "a"]


def test_one_that_cannot_be_decoded_is_left_to_another_run(path):

    def strict(data):
        return None if data == b"bad" else data.decode()

    with opened(path, strict) as queue:
        for word in ("good", "bad", "better", "bad"):
            queue.push("a", word)
        assert [queue.pop("a", newest=True) for _ in range(3)] == ["better", "good", None]
        queue.done(["better", "good"])
        queue.database.commit()
    with opened(path) as queue:
        assert drain(queue) == ["bad", "bad"]


def test_what_was_announced_waits_for_the_next_run(path):
    with opened(path) as queue:
        first, second = queue.announce("1"), queue.announce("2")
        queue.settle(second)
        queue.database.commit()
        queue.database.give_up(RuntimeError("killed"))
    with opened(path) as queue:
        assert queue.announced() == [(first, "1")]
        queue.settle(first)
        assert queue.announce("3") > second
        queue.database.commit()
    with opened(path) as queue:
        assert [word for _, word in queue.announced()] == ["3"]


def test_an_id_is_never_used_again(path):
    for letter in "abc":
        with opened(path) as queue:
            queue.push("a", letter)
            ((number,),) = queue.database.read("SELECT max(id) FROM request")
            assert number == "abc".index(letter) + 1
            assert queue.pop("a", newest=True) == letter
            queue.done([letter])
            queue.database.commit()


@pytest.mark.parametrize("byte", [0, 50, 99])
def test_a_flipped_byte_in_a_row_is_found(path, byte):
    requests = [letter * 100 for letter in "abcd"]
    with opened(path) as queue:
        for request in requests[:3]:
            queue.push("a", request)
        queue.announce(requests[3])
    damaged = bytearray(requests[1].encode())
    damaged[byte] ^= 0x40
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE request SET request = ? WHERE id IN (2, 4)", (bytes(damaged),))
    with opened(path) as queue:
        assert queue.damaged == 2
        assert [data.decode() for data in queue.all()] == [requests[0], requests[2]]
        assert (len(queue), queue.announced()) == (2, [])
