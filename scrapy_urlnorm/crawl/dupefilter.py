"""UrlNormDupeFilter: asks a store, and never loses a page to a redirect onto its own key."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary, WeakSet

from scrapy import signals
from scrapy.dupefilters import BaseDupeFilter
from scrapy.utils.request import RequestFingerprinterProtocol, referer_str

from scrapy_urlnorm.crawl.engine import stop_crawl
from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter, redirect_hop
from scrapy_urlnorm.crawl.merges import Merges, in_words, stock_key
from scrapy_urlnorm.crawl.parts import parts_of
from scrapy_urlnorm.crawl.recording import Recording, recording_of
from scrapy_urlnorm.crawl.seen_keys import SeenKeys
from scrapy_urlnorm.crawl.settings import STORE
from scrapy_urlnorm.stores.recent import SeenRecently

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.statscollectors import StatsCollector
    from typing_extensions import Self

    from scrapy_urlnorm.crawl.merges import Behind
    from scrapy_urlnorm.stores import Seen

logger = logging.getLogger(__name__)

#: Visits to one URL in a chain of redirects whose keys are equal; see `_is_onto_itself`.
_MAX_VISITS = 2


class ArrivalDecision(Protocol):
    """Whoever decides about requests whose key is new: `LiveRules`."""

    def on_arrival(self, request: Request) -> Behind | None:
        """Return what *request* is withheld behind; ``None`` to let it into the queue."""


class UrlNormDupeFilter(BaseDupeFilter):
    """Filters requests whose fingerprint is in the store.

    It lets a redirect pass whose key stands in its own chain of redirects: the site answers ``/a``
    with a redirect to ``/a/``, both have one key, and the page would be lost otherwise.

    A store that fails ends the crawl with the reason ``urlnorm_store_error``. No request is taken
    for seen on its account. Everything about the store is in :attr:`keys`.
    """

    def __init__(
        self,
        store: Seen,
        fingerprinter: RequestFingerprinterProtocol,
        *,
        explainer: UrlNormRequestFingerprinter | None = None,
        debug: bool = False,
        on_failure: Callable[[], None] = lambda: None,
        stats: StatsCollector | None = None,
        recording: Recording | None = None,
    ) -> None:
        self.keys = SeenKeys(store, on_failure=on_failure, count=self._count)
        self.debug = debug
        self._fingerprinter = fingerprinter
        self._stats = stats
        self._merges = Merges(explainer, self._count)
        self._recording = recording
        self._decision: ArrivalDecision | None = None
        self._has_logged = False
        self._let_pass: WeakSet[Request] = WeakSet()
        self._behind: WeakKeyDictionary[Request, Behind] = WeakKeyDictionary()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        parts = parts_of(crawler)
        config = parts.config(crawler.settings)
        store = config.new_store(crawler.spider.name if crawler.spider else None)
        dupefilter = cls(
            SeenRecently(store) if store.is_shared else store,
            crawler.request_fingerprinter,
            explainer=parts.find(UrlNormRequestFingerprinter),
            debug=crawler.settings.getbool("DUPEFILTER_DEBUG"),
            on_failure=partial(stop_crawl, crawler),
            stats=crawler.stats,
            recording=recording_of(crawler),
        )
        crawler.signals.connect(dupefilter.close, signals.spider_closed)
        parts.put(dupefilter)
        return dupefilter

    @classmethod
    def from_spider(cls, spider: Spider) -> Self:
        """Return an open dupefilter: scrapy-redis calls this, and does not call `open`."""
        dupefilter = cls.from_crawler(spider.crawler)
        dupefilter.open()
        return dupefilter

    def open(self) -> None:
        """Open the store. Raises `CloseSpider` when it cannot be used."""
        self.keys.open()
        if self._recording is not None:
            self._recording.open()

    def close(self, reason: str = "") -> None:
        """Close the store; a second time does nothing."""
        self.keys.close()

    def clear(self) -> None:
        """Warn that the keys stay: scrapy-redis calls this when it empties its queue."""
        logger.warning(
            "The queue is emptied, but the keys in %(setting)s stay: what was in the queue "
            "counts as seen. Set SCHEDULER_PERSIST to keep both.",
            {"setting": STORE},
        )

    def consult(self, decision: ArrivalDecision) -> None:
        """Ask *decision* about each request whose key is new, from now on."""
        self._decision = decision

    def let_pass(self, request: Request) -> None:
        """Do not filter *request* when it comes: it was seen, under another URL or before."""
        self._let_pass.add(request)

    def has_queued(self, key: bytes) -> bool:
        """Return whether this crawler has let a request with *key* into its queue.

        In a store that is shared any crawler may have put it there. Then only the keys that this
        one has put there lately are known to be its own.
        """
        if self.keys.store.is_shared:
            return self._merges.has_queued(key)
        return self.keys.knows(key)

    def request_seen(self, request: Request) -> bool:
        """Return whether *request* is filtered, and remember it.

        That is, whether an equal request was seen before, or a learned rule withholds it.
        """
        key = self._fingerprinter.fingerprint(request)
        if self.keys.add(key):
            return self._is_withheld(request, key)
        if request in self._let_pass:
            return False
        return not self._is_onto_itself(request)

    def _is_withheld(self, request: Request, key: bytes) -> bool:
        behind = None if self._decision is None else self._decision.on_arrival(request)
        # Stock Scrapy would have sent this request, and some of those that are merged with it.
        self._merges.remember(key, request.url, is_queued=behind is None)
        if behind is None:
            return False
        self._behind[request] = behind
        return True

    def _is_onto_itself(self, request: Request) -> bool:
        """Return whether *request* is a redirect that came from a URL with its own key.

        A chain of such redirects visits a URL twice at most: a site that sets a cookie redirects
        to the URL that was asked for. A site that does so a second time will do so for ever.
        """
        urls = request.meta.get("redirect_urls")
        if not urls:
            return False
        url = request.url.partition("#")[0]
        if sum(each.partition("#")[0] == url for each in urls) >= _MAX_VISITS:
            return False
        if not redirect_hop(self._fingerprinter.fingerprint, request):
            return False
        self._count("urlnorm/redirects/passed")
        return True

    def withheld(self, key: bytes, url: str, behind: Behind) -> None:
        """Take note that a request with *key* is withheld because of what was learned."""
        if self._recording is not None:
            saves = stock_key(behind.url) != stock_key(url)
            self._recording.dropped(key, url, behind.url or None, behind.rules, saves=saves)

    def log(self, request: Request, spider: Spider) -> None:
        """Log and count a filtered request as Scrapy's dupefilter does, and say what merged it."""
        is_shown = self.debug or not self._has_logged
        behind = self._behind.pop(request, None)
        if behind is not None:
            first: str | None = behind.url
            rules = [rule.kind for rule in behind.rules]
        else:
            key = self._fingerprinter.fingerprint(request)
            first, rules, saves = self._merges.merged_by(request, key, needs_rules=is_shown)
            if self._recording is not None and first != request.url:
                self._recording.dropped(key, request.url, first, rules, saves=saves)
        if is_shown:
            message = "Filtered duplicate request: %(request)s (referer: %(referer)s)%(merged)s"
            if not self.debug:
                self._has_logged = True
                message += (
                    " - no more duplicates will be shown"
                    " (see DUPEFILTER_DEBUG to show all duplicates)"
                )
            arguments = {
                "request": request,
                "referer": referer_str(request),
                "merged": in_words(first, rules),
            }
            logger.debug(message, arguments, extra={"spider": spider})
        self._count("dupefilter/filtered")

    def _count(self, stat: str) -> None:
        if self._stats is not None:
            self._stats.inc_value(stat)
