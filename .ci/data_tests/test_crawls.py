"""Rules by hand and rules learned, on the crawl logs."""

from __future__ import annotations

import hashlib
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrapy_urlnorm import Normalizer, load_site_rules
from scrapy_urlnorm.learning import evaluate, mine
from scrapy_urlnorm.logs import read_log

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_urlnorm import SiteRule

CRAWLS = Path(os.environ["URLNORM_DATA"]) / "crawls"
RULES = Path(__file__).parent.parent.parent / "benchmarks" / "site_rules"
# Share of redundant pages: by rules of a person on the whole log, and learned from one half of it
# and measured on the other. A little below what was measured, since both are deterministic. What is
# no HTML is left out of the share (copies of a licence are equal, whatever rule), and may not be lost.
BY_HAND = {"app_blog": 0.95, "app_cgit": 0.5, "app_docs": 0.99, "app_doku": 0.97, "app_files": 0.99}
LEARNED = {"app_blog": 0.9, "app_cgit": 0.48, "app_docs": 0.98, "app_doku": 0.93, "app_files": 0.98}


def log(name: str) -> list:
    """Return the rows of a log."""
    return list(read_log(str(CRAWLS / f"{name}.jsonl.gz")))


def share_found(rules: Iterable[SiteRule], rows: list) -> float:
    """Return the share of redundant pages that *rules* find; nothing may be wrong, files neither."""
    normalizer = Normalizer("default", site_rules=tuple(rules))
    of_all = evaluate(normalizer, rows)
    assert (of_all.false_merges, of_all.lost) == (0, 0)
    return evaluate(normalizer, [row for row in rows if not row.is_file]).found


@pytest.mark.parametrize("name", BY_HAND)
def test_rules_by_hand(name: str) -> None:
    """The language says what a person knows of an application, and no content is lost."""
    rules = load_site_rules(RULES / f"{name}.toml")
    assert share_found(rules, log(name)) >= BY_HAND[name]


@pytest.mark.parametrize("name", LEARNED)
def test_rules_learned(name: str) -> None:
    """What was learned from half of the URLs holds for the other half, and merges nothing wrong."""
    halves: tuple[list, list] = ([], [])
    for row in log(name):
        halves[hashlib.blake2b(row.url.encode()).digest()[0] & 1].append(row)
    rules = mine(halves[0])
    assert share_found(rules, halves[1]) >= LEARNED[name]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", ["app_cgit", "app_trac", "app_wiki"])
def test_any_part_in_any_order_can_be_mined(name: str, seed: int) -> None:
    """Random parts of a log, in random orders, give rules that can be used and merge nothing wrong.

    The order of the rows changes nothing.
    """
    chance = random.Random(seed)
    rows = log(name)
    part = chance.sample(rows, chance.choice((200, 600, 1_500, len(rows) // 2)))
    rules = mine(part)
    chance.shuffle(part)
    assert mine(part) == rules
    found = evaluate(Normalizer("default", site_rules=rules), part)
    assert (found.false_merges, found.lost) == (0, 0)
