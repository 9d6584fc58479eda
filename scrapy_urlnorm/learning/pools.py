"""Pooled evidence: several values of a parameter that all say "as usual".

``page=1`` and ``page=`` both mean the first page. Each alone may stand in a handful of contents;
together they are one hypothesis with one body of evidence.

Needed by opencart_aliado (0.694 with this, 0.361 without).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from scrapy_urlnorm.learning import siblings
from scrapy_urlnorm.learning.cover import Found
from scrapy_urlnorm.learning.priors import prior
from scrapy_urlnorm.learning.risk import accepted, risk
from scrapy_urlnorm.learning.trials import count
from scrapy_urlnorm.site_rules.context import Among
from scrapy_urlnorm.site_rules.operations import DropParam, Operation, Replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy_urlnorm.learning.candidates import Candidates
    from scrapy_urlnorm.learning.risk import Limits
    from scrapy_urlnorm.learning.trials import Trial
    from scrapy_urlnorm.site_rules.context import Context

    Try = Callable[[Operation, Context], list[Trial]]

#: Values that say "the first", "none" or "as usual" in any application. Others are pooled by
#: chance only: two release tags have nothing in common.
NEUTRAL = frozenset(("", "0", "1", "-1", "all", "any", "none", "default", "null", "*"))


def defaults(found: Candidates, attempt: Try, limits: Limits) -> Iterator[tuple[Operation, Found]]:
    """Yield a drop of several values of one parameter that each seem to be its default."""
    values: defaultdict[str, list[tuple[str, list[Trial]]]] = defaultdict(list)
    for op in found.exchanges:
        if isinstance(op, Replace) and op.is_default and len(op.old) == 1:
            ((name, value),) = op.old
            if value in NEUTRAL and (trials := attempt(op, ())):
                values[name].append((value, trials))
    for name, tried in sorted(values.items()):
        clean = sorted(value for value, trials in tried if not any(t.bad for t in trials))
        if len(clean) < 2:
            continue
        drop = DropParam((name,))
        context: Context = (Among(name, tuple(clean)),)
        counted = count(attempt(drop, context))
        family = [siblings.record(trials) for _, trials in tried]
        likely = min(prior(Replace(((name, value),))) for value in clean)
        if (
            not counted.conflicts
            and accepted(counted.support, 0, likely, limits.risk)
            and siblings.stands(counted.support, family, limits)
        ):
            yield drop, Found(context, counted, risk(counted.support, 0, likely))
