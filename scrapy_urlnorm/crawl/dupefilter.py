"""UrlNormDupeFilter: asks a store, and never loses a page to a redirect onto its own key."""

from __future__ import annotations

import logging
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakSet

from scrapy import signals
from scrapy.dupefilters import BaseDupeFilter
from scrapy.exceptions import CloseSpider
from scrapy.utils.request import RequestFingerprinterProtocol, referer_str

from scrapy_urlnorm.crawl.engine import ERROR_REASON, stop_crawl
from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter, redirect_hop
from scrapy_urlnorm.crawl.merges import BeyondScrapy, in_words, rules_between
from scrapy_urlnorm.crawl.parts import parts_of
from scrapy_urlnorm.crawl.settings import STORE
from scrapy_urlnorm.exceptions import StoreError, StoreMismatchError
from scrapy_urlnorm.stores.recent import SeenRecently

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.statscollectors import StatsCollector
    from typing_extensions import Self

    from scrapy_urlnorm.crawl.live.live_rules import LiveRules
    from scrapy_urlnorm.crawl.live.witness import Behind
    from scrapy_urlnorm.stores import Seen

logger = logging.getLogger(__name__)

#: Of so many keys the URL seen first is remembered, to name it when a duplicate is filtered.
REMEMBERED_URLS = 10_000

MISMATCH_REASON = "urlnorm_store_mismatch"  #: why a crawl ended: the keys are of other rules
#: Visits to one URL in a chain of redirects whose keys are equal; see `_is_onto_itself`.
_MAX_VISITS = 2


class UrlNormDupeFilter(BaseDupeFilter):
    """Filters requests whose fingerprint is in the store.

    A redirect whose key stands in its own chain of redirects passes: the site answers ``/a`` with
    a redirect to ``/a/``, both have one key, and the page would be lost otherwise.

    A store that fails ends the crawl with the reason ``urlnorm_store_error``. No request is taken
    for seen on its account.
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
    ) -> None:
        self.store = store
        self._live_rules: LiveRules | None = None
        self.debug = debug
        self._fingerprinter = fingerprinter
        self._explainer = explainer
        self._on_failure = on_failure
        self._stats = stats
        self.has_failed = False  #: whether the store has
        self.uncommitted: dict[bytes, None] = {}  #: keys the store is told of by `commit`
        self._waits = False
        self._is_open = False
        self._has_logged = False
        self._let_pass: WeakSet[Request] = WeakSet()
        self._behind: WeakKeyDictionary[Request, Behind] = WeakKeyDictionary()
        self._first_urls: OrderedDict[bytes, str] = OrderedDict()
        self._beyond_scrapy = BeyondScrapy()

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
        )
        crawler.signals.connect(dupefilter.close, signals.spider_closed)
        parts.put(dupefilter)
        return dupefilter

    @classmethod
    def from_spider(cls, spider: Spider) -> Self:
        """What scrapy-redis calls; it does not call ``open`` afterwards."""
        dupefilter = cls.from_crawler(spider.crawler)
        dupefilter.open()
        return dupefilter

    def clear(self) -> None:
        """Warn that the keys stay: scrapy-redis calls this when it empties its queue."""
        logger.warning(
            "The queue is emptied, but the keys in %(setting)s stay: what was in the queue "
            "counts as seen. Set SCHEDULER_PERSIST to keep both.",
            {"setting": STORE},
        )

    def open(self) -> None:
        """Open the store; raises `CloseSpider` when it cannot be used."""
        if self._is_open:
            return
        try:
            self.store.open()
        except StoreError as error:
            logger.critical(
                "%(setting)s cannot be used, the crawl ends here: %(error)s",
                {"setting": STORE, "error": error},
            )
            is_mismatch = isinstance(error, StoreMismatchError)
            raise CloseSpider(MISMATCH_REASON if is_mismatch else ERROR_REASON) from error
        self._is_open = True

    def close(self, reason: str = "") -> None:
        """Close the store; a second time does nothing."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            self.store.close()
        except StoreError as error:
            if not self.has_failed:
                self.has_failed = True
                self._count("urlnorm/store/errors")
                message = "The store (%(setting)s) could not be closed: %(error)s"
                logger.critical(message, {"setting": STORE, "error": error})

    def consult(self, live_rules: LiveRules) -> None:
        """From now on ask *live_rules* about each request whose key is new."""
        self._live_rules = live_rules

    def wait_for_commits(self) -> None:
        """From now on tell the store of a new key when `commit` is called.

        So a scheduler has the request on disk before its key is there. Not with a store that
        others use: they would not know what this crawler has begun with.
        """
        self._waits = not self.store.is_shared

    def commit(self) -> None:
        """Tell the store of all `uncommitted` keys. Handles a store that fails."""
        keys, self.uncommitted = self.uncommitted, {}
        try:
            self.store.add_many(keys)
        except StoreError as error:
            self._failed(error)

    def request_seen(self, request: Request) -> bool:
        """Whether an equal request was seen before; remembers this one."""
        fingerprint = self._fingerprinter.fingerprint(request)
        if not self.add(fingerprint):
            return request not in self._let_pass and not self._is_onto_itself(request)
        if self._live_rules is not None:
            behind = self._live_rules.on_arrival(request)
            if behind is not None:
                self._behind[request] = behind
                return True
        self._remember(fingerprint, request.url)
        return False

    def _is_onto_itself(self, request: Request) -> bool:
        """Whether *request* is a redirect that came from a URL with its own key.

        A chain of such redirects visits a URL twice at most: a site that sets a cookie redirects
        to the URL that was asked for; one that redirects to it again will do so for ever.
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

    def knows(self, key: bytes) -> bool:
        """Whether the store has *key*, or will have it. Handles a store that fails."""
        if key in self.uncommitted:
            return True
        if self.has_failed:
            return False
        try:
            return key in self.store
        except StoreError as error:
            self._failed(error)
            return False

    def let_pass(self, request: Request) -> None:
        """Take *request*, when it comes, as not seen: it was, under another URL."""
        self._let_pass.add(request)

    def add(self, key: bytes) -> bool:
        """Put *key* into the store; whether it is new. Handles a store that fails."""
        if self._waits:
            if self.knows(key):
                return False
            self.uncommitted[key] = None
            return True
        if self.has_failed:
            return True  # the crawl is ending; a queue on disk keeps the request for the next run
        try:
            return self.store.add(key)
        except StoreError as error:
            self._failed(error)
            return True

    def _failed(self, error: StoreError) -> None:
        self._count("urlnorm/store/errors")
        self.has_failed = True
        logger.critical(
            "The store (%(setting)s) failed, the crawl ends here: %(error)s",
            {"setting": STORE, "error": error},
        )
        self._on_failure()

    def log(self, request: Request, spider: Spider) -> None:
        """Log and count a filtered request as Scrapy's dupefilter does, and say what merged it."""
        behind = self._behind.pop(request, None)
        if behind is not None:
            first: str | None = behind.url
            rules = [rule.kind for rule in behind.rules]
        else:
            first, rules = self._merged_by(request)
        if self.debug or not self._has_logged:
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

    def _merged_by(self, request: Request) -> tuple[str | None, list[str]]:
        """The URL that *request* collided with, and the rules that made the two one.

        Counts them when stock Scrapy would not have merged the two. Of a URL that is no longer
        remembered nothing is claimed.
        """
        fingerprint = self._fingerprinter.fingerprint(request)
        first = self._first_urls.get(fingerprint)
        if first is None or first == request.url or self._explainer is None:
            return None, []
        self._first_urls.move_to_end(fingerprint)
        normalizer = self._explainer.normalizer_for(request)
        if normalizer is None:
            return first, []
        is_beyond = self._beyond_scrapy.is_beyond(first, request.url)
        if not is_beyond and self._has_logged and not self.debug:
            self._count("urlnorm/merged_by_scrapy_too")
            return first, []
        rules = rules_between(normalizer, first, request.url)
        if is_beyond:
            self._count("urlnorm/merged")
            for rule in rules:
                self._count(f"urlnorm/merged/{rule}")
        else:
            self._count("urlnorm/merged_by_scrapy_too")
        return first, rules

    def _remember(self, fingerprint: bytes, url: str) -> None:
        urls = self._first_urls
        urls[fingerprint] = url
        if len(urls) > REMEMBERED_URLS:
            urls.popitem(last=False)

    def _count(self, stat: str) -> None:
        if self._stats is not None:
            self._stats.inc_value(stat)
