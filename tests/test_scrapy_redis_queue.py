"""The queue in Redis that a killed crawler takes nothing along from."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from scrapy import Request, Spider
from scrapy.signalmanager import SignalManager

redis = pytest.importorskip("redis")
pytest.importorskip("scrapy_redis")

from redis_server import RedisServer
from scrapy_redis.spiders import RedisMixin

from scrapy_urlnorm.crawl.queue.redis_queue import PriorityQueue


class Impatient(PriorityQueue):
    """One for which a crawler is dead after a tenth of a second."""

    dead_seconds = 0.1


class Attributes(SimpleNamespace):
    """One that may be a key of a dictionary, as a crawler may."""

    __hash__ = object.__hash__


class Crawler:
    """As much of a crawler as the queue sees; ``under_way`` is what its engine works on."""

    def __init__(self, url, queue_class=PriorityQueue, spider_class=Spider):
        self.under_way = set()
        spider = spider_class(name="shop")
        spider.crawler = Attributes(
            signals=SignalManager(),
            engine=SimpleNamespace(_slot=SimpleNamespace(inprogress=self.under_way)),
            stats=SimpleNamespace(inc_value=lambda name, count: None),
        )
        self.queue = queue_class(redis.Redis.from_url(url), spider, "%(spider)s:requests")

    def push(self, *names, **options):
        for name in names:
            self.queue.push(Request(f"http://shop.test/{name}", **options))

    def take(self):
        """The name of the next request, which is under way from now on."""
        request = self.queue.pop()
        if request is None:
            return None
        self.under_way.add(request)
        return request.url.rpartition("/")[2]

    def finish(self, name):
        """The callback of that request has run."""
        self.under_way -= {each for each in self.under_way if each.url.endswith(f"/{name}")}

    def take_in_time(self):
        """As soon as something is there."""
        deadline = time.monotonic() + 30
        while (name := self.take()) is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return name


@pytest.fixture(scope="module")
def server():
    with RedisServer() as server:
        yield server


@pytest.fixture
def url(server):
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    return server.url


def test_the_order_is_that_of_scrapy_redis(url):
    """By priority, and then as the requests sort; an equal request stands there once."""
    crawler = Crawler(url)
    crawler.push("b", "a", "a")
    crawler.push("first", priority=3)
    crawler.push("last", priority=-2)
    assert len(crawler.queue) == 4
    assert [crawler.take() for _ in range(5)] == ["first", "a", "b", "last", None]


def test_what_others_have_under_way_counts_as_waiting(url):
    """For the crawler that works on it, it does not."""
    one, other = Crawler(url), Crawler(url)
    one.push("a", "b")
    one.take()
    assert (len(one.queue), len(other.queue)) == (1, 2)
    one.finish("a")
    one.take()
    assert (len(one.queue), len(other.queue)) == (0, 1)
    one.finish("b")
    assert one.take() is None
    assert (len(one.queue), len(other.queue)) == (0, 0)


class WaitsForStartUrls(RedisMixin, Spider):
    """A spider that never ends and is given its start URLs in Redis, when it is idle."""


def test_a_spider_that_waits_for_start_urls_is_idle(url):
    """What others have under way does not keep it from looking for them."""
    one, other = (Crawler(url, spider_class=WaitsForStartUrls) for _ in range(2))
    one.push("a", "b")
    assert len(other.queue) == 2
    one.take()
    assert len(one.queue) == len(other.queue) == 1
    assert other.take() == "b"
    assert len(one.queue) == len(other.queue) == 0


def test_what_a_dead_crawler_had_waits_again(url):
    """With its priority; what was done stays done."""
    dead, other = Crawler(url), Crawler(url, Impatient)
    dead.push("done", priority=5)
    dead.push("slow", priority=2)
    dead.push("slower", priority=-1)
    for _ in range(3):
        dead.take()
    dead.push("waiting", priority=1)
    dead.finish("done")
    dead.queue._say()
    deadline = time.monotonic() + 30
    while other.queue.server.zcard("shop:requests") < 3:
        other.queue._say()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert [other.take() for _ in range(4)] == ["slow", "waiting", "slower", None]


def test_a_crawler_that_gives_signs_keeps_what_it_has(url):
    """However long its requests take."""
    slow, other = Crawler(url), Crawler(url, Impatient)
    slow.push("slow")
    slow.take()
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        slow.queue._give_sign()
        assert other.take() is None


def test_a_crawler_taken_for_dead_goes_on(url):
    """It does its work and harms nobody's: what it says is done was another's by then."""
    slow, other = Crawler(url), Crawler(url, Impatient)
    slow.push("page")
    slow.take()
    assert other.take_in_time() == "page"
    slow.finish("page")
    assert slow.take() is None
    assert len(slow.queue) == 1
    other.finish("page")
    assert other.take() is None
    assert len(slow.queue) == len(other.queue) == 0


def test_a_crawler_that_ends_leaves_nothing(url):
    """What it did is done, and its name is gone."""
    crawler = Crawler(url)
    crawler.push("a")
    crawler.take()
    crawler.finish("a")
    crawler.queue._spider_closed("finished")
    with redis.Redis.from_url(url) as client:
        assert client.keys() == []


def test_a_crawler_that_is_forced_to_end_leaves_its_work(url):
    """It comes back when the name has been silent long enough."""
    crawler, other = Crawler(url), Crawler(url, Impatient)
    crawler.push("a")
    crawler.take()
    crawler.queue._spider_closed("finished")
    assert other.take_in_time() == "a"


def test_clear_forgets_all(url):
    """Also what is under way."""
    crawler = Crawler(url)
    crawler.push("a", "b")
    crawler.take()
    crawler.queue.clear()
    assert len(crawler.queue) == 0
    assert crawler.take() is None


def test_a_lost_answer_loses_no_request(url, monkeypatch):
    """Redis handed out a request and the connection broke: it comes back."""
    crawler, other = Crawler(url), Crawler(url, Impatient)
    crawler.push("a")
    script = crawler.queue._script

    def breaks(**arguments):
        script(**arguments)
        raise redis.ConnectionError("reset")

    monkeypatch.setattr(crawler.queue, "_script", breaks)
    with pytest.raises(redis.ConnectionError):
        crawler.take()
    monkeypatch.undo()
    (token,) = crawler.queue.server.hkeys("shop:requests:under-way")
    assert crawler.queue._name not in token.decode()  # whatever signs it gives
    assert other.take_in_time() == "a"


def test_redis_gone_for_a_while(url, monkeypatch):
    """A sign that does not arrive is no error; what was done is said the next time."""
    crawler = Crawler(url)
    crawler.push("a")
    crawler.take()
    crawler.finish("a")
    script = crawler.queue._script

    def fails(**arguments):
        raise redis.ConnectionError("refused")

    monkeypatch.setattr(crawler.queue, "_script", fails)
    crawler.queue._give_sign()
    monkeypatch.setattr(crawler.queue, "_script", script)
    crawler.queue._give_sign()
    assert len(Crawler(url).queue) == 0


def test_a_request_that_no_spider_can_do_is_an_error_once(url):
    """Its callback is gone: it is not tried for ever."""
    crawler = Crawler(url)
    crawler.queue.serializer = SimpleNamespace(loads=lambda data: 1 / 0)
    crawler.queue.server.zadd("shop:requests", {b"nonsense": 0})
    with pytest.raises(ZeroDivisionError):
        crawler.take()
    assert crawler.take() is None
    assert len(crawler.queue) == len(Crawler(url).queue) == 0
