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
import sys
from collections import deque
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.exceptions import CloseSpider
from scrapy.utils.asyncio import create_looping_call
from scrapy.utils.misc import build_from_crawler, load_object

from scrapy_urlnorm.crawl.components import (
    ERROR_REASON,
    components_of,
    config_of,
    count,
    in_progress,
    stop_crawl,
)
from scrapy_urlnorm.crawl.database import decoded, encoded
from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter
from scrapy_urlnorm.crawl.online.learner import Learner
from scrapy_urlnorm.crawl.scheduler import first_to_send
from scrapy_urlnorm.crawl.settings import STORE
from scrapy_urlnorm.exceptions import ConfigError, MissingExtraError, StoreError
from scrapy_urlnorm.stores import REDIS_SCHEMES

try:
    from scrapy_urlnorm.crawl.shared_queue import SharedQueue
    from scrapy_urlnorm.stores.redis_connection import parse_redis
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

    Raises `ConfigError` for a store elsewhere, and for another dupefilter.
    """

    sends_what_is_held = True  #: asks the learner before it gives a request out
    #: A crawler counts as dead after so long without a sign of life, and the time to wait for
    #: Redis. It gives five signs in that time.
    dead_seconds = 60.0

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self._under_way: dict[Request, str] = {}  # and their tokens
        self._kept: dict[bytes, str] = {}  # tokens of held requests, by fingerprint
        self._unreadable = 0
        self._in_memory: deque[Request] = deque()
        self._opened: SharedQueue | None = None
        self._has_failed = False
        self._signs: Any = None
        self._dupefilter = build_from_crawler(
            load_object(crawler.settings["DUPEFILTER_CLASS"]), crawler
        )

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    @property
    def _queue(self) -> SharedQueue:
        assert self._opened is not None
        return self._opened

    def open(self, spider: Spider) -> None:
        """Open the store and the queue. Raises `CloseSpider` when one of them cannot be used."""
        try:
            self.df = _require_ours(self._dupefilter)
            self._opened = queue = self._new_queue(spider)
            self.df.open()
            queue.open()
        except (StoreError, ConfigError) as error:
            logger.critical("The crawl ends here: %(error)s", {"error": error})
            self._has_failed = True
            raise CloseSpider(ERROR_REASON) from error
        if queue.waiting or queue.held:
            message = "%(waiting)d requests wait in %(queue)s, other crawlers hold %(held)d"
            arguments = {"waiting": queue.waiting, "queue": queue.name, "held": queue.held}
            logger.info(message, arguments, extra={"spider": spider})
        self.crawler.signals.connect(self._spider_opened, signals.spider_opened)

    def _new_queue(self, spider: Spider) -> SharedQueue:
        config = config_of(self.crawler)
        if config.store.partition(":")[0] not in REDIS_SCHEMES:
            raise ConfigError(
                f"SCHEDULER = SharedScheduler with {STORE} = {config.store!r}; accepted: a store "
                "in Redis"
            )
        place, options = parse_redis(config.store, config.store_options, spider.name)
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
        if (learner := components_of(self.crawler).find(Learner)) is not None:
            learner.attach_scheduler(is_shared=True)
        self._signs = create_looping_call(self._give_sign)
        self._signs.start(self._patience / 5, now=False)

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
            count(self.crawler, "scheduler/enqueued")
        return is_queued

    def _enqueue(self, request: Request) -> bool:
        entry = self._entry(request)
        key = self.crawler.request_fingerprinter.fingerprint(request)
        token = None
        if not request.dont_filter:
            if entry is not None and not self.df.keys.knows(key):
                token = self._queue.announce(entry)
            if self.df.request_seen(request):
                if token is not None:
                    self._queue.done(token)
                self.df.log(request, self.crawler.spider)  # type: ignore[arg-type]
                return False
        if token is not None:
            self._queue.free(token)
        elif entry is not None:
            self._queue.push(entry)
        else:
            self._in_memory.append(request)
        kept = self._kept.pop(key, None)  # it is sent after all
        if kept is not None:
            self._queue.done(kept)
        return True

    def _entry(self, request: Request) -> bytes | None:
        """Return *request* as the queue has it; ``None`` if it cannot be serialized."""
        try:
            return b"%d\n%b" % (-request.priority, encoded(request, self.crawler.spider))
        except ValueError as error:
            logger.warning(
                "%(request)s waits in memory, and is lost when this crawler dies, because it "
                "cannot be serialized: %(error)s",
                {"request": request, "error": error},
            )
            count(self.crawler, "scheduler/unserializable")
            return None

    # --- out of the queue -------------------------------------------------------------------

    def next_request(self) -> Request | None:
        """Tell the queue which requests have ended, and return the next one to send."""
        if self._has_failed:
            return None
        learner = components_of(self.crawler).find(Learner)
        try:
            if learner is None:
                request = self._take()
            else:
                request = first_to_send(self.crawler, learner, self._take, self._hold)
        except StoreError as error:
            self._fail(error)
            return None
        if request is not None:
            count(self.crawler, "scheduler/dequeued")
        return request

    def _take(self) -> Request | None:
        if self._in_memory:
            return self._in_memory.popleft()
        self._tell_of_ended()
        while (taken := self._queue.take()) is not None:
            request = decoded(taken.data, self.crawler.spider)
            if request is not None:
                self._under_way[request] = taken.token
                return request
            self._unreadable += 1
            self._queue.keep(taken.token)
        return None

    def _tell_of_ended(self) -> None:
        under_way = in_progress(self.crawler)
        for request in [each for each in self._under_way if each not in under_way]:
            self._queue.done(self._under_way.pop(request))

    def _hold(self, request: Request) -> None:
        token = self._under_way.pop(request, None)
        if token is not None:
            self._kept[self.crawler.request_fingerprinter.fingerprint(request)] = token
            self._queue.keep(token)

    def has_pending_requests(self) -> bool:
        """Return whether requests wait, or are held by other crawlers."""
        if self._has_failed or self._opened is None:
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
        if self._has_failed or self._opened is None:
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
        if self._opened is None or self._has_failed:
            return
        try:
            self._tell_of_ended()
            if reason == "finished":  # each is held behind a page that arrived
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
        count(self.crawler, "urlnorm/store/errors")
        stop_crawl(self.crawler)

    def _on_repeated(self, steps: int) -> None:
        logger.warning(
            "Redis had lost the last %(steps)d things that this crawler told its queue (it failed "
            "over, or was restarted); it was told again, and no request is lost",
            {"steps": steps},
            extra={"spider": self.crawler.spider},
        )
        count(self.crawler, "urlnorm/requests/repeated", steps)

    def _on_taken_back(self, requests: int) -> None:
        logger.info(
            "%(count)d requests of a crawler that gave no sign of life are back in the queue",
            {"count": requests},
            extra={"spider": self.crawler.spider},
        )
        count(self.crawler, "urlnorm/requests/taken_back", requests)


def _require_ours(dupefilter: object) -> UrlNormDupeFilter:
    if not isinstance(dupefilter, UrlNormDupeFilter):
        raise ConfigError(
            f"SCHEDULER = SharedScheduler with DUPEFILTER_CLASS = {type(dupefilter).__qualname__}; "
            "accepted: scrapy_urlnorm.UrlNormDupeFilter"
        )
    return dupefilter
