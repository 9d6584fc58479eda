"""The slots of a key, as learning compares them, and hashes of slots.

Slots are those of :mod:`scrapy_urlnorm.site_rules.form`; here the values of a repeated parameter
are in order, since their order never tells two pages apart.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from scrapy_urlnorm.site_rules.form import (
    REPEAT,
    Form,
    Slots,
    count_params,
    is_segment,
)
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The slot of parameters that are too rare to have one each; no rule ever touches it.
OTHER = "other"
#: A URL with more than this is not learned from (a choice: no page of the logs has as much).
MAX_SEGMENTS, MAX_PARAMS, MAX_LENGTH = 24, 40, 2_048
#: Hashes are numbers of 64 bits.
MASK = (1 << 64) - 1


def slots_of(key: str) -> Slots | None:
    """Take a normalized URL apart; None for what is too long, or no URL with a host."""
    if len(key) > MAX_LENGTH:
        return None
    url = split(key)
    if url.host is None:
        return None
    slots = Form(url).slots
    if len(slots) < MAX_SEGMENTS and REPEAT not in "".join(slots.values()):
        return slots  # most have few slots, and no parameter twice
    if count_params(slots) > MAX_PARAMS or sum(map(is_segment, slots)) > MAX_SEGMENTS:
        return None
    return in_order(slots)


def in_order(slots: Slots) -> Slots:
    """Return the slots with the values of each repeated parameter in order."""
    repeated = [slot for slot, value in slots.items() if REPEAT in value]
    if not repeated:
        return slots
    return slots | {slot: REPEAT.join(sorted(slots[slot].split(REPEAT))) for slot in repeated}


class Hasher(dict[tuple[str, str], int]):
    """64-bit hashes of (slot, value), remembered; that of a URL is their sum.

    A sum, so that taking a slot away or exchanging it costs one operation, whatever the length
    of the URL. The order of the values of a repeated parameter does not count.
    """

    def __missing__(self, pair: tuple[str, str]) -> int:
        name, value = pair
        if REPEAT in value:
            value = "\1".join(sorted(value.split(REPEAT)))
        text = f"{name}\0{value}".encode("utf-8", "surrogatepass")
        found = self[pair] = int.from_bytes(blake2b(text, digest_size=8).digest(), "big")
        return found

    def of(self, slots: Slots) -> int:
        """Return the hash of all slots."""
        return sum(map(self.__getitem__, slots.items())) & MASK

    def moved(self, form: int, old: Slots, names: Iterable[str]) -> int:
        """Return the hash *form* of *old* without the slots named."""
        for name in names:
            value = old.get(name)
            if value is not None:
                form -= self[name, value]
        return form & MASK

    def exchanged(
        self, form: int, taken: Iterable[tuple[str, str]], put: Iterable[tuple[str, str]]
    ) -> int:
        """Return *form* with the pairs *put* in place of those *taken*."""
        for pair in taken:
            form -= self[pair]
        for pair in put:
            form += self[pair]
        return form & MASK
