"""LiveRules with dupefilter and fingerprinter, step by step: what no crawl shows for certain."""

from __future__ import annotations

import asyncio
import logging
from contextlib import closing
from types import SimpleNamespace

import pytest
from live_parts import BARE, SITE, WWW, Parts
from scrapy import Request
from scrapy.http import HtmlResponse, Response

from scrapy_urlnorm.crawl.live import audit_results, live_rules
from scrapy_urlnorm.crawl.live.content import Change
from scrapy_urlnorm.crawl.middleware import UrlNormDownloaderMiddleware
from scrapy_urlnorm.crawl.settings import Config
from scrapy_urlnorm.learning.worker import Mined
from scrapy_urlnorm.site_rules import SiteRule, load_site_rules


@pytest.fixture
def parts(monkeypatch):
    monkeypatch.setattr(audit_results, "deferred_from_coro", asyncio.run)
    # One call of `work` does it all, also on a machine that has no time.
    monkeypatch.setattr(live_rules, "SLICE_SECONDS", 60.0)
    with closing(Parts()) as parts:
        yield parts


@pytest.fixture
def taught(parts):
    """A crawl that has learned that the shop has two names, and need not audit it."""
    parts.learn()
    parts.settle_audits()
    return parts


def test_a_page_fetched_before_the_rule_is_a_witness(parts):
    """A new spelling of an old page does not come into the queue, however often it is found."""
    assert parts.fetch(WWW + "/a") == "fetched"
    parts.learn()
    parts.settle_audits()
    assert [parts.fetch(host + "/a") for host in (BARE, WWW) * 3] == ["filtered"] * 6
    assert parts.stats["withheld"] == 1


def test_what_waits_in_the_queue_is_withheld_when_it_leaves(parts):
    """And it comes back, past the dupefilter, when the rule goes."""
    assert parts.schedule(Request(BARE + "/special"))
    parts.learn()
    parts.settle_audits()
    waiting = parts.queue.popleft()
    assert parts.fetch(WWW + "/special") == "fetched"
    parts.queue.append(waiting)
    assert parts.leave() is None
    parts.arrive(Request(BARE + "/other"))
    parts.rules.work()
    assert parts.queued() == [BARE + "/special"]
    assert parts.stats["put_back"] == parts.stats["retracted"] == 1


def test_what_was_filtered_comes_back_when_the_rule_goes(taught):
    """Withheld requests of the site are scheduled again, each page once."""
    assert taught.fetch(WWW + "/a") == "fetched"
    assert [taught.fetch(BARE + "/a") for _ in range(3)] == ["filtered"] * 3
    taught.arrive(Request(BARE + "/other"))
    taught.rules.work()
    assert taught.queued() == [BARE + "/a"]
    assert taught.leave().url == BARE + "/a"


def test_other_sites_are_not_touched_by_a_retraction(taught):
    """Requests withheld on another site stay where they are."""
    taught.learn("http://other.test", "https://other.test")
    assert taught.fetch("https://other.test/a") == "fetched"
    assert taught.fetch("http://other.test/a") == "filtered"
    taught.arrive(Request(BARE + "/other"))
    taught.rules.work()
    assert taught.queued() == []
    taught.arrive(Request("http://other.test/b"))
    taught.rules.work()
    assert taught.queued() == ["http://other.test/a"]


def test_keys_of_rules_that_are_gone_are_void(taught):
    """A page that arrived under a retracted rule withholds nothing by it, and by others all."""
    taught.learn(BARE, "https://shop.test")
    assert sorted(rule.kind for rule in taught.in_force()) == ["force-scheme", "host-alias"]
    assert taught.fetch("https://www.shop.test/x") == "fetched"
    taught.arrive(Request(BARE + "/other"))  # neither a redirect to https nor one to www
    assert taught.in_force() == ()
    assert taught.fetch(BARE + "/x") == "fetched"
    taught.learn("http://shop.test/again", "https://shop.test/again")
    assert taught.fetch(WWW + "/x") == "fetched"


def test_two_requests_under_way_are_one(taught):
    """The second one with a learned key is parked, and withheld when the page of the first comes."""
    first, second = Request(WWW + "/n"), Request(BARE + "/n")
    assert taught.schedule(first)
    assert taught.schedule(second)
    assert taught.leave() is first
    assert taught.leave() is None
    assert (taught.stats["parked"], taught.stats["withheld"]) == (1, 0)
    taught.arrive(first)
    assert taught.stats["withheld"] == 1
    assert not taught.rules.idle()
    assert taught.queued() == []


def test_what_is_parked_behind_a_failure_is_sent(taught):
    """As soon as the scheduler is asked for the next request."""
    first = Request(WWW + "/n")
    taught.schedule(first)
    taught.schedule(Request(BARE + "/n"))
    taught.leave()
    taught.leave()
    taught.under_way.discard(first)
    taught.rules.work()
    assert taught.queued() == [BARE + "/n"]
    assert taught.leave().url == BARE + "/n"


def test_a_redirect_to_a_twin_in_the_queue_is_filtered_and_the_twin_is_sent(taught):
    """Where the target waits in the queue the redirect to it is not followed, and it is fetched."""
    taught.schedule(Request(BARE + "/n"))
    taught.schedule(Request(WWW + "/n"))
    taught.settle_audits()
    assert taught.leave() is None  # the other has to be fetched in any case
    request = taught.leave()
    assert request.url == WWW + "/n"
    taught.arrive(request)
    assert taught.stats["withheld"] == 1


def test_a_redirect_within_the_learned_key_takes_the_claim_along(taught):
    """What is parked waits for the page that the redirect leads to."""
    first = Request(BARE + "/n?x=1")
    taught.schedule(first)
    taught.leave()
    taught.rules.redirect(first, WWW + "/n?x=1", status=301)
    meta = {"redirect_urls": [first.url]}
    target = Request(WWW + "/n?x=1", meta=meta)
    assert taught.schedule(target)
    taught.under_way.discard(first)
    assert taught.leave() is target
    taught.arrive(target)
    assert taught.fetch("http://www.shop.test/n?x=1&utm_source=y") == "filtered"
    assert taught.stats["withheld"] == 0


def test_the_first_of_a_section_is_audited(parts):
    """Whatever a rule has proved, in a part of the site where it never acted it is tried."""
    parts.learn()
    for section in ("item", "blog"):
        assert parts.fetch(f"{WWW}/{section}/1") == "fetched"
        assert parts.schedule(Request(f"{BARE}/{section}/1"))
        audit = parts.leave()
        parts.rules.redirect(audit, f"{WWW}/{section}/1", status=301)
        parts.under_way.discard(audit)
    assert parts.stats["audits_agreed"] == parts.stats["audited"] == 2
    assert parts.merges()


def test_an_audit_that_leads_elsewhere_takes_the_rule_back(parts):
    """And everything that it withheld is sent."""
    parts.learn()
    parts.fetch(WWW + "/item/1")
    parts.schedule(Request(BARE + "/item/1"))
    audit = parts.leave()
    parts.rules.redirect(audit, BARE + "/elsewhere", status=302)
    assert not parts.merges()
    assert parts.stats["audits_disagreed"] == parts.stats["retracted"] == 1


@pytest.mark.parametrize(
    ("again", "stat", "is_in_force"),
    [
        ("the same as ever", "audits_disagreed", False),
        ("something new each time", None, True),
        ("other words", "audits_agreed", True),
        (None, "audits_disagreed", False),
    ],
    ids=["the rule is wrong", "the page changes by itself", "both have changed", "no answer"],
)
def test_an_audit_with_other_content_is_held_against_its_witness(parts, again, stat, is_in_force):
    """The witness is fetched again: only a page that stays as it is takes a rule back."""
    parts.learn()
    asked = []

    def answer(request):
        asked.append(request.url)
        if again is None:
            raise OSError("no connection")
        body = f"<html><body><p>{again}</p></body></html>".encode()
        return HtmlResponse(request.url, body=body, request=request)

    parts.download = answer
    assert parts.fetch(WWW + "/item/1", "the same as ever") == "fetched"
    assert parts.fetch(BARE + "/item/1", "other words") == "fetched"
    assert asked == [WWW + "/item/1"]
    assert parts.merges() is is_in_force
    decided = {"audits_agreed", "audits_disagreed"} & set(parts.stats)
    assert decided == ({stat} if stat else set())


def test_nothing_is_kept_back_that_is_not_a_plain_first_get(taught):
    """Retries, redirects in progress, posts, what has its own say, start requests are sent."""
    taught.fetch(WWW + "/a")
    for options in (
        {"dont_filter": True},
        {"method": "POST"},
        {"method": "HEAD"},
        {"body": b"x"},
        {"meta": {"retry_times": 1}},
        {"meta": {"redirect_urls": [BARE + "/b"]}},
        {"meta": {"urlnorm": False}},
        {"meta": {"verbatim_url": True}},
        {"meta": {"is_start_request": True}},
    ):
        request = Request(BARE + "/a", **options)
        assert taught.rules.on_arrival(request) is None, options
        assert taught.rules.on_leaving(request), options
    assert taught.rules.on_arrival(Request(BARE + "/a")) is not None


NO_WITNESS = {
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


@pytest.mark.parametrize("name", NO_WITNESS)
def test_what_is_no_page_of_its_own_stands_for_no_other_url(taught, name):
    """Behind none of these is a request withheld."""
    request, response = NO_WITNESS[name]
    if response is None:
        response = HtmlResponse(request.url, body=b"<p>some page</p>", request=request)
    taught.rules.page(request, response)
    assert taught.rules.on_arrival(Request(BARE + "/a")) is None


def test_requests_of_components_are_never_dropped(taught):
    """A request that did not come through the dupefilter is not the queue's to drop."""
    taught.fetch(WWW + "/a")
    assert not taught.rules.came_through_dupefilter(Request(BARE + "/a"))
    taught.schedule(Request(BARE + "/b"))
    assert taught.rules.came_through_dupefilter(Request(BARE + "/b"))


def test_a_rule_is_learned_from_permanent_redirects_of_plain_requests_only(parts):
    """A temporary one, a retry and a redirect further on in a chain say nothing."""
    for number in range(30):
        url, target = f"{BARE}/{number}", f"{WWW}/{number}"
        parts.rules.redirect(Request(url), target, status=302)
        for meta in ({"retry_times": 1}, {"redirect_urls": ["http://other.test/"]}):
            parts.rules.redirect(Request(url, meta=meta), target, status=301)
    assert parts.in_force() == ()


def test_what_was_learned_is_in_force_at_the_start_of_the_next_crawl(tmp_path):
    """The file holds rules in force and rejected ones; those stay off."""
    path = tmp_path / "rules.toml"
    with closing(Parts(URLNORM_LEARNED_PATH=str(path))) as parts:
        parts.learn()
        parts.learn("http://other.test", "https://other.test")
        parts.arrive(Request("http://other.test/x"))
    assert {rule.status for rule in load_site_rules(path)} == {"active", "rejected"}
    with closing(Parts(URLNORM_LEARNED_PATH=str(path))) as parts:
        assert parts.merges()
        assert parts.in_force("other.test") == ()
        parts.settle_audits()
        assert parts.fetch(WWW + "/a") == "fetched"
        assert parts.fetch(BARE + "/a") == "filtered"


def test_a_file_that_cannot_be_written_is_said_and_learning_goes_on(tmp_path, caplog):
    """The setting and the path are named."""
    path = tmp_path / "folder"
    with closing(Parts(URLNORM_LEARNED_PATH=str(path))) as parts:
        path.mkdir()
        parts.learn()
        assert parts.merges()
        assert "URLNORM_LEARNED_PATH" in caplog.text
        assert str(path) in caplog.text


def test_a_rule_that_does_not_go_with_the_users_is_not_applied(tmp_path, caplog):
    """Two options of one rule for one host cannot both hold: the user's stays, and it is said."""
    caplog.set_level("INFO")
    own = tmp_path / "own.toml"
    own.write_text(
        '[[rule]]\nsite = "www.shop.test"\nkind = "remove-directory-index"\n'
        'option = ["default.asp"]\n'
    )
    with closing(Parts(URLNORM_SITE_RULES=[str(own)])) as parts:
        for number in range(8):
            url = f"{WWW}/{number}/"
            parts.rules.redirect(Request(url + "index.html"), url, status=301)
        assert parts.in_force() == ()
        assert "not applied" in caplog.text
        assert parts.stats["rules"] == 0
        parts.learn()
        assert parts.merges()


def test_a_rewriter_that_would_never_come_to_an_end_is_not_followed():
    """A rewritten URL that would be rewritten again stays as it is."""
    with closing(Parts()) as parts:
        flip = SimpleNamespace(normalize=lambda url: url[:-1] + "ba"["ab".index(url[-1])])
        config = Config.from_settings(parts.rules._crawler.settings)
        middleware = UrlNormDownloaderMiddleware(None, config)
        middleware._rewriter = flip
        assert middleware.process_request(Request(WWW + "/a")) is None


# --- nothing that fails in here reaches Scrapy ----------------------------------------------------


class BrokenError(Exception):
    """What nobody thought of."""


def broken(*_, **__):
    raise BrokenError("broken")


REQUEST = Request(BARE + "/a")
PAGE = HtmlResponse(BARE + "/a", body=b"<p>a</p>", request=REQUEST)
#: For each method that Scrapy's components call: what inside it fails, the call, the answer.
METHODS = {
    "on_arrival": ("_witnesses.on_arrival", lambda rules: rules.on_arrival(REQUEST), None),
    "on_leaving": ("_witnesses.on_leaving", lambda rules: rules.on_leaving(REQUEST), True),
    "came_through_dupefilter": (
        "_register.own_key",
        lambda rules: rules.came_through_dupefilter(REQUEST),
        False,
    ),
    "work": ("_witnesses.work", lambda rules: rules.work(), None),
    "idle": ("_witnesses.idle", lambda rules: rules.idle(), False),
    "page": ("_witnesses.page", lambda rules: rules.page(REQUEST, PAGE), None),
    "redirect": (
        "_witnesses.redirected",
        lambda rules: rules.redirect(REQUEST, WWW + "/a", status=301),
        None,
    ),
    "release_all": ("_witnesses.release_all", lambda rules: rules.release_all(), None),
    "close": ("_file.close", lambda rules: rules.close(), None),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_failure_sends_the_request_and_is_said_once(taught, name, monkeypatch, caplog):
    """Whatever is raised inside: the answer is the one that sends, one line says it, all count."""
    inside, call, answer = METHODS[name]
    holder, _, attribute = inside.rpartition(".")
    owner = getattr(taught.rules, holder) if holder else taught.rules
    monkeypatch.setattr(owner, attribute, broken)
    for number in range(1, 4):
        assert call(taught.rules) is answer
        assert taught.stats["errors"] == number
    (record,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert record.levelname == "ERROR"
    assert "broken" in record.getMessage()
    assert name in record.getMessage()


@pytest.mark.parametrize("inside", ["_witnesses.idle", "_witnesses.work", "_witnesses.look_around"])
def test_where_what_is_kept_back_cannot_be_seen_to_it_is_sent(taught, inside, monkeypatch):
    """No rule is applied any more, and nothing stays withheld."""
    taught.fetch(WWW + "/a")
    assert taught.fetch(BARE + "/a") == "filtered"
    monkeypatch.setattr(taught.rules._witnesses, inside.rpartition(".")[2], broken)
    taught.rules.work()
    taught.rules.idle()
    assert taught.queued() == [BARE + "/a"]
    assert taught.rules.on_leaving(taught.queue.popleft())


def test_a_broken_page_does_not_lose_the_request_parked_behind_it(taught, monkeypatch):
    """What failed is that it became a witness: what waits for it is sent."""
    first = Request(WWW + "/n")
    taught.schedule(first)
    taught.schedule(Request(BARE + "/n"))
    taught.leave()
    taught.leave()
    monkeypatch.setattr(live_rules, "content_of", broken)
    taught.arrive(first)
    taught.rules.work()
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
def test_odd_urls_go_through_every_step_without_an_error(parts, url, caplog):
    """Empty paths, very long hosts, what is no Unicode: with rules in force for their site."""
    parts.learn("http://h.test", "https://h.test")
    site = live_rules.site_of(url)
    parts.rules._register.replace(site, parts.in_force("h.test"))
    request = Request(url)
    parts.rules.on_arrival(request)
    parts.rules.on_leaving(request)
    parts.under_way.add(request)
    parts.rules.redirect(request, "https://h.test", status=301)
    parts.arrive(request)
    parts.rules.on_arrival(Request(url.replace("http:", "https:")))
    parts.rules.work()
    parts.rules.idle()
    assert parts.stats["errors"] == 0
    assert "failed" not in caplog.text


TARGETS = ["", "http://", "http://[/", "mailto:a@b", "http://h.test/\ud800", "//x", "http://h.test"]


@pytest.mark.parametrize("target", TARGETS)
def test_odd_targets_of_redirects_reach_nobody(parts, target):
    """What Scrapy would not follow either is at most counted."""
    parts.rules.redirect(Request(BARE + "/a"), target, status=301)
    assert parts.in_force() == ()
    assert parts.fetch(WWW + "/a") == "fetched"


def test_the_site_of_an_empty_path_is_its_host():
    """As of any other URL."""
    for url in ("http://h.shop.test", "http://h.shop.test#7", "http://h.shop.test?x"):
        assert live_rules.site_of(url) == SITE


def test_a_longer_table_keeps_the_audits_of_the_shorter_one(parts):
    """Each page that arrives may make the table longer: it is the same rule, and proved as before."""
    ranges = ("/t?post={} 1-5", "/t?post={} 1-9")
    short, long = (
        SiteRule(
            site=SITE,
            kind="range-alias",
            slots="q:post",
            ranges=[each],
            source="content",
            support=9,
        )
        for each in ranges
    )
    audits = parts.rules._audits
    audits.is_due([short], BARE, "content")
    audits.agreed([short], "content")
    parts.rules._mined(Mined(SITE, (long,), 0.1), Change([long], [short]))
    assert audits._record(long).agreed == 1
    assert short.identity not in audits._records
