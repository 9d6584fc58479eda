"""Whose word counts for whom: the sections of one host may belong to different people.

What was seen below ``/~ann/`` says nothing of ``/~bob/``, so a rule keeps the first path segments
that it was seen in, until enough others agree. What parameters mean, some sections say for
themselves alone, however many they are: homes (``/~ann``) and programs (``/view.php``), and every
section where the parameter selects a page by its name (``id``). The host and the scheme belong to
the whole server.

Needed by test_learning_tenants: no log holds a server of several people. That a few sections are
proven one by one while a crawl runs is needed by app_trac in random order (19 contents lost).
"""

from __future__ import annotations

import re
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING

from scrapy_urlnorm.learning.candidates import of_server
from scrapy_urlnorm.learning.cover import Found, passes, risk_of
from scrapy_urlnorm.learning.priors import selects
from scrapy_urlnorm.learning.trials import count
from scrapy_urlnorm.site_rules.context import Is, Rest
from scrapy_urlnorm.site_rules.form import is_param
from scrapy_urlnorm.site_rules.operations import ANY, IgnoreValue, ParamToPath, Replace
from scrapy_urlnorm.site_rules.paths import Path

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from scrapy_urlnorm.learning.risk import Limits
    from scrapy_urlnorm.learning.trials import Trial
    from scrapy_urlnorm.site_rules.context import Context
    from scrapy_urlnorm.site_rules.form import Slots
    from scrapy_urlnorm.site_rules.operations import Operation

#: So many first segments must agree before the others are taken to be like them (a choice).
ENOUGH = 3
#: So many are enough though none of them is proven alone (a choice).
MANY = 6
#: A rule that would have to name more of them is not learned (a choice, for the rule file).
MOST = 1_000
_PROGRAM = re.compile(
    r"\.(?:php\d?|phtml|aspx?|ashx|jspx?|jsf|do|action|cgi|fcgi|pl|py|rb|cfm|dll|exe)\Z",
    re.IGNORECASE,
)

First = str | None


def first_of(slots: Slots) -> First:
    """Return the first segment of a path; None for the root."""
    return slots.get("s0")


def sectioned(op: Operation, found: Found, trials: Sequence[Trial], limits: Limits) -> list[Found]:
    """Return *found* for the sections of the host that it was seen in, as far as they prove it.

    If *limits* are wary, a few sections speak for one another only where each is proven alone.
    """
    agreeing = [trial.slots for trial in trials if trial.content is not None]
    inside = partial(_inside, op, found, trials, limits)
    is_proven = (lambda first: inside({first}) is not None) if limits.wary else None
    kept = sections(op, found.context, agreeing, is_proven)
    if kept is None:
        return [found]
    if len(kept) > MOST:
        return []
    # The root page is a section of its own: no rule can name it together with another.
    return [
        there._replace(context=narrowed(found.context, part))
        for part in (kept - {None}, kept & {None})
        if part and (there := inside(part)) is not None
    ]


def _inside(
    op: Operation,
    found: Found,
    trials: Sequence[Trial],
    limits: Limits,
    firsts: Collection[First],
) -> Found | None:
    """Return what the trials in some sections say of *op*; None if it is too little."""
    is_in = [first_of(trial.slots) in firsts for trial in trials]
    if all(yes or trial.content is None for yes, trial in zip(is_in, trials, strict=True)):
        return found
    counted = count(compress(trials, is_in))
    if not passes(op, found.context, counted, limits):
        return None
    return Found(found.context, counted, risk_of(op, found.context, counted, limits))


def sections(
    op: Operation,
    context: Context,
    agreeing: Iterable[Slots],
    is_proven: Callable[[First], bool] | None = None,
) -> frozenset[First] | None:
    """Return the first segments that *op* keeps to; None if it holds for all of the host.

    *agreeing* are URLs for which the operation was right. A few first segments speak for one
    another only where each *is_proven* alone, if that is asked for.
    """
    if _is_placed(op, context):
        return None
    found: set[First] = set()
    for slots in agreeing:
        found.add(first_of(slots))
        found.add(first_of(op.image(slots) or slots))
    if ANY in found:
        return None
    if is_proven is not None and _distinct(found, op) < MANY:
        found = set(filter(is_proven, found))
    return None if _distinct(found, op) >= ENOUGH else frozenset(found)


def _distinct(found: Iterable[First], op: Operation) -> int:
    """Return how many first segments speak for others."""
    return len({first and first.lower() for first in found if not _is_alone(first, op)})


def narrowed(context: Context, kept: frozenset[First]) -> Context:
    """Return *context* for these sections alone; the root alone has a path of its own."""
    if kept == {None}:
        return (*context, Path(()))
    values = tuple(sorted(first for first in kept if first is not None))
    if len(values) == 1 and not any(isinstance(condition, Path) for condition in context):
        return (*context, Path((("=", values[0]),), ()))
    return (*context, Is("s0", values))


def is_section(condition: object) -> bool:
    """Whether a condition keeps a rule to sections of its host, see `narrowed`."""
    if isinstance(condition, Path):
        return condition.after == () and len(condition.before) == 1
    return isinstance(condition, Is) and condition.slot == "s0"


def _is_placed(op: Operation, context: Context) -> bool:
    """Whether the operation or its context names the first segment already, or is about it."""
    for condition in context:
        if isinstance(condition, Rest) or (isinstance(condition, Is) and condition.slot == "s0"):
            return True
        if isinstance(condition, Path) and (not condition.before or condition.before[0][0] == "="):
            return True
    if of_server(op) or isinstance(op, ParamToPath):
        return True
    if isinstance(op, (Replace, IgnoreValue)) and "s0" in op.slots:
        return True
    if isinstance(op, Replace) and op.path_text is not None and op.path_text.prefix:
        return True
    return any(slot == "s0" for slot, _ in op.pairs())


def _is_alone(first: First, op: Operation) -> bool:
    """Whether a section speaks for no other one about what *op* changes."""
    params = [slot for slot in op.slots if is_param(slot)]
    if not params:
        return False
    if any(selects(slot[2:]) for slot in params if slot != "?"):
        return True
    return first is not None and (first[:1] == "~" or _PROGRAM.search(first) is not None)
