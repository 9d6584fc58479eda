"""The components of one crawl, real ones, without the crawl: what asks and tells `Learner`."""

from __future__ import annotations

from collections import Counter, deque
from contextlib import ExitStack, closing, contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

from scrapy import Request, Spider
from scrapy.http import HtmlResponse
from scrapy.settings import Settings
from twisted.internet.defer import Deferred, ensureDeferred

from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter
from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter
from scrapy_urlnorm.crawl.frontier import CrawlFrontier
from scrapy_urlnorm.crawl.online.learner import Learner
from scrapy_urlnorm.crawl.settings import LEARN, STORE, Config
from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.learning.worker import Mined
from scrapy_urlnorm.stores import MemorySeen
from scrapy_urlnorm.stores.sqlite import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scrapy_urlnorm.site_rules import SiteRule
    from scrapy_urlnorm.stores import Seen

SITE = "shop.test"
BARE, WWW = "http://shop.test", "http://www.shop.test"


def page_of(request: Request, body: str | None = None) -> HtmlResponse:
    """The page of a URL: the same with and without ``www.`` and a final slash."""
    name = request.url.partition("://")[2].removeprefix("www.").rstrip("/")
    text = f"<html><body><p>{body or 'this is page ' + name}</p></body></html>"
    return HtmlResponse(request.url, body=text.encode(), request=request)


def no_page(_: Request) -> HtmlResponse:
    raise OSError("no connection")


class Refusing(Database):
    """A database that can be told to write nothing, as on a disk that is full."""

    refuses = False

    def write(self, statement: str, *values: object) -> int:
        if self.refuses:
            raise StoreError("cannot write: the disk is full")
        return super().write(statement, *values)

    def write_many(self, statement: str, rows: Iterable[Iterable[object]]) -> int:
        return sum(self.write(statement, *row) for row in rows)


class SharedKeys(MemorySeen):
    """A store that another crawler uses too, who tells of its pages."""

    is_shared = True

    def __init__(self) -> None:
        super().__init__()
        self.page = (pages := dict[bytes, bytes]()).get
        self.put_page = pages.__setitem__


class SharedNotes(SharedKeys):
    """One whose users leave notes to one another."""

    def __init__(self) -> None:
        super().__init__()
        self._notes: dict[str, str] = {}
        self.leave_notes, self.notes = self._notes.update, self._notes.copy


class Parts:
    """Dupefilter, fingerprinter and learner of one crawl over *store*, or over *database*.

    It learns from redirects, if *settings* do not say otherwise. Without *has_miner* it learns what
    `found` tells it. Without *has_audits* no request is sent to test a rule. If it *pauses*, that acts
    at a safe point; else at once, whatever is under way.
    """

    def __init__(
        self,
        store: str | Seen = "memory",
        database: Database | None = None,
        *,
        has_miner: bool = True,
        has_audits: bool = True,
        pauses: bool = False,
        **settings: object,
    ) -> None:
        self.database = database or Database()
        spec = store if isinstance(store, str) else "memory"
        learn = settings.pop(LEARN, "redirects")
        learning = {"pairs": 0, **(learn if isinstance(learn, dict) else {"mode": learn})}
        settings_of_crawl = Settings({STORE: spec, **settings, LEARN: learning})
        config = Config(settings_of_crawl)
        fingerprinter = UrlNormRequestFingerprinter(config.normalizer)
        self.dupefilter = UrlNormDupeFilter(
            config.new_store("shop", self.database) if store is spec else store,
            fingerprinter,
            explainer=fingerprinter,
        )
        self.dupefilter.open()
        self.database.open()
        self._published: Counter[str] = Counter()
        self.queue: deque[Request] = deque()
        self.under_way: set[Request] = set()
        self.download = no_page  # what answers a page that is fetched again
        slot = SimpleNamespace(
            inprogress=self.under_way,
            nextcall=SimpleNamespace(schedule=lambda: None),
            scheduler=self.queue,
        )
        crawler = SimpleNamespace(
            spider=Spider(name="test"),
            settings=settings_of_crawl,
            stats=SimpleNamespace(inc_value=self.count),
            engine=SimpleNamespace(crawl=self.schedule, download_async=self._download, _slot=slot),
        )
        self.frontier = CrawlFrontier(crawler, self.dupefilter)
        # No reactor runs here: a page that is fetched again arrives when `download` says so.
        self.frontier.run = ensureDeferred
        if not has_miner:
            self.frontier.miner = Mock(is_free=False, mine_at_once=lambda _: [])
        self.learner = Learner(
            *(self.frontier, config, fingerprinter, self.dupefilter.store, self.database)
        )
        if not has_audits:
            audits = self.learner._audits
            audits.is_due = audits.has_outstanding = lambda *_: False
        self.learner.attach_scheduler()
        self.learner._safe_points.can_pause = pauses
        self.dupefilter.on_arrival = self.learner.on_arrival

    def close(self) -> None:
        self.learner.close()
        self.database.close()
        self.dupefilter.close()

    def kill(self) -> None:
        """End as a killed process does: what was not committed is undone."""
        self.database.give_up(StoreError("killed"))
        self.dupefilter.close()

    def count(self, stat: str, number: int = 1) -> None:
        self._published[stat.removeprefix("urlnorm/")] += number

    @property
    def stats(self) -> Counter[str]:
        """Statistics, and what else is counted, without the words before the last slash."""
        found = self._published + self.learner.counts
        return Counter({name.rpartition("/")[2]: number for name, number in found.items()})

    async def _download(self, request: Request) -> HtmlResponse:
        answer = self.download(request)
        return await answer if isinstance(answer, Deferred) else answer

    # --- requests ---------------------------------------------------------------------------

    def schedule(self, request: Request) -> bool:
        """Scheduler and dupefilter look at a request; whether it is in the queue now."""
        if not request.dont_filter and self.dupefilter.request_seen(request):
            return False
        self.queue.append(request)
        return True

    def leave(self) -> Request | None:
        """Take the next request out of the queue; ``None`` if it is held."""
        self.learner.work()
        request = self.queue.popleft()
        if not self.learner.on_leaving(request):
            return None
        self.under_way.add(request)
        return request

    def arrive(self, request: Request, body: str | None = None) -> None:
        """The page of *request* is handed to the spider, its callback ends, and the engine asks."""
        self.dupefilter.awaiting.page(request, response := page_of(request, body))
        self.learner.page(request, response)
        self.under_way.discard(request)
        self.learner.work()

    def fetch(self, url: str, body: str | None = None) -> str:
        """Find a link, send it, have its page arrive; what was done of it."""
        if not self.schedule(Request(url)):
            return "filtered"
        request = self.leave()
        if request is None:
            return "held"
        self.arrive(request, body)
        return "fetched"

    def queued(self) -> list[str]:
        return [request.url for request in self.queue]

    def batches(self) -> Iterator[list[str]]:
        """What an idle crawl sends, again and again; each of it ends without a page."""
        while self.learner.idle() and self.queue:
            sent = [self.leave() for _ in range(len(self.queue))]
            self.under_way.difference_update(sent)
            yield [request.url for request in sent if request is not None]

    # --- rules ------------------------------------------------------------------------------

    def learn(self, source: str = BARE, target: str = WWW, first: int = 0) -> None:
        """See redirects in eight first path segments, which is enough for any kind of rule."""
        for number in range(first, first + 8):
            request = Request(f"{source}/w{number}")
            self.learner.redirect(request, f"{target}/w{number}", status=301)
        self.learner.work()

    def found(self, *rules: SiteRule, site: str = SITE, **more: object) -> None:
        """The miner finds that these are the rules of a site."""
        self.learner._mining._mined(Mined(site, rules, **more))  # type: ignore[arg-type]
        self.learner.work()

    def in_force(self, site: str = SITE) -> tuple[SiteRule, ...]:
        return tuple(
            rule for rule in self.learner.rules if rule.active and rule.site.endswith(site)
        )

    def held(self) -> list[str]:
        """The URLs of what is held, in the order in which it came."""
        return [url for (url,) in self.database.read("SELECT url FROM held ORDER BY id")]

    def states(self) -> dict[int, int]:
        """How many requests are held in each state."""
        return dict(self.database.read("SELECT state, count(*) FROM held GROUP BY 1"))


@contextmanager
def crawls(**usual: Any) -> Iterator[Callable[..., Parts]]:
    """Yield what begins a crawl with these arguments and others; they all end with this."""
    with ExitStack() as begun:
        yield lambda **more: begun.enter_context(closing(Parts(**(usual | more))))
