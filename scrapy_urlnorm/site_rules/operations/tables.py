"""Kinds of rules with a table: which page holds number N, and which values mean the same."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, unquote

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules.form import (
    REPEAT,
    Form,
    Slots,
    exchanged,
    is_param,
    is_segment,
    path_and_query,
    with_value,
    without,
)
from scrapy_urlnorm.site_rules.operation import Operation, Word, refuse, texts
from scrapy_urlnorm.url import DOT_SEGMENTS, split

if TYPE_CHECKING:
    from collections.abc import Iterable

#: First and last number of a page; -1 as the first for the first page, which has all below.
Span = tuple[int, int]
#: What some slots of a URL say, in their order; None for one that the URL does not have.
Values = tuple["str | None", ...]

_NUMBER = re.compile("[0-9]+")
_HOLES = re.compile(r"(#|\{\})")
_RANGES = re.compile(r"(/\S*) ((?:[0-9]{1,18})?-[0-9]{1,18}(?: [0-9]{1,18}-[0-9]{1,18})*)")
#: A number with more digits is a token.
_MAX_DIGITS = 18
#: How a class is written for a URL that has none of the slots.
_NONE = "-"
_SAFE = "/:@,;!*'()._~-"
_SPACES = re.compile(" +")
_ACCEPTED = (
    "two members or more with a space between them, percent-encoded, '-' for none of the slots: "
    "'q:h=v1.2 q:h=5a3f'; with 'within', what its slots say before them: 'q:p=a q:h=v1.2 q:h=5a3f'"
)


def _rows(name: str, value: object) -> tuple[str, ...]:
    return tuple(sorted(texts(name, value)))


def number_in(value: str, text: str) -> tuple[int, str] | None:
    """Return the number that stands at ``{}`` of *text*, and the value with ``{}`` in its place.

    A ``#`` of *text* stands for any other number. None if the value is another text.
    """
    found = _pattern(text).fullmatch(value)
    if found is None:
        return None
    return int(found[1]), f"{value[: found.start(1)]}{{}}{value[found.end(1) :]}"


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    """Return what *text* stands for. A number ends where its digits end."""
    numbers = {"#": "[0-9]+(?![0-9])", "{}": f"([0-9]{{1,{_MAX_DIGITS}}})(?![0-9])"}
    return re.compile("".join(numbers.get(p) or re.escape(p) for p in _HOLES.split(text)))


def rest_of(slots: Slots) -> str:
    """Return path and query as `RangeAlias` finds them, whatever the order of the parameters."""
    return path_and_query(dict(sorted(slots.items()))).replace("%7B%7D", "{}")


def ranges_text(rest: str, spans: Iterable[Span]) -> str:
    """Write one of the ``ranges`` of a rule."""
    return " ".join((rest, *(f"{'' if first < 0 else first}-{last}" for first, last in spans)))


@dataclass(frozen=True)
class RangeAlias(Operation):
    """Numbers of one page are the first of them, as far as ``ranges`` know the page.

    ``text`` is the value of the slot: ``{}`` is the number, ``#`` any other one, which stays. Each
    of ``ranges`` is the rest of a URL, with ``{}`` where the number stands, and after a space the
    numbers of each page: ``/t?post={} -88 89-130``. All up to 88 are of the first page there,
    which has ``by`` in place of the value; with an empty ``by`` it does not have the parameter.
    """

    words = (
        Word(
            "range-alias",
            "numbers in {slots} count as the page that holds them, as post numbers of a topic count "
            "as the topic",
            *("slots ranges", "text by"),
        ),
    )
    readers: ClassVar = {"ranges": _rows}
    has_table = True

    names: tuple[str, ...]
    ranges: tuple[str, ...]
    text: str
    by: str | None = None

    def __post_init__(self) -> None:
        if len(self.names) != 1 or self.slot == "?" or "-" in self.slot.partition(":")[0]:
            raise refuse("slots", list(self.names), "one slot: 's0', 's1', … or 'q:NAME'")
        if self.text.count("{}") != 1:
            raise refuse("text", self.text, "a text with one {} for the number: 'msg{}'")
        if self.by is not None and self.by.count("#") != self.text.count("#"):
            raise refuse("by", self.by, f"a text with as many # as text = {self.text!r}")
        if self.by == "" and not is_param(self.slot):
            raise refuse("by", "", "a text, as a path segment does not go away")
        _ = self._table

    @classmethod
    def read(cls, word: str, operands: dict[str, Any]) -> RangeAlias:
        return cls(
            operands["slots"], operands["ranges"], operands.get("text", "{}"), operands.get("by")
        )

    @property
    def slot(self) -> str:
        """The slot that holds the number."""
        return self.names[0]

    @cached_property
    def _table(self) -> dict[str, tuple[list[int], list[int]]]:
        """By the rest of a URL, the first and the last numbers of its pages."""
        table: dict[str, tuple[list[int], list[int]]] = {}
        for each in self.ranges:
            rest, spans = self._read_range(each)
            if rest in table:
                raise SiteRuleError(f"{rest!r} stands twice in 'ranges'")
            table[rest] = [first for first, _ in spans], [last for _, last in spans]
        return table

    def _read_range(self, each: str) -> tuple[str, list[Span]]:
        match = _RANGES.fullmatch(each)
        halves = [pair.partition("-") for pair in match[2].split()] if match else []
        spans = [(int(first or -1), int(last)) for first, _, last in halves]
        numbers = [number for span in spans for number in span]
        first_page = bool(spans) and spans[0][0] < 0
        if not match or numbers != sorted(numbers) or (first_page and self.by is None):
            accepted = "the rest of a URL and numbers that rise: '/t?post={} 1-20 21-40'; "
            raise refuse("ranges", each, accepted + "'-20' is the first page, which 'by' writes")
        return rest_of(Form(split(f"http://h{match[1]}")).slots), spans

    def image(self, slots: Slots) -> Slots | None:
        slot = self.slot
        value = slots.get(slot)
        found = None if value is None else number_in(value, self.text)
        if found is None:
            return None
        number, held = found
        firsts, lasts = self._table.get(rest_of(slots | {slot: held}), ((), ()))
        at = bisect_right(firsts, number) - 1
        if at < 0 or number > lasts[at]:
            return None
        if firsts[at] >= 0:
            new = held.replace("{}", str(firsts[at]))
        elif not self.by:
            return without(slots, (slot,))
        else:  # the first page, with the numbers that stay
            kept = iter(_NUMBER.findall(held))
            new = re.sub("#", lambda _: next(kept), self.by)
        return None if new == value else slots | {slot: new}

    @property
    def family(self) -> object:
        return self.word, self.slot, self.text

    def covers(self, other: Operation) -> bool:
        return (
            isinstance(other, RangeAlias)
            and self.family == other.family
            and (self.by == other.by or other.by is None)
            and all(self._has(*each) for each in other._table.items())
        )

    def _has(self, rest: str, spans: tuple[list[int], list[int]]) -> bool:
        """Whether each page of *spans* is part of one page here, and has its name."""
        known = dict(zip(*self._table.get(rest, ([], [])), strict=True))
        return all(known.get(first, -1) >= last for first, last in zip(*spans, strict=True))

    def example(self, slots: Slots) -> Slots:
        rest, (_, lasts) = next(iter(self._table.items()))
        found = Form(split(f"http://h{rest}")).slots
        value = found.get(self.slot, "").replace("{}", str(lasts[0]))
        return found | {"scheme": slots["scheme"], "host": slots["host"], self.slot: value}


def values_of(slots: Slots, names: Iterable[str]) -> Values:
    """Return what *slots* say under *names*."""
    return tuple(map(slots.get, names))


def is_writable(values: Values) -> bool:
    """Whether a rule can hold these values: a parameter that is given twice has no one value."""
    return not any(REPEAT in value for value in values if value is not None)


def class_text(names: Iterable[str], members: Iterable[Values], within: str) -> str:
    """Write one of the ``values`` of a rule. *within* is the text of what its slots say, or ""."""
    names = tuple(names)
    written = [member_text(names, member) for member in members]
    return " ".join([within, *written] if within else written)


def member_text(names: Iterable[str], values: Values) -> str:
    """Write what the slots *names* say."""
    pairs = ((n, v) for n, v in zip(names, values, strict=True) if v is not None)
    return "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in pairs) or _NONE


def _quoted(text: str) -> str:
    return quote(text, safe=_SAFE, errors="surrogateescape")


@dataclass(frozen=True)
class ValueAlias(Operation):
    """Values that mean the same: a version and the revision that has its name.

    Each of ``values`` is a set of them: ``q:h=v1.2 q:h=5a3f``. The first is what the others
    become. With ``within``, a set holds where these slots say what stands before its members:
    ``q:p=parser q:h=v1.2 q:h=5a3f``.
    """

    words = (
        Word(
            "value-alias",
            "values of {slots} that name one thing, as a version and its revision, are the same",
            *("slots values", "within"),
        ),
    )
    readers: ClassVar = {"values": _rows}
    has_table = True

    names: tuple[str, ...]
    values: tuple[str, ...]
    within: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for slot in (*self.names, *self.within):
            if not is_segment(slot) and slot[:2] != "q:":
                raise refuse("slot", slot, "s0, s1, … or q:NAME")
        if set(self.names) & set(self.within):
            raise refuse("within", list(self.within), "other slots than 'slots'")
        _ = self._table

    @cached_property
    def _table(self) -> dict[Values, Values]:
        """By what slots may say, of ``within`` first, what they say then."""
        table: dict[Values, Values] = {}
        for each in self.values:
            where, members = self._read_class(each)
            for member in members:
                if (*where, *member) in table:
                    word = member_text(self.names, member)
                    raise SiteRuleError(f"{word!r} stands twice in 'values'")
                table[(*where, *member)] = (*where, *members[0])
        return table

    def _read_class(self, each: str) -> tuple[Values, list[Values]]:
        words = _SPACES.split(each.strip())
        where = self._read_values(each, words.pop(0), self.within) if self.within else ()
        members = [self._read_values(each, word, self.names) for word in words]
        if len(members) < 2 or None in where:
            raise refuse("values", each, _ACCEPTED)
        return where, members

    def _read_values(self, each: str, word: str, names: tuple[str, ...]) -> Values:
        said: dict[str, str] = {}
        for pair in () if word == _NONE else word.split("&"):
            name, equals, value = pair.partition("=")
            name, value = (unquote(text, errors="surrogateescape") for text in (name, value))
            if not equals or name not in names or name in said:
                raise refuse("values", each, f"of the slots {', '.join(names)}: {_ACCEPTED}")
            said[name] = value
        for name in names:
            if is_segment(name) and said.get(name, "") in DOT_SEGMENTS:
                raise refuse("values", each, f"a segment {name} that is not empty, '.' or '..'")
        return tuple(map(said.get, names))

    def image(self, slots: Slots) -> Slots | None:
        values = values_of(slots, (*self.within, *self.names))
        found = self._table.get(values)
        if found is None or found == values:
            return None
        said = dict(zip(self.names, found[len(self.within) :], strict=True))
        return exchanged(slots, said, {n: value for n, value in said.items() if value is not None})

    @property
    def slots(self) -> frozenset[str]:
        return frozenset((*self.names, *self.within))

    @property
    def family(self) -> object:
        return self.word, self.names, self.within

    def covers(self, other: Operation) -> bool:
        """Whether all that *other* takes for one is one here, under whatever name."""
        return (
            isinstance(other, ValueAlias)
            and self.family == other.family
            and all(
                values in self._table and self._table[values] == self._table.get(first)
                for values, first in other._table.items()
            )
        )

    def any_of(self) -> tuple[str, ...]:
        changed = [v for v, first in self._table.items() if v != first]
        nothing = any(v[len(self.within) :] == (None,) * len(self.names) for v in changed)
        return () if nothing else super().any_of()

    def example(self, slots: Slots) -> Slots:
        values = next(values for values, first in self._table.items() if values != first)
        for name, value in zip((*self.within, *self.names), values, strict=True):
            slots = without(slots, (name,)) if value is None else with_value(slots, name, value)
        return slots
