"""What becomes of the spellings of a key, step by step: the dupefilter with a queue, and no Scrapy."""

from __future__ import annotations

from types import SimpleNamespace
from unittest import mock

import pytest
from online_parts import SharedKeys
from scrapy import Request, Spider
from scrapy.http import HtmlResponse
from scrapy.settings import Settings
from test_scrapy_dupefilter import new as new_dupefilter

from scrapy_urlnorm.crawl import database as of_requests
from scrapy_urlnorm.crawl.database import DatabaseShelf, Shelf
from scrapy_urlnorm.stores import Database, SqliteSeen, memory
from scrapy_urlnorm.stores.seen import Identity

URL = "http://shop.test/a"
CLEAN, A, B, C = URL, f"{URL}?utm_source=a", f"{URL}?utm_source=b", f"{URL}?utm_source=c"


class Names(Spider):
    name = "names"

    def parse_item(self, response): ...
    def parse_tab(self, response): ...


class Crawl:
    """A dupefilter, the queue behind it and what the engine has."""

    def __init__(self, store=None, held=None, depth_limit=0):
        self.spider = Names()
        self.door, self.stats = new_dupefilter(store, depth_limit=depth_limit)
        self.queue = []
        self.under_way = {}
        slot = SimpleNamespace(inprogress=self.under_way.keys())
        self.awaiting = self.door.awaiting
        crawler = SimpleNamespace(
            spider=self.spider,
            settings=Settings(),
            engine=SimpleNamespace(crawl=self.schedule, _slot=slot),
            signals=mock.Mock(),
        )
        self.shelf = Shelf() if held is None else held
        self.awaiting.attach(crawler, self.shelf)

    def schedule(self, request):
        if request.dont_filter:
            self.awaiting.again(request)
        elif self.door.request_seen(request):
            self.door.log(request, self.spider)
            return
        self.queue.append(request)

    def find(self, *urls, **more):
        """The spider finds links; return what is in the queue now."""
        for url in urls:
            self.schedule(Request(url, **more))
        return self.queued()

    def queued(self):
        return [request.url for request in self.queue]

    def send(self):
        """The engine takes the first request."""
        request = self.queue.pop(0)
        self.under_way[request] = None
        self.awaiting.handed_out(request)
        return request

    def end(self, request):
        """The engine is done with a request, and asks for the next; return what is in the queue."""
        del self.under_way[request]
        self.awaiting.work(self.under_way.keys())
        return self.queued()

    def page(self, request, body=b"page", status=200):
        response = HtmlResponse(request.url, status=status, body=body)
        self.awaiting.page(request, response)
        return self.end(request)

    @property
    def saved(self):
        return self.stats["urlnorm/merged"]

    @property
    def requeued(self):
        return self.stats["urlnorm/requeued"]


@pytest.fixture(params=["memory", "database"])
def crawl(request):
    if request.param == "memory":
        yield Crawl()
        return
    with Database() as database:
        store = SqliteSeen(database, Identity("0" * 16))
        yield Crawl(store, DatabaseShelf(database, Names()))


def test_what_waits_for_a_page_is_dropped_and_counted_when_it_arrives(crawl):
    assert crawl.find(A, CLEAN, B, A, CLEAN) == [A]
    assert len(crawl.shelf) == 2
    assert crawl.saved == 0
    assert crawl.page(crawl.send()) == []
    assert (crawl.saved, len(crawl.shelf)) == (2, 0)
    assert crawl.find(C, B, A) == []
    assert (crawl.saved, crawl.requeued) == (3, 0)
    assert crawl.stats["dupefilter/filtered"] == 7


def test_one_after_the_other_is_sent_until_a_page_arrives(crawl):
    crawl.find(A, B, C, CLEAN)
    for url in (B, C):
        assert crawl.end(crawl.send()) == [url]
    assert crawl.page(crawl.send()) == []
    assert (crawl.saved, crawl.requeued) == (1, 2)
    assert crawl.find(A, B) == []
    assert crawl.saved == 1  # they were sent


def test_a_spelling_is_sent_at_once_when_all_have_ended(crawl):
    crawl.find(A)
    assert crawl.end(crawl.send()) == []
    assert crawl.find(A, A + "#top") == []  # stock Scrapy drops it too
    assert crawl.find(B, B) == [B]
    assert crawl.find(CLEAN) == [B]  # it waits for B
    assert crawl.end(crawl.send()) == [CLEAN]
    assert crawl.requeued == 2
    crawl.end(crawl.send())
    assert crawl.find(A, B, CLEAN) == []
    assert crawl.saved == 0


@pytest.mark.parametrize(
    ("status", "body"), [(200, b""), (204, b""), (205, b"x"), (404, b"x"), (500, b"x"), (302, b"x")]
)
def test_what_is_no_page(crawl, status, body):
    crawl.find(A, B)
    assert crawl.page(crawl.send(), body, status) == [B]


def test_a_retry_is_waited_for(crawl):
    crawl.find(A, B)
    first = crawl.send()
    crawl.schedule(retry := first.replace(dont_filter=True))
    assert crawl.end(first) == [A]
    assert crawl.send() is retry
    assert crawl.end(retry) == [B]


def test_a_redirect_onto_the_own_key_is_waited_for(crawl):
    crawl.find(A, B)
    first = crawl.send()
    crawl.schedule(first.replace(url=CLEAN, meta={"redirect_urls": [A]}))
    assert crawl.end(first) == [CLEAN]
    assert crawl.page(crawl.send()) == []
    assert crawl.saved == 1


def test_other_callbacks_are_not_merged(crawl):
    item, tab = crawl.spider.parse_item, crawl.spider.parse_tab
    crawl.find(A)
    assert crawl.find(A, callback=tab) == [A]  # as stock Scrapy
    assert crawl.find(B, callback=tab) == [A, B]
    assert crawl.find(C, callback=tab) == [A, B]  # it waits for B
    assert crawl.page(crawl.send()) == [B]
    assert crawl.find(CLEAN, callback=item) == [B, CLEAN]  # nor when the page has arrived
    assert crawl.end(crawl.send()) == [CLEAN, C]
    for _ in range(2):
        crawl.page(crawl.send())
    assert crawl.find(f"{URL}?fbclid=1", callback=tab) == []
    assert crawl.find(f"{URL}?fbclid=2") == []
    assert crawl.saved == 2


def test_the_page_of_another_callback_has_not_arrived(crawl):
    crawl.find(A, B)
    first = crawl.send()
    crawl.schedule(Request(CLEAN, crawl.spider.parse_tab, dont_filter=True))
    crawl.page(crawl.send())
    assert (crawl.saved, len(crawl.shelf)) == (0, 1)
    assert crawl.end(first) == [B]


def test_with_a_depth_limit_the_nearer_one_counts():
    crawl = Crawl(depth_limit=3)
    crawl.find(A, meta={"depth": 2})
    assert crawl.find(B, meta={"depth": 1}) == [A, B]  # it has links to follow: it does not wait
    assert crawl.find(C, meta={"depth": 3}) == [A, B]  # it has none
    crawl.page(crawl.send())
    assert crawl.saved == 1
    assert crawl.find(CLEAN, meta={"depth": 1}) == [B, CLEAN]
    crawl.page(crawl.send())
    assert crawl.find(f"{URL}?fbclid=1", meta={"depth": 1}) == [CLEAN]
    assert crawl.find(f"{URL}?fbclid=2", meta={"depth": 0}) == [CLEAN, f"{URL}?fbclid=2"]
    assert crawl.find(A, meta={"depth": 0}) == crawl.queued()  # stock Scrapy drops it
    assert crawl.saved == 2


def test_with_a_depth_limit_what_was_not_sent_far_away_counts_when_it_is_nearer():
    crawl = Crawl(depth_limit=3)
    crawl.find(A, meta={"depth": 3})
    assert crawl.find(B, B, meta={"depth": 3}) == [A]  # it waits
    assert crawl.find(B, meta={"depth": 2}) == [A, B]
    crawl.page(crawl.send())
    assert crawl.find(C, meta={"depth": 3}) == [B]  # it is dropped
    assert crawl.find(C, C, meta={"depth": 1}) == [B, C]


def test_what_does_not_fit_is_sent(crawl, monkeypatch):
    monkeypatch.setattr(of_requests, "MAX_HELD", 1)
    assert crawl.find(A, B, C) == [A, C]
    crawl.end(crawl.send())
    assert crawl.page(crawl.send()) == []
    assert crawl.saved == 1  # B


def test_of_many_keys_without_a_page_the_oldest_are_new_again(monkeypatch):
    monkeypatch.setattr(memory, "MAX_DEAD", 2)
    crawl = Crawl()
    urls = [f"http://shop.test/{n}?utm_source=a" for n in range(4)]
    for url in urls:
        crawl.find(url)
        crawl.end(crawl.send())
    keys = [crawl.door.key_of(Request(url)) for url in urls]
    assert [crawl.door.knows(key) for key in keys] == [False, False, True, True]
    others = [url.replace("=a", "=b") for url in urls]
    assert crawl.find(*others) == others


def test_what_another_crawler_takes_out_of_the_store_is_new():
    store = SharedKeys()
    crawl = Crawl(store)
    crawl.find(A, B)
    crawl.page(crawl.send())
    assert crawl.find(A, B) == []
    store.forget(crawl.door.key_of(Request(A)))
    assert crawl.find(A) == [A]


def test_nothing_is_held_for_ever(crawl):
    crawl.find(A, B)
    crawl.queue.clear()  # it was lost
    assert crawl.awaiting.idle()
    assert crawl.queued() == [B]
    assert not crawl.awaiting.idle()


def test_what_stands_behind_a_request_that_learning_holds_is_dropped_at_the_end(crawl):
    crawl.find(A, B)
    crawl.queue.clear()
    crawl.awaiting.is_held = lambda key, url: url == A
    assert not crawl.awaiting.idle()
    assert (len(crawl.shelf), crawl.saved) == (1, 0)
    crawl.awaiting.end()
    assert (len(crawl.shelf), crawl.saved) == (0, 1)


def test_a_page_that_another_crawler_awaits():
    store = SharedKeys()
    one, two = Crawl(store), Crawl(store)
    one.find(A)
    assert two.find(A, B, "http://shop.test/c") == ["http://shop.test/c"]
    first = one.send()
    two.send()
    assert len(two.shelf) == 1
    one.page(first)
    two.find("http://shop.test/d")
    two.send()
    assert (len(two.shelf), two.saved) == (0, 1)
    assert two.stats["dupefilter/filtered"] == 2


def test_what_another_crawler_gets_no_page_for_is_sent():
    store = SharedKeys()
    one, two = Crawl(store), Crawl(store)
    one.find(A, "http://shop.test/c")
    two.find(B, CLEAN, "http://shop.test/d")
    one.end(one.send())
    two.send()
    assert two.queued() == [B]
    assert one.find(C) == ["http://shop.test/c"]  # it waits for B, which two has
    assert two.page(two.send()) == []
    one.send()
    assert (len(one.shelf), len(two.shelf)) == (0, 0)


def test_what_another_crawler_has_is_sent_when_there_is_nothing_else_to_do():
    store = SharedKeys()
    one, two = Crawl(store), Crawl(store)
    one.find(A)
    two.find(B)
    assert two.awaiting.idle()
    assert two.queued() == [B]


def test_a_shelf_keeps_what_another_run_can_read_and_says_what_is_damaged():
    with Database() as database:
        kept = DatabaseShelf(database, Names())
        for number, callback in enumerate(("parse_item", "parse_tab", None, None)):
            call = callback and getattr(kept._spider, callback)
            kept.put(b"key", Request(f"{URL}?utm_source={number}", callback=call))
        other = DatabaseShelf(database, Spider(name="other"))  # has none of these callbacks
        assert other.take(b"key").url.endswith("2")
        database.write("UPDATE twin SET request = 'text' WHERE id = 2")
        database.write("UPDATE twin SET key = 'text' WHERE id = 4")
        left = DatabaseShelf(database, Spider(name="other"))
        assert (left.damaged, len(left), left.take(b"key")) == (2, 1, None)
        again = DatabaseShelf(database, Names())
        assert [request.url[-1] for request in again.clear(b"key")] == ["0"]
        assert (len(again), list(again), again.take(b"key")) == (0, [], None)
