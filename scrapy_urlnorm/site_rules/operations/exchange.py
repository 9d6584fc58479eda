"""The kind of rule that puts the values of some slots in place of others."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules.context import SYMBOLS, PathText, check_table, listed
from scrapy_urlnorm.site_rules.form import (
    DOT_SEGMENTS,
    REPEAT,
    Slots,
    count_params,
    is_bare,
    parts,
    place,
    with_value,
    without,
)
from scrapy_urlnorm.site_rules.operations.base import Operation, is_host
from scrapy_urlnorm.site_rules.paths import Pair, refuse, segments_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SLOT = re.compile(r"scheme|host|slash|\?|s-?\d{1,2}|q:.+", re.DOTALL)


@dataclass(frozen=True)
class Replace(Operation):
    """Where all pairs of ``old`` stand together, the pairs of ``new`` stand in their place.

    The values of a repeated parameter are joined by `REPEAT`. Without ``new``, what ``old`` says
    is a default: a rule file has the word ``drop-default`` for that.
    """

    kind = "replace"
    summary = "all slots of `old` are those of `new`"
    required = ("old",)
    optional = ("new", "prefix", "separator")

    old: tuple[Pair, ...]
    new: tuple[Pair, ...] = ()
    path_text: PathText | None = None

    def __post_init__(self) -> None:
        old, new = dict(self.old), dict(self.new)
        if old == new:
            raise SiteRuleError("'old' and 'new' are the same")
        if any((slot in old) != (slot in new) for slot in ("host", "scheme")):
            raise SiteRuleError("a host or a scheme is replaced by another: name it in old and new")
        alone = {s for s in old if _is_segment(s)} ^ {s for s in new if _is_segment(s)}
        if alone:
            raise SiteRuleError(
                f"segment {min(alone)!r} stands on one side only; segments are taken away by "
                "strip-segment, strip-tail and prefix-alias"
            )
        for table in (old, new):
            _check_values(table)

    @classmethod
    def read(cls, operands: Mapping[str, Any]) -> Replace:
        if "default" in operands:
            table = check_table("default", operands["default"], listed)
            old: tuple[Pair, ...] = tuple((f"q:{n}", _joined(v)) for n, v in table.items())
            new: tuple[Pair, ...] = ()
        else:
            old, new = (_pairs(side, operands.get(side, {})) for side in ("old", "new"))
        path_text = None
        symbolic = any(part in SYMBOLS for _, text in old + new for part in parts(text))
        if symbolic or "prefix" in operands or "separator" in operands:
            prefix, _ = segments_of(operands.get("prefix", "/"))
            path_text = PathText(prefix, operands.get("separator", ":"))
        return cls(old, new, path_text)

    @property
    def word(self) -> str:
        return "drop-default" if self.is_default else self.kind

    @property
    def is_default(self) -> bool:
        """Whether the rule drops parameters at some values."""
        return not self.new and not self.path_text and all(s[:2] == "q:" for s, _ in self.old)

    def write(self) -> dict[str, Any]:
        if self.is_default:
            return {"default": {slot[2:]: _written(value) for slot, value in self.old}}
        said: dict[str, Any] = {"old": {slot: _written(value) for slot, value in self.old}}
        if self.new:
            said["new"] = {slot: _written(value) for slot, value in self.new}
        return said | (self.path_text.table() if self.path_text else {})

    def image(self, slots: Slots) -> Slots | None:
        taken = {}
        for name, wanted in self.old:
            slot = place(slots, name) if name[:2] == "s-" else name
            value = slots.get(slot)
            if value is None:
                return None
            if value != wanted and not self._same(value, wanted, slots):
                return None
            taken[slot] = value
        put = {}
        for name, value in self.new:
            slot = place(slots, name) if name[:2] == "s-" else name
            if slot not in taken and slot in slots:
                return None
            if self.path_text is not None:
                found = self._resolved(slots, value)
                if found is None:
                    return None
                value = found
            put[slot] = value
        if "slash" in put and "s0" not in slots:
            return None  # the root has its slash already
        new = without(slots, taken)
        new.update(put)
        if "sep" in slots and "sep" not in new and count_params(new) > 1:
            new["sep"] = ";"
        return None if new == slots else new

    def _same(self, value: str, wanted: str, slots: Slots) -> bool:
        """Whether the values are those wanted, in any order, with symbols resolved."""
        if self.path_text is not None:
            found = self._resolved(slots, wanted)
            if found is None:
                return False
            wanted = found
        if value == wanted:
            return True
        return REPEAT in value and sorted(parts(value)) == sorted(parts(wanted))

    def _resolved(self, slots: Slots, value: str) -> str | None:
        found = []
        for part in parts(value):
            text = self.path_text.of(slots, part) if self.path_text and part in SYMBOLS else part
            if text is None:
                return None
            found.append(text)
        return REPEAT.join(found)

    @property
    def slots(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.old + self.new)

    @property
    def rank(self) -> int:
        return int(self.is_default)

    @property
    def symbols(self) -> PathText | None:
        return self.path_text

    @property
    def key(self) -> object:
        return None if self.is_default else (frozenset(self.old), self.path_text)

    def pairs(self) -> list[Pair]:
        return [
            (name, value)
            for name, value in self.old
            if REPEAT not in value and value not in SYMBOLS
        ]

    def any_of(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.old if name[:2] == "q:")[:1]

    def example(self, slots: Slots) -> Slots:
        for name, value in self.old:
            slots = with_value(slots, name, self._resolved(slots, value) or value)
        gone = {name for name, _ in self.new} - {name for name, _ in self.old}
        return without(slots, gone)

    def moves(self) -> list[tuple[str, str]]:
        old, new = dict(self.old), dict(self.new)
        return [(old["host"], new["host"])] if "host" in old and old["host"] != new["host"] else []

    @property
    def family(self) -> object:
        return self.slots

    def catalogue_options(self) -> dict[str, object]:
        old, new = dict(self.old), dict(self.new)
        options: dict[str, object] = {}
        if self.moves() and new["host"].startswith("www."):
            options["www"] = False
        if "scheme" in new:
            options["force-scheme"] = False
        if "slash" in new and "slash" not in old:
            options["trailing-slash"] = False
        return options


def _is_segment(slot: str) -> bool:
    return slot[0] == "s" and slot[1:].lstrip("-").isdigit()


def _check_values(table: Mapping[str, str]) -> None:
    if table.get("slash", "1") != "1":
        raise refuse("slash", table["slash"], "'1' for a final slash (none: leave it out)")
    if table.get("scheme", "http") not in ("http", "https"):
        raise refuse("scheme", table["scheme"], "'http', 'https'")
    if not all(is_bare(token, "") for token in parts(table.get("?", "1"))):
        raise refuse("?", table["?"], "a token with a digit, which stands alone: 'thread-12'")
    if not is_host(table.get("host", "h")):
        raise refuse("host", table["host"], "a lower-case host")


def _pairs(name: str, table: object) -> tuple[Pair, ...]:
    found = []
    for slot, value in check_table(name, table, listed).items():
        if not _SLOT.fullmatch(slot):
            raise refuse(f"{name} slot", slot, "scheme, host, slash, s0, s1, … s-1, q:NAME, ?")
        if not isinstance(value, str) and not slot.startswith("q:"):
            raise refuse(f"{name}.{slot}", value, "one text (lists are for parameters)")
        if _is_segment(slot) and value in DOT_SEGMENTS:
            raise refuse(f"{name}.{slot}", value, "a segment that is not empty, '.' or '..'")
        found.append((slot, _joined(value)))
    return tuple(found)


def _joined(value: str | Iterable[str]) -> str:
    return value if isinstance(value, str) else REPEAT.join(sorted(value))


def _written(value: str) -> str | list[str]:
    return value.split(REPEAT) if REPEAT in value else value
