"""Crawlers at one Redis tell each other the rules that they learned."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from loopback import Site, crawl, page, redirect
from redis_server import RedisServer
from scrapy import Request, Spider
from scrapy.settings import Settings
from scrapy_urlnorm.learning.online import ENOUGH
from scrapy_urlnorm.live_rules import LiveRules

from scrapy_urlnorm.dupefilter import UrlNormDupeFilter
from scrapy_urlnorm.exceptions import StoreUnavailableError
from scrapy_urlnorm.fingerprinter import UrlNormRequestFingerprinter
from scrapy_urlnorm.settings import STORE, Config

pytest.importorskip("redis")
BARE, WWW = "http://shop.test", "http://www.shop.test"


class Crawler:
    """The components of one of several crawls, without the crawl."""

    def __init__(self, url):
        config = Config.from_settings(Settings({STORE: url}))
        self.fingerprinter = UrlNormRequestFingerprinter(config.normalizer)
        self.dupefilter = UrlNormDupeFilter(config.new_store("shop"), self.fingerprinter)
        self.dupefilter.open()
        self.stats = {}
        crawler = SimpleNamespace(
            spider=Spider(name="test"),
            stats=SimpleNamespace(inc_value=self.count),
            engine=SimpleNamespace(crawl=lambda request: None),
        )
        self.rules = LiveRules(crawler, config, self.fingerprinter, self.dupefilter)
        self.dupefilter.live_rules = self.rules

    def count(self, stat):
        self.stats[stat] = self.stats.get(stat, 0) + 1

    def learn(self, first=0):
        for number in range(first, first + ENOUGH):
            self.rules.redirect(Request(f"{BARE}/{number}"), f"{WWW}/{number}")

    def look(self):
        """Meet a page of another site, when it is time to look for news."""
        self.rules._shared._next = 0.0
        self.rules.page(Request("http://other.test/"))

    def merges(self):
        normalize = self.fingerprinter.normalizer.normalize
        return normalize(BARE + "/new") == normalize(WWW + "/new")

    def close(self):
        self.rules.close()
        self.dupefilter.close()


@pytest.fixture
def server():
    with RedisServer() as server:
        yield server


@pytest.fixture
def crawlers(server):
    crawlers = [Crawler(server.url) for _ in range(2)]
    yield crawlers
    for crawler in crawlers:
        crawler.close()


def test_a_rule_reaches_the_others(crawlers):
    """What one crawler learned, another applies without a redirect of its own."""
    one, other = crawlers
    one.learn()
    assert one.merges()
    assert not other.merges()
    other.look()
    assert other.merges()
    assert other.stats == {"urlnorm/learned/shared": 1}


def test_a_crawler_that_comes_later_knows_it_too(server, crawlers):
    """Rules stay in the store for those who join."""
    crawlers[0].learn()
    late = Crawler(server.url)
    late.look()
    assert late.merges()
    late.close()


def test_what_one_takes_back_all_take_back(crawlers):
    """A page that contradicts the rule ends it everywhere, for good."""
    one, other = crawlers
    one.learn()
    other.look()
    other.rules.page(Request(BARE + "/shown"))
    assert not other.merges()
    one.look()
    assert not one.merges()
    assert one.stats["urlnorm/learned/retracted"] == 1
    one.learn()
    other.look()
    assert not other.merges()


def test_own_pages_outweigh_what_others_say(crawlers):
    """A rule that contradicts a page of one's own is rejected, and the others are told."""
    one, other = crawlers
    other.rules.page(Request(BARE + "/shown"))
    one.learn()
    other.look()
    assert not other.merges()
    one.look()
    assert not one.merges()


def test_a_note_that_is_no_rule_is_left_alone(crawlers, caplog):
    """What cannot be read is said and does no harm."""
    one, other = crawlers
    one.dupefilter.store.leave_notes({"a": "{}", "b": "[", "c": '{"site": 1}'})
    one.learn()
    caplog.clear()
    other.look()
    assert other.merges()
    assert caplog.text.count("cannot be read") == 3


def test_a_store_that_is_away_does_not_stop_learning(crawlers, monkeypatch):
    """The exchange waits for better times; the next look-up of a key says what is wrong."""
    one, other = crawlers

    def away(*_: object) -> None:
        raise StoreUnavailableError("away")

    monkeypatch.setattr(one.dupefilter.store, "leave_notes", away)
    monkeypatch.setattr(other.dupefilter.store, "notes", away)
    one.learn()
    assert one.merges()
    other.look()
    assert not other.merges()
    monkeypatch.undo()
    one.look()
    other.look()
    assert other.merges()


def test_a_crawler_that_comes_late_with_a_rule_does_not_undo_its_end(server, crawlers):
    """Who learned by itself, not having heard, does not write over what the others took back."""
    late, other = crawlers
    late.look()
    other.learn()
    other.rules.page(Request(BARE + "/shown"))
    late.learn()
    third = Crawler(server.url)
    third.look()
    assert not third.merges()
    third.close()


def test_crawlers_that_learned_the_same_do_not_argue(crawlers, monkeypatch):
    """Each has its own evidence for the rule; they tell it once, not in turns for ever."""
    one, other = crawlers
    other.look()
    one.learn()
    other.learn(ENOUGH)
    monkeypatch.setattr(type(one.dupefilter.store), "leave_notes", None)  # nothing to call
    for crawler in (one, other, one, other):
        crawler.look()
    assert one.merges()
    assert other.merges()


def test_a_crawler_does_not_end_before_it_has_looked(server):
    """What a rule filtered comes back when another crawler takes the rule back, however late."""
    config = Config.from_settings(Settings({STORE: server.url}))
    links = [f"{host}/{n}" for n in range(3 * ENOUGH) for host in (BARE, WWW)]
    asked = set()

    def answer(url):
        asked.add(url)
        if url.startswith(BARE):
            return redirect(url.replace(BARE, WWW))
        if asked.issuperset(link for link in links if link.startswith(WWW)):
            with config.new_store("follow") as store:
                for note in store.notes().values():
                    rule = {**json.loads(note), "status": "rejected"}
                    store.leave_notes({"rejected": json.dumps(rule)})
        return page(url, *(links if url == WWW + "/" else links[:4]))

    settings = {"ADDONS": {"scrapy_urlnorm.Addon": 900}, STORE: server.url}
    with Site(answer) as site:
        result = crawl(site, [WWW + "/"], {**settings, "CONCURRENT_REQUESTS": 1})
    assert asked.issuperset(links)
    assert result.stats["urlnorm/learned/retracted"] == 1
    assert len(result.pages) == len(set(result.pages))


def test_a_store_of_ones_own_has_no_notes():
    """Without others nothing is exchanged."""
    crawler = Crawler("memory")
    crawler.learn()
    crawler.look()
    assert crawler.dupefilter.store.notes() == {}
    crawler.close()
