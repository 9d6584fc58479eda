"""Wary mining: what a log has to show that a crawl is still writing.

The rows of a crawl that still runs are no fair sample: a sorted site shows neighbours first, short
lists before long ones. A rule learned from them acts on everything that comes. So more is asked:

- Of parameters that are dropped together, each needs pages in which it alone varies. Pages in
  which all vary at once may owe their agreement to the others.
- Values that count upward (page 1, 2, 3, or entry 20, 40, 60) say how far into a list a page is.
  That the second page of a short list is like the first says nothing of the tenth of a long one.
  So a rule holds for the values that were tried.
- That one value of a parameter means the same as another, or the same as none, is often a
  coincidence of what the site holds today, and of what was fetched of it: in a folder with one
  file all orders agree. Such a rule needs more contents; not so for values that say "as usual".
- That a parameter at one value means the same as none is true of any page that has no other value:
  the first version of an article that was never edited is the article. So a few of the pages that
  agree have to be known at another value, where the log has others at all.
- That one page stands under many values (`forms`) is the rule of an empty calendar as well, until
  the month comes that has an event. So it is believed only of parameters that say where to go
  afterwards, as those of a log-in page do.
- A page that many values share which tell other pages apart (an empty day, a search that finds
  nothing) is not about these values. What holds for it holds for no page with a list.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from math import gcd
from typing import TYPE_CHECKING

from scrapy_urlnorm.learning.pools import NEUTRAL
from scrapy_urlnorm.learning.trials import sources
from scrapy_urlnorm.site_rules.context import all_hold
from scrapy_urlnorm.site_rules.form import is_param
from scrapy_urlnorm.site_rules.operations import DropParam, IgnoreValue, Replace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from scrapy_urlnorm.learning.contexts import Vocabulary
    from scrapy_urlnorm.learning.corpus import Corpus, Item
    from scrapy_urlnorm.learning.cover import Found
    from scrapy_urlnorm.learning.slots import Hasher
    from scrapy_urlnorm.learning.trials import Trial
    from scrapy_urlnorm.site_rules.context import Context
    from scrapy_urlnorm.site_rules.operations import Operation

#: Contents in which a parameter alone has to vary, and the values it has there, together (choices).
_CONTENTS, _VALUES = 3, 3
#: Contents that have to agree before one value is taken for another (a choice: in the logs, rules
#: of this kind that are right and worth their place have more).
_EXCHANGED = 20
#: Values count upward where the first is no more than _FIRST steps from nothing, and so many of
#: the steps up to the last are there (choices).
_FIRST, _DENSE = 3, 0.2
#: A content is shared from so many values of a slot on (a choice: three orders of a list are fewer).
_SHARED = 4
#: The slots of whose values a content tells none, by its number.
Shared = Mapping[int, "set[str]"]


def shared(items: Iterable[Item], hasher: Hasher, vocabulary: Vocabulary) -> Shared:
    """Return the contents that stand for many values of a slot, and these slots.

    In the same kind of URLs, the slot tells other pages apart: with all else equal, they differ.
    """
    kinds: defaultdict[object, list[Item]] = defaultdict(list)
    for item in items:
        names = tuple(sorted(filter(is_param, item.slots)))
        kinds[vocabulary.template(item.slots, frozenset()), names].append(item)
    found: defaultdict[int, set[str]] = defaultdict(set)
    for members in kinds.values():
        contents = {item.content for item in members}
        if len(members) < _SHARED or len(contents) == len(members) or len(contents) < 2:
            continue
        for slot in members[0].slots:
            values: defaultdict[int, set[str]] = defaultdict(set)
            rests: defaultdict[int, set[int]] = defaultdict(set)
            for item in members:
                if slot in item.slots:
                    values[item.content].add(item.slots[slot])
                    rests[hasher.moved(item.form, item.slots, (slot,))].add(item.content)
            if any(len(each) > 1 for each in rests.values()):
                for content, of in values.items():
                    if len(of) >= _SHARED:
                        found[content].add(slot)
    return found


def unshared(op: Operation, trials: list[Trial], known: Shared) -> list[Trial]:
    """Take the vote from contents that stand for many values of slots that *op* is not about."""
    slots = op.slots
    return [
        trial._replace(content=None, weight=0.0)
        if trial.content is not None and known.get(trial.content, slots) - slots
        else trial
        for trial in trials
    ]


def alone(op: DropParam | IgnoreValue, context: Context, corpus: Corpus) -> tuple[str, ...]:
    """Return the names of a set that vary alone in enough contents, over enough values."""
    if len(op.names) == 1:
        return op.names
    contents: defaultdict[str, set[int]] = defaultdict(set)
    values: defaultdict[str, set[str]] = defaultdict(set)
    for items in _buckets(op, context, corpus):
        for name in op.names:
            others = [other for other in op.names if other != name]
            groups: defaultdict[tuple[str | None, ...], list[Item]] = defaultdict(list)
            for item in items:
                groups[tuple(map(item.slots.get, others))].append(item)
            for group in groups.values():
                found = {item.slots.get(name) for item in group}
                if len(found) > 1:
                    contents[name].update(item.content for item in group)
                    values[name].update(value for value in found if value is not None)
    return tuple(
        name
        for name in op.names
        if len(contents[name]) >= _CONTENTS and len(values[name]) >= _wanted(name, op, corpus)
    )


def is_coincidence(op: Operation, found: Found, corpus: Corpus) -> bool:
    """Whether too few contents say that one value may be taken for another, or for none.

    Numbers that came in the order of their pages look as if each page went on for ever.
    """
    if found.evidence.support < _EXCHANGED and (exchanges_values(op) or op.has_table):
        return True
    return isinstance(op, Replace) and op.is_default and not _is_told(op, found.context, corpus)


def _is_told(op: Replace, context: Context, corpus: Corpus) -> bool:
    """Whether enough pages that tried a default have another value, or the log has none.

    Needed by app_trac: ``format=txt&version=1`` is the article, but for the one that has a second
    version (one content lost).
    """
    names = [name for name, _ in op.old]
    pages: defaultdict[int, list[Item]] = defaultdict(list)
    for item in corpus.by_slot.get(names[0], ()):
        if all(name in item.slots for name in names):
            pages[corpus.hasher.moved(item.form, item.slots, names)].append(item)
    told: set[int] = set()
    has_others = False
    for items in pages.values():
        tried = [item for item in items if op.image(item.slots) is not None]
        if len(tried) < len(items):
            has_others = True
            told.update(item.content for item in tried if all_hold(context, item.slots))
    return not has_others or len(told) >= _CONTENTS


def exchanges_values(op: Operation) -> bool:
    """Whether one value of a parameter is taken for another, or for none; not "as usual"."""
    if not isinstance(op, Replace):
        return False
    names = {name for name, _ in op.old + op.new}
    if not any(map(is_param, names)):
        return False
    return not (op.is_default and all(value in NEUTRAL for _, value in op.old))


def _wanted(name: str, op: DropParam | IgnoreValue, corpus: Corpus) -> int:
    """Return how many values have to be tried: all, where there are few."""
    known = {item.slots[name] for item in corpus.by_slot.get(name, ())}
    return min(_VALUES, len(known))


def _buckets(op: DropParam | IgnoreValue, context: Context, corpus: Corpus) -> list[list[Item]]:
    """Return the items that the operation makes one; a drop, with the URL that it makes."""
    buckets: defaultdict[int, list[Item]] = defaultdict(list)
    for item in sources(op, corpus, context):
        image = op.image(item.slots) if all_hold(context, item.slots) else None
        if image is not None:
            buckets[corpus.hasher.of(image)].append(item)
    if isinstance(op, DropParam):
        for form, items in buckets.items():
            other = corpus.by_form.get(form)
            if other is not None and other not in items:
                items.append(other)
    return [items for items in buckets.values() if len(items) > 1]


def count_upward(values: Collection[str]) -> bool:
    """Whether values are steps along a list: 1, 2, 3, or 0, 20, 40."""
    numbers = {int(v) for v in values if v.isascii() and v.isdigit() and len(v) <= 9}
    steps = numbers - {0}
    if len(numbers) < len(values) or not steps:
        return False
    step = gcd(*steps)
    last = max(steps) // step
    return min(steps) // step <= _FIRST and len(steps) >= _DENSE * last
