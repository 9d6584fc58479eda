"""Whose word counts for whom: the sections of one host may belong to different people.

What was seen below ``/~ann/`` says nothing of ``/~bob/``, so a rule keeps the first path segments
that it was seen in, until enough others agree. What parameters mean, some sections say for
themselves alone, however many they are: homes (``/~ann``) and programs (``/view.php``), and every
section where the parameter selects a page by its name (``id``). The host and the scheme belong to
the whole server.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scrapy_urlnorm.learning.ops import ANY, Cut, Prefix, Split, Subst, ToPath, Wild
from scrapy_urlnorm.learning.priors import selects
from scrapy_urlnorm.learning.slots import is_param

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_urlnorm.learning.contexts import Context
    from scrapy_urlnorm.learning.ops import Op
    from scrapy_urlnorm.learning.slots import Slots

#: So many first segments must agree before the others are taken to be like them.
ENOUGH = 3
#: A rule that would have to name more of them is not learned.
MOST = 1_000
_PROGRAM = re.compile(
    r"\.(?:php\d?|phtml|aspx?|ashx|jspx?|jsf|do|action|cgi|fcgi|pl|py|rb|cfm|dll|exe)\Z",
    re.IGNORECASE,
)

First = str | None


def first_of(slots: Slots) -> First:
    """Return the first segment of a path; None for the root."""
    return slots.get("s0")


def sections(op: Op, context: Context, agreeing: Iterable[Slots]) -> frozenset[First] | None:
    """Return the first segments that *op* keeps to; None if it holds for all of the host.

    *agreeing* are URLs for which the operation was right.
    """
    if _is_placed(op, context):
        return None
    found: set[First] = set()
    for slots in agreeing:
        found.add(first_of(slots))
        found.add(first_of(op.image(slots) or slots))
    if ANY in found:
        return None
    speaking = {first for first in found if not _is_alone(first, op)}
    if len({first and first.lower() for first in speaking}) >= ENOUGH:
        return None
    return frozenset(found)


def context(kept: frozenset[First]) -> Context:
    """Return the literal that holds in these sections; the root alone has a path of its own."""
    if kept == {None}:
        return (("path", (), None),)
    return (("first", tuple(sorted(first for first in kept if first is not None))),)


def _is_placed(op: Op, context: Context) -> bool:
    """Whether the operation or its context names the first segment already, or is about it."""
    for literal in context:
        if literal[0] == "rest" or literal[:2] == ("is", "s0"):
            return True
        if literal[0] == "path" and (not literal[1] or literal[1][0][0] == "="):
            return True
    if isinstance(op, Subst) and (op.stage == "host" or op.prefix):
        return True
    if isinstance(op, Split) and op.prefix:
        return True
    if isinstance(op, (Subst, Wild)) and "s0" in op.slots:
        return True
    return isinstance(op, (Cut, Prefix, ToPath))


def _is_alone(first: First, op: Op) -> bool:
    """Whether a section speaks for no other one about what *op* changes."""
    params = [slot for slot in op.slots if is_param(slot)]
    if not params:
        return False
    if any(selects(slot[2:]) for slot in params if slot != "?"):
        return True
    return first is not None and (first[:1] == "~" or _PROGRAM.search(first) is not None)
