"""The kind of rule about hosts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules.operations.base import Operation, host

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy_urlnorm.site_rules.form import Slots
    from scrapy_urlnorm.site_rules.paths import Pair


@dataclass(frozen=True)
class HostAlias(Operation):
    """The hosts ``hosts`` are the host ``by``."""

    kind = "host-alias"
    summary = "the hosts are the host `by`"
    required = ("host", "by")

    hosts: tuple[str, ...]
    by: str

    def __post_init__(self) -> None:
        for each in (*self.hosts, self.by):
            host(each)
        if self.by in self.hosts:
            raise SiteRuleError(f"host {self.by!r} is an alias of itself")

    @classmethod
    def read(cls, operands: Mapping[str, Any]) -> HostAlias:
        return cls(operands["host"], operands["by"])

    def write(self) -> dict[str, Any]:
        return {"host": self.hosts, "by": self.by}

    def image(self, slots: Slots) -> Slots | None:
        return slots | {"host": self.by} if slots["host"] in self.hosts else None

    @property
    def slots(self) -> frozenset[str]:
        return frozenset(("host",))

    @property
    def key(self) -> object:
        return self.hosts

    def pairs(self) -> list[Pair]:
        return [("host", self.hosts[0])] if len(self.hosts) == 1 else []

    def example(self, slots: Slots) -> Slots:
        return slots if slots["host"] in self.hosts else slots | {"host": self.hosts[0]}

    def moves(self) -> list[tuple[str, str]]:
        return [(each, self.by) for each in self.hosts]

    @property
    def family(self) -> object:
        return self.slots

    def catalogue_options(self) -> dict[str, object]:
        return {"www": False} if self.by.startswith("www.") else {}
