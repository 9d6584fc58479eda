"""Hostile sites, and crawls that are killed and resumed, or share a queue: no page is lost."""

from __future__ import annotations

import threading

import hostile_sites
import hostile_twins
import hostile_ways
import pytest
from hostile_base import AT_ONCE, TAUGHT, in_ranks, named
from hostile_runs import DEADLINE, Doors, Runs, pages_without_learning
from loopback import Site
from redis_server import RedisServer

pytestmark = pytest.mark.long

SITES = named(hostile_sites, hostile_twins, hostile_ways)
OURS = "scrapy_urlnorm.SharedScheduler"
THEIRS = "scrapy_redis.scheduler.Scheduler"
#: For tests of what comes back: contents may teach a narrower rule, which rightly suppresses some.
REDIRECTS = {"URLNORM_LEARN": "redirects"}
KILLED = [
    "HttpStartsFailing404",
    "HttpDropsConnections",
    "SlashTwinGoesHome",
    "AliasHasPagesOfItsOwn",
    "TwinIsLostNearTheDownloader",
]


@pytest.mark.parametrize("name", KILLED)
def test_a_killed_crawl_loses_no_page(name, tmp_path):
    """Killed among the twins and again among the pages, all runs together have every page."""
    hostile = SITES[name]()
    twin, page = hostile.victims[len(hostile.victims) // 2]
    doors = Doors(hostile, twin, page)
    with Runs(hostile, tmp_path) as runs, Site(doors) as site:
        for url in (twin, page):
            if not doors.kill_at(url, runs.start(site)):
                doors.opens[url].set()
        doors.opens[page].set()
        runs.finish(site)
    assert pages_without_learning(SITES[name](), tmp_path) - runs.pages == set()
    assert runs.errors() == []


@pytest.mark.parametrize("name", ["HttpStartsFailing404", "AliasHasPagesOfItsOwn"])
def test_a_killed_crawl_with_many_requests_under_way_loses_no_page(name, tmp_path):
    """The same with sixteen requests at once: pages are coalesced behind twins when it is killed."""
    hostile = SITES[name](layout="mixed")
    twin, page = hostile.victims[3][0], hostile.victims[8][1]
    doors = Doors(hostile, twin, page)
    with Runs(hostile, tmp_path, **AT_ONCE) as runs, Site(doors) as site:
        while doors.kill_at_any(runs.start(site)):
            pass
        runs.finish(site)
    assert pages_without_learning(SITES[name](layout="mixed"), tmp_path) - runs.pages == set()
    assert runs.errors() == []


def test_what_was_suppressed_before_a_kill_comes_back(tmp_path):
    """A rule is contradicted in the second run: what it suppressed in the first is sent."""
    hostile = hostile_ways.ContradictedLate()
    late_page = hostile.others[4][1]
    doors = Doors(hostile, late_page)
    with Runs(hostile, tmp_path, **REDIRECTS) as runs, Site(doors) as site:
        assert doors.kill_at(late_page, runs.start(site))
        suppressed = {twin for twin, _ in hostile.victims} - set(site.requests)
        assert len(suppressed) >= len(hostile.victims) // 2  # or nothing is tested here
        runs.finish(site)
        assert suppressed <= set(site.requests)
    assert pages_without_learning(hostile_ways.ContradictedLate(), tmp_path) - runs.pages == set()
    assert runs.errors() == []


def test_a_crawl_killed_while_requests_come_back_loses_none(tmp_path):
    """Killed when the first of them was sent again: the next run sends the others."""
    hostile = hostile_ways.ContradictedLate()
    doors = Doors(hostile, hostile.others[4][1])
    with Runs(hostile, tmp_path, **REDIRECTS) as runs, Site(doors) as site:
        assert doors.kill_at(hostile.others[4][1], runs.start(site))
        suppressed = {twin for twin, _ in hostile.victims} - set(site.requests)
        doors.opens |= {twin: threading.Event() for twin in sorted(suppressed)[:1]}
        doors.is_asked |= {twin: threading.Event() for twin in sorted(suppressed)[:1]}
        assert doors.kill_at(min(suppressed), runs.start(site))
        runs.finish(site)
        assert suppressed <= set(site.requests)
    assert pages_without_learning(hostile_ways.ContradictedLate(), tmp_path) - runs.pages == set()
    assert runs.errors() == []


def test_a_resumed_crawl_without_learning_sends_what_was_suppressed(tmp_path):
    """Who switches learning off for the second run gets what the first run suppressed."""
    hostile = hostile_ways.ContradictedLate()
    doors = Doors(hostile, hostile.others[4][1])
    with Runs(hostile, tmp_path) as runs, Site(doors) as site:
        assert doors.kill_at(hostile.others[4][1], runs.start(site))
        runs.finish(site, URLNORM_LEARN="off")
    assert pages_without_learning(hostile_ways.ContradictedLate(), tmp_path) - runs.pages == set()
    assert runs.errors() == []


# --- two crawlers on one Redis --------------------------------------------------------------------


class Gate:
    """A site whose start pages answer when all crawlers have asked for theirs."""

    def __init__(self, hostile, crawlers):
        self.hostile = hostile
        self.all_are_here = threading.Barrier(crawlers, timeout=DEADLINE)

    def __call__(self, url):
        if url.startswith(self.hostile.home + "?start="):
            self.all_are_here.wait()
            return self.hostile(self.hostile.home)
        return self.hostile(url)


@pytest.mark.parametrize(
    ("name", "scheduler"),
    [
        ("HttpStartsFailing404", OURS),
        ("HttpStartsFailing404", THEIRS),
        ("SlashTwinGoesHome", OURS),
        ("AliasHasPagesOfItsOwn", OURS),
        ("TwinIsThePage", OURS),
    ],
)
def test_two_crawlers_lose_no_page(name, scheduler, tmp_path):
    """Two processes share queue, keys and rules; together they have every page."""
    pytest.importorskip("redis")
    if scheduler == THEIRS:
        pytest.importorskip("scrapy_redis")
    hostile = in_ranks(SITES[name](2 * TAUGHT))  # each of them is to see enough redirects
    with RedisServer() as server, Site(Gate(hostile, 2)) as site:
        settings = {
            "JOBDIR": None,
            "CONCURRENT_REQUESTS": 4,
            "SCHEDULER": scheduler,
            "SCHEDULER_PERSIST": True,
            "SCHEDULER_IDLE_BEFORE_CLOSE": 1,
            "DUPEFILTER_CLASS": "scrapy_urlnorm.UrlNormDupeFilter",
            "REDIS_URL": server.url,
            "URLNORM_STORE": server.url + "?prefix=links:seen",
        }
        with Runs(hostile, tmp_path, **settings) as runs:
            crawlers = [runs.start(site, f"{hostile.home}?start={n}") for n in range(2)]
            assert [crawler.wait(DEADLINE) for crawler in crawlers] == [0, 0]
    assert pages_without_learning(SITES[name](2 * TAUGHT), tmp_path) - runs.pages == set()
    assert runs.errors() == []
