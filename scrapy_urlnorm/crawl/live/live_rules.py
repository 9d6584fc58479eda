"""LiveRules: learning during a crawl, as Scrapy's components see it.

The dupefilter and the scheduler ask it about requests; the middlewares tell it what came back.
No exception leaves it: whatever fails here is logged, counted, and ends in a request being sent.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from time import monotonic
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.http import HtmlResponse

from scrapy_urlnorm.crawl.engine import ask_again
from scrapy_urlnorm.crawl.live.alias_doubts import AliasDoubts, is_by_alias
from scrapy_urlnorm.crawl.live.alias_memory import AliasMemory
from scrapy_urlnorm.crawl.live.audit_results import AuditResults
from scrapy_urlnorm.crawl.live.audits import Audits
from scrapy_urlnorm.crawl.live.comparing import content_of, identity_in_crawl, is_comparable
from scrapy_urlnorm.crawl.live.crawl_frontier import CrawlFrontier
from scrapy_urlnorm.crawl.live.eligible import (
    may_be_evidence,
    may_be_kept_back,
    may_be_witness,
)
from scrapy_urlnorm.crawl.live.exchange import Exchange
from scrapy_urlnorm.crawl.live.file_uses import FileUses
from scrapy_urlnorm.crawl.live.in_force import InForce
from scrapy_urlnorm.crawl.live.learned_file import LearnedFile
from scrapy_urlnorm.crawl.live.learners import Learners
from scrapy_urlnorm.crawl.live.ledger import Ledger
from scrapy_urlnorm.crawl.live.likely import Likely
from scrapy_urlnorm.crawl.live.page_aliases import PageAliases
from scrapy_urlnorm.crawl.live.register import Register
from scrapy_urlnorm.crawl.live.report import Saved
from scrapy_urlnorm.crawl.live.rows import Rows
from scrapy_urlnorm.crawl.live.safely import Failures, safely
from scrapy_urlnorm.crawl.live.savings import Savings
from scrapy_urlnorm.crawl.live.shared_pages import SharedPages
from scrapy_urlnorm.crawl.live.site_mining import SiteMining
from scrapy_urlnorm.crawl.live.witness import Witnesses
from scrapy_urlnorm.crawl.redirects import PERMANENT
from scrapy_urlnorm.crawl.sites import site_of
from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.learning.aliases import Pattern
from scrapy_urlnorm.learning.on_files import OfFiles
from scrapy_urlnorm.site_rules import SiteRule

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_urlnorm.crawl.database import Database
    from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter
    from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter
    from scrapy_urlnorm.crawl.live.content import Change
    from scrapy_urlnorm.crawl.live.frontier import Audit
    from scrapy_urlnorm.crawl.live.ledger import Page
    from scrapy_urlnorm.crawl.merges import Behind, Reason
    from scrapy_urlnorm.crawl.settings import Config
    from scrapy_urlnorm.learning.worker import Mined
    from scrapy_urlnorm.logs.page_identity import Identity

#: How long keys are made anew, and requests kept back, before the event loop has its turn.
SLICE_SECONDS = 0.01


class LiveRules:
    """Learns from what comes back, and decides about requests through `Witnesses`."""

    def __init__(
        self,
        crawler: Crawler,
        config: Config,
        fingerprinter: UrlNormRequestFingerprinter,
        dupefilter: UrlNormDupeFilter,
        database: Database,
    ) -> None:
        self._crawler = crawler
        self._extra = {"spider": crawler.spider}  # for the logger
        self.failed = Failures(lambda name: self._frontier.count(name), self._extra).say
        self._dupefilter = dupefilter
        rows = Rows(database) if config.learn == "content" else None
        self._learners = Learners(config.normalizer, config.learned, rows)
        self._register = Register(fingerprinter)
        site_of("http://host.test/")  # reads the list of public suffixes now: that is slow
        self._audits = Audits()
        self._likely = Likely()
        self._file_uses = FileUses()
        store = dupefilter.keys.store
        self._exchange = Exchange(store, SiteRule.masked)
        self._shared_pages = SharedPages(store)
        self._frontier = CrawlFrontier(crawler, dupefilter, self._shared_pages, self.failed)
        self._file = LearnedFile(config.learned_path, lambda: self._learners.rules, crawler.spider)
        self._rules = InForce(
            self._learners,
            self._register,
            self._audits,
            self._exchange,
            self._file,
            self._file_uses,
            on_change=lambda site: self._witnesses.rules_changed(site),
            count=self._frontier.count,
            extra=self._extra,
        )
        self._rules.begin()
        ledger = Ledger(database)
        self._aliases = PageAliases(
            self._register,
            ledger,
            AliasMemory(database),
            count=self._frontier.count,
            on_dead=self._pattern_is_dead,
            on_contested=lambda keys: self._witnesses.contested(keys),
        )
        self._witnesses = Witnesses(
            self._register,
            ledger,
            self._audits,
            self._frontier,
            self._aliases,
            self._file_uses,
            max_pages=config.max_witnesses,
            depth_limit=crawler.settings.getint("DEPTH_LIMIT"),
            defers_aliases=config.defers_aliases,
            likely=self._likely if config.defers_duplicates else None,
        )
        self._results = AuditResults(
            crawler,
            self._register,
            self._audits,
            count=self._frontier.count,
            on_disagreement=self._refuted,
            judge=self._judge,
        )
        self._doubts = AliasDoubts(self._register, self._aliases, self._witnesses, self._results)
        self._aliases.begin()
        self._savings = Savings(ledger, self._frontier.unpack, self._witnesses.behind)
        self._mining = self._new_mining()
        self._has_asking_queue = self._is_queue_shared = False

    def _new_mining(self) -> SiteMining | None:
        if self._learners.content is None:
            return None
        return SiteMining(
            self._learners.content,
            self._likely,
            count=self._frontier.count,
            on_change=self._mined,
            on_error=lambda error: self.failed("mining", RuntimeError(error)),
        )

    # --- decisions about requests -----------------------------------------------------------

    def asked_by_queue(self, *, is_shared: bool = False) -> None:
        """Take note that the queue of this crawl asks `on_leaving` about each request.

        If it *is_shared* with other crawlers, nothing is withheld on arrival: a request is safe in
        that queue, and in the database of this crawl it would be lost with it.
        """
        self._has_asking_queue = True
        self._is_queue_shared = is_shared
        self._frontier.has_own_queue = not is_shared

    @property
    def has_asking_queue(self) -> bool:
        """Whether the queue asks `on_leaving`; if not, the downloader middleware has to."""
        return self._has_asking_queue

    @safely(None)
    def on_arrival(self, request: Request) -> Behind | None:
        """Return what a request whose own key is new is withheld behind; ``None`` to queue it."""
        return None if self._is_queue_shared else self._witnesses.on_arrival(request)

    @safely(True)
    def on_leaving(self, request: Request) -> bool:
        """Return whether a request that comes out of the queue is sent; if not, it is kept."""
        return self._witnesses.on_leaving(request)

    @safely(False)
    def came_through_dupefilter(self, request: Request) -> bool:
        """Return whether a request was scheduled, and not sent by a component itself."""
        return self._dupefilter.keys.knows(self._register.own_key(request))

    @safely(None)
    def work(self) -> None:
        """For a short while, look for requests that have ended, and make keys anew."""
        deadline = monotonic() + SLICE_SECONDS
        try:
            self._witnesses.look_around()
            self._witnesses.work(lambda: monotonic() > deadline)
            if self._mining is not None:
                self._mining.work()
        except Exception as error:  # noqa: BLE001 - as in `safely`
            self._give_up("work", error)

    @safely(False)
    def idle(self) -> bool:
        """Send the requests that stand behind no page: the crawl has nothing else to do.

        Return ``True`` to wait: for an audit, a mined site, new keys, or the end of a search.
        """
        try:
            self._rules.take_news(at_once=True)
            deferral = self._witnesses.deferral
            is_mining = False
            if self._mining is not None:
                is_mining = self._mining.look_again(deferral.unmined, is_last=not deferral.is_left)
            if self._results.is_waiting or is_mining:
                return True
            self.work()
            has_more = self._witnesses.is_working
            if not has_more:  # one slice at a time: the event loop has its turn
                deadline = monotonic() + SLICE_SECONDS
                has_more = self._witnesses.idle(lambda: monotonic() > deadline)
            if has_more or (deferral.is_done and self._rules.release_small()):
                ask_again(self._crawler)
                return True
        except Exception as error:  # noqa: BLE001 - as in `safely`
            self._give_up("idle", error)
        return False

    def _give_up(self, what: str, error: Exception) -> None:
        """Apply no rules any more and send all that is kept back: something is wrong with it."""
        self.failed(what, error)
        self._aliases.forget_all()
        for site in self._register.sites():
            self._register.replace(site, ())
        self._witnesses.release_all()

    @safely(None)
    def release_all(self) -> None:
        """Send everything that an earlier run kept back."""
        self._witnesses.release_all()

    # --- evidence ---------------------------------------------------------------------------

    @safely(None)
    def redirect(self, request: Request, target: str, *, status: int) -> None:
        """Learn from a redirect to *target* that the redirect middleware will follow."""
        self._rules.take_news()
        onto = Request(target)
        own = self._register.own_key(onto)
        is_known = own != self._register.own_key(request) and self._dupefilter.keys.knows(own)
        audit = self._witnesses.open_audits.of(request)
        if audit is not None and is_by_alias(audit):
            self._doubts.redirected(audit, onto, is_known=is_known)
        elif audit is not None:
            self._witnesses.open_audits.close(audit)
            self._results.redirect(audit, onto)
        elif is_known and (page := self._aliases.page_at(own)) is not None:
            doubts = self._aliases.ended_elsewhere(request, page.content)
            self._doubts.examine(doubts, page.content)
        self._witnesses.redirected(request, onto, is_known=is_known)
        if not may_be_kept_back(request):
            return
        if self._mining is not None:
            self._mining.redirect(request, target, status)
        if status in PERMANENT:
            rules = self._learners.redirects.redirect(request.url, target)
            if rules:
                self._rules.changed(rules, "learned/rules", "Learned from redirects")

    @safely(None)
    def robots_txt(self, request: Request, response: Response) -> None:
        """Try what robots.txt says. *response* is any with status 200 that no spider asked for."""
        self._learners.robots.robots_txt(request.url, response.body)

    @safely(None)
    def page(self, request: Request, response: Response) -> None:
        """Learn from a page with a 2xx status that is handed to the spider."""
        self._rules.take_news()
        if not may_be_evidence(request):
            return
        site = site_of(request.url)
        rules_here = self._register.rules(site)
        said = self._aliases.read(request, response)
        robots = self._learners.robots
        is_evidence = self._mining is not None or robots.wants(request.url)
        learns_here = is_evidence and is_comparable(response)
        is_compared = said.counts or learns_here
        content = identity_in_crawl(response) if is_compared else content_of(response, rules_here)
        audit = self._witnesses.open_audits.of(request) if self._register.has_keys(site) else None
        if audit is not None:
            self._witnesses.open_audits.close(audit)
            self._results.page(audit, content, response)
        elif rules := self._learners.redirects.page(request.url):
            self._rules.take_back(rules)
        if learns_here and content is not None and may_be_witness(request):
            self._compare(request, response, content, is_audit=audit is not None)
        stands = self._stands_for_others(request, response, content)
        page = self._arrived(request, content) if stands else None
        doubts = self._aliases.arrived(said, content, page)
        examined = () if audit is None else audit.rules
        self._doubts.examine(doubts, content, keys=said.keys, examined=examined)

    def _compare(
        self, request: Request, response: Response, content: Identity, *, is_audit: bool
    ) -> None:
        """Compare a page with those that arrived under other URLs of its site."""
        if self._mining is not None:
            self._mining.page(request, response, content, is_audit=is_audit)
        proven = self._learners.robots.page(request.url, content)
        if proven:
            self._rules.changed(proven, "learned/rules", "Learned from robots.txt")

    @safely(None)
    def missing(self, request: Request) -> None:
        """Learn that a site answered *request* with a status that says that there is no page."""
        if may_be_evidence(request) and self._witnesses.open_audits.of(request) is None:
            self._doubts.examine(self._aliases.ended_elsewhere(request, None), None)

    def _stands_for_others(
        self, request: Request, response: Response, content: Identity | None
    ) -> bool:
        """Return whether a page may be a witness: with its own URL, no wall, no soft 404.

        What is no HTML may be one where contents are compared.
        """
        if not isinstance(response, HtmlResponse):
            if self._mining is None or content is None or not is_comparable(response):
                return False
        elif content is not None and content.kind:
            return False
        if response.url == request.url or not self._register.rules(site_of(request.url)):
            return True
        asked, answered = map(self._register.keys_of, (request.url, response.url))
        return asked is not None and answered is not None and asked.learned == answered.learned

    def _arrived(self, request: Request, content: Identity | None) -> Page | None:
        page = self._witnesses.page(request, content)
        keys = self._register.keys(request) if page is not None else None
        if page and keys is not None and not keys.is_plain:
            self._shared_pages.tell(keys, page)
        return page

    def _pattern_is_dead(self, pattern: Pattern) -> None:
        self._audits.forget(pattern)
        self._witnesses.rules_changed(pattern.site)

    @safely(None)
    def _judge(self, audit: Audit, content: Identity | None, again: Identity | None) -> None:
        self._results.judge(audit, content, again)

    @safely(None)
    def _mined(self, mined: Mined, change: Change) -> None:
        self._rules.mined(mined, change)
        self._witnesses.deferral.unmined.discard(mined.site)
        ask_again(self._crawler)

    def _refuted(self, rule: Reason, note: str) -> None:
        """Take note that an audit has found *rule*, or a pattern of names, to be wrong."""
        if isinstance(rule, Pattern):
            self._aliases.reject(rule, note)
        elif isinstance(rule, OfFiles):
            self._rules.reject_for_files(rule, note)
        else:
            self._rules.reject(rule, note)

    # --- the end, and failures --------------------------------------------------------------

    @safely(None)
    def before_database_closes(self) -> None:
        """Count what was saved, and write down what the next run needs."""
        self.saved()
        with suppress(StoreError):  # it is learned anew; the scheduler says what is wrong
            self._aliases.keep()

    @safely(Saved())
    def saved(self) -> Saved:
        """Return what this run has saved. Ask at the end, while the database is open."""
        return self._savings.at_end()

    @safely(())
    def tested(self) -> tuple[tuple[Reason, int], ...]:
        """Return what was learned, rules and looks of permalinks, and how many audits agreed."""
        patterns = map(self._aliases.accepted, self._register.sites())
        reasons: list[Reason] = [*self.rules, *chain.from_iterable(patterns)]
        return tuple((reason, self._audits.passed(reason)) for reason in reasons)

    @property
    def rules(self) -> tuple[SiteRule, ...]:
        """The rules that were learned, those that were taken back too."""
        return self._learners.rules

    @property
    def in_force(self) -> int:
        """How many learned rules are in force."""
        return len(self._rules)

    @safely(None)
    def close(self) -> None:
        """End mining and write the file of learned rules."""
        if self._mining is not None:
            self._mining.close()
        self._file.close()
