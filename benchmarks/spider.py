"""The spider of these crawls, which follows every link, and a crawl by it in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from processes import processor_seconds
from scrapy import Request, Spider
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.http import HtmlResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response

ADDON = {"ADDONS": {"scrapy_urlnorm.Addon": 900}}


class Links(Spider):
    name = "links"
    url: str

    async def start(self) -> AsyncIterator[Request]:
        yield Request(self.url)

    def parse(self, response: Response) -> Iterator[Request]:
        if isinstance(response, HtmlResponse):
            for href in response.css("a::attr(href)").getall():
                yield response.follow(href)


def crawl(
    url: str, settings: dict[str, Any], spider: type[Spider] = Links
) -> tuple[Crawler, float]:
    """Crawl from *url* on; return the crawler, and the processor time before that."""
    process = CrawlerProcess({"TELNETCONSOLE_ENABLED": False, **settings})
    crawler = process.create_crawler(spider)
    process.crawl(crawler, url=url)
    before = processor_seconds()
    process.start()
    return crawler, before
