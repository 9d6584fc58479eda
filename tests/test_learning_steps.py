"""The arithmetic of evidence, the steps of learning one rule, and what a rule file holds of it."""

from __future__ import annotations

from itertools import combinations
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_rows import HOST, active, corpus_of, merged, page
from site_rule_cases import CASES, path_and_query

from scrapy_urlnorm import Normalizer, SiteRule
from scrapy_urlnorm.learning import mine
from scrapy_urlnorm.learning.candidates import Candidates
from scrapy_urlnorm.learning.corpus import PLAIN, Hasher, Vocabulary, in_order, slots_of
from scrapy_urlnorm.learning.cover import cover
from scrapy_urlnorm.learning.priors import prior
from scrapy_urlnorm.learning.risk import (
    Limits,
    accepted,
    by_chance,
    risk,
    support_needed,
    upper_bound,
    wrong,
)
from scrapy_urlnorm.learning.rules import evidence_of, said, settle
from scrapy_urlnorm.learning.trials import Count, count, trials_of
from scrapy_urlnorm.logs import Observation
from scrapy_urlnorm.site_rules.context import Is
from scrapy_urlnorm.site_rules.form import REPEAT, without
from scrapy_urlnorm.site_rules.operations import DropParam, IgnoreValue, Replace


def forum():
    """Yield the log of the example: ``pos`` means nothing on a topic, and a part of a list."""
    for n in range(1, 13):
        yield page(f"http://forum.example/topic/{n}", f"topic {n}")
        yield page(f"http://forum.example/topic/{n}?pos={n % 4}", f"topic {n}")
    for n in range(1, 6):
        yield page(f"http://forum.example/forum/{n}", f"forum {n}")
        for part in range(1, 4):
            yield page(f"http://forum.example/forum/{n}?pos={part}", f"forum {n}, {part}")


def test_the_steps_of_one_rule():
    """All numbers of the example are those of the learner."""
    rows = list(forum())
    assert len(rows) == 44
    corpus = corpus_of(rows)
    vocabulary = Vocabulary(corpus.items)
    assert Candidates(corpus, vocabulary).sets == [("q:pos",)]
    op = DropParam(("q:pos",))
    trials = trials_of(op, corpus)
    assert (len(trials), sum(trial.bad > 0 for trial in trials)) == (22, 10)
    assert count(trials)[:2] == (12.0, 25)
    (found,) = cover(op, trials, vocabulary, Limits())
    assert found.context == (Is("s0", ("topic",)),)
    assert round(1 / by_chance(22, 10, 12)) == 646_646
    assert (prior(op), round(prior(op, found.context), 2)) == (0.4, 0.27)
    assert support_needed(prior(op, found.context), Limits().risk) == 9
    (rule,) = mine(rows)
    expected = SiteRule(
        site="forum.example", kind="drop-param", param="pos", when={"segments": {"0": "topic"}}
    )
    assert rule.identity == expected.identity
    assert (rule.support, rule.conflicts, rule.false_merge_upper) == (12, 0, 0.0127)


@pytest.mark.parametrize(
    ("one", "other", "edit"),
    [
        ("Main+Page_{}", "Main_Page_{}", "replace-text"),
        ("{}-any-words", "{}-others", "number-before"),
        ("any-words-{}", "others-{}", "number-after"),
        ("topic-{}-any-words", "topic-{}-others", "cut-after"),
        ("red,blue,x{}", "blue,x{},red", "sort-parts"),
        ("2026-11-01T06:{}", "2026-11-01T05:{}", None),
        ("0{}", "{}", "leading-zeros"),
    ],
)
def test_edits_of_titles_are_learned(one, other, edit):
    """A wiki's blanks are underscores; of ``12-any-words`` a shop reads the number."""
    rows = [
        page(f"http://a.example/w?title={text.format(100 + n)}", f"{n}")
        for n in range(20)
        for text in (one, other)
    ]
    found = {rule.edit for rule in active(rows)}
    assert edit in found if edit else not found


WORDS = ["".join(chr(ord("a") + int(digit)) for digit in str(n)) for n in range(60)]


@pytest.mark.parametrize(
    ("paths", "kinds"),
    [
        (("/q/{n}", "/q/{n}/title-{word}"), {"drop-segment"}),
        (("/q/{n}/title-{word}", "/q/{n}/other-{word}"), {"ignore-value"}),
        (("/q/{n}", "/q/{n}/title-{word}", "/q/{n}/other-{word}"), {"drop-segment"}),
        (("/{folder}/{n}", "/{folder}/{n}/title-{word}"), {"drop-segment"}),
        (("/q/any-words-{word}", "/q/any+words+{word}"), {"edit-value"}),
        (("/q?w=red+{word}+", "/q?w=red+{word}"), {"edit-value"}),
        (("/t/title-{word}/{n}", "/t/other-{word}/{n}"), {"ignore-value"}),
        (("/title-{word}/dp/{n}", "/other-{word}/dp/{n}"), {"ignore-value"}),
        (("/dp/{n}", "/title-{word}/dp/{n}", "/other-{word}/dp/{n}"), {"drop-segment"}),
        (("/{folder}/some-title-{n}.html", "/{folder}/other-{n}.html"), {"edit-value"}),
        (("/q/{n}/red", "/q/{n}/blue", "/q/{n}/grey"), {"replace"}),  # no titles
    ],
)
def test_titles_in_paths_mean_nothing(paths, kinds):
    """As https://stackoverflow.com/questions/4 shows what comes with any title behind it.

    A title has several words: one alone may be a view, as ``/edit``.
    """
    rows = [
        page(HOST + path.format(n=n, folder=("tea", "ink")[n % 2], word=word), f"{n}")
        for n, word in enumerate(WORDS)
        for path in paths
    ]
    assert {rule.kind for rule in active(rows)} == kinds
    views = [
        path.format(n=n) for path in ("/q/{n}/edit", "/t/{n}", "/edit/dp/{n}") for n in range(9)
    ]
    for known in (rows, rows + [page(HOST + view, view) for view in views]):
        normalize = Normalizer("default", site_rules=active(known)).normalize
        assert len({normalize(row.url) for row in known}) == len({row.content for row in known})


def _listed(*folders, others=""):
    """Learn from 60 goods, each listed in three of some folders, and from a few *others*."""
    urls = {
        f"{folders[(n + k) % len(folders)]}/a-title-{WORDS[n]}": f"{n}"
        for n in range(60)
        for k in range(3)
    }
    urls |= {others.format(WORDS[n]): f"other {n}" for n in range(9) if others}
    return active(page(f"http://a.example/{u}", c) for u, c in urls.items())


def test_folders_before_a_title_mean_nothing():
    """As in a shop that lists its goods in several: one rule says so, and not one for each."""
    (rule,) = _listed(*WORDS[:20])
    assert (rule.kind, rule.operation.names) == ("drop-segment", ("s0",))
    assert merged([rule], "/b/a-title-x", "/new/a-title-x")
    assert not merged([rule], "/b/edit", "/c/edit")


def test_one_rule_says_it_where_goods_stand_in_no_folder_too():
    goods = [(f"{n}", word) for n, word in enumerate(WORDS)]
    urls = [(f"{f}a-title-{w}", c) for c, w in goods for f in ("", f"cat-{WORDS[int(c) % 12]}/")]
    urls += [(f"cat-{WORDS[n % 12]}/b-title-{w}", f"b{n}") for n, w in enumerate(WORDS)]
    urls += [(f"b-title-{w}", f"b{n}") for n, w in enumerate(WORDS)]
    rules = active(page(f"http://a.example/{u}", c) for u, c in urls)
    assert [rule.operation.names for rule in rules] == [("s0",)]


def test_folders_with_other_pages_of_a_title_mean_something():
    assert not merged(
        _listed(*WORDS[:20], others="faq/a-title-{}"), "/faq/a-title-a", "/b/a-title-a"
    )


def test_folders_that_nobody_compared_are_left_alone():
    """They have titles of their own."""
    rules = _listed(*WORDS[:4], others="x{0}/own-title-{0}")
    assert merged(rules, "/b/a-title-x", "/c/a-title-x")
    assert not merged(rules, "/b/a-title-x", "/xb/a-title-x")


def test_versions_are_no_folders_that_mean_nothing():
    """One that nobody has seen may have pages of its own."""
    assert not merged(_listed("py/3.11", "py/3", "py/latest"), "/py/3/a-title-x", "/py/4/a-title-x")


def test_a_form_of_four_empty_fields_is_none():
    rows = [
        page(f"http://a.example/find?q={n}{more}", f"{n}")
        for n in range(30)
        for more in ("", "&a=&b=&c=&d=1")
    ]
    assert merged(active(rows), "/find?q=x", "/find?q=x&a=&b=&c=&d=1")


def test_a_few_versions_are_no_titles():
    """However many values the same segment has in other sections."""
    rows = [page(f"http://a.example/q/{n}/{n}x", f"q{n}") for n in range(300)]
    rows += [page(f"http://a.example/docs/{v}.0/{n}", f"{n}") for n in range(60) for v in (3, 4)]
    assert "ignore-value" not in {rule.kind for rule in active(rows)}


@pytest.mark.parametrize(
    ("one", "other", "edit"),
    [
        ("2026-11-{:02}T06:00:00Z", "2026-11-{:02}T00:00:00Z", "cut-after"),
        ("2026-11-{:02}", "2026-11-{:02}T00:00:00Z", "cut-after"),
        ("2026-11-{:02}T16:35:00%2B02:00", "2026-11-{:02}T07:35:00-07:00", "utc"),
        ("2026-11-{:02}T16:35:00+02:00", "2026-11-{:02}T14:35:00Z", "utc"),
    ],
)
def test_a_time_is_its_day_or_its_instant(one, other, edit):
    """What is learned of 20 days holds for another; ten hours of one day that differ refute it."""
    rows = [
        page(f"http://a.example/w?from={text.format(n)}", f"{n}")
        for n in range(1, 21)
        for text in (one, other)
    ]
    rules = active(rows)
    assert [rule.edit for rule in rules] == [edit]
    assert merged(rules, *(f"/w?from={text.format(29)}" for text in (one, other)))
    hours = [
        page(f"http://a.example/w?from=2026-11-{day:02}T{n:02}:00:00Z", f"{day} {n}")
        for day in range(1, 11)
        for n in range(10)
    ]
    assert "cut-after" not in {rule.edit for rule in active(rows + hours)}


def test_the_end_of_a_version_is_no_suffix():
    """Where ``/2.7.11/`` is ``/2.7/`` on 40 pages, ``/3.2.11/`` need not be ``/3.2/``."""
    rules = mine(
        page(f"http://a.example/python/{version}/page{n}", f"{n}")
        for n in range(40)
        for version in ("2.7", "2.7.11")
    )
    assert merged(rules, "/python/2.7.11/new", "/python/2.7/new")
    assert not merged(rules, "/python/3.2.11/page1", "/python/3.2/page1")


@pytest.mark.parametrize(
    ("prior", "needed"), [(0.95, 2), (0.5, 6), (0.4, 7), (0.3, 9), (0.15, 13), (0.08, 18)]
)
def test_support_needed(prior, needed):
    """The likelier an operation is beforehand, the fewer clean witnesses it needs."""
    assert support_needed(prior, 0.02) == needed


def test_a_conflict_outweighs_many_witnesses():
    assert accepted(6, 0, 0.5, 0.02)
    assert not accepted(6, 1, 0.95, 0.02)
    assert not accepted(200, 8, 0.95, 0.02)


def test_risk_rises_with_conflicts():
    failing = [risk(30, k, 0.3) for k in range(10)]
    assert failing == sorted(failing)
    assert wrong(30, 10, 0.3) > 0.99


@pytest.mark.parametrize("prior", [0.08, 0.15, 0.3, 0.4, 0.5, 0.8, 0.95])
def test_more_support_never_refuses(prior):
    first = support_needed(prior, 0.02)
    sizes = [*range(first, 8_000), *range(8_000, 200_001, 250)]
    assert [n for n in sizes if not accepted(n, 0, prior, 0.02)] == []
    risks = [risk(n, 0, prior) for n in sizes]
    assert risks == sorted(risks, reverse=True)


def test_noise_is_tolerated_only_as_far_as_it_was_told():
    """A handful of conflicts in a thousand is noise at one per cent, not at a thousandth."""
    assert Limits(noise=0.01).tolerates(10, 1_000)
    assert not Limits(noise=0.001).tolerates(10, 1_000)
    assert not Limits(noise=0).tolerates(1, 1_000_000)


@pytest.mark.parametrize(
    ("total", "failures", "chosen"), [(8, 2, 3), (9, 1, 5), (7, 3, 4), (10, 0, 5), (10, 6, 5)]
)
def test_by_chance_is_the_hypergeometric_distribution(total, failures, chosen):
    avoiding = sum(
        not set(choice) & set(range(failures)) for choice in combinations(range(total), chosen)
    )
    assert by_chance(total, failures, chosen) == pytest.approx(avoiding / comb(total, chosen))


@pytest.mark.parametrize(
    ("failures", "trials", "bound"),
    [(0, 299, 0.01), (0, 59, 0.05), (1, 474, 0.01), (2, 630, 0.01), (5, 1051, 0.01)],
)
def test_upper_bound(failures, trials, bound):
    """The Clopper-Pearson bounds that tables give for 95 %."""
    assert upper_bound(failures, trials) == pytest.approx(bound, rel=0.01)


def test_upper_bound_without_evidence_is_one():
    assert upper_bound(0, 0) == 1
    assert upper_bound(3, 3) == 1


WITNESSES = Count(9.0, 0, 18)


def slots(url):
    found = slots_of(PLAIN.normalize(url))
    assert found is not None
    return found


def test_slots_of_a_url():
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


@pytest.mark.parametrize("url", ["mailto:a@b.example", "http://h.example/" + "a" * 9999])
def test_what_has_no_slots(url):
    assert slots_of(PLAIN.normalize(url)) is None


@given(
    st.dictionaries(st.sampled_from(["s0", "q:a", "q:b", "q:c", "slash"]), st.text(max_size=3)),
    st.sets(st.sampled_from(["s0", "q:a", "q:b", "q:c", "slash"])),
)
def test_hash_of_what_is_left(known, gone):
    hasher = Hasher()
    assert hasher.moved(hasher.of(known), known, gone) == hasher.of(without(known, gone))


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case[0]))
def test_the_rule_does_what_was_tried(case):
    """A rule of a file, in a normalizer, does to URLs what the operation did in the trials."""
    tried, changed, kept = case
    rule = said("shop.example", tried.operation, tried.context, evidence_of(WITNESSES, 0.01))
    assert rule is not None
    assert (rule.operation, set(rule.context)) == (tried.operation, set(tried.context))
    normalize = Normalizer("default", site_rules=[rule]).normalize
    for url in map(path_and_query, (*changed, *kept)):
        before = slots_of(PLAIN.normalize(url))
        assert slots_of(normalize(url)) == (before and in_order(settle(before, [rule]))), url


def test_the_order_of_repeated_values_does_not_count():
    hasher = Hasher()
    assert hasher.of({"q:a": f"1{REPEAT}2"}) == hasher.of({"q:a": f"2{REPEAT}1"})


def test_what_no_file_can_hold_is_not_said():
    """Hosts with odd characters make no rule, nor what would read as something else."""
    evidence = evidence_of(WITNESSES, 0.01)
    twice = Replace((("q:x", f"2{REPEAT}1"),))  # a file has repeated values in order
    assert said("h.example", twice, (), evidence) is None
    assert said("h example", DropParam(("q:x",)), (), evidence) is None
    assert said("h.example", IgnoreValue(("s0",)), (), evidence) is None


def test_evidence_is_written_into_the_rule():
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
