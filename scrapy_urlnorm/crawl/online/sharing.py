"""Learned rules outside of their crawl: in a file for people, and in a store for other crawlers."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from hashlib import blake2b
from math import inf
from typing import TYPE_CHECKING

from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.text import logger_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from pathlib import Path

    from scrapy_urlnorm.crawl.frontier import CrawlFrontier
    from scrapy_urlnorm.site_rules import SiteRule
    from scrapy_urlnorm.stores import Seen
    from scrapy_urlnorm.stores.sqlite import Database

logger = logger_of(__name__)

#: How often learned rules are written to their file at most while the crawl runs.
SAVE_SECONDS = 30.0
#: How long a rule that one crawler learned takes to reach the others, at most.
EXCHANGE_SECONDS = 3.0


class RuleFile:
    """The file of learned rules at *path*. The database knows whether a person has changed it."""

    def __init__(self, path: Path | None, database: Database, frontier: CrawlFrontier) -> None:
        self._path = path
        self._database = database
        self._frontier = frontier
        self._saved_at = -inf
        database.ensure("CREATE TABLE IF NOT EXISTS exported (digest BLOB NOT NULL);")

    def changed(self, rules: Collection[SiteRule]) -> None:
        if self._frontier.now() - self._saved_at > SAVE_SECONDS:
            self.save(rules)

    def save(self, rules: Collection[SiteRule]) -> None:
        self._saved_at = self._frontier.now()
        if self._path is None or not (rules or self._path.exists()):
            return
        from scrapy_urlnorm.site_rules import save_site_rules  # there are rules only now

        try:
            save_site_rules(self._path, rules)
        except OSError as error:
            logger.error(
                "Learned rules cannot be written to %(path)s: %(error)s",
                {"path": str(self._path), "error": error},
                extra=self._frontier.extra,
            )
        else:
            self.note()

    def note(self) -> None:
        note = "INSERT OR REPLACE INTO exported (rowid, digest) VALUES (1, ?)"
        self._database.write(note, self._digest())

    def is_as_written(self) -> bool:
        """Whether no person has changed the file; a rule may be here though it has no file."""
        rows = self._database.read("SELECT digest FROM exported")
        return self._path is None or self._digest() == (rows[0][0] if rows else b"")

    def _digest(self) -> bytes:
        if self._path is None or not self._path.exists():
            return b""
        return blake2b(self._path.read_bytes(), digest_size=16).digest()


class RuleExchange:
    """Rules as notes in a shared store; a crawler with a store of its own exchanges nothing.

    A rule and its retraction are two notes, and no note is ever overwritten: a late report of a
    rule cannot undo its retraction. A failure of the store is reported by the dupefilter.
    """

    def __init__(self, store: Seen, now: Callable[[], float]) -> None:
        self._store = store
        self._now = now  # seconds
        self._notes: dict[str, str] = {}
        self._untold: dict[str, str] = {}
        self._next = 0.0 if store.is_shared else inf
        self._has_complained = False

    def news(self, *, at_once: bool = False) -> list[SiteRule]:
        """Return the rules that are new since the last look, `EXCHANGE_SECONDS` ago or *at_once*."""
        now = self._now()
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
                self._untold[name] = json.dumps(rule.masked().as_dict())
        with suppress(StoreError):  # `news` tries again
            self._leave()

    def _leave(self) -> None:
        if self._untold:
            self._store.leave_notes(self._untold)
            self._notes = {**self._notes, **self._untold}
            self._untold = {}

    def _read(self, note: str) -> SiteRule | None:
        """Read a note; ``None`` for one that is no rule. Anybody may have written to the store."""
        from scrapy_urlnorm.site_rules.rule import rule_from_dict

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
