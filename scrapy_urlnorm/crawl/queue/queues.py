"""LifoDiskQueue and FifoDiskQueue: Scrapy's disk queues, in the database of our scheduler."""

from __future__ import annotations

import logging
import pickle
from typing import TYPE_CHECKING, ClassVar

from scrapy.squeues import PickleFifoDiskQueue, PickleLifoDiskQueue
from scrapy.utils.request import request_from_dict

from scrapy_urlnorm.crawl.parts import parts_of
from scrapy_urlnorm.crawl.queue.pending import PendingRequests
from scrapy_urlnorm.exceptions import StoreError

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from typing_extensions import Self

logger = logging.getLogger(__name__)

FOLDER = "requests.queue"  #: in JOBDIR, where Scrapy's scheduler has its queues


def plain(data: bytes) -> Request:
    """Return the request that was pushed as *data*, without its callbacks.

    The callbacks are names of methods, which the spider may no longer have. Raises `StoreError`
    for a request that cannot be read.
    """
    try:
        return request_from_dict({**pickle.loads(data), "callback": None, "errback": None})
    except Exception as error:
        raise StoreError(
            f"a request in the queue cannot be read ({error!r}): restore the classes that it is "
            "made of, or name another JOBDIR"
        ) from error


class DiskQueue:
    """One of the queues that Scrapy's priority queue makes, for one priority and one host."""

    newest: ClassVar[bool]  #: whether the newest request is the first one out
    stock: ClassVar[type]  #: Scrapy's own queue of that order

    @classmethod
    def from_crawler(cls, crawler: Crawler, key: str) -> Self:
        """Make the queue whose path, as Scrapy has it, is *key*."""
        pending = parts_of(crawler).find(PendingRequests)
        if pending is None:
            # No ValueError: Scrapy's scheduler takes that for a request it cannot serialize.
            raise StoreError(
                f"{cls.__qualname__} is a queue of SCHEDULER = 'scrapy_urlnorm.Scheduler'; this "
                f"crawl has {crawler.settings['SCHEDULER']!r}"
            )
        return cls(pending, key.rpartition(f"{FOLDER}/")[2], crawler.spider)

    def __init__(self, pending: PendingRequests, name: str, spider: Spider | None) -> None:
        self._pending = pending
        self._name = name
        self._spider = spider

    def push(self, request: Request) -> None:
        """Put *request* into the queue. Raises `ValueError` for one that cannot be serialized."""
        try:
            data = pickle.dumps(request.to_dict(spider=self._spider), protocol=4)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ValueError(str(error)) from error
        self._pending.push(self._name, data)

    def pop(self) -> Request | None:
        """Take out the next request; ``None`` when there is none.

        A request whose callback this spider does not have is left to another run.
        """
        return self._pending.pop(self._name, self._decode, newest=self.newest)

    def peek(self) -> Request | None:
        """Return the request that `pop` would return, and leave it there."""
        return self._pending.peek(self._name, self._decode, newest=self.newest)

    def _decode(self, data: bytes) -> Request | None:
        try:
            return request_from_dict(pickle.loads(data), spider=self._spider)
        except Exception as error:  # noqa: BLE001 - whatever its pickled objects raise
            logger.error(
                "A request is left to another run, because this one cannot read it: %(error)s",
                {"error": error},
                extra={"spider": self._spider},
            )
            return None

    def close(self) -> None:
        """Do nothing: the scheduler closes the database."""

    def __len__(self) -> int:
        return self._pending.waiting(self._name)


class LifoDiskQueue(DiskQueue):
    """The newest request first: a crawl in depth-first order."""

    newest = True
    stock = PickleLifoDiskQueue


class FifoDiskQueue(DiskQueue):
    """The oldest request first: a crawl in breadth-first order."""

    newest = False
    stock = PickleFifoDiskQueue
