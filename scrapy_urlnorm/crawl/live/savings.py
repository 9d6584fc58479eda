"""Savings: the requests that what was learned has spared a crawl, and the rules that spared them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scrapy_urlnorm.crawl.live.report import Saved
from scrapy_urlnorm.crawl.merges import stock_key
from scrapy_urlnorm.text import shortened

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from scrapy_urlnorm.crawl.live.ledger import Kept, Ledger
    from scrapy_urlnorm.crawl.merges import Behind

#: Sites of which a sample tells which rules withheld its requests: those that saved most.
MAX_SITES = 20
#: Requests of a site that tell.
_SAMPLE = 200
_LONGEST_RULE = 160


class Savings:
    """Counts what this run of a crawl withholds and stock Scrapy would have sent.

    A withheld request is the first with its own key, so the crawl has sent no request that stock
    Scrapy takes for the same, unless it is the one that the request is withheld behind. What was
    put back is no longer there to be counted, and audits never were.

    *unpack* returns the request that the ledger holds as bytes, or ``None``; *behind* says what a
    request may be withheld behind now.
    """

    def __init__(
        self,
        ledger: Ledger,
        unpack: Callable[[bytes], Request | None],
        behind: Callable[[Request], Behind | None],
    ) -> None:
        self._ledger = ledger
        self._unpack = unpack
        self._behind = behind
        self._before = ledger.count_withheld()  # by earlier runs with this JOBDIR
        self._at_end: Saved | None = None

    def at_end(self) -> Saved:
        """Return what was saved at the first call of this method: the database may close then.

        Raises `StoreError`, at that call, if the database cannot be read.
        """
        if self._at_end is None:
            self._at_end = Saved()
            self._at_end = self.now()
        return self._at_end

    def now(self) -> Saved:
        """Return what is saved by now. Raises `StoreError` if the database cannot be read.

        The total is less than nothing where this run sent what an earlier one had withheld.
        """
        counts = self._ledger.count_withheld()
        sites = {*counts, *self._before}
        new = {site: counts.get(site, 0) - self._before.get(site, 0) for site in sites}
        total, by_rule, is_estimate = 0.0, Counter[str](), False
        for number, site in enumerate(sorted(new, key=lambda site: -new[site])):
            if number >= MAX_SITES or new[site] <= 0:
                total += new[site]
                is_estimate |= new[site] > 0
                continue
            sample = self._ledger.sample(site, most=_SAMPLE)
            found = [why for kept in sample if (why := self._why(kept)) is not None]
            weight = new[site] / len(sample) if sample else 0.0
            is_estimate |= len(sample) != new[site]
            total += weight * len(found)
            for why in found:
                by_rule.update(dict.fromkeys(why, weight))
        rounded = {name: round(saved) for name, saved in by_rule.items() if round(saved)}
        return Saved(round(total), rounded, is_estimate)

    def _why(self, kept: Kept) -> set[str] | None:
        """Return what withholds a request, in words; ``None`` if stock Scrapy would not send it."""
        request = self._unpack(kept.request)
        behind = None if request is None else self._behind(request)
        if request is None or behind is None:
            return set()
        if behind.url and stock_key(behind.url) == stock_key(request.url):
            return None
        return {shortened(str(rule), _LONGEST_RULE) for rule in behind.rules}
