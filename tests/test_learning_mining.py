"""Mining whole logs: many sites, poor evidence, hostile rows; and what evaluation counts."""

from __future__ import annotations

import random

import pytest
from log_rows import active, page, taught_by, twins

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.learning import Evaluation, evaluate, mine, survey
from scrapy_urlnorm.learning.corpus import PLAIN
from scrapy_urlnorm.logs import Observation


def test_sites_learn_for_themselves():
    rows = [*twins("a.example", "x"), *twins("b.example", "y"), *twins("www.c.example", "x", 1)]
    assert {(rule.site, rule.param) for rule in active(rows)} == {
        ("a.example", ("x",)),
        ("b.example", ("y",)),
    }


def test_a_site_cannot_speak_for_another():
    """Redirects and canonical links that leave the registrable domain prove nothing."""
    rows = [
        Observation(f"http://evil.example/{n}", 301, location=f"http://victim.example/{n}", mime="")
        for n in range(50)
    ]
    rows += [page(f"http://victim.example/{n}", f"v{n}") for n in range(50)]
    rows += [
        Observation(f"http://evil.example/p{n}", 200, f"v{n}", canonical="http://victim.example/")
        for n in range(50)
    ]
    normalizer = taught_by(rows)
    assert normalizer.normalize("http://evil.example/1") == "http://evil.example/1"
    assert normalizer.normalize("http://victim.example/1") == "http://victim.example/1"


@pytest.mark.parametrize("query", ["", "?x={n}"])
def test_hosts_of_one_domain_do_not_answer_for_each_other(query):
    """A rule that was tried on one host of a domain stays there; one that has it untried, too."""
    rows = twins("blog.a.example", "x")
    rows += [page(f"http://shop.a.example/{n}{query.format(n=n)}", f"s{n}") for n in range(40)]
    normalizer = taught_by(rows)
    assert normalizer.normalize("http://blog.a.example/1?x=9") == "http://blog.a.example/1"
    assert normalizer.normalize("http://shop.a.example/1?x=9") == "http://shop.a.example/1?x=9"


def test_reports_say_what_was_found_and_what_is_missing():
    """A site's report counts, and its proposals say, once, what evidence they lack."""
    rows = [*twins("a.example", "x"), *twins("b.example", "y", 4)]
    first, second = survey(rows)
    assert (first.site, first.urls, first.contents, first.redundant) == ("a.example", 60, 30, 30)
    assert first.merged == 30
    assert [rule.param for rule in first.active] == [("x",)]
    assert not second.active
    (proposed,) = second.proposed
    assert proposed.param == ("y",)
    assert proposed.note == "4 contents agree and none differs; 7 would do"
    assert second.missing == ()
    assert len(proposed.examples) == 3
    normalize = Normalizer("default", site_rules=[proposed.replace(status="active")]).normalize
    assert all(normalize(one) == normalize(other) for one, other in proposed.examples)


def test_what_the_accepted_rules_do_is_not_proposed():
    """A parameter of a set that is dropped already has no proposal of its own."""
    rows = []
    for n in range(20):
        shown = ["", f"?C={'NDMS'[n % 4]}&O={'AD'[n % 2]}", *["?O=A"] * (n < 3)]
        rows += [page(f"http://a.example/d{n}/{query}", f"{n}") for query in shown]
    (rule,) = mine(rows)
    assert (rule.active, rule.param) == (True, ("C", "O"))


# --- what keeps rules from going too far --------------------------------------------------------


def test_one_value_tried_is_not_every_value():
    """``print=1`` shows the page itself; nobody knows about ``print=2``."""
    rows = [page(f"http://a.example/{n}{q}", f"{n}") for n in range(30) for q in ("", "?print=1")]
    normalizer = taught_by(rows)
    assert normalizer.normalize("http://a.example/99?print=1") == "http://a.example/99"
    assert normalizer.normalize("http://a.example/99?print=2") == "http://a.example/99?print=2"


def test_a_rule_stays_with_the_pages_that_were_tried():
    """Where most of its uses are pages of another kind, never compared, it leaves those alone."""
    rows = [
        page(f"http://a.example/item/{n}{query}", f"item {n}")
        for n in range(30)
        for query in ("", f"?x={n % 7}")
    ]
    rows += [page(f"http://a.example/list/{n}/all?x={n}", f"list {n}") for n in range(40)]
    normalizer = taught_by(rows)
    assert normalizer.normalize("http://a.example/item/99?x=1") == "http://a.example/item/99"
    untried = "http://a.example/list/99/all?x=1"
    assert normalizer.normalize(untried) == untried


def test_log_in_redirects_do_not_refute():
    """Many redirects to one page are ignored, for and against."""
    rows = twins("a.example", "x")
    for n in range(40):
        rows.append(page(f"http://a.example/private{n}", f"private {n}"))
        source = f"http://a.example/private{n}?x=1"
        rows.append(Observation(source, 302, location="http://a.example/login"))
    rows.append(page("http://a.example/login", "log in"))
    (report,) = survey(rows)
    assert [(rule.param, rule.when, rule.path) for rule in report.active] == [(("x",), {}, None)]


def test_rules_hold_in_any_order():
    """What an earlier rule took out of sight still counts against a later one."""
    shown = {"": "a", "?C=N&O=A": "a", "?C=D&O=A": "b", "?C=N&O=D": "c", "?C=D&O=D": "c"}
    rows = [
        page(f"http://a.example/d{n}/{query}", f"{n} {content}")
        for n in range(20)
        for query, content in shown.items()
    ]
    result = evaluate(taught_by(rows), rows)
    assert (result.found, result.false_merges) == (1.0, 0)


# --- poor evidence ------------------------------------------------------------------------------


def test_a_list_of_urls_gives_proposals_only():
    """Without contents nothing is active, and what selects content is not even proposed."""
    rows = [
        Observation(f"http://{www}a.example/{n}{query}")
        for n in range(20)
        for www in ("", "www.")
        for query in ("", "?replytocom=1", "?page=2", "?id=3")
    ]
    (report,) = survey(rows)
    assert not report.active
    assert {(rule.kind, rule.param) for rule in report.rules} == {
        ("drop-param", ("replytocom",)),
        ("host-alias", ()),
    }
    assert {rule.source for rule in report.rules} == {"url-list"}
    assert ("http://www.a.example/0", "http://a.example/0") in report.rules[-1].examples
    assert report.missing


def test_canonical_links_alone_give_proposals_only():
    """What pages declare is a claim."""
    rows = [
        Observation(f"http://a.example/{n}?x={x}", 200, canonical=f"http://a.example/{n}")
        for n in range(30)
        for x in range(3)
    ]
    (report,) = survey(rows)
    assert not report.active
    assert [rule.param for rule in report.rules][:1] == [("x",)]
    assert report.rules[0].source == "canonical"


def test_redirects_alone_prove_aliases():
    """Permanent redirects prove host, scheme, slash and index files; the rest is proposed."""
    rows = []
    for n in range(30):
        rows.append(Observation(f"http://www.a.example/{n}", 301, location=f"http://a.example/{n}"))
        target = f"http://a.example/{n}"
        rows.append(Observation(f"{target}?from=mail", 301, location=target))
    (report,) = survey(rows)
    assert [rule.kind for rule in report.active] == ["host-alias"]
    assert report.active[0].source == "redirect"
    assert report.proposed


def test_redirects_that_leave_the_site_are_no_part_of_it():
    """The hosts they lead to neither widen nor narrow the rules."""
    rows = twins("a.example", "x")
    rows += [
        Observation(f"http://a.example/out/{n}", 302, location=f"http://b{n}.other.example/")
        for n in range(5)
    ]
    (report,) = survey(rows)
    assert [(rule.site, rule.when) for rule in report.active] == [("a.example", {})]


# --- hostile logs -------------------------------------------------------------------------------


def hostile():
    """Return logs made to cost time and memory, or to have rules learned that lose pages."""
    rng = random.Random(5)
    return {
        "names without end": [
            page(
                "http://h.example/?" + "&".join(f"{rng.random()}=1" for _ in range(30)), f"{n % 50}"
            )
            for n in range(2_000)
        ],
        "one content everywhere": [
            page(f"http://h.example/{n % 37}/{n}?a={n}&b={n % 5}", "same") for n in range(5_000)
        ],
        "random bytes": [
            page("http://h.example/" + "".join(map(chr, rng.choices(range(1, 900), k=60))), f"{n}")
            for n in range(3_000)
        ],
        "long": [page(f"http://h.example/{'x/' * 32_000}?a={n}", f"{n % 3}") for n in range(40)],
        "many segments": [
            page("http://h.example" + f"/{n}" * 24, f"{n % 9}") for n in range(2_000)
        ],
        "bad URLs": [page(text, "same") for text in ("", "http://", "http://[", "x", "\x00", "//")],
    }


@pytest.mark.parametrize("kind", hostile())
def test_hostile_logs_cost_little_and_teach_nothing(kind):
    assert not active(hostile()[kind])


def test_names_without_end_do_not_hide_what_is_redundant():
    """Parameters that are made up are folded together; others are still learned."""
    rows = twins("h.example", "x", 60)
    rows += [
        page(f"http://h.example/m?n{n}=1&o{n}=2{x}", f"m{n}")
        for n in range(1_500)
        for x in ("", "&x=5")
    ]
    (report,) = survey(rows)
    assert [rule.param for rule in report.active] == [("x",)]
    assert report.merged == report.redundant


# --- evaluation ---------------------------------------------------------------------------------


def test_evaluation_counts():
    """L, D, U and F as defined, lost contents, and shares of them."""
    rows = [
        page("http://a.example/?utm_source=1", "a"),
        page("http://a.example/?utm_source=2", "b"),
        page("http://a.example/", "a"),
        page("http://a.example/x", "c"),
        page("http://a.example/y", "c"),
        page("http://a.example/y", "ignored: fetched before"),
        Observation("http://a.example/z", 404, "d"),
        Observation("http://a.example/i", 200, "e", mime="image/png"),
    ]
    result = evaluate(PLAIN, rows)
    assert result == Evaluation(
        urls=6,
        contents=4,
        keys=4,
        false_merges=1,
        lost=1,
        examples=(("http://a.example/?utm_source=1", "http://a.example/?utm_source=2"),),
    )
    assert (result.merges, result.redundant) == (2, 2)
    assert result.found == 0.5
    assert result.false_merge_rate == 0.5
    assert result.false_merge_upper == pytest.approx(0.975, abs=0.01)
    assert result.reduction == result.ceiling == pytest.approx(1 / 3)
    assert result.as_dict()["found"] == 0.5


def test_evaluation_of_nothing():
    result = evaluate(PLAIN, [])
    assert (result.found, result.false_merge_rate, result.reduction, result.ceiling) == (0, 0, 0, 0)
