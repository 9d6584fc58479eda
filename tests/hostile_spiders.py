"""What crawls the hostile sites: spiders, and a middleware of a project that gets in the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import scrapy
from hostile_base import BARE
from loopback import Collect, Follow
from scrapy import signals
from scrapy.exceptions import DropItem, IgnoreRequest, StopDownload
from scrapy.http import Response, TextResponse

TWINS = f"{BARE}/new/"
TOP = "?ref=top"


class Links(Follow):
    """Follows every link, and notes each page that reaches its callback.

    A link can say how it is to be asked for: its attribute ``data-request`` holds arguments of
    `Request` as JSON. With ``record`` the names of the pages go into that file as well, one a
    line, so that they outlive a process that is killed. Statistics count what errbacks hear.
    """

    record = ""

    async def start(self) -> Any:
        async for request in super().start():
            yield request.replace(errback=self.failed)

    def parse(self, response: Response) -> Any:
        self.note(name_of(response))
        yield from self.links_of(response)

    def note(self, name: str) -> None:
        Collect.items.append({"page": name})
        self.crawler.stats.inc_value("spider_callbacks")
        if self.record:
            with Path(self.record).open("a", encoding="utf-8") as file:
                file.write(name + "\n")

    def links_of(self, response: Response) -> Any:
        if not isinstance(response, TextResponse):
            return
        for link in response.css("a[href]"):
            options = json.loads(link.attrib.get("data-request", "{}"))
            yield response.follow(link.attrib["href"], errback=self.failed, **options)

    def failed(self, failure: Any) -> None:
        self.crawler.stats.inc_value(f"errback/{failure.type.__name__}")


def name_of(response: Response) -> str:
    """What a page calls itself; its status and URL if it is not HTML."""
    heading = response.css("h1::text").get() if isinstance(response, TextResponse) else None
    return heading or f"{response.status} {response.url}"


class FollowsRedirectsItself(Links):
    """Has redirects handed to its callback, and asks for what they name."""

    handle_httpstatus_list = (301, 302)

    def parse(self, response: Response) -> Any:
        if "Location" in response.headers:
            yield response.follow(response.headers["Location"].decode(), errback=self.failed)
        else:
            yield from super().parse(response)


class FetchesAside(Links):
    """Fetches links that say so by itself, past the queue, and does nothing with the answer."""

    async def parse(self, response: Response) -> Any:
        for request in super().parse(response):
            if request.meta.get("aside"):
                await self.crawler.engine.download_async(request.replace(errback=None))
            else:
                yield request


class TakesFiles(Links):
    """Has the files pipeline fetch what links mark as files."""

    def parse(self, response: Response) -> Any:
        files = []
        for request in super().parse(response):
            if request.meta.get("file"):
                files.append(request.url)
            else:
                yield request
        yield {"page": "files", "file_urls": files}


class ReadsHeadersOnly(Links):
    """Stops the download of a twin when its headers are there, and takes that for a failure."""

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> ReadsHeadersOnly:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.headers_received, signals.headers_received)
        return spider

    def headers_received(self, request: scrapy.Request) -> None:
        if request.url.startswith(TWINS):
            raise StopDownload(fail=True)


class YieldsItems(Links):
    """Has the pipelines note what arrived."""

    def parse(self, response: Response) -> Any:
        yield {"page": name_of(response), "url": response.url}
        yield from self.links_of(response)


class DropsTops:
    """An item pipeline of a project that does not want the items of some URLs."""

    error: type[Exception] = DropItem
    unwanted = TOP

    def process_item(self, item: Any) -> Any:
        if self.unwanted in item["url"]:
            raise self.error("not from here")
        return item


class FailsWithTops(DropsTops):
    """An item pipeline that cannot read such an item."""

    error = ValueError


class DropsAll(DropsTops):
    """An item pipeline that has all items already, from wherever they come."""

    unwanted = "/item/"


class RefusesTwins:
    """A spider middleware that lets no twin reach the spider."""

    def process_spider_input(self, response: Response) -> None:
        if response.url.startswith(TWINS):
            raise IgnoreRequest("the project does not want it")
