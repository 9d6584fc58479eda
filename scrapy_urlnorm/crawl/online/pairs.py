"""Pairs: which pages are fetched twice, to learn what of them changes by itself.

At once: the 2nd, 6th and 20th page of a family, right after it came. Late: pages that arrived long
ago, at 40, 64, 102, ... pages. What a late fetch finds to be new is fetched once more, at once.
On a site that holds still there are few of them. The share of pages that are fetched twice has a
limit; small sites are left alone.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from typing import TYPE_CHECKING

from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import deferred_from_coro

from scrapy_urlnorm.crawl.components import site_of
from scrapy_urlnorm.crawl.online.comparison import blocks_in_crawl
from scrapy_urlnorm.logs.differences import family_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_urlnorm.crawl.online.frontier import CrawlFrontier
    from scrapy_urlnorm.crawl.online.names import Arrived, Names
    from scrapy_urlnorm.logs.blocks import Block

logger = logging.getLogger(__name__)

#: No page is fetched twice on a site with fewer pages than this.
LEAST_PAGES = 40
#: Fetches beyond the share of the pages, at the start: one more for each so many pages.
ADVANCE, _PAGES_OF_ADVANCE = 8, 10
#: Which pages of a family are fetched again.
_OF_FAMILY = (2, 6, 20, 60, 180)
#: So many pairs without a difference: the site holds still, and one page in so many is fetched again.
_STILL, _ONE_IN = 6, 1_000
#: How much farther apart late fetches are each time, and on a site that holds still.
_FARTHER, _FARTHER_STILL = 1.6, 4.0
_MAX_FAMILIES = 10_000

#: Words of URLs that may do something: none is fetched but by the spider.
_ACT = re.compile(
    r"(?:^|[^a-z])(?:log-?_?(?:out|off)|sign-?_?(?:out|off)|exit|delete|remove|destroy|erase|trash"
    r"|vote|rate|like|dislike|follow|unfollow|(?:un)?subscribe|add|buy|order|checkout|basket|cart"
    r"|mark|read=|confirm|accept|approve|reject|report|send|submit|post=|edit|update|save|create"
    r"|reset|cancel|ban|lock|move|merge|upload|watch|unwatch|favou?rite|download)(?:[^a-z]|$)",
    re.IGNORECASE,
)
#: What of a request tells how it came to be, and what a second fetch must not take along.
_META = ("redirect_urls", "redirect_times", "redirect_reasons", "redirect_ttl", "retry_times")


def looks_like_an_act(url: str) -> bool:
    """Return whether to ask for *url* may change something on the site."""
    return _ACT.search(url.partition("//")[2].partition("/")[2]) is not None


def second_fetch(request: Request) -> Request:
    """Return a copy of *request* that reaches the site, and no callback.

    Not from Scrapy's HTTP cache, where every page holds still. What is no page is not asked for
    again, and a redirect is not followed.
    """
    meta = {name: value for name, value in request.meta.items() if name not in _META}
    meta |= {"dont_cache": True, "dont_redirect": True, "dont_retry": True}
    return request.replace(
        callback=NO_CALLBACK, errback=None, cb_kwargs={}, dont_filter=True, meta=meta
    )


class Pairs:
    """Fetches pages again, and has `Names` learn from it. *share* of the pages is the limit.

    *on_failure* is told what failed, and with which error.
    """

    def __init__(
        self,
        crawler: Crawler,
        names: Names,
        frontier: CrawlFrontier,
        share: float,
        *,
        on_failure: Callable[[str, Exception], None],
    ) -> None:
        self._crawler = crawler
        self._names = names
        self._frontier = frontier
        self._share = share
        self._on_failure = on_failure
        self._families: Counter[str] = Counter()
        self._pairs: Counter[str] = Counter()  # that were asked for, by family
        self._fetched: Counter[str] = Counter()  # by site
        self._late_at: dict[str, int] = {}
        self._waiting = 0

    @property
    def is_waiting(self) -> bool:
        """Whether a page is being fetched again."""
        return bool(self._waiting)

    # --- which pages ------------------------------------------------------------------------

    def arrived(self, request: Request, blocks: list[Block]) -> None:
        """Take note of a page; fetch it again, or another one, if that may teach something."""
        site, family = site_of(request.url), family_of(request.url)
        if len(self._families) < _MAX_FAMILIES:
            self._families[family] += 1
        pages = self._names.count(site)
        if not self._share or pages < LEAST_PAGES:
            return
        if self._may_fetch(site, pages) and self._is_wanted(site, family, pages):
            if not looks_like_an_act(request.url):
                self._pairs[family] += 1
                self._begin(self._at_once(request, family, blocks), site)
            return
        is_still = not self._names.units(site).different
        farther = _FARTHER_STILL if is_still else _FARTHER
        if pages >= farther * self._late_at.get(site, 0):
            self._late_at[site] = pages
            for share in (0.3,) if is_still else (0.0, 0.3):
                page = self._names.nth(site, share)
                if page is not None and page.request and not looks_like_an_act(page.url):
                    self._begin(self._late(page), site)

    def _may_fetch(self, site: str, pages: int) -> bool:
        advance = min(ADVANCE, 1 + (pages - LEAST_PAGES) // _PAGES_OF_ADVANCE)
        return self._fetched[site] < advance + self._share * pages

    def _is_wanted(self, site: str, family: str, pages: int) -> bool:
        units, pairs = self._names.units(site), self._pairs[family]
        total = sum(units.pairs.values())
        if total >= _STILL and not units.different:
            return pages >= _ONE_IN * (total - _STILL + 1)
        return pairs < len(_OF_FAMILY) and self._families[family] >= _OF_FAMILY[pairs]

    # --- fetches ----------------------------------------------------------------------------

    def _begin(self, fetch: Coroutine[Any, Any, None], site: str) -> None:
        self._fetched[site] += 1
        self._waiting += 1
        deferred_from_coro(self._run(fetch))

    async def _run(self, fetch: Coroutine[Any, Any, None]) -> None:
        try:
            await fetch
        except Exception as error:  # noqa: BLE001 - Twisted would only log it
            self._on_failure("pair", error)
        finally:
            self._waiting -= 1

    async def _at_once(self, request: Request, family: str, first: list[Block]) -> None:
        second = await self.fetch(request)
        if second is not None:
            self.learn(site_of(request.url), family, first, second)

    async def _late(self, page: Arrived) -> None:
        request = self._frontier.unpack(page.request) if page.request else None
        if request is None or (second := await self.fetch(request)) is None:
            return
        site = site_of(page.url)
        if self.learn_late(site, page, second):
            third = await self.fetch(request)
            if third is not None:
                self.learn(site, page.family, second, third)

    async def fetch(self, request: Request) -> list[Block] | None:
        """Fetch a page again; ``None`` if what comes is no page of this URL."""
        response = await self.response(request)
        return None if response is None else blocks_in_crawl(response)

    async def response(self, request: Request) -> Response | None:
        """Fetch the answer to *request* again; ``None`` if it is not the page of its URL."""
        assert self._crawler.engine is not None
        self._frontier.count("learned/second_fetches")
        try:
            response = await self._crawler.engine.download_async(second_fetch(request))
        except Exception as error:  # noqa: BLE001 - any failure of a download
            logger.debug("A page could not be fetched again: %(error)r", {"error": error})
            return None
        if response.status != 200 or response.url != request.url:
            return None
        return response

    # --- what they teach --------------------------------------------------------------------

    def learn(self, site: str, family: str, first: list[Block], second: list[Block]) -> None:
        """Learn from two fetches of one page, one right after the other."""
        self._names.units(site).learn(family, first, second)
        self._frontier.count("learned/pairs")
        self._names.learned(site)

    def learn_late(self, site: str, page: Arrived, second: list[Block]) -> bool:
        """Learn from a page that was fetched long after it arrived; return whether it is new."""
        is_new = self._names.units(site).learn_late(
            *(page.family, page.blocks, second),
            lambda unit, value: self._names.tells_time(site, unit, value),
        )
        self._frontier.count("learned/pairs")
        self._names.learned(site)
        return is_new
