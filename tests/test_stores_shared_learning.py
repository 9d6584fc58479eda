"""Many crawlers, one frontier: what one learns from redirects, the others apply within seconds."""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections import Counter
from contextlib import ExitStack

import pytest
from crawl_process import start
from loopback import Site, page, redirect
from redis_server import RedisServer
from scrapy.settings import Settings

from scrapy_urlnorm.crawl.settings import STORE, Config

redis = pytest.importorskip("redis")
pytest.importorskip("scrapy_redis")

HOME = "http://www.shop.test/"
ALIAS = "http://shop.test/"  #: what is asked for here is at HOME
ENOUGH = 3  #: redirects, each in a first path segment of its own, that make the rule
CRAWLERS = 4
CONCURRENT = 4  #: requests that one crawler has under way
#: Pages that home links to, under both names. Until the rule is known every crawler but the
#: first asks for five things at most, so enough redirects are left for the first.
LINKED = ENOUGH + (CRAWLERS - 1) * (1 + CONCURRENT)
CHAINS = 40  #: pages that lead to others, each to one, while the rule spreads
PAIRS = 120  #: pages linked to under both names when all know the rule
DEADLINE = 90  #: seconds; passes only when something never happens


class Shop:
    """A site with one door for each crawler, which says when an answer goes out there."""

    def __init__(self) -> None:
        self.all_are_here = threading.Event()
        self.rule_stands = threading.Event()  # in Redis
        self.all_know = threading.Event()
        self.numbers = itertools.count(LINKED)  # of pages that home does not link to
        self.paired: set[str] = set()  # URLs under the other name, linked to when all knew
        self.lock = threading.Lock()
        self.are_full = [threading.Event() for _ in range(1, CRAWLERS)]

    def first_door(self, url):
        """The one that learns: it waits for the others, and is busy until all know."""
        if url == HOME + "?wait":
            self.rule_stands.wait(DEADLINE)
            return page("wait", *(f"/{next(self.numbers)}" for _ in range(CHAINS)))
        if url == HOME + "?then":
            self.all_know.wait(DEADLINE)
        elif not url.startswith(HOME + "?"):
            self.all_are_here.wait(DEADLINE)
        return self.answer(url)

    def other_door(self, is_full):
        """One that answers once, and then not before the rule stands.

        Its redirects are temporary ones, which prove nothing.
        """
        visits = itertools.count(1)

        def door(url):
            visit = next(visits)
            if visit == 1 + CONCURRENT:  # so the first answer has arrived
                is_full.set()
            if visit == 2:  # keeps the crawler from closing
                self.all_know.wait(DEADLINE)
            elif visit > 1:
                self.rule_stands.wait(DEADLINE)
            return self.answer(url, 302)

        return door

    def answer(self, url, status=301):
        if url.startswith(ALIAS):
            return redirect(url.replace(ALIAS, HOME), status)
        if url.startswith(HOME + "?start"):
            return page("home", *(f"{host}{n}" for n in range(LINKED) for host in (HOME, ALIAS)))
        if self.all_know.is_set():
            return page(url, *self.pairs(3))
        if self.rule_stands.is_set():
            return page(url, f"/{next(self.numbers)}")
        return page(url)

    def pairs(self, count):
        """Links to new pages, to each under both names, as long as there are any."""
        with self.lock:
            for _ in range(min(count, PAIRS - len(self.paired))):
                number = next(self.numbers)
                self.paired.add(f"{ALIAS}{number}")
                yield f"{HOME}{number}"
                yield f"{ALIAS}{number}"


def until(is_so):
    """Poll until *is_so()*."""
    deadline = time.monotonic() + DEADLINE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(scope="module")
def crawl(tmp_path_factory):
    """The shop, what was asked for at its doors, and the log of each crawler, after the crawl."""
    folder = tmp_path_factory.mktemp("logs")
    logs = [folder / f"log{n}" for n in range(CRAWLERS)]
    shop = Shop()
    with ExitStack() as stack:
        url = stack.enter_context(RedisServer()).url
        client = stack.enter_context(redis.Redis.from_url(url))
        settings = {
            "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
            "SCHEDULER_PERSIST": True,
            "DUPEFILTER_CLASS": "scrapy_urlnorm.UrlNormDupeFilter",
            "REDIS_URL": url,
            STORE: url + "?prefix=follow:seen",
            "CONCURRENT_REQUESTS": CONCURRENT,
            "URLNORM_LEARN": "redirects",  # rules are counted; equal pages would teach more
        }
        doors = [shop.first_door, *map(shop.other_door, shop.are_full)]
        sites = [stack.enter_context(Site(door)) for door in doors]
        crawlers = []

        def start_one(*queries):
            n = len(crawlers)
            crawlers.append(start(sites[n], [HOME + q for q in queries], settings, logs[n]))
            stack.callback(crawlers[n].kill)

        start_one("?start=0", "?wait", "?then")
        # The others find requests when they come, whatever start requests they take from whom.
        until(lambda: client.zcard("follow:requests") >= 2 * LINKED - CONCURRENT)
        for n in range(1, CRAWLERS):
            start_one(f"?start={n}")
        assert all(is_full.wait(DEADLINE) for is_full in shop.are_full)
        shop.all_are_here.set()
        with Config.from_settings(Settings({STORE: settings[STORE]})).new_store() as store:
            until(store.notes)
        shop.rule_stands.set()
        until(lambda: all("Learned by another" in log.read_text() for log in logs[1:]))
        shop.all_know.set()
        assert [crawler.wait(DEADLINE) for crawler in crawlers] == [0] * CRAWLERS
        return shop, [site.requests for site in sites], [log.read_text() for log in logs]


def stats(logs, name):
    """What each crawler counted under *name*."""
    found = [re.search(rf"'urlnorm/learned/{name}': (\d+)", log) for log in logs]
    return [int(count[1]) if count else 0 for count in found]


def test_one_learns_and_the_others_take_over(crawl):
    """The first learned the rule from permanent redirects; the others were sent none of them."""
    shop, requests, logs = crawl
    assert stats(logs, "rules") == [1, 0, 0, 0]
    assert stats(logs, "shared") == [0, 1, 1, 1]
    assert stats(logs, "retracted") == [0, 0, 0, 0]
    before = [{url for url in door if url.startswith(ALIAS)} - shop.paired for door in requests]
    assert len(before[0]) >= ENOUGH


def test_every_page_is_fetched_once(crawl):
    """By whichever crawler, and none is lost; start requests pass every dupefilter."""
    shop, requests, _ = crawl
    asked = Counter(url for door in requests for url in door if url.startswith(HOME))
    starts = [HOME + query for query in ("?wait", "?then", *(f"?start={n}" for n in range(4)))]
    linked = [f"{HOME}{number}" for number in range(next(shop.numbers))]
    assert asked == dict.fromkeys(starts + linked, 1)
    assert all(any(url in door for url in linked) for door in requests)


def test_what_a_rule_costs(crawl):
    """Redirects are asked for until the rule is known, and then to audit it; each once."""
    shop, requests, logs = crawl
    asked = Counter(url for door in requests for url in door if url.startswith(ALIAS))
    assert set(asked.values()) == {1}
    assert len(shop.paired) == PAIRS
    afterwards = asked.keys() & shop.paired
    audited = stats(logs, "audits")
    assert len(asked) - len(afterwards) <= LINKED
    assert len(afterwards) <= sum(audited) < PAIRS / 2
    # The law of `scrapy_urlnorm.crawl.online.audits`, for a kind that is right in 7 cases of 10. It
    # counts audits with an answer: another crawler may have taken the request of one from the queue.
    agreed = stats(logs, "audits_agreed")
    for count, sent, suppressed in zip(agreed, audited, stats(logs, "suppressed"), strict=True):
        assert count <= 2 + round((40 * (3 / 7) * (sent + suppressed)) ** (1 / 3))
