"""Crawlers at one Redis tell each other the rules that they learned."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from live_parts import BARE, WWW, Parts
from loopback import Site, crawl, page, redirect
from redis_server import RedisServer
from scrapy import Request
from scrapy.settings import Settings

from scrapy_urlnorm.crawl.settings import STORE, Config
from scrapy_urlnorm.exceptions import StoreUnavailableError

pytest.importorskip("redis")


def look(parts):
    """Meet a page of another site, when it is time to look for news."""
    parts.rules._exchange._next = 0.0
    parts.arrive(Request("http://other.test/"))


@pytest.fixture
def server():
    with RedisServer() as server:
        yield server


@pytest.fixture
def crawlers(server):
    with closing(Parts(server.url)) as one, closing(Parts(server.url)) as other:
        yield one, other


def test_a_rule_reaches_the_others(crawlers):
    """What one crawler learned, another applies without a redirect of its own."""
    one, other = crawlers
    one.learn()
    assert one.merges()
    assert not other.merges()
    look(other)
    assert other.merges()
    assert other.stats == {"shared": 1}


def test_a_crawler_that_comes_later_knows_it_too(server, crawlers):
    """Rules stay in the store for those who join."""
    crawlers[0].learn()
    with closing(Parts(server.url)) as late:
        look(late)
        assert late.merges()


def test_what_one_takes_back_all_take_back(crawlers):
    """A page that contradicts the rule ends it everywhere, for good."""
    one, other = crawlers
    one.learn()
    look(other)
    other.arrive(Request(BARE + "/shown"))
    assert not other.merges()
    look(one)
    assert not one.merges()
    assert one.stats["retracted"] == 1
    one.learn()
    look(other)
    assert not other.merges()


def test_own_pages_outweigh_what_others_say(crawlers):
    """A rule that contradicts a page of one's own is rejected, and the others are told."""
    one, other = crawlers
    other.arrive(Request(BARE + "/shown"))
    one.learn()
    look(other)
    assert not other.merges()
    look(one)
    assert not one.merges()


def test_a_note_that_is_no_rule_is_left_alone(crawlers, caplog):
    """What cannot be read is said once and does no harm."""
    one, other = crawlers
    one.dupefilter.keys.store.leave_notes({"a": "{}", "b": "[", "c": '{"site": 1}'})
    one.learn()
    caplog.clear()
    look(other)
    assert other.merges()
    assert caplog.text.count("cannot be read") == 1


def test_a_store_that_is_away_does_not_stop_learning(crawlers, monkeypatch):
    """The exchange waits for better times; the next look-up of a key says what is wrong."""
    one, other = crawlers

    def away(*_: object) -> None:
        raise StoreUnavailableError("away")

    monkeypatch.setattr(one.dupefilter.keys.store, "leave_notes", away)
    monkeypatch.setattr(other.dupefilter.keys.store, "notes", away)
    one.learn()
    assert one.merges()
    look(other)
    assert not other.merges()
    monkeypatch.undo()
    look(one)
    look(other)
    assert other.merges()


def test_a_crawler_that_comes_late_with_a_rule_does_not_undo_its_end(server, crawlers):
    """Who learned by itself, not having heard, does not write over what the others took back."""
    late, other = crawlers
    look(late)
    other.learn()
    other.arrive(Request(BARE + "/shown"))
    late.learn()
    with closing(Parts(server.url)) as third:
        look(third)
        assert not third.merges()


def test_crawlers_that_learned_the_same_do_not_argue(crawlers, monkeypatch):
    """Each has its own evidence for the rule; they tell it once, not in turns for ever."""
    one, other = crawlers
    look(other)
    one.learn()
    other.learn(first=8)
    monkeypatch.setattr(type(one.dupefilter.keys.store), "leave_notes", None)  # nothing to call
    for crawler in (one, other, one, other):
        look(crawler)
    assert one.merges()
    assert other.merges()


def test_a_crawler_does_not_end_before_it_has_looked(server):
    """What a rule filtered comes back when another crawler takes the rule back, however late."""
    config = Config.from_settings(Settings({STORE: server.url}))
    links = [f"{host}/{n}" for n in range(40) for host in (BARE, WWW)]
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

    settings = {
        "ADDONS": {"scrapy_urlnorm.Addon": 900},
        STORE: server.url,
        "URLNORM_LEARN": "redirects",  # or a rule that contents taught is there beside it
    }
    with Site(answer) as site:
        result = crawl(site, [WWW + "/"], {**settings, "CONCURRENT_REQUESTS": 1})
    assert asked.issuperset(links)
    assert result.stats["urlnorm/learned/retracted"] == 1
    assert len(result.pages) == len(set(result.pages))


def test_a_store_of_ones_own_has_no_notes():
    """Without others nothing is exchanged."""
    with closing(Parts()) as parts:
        parts.learn()
        look(parts)
        assert parts.dupefilter.keys.store.notes() == {}


def test_a_page_that_arrived_at_one_is_a_witness_for_all(crawlers):
    """As soon as all know the rule, and only for other URLs than its own."""
    one, other = crawlers
    one.learn()
    look(other)
    for parts in crawlers:
        parts.settle_audits()
    assert one.fetch(WWW + "/a") == "fetched"
    assert other.fetch(BARE + "/a") == "filtered"
    assert other.stats["withheld"] == 1
    other.arrive(Request(BARE + "/shown"))
    other.rules.work()
    assert other.queued() == [BARE + "/a"]


def test_when_its_page_arrived_elsewhere_meanwhile_it_is_withheld(crawlers):
    """A request that waits here is looked at again when it leaves the queue."""
    one, other = crawlers
    one.learn()
    look(other)
    other.settle_audits()
    one.schedule(Request(WWW + "/a"))
    other.schedule(Request(BARE + "/a"))
    one.arrive(one.leave())
    assert other.leave() is None
    assert other.stats["withheld"] == 1
    assert not other.rules.idle()
    assert other.queued() == []


def test_a_witness_that_redis_does_not_tell_of_is_none(crawlers, monkeypatch):
    """What cannot be asked is not known, and the request is sent."""
    one, other = crawlers
    one.learn()
    look(other)
    other.settle_audits()
    one.fetch(WWW + "/a")

    def away(*_: object) -> None:
        raise StoreUnavailableError("away")

    with monkeypatch.context() as patch:
        patch.setattr(other.rules._shared_pages._table, "get", away)
        other.schedule(Request(BARE + "/a"))
        other.schedule(Request(BARE + "/a?b"))
        assert len(other.queue) == 2
        assert other.leave().url == BARE + "/a"
        assert other.leave() is not None
    assert other.stats["withheld"] == 0
    assert other.stats["parked"] == 0


def test_nothing_is_parked_behind_a_request_of_another_crawler(crawlers):
    """It may die before the page comes: what only the shared store knows of is no claim."""
    one, other = crawlers
    one.learn()
    look(other)
    one.schedule(Request(WWW + "/a"))
    other.schedule(Request(BARE + "/a"))
    assert other.leave().url == BARE + "/a"
    other.schedule(Request(BARE + "/b"))
    other.schedule(Request(WWW + "/b"))
    assert other.leave() is None  # the other one waits in its own queue
    assert other.stats["parked"] == 1


def test_the_log_says_who_refuted_a_rule(crawlers, caplog):
    """A page of one's own, or another crawler."""
    caplog.set_level("INFO")
    one, other = crawlers
    other.arrive(Request(BARE + "/shown"))
    one.learn()
    caplog.clear()
    look(other)
    assert "not taken over" in caplog.text
    assert "contradicted by a page" in caplog.text
    assert "Taken back by another crawler" not in caplog.text
    caplog.clear()
    look(one)
    assert "Taken back by another crawler" in caplog.text
