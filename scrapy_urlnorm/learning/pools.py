"""Pooled evidence: several weak candidates that say the same.

``page=1`` and ``page=`` both mean the first page; next to ``product_id`` neither ``tag`` nor
``path`` nor ``manufacturer`` matters. Each alone may stand in a handful of contents, together
they are one hypothesis with one body of evidence.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from scrapy_urlnorm.learning.cover import Found, earned
from scrapy_urlnorm.learning.ops import Drop, Op, Subst, Wild
from scrapy_urlnorm.learning.priors import prior
from scrapy_urlnorm.learning.risk import accepted, by_chance, expected_noise, risk
from scrapy_urlnorm.learning.trials import absent_contents, count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy_urlnorm.learning.candidates import Candidates
    from scrapy_urlnorm.learning.contexts import Context, Vocabulary
    from scrapy_urlnorm.learning.risk import Limits
    from scrapy_urlnorm.learning.trials import Trial

    Try = Callable[[Op, Context], list[Trial]]

_SIGNIFICANT = 0.05
_MAX_NAMES = 12
#: Values that say "the first", "none" or "as usual" in any application. Others are pooled by
#: chance only: two release tags have nothing in common.
_NEUTRAL = frozenset(("", "0", "1", "-1", "all", "any", "none", "default", "null", "*"))


def defaults(found: Candidates, attempt: Try, limits: Limits) -> Iterator[tuple[Op, Found]]:
    """Yield a drop of several values of one parameter that each seem to be its default."""
    families: defaultdict[str, list[tuple[str, list[Trial]]]] = defaultdict(list)
    for op in found.substs:
        if not op.new and len(op.old) == 1 and op.old[0][0][:2] == "q:":
            if op.old[0][1] not in _NEUTRAL:
                continue
            trials = attempt(op, ())
            if trials:
                families[op.old[0][0]].append((op.old[0][1], trials))
    for name, family in sorted(families.items()):
        clean = [(value, trials) for value, trials in family if not any(t.bad for t in trials)]
        if len(clean) < 2:
            continue
        total = sum(len(trials) for _, trials in family)
        bad = sum(t.bad > 0 for _, trials in family for t in trials)
        compared = sum(t.compared for _, trials in family for t in trials)
        drop = Drop((name,))
        context: Context = (("among", name, tuple(sorted(value for value, _ in clean))),)
        trials = attempt(drop, context)
        counted = count(trials)
        lucky = bad > expected_noise(3 * limits.noise, compared) and (
            len(family) * by_chance(total, bad, int(counted.support)) > _SIGNIFICANT
        )
        likely = min(prior(Subst(((name, value),), ())) for value, _ in clean)
        enough = accepted(counted.support, 0, likely, limits.risk)
        if enough and not lucky and not counted.conflicts:
            yield drop, Found(context, counted, risk(counted.support, 0, likely))


def determined(
    found: Candidates, attempt: Try, vocabulary: Vocabulary, limits: Limits
) -> Iterator[tuple[Op, Found]]:
    """Yield a drop of all parameters that mean nothing beside some other parameter."""
    names = sorted({n for names in found.sets for n in names if n[:2] == "q:"})[:_MAX_NAMES]
    if len(names) < 2:
        return
    everywhere = {name: attempt(Drop((name,)), ()) for name in names}
    keys = sorted(vocabulary.names)
    for key in keys:
        union = []
        for name, trials in everywhere.items():
            inside = [t for t in trials if key in t.slots] if name != key else []
            if inside and not any(t.bad for t in inside) and count(inside).support >= 1:
                union.append(name)
        if len(union) < 2:
            continue
        kinds: tuple[type[Drop | Wild], ...] = (Drop, Wild)
        for kind in kinds:
            result = _beside(kind(tuple(union)), key, attempt, len(keys), limits)
            if result is not None:
                yield result
                break


def _beside(
    op: Drop | Wild, key: str, attempt: Try, looked: int, limits: Limits
) -> tuple[Op, Found] | None:
    context: Context = (("has", key),)
    trials = attempt(op, ())
    inside = [t for t in trials if key in t.slots]
    names = earned(op, inside, limits)
    if names != op.names:
        return _beside(type(op)(names), key, attempt, looked, limits) if len(names) > 1 else None
    counted = count(inside)
    if counted.conflicts:
        return None
    absent = absent_contents(inside) if isinstance(op, Drop) else counted.support
    if absent < max(1.0, min(5.0, counted.support / 10)):
        return None
    likely = sum(prior(type(op)((name,))) for name in op.names) / len(op.names) / 1.5
    if not accepted(counted.support, 0, likely, limits.risk):
        return None
    failures = sum(t.bad > 0 for t in trials)
    if not failures:
        context = ()
    elif looked * by_chance(len(trials), failures, len(inside)) > _SIGNIFICANT:
        return None
    return op, Found(context, counted, risk(counted.support, 0, likely))
