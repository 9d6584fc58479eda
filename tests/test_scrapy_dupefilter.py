"""UrlNormDupeFilter: the store, its failures, and what it says about a duplicate."""

from __future__ import annotations

import logging
from collections import Counter
from types import SimpleNamespace
from unittest import mock

import pytest
import scrapy
from loopback import Site, crawl, page, redirect
from scrapy import Request
from scrapy.exceptions import CloseSpider
from scrapy.http import TextResponse
from scrapy.utils.request import RequestFingerprinter

from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter
from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter
from scrapy_urlnorm.exceptions import StoreUnavailableError
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.stores import MemorySeen

HOME = "http://shop.test/"
ADDON = {"ADDONS": {"scrapy_urlnorm.crawl.addon.Addon": 900}}


class Flaky(MemorySeen):
    """A store that stops answering after some keys."""

    def __init__(self, good=0, opens=True):
        super().__init__()
        self.good = good
        self.opens = opens

    def open(self):
        if not self.opens:
            raise StoreUnavailableError("no answer from the store")

    def add(self, key):
        if len(self) >= self.good:
            raise StoreUnavailableError("no answer from the store")
        return super().add(key)


def new(store=None, *, ours=True, **options):
    fingerprinter = UrlNormRequestFingerprinter(Normalizer()) if ours else RequestFingerprinter()
    stats = Counter()
    dupefilter = UrlNormDupeFilter(
        MemorySeen() if store is None else store,
        fingerprinter,
        explainer=fingerprinter if ours else None,
        stats=SimpleNamespace(inc_value=lambda name: stats.update([name])),
        **options,
    )
    dupefilter.open()
    return dupefilter, stats


def test_works_with_another_fingerprinter():
    dupefilter, stats = new(ours=False)
    assert not dupefilter.request_seen(Request(HOME + "a?b=1&utm_source=x"))
    assert not dupefilter.request_seen(Request(HOME + "a?b=1"))
    assert dupefilter.request_seen(Request(HOME + "a?b=1#x"))
    dupefilter.log(Request(HOME + "a?b=1#x"), None)
    assert stats == {"dupefilter/filtered": 1}


def test_a_redirect_passes_only_within_its_own_chain():
    dupefilter, stats = new()
    dupefilter.request_seen(Request(HOME + "?b=1&a=2"))
    meta = {"redirect_urls": [HOME + "?b=1&a=2"]}
    assert not dupefilter.request_seen(Request(HOME + "?a=2&b=1", meta=meta))
    dupefilter.request_seen(Request(HOME + "c"))
    assert dupefilter.request_seen(Request(HOME + "c", meta=meta))
    assert stats == {"urlnorm/redirects/passed": 1}


def messages(caplog):
    return [record.getMessage() for record in caplog.records if record.name.endswith(".dupefilter")]


def test_the_debug_line_names_rules_and_the_url_seen_first(caplog):
    caplog.set_level(logging.DEBUG)
    dupefilter, stats = new(debug=True)
    first, second = HOME + "a?b=1&a=2", HOME + "a?a=2&b=1&utm_source=x#top"
    dupefilter.request_seen(seen := Request(first))
    dupefilter.awaiting.page(seen, TextResponse(first, body=b"a page"))
    request = Request(second, headers={"Referer": HOME})
    dupefilter.request_seen(request)
    dupefilter.log(request, None)
    (message,) = messages(caplog)
    assert message.startswith(f"Filtered duplicate request: <GET {second}> (referer: {HOME}) ")
    assert f"merged with {first} by " in message
    for rule in ("drop-params", "sort-query", "remove-fragment"):
        assert rule in message
        assert stats[f"urlnorm/merged/{rule}"] == 1
    assert stats["urlnorm/merged"] == 1


def test_an_exact_duplicate_names_no_rule(caplog):
    caplog.set_level(logging.DEBUG)
    dupefilter, stats = new(debug=True)
    for _ in range(2):
        request = Request(HOME + "a?b=1&a=2")
        dupefilter.request_seen(request)
    dupefilter.log(request, None)
    assert messages(caplog) == [f"Filtered duplicate request: <GET {request.url}> (referer: None)"]
    assert stats == {"dupefilter/filtered": 1}


def test_without_debug_one_line_is_shown(caplog):
    caplog.set_level(logging.DEBUG)
    dupefilter, stats = new()
    for _ in range(3):
        dupefilter.log(Request(HOME), None)
    (message,) = messages(caplog)
    assert "see DUPEFILTER_DEBUG to show all duplicates" in message
    assert stats["dupefilter/filtered"] == 3


def test_a_failing_store_ends_the_crawl_and_loses_no_request(caplog):
    ended = []
    dupefilter, stats = new(Flaky(1), on_failure=lambda: ended.append(1))
    assert not dupefilter.request_seen(Request(HOME + "a"))
    assert not dupefilter.request_seen(Request(HOME + "b"))
    assert not dupefilter.request_seen(Request(HOME + "a"))
    assert ended == [1]
    assert stats["urlnorm/errors"] == 1
    assert [record.levelname for record in caplog.records] == ["CRITICAL"]
    assert "URLNORM_STORE" in caplog.text
    assert "no answer from the store" in caplog.text


def test_a_store_that_cannot_be_opened_stops_the_start():
    with pytest.raises(CloseSpider) as error:
        new(Flaky(opens=False))
    assert error.value.reason == "urlnorm_store_error"


def test_a_store_that_cannot_be_closed_is_counted_once(caplog):
    store = Flaky()
    store.close = mock.Mock(side_effect=StoreUnavailableError("no answer from the store"))
    dupefilter, stats = new(store)
    for _ in range(2):
        dupefilter.close("finished")
    assert stats == {"urlnorm/errors": 1}
    assert caplog.text.count("could not be closed") == 1


# --- real crawls ---------------------------------------------------------------------------


def test_another_rule_set_does_not_open_the_keys_of_a_job(tmp_path):
    settings = {**ADDON, "JOBDIR": str(tmp_path)}
    with Site({HOME: page("home")}) as site:
        crawl(site, [HOME], settings)
        result = crawl(site, [HOME], {**settings, "URLNORM_PROFILE": "aggressive"})
    assert len(site.requests) == 1
    if scrapy.version_info >= (2, 18):  # before, a crawl that ends at its start is an error
        assert result.reason == "urlnorm_store_mismatch"
        assert result.error is None
    else:
        assert result.error is not None
    assert "CRITICAL" in result.log
    assert "Nothing is learned" not in result.log
    for digest in (Normalizer().digest, Normalizer("aggressive").digest):
        assert digest in result.log


def test_a_redirect_passes_after_a_resume(tmp_path):
    settings = {**ADDON, "JOBDIR": str(tmp_path), "CONCURRENT_REQUESTS": 1}
    pages = {
        HOME: page("home", "/p?b=1&a=2"),
        HOME + "p?b=1&a=2": redirect("/p?a=2&b=1"),
        HOME + "p?a=2&b=1": page("the page"),
    }
    names = []
    with Site(pages) as site:
        for _ in range(3):
            result = crawl(site, [HOME], {**settings, "CLOSESPIDER_PAGECOUNT": 1})
            names += result.pages
    assert "the page" in names
