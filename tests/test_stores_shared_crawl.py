"""Four crawlers on one Redis, of which one is killed: which pages are missing?"""

from __future__ import annotations

import re
import threading
from collections import Counter
from contextlib import suppress

import pytest
from crawl_process import start
from loopback import Site, page

pytest.importorskip("redis")

from redis_server import RedisServer

HOME = "http://shop.test/"
PAGES = {f"{HOME}{number}" for number in range(1, 150)}
CRAWLERS = 4
CONCURRENT = 4  #: requests that one crawler has under way
MOST_UNDER_WAY = 4 * CONCURRENT  #: downloads of one, and pages whose links it had not queued yet
FROM_ALL = (CRAWLERS - 1) * CONCURRENT + 1  #: so many requests come from each of them
OURS, THEIRS = "test_shared_failover.Impatient", "scrapy_redis.scheduler.Scheduler"


class Shop:
    """Pages that link to one another; the first one answers when all crawlers have asked.

    After half of them answers are held back; ``stands_still`` when there are *held* of them.
    """

    def __init__(self, held):
        self.held = held
        self.all_are_here = threading.Barrier(CRAWLERS, timeout=60)
        self.stands_still = threading.Event()
        self.goes_on = threading.Event()
        self.asked = 0

    def __call__(self, url):
        if url.partition("?")[0] == HOME:
            with suppress(threading.BrokenBarrierError):  # one of them did not come up
                self.all_are_here.wait()
            return page("0", *(f"/{n}" for n in range(1, 12)))
        self.asked += 1
        if self.asked > len(PAGES) // 2:
            if self.asked >= len(PAGES) // 2 + self.held:
                self.stands_still.set()
            self.goes_on.wait(60)
        number = int(url.rpartition("/")[2].partition("?")[0])
        near = range(max(1, number - 10), min(len(PAGES) + 1, number + 24))
        return page(str(number), *(f"/{n}?utm_source={number}" for n in near))


def crawl(scheduler, folder, killed=0, held=1):
    """Return how often each page was asked for, and the logs."""
    shop = Shop(held)
    logs = [folder / f"log{n}" for n in range(CRAWLERS)]
    with RedisServer() as server, Site(shop) as site:
        settings = {
            "SCHEDULER": scheduler,
            "SCHEDULER_PERSIST": True,
            "SCHEDULER_IDLE_BEFORE_CLOSE": 1,
            "DUPEFILTER_CLASS": "scrapy_urlnorm.UrlNormDupeFilter",
            "REDIS_URL": server.url,
            "URLNORM_STORE": server.url + "?prefix=follow:seen",
            "CONCURRENT_REQUESTS": CONCURRENT,
            "URLNORM_LEARN": {"pairs": 0},
        }
        # scrapy-redis keeps its queue as a set: of equal requests pushed by several, one is left.
        crawlers = [start(site, [f"{HOME}?{n}"], settings, log) for n, log in enumerate(logs)]
        try:
            assert shop.stands_still.wait(60)
            # One for which the others left nothing may have closed itself: some are at work.
            victims = [each for each in crawlers if each.poll() is None][:killed]
            for victim in victims:
                victim.kill()
                victim.wait(60)
            shop.goes_on.set()
            assert len(victims) == killed
            assert not any(each.wait(120) for each in crawlers if each not in victims)
        finally:
            for crawler in crawlers:
                crawler.kill()
                crawler.wait()
    times = Counter(url.partition("?")[0] for url in site.requests)
    assert times.pop(HOME) == CRAWLERS  # start requests pass every dupefilter
    assert set(times) <= PAGES
    return times, [log.read_text() for log in logs]


@pytest.mark.long
@pytest.mark.parametrize("scheduler", [OURS, THEIRS])
def test_four_crawlers_fetch_every_page_once(scheduler, tmp_path):
    if scheduler == THEIRS:
        pytest.importorskip("scrapy_redis")
    times, logs = crawl(scheduler, tmp_path)
    assert set(times) == PAGES
    # With a scheduler that cannot hold requests, what is found before its page has come is repeated.
    assert scheduler == THEIRS or set(times.values()) == {1}
    # One whose requests the others took has no such count.
    received = [int(n) for log in logs for n in re.findall(r"response_received_count': (\d+)", log)]
    assert sum(received) == sum(times.values()) + CRAWLERS
    assert sum(count > 1 for count in received) > 1


@pytest.mark.long
def test_with_our_scheduler_nothing_is_missing_that_a_killed_crawler_had(tmp_path):
    times, logs = crawl(OURS, tmp_path, killed=1, held=FROM_ALL)
    assert set(times) == PAGES
    assert 1 <= sum(times.values()) - len(PAGES) <= MOST_UNDER_WAY
    assert any("are back in the queue" in log for log in logs)


@pytest.mark.long
def test_with_that_of_scrapy_redis_what_it_was_fetching_is_missing_and_no_more(tmp_path):
    pytest.importorskip("scrapy_redis")
    times, _ = crawl(THEIRS, tmp_path, killed=1)
    assert len(PAGES - set(times)) <= MOST_UNDER_WAY
