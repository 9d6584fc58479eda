"""Masters and crawlers are killed in the middle of a crawl that many share: no page is lost.

The figures are in what ``pytest -rP`` prints.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections import Counter

import pytest
from crawl_process import start
from loopback import Site, page

redis = pytest.importorskip("redis", reason="the extra 'redis' is not installed")

from redis_server import RedisServer
from redis_setups import SETUPS

from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter
from scrapy_urlnorm.crawl.shared_scheduler import SharedScheduler

pytestmark = pytest.mark.long

HOME = "http://shop.test/"
PAGES = 300
CRAWLERS = 3
CONCURRENT = 4  #: requests that one crawler has under way
#: Pages that a crawler may have under way: downloads, and answers whose links it queues.
MOST_AGAIN = 4 * CONCURRENT
SHARED = {
    "SCHEDULER": "scrapy_urlnorm.SharedScheduler",
    "CONCURRENT_REQUESTS": CONCURRENT,
    "URLNORM_LEARN": {"pairs": 0},  # these tests count how often a page was fetched
}


class Impatient(SharedScheduler):
    """One for which a crawler is dead after five seconds and the time to wait."""

    dead_seconds = 5.0


class Shop:
    """A chain of pages, each linked from the two before it: no other way leads to one.

    ``events`` happen before that page is answered for the first time.
    """

    def __init__(self, events):
        self.all_are_here = threading.Barrier(CRAWLERS, timeout=60)
        self._events = dict(events)
        self._lock = threading.Lock()

    def __call__(self, url):
        path = url.partition("?")[0].removeprefix(HOME)
        if not path:
            self.all_are_here.wait()
            return page("0", *(f"/{n}" for n in range(1, 7)))
        number = int(path)
        with self._lock:
            event = self._events.pop(number, None)
        if event is not None:
            event()
        more = (3 * number + n for n in range(4, 7))
        return page(path, *(f"/{n}?utm_source={number}" for n in more if n <= PAGES))


def crawl(url, folder, events=(), **settings):
    with Site(Shop(events)) as site:
        shared = {**SHARED, "URLNORM_STORE": f"{url}?prefix=p", **settings}
        crawlers = [
            start(site, [f"{HOME}?start={n}"], shared, folder / f"log{n}") for n in range(CRAWLERS)
        ]
        try:
            codes = [crawler.wait(240) for crawler in crawlers]
        finally:
            for crawler in crawlers:
                crawler.kill()
    times = Counter(each.partition("?")[0] for each in site.requests)
    assert times.pop(HOME) == CRAWLERS  # start requests pass every dupefilter
    logs = [(folder / f"log{n}").read_text() for n in range(CRAWLERS)]
    print(
        f"{folder.name}: {PAGES} pages, missing {len(missing(times))}, fetched again "
        f"{twice(times)}, steps told again {repeated(logs)}"
    )
    return times, logs, codes


def missing(times):
    return {f"{HOME}{number}" for number in range(1, PAGES + 1)} - set(times)


def twice(times):
    return sum(times.values()) - len(times)


def repeated(logs):
    return sum(int(n) for log in logs for n in re.findall(r"Redis had lost the last (\d+)", log))


@pytest.mark.parametrize("kind", SETUPS)
def test_a_failover_loses_no_page(kind, tmp_path):
    with SETUPS[kind]() as setup:
        old = setup.master()
        times, logs, codes = crawl(setup.url, tmp_path, {90: setup.kill_master})
        assert setup.master() is not old
    assert codes == [0] * CRAWLERS
    assert missing(times) == set()
    assert twice(times) <= CRAWLERS * MOST_AGAIN
    assert "ERROR" not in "".join(logs)


@pytest.mark.parametrize("kind", SETUPS)
def test_what_the_replica_never_heard_is_told_again(kind, tmp_path):
    with SETUPS[kind]() as setup:
        old = setup.master()
        events = {30: setup.cut, 90: setup.kill_master}
        times, logs, codes = crawl(setup.url, tmp_path, events)
        assert setup.master() is not old
    assert codes == [0] * CRAWLERS
    assert missing(times) == set()
    assert repeated(logs) > 20


# --- crawlers that die, on one server ---------------------------------------------------------


class DiesBetween(UrlNormDupeFilter):
    """It dies when a page is noted as seen, and does not wait in the queue yet."""

    def request_seen(self, request):
        if super().request_seen(request):
            return True
        if request.url.startswith(f"{HOME}40?"):
            os.kill(os.getpid(), signal.SIGKILL)
        return False


def test_a_crawler_dies_between_a_key_and_its_request(tmp_path, own_redis):
    classes = {"SCHEDULER": "Impatient", "DUPEFILTER_CLASS": "DiesBetween"}
    settings = {name: f"{__name__}.{kind}" for name, kind in classes.items()}
    times, logs, codes = crawl(own_redis.url, tmp_path, **settings)
    assert sorted(codes) == [-signal.SIGKILL] + [0] * (CRAWLERS - 1)
    assert missing(times) == set()
    assert 1 <= twice(times) <= MOST_AGAIN
    assert any("are back in the queue" in log for log in logs)


def test_the_next_run_goes_on(tmp_path):
    with RedisServer("--appendonly", "yes") as server:
        half, goes_on = threading.Event(), threading.Event()

        def wait():
            half.set()
            goes_on.wait(60)

        settings = {**SHARED, "SCHEDULER": f"{__name__}.Impatient"}
        settings["URLNORM_STORE"] = f"{server.url}?prefix=p"
        site = Shop({100: wait})
        with Site(site) as served:
            urls = [[f"{HOME}?start={n}"] for n in range(CRAWLERS)]
            crawlers = [start(served, url, settings, tmp_path / "log") for url in urls]
            assert half.wait(60)
            crawlers[0].kill()
            for crawler in crawlers[1:]:
                crawler.send_signal(signal.SIGTERM)
            goes_on.set()
            assert [crawler.wait(60) for crawler in crawlers] == [-signal.SIGKILL, 0, 0]
            first = Counter(each.partition("?")[0] for each in served.requests)
            assert missing(first)
            server.kill()
            server.start()
            urls = [[f"{HOME}1"] for n in range(CRAWLERS)]
            crawlers = [start(served, url, settings, tmp_path / "log") for url in urls]
            assert [crawler.wait(120) for crawler in crawlers] == [0] * CRAWLERS
            times = Counter(each.partition("?")[0] for each in served.requests)
    assert missing(times) == set()
    del times[HOME]
    assert twice(times) <= CRAWLERS * MOST_AGAIN
