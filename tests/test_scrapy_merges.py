"""Merges: what counts as a duplicate that stock Scrapy would have fetched, and by which rule."""

from __future__ import annotations

import logging

import pytest
from scrapy import Request

from scrapy_urlnorm.crawl import merges
from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter
from scrapy_urlnorm.crawl.merges import Merges, rules_between, stock_key
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.site_rules import SiteRule

DEFAULT = Normalizer()
FIRST = "http://shop.test/a?b=1&c=2"

SCRAPY_MERGES_TOO = [
    FIRST,
    "http://shop.test/a?c=2&b=1",
    "http://shop.test/a?b=1&c=2#top",
    "http://shop.test/%61?b=1&c=2",
    "HTTP://SHOP.test/a?b=1&c=2",
]
ODD = ["http://[/a", "", "no URL"]


def test_of_urls_that_stock_scrapy_takes_for_one_it_would_have_fetched_the_first():
    beyond = Merges(None, print)
    for url in [*SCRAPY_MERGES_TOO, *ODD]:
        assert not beyond.is_beyond(url if url in ODD else FIRST, url)
        assert isinstance(stock_key(url), str)
    saved = [FIRST + "&utm_source=x", FIRST + "&utm_source=y"]
    assert [beyond.is_beyond(FIRST, url) for url in saved] == [True, True]
    for url in (*saved, "http://shop.test/a?utm_source=x&c=2&b=1#top"):
        assert not beyond.is_beyond(FIRST, url)


def test_so_many_are_remembered(monkeypatch):
    monkeypatch.setattr(merges, "_REMEMBERED", 10)
    beyond = Merges(None, print)
    urls = [f"{FIRST}&utm_source={number}" for number in range(100)]
    assert all(beyond.is_beyond(FIRST, url) for url in urls)
    assert not beyond.is_beyond(FIRST, urls[-1])
    assert beyond.is_beyond(FIRST, urls[0])


CREDITED = {
    "a parameter": (FIRST, FIRST + "&utm_source=x", ["drop-params"]),
    "the one that was there first": (FIRST + "&utm_source=x", FIRST, ["drop-params"]),
    "two parameters": (FIRST + "&utm_source=x", FIRST + "&utm_medium=y", ["drop-params"]),
    "a fragment": (FIRST, FIRST + "#top", ["remove-fragment"]),
    "one of two that acted": (
        "http://shop.test/a?c=2&b=1",
        "http://shop.test/a?c=2&b=1&utm_source=x",
        ["drop-params"],
    ),
    "two rules": (FIRST, FIRST + "&utm_source=x#top", ["drop-params", "remove-fragment"]),
    "an empty query": ("http://shop.test/a", "http://shop.test/a?", ["remove-empty-query"]),
    "a port": ("http://shop.test/a", "http://shop.test:80/a", ["remove-default-port"]),
    "dots": ("http://shop.test/a", "http://shop.test/b/../a", ["remove-dot-segments"]),
}


@pytest.mark.parametrize("name", CREDITED)
def test_a_rule_is_credited_where_the_two_would_be_two_without_it(name):
    first, url, rules = CREDITED[name]
    assert DEFAULT.normalize(first) == DEFAULT.normalize(url)
    assert sorted(rules_between(DEFAULT, first, url)) == sorted(rules)
    for rule in rules:
        without = Normalizer("default", {rule: False})
        assert without.normalize(first) != without.normalize(url)


def test_site_rules_are_credited_by_their_kind():
    rule = SiteRule(site="shop.test", kind="trailing-slash", option="remove")
    slash = Normalizer("default", None, [rule])
    assert rules_between(slash, "http://shop.test/a", "http://shop.test/a/") == ["trailing-slash"]
    rule = SiteRule(site="shop.test", kind="drop-param", param="sid")
    both = Normalizer("default", {"drop-params": ["sid"]}, [rule])
    found = rules_between(both, "http://shop.test/a", "http://shop.test/a?sid=1#x")
    assert "remove-fragment" in found


def test_the_first_url_of_a_key_is_named_whether_it_was_queued_or_suppressed():
    counts = []
    fingerprinter = UrlNormRequestFingerprinter(Normalizer())
    known = Merges(fingerprinter, counts.append)
    known.remember(b"queued", FIRST, is_queued=True)
    known.remember(b"suppressed", FIRST, is_queued=False)
    assert [known.has_queued(key) for key in (b"queued", b"suppressed", b"new")] == [
        True,
        False,
        False,
    ]
    request = Request(f"{FIRST}&utm_source=x")
    merge = known.merged_by(request, b"suppressed", needs_rules=True)
    assert merge == (FIRST, ["drop-params"], True)
    assert counts == ["urlnorm/merged", "urlnorm/merged/drop-params"]


def test_a_rule_is_logged_when_it_saves_its_first_request(caplog):
    known = Merges(UrlNormRequestFingerprinter(Normalizer()), lambda stat: None)
    with caplog.at_level(logging.INFO):
        for number in range(3):
            first = f"http://u:s3cret@shop.test/{number}"
            known.remember(b"key", first, is_queued=True)
            known.merged_by(Request(f"{first}?utm_source=x"), b"key", needs_rules=False)
        known.merged_by(Request(f"{first}#top"), b"key", needs_rules=False)  # so does Scrapy
    (record,) = caplog.records
    assert (
        "(Remove parameters that do not select content: tracking and click ids): http://"
        in record.getMessage()
    )
    assert "shop.test/0?utm_source=x counts as http://" in record.getMessage()
    assert "s3cret" not in record.getMessage()
