"""UrlNormRequestFingerprinter: the definition, the fast way, meta keys, and never raising."""

from __future__ import annotations

import gc
import json
from hashlib import sha1
from importlib.metadata import version

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopback import crawler_of
from scrapy import FormRequest, Request, Spider
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.request import RequestFingerprinter

from scrapy_urlnorm.crawl import fingerprinter as module
from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter, redirect_hop
from scrapy_urlnorm.crawl.middleware import UrlNormDownloaderMiddleware
from scrapy_urlnorm.exceptions import ConfigError
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.site_rules import SiteRule

UGLY = "HTTP://Shop.Example:80/a/../b?b=2&a=1&utm_source=mail#top"
KEY = "http://shop.example/b?a=1&b=2"


class Definition(RequestFingerprinter):
    """Scrapy's fingerprinter under another type: takes the way over a copy of the request."""

    def fingerprint(self, request):
        assert request.meta["verbatim_url"] is True
        return by_the_book(request)


def by_the_book(request):
    """What Scrapy documents: SHA-1 of the JSON object of method, URL, body and headers."""
    data = {"method": request.method, "url": request.url, "body": request.body.hex(), "headers": {}}
    return sha1(json.dumps(data, sort_keys=True).encode()).digest()


def new(fallback=None, profile="default"):
    return UrlNormRequestFingerprinter(Normalizer(profile), fallback)


def test_the_bytes_are_those_of_the_normalized_url():
    assert new().fingerprint(Request(UGLY)) == by_the_book(Request(KEY))
    assert new().fingerprint(Request(UGLY)).hex() == "d608d533bbc713117bcb677b95f248ae4d200d67"


urls = st.one_of(
    st.builds(
        "http://{}/{}?{}#{}".format,
        st.sampled_from(["h.example", "H.example:80", "[::1]", "a:b@h", "h:99999", "[x"]),
        st.text(st.characters(codec="utf-8"), max_size=12),
        st.text('ab=&;%20"\\é', max_size=12),
        st.text(max_size=3),
    ),
    st.sampled_from(["data:,a", "mailto:a@b", "file:///etc/x", "s3://bucket/Key"]),
)


@pytest.mark.skipif(
    version("scrapy") < "2.17", reason="the definition needs verbatim_url, which Scrapy 2.17 added"
)
@given(
    url=urls,
    method=st.sampled_from(["GET", "POST", "get", "PURGE"]),
    body=st.binary(max_size=8),
    profile=st.sampled_from(["safe", "default", "aggressive"]),
)
def test_the_fast_way_gives_the_bytes_of_the_definition(url, method, body, profile):
    try:
        request = Request(url, method=method, body=body)
    except ValueError:
        return
    fast, slow = new(profile=profile), new(Definition(), profile)
    assert fast.fingerprint(request) == slow.fingerprint(request)
    assert fast.counts == slow.counts


@given(url=urls, profile=st.sampled_from(["safe", "default", "aggressive"]), direct=st.booleans())
def test_the_request_is_left_as_it_was(url, profile, direct):
    try:
        request = Request(url, meta={"a": 1})
        request.replace(url=request.url)
    except ValueError:  # w3lib 2.1 takes the brackets of an IPv6 host away
        return
    before = request.to_dict()
    new(None if direct else Definition(), profile).fingerprint(request)
    assert request.to_dict() == before


def test_method_and_body_still_count():
    fingerprint = new().fingerprint
    post = FormRequest(UGLY, formdata={"q": "x"})
    assert fingerprint(post) == fingerprint(FormRequest(KEY, formdata={"q": "x"}))
    assert fingerprint(post) != fingerprint(FormRequest(KEY, formdata={"q": "y"}))
    assert fingerprint(post) != fingerprint(Request(KEY))


@pytest.mark.skipif(module._WITH_SLOTS is None, reason="requests of this Scrapy have no slots")
def test_a_plain_get_leaves_nothing_behind_but_its_url():
    fingerprinter = new()
    request = Request(UGLY)
    assert fingerprinter.fingerprint(request) is fingerprinter.fingerprint(request)
    assert fingerprinter.counts["processed"] == fingerprinter.counts["changed"] == 2
    assert len(fingerprinter._memo) == 0


class Named(Request):
    """A request of a subclass, whose properties may say something else than its slots."""

    url = property(lambda self: KEY)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Request(UGLY, method="POST"),
        lambda: Request(UGLY, body=b"x"),
        lambda: Request(UGLY, meta={"urlnorm": "safe"}),
        lambda: Request(UGLY, meta={"verbatim_url": True}),
        lambda: Named("http://h/"),
    ],
)
def test_any_other_request_is_looked_at_once(make):
    fingerprinter = new()
    request = make()
    assert fingerprinter.fingerprint(request) is fingerprinter.fingerprint(request)
    assert fingerprinter.counts["processed"] == 1
    assert len(fingerprinter._memo) == 1
    del request
    gc.collect()
    assert len(fingerprinter._memo) == 0


@pytest.mark.parametrize("meta", [None, {}, {"depth": 1}])
def test_a_scrapy_without_slots_gives_the_same_bytes(meta, monkeypatch):
    monkeypatch.setattr(module, "_WITH_SLOTS", None)
    fingerprinter = new()
    found = {fingerprinter.fingerprint(Request(UGLY, meta=meta)) for _ in range(2)}
    assert found == {by_the_book(Request(KEY))}
    assert fingerprinter.counts == new().counts | {"processed": 2, "changed": 2}


def test_what_is_known_of_urls_is_bounded():
    fingerprinter = new()
    for number in range(2 * module.KNOWN_URLS):
        fingerprinter.fingerprint(Request(f"http://h/{number}"))
        fingerprinter.fingerprint(Request(f"http://h/{'a' * module.KNOWN_LENGTH}{number}"))
    known = fingerprinter._known
    assert len(known) + len(known.old) <= module.KNOWN_URLS
    assert bool(known) is (module._WITH_SLOTS is Request)  # older requests have no slots
    assert max(map(len, known), default=0) <= module.KNOWN_LENGTH


def test_the_meta_leaves_a_request_alone_or_names_a_profile():
    url = "http://h.example/?b=1&a=%7e"
    fingerprinter = new()
    left = Request(UGLY, meta={"urlnorm": False})
    assert fingerprinter.fingerprint(left) == RequestFingerprinter().fingerprint(left)
    assert fingerprinter.counts["left_alone"] == 1
    verbatim = Request("http://h.example/?b=1&a=2", meta={"verbatim_url": True})
    assert fingerprinter.fingerprint(verbatim) == by_the_book(verbatim)
    for meta, key in (({"urlnorm": "safe"}, "?b=1&a=~"), ({}, "?a=~&b=1")):
        found = fingerprinter.fingerprint(Request(url, meta=meta))
        assert found == by_the_book(Request(f"http://h.example/{key}"))


@pytest.mark.parametrize("fallback", [None, Definition()])
def test_a_request_brings_its_key_along(fallback):
    fingerprint = new(fallback).fingerprint

    def of(url, key, **more):
        return fingerprint(Request(url, meta={"urlnorm_key": key}, **more))

    assert of(UGLY, "product 42") == of("http://other.example/", "product 42")
    assert of(UGLY, "product 42") != of(UGLY, "product 43")
    assert of(UGLY, "product/42") != of(UGLY, "product%2F42")
    assert of(UGLY, KEY) == fingerprint(Request(KEY))  # the key of another page
    assert of(UGLY, "product 42", method="POST", body=b"x") != of(UGLY, "product 42")


@pytest.mark.parametrize(
    ("key", "values"),
    [("urlnorm_key", [7, "", b"key", ["key"]]), ("urlnorm", ["nosuch", 7, ["safe"], {}])],
)
def test_a_bad_value_in_the_meta_is_said_once_and_counted(key, values, caplog):
    fingerprinter = new()
    for value in values:
        request = Request(UGLY, meta={key: value})
        assert fingerprinter.fingerprint(request) == by_the_book(Request(KEY))
    assert fingerprinter.counts["bad_meta"] == len(values)
    assert [repr(values[0]) in record.getMessage() for record in caplog.records] == [True]


def test_requests_of_components_keep_their_stock_keys():
    """Those for robots.txt, and those of pipelines for files and images."""
    fingerprinter, request = new(), Request(UGLY, callback=NO_CALLBACK)
    assert fingerprinter.fingerprint(request) == RequestFingerprinter().fingerprint(request)
    assert fingerprinter.fingerprint(Request(UGLY)) == by_the_book(Request(KEY))


class Raw(Request):
    """A request with a URL that Request itself would refuse, as a subclass may carry it."""

    def __init__(self, url):
        super().__init__("http://h/")
        self.raw = url

    url = property(lambda self: self.raw)


@pytest.mark.parametrize("url", ["http://h:99999/a", "http://[::1/a", "http://h]/", "http://[x]/"])
def test_an_unparsable_url_is_its_own_key_and_said(url, caplog):
    caplog.set_level("DEBUG")
    fingerprinter = new()
    request = Raw(url)
    assert fingerprinter.fingerprint(request) == by_the_book(request)
    assert fingerprinter.counts["changed"] == 0
    crawler = crawler_of(Spider, {})
    UrlNormDownloaderMiddleware.from_crawler(crawler).process_request(request)
    assert f"its own key: {url}" in caplog.text


class Broken:
    """A fallback that raises, as one that parses the URL may."""

    def fingerprint(self, request):
        raise ValueError("Invalid IPv6 URL")


def test_a_raising_fallback_does_not_raise_through(caplog):
    fingerprinter = new(Broken())
    assert fingerprinter.fingerprint(Request(UGLY)) == by_the_book(Request(KEY))
    assert fingerprinter.fingerprint(Request(KEY)) == by_the_book(Request(KEY))
    left_alone = Request(KEY, meta={"urlnorm": False})
    assert fingerprinter.fingerprint(left_alone) == by_the_book(Request(KEY))
    assert fingerprinter.counts["fallback_errors"] == 3
    assert len(caplog.records) == 1
    assert "Invalid IPv6 URL" in caplog.text


def test_redirect_hop_counts_urls_with_the_same_key():
    fingerprinter = new()
    chain = ["http://h/?b=1&a=2", "http://h/other", "http://h/?b=1&a=2#x", "http://h/?b=1&a=2"]
    assert redirect_hop(fingerprinter.fingerprint, Request("http://h/?a=2&b=1")) == 0
    request = Request("http://h/?a=2&b=1", meta={"redirect_urls": chain})
    assert redirect_hop(fingerprinter.fingerprint, request) == 2


def test_set_apart_gives_every_hop_its_own_fingerprint():
    fingerprinter = new()
    request, again, plain = Request(KEY), Request(KEY), Request(KEY)
    fingerprinter.set_apart(request, "redirect 1")
    fingerprinter.set_apart(again, "redirect 2")
    found = {fingerprinter.fingerprint(r) for r in (request, again, plain)}
    assert len(found) == 3
    assert fingerprinter.fingerprint(plain) == by_the_book(plain)
    del request, again
    gc.collect()
    fingerprinter.fingerprint(Request(UGLY))
    assert len(fingerprinter._memo) == 1  # `plain`, which was asked for while the others lived
    later = Request(UGLY)
    fingerprinter.fingerprint(later)
    assert (later in fingerprinter._memo) == (module._WITH_SLOTS is None)


def test_rules_that_undo_each_other_are_counted():
    """Where URLs meet a circle of rules; the others of the site act."""
    fields = {"site": "h.example", "kind": "replace"}
    rules = [
        SiteRule(**fields, old={"q:a": "1"}, new={"q:b": "1"}, when={"has": "x"}),
        SiteRule(**fields, old={"q:b": "1"}, new={"q:a": "1"}, when={"has": "y"}),
        SiteRule(site="h.example", kind="drop-param", param="sid"),
    ]
    fingerprinter = UrlNormRequestFingerprinter(Normalizer(site_rules=rules))
    url = "http://h.example/p?a=1&x=1&y=1"
    assert fingerprinter.fingerprint(Request(f"{url}&sid=1")) == by_the_book(Request(url))
    assert fingerprinter.counts["rules_left_out"] == 1


FALLBACK = "URLNORM_FALLBACK_REQUEST_FINGERPRINTER_CLASS"


@pytest.mark.parametrize(
    "fallback",
    [UrlNormRequestFingerprinter, "scrapy_urlnorm.crawl.fingerprinter.UrlNormRequestFingerprinter"],
)
def test_refuses_to_be_its_own_fallback(fallback):
    crawler = crawler_of(Spider, {FALLBACK: fallback})
    with pytest.raises(ConfigError, match=FALLBACK):
        UrlNormRequestFingerprinter.from_crawler(crawler)


@pytest.mark.parametrize("fallback", ["nowhere.Fingerprinter", "scrapy.Nothing", "nothing"])
def test_a_fallback_that_is_not_there_is_named(fallback):
    crawler = crawler_of(Spider, {FALLBACK: fallback})
    with pytest.raises(ConfigError, match=f"{FALLBACK} = '{fallback}'.*its import path"):
        UrlNormRequestFingerprinter.from_crawler(crawler)


class Wrapper:
    """A fingerprinter of someone else that wants ours as its fallback."""

    @classmethod
    def from_crawler(cls, crawler):
        wrapper = cls()
        wrapper.inner = UrlNormRequestFingerprinter.from_crawler(crawler)
        return wrapper

    def fingerprint(self, request):
        return b"w" + self.inner.fingerprint(request)


def test_two_fingerprinters_that_are_each_others_fallback_end():
    crawler = crawler_of(Spider, {FALLBACK: Wrapper})
    fingerprinter = UrlNormRequestFingerprinter.from_crawler(crawler)
    assert fingerprinter.fingerprint(Request(KEY)) == b"w" + by_the_book(Request(KEY))
