"""Generalise, then specialise: where does an operation hold?

First everywhere: families of pages that the log does not have profit. Where some trials fail, a
context has to be found that keeps them out, and it has to *explain* them: avoiding the failures
must be unlikely by chance, given how many contexts were looked at.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from math import log1p
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.learning.contexts import (
    Context,
    Literal,
    Vocabulary,
    all_hold,
    generality,
    holds,
)
from scrapy_urlnorm.learning.priors import prior
from scrapy_urlnorm.learning.risk import Limits, accepted, by_chance, risk, support_needed
from scrapy_urlnorm.learning.trials import Count, Trial, count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_urlnorm.learning.ops import Drop, Op, Wild
    from scrapy_urlnorm.learning.slots import Slots

_MAX_CONTEXTS, _MAX_DEPTH = 8, 3
_SIGNIFICANT = 0.05
_NEARLY_AS_WIDE = 0.95
#: Share of the URLs an operation touches that may lie outside of the one template tried.
_GUARD = 0.1
#: More trials than this are not searched for contexts; what is found is checked on all.
_SEARCHED = 4_000


class Found(NamedTuple):
    """A context in which an operation passes, the evidence there, and the risk accepted with it."""

    context: Context
    evidence: Count
    risk: float


def risk_of(op: Op, context: Context, counted: Count, limits: Limits) -> float:
    """Return the share of wrong merges to expect of *op* in *context*."""
    tolerated = limits.tolerates(counted.conflicts, counted.compared)
    return risk(counted.support, 0 if tolerated else counted.conflicts, prior(op, context))


def passes(op: Op, context: Context, counted: Count, limits: Limits) -> bool:
    """Whether the evidence carries *op* in *context*."""
    conflicts = counted.conflicts
    if limits.tolerates(conflicts, counted.compared):
        conflicts = 0
    return accepted(counted.support, conflicts, prior(op, context), limits.risk)


def earned(op: Drop | Wild, trials: Sequence[Trial], limits: Limits) -> tuple[str, ...]:
    """Return the names of a joint set that have evidence of their own.

    A name that hardly ever varies between URLs that agree rides on the evidence of the others.
    What it has to have is half of the support that it would need alone.
    """
    if len(op.names) == 1:
        return op.names
    kept = []
    for name in op.names:
        own = count(trial for trial in trials if name in trial.varied).support
        if 2 * own >= support_needed(prior(type(op)((name,))), limits.risk):
            kept.append(name)
    return tuple(kept)


def cover(
    op: Op,
    trials: Sequence[Trial],
    base: Context,
    vocabulary: Vocabulary,
    limits: Limits,
    touched: Sequence[Slots] = (),
) -> list[Found]:
    """Return the contexts in which *op* holds, the widest first; at best *base* alone."""
    total = count(trials)
    if total.support < 2:
        return []
    if limits.tolerates(total.conflicts, total.compared):
        if not passes(op, base, total, limits):
            return []
        kept = guarded(op, trials, base, vocabulary, touched)
        return [Found(kept, total, risk_of(op, base, total, limits))]
    found: list[Found] = []
    todo = list(trials)
    covered = 0.0
    for _ in range(_MAX_CONTEXTS):
        context = _search(op, todo, base, vocabulary, limits)
        if context is None:
            break
        inside = [t for t in todo if all_hold(context, t.slots, op.slots)]
        counted = count(inside)
        if counted.conflicts or not passes(op, context, counted, limits):
            break
        found.append(Found(context, counted, risk_of(op, context, counted, limits)))
        covered += counted.support
        todo = [t for t in todo if not all_hold(context, t.slots, op.slots)]
    if (
        covered < total.support / 2
        and total.conflicts <= 0.004 * total.support
        and passes(op, base, total, limits)
    ):
        return [Found(base, total, risk_of(op, base, total, limits))]
    return found


def guarded(
    op: Op,
    trials: Sequence[Trial],
    base: Context,
    vocabulary: Vocabulary,
    touched: Sequence[Slots],
) -> Context:
    """Stay with the one kind of page that the trials know, if *op* would reach far beyond.

    The kind is the path template, and the value of a parameter such as ``route``.
    """
    if not touched or not trials or any(literal[0] == "path" for literal in base):
        return base
    ignored = op.slots
    template = vocabulary.template(trials[0].slots, ignored)
    kinds: list[Literal] = [
        ("is", name, value)
        for name in sorted(vocabulary.dispatch - ignored)
        if (value := trials[0].slots.get(name)) is not None
    ]
    if all(vocabulary.template(t.slots, ignored) == template for t in trials[1:]):
        kinds.append(template)
    for kind in kinds:
        if all(holds(kind, t.slots, ignored) for t in trials):
            outside = sum(not holds(kind, slots, ignored) for slots in touched)
            if outside > _GUARD * len(touched):
                base = (*base, kind)
                touched = [slots for slots in touched if holds(kind, slots, ignored)]
    return base


def _search(
    op: Op, todo: list[Trial], base: Context, vocabulary: Vocabulary, limits: Limits
) -> Context | None:
    """Find the widest context that has no failure, passes the test and explains the failures.

    The significance is shared out among the kinds of literals, then among those of a kind
    (weighted Bonferroni): the few path templates need not pay for the many parameters. A
    conjunction was chosen among all of its length: it pays for the product of what stood open
    at each depth.
    """
    failures = sum(trial.bad > 0 for trial in todo)
    if not failures or failures == len(todo):
        return None
    step = -(-len(todo) // _SEARCHED)
    current = todo[::step]
    failures = sum(trial.bad > 0 for trial in current)
    size = len(current)
    conjunctions = 1
    ignored = op.slots
    described = [(trial, _described(trial.slots, ignored, vocabulary)) for trial in current]
    context = base
    for _ in range(_MAX_DEPTH):
        scores = _scores(described)
        looked = Counter(literal[0] for literal in scores)
        paid = conjunctions * len(looked)
        good = [
            (literal, support)
            for literal, (support, bad, clean) in scores.items()
            if not bad
            and literal not in context
            and paid * looked[literal[0]] * by_chance(size, failures, clean) <= _SIGNIFICANT
            and accepted(support, 0, prior(op, (*context, literal)), limits.risk)
        ]
        if good:
            widest = max(support for _, support in good)
            near = [item for item in good if item[1] >= _NEARLY_AS_WIDE * widest]
            literal, _ = min(near, key=lambda item: (generality(item[0]), -item[1], repr(item)))
            return (*context, literal)
        refined = [
            ((support + 1) / (support + bad + 2) * log1p(support), literal)
            for literal, (support, bad, _) in scores.items()
            if bad and support >= 2 and literal not in context
        ]
        if not refined:
            return None
        _, literal = max(refined, key=lambda item: (item[0], repr(item[1])))
        context = (*context, literal)
        conjunctions *= len(refined)
        described = [(t, known) for t, known in described if literal in known]
    return None


def _described(slots: Slots, ignored: frozenset[str], vocabulary: Vocabulary) -> set[Literal]:
    known = set(vocabulary.literals(slots, ignored))
    known.add(("no", "slash") if "slash" not in slots and "slash" not in ignored else ("all",))
    return known


def _scores(
    described: list[tuple[Trial, set[Literal]]],
) -> dict[Literal, tuple[float, int, int]]:
    """Return support, conflicts and clean trials of every literal."""
    names = {literal[1] for _, known in described for literal in known if literal[0] == "has"}
    votes: defaultdict[Literal, dict[int, float]] = defaultdict(dict)
    bad: defaultdict[Literal, int] = defaultdict(int)
    clean: defaultdict[Literal, int] = defaultdict(int)
    for trial, known in described:
        known.update(("no", name) for name in names if ("has", name) not in known)
        known.discard(("all",))
        for literal in known:
            if trial.bad:
                bad[literal] += trial.bad
                continue
            clean[literal] += 1
            if trial.content is not None:
                of = votes[literal]
                if of.get(trial.content, 0.0) < trial.weight:
                    of[trial.content] = trial.weight
    literals = {*votes, *bad}
    return {
        literal: (sum(votes[literal].values()), bad[literal], clean[literal])
        for literal in literals
    }
