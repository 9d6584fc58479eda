"""The kind of rule that knows which values mean the same, such as the names of one revision."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules.form import (
    DOT_SEGMENTS,
    REPEAT,
    Slots,
    count_params,
    is_param,
    is_segment,
    with_value,
    without,
)
from scrapy_urlnorm.site_rules.operations.base import Operation
from scrapy_urlnorm.site_rules.paths import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: What some slots of a URL say, in their order; None for one that the URL does not have.
Values = tuple["str | None", ...]

#: How a class is written for a URL that has none of the slots.
_NONE = "-"
_SAFE = "/:@,;!*'()._~-"
_SPACES = re.compile(" +")
_ACCEPTED = (
    "two members or more with a space between them, percent-encoded, '-' for none of the slots: "
    "'q:h=v1.2 q:h=5a3f'; with 'within', what its slots say before them: 'q:p=a q:h=v1.2 q:h=5a3f'"
)


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

    Each of ``classes`` is a set of them: ``q:h=v1.2 q:h=5a3f``. The first is what the others
    become. With ``within``, a class holds where these slots say what stands before its members:
    ``q:p=parser q:h=v1.2 q:h=5a3f``.
    """

    kind = "value-alias"
    summary = "what stands together in one of the `values` of the slots is one"
    required = ("slots", "values")
    optional = ("within",)

    names: tuple[str, ...]
    classes: tuple[str, ...]
    within: tuple[str, ...] = ()
    _table: dict[Values, Values] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        for slot in (*self.names, *self.within):
            if not is_segment(slot) and slot[:2] != "q:":
                raise refuse("slot", slot, "s0, s1, … or q:NAME")
        if set(self.names) & set(self.within):
            raise refuse("within", list(self.within), "other slots than 'slots'")
        for each in self.classes:
            where, members = self._read_class(each)
            for member in members:
                if (*where, *member) in self._table:
                    word = member_text(self.names, member)
                    raise SiteRuleError(f"{word!r} stands twice in 'values'")
                self._table[(*where, *member)] = (*where, *members[0])

    def _read_class(self, each: str) -> tuple[Values, list[Values]]:
        words = _SPACES.split(each.strip())
        where: Values = ()
        if self.within:
            where = self._read_values(each, words.pop(0), self.within)
        members = [self._read_values(each, word, self.names) for word in words]
        if len(members) < 2 or (self.within and None in where):
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

    @classmethod
    def read(cls, operands: Mapping[str, Any]) -> ValueAlias:
        return cls(
            tuple(operands["slots"]),
            tuple(sorted(operands["values"])),
            tuple(operands.get("within", ())),
        )

    def write(self) -> dict[str, Any]:
        said: dict[str, Any] = {"slots": self.names}
        return said | ({"within": self.within} if self.within else {}) | {"values": self.classes}

    def _at(self, slots: Slots) -> Values:
        return values_of(slots, (*self.within, *self.names))

    def image(self, slots: Slots) -> Slots | None:
        values = self._at(slots)
        found = self._table.get(values)
        if found is None or found == values:
            return None
        said = dict(zip(self.names, found[len(self.within) :], strict=True))
        new = without(slots, [name for name, value in said.items() if value is None])
        new.update((name, value) for name, value in said.items() if value is not None)
        if "sep" in slots and "sep" not in new and count_params(new) > 1:
            new["sep"] = ";"
        return new

    @property
    def slots(self) -> frozenset[str]:
        return frozenset((*self.names, *self.within))

    @property
    def family(self) -> object:
        return self.kind, self.names, self.within

    @property
    def has_table(self) -> bool:
        return True

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
        return () if nothing or not all(map(is_param, self.names)) else self.names

    def example(self, slots: Slots) -> Slots:
        values = next(values for values, first in self._table.items() if values != first)
        for name, value in zip((*self.within, *self.names), values, strict=True):
            slots = without(slots, (name,)) if value is None else with_value(slots, name, value)
        return slots
