"""The kind of rule that knows which page holds number N, such as the post of a topic."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules.form import Form, Slots, is_param, path_and_query, without
from scrapy_urlnorm.site_rules.operations.base import Operation
from scrapy_urlnorm.site_rules.paths import refuse
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: First and last number of a page; -1 as the first for the first page, which has all below.
Span = tuple[int, int]

_NUMBER = re.compile("[0-9]+")
_HOLES = re.compile(r"(#|\{\})")
_RANGES = re.compile(r"(/\S*) ((?:[0-9]{1,18})?-[0-9]{1,18}(?: [0-9]{1,18}-[0-9]{1,18})*)")
#: A number with more digits is a token.
_MAX_DIGITS = 18


def number_in(value: str, text: str) -> tuple[int, str] | None:
    """Return the number that stands at ``{}`` of *text*, and the value with ``{}`` in its place.

    A ``#`` of *text* stands for any other number. None if the value is another text.
    """
    found = _pattern(text).fullmatch(value)
    if found is None:
        return None
    return int(found[1]), f"{value[: found.start(1)]}{{}}{value[found.end(1) :]}"


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    """Return what *text* stands for. A number ends where its digits end."""
    numbers = {"#": "[0-9]+(?![0-9])", "{}": f"([0-9]{{1,{_MAX_DIGITS}}})(?![0-9])"}
    return re.compile("".join(numbers.get(p) or re.escape(p) for p in _HOLES.split(text)))


def rest_of(slots: Slots) -> str:
    """Return path and query as `RangeAlias` finds them, whatever the order of the parameters."""
    return path_and_query(dict(sorted(slots.items()))).replace("%7B%7D", "{}")


def ranges_text(rest: str, spans: Iterable[Span]) -> str:
    """Write one of the ``ranges`` of a rule."""
    written = (f"{'' if first < 0 else first}-{last}" for first, last in spans)
    return " ".join((rest, *written))


@dataclass(frozen=True)
class RangeAlias(Operation):
    """Numbers of one page are the first of them, as far as ``ranges`` know the page.

    ``text`` is the value of ``slot``: ``{}`` is the number, ``#`` any other one, which stays. Each
    of ``ranges`` is the rest of a URL, with ``{}`` where the number stands, and after a space the
    numbers of each page: ``/t?post={} -88 89-130``. All up to 88 are of the first page there,
    which has ``by`` in place of the value; with an empty ``by`` it does not have the parameter.
    """

    kind = "range-alias"
    summary = "the numbers in one of the `ranges` of the slot are one page"
    required = ("slots", "ranges")
    optional = ("text", "by")

    slot: str
    ranges: tuple[str, ...]
    text: str = "{}"
    by: str | None = None
    _table: dict[str, tuple[list[int], list[int]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if self.text.count("{}") != 1:
            raise refuse("text", self.text, "a text with one {} for the number: 'msg{}'")
        if self.by is not None and self.by.count("#") != self.text.count("#"):
            raise refuse("by", self.by, f"a text with as many # as text = {self.text!r}")
        if self.by == "" and not is_param(self.slot):
            raise refuse("by", "", "a text, as a path segment does not go away")
        for each in self.ranges:
            rest, spans = self._read_range(each)
            if rest in self._table:
                raise SiteRuleError(f"{rest!r} stands twice in 'ranges'")
            self._table[rest] = [first for first, _ in spans], [last for _, last in spans]

    def _read_range(self, each: str) -> tuple[str, list[Span]]:
        match = _RANGES.fullmatch(each)
        spans: list[Span] = []
        for pair in match[2].split() if match else ():
            first, _, last = pair.partition("-")
            spans.append((int(first or -1), int(last)))
        numbers = [number for span in spans for number in span]
        first_page = bool(spans) and spans[0][0] < 0
        if not match or numbers != sorted(numbers) or (first_page and self.by is None):
            accepted = "the rest of a URL and numbers that rise: '/t?post={} 1-20 21-40'; "
            raise refuse("ranges", each, accepted + "'-20' is the first page, which 'by' writes")
        return rest_of(Form(split(f"http://h{match[1]}")).slots), spans

    @classmethod
    def read(cls, operands: Mapping[str, Any]) -> RangeAlias:
        slots = operands["slots"]
        if len(slots) != 1 or slots[0] == "?" or "-" in slots[0].partition(":")[0]:
            raise refuse("slots", list(slots), "one slot: 's0', 's1', … or 'q:NAME'")
        ranges = tuple(sorted(operands["ranges"]))
        return cls(slots[0], ranges, operands.get("text", "{}"), operands.get("by"))

    def write(self) -> dict[str, Any]:
        said: dict[str, Any] = {"slots": (self.slot,), "text": self.text}
        return said | ({} if self.by is None else {"by": self.by}) | {"ranges": self.ranges}

    def image(self, slots: Slots) -> Slots | None:
        value = slots.get(self.slot)
        found = None if value is None else number_in(value, self.text)
        if found is None:
            return None
        number, held = found
        firsts, lasts = self._table.get(rest_of(slots | {self.slot: held}), ((), ()))
        at = bisect_right(firsts, number) - 1
        if at < 0 or number > lasts[at]:
            return None
        if firsts[at] >= 0:
            new = held.replace("{}", str(firsts[at]))
        elif not self.by:
            return without(slots, (self.slot,))
        else:
            new = self._first_page(held)
        return None if new == value else slots | {self.slot: new}

    def _first_page(self, held: str) -> str:
        """Write the first page, with the numbers that stay."""
        kept = iter(_NUMBER.findall(held))
        return re.sub("#", lambda _: next(kept), self.by or "")

    @property
    def slots(self) -> frozenset[str]:
        return frozenset((self.slot,))

    @property
    def family(self) -> object:
        return self.kind, self.slot, self.text

    @property
    def has_table(self) -> bool:
        return True

    def covers(self, other: Operation) -> bool:
        return (
            isinstance(other, RangeAlias)
            and (self.slot, self.text) == (other.slot, other.text)
            and (self.by == other.by or other.by is None)
            and all(self._has(*each) for each in other._table.items())
        )

    def _has(self, rest: str, spans: tuple[list[int], list[int]]) -> bool:
        """Whether each page of *spans* is part of one page here, and has its name."""
        firsts, lasts = self._table.get(rest, ([], []))
        known = dict(zip(firsts, lasts, strict=True))
        return all(known.get(first, -1) >= last for first, last in zip(*spans, strict=True))

    def any_of(self) -> tuple[str, ...]:
        return (self.slot,) if is_param(self.slot) else ()

    def example(self, slots: Slots) -> Slots:
        rest, (_, lasts) = next(iter(self._table.items()))
        found = Form(split(f"http://h{rest}")).slots
        value = found.get(self.slot, "").replace("{}", str(lasts[0]))
        return found | {"scheme": slots["scheme"], "host": slots["host"], self.slot: value}
