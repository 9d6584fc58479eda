"""Rules in force: what mining does with rules that a crawl has accepted before."""

from __future__ import annotations

import random
from functools import partial

import pytest
from log_rows import active, corpus_of

from scrapy_urlnorm.learning import mine, survey
from scrapy_urlnorm.learning.miner import Miner
from scrapy_urlnorm.learning.risk import Limits
from scrapy_urlnorm.learning.rules import has_grown, joined, says
from scrapy_urlnorm.logs import Observation
from scrapy_urlnorm.site_rules import SiteRule
from scrapy_urlnorm.site_rules.context import No


def rule(site="h.example", support=9, **operands):
    """A rule that drops ``vx``, or another."""
    operands = {"kind": "drop-param", "param": "vx"} | operands
    return SiteRule(site=site, source="content", support=support, **operands)


def page(path, content):
    return Observation(f"http://h.example{path}", 200, content, mime="text/html")


def pages(count):
    """Pages that say nothing else with a parameter than without."""
    for number in range(count):
        yield page(f"/p{number}", f"page {number}")
        yield page(f"/p{number}?vx={number}", f"page {number}")


def table(*ranges, **operands):
    """A rule that knows the pages of posts."""
    operands |= {"kind": "range-alias", "slots": "q:post", "ranges": list(ranges)}
    return SiteRule(site="h.example", source="content", support=9, **operands)


def names(*classes, **operands):
    """A rule that knows the names of revisions."""
    operands = {"kind": "value-alias", "slots": "q:h", "values": list(classes)} | operands
    return SiteRule(site="h.example", source="content", support=9, **operands)


IN_A = {"when": {"segments": {"0": "a"}}}
IN_A_B = {"when": {"segments": {"0": ["a", "b"]}}}
#: Two rules, and whether the first says all that the second says.
SAYS = {
    "the same": (rule(), rule(), True),
    "without a condition": (rule(), rule(**IN_A), True),
    "with a condition": (rule(**IN_A), rule(), False),
    "for more values": (rule(**IN_A_B), rule(**IN_A), True),
    "for fewer values": (rule(**IN_A), rule(**IN_A_B), False),
    "for all hosts": (rule("*.h.example"), rule("www.h.example"), True),
    "for the domain": (rule("*.h.example"), rule("h.example"), True),
    "for one host": (rule("www.h.example"), rule("*.h.example"), False),
    "for another site": (rule("*.h.example"), rule("oh.example"), False),
    "another operation": (rule(), rule(param=("vx", "x"), **IN_A), False),
    "another condition": (rule(**IN_A), rule(path="/b/*"), False),
}


@pytest.mark.parametrize("name", SAYS)
def test_what_a_rule_says(name):
    """The same operation, under conditions that hold wherever those of the other do."""
    wider, narrower, expected = SAYS[name]
    assert says(wider, narrower) is expected


HEAD = partial(SiteRule, site="h.example", kind="drop-default", default={"h": "HEAD"})
JOINED = {
    "nothing": ([], [], {}, []),
    "what is in force stays": ([rule()], [], {}, [rule()]),
    "what was found comes": ([], [rule()], {}, [rule()]),
    "those in force are first": (
        [rule(param="z")],
        [rule(param="a")],
        {},
        [rule(param="z"), rule(param="a")],
    ),
    "the larger support, found": ([rule(support=3)], [rule(support=5)], {}, [rule(support=5)]),
    "the larger support, known": ([rule(support=5)], [rule(support=3)], {}, [rule(support=5)]),
    "a wider one takes its place": ([rule(**IN_A)], [rule()], {}, [rule()]),
    "a narrower one is not needed": ([rule()], [rule(**IN_A)], {}, [rule()]),
    "of three, the widest": ([rule(**IN_A)], [rule(**IN_A_B), rule()], {}, [rule()]),
    "nothing is left out offline": ([], [rule(), rule(**IN_A)], {}, [rule(), rule(**IN_A)]),
    "a refuted rule": ([], [rule(support=49)], {rule().identity: 50}, []),
    "a refuted rule, well proved": (
        [],
        [rule(support=50)],
        {rule().identity: 50},
        [rule(support=50)],
    ),
    "what says a refuted rule": ([], [rule(support=49)], {rule(**IN_A).identity: 50}, []),
    "less than a refuted rule": ([], [rule(**IN_A)], {rule().identity: 50}, [rule(**IN_A)]),
    "a refuted rule in force": ([rule()], [], {rule().identity: 50}, []),
    "an exchange in another context": ([], [HEAD(support=49, **IN_A)], {HEAD().identity: 50}, []),
    "another table of a refuted one": (
        [],
        [table("/t?post={} 1-3")],
        {table("/t?post={} 1-5").identity: 50},
        [],
    ),
    "a name that is no rule": ([rule()], [], {"U#comment-": 50, "{}": 50, "[1]": 1}, [rule()]),
}


@pytest.mark.parametrize("name", JOINED)
def test_joined(name):
    """In which order, with which evidence, and what is left out."""
    accepted, found, banned, expected = JOINED[name]
    assert joined(accepted, found, banned) == expected


def test_a_rule_stays_when_the_log_proves_it_no_more():
    """What it withholds is not in the log: three pages would not be enough to learn it."""
    known = mine(pages(20))
    assert [each.param for each in known] == [("vx",)]
    assert not active(pages(3))
    assert active(pages(3), accepted=known) == known
    assert mine([page("/", "home")], accepted=known) == known
    declared = [Observation("http://h.example/a", 200, None, mime="text/html")] * 2
    assert mine(declared, accepted=known) == known


def test_a_rule_that_merges_what_differs_goes():
    """The last audit of mining is for rules in force, too."""
    known = mine(pages(20))
    refuting = [page(f"/q{n}{tail}", f"{n} {tail}") for n in range(3) for tail in ("", "?vx=1")]
    assert not active(refuting, accepted=known)


def test_rules_of_other_sites_are_left_alone():
    """Each site has its own; one without rows is not reported on."""
    known = [rule(), rule("*.b.example")]
    (report,) = survey(pages(3), accepted=known)
    assert report.active == (known[0],)


IGNORED = SiteRule(site="h.example", kind="ignore-value", slots="q:vx", support=9)
#: Rules in force, and the rounds that the miner needs to learn that one parameter means nothing.
IN_FORCE = {
    "nothing": ([], 2),
    "all that there is": ([rule()], 1),
    "for another host": ([rule("www.h.example")], 2),
    "in a place that is too small": ([rule(path="/p1")], 2),
    "what destroys values": ([IGNORED], 2),
}


@pytest.mark.parametrize("name", IN_FORCE)
def test_a_rule_in_force_takes_no_round(monkeypatch, name):
    """The miner begins with it, and has one round to find that there is no more."""
    known, expected = IN_FORCE[name]
    whole, done = Miner._round, []
    monkeypatch.setattr(Miner, "_round", lambda *of: done.append(of) or whole(*of))
    assert rule().identity in {each.identity for each in mine(pages(20), accepted=known)}
    assert len(done) == expected


def test_a_miner_begins_with_no_rule_that_its_items_refute():
    """Else they would be one item by then, and say nothing against it."""
    lists = (page(f"/p{n}?list=1{v}", f"{n}{v}") for n in range(9) for v in ("", "&vx=1", "&vx=2"))
    corpus = corpus_of([*pages(40), *lists])
    miner = Miner(corpus.items, corpus.hasher, Limits(), "h.example", in_force=[rule()])
    (found,) = miner.run()
    assert found.context == (No("q:list"),)


@pytest.mark.parametrize("wary", [False, True])
def test_no_order_of_rows_matters(wary):
    """A crawl brings rows in any order."""
    rows = [*pages(30), *(page(f"/l?page={n}&vx=1", f"list {n}") for n in range(9))]
    known = [rule(param="x", support=4), rule(path="/p1")]
    expected = mine(rows, accepted=known, wary=wary)
    for seed in range(5):
        random.Random(seed).shuffle(rows)
        assert mine(rows, accepted=known, wary=wary) == expected


@pytest.mark.parametrize(
    ("later", "before", "is_longer"),
    [
        (names("q:h=a q:h=b q:h=c"), names("q:h=a q:h=b"), True),
        (names("- q:h=a q:h=b", "q:h=d q:h=e"), names("q:h=a q:h=b"), True),
        (names("q:h=a q:h=b q:h=c q:h=d"), names("q:h=a q:h=b", "q:h=c q:h=d"), True),
        (names("q:h=a q:h=b", "q:h=c q:h=d"), names("q:h=a q:h=b q:h=c q:h=d"), False),
        (names("q:h=a q:h=b"), names("q:h=a q:h=c"), False),
        (names("q:h=a q:h=b"), names("q:h=a q:h=b", slots="q:i", values=["q:i=a q:i=b"]), False),
        (table("/t?post={} 1-9"), table("/t?post={} 1-5"), True),
        (table("/t?post={} 1-5", "/u?post={} 1-5"), table("/t?post={} 1-5"), True),
        (table("/t?post={} -9", by=""), table("/t?post={} -5", by=""), True),
        (table("/t?post={} 1-5"), table("/t?post={} 1-9"), False),
        (table("/t?post={} 1-5 6-9"), table("/t?post={} 1-9"), False),
        (table("/t?post={} 1-9", **IN_A), table("/t?post={} 1-5"), False),
        (rule(), rule(**IN_A), False),
        (
            rule(when={"among": {"vx": ["1", "2", "3"]}}),
            rule(when={"among": {"vx": ["2", "1"]}}),
            True,
        ),
        (rule(when={"among": {"vx": ["1", "2"]}}), rule(when={"among": {"vx": ["1", "3"]}}), False),
        (rule(when={"among": {"vx": ["1", "2"]}}), rule(when={"params": {"vx": "1"}}), False),
        (rule(), rule(when={"among": {"vx": ["1", "2"]}}), False),
    ],
)
def test_a_rule_that_grows_is_the_same_rule(later, before, is_longer):
    """It says of the pages that were known what was said before; a wider rule says more."""
    assert has_grown(later, before) is is_longer
