"""UrlNormSpiderMiddleware: says which pages reached the spider."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

#: The last one before the spider: what gets here no other middleware has dropped.
PRIORITY = 1_000

_crawlers: WeakSet[Crawler] = WeakSet()


class UrlNormSpiderMiddleware:
    """Tells `LiveRules` of every page with a 2xx status that the spider gets.

    Only such a page may be what another request is withheld behind.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        _crawlers.add(crawler)
        return cls(crawler)

    @classmethod
    def is_in(cls, crawler: Crawler) -> bool:
        """Whether a crawl has this middleware."""
        return crawler in _crawlers

    def process_spider_input(self, response: Response) -> None:
        """Take note of a page."""
        dupefilter = UrlNormDupeFilter.of(self._crawler)
        live_rules = None if dupefilter is None else dupefilter.live_rules
        if live_rules is not None and response.request is not None and 200 <= response.status < 300:
            live_rules.page(response.request, response)
