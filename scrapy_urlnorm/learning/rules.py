"""Rules as the learner holds them: an operation in a context, with its evidence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scrapy_urlnorm.learning.contexts import Context, all_hold

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_urlnorm.learning.corpus import Corpus, Item
    from scrapy_urlnorm.learning.ops import Op
    from scrapy_urlnorm.learning.slots import Slots
    from scrapy_urlnorm.learning.trials import Count

_MAX_PASSES = 6
_EXAMPLES = 3


@dataclass
class Learned:
    """One accepted rule."""

    op: Op
    context: Context
    count: Count
    examples: list[tuple[str, str]] = field(default_factory=list)
    risk: float | None = None

    def image(self, slots: Slots) -> Slots | None:
        """Return what the rule makes of *slots*; None if nothing."""
        if self.context and not all_hold(self.context, slots, self.op.slots):
            return None
        return self.op.image(slots)


def settle(slots: Slots, rules: Iterable[Learned]) -> Slots:
    """Apply *rules* in their order, again and again until nothing changes."""
    for _ in range(_MAX_PASSES):
        changed = False
        for rule in rules:
            image = rule.image(slots)
            if image is not None and image != slots:
                slots, changed = image, True
        if not changed:
            break
    return slots


def examples_of(
    rule: Learned, items: Iterable[Item], corpus: Corpus, rules: Iterable[Learned] = ()
) -> list[tuple[str, str]]:
    """Return a few pairs of URLs of one content that *rule* (after it, *rules*) makes one.

    *items* are those of *corpus* that it may act on. The other URL of a pair is the one that the
    first becomes, or one that becomes the same: where values are ignored, nothing has the image.
    """
    found: list[tuple[str, str]] = []
    met: dict[int, Item] = {}
    for item in items:
        image = rule.image(item.slots)
        if image is None or image == item.slots:
            continue
        form = corpus.hasher.of(settle(image, rules))
        other = corpus.by_form.get(form) or met.setdefault(form, item)
        if other is not item and other.content == item.content:
            found.append((item.url, other.url))
            if len(found) == _EXAMPLES:
                break
    return found
