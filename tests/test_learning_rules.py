"""Slots, hashes, and that a rule file holds what was learned."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.learning import mine
from scrapy_urlnorm.learning.corpus import Hasher, in_order, slots_of
from scrapy_urlnorm.learning.rules import evidence_of, said
from scrapy_urlnorm.learning.trials import Count
from scrapy_urlnorm.logs import Observation
from scrapy_urlnorm.site_rules.context import (
    Among,
    Context,
    Has,
    Is,
    No,
    Path,
    PathText,
    Rest,
    Slash,
)
from scrapy_urlnorm.site_rules.form import REPEAT, without
from scrapy_urlnorm.site_rules.operations import (
    CatalogueRule,
    DropParam,
    EditValue,
    IgnoreValue,
    Operation,
    ParamToPath,
    PrefixAlias,
    Replace,
    StripSegment,
    StripTail,
)

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
        "q:x": f"1{REPEAT}2",
        "q:y": "",
        "?": "12",
    }
    assert slots("http://h.example/") == {"scheme": "http", "host": "h.example"}
    assert slots("http://h.example/?C=N;O=A")["sep"] == ";"
    assert slots("http://h.example/?topic=7.0;all")["q:all"] == ""
    assert "sep" not in slots("http://h.example/?q=tl;dr")


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


CASES: list[tuple[Operation, Context, list[str]]] = [
    (DropParam(("q:sid",)), (), ["/a?sid=1", "/a?id=1&sid=2", "/a"]),
    (DropParam(("q:C", "q:O")), (), ["/a/?C=N;O=A", "/a/?O=D", "/a/?C=N;O=A;F=1"]),
    (DropParam(("slash",)), (), ["/a/", "/a", "/"]),
    (DropParam(("sep",)), (), ["/?a=1;b=2", "/?a=1&b=2"]),
    (DropParam(("?",)), (), ["/a?123", "/a?b=1"]),
    (DropParam(("q:h",)), (Has("q:id"),), ["/a?h=1&id=2", "/a?h=1"]),
    (DropParam(("q:h",)), (No("q:id"), Slash(False)), ["/a?h=1", "/a/?h=1", "/a?h=1&id=2"]),
    (DropParam(("q:h",)), (Is("s0", ("log",)),), ["/log?h=1", "/tree?h=1", "/log/x?h=2"]),
    (DropParam(("q:h",)), (Is("q:a", ("x",)),), ["/?a=x&h=1", "/?a=y&h=1"]),
    (DropParam(("q:h",)), (Among("q:h", ("1", "2")),), ["/?h=1", "/?h=3", "/?h=2&z=1"]),
    (
        DropParam(("q:h",)),
        (Path((("=", "a*b"), ("#", ""), ("*", ".html")), None, False),),
        ["/a*b/1/x.html?h=1", "/a*b/x/x.html?h=1", "/a*b/1/x.php?h=1", "/a*b/1/x.html/?h=1"],
    ),
    (
        DropParam(("q:id",)),
        (Rest((("q:a", "1 2"), ("s0", "r")), ("q:id",)),),
        ["/r?a=1+2&id=1", "/r?a=2&id=1", "/r/?a=1+2&id=1", "/r?a=1+2&b=1&id=2"],
    ),
    (IgnoreValue(("q:slug",)), (), ["/?slug=x&id=1", "/?slug=", "/?slug=a&slug=b"]),
    (IgnoreValue(("s1",)), (), ["/a/b", "/a", "/a/b/c"]),
    (Replace((("q:page", "1"),), ()), (), ["/?page=1", "/?page=2", "/?page=1&page=2"]),
    (Replace((("q:a", "1"), ("q:b", "2")), ()), (), ["/?a=1&b=2&c=3", "/?a=1", "/?a=1;b=2;c=3"]),
    (Replace((("q:C", "N"),), (("q:C", "D"),)), (), ["/?C=N;O=A", "/?C=N", "/?C=M"]),
    (Replace((("s1", "stable"),), (("s1", "3"),)), (), ["/x/stable/y", "/stable", "/x/stable/"]),
    (Replace((("scheme", "https"),), (("scheme", "http"),)), (), ["/a"]),
    (
        Replace((("q:idx", "{namespace}"),), (("q:do", "index"),), PathText(("w",), ":")),
        (),
        ["/w/a/b/p?idx=a%3Ab", "/w/a/p?idx=a", "/w/a/p?idx=b", "/w/p?idx=a", "/w/a/p?idx=a&do=x"],
    ),
    (
        StripTail("/index.html", "/"),
        (),
        ["/a/index.html", "/index.html", "/a/index.html/"],
    ),
    (StripTail("/page/1/", "/"), (), ["/a/page/1/", "/page/1/page/1/", "/a/page/1"]),
    (StripTail("/amp/", ""), (), ["/a/amp/", "/a/amp/amp/", "/amp/"]),
    (StripSegment((), "en"), (), ["/en/a", "/en/en/a", "/a/en", "/en"]),
    (StripSegment(("x",), "en"), (), ["/x/en/a/", "/en/a"]),
    (PrefixAlias(("docs", "latest"), ("d",)), (), ["/docs/latest/a", "/docs/a", "/docs/latest"]),
    (PrefixAlias(("docs", "latest"), ()), (), ["/docs/latest/a", "/docs/a", "/a"]),
    (
        ParamToPath(("id",), "/doku.php", "/doku.php/{}", ":"),
        (),
        ["/doku.php?id=a:b", "/doku.php?id=a&do=x", "/doku.php/?id=a", "/doku.php?id=a::b"],
    ),
    (
        ParamToPath(("id",), "/story", "/story_{}.html"),
        (),
        ["/story?id=12", "/story?id=a%2Fb", "/story?x=1"],
    ),
    (ParamToPath(separator=":", prefix=("w",)), (), ["/w/a:b/c", "/w/a", "/x/a:b", "/w/a::b"]),
    (CatalogueRule("lowercase-path"), (), ["/A/b", "/a"]),
    (EditValue(("q:t",), "lowercase"), (), ["/?t=Ab", "/?t=B&t=a", "/?u=A"]),
    (EditValue(("s1",), "lowercase-first"), (), ["/a/Ab", "/a/ab", "/a/AB/C", "/A"]),
    (EditValue(("s0", "q:t"), "lowercase-first"), (), ["/?t=AB", "/?t=B&t=a", "/A/A?t=", "/a"]),
    (EditValue(("?",), "strip-suffix", "-1"), (), ["/?thread-12-1", "/?thread-12", "/?thread-1"]),
    (EditValue(("q:x",), "strip-suffix", "-1"), (), ["/?x=a-1", "/?x=a-1-1", "/?x=-1"]),
    (
        EditValue(("s-1",), "strip-suffix", ".html", slash=True),
        (),
        ["/a/b.html", "/a/b.html/", "/.html"],
    ),
    (EditValue(("s0",), "number-before"), (), ["/12-some-words", "/12", "/x-12", "/12-"]),
    (EditValue(("q:t",), "number-after"), (), ["/?t=some-words-12", "/?t=12"]),
    (EditValue(("q:t",), "replace-text", " ", "_"), (), ["/?t=a+b", "/?t=a_b"]),
    (EditValue(("q:a",), "drop-repeats"), (), ["/?a=1&a=1&a=2", "/?a=1"]),
    (CatalogueRule("remove-duplicate-slashes"), (), ["/a//b", "//a", "/a/b//"]),
]


@pytest.mark.parametrize(("op", "context", "paths"), CASES, ids=lambda case: repr(case)[:60])
def test_the_rule_does_what_was_tried(op: Operation, context: Context, paths: list[str]) -> None:
    """A rule of a file, in a normalizer, does to URLs what the operation did in the trials."""
    rule = said("h.example", op, context, evidence_of(Count(9.0, 0, 18), 0.01))
    assert rule is not None
    assert (rule.operation, set(rule.context)) == (op, set(context))
    normalizer = Normalizer("default", site_rules=[rule])
    changed = 0
    for path in paths:
        scheme = "https" if op == Replace((("scheme", "https"),), (("scheme", "http"),)) else "http"
        before = slots(f"{scheme}://h.example{path}")
        image = rule.image(before)
        changed += image is not None
        expected = in_order(image or before)
        assert slots_of(normalizer.normalize(f"{scheme}://h.example{path}")) == expected, path
    assert 0 < changed <= len(paths)


def test_the_order_of_repeated_values_does_not_count() -> None:
    """The hash of ``?a=1&a=2`` is that of ``?a=2&a=1``."""
    hasher = Hasher()
    assert hasher.of({"q:a": f"1{REPEAT}2"}) == hasher.of({"q:a": f"2{REPEAT}1"})


def test_what_no_file_can_hold_is_not_said() -> None:
    """Hosts with odd characters, and text that a file would read as a symbol, make no rule."""
    symbol = Replace((("q:x", "{page}"),))
    evidence = evidence_of(Count(9.0, 0, 18), 0.01)
    assert said("h.example", symbol, (), evidence) is None
    assert said("h example", DropParam(("q:x",)), (), evidence) is None
    assert said("h.example", IgnoreValue(("s0",)), (), evidence) is None


def test_evidence_is_written_into_the_rule() -> None:
    """Support, conflicts and risk go along; no risk is too small to be named."""
    evidence = evidence_of(Count(40.5, 1, 90), 0.0123456, status="proposed", note="why")
    rule = said("h.example", DropParam(("q:sid",)), (Is("host", ("a.h.example",)),), evidence)
    assert rule is not None
    assert (rule.support, rule.conflicts, rule.status, rule.note) == (40, 1, "proposed", "why")
    assert rule.false_merge_upper == 0.0123
    assert rule.when == {"host": "a.h.example"}
    assert evidence_of(Count(40.0, 0, 80), 1e-9).false_merge_upper == 0.0001


def test_an_example_is_text_that_a_file_holds():
    """Half a character in a URL: the rule is learned all the same."""
    rows = [
        Observation(f"http://h.test/\udcff/{n}{query}", 200, f"c{n}")
        for n in range(20)
        for query in ("", f"?v={n}")
    ]
    (rule,) = mine(rows)
    repr(rule).encode()
