"""Small random sites, crawled by stock Scrapy and with the add-on: does the add-on see all contents?

    python tests/arrived_worlds.py NUMBER [FIRST] [SETTING=JSON ...]

Links have several spellings that the catalogue makes one. Each spelling has a fate of its own: a page, a
status, an error that passes or does not, a redirect, a middleware that drops it. Order of the queue,
requests at a time, latency, depth limit and the callbacks are drawn from the seed too. There are no sockets:
a download handler of Scrapy's own kind answers. Each seed that loses a content is printed.

With DEPTH_LIMIT Scrapy itself sees what the order of answers leaves it, so there one request at a time is
under way, and answers come at once. A page that nothing but the redirect of a merged spelling leads to is lost
by nature: what a redirect leads to is linked from the first page here, unless ``nature=1``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

import scrapy
from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse, Response

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "http://x.test"
HOME = f"{HOST}/"
FORMS = (
    "/p{}",
    "/p{}?utm_source=a",
    "/p{}?utm_source=b",
    "/p{}?PHPSESSID=0123456789abcdef0123456789abcdef",
    "/p{}?utm_medium=c&utm_source=z",
    "/p{}?fbclid=q",
    "/p{}#x",
    "/p{}?v=1",  # no rule of the catalogue: to be learned
    "/p{}?v=2",
)
OTHER = "utm_source=b"  # links with it have a callback of their own, on some sites
FATES = (
    *(("status", status) for status in (204, 403, 404, 410, 500)),
    *((kind, times) for kind in ("down", "error") for times in (1, 2, 3, 4)),
    *(("to", status) for status in (301, 302, 308, 301)),
    *(("ignored", 0), ("empty", 0), ("raises", 0)),
)
ADDON = {"ADDONS": {"scrapy_urlnorm.Addon": 900}}


class World:
    """All that a seed decides."""

    def __init__(self, seed: int, *, nature: bool = False) -> None:
        chance = random.Random(seed)
        pages = range(chance.randint(3, 12))
        spellings = {n: chance.sample(FORMS, chance.randint(1, 6)) for n in pages}
        links = [form.format(n) for n in pages for form in spellings[n]]
        bad = chance.choice((0.1, 0.3, 0.6, 0.9))
        home = chance.sample(links, len(links) // 2)
        self.fates: dict[str, tuple[str, Any, str]] = {}
        for n in pages:
            for form in spellings[n]:
                kind, value = chance.choice(FATES) if chance.random() < bad else ("page", 0)
                target = chance.choice([chance.choice(links), spellings[n][0].format(n)])
                if kind == "to" and not nature:
                    home.append(target)
                self.fates[form.format(n).partition("#")[0]] = (kind, value, target)
        self.links: dict[str, list[str]] = {
            f"p{n}": chance.choices(links, k=chance.randint(2, 12)) for n in pages
        }
        self.links["home"] = chance.choices(links, k=chance.randint(2, 12)) + home
        self.has_callbacks = chance.random() < 0.3
        self.is_late = chance.random() < 0.5  # some links are followed last
        self.latency = {url: chance.choice((0, 0, 1, 5)) for url in self.fates}
        at_once = chance.choice((1, 2, 8))
        self.settings: dict[str, Any] = {}
        if chance.random() < 0.3:
            self.settings["DEPTH_LIMIT"] = chance.choice((1, 2, 3))
            at_once, self.latency = 1, {}
        if chance.random() < 0.5:
            self.settings["SCHEDULER_MEMORY_QUEUE"] = "scrapy.squeues.FifoMemoryQueue"
        self.settings["CONCURRENT_REQUESTS"] = at_once
        self.settings["CONCURRENT_REQUESTS_PER_DOMAIN"] = at_once
        self.times: dict[str, int] = {}
        self.requests = 0

    def page(self, name: str) -> bytes:
        links = "".join(f'<a href="{link}">l</a>' for link in self.links[name])
        return f"<html><body><h1>{name}</h1>{links}</body></html>".encode()

    async def answer(self, request: Request) -> Response:
        self.requests += 1
        url = request.url
        path = url.removeprefix(HOST).partition("#")[0]
        if path == "/":
            return HtmlResponse(url, body=self.page("home"), encoding="utf-8")
        kind, value, target = self.fates.get(path, ("status", 404, ""))
        for _ in range(self.latency.get(path, 0)):
            await asyncio.sleep(0)
        self.times[path] = times = self.times.get(path, 0) + 1
        if kind == "error" and times <= value:
            raise ConnectionError("no answer")
        if kind == "status" or (kind == "down" and times <= value):
            return Response(url, status=value if kind == "status" else 503)
        if kind == "to":
            return Response(url, status=value, headers={"Location": target})
        if kind == "empty":
            return Response(url)
        return HtmlResponse(url, body=self.page(path[1:].partition("?")[0]), encoding="utf-8")


class Handler:
    """A download handler that asks the world."""

    lazy = False
    world: World

    @classmethod
    def from_crawler(cls, crawler: scrapy.crawler.Crawler) -> Handler:
        return cls()

    async def download_request(self, request: Request) -> Response:
        return await self.world.answer(request)

    async def close(self) -> None: ...


class Refusing:
    """A downloader middleware that drops what the world says."""

    def process_request(self, request: Request) -> None:
        path = request.url.removeprefix(HOST).partition("#")[0]
        if Handler.world.fates.get(path, ("",))[0] == "ignored":
            raise IgnoreRequest("not this one")


class Follow(scrapy.Spider):
    """Follows every link."""

    name = "follow"
    contents: ClassVar[set[str]] = set()

    async def start(self) -> Any:
        yield Request(HOME)

    def parse(self, response: Response) -> Iterator[Request]:
        return self._follow(response, "")

    def parse_other(self, response: Response) -> Iterator[Request]:
        return self._follow(response, "other ")

    def _follow(self, response: Response, by: str) -> Iterator[Request]:
        if not isinstance(response, HtmlResponse):
            return
        name = response.css("h1::text").get()
        self.contents.add(f"{by}{name}")
        world = Handler.world
        for link in response.css("a::attr(href)").getall():
            is_other = world.has_callbacks and OTHER in link
            priority = -1 if world.is_late and "utm_medium" in link else 0
            callback = self.parse_other if is_other else None
            yield response.follow(link, callback=callback, priority=priority)
        if world.fates.get(response.url.removeprefix(HOST), ("",))[0] == "raises":
            raise ValueError("a callback that fails at its end")


async def contents_of(world: World, settings: dict[str, Any]) -> tuple[set[str], dict[str, Any]]:
    """Crawl *world*; return what its spider saw, and the statistics."""
    from scrapy.crawler import AsyncCrawlerRunner

    Handler.world, Follow.contents = world, set()
    runner = AsyncCrawlerRunner(
        {
            "DOWNLOAD_HANDLERS": {"http": Handler},
            "DOWNLOADER_MIDDLEWARES": {Refusing: 50},
            "DOWNLOAD_DELAY": 0,
            "RETRY_TIMES": 2,
            "RETRY_EXCEPTIONS": [ConnectionError],
            "ROBOTSTXT_OBEY": False,
            "LOG_ENABLED": False,
            "TELNETCONSOLE_ENABLED": False,
            "REMOTE_CONTROL_ENABLED": False,
            **world.settings,
            **settings,
        }
    )
    crawler = runner.create_crawler(Follow)
    await asyncio.wait_for(runner.crawl(crawler), 60)
    assert crawler.stats is not None
    return Follow.contents, crawler.stats.get_stats()


async def run(
    number: int,
    first: int,
    settings: dict[str, Any],
    nature: bool,
) -> list[str]:
    """Crawl *number* worlds twice; return a line for each that lost a content, and one about all."""
    lines, requests = [], [0, 0]
    saved = requeued = 0
    for seed in range(first, first + number):
        stock, ours = World(seed, nature=nature), World(seed, nature=nature)
        wanted, _ = await contents_of(stock, {})
        found, stats = await contents_of(ours, {**ADDON, **settings})
        requests = [requests[0] + stock.requests, requests[1] + ours.requests]
        saved += stats.get("urlnorm/saved", 0)
        requeued += stats.get("urlnorm/requeued", 0)
        if wanted - found or stats.get("finish_reason") != "finished":
            lines.append(f"seed {seed}: {sorted(wanted - found)} {stats.get('finish_reason')}")
            print(lines[-1], ours.settings, flush=True)
    lines.append(
        f"{len(lines)} of {number} worlds lost a content; requests {requests[0]} -> {requests[1]}, "
        f"saved {saved}, requeued {requeued}"
    )
    return lines


def main(arguments: list[str]) -> None:
    from scrapy.utils.reactor import install_reactor

    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    from loopback import _mine_at_once
    from twisted.internet import reactor

    logging.disable(logging.CRITICAL)
    _mine_at_once()
    numbers = [int(each) for each in arguments if "=" not in each]
    settings: dict[str, Any] = {}
    for each in arguments:
        name, is_setting, value = each.partition("=")
        if is_setting:
            settings[name] = value
            with suppress(ValueError):
                settings[name] = json.loads(value)
    nature = bool(settings.pop("nature", False))

    async def all_of_it() -> None:
        try:
            lines = await run(numbers[0], [*numbers, 0][1], settings, nature)
            print(lines[-1])
        finally:
            reactor.callLater(0, reactor.stop)  # type: ignore[attr-defined]

    tasks = []
    reactor.callWhenRunning(lambda: tasks.append(asyncio.ensure_future(all_of_it())))  # type: ignore[attr-defined]
    reactor.run(installSignalHandlers=False)  # type: ignore[attr-defined]
    tasks[0].result()


if __name__ == "__main__":
    main(sys.argv[1:])
