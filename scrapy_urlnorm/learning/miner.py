"""The learning loop for one site: candidates, trials, test, acceptance, again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_urlnorm.learning import (
    closed_world,
    constants,
    forms,
    pools,
    siblings,
    steps,
    synonyms,
    tenants,
    wary,
)
from scrapy_urlnorm.learning.candidates import (
    Candidates,
    candidates,
    drops,
    of_server,
    order,
    wilds,
)
from scrapy_urlnorm.learning.contexts import Vocabulary, equals
from scrapy_urlnorm.learning.corpus import Corpus, Item
from scrapy_urlnorm.learning.cover import Found, apart, cover, earned, guarded, passes, risk_of
from scrapy_urlnorm.learning.rules import evidence_of, examples_of, said, settle
from scrapy_urlnorm.learning.slots import in_order
from scrapy_urlnorm.learning.trials import (
    count,
    enough_absent,
    heard,
    is_hopeless,
    sources,
    trials_of,
)
from scrapy_urlnorm.site_rules.context import Has, No, all_hold
from scrapy_urlnorm.site_rules.form import is_segment
from scrapy_urlnorm.site_rules.operations import (
    DropParam,
    HostAlias,
    IgnoreValue,
    RangeAlias,
    Replace,
    ValueAlias,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy_urlnorm.learning.risk import Limits
    from scrapy_urlnorm.learning.slots import Hasher
    from scrapy_urlnorm.learning.trials import Count, Trial
    from scrapy_urlnorm.site_rules import SiteRule
    from scrapy_urlnorm.site_rules.context import Context
    from scrapy_urlnorm.site_rules.form import Slots
    from scrapy_urlnorm.site_rules.operations import Operation

#: Rounds at most (a choice, against logs without end).
_ROUNDS = 14
#: Where this share of trials fails and no context helps, the operation is left alone until the
#: rules have merged more than a tenth of the items (choices, for time).
_REFUTED, _CHANGED = 0.2, 0.9
#: So small a share of conflicts may be pages that changed between two fetches (a choice).
_FEW = 0.05


class Miner:
    """Learns the rules of one site from its items."""

    def __init__(
        self,
        items: Sequence[Item],
        hasher: Hasher,
        limits: Limits,
        site: str,
        *,
        walls: frozenset[int] = frozenset(),
    ) -> None:
        self.site = site
        self.walls = walls  #: contents that ask for a password
        self.corpus = self.first = Corpus(items, hasher)
        self.limits = limits
        self.rules: list[SiteRule] = []
        self.vocabulary = Vocabulary(self.corpus.items)
        #: Operations that failed, and how many items there were.
        self._refuted: dict[Operation, int] = {}
        #: What this round would ignore right after all drops.
        self._postponed: set[IgnoreValue] = set()
        self._shared_of: Corpus | None = None
        self._known_shared: wary.Shared = {}
        #: Operations without a conflict whose evidence is too small, and that evidence.
        self.open: dict[Operation, Count] = {}
        #: Drops that hold in a context alone, or nowhere, because of a few conflicts.
        self.fenced: dict[Operation, Count] = {}

    def run(self) -> list[SiteRule]:
        """Learn until nothing more is accepted.

        The first stage that accepts something ends the round: the next one starts from what the
        new rules left. A stage that destroys values comes after those that compare them.
        """
        for _ in range(_ROUNDS):
            if self.corpus is not self.first:
                self.vocabulary = Vocabulary(self.corpus.items)
            found = candidates(self.corpus, self.vocabulary)
            stages = (
                self._hosts,
                self._drops,
                self._postponed_wilds,
                self._structure,
                self._exchanges,
                self._constants,
                self._pools,
                self._wilds,
                self._forms,
                self._steps,
                self._synonyms,
            )
            if not any(stage(found) for stage in stages):
                break
        return self.rules

    # --- stages: each returns whether it accepted something ---------------------------------

    def _hosts(self, found: Candidates) -> bool:
        return self._try_siblings([op for op in found.exchanges if of_server(op)])

    def _drops(self, found: Candidates) -> bool:
        return self._try_sets([op for names in found.sets for op in drops(names)])

    def _postponed_wilds(self, _: Candidates) -> bool:
        """Ignore the values of what would be dropped, had it been seen to be absent."""
        postponed, self._postponed = sorted(self._postponed, key=order), set()
        return self._try_sets(postponed)

    def _structure(self, found: Candidates) -> bool:
        return self._try_siblings(found.structure)

    def _exchanges(self, found: Candidates) -> bool:
        return self._try_siblings([op for op in found.exchanges if not of_server(op)])

    def _constants(self, found: Candidates) -> bool:
        """Accept what has no conflict: where one seems to be noise, a narrower one is clean."""
        accepted = False
        for op, context in constants.candidates(found.together):
            trials = self._trials(op, context)
            counted = count(trials)
            if not counted.conflicts and passes(op, context, counted, self.limits):
                risk = risk_of(op, context, counted, self.limits)
                where = guarded(op, trials, context, self.vocabulary, self._touched(op, context))
                accepted |= self._accept(op, Found(where, counted, risk))
        return accepted

    def _pools(self, found: Candidates) -> bool:
        accepted = False
        for op, result in list(pools.defaults(found, self._trials, self.limits)):
            trials = self._trials(op, result.context)
            if not count(trials).conflicts:
                context = guarded(op, trials, result.context, self.vocabulary, self._touched(op))
                accepted |= self._accept(op, result._replace(context=context))
        return accepted

    def _wilds(self, found: Candidates) -> bool:
        return self._try_sets([op for names in found.sets for op in wilds(names)])

    def _forms(self, _: Candidates) -> bool:
        accepted = False
        for op, result in [
            *forms.candidates(self.corpus, self.vocabulary, self.limits, self.walls),
            *forms.selectors(self.corpus, self.vocabulary, self.limits, self.walls),
        ]:
            trials = self._trials(op, result.context)
            if trials and not any(t.bad for t in trials):
                accepted |= self._accept(op, result)
        return accepted

    def _steps(self, found: Candidates) -> bool:
        slots = [names[0] for names in found.sets if len(names) == 1]
        accepted = False
        for hypothesis in list(steps.hypotheses(slots, self.corpus)):
            op = steps.with_table(hypothesis, self.corpus)
            if op is not None:
                for result in self._cover(op, self._trials(op)):
                    if steps.in_order(op, self.corpus, result.context):
                        accepted |= self._accept(op, result)
        return accepted

    def _synonyms(self, found: Candidates) -> bool:
        for op in synonyms.candidates(found.named, self.corpus):
            for result in self._cover(op, self._trials(op)):
                context = synonyms.where_tried(op, result.context, self.corpus, self.vocabulary)
                inside = synonyms.with_table(op.names, op.within, self.corpus, context)
                there = None if inside is None else self._found(inside, context)
                if inside is not None and there is not None and self._accept(inside, there):
                    return True
        return False

    # --- sets of slots that mean nothing ----------------------------------------------------

    def _try_sets(self, ops: Iterable[DropParam | IgnoreValue]) -> bool:
        accepted = False
        for op in ops:
            accepted |= self._try_set(op)
        return accepted

    def _try_set(self, op: DropParam | IgnoreValue) -> bool:
        """Accept *op* wherever it stands; what has no evidence of its own leaves the set."""
        accepted = False
        if self._still_refuted(op):
            return False
        trials = self._trials(op)
        for result in self._cover(op, trials):
            inside = [t for t in trials if all_hold(result.context, t.slots)]
            names = earned(op, inside, self.limits)
            if self.limits.wary and names == op.names:
                names = wary.alone(op, result.context, self.corpus)
            if names != op.names:
                accepted |= bool(names) and self._try_set(type(op)(names))
                continue
            if not enough_absent(op, inside, result.evidence.support):
                if all(name[:2] == "q:" for name in op.names):
                    self._postponed.add(IgnoreValue(op.names))
                continue
            closed = closed_world.closed(
                op, result.context, self.corpus, self.vocabulary, wary=self.limits.wary
            )
            if closed is None:
                continue
            there = result if closed == result.context else self._found(op, closed)
            accepted |= there is not None and self._accept(op, there)
        return accepted

    def _still_refuted(self, op: Operation) -> bool:
        """Whether *op* failed already, and too little has changed since to look again."""
        items = self._refuted.get(op)
        return items is not None and len(self.corpus.items) > _CHANGED * items

    # --- operations with siblings -----------------------------------------------------------

    def _try_siblings(self, ops: Iterable[Operation]) -> bool:
        """Test all of them, then accept one by one, judged by the record of their families."""
        tested = [(op, trials) for op in ops if (trials := self._trials(op))]
        families = siblings.families(tested)
        accepted = False
        for op, trials in tested:
            family = families[op.family]
            if accepted:
                trials = self._trials(op)
            found = self._cover(op, trials)
            if any(record.failed for record in family):
                self.open.pop(op, None)
            for result in found:
                if siblings.stands(result.evidence.support, family, self.limits):
                    inside = [t for t in trials if all_hold(result.context, t.slots)]
                    context = self._placed(op, result.context, inside)
                    accepted |= self._accept(op, result._replace(context=context))
        return accepted

    def _placed(self, op: Operation, context: Context, trials: Sequence[Trial]) -> Context:
        """Tie an exchange of segments to the segments before it that all trials share."""
        changed = [int(name[1:]) for name in op.slots if is_segment(name)]
        if not isinstance(op, Replace) or not changed:
            return self._apart(op, context)
        for i in range(min(changed)):
            shared = {trial.slots.get(f"s{i}") for trial in trials}
            value = next(iter(shared)) if len(shared) == 1 else None
            if value is not None:
                context = (*context, equals(f"s{i}", value))
        return context

    def _apart(self, op: Operation, context: Context) -> Context:
        """Exclude URLs that an earlier rule changes in the slots of *op*.

        *op* was tried on what that rule left, but a normalizer may run it first, by its kind. Known
        of an earlier rule is the one parameter that its context asks for. Needed by
        test_users_get_what_was_learned[wiki]: ``oldid`` makes a title meaningless.
        """
        apart = set()
        for rule in self.rules:
            if not isinstance(op, (HostAlias, Replace)) and op.slots & rule.operation.slots:
                where = [c for c in rule.context if not tenants.is_section(c)]
                if len(where) == 1 and isinstance(where[0], Has):
                    apart.add(No(where[0].slot))
        return (*context, *sorted(apart))

    # --- common ---------------------------------------------------------------------------

    def _trials(self, op: Operation, context: Context = ()) -> list[Trial]:
        """Return the trials of *op* that decide about it."""
        tried = self.all_trials(op, context)
        if self.limits.wary:
            tried = wary.unshared(op, tried, self._shared())
        trials = heard(tried)
        if len(trials) < len(tried) and not context and not any(trial.bad for trial in tried):
            self.open[op] = count(tried)
        return trials

    def _shared(self) -> wary.Shared:
        """Return the contents that say nothing of the values under which they stand."""
        if self._shared_of is not self.corpus:
            self._shared_of = self.corpus
            items = self.corpus.items
            self._known_shared = wary.shared(items, self.corpus.hasher, self.vocabulary)
        return self._known_shared

    def all_trials(self, op: Operation, context: Context = ()) -> list[Trial]:
        """Run *op* over the corpus; none where a sample says that it is hopeless."""
        noisy = self.limits.noise > 0
        if isinstance(op, RangeAlias):
            return steps.trials(op, self.corpus, context)
        if isinstance(op, ValueAlias):
            return synonyms.trials(op, self.corpus, context)
        if isinstance(op, (DropParam, IgnoreValue)):
            if not context and is_hopeless(op, self.corpus, noisy=noisy):
                self._refuted[op] = 0
                return []
            return trials_of(op, self.corpus, context, noisy=noisy)
        if not isinstance(op, (HostAlias, Replace)):
            return trials_of(op, self.corpus, context, self._settled, noisy=noisy)
        trials = trials_of(op, self.corpus, context, noisy=noisy)
        if self.rules and trials:
            # Rules do not run in the order in which they were learned: what the first URLs
            # refute stays refuted, even if an earlier rule has taken the case away.
            known = {id(trial.slots) for trial in trials if trial.bad}
            first = trials_of(op, self.first, context, noisy=noisy)
            trials += [t for t in first if t.bad and id(t.slots) not in known]
        return trials

    def _settled(self, slots: Slots) -> int:
        """Return the hash of what the rules make of *slots*. Many operations have one image."""
        known, hasher = self.corpus.settled, self.corpus.hasher
        form = hasher.of(slots)
        if self.rules and form not in known:
            known[form] = hasher.of(settle(slots, self.rules))
        return known.get(form, form)

    def _cover(self, op: Operation, trials: Sequence[Trial]) -> list[Found]:
        """Return where *op* holds; remember what is open and what is refuted."""
        if not trials:
            return []
        touched = self._touched(op)
        if not closed_world.enough_values(op, touched):
            return []
        found = cover(op, trials, (), self.vocabulary, self.limits, touched)
        total = count(trials)
        few = 0 < total.conflicts <= _FEW * total.support
        if few and isinstance(op, DropParam) and all(each.context for each in found):
            self.fenced[op] = total
        if not found:
            if total.support >= 2 and not total.conflicts:
                self.open[op] = total
            elif total.conflicts > _REFUTED * len(trials):
                self._refuted[op] = len(self.corpus.items)
        return found

    def _found(self, op: Operation, context: Context) -> Found | None:
        """Return the evidence for *op* in *context*, if that carries it."""
        counted = count(self._trials(op, context))
        if not passes(op, context, counted, self.limits):
            return None
        return Found(context, counted, risk_of(op, context, counted, self.limits))

    def _touched(self, op: Operation, context: Context = ()) -> list[Slots]:
        """Return the URLs that *op* would change: the guard looks how far it would reach."""
        found = [item.slots for item in sources(op, self.corpus, context)]
        touched = [slots for slots in found if all_hold(context, slots)]
        if isinstance(op, (DropParam, IgnoreValue)):
            return touched
        return [slots for slots in touched if op.image(slots) is not None]

    def _accept(self, op: Operation, result: Found) -> bool:
        """Accept *op* where it was found, in the sections of the host that it was seen in."""
        tried = self.all_trials(op, result.context)
        result = apart(op, result, tried, self.corpus, self.vocabulary, self.limits)
        trials = self._trials(op, result.context)
        accepted = False
        for found in tenants.sectioned(op, result, trials, self.limits):
            if not (self.limits.wary and wary.is_coincidence(op, found, self.corpus)):
                accepted |= self._rewrite(op, found)
        return accepted

    def _rewrite(self, op: Operation, result: Found) -> bool:
        """Rewrite the items; a rule that changes none, or that no file can hold, is no rule."""
        rule = said(self.site, op, result.context, evidence_of(result.evidence, result.risk))
        if rule is None:
            return False
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
            image = in_order(settle(image, rules))
            changed += 1
            items.append(Item(image, hasher.of(image), item.contents, item.content, item.url))
        if changed:
            examples = examples_of(rule, concerned, self.corpus, rules)
            self.rules.append(rule.replace(examples=examples))
            self.corpus = Corpus(items, hasher)
        return changed > 0
