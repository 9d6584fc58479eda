"""Where a rule holds: conjunctions of literals, read on a URL without the slots of the rule.

Literals: ``("path", template)``, ``("has", slot)``, ``("no", slot)``, ``("is", slot, value)``,
``("among", slot, values)`` on a slot of the rule itself, ``("first", values)`` for the first path
segment, ``("rest", pairs)`` for exactly one URL.
A template holds literal segments, ``#`` (digits) and ``*`` (any), each with an extension perhaps.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.learning.slots import REPEAT, Slots, is_param, is_segment, segments

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy_urlnorm.learning.corpus import Item

Literal = tuple[Any, ...]
Context = tuple[Literal, ...]

_EXTENSION = re.compile(r"(?<=.)\.[A-Za-z]\w{0,4}$", re.ASCII)
_MAX_NAMES = 48
#: Which literal is the most general, for equal support.
_GENERALITY = {"has": 0, "is": 1, "no": 2, "path": 3}


def generality(literal: Literal) -> int:
    """Rank a literal: the lower, the more general."""
    return _GENERALITY.get(literal[0], 4)


class Vocabulary:
    """What is worth naming in the URLs of one site: its names, directories and values."""

    def __init__(self, items: Sequence[Item]) -> None:
        names: Counter[str] = Counter()
        self._colons: Counter[str] = Counter()
        self._slashes: Counter[str] = Counter()
        values: defaultdict[str, Counter[str]] = defaultdict(Counter)
        paths: dict[tuple[str, ...], set[tuple[tuple[str, str], ...]]] = {}
        for item in items:
            query = []
            for slot, value in item.slots.items():
                if is_param(slot):
                    query.append((slot, value))
                    if slot == "?" or REPEAT in value:
                        continue
                    names[slot] += 1
                    self._colons[slot] += ":" in value
                    self._slashes[slot] += "/" in value
                    counted = values[slot]
                    if len(counted) <= 5_000 or value in counted:
                        counted[value] += 1
                elif slot in ("host", "scheme"):
                    values[slot][value] += 1
            queries = paths.setdefault(tuple(segments(item.slots)), set())
            if len(queries) < 10:
                queries.add(tuple(query))
        ranked = sorted(names.items(), key=lambda pair: (-pair[1], pair[0]))
        self.names = frozenset(name for name, _ in ranked[:_MAX_NAMES])
        self.directories = _directories(paths)
        often = max(5, 0.005 * len(items))
        self.dispatch = _dispatching(items, values)
        self.values = {
            slot: frozenset(
                value
                for value, count in counted.items()
                if slot == "host" or (count >= 3 and (len(counted) <= 40 or count >= often))
            )
            for slot, counted in values.items()
            if slot in self.names or slot in ("host", "scheme")
        }

    def separator(self, slot: str) -> str:
        """Return what separates the parts of a parameter's values: ``:``, or ``/``."""
        return "/" if self._slashes[slot] > self._colons[slot] else ":"

    def template(self, slots: Slots, ignored: frozenset[str]) -> Literal:
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
        return ("path", tuple(found), "slash" in slots if "slash" not in ignored else None)

    def literals(self, slots: Slots, ignored: frozenset[str]) -> list[Literal]:
        """Return the literals that hold on *slots* without those ignored, but for "no"."""
        found = [self.template(slots, ignored)]
        last = f"s{len(segments(slots)) - 1}" if "s-1" in ignored else ""
        for slot, value in slots.items():
            if slot in ignored or slot == last:
                continue
            if is_segment(slot):
                if (int(slot[1:]), value) in self.directories:
                    found.append(("is", slot, value))
                continue
            if slot in self.names:
                found.append(("has", slot))
            if value in self.values.get(slot, ()):
                found.append(("is", slot, value))
        return found


def _dispatching(items: Sequence[Item], values: dict[str, Counter[str]]) -> frozenset[str]:
    """Return the parameters that say which kind of page it is: ``route``, ``action``, ``mode``.

    Their values are words, and decide which other parameters there always are.
    """
    few = {
        slot
        for slot, counted in values.items()
        if is_param(slot) and 2 <= len(counted) <= 40 and not any(map(_has_digit, counted))
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


def _directories(paths: dict[tuple[str, ...], set[Any]]) -> frozenset[tuple[int, str]]:
    """Return the (position, segment) that many different paths share.

    Paths are counted, not URLs: a slug with many queries is no directory.
    """
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
            if len(surroundings) < 5:
                surroundings.add((path[i - 1] if i else "", path[i + 1 : i + 3]))
        if path and len(queries) >= 10 and "." in path[-1].strip("."):
            found.add((len(path) - 1, path[-1]))
    often = max(5, 0.003 * len(paths))
    found.update(p for p, count in counted.items() if count >= often and len(around[p]) >= 5)
    return frozenset(found)


def holds(literal: Literal, slots: Slots, ignored: frozenset[str]) -> bool:
    """Whether *literal* holds on *slots* without those ignored."""
    kind = literal[0]
    if kind == "has":
        return bool(literal[1] in slots)
    if kind == "no":
        return bool(literal[1] not in slots)
    if kind == "is":
        return bool(slots.get(literal[1]) == literal[2])
    if kind == "first":
        return slots.get("s0") in literal[1]
    if kind == "among":
        return bool(slots.get(literal[1], literal[2][0]) in literal[2])
    if kind == "path":
        return _matches(literal, slots)
    return {pair for pair in slots.items() if pair[0] not in ignored} == set(literal[1])


def all_hold(context: Iterable[Literal], slots: Slots, ignored: frozenset[str]) -> bool:
    """Whether all literals of *context* hold."""
    return all(holds(literal, slots, ignored) for literal in context)


def _matches(template: Literal, slots: Slots) -> bool:
    _, wanted, slash = template
    if slash is not None and ("slash" in slots) is not slash:
        return False
    path = segments(slots)
    if len(path) != len(wanted):
        return False
    for segment, (kind, text) in zip(path, wanted, strict=True):
        if kind == "=":
            if segment != text:
                return False
            continue
        if text:
            if not segment.endswith(text) or len(segment) == len(text):
                return False
            segment = segment[: -len(text)]
        if kind == "#" and not (segment.isascii() and segment.isdigit()):
            return False
    return True
