"""OpenAudits: the audits that wait in the queue or are under way, by own key."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from scrapy import Request

    from scrapy_urlnorm.crawl.live.audits import Audits
    from scrapy_urlnorm.crawl.live.frontier import Audit
    from scrapy_urlnorm.crawl.live.register import Register


class OpenAudits:
    """Audits without an answer yet. *audits* counts how each of them ends."""

    def __init__(self, register: Register, audits: Audits) -> None:
        self._register = register
        self._audits = audits
        self._by_own: dict[bytes, Audit] = {}

    def __len__(self) -> int:
        return len(self._by_own)

    def open(self, audit: Audit) -> None:
        """Take note of an audit that is to be sent, or that is sent now."""
        self._by_own[audit.keys.own] = audit

    def get(self, own: bytes) -> Audit | None:
        """Return the audit with this own key."""
        return self._by_own.get(own)

    def of(self, request: Request) -> Audit | None:
        """Return the audit that *request* is, if it is one and under way."""
        if not self._by_own:
            return None
        audit = self._by_own.get(self._register.own_key(request))
        return audit if audit is not None and audit.request is not None else None

    def follow(self, audit: Audit, target: Request) -> None:
        """Take note that an audit goes on with *target*, which it was redirected to."""
        own = self._register.own_key(target)
        if own in self._by_own:
            self.close_undecided(audit)
            return
        self.close(audit)
        self.open(audit._replace(keys=audit.keys._replace(own=own), request=None))

    def close(self, audit: Audit) -> None:
        """Take note that an audit has ended. The caller tells `Audits` how."""
        self._by_own.pop(audit.keys.own, None)

    def close_undecided(self, audit: Audit) -> None:
        """Take note that an audit has ended without an answer."""
        self.close(audit)
        self._audits.undecided(audit.rules, audit.url, audit.witness.url)

    def close_all(self) -> None:
        """Take note that none of them will have an answer."""
        for audit in tuple(self._by_own.values()):
            self.close_undecided(audit)

    def rules_changed(self, site: str, in_force: Collection[str]) -> None:
        """Keep those audits of *site* open that test only rules with an identity *in_force*."""
        for audit in [each for each in self._by_own.values() if each.keys.site == site]:
            keys = self._register.keys_of(audit.url)
            if keys is None or not all(rule.identity in in_force for rule in audit.rules):
                self.close_undecided(audit)
            else:
                self.open(audit._replace(keys=audit.keys._replace(learned=keys.learned)))

    def clear(self) -> None:
        """Forget all of them."""
        self._by_own.clear()
