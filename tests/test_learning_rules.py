"""Slots, hashes, and that a rule file holds what was learned."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from site_rule_cases import CASES, path_and_query

from scrapy_urlnorm import Normalizer, SiteRule
from scrapy_urlnorm.learning import mine
from scrapy_urlnorm.learning.corpus import Hasher, in_order, slots_of
from scrapy_urlnorm.learning.rules import evidence_of, said, settle
from scrapy_urlnorm.learning.trials import Count
from scrapy_urlnorm.logs import Observation
from scrapy_urlnorm.site_rules.context import Is
from scrapy_urlnorm.site_rules.form import REPEAT, without
from scrapy_urlnorm.site_rules.operations import DropParam, IgnoreValue, Replace

PLAIN = Normalizer("default")
WITNESSES = Count(9.0, 0, 18)


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


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case[0]))
def test_the_rule_does_what_was_tried(case: tuple[SiteRule, dict[str, str], list[str]]) -> None:
    """A rule of a file, in a normalizer, does to URLs what the operation did in the trials."""
    tried, changed, kept = case
    rule = said("shop.example", tried.operation, tried.context, evidence_of(WITNESSES, 0.01))
    assert rule is not None
    assert (rule.operation, set(rule.context)) == (tried.operation, set(tried.context))
    normalize = Normalizer("default", site_rules=[rule]).normalize
    for url in map(path_and_query, (*changed, *kept)):
        before = slots_of(PLAIN.normalize(url))
        assert slots_of(normalize(url)) == (before and in_order(settle(before, [rule]))), url


def test_the_order_of_repeated_values_does_not_count() -> None:
    """The hash of ``?a=1&a=2`` is that of ``?a=2&a=1``."""
    hasher = Hasher()
    assert hasher.of({"q:a": f"1{REPEAT}2"}) == hasher.of({"q:a": f"2{REPEAT}1"})


def test_what_no_file_can_hold_is_not_said() -> None:
    """Hosts with odd characters, and text that a file would read as a symbol, make no rule."""
    symbol = Replace((("q:x", "{page}"),))
    evidence = evidence_of(WITNESSES, 0.01)
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
