"""What likely brings nothing new waits for all others, and nothing is lost by it."""

from __future__ import annotations

from collections import Counter

import pytest
from live_parts import Parts
from scrapy import Request
from twisted.internet.defer import Deferred

from scrapy_urlnorm.crawl.live import likely as module
from scrapy_urlnorm.crawl.live import live_rules, mining
from scrapy_urlnorm.crawl.live.deferral import FIRST_SENT, MORE
from scrapy_urlnorm.crawl.live.likely import (
    LEAST,
    MAX_KINDS,
    SHARE,
    Likely,
    kind_of,
)
from scrapy_urlnorm.learning.worker import Mined
from scrapy_urlnorm.site_rules import SiteRule

HOST = "http://shop.test"


@pytest.fixture
def begun(monkeypatch):
    """Begins a crawl whose miner never answers."""
    monkeypatch.setattr(live_rules, "SLICE_SECONDS", 60.0)
    monkeypatch.setattr(mining, "in_thread", lambda *_: Deferred())
    crawls = []

    def begin(**settings):
        parts = Parts(URLNORM_LEARN="content", **settings)
        parts.rules.asked_by_queue()
        parts.rules._mining._mining.request = lambda _: None
        crawls.append(parts)
        return parts

    yield begin
    for parts in crawls:
        parts.close()


def see_duplicates(parts, number=LEAST, names="to"):
    """Fetch pages of one kind that all have one content."""
    parts.fetch(f"{HOST}/wall", "please log in")
    for n in range(number):
        assert parts.fetch(f"{HOST}/go/x?{names}={n}", "please log in") == "fetched"


def learn(parts):
    """Learn that ``sid`` means nothing."""
    rule = SiteRule(
        kind="drop-param", site="shop.test", param="sid", source="content", support=400
    ).replace(false_merge_upper=0.01)
    parts.rules._mining._mined(Mined("shop.test", (rule,), 0.1))
    parts.rules.work()
    assert parts.in_force() == (rule,)


def send_all(parts):
    """Send what is in the queue. Return the URLs of what is not kept back again."""
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


def test_a_kind_is_likely_as_long_as_most_of_it_are_duplicates():
    likely = Likely()
    for n in range(LEAST):
        assert not likely("shop.test", f"{HOST}/a/{n}")
        likely.add("shop.test", f"{HOST}/a/{n}", is_duplicate=True)
    assert likely("shop.test", f"{HOST}/a/new")
    assert not likely("shop.test", f"{HOST}/a/new?x=1")
    assert not likely("other.test", f"{HOST}/a/new")
    pages = LEAST
    while pages * SHARE <= LEAST:
        likely.add("shop.test", f"{HOST}/a/{pages}", is_duplicate=False)
        pages += 1
    assert not likely("shop.test", f"{HOST}/a/new")


def test_the_kinds_of_a_site_are_bounded():
    likely = Likely()
    for n in range(2 * MAX_KINDS):
        for _ in range(LEAST):
            likely.add("shop.test", f"{HOST}/a?x{n}=1", is_duplicate=True)
    assert sum(likely("shop.test", f"{HOST}/a?x{n}=1") for n in range(2 * MAX_KINDS)) == MAX_KINDS


def test_the_kinds_of_all_sites_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "MAX_KINDS_OF_ALL", 3)
    likely = Likely()
    for n in range(5):
        for _ in range(LEAST):
            likely.add(f"shop{n}.test", f"http://shop{n}.test/a", is_duplicate=True)
    assert [likely(f"shop{n}.test", f"http://shop{n}.test/b") for n in range(5)] == [
        *(True, True, True),
        *(False, False),
    ]


def test_what_is_likely_known_waits_and_is_sent_when_the_crawl_is_idle(begun):
    """A few first, then four times as many each time, until all have been sent."""
    parts = begun()
    see_duplicates(parts)
    urls = [f"{HOST}/go/x?to=later{n}" for n in range((3 + MORE) * FIRST_SENT)]
    for url in urls:
        assert parts.fetch(url) == "kept back"
    assert parts.fetch(f"{HOST}/else") == "fetched"
    assert parts.stats["deferred"] == len(urls)
    sent, batches = Counter(), []
    while True:
        parts.rules.idle()
        if not parts.queue:
            break
        batches.append(len(parts.queue))
        while parts.queue:
            request = parts.leave()
            assert request is not None  # it has waited: it is not kept back again
            sent[request.url] += 1
            parts.under_way.discard(request)
    assert sent == Counter(urls)
    assert batches == [FIRST_SENT, MORE * FIRST_SENT, 2 * FIRST_SENT]


def test_a_rule_that_comes_leaves_alone_what_waits_until_the_crawl_is_idle(begun):
    """Then it withholds what is known by another name, and only the rest goes into the queue."""
    parts = begun()
    see_duplicates(parts, names="sid=a&to")
    for n in range(5):
        assert parts.fetch(f"{HOST}/go/x?sid=b&to=known{n}") == "kept back"
        assert parts.fetch(f"{HOST}/go/x?to=known{n}") == "fetched"
    assert parts.fetch(f"{HOST}/go/x?sid=b&to=new") == "kept back"
    learn(parts)
    parts.settle_audits()
    assert not parts.queue
    assert parts.rules.idle() is False
    assert parts.queued() == [f"{HOST}/go/x?sid=b&to=new"]
    assert parts.stats["withheld"] == 5
    assert send_all(parts) == [f"{HOST}/go/x?sid=b&to=new"]
    parts.rules.idle()
    assert not parts.queue
    assert parts.stats["put_back"] == 1


@pytest.mark.parametrize("comes", [True, False])
def test_of_several_that_a_rule_makes_one_the_others_wait_for_the_first(begun, comes):
    """They are withheld behind its page. If that does not come, all of them are sent at once."""
    parts = begun()
    see_duplicates(parts, names="sid=a&to")
    urls = {f"{HOST}/go/x?sid={n}&to=new" for n in range(4)}
    assert {parts.fetch(url) for url in urls} == {"kept back"}
    learn(parts)
    parts.settle_audits()
    parts.rules.idle()
    assert len(parts.queue) == 1
    first = parts.leave()
    if comes:
        parts.arrive(first)
    else:
        parts.under_way.discard(first)
    parts.rules.idle()
    assert set(parts.queued()) == (set() if comes else urls - {first.url})
    assert parts.stats["withheld"] == (3 if comes else 0)


def test_an_audit_is_sent_of_what_waited(begun):
    """What was deferred is no less tested than other requests that a rule withholds."""
    parts = begun()
    see_duplicates(parts, names="sid=a&to")
    assert parts.fetch(f"{HOST}/go/x?sid=b&to=a") == "kept back"
    assert parts.fetch(f"{HOST}/go/x?to=a", "page") == "fetched"
    learn(parts)
    parts.rules.idle()
    assert parts.queued() == [f"{HOST}/go/x?sid=b&to=a"]
    parts.arrive(parts.leave(), "page")
    assert parts.stats["audited"] == parts.stats["audits_agreed"] == 1


def test_an_idle_crawl_sends_what_waits_in_slices(begun):
    """The event loop has its turn; the next slice goes on, and the batch is no larger for it."""
    parts = begun()
    see_duplicates(parts)
    for n in range(2 * FIRST_SENT):
        assert parts.fetch(f"{HOST}/go/x?to=later{n}") == "kept back"
    deferral = parts.rules._witnesses.deferral
    for sent in range(1, FIRST_SENT + 1):
        assert deferral.release(lambda: True)
        assert len(parts.queue) == sent
        assert deferral.is_left
    assert not deferral.release(lambda: True)
    assert not deferral.is_left
    assert len(parts.queue) == FIRST_SENT
    assert deferral.unmined == {"shop.test"}


def test_a_crawl_of_short_slices_does_not_end_while_requests_wait(begun, monkeypatch):
    """Each slice looks at one request; between them all that is in the queue is sent."""
    parts = begun()
    monkeypatch.setattr(live_rules, "SLICE_SECONDS", -1.0)
    see_duplicates(parts)
    urls = {f"{HOST}/go/x?to=later{n}" for n in range((2 + MORE) * FIRST_SENT)}
    assert {parts.fetch(url) for url in urls} == {"kept back"}
    sent = set()
    while (waits := parts.rules.idle()) or parts.queue:
        assert waits or parts.queue
        sent.update(send_all(parts))
    assert sent == urls


def test_what_is_deferred_between_two_slices_is_not_forgotten(begun):
    """Its own key may come before those that were looked at already."""
    parts = begun()
    see_duplicates(parts)
    early = [f"{HOST}/go/x?to=early{n}" for n in range(4)]
    late = [f"{HOST}/go/x?to=late{n}" for n in range(40)]
    for url in early:
        assert parts.fetch(url) == "kept back"
    deferral = parts.rules._witnesses.deferral
    for _ in early:
        assert deferral.release(lambda: True)
    for url in late:
        assert not parts.rules.on_leaving(Request(url))
    sent = set(send_all(parts))
    while not deferral.is_done:
        parts.rules.idle()
        sent.update(send_all(parts))
    assert sent == {*early, *late}
    assert deferral.is_done


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
    parts.rules.asked_by_queue(is_shared=True)
    assert parts.rules.on_leaving(Request(f"{HOST}/go/x?to=a"))


def test_the_setting_leaves_the_order_as_it_is(begun):
    parts = begun(URLNORM_DEFER_DUPLICATES=False)
    see_duplicates(parts, 3 * LEAST)
    assert parts.stats["deferred"] == 0


def test_what_fails_sends_what_waits_and_keeps_nothing_back_any_more(begun, monkeypatch):
    parts = begun()
    see_duplicates(parts)
    assert parts.fetch(f"{HOST}/go/x?to=a") == "kept back"

    def broken(_):
        raise ValueError("broken")

    monkeypatch.setattr(parts.rules._witnesses, "idle", broken)
    parts.rules.failed = lambda *_: None
    assert parts.rules.idle() is False
    assert parts.leave().url == f"{HOST}/go/x?to=a"
    assert parts.fetch(f"{HOST}/go/x?to=b") == "fetched"


def test_what_waits_is_put_back_by_the_next_run(begun):
    """It is parked, as far as a run that begins is concerned."""
    parts = begun()
    see_duplicates(parts)
    urls = {f"{HOST}/go/x?to=a", f"{HOST}/go/x?to=b"}
    assert {parts.fetch(url) for url in urls} == {"kept back"}
    ledger = parts.rules._witnesses._ledger
    assert ledger.first_parked() is not None
    assert list(ledger.parked_behind_others()) == []
    found = list(ledger.deferred("shop.test"))
    assert found == sorted(ledger.all_parked(), key=lambda kept: kept.own)
    assert {parts.rules._frontier.unpack(kept.request).url for kept in found} == urls
    parts.rules.release_all()
    assert set(parts.queued()) == urls
