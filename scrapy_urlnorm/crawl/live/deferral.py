"""Deferral: sends after all others what likely brings a page that is known by another name.

Two are deferred: what looks like another name of a page that will come by itself, if the user asks
for that (`page_aliases`), and what is of a kind of which most were duplicates (`likely`). Nothing
is lost by it: when the crawl has nothing else to do, they are sent. Of the second, a few at first,
in an order that has no meaning: so they are a fair sample of all that a rule would withhold. Then
the site is mined. If a rule comes of it, it withholds what is known by another name, and the rest
is sent once for each page that the rule makes of it. If not, four times as many are sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_urlnorm.crawl.live.ledger import DEFERRED, PARKED
from scrapy_urlnorm.crawl.sites import site_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy import Request

    from scrapy_urlnorm.crawl.live.frontier import Frontier
    from scrapy_urlnorm.crawl.live.kept_back import KeptBack
    from scrapy_urlnorm.crawl.live.ledger import Kept, Ledger
    from scrapy_urlnorm.crawl.live.likely import Likely
    from scrapy_urlnorm.crawl.live.page_aliases import PageAliases
    from scrapy_urlnorm.crawl.live.register import Keys, Register

#: How many are sent of a site before it is mined (measured: with 64, a tenth of what could be
#: saved of one application is sent), and how many times as many before it is mined again.
FIRST_SENT, MORE = 16, 4


class Deferral:
    """Parks requests until the crawl is idle. Without *aliases* or *likely*, none of that kind.

    *decide* withholds a request that stands behind a page, or audits it, and returns whether it
    does.
    """

    def __init__(
        self,
        register: Register,
        ledger: Ledger,
        frontier: Frontier,
        kept_back: KeptBack,
        aliases: PageAliases | None,
        likely: Likely | None,
        decide: Callable[[Kept, Request], bool],
    ) -> None:
        self._register = register
        self._ledger = ledger
        self._frontier = frontier
        self._kept_back = kept_back
        self._aliases = aliases
        self._likely = likely
        self._decide = decide
        self._next: dict[str, int] = {}  # by site with deferred requests: how many to send next
        self._jobs: dict[str, Iterator[bool]] = {}  # by site of which some are being sent
        self._tried: set[bytes] = set()  # learned keys of which one was sent
        #: Sites of which some were sent, and that were not mined since.
        self.unmined: set[str] = set()

    @property
    def is_done(self) -> bool:
        """Whether none waits because most of its kind were duplicates."""
        return not self._next

    def defers(self, request: Request, keys: Keys | None) -> bool:
        """Park *request* if it should wait. It may be kept back, and stands behind no page.

        *keys* are ``None`` for a site with neither rules nor aliases.
        """
        if keys is not None and self._aliases is not None:
            is_alias = self._aliases.can_wait(keys, request)
        else:
            is_alias = False
        if not is_alias and not self._is_likely(request):
            return False
        state = PARKED if is_alias else DEFERRED
        keys = keys or self._register.plain_keys(request)
        if self._kept_back.has_waited(keys.own) or not self._kept_back.keep(keys, request, state):
            return False
        if state == DEFERRED:
            self._next.setdefault(keys.site, FIRST_SENT)
        self._frontier.count("learned/deferred")
        return True

    def _is_likely(self, request: Request) -> bool:
        """Whether *request* will likely bring nothing new. What the user wants first is sent.

        In a queue that several crawlers share it is safe; in the database of this one it is not.
        """
        return (
            self._likely is not None
            and request.priority <= 0
            and self._frontier.has_own_queue
            and self._likely(site_of(request.url), request.url)
        )

    def stop(self) -> None:
        """Defer nothing any more."""
        self._aliases = self._likely = None
        self._next.clear()
        self._jobs.clear()
        self._tried.clear()

    def release(self, is_time_over: Callable[[], bool]) -> bool:
        """Send some of the deferred requests of each site. Return whether there were any.

        When *is_time_over* says so, the rest `is_left`: the next call goes on with it.
        """
        has_sent = False
        self._jobs = self._jobs or {site: self._send_some(site) for site in self._next}
        while self._jobs:
            site, job = next(iter(self._jobs.items()))
            for is_sent in job:
                has_sent |= is_sent
                if is_time_over():
                    return has_sent
            self._jobs.pop(site, None)
        return has_sent

    @property
    def is_left(self) -> bool:
        """Whether the last `release` has not come to its end."""
        return bool(self._jobs)

    def _send_some(self, site: str) -> Iterator[bool]:
        """Send some deferred requests of *site*; yield for each that is looked at if it was sent.

        What the rules know by another name by now is decided about like any other request. Of
        several that the rules make one, the first is sent, and the others wait for its page. If it
        does not come, all are sent: one by one, a site that fails could keep the crawl busy.
        """
        number = self._next[site]
        sent = 0
        first: set[bytes] = set()
        is_rest = False
        for kept in self._ledger.deferred(site):
            if sent == number:
                is_rest = True
                break
            request = self._kept_back.request_of(kept)
            if request is None or self._decide(kept, request):
                yield False  # if it cannot be read, another run may be able to
                continue
            keys = self._register.keys(request) or self._register.plain_keys(request)
            if keys.learned in first:
                is_rest = True
                yield False
                continue
            if keys.learned not in self._tried:
                first.add(keys.learned)
                self._tried.add(keys.learned)
            sent += 1
            yield self._kept_back.put_back_at_last(kept, request)
        if is_rest:
            self._next[site] = number * MORE
            self.unmined.add(site)
        elif not any(map(self._kept_back.request_of, self._ledger.deferred(site))):
            # Else some were deferred while this went on, in slices.
            del self._next[site]
        if self.is_done:
            self._tried.clear()
