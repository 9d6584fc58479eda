"""A site whose links carry utm_ parameters, and where the first spelling of an article brings no page."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from loopback import Follow, Reply, page, redirect
from scrapy.exceptions import IgnoreRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    import scrapy

HOST = "http://shop.test"
HOME = f"{HOST}/"
#: Why an article has no page under the first spelling.
KINDS = ("robots", "ignored", "down", "missing", "login", "empty")
EACH = 4  #: articles of a kind
ARTICLES = {f"/{kind}/{number}" for kind in KINDS for number in range(EACH)}
NAMES = {"/", "/late", "/sign-in", *ARTICLES}

SETTINGS = {
    "ROBOTSTXT_OBEY": True,
    "RETRY_ENABLED": True,
    "RETRY_TIMES": 2,
    "RETRY_PRIORITY_ADJUST": 0,
    "DOWNLOADER_MIDDLEWARES": {"loopback.ViaSite": 740, "arrived_sites.Refusing": 120},
}


class Articles:
    """Two links to each article are on the home page, and a third one on a page that comes last.

    Of the three only the last, or for every second article the second and the last, have the page.
    An article that is *down* answers from the fourth time on, under any spelling.
    """

    def __init__(self) -> None:
        self.times: dict[str, int] = {}

    def __call__(self, url: str) -> Reply:
        parts = urlsplit(url)
        path, query = parts.path, parts.query
        if path == "/robots.txt":
            return Reply(200, b"User-agent: *\nDisallow: /robots/*?utm_")
        if path == "/":
            links = [f"{name}?utm_source=a" for name in sorted(ARTICLES)]
            links += [f"{name}{second(name)}" for name in sorted(ARTICLES)]
            return page("/", *links, "/late")
        if path == "/late":
            return page(path, *(f"{name}{third(name)}" for name in sorted(ARTICLES)))
        if path in ARTICLES:
            return self._article(path, query)
        return page(path) if path == "/sign-in" else Reply(404)

    def _article(self, path: str, query: str) -> Reply:
        kind = path.split("/")[1]
        if kind == "down":
            self.times[path] = self.times.get(path, 0) + 1
            return Reply(503) if self.times[path] < 4 else page(path)
        if not query:
            return page(path)
        answers = {"missing": Reply(404), "login": redirect("/sign-in", 302), "empty": Reply(200)}
        return answers.get(kind) or page(path)


def _is_even(name: str) -> bool:
    return int(name.rpartition("/")[2]) % 2 == 0


def second(name: str) -> str:
    return "" if _is_even(name) else "?utm_source=b"


def third(name: str) -> str:
    return "?utm_source=c" if _is_even(name) else ""


class Refusing:
    """A downloader middleware that drops some requests."""

    def process_request(self, request: scrapy.Request) -> None:
        if "/ignored/" in request.url and "utm_" in request.url:
            raise IgnoreRequest("not with utm_")


class Late(Follow):
    """Follows all links, and asks for the page that comes last when all else is done."""

    name = "late"

    def parse(self, response: scrapy.http.Response) -> Iterator[object]:
        for each in super().parse(response):
            if getattr(each, "url", "").endswith("/late"):
                each = each.replace(priority=-10)
            yield each
