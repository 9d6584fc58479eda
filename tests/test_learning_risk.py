"""The arithmetic of evidence."""

from __future__ import annotations

from itertools import combinations
from math import comb

import pytest

from scrapy_urlnorm.learning.risk import (
    Limits,
    accepted,
    by_chance,
    risk,
    support_needed,
    upper_bound,
    wrong,
)


@pytest.mark.parametrize(
    ("prior", "needed"), [(0.95, 2), (0.5, 6), (0.4, 7), (0.3, 9), (0.15, 13), (0.08, 18)]
)
def test_support_needed(prior: float, needed: int) -> None:
    """The likelier an operation is beforehand, the fewer clean witnesses it needs."""
    assert support_needed(prior, 0.02) == needed


def test_a_conflict_outweighs_many_witnesses() -> None:
    """Local refutation wins over the best prior."""
    assert accepted(6, 0, 0.5, 0.02)
    assert not accepted(6, 1, 0.95, 0.02)
    assert not accepted(200, 8, 0.95, 0.02)


def test_risk_falls_with_support_and_rises_with_conflicts() -> None:
    """Risk is monotone in the evidence."""
    clean = [risk(n, 0, 0.3) for n in range(2, 60)]
    assert clean == sorted(clean, reverse=True)
    failing = [risk(30, k, 0.3) for k in range(10)]
    assert failing == sorted(failing)
    assert wrong(30, 10, 0.3) > 0.99


@pytest.mark.parametrize("prior", [0.08, 0.15, 0.3, 0.4, 0.5, 0.8, 0.95])
def test_more_support_never_refuses(prior: float) -> None:
    """Without a conflict, what is accepted stays accepted up to 200,000 agreeing contents."""
    first = support_needed(prior, 0.02)
    sizes = [*range(first, 8_000), *range(8_000, 200_001, 250)]
    assert [n for n in sizes if not accepted(n, 0, prior, 0.02)] == []
    risks = [risk(n, 0, prior) for n in sizes]
    assert risks == sorted(risks, reverse=True)


def test_noise_is_tolerated_only_as_far_as_it_was_told() -> None:
    """A handful of conflicts in a thousand is noise at one per cent, not at a thousandth."""
    assert Limits(noise=0.01).tolerates(10, 1_000)
    assert not Limits(noise=0.001).tolerates(10, 1_000)
    assert not Limits(noise=0).tolerates(1, 1_000_000)


@pytest.mark.parametrize(("total", "failures", "chosen"), [(8, 2, 3), (9, 1, 5), (7, 3, 4)])
def test_by_chance_is_the_hypergeometric_distribution(
    total: int, failures: int, chosen: int
) -> None:
    """The probability that a choice avoids all failures, against counting all choices."""
    avoiding = sum(
        not set(choice) & set(range(failures)) for choice in combinations(range(total), chosen)
    )
    assert by_chance(total, failures, chosen) == pytest.approx(avoiding / comb(total, chosen))


def test_by_chance_at_the_edges() -> None:
    """No failures are avoided for certain; more failures than room cannot be avoided."""
    assert by_chance(10, 0, 5) == 1
    assert by_chance(10, 6, 5) == 0


@pytest.mark.parametrize(
    ("failures", "trials", "bound"),
    [(0, 299, 0.01), (0, 59, 0.05), (1, 474, 0.01), (2, 630, 0.01), (5, 1051, 0.01)],
)
def test_upper_bound(failures: int, trials: int, bound: float) -> None:
    """The Clopper-Pearson bounds that tables give for 95 %."""
    assert upper_bound(failures, trials) == pytest.approx(bound, rel=0.01)


def test_upper_bound_without_evidence_is_one() -> None:
    """Nothing tried, or all failed: anything is possible."""
    assert upper_bound(0, 0) == 1
    assert upper_bound(3, 3) == 1
