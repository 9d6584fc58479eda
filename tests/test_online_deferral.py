"""What likely brings nothing new waits for all others, and nothing is lost by it."""

from __future__ import annotations

from itertools import chain

import pytest
from online_parts import crawls
from scrapy import Request

from scrapy_urlnorm.crawl import frontier
from scrapy_urlnorm.crawl.online import closing, safe_points
from scrapy_urlnorm.crawl.online import families as module
from scrapy_urlnorm.crawl.online.families import LEAST_DUPLICATES
from scrapy_urlnorm.crawl.online.suppression import FIRST_SENT, MORE
from scrapy_urlnorm.report.filtered import DEFERRED, SUPPRESSED
from scrapy_urlnorm.site_rules import SiteRule

HOST = "http://shop.test"
SID = SiteRule(kind="drop-param", site="shop.test", param="sid", source="content", support=400)


@pytest.fixture
def begun(monkeypatch):
    monkeypatch.setattr(safe_points, "STEPS", 10**6)
    monkeypatch.setattr(closing, "LEAST_DRAWS", 0)  # else so few are all sent
    with crawls(has_miner=False, URLNORM_LEARN="content") as begin:
        yield begin


def see_duplicates(parts, names="to"):
    """Fetch pages of one kind that all have one content."""
    parts.fetch(f"{HOST}/wall", "please log in")
    for n in range(LEAST_DUPLICATES):
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


def test_a_family_waits_as_long_as_most_of_it_are_duplicates(begun):
    parts = begun()
    see_duplicates(parts)
    assert parts.fetch(f"{HOST}/go/x?to=later") == "held"
    assert parts.fetch(f"{HOST}/go/x?from=later") == "fetched"
    assert parts.fetch(f"{HOST}/else/x?to=later") == "fetched"
    for n in range(LEAST_DUPLICATES):
        request = Request(f"{HOST}/go/x?to=new{n}", priority=1)
        parts.schedule(request)
        parts.arrive(parts.leave(), f"something new {n}")
    assert parts.fetch(f"{HOST}/go/x?to=later2") == "fetched"


def test_families_are_bounded(begun, monkeypatch):
    monkeypatch.setattr(module, "MAX_OF_SITE", 2)
    parts = begun()
    for name in ("a", "b", "c"):
        see_duplicates(parts, names=name)
    said = [parts.fetch(f"{HOST}/go/x?{name}=later") for name in ("a", "b", "c")]
    assert said == ["held", "fetched", "fetched"]  # the wall is of another one


def test_what_is_likely_known_waits_and_is_sent_when_the_crawl_is_idle(begun):
    """A few first, then four times as many each time, until all have been sent."""
    parts = begun()
    see_duplicates(parts)
    urls = [f"{HOST}/go/x?to=later{n}" for n in range((3 + MORE) * FIRST_SENT)]
    for url in urls:
        assert parts.fetch(url) == "held"
    assert parts.fetch(f"{HOST}/else") == "fetched"
    assert parts.stats["deferred"] == len(urls)
    assert parts.states() == {DEFERRED: len(urls)}
    batches = list(parts.batches())
    assert sorted(chain(*batches)) == sorted(urls)  # what has waited is not held again
    assert list(map(len, batches)) == [FIRST_SENT, MORE * FIRST_SENT, 2 * FIRST_SENT]


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
    """They are coalesced, and suppressed behind its page. If that does not come, all are sent."""
    parts = begun(has_audits=False)
    see_duplicates(parts, names="sid=a&to")
    urls = {f"{HOST}/go/x?sid={n}&to=new" for n in range(4)}
    assert {parts.fetch(url) for url in urls} == {"held"}
    parts.found(SID)
    parts.learner.idle()
    first, *others = [parts.leave() for _ in urls]
    assert others == [None] * 3
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


def test_what_was_put_last_is_sent_when_a_rule_holds_all_of_it(begun, monkeypatch):
    """The crawl is not over then, though nothing was sent; so few are not worth a sample."""
    monkeypatch.setattr(module, "BARREN", LEAST_DUPLICATES)
    monkeypatch.setattr(closing, "LEAST_DRAWS", 19)
    parts = begun(has_audits=False)
    see_duplicates(parts, names="sid=a&to")
    urls = {f"{HOST}/go/x?sid=b&to=known{n}" for n in range(5)}
    assert {parts.fetch(url) for url in urls} == {"held"}
    assert {parts.fetch(url.replace("sid=b&", "")) for url in urls} == {"fetched"}
    parts.found(SID)
    while parts.learner.idle() and not parts.queue:
        pass
    assert set(parts.queued()) == urls
    assert parts.stats["drained"] == len(urls)


def test_a_crawl_of_short_slices_does_not_end_while_requests_wait(begun, monkeypatch):
    """Each slice looks at one request; between them all that is in the queue is sent."""
    parts = begun()
    monkeypatch.setattr(safe_points, "STEPS", 1)
    see_duplicates(parts)
    urls = {f"{HOST}/go/x?to=later{n}" for n in range((2 + MORE) * FIRST_SENT)}
    assert {parts.fetch(url) for url in urls} == {"held"}
    sent = set()
    while (waits := parts.learner.idle()) or parts.queue:
        assert waits or parts.queue
        sent.update(send_all(parts))
    assert sent == urls


def test_what_is_deferred_while_an_idle_crawl_looks_for_others_is_sent(begun):
    """As when a rule is retracted meanwhile: the search has looked for deferred ones before."""
    parts = begun()
    see_duplicates(parts)
    url = f"{HOST}/go/x?to=later"
    parts.learner._suppression.sending = iter(())
    assert parts.fetch(url) == "held"
    assert parts.learner.idle()
    assert parts.queued() == [url]


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


def leave_with(parts, url, state):
    parts.schedule(Request(url, meta={"state": state}))
    return parts.leave()


def test_what_waits_carries_what_it_was_given_and_no_copy(begun):
    """Pages that fill one item together have it in their meta."""
    parts = begun()
    see_duplicates(parts)
    state = {"left": 2}
    assert leave_with(parts, f"{HOST}/go/x?to=later", state) is None
    parts.learner.idle()
    assert parts.leave().meta["state"] is state


def test_what_is_suppressed_is_sent_when_that_has_changed(begun):
    """Each of the pages counts; the last one has the item."""
    parts = begun(has_audits=False)
    parts.found(SID)
    urls, state = [f"{HOST}/go/x?sid={n}" for n in range(4)], {"left": 4}
    first, *others = [leave_with(parts, url, state) for url in urls]
    assert others == [None] * 3
    parts.arrive(first)
    assert parts.states() == {SUPPRESSED: 3}
    state["left"] -= 1
    assert parts.learner.idle()
    assert parts.queued() == urls[1:]


def test_no_more_are_kept_than_fit(begun, monkeypatch):
    monkeypatch.setattr(frontier, "MAX_KEPT", 1)
    parts = begun()
    see_duplicates(parts)
    left = [leave_with(parts, f"{HOST}/go/x?to=later{n}", {}) for n in range(2)]
    assert left[0] is None
    assert left[1] is not None
