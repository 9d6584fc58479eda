"""Exchange: crawlers at one store tell each other which rules they learned and rejected."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.site_rules.rule import rule_from_dict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy_urlnorm.site_rules import SiteRule
    from scrapy_urlnorm.stores import Seen

logger = logging.getLogger(__name__)

#: How long a rule that one crawler learned takes to reach the others, at most.
EXCHANGE_SECONDS = 3.0


class Exchange:
    """Rules as notes in a shared store; a crawler with a store of its own exchanges nothing.

    A rule and its rejection are two notes, and no note is ever overwritten: a late report of a
    rule cannot undo its rejection. *masked* returns a rule without the secrets in its URLs.

    A failure of the store is not reported here. The dupefilter reports it at its next look-up.
    """

    def __init__(self, store: Seen, masked: Callable[[SiteRule], SiteRule]) -> None:
        self._store = store
        self._masked = masked
        self._notes: dict[str, str] = {}
        self._untold: dict[str, str] = {}
        self._next = 0.0 if store.is_shared else inf
        self._has_complained = False

    def news(self, *, at_once: bool = False) -> list[SiteRule]:
        """Return the rules that are new since the last look, rejected ones too.

        Look only every `EXCHANGE_SECONDS`, or *at_once*.
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
        new = {name: note for name, note in notes.items() if self._notes.get(name) != note}
        self._notes = notes
        return [rule for note in new.values() if (rule := self._read(note)) is not None]

    def tell(self, rules: Iterable[SiteRule]) -> None:
        """Leave *rules* for the others, except those that are there already."""
        if self._next == inf:
            return
        for rule in rules:
            name = f"{rule.status} {rule.identity}"
            if name not in self._notes:
                self._untold[name] = json.dumps(self._masked(rule).as_dict())
        with suppress(StoreError):  # `news` tries again
            self._leave()

    def _leave(self) -> None:
        if self._untold:
            self._store.leave_notes(self._untold)
            self._notes = {**self._notes, **self._untold}
            self._untold = {}

    def _read(self, note: str) -> SiteRule | None:
        """Read a note; ``None`` for one that is no rule. Anybody may have written to the store."""
        try:
            return rule_from_dict(json.loads(note))
        except Exception as error:  # noqa: BLE001 - no JSON, JSON nested too deep, no rule, ...
            level = logging.DEBUG if self._has_complained else logging.WARNING
            self._has_complained = True
            logger.log(
                level,
                "A rule in %(store)s cannot be read and is ignored: %(error)r "
                "(further ones are logged at DEBUG)",
                {"store": self._store.name, "error": error},
            )
            return None
