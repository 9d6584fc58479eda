"""What is asked of Scrapy's engine beyond its documented interface, in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.utils.defer import deferred_from_coro

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

ERROR_REASON = "urlnorm_store_error"  #: why a crawl ended: what it has seen cannot be kept


def in_progress(crawler: Crawler) -> set[Request]:
    """Return the requests whose callbacks, or whatever else ends them, have not ended yet.

    Signals and middlewares do not see every end that a request can come to. The engine's set
    does; it has no public name.
    """
    assert crawler.engine is not None
    slot = crawler.engine._slot
    return set() if slot is None else slot.inprogress


def ask_again(crawler: Crawler) -> None:
    """Have the engine ask the scheduler again at once, not only when a download ends."""
    assert crawler.engine is not None
    slot = crawler.engine._slot
    if slot is not None:
        slot.nextcall.schedule()


def stop_crawl(crawler: Crawler) -> None:
    """End the crawl because what it has seen, or has still to do, cannot be kept."""
    assert crawler.engine is not None
    deferred_from_coro(crawler.engine.close_spider_async(reason=ERROR_REASON))
