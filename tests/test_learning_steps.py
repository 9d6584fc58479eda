"""The steps of learning one rule, as `scrapy_urlnorm.learning` tells them; and new edits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from log_rows import page

from scrapy_urlnorm import Normalizer, SiteRule
from scrapy_urlnorm.learning import mine
from scrapy_urlnorm.learning.candidates import Candidates
from scrapy_urlnorm.learning.corpus import Corpus, Hasher, Vocabulary
from scrapy_urlnorm.learning.cover import cover
from scrapy_urlnorm.learning.evidence import gather, items_of
from scrapy_urlnorm.learning.priors import prior
from scrapy_urlnorm.learning.risk import Limits, by_chance, support_needed
from scrapy_urlnorm.learning.trials import count, trials_of
from scrapy_urlnorm.site_rules.context import Is
from scrapy_urlnorm.site_rules.operations import DropParam

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_urlnorm.logs import Observation


def forum() -> Iterator[Observation]:
    """Yield the log of the example: ``pos`` means nothing on a topic, and a part of a list."""
    for n in range(1, 13):
        yield page(f"http://forum.example/topic/{n}", f"topic {n}")
        yield page(f"http://forum.example/topic/{n}?pos={n % 4}", f"topic {n}")
    for n in range(1, 6):
        yield page(f"http://forum.example/forum/{n}", f"forum {n}")
        for part in range(1, 4):
            yield page(f"http://forum.example/forum/{n}?pos={part}", f"forum {n}, {part}")


def test_the_steps_of_one_rule() -> None:
    """All numbers of the example are those of the learner."""
    rows = list(forum())
    assert len(rows) == 44
    hasher = Hasher()
    plain = Normalizer("default").normalize
    items = items_of(gather(rows, plain), plain, hasher)
    corpus, vocabulary = Corpus(items, hasher), Vocabulary(items)
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
        ("2026-11-01T06:{}", "2026-11-01T05:{}", None),
        ("0{}", "{}", "leading-zeros"),
    ],
)
def test_edits_of_titles_are_learned(one: str, other: str, edit: str | None) -> None:
    """A wiki's blanks are underscores; of ``12-any-words`` a shop reads the number."""
    rows = [
        page(f"http://a.example/w?title={text.format(100 + n)}", f"{n}")
        for n in range(20)
        for text in (one, other)
    ]
    found = {rule.edit for rule in mine(rows) if rule.active}
    assert edit in found if edit else not found


@pytest.mark.parametrize(
    ("one", "other", "edit"),
    [
        ("2026-11-{:02}T06:00:00Z", "2026-11-{:02}T00:00:00Z", "cut-after"),
        ("2026-11-{:02}", "2026-11-{:02}T00:00:00Z", "cut-after"),
        ("2026-11-{:02}T16:35:00%2B02:00", "2026-11-{:02}T07:35:00-07:00", "utc"),
        ("2026-11-{:02}T16:35:00+02:00", "2026-11-{:02}T14:35:00Z", "utc"),
    ],
)
def test_a_time_is_its_day_or_its_instant(one: str, other: str, edit: str) -> None:
    """What is learned of 20 days holds for another; ten hours of one day that differ refute it."""
    rows = [
        page(f"http://a.example/w?from={text.format(n)}", f"{n}")
        for n in range(1, 21)
        for text in (one, other)
    ]
    rules = [rule for rule in mine(rows) if rule.active]
    assert [rule.edit for rule in rules] == [edit]
    normalize = Normalizer("default", site_rules=rules).normalize
    keys = {normalize(f"http://a.example/w?from={text.format(29)}") for text in (one, other)}
    assert len(keys) == 1
    hours = [
        page(f"http://a.example/w?from=2026-11-{day:02}T{n:02}:00:00Z", f"{day} {n}")
        for day in range(1, 11)
        for n in range(10)
    ]
    assert "cut-after" not in {rule.edit for rule in mine(rows + hours) if rule.active}


def test_the_end_of_a_version_is_no_suffix() -> None:
    """Where ``/2.7.11/`` is ``/2.7/`` on 40 pages, ``/3.2.11/`` need not be ``/3.2/``."""
    rows = [
        page(f"http://docs.example/python/{version}/page{n}", f"{n}")
        for n in range(40)
        for version in ("2.7", "2.7.11")
    ]
    rules = mine(rows)
    normalize = Normalizer("default", site_rules=rules).normalize
    assert normalize("http://docs.example/python/2.7.11/new") == (
        "http://docs.example/python/2.7/new"
    )
    assert normalize("http://docs.example/python/3.2.11/page1") == (
        "http://docs.example/python/3.2.11/page1"
    )
