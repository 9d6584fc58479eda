"""LiveRules with dupefilter and fingerprinter, step by step: what no crawl shows for certain."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from scrapy import Request, Spider
from scrapy.settings import Settings
from scrapy_urlnorm.learning.online import ENOUGH
from scrapy_urlnorm.live_rules import LiveRules

from scrapy_urlnorm.dupefilter import UrlNormDupeFilter
from scrapy_urlnorm.fingerprinter import UrlNormRequestFingerprinter
from scrapy_urlnorm.middleware import UrlNormDownloaderMiddleware
from scrapy_urlnorm.settings import Config

WWW = "http://www.shop.test"
BARE = "http://shop.test"


class Frontier:
    """The components of one crawl without the crawl."""

    def __init__(self):
        self.config = Config.from_settings(Settings())
        self.fingerprinter = UrlNormRequestFingerprinter(self.config.normalizer)
        self.dupefilter = UrlNormDupeFilter(self.config.new_store(), self.fingerprinter)
        self.dupefilter.open()
        self.stats = {}
        self.rescheduled = []
        crawler = SimpleNamespace(
            spider=Spider(name="test"),
            stats=SimpleNamespace(inc_value=self.count),
            engine=SimpleNamespace(crawl=self.reschedule),
        )
        self.rules = LiveRules(crawler, self.config, self.fingerprinter, self.dupefilter)
        self.dupefilter.live_rules = self.rules
        self.rules._is_audited = lambda request, first: False

    def count(self, stat):
        self.stats[stat] = self.stats.get(stat, 0) + 1

    def reschedule(self, request):
        if not self.dupefilter.request_seen(request):
            self.rescheduled.append(request.url)

    def learn(self, source, target):
        for number in range(ENOUGH):
            url = source.format(f"w{number}")
            self.rules.redirect(Request(url), target.format(f"w{number}"))

    def learn_alias(self):
        self.learn(BARE + "/{}", WWW + "/{}")

    def fetch(self, url):
        """Queue, send and receive a page; what was done of it."""
        request = Request(url)
        if self.dupefilter.request_seen(request):
            return "filtered"
        if self.rules.is_obsolete(request):
            return "dropped"
        self.rules.page(request)
        return "fetched"


@pytest.fixture
def frontier():
    frontier = Frontier()
    yield frontier
    frontier.rules.close()
    frontier.dupefilter.close()


def test_pages_fetched_before_are_known_under_their_new_keys(frontier):
    """A new spelling of an old page is filtered before it comes into the queue."""
    assert frontier.fetch(WWW + "/a") == "fetched"
    frontier.learn_alias()
    assert frontier.fetch(BARE + "/a") == "filtered"
    assert frontier.stats["urlnorm/learned/suppressed"] == 1


def test_a_queued_request_is_dropped_and_comes_back_when_the_rule_goes(frontier):
    """What was in the queue and dropped is put back past the dupefilter, which knows it."""
    queued = Request(BARE + "/special")
    assert not frontier.dupefilter.request_seen(queued)
    frontier.learn_alias()
    assert frontier.fetch(WWW + "/special") == "fetched"
    assert frontier.rules.is_obsolete(queued)
    frontier.rules.page(Request(BARE + "/other"))
    assert frontier.rescheduled == [BARE + "/special"]
    assert frontier.stats["urlnorm/learned/restored"] == 1


def test_what_was_filtered_comes_back_when_the_rule_goes(frontier):
    """Suppressed requests of the site are scheduled again, each page once."""
    frontier.learn_alias()
    assert frontier.fetch(WWW + "/a") == "fetched"
    assert [frontier.fetch(BARE + "/a") for _ in range(3)] == ["filtered"] * 3
    frontier.rules.page(Request(BARE + "/other"))
    assert frontier.rescheduled == [BARE + "/a"]


def test_other_sites_are_not_touched_by_a_retraction(frontier):
    """Requests suppressed on another site stay where they are."""
    queued = Request("http://other.test/queued")
    assert not frontier.dupefilter.request_seen(queued)
    frontier.learn_alias()
    frontier.learn("http://other.test/{}", "https://other.test/{}")
    frontier.fetch("https://other.test/a")
    frontier.fetch("https://other.test/queued")
    assert frontier.rules.is_obsolete(queued)
    assert frontier.fetch("http://other.test/a") == "filtered"
    frontier.rules.page(Request(BARE + "/other"))
    assert frontier.rescheduled == []
    frontier.rules.page(Request("http://other.test/b"))
    assert sorted(frontier.rescheduled) == ["http://other.test/a", "http://other.test/queued"]


def test_keys_of_rules_that_are_gone_are_void(frontier):
    """A key made by a retracted rule does not filter what has that key by the rules left."""
    frontier.learn_alias()
    frontier.learn(WWW + "/{}", WWW + "/{}/")
    assert frontier.fetch(WWW + "/x") == "fetched"  # and it has no slash: that rule is gone
    assert frontier.stats["urlnorm/learned/retracted"] == 1
    assert frontier.fetch(WWW + "/x/") == "fetched"
    assert frontier.fetch(BARE + "/x/") == "filtered"


def test_a_page_fetched_before_the_rule_is_not_fetched_for_it_again(frontier):
    """However often either spelling comes."""
    frontier.fetch(WWW + "/a")
    frontier.learn_alias()
    fetched = [frontier.fetch(host + "/a") for host in (WWW, BARE) for _ in range(3)]
    assert fetched == ["filtered"] * 6


def test_a_redirect_onto_itself_counts_as_seen_by_both_keys(frontier):
    """A redirect that passed is known under the configured rules, too, if a rule goes."""
    frontier.learn_alias()
    assert not frontier.dupefilter.request_seen(Request(BARE + "/n"))
    meta = {"redirect_urls": [BARE + "/n"]}
    assert not frontier.dupefilter.request_seen(Request(WWW + "/n", meta=meta))
    frontier.rules.page(Request(BARE + "/other"))
    assert frontier.dupefilter.request_seen(Request(WWW + "/n"))


def test_a_redirect_to_a_twin_in_the_queue_is_filtered(frontier):
    """Where the canonical URL is queued, the redirect to it need not be followed."""
    assert not frontier.dupefilter.request_seen(Request(WWW + "/n"))
    assert not frontier.dupefilter.request_seen(Request(BARE + "/n"))
    frontier.learn_alias()
    meta = {"redirect_urls": [BARE + "/n"]}
    assert frontier.dupefilter.request_seen(Request(WWW + "/n", meta=meta))
    assert not frontier.rules.is_obsolete(Request(WWW + "/n"))


def test_audits_begin_with_the_first_of_every_section(frontier):
    """The first, second, fourth, eighth... of a section is sent to test the rule."""
    del frontier.rules._is_audited
    frontier.learn_alias()
    outcome = []
    for number in range(1, 20):
        frontier.fetch(f"{WWW}/item/{number}")
        outcome.append(not frontier.dupefilter.request_seen(Request(f"{BARE}/item/{number}")))
    assert [number for number, sent in enumerate(outcome, 1) if sent] == [1, 2, 4, 8, 16]
    frontier.fetch(WWW + "/blog/1")
    assert not frontier.dupefilter.request_seen(Request(BARE + "/blog/1"))


def test_requests_of_components_are_never_dropped(frontier):
    """A request that did not come through the dupefilter is not the queue's to drop."""
    frontier.learn_alias()
    frontier.fetch(WWW + "/a")
    assert not frontier.rules.is_obsolete(Request(BARE + "/a"))


def test_a_rewriter_that_would_never_come_to_an_end_is_not_followed(frontier):
    """A rewritten URL that would be rewritten again stays as it is."""
    flip = SimpleNamespace(normalize=lambda url: url[:-1] + "ba"["ab".index(url[-1])])
    middleware = UrlNormDownloaderMiddleware(frontier.fingerprinter, frontier.config)
    middleware._rewriter = flip
    assert middleware.process_request(Request(WWW + "/a")) is None
