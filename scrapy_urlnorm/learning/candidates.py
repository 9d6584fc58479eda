"""Candidates: what two URLs of one content differ in.

Big contents are sampled, never skipped: one content under many URLs is where the login pages and
the calendars are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.learning.files import voices
from scrapy_urlnorm.learning.slots import OTHER
from scrapy_urlnorm.learning.symbols import directed, symbolic
from scrapy_urlnorm.site_rules.form import Slots, is_param, is_segment, segments
from scrapy_urlnorm.site_rules.operations import (
    KINDS,
    DropParam,
    HostAlias,
    IgnoreValue,
    Operation,
    Replace,
)
from scrapy_urlnorm.site_rules.operations.base import Twins

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from scrapy_urlnorm.learning.constants import Together
    from scrapy_urlnorm.learning.contexts import Vocabulary
    from scrapy_urlnorm.learning.corpus import Corpus, Item
    from scrapy_urlnorm.learning.symbols import Exchange

_Key = TypeVar("_Key")

#: Of a content with many URLs so many simple ones and so many others are compared (a choice).
_SAMPLE = 6
#: A difference in more slots, or an exchange of more on a side, is no candidate (a choice).
_MAX_SLOTS, _MAX_SIDE = 5, 3
#: What has another name in more slots than this is no candidate (a choice).
_MAX_NAMED = 2
#: Candidates tried in a round, those that most contents support (a choice, for the time it takes).
_CAPS = {"sets": 80, "exchanges": 200, "structure": 60, "named": 12}
#: A content with so many URLs is evidence alone, if so many pairs of them differ in a set.
_BIG, _BIG_PAIRS = 20, 5
_NEVER = {"port", "userinfo", OTHER}
_SERVER = {"host", "scheme"}


class Candidates(NamedTuple):
    """What is worth a trial this round.

    ``sets`` are names of slots, to be dropped or ignored together; ``together`` are URLs with
    several parameters that another URL of their content has none of. ``named`` are one or two
    slots, in the path too, in which URLs of one content have other values.
    """

    sets: list[tuple[str, ...]]
    exchanges: list[HostAlias | Replace]
    structure: list[Operation]
    together: Together
    named: list[tuple[str, ...]]


def candidates(corpus: Corpus, vocabulary: Vocabulary) -> Candidates:
    """Collect what at least two contents (or many URLs of one) differ in."""
    sets: defaultdict[tuple[str, ...], set[int]] = defaultdict(set)
    in_big: Counter[tuple[str, ...]] = Counter()
    exchanges: defaultdict[Exchange, set[int]] = defaultdict(set)
    structure: defaultdict[Operation, set[int]] = defaultdict(set)
    together: Together = {}
    named: defaultdict[tuple[str, ...], set[int]] = defaultdict(set)
    for content, items in corpus.by_content.items():
        if len(items) < 2:
            continue
        for one, other in combinations(_sampled(items), 2):
            names = _difference(one.slots, other.slots)
            if not names or names & _NEVER:
                continue
            in_path = any(map(is_segment, names))
            if len(names) == 1 or (len(names) <= _MAX_SLOTS and not in_path):
                key = tuple(sorted(names))
                sets[key].add(content)
                in_big[key] += len(items) >= _BIG
            if len(names) <= _MAX_NAMED and all(map(has_values, names)):
                named[tuple(sorted(names))].add(content)
            full = _with_all(names, one.slots, other.slots)
            if full is not None:
                together.setdefault(tuple(sorted(names)), []).append((content, full))
            for exchange in _exchanges(one.slots, other.slots, names, vocabulary):
                exchanges[exchange].add(content)
            if (in_path or len(names) == 1) and names != {"sep"} and not names & _SERVER:
                for op in _structural(one.slots, other.slots, names):
                    structure[op].add(content)
    kept = [key for key in sets if len(sets[key]) >= 2 or in_big[key] >= _BIG_PAIRS]
    kept.sort(key=lambda key: (len(key), -voices(sets[key]), key))
    best = _best(exchanges, _CAPS["exchanges"])
    return Candidates(
        kept[: _CAPS["sets"]],
        [made for exchange in best if (made := operation_of(exchange)) is not None],
        _best(structure, _CAPS["structure"]),
        together,
        _best(named, _CAPS["named"]),
    )


def _structural(one: Slots, other: Slots, names: set[str]) -> Iterable[Operation]:
    """Return what may make one of two URLs that differ in the path, or in one slot."""
    (name, *others) = names
    if not others and is_param(name):
        return _on_values(name, one.get(name), other.get(name))
    twins = Twins.of(one, other, names)
    return [op for kind in KINDS for op in kind.between(twins)]


@lru_cache(maxsize=65_536)
def _on_values(name: str, left: str | None, right: str | None) -> tuple[Operation, ...]:
    """Return what may make two values of one parameter equal; the rest of the URL says nothing."""
    one, other = ({} if value is None else {name: value} for value in (left, right))
    twins = Twins.of(one, other, {name})
    return tuple(op for kind in KINDS for op in kind.between(twins))


def _with_all(names: set[str], one: Slots, other: Slots) -> Slots | None:
    """Return the URL with all these parameters, if the other one has none of them."""
    if not 2 <= len(names) <= _MAX_SLOTS or not all(name[:2] == "q:" for name in names):
        return None
    if one.keys() & names == names:
        return None if other.keys() & names else one
    return other if other.keys() & names == names and not one.keys() & names else None


def _best(found: Mapping[_Key, set[int]], cap: int) -> list[_Key]:
    """Return the operations that most contents support, and at least two."""
    kept = [key for key, contents in found.items() if len(contents) >= 2]
    kept.sort(key=lambda key: (-voices(found[key]), order(key)))
    return kept[:cap]


def order(op: Any) -> tuple[str, str]:
    """Return what puts operations in an order, the same in every run."""
    return type(op).__name__, repr(op)


def has_values(slot: str) -> bool:
    """Whether a slot is a segment or a parameter, which may have any value."""
    return is_segment(slot) or slot[:2] == "q:"


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
    if len(names) > 1 and any(map(is_param, names)):
        names.discard("sep")
    return names


def _exchanges(
    one: Slots, other: Slots, names: set[str], vocabulary: Vocabulary
) -> Iterator[Exchange]:
    if "sep" in names or names in ({"slash"}, {"?"}):
        return
    left = tuple(sorted((name, one[name]) for name in names if name in one))
    right = tuple(sorted((name, other[name]) for name in names if name in other))
    if max(len(left), len(right)) > _MAX_SIDE:
        return
    for name in names:
        if (is_segment(name) or name in _SERVER) and not (name in one and name in other):
            return
    yield directed(left, right)
    path = segments(one)
    if any(value in path or ":" in value or "/" in value for _, value in left + right):
        yield from symbolic(one, left, right, vocabulary)  # a value may repeat text of the path


def operation_of(exchange: Exchange) -> HostAlias | Replace | None:
    """Return the operation that makes an exchange; None if no rule may hold it."""
    old, new, path_text = exchange
    try:
        if len(old) == 1 and old[0][0] == "host":
            return HostAlias((old[0][1],), new[0][1])
        return Replace(old, new, path_text)
    except SiteRuleError:  # a host with odd characters
        return None


def of_server(op: Operation) -> bool:
    """Whether the operation exchanges hosts or schemes, and nothing else."""
    if isinstance(op, Replace):
        return all(name in _SERVER for name, _ in op.old)
    return isinstance(op, HostAlias)


def drops(names: tuple[str, ...]) -> list[DropParam]:
    """Return what drops these slots, where that is possible."""
    if any(is_segment(name) or name in _SERVER for name in names):
        return []
    return [DropParam(names)]


def wilds(names: tuple[str, ...]) -> list[IgnoreValue]:
    """Return what ignores the value of a slot. Those of several together only `forms` ignores."""
    if len(names) > 1 or not (is_segment(names[0]) or names[0][:2] == "q:"):
        return []
    return [IgnoreValue(names)]
