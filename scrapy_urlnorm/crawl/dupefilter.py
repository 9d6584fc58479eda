"""UrlNormDupeFilter: asks a store, and never loses a page to a redirect onto its own key."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary, WeakSet

from scrapy import signals
from scrapy.dupefilters import BaseDupeFilter
from scrapy.exceptions import CloseSpider
from scrapy.utils.request import RequestFingerprinterProtocol, referer_str

from scrapy_urlnorm.crawl.components import (
    ERROR_REASON,
    components_of,
    config_of,
    stop_crawl,
    unopened_database,
)
from scrapy_urlnorm.crawl.crawl_log import Recording, recording_of
from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter, redirect_hop
from scrapy_urlnorm.crawl.merges import Merges, in_words
from scrapy_urlnorm.crawl.settings import STORE
from scrapy_urlnorm.exceptions import StoreError, StoreMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.statscollectors import StatsCollector
    from typing_extensions import Self

    from scrapy_urlnorm.stores import Seen

logger = logging.getLogger(__name__)

MISMATCH_REASON = "urlnorm_store_mismatch"  #: why a crawl ended: the keys are of other rules
#: Visits to one URL in a chain of redirects whose keys are equal; see `_is_onto_itself`.
_MAX_VISITS = 2


class Behind(Protocol):
    """What a request is held behind: the URL of a page, "" if unknown, and what was learned."""

    @property
    def url(self) -> str: ...

    @property
    def rules(self) -> Sequence[Any]: ...  # each with a kind


class ArrivalDecision(Protocol):
    """Whoever decides about requests whose key is new."""

    def on_arrival(self, request: Request) -> Behind | None:
        """Return what *request* is held behind; ``None`` to let it into the queue."""


class SeenKeys:
    """The store of one crawl. Its first failure is logged, counted and ends the crawl.

    After a failure the store is not asked again, and no key counts as seen on its account: a
    request may be fetched twice, but none is lost. *on_failure* ends the crawl; *count* adds one
    to a statistic.
    """

    def __init__(
        self, store: Seen, *, on_failure: Callable[[], None], count: Callable[[str], None]
    ) -> None:
        self.store = store
        self.has_failed = False  #: whether the store has
        self._on_failure = on_failure
        self._count = count

    def open(self) -> None:
        """Open the store. Raises `CloseSpider` when it cannot be used."""
        try:
            self.store.open()
        except StoreError as error:
            message = "%(setting)s cannot be used, the crawl ends here: %(error)s"
            logger.critical(message, {"setting": STORE, "error": error})
            is_mismatch = isinstance(error, StoreMismatchError)
            raise CloseSpider(MISMATCH_REASON if is_mismatch else ERROR_REASON) from error

    def close(self) -> None:
        """Close the store; a second time does nothing."""
        try:
            self.store.close()
        except StoreError as error:
            if not self.has_failed:
                self._note("The store (%(setting)s) could not be closed: %(error)s", error)

    def knows(self, key: bytes) -> bool:
        """Return whether the store has *key*."""
        if not self.has_failed:
            try:
                return key in self.store
            except StoreError as error:
                self._fail(error)
        return False

    def add(self, key: bytes) -> bool:
        """Put *key* into the store. Return whether it is new."""
        if not self.has_failed:
            try:
                return self.store.add(key)
            except StoreError as error:
                self._fail(error)
        return True  # the crawl is ending; a queue on disk keeps the request for the next run

    def _fail(self, error: StoreError) -> None:
        self._note("The store (%(setting)s) failed, the crawl ends here: %(error)s", error)
        self._on_failure()

    def _note(self, message: str, error: StoreError) -> None:
        self.has_failed = True
        self._count("urlnorm/store/errors")
        logger.critical(message, {"setting": STORE, "error": error})


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
        components = components_of(crawler)
        spider = crawler.spider.name if crawler.spider else None
        store = config_of(crawler).new_store(spider, unopened_database(crawler))
        if store.is_shared:
            from scrapy_urlnorm.stores.redis import SeenRecently

            store = SeenRecently(store)
        dupefilter = cls(
            store,
            crawler.request_fingerprinter,
            explainer=components.find(UrlNormRequestFingerprinter),
            debug=crawler.settings.getbool("DUPEFILTER_DEBUG"),
            on_failure=partial(stop_crawl, crawler),
            stats=crawler.stats,
            recording=recording_of(crawler),
        )
        crawler.signals.connect(dupefilter.close, signals.spider_closed)
        components.put(dupefilter)
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
        is_shared = self.keys.store.is_shared
        return self._merges.has_queued(key) if is_shared else self.keys.knows(key)

    def request_seen(self, request: Request) -> bool:
        """Return whether *request* is filtered, and remember it.

        That is, whether an equal request was seen before, or learning holds it.
        """
        key = self._fingerprinter.fingerprint(request)
        if self.keys.add(key):
            return self._is_held(request, key)
        return request not in self._let_pass and not self._is_onto_itself(request)

    def _is_held(self, request: Request, key: bytes) -> bool:
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
        url = request.url.partition("#")[0]
        urls = [each.partition("#")[0] for each in request.meta.get("redirect_urls") or ()]
        passes = len(urls) > 0 and urls.count(url) < _MAX_VISITS
        passes = passes and redirect_hop(self._fingerprinter.fingerprint, request) > 0
        if passes:
            self._count("urlnorm/redirects/passed")
        return passes

    def log(self, request: Request, spider: Spider) -> None:
        """Log and count a filtered request as Scrapy's dupefilter does, and say what merged it."""
        is_shown = self.debug or not self._has_logged
        behind = self._behind.pop(request, None)
        first: str | None
        if behind is not None:
            first, rules = behind.url, [rule.kind for rule in behind.rules]
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
            merged, referer = in_words(first, rules), referer_str(request)
            arguments = {"request": request, "referer": referer, "merged": merged}
            logger.debug(message, arguments, extra={"spider": spider})
        self._count("dupefilter/filtered")

    def _count(self, stat: str) -> None:
        if self._stats is not None:
            self._stats.inc_value(stat)
