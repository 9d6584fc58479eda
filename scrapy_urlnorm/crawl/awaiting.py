"""Awaiting: nothing is dropped for a page that has not arrived.

Stock Scrapy drops a request only for one with the same URL, as it compares URLs. What we merge beyond
that is another *spelling* of a key: ``/a?utm_source=x`` of ``/a``. A key is *awaited* from its first
request until a page with it is handed to the spider: a status 2xx, with a body. What has a key that is
known:

====================================================  ============================================
the same spelling as one that was sent or is held     is dropped, as stock Scrapy does
another spelling, and the page has arrived            is dropped, and counted as saved
another spelling, and a request is under way          is held: a *twin*
another spelling, and all ended without a page        is sent
====================================================  ============================================

When the page arrives, the twins are dropped. When the last request with the key has ended without one,
the first twin is sent, and the next one when that has ended. Nobody has to say that a request ended: the
engine does not have it any more. What a middleware made of it (a retry, a redirect onto its own key) is
in the queue by then, and counts as under way.

The store remembers what is awaited (`Seen.claim`): what it knows and does not await has arrived. Twins
are on a `Shelf`. What does not fit there is sent, and where no shelf is, everything: a scheduler other
than ours could not send it later. What is still held when the crawl has nothing else to do is sent.

- Requests whose callback has another name than that of the first request are twins of one another only.
- With ``DEPTH_LIMIT`` a page stands for no request that is nearer to the start than its own: the links on
  that one are followed farther. And nothing waits that has links to follow: what they lead to might be
  found from farther away meanwhile.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import DontCloseSpider

from scrapy_urlnorm.crawl.components import TWIN_META, components_of, in_progress
from scrapy_urlnorm.crawl.database import Shelf
from scrapy_urlnorm.crawl.merges import stock_key
from scrapy_urlnorm.crawl.requests import depth_of, purpose_of
from scrapy_urlnorm.stores.memory import MemorySeen
from scrapy_urlnorm.stores.seen import Awaited

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response


_NO_BODY = (204, 205)
_REMEMBERED = 10_000  # keys that are over, and reasons why keys have brought no page


class Awaiting:
    """Decides about requests whose key is known to *door*, a dupefilter, and holds those that are twins."""

    def __init__(self, door: Any, depth_limit: int) -> None:
        self._door, self._depth_limit = door, depth_limit
        self._merges, self._count, self._ask = door.merges, door.count, door.ask
        self._crawler: Any = None  # since `attach`; what is not sent before cannot be sent later
        self._shelf = Shelf()
        #: The request that was filtered last, if it is not dropped, or saves nothing.
        self.held: Request | None = None
        self.unsaved: Request | None = None
        #: Keys that are not awaited any more, with the callback of what is dropped: some of them.
        self.over: dict[bytes, str] = {}
        # Requests that the engine has, with their keys and what happened to them.
        self._watched: dict[Request, tuple[bytes, str]] = {}
        self._reasons: dict[bytes, str] = {}  # of keys that have brought no page
        self._has_claims = False  # whether a key was claimed for a second callback
        # In a store that others share, a spelling is not written down with its request: after a kill
        # it would be there without it. So each crawler has its own.
        self._own_spellings = MemorySeen()
        #: Whether learning holds the request with a key and URL: it stands behind a page that arrived.
        self.is_held: Callable[[bytes, str], bool] = lambda key, url: False

    def attach(self, crawler: Crawler, shelf: Shelf) -> None:
        """Hold twins on *shelf*, and watch what the engine of *crawler* has.

        What the shelf has from an earlier run, and the store has lost, is sent when the crawl is
        idle.
        """
        self._crawler, self._shelf = crawler, shelf
        if not components_of(crawler).has_middleware:
            crawler.signals.connect(self._idle, signals.spider_idle)
        for key in shelf:
            if self._ask(self._store.claim, key, "", failed=False):
                self._ask(self._store.change_under_way, key, -1)

    # --- at the door ------------------------------------------------------------------------

    def claimed(self, key: bytes, request: Request) -> None:
        """Take note of the first request with *key*; its page is awaited from now on."""
        if self._depth_limit:
            self._is_new_spelling(key, request)

    def is_filtered(self, key: bytes, request: Request, name: str) -> bool:
        """Return whether *request*, whose key is known, is dropped or held; if not, it is sent.

        *name* is that of its callback.
        """
        awaited: Awaited | None = self._ask(self._store.awaited, key)
        known = self._merges.firsts.get(key)
        if awaited is not None:
            if known is None:
                is_ours = not self._store.is_shared
                self._merges.remember(key, awaited.url, awaited.callback, is_queued=is_ours)
            if awaited.url == request.url:
                return self._drops_as_stock(request)
        first = awaited or known  # both begin with a URL and a callback
        if first is None or first[1] == name:
            if awaited is None:
                self._note_over(key, name)
            return self._is_twin(key, key, awaited, request)
        if stock_key(first[0]) == stock_key(request.url):
            return self._drops_as_stock(request)
        own = _own_key(key, name)
        self._has_claims = True
        if not self._ask(self._store.claim, own, request.url, name, failed=True):
            return self._is_twin(key, own, self._ask(self._store.awaited, own), request)
        if not self._is_new_spelling(key, request):
            return self._drops_as_stock(request)
        return self._sends(request)

    def _is_twin(self, key: bytes, claim: bytes, awaited: Awaited | None, request: Request) -> bool:
        """Return whether *request* is dropped or held; *claim* is *key*, or made of its callback too."""
        if awaited is None and not self._depth_limit:
            return not self._door.has_failed
        if awaited is not None and stock_key(awaited.url) == stock_key(request.url):
            return self._drops_as_stock(request)
        # With a depth limit, what was dropped or waits far away has not been sent: a nearer one counts.
        if self._depth_limit and self._has_near_page(claim, request):
            return True
        is_leaf = not self._depth_limit or depth_of(request) >= self._depth_limit
        waits = awaited is not None and awaited.under_way > 0 and is_leaf
        if not self._is_new_spelling(key, request, is_sent=not (waits and self._depth_limit)):
            return self._drops_as_stock(request)
        if awaited is None:
            self._ask(self._store.expect, claim, Awaited(request.url, purpose_of(request)))
        elif waits and self._crawler is not None and self._shelf.put(claim, request):
            self.held = request
            return True
        else:
            self._ask(self._store.change_under_way, claim, 1)
            if awaited.under_way <= 0:
                self._requeued(claim)
        return self._sends(request)

    def _sends(self, request: Request) -> bool:
        request.meta[TWIN_META] = True
        self._merges.sent(request.url)
        return False

    def _note_over(self, key: bytes, callback: str) -> None:
        """Have requests with a key whose page has arrived be dropped without a look into the store."""
        if not (self._depth_limit or self._store.is_shared or self._door.has_failed):
            if len(self.over) >= _REMEMBERED:
                self.over.clear()
            self.over[key] = callback

    def _drops_as_stock(self, request: Request) -> bool:
        if self._door.has_failed:
            return False
        self.unsaved = request
        return True

    def _is_new_spelling(self, key: bytes, request: Request, *, is_sent: bool = True) -> bool:
        """Return whether *request* was not met yet under its URL, and remember it.

        One that *is_sent* may have been met before, if it was not sent then.
        """
        url = stock_key(request.url).encode(errors="replace")
        sent, held = _digest(b"spelling", key, url), _digest(b"held", key, url)
        store = self._own_spellings if self._store.is_shared else self._store
        if not is_sent and self._ask(store.__contains__, sent, failed=False):
            return False
        return bool(self._ask(store.add, sent if is_sent else held, failed=True))

    def _has_near_page(self, claim: bytes, request: Request) -> bool:
        depths = range(depth_of(request) + 1)
        known = self._store.__contains__
        return any(
            self._ask(known, _digest(b"depth %d" % each, claim), failed=False) for each in depths
        )

    def again(self, request: Request) -> None:
        """Count a request more under way: a retry, or one that takes the place of another."""
        self._ask(self._store.change_under_way, self._claim_of(request), 1)

    def onto_itself(self, key: bytes, request: Request) -> None:
        """Count a redirect onto its own *key* under way, and remember its spelling as sent."""
        self._is_new_spelling(key, request)
        self.again(request)

    # --- on the way -------------------------------------------------------------------------

    def handed_out(self, request: Request) -> None:
        """Watch a request that the engine gets, and that may end in any way."""
        self._watched[request] = self._claim_of(request), "other"
        if self._store.is_shared and (held := self._shelf.next_key()):
            self._look_at(held)

    def work(self, under_way: AbstractSet[Request]) -> None:
        """Send the twins of what has ended without a page: *under_way* is what the engine has."""
        if not self._watched.keys() <= under_way:
            for request in [each for each in self._watched if each not in under_way]:
                self._ended(request)

    def _ended(self, request: Request) -> None:
        claim, why = self._watched.pop(request)
        awaited = self._ask(self._store.change_under_way, claim, -1)
        if awaited is not None:
            self._reasons[claim] = why
            if len(self._reasons) > _REMEMBERED:
                del self._reasons[next(iter(self._reasons))]
            if awaited.under_way <= 0:
                self._send_next(claim)

    def note(self, request: Request, why: str) -> None:
        """Note what happened to *request*, in case it brings no page: a name for a statistic."""
        if request in self._watched:
            self._watched[request] = self._watched[request][0], why

    def page(self, request: Request, response: Response) -> None:
        """Take note of a response that is handed to the spider, and drop what is held behind it."""
        if response.status in _NO_BODY or not 200 <= response.status < 300 or not response.body:
            return
        watched = self._watched.pop(request, None)
        claim = watched[0] if watched else self._claim_of(request)
        self._ask(self._store.arrived, claim)
        if self._depth_limit:
            depth = _digest(b"depth %d" % depth_of(request), claim)
            self._ask(self._store.add, depth, failed=True)
        self._drop_twins(claim)

    # --- twins ------------------------------------------------------------------------------

    def _look_at(self, claim: bytes) -> bool:
        """Do what other crawlers make necessary for the twins of a key; return whether one is sent."""
        awaited = self._ask(self._store.awaited, claim)
        if awaited is None and not self._door.has_failed:
            self._drop_twins(claim)
        return awaited is not None and awaited.under_way <= 0 and self._send_next(claim)

    def idle(self) -> bool:
        """Send what is held though nothing is under way; return whether anything was sent."""
        if self._crawler is None:
            return False
        self.work(in_progress(self._crawler))
        is_sent = False
        for claim in self._shelf:
            awaited = self._ask(self._store.awaited, claim)
            if awaited is not None and not self.is_held(claim, awaited.url):
                self._ask(self._store.change_under_way, claim, -awaited.under_way)
            is_sent |= self._look_at(claim)
        return is_sent

    def _idle(self) -> None:
        if self.idle():
            raise DontCloseSpider

    def end(self) -> None:
        """Drop what is left, when nothing was to be sent: learning has a page for it."""
        for claim in self._shelf:
            awaited = self._ask(self._store.awaited, claim)
            if awaited is not None and self.is_held(claim, awaited.url):
                self._drop_twins(claim)

    def _drop_twins(self, claim: bytes) -> None:
        if claim in self._shelf:
            for request in self._shelf.clear(claim):
                self._door.log(request, self._crawler.spider)

    def _send_next(self, claim: bytes) -> bool:
        if (request := self._shelf.take(claim)) is None:
            return False
        self._ask(self._store.change_under_way, claim, 1)
        if self._depth_limit:
            self._is_new_spelling(self._door.key_of(request), request)
        self._requeued(claim)
        self._sends(request)
        self._door.let_pass(request)
        self._crawler.engine.crawl(request)
        return True

    def _requeued(self, claim: bytes) -> None:
        reason = self._reasons.get(claim, "other")
        self._count("urlnorm/requeued")
        self._count(f"urlnorm/requeued/{reason}")

    # ------------------------------------------------------------------------------------------

    @property
    def _store(self) -> Any:
        return self._door.store

    def _claim_of(self, request: Request) -> bytes:
        key: bytes = self._door.key_of(request)
        name = purpose_of(request)
        own = _own_key(key, name) if self._has_claims or request.dont_filter else key
        if self._has_claims and self._ask(self._store.awaited, own) is not None:
            return own
        if request.dont_filter:  # it passed the door without a look at its callback
            awaited = self._ask(self._store.awaited, key)
            if awaited is not None and awaited.callback != name:
                return own
        return key


def why_none(status: int) -> str:
    """Return the name, in a statistic, of what an answer with *status* and no page is."""
    if 300 <= status < 400:
        return "redirect"
    return "no_body" if 200 <= status < 300 else f"http_{status}"


def _own_key(key: bytes, callback: str) -> bytes:
    """Return the key of requests that share all but the callback with those that have *key*."""
    return _digest(b"callback", key, callback.encode(errors="replace"))


def _digest(kind: bytes, *parts: bytes) -> bytes:
    """Return bytes that stand in the store beside the fingerprints, and are none of them."""
    return blake2b(b"\0".join((kind, *parts)), digest_size=20).digest()
