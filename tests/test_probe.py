"""The decision about a proposed rule: pairs, and a test with a bound on its error."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from functools import cache
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy.http import HtmlResponse

from scrapy_urlnorm.crawl.probe import ProbeSpider
from scrapy_urlnorm.learning.probe import MOST_PAIRS, Pair, Probe, fitted, probes_for
from scrapy_urlnorm.logs import Observation
from scrapy_urlnorm.site_rules import SiteRule

DROP = SiteRule(site="*.shop.test", kind="drop-param", param="colour", status="proposed", note="2")
PAIR = Pair("http://shop.test/a?colour=1", "http://shop.test/a")


def first_request(spider):
    """The one request that a spider of one site begins with."""
    return asyncio.run(anext(spider.start()))


@pytest.mark.parametrize(
    ("contents", "outcome"),
    [
        ("aa", "agrees"),
        ("abab", "differs"),
        ("abac", "changes"),
        ("abb", "changes"),
        ("abc", "changes"),
        ("!", "changes"),
        ("a!", "changes"),
        ("ab-", "changes"),
    ],
)
def test_what_the_fetches_of_a_pair_say(contents, outcome):
    test = Probe(DROP, [PAIR])
    requests = [first_request(ProbeSpider([test]))]
    for number, content in enumerate(contents):
        (request,) = requests
        assert request.url == PAIR[number % 2]
        page = HtmlResponse(
            request.url, 500 if content == "!" else 200, body=b"<p>this is page %a</p>" % content
        )
        if content == "-":
            failure = SimpleNamespace(request=request)
            requests = list(request.errback(failure))
        else:
            requests = list(request.callback(page, **request.cb_kwargs))
    assert requests == []
    assert test.fetches == len(contents)
    found = {"agrees": len(test.agreed), "differs": len(test.differed), "changes": test.silent}
    assert found == {name: name == outcome for name in found}


def probe(pairs=MOST_PAIRS, **options):
    """One with so many pairs."""
    return Probe(DROP, [Pair(f"http://shop.test/{n}?colour=1", f"http://shop.test/{n}") for n in range(pairs)], **options)  # fmt: skip


def run(test, outcomes):
    """Tell it *outcomes*, one for each pair that it asks for; how many those were."""
    for number, outcome in enumerate(outcomes):
        pair = test.next_pair()
        if pair is None:
            return number
        if outcome == "=":
            test.agree(number)
        elif outcome == "#":
            test.agree("one page for all")
        elif outcome == "!":
            test.differed.append(pair)
        else:
            test.silent += 1
    return len(outcomes)


@pytest.mark.parametrize(
    ("pairs", "outcomes", "status", "asked"),
    [
        (80, "=" * 80, "active", 31),
        (80, "!!" + "=" * 78, "rejected", 2),
        (80, "=" * 10 + "!!" + "=" * 68, "rejected", 12),
        (80, "!" + "=" * 79, "proposed", 32),
        (80, "=" * 30 + "." * 50, "proposed", 60),
        (80, "." * 80, "proposed", 10),
        (80, "#" * 80, "proposed", 11),  # one content has one vote
        (80, ("=" * 14 + "!") * 6, "proposed", 30),  # one in fifteen: neither right nor wrong
        (30, "=" * 30, "active", 30),  # there are no more pairs, and all agree
        (7, "=" * 7, "active", 7),
        (6, "=" * 6, "proposed", 6),  # the miner's test wants seven of such a parameter
        (12, "=" * 11 + "!", "proposed", 12),
        (12, "=" * 8 + "....", "active", 12),
        (12, "=" * 6 + "......", "proposed", 12),
        (1, "!", "proposed", 1),
        (0, "", "proposed", 0),
    ],
)
def test_a_rule_is_decided_beyond_doubt_or_stays_proposed(pairs, outcomes, status, asked):
    test = probe(pairs)
    assert run(test, outcomes) == asked
    assert test.status == status
    assert test.decided().status == status


@pytest.mark.parametrize(
    ("pairs", "options", "status"),
    [
        (20, {"is_complete": False}, "proposed"),  # pairs that were left out might differ
        (8, {"limit": 0.02}, "active"),
        (8, {"limit": 0.006}, "proposed"),
    ],
)
def test_where_pairs_run_out_the_limit_of_the_miner_holds(pairs, options, status):
    test = probe(pairs, **options)
    run(test, "=" * pairs)
    assert test.status == status


def test_the_evidence_stands_in_the_rule():
    test = probe()
    run(test, "=" * 31)
    rule = test.decided()
    assert (rule.source, rule.support, rule.conflicts) == ("content", 31, 0)
    assert rule.false_merge_upper < 0.01
    assert rule.note == "probed: 31 contents agree, 0 pairs differ, 0 say nothing"
    test = probe()
    run(test, "!!")
    assert test.decided().examples == tuple(map(tuple, test.pairs[:2]))
    test = probe(3)
    run(test, "=.=")
    assert test.decided().note == "probed: 2 contents agree, 0 pairs differ, 1 say nothing; 2"


@cache
def decision(agreed, differed):
    """What a rule is after so many pairs of either kind; ``None`` if it asks for one more."""
    test = Probe(DROP, [PAIR] * MOST_PAIRS, is_complete=False)
    for number in range(agreed):
        test.agree(number)
    for _ in range(differed):
        test.differed.append(PAIR)
    return test.status if test.next_pair() is None else None


def chances(share):
    """The probabilities that a rule is accepted or refuted of whose pairs this share differs.

    Exact: all ways through the numbers of pairs that agree and that differ.
    """
    here, ends = {(0, 0): 1.0}, defaultdict(float)
    for _ in range(MOST_PAIRS):
        after = defaultdict(float)
        for (agreed, differed), chance in here.items():
            for counts, weight in (
                ((agreed + 1, differed), 1 - share),
                ((agreed, differed + 1), share),
            ):
                status = decision(*counts)
                (after if status is None else ends)[status or counts] += chance * weight
        here = after
    return ends


def test_the_error_is_bounded():
    for share in (0.10, 0.15, 0.3, 0.9):
        assert chances(share)["active"] <= 0.04
    for share in (0.0, 0.001, 0.01):
        assert chances(share)["rejected"] <= 0.03
    assert chances(0.3)["active"] < 1e-4
    assert chances(0.0)["active"] == pytest.approx(1)


@given(st.text("=#!.", max_size=100), st.integers(0, 80))
def test_it_ends_whatever_happens(outcomes, pairs):
    test = probe(pairs)
    asked = run(test, outcomes)
    assert asked <= pairs or asked == len(outcomes)
    if test.status == "active":
        assert len(test.agreed) > 5
        assert test.differed == []
    if test.status == "rejected":
        assert len(test.differed) >= 2


# --- pairs ------------------------------------------------------------------------------------


def row(url, content=None):
    """A page of a log."""
    return Observation(url, 200, content, mime="text/html")


def pairs_of(rule, *rows):
    """The pairs of one rule."""
    (found,) = probes_for([rule], rows)
    return found.pairs


def test_pairs_that_the_log_calls_different_come_first():
    base = "http://shop.test/"
    pairs = pairs_of(
        DROP,
        row(base + "one?colour=1", "a"),
        row(base + "one?x=1", "a"),
        row(base + "two?colour=1", "b"),
        row(base + "two?colour=2", "b"),
        row(base + "two?colour=3", "b"),
        row(base + "bad?colour=1", "c"),
        row(base + "bad?colour=2", "c"),
        row(base + "bad?colour=3", "d"),
    )
    assert pairs[0] == (base + "bad?colour=1", base + "bad?colour=3")
    assert pairs[1] == (base + "two?colour=1", base + "two?colour=2")
    assert set(pairs[2:]) == {(base + f"{n}?colour=1", base + n) for n in ("one", "two", "bad")}


def test_a_key_that_nobody_can_fetch_is_no_twin():
    rule = SiteRule(site="shop.test", kind="ignore-value", slots=["s1"], status="proposed")
    base = "http://shop.test/thing/"
    assert pairs_of(rule, row(base + "a"), row(base + "a")) == []
    assert pairs_of(rule, row(base + "a"), row(base + "b")) == [(base + "a", base + "b")]


def test_only_proposed_rules_of_the_site_get_pairs():
    active = SiteRule(site="shop.test", kind="drop-param", param="x")
    (found,) = probes_for(
        [active, DROP],
        [
            Observation("http://shop.test/gone?colour=1", 404),
            row("http://other.test/a?colour=1"),
            row("http://www.shop.test/a?colour=1"),
        ],
    )
    assert found.rule is DROP
    assert found.pairs == [("http://www.shop.test/a?colour=1", "http://www.shop.test/a")]


def test_of_many_urls_a_sample_is_kept():
    rows = [row(f"http://shop.test/{n}?colour=1") for n in range(4_100)]
    (one,) = probes_for([DROP], rows)
    (other,) = probes_for([DROP], rows[::-1])
    assert one.pairs == other.pairs
    assert len(one.pairs) == MOST_PAIRS
    assert not one.is_complete


# --- beside the rules that are active ---------------------------------------------------------


def test_a_rule_that_hides_another_one_stays_proposed():
    form = {"rest": "/show?id=1"}
    active = SiteRule(site="shop.test", kind="ignore-value", slots=["q:sid"], when=form)
    holds = SiteRule(site="shop.test", kind="prefix-alias", prefix="/show", by="/view")
    harmless = SiteRule(site="shop.test", kind="drop-param", param="colour")
    refuted = harmless.replace(status="rejected")
    rows = [row(f"http://shop.test/show?id=1&sid={n}", "one") for n in range(20)]
    rows += [row(f"http://shop.test/list?colour={n}", "two") for n in range(20)]
    found = fitted([holds, refuted, harmless], [active], rows)
    assert [rule.status for rule in found] == ["proposed", "rejected", "active"]
    assert "find less beside it" in found[0].note


def test_a_rule_that_merges_what_the_log_tells_apart_stays_proposed():
    rule = SiteRule(site="shop.test", kind="drop-param", param="colour")
    rows = [row(f"http://shop.test/?colour={n}", str(n)) for n in range(3)]
    assert [found.status for found in fitted([rule], [], rows)] == ["proposed"]
    rows = [row(f"http://shop.test/?colour={n}", "one") for n in range(3)]
    assert [found.status for found in fitted([rule], [], rows)] == ["active"]
