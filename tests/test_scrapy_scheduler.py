"""The scheduler in real crawls: order, upgrade from Scrapy's own, and what it refuses."""

from __future__ import annotations

import pickle
import sqlite3
from contextlib import closing
from pathlib import Path
from zlib import crc32

import pytest
from loopback import Follow, Reply, Site, crawl, page, redirect
from scrapy import Request
from scrapy.settings import Settings
from scrapy.squeues import MarshalLifoDiskQueue, PickleFifoDiskQueue, PickleLifoDiskQueue

from scrapy_urlnorm.crawl.addon import Addon
from scrapy_urlnorm.crawl.components import components_of
from scrapy_urlnorm.crawl.scheduler import FifoDiskQueue, LifoDiskQueue, Scheduler
from scrapy_urlnorm.stores import DATABASE_NAME, Database

HOME = "http://shop.test/"
ADDON = {"ADDONS": {"scrapy_urlnorm.Addon": 900}, "CONCURRENT_REQUESTS": 1}
STOCK = "scrapy.core.scheduler.Scheduler"
DISK, START = "SCHEDULER_DISK_QUEUE", "SCHEDULER_START_DISK_QUEUE"


class Chooser(Follow):
    """Gives requests the priority, slot, or unserializable luggage that their URL names."""

    def parse(self, response):
        yield {"page": response.url.rpartition("/")[2], "url": response.url}
        for href in response.css("a::attr(href)").getall():
            request = response.follow(href)
            request.priority = int(href.partition("p")[2] or 0)
            if "slot" in href:
                request.meta["download_slot"] = href
            if "lambda" in href:
                request.meta["luggage"] = lambda: None
            yield request


class Renamed(Chooser):
    """Its requests have a callback that the other spiders do not know."""

    def parse(self, response):
        for request in super().parse(response):
            if isinstance(request, Request) and "p" in request.url.rpartition("/")[2]:
                request = request.replace(callback=self.former_name)
            yield request

    def former_name(self, response):
        yield {"page": "found", "url": response.url}


class Raises(Follow):
    """Yields its links and then fails; or fails in the errback."""

    async def start(self):
        for url in self.urls:
            yield Request(url, errback=self.failed, dont_filter=True)

    def parse(self, response):
        yield from super().parse(response)
        raise RuntimeError("the callback failed")

    def failed(self, failure):
        raise RuntimeError("the errback failed")


def updated(**settings):
    settings = Settings(settings)
    Addon().update_settings(settings)
    return settings


def stays_behind(folder):
    with closing(sqlite3.connect(Path(folder, DATABASE_NAME))) as database:
        rows = database.execute("SELECT request FROM request ORDER BY id")
        return [pickle.loads(row)["url"].rpartition("/")[2] for (row,) in rows]


# --- what the add-on puts in place ----------------------------------------------------------


def test_with_a_job_the_addon_puts_the_scheduler_in_place(tmp_path):
    settings = updated(JOBDIR=str(tmp_path))
    assert settings["SCHEDULER"] is Scheduler
    assert (settings[DISK], settings[START]) == (LifoDiskQueue, FifoDiskQueue)
    settings = updated(JOBDIR=str(tmp_path), **{DISK: PickleFifoDiskQueue, START: None})
    assert settings["SCHEDULER"] is Scheduler
    assert (settings[DISK], settings[START]) == (FifoDiskQueue, None)
    settings = updated(JOBDIR=str(tmp_path), **{START: PickleLifoDiskQueue})
    assert settings[START] is LifoDiskQueue


@pytest.mark.parametrize(
    "settings",
    [
        {"SCHEDULER": STOCK},
        {"JOBDIR": "job", "SCHEDULER": STOCK},
        {"JOBDIR": "job", DISK: MarshalLifoDiskQueue},
    ],
    ids=["no job", "a scheduler named", "another queue"],
)
def test_what_the_addon_leaves_alone(settings):
    result = updated(**settings)
    assert result["SCHEDULER"] == STOCK
    assert result[DISK] == settings.get(DISK, Settings()[DISK])
    assert result[START] == Settings()[START]


def test_another_queue_with_our_scheduler_is_an_error(tmp_path):
    settings = {"SCHEDULER": "scrapy_urlnorm.Scheduler", "JOBDIR": str(tmp_path)}
    result = crawl({HOME: page("home")}, [HOME], settings)
    assert result.requests == []
    assert "CRITICAL" in result.log
    assert f"{DISK} = 'scrapy.squeues.PickleLifoDiskQueue'" in result.log
    assert "scrapy_urlnorm.crawl.scheduler.LifoDiskQueue" in result.log


def test_our_queue_with_another_scheduler_is_an_error(tmp_path):
    settings = {DISK: "scrapy_urlnorm.crawl.scheduler.LifoDiskQueue", "JOBDIR": str(tmp_path)}
    result = crawl({HOME: page("home", "/1")}, [HOME], settings)
    assert "SCHEDULER = 'scrapy_urlnorm.Scheduler'" in (result.error or "") + result.log


# --- crawling -------------------------------------------------------------------------------


@pytest.mark.parametrize("queues", ["ScrapyPriorityQueue", "DownloaderAwarePriorityQueue"])
@pytest.mark.parametrize("order", ["Lifo", "Fifo"])
def test_the_order_is_that_of_scrapy(tmp_path, order, queues):
    links = ["/1", "/2p5", "/3p-5", "/4slot", "/5slotp7", "/6"]
    pages = {HOME: page("home", *links)}
    pages |= {HOME + link[1:]: page(link, link + "0", "/7", "/8p5") for link in links}
    pages |= {HOME + name: page(name) for name in ("7", "8p5", "10", "60")}
    settings = {
        **ADDON,
        "CONCURRENT_REQUESTS": 1,  # with more, the order is that of the answers
        # No request leaves the queue before the links of the last page are in it: how many
        # Scrapy takes from a callback at a time depends on the clock.
        "SCRAPER_SLOT_MAX_ACTIVE_SIZE": 1,
        DISK: f"scrapy.squeues.Pickle{order}DiskQueue",
        "SCHEDULER_PRIORITY_QUEUE": f"scrapy.pqueues.{queues}",
    }
    orders = []
    for name, scheduler in (("ours", {}), ("stock", {"SCHEDULER": STOCK})):
        job = {"JOBDIR": str(tmp_path / name)}
        result = crawl(
            pages, [HOME], {**settings, **scheduler, **job}, spider=f"{__name__}.Chooser"
        )
        assert result.error is None
        orders.append(result.pages)
    assert orders[0] == orders[1]
    assert (tmp_path / "ours" / DATABASE_NAME).exists()
    assert stays_behind(tmp_path / "ours") == []


def test_what_cannot_be_serialized_waits_in_memory(tmp_path):
    pages = {HOME: page("home", "/lambda", "/1")}
    result = crawl(pages, [HOME], {**ADDON, "JOBDIR": str(tmp_path)}, spider=f"{__name__}.Chooser")
    assert sorted(result.requests) == [HOME, f"{HOME}1", f"{HOME}lambda"]
    assert result.stats["scheduler/unserializable"] == 1


@pytest.mark.parametrize("url", [HOME, "http://127.0.0.1:1/refused"])
def test_what_ends_is_done_however_it_ends(tmp_path, url):
    """With a page, a redirect, a retry, an error of the callback or of the errback."""
    pages = {HOME: page("home", "/moved", "/broken"), f"{HOME}moved": redirect("/new", 302)}
    pages[f"{HOME}new"] = page("new")
    settings = {**ADDON, "JOBDIR": str(tmp_path), "RETRY_ENABLED": True, "RETRY_TIMES": 2}
    with Site(lambda url: pages.get(url, Reply(503))) as site:
        for _ in range(2):
            result = crawl(site, [url], settings, spider=f"{__name__}.Raises")
            assert result.reason == "finished"
            assert stays_behind(tmp_path) == []
    assert site.requests.count(f"{HOME}new") == (url == HOME)
    assert site.requests.count(f"{HOME}broken") == 3 * (url == HOME)


def test_what_scrapy_left_is_taken_over(tmp_path):
    numbers = range(30)
    pages = {HOME: page("home", *(f"/{n}" for n in numbers))}
    pages |= {f"{HOME}{n}": page(str(n)) for n in numbers}
    settings = {**ADDON, "JOBDIR": str(tmp_path), "CONCURRENT_REQUESTS": 2}
    with Site(pages) as site:
        stop = {"SCHEDULER": STOCK, "CLOSESPIDER_PAGECOUNT": 5}
        crawl(site, [HOME], {**settings, **stop}, filter_start=True)
        begun = len(site.requests)
        assert 0 < begun < 20
        result = crawl(site, [HOME], {**settings, "CLOSESPIDER_PAGECOUNT": 5}, filter_start=True)
        assert len(stays_behind(tmp_path)) == 31 - len(site.requests)
        assert f"Resuming: {31 - begun} requests wait in" in result.log
        crawl(site, [HOME], settings, filter_start=True)
    assert sorted(site.requests) == sorted(pages)
    assert stays_behind(tmp_path) == []


def test_what_a_changed_spider_cannot_do_waits(tmp_path):
    links = ["/1", "/2p", "/3", "/4p", "/5p", "/6"]
    pages = {HOME: page("home", *links)} | {HOME + x[1:]: page(x) for x in links}
    settings = {**ADDON, "JOBDIR": str(tmp_path)}
    former, now = f"{__name__}.Renamed", f"{__name__}.Chooser"
    with Site(pages) as site:
        crawl(site, [HOME], {**settings, "CLOSESPIDER_PAGECOUNT": 1}, spider=former)
        first = len(site.requests)
        result = crawl(site, [], settings, spider=now)
        assert result.reason == "finished"
        assert result.log.count("'former_name' not found") == len(stays_behind(tmp_path)) > 1
        assert all("p" in name for name in stays_behind(tmp_path))
        assert not any("p" in url[len(HOME) :] for url in site.requests[first:])
        crawl(site, [], settings, spider=former)
    assert sorted(site.requests) == sorted(pages)


def test_what_cannot_be_read_at_all_is_named(tmp_path):
    pages = {HOME: page("home", "/1"), f"{HOME}1": page("1")}
    settings = {**ADDON, "JOBDIR": str(tmp_path), "CLOSESPIDER_PAGECOUNT": 1}
    crawl(pages, [HOME], settings, filter_start=True)
    gone = pickle.dumps({"url": HOME, "_class": "gone.Request"})
    with closing(sqlite3.connect(tmp_path / DATABASE_NAME)) as database, database:
        database.execute("UPDATE request SET request = ?, checksum = ?", (gone, crc32(gone)))
    result = crawl({}, [], {**ADDON, "JOBDIR": str(tmp_path)})
    assert "a request in the queue cannot be read" in result.log
    assert "gone" in result.log


def test_a_damaged_queue_of_scrapys_is_named(tmp_path):
    state = tmp_path / "requests.queue" / "active.json"
    state.parent.mkdir()
    state.write_text("{")
    for _ in range(2):
        result = crawl({HOME: page("home")}, [HOME], {**ADDON, "JOBDIR": str(tmp_path)})
        assert "CRITICAL" in result.log
        assert str(state) in result.log
        assert result.requests == []
    assert state.read_text() == "{"


def test_keys_in_memory_hear_of_what_waits(tmp_path):
    links = [f"/{number}" for number in range(30)]
    pages = {HOME: page("home", *links)} | {HOME + x[1:]: page(x, *links) for x in links}
    settings = {**ADDON, "JOBDIR": str(tmp_path), "URLNORM_STORE": "memory"}
    with Site(pages) as site:
        crawl(site, [HOME], {**settings, "CLOSESPIDER_PAGECOUNT": 3}, filter_start=True)
        begun = site.requests[:]
        waiting = stays_behind(tmp_path)
        assert len(waiting) > 20
        crawl(site, [], settings)
    later = site.requests[len(begun) :]
    assert set(begun + later) == set(pages)
    assert all(later.count(HOME + name) == 1 for name in waiting)


@pytest.mark.parametrize("job", [True, False])
def test_the_database_may_lie_elsewhere(tmp_path, job):
    settings = {**ADDON, "URLNORM_STORE": f"sqlite:{tmp_path / 'fast' / 'disk'}"}
    if job:
        settings["JOBDIR"] = str(tmp_path / "job")
    pages = {HOME: page("home", *"123"), **{HOME + n: page(n) for n in "123"}}
    with Site(pages) as site:
        crawl(site, [HOME], {**settings, "CLOSESPIDER_PAGECOUNT": 1}, filter_start=True)
        begun = len(site.requests)
        crawl(site, [HOME], settings, filter_start=True)
    assert (tmp_path / "fast" / "disk").exists()
    assert not (tmp_path / "job" / DATABASE_NAME).exists()
    assert begun < 4
    assert sorted(site.requests) == (sorted(pages) if job else sorted(site.requests[:begun]))


def test_scrapys_dupefilter_works_too(tmp_path):
    settings = {
        "SCHEDULER": "scrapy_urlnorm.Scheduler",
        DISK: "scrapy_urlnorm.crawl.scheduler.LifoDiskQueue",
        START: "scrapy_urlnorm.crawl.scheduler.FifoDiskQueue",
        "JOBDIR": str(tmp_path),
    }
    result = crawl({HOME: page("home", "/1", "/1"), f"{HOME}1": page("1")}, [HOME], settings)
    assert result.pages == ["home", "1"]
    assert stays_behind(tmp_path) == []


# --- what goes wrong ------------------------------------------------------------------------


def test_another_priority_queue_is_refused(tmp_path):
    settings = {**ADDON, "JOBDIR": str(tmp_path)}
    one = {"SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue"}
    other = {"SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue"}
    with Site({HOME: page("home", *"123"), **{HOME + n: page(n) for n in "123"}}) as site:
        crawl(site, [HOME], {**settings, **one, "CLOSESPIDER_PAGECOUNT": 1}, filter_start=True)
        begun = len(site.requests)
        result = crawl(site, [], {**settings, **other})
        assert "set SCHEDULER_PRIORITY_QUEUE to what it was" in result.log
        assert len(site.requests) == begun
        crawl(site, [], {**settings, **one})
    assert sorted(site.requests) == sorted([HOME, HOME + "1", HOME + "2", HOME + "3"])


class OnAFullDisk(Scheduler):
    """Our scheduler, whose disk is full from the twentieth request on."""

    def enqueue_request(self, request):
        if request.url.endswith("/20"):
            connection = components_of(self.crawler).find(Database).connection
            connection.execute("PRAGMA max_page_count = 1")
            connection.execute("PRAGMA cache_spill = 1")
        return super().enqueue_request(request.replace(meta={"luggage": "." * 100_000}))

    def close(self, reason):
        later = Request(HOME + "later", dont_filter=True)
        self.stats.set_value("later", [self.enqueue_request(later), self.next_request()])
        return super().close(reason)


def test_a_full_disk_ends_the_crawl_and_loses_nothing(tmp_path):
    numbers = range(30)
    pages = {HOME: page("home", *(f"/{n}" for n in numbers))}
    pages |= {f"{HOME}{n}": page(str(n)) for n in numbers}
    settings = {**ADDON, "JOBDIR": str(tmp_path)}
    full = {
        "SCHEDULER": f"{__name__}.OnAFullDisk",
        DISK: "scrapy_urlnorm.crawl.scheduler.LifoDiskQueue",
        START: "scrapy_urlnorm.crawl.scheduler.FifoDiskQueue",
    }
    with Site(pages) as site:
        result = crawl(site, [HOME], {**settings, **full}, filter_start=True)
        assert result.reason == "urlnorm_store_error"
        assert result.stats["urlnorm/errors"] >= 1
        assert result.stats["later"] == [False, None]
        assert "database or disk is full" in result.log
        assert "Traceback" not in result.log
        begun = set(site.requests)
        crawl(site, [HOME], settings, filter_start=True)
    assert begun == {HOME}
    assert set(site.requests) == set(pages)
