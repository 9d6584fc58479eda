"""Siblings: operations of one family, judged by the record of all of them.

``page=1`` is the default on seven pages and the first of several on one: the seven are luck.
Where hundreds of candidates are tried, a few agree by chance as often as asked for; what a family
gets wrong tells how easily.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.learning.risk import by_chance, expected_noise

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy_urlnorm.learning.risk import Limits
    from scrapy_urlnorm.learning.trials import Trial
    from scrapy_urlnorm.site_rules.operations import Operation

#: How likely chance may explain a clean record (the usual five per cent).
_SIGNIFICANT = 0.05


class Record(NamedTuple):
    """How many trials an operation had, how many failed, and how many URLs they compared."""

    trials: int
    failed: int
    compared: int


def record(trials: Sequence[Trial]) -> Record:
    """Return the record of one operation."""
    failed = sum(trial.bad > 0 for trial in trials)
    return Record(len(trials), failed, sum(trial.compared for trial in trials))


def families(
    tested: Iterable[tuple[Operation, Sequence[Trial]]],
) -> defaultdict[object, list[Record]]:
    """Return the records of the operations by family."""
    found: defaultdict[object, list[Record]] = defaultdict(list)
    for op, trials in tested:
        found[op.family].append(record(trials))
    return found


def stands(support: float, family: Sequence[Record], limits: Limits) -> bool:
    """Whether a clean record is more than luck, seeing how the siblings fail.

    Needed by apachelist_keykos (a false merge without). What the logs gain without it is luck:
    folders whose order by name is that by date, `comment-page-2` where there are two pages of
    comments, a branch that is HEAD for now. The same rules are wrong elsewhere.
    """
    trials, failed, compared = (sum(column) for column in zip(*family, strict=True))
    if failed <= expected_noise(3 * limits.noise, compared):
        return True
    return len(family) * by_chance(trials, failed, int(support)) <= _SIGNIFICANT
