"""Crawlers at one Redis tell each other the rules that they learned, and the pages that came."""

from __future__ import annotations

import json

import pytest
from loopback import crawl, page, redirect
from online_parts import BARE, WWW, crawls, page_of
from scrapy import Request
from scrapy.settings import Settings

from scrapy_urlnorm.crawl.online import sharing
from scrapy_urlnorm.crawl.settings import STORE, Config
from scrapy_urlnorm.exceptions import StoreUnavailableError
from scrapy_urlnorm.site_rules import SiteRule

pytest.importorskip("redis", reason="the extra 'redis' is not installed")
from scrapy_urlnorm.stores.redis import RedisSeen

HOSTS = SiteRule(
    site="*.shop.test", kind="host-alias", host="shop.test", by="www.shop.test", source="redirect",
    support=3,
)  # fmt: skip


def look(*crawlers):
    for parts in crawlers:
        parts.arrive(Request("http://other.test/"))
        parts.learner.work()


def merges(parts):
    return bool(parts.in_force())


def away(*_: object) -> None:
    raise StoreUnavailableError("away")


@pytest.fixture
def begin(redis_server, monkeypatch, request):
    monkeypatch.setattr(sharing, "EXCHANGE_SECONDS", 0.0)
    store = f"{redis_server.url}?prefix={request.node.name}"
    with crawls(store=store, has_miner=False, has_audits=False) as begin:
        yield begin


@pytest.fixture
def crawlers(begin):
    return begin(), begin()


def test_a_rule_reaches_the_others(begin, crawlers):
    one, other = crawlers
    one.found(HOSTS)
    assert not merges(other)
    look(other)
    assert merges(other)
    assert other.stats == {"shared": 1}
    late = begin()
    look(late)
    assert merges(late)


def test_what_an_audit_of_one_refutes_all_retract(begin):
    one, other, third = begin(), begin(has_audits=True), begin()
    one.found(HOSTS)
    look(other, third)
    other.download = lambda request: page_of(request, "one" if WWW in request.url else "another")
    other.fetch(WWW + "/a", "one")
    other.fetch(BARE + "/a", "another")
    assert other.stats["audits_differed"] == 1
    look(one, third)
    assert not any(map(merges, (one, other, third)))
    assert [parts.stats["retracted"] for parts in (one, other, third)] == [1, 1, 1]
    one.found(HOSTS)
    look(other, third)
    assert not any(map(merges, (one, other, third)))


BAD_NOTES = [
    *(
        "{}",
        "[" * 100_000,
        '{"a":' * 50_000,
        "<html>",
        "7",
        '{"site": 7, "kind": [], "source": {}}',
    ),
    '{"site": "shop.test", "kind": "explode", "source": "redirect"}',
    '{"support": ' + "9" * 5000 + "}",
    '{"site": "shop.test", "support": NaN}',
    '{"site": "\\ud800.test", "kind": "www", "option": "remove"}',
]


def test_a_note_that_is_no_rule_is_left_alone(crawlers, caplog):
    one, other = crawlers
    one.dupefilter.store.leave_notes({f"active {n}": note for n, note in enumerate(BAD_NOTES)})
    one.found(HOSTS)
    caplog.clear()
    look(other)
    assert merges(other)
    assert caplog.text.count("cannot be read") == 1


def test_a_rule_of_another_that_no_site_may_have_is_not_applied(crawlers):
    one, other = crawlers
    foreign = SiteRule(
        site="shop.test", kind="host-alias", host="other.example", by="shop.test", source="redirect"
    )
    note = json.dumps(foreign.as_dict())
    one.dupefilter.store.leave_notes({"active forged": note})
    one.found(HOSTS)
    look(other)
    assert other.in_force() == one.in_force() == (HOSTS,)
    assert other.stats["shared"] == 1


def test_a_store_that_is_away_does_not_stop_learning(crawlers, monkeypatch):
    one, other = crawlers
    monkeypatch.setattr(one.dupefilter.store, "leave_notes", away)
    monkeypatch.setattr(other.dupefilter.store, "notes", away)
    one.found(HOSTS)
    assert merges(one)
    look(other)
    assert not merges(other)
    monkeypatch.undo()
    monkeypatch.setattr(sharing, "EXCHANGE_SECONDS", 0.0)
    look(one, other)
    assert merges(other)


def test_a_crawler_does_not_end_before_it_has_looked(redis_server):
    store = f"{redis_server.url}?prefix=ends"
    config = Config(Settings({STORE: store}))
    links = [f"{host}/{n}" for n in range(40) for host in (BARE, WWW)]
    asked = set()

    def answer(url):
        asked.add(url)
        if url.startswith(BARE):
            return redirect(url.replace(BARE, WWW))
        if asked.issuperset(link for link in links if link.startswith(WWW)):
            with config.new_store("follow") as seen:
                for note in seen.notes().values():
                    rule = {**json.loads(note), "status": "rejected"}
                    seen.leave_notes({"rejected": json.dumps(rule)})
        return page(url, *(links if url == WWW + "/" else links[:4]))

    settings = {
        "ADDONS": {"scrapy_urlnorm.Addon": 900},
        STORE: store,
        "URLNORM_LEARN": "redirects",  # or a rule that contents taught is there beside it
    }
    result = crawl(answer, [WWW + "/"], {**settings, "CONCURRENT_REQUESTS": 1})
    assert asked.issuperset(links)
    assert result.stats["urlnorm/learned/retracted"] == 1
    assert len(result.pages) == len(set(result.pages))


def test_a_page_that_arrived_at_one_represents_for_all(crawlers):
    one, other = crawlers
    one.found(HOSTS)
    look(other)
    assert one.fetch(WWW + "/a") == "fetched"
    assert other.fetch(BARE + "/a") == "filtered"
    assert other.stats["suppressed"] == 1
    one.arrive(Request(WWW + "/b"))
    other.schedule(Request(WWW + "/b"))
    assert other.leave().url == WWW + "/b"
    other.found()
    assert other.queued() == [BARE + "/a"]


def test_a_page_that_redis_does_not_tell_of_is_none(crawlers, monkeypatch):
    one, other = crawlers
    one.found(HOSTS)
    look(other)
    one.fetch(WWW + "/a")
    with monkeypatch.context() as patch:
        patch.setattr(RedisSeen, "page", away)
        for url in (BARE + "/a", BARE + "/a?b"):
            assert other.schedule(Request(url))
            assert other.leave().url == url
    assert other.held() == []


def test_nothing_is_coalesced_behind_a_request_of_another_crawler(crawlers):
    one, other = crawlers
    one.found(HOSTS)
    look(other)
    one.schedule(Request(WWW + "/a"))
    other.schedule(Request(BARE + "/a"))
    assert other.leave().url == BARE + "/a"
    other.schedule(Request(BARE + "/b"))
    other.schedule(Request(WWW + "/b"))
    assert other.leave() is None
    assert other.held() == [BARE + "/b"]
