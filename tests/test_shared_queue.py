"""The queue that many crawlers share, on a real Redis that forgets what it was told last."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

redis = pytest.importorskip("redis", reason="the extra 'redis' is not installed")

from redis_server import RedisServer

from scrapy_urlnorm.crawl import shared_queue
from scrapy_urlnorm.crawl.shared_queue import SharedQueue
from scrapy_urlnorm.exceptions import StoreError, StoreUnavailableError
from scrapy_urlnorm.stores.redis_connection import parse_redis

LONG = 1_000.0


@pytest.fixture(scope="module")
def server():
    """One for all tests here."""
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    """A client of redis-py."""
    with redis.Redis.from_url(server.url) as client:
        yield client


@pytest.fixture
def new(server, client):
    """Makes crawlers' ends of one queue."""
    client.flushall()
    opened = []

    def new(dead_seconds=LONG, **callbacks):
        place, options = parse_redis(f"{server.url}?prefix=p", {})
        queue = SharedQueue(
            place, prefix="p", wait=options.wait, dead_seconds=dead_seconds, **callbacks
        )
        opened.append(queue)
        queue.open()
        return queue

    yield new
    for queue in opened:
        queue._connection.close()


def entry(name, priority=0):
    """A request as the queue has it."""
    return b"%d\n%b" % (-priority, name.encode())


def names(queue):
    """All that it hands out."""
    return [taken.data.decode() for taken in iter(queue.take, None)]


def everywhere(client):
    """Every request that is in Redis: it waits, is held, or is withheld."""
    found = {each.decode() for each in client.zrange("p:{p:queue}:waiting", 0, -1)}
    for part in ("held", "withheld"):
        values = client.hvals(f"p:{{p:queue}}:{part}")
        found |= {value.partition(b"\n")[2].decode() for value in values}
    return found


def test_priority_comes_first_and_equal_requests_are_one(new):
    """As in scrapy-redis's queue."""
    queue = new()
    for each in (entry("b"), entry("a"), entry("a"), entry("first", 3), entry("last", -2)):
        queue.push(each)
    assert names(queue) == ["first", "a", "b", "last"]
    assert (queue.waiting, queue.held) == (0, 4)


def test_data_with_line_feeds_stays_whole(new):
    """A pickle may have any byte."""
    one, other = new(), new()
    data = bytes(range(256)) * 3
    one.push(b"-5\n" + data)
    token = one.announce(b"0\n" + data + b"\n")
    one.free(token)
    one.tell()
    assert other.take().data == data
    assert other.take().data == data + b"\n"


def test_what_is_announced_does_not_wait(new):
    """Nobody gets it before it is decided about; then it waits, or is forgotten."""
    one, other = new(), new()
    yes, no = one.announce(entry("yes")), one.announce(entry("no"))
    assert other.take() is None
    assert other.held == 2
    one.free(yes)
    one.done(no)
    one.tell()
    assert names(other) == ["yes"]
    assert other.held == 1


def test_what_a_dead_crawler_had_waits_again(new):
    """Held, announced and withheld; what was done stays done."""
    taken_back = []
    dead, other = new(), new(0.2, on_taken_back=taken_back.append)
    for name in ("done", "held", "kept"):
        dead.push(entry(name))
    tokens = {taken.data: taken.token for taken in iter(dead.take, None)}
    dead.done(tokens[b"done"])
    dead.keep(tokens[b"kept"])
    dead.announce(entry("announced"))
    deadline = time.monotonic() + 30
    while other.waiting < 3:
        other.tell()
        assert time.monotonic() < deadline
    assert names(other) == ["announced", "held", "kept"]
    assert taken_back == [3]


def test_a_crawler_taken_for_dead_harms_nobody(new):
    """What it says of requests that others have by then changes nothing."""
    slow, other = new(), new(0.1)
    slow.push(entry("page"))
    mine = slow.take()
    undecided = slow.announce(entry("link"))
    deadline = time.monotonic() + 30
    while other.waiting < 2:
        other.tell()
        assert time.monotonic() < deadline
    slow.done(mine.token)
    slow.free(undecided)
    slow.tell()
    assert names(other) == ["link", "page"]


def test_a_crawler_that_leaves_leaves_nothing(new, client):
    """Its name and its last step are gone."""
    queue = new()
    queue.push(entry("a"))
    queue.done(queue.take().token)
    queue.close(holds_nothing=True)
    assert client.keys() == []
    queue.close(holds_nothing=True)


def test_a_lost_answer_is_asked_for_again(new):
    """Redis did it and the connection broke: the same request is the answer."""
    queue = new()
    for name in "ab":
        queue.push(entry(name))
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
    assert [queue.take().data, queue.take().data, queue.take()] == [b"a", b"b", None]
    assert lost
    assert queue.held == 2


def test_after_a_failure_redis_is_told_nothing_more(server, new):
    """An answer was lost for good: nobody knows which step Redis has."""
    queue = new()
    queue._connection._wait = 0.0
    queue._connection._place = parse_redis("unix:///nowhere?prefix=p", {})[0]
    queue._connection._disconnect()
    with pytest.raises(StoreUnavailableError, match="the queue at unix"):
        queue.take()
    queue._connection._place = parse_redis(f"{server.url}?prefix=p", {})[0]
    with pytest.raises(StoreError):
        queue.tell()


# --- Redis forgets ----------------------------------------------------------------------------


class Memory:
    """All keys of a Redis, as they were."""

    def __init__(self, client):
        self._client = client
        self._keys = {key: client.dump(key) for key in client.scan_iter()}

    def restore(self):
        """Now they are that again."""
        self._client.flushall()
        for key, value in self._keys.items():
            self._client.restore(key, 0, value)


def test_lost_steps_are_said_again(new, client):
    """Pushed, taken, done and kept after the moment to which Redis goes back."""
    repeated = []
    one, other = new(on_repeated=repeated.append), new(on_repeated=repeated.append)
    one.push(entry("before"))
    one.tell()
    memory = Memory(client)
    one.done(one.take().token)
    for name in ("a", "b", "c", "d"):
        one.push(entry(name))
    one.tell()
    one.done(one.take().token)
    one.keep(one.take().token)
    one.tell()
    other.done(other.take().token)
    other.tell()
    memory.restore()
    assert everywhere(client) == {"before"}
    one.tell()
    other.tell()
    assert everywhere(client) == {"b", "d"}  # withheld, and waiting
    assert names(other) == ["d"]
    assert repeated == [5, 2]


def test_more_is_lost_than_can_be_said_again(new, client, monkeypatch):
    """That is an error, and nothing is told any more."""
    monkeypatch.setattr(shared_queue, "JOURNAL", 4_000)
    queue = new()
    memory = Memory(client)
    for name in "abcd":
        queue.push(entry(name * 1_000))
        queue.tell()
    memory.restore()
    for _ in range(2):
        with pytest.raises(StoreError, match="has lost requests"):
            queue.tell()
    assert everywhere(client) == set()


CRAWLERS = 3
_operations = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["push", "announce", "take", "tell"]), st.integers(0, CRAWLERS - 1)),
        st.tuples(st.sampled_from(["free", "keep", "done"]), st.integers(0, CRAWLERS - 1)),
        st.tuples(st.sampled_from(["remember", "forget"]), st.just(0)),
    ),
    max_size=40,
)  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(_operations)
def test_whatever_redis_forgets_no_request_is_lost(server, operations):
    """In the end each request is done, or in Redis; a crawler holds what it thinks it holds."""
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
        place, _ = parse_redis(f"{server.url}?prefix=p", {})
        crawlers = [
            SharedQueue(place, prefix="p", wait=5, dead_seconds=LONG) for _ in range(CRAWLERS)
        ]
        for crawler in crawlers:
            crawler.open()
        held = [{} for _ in crawlers]  # tokens, and the names of requests
        pushed, done = set(), set()
        counter = itertools.count()
        memory = Memory(client)
        for operation, number in operations:
            crawler, mine = crawlers[number], held[number]
            if operation in ("push", "announce"):
                name = f"page{next(counter)}"
                pushed.add(name)
                if operation == "push":
                    crawler.push(entry(name))
                else:
                    mine[crawler.announce(entry(name))] = name
            elif operation == "take":
                taken = crawler.take()
                if taken is not None:
                    mine[taken.token] = taken.data.decode()
            elif operation == "tell":
                crawler.tell()
            elif operation == "remember":
                memory = Memory(client)
            elif operation == "forget":
                memory.restore()
            elif mine:
                token = next(iter(mine))
                name = mine.pop(token)
                getattr(crawler, operation)(token)
                if operation == "done":
                    done.add(name)
        for crawler in crawlers:
            crawler.tell()
        assert pushed - done <= everywhere(client)
        in_redis = client.hkeys("p:{p:queue}:held")
        assert {token.encode() for mine in held for token in mine} <= set(in_redis)
        for crawler in crawlers:
            crawler._connection.close()


# --- what is refused --------------------------------------------------------------------------


def test_a_redis_that_would_throw_requests_away_is_refused(server, client, new):
    """When its memory is short, waiting requests would be gone."""
    client.config_set("maxmemory", "1gb")
    client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(StoreError, match="set noeviction"):
            new()
    finally:
        client.config_set("maxmemory", "0")
        client.config_set("maxmemory-policy", "noeviction")
    new()


def test_a_value_of_another_type_is_an_error(client, new):
    """Somebody else uses the prefix."""
    queue = new()
    client.set("p:{p:queue}:held", "text")
    with pytest.raises(StoreError, match="WRONGTYPE"):
        queue.announce(entry("a"))


def test_a_queue_that_does_not_answer_has_nothing_to_fall_back_on():
    """The message offers no way that the scheduler refuses."""
    with RedisServer() as server:
        place, _ = parse_redis(f"{server.url}?prefix=p", {})
        queue = SharedQueue(place, prefix="p", wait=0.1, dead_seconds=LONG)
        queue.open()
        server.kill()
        with pytest.raises(StoreUnavailableError, match=r"Resume the crawl when it does$"):
            queue.take()
        queue._connection.close()
