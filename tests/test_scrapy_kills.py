"""Real crawls that learn and are killed and resumed, or share a queue: nothing is lost.

At which moment a kill comes is a matter of simulated crawls: `test_simulation`.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from hostile_base import Hostile, article
from hostile_runs import DEADLINE, Doors, Runs, pages_without_learning
from hostile_sites import ContradictedLate, HttpStartsFailing404
from loopback import Site


def until(holds):
    deadline = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_what_was_suppressed_before_a_kill_comes_back(tmp_path):
    """The second run learns nothing: it sends what was suppressed."""
    hostile = ContradictedLate()
    late_page = hostile.others[4][1]
    doors = Doors(hostile, late_page)
    with Runs(hostile, tmp_path, URLNORM_LEARN="redirects") as runs, Site(doors) as site:
        assert doors.kill_at(late_page, runs.start(site))
        suppressed = {twin for twin, _ in hostile.victims} - set(site.requests)
        assert len(suppressed) >= len(hostile.victims) // 2  # or nothing is tested here
        runs.finish(site, URLNORM_LEARN="off")
        assert suppressed <= set(site.requests)
    assert pages_without_learning(ContradictedLate(), tmp_path) - runs.pages == set()
    assert runs.errors() == []


class ContentTwins(Hostile):
    """Each page is there once more with ``?ref=top``. The last page comes after all twins."""

    #: The site answers when something was learned: what waits until then must not be needed for it.
    settings = {"URLNORM_LEARN": {"defer": False}}  # noqa: RUF012

    def pair(self, path):
        return self.canonical + path + "?ref=top", self.canonical + path

    def broken(self, twin, page):
        return article(page)

    def stages(self):
        self.last = self.canonical + "/last"
        self.answers[self.last] = article("last")
        self.answers |= {twin: article(page) for twin, page in self.taught}
        return [
            [link for pair in self.taught for link in pair],
            [page for _, page in self.victims],
            [*(twin for twin, _ in self.victims), self.last],
        ]

    @property
    def wanted(self):
        return {"last", *(page for _, page in (*self.taught, *self.victims))}


class UntilLearned:
    """A site that answers its second stage when the log says that a rule was learned."""

    def __init__(self, site, runs):
        self.site = site
        self.runs = runs

    def __call__(self, url):
        if url.endswith("/stage-1"):
            until(lambda: "Learned on " in self.runs.log.read_text())
        return self.site(url)


def children_of(pid):
    """Processes that a process has started and that have not ended (Linux)."""
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(number) for path in threads for number in path.read_text("ascii").split()]


def is_there(pid):
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_a_crawl_killed_while_twins_are_suppressed_loses_no_page(tmp_path):
    """The next run has the rule, or learns it again; it sends audits, and the sample of the end, alone.

    The miner ends with a crawl that is killed, though nobody is left who could stop it.
    """
    hostile = ContentTwins(victims=40)
    doors = Doors(hostile, hostile.last)
    with Runs(hostile, tmp_path) as runs, Site(UntilLearned(doors, runs)) as site:
        crawl = runs.start(site)
        assert doors.is_asked[hostile.last].wait(DEADLINE)
        miners = children_of(crawl.pid)
        assert miners or not Path("/proc/self/task").exists()
        assert doors.kill_at(hostile.last, crawl)
        until(lambda: not any(map(is_there, miners)))
        runs.finish(site)
    assert pages_without_learning(ContentTwins(victims=40), tmp_path) == runs.pages
    assert runs.errors() == []
    twins = {twin for twin, _ in hostile.victims}
    assert 3 * len(twins & set(site.requests)) < 2 * len(twins)


class Gate:
    """A site whose start pages answer when all crawlers have asked for theirs."""

    def __init__(self, site, home, crawlers):
        self.site = site
        self.home = home
        self.all_are_here = threading.Barrier(crawlers, timeout=DEADLINE)

    def __call__(self, url):
        if url.startswith(self.home + "?start="):
            self.all_are_here.wait()
            return self.site(self.home)
        return self.site(url)


@pytest.mark.long
def test_two_crawlers_at_one_queue_of_scrapy_redis_lose_no_page(tmp_path, own_redis):
    """Two processes share queue, keys and rules; together they have every page."""
    pytest.importorskip("scrapy_redis")
    hostile = HttpStartsFailing404(72)  # each of them is to see enough redirects
    with Site(Gate(hostile, hostile.home, 2)) as site:
        settings = {
            "JOBDIR": None,
            "CONCURRENT_REQUESTS": 4,
            "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
            "SCHEDULER_PERSIST": True,
            "SCHEDULER_IDLE_BEFORE_CLOSE": 1,
            "DUPEFILTER_CLASS": "scrapy_urlnorm.UrlNormDupeFilter",
            "REDIS_URL": own_redis.url,
            "URLNORM_STORE": own_redis.url + "?prefix=links:seen",
        }
        with Runs(hostile, tmp_path, **settings) as runs:
            crawlers = [runs.start(site, f"{hostile.home}?start={n}") for n in range(2)]
            assert [crawler.wait(DEADLINE) for crawler in crawlers] == [0, 0]
    assert pages_without_learning(HttpStartsFailing404(72), tmp_path) - runs.pages == set()
    assert runs.errors() == []
