"""Learner: what a crawl learns while it runs, as Scrapy's components see it.

The dupefilter and the scheduler ask it about requests; the middlewares tell it what came back.
No exception leaves it: whatever fails here is logged, counted, and ends in a request being sent.
"""

from __future__ import annotations

from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy.http import HtmlResponse

from scrapy_urlnorm.crawl.got import Got
from scrapy_urlnorm.crawl.online.aliases import PageAliases
from scrapy_urlnorm.crawl.online.audits import Audits
from scrapy_urlnorm.crawl.online.closing import Closing
from scrapy_urlnorm.crawl.online.contradictions import Contradictions
from scrapy_urlnorm.crawl.online.evidence import Evidence
from scrapy_urlnorm.crawl.online.families import Families
from scrapy_urlnorm.crawl.online.held import HeldRequests
from scrapy_urlnorm.crawl.online.keys import ClusterKeys
from scrapy_urlnorm.crawl.online.mining import Mining
from scrapy_urlnorm.crawl.online.names import Names, steps_of
from scrapy_urlnorm.crawl.online.novelty import Novelty
from scrapy_urlnorm.crawl.online.pairs import Arrival, Arrivals, Pairs
from scrapy_urlnorm.crawl.online.rules import RuleRegistry
from scrapy_urlnorm.crawl.online.safe_points import SafePoints, new_slice
from scrapy_urlnorm.crawl.online.suppression import Suppression
from scrapy_urlnorm.crawl.online.tables import Pages
from scrapy_urlnorm.crawl.online.verdicts import Verdicts
from scrapy_urlnorm.crawl.online.whole_pages import (
    Shown,
    WholePages,
    is_comparable,
    shown_in_crawl,
)
from scrapy_urlnorm.crawl.online.yields import Yields
from scrapy_urlnorm.crawl.requests import Asked, asked_for, site_of
from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.learning.media import DOOR
from scrapy_urlnorm.logs.page_identity import WALL, is_whole
from scrapy_urlnorm.logs.whole import referer_of
from scrapy_urlnorm.report.filtered import count_saved
from scrapy_urlnorm.text import listed, logger_of

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from scrapy.http import Response

    from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter
    from scrapy_urlnorm.crawl.frontier import CrawlFrontier
    from scrapy_urlnorm.crawl.online.summary import Bound
    from scrapy_urlnorm.crawl.online.tables import Match
    from scrapy_urlnorm.crawl.settings import Config
    from scrapy_urlnorm.logs.page_identity import Identity
    from scrapy_urlnorm.site_rules import SiteRule
    from scrapy_urlnorm.stores import Seen
    from scrapy_urlnorm.stores.sqlite import Database

    F = TypeVar("F", bound=Callable[..., Any])

logger = logger_of(__name__)


def fail_open(answer: object) -> Callable[[F], F]:
    """Have whatever the method raises logged and counted; return *answer* then."""

    def decorate(method: F) -> F:
        @wraps(method)
        def call(self: Learner, *args: Any, **kwargs: Any) -> Any:
            try:
                return method(self, *args, **kwargs)
            except Exception as error:  # noqa: BLE001 - in Scrapy it might end the crawl
                self._frontier.failed(method.__name__, error)
                return answer

        return call  # type: ignore[return-value]

    return decorate


class Learner:
    """Learns from what comes back, and decides about requests through `Suppression`."""

    def __init__(
        self,
        frontier: CrawlFrontier,
        config: Config,
        fingerprinter: UrlNormRequestFingerprinter,
        store: Seen,
        database: Database,
    ) -> None:
        self._database = database
        #: Whether the queue asks `on_leaving`; if not, the downloader middleware has to.
        self.has_asking_queue = self._is_queue_shared = False
        self._contents = contents = config.learn == "content"
        # Each part is built of those before it. What one has to tell an earlier one, it says where
        # it begins: `Suppression` and `Verdicts` follow the registry.
        self._frontier = frontier
        self._keys = keys = ClusterKeys(fingerprinter)
        self._pages = pages = Pages(database, keys, store)
        self._audits = audits = Audits(database, keys.normalized)
        held = HeldRequests(database, frontier)
        if held.damaged:
            frontier.count("errors", held.damaged)
            logger.error(
                "%(count)d held requests in %(database)s are damaged and lost; all others are whole",
                {"count": held.damaged, "database": database.name},
                extra=frontier.extra,
            )
        self._evidence = evidence = Evidence(database)
        self._aliases = aliases = PageAliases(keys, pages, database, frontier)
        self._safe_points = safe_points = SafePoints(frontier)
        self._names = names = Names(database, frontier, pages, evidence, aliases, safe_points)
        self._whole_pages = whole_pages = WholePages(database, keys)
        self._pairs = Pairs(names, whole_pages, frontier, config.pairs if contents else 0)
        self._arrivals = Arrivals(names, self._settled)
        self._registry = registry = RuleRegistry(
            *(database, keys, pages, audits, evidence, aliases, names, frontier), *(store, config)
        )
        proposed = [rule for rule in config.normalizer.site_rules if rule.status == "proposed"]
        self._mining = Mining(evidence, registry, safe_points, frontier, contents, proposed)
        self._families = families = Families(
            *(database, evidence, frontier, config), Novelty(names, keys)
        )
        self._suppression = suppression = Suppression(
            *(keys, pages, held, audits, registry, aliases, evidence, families, safe_points),
            frontier,
        )
        self._yields = yields = Yields(database, keys, whole_pages)
        self._verdicts = verdicts = Verdicts(
            *(keys, pages, audits, names, whole_pages, registry, suppression, frontier)
        )
        self._contradictions = Contradictions(
            *(keys, pages, aliases, names, whole_pages),
            *(yields, registry, suppression, verdicts),
        )
        self._closing = Closing(
            *(suppression, held, pages, registry, verdicts, yields, frontier),
            sends_all=config.held == "last",
        )
        frontier.on_fetched = self._arrivals.settle
        registry.begin(config.learned)
        aliases.begin()
        suppression.begin()
        self._saved_before = count_saved(database)

    # --- decisions about requests -----------------------------------------------------------

    def attach_scheduler(self, *, is_shared: bool = False) -> None:
        """Take note that the queue of this crawl asks `on_leaving` about each request.

        If it *is_shared* with other crawlers, nothing is suppressed on arrival: a request is safe
        in that queue, and in the database of this crawl it would be lost with it.
        """
        self.has_asking_queue = self._safe_points.can_pause = True
        self._is_queue_shared = is_shared
        self._frontier.has_own_queue = not is_shared

    @fail_open(None)
    def on_arrival(self, request: object) -> Match | None:
        """Return what a request with a new fingerprint is suppressed behind; ``None`` to queue it."""
        if self._is_queue_shared or not self._keys:
            return None
        return self._suppression.on_arrival(Asked(request))

    @fail_open(True)
    def on_leaving(self, request: object) -> bool:
        """Return whether a request that comes out of the queue is sent; if not, it is held."""
        return self._suppression.on_leaving(Asked(request))

    @fail_open(False)
    def is_scheduled(self, request: object) -> bool:
        return self._frontier.is_seen(self._keys.fingerprint(Asked(request)))

    @fail_open(None)
    def work(self) -> None:
        """Look for requests that have ended, and do what waits for a safe point."""
        try:
            self._suppression.expire_in_flight()
            if self._safe_points.work():
                self._frontier.ask_again()  # the event loop has its turn before
            self._arrivals.settle()
            self._mining.work()
        except Exception as error:  # noqa: BLE001 - as in `fail_open`
            self._give_up("work", error)

    @property
    def pauses(self) -> bool:
        """Whether there are sites to which no request is sent now."""
        return bool(self._safe_points)

    @property
    def has_many_sites(self) -> bool:
        return len(self._evidence) > 1

    def is_paused(self, site: str) -> bool:
        return self._safe_points.is_paused(site)

    @fail_open(False)
    def idle(self, *, is_feeding: bool = False) -> bool:
        """Send the requests that repeat no page: the crawl has nothing else to do.

        If the spider *is_feeding* it, more may come; then the end of the crawl is not prepared.

        Return ``True`` to wait: for a verdict, a mined site, new keys, or the end of a search.
        """
        try:
            self._registry.sync(at_once=True)
            if self._frontier.is_fetching:
                return True
            self.work()
            if self._safe_points:
                return True
            self._arrivals.settle(is_last=True)
            if self._suppression.sending is None:
                self._mining.look_again()
            if self._frontier.is_fetching or self._safe_points:
                return True
            is_over = new_slice()
            end = self._closing.send_last if is_feeding else self._closing.idle
            if self._suppression.idle(is_over) or end(is_over):
                self._frontier.ask_again()  # the event loop has its turn before
                return True
        except Exception as error:  # noqa: BLE001 - as in `fail_open`
            self._give_up("idle", error)
        return False

    def _give_up(self, what: str, error: Exception) -> None:
        """Apply no rules any more and send all that is held: something is wrong with it."""
        self._frontier.failed(what, error)
        self._aliases.forget_all()
        self._registry.stop()
        self._suppression.release_all()

    def holds(self, key: bytes, url: str) -> bool:
        """Return whether the request with a fingerprint and URL is held."""
        with suppress(StoreError):  # else it counts as sent
            return self._suppression.held.has(site_of(url), key)
        return False

    @fail_open(None)
    def release_all(self) -> None:
        self._suppression.release_all()

    # --- evidence ---------------------------------------------------------------------------

    @fail_open(None)
    def redirect(self, request: object, target: str, *, status: int) -> None:
        """Learn from a redirect to *target* that the redirect middleware will follow."""
        self._registry.sync()
        asked, onto = Asked(request), asked_for(target)
        fingerprint, own = self._keys.fingerprint(onto), self._keys.fingerprint(asked)
        is_known = fingerprint != own and self._frontier.is_seen(fingerprint)
        audit = self._audits.get(own)
        if audit is not None:
            self._verdicts.redirected(audit, onto, is_known=is_known)
        elif is_known and (page := self._pages.get(fingerprint)) is not None:
            doubts = self._aliases.ended_elsewhere(asked, page.content)
            self._contradictions.doubted(doubts, page.content)
        self._suppression.redirected(asked, onto, is_known=is_known)
        if asked.is_suppressible:
            self._mining.redirect(asked.site, asked.url, target, status)

    @fail_open(None)
    def robots_txt(self, request: object, response: Response) -> None:
        """Try what robots.txt says. *response* is any with status 200 that no spider asked for."""
        self._mining.robots_txt(Asked(request).url, response.body)

    @fail_open(None)
    def page(self, request: object, response: Response) -> None:
        """Learn from a page with a 2xx status that is handed to the spider."""
        self._registry.sync()
        asked = Asked(request)
        if not asked.is_evidence:
            return
        url, site = asked.url, asked.site
        said = self._aliases.read(asked, response)
        learns = is_comparable(response) and self._mining.wants_content(site)
        is_compared = learns or said.counts or bool(self._keys.rules(site))
        fingerprint, content, blocks = b"", None, None
        if is_compared or self._keys.has_keys(site):
            fingerprint = self._keys.fingerprint(asked)
        if is_compared:
            content, blocks = shown_in_crawl(response)
        if content is not None and blocks is not None:
            content = self._names.arrived(asked, fingerprint, content, blocks)
            self._whole_pages.add(fingerprint, response)
        shown = Shown(url, content, response, blocks)
        original = None if blocks is None else self._original_of(shown, asked.purpose)
        audit = self._audits.get(fingerprint) if self._keys.has_keys(site) else None
        if audit is not None:
            self._audits.answered(audit)
            self._verdicts.page(audit, shown)
        page = None
        is_copy = original is not None and self._whole_pages.explains(
            self._whole_pages.shown(original), shown
        )
        if not is_copy and self._stands_for_others(asked, response, content):
            page = self._suppression.page(asked, content)
        arrival = Arrival(
            *(site, url, fingerprint, response.status, content),
            asked.may_represent and (content is not None or not learns),
            *(said, page, audit),
            *(steps_of(blocks), original, referer_of(response)),
        )
        self._arrivals.add(arrival)
        if learns and blocks is not None:
            self._pairs.arrived(asked, shown)

    def _settled(self, arrival: Arrival) -> None:
        """Have a page speak for rules and page aliases: its name is settled."""
        site, content, audit = arrival.site, arrival.content, arrival.audit
        if arrival.original is not None:
            content = self._content_of_copy(arrival, arrival.original)
        if arrival.is_evidence and (content is not None or arrival.original is None):
            known = content if self._mining.wants_content(site) else None
            is_duplicate = self._mining.page(
                site, arrival.url, arrival.status, known, is_audit=audit is not None
            )
            if is_duplicate is not None:
                question = self._families.arrived(arrival, is_new=not is_duplicate)
                if question is not None:
                    answer = self._verdicts.answer(question)
                    self._frontier.fetch("verdict", site, answer)
        doubts = self._aliases.arrived(arrival.said, content, arrival.page)
        examined = () if audit is None else audit.match.rules
        self._contradictions.doubted(doubts, content, keys=arrival.said.keys, examined=examined)

    def _original_of(self, shown: Shown, purpose: str) -> bytes | None:
        """Return the fingerprint of the page of which one declares itself to be a copy.

        Or of what stands for it; ``None`` if neither has arrived.
        """
        url = self._whole_pages.original_of(shown)
        if url is None:
            return None
        fingerprint, keys = self._keys.fingerprint_of(url), self._keys.keys_of(url)
        if self._names.page(fingerprint) is not None:
            return fingerprint
        page = None if keys is None else self._pages.representative(keys, purpose)
        return None if page is None else page.fingerprint

    def _content_of_copy(self, arrival: Arrival, original: bytes) -> Identity | None:
        """Return that of its original, if it says nothing else; ``None`` if nobody knows.

        So it is where pages change by themselves: the little that differs may be what moves.
        """
        one, two = map(self._whole_pages.shown, (original, arrival.fingerprint))
        if self._whole_pages.explains(one, two):
            return self._names.copies(arrival.fingerprint, original)
        is_restless = self._names.units(arrival.site).different
        return None if is_restless and self._whole_pages.are_near(one, two) else arrival.content

    @fail_open(None)
    def got_of(self, request: object, response: Response) -> Got | None:
        """Return what takes note of what the spider gets out of a page, if that counts."""
        if not self._contents or not (asked := Asked(request)).is_evidence:
            return None
        return Got(self._yields.next_number(), asked, response)

    @fail_open(None)
    def got(self, got: Got) -> None:
        """Learn from all that the spider got out of a page."""
        if got.error is not None:
            raise got.error
        self._yields.add(self._keys.fingerprint(got.page), got)
        if got.items:
            self._families.gives_items(got.page.url)
        self._contradictions.got(got.page)

    @fail_open(None)
    def raised(self, request: object) -> None:
        """Have a page represent nothing: its callback or a pipeline raised, so not all of it came."""
        page = self._pages.get(self._keys.fingerprint(Asked(request)))
        if page is not None:
            self._suppression.representative_changed(page)
            self._pages.remove(page.fingerprint)

    @fail_open(None)
    def dropped(self, request: object) -> None:
        """Take note that a pipeline dropped an item of a page."""
        self._yields.drop(self._keys.fingerprint(Asked(request)))

    @fail_open(None)
    def scraped(self, request: object) -> None:
        """Learn that the pipelines took an item of a page."""
        if self._yields.dropped:
            self._contradictions.scraped(Asked(request))

    @fail_open(None)
    def missing(self, request: object) -> None:
        """Learn that a site answered *request* with a status that says that there is no page."""
        asked = Asked(request)
        self._suppression.expired(asked)
        audit = self._audits.get(self._keys.fingerprint(asked))
        if asked.is_evidence and audit is None:
            self._contradictions.doubted(self._aliases.ended_elsewhere(asked, None), None)

    def _stands_for_others(
        self, asked: Asked, response: Response, content: Identity | None
    ) -> bool:
        """Return whether a page may be a representative: with a body and its own URL, no wall, no soft 404.

        What is no HTML may be one where contents are compared.
        """
        if not response.body or not is_whole(response):
            return False
        if not isinstance(response, HtmlResponse):
            if not self._contents or content is None or not is_comparable(response):
                return False
        elif content is not None and content.kind:
            doors = [rule for rule in self._keys.acting_on(asked.url) if rule.note == DOOR]
            if content.kind != WALL or not doors:
                return False
        if response.url == asked.url or not self._keys.rules(asked.site):
            return True
        own, answered = map(self._keys.cluster_url, (asked.url, response.url))
        return own == answered

    # --- the end ----------------------------------------------------------------------------

    @fail_open(0)
    def saved(self) -> int:
        """Return what this run has saved by now: below 0 where it sent what an earlier one held."""
        return count_saved(self._database) - self._saved_before

    @property
    def barren(self) -> dict[str, int]:
        """How many pages brought nothing new, by host and folder, where a family of URLs is barren."""
        return self._families.barren()

    @fail_open(None)
    def bound(self) -> Bound | None:
        """Return what the end of the crawl proved of what was not sent, if it drew a sample."""
        bound = self._closing.bound
        return bound if bound and bound.tested else None

    @property
    def rules(self) -> tuple[SiteRule, ...]:
        return self._registry.rules

    @property
    def counts(self) -> Counter[str]:
        """What was counted and is no statistic, such as ``learned/suppressed``."""
        return self._frontier.counts

    @fail_open(None)
    def close(self) -> None:
        """End what learns, write down the rules, and say at DEBUG what no statistic tells."""
        self._frontier.is_closed = True
        for site, units in self._names.moving().items():
            message = "Pages of %(site)s change by themselves: %(units)s"
            logger.debug(
                message, {"site": site, "units": listed(units)}, extra=self._frontier.extra
            )
        for name, number in sorted(self.counts.items()):
            said = {"name": name, "number": number}
            logger.debug("Counted %(name)s: %(number)d", said, extra=self._frontier.extra)
        self._frontier.miner.close()
        with suppress(StoreError):  # it is learned anew; the scheduler says what is wrong
            self._aliases.keep()
        self._registry.save()
        with suppress(StoreError):
            self._database.commit()
