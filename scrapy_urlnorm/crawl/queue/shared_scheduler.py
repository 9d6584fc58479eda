"""SharedScheduler: many crawlers, one queue and one set of seen keys, both in one Redis.

The life of one request. The right column is what Redis holds at each step, in `SharedQueue` (Q)
and in the store (S)::

    spider yields a link
        |
    dupefilter: seen?           S is asked; seen: dropped
        |
    announced                   Q: held by this crawler
        |
    dupefilter: new?            S: the key. Seen by now: another crawler took it, Q forgets it
        |
    freed                       Q: waits, for any crawler
        |
    taken, downloaded,          Q: held by the crawler that took it
    its callback run
        |
    done                        Q: forgotten, in the same step that frees the last links of the
                                page, or a later one

So a crawler may die at any moment: what it held waits again. That its key is in S before it waits
costs nobody a page, because it is in Q before its key is in S.
"""

from __future__ import annotations

import logging
import pickle
import sys
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.exceptions import CloseSpider
from scrapy.utils.asyncio import create_looping_call
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.request import request_from_dict

from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter
from scrapy_urlnorm.crawl.engine import ERROR_REASON, ask_again, in_progress, stop_crawl
from scrapy_urlnorm.crawl.live.live_rules import SLICE_SECONDS, LiveRules
from scrapy_urlnorm.crawl.parts import parts_of
from scrapy_urlnorm.crawl.settings import STORE, STORE_OPTIONS
from scrapy_urlnorm.exceptions import ConfigError, MissingExtraError, StoreError

try:
    from scrapy_urlnorm.crawl.queue.shared_queue import SharedQueue
    from scrapy_urlnorm.stores.redis_url import parse_redis
except ImportError as error:
    raise MissingExtraError("redis", "redis", "SharedScheduler") from error

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from typing_extensions import Self

logger = logging.getLogger(__name__)


class SharedScheduler(BaseScheduler):
    """For ``SCHEDULER`` where the store of the keys is in Redis: all requests wait there too.

    Crawlers whose store has one URL and one prefix share the queue. Requests of higher priority
    come first. Requests that others hold count as pending, so no crawler ends before the others:
    their pages may have links for it.

    A Redis that does not answer within the time to wait, or has lost requests for good, ends the
    crawl with the reason ``urlnorm_store_error``. What this crawler held then waits for others, or
    for the next run. Requests that cannot be serialized wait in memory.

    Raises `ConfigError` for a store elsewhere or with a fallback, and for another dupefilter.
    """

    #: A crawler counts as dead after so long without a sign of life, and the time to wait for
    #: Redis. It gives five signs in that time.
    dead_seconds = 60.0

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self._under_way: dict[Request, str] = {}  # and their tokens
        self._kept: dict[bytes, str] = {}  # tokens of requests kept back, by fingerprint
        self._unreadable = 0
        self._in_memory: deque[Request] = deque()
        self._queue: SharedQueue | None = None
        self._has_failed = False
        self._signs: Any = None
        self._dupefilter = build_from_crawler(
            load_object(crawler.settings["DUPEFILTER_CLASS"]), crawler
        )

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def open(self, spider: Spider) -> None:
        """Open the store and the queue. Raises `CloseSpider` when one of them cannot be used."""
        try:
            self.df = _require_ours(self._dupefilter)
            self._queue = queue = self._new_queue(spider)
            self.df.open()
            queue.open()
        except (StoreError, ConfigError) as error:
            logger.critical("The crawl ends here: %(error)s", {"error": error})
            self._has_failed = True
            raise CloseSpider(ERROR_REASON) from error
        if queue.waiting or queue.held:
            logger.info(
                "%(waiting)d requests wait in %(queue)s, other crawlers hold %(held)d",
                {"waiting": queue.waiting, "queue": queue.name, "held": queue.held},
                extra={"spider": spider},
            )
        self.crawler.signals.connect(self._spider_opened, signals.spider_opened)

    def _new_queue(self, spider: Spider) -> SharedQueue:
        config = parts_of(self.crawler).config(self.crawler.settings)
        if not config.store.startswith(("redis", "unix:")):
            raise ConfigError(
                f"SCHEDULER = SharedScheduler with {STORE} = {config.store!r}; accepted: a store "
                "in Redis"
            )
        place, options = parse_redis(config.store, config.store_options, spider.name)
        if options.fallback:
            raise ConfigError(
                f"fallback={options.fallback!r} in {STORE} or {STORE_OPTIONS}: SharedScheduler has "
                "its queue in the same Redis, and no other to fall back on; leave it out"
            )
        self._patience = self.dead_seconds + options.wait
        return SharedQueue(
            place,
            prefix=options.prefix,
            wait=options.wait,
            dead_seconds=self._patience,
            on_repeated=self._on_repeated,
            on_taken_back=self._on_taken_back,
        )

    def _spider_opened(self) -> None:
        live_rules = self._live_rules()
        if live_rules is not None:
            live_rules.asked_by_queue(is_shared=True)
        self._signs = create_looping_call(self._give_sign)
        self._signs.start(self._patience / 5, now=False)

    def _live_rules(self) -> LiveRules | None:
        return parts_of(self.crawler).find(LiveRules)

    # --- into the queue ---------------------------------------------------------------------

    def enqueue_request(self, request: Request) -> bool:
        """Queue *request* if it is new. After a failure, do nothing.

        The page that it came from is not done then, and will be fetched again.
        """
        if self._has_failed:
            return False
        try:
            is_queued = self._enqueue(request)
        except StoreError as error:
            self._fail(error)
            return False
        if is_queued:
            self._count("scheduler/enqueued")
        return is_queued

    def _enqueue(self, request: Request) -> bool:
        entry = self._entry(request)
        queue = self._queue
        assert queue is not None
        key = self.crawler.request_fingerprinter.fingerprint(request)
        token = None
        if not request.dont_filter:
            if entry is not None and not self.df.keys.knows(key):
                token = queue.announce(entry)
            if self.df.request_seen(request):
                if token is not None:
                    queue.done(token)
                self.df.log(request, self.crawler.spider)  # type: ignore[arg-type]
                return False
        if token is not None:
            queue.free(token)
        elif entry is not None:
            queue.push(entry)
        else:
            self._in_memory.append(request)
        kept = self._kept.pop(key, None)  # it is sent after all
        if kept is not None:
            queue.done(kept)
        return True

    def _entry(self, request: Request) -> bytes | None:
        """Return *request* as the queue has it; ``None`` if it cannot be serialized."""
        try:
            data = pickle.dumps(request.to_dict(spider=self.crawler.spider), protocol=4)
        except (pickle.PicklingError, AttributeError, TypeError, ValueError) as error:
            logger.warning(
                "%(request)s waits in memory, and is lost when this crawler dies, because it "
                "cannot be serialized: %(error)s",
                {"request": request, "error": error},
            )
            self._count("scheduler/unserializable")
            return None
        return b"%d\n%b" % (-request.priority, data)

    # --- out of the queue -------------------------------------------------------------------

    def next_request(self) -> Request | None:
        """Tell the queue which requests have ended, and return the next one to send.

        After `SLICE_SECONDS` the event loop has its turn, even if all requests were kept back.
        """
        if self._has_failed:
            return None
        live_rules = self._live_rules()
        if live_rules is not None:
            live_rules.work()
        deadline = monotonic() + SLICE_SECONDS
        try:
            while (request := self._take()) is not None:
                if live_rules is None or live_rules.on_leaving(request):
                    self._count("scheduler/dequeued")
                    return request
                self._keep(request)
                if monotonic() > deadline:
                    ask_again(self.crawler)
                    break
        except StoreError as error:
            self._fail(error)
        return None

    def _take(self) -> Request | None:
        assert self._queue is not None
        if self._in_memory:
            return self._in_memory.popleft()
        self._tell_of_ended()
        while (taken := self._queue.take()) is not None:
            try:
                request = request_from_dict(pickle.loads(taken.data), spider=self.crawler.spider)
            except Exception as error:  # noqa: BLE001 - whatever its pickled objects raise
                self._unreadable += 1
                self._queue.keep(taken.token)
                logger.error(
                    "A request is left to another run, because this one cannot read it: %(error)s",
                    {"error": error},
                )
                continue
            self._under_way[request] = taken.token
            return request
        return None

    def _tell_of_ended(self) -> None:
        assert self._queue is not None
        under_way = in_progress(self.crawler)
        for request in [each for each in self._under_way if each not in under_way]:
            self._queue.done(self._under_way.pop(request))

    def _keep(self, request: Request) -> None:
        assert self._queue is not None
        token = self._under_way.pop(request, None)
        if token is not None:
            self._kept[self.crawler.request_fingerprinter.fingerprint(request)] = token
            self._queue.keep(token)

    def has_pending_requests(self) -> bool:
        """Return whether requests wait, or are held by other crawlers."""
        if self._has_failed or self._queue is None:
            return False
        if self._in_memory:
            return True
        self._give_sign()
        # A spider of scrapy-redis looks for start URLs in Redis when nothing is pending.
        mixin = getattr(sys.modules.get("scrapy_redis.spiders"), "RedisMixin", None)
        if mixin is not None and isinstance(self.crawler.spider, mixin):
            return self._queue.waiting > 0
        return self._queue.waiting + self._queue.held > len(self._under_way)

    def _give_sign(self) -> None:
        if self._has_failed or self._queue is None:
            return
        try:
            self._tell_of_ended()
            self._queue.tell()
        except StoreError as error:
            self._fail(error)

    # --- the end ----------------------------------------------------------------------------

    def close(self, reason: str) -> None:
        """Tell the queue what has ended. What was not done waits for others, or the next run."""
        if self._signs is not None and self._signs.running:
            self._signs.stop()
        if self._queue is None or self._has_failed:
            return
        try:
            self._tell_of_ended()
            if reason == "finished":  # each is withheld behind a page that arrived
                for token in self._kept.values():
                    self._queue.done(token)
                self._kept.clear()
            holds_nothing = not (self._under_way or self._kept or self._unreadable)
            self._queue.close(holds_nothing=holds_nothing)
        except StoreError as error:
            self._has_failed = True
            logger.critical("Some pages will be fetched again: %(error)s", {"error": error})
        self.df.close(reason)

    def _fail(self, error: StoreError) -> None:
        self._has_failed = True
        logger.critical("The crawl ends here: %(error)s", {"error": error})
        self._count("urlnorm/store/errors")
        stop_crawl(self.crawler)

    def _on_repeated(self, steps: int) -> None:
        logger.warning(
            "Redis had lost the last %(steps)d things that this crawler told its queue (it failed "
            "over, or was restarted); it was told again, and no request is lost",
            {"steps": steps},
            extra={"spider": self.crawler.spider},
        )
        self._count("urlnorm/requests/repeated", steps)

    def _on_taken_back(self, requests: int) -> None:
        logger.info(
            "%(count)d requests of a crawler that gave no sign of life are back in the queue",
            {"count": requests},
            extra={"spider": self.crawler.spider},
        )
        self._count("urlnorm/requests/taken_back", requests)

    def _count(self, name: str, count: int = 1) -> None:
        if self.crawler.stats is not None:
            self.crawler.stats.inc_value(name, count)


def _require_ours(dupefilter: object) -> UrlNormDupeFilter:
    if not isinstance(dupefilter, UrlNormDupeFilter):
        raise ConfigError(
            f"SCHEDULER = SharedScheduler with DUPEFILTER_CLASS = {type(dupefilter).__qualname__}; "
            "accepted: scrapy_urlnorm.UrlNormDupeFilter"
        )
    return dupefilter
