"""A URL as a set of slots, and the hash of a set of slots.

The learner works on the slots that site rules act on (see
:mod:`scrapy_urlnorm.site_rules.form`), as a plain dictionary: ``scheme``, ``host``, ``s0``,
``s1``…, ``slash`` (``"1"`` or absent; the root never has it), ``q:NAME``, ``?`` (tokens without
a value, such as ``?thread-423``) and ``sep`` (``";"`` where that separates the parameters).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from scrapy_urlnorm.site_rules.form import Form
from scrapy_urlnorm.site_rules.operations import is_bare
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Iterable

Slots = dict[str, str]

#: The slot of parameters that are too rare to have one each; no rule ever touches it.
OTHER = "other"
#: Between the values of one parameter that is given more than once.
REPEAT = "\x01"
#: What a URL may have at most to be learned from; the rest is left alone.
MAX_SEGMENTS, MAX_PARAMS, MAX_LENGTH = 24, 40, 2_048
#: Hashes are numbers of 64 bits.
MASK = (1 << 64) - 1
_SEGMENT_NAMES = tuple(f"s{i}" for i in range(MAX_SEGMENTS))


def slots_of(key: str) -> Slots | None:
    """Take a normalized URL apart; None for what is too long, or no URL with a host."""
    if len(key) > MAX_LENGTH:
        return None
    url = split(key)
    if url.host is None:
        return None
    form = Form(url)
    if len(form.segments) > MAX_SEGMENTS or len(form.params) > MAX_PARAMS:
        return None
    slots = {"scheme": form.scheme, "host": form.host}
    if url.port is not None:
        slots["port"] = url.port
    if url.userinfo is not None:
        slots["userinfo"] = url.userinfo
    slots.update(zip(_SEGMENT_NAMES, form.segments, strict=False))
    if form.slash and form.segments:
        slots["slash"] = "1"
    repeated: dict[str, list[str]] = {}
    for name, value, _ in form.params:
        slot = "?" if is_bare(name, value) else f"q:{name}"
        repeated.setdefault(slot, []).append(name if slot == "?" else value)
    for slot, values in repeated.items():
        slots[slot] = values[0] if len(values) == 1 else REPEAT.join(sorted(values))
    if form.semicolons and len(form.params) > 1:
        slots["sep"] = ";"
    return slots


def segments(slots: Slots) -> list[str]:
    """Return the path segments in order."""
    found = []
    for name in _SEGMENT_NAMES:
        value = slots.get(name)
        if value is None:
            break
        found.append(value)
    return found


def with_segments(slots: Slots, path: list[str], *, slash: bool) -> Slots | None:
    """Return the slots with another path; None if it is too long or a segment would vanish."""
    if len(path) > MAX_SEGMENTS:
        return None
    new = {name: value for name, value in slots.items() if not is_path(name)}
    new.update(zip(_SEGMENT_NAMES, path, strict=False))
    if slash and path:
        new["slash"] = "1"
    return new


def is_segment(slot: str) -> bool:
    """Whether *slot* is a path segment."""
    return slot[0] == "s" and slot[1:].isdigit()


def is_path(slot: str) -> bool:
    """Whether *slot* is a path segment or the final slash."""
    return slot == "slash" or is_segment(slot)


def is_param(slot: str) -> bool:
    """Whether *slot* is part of the query."""
    return slot == "?" or slot[:2] == "q:"


def count_params(slots: Slots) -> int:
    """Count the parameters, repeated ones as often as they stand there."""
    return sum(value.count(REPEAT) + 1 for name, value in slots.items() if is_param(name))


def without(slots: Slots, names: Iterable[str]) -> Slots:
    """Return the slots without those named; one parameter alone has no separator."""
    new = {name: value for name, value in slots.items() if name not in names}
    if "sep" in new and count_params(new) < 2:
        del new["sep"]
    return new


class Hasher(dict[tuple[str, str], int]):
    """64-bit hashes of (slot, value), remembered; that of a URL is their sum.

    A sum, so that taking a slot away or exchanging it costs one operation, whatever the length
    of the URL.
    """

    def __missing__(self, pair: tuple[str, str]) -> int:
        name, value = pair
        text = f"{name}\0{value}".encode("utf-8", "surrogatepass")
        found = self[pair] = int.from_bytes(blake2b(text, digest_size=8).digest(), "big")
        return found

    def of(self, slots: Slots) -> int:
        """Return the hash of all slots."""
        return sum([self[pair] for pair in slots.items()]) & MASK

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
