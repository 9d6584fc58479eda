"""UrlNormDupeFilter: asks a store, and never loses a page to a redirect onto its own key."""

from __future__ import annotations

import logging
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakSet

from scrapy import signals
from scrapy.dupefilters import BaseDupeFilter
from scrapy.exceptions import CloseSpider
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.request import RequestFingerprinterProtocol, referer_str

from .exceptions import StoreError, StoreMismatchError
from .fingerprinter import UrlNormRequestFingerprinter, redirect_hop
from .settings import STORE, Config

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.statscollectors import StatsCollector
    from typing_extensions import Self

    from .live_rules import LiveRules
    from .stores import Seen

logger = logging.getLogger(__name__)

#: Of so many keys the URL seen first is remembered, to name it when a duplicate is filtered.
REMEMBERED_URLS = 10_000

MISMATCH_REASON = "urlnorm_store_mismatch"  #: why a crawl ended: the keys are of other rules
ERROR_REASON = "urlnorm_store_error"  #: why a crawl ended: the store failed

RUNNING_FILE = "urlnorm.running"  #: in JOBDIR while a crawl runs; what a killed one leaves there


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
        self.live_rules: LiveRules | None = None  # set by the downloader middleware
        self.debug = debug
        self._fingerprinter = fingerprinter
        self._explainer = explainer
        self._on_failure = on_failure
        self._stats = stats
        self._running: Path | None = None
        self._is_open = False
        self._has_failed = False
        self._has_logged = False
        self._let_pass: WeakSet[Request] = WeakSet()
        self._first_urls: OrderedDict[bytes, str] = OrderedDict()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        config = Config.from_settings(crawler.settings)

        def stop() -> None:
            assert crawler.engine is not None
            deferred_from_coro(crawler.engine.close_spider_async(reason=ERROR_REASON))

        dupefilter = cls(
            config.new_store(),
            crawler.request_fingerprinter,
            explainer=UrlNormRequestFingerprinter.of(crawler),
            debug=crawler.settings.getbool("DUPEFILTER_DEBUG"),
            on_failure=stop,
            stats=crawler.stats,
        )
        if config.jobdir:
            dupefilter._running = Path(config.jobdir, RUNNING_FILE)
        crawler.signals.connect(dupefilter.close, signals.spider_closed)
        _built[crawler] = dupefilter
        return dupefilter

    @classmethod
    def from_spider(cls, spider: Spider) -> Self:
        """What scrapy-redis calls; it does not call ``open`` afterwards."""
        dupefilter = cls.from_crawler(spider.crawler)
        dupefilter.open()
        return dupefilter

    def clear(self) -> None:
        """What scrapy-redis calls to empty it along with its queue."""
        clear = getattr(self.store, "clear", None)
        if clear is not None:
            clear()
        else:
            logger.warning(
                "The queue is emptied, but the keys in %(setting)s stay: what was in the queue "
                "counts as seen. Set SCHEDULER_PERSIST to keep both.",
                {"setting": STORE},
            )

    @classmethod
    def of(cls, crawler: Crawler) -> UrlNormDupeFilter | None:
        """Return the one of this crawl."""
        return _built.get(crawler)

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
        if self._running is not None:
            self._begin_run(self._running)

    def _begin_run(self, running: Path) -> None:
        """Leave a mark in JOBDIR; a mark found there and a queue of Scrapy's mean a loss."""
        if running.exists() and running.with_name("requests.queue").exists():
            logger.warning(
                "The last crawl in %(jobdir)s was killed. Scrapy loses the requests that wait in "
                "its queue then; they count as seen, so their pages will not be fetched. To fetch "
                "them, begin another JOBDIR; what a crawl log says was fetched goes into its "
                "store with scrapy-urlnorm rekey.",
                {"jobdir": str(running.parent)},
            )
        with suppress(OSError):  # only the warning depends on it
            running.touch()

    def close(self, reason: str = "") -> None:
        """Close the store; a second time does nothing."""
        if self._is_open:
            self._is_open = False
            if self._running is not None:
                with suppress(OSError):
                    self._running.unlink()
            self.store.close()

    def request_seen(self, request: Request) -> bool:
        """Whether an equal request was seen before; remembers this one."""
        fingerprint = self._fingerprinter.fingerprint(request)
        keys = None if self.live_rules is None else self.live_rules.keys(request)
        if self.add(fingerprint) if keys is None else self.add(keys[1]) and self.add(keys[0]):
            self._remember(fingerprint, request.url)
            return False
        if request in self._let_pass:
            return False
        if keys is not None:
            return self._is_live_duplicate(request, keys[0])
        return not self._is_onto_itself(request, self._fingerprinter.fingerprint)

    def _is_onto_itself(self, request: Request, fingerprint: Callable[[Request], bytes]) -> bool:
        """Whether *request* is a redirect that came from a URL with its own key."""
        if "redirect_urls" not in request.meta or not redirect_hop(fingerprint, request):
            return False
        self._count("urlnorm/redirects/passed")
        return True

    def _is_live_duplicate(self, request: Request, first: bytes) -> bool:
        """Whether to filter a request to a site with learned rules that has a key seen before.

        *first* is its key under the configured rules.
        """
        live_rules = self.live_rules
        assert live_rules is not None
        if self._is_onto_itself(request, live_rules.configured_fingerprint):
            return False
        if self.knows(first):
            return True
        # By the learned rules it is a duplicate, and by nothing else.
        is_filtered = not self._is_onto_itself(
            request, self._fingerprinter.fingerprint
        ) and live_rules.suppress(request, first)
        return is_filtered or not self.add(first)

    def knows(self, key: bytes) -> bool:
        """Whether the store has *key*. Handles a store that fails."""
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
        if self._has_failed:
            return True  # the crawl is ending; a queue on disk keeps the request for the next run
        try:
            return self.store.add(key)
        except StoreError as error:
            self._failed(error)
            return True

    def _failed(self, error: StoreError) -> None:
        self._count("urlnorm/store/errors")
        self._has_failed = True
        logger.critical(
            "The store (%(setting)s) failed, the crawl ends here: %(error)s",
            {"setting": STORE, "error": error},
        )
        self._on_failure()

    def log(self, request: Request, spider: Spider) -> None:
        """Log and count a filtered request as Scrapy's dupefilter does, and say what merged it."""
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
                "merged": _in_words(first, rules),
            }
            logger.debug(message, arguments, extra={"spider": spider})
        if rules:
            self._count("urlnorm/merged")
            for rule in rules:
                self._count(f"urlnorm/merged/{rule}")
        self._count("dupefilter/filtered")

    def _merged_by(self, request: Request) -> tuple[str | None, list[str]]:
        """The URL that *request* collided with, and the rules that made the two one."""
        first = self._first_urls.get(self._fingerprinter.fingerprint(request))
        if first == request.url or self._explainer is None:
            return None, []
        normalizer = self._explainer.normalizer_for(request)
        if normalizer is None:
            return first, []
        rules = dict.fromkeys(step.rule for step in normalizer.explain(request.url).steps)
        if first is not None:
            rules.update(dict.fromkeys(step.rule for step in normalizer.explain(first).steps))
        return first, list(rules)

    def _remember(self, fingerprint: bytes, url: str) -> None:
        urls = self._first_urls
        urls[fingerprint] = url
        if len(urls) > REMEMBERED_URLS:
            urls.popitem(last=False)

    def _count(self, stat: str) -> None:
        if self._stats is not None:
            self._stats.inc_value(stat)


_built: WeakKeyDictionary[Crawler, UrlNormDupeFilter] = WeakKeyDictionary()


def _in_words(first: str | None, rules: list[str]) -> str:
    if not rules:
        return ""
    merged_with = f" merged with {first}" if first else " merged"
    return f"{merged_with} by {', '.join(rules)}"
