"""Rules as the learner holds them: an operation in a context, with its evidence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .contexts import Context, all_hold

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .ops import Op
    from .slots import Slots
    from .trials import Count

_MAX_PASSES = 6


@dataclass
class Learned:
    """One accepted rule."""

    op: Op
    context: Context
    count: Count
    examples: list[tuple[str, str]] = field(default_factory=list)

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
