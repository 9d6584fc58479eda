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
suppresses the rest; without one, four times as many are sent. What is *put last* (`families`) waits
until all else is done. A request waits once for each reason, so nothing waits for ever.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.crawl.online.audits import Audit
from scrapy_urlnorm.crawl.online.safe_points import Work
from scrapy_urlnorm.crawl.online.tables import Match, Reason
from scrapy_urlnorm.logs.differences import family_of
from scrapy_urlnorm.report.filtered import COALESCED, DEFERRED, LAST, SUPPRESSED
from scrapy_urlnorm.stores.sqlite import from_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy_urlnorm.crawl.frontier import CrawlFrontier
    from scrapy_urlnorm.crawl.online.aliases import PageAliases
    from scrapy_urlnorm.crawl.online.audits import Audits
    from scrapy_urlnorm.crawl.online.evidence import Evidence
    from scrapy_urlnorm.crawl.online.families import Families
    from scrapy_urlnorm.crawl.online.held import Held, HeldRequests
    from scrapy_urlnorm.crawl.online.keys import ClusterKeys, Keys
    from scrapy_urlnorm.crawl.online.rules import RuleRegistry
    from scrapy_urlnorm.crawl.online.safe_points import SafePoints
    from scrapy_urlnorm.crawl.online.tables import Page, Pages
    from scrapy_urlnorm.crawl.requests import Asked
    from scrapy_urlnorm.learning.aliases import Pattern
    from scrapy_urlnorm.logs.page_identity import Identity

#: Cluster keys in flight at a time. Requests that the engine has are a few dozen.
MAX_IN_FLIGHT = 10_000
#: How many deferred requests of each family are sent before their site is mined, and how many times as
#: many the next time (measured: by family, ten applications and 17 other sites avoid .01 to .05 more
#: than with as many requests of all together; some families then come too late).
FIRST_SENT, MORE = 4, 4


class InFlight(NamedTuple):
    """The request whose page is expected to become a representative."""

    fingerprint: bytes
    site: str
    handle: object  #: ``None`` while it waits in the queue
    depth: int = 0


@dataclass(eq=False)
class Suppression:
    """Decides about requests to sites with rules in force, or page aliases.

    *families* says what is deferred, put last, or dropped.
    """

    keys: ClusterKeys
    pages: Pages
    held: HeldRequests
    audits: Audits
    registry: RuleRegistry
    aliases: PageAliases
    evidence: Evidence
    families: Families | None
    safe_points: SafePoints
    frontier: CrawlFrontier

    def __post_init__(self) -> None:
        self._depth_limit = self.frontier.depth_limit
        self.registry.on_change = self.rules_changed
        self.aliases.on_dead = self._alias_is_dead
        self.aliases.on_contested = lambda keys: self._resolve_all(SUPPRESSED, keys.cluster)
        self._in_flight: dict[bytes, InFlight] = {}  # by cluster key
        self._has_coalesced = True  # whether any may wait, of an earlier run too
        self._watched: dict[object, Keys] = {}  # by request: those the engine has, and audits
        #: What each request that was sent after all has been held for, by its fingerprint.
        self._waited: dict[bytes, int] = {}
        self._batches: dict[str, int] = {}  # deferred requests to send next, by site that has any
        #: What an idle crawl does, step by step.
        self.sending: Iterator[bool] | None = None
        #: Told of a site when its pages have the keys that its rules make.
        self.on_keyed: Callable[[str], Iterator[None]] = lambda _: iter(())

    def begin(self) -> None:
        reasons = {reason.key: reason for reason in self.registry.reasons()}
        self.audits.restore(reasons, self.pages.get)
        self._batches = dict.fromkeys(self.held.sites(), FIRST_SENT)
        for site in dict.fromkeys((*self._batches, *self.keys.sites())):
            self.safe_points.put(site, Work.KEYS, self._make_keys(site))

    # --- decisions --------------------------------------------------------------------------

    def match(self, asked: Asked | Held, keys: Keys | None) -> Match | None:
        """Return the representative that a request may be suppressed behind now, and why.

        That is a page with its cluster key, or else the one that named it.
        """
        if keys is None:
            return None
        url, purpose = asked.url, asked.purpose
        page = None if keys.is_plain else self.pages.representative(keys, purpose, url)
        if page is not None and self._is_near(page, asked):
            reasons = self.registry.between(keys.site, url, page)
            if reasons and (not page.is_wall or any(reason.is_door for reason in reasons)):
                return Match(keys, page, reasons)
        alias = self.aliases.alias(keys, url)
        page = None if alias is None else self.pages.get(alias.page)
        is_other = page is not None and page.fingerprint != keys.fingerprint
        if alias and page and is_other and page.purpose == purpose and self._is_near(page, asked):
            return Match(keys, page, (Reason(alias.pattern, alias.pattern.support),))
        return None

    def _is_near(self, page: Page, asked: Asked | Held) -> bool:
        """With ``DEPTH_LIMIT``, the links of a page nearer to the start are followed farther."""
        return not self._depth_limit or asked.depth >= page.depth

    def on_arrival(self, asked: Asked) -> Match | None:
        """Return what a request is suppressed behind, if so; else it goes into the queue."""
        keys = self.keys.keys(asked) if self._may_be_suppressed(asked) else None
        match = None if keys is None or self._is_moved(keys) else self.match(asked, keys)
        return match if match and self._suppresses(match, asked) else None

    def _may_be_suppressed(self, asked: Asked) -> bool:
        """Whether a request is evidence that is asked for once, or the target of a redirect.

        No redirect to what the request on its way has asked for: that may set a cookie.
        """
        if asked.is_suppressible or not asked.may_represent:
            return asked.is_suppressible
        cluster_url = self.keys.cluster_url
        return cluster_url(asked.url) not in map(cluster_url, asked.redirects)

    def _is_moved(self, keys: Keys) -> bool:
        """Whether an audit was redirected to this request, which has not been sent."""
        audit = self.audits.get(keys.fingerprint)
        return audit is not None and audit.request is None

    def on_leaving(self, asked: Asked) -> bool:
        keys = self.keys.keys(asked)
        if keys is None:
            return not (asked.is_suppressible and self._defers(asked, None))
        if self._waited.get(keys.fingerprint) == SUPPRESSED:
            del self._waited[keys.fingerprint]
            return True
        audit = self.audits.get(keys.fingerprint)
        if audit is None or audit.request is not None:
            match = self.match(asked, keys) if self._may_be_suppressed(asked) else None
            if match is None:
                if asked.is_suppressible:
                    return self._sends_first(keys, asked)
                known = self._in_flight.get(keys.cluster)
                if known is not None and known.handle is None and asked.redirects:
                    self._send(keys, asked)  # what was in flight was redirected to it
                return True
            if self._suppresses(match, asked):
                return False
            audit = self.audits.get(keys.fingerprint)
        if audit is not None and audit.request is None:
            self.audits.sent(audit, asked)
            self._watched[asked.handle] = keys
        return True

    def _sends_first(self, keys: Keys, asked: Asked) -> bool:
        """Return whether a request that repeats no page is sent; else it waits."""
        if self._defers(asked, keys):
            return False
        has_waited_for = self._waited.pop(keys.fingerprint, None)
        if keys.is_plain:
            return True
        known = self._in_flight.get(keys.cluster)
        if has_waited_for == COALESCED:
            known = None
        elif known is None or (known.handle and known.handle not in self.frontier.in_progress()):
            known = self._in_queue(keys, asked.url)
        if known is None or known.fingerprint == keys.fingerprint or self._is_farther(known, asked):
            self._send(keys, asked)
            return True
        if not self.held.hold(keys, asked, COALESCED):
            return True
        self._has_coalesced = True
        self._in_flight[keys.cluster] = known
        self.frontier.count("learned/coalesced")
        return False

    def _is_farther(self, known: InFlight, asked: Asked) -> bool:
        """Whether, with ``DEPTH_LIMIT``, what is in flight is farther from the start, or may be."""
        is_near = known.handle is not None and known.depth <= asked.depth
        return bool(self._depth_limit) and not is_near

    def _in_queue(self, keys: Keys, url: str) -> InFlight | None:
        """Return what the rules make of *url*, if this crawl has queued it.

        It may have ended without a page: then what waits for it is sent when the crawl is idle.
        """
        target = self.keys.fingerprint_of_cluster(keys.site, url)
        if target in (None, keys.fingerprint) or len(self._in_flight) >= MAX_IN_FLIGHT:
            return None
        waits = self.frontier.waits_here(target) and self.pages.get(target) is None
        return InFlight(target, keys.site, None) if waits else None

    def _send(self, keys: Keys, asked: Asked) -> None:
        handle = asked.handle
        self._in_flight[keys.cluster] = InFlight(keys.fingerprint, keys.site, handle, asked.depth)
        self._watched[handle] = keys

    def _defers(self, asked: Asked, keys: Keys | None) -> bool:
        """Return whether a request that repeats no page waits until the crawl is idle, or is dropped.

        Not what the user wants first, nor what is safer in a queue that others share.
        """
        if self.families is None or self.families.is_over(asked.url):
            return self.families is not None  # it is dropped
        if asked.is_urgent or self._depth_limit:
            return False  # with a limit, what it links to would be met farther from the start
        if (state := self.families.state_of(asked.url)) is None:
            return False
        keys = keys or self.keys.plain_keys(asked)
        if keys.fingerprint in self._waited or not self.held.hold(keys, asked, state):
            return False
        if state == DEFERRED:
            self._batches.setdefault(keys.site, FIRST_SENT)
        self.frontier.count("learned/deferred")
        return True

    def expired(self, asked: Asked) -> None:
        """Note a link that is no page any more. If it had a token, no others like it wait."""
        if self.families is not None and self.families.expire(asked.url):
            for held in self.held.find(DEFERRED, site=asked.site):
                if family_of(held.url) == family_of(asked.url):
                    self.send_at_last(held)

    # --- suppressed or audited --------------------------------------------------------------

    def _suppresses(self, match: Match, asked: Asked) -> bool:
        if self.audits.is_due(match, asked.url):
            self._begin_audit(match, asked.url)
            return False
        if not self.held.hold(match.keys, asked, SUPPRESSED, match):
            return False
        self.frontier.count("learned/suppressed")
        return True

    def _begin_audit(self, match: Match, url: str, **how: bool) -> None:
        self.frontier.count("learned/audits")
        self.audits.begin(match, url, **how)

    def _match_of(self, held: Held) -> Match | None:
        """Return what a held request repeats by now. It is read only where its URL makes no key."""
        if self.keys.by_url:
            return self.match(held, self.keys.keys_of(held.url))
        asked = self.held.request_of(held)
        return None if asked is None else self.match(asked, self.keys.keys(asked))

    def _resolve(self, held: Held) -> bool:
        """Suppress or audit a held request if it repeats a page by now; return whether it does."""
        match = self._match_of(held)
        if match is None:
            return False
        if self.audits.is_due(match, held.url, from_json(held.rules)):
            if self._send_as_audit(held, match):
                return True
            self.audits.untested(Audit(match, held.url))  # this run cannot read it
        self.held.suppress(held, match)
        if held.state != SUPPRESSED:
            self.frontier.count("learned/suppressed")
        return True

    def _resolve_or_send(self, held: Held) -> None:
        if not self._resolve(held):
            self.held.send(held)

    def _resolve_all(self, state: int, cluster: bytes) -> None:
        for held in self.held.find(state, cluster=cluster):
            self._resolve_or_send(held)

    def send_at_last(self, held: Held) -> bool:
        """Send a request that has waited, and does not wait again; one that was suppressed, for good.

        Return whether this run can read it.
        """
        if not self.held.send(held):
            return False
        self._waited[held.fingerprint] = held.state
        return True

    def audit(self, held: Held, *, needs_proof: bool = False) -> bool:
        """Send a suppressed request, as an audit if it still repeats a page; return whether so."""
        match = self._match_of(held)
        if match is None:
            self.held.send(held)
            return False
        return self._send_as_audit(held, match, needs_proof=needs_proof, is_drawn=True)

    def _send_as_audit(self, held: Held, match: Match, **how: bool) -> bool:
        """Send a held request as an audit; return whether this run can read it."""
        asked = self.held.request_of(held)
        if asked is None:
            return False
        self._begin_audit(match, held.url, **how)
        return self.held.send(held, asked)

    # --- what becomes of requests in flight -------------------------------------------------

    def page(self, asked: Asked, content: Identity | None) -> Page | None:
        if not asked.may_represent:
            return None
        keys = self.keys.keys_of(asked.url)
        page = self.pages.add(asked, keys, content)
        if keys is not None:
            self._resolve_all(COALESCED, keys.cluster)
            self._in_flight.pop(keys.cluster, None)
        return page

    def redirected(self, asked: Asked, target: Asked, *, is_known: bool) -> None:
        """Note a redirect that will be followed, or that the dupefilter stops: it *is_known*."""
        keys = self.keys.keys(asked)
        known = self._in_flight.get(keys.cluster) if keys is not None else None
        if keys is None or known is None or known.handle is not asked.handle:
            return
        onto = self.keys.keys(target)
        if onto is not None and onto.cluster == keys.cluster and not is_known:
            moved = known._replace(fingerprint=onto.fingerprint, handle=None)
            self._in_flight[keys.cluster] = moved
        else:
            self._ended(keys.cluster)

    def expire_in_flight(self) -> None:
        in_progress = self.frontier.in_progress()
        for handle in [each for each in self._watched if each not in in_progress]:
            keys = self._watched.pop(handle)
            known = self._in_flight.get(keys.cluster)
            audit = self.audits.get(keys.fingerprint)
            if known is not None and known.handle is handle:
                self._ended(keys.cluster)
            if audit is not None and audit.request is handle:
                self.audits.ended(audit)

    def _ended(self, cluster: bytes) -> None:
        """Send the first request that waits for one that has ended without a page."""
        del self._in_flight[cluster]
        for held in self.held.find(COALESCED, cluster=cluster):
            self.send_at_last(held)
            return

    # --- other rules and aliases ------------------------------------------------------------

    def representative_changed(self, page: Page) -> None:
        """Send what waits behind a page that is another one now, or have others represent it."""
        if cluster := self.pages.drop(page.fingerprint):
            self._resolve_all(SUPPRESSED, cluster)

    def rules_changed(self, site: str) -> None:
        """Have the cluster keys of *site* made anew; until then its pages represent nothing."""
        for cluster in [key for key, known in self._in_flight.items() if known.site == site]:
            del self._in_flight[cluster]
        self.safe_points.put(site, Work.KEYS, self._make_keys(site))
        reasons = {reason.key for reason in self.registry.reasons(site)}
        self.audits.rules_changed(site, reasons, self.keys.keys_of)

    def _alias_is_dead(self, pattern: Pattern) -> None:
        self.audits.forget(pattern.identity)
        self.rules_changed(pattern.site)

    def _make_keys(self, site: str) -> Iterator[None]:
        """Make the keys of pages anew; requeue what was coalesced, resolve what was suppressed."""
        coalesced = list(self.held.find(COALESCED, site=site))  # what is held meanwhile is not sent
        for held in coalesced:
            self.held.send(held)
            yield
        yield from self.pages.rekey(site)
        yield from self.on_keyed(site)
        for held in self.held.find(SUPPRESSED, site=site):
            self._resolve_or_send(held)
            yield

    # --- when there is nothing else to do ---------------------------------------------------

    def idle(self, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Send what repeats no page. Return ``True`` to wait: for that, or for the rest of it."""
        self._in_flight.clear()
        self._watched.clear()
        self._waited.clear()
        self.audits.end_all()
        if self._has_coalesced:  # what this run cannot read stays, and is tried again
            sent = [self.send_at_last(held) for held in self.held.find(COALESCED)]
            self._has_coalesced = not all(sent)
        while True:
            self.sending = self.sending or self._send_slowly()
            for has_sent in self.sending:
                if has_sent or is_over():
                    self.sending = None if has_sent else self.sending
                    return True
            self.sending = None
            if not self._batches:  # else some were deferred after the search had looked at them
                return False

    def _send_slowly(self) -> Iterator[bool]:
        """Send deferred requests, or else outstanding audits; yield true when that is done.

        And what is suppressed, but carries what has changed since: it is for something else now.
        """
        has_sent = False
        for held in self.held.find(SUPPRESSED) if self.frontier.kept else ():
            if self.frontier.has_changed(held.data, held.purpose):
                has_sent |= self.send_at_last(held)
            yield False
        for site in list(self._batches):
            for was_sent in self._send_batch(site):
                has_sent |= was_sent
                yield False
        if has_sent:
            yield True
        for site in self.keys.sites():
            for _ in self._send_outstanding(site):
                yield False

    def _send_outstanding(self, site: str) -> Iterator[None]:
        """Send suppressed requests of *site*, in random order, until no audit is outstanding."""
        audits, reasons = self.audits, list(self.registry.reasons(site))
        if not audits.has_outstanding(site, reasons):
            return  # so at nearly all times, and the database need not be asked
        begun = before = audits.begun
        for held in self.held.find(SUPPRESSED, site=site, in_order=False):
            if begun != audits.begun and not audits.has_outstanding(site, reasons):
                return
            begun = audits.begun
            self._resolve_or_send(held)
            yield
        audits.all_tested(site)
        if audits.begun == before:
            audits.exhausted(reasons)

    def _send_batch(self, site: str) -> Iterator[bool]:
        """Look at deferred requests of *site*; yield for each whether it was sent."""
        sent, is_rest = Counter[str](), False
        for held in self.held.find(DEFERRED, site=site, in_order=False):
            was_sent = False
            if self._resolve(held):
                pass
            elif self.families and self.families.state_of(held.url) == LAST:
                self.held.put_last(held)
            elif sent[family := family_of(held.url)] >= self._batches[site]:
                is_rest = True
            else:  # if it cannot be read, another run may be able to
                was_sent = self.send_at_last(held)
                sent[family] += was_sent
            yield was_sent
        if is_rest:
            self._batches[site] *= MORE
            self.evidence.eager.add(site)
        elif not any(map(self.held.request_of, self.held.find(DEFERRED, site=site))):
            del self._batches[site]  # else some were deferred while this went on, in slices

    def send_last(self, held: Held) -> bool:
        """Send a request that was put last, if it still repeats no page; return whether so."""
        return not self._resolve(held) and self.send_at_last(held)

    def release_all(self) -> None:
        self.families = None
        self.sending = None
        for table in (self._batches, self.safe_points, self._in_flight, self._watched):
            table.clear()
        for held in self.held.find():
            self.held.send(held)
        self.audits.end_all()  # last: a full disk refuses it
