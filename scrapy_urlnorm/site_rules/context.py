"""Where a rule holds: conditions on the slots of a URL, all of which must hold.

A condition is a small named tuple. ``holds(slots)`` says whether it holds; ``pairs()`` returns slots
with values that a URL has wherever it holds; ``example(slots)`` returns slots on which it holds, as
like those given as can be. The last field is a constant that keeps conditions of two kinds apart: a
tuple compares and hashes fast, and learning does little else.

`read_context` makes conditions of ``path`` and ``when`` as a rule file holds them, and
`write_context` is its inverse.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from scrapy_urlnorm.site_rules.form import (
    REPEAT,
    Form,
    Slots,
    encode_query,
    is_param,
    is_path,
    parts,
    place,
    segments,
    with_segments,
    with_value,
)
from scrapy_urlnorm.site_rules.heads import HEADED, Starts
from scrapy_urlnorm.site_rules.paths import Pair, Path, check_path, parse_path, path_text, refuse
from scrapy_urlnorm.url import split

#: Values that stand for text of the same URL, see `PathText`.
SYMBOLS = ("{namespace}", "{page}")


class PathText(NamedTuple):
    """The segments after ``prefix``, joined: what the symbols of a rule stand for.

    ``{page}`` is all of them, ``{namespace}`` all but the last. With the prefix ``/doku.php``
    and the separator ``:``, ``/doku.php/a/b/c`` has the namespace ``a:b`` and the page ``a:b:c``.
    """

    prefix: tuple[str, ...] = ()
    separator: str = ":"

    def of(self, slots: Slots, symbol: str) -> str | None:
        """Return the text of *symbol* in these slots; ``None`` where there is none."""
        path = segments(slots)
        size = len(self.prefix)
        if tuple(path[:size]) != self.prefix:
            return None
        end = len(path) - (symbol == "{namespace}")
        return self.separator.join(path[size:end]) or None

    def table(self) -> dict[str, Any]:
        """Return the operands of a rule file that say this."""
        return {"prefix": path_text(self.prefix), "separator": self.separator}


# --- slots ----------------------------------------------------------------------------------


class Has(NamedTuple):
    """The URL has the slot."""

    slot: str
    kind: str = "has"

    def holds(self, slots: Slots) -> bool:
        return self.slot in slots

    def pairs(self) -> list[Pair]:
        return []

    def example(self, slots: Slots) -> Slots:
        return {self.slot: "1"} | slots


class No(NamedTuple):
    """The URL does not have the slot."""

    slot: str
    kind: str = "no"

    def holds(self, slots: Slots) -> bool:
        return self.slot not in slots

    def pairs(self) -> list[Pair]:
        return []

    def example(self, slots: Slots) -> Slots:
        return {slot: value for slot, value in slots.items() if slot != self.slot}


class Is(NamedTuple):
    """The slot has one of the values; a repeated parameter has these values only.

    ``s-1`` is the last segment. Symbols among the values stand for text of the path.
    """

    slot: str
    values: tuple[str, ...]
    symbols: PathText | None = None
    kind: str = "is"

    def holds(self, slots: Slots) -> bool:
        value = slots.get(place(slots, self.slot))
        return value is not None and _is_one_of(value, self.values, self.symbols, slots)

    def pairs(self) -> list[Pair]:
        if len(self.values) > 1 or self.symbols is not None or is_param(self.slot):
            return []
        return [(self.slot, self.values[0])]

    def example(self, slots: Slots) -> Slots:
        return slots if self.holds(slots) else with_value(slots, self.slot, self.values[0])


class Among(NamedTuple):
    """The slot is not there, or has one of the values."""

    slot: str
    values: tuple[str, ...]
    symbols: PathText | None = None
    kind: str = "among"

    def holds(self, slots: Slots) -> bool:
        value = slots.get(self.slot)
        return value is None or _is_one_of(value, self.values, self.symbols, slots)

    def pairs(self) -> list[Pair]:
        return []

    def example(self, slots: Slots) -> Slots:
        return slots if self.holds(slots) else slots | {self.slot: self.values[0]}


class Rest(NamedTuple):
    """Path and query are exactly these, without the slots ``own`` that the rule is about."""

    rest: tuple[Pair, ...]
    own: tuple[str, ...] = ()
    kind: str = "rest"

    def holds(self, slots: Slots) -> bool:
        for slot, value in self.rest:
            found = slots.get(slot)
            if found != value and (found is None or _sorted((slot, found))[1] != value):
                return False
        own = self.own
        named = [
            slot
            for slot in slots
            if slot not in own and slot != "q:" and (is_path(slot) or is_param(slot))
        ]
        return len(named) == len(self.rest)

    def pairs(self) -> list[Pair]:
        return [pair for pair in self.rest if REPEAT not in pair[1]]

    def example(self, slots: Slots) -> Slots:
        own = {
            slot: value
            for slot, value in slots.items()
            if slot in self.own or not (is_path(slot) or is_param(slot))
        }
        return own | dict(self.rest)

    def text(self) -> str:
        """Return path and query as a rule file holds them."""
        slots = dict(self.rest)
        query = [
            f"{encode_query(name[2:])}={encode_query(value)}" if name != "?" else f"{value}="
            for name, values in sorted(slots.items())
            if is_param(name)
            for value in parts(values)
        ]
        text = path_text(segments(slots), slash="slash" in slots)
        return f"{text}?{'&'.join(query)}" if query else text


def _sorted(pair: Pair) -> Pair:
    """Return a pair whose repeated values are in order: `Rest` does not ask for their order."""
    return pair[0], REPEAT.join(sorted(pair[1].split(REPEAT)))


class Slash(NamedTuple):
    """The path ends in a slash, or does not; that of the root does."""

    slash: bool
    kind: str = "slash"

    def holds(self, slots: Slots) -> bool:
        return ("slash" in slots or "s0" not in slots) is self.slash

    def pairs(self) -> list[Pair]:
        return []

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


def _is_one_of(value: str, values: tuple[str, ...], symbols: PathText | None, slots: Slots) -> bool:
    if value in values:
        return True
    if symbols is not None:
        values = tuple(symbols.of(slots, v) or v if v in SYMBOLS else v for v in values)
    elif REPEAT not in value:
        return False
    return all(part in values for part in parts(value))


# --- rule files -----------------------------------------------------------------------------

WHEN_KEYS = (
    "has",
    "no",
    "params",
    "among",
    "starts",
    "segments",
    "slash",
    "host",
    "scheme",
    "rest",
)


def check_table(
    name: str, table: object, check_value: Callable[[str, object], object] | None = None
) -> Mapping[str, Any]:
    """Return a table whose keys are texts and whose values pass; `SiteRuleError` otherwise."""
    if not isinstance(table, Mapping):
        raise refuse(name, table, "a table")
    for key, value in table.items():
        if not isinstance(key, str):
            raise refuse(f"{name} key", key, "a text")
        if check_value is not None:
            check_value(f"{name}.{key}", value)
    return table


def listed(name: str, value: object) -> tuple[str, ...]:
    """Read a text, or a list of texts."""
    if isinstance(value, str):
        return (value,)
    if (
        not isinstance(value, (list, tuple))
        or not value
        or not all(isinstance(each, str) for each in value)
    ):
        raise refuse(name, value, "a text, or a list of texts")
    return tuple(value)


def read_context(
    path: object,
    when: object,
    *,
    own: frozenset[str] = frozenset(),
    symbols: PathText | None = None,
) -> Context:
    """Return the conditions of a table of a rule file.

    *own* are the slots that the rule is about: where the final slash is one of them, ``path``
    says nothing of it. `SiteRuleError` names what is not accepted.
    """
    found: list[Condition] = []
    if path is not None:
        template = parse_path(check_path("path", path))
        found.append(template.without_slash() if "slash" in own else template)
    table = check_table("when", when)
    for key in table:
        if key not in WHEN_KEYS:
            raise refuse("when key", key, ", ".join(WHEN_KEYS))
    for key in WHEN_KEYS:
        if key in table:
            found += _read(key, table[key], own, symbols)
    return tuple(found)


def _read(
    key: str, value: Any, own: frozenset[str], symbols: PathText | None
) -> Iterable[Condition]:
    if key in ("has", "no"):
        kind = Has if key == "has" else No
        return [kind(f"q:{name}") for name in sorted(set(listed(f"when.{key}", value)))]
    if key in ("params", "among"):
        check_table(f"when.{key}", value, listed)
        return [_on_param(key, name, value[name], symbols) for name in sorted(value)]
    if key == "segments":
        check_table("when.segments", value, listed)
        for position in value:
            if not position.lstrip("-").isdigit():
                raise refuse("when.segments", position, "positions: '0', '1', … '-1'")
        return [
            Is(f"s{int(position)}", tuple(sorted(listed("", value[position]))))
            for position in sorted(value)
        ]
    if key == "starts":
        check_table("when.starts", value, listed)
        for slot in value:
            if not HEADED.fullmatch(slot):
                raise refuse("when.starts slot", slot, "s0, s1, … s-1, q:NAME")
        return [Starts(slot, tuple(sorted(listed("", value[slot])))) for slot in sorted(value)]
    if key == "host":
        return [Is("host", tuple(sorted(listed("when.host", value))))]
    if key == "slash":
        if not isinstance(value, bool):
            raise refuse("when.slash", value, "true or false")
        return [Slash(value)]
    if key == "scheme":
        if value not in ("http", "https"):
            raise refuse("when.scheme", value, "'http', 'https'")
        return [Is("scheme", (value,))]
    if not isinstance(value, str) or not value.startswith("/"):
        raise refuse("when.rest", value, "a path, with its query if it has one: '/refs?a=1'")
    return [rest_of(Form(split("http://h" + value)).slots, own)]


def _on_param(key: str, name: str, value: Any, symbols: PathText | None) -> Condition:
    values = tuple(sorted(listed("", value)))
    if not any(each in SYMBOLS for each in values):
        symbols = None
    elif symbols is None:
        symbols = PathText()
    return (Is if key == "params" else Among)(f"q:{name}", values, symbols)


def rest_of(slots: Slots, own: frozenset[str]) -> Rest:
    """Return the condition that path and query are those of *slots*, but for the slots *own*."""
    pairs = (
        _sorted(pair)
        for pair in slots.items()
        if pair[0] not in own and pair[0] != "q:" and (is_path(pair[0]) or is_param(pair[0]))
    )
    return Rest(tuple(sorted(pairs)), tuple(sorted(own)))


def write_context(context: Context) -> tuple[str | None, dict[str, Any]]:
    """Return ``path`` and ``when`` of a rule file."""
    path: str | None = None
    when: dict[str, Any] = {}
    for condition in context:
        if isinstance(condition, Path):
            path = condition.text()
        elif isinstance(condition, Rest):
            when["rest"] = condition.text()
        elif isinstance(condition, Slash):
            when["slash"] = condition.slash
        elif isinstance(condition, (Has, No)):
            when[condition.kind] = [*when.get(condition.kind, ()), condition.slot[2:]]
        else:
            _write_values(condition, when)
    for key in ("has", "no"):
        if len(when.get(key, ())) == 1:
            (when[key],) = when[key]
    return path, when


def _write_values(condition: Is | Among | Starts, when: dict[str, Any]) -> None:
    slot = condition.slot
    values = condition.heads if isinstance(condition, Starts) else condition.values
    value = values[0] if len(values) == 1 else list(values)
    if isinstance(condition, Starts):
        when.setdefault("starts", {})[slot] = value
        return
    if slot in ("host", "scheme"):
        when[slot] = value
    elif is_param(slot):
        key = "params" if isinstance(condition, Is) else "among"
        when.setdefault(key, {})[slot[2:]] = value
    else:
        when.setdefault("segments", {})[slot[1:]] = value


def context_text(context: Context) -> str:
    """Return a text that is equal for equal contexts, the same in every process."""
    return json.dumps(write_context(context), sort_keys=True, ensure_ascii=False)
