"""How long the event loop is blocked by pages that are long, move, and come under many URLs.

    python benchmarks/blocks.py [--kilobytes 10 50 200] [--pages 200] [--jobdir]

Processes of their own crawl a site without a network, by stock Scrapy ("no") and with the add-on:
each page stands under four URLs, with an advertisement, a counter, related pages and news, others
at each fetch. Said are, of each callback of the event loop, the longest processor time and how many
took more than 50 ms, where these were (functions of this package, as a sampler saw them most), the
processor time a page, and memory. Apart stand what Scrapy takes to parse pages, the spider, and
Python's collection of garbage, whose longest is said.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import resource
import sys
import tempfile
import threading
from collections import Counter
from time import sleep, thread_time
from typing import TYPE_CHECKING, Any

import parsel.selector
from processes import apart
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.http import HtmlResponse, Response
from spider import ADDON, Links, crawl

if TYPE_CHECKING:
    from scrapy import Request

LONGEST = 0.05  # seconds
SPELLINGS = ("", "&ref=list", "&ref=menu", "&view=full")
WORDS = [f"{a}{b}{c}" for a in "bdfgklm" for b in "aeiou" for c in ("n", "rt", "st", "ndo", "ki")]
PHRASES = [" ".join(random.Random(n).choices(WORDS, k=6)) for n in range(300)]


def said(draw: random.Random, words: int) -> str:
    """Return phrases of about so many words: they come again, as those of real pages do."""
    return " ".join(draw.choices(PHRASES, k=-(-words // 6)))


def link(number: int, draw: random.Random, words: int = 3) -> str:
    return f'<a class="to" href="/item?id={number}">{said(draw, words)}</a>'


class Site(BaseDownloadHandler):
    def __init__(self, crawler: Any) -> None:
        self._pages, self._size = crawler.settings.getint("PAGES"), crawler.settings.getint("SIZE")
        self._fetch = 0

    def _moving(self) -> str:
        self._fetch += 1
        draw = random.Random(self._fetch)
        news = random.Random(self._fetch // 40)
        related = "".join(f"<li>{link(draw.randrange(self._pages), draw)}</li>" for _ in range(4))
        return (
            f'<div class="ad"><p>{said(draw, 6)}</p></div>'
            f"<p class=count>{said(random.Random(1), 2)} {1000 + self._fetch}</p>"
            f'<ul class="related">{related}</ul><ul class="news"><li>{said(news, 5)}</li></ul>'
        )

    async def download_request(self, request: Request) -> Response:
        if "/item?" not in request.url:
            return Response(request.url, status=404)
        number = int(request.url.partition("id=")[2].partition("&")[0])
        draw, pages = random.Random(number), self._pages
        body = [f"<html><head><title>{said(draw, 4)}</title></head><body><h1>{said(draw, 3)}</h1>"]
        body.append(moving := self._moving())
        for step in range(1, 6):
            for more in SPELLINGS:
                target = f"/item?id={(5 * number + step) % pages}{more.replace('&', '&amp;')}"
                body.append(f'<p><a href="{target}">{said(draw, 2)}</a></p>')
        size = sum(map(len, body)) - len(moving)  # so that no post comes and goes with it
        while size < self._size:
            body.append(
                f'<div class="post odd" id="p{len(body)}"><h3>{link(number, draw)}</h3>'
                f'<p>{said(draw, 12)} <b>{said(draw, 2)}</b></p><img class="thumb left" src="/i/'
                f'{draw.randrange(99)}.png" alt="{said(draw, 1)}"></div>'
            )
            size += len(body[-1])
        body.append("</body></html>")
        headers = {"Content-Type": "text/html; charset=utf-8"}
        return HtmlResponse(request.url, body="\n".join(body).encode(), headers=headers)


class Clock:
    """Measures callbacks of the event loop."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.collections: list[float] = []
        self.where: Counter[str] = Counter()
        self._apart, self._number = 0.0, 0
        self._seen: Counter[str] = Counter()
        self._main = threading.get_ident()

    def begin(self) -> None:
        run, clock = asyncio.Handle._run, self

        def timed(handle: asyncio.Handle) -> None:
            clock._apart, start = 0.0, thread_time()
            clock._seen = Counter()
            run(handle)
            taken = thread_time() - start - clock._apart
            clock.times.append(taken)
            if taken > LONGEST and clock._seen:
                clock.where[clock._seen.most_common(1)[0][0]] += 1

        asyncio.Handle._run = timed
        parsel.selector.create_root_node = self.apart(parsel.selector.create_root_node)
        gc.callbacks.append(self._collects)
        threading.Thread(target=self._sample, daemon=True).start()

    def apart(self, function: object) -> object:
        """Return a function whose time does not count."""

        def call(*args: object, **kwargs: object) -> object:
            start = thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                self._apart += thread_time() - start

        return call

    def _collects(self, phase: str, _: object) -> None:
        now = thread_time()
        self._collected = now if phase == "start" else now - self._collected
        if phase == "stop":
            self._apart += self._collected
            self.collections.append(self._collected)

    def _sample(self) -> None:
        while True:
            sleep(0.01)
            frame, names = sys._current_frames().get(self._main), []
            while frame is not None:
                if "scrapy_urlnorm" in frame.f_code.co_filename:
                    names.append(frame.f_code.co_name)
                frame = frame.f_back
            if names:
                self._seen[" < ".join(names[-8:])] += 1


CLOCK = Clock()


class TimedLinks(Links):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        CLOCK.begin()

    def parse(self, response: Response) -> object:
        return CLOCK.apart(lambda: list(super(TimedLinks, self).parse(response)))()


def measure(kilobytes: int, pages: int, addon: str, settings: dict[str, Any]) -> None:
    """Crawl the site, and print a row."""
    settings |= {
        "DOWNLOAD_HANDLERS": {"http": Site, "https": Site},
        "LOG_LEVEL": "WARNING",
        "SIZE": 1024 * kilobytes,
        "PAGES": pages,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    }
    crawler, *_ = crawl("https://shop.example/item?id=0", settings, TimedLinks)
    times, get = sorted(CLOCK.times, reverse=True), crawler.stats.get_value
    fetched = get("downloader/response_count")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    over = sum(taken > LONGEST for taken in times)
    longest = ", ".join(f"{1000 * taken:.0f}" for taken in times[:5])
    taken = 1000 * sum(times) / fetched
    print(
        f"{kilobytes} KB {addon}: {fetched} fetched, {get('urlnorm/learned/audits', 0)} audits,"
        f" {taken:.1f} ms a page, {memory} MB,"
        f" longest {longest} ms (garbage {1000 * max(CLOCK.collections):.0f}), {over} over {1000 * LONGEST:.0f} ms"
    )
    for where, often in CLOCK.where.most_common(12):
        print(f"  {often} {where}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--kilobytes", type=int, nargs="+", default=[10, 50, 200])
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--jobdir", action="store_true")
    args = parser.parse_args()
    for kilobytes in args.kilobytes:
        for addon, settings in (("no", {}), ("yes", ADDON)):
            with tempfile.TemporaryDirectory() as folder:
                job = {"JOBDIR": folder} if args.jobdir else {}
                apart(measure, kilobytes, args.pages, addon, settings | job)


if __name__ == "__main__":
    main()
