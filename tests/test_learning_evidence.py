"""What the log says about URLs, before anything is learned from it."""

from __future__ import annotations

import gc
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.learning import contexts, one_site
from scrapy_urlnorm.learning.contexts import Vocabulary
from scrapy_urlnorm.learning.corpus import Corpus, Item
from scrapy_urlnorm.learning.evidence import gather, items_of, site_of, site_of_host
from scrapy_urlnorm.learning.one_site import Job, report_on
from scrapy_urlnorm.learning.slots import MAX_PARAMS, MAX_SEGMENTS, Hasher, slots_of
from scrapy_urlnorm.logs import Observation
from scrapy_urlnorm.url import split

PLAIN = Normalizer()


@given(st.text("aB.é:/?#@[]1 \n", max_size=30).map("http:".__add__))
@example("http://a.example")
@example("http://a.example?b=/c")
@example("x" * 300 + "://a.example/b")
@example("mailto:a?b=http://c.example/")
def test_the_site_is_that_of_the_host(url):
    """Whatever follows the host, and whatever is remembered of its beginning."""
    assert site_of(url) == site_of_host((split(url).host or "").lower())


def test_values_of_a_repeated_parameter_are_in_order():
    """And each counts: a URL with too many is not learned from, however few names they have."""
    repeated = slots_of("http://a.example/?a=2&b=3&a=1")
    assert repeated == slots_of("http://a.example/?b=3&a=1&a=2")
    assert slots_of("http://a.example/?" + "a=1&" * MAX_PARAMS) is None
    assert slots_of("http://a.example" + "/a" * (MAX_SEGMENTS + 1)) is None
    assert slots_of("http://a.example" + "/a" * MAX_SEGMENTS) is not None


def test_a_corpus_leaves_the_evidence_as_it_is():
    """Two URLs of one form are one item; what was seen under each stays its own."""
    urls = ["http://a.example/x?a=1&a=2", "http://a.example/x?a=2&a=1"]
    rows = [Observation(url, 200, f"{n}") for n, url in enumerate(urls)]
    evidence, hasher = gather(rows, PLAIN.normalize), Hasher()
    corpus = Corpus(items_of(evidence, PLAIN.normalize, hasher), hasher)
    assert [item.contents for item in corpus.items] == [Counter([0, 1])]
    assert [evidence.urls[url] for url in urls] == [Counter([0]), Counter([1])]


def test_a_redirect_has_what_most_urls_of_its_target_show():
    """The target's key stands for all URLs that have it."""
    shown = {"b#1": "old", "b#2": "new", "b#3": "new"}
    rows = [Observation(f"http://a.example/{url}", 200, of) for url, of in shown.items()]
    rows += [Observation(f"http://a.example/{n}", 301, location="http://a.example/b") for n in "xy"]
    urls = gather(rows, PLAIN.normalize).urls
    assert urls["http://a.example/x"] == urls["http://a.example/y"] == Counter([0])  # "new"


def test_of_many_values_the_first_are_counted(monkeypatch):
    """However often they come; a value beyond them is not there."""
    monkeypatch.setattr(contexts, "_MAX_VALUES", 2)
    values = ["a", "b", "c", "d", *"dddd", "a", "a"]
    items = [
        Item({"host": "h", "q:x": value}, n, Counter([n]), n, "") for n, value in enumerate(values)
    ]
    vocabulary = Vocabulary(items)
    assert vocabulary._counted["q:x"] == {"a": 3, "b": 1, "c": 1}
    assert vocabulary.values["q:x"] == {"a"}


def test_the_separator_is_the_sign_that_more_values_have():
    """Each value has one voice, however many signs it has."""
    items = [
        Item({"host": "h", "q:x": value}, n, Counter([n]), n, "")
        for n, value in enumerate(["a/b/c/d", "a:b", "c:d"])
    ]
    assert Vocabulary(items).separator("q:x") == ":"
    assert Vocabulary(items[:1]).separator("q:x") == "/"
    assert Vocabulary(items).separator("q:none") == ":"


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_of_cycles_is_as_it_was(monkeypatch, enabled):
    """It is off while a site is mined, and as before then, after an error too."""
    seen = []

    def broken(*_):
        seen.append(gc.isenabled())
        raise ValueError("a row")

    rows = [Observation("http://a.example/", 200, "a")]
    was = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        report_on(Job("a.example", rows))
        assert gc.isenabled() == enabled
        monkeypatch.setattr(one_site, "_mine_site", broken)
        with pytest.raises(ValueError, match="a row"):
            report_on(Job("a.example", rows))
        assert gc.isenabled() == enabled
        assert seen == [False]
    finally:
        (gc.enable if was else gc.disable)()
