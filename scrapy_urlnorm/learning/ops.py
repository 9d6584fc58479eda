"""Operations: what a candidate does to the slots of a URL.

Each is a frozen value with ``image(slots)``: the slots it makes of others, or None where it does
nothing. Every operation leads to a smaller form (fewer slots, then shorter values, then the
earlier text), takes a parameter into the path once, or puts ``*`` once: there are no circles.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from scrapy_urlnorm.learning.slots import (
    REPEAT,
    Slots,
    count_params,
    segments,
    with_segments,
    without,
)
from scrapy_urlnorm.site_rules.operations import is_bare, lower_first

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Values that stand for the segments of the path: up to the last but one, and to the last.
NAMESPACE, PAGE = "{namespace}", "{page}"
ANY = "*"
_DIGITS = re.compile("[0-9]+")
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Op:
    """Base of all operations; ``slots`` names those that it reads or changes."""

    stage: ClassVar[str] = "structure"

    @property
    def slots(self) -> frozenset[str]:
        """The slots that contexts do not look at."""
        return frozenset()

    def image(self, slots: Slots) -> Slots | None:
        """Return what becomes of *slots*; None if nothing does."""
        raise NotImplementedError

    def told_by(self, forms: Iterable[Slots]) -> bool:
        """Whether URLs of these slots, all of one content, speak for all that it does."""
        return True

    @property
    def family(self) -> object:
        """What the operation has in common with its siblings, which are judged together."""
        return self

    @property
    def order(self) -> tuple[object, ...]:
        """A total order over operations, the same in every run."""
        return (type(self).__name__, repr(self))


@dataclass(frozen=True)
class Drop(Op):
    """The slots mean nothing (parameters, the final slash, the separator)."""

    stage: ClassVar[str] = "drop"
    names: tuple[str, ...]

    @property
    def slots(self) -> frozenset[str]:
        return frozenset(self.names)

    def image(self, slots: Slots) -> Slots | None:
        if not any(name in slots for name in self.names):
            return None
        return without(slots, self.names)


@dataclass(frozen=True)
class Wild(Op):
    """The values of the slots mean nothing."""

    stage: ClassVar[str] = "wild"
    names: tuple[str, ...]

    @property
    def slots(self) -> frozenset[str]:
        return frozenset(self.names)

    def image(self, slots: Slots) -> Slots | None:
        changed = {
            name: REPEAT.join([ANY if value else "" for value in slots[name].split(REPEAT)])
            for name in self.names
            if name in slots
        }
        new = slots | changed
        return None if new == slots else new


@dataclass(frozen=True)
class Subst(Op):
    """All pairs of ``old`` together are those of ``new``; symbols stand for path text."""

    old: Pairs
    new: Pairs
    prefix: tuple[str, ...] = ()
    separator: str = ":"

    @property
    def stage(self) -> str:  # type: ignore[override]
        hosts = all(name in ("scheme", "host") for name, _ in self.old)
        return "host" if hosts else "subst"

    @property
    def slots(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.old + self.new)

    @property
    def family(self) -> object:
        return self.slots

    def image(self, slots: Slots) -> Slots | None:
        taken = {}
        for name, value in self.old:
            if value in (NAMESPACE, PAGE):
                value = self.resolve(slots, value) or REPEAT
            if slots.get(name) != value:
                return None
            taken[name] = value
        put = []
        for name, value in self.new:
            if name not in taken and name in slots:
                return None
            if value in (NAMESPACE, PAGE):
                text = self.resolve(slots, value)
                if text is None:
                    return None
                value = text
            put.append((name, value))
        new = without(slots, taken)
        new.update(put)
        if "sep" in slots and "sep" not in new and count_params(new) > 1:
            new["sep"] = ";"
        return None if new == slots else new

    def resolve(self, slots: Slots, symbol: str) -> str | None:
        """Return the text of a symbol in these slots."""
        path = segments(slots)
        size = len(self.prefix)
        if tuple(path[:size]) != self.prefix:
            return None
        end = len(path) - (symbol == NAMESPACE)
        return self.separator.join(path[size:end]) or None


@dataclass(frozen=True)
class Tail(Op):
    """A path may end in ``tail``, or in what stood before it."""

    tail: tuple[str, ...]
    slash_before: bool
    slash_after: bool

    @property
    def family(self) -> object:
        return ("tail", tuple(_DIGITS.sub("#", segment) for segment in self.tail))

    def image(self, slots: Slots) -> Slots | None:
        if ("slash" in slots) is not self.slash_before:
            return None
        path, size = segments(slots), len(self.tail)
        if tuple(path[-size:]) != self.tail:
            return None
        while tuple(path[-size:]) == self.tail:
            del path[-size:]
            if self.slash_before is not self.slash_after:
                break
        return with_segments(slots, path, slash=self.slash_after)


@dataclass(frozen=True)
class Cut(Op):
    """The segment after ``prefix`` means nothing."""

    prefix: tuple[str, ...]
    segment: str

    @property
    def family(self) -> object:
        return ("cut", self.prefix, _DIGITS.sub("#", self.segment))

    def image(self, slots: Slots) -> Slots | None:
        path, at = segments(slots), len(self.prefix)
        if tuple(path[:at]) != self.prefix or path[at : at + 1] != [self.segment]:
            return None
        while path[at : at + 1] == [self.segment]:
            del path[at]
        return with_segments(slots, path, slash="slash" in slots)


@dataclass(frozen=True)
class Prefix(Op):
    """What lies below one path lies below another, too."""

    old: tuple[str, ...]
    new: tuple[str, ...]

    def image(self, slots: Slots) -> Slots | None:
        path, size = segments(slots), len(self.old)
        if tuple(path[:size]) != self.old:
            return None
        path[:size] = self.new
        return with_segments(slots, path, slash="slash" in slots)


@dataclass(frozen=True)
class ToPath(Op):
    """The value of a parameter at one path stands in the path ``before`` … ``after``."""

    param: str
    base: tuple[str, ...]
    base_slash: bool
    before: tuple[str, ...]
    after: tuple[str, ...]
    left: str
    right: str
    separator: str
    slash: bool

    @property
    def slots(self) -> frozenset[str]:
        return frozenset((self.param,))

    def image(self, slots: Slots) -> Slots | None:
        value = slots.get(self.param)
        if not value or REPEAT in value or ("slash" in slots) is not self.base_slash:
            return None
        if tuple(segments(slots)) != self.base:
            return None
        tokens = value.split(self.separator) if self.separator else [value]
        if any(token in ("", ".", "..") for token in tokens):
            return None
        tokens[0] = self.left + tokens[0]
        tokens[-1] += self.right
        path = [*self.before, *tokens, *self.after]
        return with_segments(without(slots, (self.param,)), path, slash=self.slash)


@dataclass(frozen=True)
class Split(Op):
    """A separator inside a segment is the same as a slash."""

    separator: str
    prefix: tuple[str, ...] = ()

    def image(self, slots: Slots) -> Slots | None:
        path, at = segments(slots), len(self.prefix)
        if tuple(path[:at]) != self.prefix:
            return None
        new = path[:at]
        for segment in path[at:]:
            tokens = segment.split(self.separator)
            new += [segment] if any(t in ("", ".", "..") for t in tokens) else tokens
        if new == path:
            return None
        return with_segments(slots, new, slash="slash" in slots)


@dataclass(frozen=True)
class Lower(Op):
    """Upper and lower case are the same in a parameter, or (``slot`` empty) in the path."""

    slot: str = ""

    @property
    def slots(self) -> frozenset[str]:
        return frozenset((self.slot,)) if self.slot else frozenset()

    def image(self, slots: Slots) -> Slots | None:
        if self.slot:
            value = slots.get(self.slot, "")
            parts = sorted(map(str.lower, value.split(REPEAT)))
            new = slots | {self.slot: REPEAT.join(parts)}
            return None if not value or new == slots else new
        path = segments(slots)
        low = [segment.lower() for segment in path]
        return None if low == path else with_segments(slots, low, slash="slash" in slots)

    def told_by(self, forms: Iterable[Slots]) -> bool:
        """Not by URLs that differ in first letters alone: those speak for `First`."""
        if self.slot:
            texts = (tuple(slots.get(self.slot, "").split(REPEAT)) for slots in forms)
        else:
            texts = (tuple(segments(slots)) for slots in forms)
        return len({tuple(map(lower_first, parts)) for parts in texts}) > 1


@dataclass(frozen=True)
class Edit(Op):
    """Base of the operations that edit the value of one slot; ``s-1`` is the last segment."""

    slot: str

    @property
    def slots(self) -> frozenset[str]:
        return frozenset((self.slot,))

    def edit(self, value: str) -> str:
        """Return the value instead of *value*."""
        raise NotImplementedError

    def image(self, slots: Slots) -> Slots | None:
        slot = self.slot
        if slot == "s-1":
            slot = f"s{len(segments(slots)) - 1}"
        value = slots.get(slot)
        if value is None:
            return None
        edited = [self.edit(part) for part in value.split(REPEAT)]
        if slot == "?" and not all(is_bare(token, "") for token in edited):
            return None  # it would become a parameter like others
        new = REPEAT.join(sorted(edited))
        return None if new == value or new in ("", ".", "..") else slots | {slot: new}


@dataclass(frozen=True)
class Suffix(Edit):
    """The end of the value means nothing; ``slash``: and a final slash is put there."""

    suffix: str
    slash: bool = False

    def edit(self, value: str) -> str:
        while value.endswith(self.suffix) and len(value) > len(self.suffix):
            value = value[: -len(self.suffix)]
        return value

    def image(self, slots: Slots) -> Slots | None:
        if not self.slash:
            return super().image(slots)
        if "slash" in slots:
            return None
        new = super().image(slots)
        return None if new is None else new | {"slash": "1"}


@dataclass(frozen=True)
class First(Op):
    """Upper and lower case of the first letters are the same, as in the titles of a wiki."""

    names: tuple[str, ...]

    @property
    def slots(self) -> frozenset[str]:
        return frozenset(self.names)

    def image(self, slots: Slots) -> Slots | None:
        changed = {
            name: REPEAT.join(sorted(map(lower_first, slots[name].split(REPEAT))))
            for name in self.names
            if name in slots
        }
        new = slots | changed
        return None if new == slots else new

    def told_by(self, forms: Iterable[Slots]) -> bool:
        """By URLs that differ in each of the slots."""
        known = list(forms)
        return all(len({slots.get(name) for slots in known}) > 1 for name in self.names)


@dataclass(frozen=True)
class Number(Edit):
    """Of ``12-any-words`` only the number counts (``side`` is where it stands)."""

    side: str

    def edit(self, value: str) -> str:
        return number_of(value, self.side) or value


@dataclass(frozen=True)
class Text(Edit):
    """One character is the same as another."""

    text: str
    by: str

    def edit(self, value: str) -> str:
        return value.replace(self.text, self.by)


@dataclass(frozen=True)
class Dedupe(Op):
    """The same pair twice is the pair once."""

    slot: str

    @property
    def slots(self) -> frozenset[str]:
        return frozenset((self.slot,))

    def image(self, slots: Slots) -> Slots | None:
        value = slots.get(self.slot)
        if value is None or REPEAT not in value:
            return None
        new = REPEAT.join(sorted(set(value.split(REPEAT))))
        return None if new == value else slots | {self.slot: new}


@dataclass(frozen=True)
class Slashes(Op):
    """Several slashes are one."""

    def image(self, slots: Slots) -> Slots | None:
        path = segments(slots)
        kept = [segment for segment in path if segment]
        return None if kept == path else with_segments(slots, kept, slash="slash" in slots)


def number_of(value: str, side: str) -> str | None:
    """Return the number before or after the words of ``12-any-words``; None if there is none."""
    number, dash, words = value.partition("-") if side == "before" else value.rpartition("-")[::-1]
    return number if dash and words and number.isascii() and number.isdigit() else None
