"""CrawlFrontier: the queue of a Scrapy crawl, as `Suppression` sees it."""

from __future__ import annotations

import pickle
from collections.abc import Sized
from typing import TYPE_CHECKING

from scrapy.utils.request import request_from_dict

from scrapy_urlnorm.crawl.components import in_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter


class CrawlFrontier:
    """The queue of *crawler*. *on_failure* is told what failed, and with which error."""

    def __init__(
        self,
        crawler: Crawler,
        dupefilter: UrlNormDupeFilter,
        on_failure: Callable[[str, Exception], None],
    ) -> None:
        self._crawler = crawler
        self._dupefilter = dupefilter
        self._on_failure = on_failure
        #: Whether only this crawler takes requests from its queue. A scheduler of somebody else
        #: may have a queue that many share.
        self.has_own_queue = False

    def in_progress(self) -> Collection[Request]:
        """Return the requests that left the queue and have not ended."""
        return in_progress(self._crawler)

    def queued(self) -> int:
        """Return how many requests wait in the queue; 0 where it does not tell."""
        slot = getattr(self._crawler.engine, "_slot", None)
        scheduler = getattr(slot, "scheduler", None)
        return len(scheduler) if isinstance(scheduler, Sized) else 0

    def pack(self, request: Request) -> bytes:
        """Return *request* as bytes; raises what pickle raises."""
        return pickle.dumps(request.to_dict(spider=self._crawler.spider), protocol=4)

    def unpack(self, data: bytes) -> Request | None:
        """Return the request that was packed; ``None`` for one that this run cannot do."""
        try:
            return request_from_dict(pickle.loads(data), spider=self._crawler.spider)
        except Exception as error:  # noqa: BLE001 - whatever its pickled objects raise
            self._on_failure("unpack", error)
            return None

    def send(self, request: Request) -> None:
        """Put *request* back into the queue, past the dupefilter."""
        assert self._crawler.engine is not None
        self._dupefilter.let_pass(request)
        self._crawler.engine.crawl(request)

    def waits_here(self, fingerprint: bytes) -> bool:
        """Return whether a request with *fingerprint* is, or was, in the queue of this crawl.

        Many crawlers may fill one store from queues of their own. What waits in the queue of
        another one is lost with it, so only the keys count that this crawler put there.
        """
        if self.has_own_queue:
            return self._dupefilter.has_queued(fingerprint)
        return self.is_seen(fingerprint)

    def is_seen(self, fingerprint: bytes) -> bool:
        """Return whether the dupefilter knows *fingerprint*."""
        return self._dupefilter.keys.knows(fingerprint)

    def count(self, stat: str, number: float = 1) -> None:
        """Add *number* to one of the statistics; *stat* is its name after ``urlnorm/``."""
        assert self._crawler.stats is not None
        self._crawler.stats.inc_value(f"urlnorm/{stat}", number)  # type: ignore[arg-type]
