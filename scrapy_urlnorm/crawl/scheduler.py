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
into `announced` and committed, then Redis is told of the key, and the row goes in the transaction
that has the request in the queue. What a kill leaves in `announced` is queued by the next run.

Without JOBDIR the queue is Scrapy's own, in memory. Many crawlers on one queue in Redis use
`shared_scheduler`, where the same holds for each crawler that dies.
"""

from __future__ import annotations

import json
import logging
import pickle
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy.core.scheduler import Scheduler as ScrapyScheduler
from scrapy.exceptions import CloseSpider
from scrapy.squeues import PickleFifoDiskQueue, PickleLifoDiskQueue
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.request import request_from_dict

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
from scrapy_urlnorm.crawl.database import RequestQueue, decoded, encoded
from scrapy_urlnorm.crawl.dupefilter import SeenKeys, UrlNormDupeFilter
from scrapy_urlnorm.crawl.online.learner import SLICE_SECONDS, Learner
from scrapy_urlnorm.exceptions import ConfigError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred
    from typing_extensions import Self

    from scrapy_urlnorm.stores import Database

logger = logging.getLogger(__name__)

DISK_QUEUES = ("SCHEDULER_DISK_QUEUE", "SCHEDULER_START_DISK_QUEUE")  #: settings with their classes
FOLDER = "requests.queue"  #: in JOBDIR, where Scrapy's scheduler has its queues


class Scheduler(ScrapyScheduler):
    """Holds requests that a learned rule makes equal to a page that has arrived.

    Without JOBDIR that is the only difference from Scrapy's scheduler. With JOBDIR it needs the
    disk queues `LifoDiskQueue` and `FifoDiskQueue`, and says when a transaction of the database
    ends: when the engine asks for a request.

    Requests that cannot be serialized wait in memory, as with Scrapy's own scheduler, and a kill
    loses them. A database that fails ends the crawl with the reason ``urlnorm_store_error``. The
    next run begins with the last commit.
    """

    sends_what_is_held = True  #: asks the learner before it gives a request out
    crawler: Any  # Scrapy's: never ``None`` in a crawl
    dqs: Any
    pqclass: Any
    _requests_a_transaction = 1_000  #: at most

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.dqs = None  # for `close`, which Scrapy calls even if `open` has failed
        self._queue: RequestQueue | None = None
        self._has_failed = False

    @property
    def _keys(self) -> SeenKeys | None:
        return self.df.keys if isinstance(self.df, UrlNormDupeFilter) else None

    def _fingerprint(self, request: Request) -> bytes:
        found: bytes = self.crawler.request_fingerprinter.fingerprint(request)
        return found

    def open(self, spider: Spider) -> Deferred[None] | None:
        """Open the database, and then what Scrapy's scheduler opens.

        Raises `CloseSpider` when the database or the queue in it cannot be used.
        """
        if self.dqdir is None:
            return super().open(spider)
        database = unopened_database(self.crawler)
        try:
            return self._open(spider, database, Path(self.dqdir) / SAVED_QUEUE)
        except BaseException as error:
            self._queue = None
            if isinstance(error, Exception):
                database.give_up(error)
            if not isinstance(error, (StoreError, ConfigError)):
                raise
            logger.critical("The crawl ends here: %(error)s", {"error": error})
            raise CloseSpider(ERROR_REASON) from error

    def _open(self, spider: Spider, database: Database, state: Path) -> Deferred[None] | None:
        _require_our_queues(self.crawler)
        assert database.path is not None
        _refuse_emptied(database.path, state)
        database.open()
        database.commits_itself = False
        is_taken_over = not state.exists() or RequestQueue.is_in(database)
        before = None if is_taken_over else self._stock_queue(state)
        self._queue = queue = RequestQueue(database)
        components_of(self.crawler).put(queue)
        if queue.damaged:
            message = "%(count)d requests in %(queue)s are damaged and lost; all others are whole"
            logger.error(message, {"count": queue.damaged, "queue": database.name})
            self._set_stat("urlnorm/requests/damaged", queue.damaged)
        state.write_text(json.dumps(self._state(queue)), encoding="utf-8")
        opened = super().open(spider)  # reads the state
        if len(self.dqs) != len(queue):
            raise StoreError(
                f"of {len(queue):,} requests in {database.name} the priority queue finds "
                f"{len(self.dqs):,}: set SCHEDULER_PRIORITY_QUEUE to what it was when they were put "
                "there, or name another JOBDIR"
            )
        if before is not None:
            # In the order in which they come out.
            for request in filter(None, (_next_of(before) for _ in range(len(before)))):
                self.dqs.push(request)
            before.close()
        if self._keys is not None:
            self._queue_announced(queue, self._keys)
            self._tell_of_waiting(queue, self._keys)
        database.commit()
        if len(queue):
            arguments = {"count": len(queue), "queue": database.name}
            logger.info("Resuming: %(count)d requests wait in %(queue)s", arguments)
        self._set_stat("urlnorm/requests/resumed", len(queue))
        return opened

    def _set_stat(self, name: str, value: int) -> None:
        if self.stats is not None:
            self.stats.set_value(name, value)

    def _state(self, queue: RequestQueue) -> Any:
        """Return the state that Scrapy's priority queue would have saved at a clean close.

        A killed crawl never wrote it, and without it Scrapy finds no request. It is computed by
        putting one request of each of our queues into a priority queue whose queues store nothing.
        """
        stores_nothing = build_from_crawler(
            self.pqclass, self.crawler, downstream_queue_cls=_StoresNothing, key=self.dqdir
        )
        for data in queue.one_of_each():
            stores_nothing.push(_plain(data))
        return stores_nothing.close()

    def _queue_announced(self, queue: RequestQueue, keys: SeenKeys) -> None:
        """Queue what a kill left announced. Perhaps the store was not told of its key either."""
        for number, data in queue.announced():
            request = decoded(data, self.crawler.spider)
            if request is not None:
                self.dqs.push(request)
                queue.settle(number)
                queue.database.commit()
                keys.store.add(self._fingerprint(request))

    def _tell_of_waiting(self, queue: RequestQueue, keys: SeenKeys) -> None:
        """If the store has lost its keys, or is another one, add those of the queued requests."""

        def keys_of(requests: Iterable[bytes]) -> Iterator[bytes]:
            return (
                self._fingerprint(request)
                for request in map(_plain, requests)
                if not request.dont_filter
            )

        if not all(map(keys.knows, keys_of(queue.one_of_each()))):
            keys.store.add_many(keys_of(queue.all()))

    def _stock_queue(self, state: Path) -> Any:
        """Return the queue that an earlier run with Scrapy's own scheduler left in JOBDIR."""
        settings = self.crawler.settings
        start_queue = settings["SCHEDULER_START_DISK_QUEUE"]
        try:
            return build_from_crawler(
                self.pqclass,
                self.crawler,
                downstream_queue_cls=load_object(settings["SCHEDULER_DISK_QUEUE"]).stock,
                key=self.dqdir,
                startprios=json.loads(state.read_text(encoding="utf-8")),
                start_queue_cls=load_object(start_queue).stock if start_queue else None,
            )
        except Exception as error:
            raise StoreError(
                f"the queue that Scrapy left with {str(state)!r} cannot be read ({error!r}): name "
                "another JOBDIR, or delete that file and with it the requests"
            ) from error

    # --- a crawl that runs ------------------------------------------------------------------

    def enqueue_request(self, request: Request) -> bool:
        """Do as Scrapy's scheduler does. After a failure of the database, do nothing."""
        queue = self._queue
        if queue is None:
            return super().enqueue_request(request)
        if self._has_failed:
            return False  # the page that it came from is not done, and will be fetched again
        try:
            announced = self._announce(request, queue)
            accepted = super().enqueue_request(request)
            if announced is not None:
                queue.settle(announced)
            if queue.database.changes >= self._requests_a_transaction:
                queue.database.commit()
        except StoreError as error:
            self._fail(error)
            return False
        return accepted

    def _announce(self, request: Request, queue: RequestQueue) -> int | None:
        """Write a request down before a shared store is told of its key."""
        keys = self._keys
        if keys is None or not keys.store.is_shared or keys.has_failed or request.dont_filter:
            return None
        if keys.knows(self._fingerprint(request)):
            return None
        try:
            return queue.announce(encoded(request, self.crawler.spider))
        except ValueError:
            return None  # it waits in memory

    def next_request(self) -> Request | None:
        """Delete the requests that have ended, and return the next one to send."""
        if self._has_failed:
            return None
        learner = components_of(self.crawler).find(Learner)
        try:
            if self._queue is not None:
                self._commit_done(self._queue)
            if learner is None:
                return super().next_request()
            learner.attach_scheduler()
            return first_to_send(self.crawler, learner, super().next_request, self._hold)
        except StoreError as error:
            self._fail(error)
            return None

    def _hold(self, request: Request) -> None:
        if self._queue is not None and request in self._queue.handed_out:
            self._queue.done([request])  # in the transaction that wrote it down as held

    def _commit_done(self, queue: RequestQueue) -> None:
        """Delete the requests that the engine is done with, callback, retries and all."""
        if queue.handed_out:
            under_way = in_progress(self.crawler)
            done = [request for request in queue.handed_out if request not in under_way]
            if done:
                queue.done(done)
        queue.database.commit()

    def close(self, reason: str) -> Deferred[None] | None:
        """Commit, and close what Scrapy's scheduler closes."""
        queue = self._queue
        if queue is None:
            return super().close(reason)
        try:
            if not self._has_failed:
                self._commit_done(queue)
        except StoreError as error:
            self._has_failed = True
            queue.database.give_up(error)
            logger.critical("The next run will fetch some pages again: %(error)s", {"error": error})
        try:
            return super().close(reason)
        finally:
            queue.database.commits_itself = True
            queue.database.close()

    def _fail(self, error: StoreError) -> None:
        assert self._queue is not None
        self._has_failed = True
        self._queue.database.give_up(error)
        if self._keys is not None and self._keys.has_failed:
            return  # the keys are in the same database, and the dupefilter has said all this
        logger.critical("The crawl ends here: %(error)s", {"error": error})
        count(self.crawler, "urlnorm/store/errors")
        stop_crawl(self.crawler)


def first_to_send(
    crawler: Crawler,
    learner: Learner,
    take: Callable[[], Request | None],
    hold: Callable[[Request], None],
) -> Request | None:
    """Take requests out of a queue until there is one to send; *hold* the others.

    After `SLICE_SECONDS` the event loop has its turn, even if all of them were held.
    """
    learner.work()
    deadline = monotonic() + SLICE_SECONDS
    while (request := take()) is not None:
        if learner.on_leaving(request):
            return request
        hold(request)
        if monotonic() > deadline:
            ask_again(crawler)
            break
    return None


def _refuse_emptied(path: Path, state: Path) -> None:
    """Raise `StoreError` for an empty database file that once had requests.

    A run that is killed before its first write also leaves an empty file. Then there is either
    nothing beside it, or the files of Scrapy's own queue, which that run was to take over.
    """
    is_empty = path.exists() and not path.stat().st_size
    if is_empty and state.exists() and not any(file != state for file in state.parent.iterdir()):
        raise StoreError(
            f"the database {str(path)!r} is an empty file: the requests that waited there are "
            "lost; restore the file, or name another JOBDIR"
        )


def _next_of(queue: Any) -> Request | None:
    """Take a request out of a queue of Scrapy's. Return ``None`` for one that cannot be read."""
    try:
        request: Request | None = queue.pop()
    except Exception as error:  # noqa: BLE001 - whatever its pickled objects raise
        logger.error("A request that Scrapy left in its queue is lost: %(error)r", {"error": error})
        return None
    return request


def _plain(data: bytes) -> Request:
    """Return the request that was `encoded`, without callbacks, which may have gone since.

    Raises `StoreError` for a request that cannot be read.
    """
    try:
        return request_from_dict({**pickle.loads(data), "callback": None, "errback": None})
    except Exception as error:
        raise StoreError(
            f"a request in the queue cannot be read ({error!r}): restore the classes that it is "
            "made of, or name another JOBDIR"
        ) from error


class _StoresNothing:
    """A queue that forgets every request, and says that it has one: see `Scheduler._state`."""

    @classmethod
    def from_crawler(cls, crawler: Crawler, key: str) -> Self:
        return cls()

    def push(self, request: Request) -> None: ...

    def pop(self) -> None: ...

    def close(self) -> None: ...

    def __len__(self) -> int:
        return 1


# --- the queues ---------------------------------------------------------------------------------


class DiskQueue:
    """One of the queues that Scrapy's priority queue makes, for one priority and one host."""

    newest: ClassVar[bool]  #: whether the newest request is the first one out
    stock: ClassVar[type]  #: Scrapy's own queue of that order

    @classmethod
    def from_crawler(cls, crawler: Crawler, key: str) -> Self:
        """Make the queue whose path, as Scrapy has it, is *key*."""
        queue = components_of(crawler).find(RequestQueue)
        if queue is None:
            # No ValueError: Scrapy's scheduler takes that for a request it cannot serialize.
            raise StoreError(
                f"{cls.__qualname__} is a queue of SCHEDULER = 'scrapy_urlnorm.Scheduler'; this "
                f"crawl has {crawler.settings['SCHEDULER']!r}"
            )
        return cls(queue, key.rpartition(f"{FOLDER}/")[2], crawler.spider)

    def __init__(self, queue: RequestQueue, name: str, spider: Spider | None) -> None:
        self._queue = queue
        self._name = name
        self._spider = spider

    def push(self, request: Request) -> None:
        """Put *request* into the queue. Raises `ValueError` for one that cannot be serialized."""
        self._queue.push(self._name, encoded(request, self._spider))

    def pop(self) -> Request | None:
        """Take out the next request; ``None`` when there is none.

        A request whose callback this spider does not have is left to another run.
        """
        return self._queue.pop(self._name, self._decode, newest=self.newest)

    def peek(self) -> Request | None:
        """Return the request that `pop` would return, and leave it there."""
        return self._queue.peek(self._name, self._decode, newest=self.newest)

    def _decode(self, data: bytes) -> Request | None:
        return decoded(data, self._spider)

    def close(self) -> None:
        """Do nothing: the scheduler closes the database."""

    def __len__(self) -> int:
        return self._queue.waiting(self._name)


class LifoDiskQueue(DiskQueue):
    """The newest request first: a crawl in depth-first order."""

    newest = True
    stock = PickleLifoDiskQueue


class FifoDiskQueue(DiskQueue):
    """The oldest request first: a crawl in breadth-first order."""

    newest = False
    stock = PickleFifoDiskQueue


def _require_our_queues(crawler: Crawler) -> None:
    """Raise `ConfigError` for a queue on disk that would lose requests."""
    for name in DISK_QUEUES:
        queue = crawler.settings[name]
        if queue and not issubclass(load_object(queue), DiskQueue):
            raise ConfigError(
                f"{name} = {queue!r} with SCHEDULER = {crawler.settings['SCHEDULER']!r} and JOBDIR; "
                f"accepted: {__name__}.LifoDiskQueue, {__name__}.FifoDiskQueue"
            )
