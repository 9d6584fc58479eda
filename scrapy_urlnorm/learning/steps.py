"""Steps: which page holds number N, such as the post of a topic.

No pair of URLs says it: the numbers beside one rest of a URL stand in order, and from time to time
the page changes. There are two hypotheses, each one for the whole site. Between two numbers of one
page all numbers are of that page; and all numbers up to one that shows the first page show it. A
trial is a number of the log between two such, whatever the rest of its URL. The table of pages,
which the rule brings along, is what the log shows: nothing is said of numbers beyond it.

Needed by app_forum.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import groupby
from math import lgamma, log
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.learning.trials import Trial
from scrapy_urlnorm.masking import placeholders
from scrapy_urlnorm.site_rules.context import all_hold
from scrapy_urlnorm.site_rules.form import REPEAT, is_param, is_segment
from scrapy_urlnorm.site_rules.operations import RangeAlias
from scrapy_urlnorm.site_rules.operations.ranges import number_in, ranges_text, rest_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_urlnorm.learning.corpus import Corpus, Item
    from scrapy_urlnorm.site_rules.context import Context
    from scrapy_urlnorm.site_rules.operations.ranges import Span

_NUMBER = re.compile("[0-9]+")
#: URLs of one shape, shapes of one slot, numbers of one shape, and characters of a value that are
#: looked at; how many other URLs of a content tell how its first page is written (choices).
_MIN_ITEMS, _MAX_SHAPES, _MAX_NUMBERS, _MAX_LENGTH, _MAX_TWINS = 20, 20, 3, 200, 12
#: With fewer contents in runs of numbers, nothing can be proven (a choice: nine are needed).
_MIN_PAGES = 5
#: How likely chance may explain the order of the pages (the usual five per cent), and how many
#: rows may have none for each that has it (a choice: posts are moved and deleted).
_SIGNIFICANT, _DISORDER = 0.05, 0.1
#: Pages that one rule may know (a choice, for the rule file).
_MAX_PAGES = 20_000


#: A slot, its text, and how the first page is written: the fields of `RangeAlias` but its table.
Hypothesis = tuple[str, str, "str | None"]


class _Row(NamedTuple):
    """The URLs with a number beside one rest, in order, and the first page of that rest."""

    numbers: list[tuple[int, Item]]
    held: str
    first: Item | None

    def reach(self) -> int:
        """Return how many numbers there are up to the last that shows the first page."""
        if self.first is None:
            return 0
        content = self.first.content
        shown = (at for at, (_, item) in enumerate(self.numbers, 1) if item.content == content)
        return max(shown, default=0)


def hypotheses(slots: Iterable[str], corpus: Corpus) -> Iterator[Hypothesis]:
    """Yield what may be so of *slots*, in which URLs of one content differ: first pages first."""
    for slot in slots:
        if is_segment(slot) or (is_param(slot) and slot != "?"):
            for text in _texts(slot, corpus):
                if len(_in_runs(_rows(slot, text, None, corpus))) < _MIN_PAGES:
                    continue
                for by in dict.fromkeys((_first_form(slot, text, corpus), None)):
                    yield slot, text, by


def with_table(hypothesis: Hypothesis, corpus: Corpus) -> RangeAlias | None:
    """Return the rule of a hypothesis, with the pages that the log shows; None if it shows none."""
    slot, text, by = hypothesis
    pages = _pages(slot, _rows(slot, text, by, corpus), by)
    if not pages or len(pages) > _MAX_PAGES:
        return None
    ranges = sorted(ranges_text(rest, spans) for rest, spans in pages.items())
    return RangeAlias(slot, tuple(ranges), text, by)


def trials(op: RangeAlias, corpus: Corpus, context: Context = ()) -> list[Trial]:
    """Ask each number between two that show one page whether it shows that page."""
    found = []
    for row in _rows(op.slot, op.text, op.by, corpus):
        items = [item for _, item in row.numbers]
        if not all_hold(context, items[0].slots):
            continue
        if op.by is None:
            threes = zip(items, items[1:], items[2:], strict=False)
            found += [_asked(item, of) for of, item, to in threes if of.content == to.content]
        elif row.first is not None:
            found += [_asked(item, row.first) for item in items[: max(0, row.reach() - 1)]]
    return found


def in_order(op: RangeAlias, corpus: Corpus, context: Context = ()) -> bool:
    """Whether the numbers that show several pages show them in order, and hardly by chance.

    Where a parameter means nothing on most pages, a number between two agrees as well. What makes
    it a number of something is that pages follow each other: that explains where they differ.
    """
    chance, ordered, disordered = 0.0, 0, 0
    for row in _rows(op.slot, op.text, op.by, corpus):
        if not all_hold(context, row.numbers[0][1].slots):
            continue
        shown = [item.content for _, item in row.numbers if item.content >= 0]
        if op.by is not None:
            first = row.first.content if row.first is not None else None
            shown = [int(content != first) for content in shown]
        sizes = Counter(shown)
        if len(sizes) < 2 or len(sizes) == len(shown):
            continue
        runs = [content for content, _ in groupby(shown)]
        if len(runs) > len(sizes) or (op.by is not None and runs[0]):
            disordered += 1
        else:
            ordered += 1
            chance += sum(lgamma(size + 1) for size in sizes.values()) - lgamma(len(shown) + 1)
            chance += lgamma(len(sizes) + 1) if op.by is None else 0.0
    return disordered <= _DISORDER * ordered and chance <= log(_SIGNIFICANT)


def _asked(item: Item, page: Item) -> Trial:
    agrees = item.content == page.content
    differs = not agrees and item.content >= 0 and page.content >= 0
    return Trial(page.content if agrees else None, int(differs), item.slots, float(agrees), 1)


def _texts(slot: str, corpus: Corpus) -> list[str]:
    """Return the frequent texts of a slot with a number in them, with ``{}`` for that number."""
    shapes: Counter[str] = Counter()
    for item in corpus.by_slot.get(slot, ()):
        value = item.slots[slot]
        if len(value) <= _MAX_LENGTH and REPEAT not in value and not set(value) & set("#{}"):
            shapes[_NUMBER.sub("#", value)] += 1
    often = [s for s, count in shapes.items() if "#" in s and count >= _MIN_ITEMS]
    often.sort(key=lambda shape: (-shapes[shape], shape))
    return [
        "#".join(parts[:at]) + "{}" + "#".join(parts[at:])
        for parts in (shape.split("#") for shape in often[:_MAX_SHAPES])
        for at in range(1, min(len(parts) - 1, _MAX_NUMBERS) + 1)
    ]


def _rows(slot: str, text: str, by: str | None, corpus: Corpus) -> list[_Row]:
    """Return the URLs whose slot is *text*, by what they have besides the number."""
    hasher = corpus.hasher
    grouped: defaultdict[int, list[tuple[int, Item]]] = defaultdict(list)
    held: dict[int, str] = {}
    for item in corpus.by_slot.get(slot, ()):
        found = number_in(item.slots[slot], text)
        if found is not None:
            number, value = found
            rest = hasher.exchanged(item.form, [(slot, item.slots[slot])], [(slot, value)])
            grouped[rest].append((number, item))
            held[rest] = value
    rows = []
    for rest, numbers in grouped.items():
        numbers.sort(key=lambda entry: (entry[0], entry[1].slots[slot]))
        first = None
        if by is not None:
            form = hasher.exchanged(rest, [(slot, held[rest])], _written(slot, by, held[rest]))
            first = corpus.by_form.get(form)
        rows.append(_Row(numbers, held[rest], first))
    return rows


def _written(slot: str, by: str, held: str) -> list[tuple[str, str]]:
    """Return the slot of the first page: none where *by* is empty."""
    kept = iter(_NUMBER.findall(held))
    return [(slot, re.sub("#", lambda _: next(kept), by))] if by else []


def _pages(slot: str, rows: Iterable[_Row], by: str | None) -> dict[str, list[Span]]:
    """Return the numbers of each page; what two hosts have differently, a rule cannot tell."""
    found: dict[str, list[Span]] = {}
    doubtful = set()
    for row in rows:
        spans = _first_page(row) if by is not None else _others(row)
        if spans:
            rest = rest_of(row.numbers[0][1].slots | {slot: row.held})
            if found.setdefault(rest, spans) != spans:
                doubtful.add(rest)
    return {
        rest: spans
        for rest, spans in found.items()
        if rest not in doubtful and not _has_secret(rest)
    }


def _has_secret(rest: str) -> bool:
    """Whether a table with this rest would write a session id or a token to a file."""
    url = f"http://h{rest}"
    return placeholders([url]) != [url]


def _first_page(row: _Row) -> list[Span]:
    reach = row.reach()
    return [(-1, row.numbers[reach - 1][0])] if reach else []


def _in_runs(rows: Iterable[_Row]) -> set[int]:
    """Return the contents that several numbers in a row show: there is no evidence but these."""
    pairs = (zip(row.numbers, row.numbers[1:], strict=False) for row in rows)
    return {
        one.content for each in pairs for (_, one), (_, two) in each if one.content == two.content
    }


def _others(row: _Row) -> list[Span]:
    runs = (list(run) for _, run in groupby(row.numbers, key=lambda entry: entry[1].content))
    return [(run[0][0], run[-1][0]) for run in runs if run[0][0] < run[-1][0]]


def _first_form(slot: str, text: str, corpus: Corpus) -> str | None:
    """Return how the first page is written, as most contents have it; None if none tells.

    A parameter that is a number alone is not there on the first page.
    """
    if text == "{}":
        return "" if is_param(slot) else None
    hasher = corpus.hasher
    found: defaultdict[str, set[int]] = defaultdict(set)
    for item in corpus.by_slot.get(slot, ()):
        part = number_in(item.slots[slot], text)
        if part is None:
            continue
        rest = hasher.moved(item.form, item.slots, (slot,))
        for other in corpus.by_content[item.content][:_MAX_TWINS]:
            value = other.slots.get(slot)
            if value is None or hasher.moved(other.form, other.slots, (slot,)) != rest:
                continue
            form = _kept(value, _NUMBER.findall(part[1]))
            if form is not None and number_in(value, text) is None:
                found[form].add(item.content)
    best = max(found, key=lambda form: (len(found[form]), form), default=None)
    return best if best is not None and len(found[best]) >= 2 else None


def _kept(value: str, numbers: list[str]) -> str | None:
    """Return *value* with ``#`` for each of *numbers*, in their order; None if one is missing."""
    if set(value) & set("#{}") or len(value) > _MAX_LENGTH:
        return None
    left = iter(numbers)
    wanted = next(left, None)

    def hide(match: re.Match[str]) -> str:
        nonlocal wanted
        if match[0] != wanted:
            return match[0]
        wanted = next(left, None)
        return "#"

    form = _NUMBER.sub(hide, value)
    return form if wanted is None else None
