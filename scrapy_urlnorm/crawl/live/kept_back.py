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
        self._waited: set[bytes] = set()  # own keys of requests that are not parked again

    def keep(self, keys: Keys, request: Request, state: int) -> bool:
        """Write *request* into the ledger. Return ``False`` if it cannot be: then send it."""
        try:
            self._ledger.keep(keys, self._frontier.pack(request), state)
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

    def put_back_at_last(self, kept: Kept, request: Request | None = None) -> bool:
        """Send a request that was parked, and do not park it again: it has waited."""
        if not self.put_back(kept, request):
            return False
        self._waited.add(kept.own)
        return True

    def has_waited(self, own: bytes) -> bool:
        """Return whether the request with this own key was parked, and may not be again."""
        return own in self._waited

    def forget_waited(self, own: bytes | None = None) -> None:
        """Let the request with this own key be parked again; without one, all."""
        if own is None:
            self._waited.clear()
        else:
            self._waited.discard(own)
