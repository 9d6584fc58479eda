"""Arrivals: pages that speak for rules and page aliases, once their names are settled.

On a site whose pages change by themselves, two fetches of one page have two names until pairs have
shown what changes there. Such a page would contradict rules that are right. So it waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_urlnorm.crawl.online.aliases import Said
    from scrapy_urlnorm.crawl.online.audits import Audit
    from scrapy_urlnorm.crawl.online.names import Names
    from scrapy_urlnorm.crawl.online.tables import Page
    from scrapy_urlnorm.logs.page_identity import Identity

#: Pages of one site that wait; the oldest speaks with the name that it has. Pages of a site that
#: holds still so far, and such sites: what they said of aliases is heard again if they turn out not
#: to.
MAX_WAITING, MAX_EARLY, MAX_SITES = 1_000, 300, 100
#: Pairs without a difference after which a site is believed to hold still.
_STILL = 6


class Arrival(NamedTuple):
    """A page that arrived, and what it says besides its content."""

    url: str
    fingerprint: bytes
    status: int
    content: Identity | None  #: as it was named on arrival
    is_evidence: bool  #: whether it may speak for rules
    said: Said
    page: Page | None  #: if it may be a representative
    audit: Audit | None


class Arrivals:
    """Hands pages on to *on_settled*, with the name that each has by then."""

    def __init__(self, names: Names, *, on_settled: Callable[[Arrival], None]) -> None:
        self._names = names
        self._on_settled = on_settled
        self._waiting: dict[str, list[Arrival]] = {}
        self._early: dict[str, list[Arrival]] = {}

    def add(self, site: str, arrival: Arrival) -> None:
        """Take note of a page of *site*."""
        if not self._names.is_settled(site, arrival.url, arrival.fingerprint):
            waiting = self._waiting.setdefault(site, [])
            waiting.append(arrival)
            if len(waiting) > MAX_WAITING:
                self._on_settled(self._named(waiting.pop(0)))
            return
        if (arrival.said.links or arrival.said.counts) and self._may_move(site):
            early = self._early.setdefault(site, [])
            if len(early) < MAX_EARLY:
                early.append(arrival._replace(is_evidence=False, audit=None))
        self._on_settled(arrival)

    def _may_move(self, site: str) -> bool:
        units = self._names.units(site)
        if not units.different and units.pairs.total() < _STILL:
            return site in self._early or len(self._early) < MAX_SITES
        self._early.pop(site, None)
        return False

    def moves(self, site: str) -> None:
        """Take note that the pages of *site* change by themselves: the early ones wait anew."""
        self._waiting[site] = [*self._early.pop(site, ()), *self._waiting.get(site, ())]

    def work(self, *, is_last: bool = False) -> None:
        """Hand on the pages whose names are settled by now; all, if it *is_last*."""
        for site, waiting in list(self._waiting.items()):
            if not self._names.is_named(site):
                continue
            del self._waiting[site]
            later = []
            for arrival in waiting:
                if is_last or self._names.is_settled(site, arrival.url, arrival.fingerprint):
                    self._on_settled(self._named(arrival))
                else:
                    later.append(arrival)
            if later:
                self._waiting[site] = [*later, *self._waiting.get(site, ())]

    def _named(self, arrival: Arrival) -> Arrival:
        return arrival._replace(
            content=self._names.identity(arrival.fingerprint) or arrival.content
        )
