"""Scheduler: Scrapy's own, with two things added.

It asks the learned rules about each request that leaves the queue.

And with JOBDIR its queue survives a kill. Scrapy's own queues on disk are complete only after a
clean close, and a request that was taken from them is nowhere while it is downloaded and its
response handled. Here a request stays in a database until its callback has ended and the requests
that it yielded are in the database too. Its key stays there until the store has the key on disk.
So whenever a crawl is killed, the next run fetches every page that is missing, and no key counts
as seen whose request was lost. The docstring of `scrapy_urlnorm.crawl.queue` shows it step by step.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy.core.scheduler import Scheduler as ScrapyScheduler
from scrapy.exceptions import CloseSpider
from scrapy.utils.misc import build_from_crawler, load_object

from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter
from scrapy_urlnorm.crawl.engine import (
    ERROR_REASON,
    SAVED_QUEUE,
    ask_again,
    in_progress,
    stop_crawl,
)
from scrapy_urlnorm.crawl.live.live_rules import SLICE_SECONDS, LiveRules
from scrapy_urlnorm.crawl.parts import parts_of
from scrapy_urlnorm.crawl.queue.pending import PendingRequests
from scrapy_urlnorm.crawl.queue.queues import (
    DiskQueue,
    FifoDiskQueue,
    LifoDiskQueue,
    plain,
)
from scrapy_urlnorm.exceptions import ConfigError, StoreError
from scrapy_urlnorm.stores import PENDING_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred
    from typing_extensions import Self

logger = logging.getLogger(__name__)


class Scheduler(ScrapyScheduler):
    """Keeps back requests that a learned rule makes equal to a page that has arrived.

    Without JOBDIR that is the only difference from Scrapy's scheduler. With JOBDIR it needs the
    disk queues of `scrapy_urlnorm.crawl.queue.queues`.

    After a kill, pages that were being downloaded or handled are fetched again. Requests that
    cannot be serialized wait in memory, as with Scrapy's own scheduler, and a kill loses them.

    A database that fails ends the crawl with the reason ``urlnorm_store_error``. The next run
    begins with the last commit.
    """

    #: A transaction ends when the engine asks for a request, or after so many requests.
    _requests_a_transaction = 1_000
    #: So many keys are kept in the database before the store is told to write its own to disk.
    _keys_held = 50_000

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.dqs = None  # for `close`, which Scrapy calls even if `open` has failed
        self._pending: PendingRequests | None = None
        self._has_failed = False

    def open(self, spider: Spider) -> Deferred[None] | None:
        """Open the database, and then what Scrapy's scheduler opens.

        Raises `CloseSpider` when the database or the queue in it cannot be used.
        """
        if self.dqdir is None:
            return super().open(spider)
        try:
            return self._open(spider, Path(self.dqdir))
        except BaseException as error:
            if self._pending is not None:
                self._pending.close()
                self._pending = None
            if not isinstance(error, (StoreError, ConfigError)):
                raise
            logger.critical("The crawl ends here: %(error)s", {"error": error})
            raise CloseSpider(ERROR_REASON) from error

    def _open(self, spider: Spider, folder: Path) -> Deferred[None] | None:
        assert self.crawler is not None
        _require_our_queues(self.crawler)
        path = folder.with_name(PENDING_NAME)
        state = folder / SAVED_QUEUE  # Scrapy's scheduler reads it when it opens
        _refuse_emptied(path, state)
        before = self._stock_queue(state) if state.exists() and not path.exists() else None
        self._pending = pending = PendingRequests(path)
        parts_of(self.crawler).put(pending)
        self._report_damage(pending)
        state.write_text(json.dumps(self._state(pending)), encoding="utf-8")
        if isinstance(self.df, UrlNormDupeFilter):
            self.df.keys.wait_for_commits()
        opened = super().open(spider)
        assert self.dqs is not None
        if len(self.dqs) != len(pending):
            raise StoreError(
                f"of {len(pending):,} requests in {pending.name} the priority queue finds "
                f"{len(self.dqs):,}: set SCHEDULER_PRIORITY_QUEUE to what it was when they were put "
                "there, or name another JOBDIR"
            )
        if before is not None:
            self._take_over(before)
        if isinstance(self.df, UrlNormDupeFilter):
            self.df.keys.store.add_many(pending.held())
            self._tell_of_waiting(pending, self.df)
        if len(pending):
            logger.info(
                "Resuming: %(count)d requests wait in %(queue)s",
                {"count": len(pending), "queue": pending.name},
                extra={"spider": spider},
            )
        if self.stats is not None:
            self.stats.set_value("urlnorm/requests/resumed", len(pending))
        return opened

    def _report_damage(self, pending: PendingRequests) -> None:
        if pending.damaged:
            logger.error(
                "%(count)d requests in %(queue)s are damaged and lost; all others are whole",
                {"count": pending.damaged, "queue": pending.name},
            )
            if self.stats is not None:
                self.stats.set_value("urlnorm/requests/damaged", pending.damaged)

    def _state(self, pending: PendingRequests) -> Any:
        """Return the state that Scrapy's priority queue would have saved at a clean close.

        A killed crawl never wrote it, and without it Scrapy finds no request. It is computed by
        putting one request of each of our queues into a priority queue whose queues store nothing.
        """
        assert self.crawler is not None
        assert self.pqclass is not None
        queue = build_from_crawler(
            self.pqclass, self.crawler, downstream_queue_cls=_StoresNothing, key=self.dqdir
        )
        for data in pending.one_of_each():
            queue.push(plain(data))
        return queue.close()

    def _tell_of_waiting(self, pending: PendingRequests, dupefilter: UrlNormDupeFilter) -> None:
        """If the store was deleted or rebuilt, add the keys of the queued requests to it.

        A store that was rebuilt from a crawl log has no keys of requests that were not yet sent.
        """
        crawler = self.crawler
        assert crawler is not None

        def keys(requests: Iterable[bytes]) -> Iterator[bytes]:
            for data in requests:
                request = plain(data)
                if not request.dont_filter:
                    yield crawler.request_fingerprinter.fingerprint(request)

        if not all(map(dupefilter.keys.knows, keys(pending.one_of_each()))):
            dupefilter.keys.store.add_many(keys(pending.all()))

    def _stock_queue(self, state: Path) -> Any:
        """Return the queue that an earlier run with Scrapy's own scheduler left in JOBDIR."""
        assert self.crawler is not None
        assert self.pqclass is not None
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

    def _take_over(self, queue: Any) -> None:
        """Move all requests of *queue* into ours, in the order in which they come out."""
        assert self.dqs is not None
        for _ in range(len(queue)):
            request = _next_of(queue)
            if request is not None:
                self.dqs.push(request)
                self._commit_many()
        queue.close()
        self._commit()

    def enqueue_request(self, request: Request) -> bool:
        """Do as Scrapy's scheduler does. After a failure of the database, do nothing."""
        if self._pending is None:
            return super().enqueue_request(request)
        if self._has_failed:
            return False  # the page that it came from is not done, and will be fetched again
        try:
            accepted = super().enqueue_request(request)
            self._commit_many()
        except StoreError as error:
            self._fail(error)
            return False
        return accepted

    def next_request(self) -> Request | None:
        """Delete the requests that have ended, and return the next one to send."""
        if self._has_failed:
            return None
        try:
            if self._pending is not None:
                self._delete_done()
                self._commit()
            return self._next_to_send()
        except StoreError as error:
            self._fail(error)
            return None

    def _next_to_send(self) -> Request | None:
        """Take requests out of the queue until there is one to send.

        After `SLICE_SECONDS` the event loop has its turn, even if all of them were kept back.
        """
        assert self.crawler is not None
        live_rules = parts_of(self.crawler).find(LiveRules)
        if live_rules is None:
            return super().next_request()
        live_rules.asked_by_queue()
        live_rules.work()
        deadline = monotonic() + SLICE_SECONDS
        while (request := super().next_request()) is not None:
            if live_rules.on_leaving(request):
                return request
            if self._pending is not None and request in self._pending.handed_out:
                self._pending.done([request])  # in the transaction that wrote it down as kept back
            if monotonic() > deadline:
                ask_again(self.crawler)
                break
        return None

    def close(self, reason: str) -> Deferred[None] | None:
        """Close the database, and what Scrapy's scheduler closes."""
        if self._pending is None:
            return super().close(reason)
        assert self.crawler is not None
        if (live_rules := parts_of(self.crawler).find(LiveRules)) is not None:
            live_rules.before_database_closes()
        try:
            if not self._has_failed:
                self._delete_done()
                self._commit()
        except StoreError as error:
            self._has_failed = True
            logger.critical("The next run will fetch some pages again: %(error)s", {"error": error})
        try:
            closed = super().close(reason)
            if not self._has_failed and self._store_works():
                self._pending.release()  # the store is closed, so it has written all keys
                self._pending.commit()
        finally:
            self._pending.close()
        return closed

    def _delete_done(self) -> None:
        """Delete the requests that the engine is done with, callback, retries and all."""
        assert self._pending is not None
        if not self._pending.handed_out:
            return
        assert self.crawler is not None
        under_way = in_progress(self.crawler)
        done = [request for request in self._pending.handed_out if request not in under_way]
        if done:
            self._pending.done(done)

    def _commit_many(self) -> None:
        assert self._pending is not None
        if self._pending.changes >= self._requests_a_transaction:
            self._commit()

    def _commit(self) -> None:
        """Commit the requests to disk, and then tell the store of their keys."""
        assert self._pending is not None
        dupefilter = self.df if isinstance(self.df, UrlNormDupeFilter) else None
        keys = dupefilter.keys.uncommitted if dupefilter is not None else ()
        if not self._pending.changes and not keys:
            return
        self._pending.hold(keys)
        self._pending.commit()
        if dupefilter is not None:
            dupefilter.keys.commit()
            if self._pending.keys_held >= self._keys_held and self._store_works():
                dupefilter.keys.store.flush()
                self._pending.release()

    def _store_works(self) -> bool:
        return not (isinstance(self.df, UrlNormDupeFilter) and self.df.keys.has_failed)

    def _fail(self, error: StoreError) -> None:
        self._has_failed = True
        logger.critical("The crawl ends here: %(error)s", {"error": error})
        if self.stats is not None:
            self.stats.inc_value("urlnorm/store/errors")
        assert self.crawler is not None
        stop_crawl(self.crawler)


def _refuse_emptied(path: Path, state: Path) -> None:
    """Raise `StoreError` for an empty database file that once had requests; delete any other.

    A run that is killed before its first write also leaves an empty file. Then there is either
    nothing beside it, or the files of Scrapy's own queue, which that run was to take over.
    """
    if not path.exists() or path.stat().st_size:
        return
    if state.exists() and not any(file != state for file in state.parent.iterdir()):
        raise StoreError(
            f"the queue {str(path)!r} is an empty file: the requests that waited there are lost; "
            "restore the file, or name another JOBDIR"
        )
    path.unlink()


def _next_of(queue: Any) -> Request | None:
    """Take a request out of a queue of Scrapy's. Return ``None`` for one that cannot be read."""
    try:
        request: Request | None = queue.pop()
    except Exception as error:  # noqa: BLE001 - whatever its pickled objects raise
        logger.error("A request that Scrapy left in its queue is lost: %(error)r", {"error": error})
        return None
    return request


class _StoresNothing:
    """A queue that forgets every request, and says that it has one: see `Scheduler._state`."""

    @classmethod
    def from_crawler(cls, crawler: Crawler, key: str) -> Self:
        return cls()

    def push(self, request: Request) -> None:
        pass

    def pop(self) -> None:
        return None

    def close(self) -> None:
        pass

    def __len__(self) -> int:
        return 1


def _require_our_queues(crawler: Crawler) -> None:
    """Raise `ConfigError` for a queue on disk that would lose requests."""
    accepted = ", ".join(f"{queue.__module__}.{queue.__name__}" for queue in _OUR_QUEUES)
    for name in ("SCHEDULER_DISK_QUEUE", "SCHEDULER_START_DISK_QUEUE"):
        queue = crawler.settings[name]
        if queue and not issubclass(load_object(queue), DiskQueue):
            raise ConfigError(
                f"{name} = {queue!r} with SCHEDULER = {crawler.settings['SCHEDULER']!r} and "
                f"JOBDIR; accepted: {accepted}"
            )


_OUR_QUEUES = (LifoDiskQueue, FifoDiskQueue)
