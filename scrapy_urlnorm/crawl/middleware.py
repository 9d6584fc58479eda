"""UrlNormDownloaderMiddleware: what has to happen between a redirect and the download."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from scrapy import signals
from scrapy.exceptions import DontCloseSpider, IgnoreRequest
from scrapy.http.request import NO_CALLBACK
from w3lib.url import safe_url_string

from scrapy_urlnorm.crawl.database import Database
from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter
from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter, redirect_hop
from scrapy_urlnorm.crawl.live.live_rules import LiveRules
from scrapy_urlnorm.crawl.parts import parts_of
from scrapy_urlnorm.crawl.queue.pending import PendingRequests
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

#: Just inside RedirectMiddleware (600): every 3xx comes by here before it becomes a request, and
#: what is dropped or rewritten has not yet got cookies (700), a proxy (750), a place in the
#: download statistics (850) or an answer from the HTTP cache (900).
PRIORITY = 610


logger = logging.getLogger(__name__)

_PERMANENT = (301, 308)
_REDIRECTS = (301, 302, 303, 307, 308)


class UrlNormDownloaderMiddleware:
    """Rewrites requests when asked to, and shows the live rules what passes by.

    It never drops what carries ``dont_filter``, a retry, or a redirect in progress.
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
        """Look for the dupefilter of this crawl and begin to learn.

        Learning needs both our fingerprinter, at the head, and our dupefilter: without either
        a rule learned could lose a page.
        """
        crawler = spider.crawler
        self._spider = spider
        self._redirects_are_followed = crawler.settings.getbool("REDIRECT_ENABLED")
        parts = parts_of(crawler)
        self._dupefilter = parts.find(UrlNormDupeFilter)
        if (
            self._fingerprinter is None
            or self._fingerprinter is not crawler.request_fingerprinter
            or self._dupefilter is None
        ):
            return
        pending = parts.find(PendingRequests)
        learns = self._config.learn == "redirects"
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
        if parts.find(UrlNormSpiderMiddleware) is None:
            crawler.signals.connect(self._response_received, signals.response_received)

    def spider_closed(self) -> None:
        """Write down what was learned."""
        if self._live_rules is not None:
            self._live_rules.close()
        if self._database is not None:
            self._database.close()

    def _idle(self) -> None:
        assert self._live_rules is not None
        if self._live_rules.idle():
            raise DontCloseSpider

    def _response_received(self, response: Response, request: Request) -> None:
        """Take note of a page where the spider middleware, which knows better, is not there."""
        assert self._live_rules is not None
        if 200 <= response.status < 300:
            self._live_rules.page(request, response)

    def process_request(self, request: Request) -> Request | None:
        """Return the request to send instead, or nothing; raise `IgnoreRequest` to drop it."""
        if "redirect_urls" in request.meta:
            # A redirect in progress goes where the site sent it, or it would never end.
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

        Ours has asked before; then neither callback nor errback hears of it.
        """
        live_rules = self._live_rules
        if live_rules is None or live_rules.has_asking_queue:
            return False
        live_rules.work()
        return live_rules.came_through_dupefilter(request) and not live_rules.on_leaving(request)

    def process_response(self, request: Request, response: Response) -> Response:
        """Hand redirects that will be followed to the live rules."""
        if (
            self._live_rules is not None
            and response.status in _REDIRECTS
            and self._is_followed(request, response.status)
            and (target := _location(request, response))
        ):
            permanent = response.status in _PERMANENT
            self._live_rules.redirect(request, target, is_permanent=permanent)
        return response

    def _is_followed(self, request: Request, status: int) -> bool:
        """Whether Scrapy's redirect middleware follows a redirect, and not the spider."""
        meta = request.meta
        return (
            self._redirects_are_followed
            and not meta.get("dont_redirect")
            and not meta.get("handle_httpstatus_all")
            and status not in meta.get("handle_httpstatus_list", ())
            and status not in getattr(self._spider, "handle_httpstatus_list", ())
        )

    def _rewritten(self, request: Request) -> Request | None:
        """The request with its normalized URL, ``None`` when there is nothing to change.

        It goes back to the scheduler, whose dupefilter has just seen it: our own lets it pass,
        any other is passed with ``dont_filter``, which the offsite check heeds too.
        """
        if self._rewriter is None or request.method not in ("GET", "HEAD"):
            return None
        if request.callback is NO_CALLBACK:  # robots.txt, images: whoever asks wants that URL
            return None
        meta = request.meta
        if meta.get("verbatim_url") or meta.get("urlnorm", True) is not True:
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


def _location(request: Request, response: Response) -> str | None:
    """Where a redirect leads; ``None`` if Scrapy's redirect middleware does not go there."""
    location = response.headers.get("Location")
    if not location:
        return None
    try:
        target = urljoin(request.url, safe_url_string(location))
    except ValueError:
        return None
    return target if target.startswith(("http://", "https://")) else None
