"""Where a rule holds: conditions on the slots of a URL, all of which must hold.

A condition is a small named tuple. ``holds(slots)`` says whether it holds; ``example(slots)``
returns slots on which it holds, as like those given as can be. The last field is a constant that
keeps conditions of two kinds apart: a tuple compares and hashes fast, and learning does little
else. `read_context` makes conditions of ``path`` and ``when`` as a rule file holds them, and
`write_context` is its inverse.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules.form import (
    REPEAT,
    Form,
    Slots,
    decode,
    encode_segment,
    is_param,
    is_path,
    parts,
    path_and_query,
    place,
    segment_slots,
    segments,
    with_segments,
    with_value,
)
from scrapy_urlnorm.site_rules.operation import (
    check_path,
    check_table,
    flag,
    listed,
    refuse,
    scheme,
)
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Iterable

#: A slot with its value; an item of a template with its text.
Pair = tuple[str, str]
#: The item of a segment of several words. One word may be the name of a view: ``/edit``.
TITLE: Pair = ("*-*", "")
_BLANKS = re.compile(r"[-_+ ]")


class Path(NamedTuple):
    """The path has this template: ``before`` and, with ``**`` between, ``after`` (else ``None``).

    An item is ``("=", text)``, ``("*", extension)`` for any segment, ``("#", extension)`` for
    digits or ``("*-*", "")`` for a title; the extension may be empty. ``slash`` says whether the
    path ends in a slash; ``None`` accepts both.
    """

    before: tuple[Pair, ...]
    after: tuple[Pair, ...] | None = None
    slash: bool | None = None
    kind: str = "path"

    def holds(self, slots: Slots) -> bool:
        slash = self.slash
        if slash is not None and ("slash" in slots) is not slash:
            return False
        before, after = self.before, self.after or ()
        if before and before[0][0] == "=" and slots.get("s0") != before[0][1]:
            return False
        path = segments(slots)
        rest = len(path) - len(after)
        if rest < len(before) or (self.after is None and rest > len(before)):
            return False
        return all(map(_is_item, path, before)) and all(map(_is_item, path[rest:], after))

    def example(self, slots: Slots) -> Slots:
        path = segments(slots)
        wanted = [*self.before, *(self.after or ())]
        if len(path) < len(wanted) or (self.after is None and len(path) > len(wanted)):
            path = (path + ["x"] * len(wanted))[: len(wanted)]
        for at, item in enumerate(self.before):
            path[at] = _example_of(item, path[at])
        for at, item in enumerate(reversed(self.after or ()), 1):
            path[-at] = _example_of(item, path[-at])
        slash = "slash" in slots if self.slash is None else self.slash
        return with_segments(slots, path, slash=slash)

    def literals(self) -> list[str]:
        return [text for kind, text in (*self.before, *(self.after or ())) if kind == "="]

    def text(self) -> str:
        """Return the template as a rule file holds it."""
        after = [] if self.after is None else ["**", *map(_item_text, self.after)]
        items = [*map(_item_text, self.before), *after]
        return "/" + "/".join(items) + ("/" if self.slash and items else "")


def _is_item(segment: str, item: Pair) -> bool:
    kind, text = item
    if kind == "=":
        return segment == text
    if kind == TITLE[0]:
        return is_title(segment)
    if text:
        if not segment.endswith(text) or len(segment) == len(text):
            return False
        segment = segment[: -len(text)]
    return kind == "*" or (segment.isascii() and segment.isdigit())


def is_title(segment: str) -> bool:
    """Whether a segment has several words: with letters, and with a blank or a sign between them."""
    return sum(any(map(str.isalpha, word)) for word in _BLANKS.split(segment)) > 1


def _example_of(item: Pair, segment: str) -> str:
    kind, text = item
    if kind == "=":
        return text
    return segment if _is_item(segment, item) else kind.replace("#", "1").replace("*", "x") + text


def _item_text(item: Pair) -> str:
    text = encode_segment(item[1])
    return text.replace("*", "%2A") if item[0] == "=" else item[0] + text


@lru_cache(maxsize=4096)
def parse_path(path: str) -> Path:
    """Read a path template; `SiteRuleError` for a wildcard that is only part of a segment."""
    raw = path.split("/")[1:]
    slash: bool | None = not raw[-1]
    if slash:
        del raw[-1]
    if raw.count("**") > 1:
        raise refuse("path", path, "one '**' at most")
    if not raw or raw[-1] == "**":  # the root always ends in a slash
        slash = None
    items = tuple(_parse_item(segment, path) for segment in raw if segment != "**")
    if "**" not in raw:
        return Path(items, None, slash)
    gap = raw.index("**")
    return Path(items[:gap], items[gap:], slash)


def _parse_item(segment: str, path: str) -> Pair:
    if segment in ("*", "#", TITLE[0]):
        return segment, ""
    if segment[:2] in ("*.", "#.") and not set(segment[1:]) & set("*#"):
        return segment[0], decode(segment[1:])
    if "*" in segment or "#" in segment:
        raise SiteRuleError(
            f"path = {path!r} is not accepted; accepted in a segment: text, or one of '*', '#', "
            "'*-*', '*.ext', '#.ext' alone (a literal star is %2A, a literal # is %23)"
        )
    return "=", decode(segment)


class Has(NamedTuple):
    """The URL has the slot."""

    slot: str
    kind: str = "has"

    def holds(self, slots: Slots) -> bool:
        return self.slot in slots

    def example(self, slots: Slots) -> Slots:
        return {self.slot: "1"} | slots


class No(NamedTuple):
    """The URL does not have the slot."""

    slot: str
    kind: str = "no"

    def holds(self, slots: Slots) -> bool:
        return self.slot not in slots

    def example(self, slots: Slots) -> Slots:
        return {slot: value for slot, value in slots.items() if slot != self.slot}


class Is(NamedTuple):
    """The slot has one of the values; a repeated parameter has these values only.

    ``s-1`` is the last segment.
    """

    slot: str
    values: tuple[str, ...]
    kind: str = "is"

    def holds(self, slots: Slots) -> bool:
        value = slots.get(place(slots, self.slot))
        return value is not None and _is_one_of(value, self.values)

    def example(self, slots: Slots) -> Slots:
        return slots if self.holds(slots) else with_value(slots, self.slot, self.values[0])


class Among(NamedTuple):
    """The slot is not there, or has one of the values."""

    slot: str
    values: tuple[str, ...]
    kind: str = "among"

    def holds(self, slots: Slots) -> bool:
        value = slots.get(self.slot)
        return value is None or _is_one_of(value, self.values)

    def example(self, slots: Slots) -> Slots:
        return slots if self.holds(slots) else slots | {self.slot: self.values[0]}


def _is_one_of(value: str, values: tuple[str, ...]) -> bool:
    return value in values or (REPEAT in value and all(part in values for part in parts(value)))


#: What the value of a slot may begin with, as ``Special:`` of ``Special:Log``: a word, or words,
#: before a separator. What is longer is no name of a kind of page.
_HEAD = re.compile(r"[^\W\d][^:/,]{1,40}?[:/,]")
#: Slots that may have a head.
HEADED = re.compile(r"s-?\d{1,2}|q:.+", re.DOTALL)
#: Heads of one value: ``Special:``, and ``Special:Log/``.
_MOST = 2


@lru_cache(maxsize=65_536)
def heads_of(value: str) -> tuple[str, ...]:
    """Return what a value with parts begins with, the shortest first."""
    found: list[str] = []
    at = 0
    while len(found) < _MOST and (match := _HEAD.match(value, at)) and match.end() < len(value):
        at = match.end()
        found.append(value[:at])
    return tuple(found)


class Starts(NamedTuple):
    """The one value of the slot begins with one of the texts."""

    slot: str
    values: tuple[str, ...]
    kind: str = "starts"

    def holds(self, slots: Slots) -> bool:
        value = slots.get(place(slots, self.slot))
        return value is not None and value.startswith(self.values) and REPEAT not in value

    def example(self, slots: Slots) -> Slots:
        return slots if self.holds(slots) else with_value(slots, self.slot, f"{self.values[0]}x")


class Rest(NamedTuple):
    """Path and query are exactly these, without the slots ``own`` that the rule is about."""

    rest: tuple[Pair, ...]
    own: tuple[str, ...] = ()
    kind: str = "rest"

    def holds(self, slots: Slots) -> bool:
        for slot, value in self.rest:
            found = slots.get(slot)
            if found != value and (found is None or _sorted(found) != value):
                return False
        own = self.own
        return sum(slot not in own and _is_rest(slot) for slot in slots) == len(self.rest)

    def example(self, slots: Slots) -> Slots:
        kept = {s: v for s, v in slots.items() if s in self.own or not _is_rest(s)}
        return kept | dict(self.rest)


def _is_rest(slot: str) -> bool:
    return slot != "q:" and (is_path(slot) or is_param(slot))


def _sorted(value: str) -> str:
    """Return repeated values in order: `Rest` does not ask for theirs."""
    return REPEAT.join(sorted(value.split(REPEAT)))


def rest_of(slots: Slots, own: Iterable[str]) -> Rest:
    """Return the condition that path and query are those of *slots*, but for the slots *own*."""
    pairs = ((s, _sorted(value)) for s, value in slots.items() if s not in own and _is_rest(s))
    return Rest(tuple(sorted(pairs)), tuple(sorted(own)))


class Slash(NamedTuple):
    """The path ends in a slash, or does not; that of the root does."""

    slash: bool
    kind: str = "slash"

    def holds(self, slots: Slots) -> bool:
        return ("slash" in slots or "s0" not in slots) is self.slash

    def example(self, slots: Slots) -> Slots:
        return with_segments(slots, segments(slots) or ["x"], slash=self.slash)


Condition = Path | Has | No | Is | Among | Starts | Rest | Slash
Context = tuple[Condition, ...]


def all_hold(context: Context, slots: Slots) -> bool:
    """Whether all conditions of *context* hold."""
    for condition in context:  # noqa: SIM110 - a generator costs more than most conditions do
        if not condition.holds(slots):
            return False
    return True


def pairs_of(condition: Condition) -> list[Pair]:
    """Return slots with values that a URL has wherever *condition* holds."""
    if isinstance(condition, Rest):
        return [pair for pair in condition.rest if REPEAT not in pair[1]]
    if isinstance(condition, Path):
        numbered = zip(segment_slots(len(condition.before)), condition.before, strict=True)
        found = [(slot, text) for slot, (kind, text) in numbered if kind == "="]
        last = condition.after[-1] if condition.after else ("", "")
        return [*found, ("s-1", last[1])] if last[0] == "=" else found
    if isinstance(condition, Is) and not is_param(condition.slot) and len(condition.values) == 1:
        return [(condition.slot, condition.values[0])]
    return []


_OF_SLOTS = ("params", "among", "starts", "segments")
#: The keys of ``when``, in the order in which their conditions are tried.
WHEN_KEYS = ("has", "no", *_OF_SLOTS, "slash", "host", "scheme", "rest")


def read_context(path: object, when: object, own: frozenset[str]) -> Context:
    """Return the conditions of a table of a rule file.

    *own* are the slots that the rule is about: where the final slash is one of them, ``path``
    says nothing of it. `SiteRuleError` names what is not accepted.
    """
    found: list[Condition] = []
    if path is not None:
        template = parse_path(check_path("path", path))
        found.append(template._replace(slash=None) if "slash" in own else template)
    table = check_table("when", when)
    for key in table:
        if key not in WHEN_KEYS:
            raise refuse("when key", key, ", ".join(WHEN_KEYS))
    for key in WHEN_KEYS:
        if key in table:
            found += _read(key, table[key], own)
    return tuple(found)


def _read(key: str, value: Any, own: frozenset[str]) -> Iterable[Condition]:
    name = f"when.{key}"
    if key in ("has", "no"):
        kind = Has if key == "has" else No
        return [kind(f"q:{param}") for param in sorted(set(listed(name, value)))]
    if key == "host":
        return [Is("host", tuple(sorted(listed(name, value))))]
    if key == "slash":
        return [Slash(flag(name, value))]
    if key == "scheme":
        return [Is("scheme", (scheme(name, value),))]
    if key == "rest":
        if not isinstance(value, str) or not value.startswith("/"):
            raise refuse(name, value, "a path, with its query if it has one: '/refs?a=1'")
        return [rest_of(Form(split("http://h" + value)).slots, own)]
    said = sorted(check_table(name, value, listed).items())
    return [_on_slot(key, slot, tuple(sorted(listed(name, v)))) for slot, v in said]


def _on_slot(key: str, slot: str, values: tuple[str, ...]) -> Is | Among | Starts:
    if key == "segments":
        if not slot.lstrip("-").isdigit():
            raise refuse("when.segments", slot, "positions: '0', '1', … '-1'")
        return Is(f"s{int(slot)}", values)
    if key == "starts":
        if not HEADED.fullmatch(slot):
            raise refuse("when.starts slot", slot, "s0, s1, … s-1, q:NAME")
        return Starts(slot, values)
    return (Is if key == "params" else Among)(f"q:{slot}", values)


def write_context(context: Context) -> tuple[str | None, dict[str, Any]]:
    """Return ``path`` and ``when`` of a rule file."""
    path: str | None = None
    when: dict[str, Any] = {}
    for condition in context:
        if isinstance(condition, Path):
            path = condition.text()
        elif isinstance(condition, Rest):
            when["rest"] = path_and_query(dict(condition.rest))
        elif isinstance(condition, Slash):
            when["slash"] = condition.slash
        elif isinstance(condition, (Has, No)):
            when[condition.kind] = [*when.get(condition.kind, ()), condition.slot[2:]]
        elif condition.slot in ("host", "scheme"):
            when[condition.slot] = _one_or_list(condition.values)
        else:
            key = {"is": "params"}.get(condition.kind, condition.kind)
            slot = condition.slot
            if key != "starts":
                key, slot = (key, slot[2:]) if is_param(slot) else ("segments", slot[1:])
            when.setdefault(key, {})[slot] = _one_or_list(condition.values)
    for key in when.keys() & {"has", "no"}:
        when[key] = _one_or_list(when[key])
    return path, when


def _one_or_list(values: Iterable[str]) -> str | list[str]:
    found = list(values)
    return found[0] if len(found) == 1 else found


def context_text(context: Context) -> str:
    """Return a text that is equal for equal contexts, the same in every process."""
    return json.dumps(write_context(context), sort_keys=True, ensure_ascii=False)
