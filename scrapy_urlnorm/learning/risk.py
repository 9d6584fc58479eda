"""What the evidence says: how likely a rule is wrong, and what it costs if it is.

Spike and slab: with prior probability *pi* the operation is right and disagreements are rare
accidents, whose rate is itself uncertain (a beta distribution about `_ACCIDENT`); otherwise its
failure rate may be anything, uniformly. The posterior gives the
probability that it is wrong, and with the failure rate expected then the *risk*: the expected
share of wrong merges. (A confidence bound alone asks for 150 to 300 clean witnesses at one or
two per cent, which a single site rarely has.)
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from math import exp, lgamma, log, log1p, sqrt
from typing import NamedTuple

#: Mean rate of disagreements under an operation that is right. The rate is uncertain: were it
#: fixed, thousands of contents without a single accident would speak against the operation.
_ACCIDENT = 0.002
_CALM = 1 / _ACCIDENT - 1


class Limits(NamedTuple):
    """The two knobs: the risk accepted, and how many contents change by themselves.

    ``wary`` is for the log of a crawl that still runs: see `scrapy_urlnorm.learning.coverage`.
    """

    risk: float = 0.02
    noise: float = 0.001
    wary: bool = False

    def tolerates(self, conflicts: int, compared: int) -> bool:
        """Whether so many conflicts among so many URLs may be noise alone."""
        return conflicts <= expected_noise(1.5 * self.noise, compared)


def expected_noise(rate: float, compared: float) -> float:
    """Return the upper end of what noise at *rate* does among *compared* URLs."""
    mean = rate * compared
    return mean + 2 * sqrt(mean)


@lru_cache(maxsize=65_536)
def wrong(support: float, conflicts: int, prior: float) -> float:
    """Return the posterior probability that the operation is wrong."""
    spike = log(prior) + _log_beta(conflicts + 1, support + _CALM) - _log_beta(1, _CALM)
    slab = log1p(-prior) + _log_beta(conflicts + 1, support + 1)
    return 1 / (1 + exp(min(700.0, spike - slab)))


def risk(support: float, conflicts: int, prior: float) -> float:
    """Return the expected share of wrong merges."""
    return wrong(support, conflicts, prior) * (conflicts + 1) / (support + conflicts + 2)


def accepted(support: float, conflicts: int, prior: float, limit: float) -> bool:
    return (
        support >= 2
        and wrong(support, conflicts, prior) < 0.5
        and risk(support, conflicts, prior) <= limit
    )


@lru_cache(maxsize=4_096)
def support_needed(prior: float, limit: float) -> int:
    """Return the clean support that a rule with this prior needs."""
    return next(n for n in range(2, 1_000_000) if accepted(n, 0, prior, limit))


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def by_chance(total: int, failures: int, chosen: int) -> float:
    """Return the probability that *chosen* of *total* trials hold none of the *failures*.

    C(N-n, B) / C(N, B), the hypergeometric distribution: a context found by search has to
    explain the failures, not merely to avoid them.
    """
    if failures > total - chosen:
        return 0.0
    return exp(_log_choose(total - chosen, failures) - _log_choose(total, failures))


def _log_choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


def at_most(share: float, error: float, failed: int, most: int) -> int:
    """Return how many of *most* held requests may be wrong, if each was drawn with a chance of *share*.

    All that were drawn are right, but *failed*, which may be wrong. It is the largest number of
    which so few are drawn with a probability of *error* or more. Where requests are drawn from
    several parts, each by its own chance, *share* is the least of these: the number of wrong ones
    among the draws is a sum of independent events of other chances, and its lower tail is below
    that of the binomial distribution with their mean (Hoeffding 1956).
    """

    def is_unlikely(wrong: int) -> bool:
        if not share or (failed and wrong * share < failed + 1):
            return False  # the theorem is about tails alone
        return share >= 1 or _as_few(failed, wrong, share) < error

    return failed + bisect_left(range(failed + 1, most + 1), True, key=is_unlikely)


def draws_for(held: int, wrong: float, error: float) -> int:
    """Return how many of *held* requests to draw so that at most *wrong* may be wrong if all agree."""
    key = lambda draws: at_most(draws / held, error, 0, held) <= wrong
    return bisect_left(range(held), True, key=key)


def _as_few(failures: int, trials: int, rate: float) -> float:
    """Return the probability of no more than so many *failures* (the binomial distribution)."""
    yes, no = log(rate), log1p(-rate)
    terms = (_log_choose(trials, i) + i * yes + (trials - i) * no for i in range(failures + 1))
    return sum(map(exp, terms))


def upper_bound(failures: int, trials: int) -> float:
    """Return the one-sided Clopper-Pearson upper bound (95 %) of a failure rate.

    The root p of P(X <= failures | trials, p) = 0.05, by bisection on the binomial
    tail, which needs no incomplete beta function.
    """
    if trials <= 0 or failures >= trials:
        return 1.0
    target = 1 - 0.95
    if failures == 0:
        return float(1 - target ** (1 / trials))
    low, high = failures / trials, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if _as_few(failures, trials, middle) > target:
            low = middle
        else:
            high = middle
    return high
