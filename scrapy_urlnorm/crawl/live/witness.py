"""Witnesses: decides whether a request is sent, withheld behind a page, or parked.

A *witness* is a page that arrived under another URL with the same learned key, or one that named
the URL of the request as its own (a *page alias*, see `page_aliases`). Only behind one is a request
withheld. While such a page may still come, because a request for it is under way, other
requests with the learned key are *parked*: the request that they wait for has the *claim*.

The decision is made when a request arrives and again when it leaves the queue:

==================  =====================  =====================  ==========================
its learned key     is unknown             is claimed             is witnessed
==================  =====================  =====================  ==========================
on arrival          queued                 queued                 withheld, or queued as audit
on leaving          sent, and claims it    parked                 withheld, or sent as audit
==================  =====================  =====================  ==========================

A request that waits in the queue has the claim too, if its URL is the one that the rules make of
the other: it has to be fetched in any case, so it goes first.

When a page arrives under the learned key, the parked requests are withheld behind it. When the
request with the claim ends in any other way, the first parked request is sent. Nobody needs to say
how it ended: the claim of a request that is no longer under way is void.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_urlnorm.crawl.live.deferral import Deferral
from scrapy_urlnorm.crawl.live.eligible import may_be_kept_back, may_be_witness
from scrapy_urlnorm.crawl.live.frontier import Audit, Claim
from scrapy_urlnorm.crawl.live.kept_back import KeptBack
from scrapy_urlnorm.crawl.live.ledger import PARKED, WITHHELD
from scrapy_urlnorm.crawl.live.open_audits import OpenAudits
from scrapy_urlnorm.crawl.live.owed import Owed
from scrapy_urlnorm.crawl.live.pages import Pages, Witness
from scrapy_urlnorm.crawl.live.rekeying import Rekeying
from scrapy_urlnorm.crawl.merges import Behind

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from scrapy_urlnorm.crawl.live.audits import Audits
    from scrapy_urlnorm.crawl.live.file_uses import FileUses
    from scrapy_urlnorm.crawl.live.frontier import Frontier
    from scrapy_urlnorm.crawl.live.ledger import Kept, Ledger, Page
    from scrapy_urlnorm.crawl.live.likely import Likely
    from scrapy_urlnorm.crawl.live.page_aliases import PageAliases
    from scrapy_urlnorm.crawl.live.register import Keys, Register
    from scrapy_urlnorm.crawl.merges import Reason
    from scrapy_urlnorm.logs.page_identity import Identity

#: Claims at a time. Those of requests under way are a few dozen.
MAX_CLAIMS = 10_000


class Witnesses:
    """Decides about requests to sites with rules in force, or page aliases.

    *max_pages* bounds the pages of one site. *depth_limit* is Scrapy's ``DEPTH_LIMIT``.
    *defers_aliases* parks requests that look like other names of pages until the crawl is idle,
    *likely* those that likely bring nothing new.
    """

    def __init__(
        self,
        register: Register,
        ledger: Ledger,
        audits: Audits,
        frontier: Frontier,
        aliases: PageAliases,
        file_uses: FileUses,
        *,
        max_pages: int,
        depth_limit: int = 0,
        defers_aliases: bool = False,
        likely: Likely | None = None,
    ) -> None:
        self._register = register
        self._ledger = ledger
        self._audits = audits
        self._frontier = frontier
        self._aliases = aliases
        self._file_uses = file_uses
        self._kept_back = KeptBack(ledger, frontier)
        self.deferral = Deferral(
            *(register, ledger, frontier, self._kept_back),
            aliases if defers_aliases else None,
            likely,
            self._decide_deferred,
        )
        self._pages = Pages(
            register,
            ledger,
            frontier,
            aliases.alias,
            file_uses,
            max_of_site=max_pages,
            depth_limit=depth_limit,
        )
        self._rekeying = Rekeying(register, ledger, self._kept_back, self._pages)
        self._claims: dict[bytes, Claim] = {}  # by learned key
        self._with_parked: set[bytes] = set()  # learned keys that requests are parked behind
        self.open_audits = OpenAudits(register, audits)
        self._watched: dict[Request, Keys] = {}  # requests under way: with a claim, or audits
        self._owed = Owed(
            *(register, ledger, audits, self.open_audits, frontier),
            *(aliases, self._pages, self._kept_back),
        )

    # --- decisions --------------------------------------------------------------------------

    def on_arrival(self, request: Request) -> Behind | None:
        """Decide about a request whose own key is new.

        Return what it is withheld behind; ``None`` if it goes into the queue.
        """
        if not may_be_kept_back(request) or (keys := self._register.keys(request)) is None:
            return None
        witness = self._pages.witness(keys, request)
        if witness is None:
            return None
        audit = self._audit(keys, witness, request)
        if audit is not None:
            self.open_audits.open(audit)
            return None
        return self._withhold(keys, witness, request)

    def on_leaving(self, request: Request) -> bool:
        """Decide about a request that comes out of the queue. Return whether it is sent now."""
        keys = self._register.keys(request)
        if keys is None:
            return not (may_be_kept_back(request) and self.deferral.defers(request, None))
        audit = self.open_audits.get(keys.own)
        if audit is not None and audit.request is None:
            self._begin_audit(audit, request)
            return True
        if not may_be_kept_back(request):
            self._pass_claim_to_redirect(keys, request)
            return True
        witness = self._pages.witness(keys, request)
        if witness is None:
            return self._send_or_park(keys, request)
        audit = self._audit(keys, witness, request)
        if audit is not None:
            self._begin_audit(audit, request)
            return True
        return self._withhold(keys, witness, request) is None

    def _pass_claim_to_redirect(self, keys: Keys, request: Request) -> None:
        claim = self._claims.get(keys.learned)
        if claim is not None and claim.request is None and "redirect_urls" in request.meta:
            self._claim(keys, request)

    def behind(self, request: Request) -> Behind | None:
        """Return what *request* may be withheld behind now."""
        keys = self._register.keys(request)
        if keys is None or (witness := self._pages.witness(keys, request)) is None:
            return None
        return Behind(witness.page.url, self._pages.reasons(witness, request))

    def _send_or_park(self, keys: Keys, request: Request) -> bool:
        """Return whether *request* is sent, and has the claim; or park it behind one, or all others."""
        if self.deferral.defers(request, keys):
            return False
        if keys.is_plain:
            return True
        claim = self._claims.get(keys.learned)
        if self._kept_back.has_waited(keys.own):
            self._kept_back.forget_waited(keys.own)
            claim = None
        elif claim is None or not self._is_alive(claim):
            claim = self._claim_of_waiting(keys, request)
        if claim is None or claim.own == keys.own:
            self._claim(keys, request)
            return True
        if not self._kept_back.keep(keys, request, PARKED):
            return True
        self._claims[keys.learned] = claim
        self._with_parked.add(keys.learned)
        self._frontier.count("learned/parked")
        return False

    def _claim_of_waiting(self, keys: Keys, request: Request) -> Claim | None:
        """Return a claim for the URL that the rules make of *request*, if it waits here too.

        It may have ended already, without a page, or another crawler at the same queue may have
        it. Then the parked request is sent when the crawl is idle.
        """
        own = self._register.own_of_learned(request)
        if own is None or own == keys.own or len(self._claims) >= MAX_CLAIMS:
            return None
        waits = self._frontier.waits_here(own) and self._ledger.page(own) is None
        return Claim(own, keys.site, None) if waits else None

    def _claim(self, keys: Keys, request: Request) -> None:
        self._claims[keys.learned] = Claim(keys.own, keys.site, request)
        self._watched[request] = keys

    def _begin_audit(self, audit: Audit, request: Request) -> None:
        self.open_audits.open(audit._replace(request=request))
        self._watched[request] = audit.keys

    def _is_alive(self, claim: Claim) -> bool:
        return claim.request is None or claim.request in self._frontier.under_way()

    def _audit(self, keys: Keys, witness: Witness, request: Request) -> Audit | None:
        reasons, page = self._pages.reasons(witness, request), witness.page
        if not self._audits.is_due(reasons, request.url, page.vote, page.url):
            return None
        self._frontier.count("learned/audited")
        return Audit(keys, page, reasons, request.url)

    def _withhold(self, keys: Keys, witness: Witness, request: Request) -> Behind | None:
        if not self._kept_back.keep(keys, request, WITHHELD):
            return None
        return self._withheld(keys.own, witness, request)

    def _withheld(self, own: bytes, witness: Witness, request: Request) -> Behind:
        behind = Behind(witness.page.url, self._pages.reasons(witness, request))
        self._frontier.withheld(own, request.url, behind)
        return behind

    # --- pages ------------------------------------------------------------------------------

    def page(self, request: Request, content: Identity | None) -> Page | None:
        """Take note that a page with a 2xx status was handed to the spider: it is a witness now.

        Return what was noted, ``None`` where nothing may be.
        """
        if not may_be_witness(request):
            return None
        keys = self._register.keys_of(request.url)
        page = self._pages.add(request, keys, content)
        if page is not None and keys is not None:
            if keys.learned in self._with_parked:
                self._with_parked.discard(keys.learned)
                self._decide_parked(keys, page)
            self._claims.pop(keys.learned, None)
        return page

    def _decide_parked(self, keys: Keys, page: Page) -> None:
        """Withhold what was parked behind a page that has arrived, or send it as an audit."""
        for kept in self._ledger.parked(keys.learned):
            request = self._kept_back.request_of(kept)
            if request is None:
                continue
            if kept.own == page.own or not self._pages.is_witness(page, request):
                self._kept_back.put_back(kept, request)
            else:
                self._unpark(kept, keys._replace(own=kept.own), Witness(page, None), request)

    def _decide_deferred(self, kept: Kept, request: Request) -> bool:
        """Withhold a deferred request, or send it as an audit, if it stands behind a page by now."""
        keys = self._register.keys(request)
        witness = None if keys is None else self._pages.witness(keys, request)
        if keys is None or witness is None:
            return False
        self._ledger.rekey_kept(kept.number, keys.learned)
        self._unpark(kept, keys, witness, request)
        return True

    def _unpark(self, kept: Kept, keys: Keys, witness: Witness, request: Request) -> None:
        """Withhold a request that was parked, or send it as an audit."""
        audit = self._audit(keys, witness, request)
        if audit is None:
            self._ledger.unpark(kept.number)
            self._withheld(kept.own, witness, request)
        else:
            self.open_audits.open(audit)
            self._kept_back.put_back(kept, request)

    def redirected(self, request: Request, target: Request, *, is_known: bool) -> None:
        """Take note of a redirect that came back for *request* and will be followed.

        Within its learned key it takes the claim along. Not so if the dupefilter knows the target
        (*is_known*) and will stop it there.
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

    # --- ends -------------------------------------------------------------------------------

    def look_around(self) -> None:
        """Notice claims and audits whose requests have ended without a page."""
        under_way = self._frontier.under_way()
        for request in [each for each in self._watched if each not in under_way]:
            keys = self._watched.pop(request)
            claim = self._claims.get(keys.learned)
            if claim is not None and claim.request is request:
                self._void(keys.learned)
            audit = self.open_audits.get(keys.own)
            if audit is not None and audit.request is request:
                self.open_audits.close_undecided(audit)

    def _void(self, learned: bytes) -> None:
        """Drop a claim whose request ended without a page, and send the first one parked."""
        self._claims.pop(learned, None)
        if learned not in self._with_parked:
            return
        kept = next(self._ledger.parked(learned), None)
        if kept is None or not self._kept_back.put_back_at_last(kept):
            self._with_parked.discard(learned)

    # --- when there is nothing else to do ---------------------------------------------------

    def idle(self, is_time_over: Callable[[], bool] = lambda: False) -> bool:
        """Send everything that stands behind no page: the queue is empty, nothing is under way.

        Return ``True`` if *is_time_over* stopped the search for audits that are still owed.
        """
        self._forget_requests()
        self.open_audits.close_all()
        self._rekeying.finish()
        self._kept_back.forget_waited()
        for kept in self._ledger.parked_behind_others():
            self._kept_back.put_back_at_last(kept)
        was_left = self.deferral.is_left
        if self.deferral.release(is_time_over) or was_left or self.deferral.is_left:
            return was_left or self.deferral.is_left  # no crawl ends between two batches
        return self._owed.look(is_time_over)

    # --- other rules and aliases ------------------------------------------------------------

    def rules_changed(self, site: str) -> None:
        """Begin to make the learned keys of *site* anew, for other rules; `work` goes on with it.

        Until its pages have their new keys they are no witnesses, and requests are sent.
        """
        self._pages.rules_changed(site)
        for learned in [key for key, claim in self._claims.items() if claim.site == site]:
            del self._claims[learned]
            self._with_parked.discard(learned)
        rules = self._register.rules(site)
        uses = map(self._file_uses.of, rules)
        in_force: tuple[Reason, ...] = (*rules, *uses, *self._aliases.accepted(site))
        self.open_audits.rules_changed(site, {each.identity for each in in_force})
        self._rekeying.begin(site)

    def contested(self, keys: Keys) -> None:
        """Send what stands behind no page any more, since two pages claim a name with *keys*."""
        for kept in self._ledger.withheld_with(keys.learned):
            request = self._kept_back.request_of(kept)
            if request is not None and self._pages.witness(keys, request) is None:
                self._kept_back.put_back(kept, request)

    def work(self, is_time_over: Callable[[], bool]) -> None:
        """Go on making keys anew until it is done or *is_time_over* says so."""
        self._rekeying.work(is_time_over)

    @property
    def is_working(self) -> bool:
        """Whether keys are still to be made anew."""
        return self._rekeying.is_working

    def release_all(self) -> None:
        """Forget all claims and audits and send everything that is kept back."""
        self.deferral.stop()
        self._rekeying.stop()
        self._forget_requests()
        self.open_audits.clear()
        for kept in self._ledger.all_kept():
            self._kept_back.put_back(kept)

    def _forget_requests(self) -> None:
        self._claims.clear()
        self._watched.clear()
        self._with_parked.clear()
