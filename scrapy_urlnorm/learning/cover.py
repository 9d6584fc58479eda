"""Generalise, then specialise: where does an operation hold?

First everywhere: families of pages that the log does not have profit. Where some trials fail, a
context has to be found that keeps them out, and it has to *explain* them: avoiding the failures
must be unlikely by chance, given how many contexts were looked at.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from math import comb, log1p
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.learning.corpus import GENERALITY, Corpus, Vocabulary, equals
from scrapy_urlnorm.learning.media import is_file, support_of
from scrapy_urlnorm.learning.priors import prior
from scrapy_urlnorm.learning.risk import (
    Limits,
    accepted,
    by_chance,
    expected_noise,
    risk,
    support_needed,
)
from scrapy_urlnorm.learning.trials import PROVEN, Count, Trial, count, heard, sources
from scrapy_urlnorm.site_rules.context import (
    Condition,
    Context,
    Has,
    Is,
    No,
    Slash,
    Starts,
    all_hold,
)
from scrapy_urlnorm.site_rules.operations import (
    DropParam,
    EditValue,
    IgnoreValue,
    Operation,
    Replace,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrapy_urlnorm.site_rules.form import Slots

_NO_SLASH = Slash(False)
#: Contexts of one operation, and conditions of one context, at most (a choice: each deeper one has
#: to pay for more that stood open).
_MAX_CONTEXTS, _MAX_DEPTH = 8, 3
#: How likely chance may explain what a search found (the usual five per cent).
_SIGNIFICANT = 0.05
#: Of contexts nearly as wide as the widest, the most general is taken (a choice).
_NEARLY_AS_WIDE = 0.95
#: Share of the URLs an operation touches that may lie outside of the one template tried (a choice).
_GUARD = 0.1
#: More trials than this are not searched for contexts; what is found is checked on all
#: (a choice, for time).
_SEARCHED = 4_000
#: Contents that each of several values needs before they are taken together, and how many values
#: (choices).
_LEAST_POOLED, _MOST_POOLED = 2, 20


class Found(NamedTuple):
    """A context in which an operation passes, the evidence there, and the risk accepted with it."""

    context: Context
    evidence: Count
    risk: float


def risk_of(op: Operation, context: Context, counted: Count, limits: Limits) -> float:
    tolerated = limits.tolerates(counted.conflicts, counted.compared)
    return risk(counted.support, 0 if tolerated else counted.conflicts, prior(op, context))


def proven(op: Operation, context: Context, counted: Count, limits: Limits) -> Found | None:
    """Return *context* with its evidence, if that carries *op*."""
    tolerated = limits.tolerates(counted.conflicts, counted.compared)
    conflicts, likely = 0 if tolerated else counted.conflicts, prior(op, context)
    if not accepted(counted.support, conflicts, likely, limits.risk):
        return None
    return Found(context, counted, risk(counted.support, conflicts, likely))


def earned(op: DropParam | IgnoreValue, trials: Sequence[Trial], limits: Limits) -> tuple[str, ...]:
    """Return the names of a joint set that have evidence of their own.

    A name that hardly ever varies between URLs that agree rides on the evidence of the others.
    What it has to have is half of the support that it would need alone. Three contents, as
    `coverage.alone` asks for besides in a crawl, are too few (measured: 5 contents more are lost).
    """
    if len(op.names) == 1:
        return op.names
    return tuple(
        name
        for name in op.names
        if 2 * count(trial for trial in trials if name in trial.varied).support
        >= support_needed(prior(type(op)((name,))), limits.risk)
    )


def cover(
    op: Operation,
    trials: Sequence[Trial],
    vocabulary: Vocabulary,
    limits: Limits,
) -> list[Found]:
    """Return the contexts in which *op* holds, the widest first; at best everywhere."""
    total = count(trials)
    if limits.tolerates(total.conflicts, total.compared):
        everywhere = proven(op, (), total, limits)
        return [] if everywhere is None else [everywhere]
    found: list[Found] = []
    if total.support < support_needed(prior(op, (_NO_SLASH,)), limits.risk):
        return found  # no condition can prove with a part of it what needs more than all
    todo = list(trials)
    for _ in range(_MAX_CONTEXTS):
        context = _search(op, todo, vocabulary, limits)
        if context is None:
            break
        counted = count(t for t in todo if all_hold(context, t.slots))
        there = proven(op, context, counted, limits)
        if counted.conflicts or there is None:
            break
        found.append(there)
        todo = [t for t in todo if not all_hold(context, t.slots)]
    elsewhere = None if found else _elsewhere(op, trials, limits)
    return found if elsewhere is None else [elsewhere]


def _elsewhere(op: Operation, trials: Sequence[Trial], limits: Limits) -> Found | None:
    """Return what holds in all first folders but those where verdicts found other pages."""
    refuted = {trial.slots.get("s0") for trial in trials if trial.bad > PROVEN}
    rest = [trial for trial in trials if trial.slots.get("s0") not in {*refuted, None}]
    names, counted = {trial.slots["s0"] for trial in rest}, count(rest)
    if not refuted or not names or not limits.tolerates(counted.conflicts, counted.compared):
        return None
    return proven(op, (Is("s0", tuple(sorted(names))),), counted, limits)


def guarded(
    op: Operation,
    trials: Sequence[Trial],
    vocabulary: Vocabulary,
    touched: Sequence[Slots],
) -> Context:
    """Stay with the one kind of page that the trials know, if *op* would reach far beyond.

    The kind is the path template, the value of a parameter such as ``route``, and what a value
    begins with (``Special:``). Needed by
    test_what_a_value_begins_with_keeps_a_rule_from_reaching_far.
    """
    where: Context = ()
    ignored = op.slots
    template = vocabulary.template(trials[0].slots, ignored)
    kinds: list[Condition] = [
        equals(name, value)
        for name in sorted(vocabulary.dispatch - ignored)
        if (value := trials[0].slots.get(name)) is not None
    ]
    if all(vocabulary.template(t.slots, ignored) == template for t in trials[1:]):
        kinds.append(template)
    kinds += vocabulary.starts(trials[0].slots, _headless(op))
    headed: set[str] = set()
    for kind in kinds:
        head = kind.slot if isinstance(kind, Starts) else ""
        if head not in headed and all(kind.holds(t.slots) for t in trials):
            inside = [slots for slots in touched if kind.holds(slots)]
            if len(touched) - len(inside) > _GUARD * len(touched):
                where, touched = (*where, kind), inside
                headed.update([head] if head else [])
    return where


#: How many trials an operation had, how many failed, and how many URLs they compared.
Record = tuple[int, int, int]


def record_of(trials: Sequence[Trial]) -> Record:
    return len(trials), sum(t.bad > 0 for t in trials), sum(t.compared for t in trials)


def stands(support: float, family: Sequence[Record], limits: Limits, own: Record) -> bool:
    """Whether a clean record is more than luck, seeing how the siblings fail.

    ``page=1`` is the default on seven pages and the first of several on one: the seven are luck.
    Where hundreds of candidates are tried, a few agree by chance as often as asked for; what a
    family gets wrong tells how easily. Needed by apachelist_keykos (a false merge without). What
    the logs gain without it is luck: folders whose order by name is that by date,
    `comment-page-2` where there are two pages of comments, a branch that is HEAD for now. The same
    rules are wrong elsewhere.

    In a crawl, which audits its rules: if its *own* record has no conflict, siblings that have one
    tell how easily; and of several as clean and as long, so many at a time may be found by chance
    (Benjamini and Hochberg 1995). A bus goes as on Mondays from Tuesday to Thursday, whatever some do
    on Fridays.
    """
    trials, failed, compared = (sum(column) for column in zip(*family, strict=True))
    alike = 1
    if limits.wary and not own[1]:
        trials = own[0] + sum(record[0] for record in family if record[1])
        alike = sum(record[0] >= own[0] and not record[1] for record in family) or 1
    if failed <= expected_noise(3 * limits.noise, compared):
        return True
    return len(family) * by_chance(trials, failed, int(support)) <= alike * _SIGNIFICANT


def apart(
    op: Operation,
    result: Found,
    trials: Sequence[Trial],
    corpus: Corpus,
    vocabulary: Vocabulary,
    limits: Limits,
) -> Found:
    """Keep files out that speak against what pages have proved, where one condition more can.

    Needed by app_trac: a list to download is another file in another order.
    """
    if not any(trial.bad and trial.is_file for trial in trials):
        return result
    context = result.context
    touched = [i for i in sources(op, corpus, context) if all_hold(context, i.slots)]
    pages = [item.slots for item in touched if not is_file(item.content)]
    files = [item.slots for item in touched if is_file(item.content)]
    known: Counter[Condition] = Counter()
    for slots in pages:
        known.update(_described(slots, op.slots, _headless(op), vocabulary))
    for name in vocabulary.names - op.slots:
        known[No(name)] = sum(name not in slots for slots in pages)
    for slot in vocabulary.dispatch - op.slots:
        values = {slots.get(slot) for slots in pages} - {slots.get(slot) for slots in files}
        if named := tuple(sorted(value for value in values if value is not None)):
            known[Is(slot, named)] = sum(slots.get(slot) in named for slots in pages)
    found = [
        condition
        for condition, number in known.items()
        if number >= _NEARLY_AS_WIDE * len(pages) and not any(map(condition.holds, files))
    ]
    best = min(found, key=lambda c: (-known[c], GENERALITY[c.kind], repr(c)), default=None)
    if best is None:
        return result
    context = (*context, best)
    counted = count(heard([trial for trial in trials if best.holds(trial.slots)]))
    return Found(context, counted, risk_of(op, context, counted, limits))


#: Of each condition: support, conflicts, and trials without a conflict.
_Scores = dict[Condition, tuple[float, int, int]]


def _search(
    op: Operation, todo: list[Trial], vocabulary: Vocabulary, limits: Limits
) -> Context | None:
    """Find the widest context that has no failure, passes the test and explains the failures.

    It explains them if chance hardly does. The significance is shared out among the kinds of
    conditions, then among those of a kind (weighted Bonferroni): the few path templates need not
    pay for the many parameters. A conjunction was chosen among all of its length: it pays for the
    product of what stood open at each depth (test_a_conjunction_found_by_chance_is_none).

    Needed by test_a_context_that_explains_the_failures_is_found, app_cgit and app_wiki.
    """
    failures = sum(trial.bad > 0 for trial in todo)
    if not failures or failures == len(todo):
        return None
    current = todo[:: -(-len(todo) // _SEARCHED)]
    failures = sum(trial.bad > 0 for trial in current)
    headless = _headless(op)
    described = [
        (trial, _described(trial.slots, op.slots, headless, vocabulary)) for trial in current
    ]
    conjunctions = 1
    context: Context = ()
    for _ in range(_MAX_DEPTH):
        scores = {c: score for c, score in _scores(described).items() if c not in context}
        looked = Counter(map(_group, scores))
        paid = conjunctions * len(looked)
        #: Each condition that avoids all failures, its support, and how many there were to choose.
        clean = [
            (condition, support, number, looked[_group(condition)])
            for condition, (support, bad, number) in scores.items()
            if not bad
        ]
        good = [
            (condition, support)
            for condition, support, number, ways in (*clean, *_pooled(scores))
            if paid * ways * by_chance(len(current), failures, number) <= _SIGNIFICANT
            and accepted(support, 0, prior(op, (*context, condition)), limits.risk)
        ]
        if good:
            widest = max(support for _, support in good)
            near = [item for item in good if item[1] >= _NEARLY_AS_WIDE * widest]
            best, _ = min(near, key=lambda item: (GENERALITY[item[0].kind], -item[1], repr(item)))
            return (*context, best)
        refined = [
            ((support + 1) / (support + bad + 2) * log1p(support), condition)
            for condition, (support, bad, _) in scores.items()
            if bad and support >= 2
        ]
        if not refined:
            return None
        _, best = max(refined, key=lambda item: (item[0], repr(item[1])))
        context = (*context, best)
        conjunctions *= len(refined)
        described = [(trial, known) for trial, known in described if best in known]
    return None


def _pooled(scores: _Scores) -> Iterator[tuple[Is, float, int, int]]:
    """Yield any of the clean values of a slot, its support, clean trials, and from how many chosen.

    It pays for all sets of so many values of the slots. Values are words, which name kinds of
    pages; of numbers, also in names (d1, d2), one would learn the sections where everything fits
    one page so far. Needed by app_cgit (0.62 of the whole log with this, 0.59 without; of an unseen
    half the same).
    """
    by_slot: defaultdict[str, list[Is]] = defaultdict(list)
    for condition in scores:
        if isinstance(condition, Is) and condition.slot not in ("host", "scheme"):
            by_slot[condition.slot].append(condition)
    for slot, known in by_slot.items():
        clean = [c for c in known if not scores[c][1] and scores[c][0] >= _LEAST_POOLED]
        words = not any(map(str.isdigit, "".join(c.values[0] for c in known)))
        if words and 2 <= len(clean) <= _MOST_POOLED and len(clean) < len(known):
            values = tuple(sorted(c.values[0] for c in clean))
            support, trials = (sum(scores[c][at] for c in clean) for at in (0, 2))
            yield (
                Is(slot, values),
                support,
                int(trials),
                comb(len(known), len(clean)) * len(by_slot),
            )


def _group(condition: Condition) -> str:
    return "no" if condition.kind == "slash" else condition.kind


def _headless(op: Operation) -> frozenset[str]:
    """Return the slots of which a context of *op* does not say what they begin with.

    Those are its own, if it takes the values away, or turns them round. What another edit or a move
    reads may have a head.
    """
    is_turned = isinstance(op, EditValue) and op.edit == "sort-parts"
    is_own = is_turned or isinstance(op, (DropParam, IgnoreValue, Replace))
    return op.slots if is_own else frozenset()


def _described(
    slots: Slots, ignored: frozenset[str], headless: frozenset[str], vocabulary: Vocabulary
) -> set[Condition]:
    known = set(vocabulary.conditions(slots, ignored, headless))
    if "slash" not in ignored and _NO_SLASH.holds(slots):
        known.add(_NO_SLASH)
    return known


def _scores(described: list[tuple[Trial, set[Condition]]]) -> _Scores:
    """Return support, conflicts and clean trials of every condition that holds on some trial."""
    names = {c.slot for _, known in described for c in known if isinstance(c, Has)}
    absences = [(name, No(name)) for name in names]
    votes: defaultdict[Condition, dict[int, float]] = defaultdict(dict)
    bad: defaultdict[Condition, int] = defaultdict(int)
    clean: defaultdict[Condition, int] = defaultdict(int)
    for trial, known in described:
        known.update([absence for name, absence in absences if name not in trial.slots])
        for condition in known:
            if trial.bad:
                bad[condition] += trial.bad
                continue
            clean[condition] += 1
            if trial.content is not None:
                of = votes[condition]
                if of.get(trial.content, 0.0) < trial.weight:
                    of[trial.content] = trial.weight
    return {
        condition: (support_of(votes[condition]), bad[condition], clean[condition])
        for condition in {*votes, *bad}
    }
