"""Whether two pages are the same but for what changes by itself.

Pages are compared as a whole (`logs.whole`), in their order, with addresses as the cluster keys that
they have at that time, and without their own URLs. A page may change by itself. What of it does, two
fetches of this very page show: another page is the same if it differs from these no more than they
differ from one another. A place is a node, not a path, and of a text that changes in some words it is
these words.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections import Counter, defaultdict
from itertools import chain, repeat
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.logs.asides import are_asides
from scrapy_urlnorm.logs.nodes import Compared, as_compared, leads_on, meet, without_own
from scrapy_urlnorm.text import common_ends

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from scrapy_urlnorm.logs.nodes import KeyOf
    from scrapy_urlnorm.logs.whole import Node, Whole


#: How many nodes, or words, may come where others came and went: so many times as many, and some.
_TIMES, _MORE = 2, 4
#: Pairs that show that something changes at each fetch, and of those that have it, so large a share
#: at least, or nearly all.
_OFTEN, SOME, NEARLY_ALL = 2, 1 / 3, 0.8
#: Characters of a word that two fetches do not share by chance; words of pages that are counted.
_TELLING, _MAX_WORDS = 2, 5_000
#: Nodes of a site that came or went, that are remembered.
_MAX_MOVED = 5_000
#: How many times each node of two pages may be looked at, to find where they differ.
_LOOKS = 20


# --- what changes by itself -----------------------------------------------------------------------


class _Hole:
    """What of a node changes: some of its words, or all of it."""

    def __init__(self) -> None:
        self.is_whole = False
        self._places: Counter[int] | None = Counter()  # numbers of words; None: not word by word
        self._seen = 0  # times
        self._first = self._last = sys.maxsize  # words at either end that always stay
        self._longest = 0  # words between these
        self._kept: Counter[str] | None = None  # words that each pair of fetches has
        self.may_go = False  #: whether it is not in one of them
        self.moving = set[str]()  #: words that came or went
        self._pages = set[str]()  # URLs of those that have it
        self._often = Counter[str]()  # the words that these keep
        self._own = 0  # pages that keep words which most have not, and that never came or went

    @property
    def holds_content(self) -> bool:
        """Whether pages have words of their own in what changes, on each fetch of them."""
        return 3 * self._own > len(self._pages)

    def see(self, one: Compared, two: Compared | None, url: str = "") -> None:
        """Take note of two fetches; ``None`` where the node is not in one of them."""
        words, others = one.words, two.words if two else []
        if two is None:
            self.may_go = True
        else:
            said, now = _telling(words), _telling(others)
            kept = said & now
            self._kept = kept if self._kept is None else self._kept & kept
            is_full = len(self._often) + len(self.moving) > _MAX_WORDS
            self.moving.update(() if is_full else said.keys() ^ now.keys())
            if url not in self._pages:
                self._pages.add(url)
                self._often.update(() if is_full else kept.keys())
                most = max(len(self._pages), _OFTEN) / 2  # one page says nothing of others
                rare = (word for word in kept if self._often[word] <= most)
                self._own += not self.moving.issuperset(rare)
        first, last = common_ends(words, others) if two and one.place == two.place else (0, 0)
        longer = max(words, others, key=len)
        self._seen += 1
        if len(words) == len(others):
            places = _other(words, others)
            changed = [longer[place] for place in places]
            if self._places is not None:
                self._places.update(places)
        else:
            changed, self._places = longer[first : len(longer) - last], None
        if not longer or 2 * _count(changed) > _count(longer):
            self.is_whole = True
        self._first, self._last = min(self._first, first), min(self._last, last)
        self._longest = max(self._longest, len(longer) - self._first - self._last)

    def keeps(self, words: Iterable[str], moving: Collection[str]) -> bool:
        """Return whether *words* have those that all fetches have, but for those that are *moving*."""
        found, kept = Counter(words), self._kept
        return self.may_go or all(
            found[word] >= number or word in moving for word, number in (kept or {}).items()
        )

    def allows(
        self,
        one: Compared,
        two: Compared,
        least: int = 1,
        moving: Collection[str] = (),
        *,
        is_strict: bool = False,
    ) -> bool:
        """Return whether two nodes that stand at one place differ no more than what was seen.

        A word counts that changed so many times at *least*, and a third of the times. Where there
        are now more words and now fewer, what all fetches of one page have is no part of that,
        unless it is *moving* on other pages; and if *is_strict*, nothing is where each page has such
        words of its own.
        """
        if one == two or one.place != two.place:
            return one == two
        words, others = one.words, two.words
        if self._places is not None and len(words) == len(others):
            return all(
                self._places[place] >= max(least, self._seen / 3) for place in _other(words, others)
            )
        if (is_strict and self.holds_content) or (least == 1 and not self.keeps(others, moving)):
            return False
        if self.is_whole or not words or not others or self._places is not None:
            return self.is_whole
        first, last = common_ends(words, others)
        if first < self._first or last < self._last:
            return False
        most = max(len(words), len(others)) - self._first - self._last
        return most <= _TIMES * self._longest + _MORE


def _telling(words: Iterable[str]) -> Counter[str]:
    return Counter(word for word in words if len(word) >= _TELLING and word[0].isalnum())


def _count(words: Iterable[str]) -> int:
    """Return how many of *words* are no signs."""
    return sum(word[0].isalnum() for word in words)


def _other(words: list[str], others: list[str]) -> set[int]:
    pairs = enumerate(zip(words, others, strict=True))
    return {number for number, (one, two) in pairs if one != two}


class _Part(NamedTuple):
    """A part in which two lists of nodes differ: one stands where the other does."""

    one: list[Compared]
    two: list[Compared]
    start: int  #: where the first begins in its list
    second: int  #: where the other does

    @property
    def is_beside(self) -> bool:
        """Whether the nodes stand at the same places, one by one."""
        places = [node.place for node in self.one], [node.place for node in self.two]
        return places[0] == places[1]

    def changes(self) -> Iterator[tuple[int, Compared, Compared | None]]:
        """Yield the nodes of the first list that changed: number, node, and what stands beside."""
        others = self.two if self.is_beside else repeat(None)
        pairs = enumerate(zip(self.one, others, strict=False), self.start)
        yield from ((n, node, other) for n, (node, other) in pairs if node != other)

    def without(self, allows: Callable[[int, Compared, Compared], bool]) -> _Part:
        """Return the part without the pairs at either end that are equal, or allowed to differ."""
        i, j = range(len(self.one)), range(len(self.two))

        def stays(i: int, j: int) -> bool:
            one, two = self.one[i], self.two[j]
            return meet(one, two) or allows(self.start + i, one, two)

        while i and j and stays(i[0], j[0]):
            i, j = i[1:], j[1:]
        while i and j and stays(i[-1], j[-1]):
            i, j = i[:-1], j[:-1]
        one, two = self.one[i.start : i.stop], self.two[j.start : j.stop]
        return _Part(one, two, self.start + i.start, self.second + j.start)


class Movement:
    """Where the pages of a family were seen to change at each fetch.

    What changed between two fetches may have changed for good just then. So it takes several pairs
    that show it, a third of those that have the place. What is true of nearly all pages of the
    *site* is true of the family.
    """

    def __init__(self, site: Movement | None = None) -> None:
        self._site = site or self
        self._holes: defaultdict[str, _Hole] = defaultdict(_Hole)  # by the shape of a node
        self._changed = Counter[str]()  # pairs in which it changed
        self._pairs = Counter[str]()  # and that have it
        self._late = set[str]()  # what changed with time
        self._moved = Counter[Compared]()  # of a site: pairs in which it came or went

    def learn(self, first: Whole, second: Whole, key_of: KeyOf) -> None:
        """Learn from two fetches of one page, one right after the other."""
        one, two = as_compared((first, second), {first.url}, key_of)
        changed, moved = set(), set[Compared]()
        for part in _changes(one, two):
            sides = [(first, part)]
            if not part.is_beside:
                sides.append((second, _Part(part.two, part.one, part.second, part.start)))
            for page, side in sides:
                for n, node, other in side.changes():
                    self._holes[page.shapes[n]].see(node, other, first.url)
                    changed.add(page.shapes[n])
            moved.update((*part.one, *part.two))
        if self._site is self and len(self._moved) < _MAX_MOVED:
            self._moved.update(moved)
        self._changed.update(changed)
        self._pairs.update({*first.shapes, *second.shapes})

    def learn_late(self, first: Whole, second: Whole, key_of: KeyOf) -> None:
        """Learn from two fetches of one page, far apart."""
        for part in _changes(*as_compared((first, second), {first.url}, key_of)):
            self._late.update(first.shapes[part.start : part.start + len(part.one)])
            self._late.update(second.shapes[part.second : part.second + len(part.two)])

    def _has_changed(self, shape: str) -> bool:
        """Whether it ever changed by itself, on any page of the site."""
        sites = self, self._site
        return any(shape in each._changed or shape in each._late for each in sites)

    def _has_moved(self, shape: str, node: Compared) -> bool:
        """Whether this very node came and went on several pages, where much does at each fetch."""
        return self.has_come(node) and self.hole(shape) is not None

    def has_come(self, node: Compared) -> bool:
        return self._site._moved[node] >= _OFTEN

    def hole(self, shape: str, share: float = SOME) -> _Hole | None:
        """Return what changes in the nodes of a *shape*; ``None`` if they hold still, or nobody knows.

        Of the pairs that have them, so large a *share* has to show it.
        """
        changed, site = self._changed[shape], self._site
        if changed < share * self._pairs[shape]:
            return None
        if changed >= _OFTEN:
            return self._holes[shape]
        everywhere = max(2 * _OFTEN, NEARLY_ALL * site._pairs[shape])
        return site._holes[shape] if site._changed[shape] >= everywhere else None

    def explains(
        self,
        one: Whole,
        two: Whole,
        key_of: KeyOf,
        of_time: Sequence[Collection[Node]] = ((), ()),
        *,
        is_copy: bool = False,
        share: float = SOME,
    ) -> bool:
        """Return whether two pages differ only where pages of their family change at each fetch.

        So large a *share* of these, of those that were fetched twice. If that is more than `SOME`, it
        has to be enough alone: so not where each page has words of its own.

        *of_time* are nodes that each of the two shared with the pages that arrived beside it: they
        count where something has ever changed. "No" is what most pages say of anything.
        *is_copy* says that the second declares itself to be a copy of the first.
        """
        if is_copy:
            key_of = without_own(two.url, one.url, key_of)
        shown = as_compared((one, two), {one.url, two.url}, key_of)

        def allows(n: int, a: Compared, b: Compared) -> bool:
            hole = self.hole(one.shapes[n], share)
            return hole is not None and hole.allows(a, b, _OFTEN, is_strict=share > SOME)

        def may_change(page: Whole, n: int, of_time: Collection[Node]) -> bool:
            hole = self.hole(page.shapes[n], share)
            if hole is not None and hole.is_whole and not (share > SOME and hole.holds_content):
                return True
            is_of_time = page.nodes[n] in of_time and self._has_changed(page.shapes[n])
            return is_of_time or self._has_moved(page.shapes[n], shown[page is two][n])

        def left_of(part: _Part) -> _Part | None:
            left = part.without(allows)
            sides = (one, left.start, left.one), (two, left.second, left.two)
            is_explained = all(
                may_change(page, n, nodes)
                for (page, start, part), nodes in zip(sides, of_time, strict=True)
                for n in range(start, start + len(part))
            )
            return None if is_explained else left

        left = filter(None, map(left_of, _changes(*shown)))
        return are_asides(left, shown[0], two.url) if is_copy else not any(left)


def is_same(
    page: Whole,
    fetches: Sequence[Whole],
    key_of: KeyOf,
    family: Movement | None = None,
    beside: Sequence[Whole] = (),
    *,
    is_copy: bool = False,
) -> bool:
    """Return whether *page* is what *fetches* of another URL showed, but for what changes in these.

    It is compared with each of them, the last one first, which is the nearest in time. In a text
    that changes in these, the words count as well that change on pages of its *family*. What the
    page shows on each fetch of it (*beside*), and these never, changes not, unless it was seen to
    come and go. *is_copy* says that the page declares itself to be a copy of that URL.
    """
    if any(page.nodes == each.nodes for each in fetches):
        return True
    urls = {page.url, *(each.url for each in fetches)}
    if is_copy:
        key_of = without_own(page.url, fetches[0].url, key_of)
    found, *others = as_compared((page, *beside, *reversed(fetches)), urls, key_of)
    also, shown = others[: len(beside)], others[len(beside) :]
    said = [[*filter(leads_on, each)] for each in (found, *shown)]
    is_one = any(len(each) == len(said[0]) and all(map(meet, said[0], each)) for each in said[1:])
    if is_one or (len(shown) == 1 and not is_copy):
        return is_one
    family = family or Movement()
    stays = set(found).intersection(*also).difference(*shown) if also else set[Compared]()
    stays = {node for node in stays if not family.has_come(node)}
    holes = (
        _Holes(each, [other for other in shown if other is not each], fetch.shapes, family, stays)
        for each, fetch in zip(shown, reversed(fetches), strict=True)
    )
    return any(each.explain(found, page.url if is_copy else None) for each in holes)


class _Holes:
    """The nodes of a fetch in which other fetches of the same page differ from it."""

    def __init__(
        self,
        base: list[Compared],
        others: Iterable[list[Compared]],
        shapes: list[str],
        family: Movement,
        stays: Collection[Compared],
    ) -> None:
        self._base, self._shapes, self._family, self._stays = base, shapes, family, stays
        self._holes: defaultdict[int, _Hole] = defaultdict(_Hole)
        self._gaps: set[int] = set()  # nodes before which others come and go
        self._places: set[str] = set()  # where nodes come and go
        self._longest = 0  # nodes that come and go at once
        for part in chain.from_iterable(_changes(base, other) for other in others):
            for n, node, other in part.changes():
                self._holes[n].see(node, other)
            if not part.is_beside:
                self._gaps.update(range(part.start, part.start + len(part.one) + 1))
                self._longest = max(self._longest, len(part.one), len(part.two))
                self._places.update(node.place for node in (*part.one, *part.two))

    def explain(self, found: list[Compared], copy: str | None) -> bool:
        """Return whether a page differs from the fetch only where the others do.

        *copy* is its URL if it is one.
        """
        parts = (part.without(self._allows) for part in _changes(self._base, found))
        left = (part for part in parts if not self._explains(part))
        return are_asides(left, self._base, copy) if copy else not any(left)

    def _allows(self, n: int, one: Compared, two: Compared) -> bool:
        hole = self._holes.get(n)
        if hole is None or (hole.may_go and two in self._stays):
            return False
        family = self._family.hole(self._shapes[n])
        return hole.allows(one, two, moving=family.moving if family else ()) or (
            family is not None and family.allows(one, two, _OFTEN, is_strict=True)
        )

    def _explains(self, part: _Part) -> bool:
        if not part.one and not part.two:
            return True
        gone = range(part.start, part.start + len(part.one))
        return (
            self._gaps.issuperset((gone.start, gone.stop))
            and all(n in self._holes and self._holes[n].is_whole for n in gone)
            and len(part.two) <= _TIMES * self._longest + _MORE
            and self._places.issuperset(node.place for node in part.two)
            and not any(node in self._stays for node in part.two)
        )


def _changes(one: list[Compared], two: list[Compared]) -> Iterator[_Part]:
    """Yield the parts in which two lists differ.

    They lie between nodes that both lists have once, in one order (a patience diff). Each node is
    looked at a few times, however often it is repeated: what is left then is one part. A link to the
    page itself is no difference: the entry of a menu where one is has none.
    """
    todo = [(0, len(one), 0, len(two))]
    looks = _LOOKS * (len(one) + len(two))
    while todo:
        i1, i2, j1, j2 = todo.pop()
        while i1 < i2 and j1 < j2 and one[i1] == two[j1]:
            i1, j1 = i1 + 1, j1 + 1
        while i1 < i2 and j1 < j2 and one[i2 - 1] == two[j2 - 1]:
            i2, j2 = i2 - 1, j2 - 1
        if i1 == i2 and j1 == j2:
            continue
        looks -= i2 - i1 + j2 - j1
        anchors = _anchors(one, two, range(i1, i2), range(j1, j2)) if looks > 0 else []
        if anchors:
            starts = [(i1, j1), *((i + 1, j + 1) for i, j in anchors)]
            pairs = zip(starts, [*anchors, (i2, j2)], strict=True)
            todo += reversed([(i, k, j, m) for (i, j), (k, m) in pairs if (i, j) != (k, m)])
        elif [*filter(leads_on, one[i1:i2])] != [*filter(leads_on, two[j1:j2])]:
            yield _Part(one[i1:i2], two[j1:j2], i1, j1)


def _anchors(
    one: list[Compared], two: list[Compared], first: range, second: range
) -> list[tuple[int, int]]:
    """Return the longest rising run of nodes that stand once in both parts."""
    often = Counter(one[first.start : first.stop])
    others = Counter(two[second.start : second.stop])
    at = {two[j]: j for j in second if others[two[j]] == 1}
    ends: list[int] = []  # the lowest j with which a run of each length ends
    last: list[int] = []  # its i
    before: dict[int, tuple[int, int] | None] = {}
    for i in first:
        j = at.get(one[i]) if often[one[i]] == 1 and leads_on(one[i]) else None
        if j is None:
            continue
        length = bisect_left(ends, j) if ends and j < ends[-1] else len(ends)
        ends[length : length + 1], last[length : length + 1] = [j], [i]
        before[i] = (last[length - 1], ends[length - 1]) if length else None
    run, pair = [], (last[-1], ends[-1]) if ends else None
    while pair is not None:
        run.append(pair)
        pair = before[pair[0]]
    return run[::-1]
