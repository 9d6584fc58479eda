"""Constants beside free parameters: ``limit=50&start=0&from=X`` is none of them.

No single parameter means nothing here, and no exchange of values says it, as one of them has
another value each time. Where some parameters have the same values in many pairs of URLs of one
content, and the others stand beside them, all of them together are "as usual".
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from scrapy_urlnorm.learning.contexts import equals, has
from scrapy_urlnorm.site_rules.form import REPEAT
from scrapy_urlnorm.site_rules.operations import DropParam

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scrapy_urlnorm.site_rules.context import Context
    from scrapy_urlnorm.site_rules.form import Slots

#: Parameters, and URLs that have them where another URL of their content has none.
Together = dict[tuple[str, ...], list[tuple[int, "Slots"]]]

#: Candidates tried in a round (a choice, for the time it takes).
_MAX = 60


def candidates(together: Mapping[tuple[str, ...], list[tuple[int, Slots]]]) -> Iterator[_Candidate]:
    """Yield drops of parameters where some have one value and the others have any."""
    found: defaultdict[_Candidate, set[int]] = defaultdict(set)
    for names, rows in together.items():
        if len({content for content, _ in rows}) < 2:
            continue
        values = {name: Counter(slots[name] for _, slots in rows) for name in names}
        varying = sorted(names, key=lambda name: (len(values[name]), name))
        for size in range(1, len(varying)):
            fixed, free = varying[:size], varying[size:]
            if any(len(values[name]) < 2 for name in free):
                continue
            for content, slots in rows:
                if any(REPEAT in slots[name] for name in fixed):
                    continue
                context: Context = (
                    *(equals(name, slots[name]) for name in sorted(fixed)),
                    *(has(name) for name in sorted(free)),
                )
                found[DropParam(names), context].add(content)
    kept = [each for each, contents in found.items() if len(contents) >= 2]
    kept.sort(key=lambda each: (-len(each[1]), -len(found[each]), repr(each)))
    yield from kept[:_MAX]


_Candidate = tuple[DropParam, "Context"]
