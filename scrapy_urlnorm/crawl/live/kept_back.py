"""KeptBack: puts requests into the ledger and takes them out again, into the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_urlnorm.exceptions import StoreError

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_urlnorm.crawl.live.frontier import Frontier
    from scrapy_urlnorm.crawl.live.ledger import Kept, Ledger
    from scrapy_urlnorm.crawl.live.register import Keys


class KeptBack:
    """The requests that are withheld behind a page, or parked behind another request."""

    def __init__(self, ledger: Ledger, frontier: Frontier) -> None:
        self._ledger = ledger
        self._frontier = frontier

    def keep(self, keys: Keys, request: Request, *, is_parked: bool) -> bool:
        """Write *request* into the ledger. Return ``False`` if it cannot be: then send it."""
        try:
            self._ledger.keep(keys, self._frontier.pack(request), is_parked=is_parked)
        except StoreError:
            self._frontier.count("learned/errors")
            return False
        except Exception:  # noqa: BLE001 - pickle raises what the objects in the request raise
            return False
        return True

    def request_of(self, kept: Kept) -> Request | None:
        """Return the request; ``None`` if this run cannot read it, which leaves it to another."""
        return self._frontier.unpack(kept.request)

    def put_back(self, kept: Kept, request: Request | None = None) -> bool:
        """Send a request that was kept back. Return ``False`` if this run cannot read it.

        It is in the queue before it leaves the ledger: a kill in between repeats it.
        """
        if request is None:
            request = self.request_of(kept)
            if request is None:
                return False
        self._frontier.send(request)
        self._ledger.drop(kept.number)
        self._frontier.count("learned/put_back")
        return True
