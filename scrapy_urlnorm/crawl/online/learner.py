"""Learner: what a crawl learns while it runs, as Scrapy's components see it.

The dupefilter and the scheduler ask it about requests; the middlewares tell it what came back.
No exception leaves it: whatever fails here is logged, counted, and ends in a request being sent.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import wraps
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy import Request
from scrapy.http import HtmlResponse

from scrapy_urlnorm.crawl.components import ask_again, domain_of, site_of
from scrapy_urlnorm.crawl.online.aliases import PageAliases
from scrapy_urlnorm.crawl.online.arrivals import Arrival, Arrivals
from scrapy_urlnorm.crawl.online.audits import Audits
from scrapy_urlnorm.crawl.online.closing import Closing
from scrapy_urlnorm.crawl.online.comparison import Shown, is_comparable, shown_in_crawl
from scrapy_urlnorm.crawl.online.evidence import Evidence
from scrapy_urlnorm.crawl.online.frontier import CrawlFrontier
from scrapy_urlnorm.crawl.online.keys import ClusterKeys
from scrapy_urlnorm.crawl.online.mining import Mining
from scrapy_urlnorm.crawl.online.names import Names
from scrapy_urlnorm.crawl.online.pairs import Pairs
from scrapy_urlnorm.crawl.online.requests import (
    DuplicateRates,
    is_evidence,
    is_suppressible,
    may_represent,
)
from scrapy_urlnorm.crawl.online.rules import RuleRegistry
from scrapy_urlnorm.crawl.online.sharing import RuleExchange, SharedPages
from scrapy_urlnorm.crawl.online.suppression import Suppression
from scrapy_urlnorm.crawl.online.tables import HeldRequests, Pages
from scrapy_urlnorm.crawl.online.verdicts import Verdicts
from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.learning.aliases import Pattern
from scrapy_urlnorm.learning.doors import DOOR
from scrapy_urlnorm.logs.page_identity import WALL
from scrapy_urlnorm.report.filtered import HeldFigures, held_figures

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter
    from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter
    from scrapy_urlnorm.crawl.online.closing import Bound
    from scrapy_urlnorm.crawl.online.tables import Match, Reason
    from scrapy_urlnorm.crawl.settings import Config
    from scrapy_urlnorm.learning.worker import Mined
    from scrapy_urlnorm.logs.page_identity import Identity
    from scrapy_urlnorm.site_rules import SiteRule
    from scrapy_urlnorm.stores.sqlite import Database

    F = TypeVar("F", bound=Callable[..., Any])

logger = logging.getLogger(__name__)

#: How long keys are made anew, and requests held, before the event loop has its turn.
SLICE_SECONDS = 0.01


def fail_open(answer: object) -> Callable[[F], F]:
    """Have whatever the method raises logged and counted; return *answer* then."""

    def decorate(method: F) -> F:
        @wraps(method)
        def call(self: Learner, *args: Any, **kwargs: Any) -> Any:
            try:
                return method(self, *args, **kwargs)
            except Exception as error:  # noqa: BLE001 - in Scrapy it might end the crawl
                self.failed(method.__name__, error)
                return answer

        return call  # type: ignore[return-value]

    return decorate


class Learner:
    """Learns from what comes back, and decides about requests through `Suppression`."""

    def __init__(
        self,
        crawler: Crawler,
        config: Config,
        fingerprinter: UrlNormRequestFingerprinter,
        dupefilter: UrlNormDupeFilter,
        database: Database,
    ) -> None:
        self._crawler = crawler
        self._database = database
        self._extra = {"spider": crawler.spider}  # for the logger
        self._failures: set[str] = set()  # kinds that were logged
        self._has_asking_queue = self._is_queue_shared = False
        contents, store = config.learn == "content", dupefilter.keys.store
        self._contents = contents
        self._frontier = frontier = CrawlFrontier(crawler, dupefilter, self.failed)
        count = frontier.count
        self._keys = keys = ClusterKeys(fingerprinter)
        self._pages = pages = Pages(database, keys)
        self._audits = audits = Audits(database, keys.normalized)
        held = HeldRequests(database, frontier)
        self._say_damage(held.damaged)
        self._registry = RuleRegistry(
            *(database, keys, audits, RuleExchange(store), config.learned_path),
            contents=contents,
            on_change=lambda site: self._suppression.rules_changed(site),
            on_retracted=lambda site: self._mining.retracted(site),
            on_doubted=lambda site: self._verdicts.contradicted(site),
            is_restless=lambda site: bool(self._names.units(site).different),
            pages=pages,
            count=count,
            extra=self._extra,
        )
        self._aliases = PageAliases(
            *(keys, pages, database),
            count=count,
            on_dead=self._pattern_is_dead,
            on_contested=lambda keys: self._suppression.contested(keys),
        )
        rates = DuplicateRates()
        self._suppression = Suppression(
            *(keys, pages, held, audits, frontier, self._registry, self._aliases),
            SharedPages(store),
            depth_limit=crawler.settings.getint("DEPTH_LIMIT"),
            rates=rates if config.defers_duplicates else None,
        )
        self._closing = Closing(
            *(self._suppression, held, pages, self._registry, frontier),
            sends_all=config.held == "last",
            recheck=lambda pages: self._verdicts.recheck(pages),
        )
        self._names = names = Names(
            database,
            crawler.spider,
            on_renamed=self._renamed,
            on_all_renamed=self._aliases.renamed,
            on_moving=self._moves,
        )
        self._pairs = Pairs(
            *(crawler, names, frontier, config.pairs if contents else 0), on_failure=self.failed
        )
        self._arrivals = Arrivals(names, on_settled=self._settled)
        self._verdicts = Verdicts(
            *(keys, pages, audits, self._aliases, frontier, names, self._pairs, self._registry),
            on_differs=self._contradicted,
            on_changed=self._suppression.representative_changed,
            on_failure=self.failed,
            on_verdict=self._closing.said,
        )
        self._mining = Mining(
            *(Evidence(database), self._registry, rates),
            contents=contents,
            count=count,
            is_settled=names.is_named,
            on_mined=self._mined,
            on_error=lambda error: self.failed("mining", RuntimeError(error)),
        )
        self._registry.begin(config.learned)
        self._aliases.begin()
        self._suppression.begin()
        self._saved_before = held_figures(database)

    def __repr__(self) -> str:
        return repr(self._suppression)

    def _say_damage(self, damaged: int) -> None:
        if damaged:
            logger.error(
                "%(count)d held requests in %(database)s are damaged and lost; all others are whole",
                {"count": damaged, "database": self._database.name},
                extra=self._extra,
            )
            self._frontier.count("requests/damaged", damaged)

    def failed(self, what: str, error: Exception) -> None:
        """Count that *what* failed, and log it, each kind of failure once."""
        self._frontier.count("learned/errors")
        kind = f"{what} {type(error).__name__}"
        if kind in self._failures:
            return
        self._failures.add(kind)
        logger.error(
            "Learning failed in %(what)s, the request is sent: %(error)r "
            "(further failures of this kind are only counted)",
            {"what": what, "error": error},
            extra=self._extra,
        )
        if not isinstance(error, StoreError):
            logger.debug("This is where learning failed", exc_info=error)

    # --- decisions about requests -----------------------------------------------------------

    def attach_scheduler(self, *, is_shared: bool = False) -> None:
        """Take note that the queue of this crawl asks `on_leaving` about each request.

        If it *is_shared* with other crawlers, nothing is suppressed on arrival: a request is safe
        in that queue, and in the database of this crawl it would be lost with it.
        """
        self._has_asking_queue = True
        self._is_queue_shared = is_shared
        self._frontier.has_own_queue = not is_shared

    @property
    def has_asking_queue(self) -> bool:
        """Whether the queue asks `on_leaving`; if not, the downloader middleware has to."""
        return self._has_asking_queue

    @fail_open(None)
    def on_arrival(self, request: Request) -> Match | None:
        """Return what a request with a new fingerprint is suppressed behind; ``None`` to queue it."""
        return None if self._is_queue_shared else self._suppression.on_arrival(request)

    @fail_open(True)
    def on_leaving(self, request: Request) -> bool:
        """Return whether a request that comes out of the queue is sent; if not, it is held."""
        return self._suppression.on_leaving(request)

    @fail_open(False)
    def is_scheduled(self, request: Request) -> bool:
        """Return whether a request was scheduled, and not sent by a component itself."""
        return self._frontier.is_seen(self._keys.fingerprint(request))

    @fail_open(None)
    def work(self) -> None:
        """For a short while, look for requests that have ended, and make keys anew."""
        deadline = monotonic() + SLICE_SECONDS
        try:
            self._suppression.expire_in_flight()
            self._names.work(lambda: monotonic() > deadline)
            self._arrivals.work()
            self._suppression.work(lambda: monotonic() > deadline)
            self._mining.work()
        except Exception as error:  # noqa: BLE001 - as in `fail_open`
            self._give_up("work", error)

    @fail_open(False)
    def idle(self) -> bool:
        """Send the requests that repeat no page: the crawl has nothing else to do.

        Return ``True`` to wait: for a verdict, a mined site, new keys, or the end of a search.
        """
        try:
            suppression = self._suppression
            self._registry.sync(at_once=True)
            if self._pairs.is_waiting:
                return True
            if self._names.is_renaming:
                self.work()
                ask_again(self._crawler)
                return True
            self._names.finish()
            self._arrivals.work(is_last=True)
            is_last = not suppression.is_sending
            is_mining = self._mining.look_again(suppression.unmined, is_last=is_last)
            if self._verdicts.is_waiting or is_mining:
                return True
            self.work()
            has_more = suppression.is_rekeying
            if not has_more:  # one slice at a time: the event loop has its turn
                deadline = monotonic() + SLICE_SECONDS
                has_more = suppression.idle(lambda: monotonic() > deadline)
            if not has_more:
                has_more = self._closing.idle(lambda: monotonic() > deadline)
            if has_more:
                ask_again(self._crawler)
                return True
        except Exception as error:  # noqa: BLE001 - as in `fail_open`
            self._give_up("idle", error)
        return False

    def _give_up(self, what: str, error: Exception) -> None:
        """Apply no rules any more and send all that is held: something is wrong with it."""
        self.failed(what, error)
        self._aliases.forget_all()
        self._registry.stop()
        self._suppression.release_all()

    @fail_open(None)
    def release_all(self) -> None:
        """Send everything that an earlier run held."""
        self._suppression.release_all()

    # --- evidence ---------------------------------------------------------------------------

    @fail_open(None)
    def redirect(self, request: Request, target: str, *, status: int) -> None:
        """Learn from a redirect to *target* that the redirect middleware will follow."""
        self._registry.sync()
        onto = Request(target)
        fingerprint = self._keys.fingerprint(onto)
        is_other = fingerprint != self._keys.fingerprint(request)
        is_known = is_other and self._frontier.is_seen(fingerprint)
        audit = self._audits.get(self._keys.fingerprint(request))
        if audit is not None:
            self._verdicts.redirected(audit, onto, is_known=is_known)
        elif is_known and (page := self._pages.get(fingerprint)) is not None:
            doubts = self._aliases.ended_elsewhere(request, page.content)
            self._verdicts.doubted(doubts, page.content)
        self._suppression.redirected(request, onto, is_known=is_known)
        if is_suppressible(request):
            self._mining.redirect(request, target, status)

    @fail_open(None)
    def robots_txt(self, request: Request, response: Response) -> None:
        """Try what robots.txt says. *response* is any with status 200 that no spider asked for."""
        self._mining.robots_txt(request.url, response.body)

    @fail_open(None)
    def page(self, request: Request, response: Response) -> None:
        """Learn from a page with a 2xx status that is handed to the spider."""
        self._registry.sync()
        if not is_evidence(request):
            return
        site = site_of(request.url)
        said = self._aliases.read(request, response)
        learns = is_comparable(response) and self._mining.wants_content(request.url)
        is_compared = learns or said.counts or bool(self._keys.rules(site))
        fingerprint, content, blocks = b"", None, None
        if is_compared or self._keys.has_keys(site):
            fingerprint = self._keys.fingerprint(request)
        if is_compared:
            content, blocks = shown_in_crawl(response)
        if content is not None and blocks is not None:
            content = self._names.arrived(request, fingerprint, content, blocks)
        audit = None
        if self._keys.has_keys(site):
            audit = self._audits.get(fingerprint)
        if audit is not None:
            self._audits.answered(audit)
            self._verdicts.page(audit, Shown(request.url, content, response, blocks))
        page = None
        if self._stands_for_others(request, response, content):
            page = self._suppression.page(request, content)
        arrival = Arrival(
            *(request.url, fingerprint, response.status, content),
            may_represent(request) and (content is not None or not learns),
            *(said, page, audit),
        )
        self._arrivals.add(site, arrival)
        if learns and blocks is not None:
            self._pairs.arrived(request, blocks)

    def _settled(self, arrival: Arrival) -> None:
        """Have a page speak for rules and page aliases: its name is settled."""
        url, content, audit = arrival.url, arrival.content, arrival.audit
        if arrival.is_evidence:
            known = content if self._mining.wants_content(url) else None
            self._mining.page(url, arrival.status, known, is_audit=audit is not None)
        doubts = self._aliases.arrived(arrival.said, content, arrival.page)
        examined = () if audit is None else audit.match.reasons
        keys = arrival.said.keys
        self._verdicts.doubted(doubts, content, keys=keys, examined=examined)

    def _moves(self, site: str) -> None:
        """Take note that the pages of *site* change by themselves."""
        self._aliases.begin_anew(site)
        self._arrivals.moves(site)

    def _renamed(self, site: str, fingerprint: bytes, url: str, content: Identity) -> None:
        """Take note that the content of a page has another name."""
        self._pages.rename(fingerprint, content)
        self._mining.renamed(site, url, content)

    @fail_open(None)
    def missing(self, request: Request) -> None:
        """Learn that a site answered *request* with a status that says that there is no page."""
        self._suppression.expired(request)
        audit = self._audits.get(self._keys.fingerprint(request))
        if is_evidence(request) and audit is None:
            self._verdicts.doubted(self._aliases.ended_elsewhere(request, None), None)

    def _stands_for_others(
        self, request: Request, response: Response, content: Identity | None
    ) -> bool:
        """Return whether a page may be a representative: with its own URL, no wall, no soft 404.

        What is no HTML may be one where contents are compared.
        """
        if not isinstance(response, HtmlResponse):
            if not self._contents or content is None or not is_comparable(response):
                return False
        elif content is not None and content.kind and not self._is_door(request.url, content):
            return False
        if response.url == request.url or not self._keys.rules(site_of(request.url)):
            return True
        asked, answered = map(self._keys.cluster_of, (request.url, response.url))
        return asked is not None and asked == answered

    def _is_door(self, url: str, content: Identity) -> bool:
        rules = self._keys.acting_on(url)
        return content.kind == WALL and any(rule.note == DOOR for rule in rules)

    def _pattern_is_dead(self, pattern: Pattern) -> None:
        self._audits.forget(pattern.identity)
        self._suppression.rules_changed(pattern.site)

    def _mined(self, mined: Mined) -> None:
        self._suppression.unmined.discard(mined.site)
        ask_again(self._crawler)

    def _contradicted(self, reasons: Collection[Reason], note: str) -> None:
        """Take note that an audit has found *reasons* to be wrong together.

        The one with least support goes. The others, and rules about the same slots, have to be
        tested again, each kind.
        """
        wrong = self._audits.weakest(reasons)
        if isinstance(wrong.rule, Pattern):
            self._aliases.reject(wrong.rule, note)
            return
        slots = wrong.rule.operation.slots
        for other in self._registry.reasons(domain_of(wrong.rule.site)):
            assert not isinstance(other.rule, Pattern)
            if other.key != wrong.key and (other in reasons or slots & other.rule.operation.slots):
                self._audits.doubt(other)
        self._registry.retract(wrong, note)

    # --- the end ----------------------------------------------------------------------------

    @fail_open(HeldFigures())
    def saved(self) -> HeldFigures:
        """Return what this run has saved by now: below 0 where it sent what an earlier one held."""
        return held_figures(self._database, self._saved_before)

    @property
    def moving(self) -> dict[str, list[str]]:
        """What changes by itself on the pages of each site, in words."""
        return self._names.moving()

    @property
    def bound(self) -> Bound | None:
        """What the end of the crawl proved of what was not sent, if it came to an end."""
        bound = self._closing.bound
        return bound if bound and bound.tested else None

    @property
    def rules(self) -> tuple[SiteRule, ...]:
        """The rules that were learned, those that were retracted too."""
        return self._registry.rules

    @property
    def active(self) -> int:
        """How many learned rules are active."""
        return len(self._registry)

    @fail_open(None)
    def close(self) -> None:
        """End mining, write down what the next run needs, and the file of learned rules."""
        self._mining.close()
        with suppress(StoreError):  # it is learned anew; the scheduler says what is wrong
            self._aliases.keep()
        self._registry.save()
        with suppress(StoreError):
            self._database.commit()
