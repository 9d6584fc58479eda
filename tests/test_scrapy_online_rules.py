"""The learner with dupefilter and fingerprinter, step by step: what no crawl shows for certain."""

from __future__ import annotations

import logging
from contextlib import closing

import pytest
from loopback import crawler_of
from online_parts import BARE, SITE, WWW, Parts, page_of
from scrapy import Request, Spider
from scrapy.http import HtmlResponse, Response
from twisted.internet.defer import Deferred

from scrapy_urlnorm.crawl import miner
from scrapy_urlnorm.crawl.components import config_of
from scrapy_urlnorm.crawl.middleware import UrlNormDownloaderMiddleware
from scrapy_urlnorm.crawl.online import safe_points
from scrapy_urlnorm.crawl.online.aliases import PageAliases
from scrapy_urlnorm.crawl.online.keys import ClusterKeys
from scrapy_urlnorm.crawl.online.rules import RuleRegistry
from scrapy_urlnorm.crawl.online.suppression import Suppression
from scrapy_urlnorm.report.filtered import SUPPRESSED
from scrapy_urlnorm.site_rules import SiteRule
from scrapy_urlnorm.stores import RULES_NAME

HOSTS = SiteRule(
    site="*.shop.test", kind="host-alias", host=SITE, by="www.shop.test", source="redirect",
    support=400,
)  # fmt: skip
HTTPS = SiteRule(site="*.shop.test", kind="force-scheme", option="https", source="redirect")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    """One call of `work` does it all, also on a machine that has no time. No process mines."""
    monkeypatch.setattr(safe_points, "STEPS", 10**6)
    monkeypatch.setattr(miner, "deferred_from_coro", lambda asked: asked.close() or Deferred())


@pytest.fixture
def parts():
    """A crawl that learns from redirects, and audits."""
    with closing(Parts()) as parts:
        yield parts


@pytest.fixture
def taught():
    """A crawl that has learned that the shop has two names, and audits nothing."""
    with closing(Parts(has_miner=False, has_audits=False)) as parts:
        parts.found(HOSTS)
        yield parts


def schedule(parts: Parts, *urls: str) -> list[Request]:
    requests = [Request(url) for url in urls]
    assert all(map(parts.schedule, requests))
    return requests


def test_a_page_stands_for_no_other_order_of_the_values_of_a_parameter(taught):
    """They may show the same, but each says its own order in its links."""
    taught.found(SiteRule(site=SITE, kind="drop-param", param="sid", source="redirect"))
    for query, said in {
        "f=1&f=2&sid=1": "fetched",
        "f=2&f=1&sid=1": "filtered",  # by the dupefilter, as in stock Scrapy
        "f=2&f=1&sid=2": "fetched",
        "f=1&f=2&sid=3": "filtered",
        "f=2&f=1&sid=4": "filtered",
        "f=1&f=2": "filtered",
    }.items():
        assert taught.fetch(f"{BARE}/a?{query}") == said, query


def test_what_waits_in_the_queue_is_suppressed_when_it_leaves(taught):
    """And it comes back, past the dupefilter, when the rule goes."""
    taught.found()
    schedule(taught, WWW + "/a", BARE + "/a")
    taught.found(HOSTS)
    taught.arrive(taught.leave())
    assert taught.leave() is None
    assert (taught.states(), taught.queued()) == ({SUPPRESSED: 1}, [])
    taught.found()
    assert taught.queued() == [BARE + "/a"]
    assert taught.leave().url == BARE + "/a"
    assert taught.stats["released"] == 1


class Labelled(Request):
    """A request with an attribute of its own."""

    attributes = (*Request.attributes, "label")

    def __init__(self, *args, label="", **kwargs):
        super().__init__(*args, **kwargs)
        self.label = label


def test_what_comes_back_is_as_it_was(taught):
    more = {"label": "l", "headers": {"X-Tag": "h"}, "meta": {"tag": "m"}, "flags": ["f"]}
    more |= {"cb_kwargs": {"tag": "a"}, "priority": 3}
    for host in (WWW, BARE):
        request = Labelled(host + "/a", **more)
        if taught.schedule(request):
            taught.arrive(taught.leave())
    assert taught.stats["suppressed"] == 1
    taught.found()
    (back,) = taught.queue
    assert (type(back), back.label, back.meta["tag"]) == (Labelled, "l", "m")
    assert {**back.to_dict(), "meta": {}} == {**request.to_dict(), "meta": {}}


def test_other_sites_are_not_touched_by_a_retraction(taught):
    """Requests that another site suppresses stay where they are."""
    other = SiteRule(site="*.other.test", kind="force-scheme", option="https", source="redirect")
    taught.found(other, site="other.test")
    for url in (WWW + "/a", BARE + "/a", "https://other.test/a", "http://other.test/a"):
        taught.fetch(url)
    taught.found()
    assert taught.queued() == [BARE + "/a"]
    taught.queue.clear()
    taught.found(site="other.test")
    assert taught.queued() == ["http://other.test/a"]


def test_the_twin_that_the_rules_name_is_fetched_though_it_was_found_last(taught):
    """The first one would be redirected to it, and the dupefilter would stop that."""
    _, twin = schedule(taught, BARE + "/n", WWW + "/n")
    assert [taught.leave(), taught.leave()] == [None, twin]
    taught.arrive(twin)
    assert taught.stats["suppressed"] == 1


def test_a_redirect_within_the_cluster_takes_its_place_in_flight_along(taught):
    """What is coalesced waits for the page that the redirect leads to."""
    (first,) = schedule(taught, BARE + "/n?x=1")
    assert taught.leave() is first
    taught.learner.redirect(first, WWW + "/n?x=1", status=301)
    target = Request(WWW + "/n?x=1", meta={"redirect_urls": [first.url]})
    assert taught.schedule(target)
    taught.under_way.discard(first)
    schedule(taught, "https://shop.test/m", "http://shop.test/n?x=1&z")
    assert taught.leave() is target
    taught.arrive(target)
    assert taught.fetch("http://www.shop.test/n?x=1&utm_source=y") == "filtered"


def test_nothing_is_held_that_is_not_a_plain_first_get(taught):
    """Retries, redirects to what was asked for, posts, what has its own say, start requests are sent."""
    taught.fetch(WWW + "/a")
    for options in (
        {"dont_filter": True},
        {"method": "POST"},
        {"method": "HEAD"},
        {"body": b"x"},
        {"cookies": {"a": "b"}},
        {"meta": {"cookiejar": 1}},
        {"meta": {"retry_times": 1}},
        {"meta": {"redirect_urls": [WWW + "/a"]}},
        {"meta": {"urlnorm": False}},
        {"meta": {"verbatim_url": True}},
        {"meta": {"is_start_request": True}},
    ):
        request = Request(BARE + "/a", **options)
        assert taught.learner.on_arrival(request) is None, options
        assert taught.learner.on_leaving(request), options
    for meta in ({}, {"redirect_urls": [BARE + "/b"]}):
        assert taught.learner.on_arrival(Request(BARE + "/a", meta=meta)) is not None


NO_REPRESENTATIVE = {
    "a retry": (Request(WWW + "/a", meta={"retry_times": 1}), None),
    "a start request": (Request(WWW + "/a", meta={"is_start_request": True}), None),
    "dont_filter": (Request(WWW + "/a", dont_filter=True), None),
    "a post": (Request(WWW + "/a", method="POST"), None),
    "no HTML": (Request(WWW + "/a"), Response(WWW + "/a", body=b"\x89PNG")),
    "a page of another URL": (Request(WWW + "/a"), HtmlResponse(WWW + "/b", body=b"<p>b</p>")),
    "a soft 404": (
        Request(WWW + "/a"),
        HtmlResponse(WWW + "/a", body=b"<title>404 Not Found</title><h1>Not Found</h1>"),
    ),
}


@pytest.mark.parametrize("name", NO_REPRESENTATIVE)
def test_what_is_no_page_of_its_own_stands_for_no_other_url(taught, name):
    request, response = NO_REPRESENTATIVE[name]
    taught.learner.page(request, response or page_of(request))
    assert taught.learner.on_arrival(Request(BARE + "/a")) is None


def test_requests_of_components_are_never_dropped(taught):
    """A request that did not come through the dupefilter is not the queue's to drop."""
    taught.fetch(WWW + "/a")
    assert not taught.learner.is_scheduled(Request(BARE + "/a"))
    schedule(taught, BARE + "/b")
    assert taught.learner.is_scheduled(Request(BARE + "/b"))


def test_a_rule_is_learned_from_permanent_redirects_of_plain_requests_only(parts):
    """A temporary one, a retry and a redirect further on in a chain say nothing."""
    for number in range(30):
        url, target = f"{BARE}/{number}", f"{WWW}/{number}"
        parts.learner.redirect(Request(url), target, status=302)
        for meta in ({"retry_times": 1}, {"redirect_urls": ["http://other.test/"]}):
            parts.learner.redirect(Request(url, meta=meta), target, status=301)
    assert parts.learner.rules == ()


def test_a_file_that_cannot_be_written_is_said_and_learning_goes_on(tmp_path, caplog):
    path = tmp_path / RULES_NAME
    with closing(Parts(JOBDIR=str(tmp_path))) as parts:
        path.mkdir()
        parts.learn()
        assert len(parts.in_force()) == 1
        assert str(path) in caplog.text


def test_a_rule_that_does_not_go_with_the_users_is_not_applied(tmp_path, caplog):
    """Two options of one rule for one host cannot both hold: the user's stays, and it is said."""
    caplog.set_level("INFO")
    own = tmp_path / "own.toml"
    own.write_text(
        '[[rule]]\nsite = "www.shop.test"\nkind = "remove-directory-index"\n'
        'option = ["default.asp"]\n'
    )
    index = SiteRule(
        site="www.shop.test",
        kind="remove-directory-index",
        option=["index.html"],
        source="redirect",
    )
    with closing(Parts(has_miner=False, URLNORM_SITE_RULES=[str(own)])) as parts:
        parts.found(index)
        assert (parts.in_force(), parts.stats["rules"]) == ((), 0)
        assert "not applied" in caplog.text
        parts.found(HOSTS)
        assert parts.in_force() == (HOSTS,)


def test_a_rewriter_that_would_never_come_to_an_end_is_not_followed(monkeypatch):
    class Flip:
        def normalize(self, url):
            return url[:-1] + "ba"["ab".index(url[-1])]

    crawler = crawler_of(Spider, {})
    config_of(crawler).rewriter = Flip()
    middleware = UrlNormDownloaderMiddleware.from_crawler(crawler)
    assert middleware.process_request(Request(WWW + "/a")) is None


# --- nothing that fails in here reaches Scrapy ----------------------------------------------------


class BrokenError(Exception):
    """What nobody thought of."""


def broken(*_, **__):
    raise BrokenError("broken")


REQUEST = Request(BARE + "/a")
#: For each method that Scrapy's components call: what inside it fails, the call, the answer.
METHODS = {
    "on_arrival": (Suppression, "on_arrival", lambda learner: learner.on_arrival(REQUEST), None),
    "on_leaving": (Suppression, "on_leaving", lambda learner: learner.on_leaving(REQUEST), True),
    "is_scheduled": (
        ClusterKeys, "fingerprint", lambda learner: learner.is_scheduled(REQUEST), False,
    ),
    "work": (Suppression, "expire_in_flight", lambda learner: learner.work(), None),
    "idle": (Suppression, "idle", lambda learner: learner.idle(), False),
    "page": (PageAliases, "read", lambda learner: learner.page(REQUEST, page_of(REQUEST)), None),
    "redirect": (
        Suppression, "redirected",
        lambda learner: learner.redirect(REQUEST, WWW + "/a", status=301), None,
    ),
    "missing": (
        PageAliases, "ended_elsewhere", lambda learner: learner.missing(REQUEST), None,
    ),
    "release_all": (Suppression, "release_all", lambda learner: learner.release_all(), None),
    "close": (RuleRegistry, "save", lambda learner: learner.close(), None),
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_a_failure_sends_the_request_and_is_said_once(taught, name, monkeypatch, caplog):
    """Whatever is raised inside: the answer is the one that sends, one line says it, all count."""
    owner, inside, call, answer = METHODS[name]
    with monkeypatch.context() as patch:
        patch.setattr(owner, inside, broken)
        for number in range(1, 4):
            assert call(taught.learner) is answer
            assert taught.stats["errors"] == number
    (record,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert record.levelname == "ERROR"
    assert "broken" in record.getMessage()
    assert name in record.getMessage()


def test_where_what_is_held_cannot_be_seen_to_it_is_sent(taught, monkeypatch):
    """No rule is applied any more, and nothing stays suppressed."""
    taught.fetch(WWW + "/a")
    assert taught.fetch(BARE + "/a") == "filtered"
    monkeypatch.setattr(Suppression, "idle", broken)
    taught.learner.idle()
    assert taught.queued() == [BARE + "/a"]
    assert taught.learner.on_leaving(taught.queue.popleft())


def test_a_broken_page_does_not_lose_the_request_that_waits_for_it(taught, monkeypatch):
    """What failed is that it became a representative: what waits for it is sent."""
    first, _ = schedule(taught, WWW + "/n", BARE + "/n")
    taught.leave(), taught.leave()
    monkeypatch.setattr("scrapy_urlnorm.crawl.online.learner.shown_in_crawl", broken)
    taught.arrive(first)
    taught.learner.work()
    assert taught.queued() == [BARE + "/n"]


ODD = [
    "http://h.test",
    "http://h.test#7",
    "http://h.test?x",
    "https://h.test?x",
    "http://h.test/%ff",
    "http://h.test/a%ED%A0%80b",
    "http://[::1]/a",
    "http://h.test:65535/a",
    f"http://{'a' * 5_000}.test/a",
    f"http://{'a.' * 2_500}test/a",
    f"http://h.test/{'a/' * 5_000}",
]


@pytest.mark.parametrize("url", ODD, ids=[url[:30] for url in ODD])
def test_odd_urls_go_through_every_step_without_an_error(url, caplog):
    """Empty paths, very long hosts, what is no Unicode: with rules in force for their site."""
    rule = SiteRule(site="*.h.test", kind="force-scheme", option="https", source="redirect")
    with closing(Parts(has_miner=False)) as parts:
        parts.found(rule, site="h.test")
        request = Request(url)
        parts.learner.on_arrival(request)
        parts.learner.on_leaving(request)
        parts.under_way.add(request)
        parts.learner.redirect(request, "https://h.test", status=301)
        parts.arrive(request)
        parts.learner.on_arrival(Request(url.replace("http:", "https:")))
        parts.learner.work()
        parts.learner.idle()
        assert parts.stats["errors"] == 0
    assert "failed" not in caplog.text


TARGETS = ["", "http://", "http://[/", "mailto:a@b", "http://h.test/\ud800", "//x", "http://h.test"]


@pytest.mark.parametrize("target", TARGETS)
def test_odd_targets_of_redirects_reach_nobody(parts, target):
    """What Scrapy would not follow either is at most counted."""
    for number in range(5):
        parts.learner.redirect(Request(f"{BARE}/{number}"), target, status=301)
    assert parts.in_force() == ()
    assert parts.fetch(WWW + "/a") == "fetched"
