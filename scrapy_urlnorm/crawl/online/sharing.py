"""Crawlers at one store tell each other which rules they learned and retracted, and which pages came."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from scrapy_urlnorm.crawl.online.comparison import TOLD_WORDS
from scrapy_urlnorm.crawl.online.tables import Page
from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.logs.page_identity import Identity
from scrapy_urlnorm.site_rules.rule import rule_from_dict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_urlnorm.crawl.online.keys import Keys
    from scrapy_urlnorm.site_rules import SiteRule
    from scrapy_urlnorm.stores import Seen

logger = logging.getLogger(__name__)

#: How long a rule that one crawler learned takes to reach the others, at most.
EXCHANGE_SECONDS = 3.0
#: An entry of a shared page has 48 bytes: fingerprint, digest of the page, digest of its words.
_FINGERPRINT, _DIGEST, _WORDS = slice(0, 20), slice(20, 36), slice(36, None)
#: Other crawlers are not told the depth of a page. With DEPTH_LIMIT, none that is as deep as this
#: represents a request.
_DEPTH_UNKNOWN = 1 << 30


class RuleExchange:
    """Rules as notes in a shared store; a crawler with a store of its own exchanges nothing.

    A rule and its retraction are two notes, and no note is ever overwritten: a late report of a
    rule cannot undo its retraction. Secrets in the URLs of a rule are masked.

    A failure of the store is not reported here. The dupefilter reports it at its next look-up.
    """

    def __init__(self, store: Seen) -> None:
        self._store = store
        self._notes: dict[str, str] = {}
        self._untold: dict[str, str] = {}
        self._next = 0.0 if store.is_shared else inf
        self._has_complained = False

    def news(self, *, at_once: bool = False) -> list[SiteRule]:
        """Return the rules that are new since the last look, retracted ones too.

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


class SharedPages:
    """Pages by cluster key, in a shared *store*. A store of one's own has none."""

    def __init__(self, store: Seen) -> None:
        self._table = store.shared_pages() if store.is_shared else None

    def tell(self, keys: Keys, page: Page) -> None:
        """Tell the others of *page*, if there are any and its content is known.

        They are not told of binary pages: an entry does not say that it is one.
        """
        if self._table is not None and page.content is not None and not page.is_binary:
            words = (page.content.bag_digest or page.content.digest)[:TOLD_WORDS]
            digests = bytes.fromhex(page.content.digest) + bytes.fromhex(words)
            self._table.put(keys.cluster, page.fingerprint + digests)

    def find(self, keys: Keys) -> Page | None:
        """Return a page with this cluster key and another fingerprint. It has no URL.

        A store that does not answer knows of none.
        """
        if self._table is None:
            return None
        try:
            entry = self._table.get(keys.cluster)
        except StoreError:
            return None
        if entry is None or entry[_FINGERPRINT] == keys.fingerprint:
            return None
        content = Identity(entry[_DIGEST].hex(), None, entry[_WORDS].hex())
        return Page(entry[_FINGERPRINT], "", content, _DEPTH_UNKNOWN)
