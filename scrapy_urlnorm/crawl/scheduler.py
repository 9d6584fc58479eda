"""Scheduler: Scrapy's own, with learned rules, and with a queue that survives a kill.

The life of one request in a crawl with JOBDIR. The right column is what the database of the crawl
(`scrapy_urlnorm.stores.sqlite`) holds at each step::

    spider yields a link
        |
    dupefilter                  the key, in the open transaction (seen: the request is dropped)
        |
    queue                       the request too, in `request`
        |
    next commit                 both last: before, a kill undoes both
        |
    leaves the queue            the request still, marked in memory as `handed_out` (learning may
        |                       hold it: then it moves to `held`, in the same transaction)
        |
    downloader, callback        the same; new links of the callback go through all of this
        |
    done                        its row is deleted, in the transaction that has those links

So after a kill at any moment the next run finds every request that was not done. What was being
downloaded or handled is fetched again.

A store in Redis is not part of the transaction. There a request whose key is new is first written
down as announced and committed, then Redis is told of the key, and the row goes in the transaction
that has the request in its queue. What a kill leaves announced is queued by the next run.

Another spelling of one that is under way waits in `twin` (see `awaiting`) until that page has arrived,
or goes to `request` in the transaction in which the other one is done.

Without JOBDIR the queue is Scrapy's own, in memory. Many crawlers on one queue in Redis use
`shared_scheduler`, where the same holds for each crawler that dies.
"""

from __future__ import annotations

import json
from collections import deque
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.core.scheduler import Scheduler as ScrapyScheduler
from scrapy.exceptions import CloseSpider
from scrapy.utils.misc import build_from_crawler, load_object

from scrapy_urlnorm.crawl.components import (
    ERROR_REASON,
    SAVED_QUEUE,
    ask_again,
    components_of,
    count,
    in_progress,
    stop_crawl,
    unopened_database,
)
from scrapy_urlnorm.crawl.database import (
    DatabaseShelf,
    DiskQueue,
    FifoDiskQueue,
    LifoDiskQueue,
    RequestQueue,
    Shelf,
    decoded,
    encoded,
    plain,
    require_requests,
)
from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter
from scrapy_urlnorm.crawl.online.safe_points import new_slice
from scrapy_urlnorm.crawl.requests import note_purpose, purpose_of, site_of
from scrapy_urlnorm.exceptions import ConfigError, StoreError
from scrapy_urlnorm.text import logger_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred
    from typing_extensions import Self

    from scrapy_urlnorm.crawl.online.learner import Learner
    from scrapy_urlnorm.stores import Database, Seen

__all__ = ("FifoDiskQueue", "LifoDiskQueue", "Scheduler")  # settings name the queues here
logger = logger_of(__name__)

DISK_QUEUES = ("SCHEDULER_DISK_QUEUE", "SCHEDULER_START_DISK_QUEUE")  #: settings with their classes
#: Requests that are taken out of the queue while their sites pause, to find those of other sites.
MAX_PARKED = 200
#: After so many questions for a request, while the engine has none, ``start()`` is waiting.
IN_VAIN = 3


class Scheduler(ScrapyScheduler):
    """Holds requests that a learned rule makes equal to a page that has arrived.

    Without JOBDIR that is the only difference from Scrapy's scheduler. With JOBDIR it needs the
    disk queues `LifoDiskQueue` and `FifoDiskQueue`, and says when a transaction of the database
    ends: when the engine asks for a request.

    Requests that cannot be serialized wait in memory, as with Scrapy's own scheduler: a kill loses
    them. A store that fails ends the crawl with the reason ``urlnorm_store_error``. After that nothing is
    queued or given out: the page that a request came from is not done then, and will be fetched
    again. The next run begins with the last commit.
    """

    sends_what_is_held = True  #: asks the learner before it gives a request out
    is_shared = False  #: whether other crawlers take requests from the queue too
    crawler: Any  # Scrapy's: never ``None`` in a crawl
    dqs: Any
    pqclass: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.dqs = None  # for `close`, which Scrapy calls even if `open` has failed
        self._queue: Any = None  # `RequestQueue`, or the `SharedQueue` of a subclass
        self._shelf: Any = None  # since `open`
        self._has_failed = False
        self._asked_in_vain = 0  # since ``start()`` gave a request
        self._parked: dict[str, deque[Request]] = {}  # of sites at a pause, in their order

    @property
    def _ours(self) -> UrlNormDupeFilter | None:
        return self.df if isinstance(self.df, UrlNormDupeFilter) else None

    def _fingerprint(self, request: Request) -> bytes:
        return bytes(self.crawler.request_fingerprinter.fingerprint(request))

    def open(self, spider: Spider) -> Deferred[None] | None:
        """Open the queue, and then what Scrapy's scheduler opens.

        Raises `CloseSpider` when one of them cannot be used.
        """
        try:
            opened = self._open(spider)
            if self._ours is not None:
                self._ours.awaiting.attach(self.crawler, self._shelf)
            return opened
        except BaseException as error:
            self._queue = None
            if self._ours is not None:
                self._ours.has_failed = True  # nothing is learned behind it
            if not isinstance(error, (StoreError, ConfigError)):
                raise
            logger.critical("The crawl ends here: %s", error)
            # Scrapy logs this one with its cause; the line above says all that the user can act on.
            raise CloseSpider(ERROR_REASON) from None

    def _open(self, spider: Spider) -> Deferred[None] | None:
        if self.dqdir is None:
            self._shelf = Shelf()
            return super().open(spider)
        database = unopened_database(self.crawler)
        try:
            return self._resume(spider, database, Path(self.dqdir) / SAVED_QUEUE)
        except Exception as error:
            database.give_up(error)
            raise

    def _resume(self, spider: Spider, database: Database, state: Path) -> Deferred[None] | None:
        _require_our_queues(self.crawler)
        require_requests(database, state)
        database.open()
        database.commits_itself = False
        is_taken_over = not state.exists() or RequestQueue.is_in(database)
        before = None if is_taken_over else self._stock_queue(state)
        encode, decode = partial(encoded, spider=spider), partial(decoded, spider=spider)
        self._queue = queue = RequestQueue(database, encode, decode)
        components_of(self.crawler).put(queue)
        self._shelf = shelf = DatabaseShelf(database, spider)
        if damaged := queue.damaged + shelf.damaged:
            message = "%d requests in %s are damaged and lost; all others are whole"
            logger.error(message, damaged, database.name)
            count(self.crawler, "urlnorm/errors", damaged)
        # What Scrapy's priority queue would have saved at a clean close: a killed crawl never wrote
        # it, and without it Scrapy finds no request.
        probe = self._priority_queue(_StoresNothing, None)
        for data in queue.one_of_each():
            probe.push(plain(data))
        state.write_text(json.dumps(probe.close()), encoding="utf-8")
        opened = super().open(spider)  # reads the state
        if len(self.dqs) != len(queue):
            raise StoreError(
                f"of {len(queue):,} requests in {database.name} the priority queue finds "
                f"{len(self.dqs):,}: set SCHEDULER_PRIORITY_QUEUE to what it was when they were put "
                "there, or name another JOBDIR"
            )
        if before is not None:
            self._take_over(before)
        if self._ours is not None:
            self._queue_announced(queue, self._ours.store)
            self._tell_of_waiting(queue, self._ours)
        database.commit()
        if len(queue):
            logger.info("Resuming: %d requests wait in %s", len(queue), database.name)
        return opened

    def _priority_queue(self, queue: Any, start_queue: Any, state: Any = ()) -> Any:
        return build_from_crawler(
            self.pqclass,
            self.crawler,
            downstream_queue_cls=queue,
            key=self.dqdir,
            startprios=state,
            start_queue_cls=start_queue,
        )

    def _stock_queue(self, state: Path) -> Any:
        """Return the queue that an earlier run with Scrapy's own scheduler left in JOBDIR."""
        names = (self.crawler.settings[name] for name in DISK_QUEUES)
        queue, start_queue = (load_object(name).stock if name else None for name in names)
        try:
            saved = json.loads(state.read_text(encoding="utf-8"))
            return self._priority_queue(queue, start_queue, saved)
        except Exception as error:
            raise StoreError(
                f"the queue that Scrapy left with {str(state)!r} cannot be read ({error!r}): name "
                "another JOBDIR, or delete that file and with it the requests"
            ) from error

    def _take_over(self, before: Any) -> None:
        for _ in range(len(before)):  # in the order in which they come out
            try:
                request = before.pop()
            except Exception as error:  # noqa: BLE001, PERF203 - what its pickled objects raise
                logger.error("A request that Scrapy left in its queue is lost: %r", error)
            else:
                if request is not None:
                    self.dqs.push(request)
        before.close()

    def _queue_announced(self, queue: RequestQueue, store: Seen) -> None:
        """Queue what a kill left announced. Perhaps the store was not told of its key either."""
        for number, request in queue.announced():
            if request is not None:
                self.dqs.push(request)
                queue.settle(number)
                queue.database.commit()
                store.claim(self._fingerprint(request), request.url, purpose_of(request))

    def _tell_of_waiting(self, queue: RequestQueue, keys: UrlNormDupeFilter) -> None:
        """If the store has lost its keys, or is another one, add those of the queued requests."""

        def filtered(requests: Iterable[bytes]) -> Iterator[Request]:
            return (request for request in map(plain, requests) if not request.dont_filter)

        known = map(self._fingerprint, filtered(queue.one_of_each()))
        if not all(map(keys.knows, known)):
            for request in filtered(queue.all()):
                keys.store.claim(self._fingerprint(request), request.url)

    # --- a crawl that runs ------------------------------------------------------------------

    def enqueue_request(self, request: Request) -> bool:
        """Queue *request* if it is new."""
        if self._has_failed:
            return False
        try:
            return self._enqueue(request)
        except StoreError as error:
            self._fail(error)
            return False

    def _enqueue(self, request: Request) -> bool:
        queue, ours, announced = self._queue, self._ours, None
        if "is_start_request" in request.meta:
            self._asked_in_vain = 0
        if request.dont_filter and ours is not None:
            ours.awaiting.again(request)
        if queue is None:
            return super().enqueue_request(request)
        if (
            ours is not None
            and ours.store.is_shared
            and not (ours.has_failed or request.dont_filter)
            and not ours.knows(self._fingerprint(request))
        ):
            with suppress(ValueError):  # it waits in memory
                # Written down before a shared store is told of its key.
                announced = queue.announce(request)
        is_queued = super().enqueue_request(request)
        if announced is not None:
            queue.settle(announced)
        return is_queued

    def next_request(self) -> Request | None:
        """Tell the queue which requests have ended, and return the next one to send.

        Those that a learned rule makes equal to a page that has arrived are held. After some of them
        the event loop has its turn, even if there are more.
        """
        if self._has_failed:
            return None
        learner = components_of(self.crawler).learner
        try:
            self._tell_of_ended()
            if self._queue is not None:
                self._queue.commit()
            if learner is not None:
                learner.attach_scheduler(is_shared=self.is_shared)
                learner.work()
            is_over = new_slice()
            while (request := self._take(learner)) is not None:
                if learner is not None:
                    note_purpose(request)
                if learner is None or learner.on_leaving(request):
                    if self._ours is not None:
                        self._ours.awaiting.handed_out(request)
                    return request
                self._hold(request)
                if is_over():
                    ask_again(self.crawler)
                    break
            else:
                self._starve(learner)
        except StoreError as error:
            self._fail(error)
        return None

    def _starve(self, learner: Learner | None) -> None:
        """Have what waits be sent while ``start()`` of the spider is waiting for something.

        The crawl is not idle as long as that may go on, which may be for ever. It is waiting if the
        engine has nothing to do, and has asked in vain since ``start()`` gave its last request.
        """
        engine = self.crawler.engine
        is_feeding = getattr(engine, "_start", None) is not None
        if learner is not None and is_feeding and not in_progress(self.crawler) and not len(self):
            self._asked_in_vain += 1
            if self._asked_in_vain >= IN_VAIN:
                learner.idle(is_feeding=True)

    def _take(self, learner: Learner | None) -> Request | None:
        """Take a request out of the queue whose site is at no pause; the others are parked."""
        if learner is None:
            return super().next_request()
        for site, waiting in self._parked.items():
            if not learner.is_paused(site):
                parked = waiting.popleft()
                if not waiting:
                    del self._parked[site]
                return parked
        most = MAX_PARKED if learner.has_many_sites else 1
        while self._number_parked < most and (request := super().next_request()):
            if not learner.pauses or not learner.is_paused(site := site_of(request.url)):
                return request
            self._parked.setdefault(site, deque()).append(request)
        return None

    @property
    def _number_parked(self) -> int:
        return sum(map(len, self._parked.values()))

    def __len__(self) -> int:
        return super().__len__() + self._number_parked

    def _hold(self, request: Request) -> None:
        if self._queue is not None and request in self._queue.handed_out:
            self._queue.done([request])  # in the transaction that wrote it down as held

    def _tell_of_ended(self) -> None:
        """Tell of the requests that the engine is done with, callback, retries and all.

        The queue forgets them, and their twins are sent in the same transaction.
        """
        under_way = in_progress(self.crawler)
        if self._ours is not None:
            self._ours.awaiting.work(under_way)
        if self._queue is not None and (handed_out := self._queue.handed_out):
            under_way = under_way.union(*self._parked.values())
            self._queue.done([each for each in handed_out if each not in under_way])

    def close(self, reason: str) -> Deferred[None] | None:
        if self._queue is not None and not self._has_failed:
            try:
                self._end(reason)
            except StoreError as error:
                self._has_failed = True
                self._queue.give_up(error)
                logger.critical("Some pages will be fetched again: %s", error)
        return super().close(reason)

    def _end(self, reason: str) -> None:
        self._tell_of_ended()
        self._queue.close()

    def _fail(self, error: StoreError) -> None:
        self._has_failed = True
        if self._queue is not None:
            self._queue.give_up(error)
            if self._ours is not None and self._ours.has_failed:
                return  # the keys are in the same place, and the dupefilter has said all this
        logger.critical("The crawl ends here: %s", error)
        count(self.crawler, "urlnorm/errors")
        stop_crawl(self.crawler)


class _StoresNothing:
    """A queue that forgets every request, and says that it has one."""

    @classmethod
    def from_crawler(cls, crawler: Crawler, key: str) -> Self:
        return cls()

    def push(self, request: Request) -> None: ...
    def pop(self) -> None: ...
    def close(self) -> None: ...

    def __len__(self) -> int:
        return 1


def _require_our_queues(crawler: Crawler) -> None:
    for name in DISK_QUEUES:
        queue = crawler.settings[name]
        if queue and not issubclass(load_object(queue), DiskQueue):
            raise ConfigError(
                f"{name} = {queue!r} with SCHEDULER = {crawler.settings['SCHEDULER']!r} and JOBDIR; "
                f"accepted: {__name__}.LifoDiskQueue, {__name__}.FifoDiskQueue"
            )
