"""Candidates: what two URLs of one content differ in.

Big contents are sampled, never skipped: one content under many URLs is where the login pages and
the calendars are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress
from functools import cached_property, lru_cache, partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.learning.corpus import OTHER, Corpus, Item, Vocabulary
from scrapy_urlnorm.learning.media import voices
from scrapy_urlnorm.masking import is_secret
from scrapy_urlnorm.site_rules.context import TITLE, Pair, Path, is_title
from scrapy_urlnorm.site_rules.form import (
    Slots,
    is_param,
    is_segment,
    segment_slots,
)
from scrapy_urlnorm.site_rules.operation import Twins
from scrapy_urlnorm.site_rules.operations import (
    KINDS,
    DropParam,
    IgnoreValue,
    Operation,
    Replace,
    StripSegment,
)
from scrapy_urlnorm.text import common_ends

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Pairs = tuple[Pair, ...]
    #: Old pairs and new pairs: the fields of `Replace`.
    Exchange = tuple[Pairs, Pairs]

_Key = TypeVar("_Key")

#: Of a content with many URLs so many simple ones and so many others are compared (a choice).
_SAMPLE = 6
#: A difference in more slots, or an exchange of more on a side, is no candidate (a choice).
_MAX_SLOTS, _MAX_SIDE = 5, 5
#: What has another name in more slots than this is no candidate (a choice).
_MAX_NAMED = 2
#: Candidates tried in a round, those that most contents support (a choice, for the time it takes).
_CAPS = {"sets": 80, "exchanges": 200, "structure": 60, "titles": 24, "named": 12}
#: Characters of a session id or a token, at least: to ask takes a while.
_LEAST_SECRET = 8
#: A content with so many URLs is evidence alone, if so many pairs of them differ in a set.
_BIG, _BIG_PAIRS = 20, 5
_NEVER = {"port", "userinfo", OTHER}
_SERVER = {"host", "scheme"}


class Candidates:
    """What is worth a trial this round: what two contents (or many URLs of one) differ in.

    ``sets`` are names of slots, to be dropped or ignored together. Most rounds end before they ask
    for the rest.
    """

    def __init__(self, corpus: Corpus, vocabulary: Vocabulary) -> None:
        sets: defaultdict[tuple[str, ...], set[int]] = defaultdict(set)
        in_big: Counter[tuple[str, ...]] = Counter()
        self._vocabulary = vocabulary
        self._pairs: list[tuple[int, Slots, Slots, set[str]]] = []
        for content, items in corpus.by_content.items():
            if len(items) < 2:
                continue
            for first, second in combinations(_sampled(items), 2):
                one, other = first.slots, second.slots
                names = {name for name, _ in one.items() ^ other.items()}
                if len(names) > 1 and any(map(is_param, names)):
                    names.discard("sep")  # it counts where nothing else differs
                if not names or names & _NEVER:
                    continue
                self._pairs.append((content, one, other, names))
                in_path = any(map(is_segment, names))
                if len(names) == 1 or (len(names) <= _MAX_SLOTS and not in_path):
                    key = tuple(sorted(names))
                    sets[key].add(content)
                    in_big[key] += len(items) >= _BIG
        kept = [key for key in sets if len(sets[key]) >= 2 or in_big[key] >= _BIG_PAIRS]
        kept.sort(key=lambda key: (len(key), -voices(sets[key]), key))
        self.sets = kept[: _CAPS["sets"]]

    @property
    def drops(self) -> list[DropParam]:
        """What drops a set of slots, where that is possible."""
        return [
            DropParam(n) for n in self.sets if not any(map(is_segment, n)) and not _SERVER & {*n}
        ]

    @property
    def servers(self) -> list[Replace]:
        """Those of `exchanges` that are about hosts and schemes alone."""
        if not any(names <= _SERVER for *_, names in self._pairs):
            return []
        return [op for op in self.exchanges if of_server(op)]

    @cached_property
    def exchanges(self) -> list[Replace]:
        """What makes one value another, or none."""
        made: list[Replace] = []
        for exchange in self._best("exchanges", _exchanges):
            with suppress(SiteRuleError):  # a host with odd characters
                made.append(Replace(*exchange))
        return made

    @property
    def structure(self) -> list[Operation]:
        """What a kind of rule thinks may make one of two URLs."""
        return self._best("structure", _structural)

    @property
    def titles(self) -> list[tuple[Operation, Path]]:
        """What takes segments away, or a value, and the kind of path in which there is a title."""
        # Where a title may be missing, it goes; else only its value does.
        return sorted(
            self._best("titles", partial(_titles, self._vocabulary)),
            key=lambda entry: isinstance(entry[0], IgnoreValue),
        )

    @property
    def named(self) -> list[tuple[str, ...]]:
        """One or two slots with values, in which URLs of one content differ."""
        return self._best("named", _named)

    def _best(self, what: str, made_of: Callable[..., Iterable[_Key]]) -> list[_Key]:
        """Return what is *made_of* pairs of two contents at least: that of most contents first."""
        found: defaultdict[_Key, set[int]] = defaultdict(set)
        for content, one, other, names in self._pairs:
            for key in made_of(one, other, names):
                found[key].add(content)
        kept = [key for key, contents in found.items() if len(contents) >= 2]
        kept.sort(key=lambda key: (-voices(found[key]), order(key)))
        return kept[: _CAPS[what]]


def _named(_one: Slots, _other: Slots, names: set[str]) -> list[tuple[str, ...]]:
    is_few = len(names) <= _MAX_NAMED and all(map(has_values, names))
    return [tuple(sorted(names))] if is_few else []


def _structural(one: Slots, other: Slots, names: set[str]) -> Iterable[Operation]:
    """Return what may make one of two URLs that differ in the path, or in one slot."""
    in_path = any(map(is_segment, names))
    name, *others = names
    if (others and not in_path) or names == {"sep"} or names & _SERVER:
        return ()
    if not others and is_param(name):
        return _on_values(name, one.get(name), other.get(name))
    twins = Twins.of(one, other, names)
    return [op for kind in KINDS for op in kind.between(twins)]


def _titles(
    vocabulary: Vocabulary, one: Slots, other: Slots, names: set[str]
) -> Iterator[tuple[Operation, Path]]:
    """Yield what takes for a title the one segment in which two paths differ.

    Or, where they end in the same title, what takes away the folders before it.
    """
    twins = Twins.of(one, other, names)
    if not (twins.by_path and twins.same_slash):
        return
    long, short = twins.long, twins.short
    at, _ = common_ends(long, short)
    is_one, is_more = (long[at + 1 :] == short[at + less :] for less in (1, 0))
    if is_one or is_more:
        slot = f"s{at}"
        path = _with_title(vocabulary.template(twins.one, frozenset((slot,))), at)
        if path.literals():
            yield (StripSegment(names=(slot,)) if is_more else IgnoreValue((slot,))), path
    end, _ = common_ends(long[::-1], short[::-1])
    for slots, count in ((twins.one, len(long)), (twins.other, len(short))):
        if end and count > end and is_title(long[-1]):
            gone = tuple(segment_slots(count - end))
            for ignored in (frozenset(gone), frozenset[str]()):
                path = _with_title(vocabulary.template(slots, ignored), count - 1)
                if any(
                    kind != "=" for kind, _ in path.before[: len(gone)]
                ):  # else it is one folder
                    yield StripSegment(names=gone), path


def _with_title(path: Path, at: int) -> Path:
    return path._replace(before=(*path.before[:at], TITLE, *path.before[at + 1 :]))


@lru_cache(maxsize=65_536)
def _on_values(name: str, left: str | None, right: str | None) -> tuple[Operation, ...]:
    """Return what may make two values of one parameter equal; the rest of the URL says nothing."""
    one, other = ({} if value is None else {name: value} for value in (left, right))
    twins = Twins.of(one, other, {name})
    return tuple(op for kind in KINDS for op in kind.between(twins))


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


def _exchanges(one: Slots, other: Slots, names: set[str]) -> Iterator[Exchange]:
    if "sep" in names or names in ({"slash"}, {"?"}):
        return
    left = tuple(sorted((name, one[name]) for name in names if name in one))
    right = tuple(sorted((name, other[name]) for name in names if name in other))
    if max(len(left), len(right)) > _MAX_SIDE:
        return
    for name in names:
        if (is_segment(name) or name in _SERVER) and not (name in one and name in other):
            return
    pairs = ((name, value) for name, value in left + right if len(value) >= _LEAST_SECRET)
    if any(is_param(name) and is_secret(name[2:], value) for name, value in pairs):
        return  # nobody gets that session again
    right, left = sorted((left, right), key=lambda p: (len(p), sum(len(v) for _, v in p), p))
    yield left, right  # the larger side, and the smaller in its place


def of_server(op: Operation) -> bool:
    """Whether the operation exchanges hosts or schemes, and nothing else."""
    return isinstance(op, Replace) and all(name in _SERVER for name, _ in op.old)
