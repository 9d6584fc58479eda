"""Of a large site the learner looks at a part, and merges no more wrongly than with all."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.learning import evaluate, mine, selected
from scrapy_urlnorm.learning.corpus import Item
from scrapy_urlnorm.logs import Observation

if TYPE_CHECKING:
    import pytest


def item(path: str, content: int) -> Item:
    """Return an item; only its URL and its content decide."""
    return Item({}, hash(path), Counter({content: 1}), content, f"http://a.example{path}")


def items() -> list[Item]:
    """Return pages alone, pages under two URLs, and beside one of these another content."""
    alone = [item(f"/alone/{n}?x={x}", 10 * n + x) for n in range(400) for x in range(2)]
    twins = [item(f"/twin/{n}{query}", 9_000 + n) for n in range(50) for query in ("", "?x=1")]
    beside = [item(f"/twin/{n}?x=2", 9_500 + n) for n in range(50)]
    return [*alone, *twins, *beside]


def test_all_urls_of_a_site_that_is_not_large_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Up to the limit nothing is left out."""
    known = items()
    monkeypatch.setattr(selected, "MOST", len(known))
    assert selected.selected(known) is known


def test_what_shares_a_content_is_looked_at_with_its_whole_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of other paths a part is, all URLs of a path or none; the order decides nothing."""
    monkeypatch.setattr(selected, "MOST", 100)
    known = items()
    found = [each.url for each in selected.selected(known)]
    twins = [url for url in found if "/twin/" in url]
    paths = Counter(url.partition("?")[0] for url in found if "/alone/" in url)
    assert len(twins) == 150
    assert set(paths.values()) == {2}
    assert 20 < len(paths) < 100
    random.Random(1).shuffle(known)
    assert {each.url for each in selected.selected(known)} == set(found)


def test_rules_of_a_part_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a parameter selects on pages that share nothing still refutes it there."""
    pages = {f"/thread/{n}{query}": f"{n}" for n in range(60) for query in ("", f"?s={n % 5}")}
    pages |= {f"/list/{n}?s={s}": f"list {n} {s}" for n in range(300) for s in range(3)}
    pages |= {f"/news/{n}/story-{n}.html": f"news {n}" for n in range(500)}
    rows = [Observation(f"http://a.example{path}", 200, content) for path, content in pages.items()]
    whole = mine(rows)
    monkeypatch.setattr(selected, "MOST", 100)
    part = mine(rows)
    assert [rule.said() for rule in part] == [rule.said() for rule in whole]
    assert [rule.param for rule in part if rule.active] == [("s",)]
    result = evaluate(Normalizer(site_rules=part), rows)
    assert (result.found, result.false_merges) == (1, 0)


def test_the_audit_looks_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that only URLs outside of the part refute is taken back."""
    pages = {f"/{a}/{n}": f"{n}" for n in range(60) for a in ("old", "new")}
    pages |= {f"/old/{n}": f"old {n}" for n in range(100, 400)}
    pages |= {f"/new/{n}": f"new {n}" for n in range(100, 400)}
    rows = [Observation(f"http://a.example{path}", 200, content) for path, content in pages.items()]
    monkeypatch.setattr(selected, "MOST", 1)
    assert not [rule for rule in mine(rows) if rule.active]
