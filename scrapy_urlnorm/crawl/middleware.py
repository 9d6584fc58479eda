"""UrlNormDownloaderMiddleware: sees requests leave, and their redirects come back."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import DontCloseSpider, IgnoreRequest
from scrapy.http.request import NO_CALLBACK

from scrapy_urlnorm.crawl.database import Database
from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter
from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter, redirect_hop
from scrapy_urlnorm.crawl.live.live_rules import LiveRules
from scrapy_urlnorm.crawl.live.report import Saved, summary
from scrapy_urlnorm.crawl.parts import parts_of
from scrapy_urlnorm.crawl.queue.pending import PendingRequests
from scrapy_urlnorm.crawl.recording import Recording
from scrapy_urlnorm.crawl.redirects import REDIRECTS, target_of
from scrapy_urlnorm.crawl.settings import LEARN
from scrapy_urlnorm.crawl.spider_middleware import UrlNormSpiderMiddleware
from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.url import parse

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.statscollectors import StatsCollector
    from typing_extensions import Self

    from scrapy_urlnorm.crawl.settings import Config

#: Just inside RedirectMiddleware (600). So every 3xx passes here before it becomes a request. And
#: a request that is dropped or rewritten here has no cookies yet (700), no proxy (750), no place
#: in the download statistics (850) and no answer from the HTTP cache (900).
PRIORITY = 610

#: Statuses that ask to try again later: request timeout, too early, too many requests.
_NOT_NOW = (408, 425, 429)

logger = logging.getLogger(__name__)


class UrlNormDownloaderMiddleware:
    """Rewrites requests when asked to, and tells the live rules of redirects.

    It never drops a request with ``dont_filter``, a retry, or a redirect in progress.
    """

    def __init__(
        self,
        fingerprinter: UrlNormRequestFingerprinter | None,
        config: Config,
        *,
        stats: StatsCollector | None = None,
    ) -> None:
        self._config = config
        self._rewriter = config.rewriter
        self._fingerprinter = fingerprinter
        self._dupefilter: UrlNormDupeFilter | None = None
        self._live_rules: LiveRules | None = None
        self._database: Database | None = None  # the temporary one of a crawl without JOBDIR
        self._recording: Recording | None = None
        self._spider: Spider | None = None
        self._redirects_are_followed = True
        self._stats = stats

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        parts = parts_of(crawler)
        middleware = cls(
            parts.find(UrlNormRequestFingerprinter),
            parts.config(crawler.settings),
            stats=crawler.stats,
        )
        # The dupefilter does not exist before the spider is opened.
        crawler.signals.connect(middleware.spider_opened, signals.spider_opened)
        crawler.signals.connect(middleware.spider_closed, signals.spider_closed)
        return middleware

    def spider_opened(self, spider: Spider) -> None:
        """Find the dupefilter of this crawl and begin to learn.

        Learning needs our dupefilter, and our fingerprinter as that of the crawl. Without either,
        a learned rule could lose a page.
        """
        crawler = spider.crawler
        self._spider = spider
        self._redirects_are_followed = crawler.settings.getbool("REDIRECT_ENABLED")
        parts = parts_of(crawler)
        self._dupefilter = parts.find(UrlNormDupeFilter)
        self._recording = parts.find(Recording)
        learns = self._config.learn != "off"
        makes_keys = (
            self._fingerprinter is not None and self._fingerprinter is crawler.request_fingerprinter
        )
        if not makes_keys or self._dupefilter is None:
            if learns and (makes_keys or self._dupefilter is not None):
                self._warn_of_others(crawler, makes_keys=makes_keys)
            return
        assert self._fingerprinter is not None
        pending = parts.find(PendingRequests)
        if not learns and pending is None:
            return
        try:
            database: Database | None = pending
            if database is None:
                database = self._database = Database.temporary()
            live_rules = LiveRules(
                crawler, self._config, self._fingerprinter, self._dupefilter, database
            )
        except StoreError as error:
            logger.error("Nothing is learned in this crawl: %(error)s", {"error": error})
            return
        if not learns:
            live_rules.release_all()  # an earlier run may have learned
            return
        self._live_rules = live_rules
        parts.put(live_rules)
        self._dupefilter.consult(live_rules)
        crawler.signals.connect(self._idle, signals.spider_idle)
        crawler.signals.connect(self._answer_received, signals.response_received)
        if parts.find(UrlNormSpiderMiddleware) is None:
            crawler.signals.connect(self._response_received, signals.response_received)

    @staticmethod
    def _warn_of_others(crawler: Crawler, *, makes_keys: bool) -> None:
        """Say that nothing is learned, because only one of the two that it takes is ours."""
        name = "DUPEFILTER_CLASS" if makes_keys else "REQUEST_FINGERPRINTER_CLASS"
        logger.warning(
            "Nothing is learned in this crawl: %(setting)s is %(value)s, and learning needs that of "
            "scrapy_urlnorm. %(learn)s = 'off' ends this warning",
            {"setting": name, "value": crawler.settings.get(name), "learn": LEARN},
        )

    def spider_closed(self) -> None:
        """Write the file of learned rules, close the database, and say what was saved."""
        saved, live_rules = Saved(), self._live_rules
        if live_rules is not None:
            saved = live_rules.saved()
            if self._recording is not None:
                self._recording.learned(live_rules.rules, live_rules.tested())
            live_rules.close()
        if self._database is not None:
            self._database.close()
        stats = self._stats
        if stats is None:
            return
        if live_rules is not None:
            stats.set_value("urlnorm/learned/in_force", live_rules.in_force)
        stats.set_value("urlnorm/saved", stats.get_value("urlnorm/merged", 0) + saved.total)
        extra = {"spider": self._spider}
        logger.info("%(summary)s", {"summary": summary(stats.get_stats(), saved)}, extra=extra)

    def _idle(self) -> None:
        assert self._live_rules is not None
        if self._live_rules.idle():
            raise DontCloseSpider

    def _answer_received(self, response: Response, request: Request) -> None:
        """Tell of robots.txt, and of an answer that says that there is no such page, or not for us.

        RobotsTxtMiddleware downloads robots.txt. `process_response` would see it compressed.
        """
        assert self._live_rules is not None
        if request.callback is NO_CALLBACK:
            if response.status == 200:
                self._live_rules.robots_txt(request, response)
        elif 400 <= response.status < 500 and response.status not in _NOT_NOW:
            self._live_rules.missing(request)

    def _response_received(self, response: Response, request: Request) -> None:
        """Tell of a page where our spider middleware is missing.

        That one is better: it sees only pages that reach the spider.
        """
        assert self._live_rules is not None
        if 200 <= response.status < 300:
            self._live_rules.page(request, response)

    def process_request(self, request: Request) -> Request | None:
        """Return the request to send instead, or ``None``. Raise `IgnoreRequest` to drop it."""
        if "redirect_urls" in request.meta:
            # A redirect in progress is not rewritten: the site might redirect it back for ever.
            if self._fingerprinter is not None:
                hop = redirect_hop(self._fingerprinter.fingerprint, request)
                if hop:
                    self._fingerprinter.set_apart(request, hop)
        elif (rewritten := self._rewritten(request)) is not None:
            return rewritten
        if self._is_kept_back(request):
            raise IgnoreRequest("A learned rule makes it equal to a page that has arrived")
        if parse(request.url) is None and self._stats is not None:
            self._stats.inc_value("urlnorm/requests/unparsable")
        return None

    def _is_kept_back(self, request: Request) -> bool:
        """Decide about a request that a scheduler other than ours gave out.

        Our own scheduler has asked already, and then neither callback nor errback is called.
        """
        live_rules = self._live_rules
        if live_rules is None or live_rules.has_asking_queue:
            return False
        live_rules.work()
        return live_rules.came_through_dupefilter(request) and not live_rules.on_leaving(request)

    def process_response(self, request: Request, response: Response) -> Response:
        """Tell the live rules of a redirect that Scrapy will follow."""
        if (
            self._live_rules is not None
            and response.status in REDIRECTS
            and self._is_followed(request, response.status)
            and (target := target_of(response, request.url))
            and target.startswith(("http://", "https://"))
        ):
            self._live_rules.redirect(request, target, status=response.status)
        return response

    def _is_followed(self, request: Request, status: int) -> bool:
        """Return whether Scrapy's redirect middleware follows a redirect, and not the spider."""
        meta = request.meta
        return (
            self._redirects_are_followed
            and not meta.get("dont_redirect")
            and not meta.get("handle_httpstatus_all")
            and status not in meta.get("handle_httpstatus_list", ())
            and status not in getattr(self._spider, "handle_httpstatus_list", ())
        )

    def _rewritten(self, request: Request) -> Request | None:
        """Return *request* with its normalized URL; ``None`` when there is nothing to change.

        It goes back to the scheduler, whose dupefilter has just seen its key. Our dupefilter is
        told to let it pass. Past any other it gets with ``dont_filter``, which also takes it past
        the offsite check.
        """
        if self._rewriter is None or request.method not in ("GET", "HEAD"):
            return None
        if request.callback is NO_CALLBACK:  # robots.txt, images: a component wants this very URL
            return None
        meta = request.meta
        if meta.get("verbatim_url") or meta.get("urlnorm", True) is not True:
            return None
        if "urlnorm_key" in meta:  # with another URL it would still have that key
            return None
        url = self._rewriter.normalize(request.url)
        if url == request.url:
            return None
        new = request.replace(url=url)
        # Request may encode a URL its own way; one that would be rewritten again stays as it is.
        if new.url == request.url or self._rewriter.normalize(new.url) != new.url:
            return None
        if self._dupefilter is not None:
            self._dupefilter.let_pass(new)
        else:
            new.dont_filter = True
        if self._stats is not None:
            self._stats.inc_value("urlnorm/requests/rewritten")
        return new
