"""Everything of Scrapy that we use beyond its documented interface, in one place.

- ``engine._slot`` with ``inprogress`` and ``nextcall``: see `in_progress` and `ask_again`. They
  have these names in every Scrapy that we support, 2.14 to 2.19.
- The file `SAVED_QUEUE`, and ``dqs``, ``dqdir`` and ``pqclass`` of Scrapy's scheduler, which our
  scheduler extends: Scrapy gives no other way to open its priority queue with the requests that a
  killed crawl left. The names are the same from 2.14 to 2.19.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.utils.defer import deferred_from_coro

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

ERROR_REASON = "urlnorm_store_error"  #: why a crawl ended: its keys or requests cannot be stored
#: In the folder of Scrapy's queues: the priorities that it has queues for.
SAVED_QUEUE = "active.json"


def in_progress(crawler: Crawler) -> set[Request]:
    """Return the requests that were given to the engine and have not ended, callback and all.

    Uses ``engine._slot.inprogress``. Signals and middlewares do not see every end that a request
    can come to; the engine's own set does, and it has no public name.
    """
    assert crawler.engine is not None
    slot = crawler.engine._slot
    return set() if slot is None else slot.inprogress


def ask_again(crawler: Crawler) -> None:
    """Have the engine ask the scheduler for a request again at once.

    Uses ``engine._slot.nextcall``. Without it the engine asks when a download ends, or after some
    seconds if none is under way; there is no public way to tell it.
    """
    assert crawler.engine is not None
    slot = crawler.engine._slot
    if slot is not None:
        slot.nextcall.schedule()


def stop_crawl(crawler: Crawler) -> None:
    """End the crawl, because its keys or its requests cannot be stored."""
    assert crawler.engine is not None
    deferred_from_coro(crawler.engine.close_spider_async(reason=ERROR_REASON))
