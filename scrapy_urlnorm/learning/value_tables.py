"""Rules that bring a table along: nothing is said of what the table does not hold.

Those about numbers of pages are found in `range_tables`. Here are values that name one thing, such
as a version and the revision that has its name. One pair of them is on a few pages only: too few to
prove an exchange of these two values. But a site has many pairs, and they share one hypothesis:
values that stood for one another on two pages do so wherever both are met. Every page beyond the
second is a trial of it, whatever the pair. What a branch is called may differ from one repository
to the next, so values may have to share a third slot (``within``).

Needed by app_gitweb (.37 without, .49 with it).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from scrapy_urlnorm.learning.candidates import has_values
from scrapy_urlnorm.learning.media import is_file
from scrapy_urlnorm.learning.trials import Trial
from scrapy_urlnorm.masking import placeholders
from scrapy_urlnorm.site_rules.context import Context, Is, all_hold
from scrapy_urlnorm.site_rules.form import is_segment
from scrapy_urlnorm.site_rules.operations import ValueAlias
from scrapy_urlnorm.site_rules.operations.tables import (
    class_text,
    is_writable,
    member_text,
    values_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from scrapy_urlnorm.learning.corpus import Corpus, Item, Vocabulary
    from scrapy_urlnorm.site_rules.operations.tables import Values

    #: What the shared slots say, and a value of the others; and two values of the others.
    Node = tuple[Values, Values]
    Couple = tuple[Values, Values, Values]
    #: Two URLs that differ in the slots alone, and what they say there.
    Compared = tuple[Item, Item, Values, Values]
    Group = dict[Values, Item]

#: With fewer trials nothing can be proven; classes that one rule may know (choices).
_MIN_TRIALS, _MAX_CLASSES = 5, 20_000
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


def trials(op: ValueAlias, corpus: Corpus, context: Context = ()) -> list[Trial]:
    """Return what the URLs say that differ in the slots alone."""
    _, compared = _together(op.names, corpus, context)
    return [
        _vote(one, other)
        for evidence in _evidence(op.names, op.within, compared).values()
        if evidence.is_nominated
        for one, other, *_ in (*evidence.later.values(), *evidence.of_files, *evidence.failing)
    ]


def inside(
    op: ValueAlias, context: Context, corpus: Corpus, vocabulary: Vocabulary
) -> tuple[ValueAlias, Context] | None:
    """Return the rule and the context that it may have, where it holds in *context*.

    What two names of one revision show is not the same everywhere: an archive of its files has the
    name inside. So the rule keeps to the kinds of pages on which values were compared.
    """
    agreeing = [t.slots for t in trials(op, corpus, context) if t.content is not None]
    for slot in sorted(vocabulary.dispatch - op.slots):
        tried = {slots.get(slot, "") for slots in agreeing}
        if "" not in tried and len(tried) <= _MAX_KINDS:
            others = (c for c in context if not (isinstance(c, Is) and c.slot == slot))
            context = (*others, Is(slot, tuple(sorted(tried))))
    narrowed = _with_classes(op.names, op.within, corpus, context)
    return None if narrowed is None else (narrowed, context)


class _Evidence(NamedTuple):
    """What the log says of one pair of values."""

    agreeing: dict[int, Compared]  #: by content
    failing: list[Compared]
    of_files: list[Compared]  #: they do not name a pair, and prove it only if there are many
    silent: set[int]  #: contents of `agreeing` that do not tell whether the two are one thing

    @property
    def is_nominated(self) -> bool:
        return len(self.agreeing) - len(self.silent) >= _NOMINATED

    @property
    def later(self) -> dict[int, Compared]:
        """The contents on which the pair agrees, without those that have nominated it."""
        telling = [content for content in self.agreeing if content not in self.silent]
        first = sorted(telling, key=lambda content: self.agreeing[content][0].form)[:_NOMINATED]
        return {c: found for c, found in self.agreeing.items() if c not in first}


def candidate(names: tuple[str, ...], corpus: Corpus) -> ValueAlias | None:
    """Return the rule about *names*, slots in which URLs of one content differ."""
    _, compared = _together(names, corpus, ())
    if sum(one.content == other.content for one, other, *_ in compared) < _MIN_TRIALS:
        return None
    beside = Counter(slot for one, *_ in compared for slot in one.slots if has_values(slot))
    common = [slot for slot, _ in beside.most_common() if slot not in names][:_MAX_WITHIN]
    alone = _worth(_evidence(names, (), compared))
    shared = {slot: _worth(_evidence(names, (slot,), compared)) for slot in common}
    best = max(common, key=lambda slot: (shared[slot], slot), default="")
    if best and shared[best] >= max(_MIN_TRIALS, alone / _UNSHARED):
        return _with_classes(names, (best,), corpus)
    return _with_classes(names, (), corpus) if alone >= _MIN_TRIALS else None


def _with_classes(
    names: tuple[str, ...], within: tuple[str, ...], corpus: Corpus, context: Context = ()
) -> ValueAlias | None:
    """Return the rule with the classes that *context* shows; None if it shows none."""
    groups, compared = _together(names, corpus, context)
    pairs = _evidence(names, within, compared)
    classes = []
    for where, members in _classes(pairs, groups, within):
        ordered = sorted(members, key=lambda values: _simplest(names, values))
        urls = [_as_url((*within, *names), (*where, *values)) for values in ordered]
        if placeholders(urls) == urls:  # no secret goes to a file
            shared = member_text(within, where) if within else ""
            classes.append(class_text(names, ordered, shared))
    return (
        ValueAlias(names, tuple(sorted(classes)), within)
        if 0 < len(classes) <= _MAX_CLASSES
        else None
    )


def _as_url(names: tuple[str, ...], values: Values) -> str:
    pairs = [
        (n, quote(v, errors="surrogateescape")) for n, v in zip(names, values, strict=True) if v
    ]
    path = "/".join(value for name, value in pairs if is_segment(name))
    query = "&".join(f"{quote(n[2:])}={value}" for n, value in pairs if not is_segment(n))
    return f"http://h/{path}?{query}"


def _vote(one: Item, other: Item) -> Trial:
    """Return what two URLs say that differ in the slots alone."""
    agrees = one.content == other.content
    of_files = is_file(min(one.content, other.content))
    content = one.content if agrees else None
    return Trial(content, int(not agrees), one.slots, float(agrees), 2, is_file=of_files)


def _worth(pairs: dict[Couple, _Evidence]) -> int:
    """Return how many trials succeed, less what the failing ones weigh."""
    nominated = [evidence for evidence in pairs.values() if evidence.is_nominated]
    contents = {content for each in nominated for content in each.later}
    return len(contents) - _FAILURE * sum(len(each.failing) for each in nominated)


def _together(
    names: tuple[str, ...], corpus: Corpus, context: Context
) -> tuple[list[Group], list[Compared]]:
    """Return `_groups` and what is `_compared`; a corpus is asked several times, and remembers."""
    found = corpus.together.get((names, context))
    if found is None:
        groups = _groups(names, corpus, context)
        found = corpus.together[names, context] = groups, _compared(groups)
    return found


def _groups(names: tuple[str, ...], corpus: Corpus, context: Context) -> list[Group]:
    """Return the URLs by what they have besides *names*, each group by what they say there.

    A group of one tells nothing.
    """
    in_path = [name for name in names if is_segment(name)]
    groups: defaultdict[int, Group] = defaultdict(dict)
    for item in corpus.by_slot.get(in_path[0], []) if in_path else corpus.items:
        slots = item.slots
        values = values_of(slots, names)
        is_whole = all(name in slots for name in in_path)
        if is_whole and is_writable(values) and all_hold(context, slots):
            rest = corpus.hasher.moved(item.form, slots, (*names, "sep"))
            groups[rest][values] = item
    return [group for group in groups.values() if len(group) > 1]


def _compared(groups: Iterable[Group]) -> list[Compared]:
    """Compare the URLs of each group where their values were one somewhere.

    The one with the smaller values comes first. A page that is the same whatever they say tells of
    no two values that they are one.
    """
    found: list[Compared] = []
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
                        found.append((group[one], group[other], one, other))
    for group in groups:
        for one in sorted(group.keys() & partners.keys(), key=_order):
            others = sorted(partners[one] & group.keys(), key=_order)
            pairs = [(group[one], group[other], one, other) for other in others]
            found += [pair for pair in pairs if 0 <= pair[0].content != pair[1].content >= 0]
    return found


def _evidence(
    names: tuple[str, ...], within: tuple[str, ...], compared: Iterable[Compared]
) -> dict[Couple, _Evidence]:
    """Return the evidence by pair. Where pairs fail, only kinds of pages count that tell."""
    found: defaultdict[Couple, _Evidence] = defaultdict(lambda: _Evidence({}, [], [], set()))
    for pair in compared:
        one, other, left, right = pair
        where = values_of(one.slots, within)
        if None in where or not is_writable(where):
            continue
        evidence = found[where, left, right]
        if is_file(min(one.content, other.content)):  # small and equal by chance, often
            evidence.of_files.append(pair)
        elif one.content == other.content:
            evidence.agreeing.setdefault(one.content, pair)
        else:
            evidence.failing.append(pair)
    if any(each.failing and len(each.agreeing) >= _NOMINATED for each in found.values()):
        slot, kinds = _telling(found.values(), {*names, *within})
        for each in found.values():
            for content, (one, *_) in each.agreeing.items():
                if one.slots.get(slot) not in kinds:
                    each.silent.add(content)
    return found


def _telling(pairs: Collection[_Evidence], named: set[str]) -> tuple[str, set[str]]:
    """Return a slot that says which kind of page it is, and those of its kinds that tell.

    A revision may leave a folder as it was, and never its own page: pairs that agree on pages of
    a kind that tells agree on all others. Needed by
    test_half_of_a_simulated_site_teaches_nothing_wrong.
    """
    good: defaultdict[str, Counter[str]] = defaultdict(Counter)
    failing: set[tuple[str, str]] = set()
    for each in pairs:
        for one, *_ in each.agreeing.values():
            for slot, value in one.slots.items():
                if has_values(slot) and slot not in named:
                    good[slot][value] += len(each.agreeing) - 1
                    if each.failing:
                        failing.add((slot, value))
    best: tuple[int, str, set[str]] = 0, "", set()
    for slot, known in good.items():
        if 1 < len(known) <= _MAX_KINDS:
            telling = {v for v, n in known.items() if n >= _MIN_TRIALS and (slot, v) not in failing}
            best = max(best, (sum(known[v] for v in telling), slot, telling), key=lambda b: b[:2])
    return best[1], best[2]


def _classes(
    pairs: dict[Couple, _Evidence], groups: Iterable[Group], within: tuple[str, ...]
) -> Iterator[tuple[Values, list[Values]]]:
    """Yield sets of values that are one thing: all that pairs connect, if no two differ."""
    members: dict[Node, list[Node]] = {}
    for (where, one, other), evidence in pairs.items():
        if evidence.is_nominated:
            both = [members.setdefault((where, v), [(where, v)]) for v in (one, other)]
            small, large = sorted(both, key=len)
            if small is not large:
                large += small
                members.update(dict.fromkeys(small, large))
    torn = set()
    for group in groups:
        shown: dict[int, int] = {}
        for values, item in group.items():
            known = members.get((values_of(item.slots, within), values))
            if known is None or item.content < 0 or is_file(item.content):
                continue
            if shown.setdefault(id(known), item.content) != item.content:
                torn.add(id(known))
    for known in {id(each): each for each in members.values()}.values():
        if id(known) not in torn:
            yield known[0][0], [values for _, values in known]


def _is_step(one: Values, other: Values) -> bool:
    """Whether two values differ in short numbers: pages of a list are no names of each other."""
    return all(
        v is None or (v.isascii() and v.isdigit() and len(v) <= _COUNT)
        for pair in zip(one, other, strict=True)
        if pair[0] != pair[1]
        for v in pair
    )


def _simplest(names: tuple[str, ...], values: Values) -> tuple[int, int, str]:
    text = member_text(names, values)
    return sum(value is not None for value in values), len(text), text


def _order(values: Values) -> tuple[str, ...]:
    return tuple("" if value is None else f"={value}" for value in values)
