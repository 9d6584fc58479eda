"""Coverage: which values, pages and sections the comparisons behind a rule have seen.

Three values of a parameter that mean nothing make a fourth likely, two do not; and a value that the
log has, but that no comparison saw, is left alone.

The rows of a crawl that still runs are no fair sample besides: a sorted site shows neighbours first,
short lists before long ones. A rule learned from them acts on everything that comes. So *wary*
mining asks for more:

- Of parameters that are dropped together, each needs pages in which it alone varies. Pages in
  which all vary at once may owe their agreement to the others.
- Values that count upward (page 1, 2, 3, or entry 20, 40, 60) say how far into a list a page is.
  That the second page of a short list is like the first says nothing of the tenth of a long one.
  So a rule holds for the values that were tried.
- That one value of a parameter means the same as another, or the same as none, is often a
  coincidence of what the site holds today, and of what was fetched of it: in a folder with one
  file all orders agree. Such a rule needs more contents; not so for values that say "as usual".
- That a parameter at one value means the same as none is true of any page that has no other value:
  the first version of an article that was never edited is the article. So a few of the pages that
  agree have to be known at another value, where the log has others at all.
- That one page stands under many values (`forms`) is the rule of an empty calendar as well, until
  the month comes that has an event. So it is believed only of parameters that say where to go
  afterwards, as those of a log-in page do.

*Scope*: the sections of one host may belong to different people. What was seen below ``/~ann/`` says
nothing of ``/~bob/``, so a rule keeps the first path segments that it was seen in, until enough
others agree. What parameters mean, some sections say for themselves alone, however many they are:
homes (``/~ann``) and programs (``/view.php``), and every section where the parameter selects a page
by its name (``id``). The host and the scheme belong to the whole server. Needed by
test_learning_coverage: no log holds a server of several people. That a few sections are proven one by
one while a crawl runs is needed by app_trac in random order (19 contents lost).
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import compress
from math import gcd
from typing import TYPE_CHECKING

from scrapy_urlnorm.learning.candidates import of_server
from scrapy_urlnorm.learning.cover import Found, proven
from scrapy_urlnorm.learning.priors import exchanges_values, is_listed, selects
from scrapy_urlnorm.learning.trials import Trial, count, made_one, sources
from scrapy_urlnorm.site_rules.context import Among, Context, Is, Path, Rest, all_hold
from scrapy_urlnorm.site_rules.form import Slots, is_param, is_segment, place
from scrapy_urlnorm.site_rules.operations import (
    ANY,
    EDITS,
    DropParam,
    EditValue,
    IgnoreValue,
    ParamToPath,
    Replace,
    StripSegment,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from scrapy_urlnorm.learning.corpus import Corpus, Item, Vocabulary
    from scrapy_urlnorm.learning.risk import Limits
    from scrapy_urlnorm.site_rules.operations import Operation

    #: The first segment of a path; None for the root.
    First = str | None

#: Different values that must have been tried before all values are taken as meaningless: of
#: a parameter that is dropped, of one whose value is ignored, of what an edit cuts (choices).
_DROP_VALUES, _WILD_VALUES, _EDITED_VALUES = 3, 4, 6
#: Titles in paths, as a share of the URLs that have them (a choice).
_TITLES = 0.3
#: Where so many values, and this share of those known, were tried, the rest may be like them;
#: with more values than _MANY no list of them is complete (choices).
_OPEN_VALUES, _OPEN_SHARE, _MANY = 8, 0.8, 40
#: Contents in which a parameter alone has to vary, and the values it has there, together (choices).
_CONTENTS, _VALUES = 3, 3
#: Contents that have to agree before one value is taken for another (a choice: in the logs, rules
#: of this kind that are right and worth their place have more).
_EXCHANGED = 20
#: Values count upward where the first is no more than _FIRST steps from nothing, and so many of
#: the steps up to the last are there (choices).
_FIRST, _DENSE = 3, 0.2
#: So many first segments must agree before the others are taken to be like them (a choice).
ENOUGH = 3
#: So many are enough though none of them is proven alone (a choice).
MANY = 6
#: A rule that would have to name more of them is not learned (a choice, for the rule file).
MOST = 1_000
_NUMBER = re.compile(r"\d")
_PROGRAM = re.compile(
    r"\.(?:php\d?|phtml|aspx?|ashx|jspx?|jsf|do|action|cgi|fcgi|pl|py|rb|cfm|dll|exe)\Z",
    re.IGNORECASE,
)


def covered(
    op: DropParam | IgnoreValue,
    context: Context,
    corpus: Corpus,
    vocabulary: Vocabulary,
    *,
    wary: bool = False,
) -> Context | None:
    """Shut out values that the log has but no trial saw; None if too few were tried.

    If *wary*, shut out all that were not tried of a parameter whose values count upward.

    Needed by test_one_value_tried_is_not_every_value, and by app_trac (4 false merges without).
    """
    names = [name for name in sorted(op.slots) if name not in ("slash", "sep", "?")]
    if not names or all(is_listed(name[2:]) for name in names):
        return context
    seen = {
        tuple(map(item.slots.get, names))
        for items in made_one(op, corpus, context)
        for item in items
        if not op.slots.isdisjoint(item.slots)
    }
    if len(seen) < (_WILD_VALUES if isinstance(op, IgnoreValue) else _DROP_VALUES):
        return None
    for at, name in enumerate(names):
        tried = {value for values in seen if (value := values[at]) is not None}
        if not tried:
            return None
        known = vocabulary.values.get(name, frozenset())
        counts = wary and len(tried) <= _MANY and count_upward(tried)
        if counts or (
            not known <= tried
            and len(known & tried) < max(_OPEN_VALUES, _OPEN_SHARE * len(known))
            and len(_values(name, corpus)) <= _MANY
        ):
            context = (*context, Among(name, tuple(sorted(tried))))
    return context


def _values(name: str, corpus: Corpus) -> set[str]:
    return {item.slots[name] for item in corpus.by_slot.get(name, ())}


def enough_values(op: Operation, touched: Sequence[Slots]) -> bool:
    """Whether an operation was seen on enough different values.

    A version may end in ``.11``, as in test_the_end_of_a_version_is_no_suffix. A segment that means
    nothing is a title: nearly each page has its own.
    """
    if isinstance(op, (IgnoreValue, StripSegment)) and op.names and is_segment(op.names[0]):
        return len({slots.get(op.names[0]) for slots in touched}) >= _TITLES * len(touched)
    if not isinstance(op, EditValue) or not EDITS[op.edit].cuts:
        return True
    values = {tuple(slots.get(place(slots, name)) for name in op.names) for slots in touched}
    return len(values) >= _EDITED_VALUES


def folders(
    op: Operation, path: Path, trials: Sequence[Trial], corpus: Corpus, *, wary: bool
) -> Context | None:
    """Return where the folders that *op* takes away mean nothing; None if too few were tried.

    Those that were, unless nearly all were. A number may be that of a version, which differs where
    nobody looked: folders with one do not count.
    """
    if wary and count(trials).support < _EXCHANGED:
        return None
    agreeing = [trial.slots for trial in trials if trial.content is not None]
    agreeing += [item.slots for items in made_one(op, corpus, (path,)) for item in items]
    touched = [item.slots for item in sources(op, corpus, (path,)) if path.holds(item.slots)]
    context: Context = (path,)
    for slot in sorted(op.slots):
        tried, known = ({slots[slot] for slots in each} for each in (agreeing, touched))
        if len(tried) < len(known) and len(tried) < max(_OPEN_VALUES, _OPEN_SHARE * len(known)):
            context = (*context, Is(slot, tuple(sorted(tried))))
    seen = {"/".join(slots[slot] for slot in sorted(op.slots)) for slots in agreeing}
    return context if sum(_NUMBER.search(each) is None for each in seen) >= ENOUGH else None


# --- where a crawl still runs -----------------------------------------------------------------


def alone(op: DropParam | IgnoreValue, context: Context, corpus: Corpus) -> tuple[str, ...]:
    """Return the names of a set that vary alone in enough contents, over enough values."""
    if len(op.names) == 1:
        return op.names
    contents: defaultdict[str, set[int]] = defaultdict(set)
    values: defaultdict[str, set[str]] = defaultdict(set)
    for items in made_one(op, corpus, context):
        for name in op.names:
            others = [other for other in op.names if other != name]
            groups: defaultdict[tuple[str | None, ...], list[Item]] = defaultdict(list)
            for item in items:
                groups[tuple(map(item.slots.get, others))].append(item)
            for group in groups.values():
                found = {item.slots.get(name) for item in group}
                if len(found) > 1:
                    contents[name].update(item.content for item in group)
                    values[name].update(value for value in found if value is not None)
    return tuple(
        name
        for name in op.names
        if len(contents[name]) >= _CONTENTS
        and len(values[name]) >= min(_VALUES, len(_values(name, corpus)))
    )


def is_coincidence(op: Operation, found: Found, corpus: Corpus) -> bool:
    """Whether too few contents say that one value may be taken for another, or for none.

    Numbers that came in the order of their pages look as if each page went on for ever.
    """
    if found.evidence.support < _EXCHANGED and (exchanges_values(op) or op.has_table):
        return True
    return isinstance(op, Replace) and op.is_default and not _is_told(op, found.context, corpus)


def _is_told(op: Replace, context: Context, corpus: Corpus) -> bool:
    """Whether enough pages that tried a default have another value, or the log has none.

    Needed by app_trac: ``format=txt&version=1`` is the article, but for the one that has a second
    version (one content lost).
    """
    names = [name for name, _ in op.old]
    pages: defaultdict[int, list[Item]] = defaultdict(list)
    for item in corpus.by_slot.get(names[0], ()):
        if all(name in item.slots for name in names):
            pages[corpus.hasher.moved(item.form, item.slots, names)].append(item)
    told: set[int] = set()
    has_others = False
    for items in pages.values():
        tried = [item for item in items if op.image(item.slots) is not None]
        if len(tried) < len(items):
            has_others = True
            told.update(item.content for item in tried if all_hold(context, item.slots))
    return not has_others or len(told) >= _CONTENTS


def count_upward(values: Collection[str]) -> bool:
    """Whether values are steps along a list: 1, 2, 3, or 0, 20, 40."""
    numbers = {int(v) for v in values if v.isascii() and v.isdigit() and len(v) <= 9}
    steps = numbers - {0}
    if len(numbers) < len(values) or not steps:
        return False
    step = gcd(*steps)
    return min(steps) // step <= _FIRST and len(steps) >= _DENSE * (max(steps) // step)


# --- scope: the sections of a host -----------------------------------------------------------


def sectioned(op: Operation, found: Found, trials: Sequence[Trial], limits: Limits) -> list[Found]:
    """Return *found* for the sections of the host that it was seen in, as far as they prove it.

    If *limits* are wary, a few sections speak for one another only where each is proven alone.
    """

    def within(firsts: Collection[First]) -> Found | None:
        """Return what the trials in some sections say of *op*; None if it is too little."""
        is_in = [trial.slots.get("s0") in firsts for trial in trials]
        if all(yes or trial.content is None for yes, trial in zip(is_in, trials, strict=True)):
            return found
        return proven(op, found.context, count(compress(trials, is_in)), limits)

    agreeing = [trial.slots for trial in trials if trial.content is not None]
    is_proven = (lambda first: within({first}) is not None) if limits.wary else None
    kept = sections(op, found.context, agreeing, is_proven)
    if kept is None:
        return [found]
    if len(kept) > MOST:
        return []
    # The root page is a section of its own: no rule can name it together with another.
    return [
        there._replace(context=narrowed(found.context, part))
        for part in (kept - {None}, kept & {None})
        if part and (there := within(part)) is not None
    ]


def sections(
    op: Operation,
    context: Context,
    agreeing: Sequence[Slots],
    is_proven: Callable[[First], bool] | None = None,
) -> frozenset[First] | None:
    """Return the first segments that *op* keeps to; None if it holds for all of the host.

    *agreeing* are URLs for which the operation was right. A few first segments speak for one
    another only where each *is_proven* alone, if that is asked for.
    """
    if _is_placed(op, context):
        return None
    is_at_pages = isinstance(op, Replace) and all(map(_is_page, agreeing))
    if is_at_pages and len({slots.get("s0") for slots in agreeing}) >= MANY:
        return None  # one value, at pages in no folder: these are no sections
    images = (op.image(slots) or slots for slots in agreeing)
    found = {slots.get("s0") for slots in (*agreeing, *images)}
    if ANY in found:
        return None
    if is_proven is not None and _distinct(found, op) < MANY:
        found = set(filter(is_proven, found))
    return None if _distinct(found, op) >= ENOUGH else frozenset(found)


def _is_page(slots: Slots) -> bool:
    """Whether a URL is of a page in no folder, as ``/FrontPage``: it is in no section."""
    first = slots.get("s0")
    return first is not None and slots.keys().isdisjoint(("s1", "slash")) and not _is_own(first)


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
    return (
        of_server(op)
        or isinstance(op, ParamToPath)
        or (isinstance(op, (Replace, IgnoreValue)) and "s0" in op.slots)
        or any(slot == "s0" for slot, _ in op.pairs())
    )


def _is_alone(first: First, op: Operation) -> bool:
    """Whether a section speaks for no other one about what *op* changes."""
    params = [slot for slot in op.slots if is_param(slot)]
    if any(selects(slot[2:]) for slot in params if slot != "?"):
        return True
    return bool(params) and first is not None and _is_own(first)


def _is_own(first: str) -> bool:
    """Whether a first segment is the home of a person, or a program."""
    return first[:1] == "~" or _PROGRAM.search(first) is not None
