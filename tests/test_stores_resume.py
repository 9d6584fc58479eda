"""A crawl with JOBDIR that is stopped or killed and started again: every page, none twice."""

from __future__ import annotations

import os
import pickle
import signal
import sqlite3
import threading
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from crawl_process import start
from loopback import Site, page
from scrapy import Request

from scrapy_urlnorm.crawl.database import RequestQueue
from scrapy_urlnorm.crawl.scheduler import Scheduler

if TYPE_CHECKING:
    from loopback import Reply

HOME = "http://shop.test/"
PAGES = 120
STOP_AFTER = 40  #: requests of the first run; from then on pages come slowly


class Small(Scheduler):
    """What goes together in portions goes in small ones."""

    def open(self, spider):
        RequestQueue.most_changes = 7
        return super().open(spider)


SMALL = {
    "SCHEDULER": f"{__name__}.Small",
    "SCHEDULER_DISK_QUEUE": "scrapy_urlnorm.crawl.scheduler.LifoDiskQueue",
    "SCHEDULER_START_DISK_QUEUE": "scrapy_urlnorm.crawl.scheduler.FifoDiskQueue",
}


class Shop:
    """A site of `PAGES` pages that link to one another, with two spellings of each link."""

    def __init__(self) -> None:
        self.is_reached = threading.Event()
        self.go_on = threading.Event()
        self.asked = 0

    def __call__(self, url: str) -> Reply:
        self.asked += 1
        if self.asked >= STOP_AFTER:
            self.is_reached.set()
            self.go_on.wait(0.05)
        number = int(url.rpartition("/")[2] or 0)
        near = range(number + 1, min(PAGES, 2 * number + 10))
        links = [f"/{n}{end}" for n in near for end in ("", "?utm_source=x")]
        return page(str(number), *links)


@pytest.fixture
def settings(tmp_path):
    # No page is fetched again to learn what of it changes: these tests count.
    return {"JOBDIR": str(tmp_path / "job"), "URLNORM_LEARN": {"pairs": 0}}


def left_over(folder, condition="1"):
    with closing(sqlite3.connect(folder / "job" / "urlnorm.sqlite")) as database:
        rows = database.execute(f"SELECT request FROM request WHERE {condition}").fetchall()
    return {pickle.loads(row)["url"].partition("?")[0] for (row,) in rows}


def times(requests):
    return Counter(url.partition("?")[0] for url in requests)


def test_a_paused_crawl_fetches_every_page_once(tmp_path, settings):
    shop = Shop()
    with Site(shop) as site:
        first = start(site, [HOME], settings, tmp_path / "log")
        assert shop.is_reached.wait(60)
        first.send_signal(signal.SIGINT)
        assert first.wait(60) == 0
        assert STOP_AFTER <= len(site.requests) < PAGES
        shop.go_on.set()
        assert start(site, [HOME], settings, tmp_path / "log").wait(60) == 0
    asked = times(site.requests)
    assert asked.pop(HOME) == 2
    assert asked == {f"{HOME}{number}": 1 for number in range(1, PAGES)}


def test_a_killed_crawl_goes_on_where_it_was(tmp_path, settings):
    settings, shop = settings | SMALL, Shop()
    with Site(shop) as site:
        first = start(site, [HOME], settings, tmp_path / "log")
        assert shop.is_reached.wait(60)
        first.kill()
        first.wait(60)
        before = times(site.requests)
        left = left_over(tmp_path)
        shop.go_on.set()
        assert start(site, [HOME], settings, tmp_path / "log").wait(60) == 0
    after = times(site.requests) - before
    assert set(before) | set(after) == {HOME} | {f"{HOME}{number}" for number in range(1, PAGES)}
    assert set(before.values()) == {1}
    assert set(after.values()) == {1}
    again = set(before) & set(after) - {HOME}
    assert again <= left
    assert len(again) < STOP_AFTER - 1  # how many wait for their callback depends on the clock
    log = (tmp_path / "log").read_text()
    assert f"Resuming crawl ({len(left)} requests scheduled)" in log
    assert "damaged" not in log
    assert "ERROR" not in log
    assert left_over(tmp_path) == set()


# --- beside Redis -------------------------------------------------------------------------------


class DiesBetween(Scheduler):
    """Is killed when page 50 has been written down: just before, or after, Redis has its key."""

    def open(self, spider):
        opened = super().open(spider)
        store = self.df.store
        claim = store.claim

        def dying_claim(key, *more):
            if key == self.key_of_50 and self.crawler.settings["WHEN"] == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            is_new = claim(key, *more)
            if key == self.key_of_50:
                os.kill(os.getpid(), signal.SIGKILL)
            return is_new

        self.key_of_50 = self.crawler.request_fingerprinter.fingerprint(Request(f"{HOME}50"))
        store.claim = dying_claim
        return opened


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_between_the_queue_and_redis_loses_nothing(tmp_path, settings, when, own_redis):
    shop = Shop()
    shop.go_on.set()
    dying = {**SMALL, "SCHEDULER": f"{__name__}.DiesBetween", "WHEN": when}
    settings["URLNORM_STORE"] = f"{own_redis.url}?prefix=p"
    with Site(shop) as site:
        assert start(site, [HOME], settings | dying, tmp_path / "log").wait(60) == -signal.SIGKILL
        assert left_over(tmp_path, "queue = ''") == {f"{HOME}50"}
        under_way = left_over(tmp_path, "queue != ''")
        before = times(site.requests)
        assert f"{HOME}50" not in {*under_way, *before}
        assert start(site, [HOME], settings, tmp_path / "log").wait(60) == 0
    asked = times(site.requests)
    assert set(asked) == {HOME} | {f"{HOME}{number}" for number in range(1, PAGES)}
    assert asked[f"{HOME}50"] == 1
    assert {page for page, n in asked.items() if n > 1} - {HOME} <= under_way
    assert left_over(tmp_path) == set()
    assert "ERROR" not in (tmp_path / "log").read_text()
