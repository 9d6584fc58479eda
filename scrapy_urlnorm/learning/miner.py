"""The learning loop for one site: candidates, trials, test, acceptance, again."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from scrapy_urlnorm.learning import coverage, forms, range_tables, value_tables
from scrapy_urlnorm.learning.candidates import Candidates, of_server, order
from scrapy_urlnorm.learning.corpus import Corpus, Hasher, Item, Vocabulary, equals, in_order
from scrapy_urlnorm.learning.cover import (
    Found,
    apart,
    cover,
    earned,
    guarded,
    proven,
    record_of,
    stands,
)
from scrapy_urlnorm.learning.rules import evidence_of, examples_of, said, settle
from scrapy_urlnorm.learning.trials import count, enough_absent, heard, sources, trials_of
from scrapy_urlnorm.site_rules.context import TITLE, Context, Has, No, Path, all_hold
from scrapy_urlnorm.site_rules.form import Slots, is_segment
from scrapy_urlnorm.site_rules.operations import (
    DropParam,
    IgnoreValue,
    ParamToPath,
    RangeAlias,
    Replace,
    StripTail,
    ValueAlias,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from scrapy_urlnorm.learning.cover import Record
    from scrapy_urlnorm.learning.risk import Limits
    from scrapy_urlnorm.learning.trials import Count, Trial
    from scrapy_urlnorm.site_rules import SiteRule
    from scrapy_urlnorm.site_rules.operations import Operation

#: Rounds at most (a choice, against logs without end).
_ROUNDS = 14
#: Where this share of trials fails and no context helps, the operation is left alone until the
#: rules have merged more than a tenth of the items (choices, for time).
_REFUTED, _CHANGED = 0.2, 0.9
#: So small a share of conflicts may be pages that changed between two fetches (a choice).
_FEW = 0.05
_TABLES = {RangeAlias: range_tables, ValueAlias: value_tables}


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
        in_force: Iterable[SiteRule] = (),
        two: Collection[frozenset[int]] = (),
    ) -> None:
        self.site = site
        self._in_force = in_force
        self.walls = walls  #: contents that ask for a password
        self.corpus = self.first = Corpus(items, hasher, two)
        self.limits = limits
        self.rules: list[SiteRule] = []
        self.vocabulary = Vocabulary(self.corpus.items)
        #: Operations that failed, and how many items there were.
        self._refuted: dict[Operation, int] = {}
        #: What this round would ignore right after all drops.
        self._postponed: set[IgnoreValue] = set()
        #: Operations without a conflict whose evidence is too small, and that evidence.
        self.open: dict[Operation, Count] = {}
        #: Operations that hold in a context alone, or nowhere, because of a few conflicts.
        self.fenced: dict[Operation, Count] = {}

    def run(self) -> list[SiteRule]:
        """Learn until nothing more is accepted."""
        self._begin()
        for _ in range(_ROUNDS):
            if self.corpus is not self.first:
                self.vocabulary = Vocabulary(self.corpus.items)
            if not self._round(Candidates(self.corpus, self.vocabulary)):
                break
        return self.rules

    def _begin(self) -> None:
        """Begin with the rules in force that the items prove and that no wider one can replace.

        To find one again takes a round. What holds in a context may hold in more of them by now, a
        table may have grown, of what exchanges or destroys values all may mean nothing, and what
        redirects say of hosts may have changed: these are found anew.
        """
        for rule in self._in_force:
            op = rule.operation
            stays = isinstance(op, (DropParam, ParamToPath, StripTail)) and not rule.context
            if stays and rule.site == self.site and (found := self._proven(op, ())) is not None:
                self._rewrite(op, found)

    def _round(self, found: Candidates) -> bool:
        """Try stage after stage; return whether one accepted something.

        The first that does ends the round: the next one starts from what the new rules left. A
        stage that destroys values comes after those that compare them.
        """
        return (
            self._try_siblings(found.servers)
            or self._try_sets(found.drops)
            or self._try_postponed()
            or self._try_titles(found.titles)
            or self._try_siblings(found.structure)
            or self._try_siblings([op for op in found.exchanges if not of_server(op)])
            or self._try_forms()
            or self._try_tables(found)
        )

    # --- sets of slots that mean nothing ----------------------------------------------------

    def _try_sets(self, ops: Iterable[DropParam | IgnoreValue]) -> bool:
        found = [self._try_set(op) for op in ops]
        return any(found)

    def _try_postponed(self) -> bool:
        """Ignore the values of what would be dropped, had it been seen to be absent."""
        postponed, self._postponed = sorted(self._postponed, key=order), set()
        return self._try_sets(postponed)

    def _try_set(self, op: DropParam | IgnoreValue) -> bool:
        """Accept *op* wherever it stands; what has no evidence of its own leaves the set."""
        failed_of = self._refuted.get(op)
        if failed_of is not None and len(self.corpus.items) > _CHANGED * failed_of:
            return False
        is_new = False
        trials = self._trials(op)
        for result in self._cover(op, trials):
            inside = [t for t in trials if all_hold(result.context, t.slots)]
            names = earned(op, inside, self.limits)
            if self.limits.wary and names == op.names:
                names = coverage.alone(op, result.context, self.corpus)
            if names != op.names:
                is_new |= bool(names) and self._try_set(type(op)(names))
                continue
            if not enough_absent(op, inside, result.evidence.support):
                if all(name[:2] == "q:" for name in op.names):
                    self._postponed.add(IgnoreValue(op.names))
                continue
            closed = coverage.covered(
                op, result.context, self.corpus, self.vocabulary, wary=self.limits.wary
            )
            if closed is not None:
                there = result if closed == result.context else self._proven(op, closed)
                is_new |= there is not None and self._accept(op, there)
        return is_new

    # --- operations with siblings -----------------------------------------------------------

    def _try_siblings(self, ops: Iterable[Operation]) -> bool:
        """Test all of them, then accept one by one, judged by the record of their families."""
        tested = [(op, trials) for op in ops if (trials := self._trials(op))]
        families: defaultdict[object, list[Record]] = defaultdict(list)
        for op, trials in tested:
            families[op.family].append(record_of(trials))
        is_new = False
        for op, trials in tested:
            family = families[op.family]
            if is_new:
                trials = self._trials(op)
            found = self._cover(op, trials)
            if any(failed for _, failed, _ in family):
                self.open.pop(op, None)
            for result in found:
                own = record_of(trials)
                if stands(result.evidence.support, family, self.limits, own):
                    inside = [t for t in trials if all_hold(result.context, t.slots)]
                    context = self._placed(op, result.context, inside)
                    is_new |= self._accept(op, result._replace(context=context))
        return is_new

    def _try_titles(self, given: Iterable[tuple[Operation, Path]]) -> bool:
        """Accept what takes titles away, or folders before them, on the kind of path it was seen on."""
        is_new = False
        for op, path in given:
            context: Context | None = (path,)
            if all(path.before[int(slot[1:])] != TITLE for slot in op.slots):
                trials = self._trials(op, (path,))
                context = coverage.folders(op, path, trials, self.corpus, wary=self.limits.wary)
            elif not coverage.enough_values(op, self._touched(op, (path,))):
                context = None
            there = None if context is None else self._proven(op, context)
            is_new |= there is not None and self._accept(op, there)
        return is_new

    def _placed(self, op: Operation, context: Context, trials: Sequence[Trial]) -> Context:
        """Tie an exchange of segments to the segments before it that all trials share."""
        changed = [int(name[1:]) for name in op.slots if is_segment(name)]
        if not isinstance(op, Replace) or not changed:
            return self._apart(op, context)
        for i in range(min(changed)):
            values = {trial.slots.get(f"s{i}") for trial in trials}
            value = values.pop() if len(values) == 1 else None
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
            if not isinstance(op, Replace) and op.slots & rule.operation.slots:
                where = [c for c in rule.context if not coverage.is_section(c)]
                if len(where) == 1 and isinstance(where[0], Has):
                    apart.add(No(where[0].slot))
        return (*context, *sorted(apart))

    # --- what brings its context along ------------------------------------------------------

    def _try_forms(self) -> bool:
        """Accept what has no conflict: where one seems to be noise, a narrower one is clean."""
        is_new = False
        for op, there in forms.candidates(self.corpus, self.vocabulary, self.limits, self.walls):
            trials = self._trials(op, there.context)
            if trials and not any(trial.bad for trial in trials):
                is_new |= self._accept(op, there)
        return is_new

    def _try_tables(self, found: Candidates) -> bool:
        corpus = self.corpus
        ranges = [self._try_table(op) for op in range_tables.candidates(found.sets, corpus)]
        return any(ranges) or any(
            self._try_table(op)
            for names in found.named
            if (op := value_tables.candidate(names, corpus)) is not None
        )

    def _try_table(self, op: RangeAlias | ValueAlias) -> bool:
        is_new = False
        for result in self._cover(op, self._trials(op)):
            inside = _TABLES[type(op)].inside(op, result.context, self.corpus, self.vocabulary)
            there = None if inside is None else self._proven(*inside)
            if inside is not None and there is not None:
                is_new |= self._accept(inside[0], there)
        return is_new

    # --- common ---------------------------------------------------------------------------

    def _trials(self, op: Operation, context: Context = ()) -> list[Trial]:
        """Return the trials of *op* that decide about it."""
        tried = self.all_trials(op, context)
        trials = heard(tried)
        if len(trials) < len(tried) and not context and not any(trial.bad for trial in tried):
            self.open[op] = count(tried)
        return trials

    def all_trials(self, op: Operation, context: Context = ()) -> list[Trial]:
        noisy = self.limits.noise > 0
        if isinstance(op, (RangeAlias, ValueAlias)):
            found: list[Trial] = _TABLES[type(op)].trials(op, self.corpus, context)
            return found
        trials = trials_of(op, self.corpus, context, noisy=noisy)
        if isinstance(op, Replace) and self.rules and trials:
            # Rules do not run in the order in which they were learned: what the first URLs
            # refute stays refuted, even if an earlier rule has taken the case away.
            known = {id(trial.slots) for trial in trials if trial.bad}
            first = trials_of(op, self.first, context, noisy=noisy)
            trials += [t for t in first if t.bad and id(t.slots) not in known]
        return trials

    def _cover(self, op: Operation, trials: Sequence[Trial]) -> list[Found]:
        """Return where *op* holds; remember what is open and what is refuted."""
        if not trials:
            return []
        found = cover(op, trials, self.vocabulary, self.limits)
        if found:
            touched = self._touched(op)
            if not found[0].context:
                where = guarded(op, trials, self.vocabulary, touched)
                found = [found[0]._replace(context=where)]
            found = [
                each
                for each in found
                if coverage.enough_values(op, [t for t in touched if all_hold(each.context, t)])
            ]
        total = count(trials)
        few = 0 < total.conflicts <= _FEW * total.support
        if few and isinstance(op, (DropParam, Replace)) and all(each.context for each in found):
            self.fenced[op] = total
        if not found:
            if total.support >= 2 and not total.conflicts:
                self.open[op] = total
            elif total.conflicts > _REFUTED * len(trials):
                self._refuted[op] = len(self.corpus.items)
        return found

    def _proven(self, op: Operation, context: Context) -> Found | None:
        """Return the evidence for *op* in *context*, if that carries it."""
        return proven(op, context, count(self._trials(op, context)), self.limits)

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
        is_new = False
        for found in coverage.sectioned(op, result, trials, self.limits):
            if not (self.limits.wary and coverage.is_coincidence(op, found, self.corpus)):
                is_new |= self._rewrite(op, found)
        return is_new

    def _rewrite(self, op: Operation, result: Found) -> bool:
        """Rewrite the items; a rule that changes none, or that no file can hold, is no rule."""
        rule = said(self.site, op, result.context, evidence_of(result.evidence, result.risk))
        if rule is None:
            return False
        rules = [*self.rules, rule]
        hasher = self.corpus.hasher
        concerned = sources(op, self.corpus, result.context)
        touched = {item.form for item in concerned}
        changed = False
        items = []
        for item in self.corpus.items:
            image = rule.image(item.slots) if item.form in touched else None
            if image is not None and image != item.slots:
                image = in_order(settle(image, rules))
                changed = True
                item = Item(image, hasher.of(image), item.contents, item.content, item.url)
            items.append(item)
        if changed:
            examples = examples_of(rule, concerned, self.corpus, rules)
            self.rules.append(rule.replace(examples=examples))
            self.corpus = Corpus(items, hasher, self.first.two)
        return changed
