"""The middlewares: they see requests leave, redirects come back, and pages reach the spider.

They also begin and end what is learned, and say where a part of ours is missing.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.exceptions import DontCloseSpider, IgnoreRequest
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name

from scrapy_urlnorm.crawl.awaiting import why_none
from scrapy_urlnorm.crawl.components import (
    TWIN_META,
    components_of,
    config_of,
    database_of,
    target_of,
)
from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter
from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter, redirect_hop
from scrapy_urlnorm.crawl.merges import stock_key
from scrapy_urlnorm.crawl.online.summary import summary
from scrapy_urlnorm.crawl.settings import CRAWL_LOG, HELD, REPORT
from scrapy_urlnorm.exceptions import ConfigError, StoreError
from scrapy_urlnorm.text import logger_of
from scrapy_urlnorm.url import parse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings
    from typing_extensions import Self

    from scrapy_urlnorm.crawl.got import Got

#: Just inside RedirectMiddleware (600). So every 3xx passes here before it becomes a request. And
#: a request that is dropped or rewritten here has no cookies yet (700), no proxy (750), no place
#: in the download statistics (850) and no answer from the HTTP cache (900).
PRIORITY = 610
#: The last one before the spider: no other middleware can drop a page that gets here.
SPIDER_PRIORITY = 1_000

#: Statuses that ask to try again later: request timeout, too early, too many requests.
_NOT_NOW = (408, 425, 429)

_NOT_LEARNED = "Nothing is learned in this crawl"
_NOT_KNOWN = (
    "What this crawl saved is not known: it is counted by scrapy_urlnorm.UrlNormDupeFilter, and "
    "DUPEFILTER_CLASS is another one."
)

logger = logger_of(__name__)


class UrlNormDownloaderMiddleware:
    """Rewrites requests when asked to, and tells the learner of redirects.

    It never drops a request with ``dont_filter``, a retry, or a redirect in progress.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._components = components = components_of(crawler)
        self._crawler, self._config = crawler, config_of(crawler)
        self._fingerprinter = components.find(UrlNormRequestFingerprinter)
        self._dupefilter: Any = None  # `UrlNormDupeFilter`, once the spider is open
        self._redirects_are_followed = crawler.settings.getbool("REDIRECT_ENABLED")
        self._has_cache = crawler.settings.getbool("HTTPCACHE_ENABLED")
        components.has_middleware = True
        # The dupefilter does not exist before the spider is opened.
        crawler.signals.connect(self.spider_opened, signals.spider_opened)
        components.at_close.append(self.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        config = config_of(crawler)
        if config.learn != "off" and config.held == "last":
            _refuse_foreign_scheduler(crawler.settings)
        return cls(crawler)

    def spider_opened(self, spider: Spider) -> None:
        """Find the dupefilter of this crawl and begin to learn.

        Learning needs our dupefilter, and our fingerprinter as that of the crawl. Without either,
        a learned rule could lose a page.
        """
        crawler, config = self._crawler, self._config
        components, fingerprinter = self._components, self._fingerprinter
        self._dupefilter = dupefilter = components.find(UrlNormDupeFilter)
        if dupefilter is not None:
            crawler.signals.connect(self._idle, signals.spider_idle)
        learns = config.learn != "off"
        for warning in missing_parts(crawler):
            logger.warning("%s", warning, extra={"spider": spider})
        if fingerprinter is not crawler.request_fingerprinter or fingerprinter is None:
            return
        if dupefilter is None or dupefilter.has_failed or not (learns or config.database):
            return
        from scrapy_urlnorm.crawl.frontier import CrawlFrontier  # a crawl may learn nothing
        from scrapy_urlnorm.crawl.online.learner import Learner

        try:
            database, frontier = database_of(crawler), CrawlFrontier(crawler, dupefilter)
            learner = Learner(frontier, config, fingerprinter, dupefilter.store, database)
        except StoreError as error:
            logger.error(f"{_NOT_LEARNED}: %s", error)
            return
        if not learns:
            learner.release_all()  # an earlier run may have learned
            return
        components.learner = learner
        dupefilter.on_arrival = learner.on_arrival
        dupefilter.awaiting.is_held = learner.holds
        crawler.signals.connect(self._answer_received, signals.response_received)
        crawler.signals.connect(self._item_failed, signals.item_error)
        crawler.signals.connect(self._item_dropped, signals.item_dropped)
        crawler.signals.connect(self._item_scraped, signals.item_scraped)
        if not components.has_spider_middleware:
            crawler.signals.connect(self._response_received, signals.response_received)

    def spider_closed(self) -> None:
        """Write the file of learned rules, and say what was saved."""
        learner, stats = self._components.learner, self._crawler.stats
        assert stats is not None
        learned: tuple[Any, ...] = ({}, None, {})
        held = 0
        if learner is not None:
            held, bound = learner.saved(), learner.bound()
            learned = learner.counts, bound, learner.barren
            learner.close()
            if bound is not None:
                stats.set_value("urlnorm/learned/held_at_end", bound.held)
                stats.set_value("urlnorm/learned/wrong_at_most", bound.wrong)
        said = [_NOT_KNOWN]
        if self._dupefilter is not None:
            again = stats.get_value("urlnorm/learned/second_fetches", 0)
            merged = stats.get_value("urlnorm/merged", 0)
            stats.set_value("urlnorm/saved", merged + held - again)
            said = list(summary(stats.get_stats(), *learned, is_finer=self._config.is_finer))
        for line in said:
            logger.info("%s", line, extra={"spider": self._crawler.spider})

    def _idle(self) -> None:
        awaiting, learner = self._dupefilter.awaiting, self._components.learner
        if awaiting.idle() or (learner is not None and learner.idle()):
            raise DontCloseSpider
        awaiting.end()

    def _answer_received(self, response: Response, request: Request) -> None:
        """Tell of robots.txt, and of an answer that says that there is no such page, or not for us.

        RobotsTxtMiddleware downloads robots.txt. `process_response` would see it compressed.
        """
        if request.callback is NO_CALLBACK:
            if response.status == 200:
                self._components.learner.robots_txt(request, response)
        elif 400 <= response.status < 500 and response.status not in _NOT_NOW:
            self._components.learner.missing(request)

    def _item_failed(self, response: object) -> None:
        """Tell of a page with whose item a pipeline failed: another URL may give it."""
        if request := getattr(response, "request", None):
            self._components.learner.raised(request)

    def _item_dropped(self, response: object) -> None:
        if request := getattr(response, "request", None):
            self._components.learner.dropped(request)

    def _item_scraped(self, response: object) -> None:
        if request := getattr(response, "request", None):
            self._components.learner.scraped(request)

    def _response_received(self, response: Response, request: Request) -> None:
        """Tell of a page where our spider middleware is missing.

        That one is better: it sees only pages that reach the spider.
        """
        if 200 <= response.status < 300:
            self._components.learner.page(request, response)

    def process_request(self, request: Request) -> Request | None:
        """Return the request to send instead, or ``None``. Raise `IgnoreRequest` to drop it."""
        fingerprinter = self._fingerprinter
        if "redirect_urls" in request.meta:
            # A redirect in progress is not rewritten: the site might redirect it back for ever.
            if fingerprinter and (hop := redirect_hop(fingerprinter.fingerprint, request)):
                fingerprinter.set_apart(request, f"redirect {hop}")
        elif TWIN_META in request.meta:
            # Nor is this one: rewritten, it would be what has brought no page.
            if fingerprinter and self._has_cache:
                fingerprinter.set_apart(request, stock_key(request.url))
        elif (rewritten := self._rewritten(request)) is not None:
            return rewritten
        if self._is_held(request):
            raise IgnoreRequest("A learned rule makes it equal to a page that has arrived")
        if parse(request.url) is None:
            logger.debug("No URL that can be parsed, so its own key: %s", request.url)
        return None

    def _is_held(self, request: Request) -> bool:
        """Decide about a request that a scheduler other than ours gave out.

        Our own scheduler has asked already, and then neither callback nor errback is called.
        """
        learner = self._components.learner
        if learner is None or learner.has_asking_queue:
            return False
        learner.work()
        return learner.is_scheduled(request) and not learner.on_leaving(request)

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Note why *request* may bring no page: a middleware dropped it, or its download failed."""
        is_ignored = isinstance(exception, IgnoreRequest)
        is_robots = is_ignored and "robots.txt" in str(exception)
        self._note(request, "robots" if is_robots else "ignored" if is_ignored else "error")

    def _note(self, request: Request, why: str) -> None:
        if self._dupefilter is not None:
            self._dupefilter.awaiting.note(request, why)

    def process_response(self, request: Request, response: Response) -> Response:
        """Tell the learner of a redirect that Scrapy will follow, and note what is no page."""
        if not 200 <= response.status < 300 or not response.body:
            self._note(request, why_none(response.status))
        if (
            (learner := self._components.learner) is not None
            and self._is_followed(request, response.status)
            and (target := target_of(response, request.url))
            and target.startswith(("http://", "https://"))
        ):
            learner.redirect(request, target, status=response.status)
        return response

    def _is_followed(self, request: Request, status: int) -> bool:
        meta = request.meta
        return (
            self._redirects_are_followed
            and not meta.get("dont_redirect")
            and not meta.get("handle_httpstatus_all")
            and status not in meta.get("handle_httpstatus_list", ())
            and status not in getattr(self._crawler.spider, "handle_httpstatus_list", ())
        )

    def _rewritten(self, request: Request) -> Request | None:
        """Return *request* with its normalized URL; ``None`` when there is nothing to change.

        It goes back to the scheduler, whose dupefilter has just seen its key. Our dupefilter is
        told to let it pass. Past any other it gets with ``dont_filter``, which also takes it past
        the offsite check.
        """
        meta = request.meta
        if (
            self._config.rewriter is None
            or request.method not in ("GET", "HEAD")
            or request.callback is NO_CALLBACK  # robots.txt, images: a component wants this URL
            or meta.get("verbatim_url")
            or meta.get("urlnorm", True) is not True
            or "urlnorm_key" in meta  # with another URL it would still have that key
        ):
            return None
        url = self._config.rewriter.normalize(request.url)
        if url == request.url:
            return None
        new = request.replace(url=url)
        # Request may encode a URL its own way; one that would be rewritten again stays as it is.
        if new.url == request.url or self._config.rewriter.normalize(new.url) != new.url:
            return None
        if self._dupefilter is not None:
            self._dupefilter.let_pass(new)
            self._dupefilter.awaiting.again(new)
        else:
            new.dont_filter = True
        logger.debug("Rewrote %s to %s", request.url, new.url)
        return new


class UrlNormSpiderMiddleware:
    """Tells the dupefilter, and `Learner`, of every page with a 2xx status that the spider gets.

    Other requests are dropped, or suppressed, behind no other page. And it tells `Learner` what the
    spider got out of the page.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._components = components_of(crawler)
        self._components.has_spider_middleware = True

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def process_spider_input(self, response: Response) -> None:
        request, learner = response.request, self._components.learner
        if request is None or not 200 <= response.status < 300:
            return
        if (dupefilter := self._components.find(UrlNormDupeFilter)) is not None:
            dupefilter.awaiting.page(request, response)
        if learner is not None:
            learner.page(request, response)

    def process_spider_output(
        self, response: Response, result: Iterable[object]
    ) -> Iterator[object]:
        with self._telling(response) as got:
            for each in result:
                if got is not None:
                    got.add(each)
                yield each

    async def process_spider_output_async(
        self, response: Response, result: AsyncIterator[object]
    ) -> AsyncIterator[object]:
        with self._telling(response) as got:
            async for each in result:
                if got is not None:
                    got.add(each)
                yield each

    def process_spider_exception(self, response: Response, exception: Exception) -> None:
        learner, request = self._components.learner, response.request
        if learner is not None and request is not None:
            learner.raised(request)

    @contextmanager
    def _telling(self, response: Response) -> Iterator[Got | None]:
        """Tell what a callback has yielded, or that it raised in the middle of that."""
        learner, request = self._components.learner, response.request
        is_page = learner is not None and request is not None and 200 <= response.status < 300
        got = learner.got_of(request, response) if is_page else None
        try:
            yield got
        except Exception as error:
            self.process_spider_exception(response, error)
            raise
        if got is not None:
            learner.got(got)


# --- what a crawl goes without ------------------------------------------------------------------


def _refuse_foreign_scheduler(settings: BaseSettings) -> None:
    """Raise `ConfigError` for a scheduler that cannot send what is held."""
    name = settings["SCHEDULER"]
    if not getattr(load_object(name), "sends_what_is_held", False):
        raise ConfigError(
            f"{HELD} = 'last' needs scrapy_urlnorm.Scheduler or SharedScheduler, and SCHEDULER is "
            f"{name!r}: what is held would pass through a queue that other crawlers may share. "
            f"Accepted with it: {HELD} = 'drop'"
        )


def missing_parts(crawler: Crawler) -> Iterator[str]:
    """Yield a warning for each part of ours that is missing: what is lost, and the cure."""
    components = components_of(crawler)
    if components.find(UrlNormRequestFingerprinter) is not crawler.request_fingerprinter:
        yield from _without_fingerprinter(crawler)
    if components.find(UrlNormDupeFilter) is None:
        yield from _without_dupefilter(crawler)
    elif not components.has_crawl_log:
        for name in (CRAWL_LOG, REPORT):
            if path := crawler.settings.get(name):
                remedy = 'EXTENSIONS = {"scrapy_urlnorm.CrawlLog": 500} writes it.'
                yield f"{name} = {str(path)!r} is not written. {remedy}"


def _without_fingerprinter(crawler: Crawler) -> Iterator[str]:
    components, name = components_of(crawler), "REQUEST_FINGERPRINTER_CLASS"
    is_wrapped = components.find(UrlNormRequestFingerprinter) is not None
    has_dupefilter = components.find(UrlNormDupeFilter) is not None
    if components.is_addon_used and not is_wrapped:
        lost = "URL normalization has no effect on fingerprints, and nothing is learned"
    elif config_of(crawler).learn != "off" and (is_wrapped or has_dupefilter):
        lost = _NOT_LEARNED
    else:
        return
    remedy = (
        "It is set by an add-on that runs after ours: "
        "Give scrapy_urlnorm.Addon a higher number in ADDONS."
        if components.is_addon_used
        else f"{name} = 'scrapy_urlnorm.UrlNormRequestFingerprinter' ends this."
    )
    kind = global_object_name(load_object(crawler.settings[name]))
    yield f"{lost}: {name} is {kind}. {remedy}"


def _without_dupefilter(crawler: Crawler) -> Iterator[str]:
    config, kind = config_of(crawler), load_object(crawler.settings["DUPEFILTER_CLASS"])
    filters = kind is not BaseDupeFilter
    is_of_redis = any(base.__module__.startswith("scrapy_redis.") for base in kind.__mro__)
    may_ask = filters and not (is_of_redis or issubclass(kind, RFPDupeFilter))
    lost = {
        "Nothing is normalized: it does not ask the request fingerprinter": is_of_redis,
        "Nothing is normalized, unless it asks the request fingerprinter": may_ask,
        "A redirect onto an equal URL may lose its page": filters,
        _NOT_LEARNED: config.learn != "off",
        f"{REPORT} = {config.report!r} is not written": bool(config.report),
    }
    if any(lost.values()):
        said = ". ".join(text for text, is_lost in lost.items() if is_lost)
        ends = "scrapy_urlnorm.UrlNormDupeFilter ends this."
        yield f"DUPEFILTER_CLASS is {global_object_name(kind)}. {said}. {ends}"
