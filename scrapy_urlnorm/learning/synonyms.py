"""Synonyms: values that name one thing, such as a version and the revision that has its name.

One pair of them is on a few pages only: too few to prove an exchange of these two values. But a
site has many pairs, and they share one hypothesis: values that stood for one another on two
pages do so wherever both are met. Every page beyond the second is a trial of it, whatever the
pair. The table of pairs, which the rule brings along, is what the log shows: nothing is said of
values that it does not have twice.

What a branch or a version is called may differ from one repository to the next, so the values
may have to share a third slot (``within``).

Needed by app_gitweb (.37 without, .49 with it).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from scrapy_urlnorm.learning.candidates import has_values
from scrapy_urlnorm.learning.files import is_file
from scrapy_urlnorm.learning.trials import Trial
from scrapy_urlnorm.masking import placeholders
from scrapy_urlnorm.site_rules.context import Is, all_hold
from scrapy_urlnorm.site_rules.form import is_segment
from scrapy_urlnorm.site_rules.operations import ValueAlias
from scrapy_urlnorm.site_rules.operations.same_values import (
    class_text,
    is_writable,
    member_text,
    values_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from scrapy_urlnorm.learning.contexts import Vocabulary
    from scrapy_urlnorm.learning.corpus import Corpus, Item
    from scrapy_urlnorm.site_rules.context import Context
    from scrapy_urlnorm.site_rules.operations.same_values import Values

#: Contents on which two values have to agree before they are believed to be one thing (measured:
#: with one, 21 of 436 later comparisons of app_gitweb differ; with two none of 322).
_NOMINATED = 2
#: A content that so many values share on one kind of page tells nothing about any two of them
#: (a choice: a folder that fifty revisions left alone, a search without results).
_WALL = 8
#: A number with so many digits counts something (a choice: the pages, not the revisions).
_COUNT = 4
#: Kinds of pages that one rule may name (a choice).
_MAX_KINDS = 20
#: Slots that values may have to share, how much more evidence without one must have to be taken
#: all the same, and how many agreements one that fails outweighs (choices).
_MAX_WITHIN, _UNSHARED, _FAILURE = 6, 2, 20
#: Trials without which nothing can be proven, for time; classes that one rule may know (choices).
_MIN_TRIALS, _MAX_CLASSES = 5, 20_000


class _Comparison(NamedTuple):
    """Two URLs that differ in the slots alone. ``one`` has the smaller values."""

    one: Item
    other: Item

    @property
    def agrees(self) -> bool:
        return self.one.content == self.other.content

    @property
    def of_files(self) -> bool:
        """Whether one of the two is no HTML. What is small and equal is often so by chance."""
        return is_file(min(self.one.content, self.other.content))

    @property
    def trial(self) -> Trial:
        """The comparison as a trial, with one vote if the two agree."""
        content = self.one.content if self.agrees else None
        agrees = int(self.agrees)
        return Trial(content, 1 - agrees, self.one.slots, agrees, 2, is_file=self.of_files)


#: What the shared slots say, and two values of the others.
_Pair = tuple["Values", "Values", "Values"]
#: What the shared slots say, and a value of the others.
_Node = tuple["Values", "Values"]


class _Evidence(NamedTuple):
    """What the log says of one pair of values."""

    agreeing: dict[int, _Comparison]  #: by content
    failing: list[_Comparison]
    of_files: list[_Comparison]  #: they do not name a pair, and prove it only if there are many
    silent: set[int]  #: contents of `agreeing` that do not tell whether the two are one thing

    @property
    def is_nominated(self) -> bool:
        return len(self.agreeing) - len(self.silent) >= _NOMINATED

    @property
    def later(self) -> dict[int, _Comparison]:
        """The contents on which the pair agrees, without those that have nominated it."""
        telling = [content for content in self.agreeing if content not in self.silent]
        first = sorted(telling, key=lambda content: self.agreeing[content].one.form)[:_NOMINATED]
        return {c: found for c, found in self.agreeing.items() if c not in first}


def candidates(named: Iterable[tuple[str, ...]], corpus: Corpus) -> Iterator[ValueAlias]:
    """Yield rules about *named*, slots in which URLs of one content differ, with their tables."""
    for names in named:
        compared = _compared(names, corpus, ())
        if sum(comparison.agrees for comparison in compared) < _MIN_TRIALS:
            continue
        beside = Counter(slot for one, _ in compared for slot in one.slots if has_values(slot))
        common = [slot for slot, _ in beside.most_common() if slot not in names][:_MAX_WITHIN]
        alone = _worth(_evidence(names, (), compared))
        shared = {slot: _worth(_evidence(names, (slot,), compared)) for slot in common}
        best = max(common, key=lambda slot: (shared[slot], slot), default="")
        within: tuple[str, ...] = ()
        if best and shared[best] >= max(_MIN_TRIALS, alone / _UNSHARED):
            within = (best,)
        elif alone < _MIN_TRIALS:
            continue
        op = with_table(names, within, corpus)
        if op is not None:
            yield op


def with_table(
    names: tuple[str, ...], within: tuple[str, ...], corpus: Corpus, context: Context = ()
) -> ValueAlias | None:
    """Return the rule with the classes that *context* shows; None if it shows none."""
    pairs = _evidence(names, within, _compared(names, corpus, context))
    classes = []
    for where, members in _classes(pairs, _groups(names, corpus, context), within):
        ordered = sorted(members, key=lambda values: _simplest(names, values))
        if not _has_secret((*within, *names), [(*where, *values) for values in ordered]):
            shared = member_text(within, where) if within else ""
            classes.append(class_text(names, ordered, shared))
    if not classes or len(classes) > _MAX_CLASSES:
        return None
    return ValueAlias(names, tuple(sorted(classes)), within)


def trials(op: ValueAlias, corpus: Corpus, context: Context = ()) -> list[Trial]:
    """Ask pairs that were one thing on two pages whether they are on each other page."""
    found = []
    compared = _compared(op.names, corpus, context)
    for evidence in _evidence(op.names, op.within, compared).values():
        if not evidence.is_nominated:
            continue
        found += [comparison.trial for comparison in evidence.later.values()]
        found += [comparison.trial for comparison in evidence.of_files]
        found += [comparison.trial for comparison in evidence.failing]
    return found


def where_tried(
    op: ValueAlias, context: Context, corpus: Corpus, vocabulary: Vocabulary
) -> Context:
    """Stay with the kinds of pages on which values were compared.

    What two names of one revision show is not the same everywhere: an archive of its files has
    the name inside.
    """
    agreeing = [t.slots for t in trials(op, corpus, context) if t.content is not None]
    for slot in sorted(vocabulary.dispatch - op.slots):
        tried = {slots.get(slot, "") for slots in agreeing}
        if "" not in tried and len(tried) <= _MAX_KINDS:
            others = (c for c in context if not (isinstance(c, Is) and c.slot == slot))
            context = (*others, Is(slot, tuple(sorted(tried))))
    return context


def _worth(pairs: dict[_Pair, _Evidence]) -> int:
    """Return how many trials succeed, less what the failing ones weigh."""
    nominated = [evidence for evidence in pairs.values() if evidence.is_nominated]
    contents = {content for each in nominated for content in each.later}
    return len(contents) - _FAILURE * sum(len(each.failing) for each in nominated)


def _compared(names: tuple[str, ...], corpus: Corpus, context: Context) -> list[_Comparison]:
    """Compare URLs that differ in *names* alone, where these values were one somewhere.

    A page that is the same whatever they say tells of no two values that they are one.
    """
    groups = [group for group in _groups(names, corpus, context) if len(group) > 1]
    found: list[_Comparison] = []
    partners: defaultdict[Values, set[Values]] = defaultdict(set)
    for group in groups:
        by_content: defaultdict[int, list[Values]] = defaultdict(list)
        for values, item in group.items():
            by_content[item.content].append(values)
        if sum(content >= 0 for content in by_content) < 2:
            continue
        for content, same in by_content.items():
            if 1 < len(same) <= _WALL and content >= 0:
                for one, other in combinations(sorted(same, key=_order), 2):
                    if not _is_step(one, other):
                        partners[one].add(other)
                        found.append(_Comparison(group[one], group[other]))
    for group in groups:
        for one in sorted(group.keys() & partners.keys(), key=_order):
            found += [
                _Comparison(group[one], group[other])
                for other in sorted(partners[one] & group.keys(), key=_order)
                if min(group[one].content, group[other].content) >= 0
                and group[one].content != group[other].content
            ]
    return found


def _groups(
    names: tuple[str, ...], corpus: Corpus, context: Context
) -> Iterable[dict[Values, Item]]:
    """Return the URLs by what they have besides *names*, each group by what they say there."""
    in_path = [name for name in names if is_segment(name)]
    items = corpus.by_slot.get(in_path[0], []) if in_path else corpus.items
    groups: defaultdict[int, dict[Values, Item]] = defaultdict(dict)
    for item in items:
        slots = item.slots
        if not all_hold(context, slots):
            continue
        values = values_of(slots, names)
        if is_writable(values) and all(name in slots for name in in_path):
            rest = corpus.hasher.moved(item.form, slots, (*names, "sep"))
            groups[rest][values] = item
    return groups.values()


def _evidence(
    names: tuple[str, ...], within: tuple[str, ...], compared: Iterable[_Comparison]
) -> dict[_Pair, _Evidence]:
    """Return the evidence by pair. Where pairs fail, only kinds of pages count that tell."""
    found: dict[_Pair, _Evidence] = {}
    for comparison in compared:
        one, other = comparison.one.slots, comparison.other.slots
        where = values_of(one, within)
        if None in where:
            continue
        pair = where, values_of(one, names), values_of(other, names)
        evidence = found.get(pair)
        if evidence is None:
            evidence = found[pair] = _Evidence({}, [], [], set())
        if comparison.of_files:
            evidence.of_files.append(comparison)
        elif comparison.agrees:
            evidence.agreeing.setdefault(comparison.one.content, comparison)
        else:
            evidence.failing.append(comparison)
    if any(each.failing and len(each.agreeing) >= _NOMINATED for each in found.values()):
        slot, kinds = _telling(found.values(), {*names, *within})
        for each in found.values():
            each.silent.update(
                content
                for content, comparison in each.agreeing.items()
                if comparison.one.slots.get(slot) not in kinds
            )
    return found


def _telling(pairs: Collection[_Evidence], named: set[str]) -> tuple[str, set[str]]:
    """Return a slot that says which kind of page it is, and those of its kinds that tell.

    A revision may leave a folder as it was, and never its own page: pairs that agree on pages of
    a kind that tells agree on all others.
    """
    kinds: defaultdict[str, defaultdict[str, list[int]]] = defaultdict(
        lambda: defaultdict(lambda: [0, 0])
    )
    for each in pairs:
        for comparison in each.agreeing.values():
            for slot, value in comparison.one.slots.items():
                if has_values(slot) and slot not in named:
                    record = kinds[slot][value]
                    record[0] += len(each.agreeing) - 1
                    record[1] += len(each.failing)
    best: tuple[int, str, set[str]] = 0, "", set()
    for slot, known in kinds.items():
        if 1 < len(known) <= _MAX_KINDS:
            telling = {v for v, (good, bad) in known.items() if not bad and good >= _MIN_TRIALS}
            best = max(
                best, (sum(known[v][0] for v in telling), slot, telling), key=lambda b: b[:2]
            )
    return best[1], best[2]


def _classes(
    pairs: dict[_Pair, _Evidence],
    groups: Iterable[dict[Values, Item]],
    within: tuple[str, ...],
) -> Iterator[tuple[Values, list[Values]]]:
    """Yield sets of values that are one thing: all that pairs connect, if no two differ."""
    leader: dict[_Node, _Node] = {}

    def find(node: _Node) -> _Node:
        while leader[node] != node:
            node = leader[node]
        return node

    for (where, one, other), evidence in pairs.items():
        if evidence.is_nominated:
            first, second = (where, one), (where, other)
            leader.setdefault(first, first)
            leader.setdefault(second, second)
            leader[find(first)] = find(second)
    torn = set()
    for group in groups:
        shown: dict[_Node, int] = {}
        for values, item in group.items():
            node = values_of(item.slots, within), values
            if node in leader and item.content >= 0 and not is_file(item.content):
                top = find(node)
                if shown.setdefault(top, item.content) != item.content:
                    torn.add(top)
    classes: defaultdict[_Node, list[Values]] = defaultdict(list)
    for node in leader:
        classes[find(node)].append(node[1])
    for top, members in classes.items():
        if top not in torn:
            yield top[0], members


def _has_secret(names: tuple[str, ...], told: Iterable[Values]) -> bool:
    """Whether a table of these values would write a session id or a token to a file."""
    urls = []
    for values in told:
        pairs = [
            (n, quote(v, errors="surrogateescape")) for n, v in zip(names, values, strict=True) if v
        ]
        path = "/".join(value for name, value in pairs if is_segment(name))
        query = "&".join(f"{quote(n[2:])}={value}" for n, value in pairs if not is_segment(n))
        urls.append(f"http://h/{path}?{query}")
    return placeholders(urls) != urls


def _is_step(one: Values, other: Values) -> bool:
    """Whether two values differ in short numbers: pages of a list are no names of each other."""
    pairs = [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]]
    return all(_is_count(value) for pair in pairs for value in pair)


def _is_count(value: str | None) -> bool:
    return value is None or (value.isascii() and value.isdigit() and len(value) <= _COUNT)


def _simplest(names: tuple[str, ...], values: Values) -> tuple[int, int, str]:
    text = member_text(names, values)
    return sum(value is not None for value in values), len(text), text


def _order(values: Values) -> tuple[str, ...]:
    return tuple("" if value is None else f"={value}" for value in values)
