"""Audit: what the rules do to the log, through the normalizer that users run.

The rules of a site run there in fixed strata, over and over, not in the order in which they were
learned; so the last word is that of the product itself on every URL of the log.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from ..exceptions import ConfigError, UrlNormError
from ..normalizer import Normalizer
from ..site_rules.compile import reason
from .risk import expected_noise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..site_rules import SiteRule
    from .risk import Limits
    from .rules import Learned

_ROUNDS = 12
_TOLERATED = 0.004

Pair = tuple["Learned", "SiteRule"]


def compiled(base: Sequence[SiteRule], pairs: Sequence[Pair]) -> tuple[Normalizer, list[Pair]]:
    """Compile as many rules as go together, in the order in which they were learned."""
    try:
        return Normalizer("default", site_rules=[*base, *(r for _, r in pairs)]), list(pairs)
    except (ConfigError, UrlNormError):
        kept: list[Pair] = []
    for pair in pairs:
        try:
            Normalizer("default", site_rules=[*base, *(rule for _, rule in [*kept, pair])])
        except (ConfigError, UrlNormError):
            continue
        kept.append(pair)
    return Normalizer("default", site_rules=[*base, *(rule for _, rule in kept)]), kept


def audited(
    base: Sequence[SiteRule],
    pairs: Sequence[Pair],
    urls: Mapping[str, Counter[int]],
    limits: Limits,
) -> list[Pair]:
    """Return the rules without those that merge what differs, or never come to rest."""
    kept = list(pairs)
    plain = Normalizer("default", site_rules=base)
    for _ in range(_ROUNDS):
        normalizer, kept = compiled(base, kept)
        if not kept:
            break
        worst = _worst(normalizer, plain, kept, urls, limits)
        if worst is None:
            return kept
        kept.remove(worst)
    return kept


def _worst(
    normalizer: Normalizer,
    plain: Normalizer,
    pairs: Sequence[Pair],
    urls: Mapping[str, Counter[int]],
    limits: Limits,
) -> Pair | None:
    by_reason = {reason(rule): i for i, (_, rule) in enumerate(pairs)}
    used: Counter[int] = Counter()
    bad: Counter[int] = Counter()
    groups: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for url, contents in urls.items():
        key = normalizer.normalize(url)
        real = [content for content in contents if content >= 0]
        if real:
            groups[key].append((url, max(real, key=lambda c: (contents[c], -c))))
    for key, members in groups.items():
        fired_here: set[int] = set()
        if len(members) == 1 and plain.normalize(members[0][0]) == key:
            continue
        counts = Counter(content for _, content in members)
        majority = max(counts, key=lambda content: (counts[content], -content))
        for url, content in members:
            fired = _fired(url, normalizer, by_reason)
            fired_here.update(fired)
            used.update(fired)
            if content != majority:
                bad.update(fired)
        if len(counts) > 1 and fired_here:
            # Where a rule rewrites the majority onto the odd one out, it is to blame as well.
            minority = sum(n for content, n in counts.items() if content != majority)
            for rule in fired_here:
                if not bad[rule]:
                    bad[rule] += minority
        if normalizer.normalize(key) != key:
            bad.update(dict.fromkeys(fired_here, 1000000))
    failing = [
        (bad[i] / max(1, used[i]), i)
        for i in bad
        if bad[i] > max(_TOLERATED * used[i], expected_noise(3 * limits.noise, used[i]))
    ]
    return pairs[max(failing)[1]] if failing else None


def _fired(url: str, normalizer: Normalizer, by_reason: Mapping[str, int]) -> set[int]:
    """Return which rules acted on a URL."""
    steps = normalizer.explain(url).steps
    return {by_reason[step.reason] for step in steps if step.reason in by_reason}
