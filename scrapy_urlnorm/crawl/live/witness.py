"""Witnesses: whether a request is sent, withheld behind a page that arrived, or parked.

Decided when a request arrives and again when it leaves the queue:

==================  =====================  =====================  ==========================
its learned key     is unknown             is claimed             is witnessed
==================  =====================  =====================  ==========================
on arrival          queued                 queued                 withheld, or queued as audit
on leaving          sent, and claims it    parked                 withheld, or sent as audit
==================  =====================  =====================  ==========================

A claim belongs to a request that is under way, or to one that waits in the queue and has the
URL that the rules make of the other. When a page arrives under the learned key, that
is a witness, and what is parked is withheld. When the claimant ends in any other way, the first
request parked behind it is sent. Nobody needs to say how it ended: a claim whose request is no
longer under way is void.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from scrapy.http.request import NO_CALLBACK

from scrapy_urlnorm.crawl.live.ledger import Page
from scrapy_urlnorm.crawl.live.register import site_of
from scrapy_urlnorm.exceptions import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from scrapy import Request

    from scrapy_urlnorm.crawl.live.audits import Audits
    from scrapy_urlnorm.crawl.live.ledger import Kept, Ledger
    from scrapy_urlnorm.crawl.live.register import Keys, Register
    from scrapy_urlnorm.logs.page_identity import Identity
    from scrapy_urlnorm.site_rules import SiteRule


#: Sites, and pages of all sites, that are remembered before there is a rule.
MAX_SITES = 10_000
MAX_PAGES = 500_000
#: In place of a site and of a salt: for requests of all sites, and while keys are made anew.
_ALL_SITES = ""
_UNFINISHED = b"unfinished"
#: Claims at a time. Those of requests under way are a few dozen.
MAX_CLAIMS = 10_000


class Frontier(Protocol):
    """What a crawl does for its witnesses."""

    def under_way(self) -> Collection[Request]:
        """Return the requests that left the queue and have not ended."""

    def pack(self, request: Request) -> bytes:
        """Return *request* as bytes; raises any exception for one that cannot be written."""

    def unpack(self, data: bytes) -> Request | None:
        """Return the request that was packed; ``None`` for one that this run cannot do."""

    def send(self, request: Request) -> None:
        """Put *request* back into the queue, past the dupefilter."""

    def is_known(self, own: bytes) -> bool:
        """Whether a request with this own key was ever made."""

    def count(self, stat: str) -> None:
        """Count one of ``urlnorm/...``."""

    def shared_witness(self, keys: Keys) -> Page | None:
        """Return a page that another crawler of the same frontier told of."""


class Behind(NamedTuple):
    """What a withheld request stands behind."""

    url: str
    rules: tuple[SiteRule, ...]


class Audit(NamedTuple):
    """A request that could be withheld and is sent all the same."""

    keys: Keys
    witness: Page
    rules: tuple[SiteRule, ...]
    request: Request | None  #: ``None`` as long as it waits in the queue


class _Claim(NamedTuple):
    """Who may become the witness of a learned key."""

    own: bytes
    site: str
    request: Request | None  #: ``None`` while it waits in the queue


class Witnesses:
    """Decides about requests to sites with rules in force. *max_pages* bounds a site's pages."""

    def __init__(
        self,
        register: Register,
        ledger: Ledger,
        audits: Audits,
        frontier: Frontier,
        *,
        max_pages: int,
        depth_limit: int = 0,
    ) -> None:
        self._register = register
        self._ledger = ledger
        self._audits = audits
        self._frontier = frontier
        self._max_pages = max_pages
        self._depth_limit = depth_limit
        self._claims: dict[bytes, _Claim] = {}
        self._with_parked: set[bytes] = set()  # learned keys, of claims and of void ones
        self._open_audits: dict[bytes, Audit] = {}  # by own key
        self._watched: dict[Request, Keys] = {}  # claimants and audits under way
        self._waited: set[bytes] = set()  # own keys of requests that are not parked again
        self._pages = ledger.count_pages()
        self._pages_of_all = sum(self._pages.values())
        self._forgettable = dict.fromkeys(
            self._pages
        )  # sites, the oldest first; those with rules stay
        self._jobs: dict[str, Iterator[None]] = {}  # sites whose keys are made anew
        salts = ledger.salts()
        for site in {*salts, *ledger.sites_with_kept(), *register.sites()}:
            if salts.get(site, b"") != register.salt(site):
                self._jobs[site] = self._make_keys_anew(site)
        if ledger.first_parked() is not None:  # by an earlier run, whose claims are void
            self._jobs[_ALL_SITES] = self._put_back_parked()

    # --- decisions --------------------------------------------------------------------------

    def on_arrival(self, request: Request) -> Behind | None:
        """Decide about a request whose own key is new; what it is withheld behind, if it is."""
        if not may_be_kept_back(request) or (keys := self._register.keys(request)) is None:
            return None
        witness = self._witness(keys, request)
        if witness is None:
            return None
        audit = self._audit(keys, witness, request)
        if audit is not None:
            self._open_audits[keys.own] = audit
            return None
        return self._withhold(keys, witness, request)

    def on_leaving(self, request: Request) -> bool:
        """Decide about a request that comes out of the queue: whether it is sent now."""
        keys = self._register.keys(request)
        if keys is None:
            return True
        audit = self._open_audits.get(keys.own)
        if audit is not None and audit.request is None:
            self._begin_audit(audit, request)
            return True
        claim = self._claims.get(keys.learned)
        if not may_be_kept_back(request):
            if claim is not None and claim.request is None and "redirect_urls" in request.meta:
                self._claim(keys, request)
            return True
        witness = self._witness(keys, request)
        if witness is not None:
            audit = self._audit(keys, witness, request)
            if audit is not None:
                self._begin_audit(audit, request)
                return True
            return self._withhold(keys, witness, request) is None
        if keys.own in self._waited:
            self._waited.discard(keys.own)
            claim = None
        elif claim is None or not self._is_alive(claim):
            claim = self._claim_of_waiting(keys, request)
        if claim is None or claim.own == keys.own:
            self._claim(keys, request)
            return True
        if not self._keep(keys, request, is_parked=True):
            return True
        self._claims[keys.learned] = claim
        self._with_parked.add(keys.learned)
        self._frontier.count("learned/parked")
        return False

    def _claim_of_waiting(self, keys: Keys, request: Request) -> _Claim | None:
        """The claim of the URL that the rules make of *request*, if that waits in the queue too.

        It has to be fetched in any case, so it goes first. Should it never come, because it
        failed before or another crawler has it, what is parked is sent when the crawl is idle.
        """
        own = self._register.own_of_learned(request)
        if own is None or own == keys.own or len(self._claims) >= MAX_CLAIMS:
            return None
        return _Claim(own, keys.site, None) if self._frontier.is_known(own) else None

    def _claim(self, keys: Keys, request: Request) -> None:
        self._claims[keys.learned] = _Claim(keys.own, keys.site, request)
        self._watched[request] = keys

    def _begin_audit(self, audit: Audit, request: Request) -> None:
        self._open_audits[audit.keys.own] = audit._replace(request=request)
        self._watched[request] = audit.keys

    def _is_alive(self, claim: _Claim) -> bool:
        return claim.request is None or claim.request in self._frontier.under_way()

    def _witness(self, keys: Keys, request: Request) -> Page | None:
        """The page that *request* may be withheld behind."""
        page = self._ledger.witness(keys.learned, keys.own) or self._frontier.shared_witness(keys)
        if page is not None and self._depth_limit and _depth(request) < page.depth:
            return None  # from here the crawl would go deeper
        return page

    def _audit(self, keys: Keys, witness: Page, request: Request) -> Audit | None:
        rules = self._register.between(request.url, witness.url)
        if not self._audits.is_due(rules, request.url, witness.vote):
            return None
        self._frontier.count("learned/audited")
        return Audit(keys, witness, rules, None)

    def _withhold(self, keys: Keys, witness: Page, request: Request) -> Behind | None:
        if not self._keep(keys, request, is_parked=False):
            return None
        self._frontier.count("learned/withheld")
        return Behind(witness.url, self._register.between(request.url, witness.url))

    def _keep(self, keys: Keys, request: Request, *, is_parked: bool) -> bool:
        """Write a request down; ``False`` for one that cannot be, which is to be sent."""
        try:
            self._ledger.keep(keys, self._frontier.pack(request), is_parked=is_parked)
        except StoreError:
            self._frontier.count("learned/errors")
            return False
        except Exception:  # noqa: BLE001 - pickle raises what the objects in the request raise
            return False
        return True

    # --- pages ------------------------------------------------------------------------------

    def page(self, request: Request, content: Identity | None) -> Page | None:
        """A page with a 2xx status was handed to the spider; it is a witness from now on.

        Return what was noted of it, ``None`` where nothing may be.
        """
        if not may_be_witness(request):
            return None
        keys = self._register.keys_of(request.url)
        site = keys.site if keys is not None else site_of(request.url)
        number = self._pages.get(site, 0)
        if number >= self._max_pages:
            return None
        if number == 0:
            self._make_room()
            self._forgettable[site] = None
        own = keys.own if keys is not None else self._register.own_key(request)
        page = Page(own, request.url, content, _depth(request))
        self._ledger.add_page(
            site, keys.learned if keys is not None else None, page, has_url=self._register.by_url
        )
        self._pages[site] = number + 1
        self._pages_of_all += 1
        if keys is not None:
            if keys.learned in self._with_parked:
                self._with_parked.discard(keys.learned)
                self._settle_parked(keys, page)
            self._claims.pop(keys.learned, None)
        return page

    def _settle_parked(self, keys: Keys, page: Page) -> None:
        """Withhold what was parked behind a page that has arrived, or send it as an audit."""
        for kept in self._ledger.parked(keys.learned):
            request = self._frontier.unpack(kept.request)
            if request is None:
                continue
            if kept.own == page.own or (self._depth_limit and _depth(request) < page.depth):
                self._put_back(kept, request)
                continue
            audit = self._audit(keys._replace(own=kept.own), page, request)
            if audit is None:
                self._ledger.unpark(kept.number)
                self._frontier.count("learned/withheld")
            else:
                self._open_audits[kept.own] = audit
                self._put_back(kept, request)

    def redirected(self, request: Request, target: Request, *, is_known: bool) -> None:
        """A redirect came back for *request* and will be followed.

        Within its learned key it takes the claim along, unless the dupefilter knows the target
        and will stop it there.
        """
        keys = self._register.keys(request)
        claim = self._claims.get(keys.learned) if keys is not None else None
        if keys is None or claim is None or claim.request is not request:
            return
        onto = self._register.keys(target)
        if onto is not None and onto.learned == keys.learned and not is_known:
            self._claims[keys.learned] = claim._replace(own=onto.own, request=None)
        else:
            self._void(keys.learned)

    # --- audits -----------------------------------------------------------------------------

    def audit_of(self, request: Request) -> Audit | None:
        """Return the audit that *request* is, if it is one and under way."""
        if not self._open_audits:
            return None
        audit = self._open_audits.get(self._register.own_key(request))
        return audit if audit is not None and audit.request is not None else None

    def close_audit(self, audit: Audit) -> None:
        """An audit has ended, and the caller tells `Audits` how."""
        self._open_audits.pop(audit.keys.own, None)

    # --- ends -------------------------------------------------------------------------------

    def look_around(self) -> None:
        """Notice claims and audits whose requests have ended without a page."""
        under_way = self._frontier.under_way()
        for request in [each for each in self._watched if each not in under_way]:
            keys = self._watched.pop(request)
            claim = self._claims.get(keys.learned)
            if claim is not None and claim.request is request:
                self._void(keys.learned)
            audit = self._open_audits.get(keys.own)
            if audit is not None and audit.request is request:
                self.close_audit(audit)
                self._audits.undecided(audit.rules)

    def _void(self, learned: bytes) -> None:
        """The claimant ended without a page: the first request parked behind it is sent."""
        self._claims.pop(learned, None)
        if learned not in self._with_parked:
            return
        kept = next(self._ledger.parked(learned), None)
        if kept is None or not self._put_back_at_last(kept):
            self._with_parked.discard(learned)

    def _put_back_at_last(self, kept: Kept) -> bool:
        """Send a request that was parked, and do not park it again: it has waited."""
        if not self._put_back(kept):
            return False
        self._waited.add(kept.own)
        return True

    def _put_back(self, kept: Kept, request: Request | None = None) -> bool:
        """Send a request that was kept back; it is in the queue before it leaves the ledger."""
        if request is None:
            request = self._frontier.unpack(kept.request)
            if request is None:
                return False
        self._frontier.send(request)
        self._ledger.drop(kept.number)
        self._frontier.count("learned/put_back")
        return True

    # --- when there is nothing else to do ---------------------------------------------------

    def idle(self) -> None:
        """The queue is empty and nothing is under way: send all that nobody answers for."""
        self._claims.clear()
        self._watched.clear()
        self._with_parked.clear()
        for audit in tuple(self._open_audits.values()):
            self.close_audit(audit)
            self._audits.undecided(audit.rules)
        for site in tuple(self._jobs):
            for _ in self._jobs.pop(site):
                pass
        self._waited.clear()
        for kept in self._ledger.all_parked():
            self._put_back_at_last(kept)
        self._send_audits_owed()

    def _send_audits_owed(self) -> None:
        for site in self._register.sites():
            for kept in self._ledger.sample(site):
                if not any(map(self._audits.owes, self._register.rules(site))):
                    break
                request = self._frontier.unpack(kept.request)
                keys = None if request is None else self._register.keys(request)
                witness = None if keys is None or request is None else self._witness(keys, request)
                if request is None:
                    continue
                if keys is None or witness is None:
                    self._put_back(kept, request)
                    continue
                rules = self._register.between(request.url, witness.url)
                if self._audits.is_owed(rules, witness.vote):
                    self._frontier.count("learned/audited")
                    self._open_audits[keys.own] = Audit(keys, witness, rules, None)
                    self._put_back(kept, request)

    # --- other rules ------------------------------------------------------------------------

    def rules_changed(self, site: str) -> None:
        """The rules in force for *site* are others now; see :meth:`work`.

        Until its pages have their new keys they are no witnesses, and requests are sent.
        """
        if site in self._pages and not self._register.rules(site):
            self._forgettable[site] = None
        for learned in [key for key, claim in self._claims.items() if claim.site == site]:
            del self._claims[learned]
            self._with_parked.discard(learned)
        for audit in [each for each in self._open_audits.values() if each.keys.site == site]:
            self.close_audit(audit)
            self._audits.undecided(audit.rules)
        self._jobs[site] = self._make_keys_anew(site)
        self._ledger.set_salt(site, _UNFINISHED)

    def work(self, is_time_over: Callable[[], bool]) -> None:
        """Go on making keys anew until it is done or *is_time_over* says so."""
        while self._jobs:
            site, job = next(iter(self._jobs.items()))
            for _ in job:
                if is_time_over():
                    return
            if self._jobs.get(site) is job:
                del self._jobs[site]

    @property
    def is_working(self) -> bool:
        """Whether keys are still to be made anew."""
        return bool(self._jobs)

    def _make_keys_anew(self, site: str) -> Iterator[None]:
        """Make the learned keys of a site anew; send what has no witness any more."""
        self._ledger.set_salt(site, _UNFINISHED)
        is_whole = True
        for kept in list(self._ledger.all_parked(site)):
            self._put_back(kept)
            yield
        number = 0
        while rows := self._ledger.pages(site, number):
            for number, url in rows:
                keys = None if url is None else self._register.keys_of(url)
                self._ledger.rekey_page(number, None if keys is None else keys.learned)
                yield
        for kept in self._ledger.withheld(site):
            request = self._frontier.unpack(kept.request)
            keys = None if request is None else self._register.keys(request)
            if request is None:
                is_whole = False  # another run may be able to read it
            elif keys is None or self._witness(keys, request) is None:
                self._put_back(kept, request)
            else:
                self._ledger.rekey_kept(kept.number, keys.learned)
            yield
        if is_whole:
            self._ledger.set_salt(site, self._register.salt(site))

    def _make_room(self) -> None:
        """Before a page of a new site: forget the oldest of too many sites without rules.

        A site with rules in force keeps its pages.
        """
        while self._forgettable and (
            len(self._pages) >= MAX_SITES or self._pages_of_all >= MAX_PAGES
        ):
            site = next(iter(self._forgettable))
            del self._forgettable[site]
            if not self._register.rules(site):
                self._pages_of_all -= self._pages.pop(site, 0)
                self._ledger.forget_pages(site)

    def _put_back_parked(self) -> Iterator[None]:
        for kept in list(self._ledger.all_parked()):
            self._put_back(kept)
            yield

    def release_all(self) -> None:
        """Forget all claims and audits and send everything that is kept back."""
        self._jobs.clear()
        self._claims.clear()
        self._watched.clear()
        self._with_parked.clear()
        self._open_audits.clear()
        for kept in self._ledger.all_kept():
            self._put_back(kept)


def may_be_evidence(request: Request) -> bool:
    """Whether *request* says something about its URL and nothing else."""
    return (
        request.method == "GET"
        and not request.body
        and "urlnorm" not in request.meta
        and "verbatim_url" not in request.meta
        and request.callback is not NO_CALLBACK  # robots.txt, images: not the spider's
    )


def may_be_kept_back(request: Request) -> bool:
    """Whether *request* asks for its URL and nothing else, for the first time.

    What carries ``dont_filter``, a body, another method than GET, its own say on normalization,
    a retry, a redirect in progress and a start request are always sent.
    """
    meta = request.meta
    return (
        may_be_evidence(request)
        and not request.dont_filter
        and not meta.get("redirect_urls")
        and not meta.get("retry_times")
        and not meta.get("is_start_request")
    )


def may_be_witness(request: Request) -> bool:
    """Whether the page of *request* may stand for other URLs: it may have come by a redirect."""
    return (
        may_be_evidence(request)
        and not request.dont_filter
        and not request.meta.get("retry_times")
        and not request.meta.get("is_start_request")
    )


def _depth(request: Request) -> int:
    depth = request.meta.get("depth", 0)
    return depth if isinstance(depth, int) else 0
