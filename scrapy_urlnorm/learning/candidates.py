"""Candidates: what two URLs of one content differ in.

Big contents are sampled, never skipped: one content under many URLs is where the login pages and
the calendars are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from scrapy_urlnorm.learning import structure
from scrapy_urlnorm.learning.ops import Drop, Op, Subst, Wild
from scrapy_urlnorm.learning.slots import OTHER, Slots, is_param, is_segment
from scrapy_urlnorm.learning.symbols import directed, symbolic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scrapy_urlnorm.learning.contexts import Vocabulary
    from scrapy_urlnorm.learning.corpus import Corpus, Item

_Op = TypeVar("_Op", bound=Op)

_SAMPLE = 6
_MAX_SLOTS, _MAX_SIDE = 5, 3
_CAPS = {"sets": 80, "substs": 200, "structure": 60}
_BIG = 20
_NEVER = {"port", "userinfo", OTHER}


class Candidates(NamedTuple):
    """What is worth a trial this round."""

    sets: list[tuple[str, ...]]
    substs: list[Subst]
    structure: list[Op]


def candidates(corpus: Corpus, vocabulary: Vocabulary) -> Candidates:
    """Collect what at least two contents (or many URLs of one) differ in."""
    sets: defaultdict[tuple[str, ...], set[int]] = defaultdict(set)
    in_big: Counter[tuple[str, ...]] = Counter()
    substs: defaultdict[Subst, set[int]] = defaultdict(set)
    structural: defaultdict[Op, set[int]] = defaultdict(set)
    for content, items in corpus.by_content.items():
        if len(items) < 2:
            continue
        for one, other in combinations(_sampled(items), 2):
            names = _difference(one.slots, other.slots)
            if not names or names & _NEVER:
                continue
            in_path = [name for name in names if is_segment(name)]
            if len(names) == 1 or (len(names) <= _MAX_SLOTS and not in_path):
                key = tuple(sorted(names))
                sets[key].add(content)
                if len(items) >= _BIG:
                    in_big[key] += 1
            for subst in _substs(one.slots, other.slots, names, vocabulary):
                substs[subst].add(content)
            if in_path or len(names) == 1:
                for op in structure.candidates(one.slots, other.slots, names):
                    structural[op].add(content)
    kept = [key for key in sets if len(sets[key]) >= 2 or in_big[key] >= 5]
    kept.sort(key=lambda key: (len(key), -len(sets[key]), key))
    return Candidates(
        kept[: _CAPS["sets"]], _best(substs, _CAPS["substs"]), _best(structural, _CAPS["structure"])
    )


def _best(found: Mapping[_Op, set[int]], cap: int) -> list[_Op]:
    """Return the operations that most contents support."""
    kept = [op for op, contents in found.items() if len(contents) >= 2]
    kept.sort(key=lambda op: (-len(found[op]), op.order))
    return kept[:cap]


def _sampled(items: list[Item]) -> list[Item]:
    if len(items) == 2:
        return items
    ordered = sorted(items, key=lambda item: (len(item.slots), item.form))
    if len(ordered) <= 2 * _SAMPLE:
        return ordered
    rest = ordered[_SAMPLE:]
    return ordered[:_SAMPLE] + [rest[i * len(rest) // _SAMPLE] for i in range(_SAMPLE)]


def _difference(one: Slots, other: Slots) -> set[str]:
    """Return the names of the slots that differ; the separator only if nothing else does."""
    names = {name for name, _ in one.items() ^ other.items()}
    if len(names) > 1 and any(is_param(name) for name in names):
        names.discard("sep")
    return names


def _substs(one: Slots, other: Slots, names: set[str], vocabulary: Vocabulary) -> Iterator[Subst]:
    if "?" in names or "sep" in names or names == {"slash"}:
        return
    left = tuple(sorted((name, one[name]) for name in names if name in one))
    right = tuple(sorted((name, other[name]) for name in names if name in other))
    if max(len(left), len(right)) > _MAX_SIDE:
        return
    for name in names:
        if (is_segment(name) or name in ("host", "scheme")) and not (name in one and name in other):
            return
    yield directed(left, right)
    yield from symbolic(one, left, right, vocabulary)


def set_ops(names: tuple[str, ...]) -> list[Op]:
    """Return what may be done with slots that vary: drop them, or ignore their values."""
    if any(is_segment(name) for name in names):
        return [Wild(names)]
    if any(name in ("host", "scheme") for name in names):
        return []
    if all(is_param(name) and name != "?" for name in names):
        return [Drop(names), Wild(names)]
    return [Drop(names)]
