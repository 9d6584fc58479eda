"""The components of one crawl, real ones, without the crawl: what asks and tells `LiveRules`."""

from __future__ import annotations

from collections import Counter, deque
from types import SimpleNamespace
from typing import TYPE_CHECKING

from scrapy import Request, Spider
from scrapy.http import HtmlResponse
from scrapy.settings import Settings

from scrapy_urlnorm.crawl.database import Database
from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter
from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter
from scrapy_urlnorm.crawl.live.live_rules import LiveRules
from scrapy_urlnorm.crawl.settings import LEARN, STORE, Config

if TYPE_CHECKING:
    from scrapy_urlnorm.site_rules import SiteRule

SITE = "shop.test"
BARE, WWW = "http://shop.test", "http://www.shop.test"


def no_page(_: Request) -> HtmlResponse:
    raise OSError("no connection")


class Parts:
    """Dupefilter, fingerprinter and live rules of one crawl over *store*.

    It learns from redirects, if *settings* do not say otherwise.
    """

    def __init__(self, store: str = "memory", **settings: object) -> None:
        settings_of_crawl = Settings({STORE: store, LEARN: "redirects", **settings})
        config = Config.from_settings(settings_of_crawl)
        fingerprinter = UrlNormRequestFingerprinter(config.normalizer)
        self.dupefilter = UrlNormDupeFilter(
            config.new_store("shop"), fingerprinter, explainer=fingerprinter
        )
        self.dupefilter.open()
        self.stats: Counter[str] = Counter()
        self.queue: deque[Request] = deque()
        self.under_way: set[Request] = set()
        self.download = no_page  # what answers a page that is fetched again
        crawler = SimpleNamespace(
            spider=Spider(name="test"),
            settings=settings_of_crawl,
            stats=SimpleNamespace(inc_value=self.count),
            engine=SimpleNamespace(
                crawl=self.schedule,
                download_async=self._download,
                _slot=SimpleNamespace(
                    inprogress=self.under_way, nextcall=SimpleNamespace(schedule=lambda: None)
                ),
            ),
        )
        self.database = Database.temporary()
        self.rules = LiveRules(crawler, config, fingerprinter, self.dupefilter, self.database)
        self.dupefilter.consult(self.rules)

    def close(self) -> None:
        self.rules.close()
        self.database.close()
        self.dupefilter.close()

    def count(self, stat: str, number: float = 1) -> None:
        self.stats[stat.removeprefix("urlnorm/learned/")] += 1

    async def _download(self, request: Request) -> HtmlResponse:
        return self.download(request)

    # --- requests ---------------------------------------------------------------------------

    def schedule(self, request: Request) -> bool:
        """Scheduler and dupefilter look at a request; whether it is in the queue now."""
        if not request.dont_filter and self.dupefilter.request_seen(request):
            return False
        self.queue.append(request)
        return True

    def leave(self) -> Request | None:
        """Take the next request out of the queue; ``None`` if it is kept back."""
        self.rules.asked_by_queue()
        self.rules.work()
        request = self.queue.popleft()
        if not self.rules.on_leaving(request):
            return None
        self.under_way.add(request)
        return request

    def arrive(self, request: Request, body: str | None = None) -> None:
        """The page of *request* is handed to the spider, and its callback ends."""
        name = request.url.partition("://")[2].removeprefix("www.").rstrip("/")
        text = f"<html><body><p>{body or 'this is page ' + name}</p></body></html>"
        response = HtmlResponse(request.url, body=text.encode(), request=request)
        self.rules.page(request, response)
        self.under_way.discard(request)

    def fetch(self, url: str, body: str | None = None) -> str:
        """Find a link, send it, have its page arrive; what was done of it."""
        if not self.schedule(Request(url)):
            return "filtered"
        request = self.leave()
        if request is None:
            return "kept back"
        self.arrive(request, body)
        return "fetched"

    def queued(self) -> list[str]:
        return [request.url for request in self.queue]

    # --- rules ------------------------------------------------------------------------------

    def learn(self, source: str = BARE, target: str = WWW, first: int = 0) -> None:
        """See redirects in eight first path segments, which is enough for any kind of rule."""
        for number in range(first, first + 8):
            request = Request(f"{source}/w{number}")
            self.rules.redirect(request, f"{target}/w{number}", status=301)
        self.rules.work()

    def in_force(self, site: str = SITE) -> tuple[SiteRule, ...]:
        return self.rules._register.rules(site)

    def merges(self) -> bool:
        """Whether the two names of the shop are one."""
        keys = [self.rules._register.keys_of(host + "/new") for host in (BARE, WWW)]
        return None not in keys and keys[0].learned == keys[1].learned

    def settle_audits(self) -> None:
        """Have the rule of the two names withhold without audits from now on."""
        self.rules._audits.is_due = lambda *_: False  # type: ignore[method-assign]
        self.rules._audits.is_owed = lambda *_: False  # type: ignore[method-assign]
