"""Kinds of rules about the value of a slot: an edit of it, or that it means nothing."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules.form import (
    REPEAT,
    Slots,
    is_bare,
    is_param,
    is_segment,
    parts,
    place,
    with_value,
)
from scrapy_urlnorm.site_rules.operation import Operation, Twins, Word, refuse, shown
from scrapy_urlnorm.url import DOT_SEGMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrapy_urlnorm.site_rules.context import Context

#: What makes the value of a slot, of the value, ``text`` and ``by``.
_Function = Callable[[str, str, str], str]
#: The value that stands for any value.
ANY = "*"
_NUMBER = re.compile("[0-9]+")
#: What may follow a number that ends there; ISO 8601 has a T between the day and the time.
_AFTER = "-_.,;/ ~:T"
#: An instant with its time zone (ISO 8601). A ``+`` that nobody escaped arrives as a space.
_INSTANT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.(?:[0-9]{3}){1,2})?)?)"
    r"(Z|[ +-][0-9]{2}:[0-9]{2})"
)
#: Learning tries to put the second text of each pair in place of the first (as slugs differ).
_LEARNED_TEXTS = ((" ", "_"), ("-", "_"), (" ", "-"), ("+", " "), ("+", "-"), ("+", "_"))
#: Signs of which learning tries whether the order of what they separate means nothing.
_SEPARATORS = ",|;+ "
#: A suffix that learning tries to strip: ``-1``, ``.html``, ``_thumbnail``, 13 characters at most;
#: or a sign that separates nothing there, as the space after the last word of a search. "C+" is a word.
_LEARNED_SUFFIX = re.compile(r"[-_.,;/:~][^\W_]{1,12}|[ ,;|/]")
#: A head without a letter is cut off only if it has as many digits as a day: short numbers and
#: their separators are versions (a choice).
_LEARNED_DIGITS = 6


def _strip_suffix(value: str, text: str, by: str) -> str:
    """Take *text* from the end, as often as it stands there; a value is never emptied."""
    end = len(value)
    while end > len(text) and value.endswith(text, 0, end):
        end -= len(text)
    return value[:end]


def _replace_text(value: str, text: str, by: str) -> str:
    """Put *by* in place of *text* everywhere, also where a replacement made it."""
    value = value.replace(text, by)
    if text not in value:
        return value
    # Taking "ab" from "aabb" makes another "ab"; `by` shares no character with `text`.
    wanted, size = list(text), len(text)
    kept: list[str] = []
    for character in value:
        kept.append(character)
        if kept[-size:] == wanted:
            del kept[-size:]
    return "".join(kept)


def _group(pattern: str) -> _Function:
    """Return the edit that keeps what the group of *pattern* has."""
    keep = re.compile(pattern, re.DOTALL).fullmatch
    return lambda value, text, by: found[1] if (found := keep(value)) else value


def lowercase_first(value: str, text: str = "", by: str = "") -> str:
    """Write the first letter in lower case, as the titles of a wiki compare."""
    return value[:1].lower() + value[1:]


def _fold_accents(value: str, text: str, by: str) -> str:
    """Write Latin letters without accents (Unicode Standard, canonical decomposition)."""
    # In other scripts the mark makes another letter: U+0439 is not U+0438.
    decomposed = ((letter, unicodedata.normalize("NFD", letter)[0]) for letter in value)
    return "".join([base if base.isascii() else letter for letter, base in decomposed])


def _cut_after(value: str, text: str, by: str) -> str:
    """Keep what *text* says, which has ``#`` for each number: of a time its day, ``#-#-#``."""
    first, *others = text.split("#")
    if not value.startswith(first):
        return value
    at = len(first)
    for literal in others:
        number = _NUMBER.match(value, at)
        if number is None or not value.startswith(literal, number.end()):
            return value
        at = number.end() + len(literal)
    return value[:at] if value[at : at + 1] in _AFTER else value


def _utc(value: str, text: str, by: str) -> str:
    match = _INSTANT.fullmatch(value)
    if match is None:
        return value
    offset = "+00:00" if match[2] == "Z" else match[2].replace(" ", "+")
    try:
        moment = datetime.fromisoformat(match[1] + offset).astimezone(timezone.utc)
    except (ValueError, OverflowError):  # a 31st of June; the year 0
        return value
    return moment.isoformat().replace("+00:00", "Z")


class Edit(NamedTuple):
    """One edit: its function, what it says of the slots, operands, and a value that it changes.

    In that value ``{text}`` stands for the operand, ``{digits}`` for it with 1 for each ``#``. An
    edit without a function keeps the first of the values of a parameter that are the same.

    ``weaker`` names an edit that explains some of what this one does: URLs that are equal after
    the weaker edit are no evidence for this one. ``cuts`` says that it takes text away, which
    learning believes of many different values only. ``in_path`` says that learning tries the edit
    on segments; of `lowercase` the rule lowercase-path of the catalogue does that.
    """

    function: _Function | None
    sentence: str
    example: str
    operands: tuple[str, ...] = ()
    weaker: str | None = None
    key_only: bool = False
    cuts: bool = False
    in_path: bool = True

    def of(self, value: str, text: str = "", by: str = "") -> list[str]:
        """Return what the edit makes of the values of a slot."""
        values = parts(value)
        if self.function is None:
            return list(dict.fromkeys(values))
        return [self.function(each, text, by) for each in values]


#: Every edit by its word, in the order in which edits run.
EDITS: dict[str, Edit] = {
    "strip-suffix": Edit(
        _strip_suffix, "“{text}” at the end of {slots} means nothing", "x{text}", ("text",), cuts=True
    ),
    "replace-text": Edit(
        _replace_text, "“{text}” counts as “{by}” in {slots}", "x{text}", ("text", "by")
    ),
    "sort-parts": Edit(
        lambda value, text, by: text.join(sorted(value.split(text))),
        "the order of what “{text}” separates in {slots} means nothing", "x{text}a", ("text",),
    ),
    "drop-repeats": Edit(
        None, "a value that is repeated in {slots} counts once", f"x{REPEAT}x", in_path=False
    ),
    "number-before": Edit(
        _group("([0-9]+)-.+"), "of {slots} only the number at the start counts", "12-x",
        key_only=True, cuts=True,
    ),
    "number-after": Edit(
        _group(r".+-([0-9]+(?:\.[A-Za-z]{2,5})?)"), "of {slots} only the number at the end counts", "x-12",
        key_only=True, cuts=True,
    ),
    "lowercase-first": Edit(
        lowercase_first, "upper and lower case of the first letter are the same in {slots}", "Xx"
    ),
    "lowercase": Edit(
        lambda value, text, by: value.lower(), "upper and lower case are the same in {slots}", "xX",
        weaker="lowercase-first", in_path=False,
    ),
    "fold-accents": Edit(
        _fold_accents, "letters with and without accents are the same in {slots}", "é"
    ),
    "utc": Edit(
        _utc, "one moment in different time zones is the same in {slots}",
        "2010-07-12T16:35:00+02:00", key_only=True,
    ),
    "leading-zeros": Edit(_group("0+([1-9][0-9]*|0)"), "leading zeros mean nothing in {slots}", "07"),
    "cut-after": Edit(
        _cut_after, "of {slots} only “{text}” counts, where # is a number", "{digits}-x", ("text",),
        weaker="utc", key_only=True, cuts=True,
    ),
}  # fmt: skip


def _with_values(slots: Slots, names: tuple[str, ...], value: str) -> Slots:
    for name in names:
        slots = with_value(slots, name, f"{value}1" if name == "?" else value)
    return slots


@dataclass(frozen=True)
class EditValue(Operation):
    """Values of the slots ``names`` that an edit makes equal are the same.

    ``slash``: after stripping a suffix of the last segment, the path ends in a slash.
    """

    words = (
        Word(
            "edit-value",
            "values of {slots} that {edit} makes equal are the same",
            *("slots edit", "text by slash"),
        ),
    )
    answers = ("by",)

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
            raise refuse("by", self.by, f"a text without any character of text = {self.text!r}")
        if self.edit == "cut-after" and "#" not in self.text:
            raise refuse("text", self.text, "what is kept, with # for each number: 'topic-#'")
        if not _acts_on(self.edit, self.names):
            raise refuse("slots", list(self.names), "parameters: q:NAME")
        if self.slash and (self.edit != "strip-suffix" or self.names != ("s-1",)):
            raise refuse("slash", True, "only to strip a suffix of 's-1', the last segment")

    def write(self) -> dict[str, Any]:
        return super().write() | {name: getattr(self, name) for name in EDITS[self.edit].operands}

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
        new = REPEAT.join(EDITS[self.edit].of(value, self.text, self.by))
        if slot == "?":  # a token that is edited stays a token
            return new if all(is_bare(token, "") for token in parts(new)) else value
        return value if new in DOT_SEGMENTS and is_segment(slot) else new

    @property
    def slots(self) -> frozenset[str]:
        return frozenset((*self.names, "slash") if self.slash else self.names)

    @property
    def key_only(self) -> bool:
        return EDITS[self.edit].key_only

    def example(self, slots: Slots) -> Slots:
        operands = {"text": self.text, "digits": self.text.replace("#", "1")}
        return _with_values(slots, self.names, EDITS[self.edit].example.format(**operands))

    def sentence(self) -> str:
        operands = {"slots": shown("slots", self.names), "text": self.text, "by": self.by}
        return EDITS[self.edit].sentence.format(**operands)

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
        for word, edit in EDITS.items():
            is_tried = not edit.operands and (edit.in_path or not in_path)
            if is_tried and _acts_on(word, names) and all(_same(word, *values) for values in known):
                made = cls(names, word)
                if made.told_by((one, other)):
                    yield made

    def told_by(self, urls: Sequence[Slots]) -> bool:
        """Whether the URLs differ in each slot, and a weaker edit does not make them equal."""
        columns = [[slots.get(place(slots, name), "") for slots in urls] for name in self.names]
        if any(len(set(column)) == 1 for column in columns):
            return False
        weaker = EDITS[self.edit].weaker
        return weaker is None or not all(
            _same(weaker, column[0], value) for column in columns for value in column[1:]
        )


def _acts_on(edit: str, names: Sequence[str]) -> bool:
    return edit != "drop-repeats" or all(name[:2] == "q:" for name in names)


def _same(edit: str, value: str, other: str) -> bool:
    """Whether an edit without operands makes two values of a slot the same, in any order."""
    return _edited(edit, value) == _edited(edit, other)


@lru_cache(maxsize=65_536)  # one value is compared with many
def _edited(edit: str, value: str) -> list[str]:
    return sorted(EDITS[edit].of(value))


def _with_text(slot: str, place: str, left: str, right: str) -> Iterator[EditValue]:
    """Yield edits with operands that make one of two values of *slot*, which is at *place*."""
    if len(left) < len(right):
        left, right = right, left
    yield from _suffixes(place, left, right)
    yield from _cuts(place, left, right)
    for text in filter(left.__contains__, _SEPARATORS):
        if sorted(left.split(text)) == sorted(right.split(text)):
            yield EditValue((slot,), "sort-parts", text)
    for text, by in _LEARNED_TEXTS:
        if _replace_text(left, text, by) == _replace_text(right, text, by):
            yield EditValue((slot,), "replace-text", text, by)


def _cuts(place: str, left: str, right: str) -> Iterator[EditValue]:
    """Yield the cut after the last whole number that two values share from their beginning."""
    for number in reversed(list(_NUMBER.finditer(left))):
        head = left[: number.end()]
        text = _NUMBER.sub("#", head)
        is_name = any(map(str.isalpha, head)) and "#" not in head
        is_long = sum(map(str.isdigit, head)) >= _LEARNED_DIGITS
        if not (is_name or is_long):
            continue
        if head == _cut_after(left, text, "") == _cut_after(right, text, ""):
            yield EditValue((place,), "cut-after", text)
            return


def _suffixes(place: str, left: str, right: str, *, slash: bool = False) -> Iterator[EditValue]:
    suffix = left[len(right) :]
    if right and left.startswith(right) and _LEARNED_SUFFIX.fullmatch(suffix):
        yield EditValue((place,), "strip-suffix", suffix, slash=slash)


@dataclass(frozen=True)
class IgnoreValue(Operation):
    """The values of the slots ``names`` mean nothing; only that there is one counts."""

    words = (Word("ignore-value", "the value of {slots} means nothing", "slots"),)

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if "?" in self.names:
            raise refuse("slots", "?", "slots with a value; drop-param with bare = true drops it")

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

    def example(self, slots: Slots) -> Slots:
        return _with_values(slots, self.names, "x")

    def check_context(self, context: Context) -> None:
        if "s0" in self.names and not context:
            raise SiteRuleError(
                "a rule on 's0' needs 'path' or 'when', or it would swallow any path"
            )
