"""Form rules: one page under many values, such as ``/login?next=…``.

All of it is one content and so one vote: what holds for a whole site can never be learned from
it. Here the distinct values are the sample, and the rule holds for that one page only.

Needed by app_wiki (its share is 0.84 with this, 0 without) and app_cgit.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from typing import TYPE_CHECKING
from urllib.parse import unquote

from scrapy_urlnorm.learning.candidates import order
from scrapy_urlnorm.learning.contexts import equals
from scrapy_urlnorm.learning.cover import Found
from scrapy_urlnorm.learning.priors import RETURNS, only_returns, prior, returns
from scrapy_urlnorm.learning.risk import accepted, risk
from scrapy_urlnorm.learning.slots import OTHER
from scrapy_urlnorm.learning.trials import Count
from scrapy_urlnorm.site_rules.context import context_text, rest_of
from scrapy_urlnorm.site_rules.form import Slots, is_param, segments
from scrapy_urlnorm.site_rules.operations import DropParam, IgnoreValue, Operation
from scrapy_urlnorm.site_rules.paths import Path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scrapy_urlnorm.learning.contexts import Vocabulary
    from scrapy_urlnorm.learning.corpus import Corpus, Item
    from scrapy_urlnorm.learning.risk import Limits
    from scrapy_urlnorm.site_rules.context import Context

#: URLs of one page, and different values of each parameter, that a rule needs; rules a round, and
#: parameters of a rule, at most (choices).
_MIN_ITEMS, _MIN_VALUES, _MAX_RULES, _MAX_NAMES = 20, 5, 60, 3
#: Pages alike that are proven alone, and different segments with a pair of URLs, before one rule is
#: made for all of them (choices).
_MIN_PROVEN, _MIN_ALIKE = 2, 3
#: So many URLs are enough where the parameters only say where to go afterwards (a choice).
_MIN_RETURNS = 8
#: Different paths from which a page must have been called (a choice).
_MIN_CALLED = 40


#: A host, a path with one segment left out, and whether it ends in a slash.
_Alike = tuple[str, tuple["str | None", ...], bool]


def candidates(
    corpus: Corpus, vocabulary: Vocabulary, limits: Limits, walls: frozenset[int] = frozenset()
) -> list[tuple[Operation, Found]]:
    """Return form rules, the widest first. *walls* are contents that ask for a password."""
    sets = _varying_sets(corpus)
    found: list[tuple[int, Operation, Found]] = []
    for names in sets:
        buckets: defaultdict[int, list[Item]] = defaultdict(list)
        for item in corpus.by_slot.get(names[0], ()):
            if all(name in item.slots for name in names):
                buckets[corpus.hasher.moved(item.form, item.slots, names)].append(item)
        failing = {
            _kind(items[0].slots, names, vocabulary)
            for items in buckets.values()
            if len({item.content for item in items}) > 1
        }
        proven: set[int] = set()
        for form, items in buckets.items():
            is_wall = items[0].content in walls
            result = _form_rule(corpus, form, items, names, failing, vocabulary, limits, is_wall)
            if result is not None:
                found.append((len(items), *result))
                proven.add(form)
        if len(proven) >= _MIN_PROVEN:
            found += _across(corpus, names, buckets, proven, limits)
    found.sort(key=lambda entry: (-entry[0], order(entry[1]), context_text(entry[2].context)))
    return [(op, result) for _, op, result in found[:_MAX_RULES]]


def _across(
    corpus: Corpus,
    names: tuple[str, ...],
    buckets: Mapping[int, list[Item]],
    proven: set[int],
    limits: Limits,
) -> Iterator[tuple[int, Operation, Found]]:
    """Yield one rule for pages that differ in one segment of the path, such as ``/*/refs/``.

    Some of them are *proven* alone. Whether others speak against it, the trials of the rule show.
    """
    alike: defaultdict[_Alike, list[tuple[int, str, list[Item]]]] = defaultdict(list)
    for form, items in buckets.items():
        path = segments(items[0].slots)
        for at, segment in enumerate(path):
            others = (*path[:at], None, *path[at + 1 :])
            host, slash = items[0].slots["host"], "slash" in items[0].slots
            alike[host, others, slash].append((form, segment, items))
    for (host, others, slash), pages in alike.items():
        values = {segment for _, segment, items in pages if len(items) > 1}
        known = [form for form, _, _ in pages if form in proven]
        if len(values) < _MIN_ALIKE or len(known) < _MIN_PROVEN or len(others) < 2:
            continue
        is_absent = any(form in corpus.by_form for form, _, _ in pages)
        op: Operation = DropParam(names) if is_absent else IgnoreValue(names)
        template = tuple(("*", "") if text is None else ("=", text) for text in others)
        context: Context = (Path(template, None, slash),)
        if len({item.slots["host"] for item in corpus.items}) > 1:
            context = (*context, equals("host", host))
        size = sum(len(items) for _, _, items in pages)
        result = _found(op, context, size, prior(op), limits)
        if result is not None:
            yield size, *result


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
        varying = sorted(
            (name for name in values if len(values[name]) >= _MIN_VALUES),
            key=lambda name: (-len(values[name]), name),
        )[:4]
        for size in range(1, _MAX_NAMES + 1):
            found.update(tuple(sorted(c)) for c in combinations(varying, size))
    return sorted(found, key=lambda names: (-len(names), names))[:60]


def _returns(name: str, items: list[Item], *, is_wary: bool) -> bool:
    """Whether a parameter says where to go afterwards, by its name or by all its values.

    ``from`` may be a date or a station. In a crawl its values have to be addresses.
    """
    if (only_returns if is_wary else returns)(name[2:]):
        return True
    return all(_is_address(item.slots[name]) for item in items)


def _is_address(value: str) -> bool:
    """Whether a value is a path or a URL, written plainly or escaped."""
    return unquote(value).startswith(("/", "http://", "https://"))


def _kind(slots: Slots, names: tuple[str, ...], vocabulary: Vocabulary) -> object:
    ignored = frozenset(names)
    others = frozenset(
        (name, value if name in vocabulary.dispatch else "")
        for name, value in slots.items()
        if is_param(name) and name not in ignored
    )
    return vocabulary.template(slots, ignored), others


def _form_rule(
    corpus: Corpus,
    form: int,
    items: list[Item],
    names: tuple[str, ...],
    failing: set[object],
    vocabulary: Vocabulary,
    limits: Limits,
    is_wall: bool,
) -> tuple[Operation, Found] | None:
    returning = all(_returns(name, items, is_wary=limits.wary) for name in names)
    if limits.wary and not returning and not is_wall:
        return None
    if (
        len(items) < (_MIN_RETURNS if returning else _MIN_ITEMS)
        or len({item.content for item in items}) > 1
    ):
        return None
    slots = items[0].slots
    if (
        "sep" in slots
        or OTHER in slots
        or any(len({item.slots[name] for item in items}) < _MIN_VALUES for name in names)
    ):
        return None
    if _kind(slots, names, vocabulary) in failing:
        return None
    other = corpus.by_form.get(form)
    if other is not None and other.content not in (items[0].content,) and other.content >= 0:
        other = None
    op: Operation = DropParam(names) if other is not None else IgnoreValue(names)
    context: Context = (rest_of(slots, op.slots),)
    if len(vocabulary.values["host"]) > 1:
        context = (*context, equals("host", slots["host"]))
    return _found(op, context, len(items), RETURNS if returning else prior(op), limits)


def _found(
    op: Operation, context: Context, values: int, likely: float, limits: Limits
) -> tuple[Operation, Found] | None:
    """Return the rule if so many values, each a witness here, carry it."""
    if not accepted(values, 0, likely, limits.risk):
        return None
    return op, Found(context, Count(float(values), 0, values), risk(values, 0, likely))


def selectors(
    corpus: Corpus, vocabulary: Vocabulary, limits: Limits, walls: frozenset[int] = frozenset()
) -> list[tuple[Operation, Found]]:
    """Return rules for one page that a parameter calls from anywhere: ``/ANY/PAGE?do=login``.

    All pages of one path template with exactly these parameters have to show one content. Needed
    by test_what_is_redundant_is_found[farm].
    """
    if len(corpus.items) < _MIN_CALLED:
        return []
    groups: defaultdict[tuple[Path, tuple[tuple[str, str], ...]], list[Item]]
    groups = defaultdict(list)
    for item in corpus.items:
        query = tuple(sorted(pair for pair in item.slots.items() if is_param(pair[0])))
        if 0 < len(query) <= _MAX_NAMES and _calls(query, vocabulary):
            groups[vocabulary.template(item.slots, frozenset()), query].append(item)
    found: list[tuple[int, Operation, Found]] = []
    for (template, query), items in groups.items():
        if len(items) < _MIN_CALLED or len({item.content for item in items}) > 1:
            continue
        if limits.wary and items[0].content not in walls:
            continue
        names = tuple(f"s{i}" for i, (kind, _) in enumerate(template.before) if kind != "=")
        paths = {tuple(item.slots[name] for name in names) for item in items}
        if not names or len(paths) < _MIN_CALLED:
            continue
        op = IgnoreValue(names)
        context: Context = (
            vocabulary.template(items[0].slots, op.slots),
            *(equals(name, value) for name, value in query),
        )
        result = _found(op, context, len(items), prior(op), limits)
        if result is not None:
            found.append((len(items), *result))
    found.sort(key=lambda entry: (-entry[0], order(entry[1]), context_text(entry[2].context)))
    return [(op, result) for _, op, result in found[:_MAX_RULES]]


def _calls(query: tuple[tuple[str, str], ...], vocabulary: Vocabulary) -> bool:
    """Whether all values are frequent words, one of them of a parameter that chooses the page."""
    return all(value in vocabulary.values.get(name, ()) for name, value in query) and any(
        value.isalpha() for _, value in query
    )
