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
    from scrapy_urlnorm.crawl.live.register import Register
    from scrapy_urlnorm.site_rules import SiteRule

#: Sites of which a sample tells which rules withheld its requests: those that saved most.
MAX_SITES = 20
_LONGEST_RULE = 160


class Savings:
    """Counts what this run of a crawl withholds and stock Scrapy would have sent.

    A withheld request is the first with its own key, so the crawl has sent no request that stock
    Scrapy takes for the same, unless it is the one that the request is withheld behind. What was
    put back is no longer there to be counted, and audits never were.

    *unpack* returns the request that the ledger holds as bytes, or ``None``.
    """

    def __init__(
        self, ledger: Ledger, register: Register, unpack: Callable[[bytes], Request | None]
    ) -> None:
        self._ledger = ledger
        self._register = register
        self._unpack = unpack
        self._before = ledger.count_withheld()  # by earlier runs with this JOBDIR

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
            sample = self._ledger.sample(site)
            found = [rules for kept in sample if (rules := self._behind(kept)) is not None]
            weight = new[site] / len(sample) if sample else 0.0
            is_estimate |= len(sample) != new[site]
            total += weight * len(found)
            for rules in found:
                by_rule.update({_in_words(rule): weight for rule in rules})
        rounded = {name: round(saved) for name, saved in by_rule.items() if round(saved)}
        return Saved(round(total), rounded, is_estimate)

    def _behind(self, kept: Kept) -> tuple[SiteRule, ...] | None:
        """Return the rules that withhold a request; ``None`` if stock Scrapy would not send it."""
        request = self._unpack(kept.request)
        keys = None if request is None else self._register.keys(request)
        if request is None or keys is None:
            return ()
        witness = self._ledger.witness(keys.learned, keys.own)
        if witness is None:  # it arrived at another crawler
            return self._register.between(request.url, "")
        if witness.url and stock_key(witness.url) == stock_key(request.url):
            return None
        return self._register.between(request.url, witness.url)


def _in_words(rule: SiteRule) -> str:
    return shortened(str(rule), _LONGEST_RULE)
