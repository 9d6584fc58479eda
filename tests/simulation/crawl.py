"""A crawl of a planned site: an engine and a downloader in virtual time, and all else as it is."""

from __future__ import annotations

import hashlib
import heapq
import logging
import random
import tempfile
from collections import Counter
from contextlib import ExitStack, suppress
from functools import lru_cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar
from unittest.mock import patch
from zlib import crc32

from online_parts import Refusing, SharedNotes
from scrapy import Request, Spider, signals
from scrapy.downloadermiddlewares.redirect import RedirectMiddleware
from scrapy.downloadermiddlewares.retry import RetryMiddleware
from scrapy.exceptions import DontCloseSpider, IgnoreRequest
from scrapy.http import HtmlResponse, Response
from scrapy.settings import Settings
from scrapy.signalmanager import SignalManager
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.misc import build_from_crawler, load_object
from twisted.internet.defer import Deferred, ensureDeferred
from w3lib.url import safe_url_string

from scrapy_urlnorm import Addon, normalize
from scrapy_urlnorm.crawl import frontier, miner
from scrapy_urlnorm.crawl.components import components_of, unopened_database
from scrapy_urlnorm.crawl.middleware import UrlNormDownloaderMiddleware, UrlNormSpiderMiddleware
from scrapy_urlnorm.crawl.settings import Config
from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.learning.mined import mined
from simulation.laws import broken, note_test, of_tests
from simulation.plan import HOLLOW, Answer, Plan, Site, body_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from scrapy_urlnorm.learning.worker import Job

MOST_EVENTS = 100_000
_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # where nothing waits for a disk
#: What makes a request; most links are met many times.
_safe = lru_cache(maxsize=100_000)(safe_url_string)


class CallbackError(Exception):
    """A callback has failed."""


class Reader(Spider):
    def parse_marked(self, response: Response) -> None: ...


class Run:
    """The components of one run, as Scrapy builds them; a kill ends it and another one begins."""

    def __init__(self, crawl: Crawl, folder: str | None) -> None:
        plan = crawl.plan
        self.crawl, self.is_alive, self.is_over = crawl, True, False
        order = "Lifo" if plan.newest_first else "Fifo"
        settings = Settings(
            {
                "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue",
                "SCHEDULER_MEMORY_QUEUE": f"scrapy.squeues.{order}MemoryQueue",
                "SCHEDULER_DISK_QUEUE": f"scrapy.squeues.Pickle{order}DiskQueue",
                **({"SCHEDULER": "scrapy.core.scheduler.Scheduler"} if plan.is_foreign else {}),
                "RETRY_PRIORITY_ADJUST": 0,
                "URLNORM_LEARN": plan.learn,
                "JOBDIR": folder,
                "LOG_LEVEL": "CRITICAL",
                **crawl.settings,
            }
        )
        self.under_way: set[Request] = set()
        self.tests: dict[str, tuple[str, set[str]]] = {}  # by URL, those without a verdict
        slot = SimpleNamespace(
            inprogress=self.under_way, nextcall=SimpleNamespace(schedule=crawl.ask)
        )
        engine = SimpleNamespace(
            crawl=self.enqueue, download_async=self.download, _slot=slot, close_spider_async=None
        )
        kind = crawl.spider
        self.crawler = crawler = SimpleNamespace(settings=settings, engine=engine, spidercls=kind)
        crawler.signals = SignalManager(crawler)
        crawler.spider = kind.from_crawler(crawler, name="simulation")
        crawler.stats = MemoryStatsCollector(crawler)
        Addon(components_of(crawler)).update_settings(settings)
        if plan.full:
            crawl.database = Refusing()
            components_of(crawler).put(crawl.database)

        def make(kind: type) -> Any:
            return build_from_crawler(kind, crawler)

        crawler.request_fingerprinter = make(load_object(settings["REQUEST_FINGERPRINTER_CLASS"]))
        self.middleware = make(UrlNormDownloaderMiddleware)
        self.spider_middleware = make(UrlNormSpiderMiddleware)
        self.others = [make(RedirectMiddleware), make(RetryMiddleware)]
        self.scheduler = slot.scheduler = make(load_object(settings["SCHEDULER"]))
        self.scheduler.open(crawler.spider)
        self.database = unopened_database(crawler)
        self.signal(signals.spider_opened, spider=crawler.spider)

    @property
    def learner(self) -> Any:
        return components_of(self.crawler).learner

    def signal(self, signal: object, **more: object) -> list:
        return self.crawler.signals.send_catch_log(signal, **more)

    def enqueue(self, request: Request) -> None:
        self.scheduler.enqueue_request(request)
        self.crawl.ask()

    def kill(self) -> None:
        """End as a killed process does: what was not committed is undone."""
        self.is_alive = False
        self.database.give_up(StoreError("killed"))

    def close(self) -> None:
        """End, but for the database."""
        self.scheduler.close("finished")
        self.signal(signals.spider_closed, spider=self.crawler.spider, reason="finished")

    def stat(self, name: str, default: int = 0) -> int:
        """Return what learning has counted, as a statistic or besides."""
        besides = self.learner.counts.get(f"learned/{name}", default) if self.learner else default
        return self.crawler.stats.get_value(f"urlnorm/learned/{name}", besides)

    # --- the engine -------------------------------------------------------------------------

    def next(self) -> bool:
        """Give out one request; return whether there was any."""
        request = self.scheduler.next_request()
        if request is None:
            return False
        self.under_way.add(request)
        self.crawl.note("sent", request.url)
        note_test(self, request.url)
        try:
            changed = self.middleware.process_request(request)
            if request.url in self.crawl.site.refused:
                raise IgnoreRequest("Forbidden by robots.txt")
        except IgnoreRequest as error:
            self.middleware.process_exception(request, error)
            self.crawl.later(0.0, self, partial(self.end, request))
            return True
        if changed is not None:
            self.enqueue(changed)
            self.crawl.later(0.0, self, partial(self.end, request))
        else:
            answer = self.crawl.answer(request.url)
            self.crawl.note_spoilt(request.url, answer)
            wait = self.crawl.latency() + answer.delay
            self.crawl.later(wait, self, partial(self.arrive, request, answer))
        return True

    def end(self, request: Request) -> None:
        self.under_way.discard(request)
        self.crawl.ask()

    def arrive(self, request: Request, answer: Answer) -> None:
        response = self.crawl.downloaded(request, answer)
        what = (response.status, crc32(response.body)) if response else ()
        self.crawl.note("arrived", request.url, *what)
        found = self.through_middlewares(request, response)
        if response is not None:
            self.signal(signals.response_received, response=response, request=request)
        if isinstance(found, Request):
            self.enqueue(found)
        elif found and 200 <= found.status < 300 and request.url not in self.crawl.swallowed:
            self.spider_middleware.process_spider_input(found)
            wait = self.crawl.thinking()
            call = partial(self.call_back, request, found, self.crawl.parse(request, answer))
            return self.crawl.later(wait, self, call) if wait else call()
        return self.end(request)

    def through_middlewares(self, request: Request, response: Response | None) -> Any:
        """Return the request or the response that comes out of them; ``None`` if nothing does."""
        with suppress(IgnoreRequest, ValueError):  # too many redirects, or one to no URL
            for middleware in (self.middleware, *self.others):
                if response is not None:
                    response = middleware.process_response(request, response)
                elif hasattr(middleware, "process_exception"):
                    response = middleware.process_exception(request, OSError("it broke"))
                if isinstance(response, Request):
                    break
            return response

    def call_back(self, request: Request, response: Response, got: Iterable[object]) -> None:
        try:
            for new in self.spider_middleware.process_spider_output(response, got):
                if isinstance(new, Request):
                    self.enqueue(new)
        except CallbackError:
            self.crawl.note("failed", request.url)
        self.end(request)

    async def download(self, request: Request) -> Response:
        waiting: Deferred[Response] = Deferred()
        self.under_way.add(request)
        answer = self.crawl.answer(request.url)
        self.crawl.note("fetched again", request.url)

        def done() -> None:
            self.crawl.ask()
            self.under_way.discard(request)
            response = self.crawl.downloaded(request, answer)
            if response is None:
                waiting.errback(OSError("it broke"))
            else:
                waiting.callback(response)

        self.crawl.later(self.crawl.latency() + answer.delay, self, done)
        return await waiting

    def is_idle(self) -> bool:
        """Whether the crawl may end: nothing is left, and nobody objects."""
        if self.under_way or self.scheduler.has_pending_requests():
            return False
        said = self.signal(
            signals.spider_idle, spider=self.crawler.spider, dont_log=DontCloseSpider
        )
        objects = any(isinstance(getattr(x, "value", x), DontCloseSpider) for _, x in said)
        return not (objects or self.under_way or self.scheduler.has_pending_requests())


class Crawl:
    """A crawl by a plan, over all its runs. *shift* has the miner answer so much later."""

    spider: type[Spider] = Reader
    settings: ClassVar[dict[str, Any]] = {}  #: beside those of `Run`

    def __init__(self, plan: Plan, shift: float = 0.0) -> None:
        self.plan, self.shift, self.site = plan, shift, Site(plan)
        self.swallowed: Collection[str] = self.site.swallowed
        self._random = random.Random(f"run {plan.seed}")
        self._miner = random.Random(f"miner {plan.seed}")
        self._heap: list = []
        self._number, self.events, self.now = 0, 0, 0.0
        self._is_asked = True
        self._digest = hashlib.sha256()
        self._visits: Counter[str] = Counter()
        self.sent: list[str] = []
        self.found, self.lost = set(), set()
        self.read: dict[str, str] = {}  # contents by URL, of pages that may stand for others
        self.stats: dict[str, Any] = {}
        self.counts: Counter[str] = Counter()  # what learning counts besides
        self.database: Refusing | None = None
        self.store = SharedNotes()
        self.spoilt: set[str] = set()  # keys of URLs that answered with what passes
        self.trouble = ""

    def ask(self) -> None:
        self._is_asked = True

    def note(self, *what: object) -> None:
        self.events += 1
        if what[0] in ("sent", "fetched again"):
            self.sent.append(str(what[1]))
        self._digest.update(repr(what).encode())

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def latency(self) -> float:
        return self._random.expovariate(1 / self.plan.latency) if self.plan.latency else 0.0

    def expected(self) -> set:
        """Return the contents that a crawl without the add-on has.

        What passes is not asked for twice: a content is lost if its URL was never asked for, or when
        it was there.
        """
        late = set(filter(self.has_closed, self.site.changes)) - self.found
        answers = self.site.answers.items()
        closed = {normalize(url) for url, answer in answers if answer.content in late}
        return self.site.contents(self.spoilt | closed)

    def thinking(self) -> float:
        return 0.0

    def later(self, seconds: float, run: Run, what: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._heap, (self.now + seconds, self._number, run, what))

    def mine(self, job: Job) -> Deferred:
        answer: Deferred = Deferred()
        dies = self.plan.miner_dies and self._miner.random() < 0.3
        wait = self.plan.mining * self._miner.random() + self.shift

        def done() -> None:
            answer.errback(OSError("the miner died")) if dies else answer.callback(mined(job))

        self.later(wait, self.runs[0], done)
        return answer

    # --- the site ---------------------------------------------------------------------------

    def answer(self, url: str) -> Answer:
        url = url.partition("#")[0]
        answer = self.site.answers.get(url, Answer(404))
        self._visits[url] += 1
        down = self.plan.outage
        if (down and down[0] <= self.events < down[1]) or self.has_closed(answer.content):
            return Answer(200, shown="down")
        if self.has_expired(url):
            return Answer(403 if len(url) % 2 else 404)
        if url in self.site.flaky and self._visits[url] == 1:
            return Answer(503)
        return answer._replace(breaks=answer.breaks if self._visits[url] <= answer.breaks else 0)

    def note_spoilt(self, url: str, answer: Answer) -> None:
        """Note that a request of the spider was answered with what passes, or is no more."""
        if isinstance(self.site, Site) and (answer.shown == "down" or self.has_expired(url)):
            self.spoilt.add(normalize(url))

    def has_expired(self, url: str) -> bool:
        return self.events >= self.site.expires.get(url, MOST_EVENTS)

    def has_closed(self, content: str) -> bool:
        """Whether a content has become the page that many have become."""
        return len(content) % 2 == 0 and self.has_changed(content)

    def has_changed(self, content: str) -> bool:
        return self.events >= self.site.changes.get(content, MOST_EVENTS)

    def downloaded(self, request: Request, answer: Answer) -> Response | None:
        """Return what the downloader makes of an answer; ``None`` if the connection breaks."""
        return None if getattr(answer, "breaks", 0) else self.response(request, answer)

    def response(self, request: Request, answer: Answer) -> Response:
        if answer.shown:
            kind = Response if answer.shown == "file" else HtmlResponse
            more = {"flags": ["dataloss"] * (answer.shown == "part"), "request": request}
            body = HOLLOW[answer.shown] + request.url.encode() * (answer.shown in ("part", "file"))
            return kind(request.url, answer.status, body=body, **more)
        if not answer.content:
            headers = {"Location": answer.location} if answer.location else {}
            return HtmlResponse(request.url, answer.status, headers, request=request)
        shown = answer.content + " of today" * self.has_changed(answer.content)
        visitor = self._number if self.plan.restless else 0
        body = body_of(shown, self.site.links.get(answer.content, ()), visitor)
        return HtmlResponse(request.url, body=body, request=request)

    def parse(self, request: Request, answer: Answer) -> Iterable[object]:
        """Do what the spider does with a page: note its content, yield what it gets out of it."""
        if answer.content:
            self.found.add(answer.content)
        depth = request.meta.get("depth", 0) + 1
        for url in self.site.links.get(answer.content, ()):
            is_other = self.plan.callbacks and "utm_source=1" in url
            callback = self.runs[0].crawler.spider.parse_marked if is_other else None
            yield Request(url, callback, meta={"depth": depth})
        if request.url in self.site.raises:
            raise CallbackError
        if answer.content and not request.dont_filter:
            self.read[request.url] = answer.content

    # --- the crawl --------------------------------------------------------------------------

    def begin(self) -> None:
        self.runs = [Run(self, self.folder) for _ in range(self.plan.crawlers)]
        for run in self.runs:
            run.enqueue(Request(self.site.start, dont_filter=True))

    def step(self) -> bool:
        """Do what the engine does when it is asked; return whether the crawl is over."""
        self._is_asked = False
        for run in self.runs:
            while not run.is_over and len(run.under_way) < self.plan.concurrency and run.next():
                pass
        for run in self.runs:
            run.is_over = run.is_over or (run.is_idle() and not self._is_asked)
        return all(run.is_over for run in self.runs)

    def crawl(self) -> Crawl:
        kills, full = list(self.plan.kills), self.plan.full
        with ExitStack() as stack:
            self.folder = None
            if self.plan.on_disk:
                self.folder = stack.enter_context(tempfile.TemporaryDirectory(dir=_MEMORY))
            stack.enter_context(patch("scrapy.http.request.safe_url_string", _safe))
            stack.enter_context(patch.object(miner, "_in_thread", lambda _, job: self.mine(job)))
            for module in (frontier, miner):
                stack.enter_context(patch.object(module, "deferred_from_coro", ensureDeferred))
            stack.enter_context(patch.object(frontier, "monotonic", lambda: self.now))
            if self.plan.crawlers > 1:
                stack.enter_context(patch.object(Config, "new_store", lambda *_, **__: self.store))
            before = logging.root.manager.disable
            stack.callback(logging.disable, before)
            logging.disable(logging.CRITICAL)
            self.begin()
            while self.events < MOST_EVENTS:
                if kills and self.events >= kills[0]:
                    del kills[0]
                    self.runs[0].kill()  # it has one crawler
                    self.begin()
                if full and self.database:
                    self.database.refuses = full[0] <= self.events < full[1]
                if self._is_asked:
                    if self.step():
                        break
                elif self._heap:
                    self.now, _, run, what = heapq.heappop(self._heap)
                    if run.is_alive:
                        what()
                        self.trouble = self.trouble or next(of_tests(run), "")
                else:
                    self.trouble = "it stands still"
                    break
            else:
                self.trouble = "it does not end"
            for run in self.runs:
                run.close()
                self.stats = run.crawler.stats.get_stats()
                self.counts += run.learner.counts if run.learner else Counter()
            is_broken = next(broken(self), "")  # in any case: it says what is lost
            self.trouble = self.trouble or is_broken
            for run in self.runs:
                run.signal(signals.engine_stopped)
        return self


def trouble_of(plan: Plan, *, repeats: bool = True) -> str:
    """Return what is wrong with the crawl of a *plan*; "" if nothing is."""
    first = Crawl(plan).crawl()
    if first.trouble or not repeats:
        return first.trouble
    # While one site pauses another one goes on, and so does a scheduler that is not ours.
    goes_on = plan.astray or plan.is_foreign or plan.crawlers > 1
    is_shiftable = not (goes_on or plan.hangs or plan.miner_dies or plan.kills)
    if is_shiftable and Crawl(plan, shift=7.0).crawl().sent == first.sent:
        return ""  # so it is the same when it is repeated, too
    if Crawl(plan).crawl().digest != first.digest:
        return "another order when it is repeated"
    return "another order when the miner is slower" if is_shiftable else ""
