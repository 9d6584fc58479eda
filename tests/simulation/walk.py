"""Crawls in virtual time of sites that are functions of a URL, as those that real crawls ask."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from scrapy.http import HtmlResponse, Response

from simulation.crawl import Crawl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from loopback import Reply
    from scrapy import Request

    from simulation.plan import Plan


class Walk(Crawl):
    """A crawl from *home* of *shop*, with the settings of the add-on.

    Its header ``X-Content`` says what a page is, else its heading does.
    """

    def __init__(
        self, shop: Callable[[str], Reply], home: str, plan: Plan, **settings: Any
    ) -> None:
        super().__init__(plan)
        self.site = SimpleNamespace(start=home, refused=())  # type: ignore[assignment]
        self.shop = shop
        self.settings = settings  # type: ignore[misc]
        self.pages: list[str] = []

    def expected(self) -> set:
        return getattr(self.shop, "contents", set)()

    def answer(self, url: str) -> Any:
        reply = self.shop(url.partition("#")[0])
        return SimpleNamespace(reply=reply, delay=0.0)

    def response(self, request: Request, answer: Any) -> Response:
        status, headers = answer.reply.status, dict(answer.reply.headers)
        return HtmlResponse(request.url, status, headers, answer.reply.body, request=request)

    def parse(self, request: Request, answer: Any) -> Iterator[object]:
        page = self.response(request, answer)
        named = page.headers.get("X-Content")
        name = named.decode() if named else page.css("h1::text").get("")
        self.pages.append(name)
        self.found.add(name)
        yield {"page": name, "url": request.url}
        for href in page.css("a::attr(href)").getall():
            yield page.follow(href)
