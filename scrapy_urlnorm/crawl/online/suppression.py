"""Suppression: which requests are sent, and which are held because of what was learned.

URLs with one *cluster key* are duplicates. Only when the page of one of them has arrived, their
*representative*, are requests for the others *suppressed*. While it is *in flight*, they are
*coalesced*: they wait for it. It is decided when a request is found and when it leaves the queue:

==================  =====================  =====================  ============================
its cluster key     is unknown             is in flight           has a representative
==================  =====================  =====================  ============================
on arrival          queued                 queued                 suppressed, or queued to audit
on leaving          sent, now in flight    coalesced              suppressed, or sent to audit
==================  =====================  =====================  ============================

What waits in the queue is in flight too if its URL is the one that the rules make of the others:
it is fetched in any case. When the page arrives, what was coalesced is suppressed; when the request
ends in any other way, the first of them is sent. Nobody has to say that it ended: the engine does
not have it any more. A page also represents the URLs that it names as its own (`aliases`).

What likely brings nothing new is *deferred* until the crawl is idle. Then a few are sent in random
order, a fair sample of what a rule would suppress, and the site is mined. A rule that comes of it
suppresses the rest; without one, four times as many are sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.crawl.components import run_jobs, site_of
from scrapy_urlnorm.crawl.online.requests import depth_of, is_suppressible, kind_of, may_represent
from scrapy_urlnorm.crawl.online.tables import (
    COALESCED,
    DEFERRED,
    STATES,
    SUPPRESSED,
    Match,
    Reason,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from typing import Any

    from scrapy import Request

    from scrapy_urlnorm.crawl.online.aliases import PageAliases
    from scrapy_urlnorm.crawl.online.audits import Audits
    from scrapy_urlnorm.crawl.online.frontier import CrawlFrontier
    from scrapy_urlnorm.crawl.online.keys import ClusterKeys, Keys
    from scrapy_urlnorm.crawl.online.requests import DuplicateRates
    from scrapy_urlnorm.crawl.online.rules import RuleRegistry
    from scrapy_urlnorm.crawl.online.sharing import SharedPages
    from scrapy_urlnorm.crawl.online.tables import Held, HeldRequests, Page, Pages
    from scrapy_urlnorm.logs.page_identity import Identity

#: Cluster keys in flight at a time. Requests that the engine has are a few dozen.
MAX_IN_FLIGHT = 10_000
#: How many deferred requests of a site are sent before it is mined (measured: with 64, a tenth of
#: what could be saved of one application is sent), and how many times as many the next time.
FIRST_SENT, MORE = 16, 4


class InFlight(NamedTuple):
    """The request whose page is expected to become a representative."""

    fingerprint: bytes
    site: str
    request: Request | None  #: ``None`` while it waits in the queue


class Suppression:
    """Decides about requests to sites with rules in force, or page aliases.

    *depth_limit* is Scrapy's ``DEPTH_LIMIT``. Requests of a kind with a high rate of duplicates are
    deferred; not so without *rates*.
    """

    def __init__(
        self,
        keys: ClusterKeys,
        pages: Pages,
        held: HeldRequests,
        audits: Audits,
        frontier: CrawlFrontier,
        registry: RuleRegistry,
        aliases: PageAliases,
        shared_pages: SharedPages,
        *,
        depth_limit: int = 0,
        rates: DuplicateRates | None = None,
    ) -> None:
        self._keys = keys
        self._pages = pages
        self._held = held
        self._audits = audits
        self._frontier = frontier
        self._registry = registry
        self._aliases = aliases
        self._shared_pages = shared_pages
        self._depth_limit = depth_limit
        self._rates = rates
        self._in_flight: dict[bytes, InFlight] = {}  # by cluster key
        self._watched: dict[Request, Keys] = {}  # those the engine has, and audits
        self._waited: set[bytes] = set()  # fingerprints of requests that do not wait a second time
        self._freed: set[bytes] = set()  # fingerprints of requests that are sent in any case
        self._tried: set[bytes] = set()  # cluster keys of which a deferred request was sent
        self.unmined: set[str] = set()  #: sites of which some were sent, and not mined since
        self._batches: dict[str, int] = {}  # deferred requests to send next, by site that has any
        # Jobs by site: iterators that run for a while, and go on later.
        self._rekeying: dict[str, Iterator[Any]] = {}
        self._sending: dict[str, Iterator[Any]] = {}
        self._auditing: dict[str, Iterator[Any]] = {}

    def begin(self) -> None:
        """Go on with what an earlier run held. It may have had other rules."""
        reasons = [*self._aliases.reasons(), *self._registry.reasons()]
        self._audits.restore(
            {reason.key: reason for reason in reasons},
            self._pages.get,
            self._keys.keys_of,
            self._frontier.waits_here,
        )
        for site in {*self._held.sites(), *self._keys.sites()}:
            self._rekeying[site] = self._make_keys(site, COALESCED, DEFERRED)

    def __repr__(self) -> str:
        """Return a count a state: ``queued 12, in flight 8, coalesced 3, ...``."""
        counts = self._held.counts()
        states = {"queued": self._frontier.queued(), "in flight": len(self._frontier.in_progress())}
        states |= {name: counts[name] for name in (STATES[COALESCED], *STATES) if name in counts}
        return f"<Suppression: {', '.join(f'{name} {number}' for name, number in states.items())}>"

    # --- decisions --------------------------------------------------------------------------

    def match(self, request: Request, keys: Keys | None = None) -> Match | None:
        """Return the representative that *request* may be suppressed behind now, and why.

        That is a page with its cluster key, or else the one that named it.
        """
        keys = keys or self._keys.keys(request)
        if keys is None:
            return None
        page = None
        if not keys.is_plain:
            page = self._pages.representative(keys) or self._shared_pages.find(keys)
        if page is not None and self._is_near(page, request):
            reasons = self._registry.between(request.url, page)
            if reasons and (not page.is_wall or any(reason.is_door for reason in reasons)):
                return Match(keys, page, reasons)
        alias = self._aliases.alias(keys, request)
        page = None if alias is None else self._pages.get(alias.page)
        if alias and page and page.fingerprint != keys.fingerprint and self._is_near(page, request):
            return Match(keys, page, (Reason(alias.pattern, alias.pattern.support),))
        return None

    def _is_near(self, page: Page, request: Request) -> bool:
        """With ``DEPTH_LIMIT``, the links of a page nearer to the start are followed farther."""
        return not self._depth_limit or depth_of(request) >= page.depth

    def on_arrival(self, request: Request) -> Match | None:
        """Return what a request is suppressed behind, if so; else it goes into the queue."""
        match = self.match(request) if is_suppressible(request) else None
        return match if match and self._suppresses(match, request) else None

    def on_leaving(self, request: Request) -> bool:
        """Return whether a request that comes out of the queue is sent now."""
        keys = self._keys.keys(request)
        if keys is None:
            return not (is_suppressible(request) and self._defers(request, None))
        if keys.fingerprint in self._freed:
            self._freed.discard(keys.fingerprint)
            return True
        audit = self._audits.get(keys.fingerprint)
        if audit is None or audit.request is not None:
            if not is_suppressible(request):
                known = self._in_flight.get(keys.cluster)
                if known is not None and known.request is None and "redirect_urls" in request.meta:
                    self._send(keys, request)  # what was in flight was redirected to it
                return True
            match = self.match(request, keys)
            if match is None:
                return self._sends_first(keys, request)
            if self._suppresses(match, request):
                return False
            audit = self._audits.get(keys.fingerprint)
        if audit is not None and audit.request is None:
            self._audits.sent(audit, request)
            self._watched[request] = keys
        return True

    def _sends_first(self, keys: Keys, request: Request) -> bool:
        """Return whether *request*, which repeats no page, is sent; else it waits."""
        if self._defers(request, keys):
            return False
        if keys.is_plain:
            return True
        known = self._in_flight.get(keys.cluster)
        if keys.fingerprint in self._waited:
            self._waited.discard(keys.fingerprint)
            known = None
        elif known is None or (known.request and not self._is_in_progress(known.request)):
            known = self._in_queue(keys, request)
        if known is None or known.fingerprint == keys.fingerprint:
            self._send(keys, request)
            return True
        if not self._held.hold(keys, request, COALESCED):
            return True
        self._in_flight[keys.cluster] = known
        self._frontier.count("learned/coalesced")
        return False

    def _is_in_progress(self, request: Request) -> bool:
        return request in self._frontier.in_progress()

    def _in_queue(self, keys: Keys, request: Request) -> InFlight | None:
        """Return the URL that the rules make of *request*, if this crawl has queued it.

        It may have ended without a page: then *request* is sent when the crawl is idle.
        """
        target = self._keys.fingerprint_of_cluster(request)
        if target in (None, keys.fingerprint) or len(self._in_flight) >= MAX_IN_FLIGHT:
            return None
        waits = self._frontier.waits_here(target) and self._pages.get(target) is None
        return InFlight(target, keys.site, None) if waits else None

    def _send(self, keys: Keys, request: Request) -> None:
        self._in_flight[keys.cluster] = InFlight(keys.fingerprint, keys.site, request)
        self._watched[request] = keys

    def _defers(self, request: Request, keys: Keys | None) -> bool:
        """Return whether *request*, which repeats no page, waits until the crawl is idle.

        Not what the user wants first, nor what is safer in a queue that others share.
        """
        if (
            self._rates is None
            or request.priority > 0
            or not self._frontier.has_own_queue
            or not self._rates.is_high(site_of(request.url), request.url)
        ):
            return False
        keys = keys or self._keys.plain_keys(request)
        if keys.fingerprint in self._waited or not self._held.hold(keys, request, DEFERRED):
            return False
        self._batches.setdefault(keys.site, FIRST_SENT)
        self._frontier.count("learned/deferred")
        return True

    def expired(self, request: Request) -> None:
        """Note a link that is no page any more. If it had a token, no others like it wait."""
        site = site_of(request.url)
        if self._rates is not None and self._rates.expire(site, request.url):
            for held in self._held.find(DEFERRED, site=site):
                waiting = self._held.request_of(held)
                if waiting is not None and kind_of(waiting.url) == kind_of(request.url):
                    self._send_at_last(held, waiting)

    # --- suppressed or audited --------------------------------------------------------------

    def _suppresses(self, match: Match, request: Request) -> bool:
        """Return whether *request* is suppressed; else it is sent, perhaps as an audit."""
        if self._begins_audit(match, request):
            return False
        if not self._held.hold(match.keys, request, SUPPRESSED, match):
            return False
        self._frontier.count("learned/suppressed")
        return True

    def _begins_audit(self, match: Match, request: Request, counted: Collection[str] = ()) -> bool:
        if not self._audits.is_due(match, request.url, counted):
            return False
        self._frontier.count("learned/audits")
        self._audits.begin(match, request.url)
        return True

    def _resolve(self, held: Held, request: Request) -> bool:
        """Suppress or audit a held request if it repeats a page by now; return whether it does."""
        match = self.match(request)
        if match is None:
            return False
        if self._begins_audit(match, request, held.counted):
            self._held.send(held, request)
            return True
        self._held.suppress(held, request, match)
        if held.state != SUPPRESSED:
            self._frontier.count("learned/suppressed")
        return True

    def _resolve_or_send(self, held: Held) -> None:
        """Do as `_resolve`, and send what repeats no page, if this run can read it."""
        request = self._held.request_of(held)
        if request is not None and not self._resolve(held, request):
            self._held.send(held, request)

    def _send_at_last(self, held: Held, request: Request | None = None) -> bool:
        """Send a request that has waited, and does not wait again."""
        is_sent = self._held.send(held, request)
        if is_sent:
            self._waited.add(held.fingerprint)
        return is_sent

    def audit(self, held: Held) -> bool:
        """Send a suppressed request, as an audit if it still repeats a page; return whether so."""
        request = self._held.request_of(held)
        match = None if request is None else self.match(request)
        if request is None or match is None:
            self._resolve_or_send(held)
            return False
        self._frontier.count("learned/audits")
        self._audits.begin(match, request.url)
        return self._held.send(held, request)

    def send_for_good(self, held: Held) -> bool:
        """Send a suppressed request, whatever the rules say; return whether this run can read it."""
        self._freed.add(held.fingerprint)
        return self._held.send(held)

    # --- what becomes of requests in flight -------------------------------------------------

    def page(self, request: Request, content: Identity | None) -> Page | None:
        """Note a page with a 2xx status that was handed to the spider; return what was noted."""
        if not may_represent(request):
            return None
        keys = self._keys.keys_of(request.url)
        page = self._pages.add(request, keys, content)
        if page is not None and keys is not None:
            for held in self._held.find(COALESCED, cluster=keys.cluster):
                self._resolve_or_send(held)
            self._in_flight.pop(keys.cluster, None)
            if not keys.is_plain:
                self._shared_pages.tell(keys, page)
        return page

    def redirected(self, request: Request, target: Request, *, is_known: bool) -> None:
        """Note a redirect that will be followed, or that the dupefilter stops: it *is_known*."""
        keys = self._keys.keys(request)
        known = self._in_flight.get(keys.cluster) if keys is not None else None
        if keys is None or known is None or known.request is not request:
            return
        onto = self._keys.keys(target)
        if onto is not None and onto.cluster == keys.cluster and not is_known:
            moved = known._replace(fingerprint=onto.fingerprint, request=None)
            self._in_flight[keys.cluster] = moved
        else:
            self._ended(keys.cluster)

    def expire_in_flight(self) -> None:
        """Notice which requests have ended without a page."""
        in_progress = self._frontier.in_progress()
        for request in [each for each in self._watched if each not in in_progress]:
            keys = self._watched.pop(request)
            known = self._in_flight.get(keys.cluster)
            audit = self._audits.get(keys.fingerprint)
            if known is not None and known.request is request:
                self._ended(keys.cluster)
            if audit is not None and audit.request is request:
                self._audits.ended(audit)

    def _ended(self, cluster: bytes) -> None:
        """Send the first request that waits for one that has ended without a page."""
        del self._in_flight[cluster]
        for held in self._held.find(COALESCED, cluster=cluster):
            self._send_at_last(held)
            return

    # --- other rules and aliases ------------------------------------------------------------

    def representative_changed(self, page: Page) -> None:
        """Send what waits behind a page that is another one now, or have others represent it."""
        cluster = self._pages.drop(page.fingerprint)
        for held in self._held.find(SUPPRESSED, cluster=cluster) if cluster else ():
            self._resolve_or_send(held)

    def contested(self, keys: Keys) -> None:
        """Send what repeats no page any more, since two pages claim a name with *keys*."""
        for held in self._held.find(SUPPRESSED, cluster=keys.cluster):
            self._resolve_or_send(held)

    def rules_changed(self, site: str) -> None:
        """Begin to make the cluster keys of *site* anew; until then its pages represent nothing."""
        for cluster in [key for key, known in self._in_flight.items() if known.site == site]:
            del self._in_flight[cluster]
        self._rekeying[site] = self._make_keys(site, COALESCED)
        reasons = {reason.key for reason in self._reasons(site)}
        self._audits.rules_changed(site, reasons, self._keys.keys_of)

    def _reasons(self, site: str) -> list[Reason]:
        return [*self._registry.reasons(site), *self._aliases.reasons(site)]

    def _make_keys(self, site: str, *requeued: int) -> Iterator[Any]:
        """Make the keys of pages anew, and resolve what was suppressed; requeue those states.

        A rule may be learned again before what it suppressed has come back, so its kinds have to be
        tested first.
        """
        yield from map(self._held.send, list(self._held.find(*requeued, site=site)))
        yield from self._pages.rekey(site)
        for held in self._held.find(SUPPRESSED, site=site):
            self._resolve_or_send(held)
            yield

    def work(self, is_time_over: Callable[[], bool]) -> None:
        """Go on making keys anew until it is done or *is_time_over* says so."""
        run_jobs(self._rekeying, is_time_over)

    @property
    def is_rekeying(self) -> bool:
        """Whether keys are still to be made anew."""
        return bool(self._rekeying)

    # --- when there is nothing else to do ---------------------------------------------------

    @property
    def is_sending(self) -> bool:
        """Whether a batch of deferred requests is not sent to its end."""
        return bool(self._sending)

    def idle(self, is_time_over: Callable[[], bool] = lambda: False) -> bool:
        """Send what repeats no page. Return ``True`` if *is_time_over* stopped it before its end."""
        self._in_flight.clear()
        self._watched.clear()
        self._waited.clear()
        self._audits.end_all()
        self.work(lambda: False)
        for held in self._held.find(COALESCED):
            self._send_at_last(held)
        was_sending = bool(self._sending)
        if self._send_deferred(is_time_over) or was_sending or self._sending:
            return was_sending or bool(self._sending)  # no crawl ends between two batches
        self._auditing = self._auditing or {
            site: self._send_outstanding(site) for site in self._keys.sites()
        }
        run_jobs(self._auditing, is_time_over)
        return bool(self._auditing)

    def _send_outstanding(self, site: str) -> Iterator[None]:
        """Send suppressed requests of *site*, in random order, until no audit is outstanding."""
        reasons = self._reasons(site)
        for held in self._held.find(SUPPRESSED, site=site, in_order=False):
            if not self._audits.has_outstanding(site, reasons):
                return
            self._resolve_or_send(held)
            yield
        self._audits.all_tested(site)

    def _send_deferred(self, is_time_over: Callable[[], bool]) -> bool:
        """Send some of the deferred requests of each site. Return whether there were any."""
        self._sending = self._sending or {site: self._send_batch(site) for site in self._batches}
        return run_jobs(self._sending, is_time_over)

    def _send_batch(self, site: str) -> Iterator[bool]:
        """Look at deferred requests of *site*; yield for each whether it was sent.

        Of several that the rules make one, the first is sent, and the others wait for its page. If
        it does not come, all are sent: one by one, a site that fails could keep the crawl busy.
        """
        left, first, is_rest = self._batches[site], set[bytes](), False
        for held in self._held.find(DEFERRED, site=site, in_order=False):
            if not left:
                is_rest = True
                break
            request = self._held.request_of(held)
            if request is None or self._resolve(held, request):
                yield False  # if it cannot be read, another run may be able to
                continue
            cluster = (self._keys.keys(request) or self._keys.plain_keys(request)).cluster
            if cluster in first:
                is_rest = True
                yield False
                continue
            if cluster not in self._tried:
                first.add(cluster)
                self._tried.add(cluster)
            left -= 1
            yield self._send_at_last(held, request)
        if is_rest:
            self._batches[site] *= MORE
            self.unmined.add(site)
        elif not any(map(self._held.request_of, self._held.find(DEFERRED, site=site))):
            del self._batches[site]  # else some were deferred while this went on, in slices
        if not self._batches:
            self._tried.clear()

    def release_all(self) -> None:
        """Send everything that is held, and hold nothing any more."""
        self._rates = None
        tables = (self._batches, self._rekeying, self._sending, self._auditing, self._tried)
        for table in (*tables, self._in_flight, self._watched):
            table.clear()
        self._audits.end_all()
        for held in self._held.find():
            self._held.send(held)
