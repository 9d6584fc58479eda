"""Slots and operations, and that users get from a rule what the learner tried."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.learning.contexts import Context, all_hold
from scrapy_urlnorm.learning.emit import site_rule
from scrapy_urlnorm.learning.ops import (
    Cut,
    Dedupe,
    Drop,
    First,
    Lower,
    Number,
    Op,
    Prefix,
    Slashes,
    Split,
    Subst,
    Suffix,
    Tail,
    Text,
    ToPath,
    Wild,
)
from scrapy_urlnorm.learning.rules import Learned
from scrapy_urlnorm.learning.slots import Hasher, slots_of, without
from scrapy_urlnorm.learning.trials import Count

PLAIN = Normalizer("default")


def slots(url: str) -> dict[str, str]:
    """Return the slots of the key of *url*."""
    found = slots_of(PLAIN.normalize(url))
    assert found is not None
    return found


def test_slots_of_a_url() -> None:
    """Each part of a URL is a slot; repeated values are one, in order."""
    assert slots("https://h.example:81/a/b%20c/?x=2&x=1&12&y=") == {
        "scheme": "https",
        "host": "h.example",
        "port": "81",
        "s0": "a",
        "s1": "b c",
        "slash": "1",
        "q:x": "1\x012",
        "q:y": "",
        "?": "12",
    }
    assert slots("http://h.example/") == {"scheme": "http", "host": "h.example"}
    assert slots("http://h.example/?C=N;O=A")["sep"] == ";"


@pytest.mark.parametrize(
    "url", ["mailto:a@b.example", "http://h.example/" + "a/" * 30, "http://h.example/" + "a" * 9999]
)
def test_what_has_no_slots(url: str) -> None:
    """What is no URL with a host, or too long, is left alone."""
    assert slots_of(PLAIN.normalize(url)) is None


@given(
    st.dictionaries(st.sampled_from(["s0", "q:a", "q:b", "q:c", "slash"]), st.text(max_size=3)),
    st.sets(st.sampled_from(["s0", "q:a", "q:b", "q:c", "slash"])),
)
def test_hash_of_what_is_left(known: dict[str, str], gone: set[str]) -> None:
    """Taking slots away from a hash gives the hash of what is left."""
    hasher = Hasher()
    assert hasher.moved(hasher.of(known), known, gone) == hasher.of(without(known, gone))


CASES: list[tuple[Op, Context, list[str]]] = [
    (Drop(("q:sid",)), (), ["/a?sid=1", "/a?id=1&sid=2", "/a"]),
    (Drop(("q:C", "q:O")), (), ["/a/?C=N;O=A", "/a/?O=D", "/a/?C=N;O=A;F=1"]),
    (Drop(("slash",)), (), ["/a/", "/a", "/"]),
    (Drop(("sep",)), (), ["/?a=1;b=2", "/?a=1&b=2"]),
    (Drop(("?",)), (), ["/a?123", "/a?b=1"]),
    (Drop(("q:h",)), (("has", "q:id"),), ["/a?h=1&id=2", "/a?h=1"]),
    (Drop(("q:h",)), (("no", "q:id"), ("no", "slash")), ["/a?h=1", "/a/?h=1", "/a?h=1&id=2"]),
    (Drop(("q:h",)), (("is", "s0", "log"),), ["/log?h=1", "/tree?h=1", "/log/x?h=2"]),
    (Drop(("q:h",)), (("is", "q:a", "x"),), ["/?a=x&h=1", "/?a=y&h=1"]),
    (Drop(("q:h",)), (("among", "q:h", ("1", "2")),), ["/?h=1", "/?h=3", "/?h=2&z=1"]),
    (
        Drop(("q:h",)),
        (("path", (("=", "a*b"), ("#", ""), ("*", ".html")), False),),
        ["/a*b/1/x.html?h=1", "/a*b/x/x.html?h=1", "/a*b/1/x.php?h=1", "/a*b/1/x.html/?h=1"],
    ),
    (
        Drop(("q:id",)),
        (("rest", (("host", "h.example"), ("q:a", "1 2"), ("s0", "r"), ("scheme", "http"))),),
        ["/r?a=1+2&id=1", "/r?a=2&id=1", "/r/?a=1+2&id=1", "/r?a=1+2&b=1&id=2"],
    ),
    (Wild(("q:slug",)), (), ["/?slug=x&id=1", "/?slug=", "/?slug=a&slug=b"]),
    (Wild(("s1",)), (), ["/a/b", "/a", "/a/b/c"]),
    (Subst((("q:page", "1"),), ()), (), ["/?page=1", "/?page=2", "/?page=1&page=2"]),
    (Subst((("q:a", "1"), ("q:b", "2")), ()), (), ["/?a=1&b=2&c=3", "/?a=1", "/?a=1;b=2;c=3"]),
    (Subst((("q:C", "N"),), (("q:C", "D"),)), (), ["/?C=N;O=A", "/?C=N", "/?C=M"]),
    (Subst((("s1", "stable"),), (("s1", "3"),)), (), ["/x/stable/y", "/stable", "/x/stable/"]),
    (Subst((("scheme", "https"),), (("scheme", "http"),)), (), ["/a"]),
    (
        Subst((("q:idx", "{namespace}"),), (("q:do", "index"),), ("w",), ":"),
        (),
        ["/w/a/b/p?idx=a%3Ab", "/w/a/p?idx=a", "/w/a/p?idx=b", "/w/p?idx=a", "/w/a/p?idx=a&do=x"],
    ),
    (Tail(("index.html",), False, True), (), ["/a/index.html", "/index.html", "/a/index.html/"]),
    (Tail(("page", "1"), True, True), (), ["/a/page/1/", "/page/1/page/1/", "/a/page/1"]),
    (Tail(("amp",), True, False), (), ["/a/amp/", "/a/amp/amp/", "/amp/"]),
    (Cut((), "en"), (), ["/en/a", "/en/en/a", "/a/en", "/en"]),
    (Cut(("x",), "en"), (), ["/x/en/a/", "/en/a"]),
    (Prefix(("docs", "latest"), ("d",)), (), ["/docs/latest/a", "/docs/a", "/docs/latest"]),
    (
        ToPath("q:id", ("doku.php",), False, ("doku.php",), (), "", "", ":", False),
        (),
        ["/doku.php?id=a:b", "/doku.php?id=a&do=x", "/doku.php/?id=a", "/doku.php?id=a::b"],
    ),
    (
        ToPath("q:id", ("story",), False, (), (), "story_", ".html", "", False),
        (),
        ["/story?id=12", "/story?id=a%2Fb", "/story?x=1"],
    ),
    (Split(":", ("w",)), (), ["/w/a:b/c", "/w/a", "/x/a:b", "/w/a::b"]),
    (Lower(), (), ["/A/b", "/a"]),
    (Lower("q:t"), (), ["/?t=Ab", "/?t=B&t=a", "/?u=A"]),
    (First(("s1",)), (), ["/a/Ab", "/a/ab", "/a/AB/C", "/A"]),
    (First(("s0", "q:t")), (), ["/?t=AB", "/?t=B&t=a", "/A/A?t=", "/a"]),
    (Suffix("?", "-1"), (), ["/?thread-12-1", "/?thread-12", "/?thread-1"]),
    (Suffix("q:x", "-1"), (), ["/?x=a-1", "/?x=a-1-1", "/?x=-1"]),
    (Suffix("s-1", ".html", True), (), ["/a/b.html", "/a/b.html/", "/.html"]),
    (Number("s0", "before"), (), ["/12-some-words", "/12", "/x-12", "/12-"]),
    (Number("q:t", "after"), (), ["/?t=some-words-12", "/?t=12"]),
    (Text("q:t", " ", "_"), (), ["/?t=a+b", "/?t=a_b"]),
    (Dedupe("q:a"), (), ["/?a=1&a=1&a=2", "/?a=1"]),
    (Slashes(), (), ["/a//b", "//a", "/a/b//"]),
]


@pytest.mark.parametrize(("op", "context", "paths"), CASES, ids=lambda case: repr(case)[:60])
def test_the_rule_does_what_was_tried(op: Op, context: Context, paths: list[str]) -> None:
    """A written rule, in a normalizer, does to URLs what the operation did in the trials."""
    learned = Learned(op, context, Count(9.0, 0, 18))
    rule = site_rule(learned, "h.example")
    assert rule is not None
    normalizer = Normalizer("default", site_rules=[rule])
    changed = 0
    for path in paths:
        before = slots(f"http://h.example{path}")
        if op == Subst((("scheme", "https"),), (("scheme", "http"),)):
            before = slots(f"https://h.example{path}")
        image = op.image(before) if all_hold(context, before, op.slots) else None
        changed += image is not None and image != before
        url = f"{before['scheme']}://h.example{path}"
        assert slots_of(normalizer.normalize(url)) == (image or before), url
    assert 0 < changed <= len(paths)


def test_every_operation_is_idempotent() -> None:
    """What an operation made, it does not change again."""
    for op, _, paths in CASES:
        for path in paths:
            image = op.image(slots(f"http://h.example{path}"))
            if image is not None:
                again = op.image(image)
                assert again is None or again == image, (op, path)


def test_evidence_is_written_into_the_rule() -> None:
    """Support, conflicts, risk and examples go along; no risk is too small to be named."""
    pair = ("http://h.example/?sid=1", "http://h.example/")
    learned = Learned(Drop(("q:sid",)), (), Count(40.0, 1, 90), [pair], 0.0123456)
    rule = site_rule(learned, "h.example", hosts=["a.h.example"], status="proposed", note="why")
    assert rule is not None
    assert (rule.support, rule.conflicts, rule.status, rule.note) == (40, 1, "proposed", "why")
    assert rule.false_merge_upper == 0.0123
    assert rule.examples == (pair,)
    assert rule.when == {"host": ["a.h.example"]}
    learned.risk = 1e-9
    again = site_rule(learned, "h.example")
    assert again is not None
    assert again.false_merge_upper == 0.0001
