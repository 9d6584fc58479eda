"""Kinds of rules about whole parameters: some mean nothing, or only some mean anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules.form import Slots, is_param, without
from scrapy_urlnorm.site_rules.operations.base import Operation

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The words for slots that are no parameters, as far as `DropParam` may name them.
_FLAGS = {"slash": "slash", "semicolons": "sep", "bare": "?"}


@dataclass(frozen=True)
class DropParam(Operation):
    """The slots ``names`` mean nothing, each and together.

    They are parameters (``q:sid``), the final slash (``slash``), ``;`` as a separator (``sep``)
    and tokens that stand alone (``?``).
    """

    kind = "drop-param"
    summary = "the parameters mean nothing"
    optional = ("param", "slash", "semicolons", "bare")

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.names:
            raise SiteRuleError("a drop-param rule needs 'param', 'slash', 'semicolons' or 'bare'")

    @classmethod
    def read(cls, operands: Mapping[str, Any]) -> DropParam:
        names = [f"q:{name}" for name in operands.get("param", ())]
        return cls((*names, *(slot for word, slot in _FLAGS.items() if operands.get(word))))

    def write(self) -> dict[str, Any]:
        params = tuple(name[2:] for name in self.names if name[:2] == "q:")
        flags = {word: True for word, slot in _FLAGS.items() if slot in self.names}
        return ({"param": params} if params else {}) | flags

    def image(self, slots: Slots) -> Slots | None:
        for name in self.names:
            if name in slots:
                return without(slots, self.names)
        return None

    @property
    def slots(self) -> frozenset[str]:
        return frozenset(self.names)

    def any_of(self) -> tuple[str, ...]:
        return self.names

    def example(self, slots: Slots) -> Slots:
        added = {name: "1" for name in self.names if name != "sep" and name not in slots}
        return slots | ({"q:a": "1", "q:b": "1", "sep": ";"} if "sep" in self.names else {}) | added


@dataclass(frozen=True)
class KeepParam(Operation):
    """All parameters but ``names`` mean nothing."""

    kind = "keep-param"
    summary = "all other parameters mean nothing"
    optional = ("param",)

    names: tuple[str, ...] = ()

    @classmethod
    def read(cls, operands: Mapping[str, Any]) -> KeepParam:
        return cls(operands.get("param", ()))

    def write(self) -> dict[str, Any]:
        return {"param": self.names} if self.names else {}

    def image(self, slots: Slots) -> Slots | None:
        kept = {f"q:{name}" for name in self.names}
        gone = {slot for slot in slots if is_param(slot) and slot not in kept}
        return without(slots, gone) if gone else None

    def example(self, slots: Slots) -> Slots:
        return slots | {"?": "x1"}
