"""The URLs of one site as items, with the indexes that trials need."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from scrapy_urlnorm.site_rules.form import parts

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable

    from scrapy_urlnorm.learning.slots import Hasher
    from scrapy_urlnorm.site_rules.form import Slots


@dataclass(slots=True)
class Item:
    """All URLs of one form: their slots, hash, contents (with counts) and one URL."""

    slots: Slots
    form: int
    contents: Counter[int]
    content: int
    url: str

    def absorb(self, other: Item) -> None:
        """Take in another item of the same form; the content that most URLs have counts."""
        self.contents = self.contents + other.contents  # these may belong to a URL
        self.content = most_common(self.contents)
        self.url = min(self.url, other.url)


def most_common(contents: Counter[int]) -> int:
    """Return the most frequent content; real contents go before the pseudo (negative) ones."""
    if len(contents) == 1:
        return next(iter(contents))
    return min(contents, key=lambda content: (content < 0, -contents[content], content))


class Corpus:
    """Items of different forms, in the order of their URLs, and where to find them."""

    def __init__(self, items: Iterable[Item], hasher: Hasher) -> None:
        by_form: dict[int, Item] = {}
        for item in items:
            known = by_form.get(item.form)
            if known is None:
                by_form[item.form] = item
            else:
                known.absorb(item)
        self.by_form = by_form
        self.items = list(by_form.values())
        self.hasher = hasher
        #: By the hash of slots: that of what the rules make of them. The miner fills it.
        self.settled: dict[int, int] = {}

    @cached_property
    def by_slot(self) -> dict[str, list[Item]]:
        """The items that have a slot."""
        found: dict[str, list[Item]] = {}
        for item in self.items:
            for slot in item.slots:
                found.setdefault(slot, []).append(item)
        return found

    @cached_property
    def by_content(self) -> dict[int, list[Item]]:
        """The items of each content."""
        found: dict[int, list[Item]] = {}
        for item in self.items:
            found.setdefault(item.content, []).append(item)
        return found

    def with_pair(self, slot: str, value: str) -> list[Item]:
        """The items that have a slot at a value, or this value among several of the slot."""
        return self._by_pair(slot).get(value, [])

    def _by_pair(self, slot: str) -> dict[str, list[Item]]:
        found = self._pairs.get(slot)
        if found is None:
            found = self._pairs[slot] = {}
            for item in self.by_slot.get(slot, []):
                for value in sorted(set(parts(item.slots[slot]))):
                    found.setdefault(value, []).append(item)
        return found

    @cached_property
    def _pairs(self) -> dict[str, dict[str, list[Item]]]:
        return {}
