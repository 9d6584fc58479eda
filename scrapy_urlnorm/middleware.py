"""UrlNormDownloaderMiddleware: what has to happen between a redirect and the download."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urljoin

from scrapy import signals
from scrapy.exceptions import IgnoreRequest
from scrapy.http.request import NO_CALLBACK
from w3lib.url import safe_url_string

from .dupefilter import UrlNormDupeFilter
from .fingerprinter import UrlNormRequestFingerprinter, redirect_hop
from .live_rules import LiveRules
from .settings import Config
from .url import parse

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.statscollectors import StatsCollector
    from typing_extensions import Self

#: Just inside RedirectMiddleware (600): every 3xx comes by here before it becomes a request, and
#: what is dropped or rewritten has not yet got cookies (700), a proxy (750), a place in the
#: download statistics (850) or an answer from the HTTP cache (900).
PRIORITY = 610


_PERMANENT = (301, 308)


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
        self._stats = stats

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        middleware = cls(
            UrlNormRequestFingerprinter.of(crawler),
            Config.from_settings(crawler.settings),
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
        self._dupefilter = UrlNormDupeFilter.of(crawler)
        if (
            self._config.learn == "redirects"
            and self._fingerprinter is not None
            and self._fingerprinter is crawler.request_fingerprinter
            and self._dupefilter is not None
        ):
            self._live_rules = LiveRules(
                crawler, self._config, self._fingerprinter, self._dupefilter
            )
            self._dupefilter.live_rules = self._live_rules
            crawler.signals.connect(self._live_rules.idle, signals.spider_idle)

    def spider_closed(self) -> None:
        """Write down what was learned."""
        if self._live_rules is not None:
            self._live_rules.close()

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
        if self._live_rules is not None and self._live_rules.is_obsolete(request):
            raise IgnoreRequest("A rule learned since it was queued makes it a duplicate")
        if parse(request.url) is None and self._stats is not None:
            self._stats.inc_value("urlnorm/requests/unparsable")
        return None

    def process_response(self, request: Request, response: Response) -> Response:
        """Hand evidence to the live rules."""
        if self._live_rules is not None:
            if response.status in _PERMANENT and (target := _location(request, response)):
                self._live_rules.redirect(request, target)
            elif response.status == 200:
                self._live_rules.page(request)
        return response

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
    """Where a redirect leads; ``None`` for one that says nothing about URLs of the same kind."""
    location = response.headers.get("Location")
    if not location:
        return None
    try:
        return urljoin(request.url, safe_url_string(location))
    except ValueError:
        return None
