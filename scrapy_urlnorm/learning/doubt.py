"""Doubt: what explains the failures of an operation as well as the context that was found.

In the log of a crawl that still runs, two conditions often keep the same failures out: the kind of
page, and a parameter that pages of this kind have had so far. The log does not say which of them is
the reason. So an operation asks for both, until it was tried where only one of them holds.

Needed by app_gitweb: `h` means nothing beside `hb`, and the first folders that were fetched all
have `hb` (308 contents lost in a crawl without this, and without audits).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from scrapy_urlnorm.learning.contexts import has
from scrapy_urlnorm.site_rules.context import Is, all_hold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_urlnorm.learning.contexts import Vocabulary
    from scrapy_urlnorm.learning.trials import Trial
    from scrapy_urlnorm.site_rules.context import Context, Has
    from scrapy_urlnorm.site_rules.operations import Operation

#: So many contents that agree have tried a kind of page (a choice: half of what proves most rules).
_TRIED = 5


def undoubted(
    op: Operation, context: Context, trials: Sequence[Trial], vocabulary: Vocabulary
) -> Context:
    """Ask for what explains the failures as well as the last condition of *context*.

    Where nearly all pages that agree have a parameter that none has that fails, the parameter may
    be the reason, and what does not have it was not tried. Of several values those are kept that
    share a doubt, or that share to have none: the rest is searched anew.
    """
    *others, last = context
    if not isinstance(last, Is):
        doubt = _doubt(op, context, trials, vocabulary)
        return context if doubt is None else (*context, doubt)
    by_doubt: defaultdict[Has | None, list[str]] = defaultdict(list)
    for value in last.values:
        alone = (*others, last._replace(values=(value,)))
        by_doubt[_doubt(op, alone, trials, vocabulary)].append(value)
    found = []
    for doubt, values in by_doubt.items():
        there = (*others, last._replace(values=tuple(values)))
        found.append(there if doubt is None else (*there, doubt))
    return max(found, key=lambda there: (_agreeing(there, trials), repr(there)))


def _agreeing(context: Context, trials: Sequence[Trial]) -> int:
    """Return how many contents agree in *context*."""
    return len({t.content for t in trials if all_hold(context, t.slots)} - {None})


def _doubt(
    op: Operation, context: Context, trials: Sequence[Trial], vocabulary: Vocabulary
) -> Has | None:
    """Return what else explains the failures: what was hardly tried without it in *context*."""
    agreeing = [t for t in trials if t.content is not None and all_hold(context, t.slots)]
    found = []
    for name in vocabulary.names - op.slots:
        without = {t.content for t in agreeing if name not in t.slots}
        is_usual = len(without) < _TRIED and any(name in t.slots for t in agreeing)
        if is_usual and not any(t.bad and name in t.slots for t in trials):
            found.append((len(without), name))
    return has(min(found)[1]) if found else None
