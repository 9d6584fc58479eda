"""PriorityQueue: scrapy-redis's; requests taken by a crawler that died return to it."""

from __future__ import annotations

import logging
from contextlib import suppress
from importlib.resources import files
from time import monotonic
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from scrapy import signals
from scrapy.utils.asyncio import create_looping_call

try:
    from redis.exceptions import RedisError
    from scrapy_redis.queue import (  # type: ignore[import-untyped]
        PriorityQueue as ScrapyRedisPriorityQueue,
    )
    from scrapy_redis.spiders import RedisMixin  # type: ignore[import-untyped]
except ImportError as error:
    raise ImportError(
        f"scrapy_urlnorm.crawl.queue.redis_queue needs the package {error.name}, which is not "
        "installed: pip install 'scrapy-urlnorm[redis]' scrapy-redis"
    ) from error

from scrapy_urlnorm.crawl.engine import ask_again, in_progress
from scrapy_urlnorm.crawl.live.live_rules import SLICE_SECONDS, LiveRules
from scrapy_urlnorm.crawl.parts import parts_of

if TYPE_CHECKING:
    from scrapy import Request

logger = logging.getLogger(__name__)

_SCRIPT = files(__package__).joinpath("redis_queue.lua").read_text("ascii")


class PriorityQueue(ScrapyRedisPriorityQueue):  # type: ignore[misc]  # it has no types
    """For ``SCHEDULER_QUEUE_CLASS``: in Redis as scrapy-redis's queue is, in the same order.

    A request that a crawler has taken stays in Redis, in a table beside the queue, until its
    callback has ended. If the crawler gives no sign of life for `dead_seconds`, its requests
    return to the queue, for any other crawler. If only its machine stood still, it works on, and
    these pages are fetched twice.

    Requests that other crawlers have under way count as waiting. So a crawler does not end before
    the others: their pages may have links for it, and their requests may return to the queue. A
    spider that reads start URLs from Redis does not end anyway, and looks for them only when
    nothing waits. For such a spider requests of others do not count.

    A request that a learned rule keeps back is in a third table in Redis until its crawler ends,
    or sends it after all. If its crawler dies, it returns to the queue.
    """

    #: Seconds without a sign of life after which a crawler counts as dead. It gives five signs in
    #: that time.
    dead_seconds = 60.0

    def __init__(self, server: Any, spider: Any, key: str, serializer: Any = None) -> None:
        super().__init__(server, spider, key, serializer)
        self._keys = [self.key, f"{self.key}:under-way", f"{self.key}:crawlers"]
        self._keys.append(f"{self.key}:withheld")
        self._script = server.register_script(_SCRIPT)
        self._name = uuid4().hex
        self._taken = 0
        self._under_way: dict[Request, str] = {}
        self._done: list[str] = []
        self._kept: dict[bytes, str] = {}  # tokens of requests kept back, by fingerprint
        self._newly_kept: list[str] = []
        self._counts_others = not isinstance(spider, RedisMixin)
        self._signs: Any = None
        connect = spider.crawler.signals.connect
        connect(self._spider_opened, signals.spider_opened)
        connect(self._spider_closed, signals.spider_closed)

    def pop(self, timeout: float = 0) -> Request | None:
        """Return the next request to send, ``None`` when none waits.

        *timeout* is scrapy-redis's and has no effect. After `SLICE_SECONDS` the event loop has its
        turn, even if all requests were kept back.
        """
        live_rules = self._live_rules()
        if live_rules is not None:
            live_rules.work()
        deadline = monotonic() + SLICE_SECONDS
        while (request := self._take()) is not None:
            if live_rules is None or live_rules.on_leaving(request):
                return request
            self._keep(request)
            if monotonic() > deadline:
                ask_again(self.spider.crawler)
                return None
        return None

    def push(self, request: Request) -> None:
        """Put *request* into the queue. If it was kept back, it is no longer."""
        super().push(request)
        if self._kept:
            token = self._kept.pop(self._fingerprint(request), None)
            if token is not None:
                self._done.append(token)

    def _keep(self, request: Request) -> None:
        token = self._under_way.pop(request)
        self._kept[self._fingerprint(request)] = token
        self._newly_kept.append(token)

    def _fingerprint(self, request: Request) -> bytes:
        fingerprint: bytes = self.spider.crawler.request_fingerprinter.fingerprint(request)
        return fingerprint

    def _live_rules(self) -> LiveRules | None:
        return parts_of(self.spider.crawler).find(LiveRules)

    def _take(self) -> Request | None:
        self._taken += 1
        token = f"{self._name}:{self._taken}"
        try:
            data = self._say(token)
        except RedisError:
            # Redis may have handed out a request, and the answer was lost. Use a new name:
            # requests held under the old one return to the queue after `dead_seconds`.
            self._name = uuid4().hex
            raise
        if data is None:
            return None
        try:
            request: Request = self._decode_request(data)
        except Exception:
            self._done.append(token)  # no crawler of this spider can read it
            raise
        self._under_way[request] = token
        return request

    def _say(self, token: str = "") -> bytes | None:
        """Give a sign of life, and tell which requests are done. With a *token*, take the next."""
        under_way = in_progress(self.spider.crawler)
        for request in [each for each in self._under_way if each not in under_way]:
            self._done.append(self._under_way.pop(request))
        kept = self._newly_kept
        arguments = [self._name, int(self.dead_seconds * 1000), token, len(kept), *kept]
        taken_back, *data = self._script(keys=self._keys, args=[*arguments, *self._done])
        self._done.clear()
        self._newly_kept.clear()
        if taken_back:
            logger.info(
                "%(count)d requests of a crawler that gave no sign of life are back in the queue",
                {"count": taken_back},
                extra={"spider": self.spider},
            )
            self.spider.crawler.stats.inc_value("urlnorm/requests/taken_back", taken_back)
        return data[0] if data else None

    def _give_sign(self) -> None:
        with suppress(RedisError):  # the next `pop` or `push` raises it
            self._say()

    def __len__(self) -> int:
        """Return how many requests wait, or are under way at other crawlers."""
        if not self._counts_others:
            return int(self.server.zcard(self.key))
        pipeline = self.server.pipeline(transaction=True)
        waiting, under_way = pipeline.zcard(self._keys[0]).hlen(self._keys[1]).execute()
        ours = len(self._under_way) + len(self._done) + len(self._newly_kept)
        return max(0, int(waiting + under_way - ours))

    def clear(self) -> None:
        """Delete all requests, those under way and kept back too."""
        self.server.delete(*self._keys)

    def _spider_opened(self) -> None:
        live_rules = self._live_rules()
        if live_rules is not None:
            live_rules.asked_by_queue(is_shared=True)
        self._signs = create_looping_call(self._give_sign)
        self._signs.start(self.dead_seconds / 5, now=False)

    def _spider_closed(self, reason: str) -> None:
        if self._signs is not None and self._signs.running:
            self._signs.stop()
        if reason == "finished":  # each is withheld behind a page that arrived
            self._done += self._kept.values()
            self._kept.clear()
        self._say()
        if not self._under_way and not self._kept:
            self.server.zrem(self._keys[2], self._name)
