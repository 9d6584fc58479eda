"""SharedScheduler: many crawlers, one queue and one set of seen keys, both in one Redis.

A request goes the way that `scheduler` shows, with Redis in place of the database. `SharedQueue`
holds it for this crawler before the store is told of its key. Then it waits, for any crawler, and is
held by the one that took it, until its callback has run: what that queues is told in the same step,
or in an earlier one. So a crawler may die at any moment: what it held waits again. That its key is in
the store before it waits costs nobody a page.
"""

from __future__ import annotations

import sys
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from scrapy import signals
from scrapy.utils.asyncio import create_looping_call

from scrapy_urlnorm.crawl.components import components_of, config_of
from scrapy_urlnorm.crawl.database import Shelf, decoded, encoded
from scrapy_urlnorm.crawl.scheduler import Scheduler
from scrapy_urlnorm.exceptions import ConfigError, MissingExtraError, StoreError

try:
    from scrapy_urlnorm.stores.redis_connection import RedisConnection, Script, parse_redis
except ImportError as error:
    raise MissingExtraError("redis", "redis", "SharedScheduler") from error
from scrapy_urlnorm.text import logger_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy import Request, Spider
    from twisted.internet.defer import Deferred

    from scrapy_urlnorm.crawl.online.learner import Learner
    from scrapy_urlnorm.stores.redis_connection import Place

logger = logger_of(__name__)

JOURNAL = 32_000_000  #: bytes of the steps that a crawler can repeat when Redis has lost them
_CHANGES = 1_000  # that are said at once, without waiting for a question
_WAITED_META = "urlnorm_waited"  # key of the meta, in Redis, of a request that waits on a shelf
_A_STEP = 500  # bytes, about, without its requests

_STEP = Script.load(__package__, "shared_queue.lua", answers=(list,))


class SharedQueue:
    """The queue in Redis, as one crawler sees it. *encode* makes an entry of a request: its score, a
    line feed, and bytes that *decode* reads.

    A request is in Redis until it is done: it waits, is held by a crawler, or is withheld by one.
    If a crawler gives no sign of life for *dead_seconds*, all that it held waits again.

    A promoted replica, or a Redis restarted from its file, may not know the last things it was
    told. So the steps of a crawler are numbered, Redis keeps the number of the last one, and the
    crawler keeps its last steps, `JOURNAL` bytes of them. If Redis names an older one, the crawler
    repeats what came after it. Every change says what is to be, so it may be made twice.

    All its keys lie in one slot of a cluster. Every failure is a `StoreError`. After it nobody
    knows what Redis was told last, and the queue refuses to go on.
    """

    def __init__(
        self,
        place: Place,
        dead_seconds: float,
        encode: Callable[[Any], bytes],
        decode: Callable[[bytes], Any],
    ) -> None:
        self.name = f"the queue at {place.name} (prefix {place.prefix!r})"
        #: Requests that wait, or are held by any crawler; counted by the last step.
        self.waiting = self.held = 0
        self.handed_out: dict[Any, str] = {}  #: requests, with the tokens that stand for them
        self._withheld: set[str] = set()  # tokens
        self._announced: tuple[Any, str] = (None, "")
        self._encode, self._decode = encode, decode
        self._connection = RedisConnection(place, self.name)
        parts = ("waiting", "held", "withheld", "crawlers", "steps")
        self._keys = [f"{place.prefix}:{{{place.prefix}:queue}}:{part}" for part in parts]
        self._crawler = uuid4().hex
        self._patience = int(dead_seconds * 1000)
        self.extra: dict[str, Any] = {}  #: for loggers
        self._number = 0  # of the last step that changed something
        self._tokens = 0
        #: Operation, token and entry of what Redis was not told of yet: see ``shared_queue.lua``.
        self._changes: list[tuple[str, str, bytes]] = []
        self._journal: deque[tuple[int, list[tuple[str, str, bytes]]]] = deque()
        self._journal_bytes = 0

    def open(self) -> None:
        """Connect. Raises `StoreError` for a Redis that would throw waiting requests away."""
        self._connection.open()
        try:
            policy = self._connection.eviction()
            if policy.startswith("allkeys"):
                raise StoreError(
                    f"{self.name}: Redis is set to throw away keys when memory is short "
                    f"(maxmemory-policy {policy}), and waiting requests with them: set noeviction"
                )
            self.tell()
        except BaseException:
            self._connection.close()
            raise

    def push(self, request: Any) -> None:
        """Let a request wait. Redis is told with the next step; before that it may be lost.

        Raises `ValueError` for one that cannot be serialized.
        """
        announced, token = self._announced
        if announced is request:
            self._change("free", token)
        else:
            self._change("wait", "", self._encode(request))

    def announce(self, request: Any) -> str:
        """Hold a request of which it is not decided yet whether it is to wait; return its token.

        Redis knows it when this returns: if this crawler dies undecided, the request waits.
        """
        token = self._new_token()
        self._changes.append(("hold", token, self._encode(request)))
        self.tell()
        self._announced = request, token
        return token

    def settle(self, token: str) -> None:
        """Forget what was announced or is withheld."""
        self._announced = None, ""
        self._withheld.discard(token)
        self._change("done", token)

    def pop(self) -> Any:
        """Take the next request that waits and that this run can read; ``None`` when none does."""
        while (entry := self._step(token := self._new_token())) is not None:
            request = self._decode(entry.partition(b"\n")[2])
            if request is not None:
                self.handed_out[request] = token
                return request
            self._withhold(token)
        return None

    def done(self, requests: Iterable[Any]) -> None:
        for request in requests:
            self.settle(self.handed_out.pop(request))

    def withhold(self, request: Any) -> str:
        """Withhold a request that is not in the queue; return its token.

        Redis is told before it hears that what found the request is done. Raises `ValueError` for
        one that cannot be serialized.
        """
        entry, token = self._encode(request), self._new_token()
        self._change("hold", token, entry)
        self._withhold(token)
        return token

    def hold(self, request: Any) -> str:
        """Withhold a request that was handed out; return its token."""
        token = self.handed_out.pop(request)
        self._withhold(token)
        return token

    def _withhold(self, token: str) -> None:
        self._withheld.add(token)
        self._change("keep", token)

    def __len__(self) -> int:
        return self.waiting

    def commit(self) -> None:
        """Do nothing: `pop` and `tell` say all that was not said yet."""

    def tell(self) -> None:
        """Give a sign of life, and tell Redis of all changes."""
        self._step("")

    def give_up(self, error: Exception) -> None:
        """Say nothing more because of *error*; what this crawler holds waits when it is dead."""
        self._connection.close()

    def close(self) -> None:
        """End; what this crawler still holds waits again when it counts as dead."""
        *_, crawlers, steps = self._keys
        try:
            self.tell()
            if not self.handed_out and not self._withheld:
                self._connection.do(lambda client: client.zrem(crawlers, self._crawler))
                self._connection.do(lambda client: client.hdel(steps, self._crawler))
        finally:
            self._connection.close()

    def _new_token(self) -> str:
        self._tokens += 1
        return f"{self._crawler}:{self._tokens}"

    def _change(self, operation: str, token: str, entry: bytes = b"") -> None:
        self._changes.append((operation, token, entry))
        if len(self._changes) >= _CHANGES:
            self.tell()

    def _step(self, token: str) -> Any:
        """Tell Redis of all changes, and take a request if there is a *token* for it."""
        number = self._number + 1
        answer = self._say(number, token, self._changes)
        while answer[0] not in (number - 1, number):
            self._repeat(answer[0])
            answer = self._say(number, token, self._changes)
        _, taken_back, self.waiting, self.held, entry = answer
        changes = self._changes if entry is None else [*self._changes, ("take", token, entry)]
        if changes:
            self._number = number
            self._changes = []
            self._journal.append((number, changes))
            self._journal_bytes += _size(changes)
            while self._journal_bytes > JOURNAL:
                self._journal_bytes -= _size(self._journal.popleft()[1])
        if taken_back:
            message = "%d requests of a crawler that gave no sign of life are back in the queue"
            logger.info(message, taken_back, extra=self.extra)
        return entry

    def _repeat(self, last: int) -> None:
        """Say all steps again that came after the step *last*, which Redis knows."""
        lost = [step for step in self._journal if step[0] > last]
        if not lost or lost[0][0] != last + 1:
            raise StoreError(
                f"{self.name} has lost requests (was Redis restarted without persistence, its "
                "database flushed, or a replica promoted that was far behind?): restore it from a "
                "backup, or delete what is left and start the crawl anew"
            )
        for number, changes in lost:
            if self._say(number, "", changes)[0] not in (number - 1, number):
                return  # another server answers now: the caller finds out what that one knows
        logger.warning(
            "Redis had lost the last %d things that this crawler told its queue (it failed "
            "over, or was restarted); it was told again, and no request is lost",
            len(lost),
            extra=self.extra,
        )

    def _say(self, number: int, token: str, changes: list[tuple[str, str, bytes]]) -> list[Any]:
        flat = [part for change in changes for part in change]
        arguments = (len(self._keys), *self._keys, self._crawler, number, self._patience, token)
        try:
            answer, _ = self._connection.do(lambda client: _STEP.run(client, *arguments, *flat))
        except StoreError:
            # Perhaps Redis did this step. Another one with its number would not be done.
            self._connection.close()
            raise
        if not isinstance(answer, list) or len(answer) != 5:
            raise StoreError(f"{self.name} answers {answer!r}, as no Redis does: is it one?")
        return answer


def _size(changes: list[tuple[str, str, bytes]]) -> int:
    return _A_STEP + sum(len(entry) for _, _, entry in changes)


class SharedShelf(Shelf):
    """Requests in memory, and withheld in the *queue* in Redis: if this crawler dies, they wait there.

    There they are marked, so that another crawler looks at them again. What cannot be serialized is in
    memory alone.
    """

    def __init__(self, queue: SharedQueue) -> None:
        super().__init__()
        self._queue = queue
        self._tokens: dict[Request, str] = {}

    def _write(self, key: bytes, request: Request) -> None:
        with suppress(ValueError):
            marked = request.replace(meta={**request.meta, _WAITED_META: True})
            self._tokens[request] = self._queue.withhold(marked)
        super()._write(key, request)

    def clear(self, key: bytes) -> list[Request]:
        found = super().clear(key)
        for request in found:
            self.settle(request)
        return found

    def settle(self, request: Request) -> None:
        """Take note that *request*, if it was here, is in the queue by now, or is dropped."""
        if (token := self._tokens.pop(request, None)) is not None:
            self._queue.settle(token)


class SharedScheduler(Scheduler):
    """For ``SCHEDULER`` where the store of the keys is in Redis: all requests wait there too.

    Crawlers whose store has one URL and one prefix share the queue. Requests of higher priority
    come first. Requests that others hold count as pending, so no crawler ends before the others:
    their pages may have links for it.

    A Redis that does not answer within the time to wait, or has lost requests for good, ends the
    crawl with the reason ``urlnorm_store_error``. What this crawler held then waits for others, or
    for the next run. Requests that cannot be serialized wait in memory.

    Raises `ConfigError` for a store elsewhere, and for another dupefilter.
    """

    is_shared = True
    #: A crawler counts as dead after so long without a sign of life, and the time to wait for
    #: Redis. It gives five signs in that time.
    dead_seconds = 60.0
    df: Any  # UrlNormDupeFilter, since `open`

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.dqdir = None  # nothing of the queue is in JOBDIR
        self._kept: dict[bytes, str] = {}  # tokens of held requests, by fingerprint
        self._signs: Any = None

    def _open(self, spider: Spider) -> None:
        if self._ours is None:
            raise ConfigError(
                "SCHEDULER = SharedScheduler with DUPEFILTER_CLASS = "
                f"{type(self.df).__qualname__}; accepted: scrapy_urlnorm.UrlNormDupeFilter"
            )
        config = config_of(self.crawler)
        config.require_redis()
        place = parse_redis(config.store, spider.name)
        self._patience = self.dead_seconds + place.wait
        queue = SharedQueue(place, self._patience, self._entry, partial(decoded, spider=spider))
        queue.extra = {"spider": spider}
        super()._open(spider)
        queue.open()
        self._queue = self.dqs = queue
        self._shelf = SharedShelf(queue)
        if queue.waiting or queue.held:
            message = "%d requests wait in %s, other crawlers hold %d"
            logger.info(message, queue.waiting, queue.name, queue.held, extra=queue.extra)
        self.crawler.signals.connect(self._spider_opened, signals.spider_opened)

    def _entry(self, request: Request) -> bytes:
        return b"%d\n%b" % (-request.priority, encoded(request, self.crawler.spider))

    def _spider_opened(self) -> None:
        if (learner := components_of(self.crawler).learner) is not None:
            learner.attach_scheduler(is_shared=True)  # the first requests come before it is asked
        self._signs = create_looping_call(self._give_sign)
        self._signs.start(self._patience / 5, now=False)

    def _enqueue(self, request: Request) -> bool:
        is_queued = super()._enqueue(request)
        if is_queued and (kept := self._kept.pop(self._fingerprint(request), None)) is not None:
            self._queue.settle(kept)  # it is sent after all
        if is_queued:
            self._shelf.settle(request)
        return is_queued

    def _take(self, learner: Learner | None) -> Request | None:
        """Take a request; what a crawler that died had held as a twin is looked at as when it came."""
        while (request := super()._take(learner)) is not None:
            has_waited, ours = request.meta.pop(_WAITED_META, False), self._ours
            if not has_waited or ours is None or not ours.request_seen(request):
                return request
            ours.log(request, self.crawler.spider)
            self._queue.done([request])
        return None

    def _hold(self, request: Request) -> None:
        if request in self._queue.handed_out:
            self._kept[self._fingerprint(request)] = self._queue.hold(request)

    def has_pending_requests(self) -> bool:
        if not self._has_failed and (len(self.mqs) or self._parked):
            return True
        self._give_sign()
        if self._has_failed:
            return False
        queue = self._queue
        # A spider of scrapy-redis looks for start URLs in Redis when nothing is pending.
        mixin = getattr(sys.modules.get("scrapy_redis.spiders"), "RedisMixin", None)
        if mixin is not None and isinstance(self.crawler.spider, mixin):
            return bool(queue.waiting)
        return bool(queue.waiting + queue.held > len(queue.handed_out))

    def _give_sign(self) -> None:
        if not self._has_failed:
            try:
                self._tell_of_ended()
                self._queue.tell()
            except StoreError as error:
                self._fail(error)

    def close(self, reason: str) -> Deferred[None] | None:
        """Tell the queue what has ended. What was not done waits for others, or the next run."""
        if self._signs is not None and self._signs.running:
            self._signs.stop()
        self.dqs = None  # Scrapy's scheduler would write down where to find it
        return super().close(reason)

    def _end(self, reason: str) -> None:
        if reason == "finished":
            for token in self._kept.values():  # each is held behind a page that arrived
                self._queue.settle(token)
        super()._end(reason)
