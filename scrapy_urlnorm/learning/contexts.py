"""What is worth naming in the URLs of a site: candidates for the conditions of a rule.

The conditions are those of :mod:`scrapy_urlnorm.site_rules.context`. A path template holds
literal segments, ``#`` (digits) and ``*`` (any), each with an extension perhaps.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.site_rules.context import Has, Is
from scrapy_urlnorm.site_rules.form import REPEAT, Slots, is_param, is_segment, segments
from scrapy_urlnorm.site_rules.heads import Starts, heads_of
from scrapy_urlnorm.site_rules.paths import Path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_urlnorm.learning.corpus import Item
    from scrapy_urlnorm.site_rules.context import Condition

_EXTENSION = re.compile(r"(?<=.)\.[A-Za-z]\w{0,4}$", re.ASCII)
#: Parameters that conditions may name: the most frequent (a choice, for time).
_MAX_NAMES = 48
#: Values counted of one parameter, and queries noted of one path (choices, for memory).
_MAX_VALUES, _MAX_QUERIES = 5_000, 10
#: A parameter with no more values than this selects among kinds; others may be named only at
#: values that stand on a share of the URLs (choices).
_FEW_VALUES, _OFTEN, _SHARE = 40, 5, 0.005
#: A directory is a segment on this share of the different paths, among so many neighbours. Paths
#: are counted, not URLs (measured: a slug with many queries was taken for a directory, and hid
#: nine pages that refute a rule).
_DIRECTORY_SHARE, _SURROUNDINGS = 0.003, 5
#: Which condition is the most general, for equal support.
_GENERALITY = {"has": 0, "is": 1, "starts": 1, "no": 2, "slash": 2, "path": 3}


def generality(condition: Condition) -> int:
    """Rank a condition: the lower, the more general."""
    return _GENERALITY[condition.kind]


@lru_cache(maxsize=4096)
def has(slot: str) -> Has:
    """Return the condition that a URL has *slot*, the same object each time."""
    return Has(slot)


@lru_cache(maxsize=65_536)
def equals(slot: str, value: str) -> Is:
    """Return the condition that *slot* has this value, the same object each time."""
    return Is(slot, (value,))


@lru_cache(maxsize=65_536)
def starts(slot: str, head: str) -> Starts:
    """Return the condition that *slot* begins like this, the same object each time."""
    return Starts(slot, (head,))


class Vocabulary:
    """What is worth naming in the URLs of one site: its names, directories and values.

    What not every round of learning asks for is looked for when it is asked for.
    """

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items
        self._values = _values(items)
        values = {slot: _counted(slot, found) for slot, found in self._values.items()}
        params = (slot for slot in values if is_param(slot))
        ranked = sorted(params, key=lambda slot: (-len(self._values[slot]), slot))
        self.names = frozenset(ranked[:_MAX_NAMES])
        self._counted = values
        self._separators: dict[str, str] = {}
        often = max(_OFTEN, _SHARE * len(items))
        self.values = {
            slot: frozenset(
                value
                for value, count in counted.items()
                if slot == "host"
                or (count >= 3 and (len(counted) <= _FEW_VALUES or count >= often))
            )
            for slot, counted in values.items()
            if slot in self.names or slot in ("host", "scheme")
        }

    @cached_property
    def directories(self) -> frozenset[tuple[int, str]]:
        """The (position, segment) that many different paths share."""
        return _directories(self._items)

    @cached_property
    def heads(self) -> dict[str, frozenset[str]]:
        """What enough different values of each slot begin with."""
        return _heads(self._items)

    @cached_property
    def dispatch(self) -> frozenset[str]:
        """The parameters that say which kind of page it is."""
        return _dispatching(self._items, self._counted)

    def separator(self, slot: str) -> str:
        """Return what separates the parts of a parameter's values: ``:``, or ``/``."""
        found = self._separators.get(slot)
        if found is None:
            values = self._values.get(slot, ())
            slashes, colons = (sum(sign in value for value in values) for sign in "/:")
            found = self._separators[slot] = "/" if slashes > colons else ":"
        return found

    def template(self, slots: Slots, ignored: frozenset[str]) -> Path:
        """Return the template of a path; segments of the rule itself are ``*``."""
        directories = self.directories
        found: list[tuple[str, str]] = []
        for i, segment in enumerate(segments(slots)):
            if f"s{i}" in ignored:
                found.append(("*", ""))
            elif (i, segment) in directories:
                found.append(("=", segment))
            else:
                match = _EXTENSION.search(segment)
                extension = match[0] if match else ""
                body = segment[: -len(extension)] if extension else segment
                kind = "#" if body.isascii() and body.isdigit() else "*"
                found.append((kind, extension))
        return Path(tuple(found), None, "slash" in slots if "slash" not in ignored else None)

    def starts(self, slots: Slots, ignored: frozenset[str]) -> list[Starts]:
        """Return what values of *slots*, those *ignored* apart, begin with."""
        return [
            starts(slot, head)
            for slot in sorted(self.heads.keys() & slots.keys() - ignored)
            for head in heads_of(slots[slot])
            if head in self.heads[slot]
        ]

    def conditions(
        self, slots: Slots, ignored: frozenset[str], headless: frozenset[str]
    ) -> list[Condition]:
        """Return the conditions that hold on *slots* and say nothing of those *ignored*.

        Without those about what a URL does not have. Of the slots *headless* it is not said what
        their values begin with.
        """
        found: list[Condition] = [self.template(slots, ignored), *self.starts(slots, headless)]
        last = f"s{len(segments(slots)) - 1}" if "s-1" in ignored else ""
        for slot, value in slots.items():
            if slot in ignored or slot == last:
                continue
            if is_segment(slot):
                if (int(slot[1:]), value) in self.directories:
                    found.append(equals(slot, value))
                continue
            if slot in self.names:
                found.append(has(slot))
            if value in self.values.get(slot, ()):
                found.append(equals(slot, value))
        return found


def _values(items: Sequence[Item]) -> dict[str, list[str]]:
    """Return the values of each parameter where it stands once, of hosts and of schemes."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for item in items:
        for slot, value in item.slots.items():
            if slot[:2] == "q:":
                if REPEAT not in value:
                    found[slot].append(value)
            elif slot in ("host", "scheme"):
                found[slot].append(value)
    return found


def _counted(slot: str, values: Sequence[str]) -> Counter[str]:
    """Count values; of a parameter, no more different ones than `_MAX_VALUES` and one."""
    counted = Counter(values)
    if len(counted) <= _MAX_VALUES + 1 or not is_param(slot):
        return counted
    first = frozenset(list(counted)[: _MAX_VALUES + 1])
    return Counter({value: count for value, count in counted.items() if value in first})


def _heads(items: Sequence[Item]) -> dict[str, frozenset[str]]:
    """Return what enough different values of each slot begin with."""
    counted: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for item in items:
        for slot, value in item.slots.items():
            if not (":" in value or "/" in value or "," in value):
                continue  # most values: there is no head without one of these
            if REPEAT not in value and slot != "?" and (is_param(slot) or is_segment(slot)):
                for head in heads_of(value):
                    counted[slot][head].add(value)
    often = max(_OFTEN, _DIRECTORY_SHARE * len(items))
    kept = {
        slot: frozenset(head for head, values in heads.items() if len(values) >= often)
        for slot, heads in counted.items()
    }
    return {slot: heads for slot, heads in kept.items() if heads}


def _dispatching(items: Sequence[Item], values: dict[str, Counter[str]]) -> frozenset[str]:
    """Return the parameters that say which kind of page it is: ``route``, ``action``, ``mode``.

    Their values are words, and decide which other parameters there always are.
    """
    few = {
        slot
        for slot, counted in values.items()
        if is_param(slot) and 2 <= len(counted) <= _FEW_VALUES and not any(map(_has_digit, counted))
    }
    always: dict[str, dict[str, set[str]]] = {slot: {} for slot in few}
    for item in items:
        slots = item.slots
        for slot in few & slots.keys():
            core = always[slot].get(slots[slot])
            if core is None:
                always[slot][slots[slot]] = {name for name in slots if is_param(name)}
            else:
                core.intersection_update(slots)
    return frozenset(
        slot for slot, cores in always.items() if len(set(map(frozenset, cores.values()))) > 1
    )


def _has_digit(text: str) -> bool:
    return any("0" <= character <= "9" for character in text)


def _directories(items: Sequence[Item]) -> frozenset[tuple[int, str]]:
    """Return the (position, segment) that many different paths share.

    Paths are counted, not URLs: a slug with many queries is no directory.
    """
    paths: dict[tuple[str, ...], set[tuple[tuple[str, str], ...]]] = {}
    for item in items:
        slots = item.slots
        queries = paths.setdefault(tuple(segments(slots)), set())
        if len(queries) < _MAX_QUERIES:
            queries.add(tuple([pair for pair in slots.items() if pair[0][0] in "q?"]))
    counted: Counter[tuple[int, str]] = Counter()
    around: defaultdict[tuple[int, str], set[Any]] = defaultdict(set)
    found = set()
    for path, queries in paths.items():
        for i, segment in enumerate(path):
            if segment.isdigit():
                continue
            place = (i, segment)
            counted[place] += 1
            surroundings = around[place]
            if len(surroundings) < _SURROUNDINGS:
                surroundings.add((path[i - 1] if i else "", path[i + 1 : i + 3]))
        if path and len(queries) >= _MAX_QUERIES and "." in path[-1].strip("."):
            found.add((len(path) - 1, path[-1]))
    often = max(_OFTEN, _DIRECTORY_SHARE * len(paths))
    found.update(
        p for p, count in counted.items() if count >= often and len(around[p]) >= _SURROUNDINGS
    )
    return frozenset(found)
