"""Owed: finds the audits that are still owed when a crawl has nothing else to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_urlnorm.crawl.live.frontier import Audit

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from scrapy_urlnorm.crawl.live.audits import Audits
    from scrapy_urlnorm.crawl.live.frontier import Frontier
    from scrapy_urlnorm.crawl.live.kept_back import KeptBack
    from scrapy_urlnorm.crawl.live.ledger import Kept, Ledger
    from scrapy_urlnorm.crawl.live.open_audits import OpenAudits
    from scrapy_urlnorm.crawl.live.page_aliases import PageAliases
    from scrapy_urlnorm.crawl.live.pages import Pages
    from scrapy_urlnorm.crawl.live.register import Register
    from scrapy_urlnorm.crawl.merges import Reason


class Owed:
    """Sends withheld requests as audits, site by site, until none is owed."""

    def __init__(
        self,
        register: Register,
        ledger: Ledger,
        audits: Audits,
        open_audits: OpenAudits,
        frontier: Frontier,
        aliases: PageAliases,
        pages: Pages,
        kept_back: KeptBack,
    ) -> None:
        self._register = register
        self._ledger = ledger
        self._audits = audits
        self._open_audits = open_audits
        self._frontier = frontier
        self._aliases = aliases
        self._pages = pages
        self._kept_back = kept_back
        #: Sites where audits may be owed, with the own key at which the last look ended.
        self._ended: dict[str, bytes] = {}

    def look(self, is_time_over: Callable[[], bool]) -> bool:
        """Look at some requests withheld of each site. Return whether *is_time_over* stopped it.

        Then the next call goes on where this one ended.
        """
        if not self._ended:
            self._ended = dict.fromkeys(self._register.sites(), b"")
        while self._ended and not is_time_over():
            self._look_at(next(iter(self._ended)))
        return bool(self._ended)

    def _look_at(self, site: str) -> None:
        """Look at some of the requests withheld of *site*, from where the last look ended."""
        reasons: tuple[Reason, ...] = (*self._register.rules(site), *self._aliases.accepted(site))
        sample: list[Kept] = []
        if any(map(self._audits.owes, reasons)):
            sample = self._ledger.sample(site, after=self._ended[site])
        if not sample:
            del self._ended[site]
            return
        self._ended[site] = sample[-1].own
        for kept in sample:
            request = self._kept_back.request_of(kept)
            if request is not None:
                self._send_if_owed(kept, request)

    def _send_if_owed(self, kept: Kept, request: Request) -> None:
        """Send a withheld request if it has no witness any more, or as an audit that is owed."""
        keys = self._register.keys(request)
        witness = None if keys is None else self._pages.witness(keys, request)
        if keys is None or witness is None:
            self._kept_back.put_back(kept, request)
            return
        reasons = self._pages.reasons(witness, request)
        if self._audits.is_owed(reasons, witness.page.vote):
            self._frontier.count("learned/audited")
            self._open_audits.open(Audit(keys, witness.page, reasons, request.url))
            self._kept_back.put_back(kept, request)
