"""What the value of a slot begins with: ``Special:`` of ``Special:Log``, as a condition."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.site_rules.form import REPEAT, Slots, place, with_value

if TYPE_CHECKING:
    from scrapy_urlnorm.site_rules.paths import Pair

#: A word, or words, before a separator; what is longer is no name of a kind of page.
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
    heads: tuple[str, ...]
    kind: str = "starts"

    def holds(self, slots: Slots) -> bool:
        value = slots.get(place(slots, self.slot))
        return value is not None and value.startswith(self.heads) and REPEAT not in value

    def pairs(self) -> list[Pair]:
        return []

    def example(self, slots: Slots) -> Slots:
        return slots if self.holds(slots) else with_value(slots, self.slot, f"{self.heads[0]}x")
