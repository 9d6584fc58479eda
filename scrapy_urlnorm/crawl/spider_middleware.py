"""UrlNormSpiderMiddleware: tells the live rules which pages reach the spider."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_urlnorm.crawl.live.live_rules import LiveRules
from scrapy_urlnorm.crawl.parts import parts_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

#: The last one before the spider: no other middleware can drop a page that gets here.
PRIORITY = 1_000


class UrlNormSpiderMiddleware:
    """Tells `LiveRules` of every page with a 2xx status that the spider gets.

    Other requests are withheld behind no other page.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._parts = parts_of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        middleware = cls(crawler)
        parts_of(crawler).put(middleware)
        return middleware

    def process_spider_input(self, response: Response) -> None:
        """Tell of the page in *response*."""
        live_rules = self._parts.find(LiveRules)
        if live_rules is not None and response.request is not None and 200 <= response.status < 300:
            live_rules.page(response.request, response)
