"""PriorityQueue: scrapy-redis's, from which a crawler that is killed takes nothing along."""

from __future__ import annotations

from contextlib import suppress
from importlib.resources import files
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
        f"scrapy_urlnorm.redis_queue needs the package {error.name}, which is not installed: "
        "pip install 'scrapy-urlnorm[redis]' scrapy-redis"
    ) from error

from .crawl.engine import in_progress

if TYPE_CHECKING:
    from scrapy import Request

_SCRIPT = files(__package__).joinpath("redis_queue.lua").read_text("ascii")


class PriorityQueue(ScrapyRedisPriorityQueue):  # type: ignore[misc]  # it has no types
    """For ``SCHEDULER_QUEUE_CLASS``, in Redis as scrapy-redis's is, and with the same order.

    A request that a crawler has taken stands beside the queue until its callback has run to the
    end. When the crawler gives no sign of life for `dead_seconds`, what it had under way waits
    again, for any other. A crawler whose machine stood still that long works on, and these pages
    are fetched twice.

    What others have under way counts as waiting: a crawler does not end before them, for what
    they find, or leave, may be its to do. A spider that waits for start URLs in Redis does not
    end anyway, and only looks there when nothing waits: for that one it does not count.
    """

    dead_seconds = 60.0  #: it gives a sign five times as often

    def __init__(self, server: Any, spider: Any, key: str, serializer: Any = None) -> None:
        super().__init__(server, spider, key, serializer)
        self._keys = [self.key, f"{self.key}:under-way", f"{self.key}:crawlers"]
        self._script = server.register_script(_SCRIPT)
        self._name = uuid4().hex
        self._taken = 0
        self._under_way: dict[Request, str] = {}
        self._done: list[str] = []
        self._counts_others = not isinstance(spider, RedisMixin)
        self._signs: Any = None
        connect = spider.crawler.signals.connect
        connect(self._spider_opened, signals.spider_opened)
        connect(self._spider_closed, signals.spider_closed)

    def pop(self, timeout: float = 0) -> Request | None:
        """Return the next request, ``None`` when none waits. *timeout* means nothing here."""
        self._taken += 1
        token = f"{self._name}:{self._taken}"
        try:
            data = self._say(token)
        except RedisError:
            # It may have handed out a request. Under a name that nobody bears any more that
            # comes back, and so does what is not done until then.
            self._name = uuid4().hex
            raise
        if data is None:
            return None
        try:
            request: Request = self._decode_request(data)
        except Exception:
            self._done.append(token)  # no crawler of this spider can do it
            raise
        self._under_way[request] = token
        return request

    def _say(self, token: str = "") -> bytes | None:
        """Give a sign of life, say what is done; with a *token* take the next request."""
        under_way = in_progress(self.spider.crawler)
        for request in [each for each in self._under_way if each not in under_way]:
            self._done.append(self._under_way.pop(request))
        arguments = [self._name, int(self.dead_seconds * 1000), token, *self._done]
        data: bytes | None = self._script(keys=self._keys, args=arguments)
        self._done.clear()
        return data

    def _give_sign(self) -> None:
        with suppress(RedisError):  # whoever needs the queue meets the error
            self._say()

    def __len__(self) -> int:
        """Return how many requests wait, or are under way elsewhere."""
        if not self._counts_others:
            return int(self.server.zcard(self.key))
        pipeline = self.server.pipeline(transaction=True)
        waiting, under_way = pipeline.zcard(self._keys[0]).hlen(self._keys[1]).execute()
        ours = len(self._under_way) + len(self._done)
        return max(0, int(waiting + under_way - ours))

    def clear(self) -> None:
        """Forget all that waits or is under way."""
        self.server.delete(*self._keys)

    def _spider_opened(self) -> None:
        self._signs = create_looping_call(self._give_sign)
        self._signs.start(self.dead_seconds / 5, now=False)

    def _spider_closed(self) -> None:
        if self._signs is not None and self._signs.running:
            self._signs.stop()
        self._say()
        if not self._under_way:
            self.server.zrem(self._keys[2], self._name)
