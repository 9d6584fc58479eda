"""CrawlFrontier: a Scrapy crawl as learning sees it. What learning asks for is done here.

Learning itself (`scrapy_urlnorm.crawl.online`) knows no engine, no event loop and no clock.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sized
from contextlib import suppress
from copy import copy
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.request import request_from_dict

from scrapy_urlnorm.crawl.components import PAIR_META, ask_again, count, in_progress
from scrapy_urlnorm.crawl.miner import Miner
from scrapy_urlnorm.crawl.requests import Asked, may_be_copied, purpose_of, request_in, site_of
from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.text import logger_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Generator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter

    T = TypeVar("T")
    #: What asks for pages again, one after the other, and whether right after another fetch of it. It
    #: is sent each as it is now, or ``None`` if that is not the page of its URL, and returns what it
    #: found out.
    Fetches = Generator[tuple[Asked, bool], Response | None, T]

logger = logger_of(__name__)

#: What of learning is a statistic: what a person would act on. All else that is counted is said at
#: the end of the crawl, at the level DEBUG.
STATISTICS = frozenset(
    (
        *("learned/rules", "learned/retracted", "learned/audits", "learned/audits_differed"),
        *("learned/second_fetches", "learned/barren_families", "learned/dropped", "errors"),
    )
)
#: Requests that are held as they are, and not as a copy. No more are held than these.
MAX_KEPT = 20_000
#: What of a request tells how it came to be, and what a second fetch must not take along.
_META = ("redirect_urls", "redirect_times", "redirect_reasons", "redirect_ttl", "retry_times")


class CrawlFrontier:
    """The queue of *crawler*, its statistics, and where failures of learning are told."""

    def __init__(self, crawler: Crawler, dupefilter: UrlNormDupeFilter) -> None:
        self.crawler = crawler
        self.extra: dict[str, Any] = {"spider": crawler.spider}  #: for loggers
        self._dupefilter, self.is_seen = dupefilter, dupefilter.knows
        self.counts: Counter[str] = Counter()  #: what is counted and is no statistic
        self._failures: set[str] = set()  # kinds that were logged
        #: Whether only this crawler takes requests from its queue. A scheduler of somebody else
        #: may have a queue that many share.
        self.has_own_queue = False
        #: Requests that carry what others may change, by what they were packed as: the queue of
        #: stock Scrapy would have kept them, and not copies.
        self.kept: dict[bytes, Request] = {}
        self._fetching: Counter[str] = Counter()  # pages that are fetched again, by site
        self.on_fetched: Callable[[], None] = lambda: None  #: told when a page was fetched again
        self.is_closed = False  #: whether the crawl ends: what is fetched again comes too late
        self.depth_limit = crawler.settings.getint("DEPTH_LIMIT")
        self.miner = Miner(self.ask_again)
        self.now = monotonic
        self.run: Callable[[Coroutine[Any, Any, None]], object] = deferred_from_coro

    def ask_again(self) -> None:
        """Have the engine ask for a request, once the event loop has had its turn."""
        ask_again(self.crawler)

    def in_progress(self) -> Collection[Request]:
        return in_progress(self.crawler)

    def under_way(self, site: str) -> int:
        """Return how many requests of *site* the engine has, and pages of it are fetched again."""
        asked = sum(site_of(request.url) == site for request in self.in_progress())
        return asked + self._fetching[site]

    def queued(self) -> int:
        slot = getattr(self.crawler.engine, "_slot", None)
        scheduler = getattr(slot, "scheduler", None)
        return len(scheduler) if isinstance(scheduler, Sized) else 0

    def pack(self, asked: Asked) -> bytes:
        """Return a request as bytes; raises what pickle raises, or if too many are kept."""
        request = request_in(asked)
        data = pickle.dumps(request.to_dict(spider=self.crawler.spider), protocol=4)
        if not may_be_copied(request):
            if len(self.kept) >= MAX_KEPT:
                raise OverflowError
            self.kept[data] = request
        return data

    def has_changed(self, packed: bytes, purpose: str) -> bool:
        """Return whether what a request carries is not what it was when it was packed."""
        request = self.kept.get(packed)
        return request is not None and purpose_of(request) != purpose

    def pack_bare(self, asked: Asked) -> bytes:
        """Return a request without its callbacks as bytes: what it takes to fetch its page again."""
        request = request_in(asked)
        bare = request.replace(cb_kwargs={}) if request.cb_kwargs else copy(request)
        bare.callback = bare.errback = None  # to find the name of one takes longest
        return pickle.dumps(bare.to_dict(), protocol=4)

    def unpack(self, data: bytes) -> Asked | None:
        """Return the request that was packed; ``None`` for one that this run cannot do."""
        if data in self.kept:
            return Asked(self.kept[data])
        try:
            return Asked(request_from_dict(pickle.loads(data), spider=self.crawler.spider))
        except Exception as error:  # noqa: BLE001 - whatever its pickled objects raise
            self.failed("unpack", error)
            return None

    def send(self, asked: Asked, packed: bytes) -> None:
        assert self.crawler.engine is not None
        request = request_in(asked)
        self.kept.pop(packed, None)
        self._dupefilter.let_pass(request)
        self.crawler.engine.crawl(request)

    def waits_here(self, fingerprint: bytes) -> bool:
        """Return whether a request with *fingerprint* is, or was, in the queue of this crawl.

        Many crawlers may fill one store from queues of their own. What waits in the queue of
        another one is lost with it, so only the keys count that this crawler put there.
        """
        asks = self._dupefilter.has_queued if self.has_own_queue else self.is_seen
        return asks(fingerprint)

    def count(self, stat: str, number: int = 1) -> None:
        """Add *number* to the statistic *stat*, or to `counts` where it is none."""
        if stat in STATISTICS:
            count(self.crawler, f"urlnorm/{stat}", number)
        else:
            self.counts[stat] += number

    def failed(self, what: str, error: Exception) -> None:
        """Count that *what* failed, and log it, each kind of failure once.

        A database that cannot be written fails everywhere: that is one kind.
        """
        self.count("errors")
        kind = "the store" if isinstance(error, StoreError) else f"{what} {type(error).__name__}"
        if kind in self._failures:
            return
        self._failures.add(kind)
        logger.error(
            "Learning failed in %s, the request is sent: %r "
            "(further failures of this kind are only counted)",
            what,
            error,
            extra=self.extra,
        )
        if not isinstance(error, StoreError):
            logger.debug("This is where learning failed", exc_info=error)

    # --- pages that are fetched again -------------------------------------------------------

    @property
    def is_fetching(self) -> bool:
        return any(self._fetching.values())

    def fetch(self, what: str, site: str, job: Fetches[None]) -> None:
        """Run a *job* that fetches pages of *site* again.

        No error leaves it: Twisted would only log it.
        """
        self._fetching[site] += 1
        self.run(self._fetch_all(what, site, job))

    async def _fetch_all(self, what: str, site: str, job: Fetches[None]) -> None:
        try:
            with suppress(StopIteration):
                fetch = next(job)
                while True:
                    response = await self._fetch(*fetch)
                    if self.is_closed:
                        job.close()
                        return
                    fetch = job.send(response)
            self.on_fetched()
        except Exception as error:  # noqa: BLE001
            self.failed(what, error)
        finally:
            self._fetching[site] -= 1
        self.ask_again()  # the engine asked before anybody knew of the end

    async def _fetch(self, asked: Asked, at_once: bool) -> Response | None:
        """Return the page of a request as it is now; ``None`` if that is not the page of its URL.

        What is asked for is a copy that reaches the site, and no callback: not Scrapy's HTTP cache,
        where every page holds still. What is no page is not asked for again, and a redirect is not
        followed. The crawl log tells whether that was *at_once* after the fetch before.
        """
        from scrapy_urlnorm.logs.contents import AT_ONCE, LATE  # few pages are fetched again

        assert self.crawler.engine is not None
        request = request_in(asked)
        self.count("learned/second_fetches")
        meta = {name: value for name, value in request.meta.items() if name not in _META}
        meta |= {"dont_cache": True, "dont_redirect": True, "dont_retry": True}
        meta[PAIR_META] = AT_ONCE if at_once else LATE
        again = request.replace(
            callback=NO_CALLBACK, errback=None, cb_kwargs={}, dont_filter=True, meta=meta
        )
        try:
            response = await self.crawler.engine.download_async(again)
        except Exception as error:  # noqa: BLE001 - any failure of a download
            logger.debug("A page could not be fetched again: %r", error)
            return None
        urls = {url.partition("#")[0] for url in (response.url, request.url)}
        return response if response.status == 200 and len(urls) == 1 else None
