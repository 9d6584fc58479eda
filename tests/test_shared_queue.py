"""The queue that many crawlers share, on a real Redis that forgets what it was told last."""

from __future__ import annotations

import itertools
import time
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

redis = pytest.importorskip("redis", reason="the extra 'redis' is not installed")


from scrapy_urlnorm.crawl import shared_scheduler
from scrapy_urlnorm.crawl.shared_scheduler import SharedQueue
from scrapy_urlnorm.exceptions import StoreError, StoreUnavailableError
from scrapy_urlnorm.stores.redis_connection import parse_redis

LONG = 1_000.0


def shared_queue(server, dead_seconds=LONG):
    """A queue whose requests are words; a number at the end is the priority."""

    def encode(word):
        name, _, priority = word.partition(" ")
        return b"%d\n%b" % (-int(priority or 0), name.encode())

    return SharedQueue(parse_redis(f"{server.url}?prefix=p"), dead_seconds, encode, bytes.decode)


@pytest.fixture
def new(redis_server, redis_client):
    redis_client.flushall()
    opened = []

    def new(dead_seconds=LONG):
        queue = shared_queue(redis_server, dead_seconds)
        opened.append(queue)
        queue.open()
        return queue

    yield new
    for queue in opened:
        queue._connection.close()


def drain(queue):
    return list(iter(queue.pop, None))


def everywhere(client):
    found = {each.decode() for each in client.zrange("p:{p:queue}:waiting", 0, -1)}
    for part in ("held", "withheld"):
        values = client.hvals(f"p:{{p:queue}}:{part}")
        found |= {value.partition(b"\n")[2].decode() for value in values}
    return found


def test_priority_comes_first_and_equal_requests_are_one(new):
    queue = new()
    for each in ("b", "a", "a", "first 3", "last -2"):
        queue.push(each)
    assert drain(queue) == ["first", "a", "b", "last"]
    assert (queue.waiting, queue.held, len(queue.handed_out)) == (0, 4, 4)


def test_what_is_announced_does_not_wait(new):
    one, other = new(), new()
    seen = one.announce("seen")
    assert other.pop() is None
    one.settle(seen)
    fresh = one.announce("new")
    one.push("new")
    one.settle(fresh)
    one.tell()
    assert drain(other) == ["new"]
    assert other.held == 1


def wait_for(queue, number):
    deadline = time.monotonic() + 30
    while queue.waiting < number:
        queue.tell()
        assert time.monotonic() < deadline


def test_what_a_dead_crawler_had_waits_again(new, caplog):
    caplog.set_level("INFO")
    dead, other = new(), new(0.2)
    for name in ("done", "held", "kept"):
        dead.push(name)
    assert drain(dead) == ["done", "held", "kept"]
    dead.done(["done"])
    dead.hold("kept")
    dead.announce("announced")
    wait_for(other, 3)
    assert drain(other) == ["announced", "held", "kept"]
    assert "3 requests of a crawler that gave no sign of life are back" in caplog.text


def test_a_crawler_taken_for_dead_harms_nobody(new):
    slow, other = new(), new(0.1)
    slow.push("page")
    mine = slow.pop()
    undecided = slow.announce("link")
    wait_for(other, 2)
    slow.done([mine])
    slow.push("link")
    slow.settle(undecided)
    slow.tell()
    assert drain(other) == ["link", "page"]


def test_a_lost_answer_is_asked_for_again(new):
    queue = new()
    for name in "ab":
        queue.push(name)
    queue.tell()
    client = queue._connection._client
    evalsha, lost = client.evalsha, []

    def lose_the_answer(*arguments):
        answer = evalsha(*arguments)
        if not lost:
            lost.append(answer)
            raise redis.ConnectionError("reset")
        return answer

    client.evalsha = lose_the_answer
    assert [queue.pop(), queue.pop(), queue.pop()] == ["a", "b", None]
    assert lost
    assert queue.held == 2


def test_after_a_failure_redis_is_told_nothing_more(redis_server, new):
    queue = new()
    queue._connection._place = parse_redis("unix:///nowhere?prefix=p&wait=0")
    queue._connection._client = None
    with pytest.raises(StoreUnavailableError, match="the queue at unix"):
        queue.pop()
    queue._connection._place = parse_redis(f"{redis_server.url}?prefix=p")
    with pytest.raises(StoreError):
        queue.tell()


# --- Redis forgets ----------------------------------------------------------------------------


class Memory:
    """All keys of a Redis, as they were."""

    def __init__(self, client):
        self._client = client
        self._keys = {key: client.dump(key) for key in client.scan_iter()}

    def restore(self):
        self._client.flushall()
        for key, value in self._keys.items():
            self._client.restore(key, 0, value)


def test_more_is_lost_than_can_be_said_again(new, redis_client, monkeypatch):
    monkeypatch.setattr(shared_scheduler, "JOURNAL", 4_000)
    queue = new()
    memory = Memory(redis_client)
    for name in "abcd":
        queue.push(name * 1_000)
        queue.tell()
    memory.restore()
    for _ in range(2):
        with pytest.raises(StoreError, match="has lost requests"):
            queue.tell()
    assert everywhere(redis_client) == set()


CRAWLERS = 3
_operations = st.lists(
    st.tuples(
        st.sampled_from(
            ["push", "announce", "decide", "pop", "done", "hold", "tell", "remember", "forget"]
        ),
        st.integers(0, CRAWLERS - 1),
    ),
    max_size=40,
)


@settings(deadline=None, max_examples=60)
@given(_operations)
def test_whatever_redis_forgets_no_request_is_lost(redis_server, operations):
    with redis.Redis.from_url(redis_server.url) as client:
        client.flushall()
        crawlers = [shared_queue(redis_server) for _ in range(CRAWLERS)]
        for crawler in crawlers:
            crawler.open()
        open_tokens = [{} for _ in crawlers]  # of what was announced, and the requests
        pushed, done, kept = set(), set(), set()
        counter = itertools.count()
        memory = Memory(client)
        for operation, number in operations:
            crawler, announced = crawlers[number], open_tokens[number]
            if operation in ("push", "announce"):
                name = f"page{next(counter)}"
                pushed.add(name)
                if operation == "push":
                    crawler.push(name)
                else:
                    announced[crawler.announce(name)] = name
            elif operation == "decide" and announced:
                token, name = announced.popitem()  # new: then it waits; else it was seen
                crawler.push(name) if int(name[4:]) % 2 else done.add(name)
                crawler.settle(token)
            elif operation in ("pop", "tell"):
                getattr(crawler, operation)()
            elif operation == "done" and crawler.handed_out:
                name = next(iter(crawler.handed_out))
                crawler.done([name])
                done.add(name)
            elif operation == "hold" and crawler.handed_out:
                kept.add(crawler.hold(next(iter(crawler.handed_out))))
            elif operation == "remember":
                memory = Memory(client)
            elif operation == "forget":
                memory.restore()
        for crawler in crawlers:
            crawler.tell()
        assert pushed - done <= everywhere(client)
        mine = {*chain(*open_tokens), *chain(*(each.handed_out.values() for each in crawlers))}
        assert mine <= {each.decode() for each in client.hkeys("p:{p:queue}:held")}
        assert kept <= {each.decode() for each in client.hkeys("p:{p:queue}:withheld")}
        for crawler in crawlers:
            crawler._connection.close()
