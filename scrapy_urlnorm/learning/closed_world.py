"""The closed world: values that no URL of the log was compared at are not taken for like others.

Three values of a parameter that mean nothing make a fourth likely, two do not; and a value that
the log has, but that no comparison saw, is left alone.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from scrapy_urlnorm.learning.priors import is_listed
from scrapy_urlnorm.learning.trials import sources
from scrapy_urlnorm.learning.wary import count_upward
from scrapy_urlnorm.site_rules.context import Among, all_hold
from scrapy_urlnorm.site_rules.form import is_segment, place
from scrapy_urlnorm.site_rules.operations import EDITS, DropParam, EditValue, IgnoreValue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_urlnorm.learning.contexts import Vocabulary
    from scrapy_urlnorm.learning.corpus import Corpus, Item
    from scrapy_urlnorm.site_rules.context import Context
    from scrapy_urlnorm.site_rules.form import Slots
    from scrapy_urlnorm.site_rules.operations import Operation

#: Different values that must have been tried before all values are taken as meaningless: of
#: a parameter that is dropped, of one whose value is ignored, of a segment, of what an edit cuts
#: (choices: of a segment the most, since version numbers stand there).
_DROP_VALUES, _WILD_VALUES, _SEGMENT_VALUES, _EDITED_VALUES = 3, 4, 8, 6
#: Where so many values, and this share of those known, were tried, the rest may be like them;
#: with more values than _MANY no list of them is complete (choices).
_OPEN_VALUES, _OPEN_SHARE, _MANY = 8, 0.8, 40

_Values = set[tuple[str | None, ...]]


def closed(
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
    seen = _tried(op, names, context, corpus)
    if any(map(is_segment, names)):
        wanted = _SEGMENT_VALUES
    else:
        wanted = _WILD_VALUES if isinstance(op, IgnoreValue) else _DROP_VALUES
    if len(seen) < wanted:
        return None
    for at, name in enumerate(names):
        tried = {value for values in seen if (value := values[at]) is not None}
        if not tried:
            return None
        if wary and len(tried) <= _MANY and count_upward(tried):
            context = (*context, Among(name, tuple(sorted(tried))))
            continue
        known = vocabulary.values.get(name)
        if not known or known <= tried:
            continue
        if len({item.slots[name] for item in corpus.by_slot.get(name, ())}) > _MANY:
            continue
        if len(known & tried) < max(_OPEN_VALUES, _OPEN_SHARE * len(known)):
            context = (*context, Among(name, tuple(sorted(tried))))
    return context


def _tried(
    op: DropParam | IgnoreValue, names: Sequence[str], context: Context, corpus: Corpus
) -> _Values:
    """Return the values of the slots, together, that stood in some comparison."""
    dropped = isinstance(op, DropParam)
    buckets: defaultdict[int, list[Item]] = defaultdict(list)
    for item in sources(op, corpus):
        if all_hold(context, item.slots):
            image = op.image(item.slots)
            if image is not None:
                buckets[corpus.hasher.of(image)].append(item)
    values: _Values = set()
    for form, items in buckets.items():
        if len(items) > 1 or (dropped and form in corpus.by_form):
            values.update(tuple(map(item.slots.get, names)) for item in items)
    return values


def enough_values(op: Operation, touched: Sequence[Slots]) -> bool:
    """Whether an edit was seen on enough different values (a version may end in ``.11``).

    Needed by test_the_end_of_a_version_is_no_suffix.
    """
    if not isinstance(op, EditValue) or not EDITS[op.edit].cuts:
        return True
    values = {tuple(slots.get(place(slots, name)) for name in op.names) for slots in touched}
    return len(values) >= _EDITED_VALUES
