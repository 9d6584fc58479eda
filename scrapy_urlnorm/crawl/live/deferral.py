"""Deferral: sends after all others what likely brings a page that is known by another name.

Two are deferred: what looks like another name of a page that will come by itself, if the user asks
for that (`page_aliases`), and what is of a kind of which most were duplicates (`likely`). Nothing
is lost by it: when the crawl has nothing else to do, they are sent. Of the second, a few at first,
in an order that has no meaning: so they are a fair sample of all that a rule would withhold. Then
the site is mined. If a rule comes of it, it withholds the rest. If not, twice as many are sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_urlnorm.crawl.sites import site_of

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_urlnorm.crawl.live.frontier import Frontier
    from scrapy_urlnorm.crawl.live.kept_back import KeptBack
    from scrapy_urlnorm.crawl.live.ledger import Ledger
    from scrapy_urlnorm.crawl.live.likely import Likely
    from scrapy_urlnorm.crawl.live.page_aliases import PageAliases
    from scrapy_urlnorm.crawl.live.register import Keys, Register

#: How many are sent of a site before it is mined (measured: with 64, a tenth of what could be
#: saved of one application is sent).
FIRST_SENT = 16


class Deferral:
    """Parks requests until the crawl is idle. Without *aliases* or *likely*, none of that kind."""

    def __init__(
        self,
        register: Register,
        ledger: Ledger,
        frontier: Frontier,
        kept_back: KeptBack,
        aliases: PageAliases | None,
        likely: Likely | None,
    ) -> None:
        self._register = register
        self._ledger = ledger
        self._frontier = frontier
        self._kept_back = kept_back
        self._aliases = aliases
        self._likely = likely
        self._next: dict[str, int] = {}  # by site with deferred requests: how many to send next
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
        keys = keys or self._register.plain_keys(request)
        if self._kept_back.has_waited(keys.own):
            return False
        if not self._kept_back.keep(keys, request, is_parked=True, is_deferred=not is_alias):
            return False
        if not is_alias:
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

    def release(self) -> bool:
        """Send some of the deferred requests of each site. Return whether there were any."""
        has_sent = False
        for site, number in tuple(self._next.items()):
            sample = self._ledger.deferred(site, number)
            if len(sample) < number:
                del self._next[site]
            else:
                self._next[site] = 2 * number
            self.unmined.add(site)
            for kept in sample:
                has_sent |= self._kept_back.put_back_at_last(kept)
        return has_sent
