"""Where a rule holds: a context is searched for, and has to pay for the search."""

from __future__ import annotations

import random

import pytest

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.learning.contexts import Vocabulary
from scrapy_urlnorm.learning.corpus import Corpus, Item
from scrapy_urlnorm.learning.cover import cover, earned
from scrapy_urlnorm.learning.evidence import gather, items_of
from scrapy_urlnorm.learning.risk import Limits
from scrapy_urlnorm.learning.slots import Hasher
from scrapy_urlnorm.learning.trials import trials_of
from scrapy_urlnorm.logs import Observation
from scrapy_urlnorm.site_rules.context import No
from scrapy_urlnorm.site_rules.operations import DropParam

PLAIN = Normalizer("default")


def page(url: str, content: str) -> Observation:
    """Return a row of a page."""
    return Observation(url, 200, content, mime="text/html")


def corpus_of(rows: list[Observation]) -> tuple[Corpus, list[Item]]:
    """Return the corpus that the learner makes of rows."""
    hasher = Hasher()
    items = items_of(gather(rows, PLAIN.normalize), PLAIN.normalize, hasher)
    return Corpus(items, hasher), items


@pytest.mark.parametrize("seed", [1, 4, 7, 9, 11])
def test_a_conjunction_found_by_chance_is_none(seed: int) -> None:
    """Among all sets of three of many rare parameters one avoids four failures by chance."""
    rng = random.Random(seed)
    rows = []
    for number in range(200):
        given = "&".join(f"p{n}=1" for n in range(40) if rng.random() < 0.03)
        url = f"http://h.example/{number}?{given}"
        rows.append(page(url, f"{number}"))
        different = " and more" if number < 4 else ""
        rows.append(page(f"{url}&x={number % 9}", f"{number}{different}"))
    corpus, items = corpus_of(rows)
    op = DropParam(("q:x",))
    assert not cover(op, trials_of(op, corpus), (), Vocabulary(items), Limits())


def test_a_context_that_explains_the_failures_is_found() -> None:
    """A parameter that matters wherever another one stands is dropped where that is absent."""
    rows = []
    for number in range(80):
        for given in ("a=1", "a=1&list=1"):
            url = f"http://h.example/{number}?{given}"
            rows.append(page(url, f"{number} {given}"))
            matters = f" {number % 9}" if "list" in given else ""
            rows.append(page(f"{url}&x={number % 9}", f"{number} {given}{matters}"))
    corpus, items = corpus_of(rows)
    op = DropParam(("q:x",))
    (found,) = cover(op, trials_of(op, corpus), (), Vocabulary(items), Limits())
    assert found.context == (No("q:list"),)


def test_each_name_of_a_joint_set_has_evidence_of_its_own() -> None:
    """A name that varied once among URLs that agree leaves the set that others bear."""
    rows = []
    for number in range(40):
        rows.append(page(f"http://h.example/{number}", f"{number}"))
        rows.append(page(f"http://h.example/{number}?a={number % 7}&b={number % 5}", f"{number}"))
    rows.append(page("http://h.example/0?a=1&b=2&q=3", "0"))
    corpus, _ = corpus_of(rows)
    op = DropParam(("q:a", "q:b", "q:q"))
    trials = trials_of(op, corpus)
    assert earned(op, trials, Limits()) == ("q:a", "q:b")
    assert earned(DropParam(("q:q",)), trials, Limits()) == ("q:q",)
