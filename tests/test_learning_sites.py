"""Learning on simulated sites whose truth is known: half of the URLs to learn, half to measure."""

from __future__ import annotations

import random

import pytest
import simulator
from log_rows import taught_by

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.learning import evaluate, mine
from scrapy_urlnorm.learning.corpus import PLAIN
from scrapy_urlnorm.logs import Observation

#: Share of the redundant URLs of the unseen half that must be found, by kind of site.
_MOST = ("forum", "shop", "news", "academic", "iis", "wiki", "tracker", "gitweb", "listing")
GOALS = dict.fromkeys(_MOST, 0.95) | {"board": 0.4, "timeline": 0.9, "farm": 0.6, "tiny": 0.2}


def learn(kind, seed, *, noise=0.0, told=0.001):
    """Learn from one half of a site and measure on the other."""
    known, unseen = simulator.halves(simulator.site(kind, seed))
    normalizer = taught_by(simulator.observations(known, noise=noise, seed=seed), noise=told)
    return evaluate(normalizer, simulator.observations(unseen))


@pytest.mark.parametrize("kind", GOALS)
def test_what_is_redundant_is_found(kind):
    """On half of a site's URLs, enough is learned for the other half, and nothing wrong."""
    result = learn(kind, 2)
    assert result.found >= GOALS[kind]
    assert (result.false_merges, result.lost) == (0, 0)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kind", simulator.TRAPS)
def test_traps_are_not_walked_into(kind, seed):
    """Where most pages are equal and some are not, nothing is merged."""
    assert learn(kind, seed).merges == 0


@pytest.mark.parametrize("kind", ["news", "academic", "iis", "listing", "tracker"])
def test_noise_that_was_told_costs_little(kind):
    """One page in a hundred changed by itself; with that known, most is found all the same."""
    result = learn(kind, 1, noise=0.01, told=0.01)
    assert result.found >= 0.9
    assert result.false_merges == 0


def test_revisits_tell_the_noise():
    known, unseen = simulator.halves(simulator.site("listing", 1))
    rows = list(simulator.observations(known, noise=0.02, seed=1))
    again = list(simulator.observations(known, noise=0.02, seed=2))
    once = evaluate(taught_by(rows), simulator.observations(unseen))
    twice = evaluate(taught_by(rows + again), simulator.observations(unseen))
    assert once.found < 0.5
    assert twice.found > 0.9
    assert twice.false_merges == 0


@pytest.mark.parametrize("kind", [*GOALS, *simulator.TRAPS])
def test_noise_that_was_not_told_merges_nothing_wrong(kind):
    assert learn(kind, 1, noise=0.03).false_merges == 0


@pytest.mark.parametrize("kind", GOALS)
def test_rules_bring_their_evidence(kind):
    """Every active rule names its support, a risk within the limit, and URLs that it merges."""
    limit = 0.006
    rules = mine(simulator.observations(simulator.site(kind)), risk=limit)
    normalizer = Normalizer("default", site_rules=rules)
    for rule in rules:
        assert rule.source == "content"
        assert rule.support is not None
        assert rule.support >= 2
        assert rule.conflicts == 0
        assert rule.false_merge_upper is not None
        assert rule.examples
        if rule.active:
            assert 0 < rule.false_merge_upper <= limit
            for one, other in rule.examples:
                assert normalizer.normalize(one) == normalizer.normalize(other)
    assert kind == "tiny" or any(rule.active for rule in rules)


def test_a_parameter_that_the_catalogue_drops_wrongly_is_kept():
    """Where a session id selects the result of a search, the site's rules keep it."""
    rng = random.Random(3)
    rows = []
    for number in range(60):
        token = "".join(rng.choices("0123456789abcdef", k=32))
        url = f"http://f.example/found.php?show=all&PHPSESSID={token}"
        rows.append(Observation(url, 200, f"results {number}"))
        rows.append(
            Observation(f"http://f.example/t{number}?utm_source={token}", 200, f"t{number}")
        )
        rows.append(Observation(f"http://f.example/t{number}", 200, f"t{number}"))
    assert evaluate(PLAIN, rows).false_merges == 59
    result = evaluate(taught_by(rows), rows)
    assert (result.false_merges, result.found) == (0, 1.0)
