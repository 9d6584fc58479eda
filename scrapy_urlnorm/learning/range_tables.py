"""Ranges: which page holds number N, such as the post of a topic.

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

from scrapy_urlnorm.learning.candidates import has_values
from scrapy_urlnorm.learning.trials import Trial
from scrapy_urlnorm.masking import placeholders
from scrapy_urlnorm.site_rules.context import Context, all_hold
from scrapy_urlnorm.site_rules.form import REPEAT, is_param
from scrapy_urlnorm.site_rules.operations import RangeAlias
from scrapy_urlnorm.site_rules.operations.tables import Span, number_in, ranges_text, rest_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_urlnorm.learning.corpus import Corpus, Item, Vocabulary

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


class _Row(NamedTuple):
    """The URLs with a number beside one rest, in order, and the first page of that rest."""

    numbers: list[tuple[int, Item]]
    held: str
    first: Item | None

    @property
    def runs(self) -> list[list[tuple[int, Item]]]:
        """The numbers that follow each other and show one page."""
        return [list(run) for _, run in groupby(self.numbers, key=lambda each: each[1].content)]

    @property
    def reach(self) -> int:
        """How many numbers there are up to the last that shows the first page."""
        if self.first is None:
            return 0
        content = self.first.content
        shown = (at for at, (_, item) in enumerate(self.numbers, 1) if item.content == content)
        return max(shown, default=0)


def candidates(sets: Iterable[tuple[str, ...]], corpus: Corpus) -> Iterator[RangeAlias]:
    """Yield what may be so of each slot in which URLs of one content differ: first pages first."""
    slots = (names[0] for names in sets if len(names) == 1 and has_values(names[0]))
    for slot, text in ((each, text) for each in slots for text in _texts(each, corpus)):
        runs = (run for row in _rows(slot, text, None, corpus) for run in row.runs)
        if len({run[0][1].content for run in runs if len(run) > 1}) < _MIN_PAGES:
            continue
        for by in dict.fromkeys((_first_form(slot, text, corpus), None)):
            op = _with_pages(slot, text, by, corpus)
            if op is not None:
                yield op


def inside(
    op: RangeAlias, context: Context, corpus: Corpus, _: Vocabulary
) -> tuple[RangeAlias, Context] | None:
    """Return the rule with the pages of today, if it holds in *context*."""
    known = _with_pages(op.slot, op.text, op.by, corpus)
    return (known, context) if known and _in_order(op, corpus, context) else None


def trials(op: RangeAlias, corpus: Corpus, context: Context = ()) -> list[Trial]:
    """Ask each number between two of one page whether it shows that page."""
    found = []
    for row in _rows(op.slot, op.text, op.by, corpus):
        items = [item for _, item in row.numbers]
        if not all_hold(context, items[0].slots):
            continue
        if op.by is None:
            threes = zip(items, items[1:], items[2:], strict=False)
            found += [_asked(item, of) for of, item, to in threes if of.content == to.content]
        elif row.first is not None:
            found += [_asked(item, row.first) for item in items[: max(0, row.reach - 1)]]
    return found


def _asked(item: Item, page: Item) -> Trial:
    agrees = item.content == page.content
    differs = not agrees and item.content >= 0 and page.content >= 0
    return Trial(page.content if agrees else None, int(differs), item.slots, float(agrees), 1)


def _in_order(op: RangeAlias, corpus: Corpus, context: Context) -> bool:
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
    grouped: defaultdict[tuple[int, str], list[tuple[int, Item]]] = defaultdict(list)
    for item in corpus.by_slot.get(slot, ()):
        found = number_in(item.slots[slot], text)
        if found is not None:
            number, value = found
            grouped[hasher.moved(item.form, item.slots, (slot,)), value].append((number, item))
    rows = []
    for (rest, held), numbers in grouped.items():
        numbers.sort(key=lambda entry: (entry[0], entry[1].slots[slot]))
        first = None
        if by is not None:
            written = by.replace("#", "{}").format(*_NUMBER.findall(held))
            first = corpus.by_form.get(hasher.exchanged(rest, (), [(slot, written)] if by else ()))
        rows.append(_Row(numbers, held, first))
    return rows


def _with_pages(slot: str, text: str, by: str | None, corpus: Corpus) -> RangeAlias | None:
    """Return the rule with the pages that the log shows; None if it shows none.

    What two hosts have differently, a rule cannot tell.
    """
    found: dict[str, list[Span]] = {}
    doubtful = set()
    for row in _rows(slot, text, by, corpus):
        if by is not None:
            spans = [(-1, row.numbers[row.reach - 1][0])] if row.reach else []
        else:
            spans = [(run[0][0], run[-1][0]) for run in row.runs if run[0][0] < run[-1][0]]
        if spans:
            rest = rest_of(row.numbers[0][1].slots | {slot: row.held})
            if found.setdefault(rest, spans) != spans:
                doubtful.add(rest)
    ranges = [
        ranges_text(rest, spans)
        for rest, spans in found.items()
        if rest not in doubtful
        and placeholders([f"http://h{rest}"]) == [f"http://h{rest}"]  # no secret goes to a file
    ]
    if not 0 < len(ranges) <= _MAX_PAGES:
        return None
    return RangeAlias((slot,), tuple(sorted(ranges)), text, by)


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
    form = ""
    for number in numbers:
        found = re.search(f"(?<![0-9]){number}(?![0-9])", value)
        if found is None:
            return None
        form, value = f"{form}{value[: found.start()]}#", value[found.end() :]
    return form + value
