"""SharedRules: crawlers at one store tell each other what they learned."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from .exceptions import StoreError
from .site_rules.model import rule_from_dict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .site_rules import SiteRule
    from .stores import Seen

logger = logging.getLogger(__name__)

#: How long a rule that one crawler learned takes to reach the others, at most.
EXCHANGE_SECONDS = 3.0


class SharedRules:
    """Learned rules as notes in a shared store; with a store of its own a crawler has none.

    A rule and its rejection are two notes, and neither is ever written over: who tells late of
    a rule that was rejected meanwhile does not undo that.

    A store that fails is not reported here: the next key that is looked up does.
    """

    def __init__(self, store: Seen) -> None:
        self._store = store
        self._notes: dict[str, str] = {}
        self._untold: dict[str, str] = {}
        self._next = 0.0 if store.is_shared else inf

    def news(self, *, at_once: bool = False) -> list[SiteRule]:
        """Return the rules of all crawlers when it is time to look and something is new.

        *at_once* looks in any case.
        """
        now = monotonic()
        if self._next == inf or (now < self._next and not at_once):
            return []
        self._next = now + EXCHANGE_SECONDS
        try:
            self._leave()
            notes = self._store.notes()
        except StoreError:
            return []
        if notes == self._notes:
            return []
        self._notes = notes
        return [rule for note in notes.values() if (rule := self._read(note)) is not None]

    def tell(self, rules: Iterable[SiteRule]) -> None:
        """Leave *rules* for the others, as far as they do not stand there already."""
        if self._next == inf:
            return
        for rule in rules:
            name = f"{rule.status} {rule.identity}"
            if name not in self._notes:
                self._untold[name] = json.dumps(rule.as_dict())
        with suppress(StoreError):  # they are told when it is time to look again
            self._leave()

    def _leave(self) -> None:
        if self._untold:
            self._store.leave_notes(self._untold)
            self._notes = {**self._notes, **self._untold}
            self._untold = {}

    def _read(self, note: str) -> SiteRule | None:
        try:
            return rule_from_dict(json.loads(note))
        except (ValueError, TypeError) as error:
            logger.warning(
                "A rule in %(store)s cannot be read: %(error)s",
                {"store": self._store.name, "error": error},
            )
            return None
