"""Trials: what the log says about one operation, one comparison at a time.

Evidence for an operation is counted once for each distinct content, so that one body under a
thousand URLs has one vote; every disagreement counts against it. What is no HTML: see `media`.
"""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.learning.media import ENOUGH_FILES, is_file, support_of
from scrapy_urlnorm.site_rules.context import Context, Is, Rest, all_hold, pairs_of
from scrapy_urlnorm.site_rules.form import REPEAT, Slots, count_params
from scrapy_urlnorm.site_rules.operations import ANY, DropParam, IgnoreValue, Operation, Replace

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from scrapy_urlnorm.learning.corpus import Corpus, Item


#: The share of a bucket that has to agree, when noise is expected, for its majority to vote
#: (a choice).
_MAJORITY = 0.6
#: A conflict may be a page that changed between two fetches. One that a verdict found is none, and
#: weighs as much as so many more (a choice: among fewer than 4,500 URLs it is no noise).
PROVEN = 20
#: A content under many URLs has the vote of two (measured: with one, a share of 0.004 is lost).
_MAX_WEIGHT = 2.0


class Trial(NamedTuple):
    """One comparison: the content agreed upon (None: none), disagreements, where, how much.

    ``varied`` names the slots of a joint set in which the URLs that agree differ. ``is_file`` says
    that no HTML was compared.
    """

    content: int | None
    bad: int
    slots: Slots
    weight: float
    compared: int
    absent: bool = False
    varied: frozenset[str] = frozenset()
    is_file: bool = False


class Count(NamedTuple):
    """Trials added up: support (one vote a content), conflicts, URLs compared.

    ``files`` are contents that agree too, but are no HTML, and too few to have a voice.
    """

    support: float
    conflicts: int
    compared: int
    files: int = 0


def proven(contents: Container[int], two: Iterable[frozenset[int]]) -> int:
    """Return how much more a conflict among *contents* weighs: verdicts found the pairs *two*."""
    return PROVEN * any(all(content in contents for content in pair) for pair in two)


def count(trials: Iterable[Trial]) -> Count:
    votes: dict[int, float] = {}
    bad = compared = 0
    for trial in trials:
        bad += trial.bad
        compared += trial.compared
        content = trial.content
        if content is not None and votes.get(content, 0.0) < trial.weight:
            votes[content] = trial.weight
    files = sum(map(is_file, votes))
    return Count(support_of(votes), bad, compared, files if files < ENOUGH_FILES else 0)


def heard(trials: list[Trial]) -> list[Trial]:
    """Return the trials that decide: those of files only if enough of these agree."""
    files = {trial.content for trial in trials if trial.is_file} - {None}
    if len(files) >= ENOUGH_FILES:
        return trials
    return [trial for trial in trials if not trial.is_file]


def enough_absent(op: DropParam | IgnoreValue, trials: Iterable[Trial], support: float) -> bool:
    """Whether URLs without the slots agree often enough for *op* to drop them.

    A tenth of the contents that support it has to, but one at least, and five will do (a choice).
    """
    if isinstance(op, IgnoreValue):
        return True
    absent = {trial.content for trial in trials if trial.absent and trial.content is not None}
    return len(absent) >= max(1.0, min(5.0, support / 10))


def trials_of(
    op: Operation, corpus: Corpus, context: Context = (), *, noisy: bool = True
) -> list[Trial]:
    """Run *op* over the corpus."""
    if isinstance(op, (DropParam, IgnoreValue)):
        groups = _buckets(op, corpus, context)
    else:
        groups = _by_image(op, corpus, context)
    compare_with = {} if isinstance(op, IgnoreValue) else corpus.by_form
    joint = op.names if isinstance(op, (DropParam, IgnoreValue)) and len(op.names) > 1 else ()
    trials: list[Trial] = []
    for form, items in groups.items():
        if len(items) > 1:
            trial = _agreement(items, noisy=noisy)
            trials.append(_told(_weighed(trial, items, corpus), op, items, joint))
        other = compare_with.get(form)
        if other is not None and all(other is not item for item in items):
            both = [other, *items]
            trials.append(_told(_weighed(_against(other, items), both, corpus), op, both, joint))
    return trials


def _weighed(trial: Trial, items: list[Item], corpus: Corpus) -> Trial:
    more = proven({item.content for item in items}, corpus.two) if trial.bad else 0
    return trial._replace(bad=trial.bad + more) if more else trial


def made_one(op: Operation, corpus: Corpus, context: Context) -> list[list[Item]]:
    """Return the items that the operation makes one; a drop, with the URL that it makes."""
    buckets = _by_image(op, corpus, context)
    if isinstance(op, DropParam):
        for form, items in buckets.items():
            other = corpus.by_form.get(form)
            if other is not None and all(other is not item for item in items):
                items.append(other)
    return [items for items in buckets.values() if len(items) > 1]


def sources(op: Operation, corpus: Corpus, context: Context = ()) -> list[Item]:
    """Return the items that *op* may act on in *context* (others it certainly does not)."""
    pairs = [pair for pair in op.pairs() if pair[0] != "s-1"]
    for condition in context:
        if isinstance(condition, Rest):
            pairs += pairs_of(condition)
        elif isinstance(condition, Is) and len(condition.values) == 1:
            pairs.append((condition.slot, condition.values[0]))
    slots = op.any_of() or tuple(sorted(op.slots - {"s-1", "slash"}))
    if not pairs and len(slots) < 2:
        return corpus.by_slot.get(slots[0], []) if slots else corpus.items
    if not pairs:
        found = {item.form: item for slot in slots for item in corpus.by_slot.get(slot, ())}
        return list(found.values())
    narrow = min((corpus.with_pair(*pair) for pair in pairs), key=len)
    if isinstance(op, Replace) or not slots:
        return narrow
    return [item for item in narrow if any(slot in item.slots for slot in slots)]


def _by_image(op: Operation, corpus: Corpus, context: Context) -> dict[int, list[Item]]:
    """Return the items by the hash of what the operation makes of them."""
    found: dict[int, list[Item]] = {}
    for item in sources(op, corpus, context):
        if not context or all_hold(context, item.slots):
            image = op.image(item.slots)
            if image is not None:
                found.setdefault(corpus.hasher.of(image), []).append(item)
    return found


def _buckets(
    op: DropParam | IgnoreValue, corpus: Corpus, context: Context
) -> dict[int, list[Item]]:
    """Return the items by their hashes without the slots. No image is made: hashes are subtracted."""
    names, wild, hasher = op.names, isinstance(op, IgnoreValue), corpus.hasher
    keeps_separator = not wild and "sep" not in names
    buckets: dict[int, list[Item]] = {}
    for item in sources(op, corpus, context):
        slots = item.slots
        if context and not all_hold(context, slots):
            continue
        form = hasher.moved(item.form, slots, names)
        if wild:
            form = hasher.exchanged(form, (), [(n, ANY) for n in names if n in slots])
        if keeps_separator and "sep" in slots:
            gone = sum(slots[n].count(REPEAT) + 1 for n in names if n in slots)
            if count_params(slots) - gone < 2:
                form = hasher.exchanged(form, [("sep", ";")], ())
        buckets.setdefault(form, []).append(item)
    return buckets


def _told(trial: Trial, op: Operation, items: list[Item], joint: tuple[str, ...]) -> Trial:
    """Note in which of the *joint* slots the items that agree differ.

    Where they say nothing of all that *op* does, they have no vote.
    """
    content = trial.content
    if content is None or (not joint and isinstance(op, (DropParam, IgnoreValue))):
        return trial
    agreeing = [item.slots for item in items if item.content == content]
    if not op.told_by(agreeing):
        return trial._replace(content=None, weight=0.0)
    first, *others = agreeing
    varied = {name for name in joint for slots in others if slots.get(name) != first.get(name)}
    return trial._replace(varied=frozenset(varied)) if joint else trial


def _agreement(items: list[Item], *, noisy: bool) -> Trial:
    """Compare the items of one bucket with each other."""
    counts: dict[int, int] = {}
    for item in items:
        counts[item.content] = counts.get(item.content, 0) + 1
    real = [content for content in counts if content >= 0]
    bad = max(0, len(real) - 1)
    best = max(counts, key=lambda content: (counts[content], -content))
    agreeing = counts[best]
    if bad and not (noisy and agreeing >= _MAJORITY * len(items)):
        agreeing = 0
    return _vote(best, bad, items, agreeing, len(items), is_file=is_file(min(real, default=0)))


def _against(other: Item, items: list[Item]) -> Trial:
    """Compare the items of one bucket with the URL that has none of the slots."""
    content = other.content
    contents = {item.content for item in items}
    bad = sum(c >= 0 and c != content for c in contents) if content >= 0 else 0
    agreeing = 0 if bad else 1 + sum(item.content == content for item in items)
    of_files = is_file(min(contents | {content}))
    trial = _vote(content, bad, items, agreeing, len(items) + 1, is_file=of_files)
    return trial._replace(absent=True)


def _vote(
    content: int, bad: int, items: list[Item], agreeing: int, compared: int, *, is_file: bool
) -> Trial:
    """Return a trial; one URL agrees with none."""
    vote, weight = (content, min(_MAX_WEIGHT, log2(agreeing))) if agreeing > 1 else (None, 0.0)
    return Trial(vote, bad, items[0].slots, weight, compared, is_file=is_file)
