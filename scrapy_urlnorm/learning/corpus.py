"""The URLs of one site as slots, hashes and items, with the indexes that trials need.

Slots are those of :mod:`scrapy_urlnorm.site_rules.form`; here the values of a repeated parameter
are in order, since their order never tells two pages apart. What of them a condition may name is
the `Vocabulary` of the site. A path template holds literal segments, ``#`` (digits) and ``*`` (any),
each with an extension perhaps.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.caches import BoundedCache
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.site_rules.context import Condition, Has, Is, Path, Starts, heads_of
from scrapy_urlnorm.site_rules.form import (
    REPEAT,
    Form,
    Slots,
    count_params,
    is_param,
    is_segment,
    parts,
    segments,
)
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence


#: The slot of parameters that are too rare to have one each; no rule ever touches it.
OTHER = "other"
#: A URL with more than this is not learned from (a choice: no page of the logs has as much).
MAX_SEGMENTS, MAX_PARAMS, MAX_LENGTH = 24, 40, 2_048
#: Hashes are numbers of 64 bits.
_MASK = (1 << 64) - 1
_DIGIT = re.compile("[0-9]")
_EXTENSION = re.compile(r"(?<=.)\.[A-Za-z]\w{0,4}$", re.ASCII)
#: Parameters that conditions may name: the most frequent (a choice, for time).
_MAX_NAMES = 48
#: Values counted of one parameter, and queries noted of one path (choices, for memory).
_MAX_VALUES, _MAX_QUERIES = 5_000, 10
#: A parameter with no more values than this selects among kinds; others may be named only at
#: values that stand on a share of the URLs (choices).
_FEW_VALUES, _OFTEN, _SHARE = 40, 5, 0.005
#: A directory is a segment on this share of the different paths, among so many neighbours. Paths
#: are counted, not URLs (measured: a slug with many queries was taken for a directory, and hid
#: nine pages that refute a rule).
_DIRECTORY_SHARE, _SURROUNDINGS = 0.003, 5
#: Which condition is the most general, for equal support.
GENERALITY = {"has": 0, "is": 1, "starts": 1, "no": 2, "slash": 2, "path": 3}
#: A crawl has a site mined again and again: of so many URLs it is remembered what they are (a
#: choice: about 20 MB; a crawl of many small sites needs none of it).
_REMEMBERED = 16_384
#: The normalizer without site rules.
PLAIN = Normalizer("default")


@lru_cache(maxsize=3)
def keys_by(normalizer: Normalizer) -> Callable[[str], str]:
    """Return what gives keys as *normalizer* does, and remembers them for the rule sets of late."""
    return BoundedCache(normalizer.normalize, most=_REMEMBERED, longest=MAX_LENGTH).__getitem__


plain_key = keys_by(PLAIN)


@lru_cache(maxsize=_REMEMBERED)
def slots_of(key: str) -> Slots | None:
    """Take a normalized URL apart; None for what is too long, or no URL with a host.

    Who asks again gets the same slots, so nobody changes them.
    """
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
        return sum(map(self.__getitem__, slots.items())) & _MASK

    def moved(self, form: int, old: Slots, names: Iterable[str]) -> int:
        """Return the hash *form* of *old* without the slots named."""
        for name in names:
            if name in old:
                form -= self[name, old[name]]
        return form & _MASK

    def exchanged(
        self, form: int, taken: Iterable[tuple[str, str]], put: Iterable[tuple[str, str]]
    ) -> int:
        """Return *form* with the pairs *put* in place of those *taken*."""
        form += sum(map(self.__getitem__, put)) - sum(map(self.__getitem__, taken))
        return form & _MASK


@dataclass(slots=True)
class Item:
    """All URLs of one form: their slots, hash, contents (with counts) and one URL."""

    slots: Slots
    form: int
    contents: Counter[int]
    content: int
    url: str


def most_common(contents: Counter[int]) -> int:
    """Return the most frequent content; real contents go before the pseudo (negative) ones."""
    if len(contents) == 1:
        return next(iter(contents))
    return min(contents, key=lambda content: (content < 0, -contents[content], content))


class Corpus:
    """Items of different forms, in the order of their URLs, and where to find them."""

    def __init__(
        self, items: Iterable[Item], hasher: Hasher, two: Collection[frozenset[int]] = ()
    ) -> None:
        self.two = two  #: pairs of contents that verdicts found to be two
        self.by_form: dict[int, Item] = {}
        for item in items:
            known = self.by_form.setdefault(item.form, item)
            if known is not item:  # the content that most URLs have counts
                known.contents = known.contents + item.contents  # these may belong to a URL
                known.content = most_common(known.contents)
                known.url = min(known.url, item.url)
        self.items = list(self.by_form.values())
        self.hasher = hasher
        self._pairs: dict[str, dict[str, list[Item]]] = {}
        #: By slots and a context: what `value_tables` compares.
        self.together: dict[Any, Any] = {}

    @cached_property
    def by_slot(self) -> dict[str, list[Item]]:
        found: defaultdict[str, list[Item]] = defaultdict(list)
        for item in self.items:
            for slot in item.slots:
                found[slot].append(item)
        return dict(found)

    @cached_property
    def by_content(self) -> dict[int, list[Item]]:
        found: defaultdict[int, list[Item]] = defaultdict(list)
        for item in self.items:
            found[item.content].append(item)
        return dict(found)

    def with_pair(self, slot: str, value: str) -> list[Item]:
        """The items that have a slot at a value, or this value among several of the slot."""
        found = self._pairs.get(slot)
        if found is None:
            found = self._pairs[slot] = {}
            for item in self.by_slot.get(slot, []):
                for each in sorted(set(parts(item.slots[slot]))):
                    found.setdefault(each, []).append(item)
        return found.get(value, [])


# --- what is worth naming: candidates for the conditions of a rule ----------------------------


# The same object each time: conditions are looked up by the thousand.
has = lru_cache(maxsize=4096)(Has)


@lru_cache(maxsize=65_536)
def equals(slot: str, value: str) -> Is:
    return Is(slot, (value,))


@lru_cache(maxsize=65_536)
def starts(slot: str, head: str) -> Starts:
    return Starts(slot, (head,))


class Vocabulary:
    """What is worth naming in the URLs of one site: its names, directories and values.

    What not every round of learning asks for is looked for when it is asked for.
    """

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items
        #: The values of each parameter where it stands once, of hosts and of schemes.
        self._values: defaultdict[str, list[str]] = defaultdict(list)
        for item in items:
            for slot, value in item.slots.items():
                if slot in ("host", "scheme") or (slot[:2] == "q:" and REPEAT not in value):
                    self._values[slot].append(value)
        self._counted = {slot: _counted(slot, found) for slot, found in self._values.items()}
        params = (slot for slot in self._counted if is_param(slot))
        ranked = sorted(params, key=lambda slot: (-len(self._values[slot]), slot))
        self.names = frozenset(ranked[:_MAX_NAMES])
        often = max(_OFTEN, _SHARE * len(items))
        self.values = {
            slot: frozenset(
                value
                for value, count in counted.items()
                if slot == "host"
                or (count >= 3 and (len(counted) <= _FEW_VALUES or count >= often))
            )
            for slot, counted in self._counted.items()
            if slot in self.names or slot in ("host", "scheme")
        }
        self._patterns: dict[tuple[int, str], tuple[str, str]] = {}  # of positions and segments

    @cached_property
    def directories(self) -> frozenset[tuple[int, str]]:
        """The (position, segment) that many different paths share."""
        paths: dict[tuple[str, ...], set[tuple[tuple[str, str], ...]]] = {}
        for item in self._items:
            slots = item.slots
            queries = paths.setdefault(tuple(segments(slots)), set())
            if len(queries) < _MAX_QUERIES:
                queries.add(tuple([pair for pair in slots.items() if pair[0][0] in "q?"]))
        counted: Counter[tuple[int, str]] = Counter()
        around: defaultdict[tuple[int, str], set[Any]] = defaultdict(set)
        found = set()
        for path, queries in paths.items():
            for i, segment in enumerate(path):
                if segment.isdigit():
                    continue
                place = (i, segment)
                counted[place] += 1
                surroundings = around[place]
                if len(surroundings) < _SURROUNDINGS:
                    surroundings.add((path[i - 1] if i else "", path[i + 1 : i + 3]))
            if path and len(queries) >= _MAX_QUERIES and "." in path[-1].strip("."):
                found.add((len(path) - 1, path[-1]))
        often = max(_OFTEN, _DIRECTORY_SHARE * len(paths))
        found.update(
            p for p, count in counted.items() if count >= often and len(around[p]) >= _SURROUNDINGS
        )
        return frozenset(found)

    @cached_property
    def heads(self) -> dict[str, frozenset[str]]:
        """What enough different values of each slot begin with."""
        counted: defaultdict[str, defaultdict[str, set[str]]]
        counted = defaultdict(lambda: defaultdict(set))
        for item in self._items:
            for slot, value in item.slots.items():
                if not (":" in value or "/" in value or "," in value):
                    continue  # most values: there is no head without one of these
                if REPEAT not in value and slot != "?" and (is_param(slot) or is_segment(slot)):
                    for head in heads_of(value):
                        counted[slot][head].add(value)
        often = max(_OFTEN, _DIRECTORY_SHARE * len(self._items))
        kept = {
            slot: frozenset(head for head, values in heads.items() if len(values) >= often)
            for slot, heads in counted.items()
        }
        return {slot: heads for slot, heads in kept.items() if heads}

    @cached_property
    def dispatch(self) -> frozenset[str]:
        """The parameters that say which kind of page it is: ``route``, ``action``, ``mode``.

        Their values are words, and decide which other parameters there always are.
        """
        always: dict[str, dict[str, set[str]]] = {
            slot: {}
            for slot, counted in self._counted.items()
            if is_param(slot)
            and 2 <= len(counted) <= _FEW_VALUES
            and not any(map(_DIGIT.search, counted))
        }
        for item in self._items:
            slots = item.slots
            for slot in always.keys() & slots.keys():
                core = always[slot].setdefault(slots[slot], set(filter(is_param, slots)))
                core.intersection_update(slots)
        return frozenset(
            slot for slot, cores in always.items() if len(set(map(frozenset, cores.values()))) > 1
        )

    def template(self, slots: Slots, ignored: frozenset[str]) -> Path:
        """Return the template of a path; segments of the rule itself are ``*``."""
        found = [
            ("*", "") if f"s{at[0]}" in ignored else self._patterns.get(at) or self._pattern(at)
            for at in enumerate(segments(slots))
        ]
        return Path(tuple(found), None, "slash" in slots if "slash" not in ignored else None)

    def _pattern(self, at: tuple[int, str]) -> tuple[str, str]:
        """Return how a template has a segment; operation after operation asks for it."""
        segment = at[1]
        match = _EXTENSION.search(segment)
        extension = match[0] if match else ""
        body = segment[: -len(extension)] if extension else segment
        kind = "#" if body.isascii() and body.isdigit() else "*"
        found = self._patterns[at] = ("=", segment) if at in self.directories else (kind, extension)
        return found

    def starts(self, slots: Slots, ignored: frozenset[str]) -> list[Starts]:
        return [
            starts(slot, head)
            for slot in sorted(self.heads.keys() & slots.keys() - ignored)
            for head in heads_of(slots[slot])
            if head in self.heads[slot]
        ]

    def conditions(
        self, slots: Slots, ignored: frozenset[str], headless: frozenset[str]
    ) -> list[Condition]:
        """Return the conditions that hold on *slots* and say nothing of those *ignored*.

        Without those about what a URL does not have. Of the slots *headless* it is not said what
        their values begin with.
        """
        found: list[Condition] = [self.template(slots, ignored), *self.starts(slots, headless)]
        last = f"s{len(segments(slots)) - 1}" if "s-1" in ignored else ""
        for slot, value in slots.items():
            if slot in ignored or slot == last:
                continue
            if is_segment(slot):
                if (int(slot[1:]), value) in self.directories:
                    found.append(equals(slot, value))
                continue
            if slot in self.names:
                found.append(has(slot))
            if value in self.values.get(slot, ()):
                found.append(equals(slot, value))
        return found


def _counted(slot: str, values: Sequence[str]) -> Counter[str]:
    """Count values; of a parameter, no more different ones than `_MAX_VALUES` and one."""
    counted = Counter(values)
    if len(counted) <= _MAX_VALUES + 1 or not is_param(slot):
        return counted
    first = frozenset(list(counted)[: _MAX_VALUES + 1])
    return Counter({value: count for value, count in counted.items() if value in first})
