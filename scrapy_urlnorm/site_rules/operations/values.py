"""Kinds of rules about the value of a slot: an edit of it, or that it means nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules.form import (
    DOT_SEGMENTS,
    REPEAT,
    Slots,
    is_bare,
    is_param,
    is_segment,
    parts,
    place,
    with_value,
)
from scrapy_urlnorm.site_rules.operations.base import Operation
from scrapy_urlnorm.site_rules.operations.edits import EDITS, cut_after, replace_text
from scrapy_urlnorm.site_rules.paths import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from scrapy_urlnorm.site_rules.context import Context
    from scrapy_urlnorm.site_rules.operations.base import Twins

#: The value that stands for any value.
ANY = "*"


#: Learning tries to put the second text of each pair in place of the first (as slugs differ).
_LEARNED_TEXTS = ((" ", "_"), ("-", "_"), (" ", "-"))
#: A suffix that learning tries to strip: ``-1``, ``.html``, ``_thumbnail``, 13 characters at most.
_LEARNED_SUFFIX = re.compile(r"[-_.,;/:~][^\W_]{1,12}")
_NUMBER = re.compile("[0-9]+")
#: A head without a letter is cut off only if it has as many digits as a day: short numbers and
#: their separators are versions (a choice).
_LEARNED_DIGITS = 6


def _with_values(slots: Slots, names: tuple[str, ...], value: str) -> Slots:
    for name in names:
        slots = with_value(slots, name, f"{value}1" if name == "?" else value)
    return slots


@dataclass(frozen=True)
class EditValue(Operation):
    """Values of the slots ``names`` that an edit makes equal are the same.

    ``slash``: after stripping a suffix of the last segment, the path ends in a slash.
    """

    kind = "edit-value"
    summary = "values of the slots that `edit` makes equal are the same"
    required = ("slots", "edit")
    optional = ("text", "by", "slash")

    names: tuple[str, ...]
    edit: str
    text: str = ""
    by: str = ""
    slash: bool = False

    def __post_init__(self) -> None:
        if self.edit not in EDITS:
            raise refuse("edit", self.edit, ", ".join(EDITS))
        operands = EDITS[self.edit].operands
        if ("text" in operands) != bool(self.text) or (self.by and "by" not in operands):
            words = " and ".join(f"{name!r}" for name in operands) or "neither 'text' nor 'by'"
            raise SiteRuleError(f"the edit {self.edit!r} takes {words}")
        if self.edit == "replace-text" and set(self.text) & set(self.by):
            accepted = f"a text without any character of text = {self.text!r}"
            raise refuse("by", self.by, accepted)
        if self.edit == "cut-after" and "#" not in self.text:
            raise refuse("text", self.text, "what is kept, with # for each number: 'topic-#'")
        if EDITS[self.edit].only_params and not all(slot[:2] == "q:" for slot in self.names):
            raise refuse("slots", list(self.names), "parameters: q:NAME")
        if self.slash and (self.edit != "strip-suffix" or self.names != ("s-1",)):
            raise refuse("slash", True, "only to strip a suffix of 's-1', the last segment")

    @classmethod
    def read(cls, operands: Mapping[str, Any]) -> EditValue:
        return cls(
            operands["slots"],
            operands["edit"],
            operands.get("text", ""),
            operands.get("by", ""),
            operands.get("slash", False),
        )

    def write(self) -> dict[str, Any]:
        said: dict[str, Any] = {"slots": self.names, "edit": self.edit}
        said |= {name: getattr(self, name) for name in EDITS[self.edit].operands}
        return said | ({"slash": True} if self.slash else {})

    def image(self, slots: Slots) -> Slots | None:
        if self.slash and "slash" in slots:
            return None
        changed = {}
        for name in self.names:
            slot = place(slots, name)
            value = slots.get(slot)
            if value is not None and (new := self._edited(slot, value)) != value:
                changed[slot] = new
        if not changed:
            return None
        return slots | changed | ({"slash": "1"} if self.slash else {})

    def _edited(self, slot: str, value: str) -> str:
        new = REPEAT.join(EDITS[self.edit].function(parts(value), self.text, self.by))
        if slot == "?":  # a token that is edited stays a token
            return new if all(is_bare(token, "") for token in parts(new)) else value
        return value if new in DOT_SEGMENTS and is_segment(slot) else new

    @property
    def slots(self) -> frozenset[str]:
        return frozenset((*self.names, "slash") if self.slash else self.names)

    @property
    def key_only(self) -> bool:
        return EDITS[self.edit].key_only

    @property
    def rank(self) -> int:
        return [*EDITS].index(self.edit)

    @property
    def key(self) -> object:
        return (self.names, self.text) if self.edit == "replace-text" else None

    def any_of(self) -> tuple[str, ...]:
        return self.names if all(map(is_param, self.names)) else ()

    def example(self, slots: Slots) -> Slots:
        operands = {"text": self.text, "digits": self.text.replace("#", "1")}
        return _with_values(slots, self.names, EDITS[self.edit].example.format(**operands))

    @classmethod
    def between(cls, twins: Twins) -> Iterator[EditValue]:
        one, other, names = twins.one, twins.other, tuple(sorted(twins.names))
        if twins.by_path and "slash" in other and "slash" not in one:
            if twins.long[:-1] == twins.short[:-1]:
                yield from _suffixes("s-1", twins.long[-1], twins.short[-1], slash=True)
            return
        in_path = all(map(is_segment, names))
        if not in_path and (len(names) > 1 or not is_param(names[0])):
            return
        known = [(one[name], other[name]) for name in names if name in one and name in other]
        if len(known) < len(names):
            return
        if len(names) == 1 and REPEAT not in known[0][0] + known[0][1]:
            last = in_path and names[0] == f"s{len(twins.long) - 1}"
            yield from _with_text(names[0], "s-1" if last else names[0], *known[0])
        for word in _without_operands(known, in_path=in_path):
            made = cls(names, word)
            if made.told_by((one, other)):
                yield made

    def told_by(self, urls: Sequence[Slots]) -> bool:
        """Whether the URLs differ in each slot, and a weaker edit does not make them equal."""
        columns = [[slots.get(place(slots, name), "") for slots in urls] for name in self.names]
        if any(len(set(column)) == 1 for column in columns):
            return False
        weaker = EDITS[self.edit].weaker
        if weaker is None:
            return True
        function = EDITS[weaker].function
        return not all(
            _same(function, column[0], value) for column in columns for value in column[1:]
        )


def _without_operands(known: list[tuple[str, str]], *, in_path: bool) -> Iterator[str]:
    """Yield the edits without operands that make the values of each pair the same."""
    for word, edit in EDITS.items():
        if edit.operands or (in_path and not edit.in_path):
            continue
        if all(_same(edit.function, value, other) for value, other in known):
            yield word


def _same(function: Callable[[list[str], str, str], list[str]], value: str, other: str) -> bool:
    """Whether an edit without operands makes two values of a slot the same, in any order."""
    return _edited(function, value) == _edited(function, other)


@lru_cache(maxsize=65_536)  # one value is compared with many
def _edited(function: Callable[[list[str], str, str], list[str]], value: str) -> list[str]:
    return sorted(function(parts(value), "", ""))


def _with_text(slot: str, place: str, left: str, right: str) -> Iterator[EditValue]:
    """Yield edits with operands that make one of two values of *slot*, which is at *place*."""
    if len(left) < len(right):
        left, right = right, left
    yield from _suffixes(place, left, right)
    yield from _cuts(place, left, right)
    for text, by in _LEARNED_TEXTS:
        if replace_text(left, text, by) == replace_text(right, text, by):
            yield EditValue((slot,), "replace-text", text, by)


def _cuts(place: str, left: str, right: str) -> Iterator[EditValue]:
    """Yield the cut after the last whole number that two values share from their beginning."""
    for number in reversed(list(_NUMBER.finditer(left))):
        head = left[: number.end()]
        text = _NUMBER.sub("#", head)
        is_name = any(map(str.isalpha, head)) and "#" not in head
        is_long = sum(map(str.isdigit, head)) >= _LEARNED_DIGITS
        if (is_name or is_long) and cut_after(left, text) == cut_after(right, text) == head:
            yield EditValue((place,), "cut-after", text)
            return


def _suffixes(place: str, left: str, right: str, *, slash: bool = False) -> Iterator[EditValue]:
    suffix = left[len(right) :]
    if right and left.startswith(right) and _LEARNED_SUFFIX.fullmatch(suffix):
        yield EditValue((place,), "strip-suffix", suffix, slash=slash)


@dataclass(frozen=True)
class IgnoreValue(Operation):
    """The values of the slots ``names`` mean nothing; only that there is one counts."""

    kind = "ignore-value"
    summary = "the value of the slots means nothing"
    required = ("slots",)
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if "?" in self.names:
            raise refuse("slots", "?", "slots with a value; drop-param with bare = true drops it")

    @classmethod
    def read(cls, operands: Mapping[str, Any]) -> IgnoreValue:
        return cls(operands["slots"])

    def write(self) -> dict[str, Any]:
        return {"slots": self.names}

    def image(self, slots: Slots) -> Slots | None:
        changed = {}
        for name in self.names:
            slot = place(slots, name)
            value = slots.get(slot)
            if value:
                new = REPEAT.join([ANY if part else "" for part in value.split(REPEAT)])
                if new != value:
                    changed[slot] = new
        return slots | changed if changed else None

    @property
    def key_only(self) -> bool:
        return True

    @property
    def slots(self) -> frozenset[str]:
        return frozenset(self.names)

    def any_of(self) -> tuple[str, ...]:
        return self.names if all(map(is_param, self.names)) else ()

    def example(self, slots: Slots) -> Slots:
        return _with_values(slots, self.names, "x")

    def check_context(self, context: Context) -> None:
        if "s0" in self.names and not context:
            raise SiteRuleError(
                "a rule on 's0' needs 'path' or 'when', or it would swallow any path"
            )
