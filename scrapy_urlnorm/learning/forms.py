"""Form rules: one page under many values, such as ``/login?next=…``.

All of it is one content and so one vote: what holds for a whole site can never be learned from
it. Here the distinct values are the sample, and the rule holds for that one page only.

Needed by app_wiki (its share is 0.84 with this, 0 without) and app_cgit.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from scrapy_urlnorm.learning.candidates import order
from scrapy_urlnorm.learning.corpus import OTHER, Corpus, Item, Vocabulary, equals
from scrapy_urlnorm.learning.cover import Found
from scrapy_urlnorm.learning.priors import RETURNS, prior, returns
from scrapy_urlnorm.learning.risk import Limits, accepted, risk
from scrapy_urlnorm.learning.trials import Count
from scrapy_urlnorm.site_rules.context import Context, Path, context_text, rest_of
from scrapy_urlnorm.site_rules.form import Slots, is_param
from scrapy_urlnorm.site_rules.operations import DropParam, IgnoreValue, Operation
from scrapy_urlnorm.url import holds_address

if TYPE_CHECKING:
    from collections.abc import Iterator


#: URLs of one page, and different values of each parameter, that a rule needs; rules a round,
#: parameters of a rule, and those it is made of, at most (choices).
_MIN_ITEMS, _MIN_VALUES, _MAX_RULES, _MAX_NAMES, _MAX_VARYING = 20, 5, 60, 3, 4
#: So many URLs are enough where the parameters only say where to go afterwards (a choice).
_MIN_RETURNS = 8
#: Different paths from which a page must have been called (a choice).
_MIN_CALLED = 40


def candidates(
    corpus: Corpus, vocabulary: Vocabulary, limits: Limits, walls: frozenset[int] = frozenset()
) -> list[tuple[Operation, Found]]:
    """Return form rules, the widest first. *walls* are contents that ask for a password."""
    found: list[tuple[Operation, Found]] = []
    for names in _varying_sets(corpus):
        found += _of_names(names, corpus, vocabulary, limits, walls)
    called = _called_from_anywhere(corpus, vocabulary, limits, walls)
    return [*sorted(found, key=_widest)[:_MAX_RULES], *sorted(called, key=_widest)[:_MAX_RULES]]


def _widest(entry: tuple[Operation, Found]) -> Any:
    op, found = entry
    return -found.evidence.compared, order(op), context_text(found.context)


def _of_names(
    names: tuple[str, ...],
    corpus: Corpus,
    vocabulary: Vocabulary,
    limits: Limits,
    walls: frozenset[int],
) -> Iterator[tuple[Operation, Found]]:
    """Yield rules for each page that is the same whatever parameters *names* say."""
    buckets: defaultdict[int, list[Item]] = defaultdict(list)
    for item in corpus.by_slot.get(names[0], ()):
        if all(name in item.slots for name in names):
            buckets[corpus.hasher.moved(item.form, item.slots, names)].append(item)
    failing = {
        _kind(items[0].slots, names, vocabulary)
        for items in buckets.values()
        if len({item.content for item in items}) > 1
    }
    for form, items in buckets.items():
        slots, content = items[0].slots, items[0].content
        returning = all(_returns(name, items, is_wary=limits.wary) for name in names)
        if (
            len(items) < (_MIN_RETURNS if returning else _MIN_ITEMS)
            or any(item.content != content for item in items)
            or (limits.wary and not returning and content not in walls)
            or OTHER in slots
            or any(len({item.slots[name] for item in items}) < _MIN_VALUES for name in names)
            or _kind(slots, names, vocabulary) in failing
        ):
            continue
        other = corpus.by_form.get(form)
        is_absent = other is not None and (other.content == content or other.content < 0)
        op: Operation = DropParam(names) if is_absent else IgnoreValue(names)
        context: Context = (rest_of(slots, op.slots),)
        if len(vocabulary.values["host"]) > 1:
            context = (*context, equals("host", slots["host"]))
        likely = RETURNS if returning else prior(op)
        yield from _found(op, context, len(items), likely, limits)


def _called_from_anywhere(
    corpus: Corpus, vocabulary: Vocabulary, limits: Limits, walls: frozenset[int]
) -> Iterator[tuple[Operation, Found]]:
    """Yield rules for one page that a parameter calls from anywhere: ``/ANY/PAGE?do=login``.

    All pages of one path template with exactly these parameters have to show one content. The
    values are frequent words. Needed by test_what_is_redundant_is_found[farm].
    """
    groups: defaultdict[tuple[Path, tuple[tuple[str, str], ...]], list[Item]] = defaultdict(list)
    for item in corpus.items if len(corpus.items) >= _MIN_CALLED else ():
        query = tuple(sorted(pair for pair in item.slots.items() if is_param(pair[0])))
        if (
            0 < len(query) <= _MAX_NAMES
            and all(value in vocabulary.values.get(name, ()) for name, value in query)
            and any(value.isalpha() for _, value in query)
        ):
            groups[vocabulary.template(item.slots, frozenset()), query].append(item)
    for (template, query), items in groups.items():
        names = tuple(f"s{i}" for i, (kind, _) in enumerate(template.before) if kind != "=")
        paths = {tuple(item.slots[name] for name in names) for item in items}
        if (
            len(paths) < _MIN_CALLED
            or len({item.content for item in items}) > 1
            or (limits.wary and items[0].content not in walls)
        ):
            continue
        op = IgnoreValue(names)
        context: Context = (
            vocabulary.template(items[0].slots, op.slots),
            *(equals(name, value) for name, value in query),
        )
        yield from _found(op, context, len(items), prior(op), limits)


def _found(
    op: Operation, context: Context, values: int, likely: float, limits: Limits
) -> list[tuple[Operation, Found]]:
    """Return *op* in *context* if so many values, each a witness here, carry it; else nothing."""
    if not accepted(values, 0, likely, limits.risk):
        return []
    return [(op, Found(context, Count(float(values), 0, values), risk(values, 0, likely)))]


def _varying_sets(corpus: Corpus) -> list[tuple[str, ...]]:
    """Return the sets of parameters that vary inside contents with many URLs."""
    found: set[tuple[str, ...]] = set()
    for items in corpus.by_content.values():
        if len(items) < _MIN_RETURNS:
            continue
        values: defaultdict[str, set[str]] = defaultdict(set)
        for item in items:
            for name, value in item.slots.items():
                if is_param(name) and name != "?":
                    values[name].add(value)
        often = [name for name in values if len(values[name]) >= _MIN_VALUES]
        often.sort(key=lambda name: (-len(values[name]), name))
        for size in range(1, _MAX_NAMES + 1):
            found.update(tuple(sorted(c)) for c in combinations(often[:_MAX_VARYING], size))
    return sorted(found, key=lambda names: (-len(names), names))[:_MAX_RULES]


def _returns(name: str, items: list[Item], *, is_wary: bool) -> bool:
    """Whether a parameter says where to go afterwards, by its name or by all its values.

    ``from`` may be a date or a station. In a crawl its values have to be addresses.
    """
    if returns(name[2:], alone=is_wary):
        return True
    return all(holds_address(unquote(item.slots[name])) for item in items)


def _kind(slots: Slots, names: tuple[str, ...], vocabulary: Vocabulary) -> object:
    ignored = frozenset(names)
    others = frozenset(
        (name, value if name in vocabulary.dispatch else "")
        for name, value in slots.items()
        if is_param(name) and name not in ignored
    )
    return vocabulary.template(slots, ignored), others
