"""The learning loop for one site: candidates, trials, test, acceptance, again."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, TypeVar

from scrapy_urlnorm.learning import forms, pools, tenants
from scrapy_urlnorm.learning.candidates import Candidates, candidates, set_ops
from scrapy_urlnorm.learning.contexts import Context, Vocabulary, all_hold
from scrapy_urlnorm.learning.corpus import Corpus, Item
from scrapy_urlnorm.learning.cover import Found, cover, earned, guarded, passes, risk_of
from scrapy_urlnorm.learning.ops import Drop, Op, Subst, Wild
from scrapy_urlnorm.learning.priors import is_listed
from scrapy_urlnorm.learning.risk import Limits, by_chance, expected_noise
from scrapy_urlnorm.learning.rules import Learned, examples_of, settle
from scrapy_urlnorm.learning.slots import Hasher, Slots, is_segment
from scrapy_urlnorm.learning.trials import absent_contents, count, sources, trials_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_urlnorm.learning.trials import Count, Trial

_ROUNDS = 14
#: Distinct values that must have been tried before all values are taken as meaningless.
_DROP_VALUES, _WILD_VALUES, _SEGMENT_VALUES, _EDITED_VALUES = 3, 4, 8, 6
#: Where so many values, and this share of those known, were tried, the rest may be like them.
_OPEN_VALUES, _OPEN_SHARE = 8, 0.8
_SIGNIFICANT = 0.05
#: An operation with more sources than this is looked at in a sample first.
_LARGE, _SAMPLE = 4_000, 1_500
_HOPELESS = 0.95
#: Where this share of trials fails and no context helps, the operation is left alone until the
#: rules have merged more than a tenth of the items.
_REFUTED, _CHANGED = 0.2, 0.9


_Set = TypeVar("_Set", Drop, Wild)
_Families = defaultdict[object, list[tuple[int, int, int]]]


class Miner:
    """Learns the rules of one site from its items."""

    def __init__(self, items: Sequence[Item], hasher: Hasher, limits: Limits) -> None:
        self.corpus = self.first = Corpus(items, hasher)
        self.limits = limits
        self.rules: list[Learned] = []
        self.vocabulary = Vocabulary(self.corpus.items)
        #: Operations that failed, and how many items there were.
        self._refuted: dict[Op, int] = {}
        #: Operations without a conflict whose evidence is too small, and that evidence.
        self.open: dict[Op, Count] = {}

    def run(self) -> list[Learned]:
        """Learn until nothing more is accepted."""
        for _ in range(_ROUNDS):
            self.vocabulary = Vocabulary(self.corpus.items)
            found = candidates(self.corpus, self.vocabulary)
            stages = (
                self._hosts,
                self._drops,
                self._structure,
                self._substs,
                self._pools,
                self._wilds,
                self._forms,
            )
            if not any(stage(found) for stage in stages):
                break
        return self.rules

    # --- stages: each returns whether it accepted something ---------------------------------

    def _hosts(self, found: Candidates) -> bool:
        return self._exchange([op for op in found.substs if op.stage == "host"])

    def _drops(self, found: Candidates) -> bool:
        accepted = False
        for op in self._set_ops(found, Drop):
            accepted |= self._try_set(op)
        return accepted

    def _wilds(self, found: Candidates) -> bool:
        accepted = False
        for op in self._set_ops(found, Wild):
            accepted |= self._try_set(op)
        return accepted

    def _structure(self, found: Candidates) -> bool:
        families: _Families = defaultdict(list)
        tested = [(op, self._trials(op)) for op in found.structure]
        for op, trials in tested:
            families[op.family].append(_record(trials))
        accepted = False
        for op, trials in tested:
            if accepted:
                trials = self._trials(op)
            for result in self._cover(op, trials):
                if self._stands_among_siblings(result, families[op.family]):
                    accepted |= self._accept(op, self._apart(op, result))
        return accepted

    def _apart(self, op: Op, result: Found) -> Found:
        """Leave alone what an earlier rule drops: its turn comes later in a normalizer."""
        apart = set()
        for rule in self.rules:
            if op.slots & rule.op.slots:
                where = [literal for literal in rule.context if literal[0] != "first"]
                if len(where) == 1 and where[0][0] == "has":
                    apart.add(("no", where[0][1]))
        return result._replace(context=(*result.context, *sorted(apart)))

    def _substs(self, found: Candidates) -> bool:
        return self._exchange([op for op in found.substs if op.stage != "host"])

    def _pools(self, found: Candidates) -> bool:
        accepted = False
        pooled = [
            *pools.defaults(found, self._trials, self.limits),
            *pools.determined(found, self._trials, self.vocabulary, self.limits),
        ]
        for op, result in pooled:
            trials = self._trials(op, result.context)
            if not count(trials).conflicts:
                context = guarded(op, trials, result.context, self.vocabulary, self._touched(op))
                accepted |= self._accept(op, result._replace(context=context))
        return accepted

    def _forms(self, _: Candidates) -> bool:
        accepted = False
        for op, result in [
            *forms.candidates(self.corpus, self.vocabulary, self.limits),
            *forms.selectors(self.corpus, self.vocabulary, self.limits),
        ]:
            trials = self._trials(op, result.context)
            if trials and not any(t.bad for t in trials):
                accepted |= self._accept(op, result)
        return accepted

    # --- drop and wild ----------------------------------------------------------------------

    @staticmethod
    def _set_ops(found: Candidates, kind: type[_Set]) -> list[_Set]:
        return [op for names in found.sets for op in set_ops(names) if isinstance(op, kind)]

    def _try_set(self, op: Drop | Wild) -> bool:
        accepted = False
        if self._still_refuted(op):
            return False
        trials = self._trials(op)
        if not trials:
            return False
        for result in self._cover(op, trials):
            inside = [t for t in trials if all_hold(result.context, t.slots, op.slots)]
            names = earned(op, inside, self.limits)
            if names != op.names:
                accepted |= bool(names) and self._try_set(type(op)(names))
                continue
            if isinstance(op, Drop):
                needed = max(1.0, min(5.0, result.evidence.support / 10))
                if absent_contents(inside) < needed:
                    continue
            closed = self._closed_world(op, result.context)
            if closed is None:
                continue
            if closed != result.context:
                counted = count(self._trials(op, closed))
                if not passes(op, closed, counted, self.limits):
                    continue
                result = Found(closed, counted, risk_of(op, closed, counted, self.limits))
            accepted |= self._accept(op, result)
        return accepted

    def _still_refuted(self, op: Op) -> bool:
        """Whether *op* failed already, and too little has changed since to look again."""
        items = self._refuted.get(op)
        return items is not None and len(self.corpus.items) > _CHANGED * items

    def _closed_world(self, op: Drop | Wild, context: Context) -> Context | None:
        """Shut out values that the log has but no trial saw; None if too few were tried."""
        names = [n for n in sorted(op.slots) if n not in ("slash", "sep", "?")]
        if not names or all(is_listed(name[2:]) for name in names):
            return context
        seen = self._tried_values(op, names, context)
        if any(map(is_segment, names)):
            wanted = _SEGMENT_VALUES
        else:
            wanted = _WILD_VALUES if isinstance(op, Wild) else _DROP_VALUES
        if len(seen) < wanted:
            return None
        for at, name in enumerate(names):
            tried = {values[at] for values in seen} - {None}
            if not tried:
                return None
            known = self.vocabulary.values.get(name)
            if not known or known <= tried or len(self._values(name)) > 40:
                continue
            if len(known & tried) < max(_OPEN_VALUES, _OPEN_SHARE * len(known)):
                context = (*context, ("among", name, tuple(sorted(tried))))
        return context

    def _values(self, name: str) -> set[str]:
        return {item.slots[name] for item in self.corpus.by_slot.get(name, ())}

    def _tried_values(
        self, op: Op, names: Sequence[str], context: Context
    ) -> set[tuple[str | None, ...]]:
        """Return the values of the slots, together, that stood in some comparison."""
        wild = isinstance(op, Wild)
        buckets: defaultdict[int, list[Item]] = defaultdict(list)
        hasher, by_form = self.corpus.hasher, self.corpus.by_form
        for item in sources(op, self.corpus):
            if all_hold(context, item.slots, op.slots):
                image = op.image(item.slots)
                if image is not None:
                    buckets[hasher.of(image)].append(item)
        values: set[tuple[str | None, ...]] = set()
        for form, items in buckets.items():
            if len(items) > 1 or (not wild and form in by_form):
                values.update(tuple(map(item.slots.get, names)) for item in items)
        return values

    # --- exchanges --------------------------------------------------------------------------

    def _exchange(self, ops: Sequence[Subst]) -> bool:
        """Test all of them, then accept one by one: those on the same slots are siblings."""
        tested = []
        families: _Families = defaultdict(list)
        for op in ops:
            trials = self._trials(op)
            if not trials:
                continue
            tested.append((op, trials))
            families[op.family].append(_record(trials))
        accepted = False
        for op, trials in tested:
            if accepted:
                trials = self._trials(op)
            found = self._cover(op, trials)
            if any(bad for _, bad, _ in families[op.family]):
                self.open.pop(op, None)
            for result in found:
                inside = [t for t in trials if all_hold(result.context, t.slots, op.slots)]
                if not self._stands_among_siblings(result, families[op.family]):
                    continue
                context = self._with_shared_prefix(op, result.context, inside)
                accepted |= self._accept(op, result._replace(context=context))
        return accepted

    def _stands_among_siblings(self, result: Found, family: Sequence[tuple[int, int, int]]) -> bool:
        """Whether its clean record is more than luck, seeing how others on its slots fail."""
        total = sum(n for n, _, _ in family)
        bad = sum(b for _, b, _ in family)
        compared = sum(c for _, _, c in family)
        if bad <= expected_noise(3 * self.limits.noise, compared):
            return True
        chance = by_chance(total, bad, int(result.evidence.support))
        return len(family) * chance <= _SIGNIFICANT

    def _with_shared_prefix(self, op: Op, context: Context, trials: Sequence[Trial]) -> Context:
        """Tie an exchange of segments to the literal segments before it that all trials share."""
        changed = [int(name[1:]) for name in op.slots if is_segment(name)]
        if not changed:
            return context
        for i in range(min(changed)):
            shared = {trial.slots.get(f"s{i}") for trial in trials}
            value = next(iter(shared)) if len(shared) == 1 else None
            if value is not None:
                context = (*context, ("is", f"s{i}", value))
        return context

    def proposal(self, op: Op) -> Learned | None:
        """Return the rule for an open operation, in the sections of the host it was seen in.

        None where the accepted rules leave nothing to do for it.
        """
        items = sources(op, self.corpus)
        if not any(op.image(item.slots) is not None for item in items):
            return None
        agreeing = (trial.slots for trial in self._trials(op) if trial.content is not None)
        kept = tenants.sections(op, (), agreeing)
        context = () if kept is None else tenants.context(kept)
        counted = self.open[op]
        rule = Learned(op, context, counted, risk=risk_of(op, (), counted, self.limits))
        rule.examples = examples_of(rule, items, self.corpus, self.rules)
        return rule

    # --- common ---------------------------------------------------------------------------

    def _trials(self, op: Op, context: Context = ()) -> list[Trial]:
        plain = isinstance(op, (Drop, Wild, Subst))
        noisy = self.limits.noise > 0
        if isinstance(op, (Drop, Wild)) and not context:
            size = len(sources(op, self.corpus))
            if size > _LARGE:
                sample = trials_of(op, self.corpus, noisy=noisy, sample=size // _SAMPLE)
                if self._hopeless(sample):
                    self._refuted[op] = 0
                    return []
        trials = trials_of(op, self.corpus, context, None if plain else self._settle, noisy=noisy)
        if isinstance(op, Subst) and self.rules and trials:
            # Rules do not run in the order in which they were learned: what the first URLs
            # refute stays refuted, even if an earlier rule has taken the case away.
            known = {id(trial.slots) for trial in trials if trial.bad}
            first = trials_of(op, self.first, context, noisy=noisy)
            trials += [t for t in first if t.bad and id(t.slots) not in known]
        return trials

    @staticmethod
    def _hopeless(sample: Sequence[Trial]) -> bool:
        """Whether most of a sample fails: no context could be wide enough to matter."""
        bad = sum(t.bad > 0 for t in sample)
        return len(sample) >= 100 and bad > _HOPELESS * len(sample)

    def _settle(self, slots: Slots) -> Slots:
        return settle(slots, self.rules)

    def _cover(self, op: Op, trials: Sequence[Trial]) -> list[Found]:
        if not trials:
            return []
        touched = self._touched(op)
        if not _enough_values(op, touched):
            return []
        found = cover(op, trials, (), self.vocabulary, self.limits, touched)
        if not found:
            total = count(trials)
            if total.support >= 2 and not total.conflicts:
                self.open[op] = total
            elif total.conflicts > _REFUTED * len(trials):
                self._refuted[op] = len(self.corpus.items)
        return found

    def _touched(self, op: Op) -> list[Slots]:
        """Return the URLs that *op* would change."""
        touched = [item.slots for item in sources(op, self.corpus)]
        if isinstance(op, (Drop, Wild)):
            return touched
        return [slots for slots in touched if op.image(slots) is not None]

    def _accept(self, op: Op, result: Found) -> bool:
        """Accept *op* where it was found, in the sections of the host that it was seen in."""
        trials = self._trials(op, result.context)
        agreeing = (trial.slots for trial in trials if trial.content is not None)
        kept = tenants.sections(op, result.context, agreeing)
        if kept is None:
            return self._rewrite(op, result)
        if len(kept) > tenants.MOST:
            return False
        accepted = False
        # The root page is a section of its own: no rule can name it together with another.
        for part in (kept - {None}, kept & {None}):
            counted = count(t for t in trials if tenants.first_of(t.slots) in part)
            if part == kept or passes(op, result.context, counted, self.limits):
                where = (*result.context, *tenants.context(part))
                risk = risk_of(op, result.context, counted, self.limits)
                accepted |= self._rewrite(op, Found(where, counted, risk))
        return accepted

    def _rewrite(self, op: Op, result: Found) -> bool:
        """Rewrite the items; a rule that changes none is no rule."""
        rule = Learned(op, result.context, result.evidence, risk=result.risk)
        changed = 0
        items = []
        rules = [*self.rules, rule]
        hasher = self.corpus.hasher
        concerned = sources(op, self.corpus, result.context)
        touched = {item.form for item in concerned}
        for item in self.corpus.items:
            image = rule.image(item.slots) if item.form in touched else None
            if image is None or image == item.slots:
                items.append(item)
                continue
            image = settle(image, rules)
            form = hasher.of(image)
            changed += 1
            items.append(Item(image, form, Counter(item.contents), item.content, item.url))
        if not changed:
            return False
        rule.examples = examples_of(rule, concerned, self.corpus, rules)
        self.rules.append(rule)
        self.corpus = Corpus(items, hasher)
        return True


def _record(trials: Sequence[Trial]) -> tuple[int, int, int]:
    """Return how many trials there were, how many failed, and how many URLs they compared."""
    return len(trials), sum(t.bad > 0 for t in trials), sum(t.compared for t in trials)


def _enough_values(op: Op, touched: Sequence[Slots]) -> bool:
    """Whether an edit was seen on enough different values (a version may end in ``.11``)."""
    from scrapy_urlnorm.learning.ops import Number, Suffix

    if not isinstance(op, (Number, Suffix)):
        return True
    if op.slot == "s-1":
        values = {slots[max(s for s in slots if is_segment(s))] for slots in touched}
    else:
        values = {slots[op.slot] for slots in touched}
    return len(values) >= _EDITED_VALUES
