"""From the rows of a log to the items of a site, and the part of a large one."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.domains import domain_or_host
from scrapy_urlnorm.learning import corpus, evaluate, evidence, mine
from scrapy_urlnorm.learning.corpus import (
    MAX_PARAMS,
    MAX_SEGMENTS,
    Corpus,
    Hasher,
    Item,
    Vocabulary,
    slots_of,
)
from scrapy_urlnorm.learning.evidence import gather, items_of, site_of
from scrapy_urlnorm.logs import Observation
from scrapy_urlnorm.url import split

# --- What the log says about URLs, before anything is learned from it

PLAIN = Normalizer()


@given(st.text("aB.é:/?#@[]1 \n", max_size=30).map("http:".__add__))
@example("http://a.example")
@example("http://a.example?b=/c")
@example("x" * 300 + "://a.example/b")
@example("mailto:a?b=http://c.example/")
def test_the_site_is_that_of_the_host(url):
    """Whatever follows the host, and whatever is remembered of its beginning."""
    assert site_of(url) == domain_or_host((split(url).host or "").lower())


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
    monkeypatch.setattr(corpus, "_MAX_VALUES", 2)
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


# --- Of a large site the learner looks at a part, and merges no more wrongly than with all


def item(path: str, content: int) -> Item:
    """Return an item; only its URL and its content decide."""
    return Item({}, hash(path), Counter({content: 1}), content, f"http://a.example{path}")


def items() -> list[Item]:
    """Return pages alone, pages under two URLs, and beside one of these another content."""
    alone = [item(f"/alone/{n}?x={x}", 10 * n + x) for n in range(400) for x in range(2)]
    twins = [item(f"/twin/{n}{query}", 9_000 + n) for n in range(50) for query in ("", "?x=1")]
    beside = [item(f"/twin/{n}?x=2", 9_500 + n) for n in range(50)]
    return [*alone, *twins, *beside]


def test_all_urls_of_a_site_that_is_not_large_are_looked_at(monkeypatch):
    """Up to the limit nothing is left out."""
    known = items()
    monkeypatch.setattr(evidence, "MOST", len(known))
    assert evidence.selected(known) is known


def test_what_shares_a_content_is_looked_at_with_its_whole_path(monkeypatch):
    """Of other paths a part is, all URLs of a path or none; the order decides nothing."""
    monkeypatch.setattr(evidence, "MOST", 100)
    known = items()
    found = [each.url for each in evidence.selected(known)]
    twins = [url for url in found if "/twin/" in url]
    paths = Counter(url.partition("?")[0] for url in found if "/alone/" in url)
    assert len(twins) == 150
    assert set(paths.values()) == {2}
    assert 20 < len(paths) < 100
    random.Random(1).shuffle(known)
    assert {each.url for each in evidence.selected(known)} == set(found)


def test_rules_of_a_part_are_those_of_the_whole(monkeypatch):
    """What a parameter selects on pages that share nothing still refutes it there."""
    pages = {f"/thread/{n}{query}": f"{n}" for n in range(60) for query in ("", f"?s={n % 5}")}
    pages |= {f"/list/{n}?s={s}": f"list {n} {s}" for n in range(300) for s in range(3)}
    pages |= {f"/news/{n}/story-{n}.html": f"news {n}" for n in range(500)}
    rows = [Observation(f"http://a.example{path}", 200, content) for path, content in pages.items()]
    whole = mine(rows)
    monkeypatch.setattr(evidence, "MOST", 100)
    part = mine(rows)
    assert [rule.said() for rule in part] == [rule.said() for rule in whole]
    assert [rule.param for rule in part if rule.active] == [("s",)]
    result = evaluate(Normalizer(site_rules=part), rows)
    assert (result.found, result.false_merges) == (1, 0)


def test_the_audit_looks_at_all(monkeypatch):
    """A rule that only URLs outside of the part refute is taken back."""
    pages = {f"/{a}/{n}": f"{n}" for n in range(60) for a in ("old", "new")}
    pages |= {f"/old/{n}": f"old {n}" for n in range(100, 400)}
    pages |= {f"/new/{n}": f"new {n}" for n in range(100, 400)}
    rows = [Observation(f"http://a.example{path}", 200, content) for path, content in pages.items()]
    monkeypatch.setattr(evidence, "MOST", 1)
    assert not [rule for rule in mine(rows) if rule.active]
