"""UrlNormDupeFilter: asks a store, and never loses a page to a redirect onto its own key."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from scrapy import signals
from scrapy.dupefilters import BaseDupeFilter
from scrapy.exceptions import CloseSpider
from scrapy.utils.request import RequestFingerprinterProtocol, referer_str

from scrapy_urlnorm.crawl.awaiting import Awaiting
from scrapy_urlnorm.crawl.components import (
    ERROR_REASON,
    TWIN_META,
    components_of,
    config_of,
    stop_crawl,
    unopened_database,
)
from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter, redirect_hop
from scrapy_urlnorm.crawl.merges import Merges, in_words, stock_key
from scrapy_urlnorm.crawl.requests import purpose_of
from scrapy_urlnorm.crawl.settings import STORE
from scrapy_urlnorm.exceptions import StoreError, StoreMismatchError
from scrapy_urlnorm.text import logger_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.statscollectors import StatsCollector
    from typing_extensions import Self

    from scrapy_urlnorm.crawl.crawl_log import Recording
    from scrapy_urlnorm.stores import Seen

logger = logger_of(__name__)

MISMATCH_REASON = "urlnorm_store_mismatch"  #: why a crawl ended: the keys are of other rules
#: In a loop of redirects, how many requests more than stock Scrapy sends are sent at most.
_MORE_IN_A_LOOP = 2


class UrlNormDupeFilter(BaseDupeFilter):
    """Filters requests whose fingerprint is in the store.

    What stock Scrapy would send is dropped only when the page has arrived: see `awaiting`. A redirect
    passes whose key stands in its own chain of redirects: the site answers ``/a`` with a redirect to
    ``/a/``, both have one key, and the page would be lost otherwise.

    The first failure of the store is logged, counted and ends the crawl (*on_failure*) with the
    reason ``urlnorm_store_error``. After it the store is not asked again, and no key counts as seen
    on its account: a request may be fetched twice, but none is lost.
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
        depth_limit: int = 0,
    ) -> None:
        self.store = store
        self.has_failed = False  #: whether the store has
        self.debug = debug
        #: Says what a request with a new key is held behind: a `Match`, of which the page has the URL
        #: "" if that is unknown; ``None`` lets it into the queue.
        self.on_arrival: Callable[[Request], Any] = lambda request: None
        self._fingerprinter = fingerprinter
        self._stats = stats
        self.merges = Merges(explainer, self.count)
        self._firsts = self.merges.firsts
        self._recording = recording
        self._on_failure = on_failure
        self._has_logged = False
        self.awaiting = Awaiting(self, depth_limit)
        self._let_pass: set[Request] = set()  # for the short while until they come
        self._behind: WeakKeyDictionary[Request, Any] = WeakKeyDictionary()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        components, config = components_of(crawler), config_of(crawler)
        spider = crawler.spider.name if crawler.spider else None
        store = config.new_store(spider, unopened_database(crawler))
        store.caches_keys = True
        recording = None
        if config.jobdir or config.report:
            from scrapy_urlnorm.crawl.crawl_log import recording_of  # most crawls need none of it

            recording = recording_of(crawler)
        dupefilter = cls(
            store,
            crawler.request_fingerprinter,
            explainer=components.find(UrlNormRequestFingerprinter),
            debug=crawler.settings.getbool("DUPEFILTER_DEBUG"),
            on_failure=partial(stop_crawl, crawler),
            stats=crawler.stats,
            recording=recording,
            depth_limit=crawler.settings.getint("DEPTH_LIMIT"),
        )
        if not components.has_spider_middleware:  # it sees only what reaches the spider
            crawler.signals.connect(dupefilter.awaiting.page, signals.response_received)
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
        try:
            self.store.open()
        except StoreError as error:
            logger.critical(f"{STORE} cannot be used, the crawl ends here: %s", error)
            is_mismatch = isinstance(error, StoreMismatchError)
            # Scrapy logs this one with its cause; the line above says all that the user can act on.
            raise CloseSpider(MISMATCH_REASON if is_mismatch else ERROR_REASON) from None
        if self._recording is not None:
            self._recording.open()

    def close(self, reason: str = "") -> None:
        """Close the store; a second time does nothing."""
        try:
            self.store.close()
        except StoreError as error:
            if not self.has_failed:
                self._failed("could not be closed", error)

    def clear(self) -> None:
        """Warn that the keys stay: scrapy-redis calls this when it empties its queue."""
        logger.warning(
            f"The queue is emptied, but the keys in {STORE} stay: what was in the queue "
            "counts as seen. Set SCHEDULER_PERSIST to keep both."
        )

    def let_pass(self, request: Request) -> None:
        """Do not filter *request* when it comes: it was seen, under another URL or before."""
        self._let_pass.add(request)

    def key_of(self, request: Request) -> bytes:
        """Return the fingerprint of *request*, also of one that is set apart on its way."""
        is_apart = "redirect_urls" in request.meta or TWIN_META in request.meta
        return self._fingerprinter.fingerprint(request.copy() if is_apart else request)

    def knows(self, key: bytes) -> bool:
        return bool(self.ask(self.store.__contains__, key, failed=False))

    def has_queued(self, key: bytes) -> bool:
        """Return whether this crawler has let a request with *key* into its queue.

        In a store that is shared any crawler may have put it there. Then only the keys that this
        one has put there lately are known to be its own.
        """
        return self.merges.has_queued(key) if self.store.is_shared else self.knows(key)

    def ask(self, question: Callable[..., Any], *values: object, failed: Any = None) -> Any:
        """Return what the store answers to *question*; *failed* if it has failed, now or before."""
        if not self.has_failed:
            try:
                return question(*values)
            except StoreError as error:
                self._failed("failed, the crawl ends here", error)
                self._on_failure()
        return failed

    def _failed(self, how: str, error: StoreError) -> None:
        self.has_failed = True
        self.count("urlnorm/errors")
        logger.critical(f"The store ({STORE}) {how}: %s", error)

    def request_seen(self, request: Request) -> bool:
        """Return whether *request* is filtered, and remember it.

        That is, whether an equal request was seen before, or learning holds it.
        """
        key, url = self._fingerprinter.fingerprint(request), request.url
        first = self._firsts.get(key)
        if first is not None and first[0] == url and self._drops_at_once(key, request):
            return True
        callback = purpose_of(request)
        if self.awaiting.over.get(key) == callback and self._drops_at_once(key, request):
            return True
        # After a failure the crawl is ending; a queue on disk keeps the request for the next run.
        if not self.ask(self.store.claim, key, url, callback, failed=True):
            if request in self._let_pass:
                self._let_pass.discard(request)
                return False
            if self._is_onto_itself(request):
                self.awaiting.onto_itself(key, request)
                return False
            return self.awaiting.is_filtered(key, request, callback)
        self.awaiting.claimed(key, request)
        behind = self.on_arrival(request)
        # Stock Scrapy would have sent this request, and some of those that are merged with it.
        self.merges.remember(key, url, callback, is_queued=behind is None)
        if behind is not None:
            self._behind[request] = behind
        return behind is not None

    def _drops_at_once(self, key: bytes, request: Request) -> bool:
        """Return whether *request* is dropped, which repeats a URL or has a key that is over.

        Most links of a page are of that kind. In a shared store another crawler may have taken the
        key out.
        """
        if (
            self.has_failed
            or self.store.is_shared
            or "redirect_urls" in request.meta
            or request in self._let_pass
        ):
            return False
        if key not in self.awaiting.over:
            self._firsts.move_to_end(key)
            self.awaiting.unsaved = request
        return True

    def _is_onto_itself(self, request: Request) -> bool:
        """Return whether *request* is a redirect that came from a URL with its own key.

        A site that sets a cookie redirects to a URL that was asked for, but only once: what
        redirects a second time will do so for ever. Stock Scrapy leaves a loop at its first URL
        that it takes for one before.
        """
        urls = [each.partition("#")[0] for each in request.meta.get("redirect_urls") or ()]
        if not urls:
            return False
        visits = urls.count(url := request.url.partition("#")[0])
        more = len(urls) + 1 - len({*map(stock_key, urls), stock_key(url)})
        passes = visits == 0 or (visits == 1 and more <= _MORE_IN_A_LOOP)
        passes = passes and redirect_hop(self._fingerprinter.fingerprint, request) > 0
        if passes:
            self.count("urlnorm/redirects/passed")
        return passes

    def log(self, request: Request, spider: Spider) -> None:
        """Log and count a filtered request as Scrapy's dupefilter does, and say what merged it.

        One that is held is not dropped: then this does nothing.
        """
        held, unsaved = self.awaiting.held, self.awaiting.unsaved
        self.awaiting.held = self.awaiting.unsaved = None
        if held is request:
            return
        is_shown = self.debug or not self._has_logged
        behind = self._behind.pop(request, None)
        first: str | None
        if behind is not None:
            first, rules = behind.page.url, [reason.rule.kind for reason in behind.rules]
        else:
            key = self._fingerprinter.fingerprint(request)
            first, rules, saves = self.merges.merged_by(
                request, key, needs_rules=is_shown, saves=unsaved is not request
            )
            record = None if self._recording is None else self._recording.record
            if record is not None and first != request.url:
                record.add(key, request.url, first, rules, saves=saves)
        if is_shown:
            message = "Filtered duplicate request: %s (referer: %s)%s"
            if not self.debug:
                self._has_logged = True
                message += (
                    " - no more duplicates will be shown"
                    " (see DUPEFILTER_DEBUG to show all duplicates)"
                )
            merged, referer = in_words(first, rules), referer_str(request)
            logger.debug(message, request, referer, merged, extra={"spider": spider})
        self.count("dupefilter/filtered")

    def count(self, stat: str) -> None:
        if self._stats is not None:
            self._stats.inc_value(stat)
