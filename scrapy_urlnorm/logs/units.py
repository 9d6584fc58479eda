"""What of a page changes by itself: learned from pairs, two fetches of one URL.

Two URLs have one content if their pages differ no more than one page differs from itself. No list
of words or classes and no threshold of likeness says what that is. Two fetches, one right after the
other, show *units* that change:

======  ========================================  ==============================================
path    all that stands at a path                 an advertisement, a box of related pages
shape   lines that differ in their digits alone,  "generated in 0 s", a column of view counts
        or all of these lines at a path
span    what stands between two words of a line   "Online: *"
shared  lines of a path that several pages show   an advertisement among paragraphs
======  ========================================  ==============================================

A unit is left out of the pages of a *family* of URLs in which pairs have shown it to change. Siblings
are families that differ in the names of their parameters alone: their pairs count together, unless
those of one all agree, since pages that leave out other units never have one name. What changed in
three families, and hardly ever held still, is left out everywhere. Of two fetches
far apart, what differs changed *with time*: it is left out where pages that arrived beside one show
the same there (the latest news), or else of names alone (view counts of the page's own).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.logs.blocks import SHOWN, Block, digest_of, without_digits
from scrapy_urlnorm.logs.differences import (
    Unit,
    are_siblings,
    changes_in_lines,
    folder_of,
    place_of,
    without_span,
)

if TYPE_CHECKING:
    from collections.abc import Collection

#: Paths at which lines come and go, lines that do at one of them, and lines that many pages have,
#: that are remembered.
_MAX_PATHS, _MAX_POOL, _MAX_LINES = 2_000, 500, 4_000
#: Places (pages of other title and heading) that lines are counted for, and folders with verdicts.
_MAX_PLACES = 2_000
#: A line that so many places show, and so large a share of them, is common.
_LEAST_COMMON, _COMMON = 5, 0.1
_MAX_UNITS = 300
#: Shapes at one path, after which all lines there are known without their digits.
_MANY_SHAPES = 2
#: Pairs of a family that all agree on a unit, and need not ask those of its siblings.
_CLEAR = 4
#: A name needs words that are left: a share of those that are not on many pages.
_LEAST_KEPT = 0.1


@dataclass(slots=True)
class _Tally:
    """How often a unit changed, and held, in the pairs of a family; what each pair kept of it."""

    changed: int = 0
    held: int = 0
    kept: list[Collection[str]] = field(default_factory=list)


class Fetch:
    """The blocks of one fetch, by path too."""

    def __init__(self, blocks: list[Block]) -> None:
        self.at: defaultdict[str, list[str]] = defaultdict(list)
        for path, line in blocks:
            self.at[path].append(line)


class Units:
    """What changes by itself on the pages of one site."""

    def __init__(self) -> None:
        self._tallies: dict[Unit, dict[str, _Tally]] = {}
        self._aged: dict[Unit, set[str]] = {}  # those that change with time, by family
        self._longest: Counter[Unit] = Counter()  # words of a span
        self._pool: defaultdict[str, set[str]] = defaultdict(set)  # lines that came or went
        self.pairs: Counter[str] = Counter()  #: fetched at once, by family
        self.different = 0  #: pairs of any kind that differed
        self.late = 0  #: of these, those of two fetches far apart
        self._lines: Counter[int] = Counter()  # places that show a line, by its hash
        self._last_place: dict[int, str] = {}  # that showed it
        self._places: set[str] = set()
        self._pages = 0
        self._left_out: dict[str, frozenset[Unit]] = {}
        self.decoration: set[Block] = set()  #: pictures on many pages: no content
        #: Verdicts about two pages by folder: what their URLs differ in, and whether they are two.
        self._verdicts: dict[str, Counter[tuple[tuple[str, ...], bool]]] = {}
        self.version = 0  #: rises whenever pages may bear other names

    # --- lines that many pages have -----------------------------------------------------------

    def saw(self, blocks: list[Block], url: str) -> None:
        """Count the lines of a page that arrived, once for each place."""
        self._pages += 1
        place = place_of(blocks)
        if not place or (self._pages > 20 and len(self._places) * 20 < self._pages):
            place = url  # title and heading say nothing on this site
        if (place in self._places and not self.different) or len(self._places) >= _MAX_PLACES:
            return
        self._places.add(place)
        for line in map(hash, dict.fromkeys(blocks)):
            if self._last_place.get(line) != place:
                self._last_place[line] = place
                self._lines[line] += 1
        if len(self._lines) > _MAX_LINES:
            often = self._lines.most_common(_MAX_LINES // 2)
            self._lines = Counter({line: n for line, n in often if n > 1})
            self._last_place = {line: self._last_place[line] for line in self._lines}
        shows = {block for block in blocks if not block.is_text and self.is_common(block)}
        if not shows <= self.decoration:
            self.decoration |= shows
            self.version += 1

    @property
    def size(self) -> int:
        """How many lines of pages are remembered."""
        return len(self._lines)

    def is_common(self, block: Block) -> bool:
        """Whether many pages show this line at this path."""
        return self._lines.get(hash(block), 0) >= self._often

    def _is_shared(self, path: str, line: str) -> bool:
        """Whether a line came or went in a pair, or several pages show it at this path."""
        return line in self._pool.get(path, ()) or self._lines.get(hash(Block(path, line)), 0) > 1

    @property
    def _often(self) -> float:
        return max(_LEAST_COMMON, _COMMON * len(self._places))

    # --- how two fetches differ ---------------------------------------------------------------

    def _differences(self, one: Fetch, two: Fetch) -> set[Unit]:
        found: set[Unit] = set()
        for path in {*one.at, *two.at}:
            before, after = one.at.get(path, []), two.at.get(path, [])
            units = changes_in_lines(path, before, after) if before != after else set()
            if units is not None:
                any_shape = Unit("shape", path)
                is_known = any_shape in self._tallies
                found |= {any_shape if is_known and u.kind == "shape" else u for u in units}
                continue
            found.add(Unit("path", path))
            if set(before) & set(after):
                found.add(Unit("shared", path))
        return found

    def value(self, unit: Unit, fetch: list[Block] | Fetch) -> tuple[str, ...]:
        """Return what a page shows in the place of a unit; () where it has none."""
        fetch = fetch if isinstance(fetch, Fetch) else Fetch(fetch)
        lines = fetch.at.get(unit.path, [])
        if unit.kind == "shape":
            start = unit.start
            lines = [line for line in lines if start in ("", without_digits(line))]
        elif unit.kind == "span":
            cuts = (without_span(line, unit, self._most(unit)) for line in lines)
            lines = [cut[1] for cut in cuts if cut is not None]
        elif unit.kind == "shared":
            lines = [line for line in lines if self._is_shared(unit.path, line)]
        return tuple(lines)

    def _most(self, unit: Unit) -> int:
        return 2 * self._longest[unit] + 4

    # --- learning -----------------------------------------------------------------------------

    def learn(self, family: str, first: list[Block], second: list[Block]) -> bool:
        """Learn from a second fetch right after the first; return whether they differ."""
        one, two = Fetch(first), Fetch(second)
        if not self.is_pair(first, second):
            return False
        self.pairs[family] += 1
        for path in {*one.at, *two.at}:
            came_or_went = set(one.at.get(path, ())) ^ set(two.at.get(path, ()))
            if came_or_went and len(self._pool) < _MAX_PATHS and len(self._pool[path]) < _MAX_POOL:
                self._pool[path] |= came_or_went
        for unit in sorted(self._differences(one, two)):  # in every process the same
            self._add(unit)
        for unit, tallies in self._tallies.items():
            before, after = self.value(unit, one), self.value(unit, two)
            if not before and not after:
                continue
            tally = tallies.setdefault(family, _Tally())
            if before == after:
                tally.held += 1
                continue
            tally.changed += 1
            if kept := self._kept(unit, before, after):
                tally.kept.append(kept)
            self._note_length(unit, before, after)
        for unit in list(self._aged):
            if self.value(unit, one) != self.value(unit, two):
                del self._aged[unit]  # it changes at once, and not with time
        self._changed()
        self.different += first != second
        return first != second

    def _changed(self) -> None:
        """Find out whether pages bear other names now: those of families nobody asked about, too."""
        before, self._left_out = self._left_out, {}
        strict = dict.fromkeys([*self.pairs, *chain(*self._aged.values())], frozenset[Unit]())
        changed = [f for f, out in {**strict, **before}.items() if self.left_out(f) != out]
        self.version += bool(changed)

    def is_pair(self, first: list[Block], second: list[Block]) -> bool:
        """Return whether two fetches show one page: most words of its own stay.

        Else one of them is a page that a site shows in place of others for a while.
        """
        if first == second:
            return True
        one, two = map(self._own_words, (first, second))
        stays = (one & two).total()
        return stays > 0 and 2 * stays >= max(one.total(), two.total()) - stays

    def _own_words(self, blocks: list[Block]) -> Counter[str]:
        own = (block.line for block in blocks if block.is_text and not self.is_common(block))
        return Counter(word for line in own for word in line.split(" "))

    def learn_late(self, family: str, first: list[Block], second: list[Block]) -> bool:
        """Learn from a second fetch long after the first; return whether it says something new."""
        one, two = Fetch(first), Fetch(second)
        if not self.is_pair(first, second):
            return False
        self.late += 1
        if first == second:
            return False
        is_new = False
        known = self.left_out(family)
        for unit in self._differences(one, two) - known:
            before, after = self.value(unit, one), self.value(unit, two)
            if self._is_content(unit, self._kept(unit, before, after)):
                continue
            is_new = True
            self._note_length(unit, before, after)
            self._aged.setdefault(unit, set()).add(family)
        self._changed()
        self.different += 1
        return is_new

    def _add(self, unit: Unit) -> None:
        """Take note of a unit. Many shapes at a path, as of lines with own words, are one."""
        if unit in self._tallies or len(self._tallies) >= _MAX_UNITS:
            return
        alike = [each for each in self._tallies if each[:2] == unit[:2]]
        if unit.kind == "shape" and len(alike) >= _MANY_SHAPES:
            for each in alike:
                del self._tallies[each]
            unit = Unit(*unit[:2])
        self._tallies[unit] = {}

    def _note_length(self, unit: Unit, *values: tuple[str, ...]) -> None:
        if unit.kind == "span":
            lengths = [len(said.split()) for value in values for said in value]
            self._longest[unit] = max([self._longest[unit], *lengths])

    def _kept(self, unit: Unit, before: tuple[str, ...], after: tuple[str, ...]) -> set[str]:
        return set(before) & set(after) if unit.kind == "path" else set()

    def _is_content(self, unit: Unit, kept: Collection[str]) -> bool:
        """Whether a path holds a line that pairs keep, and that is on one page alone."""
        pool = self._pool.get(unit.path, ())
        return any(
            line not in pool and self._lines[hash(Block(unit.path, line))] <= 1 for line in kept
        )

    # --- what tells pages apart ---------------------------------------------------------------

    def judged(self, family: str, slots: tuple[str, ...], *, is_other: bool) -> None:
        """Take note of a verdict about two pages of which the URLs differ in *slots*."""
        before, folder = self.telling(family), folder_of(family)
        if folder in self._verdicts or len(self._verdicts) < _MAX_PLACES:
            self._verdicts.setdefault(folder, Counter())[slots, is_other] += 1
        self.version += self.telling(family) != before

    def telling(self, family: str) -> tuple[str, ...]:
        """Return slots of URLs that tell pages of a family apart which show the same units.

        What they differ in is not seen by units: a script, an address, an attribute. So it is in
        all pages of a folder, where verdicts found it in half of those that they compared.
        """
        found, verdicts = set[str](), self._verdicts.get(folder_of(family), Counter())
        for (slots, is_other), differ in verdicts.items():
            if is_other and verdicts[slots, False] <= differ:
                found.update(slots)
        return tuple(sorted(found))

    # --- what is left out ---------------------------------------------------------------------

    def left_out(self, family: str) -> frozenset[Unit]:
        """Return the units that change on the pages of a family, at once or with time."""
        found = self._left_out.get(family)
        if found is None:
            units = {unit for unit in self._tallies if self._is_left_out(unit, family)}
            found = self._left_out[family] = frozenset(units | self._aged_of(family))
        return found

    def _is_left_out(self, unit: Unit, family: str) -> bool:
        tallies = self._tallies[unit]
        own = tallies.get(family)
        if own and own.changed + own.held >= _CLEAR and not (own.changed and own.held):
            near = [own]  # it says enough to say another thing than those of other families
        else:
            near = [each for other, each in tallies.items() if are_siblings(family, other)]
        asked = near or tallies.values()
        changed, held = sum(each.changed for each in asked), sum(each.held for each in asked)
        if near:
            moves = 0 < changed >= held / 3
        else:
            families = sum(each.changed > 0 for each in asked)
            moves = families >= 3 and changed >= 4 and held <= 0.2 * changed
        if not moves:
            return False
        # A third of the pairs keep lines of their own: fewer do so by chance.
        kept = sum(self._is_content(unit, lines) for each in asked for lines in each.kept)
        return not kept or 3 * kept < changed

    def state_of(self, family: str) -> tuple[object, ...]:
        """Return all that names of pages of a family depend on, besides what the pages show."""
        out = self.left_out(family)
        lengths = frozenset((unit, self._longest[unit]) for unit in out if unit.kind == "span")
        shared = any(unit.kind == "shared" for unit in out) and self._pages.bit_length()
        return out, lengths, len(self.decoration), shared, self.telling(family)

    def in_words(self) -> list[str]:
        """Say what changes by itself, and when: for people, what most pages have first."""
        at_once = {
            unit: sum(self._is_left_out(unit, family) for family in tallies)
            for unit, tallies in self._tallies.items()
        }
        found = [f"{unit} at each fetch" for unit, n in Counter(at_once).most_common() if n]
        return found + [f"{unit} with time" for unit in sorted(self._aged)]

    def _aged_of(self, family: str) -> set[Unit]:
        return {
            unit
            for unit, of in self._aged.items()
            if len(of) >= 3 or any(are_siblings(family, other) for other in of)
        }

    def knows(self, family: str) -> bool:
        """Whether a page of a family, or of a sibling, was fetched twice, one right after the other."""
        return any(number and are_siblings(family, other) for other, number in self.pairs.items())

    def name(self, blocks: list[Block], out: Collection[Unit]) -> str | None:
        """Return the name of a page, words in order, without the units *out*; ``None`` if too little is left."""
        if out or self.decoration:
            return self._name_without(blocks, out)
        lines = [line for _, line in blocks]  # so on most sites: it is fast
        if all(line.startswith(SHOWN) for line in lines):
            return None
        return digest_of(" ".join(lines).split(" "))

    def _name_without(self, blocks: list[Block], out: Collection[Unit]) -> str | None:
        paths = {unit.path for unit in out if unit.kind == "path"}
        inner: defaultdict[str, list[Unit]] = defaultdict(list)
        for unit in sorted(out):  # what one takes from a line may matter to the next
            if unit.kind != "path":
                inner[unit.path].append(unit)
        words: list[str] = []
        own = kept = 0
        is_whole, often, known = True, self._often, self._lines.get
        shows_text = False  # two pages without a word may be two pictures
        for block in blocks:
            path, line = block
            if block in self.decoration:
                continue
            is_common = known(hash(block), 0) >= often  # as `is_common` does
            own += 0 if is_common else 1 + line.count(" ")
            if path in paths:
                is_whole = False
                continue
            for unit in inner.get(path, ()):
                rest = self._without(unit, line)
                is_whole &= rest == line
                line = rest
            if line:
                shows_text |= block.is_text
                words += line.split(" ")
                kept += 0 if is_common else 1 + line.count(" ")
        if not shows_text or (kept <= _LEAST_KEPT * own and not is_whole):
            return None
        return digest_of(words)

    def _without(self, unit: Unit, line: str) -> str:
        if unit.kind == "shape":
            shape = without_digits(line)
            return shape if unit.start in ("", shape) else line
        if unit.kind == "span":
            cut = without_span(line, unit, self._most(unit))
            return line if cut is None else cut[0]
        return "" if self._is_shared(unit.path, line) else line

    def same(self, one: list[Block], two: list[Block], out: Collection[Unit]) -> bool | None:
        """Return whether two pages show the same but for the units *out*; ``None``: unknown."""
        names = self.name(one, out), self.name(two, out)
        return None if None in names else names[0] == names[1]

    # --- kept between runs --------------------------------------------------------------------

    @property
    def state(self) -> dict[str, Any]:
        """What the next run of a crawl goes on with, for JSON."""

        def counts(of: dict[str, _Tally]) -> dict[str, object]:
            return {f: [t.changed, t.held, [sorted(k) for k in t.kept]] for f, t in of.items()}

        return {
            "units": [[*unit, counts(of)] for unit, of in self._tallies.items()],
            "aged": [[*unit, sorted(of)] for unit, of in self._aged.items()],
            "longest": [[*unit, number] for unit, number in self._longest.items()],
            "pool": {path: sorted(lines) for path, lines in self._pool.items()},
            "pairs": self.pairs,
            "different": self.different,
            "late": self.late,
            "verdicts": {folder: [*said.items()] for folder, said in self._verdicts.items()},
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Units:
        """Return the units of an earlier run; raises what a damaged state raises."""
        self = cls()
        for *unit, of in state["units"]:
            self._tallies[Unit(*unit)] = {family: _Tally(*tally) for family, tally in of.items()}
        self._aged = {Unit(*unit): set(of) for *unit, of in state["aged"]}
        self._longest.update({Unit(*unit): number for *unit, number in state["longest"]})
        for path, lines in state["pool"].items():
            self._pool[path] = set(lines)
        self.pairs.update(state["pairs"])
        self.different, self.late = state["different"], state["late"]
        for folder, said in state["verdicts"].items():
            known = self._verdicts[folder] = Counter()
            known.update({(tuple(slots), is_other): n for (slots, is_other), n in said})
        return self
