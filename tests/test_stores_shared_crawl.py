"""Many crawlers, one frontier: Scrapy processes on the queue of scrapy-redis and our store."""

from __future__ import annotations

import re
import signal
import threading
from collections import Counter
from contextlib import suppress

import pytest
from crawl_process import start
from loopback import Site, page

redis = pytest.importorskip("redis")
pytest.importorskip("scrapy_redis")

from redis_server import RedisServer

HOME = "http://shop.test/"
PAGES = 150
CRAWLERS = 4
CONCURRENT = 4  #: requests that one crawler has under way


@pytest.fixture
def url():
    """The URL of a Redis of this test alone."""
    with RedisServer() as server:
        yield server.url


class Shop:
    """Pages that link to one another; the first one answers when all crawlers have asked."""

    def __init__(self) -> None:
        self.all_are_here = threading.Barrier(CRAWLERS, timeout=60)
        self.half = threading.Event()
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.asked = 0

    def __call__(self, url):
        if url.partition("?")[0] == HOME:
            with suppress(threading.BrokenBarrierError):  # one of them did not come up
                self.all_are_here.wait()
            return page("0", *(f"/{n}" for n in range(1, 12)))
        self.asked += 1
        if self.asked > PAGES // 2:
            self.half.set()
            self.goes_on.wait(60)
        number = int(url.rpartition("/")[2].partition("?")[0])
        near = range(max(1, number - 10), min(PAGES, number + 12))
        return page(str(number), *(f"/{n}?utm_source={number}" for n in near))


def start_crawlers(site, url, folder, **more):
    """Start all of them on one queue and one store."""
    settings = {
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "SCHEDULER_PERSIST": True,
        "SCHEDULER_IDLE_BEFORE_CLOSE": 1,
        "DUPEFILTER_CLASS": "scrapy_urlnorm.UrlNormDupeFilter",
        "REDIS_URL": url,
        "URLNORM_STORE": url + "?prefix=follow:seen",
        "CONCURRENT_REQUESTS": CONCURRENT,
        "URLNORM_PAIRS": 0,
        **more,
    }
    # scrapy-redis keeps its queue as a set: of equal requests pushed by several, one is left.
    return [
        start(site, [f"{HOME}?start={n}"], settings, folder / f"log{n}") for n in range(CRAWLERS)
    ]


def pages_of(requests):
    """How often each page was fetched, but the first one."""
    times = Counter(url.partition("?")[0] for url in requests)
    assert times.pop(HOME) == CRAWLERS  # start requests pass every dupefilter
    return times


def test_four_crawlers_fetch_every_page_once(url, tmp_path):
    """Every page is fetched by one of them, and more than one had a part in it."""
    with Site(Shop()) as site:
        crawlers = start_crawlers(site, url, tmp_path)
        assert [crawler.wait(120) for crawler in crawlers] == [0] * CRAWLERS
    assert pages_of(site.requests) == {f"{HOME}{number}": 1 for number in range(1, PAGES)}
    logs = [(tmp_path / f"log{n}").read_text() for n in range(CRAWLERS)]
    # One whose requests the others took has no such count.
    counts = [re.search(r"'response_received_count': (\d+)", log) for log in logs]
    received = [int(count[1]) if count else 0 for count in counts]
    assert sum(received) == PAGES - 1 + CRAWLERS
    assert sum(count > 1 for count in received) > 1


def kill_one(url, folder, **more):
    """Kill one of the crawlers in the middle; how often each page was fetched in the end."""
    shop = Shop()
    shop.goes_on.clear()
    with Site(shop) as site:
        crawlers = start_crawlers(site, url, folder, **more)
        assert shop.half.wait(60)
        victim = next(crawler for crawler in crawlers if crawler.poll() is None)
        victim.send_signal(signal.SIGKILL)
        victim.wait(60)
        shop.goes_on.set()
        codes = [crawler.wait(120) for crawler in crawlers]
    assert sorted(codes) == [-signal.SIGKILL] + [0] * (CRAWLERS - 1)
    return pages_of(site.requests)


def test_a_killed_crawler_takes_what_it_was_fetching_and_no_more(url, tmp_path):
    """With scrapy-redis's queue the others go on: no page twice, what it had under way is missing.

    That are the requests it was downloading and the pages whose links it had not queued yet.
    """
    times = kill_one(url, tmp_path)
    assert set(times.values()) == {1}
    assert len(times) >= PAGES - 1 - 4 * CONCURRENT
