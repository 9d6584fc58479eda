"""What likely brings nothing new waits for all others, and nothing is lost by it."""

from __future__ import annotations

from collections import Counter

import pytest
from online_parts import Parts
from scrapy import Request

from scrapy_urlnorm.crawl.online import learner
from scrapy_urlnorm.crawl.online import requests as module
from scrapy_urlnorm.crawl.online.requests import (
    LEAST_DUPLICATES,
    MAX_KINDS,
    SHARE,
    DuplicateRates,
    kind_of,
)
from scrapy_urlnorm.crawl.online.suppression import FIRST_SENT, MORE
from scrapy_urlnorm.site_rules import SiteRule

HOST = "http://shop.test"
SID = SiteRule(kind="drop-param", site="shop.test", param="sid", source="content", support=400)


@pytest.fixture
def begun(monkeypatch):
    """Begins a crawl whose miner finds nothing by itself."""
    monkeypatch.setattr(learner, "SLICE_SECONDS", 60.0)
    crawls = []

    def begin(**settings):
        crawls.append(Parts(has_miner=False, URLNORM_LEARN="content", **settings))
        return crawls[-1]

    yield begin
    for parts in crawls:
        parts.close()


def see_duplicates(parts, number=LEAST_DUPLICATES, names="to"):
    """Fetch pages of one kind that all have one content."""
    parts.fetch(f"{HOST}/wall", "please log in")
    for n in range(number):
        assert parts.fetch(f"{HOST}/go/x?{names}={n}", "please log in") == "fetched"


def send_all(parts):
    """Send what is in the queue. Return the URLs of what is not held again."""
    sent = []
    while parts.queue:
        request = parts.leave()
        if request is not None:
            sent.append(request.url)
            parts.arrive(request)
    return sent


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("/a/b?x=1", "/a/c?x=2", True),
        ("/a/b?x=1&y=2", "/a/b?y=1&x=2", True),
        ("/a/b?x=1;y=2", "/a/b?x=1&y=2", True),
        ("/a/b?x=1", "/a/b?y=1", False),
        ("/a/b", "/c/b", False),
        ("/a", "/b", True),
        ("/a/b", "/a/b/c", False),
        ("/a/b/c/d", "/a/b/c/d/e", True),
    ],
)
def test_kinds(one, other, is_same):
    """The host, the first folder, the depth and the names say which kind a URL is of."""
    assert (kind_of(HOST + one) == kind_of(HOST + other)) is is_same
    assert kind_of(HOST + one) != kind_of("http://other.test" + one)


def test_a_rate_is_high_as_long_as_most_of_a_kind_are_duplicates():
    rates = DuplicateRates()
    for n in range(LEAST_DUPLICATES):
        assert not rates.is_high("shop.test", f"{HOST}/a/{n}")
        rates.add("shop.test", f"{HOST}/a/{n}", is_duplicate=True)
    assert rates.is_high("shop.test", f"{HOST}/a/new")
    assert not rates.is_high("shop.test", f"{HOST}/a/new?x=1")
    assert not rates.is_high("other.test", f"{HOST}/a/new")
    pages = LEAST_DUPLICATES
    while pages * SHARE <= LEAST_DUPLICATES:
        rates.add("shop.test", f"{HOST}/a/{pages}", is_duplicate=False)
        pages += 1
    assert not rates.is_high("shop.test", f"{HOST}/a/new")


def test_kinds_are_bounded(monkeypatch):
    """Those of one site, and of all."""
    monkeypatch.setattr(module, "MAX_KINDS_OF_ALL", MAX_KINDS + 1)
    rates, sites = DuplicateRates(), ("shop.test", "other.test")
    for site in sites:
        for n in range(MAX_KINDS + 5):
            for _ in range(LEAST_DUPLICATES):
                rates.add(site, f"{HOST}/a?x{n}=1", is_duplicate=True)
    high = [
        sum(rates.is_high(site, f"{HOST}/a?x{n}=1") for n in range(MAX_KINDS + 5)) for site in sites
    ]
    assert high == [MAX_KINDS, 1]


def test_what_is_likely_known_waits_and_is_sent_when_the_crawl_is_idle(begun):
    """A few first, then four times as many each time, until all have been sent."""
    parts = begun()
    see_duplicates(parts)
    urls = [f"{HOST}/go/x?to=later{n}" for n in range((3 + MORE) * FIRST_SENT)]
    for url in urls:
        assert parts.fetch(url) == "held"
    assert parts.fetch(f"{HOST}/else") == "fetched"
    assert parts.stats["deferred"] == len(urls)
    assert parts.state().endswith(f"suppressed 0, deferred {len(urls)}")
    sent, batches = Counter(), []
    while True:
        parts.learner.idle()
        if not parts.queue:
            break
        batches.append(len(parts.queue))
        while parts.queue:
            request = parts.leave()
            assert request is not None  # it has waited: it is not held again
            sent[request.url] += 1
            parts.under_way.discard(request)
    assert sent == Counter(urls)
    assert batches == [FIRST_SENT, MORE * FIRST_SENT, 2 * FIRST_SENT]


def test_a_rule_that_comes_suppresses_what_is_known_by_another_name(begun):
    """When the crawl is idle, and only the rest goes into the queue."""
    parts = begun(has_audits=False)
    see_duplicates(parts, names="sid=a&to")
    for n in range(5):
        assert parts.fetch(f"{HOST}/go/x?sid=b&to=known{n}") == "held"
        assert parts.fetch(f"{HOST}/go/x?to=known{n}") == "fetched"
    assert parts.fetch(f"{HOST}/go/x?sid=b&to=new") == "held"
    parts.found(SID)
    parts.learner.work()
    assert not parts.queue
    parts.learner.idle()
    assert parts.queued() == [f"{HOST}/go/x?sid=b&to=new"]
    assert parts.stats["suppressed"] == 5
    assert send_all(parts) == [f"{HOST}/go/x?sid=b&to=new"]
    parts.learner.idle()
    assert not parts.queue


@pytest.mark.parametrize("comes", [True, False])
def test_of_several_that_a_rule_makes_one_the_others_wait_for_the_first(begun, comes):
    """They are suppressed behind its page. If that does not come, all of them are sent at once."""
    parts = begun(has_audits=False)
    see_duplicates(parts, names="sid=a&to")
    urls = {f"{HOST}/go/x?sid={n}&to=new" for n in range(4)}
    assert {parts.fetch(url) for url in urls} == {"held"}
    parts.found(SID)
    parts.learner.idle()
    assert len(parts.queue) == 1
    first = parts.leave()
    if comes:
        parts.arrive(first)
    else:
        parts.under_way.discard(first)
    parts.learner.idle()
    assert set(parts.queued()) == (set() if comes else urls - {first.url})
    assert parts.stats["suppressed"] == (3 if comes else 0)


def test_an_audit_is_sent_of_what_waited(begun):
    """What was deferred is no less tested than other requests that a rule suppresses."""
    parts = begun()
    see_duplicates(parts, names="sid=a&to")
    assert parts.fetch(f"{HOST}/go/x?sid=b&to=a") == "held"
    assert parts.fetch(f"{HOST}/go/x?to=a", "page") == "fetched"
    parts.found(SID)
    parts.learner.idle()
    assert parts.queued() == [f"{HOST}/go/x?sid=b&to=a"]
    parts.arrive(parts.leave(), "page")
    assert parts.stats["audits"] == parts.stats["audits_agreed"] == 1


def test_a_crawl_of_short_slices_does_not_end_while_requests_wait(begun, monkeypatch):
    """Each slice looks at one request; between them all that is in the queue is sent."""
    parts = begun()
    monkeypatch.setattr(learner, "SLICE_SECONDS", -1.0)
    see_duplicates(parts)
    urls = {f"{HOST}/go/x?to=later{n}" for n in range((2 + MORE) * FIRST_SENT)}
    assert {parts.fetch(url) for url in urls} == {"held"}
    sent = set()
    while (waits := parts.learner.idle()) or parts.queue:
        assert waits or parts.queue
        sent.update(send_all(parts))
    assert sent == urls


def test_what_the_user_wants_first_does_not_wait(begun):
    parts = begun()
    see_duplicates(parts)
    for request in (
        Request(f"{HOST}/go/x?to=a", priority=1),
        Request(f"{HOST}/go/x?to=b", dont_filter=True),
    ):
        parts.schedule(request)
        assert parts.leave() is request


def test_nothing_waits_in_a_queue_that_others_share(begun):
    """In that queue a request is safe; in the database of this crawl it would be lost with it."""
    parts = begun()
    see_duplicates(parts)
    parts.learner.attach_scheduler(is_shared=True)
    assert parts.learner.on_leaving(Request(f"{HOST}/go/x?to=a"))


def test_the_setting_leaves_the_order_as_it_is(begun):
    parts = begun(URLNORM_DEFER_DUPLICATES=False)
    see_duplicates(parts, 3 * LEAST_DUPLICATES)
    assert parts.stats["deferred"] == 0
