"""LiveRules: learning during a crawl, as Scrapy's components see it.

The dupefilter and the scheduler ask it about requests; the middlewares tell it what came back.
No exception leaves it: whatever fails here is logged, counted, and ends in a request being sent.
"""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.http import HtmlResponse

from scrapy_urlnorm.crawl.engine import ask_again
from scrapy_urlnorm.crawl.live.audit_results import AuditResults
from scrapy_urlnorm.crawl.live.audits import Audits
from scrapy_urlnorm.crawl.live.comparing import content_of
from scrapy_urlnorm.crawl.live.crawl_frontier import CrawlFrontier
from scrapy_urlnorm.crawl.live.eligible import (
    may_be_evidence,
    may_be_kept_back,
    may_be_witness,
)
from scrapy_urlnorm.crawl.live.exchange import Exchange
from scrapy_urlnorm.crawl.live.learned_file import LearnedFile
from scrapy_urlnorm.crawl.live.learners import Learners
from scrapy_urlnorm.crawl.live.ledger import Ledger
from scrapy_urlnorm.crawl.live.mining import Mining
from scrapy_urlnorm.crawl.live.register import Register
from scrapy_urlnorm.crawl.live.report import Saved, why
from scrapy_urlnorm.crawl.live.rows import Row, Rows
from scrapy_urlnorm.crawl.live.safely import safely
from scrapy_urlnorm.crawl.live.savings import Savings
from scrapy_urlnorm.crawl.live.shared_pages import SharedPages
from scrapy_urlnorm.crawl.live.witness import Witnesses
from scrapy_urlnorm.crawl.redirects import PERMANENT
from scrapy_urlnorm.crawl.sites import domain_of, site_of
from scrapy_urlnorm.exceptions import SiteRuleError, StoreError
from scrapy_urlnorm.logs.page_identity import identity_of
from scrapy_urlnorm.site_rules import SiteRule

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_urlnorm.crawl.database import Database
    from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter
    from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter
    from scrapy_urlnorm.crawl.live.frontier import Audit
    from scrapy_urlnorm.crawl.merges import Behind
    from scrapy_urlnorm.crawl.settings import Config
    from scrapy_urlnorm.learning.worker import Mined
    from scrapy_urlnorm.logs.page_identity import Identity

logger = logging.getLogger(__name__)

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
        self._dupefilter = dupefilter
        learns_from_content = config.learn == "content"
        rows = Rows(database) if learns_from_content else None
        self._learners = Learners(config.normalizer, config.learned, rows)
        self._mining: Mining | None = None
        if (content := self._learners.content) is not None:
            self._mining = Mining(content.job, self._mined)
        self._register = Register(fingerprinter)
        self._audits = Audits()
        store = dupefilter.keys.store
        self._exchange = Exchange(store, SiteRule.masked)
        self._shared_pages = SharedPages(store)
        self._frontier = CrawlFrontier(crawler, dupefilter, self._shared_pages, self.failed)
        self._file = LearnedFile(config.learned_path, lambda: self._learners.rules, crawler.spider)
        self._results = AuditResults(
            crawler,
            self._register,
            self._audits,
            count=self._frontier.count,
            on_disagreement=self._reject,
            judge=self._judge,
        )
        for site in self._learners.sites():
            self._put_in_force(site)
        ledger = Ledger(database)
        self._witnesses = Witnesses(
            self._register,
            ledger,
            self._audits,
            self._frontier,
            max_pages=config.max_witnesses,
            depth_limit=crawler.settings.getint("DEPTH_LIMIT"),
        )
        self._savings = Savings(ledger, self._frontier.unpack, self._witnesses.behind)
        self._has_asking_queue = False
        self._is_queue_shared = False
        self._failures: set[str] = set()

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
        except Exception as error:  # noqa: BLE001 - as in `safely`
            self._give_up("work", error)

    @safely(False)
    def idle(self) -> bool:
        """Send the requests that stand behind no page: the crawl has nothing else to do.

        Return ``True`` to wait a little longer: for a page that is fetched again, a site that is
        mined, or keys that are made anew.
        """
        self._take_news(at_once=True)
        if self._results.is_waiting or self._is_mining():
            return True
        self.work()
        if self._witnesses.is_working:  # one slice at a time: the event loop has its turn
            ask_again(self._crawler)
            return True
        try:
            self._witnesses.idle()
        except Exception as error:  # noqa: BLE001 - as in `safely`
            self._give_up("idle", error)
        return False

    def _give_up(self, what: str, error: Exception) -> None:
        """Apply no rules any more and send all that is kept back: something is wrong with it."""
        self.failed(what, error)
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
        self._take_news()
        onto = Request(target)
        audit = self._witnesses.audit_of(request)
        if audit is not None:
            self._witnesses.close_audit(audit)
            self._results.redirect(audit, onto)
        own = self._register.own_key(onto)
        is_known = own != self._register.own_key(request) and self._dupefilter.keys.knows(own)
        self._witnesses.redirected(request, onto, is_known=is_known)
        if may_be_kept_back(request):
            self._add_row(Row(request.url, status, None, target))
        is_evidence = status in PERMANENT and may_be_kept_back(request)
        if is_evidence and (rules := self._learners.redirects.redirect(request.url, target)):
            self._changed(rules, "learned/rules", "Learned from redirects")

    @safely(None)
    def robots_txt(self, request: Request, response: Response) -> None:
        """Try what robots.txt says. *response* is any with status 200 that no spider asked for."""
        self._learners.robots.robots_txt(request.url, response.body)

    @safely(None)
    def page(self, request: Request, response: Response) -> None:
        """Learn from a page with a 2xx status that is handed to the spider."""
        self._take_news()
        if not may_be_evidence(request):
            return
        site = site_of(request.url)
        rules_here = self._register.rules(site)
        robots = self._learners.robots
        is_wanted = self._mining is not None or robots.wants(request.url)
        learns_here = is_wanted and isinstance(response, HtmlResponse)
        content = identity_of(response) if learns_here else content_of(response, rules_here)
        audit = self._witnesses.audit_of(request) if rules_here else None
        if audit is not None:
            self._witnesses.close_audit(audit)
            self._results.page(audit, content)
        elif rules := self._learners.redirects.page(request.url):
            self._take_back(rules)
        if learns_here and content is not None and may_be_witness(request):
            self._add_row(Row(request.url, response.status, content.name, None))
            if proven := robots.page(request.url, content):
                self._changed(proven, "learned/rules", "Learned from robots.txt")
        if self._stands_for_others(request, response, content):
            self._arrived(request, content)

    def _stands_for_others(
        self, request: Request, response: Response, content: Identity | None
    ) -> bool:
        """Return whether a page may be a witness: HTML, with its own URL, no wall, no soft 404."""
        if not isinstance(response, HtmlResponse) or (content is not None and content.kind):
            return False
        if response.url == request.url or not self._register.rules(site_of(request.url)):
            return True
        asked, answered = map(self._register.keys_of, (request.url, response.url))
        return asked is not None and answered is not None and asked.learned == answered.learned

    def _arrived(self, request: Request, content: Identity | None) -> None:
        page = self._witnesses.page(request, content)
        keys = self._register.keys(request) if page is not None else None
        if page is not None and keys is not None:
            self._shared_pages.tell(keys, page)

    @safely(None)
    def _judge(self, audit: Audit, content: Identity | None, again: Identity | None) -> None:
        self._results.judge(audit, content, again)

    # --- evidence of contents ---------------------------------------------------------------

    def _add_row(self, row: Row) -> None:
        """Write an answer down for the miner; begin to mine its site when that is worth it."""
        content = self._learners.content
        if content is None or self._mining is None:
            return
        site = site_of(row.url)
        if content.add(site, row):
            self._mining.request(site)

    def _is_mining(self) -> bool:
        """Return whether sites are being mined; begin with those that wait for a last look."""
        content = self._learners.content
        if content is None or self._mining is None:
            return False
        for site in content.unmined():
            self._mining.request(site)
        return self._mining.is_working

    @safely(None)
    def _mined(self, mined: Mined) -> None:
        content = self._learners.content
        assert content is not None
        self._frontier.count("learned/minings")
        self._frontier.count("learned/mining_seconds", mined.seconds)
        if mined.error is not None:
            self.failed("mining", RuntimeError(mined.error))
        change = content.mined(mined)
        for rule in change.gone:
            self._audits.forget(rule)
        if change.gone:
            self._changed(change.gone, "learned/retracted", "Took back", tell=False)
        if change.came:
            self._changed(change.came, "learned/rules", "Learned from equal pages")
        elif not change.gone:
            self._put_in_force(mined.site)
        ask_again(self._crawler)

    # --- rules that come and go -------------------------------------------------------------

    def _changed(self, rules: list[SiteRule], stat: str, what: str, *, tell: bool = True) -> None:
        """Put the rules of their sites in force, after *rules* came or went. Count and log them."""
        refused: list[SiteRule] = []
        for site in {domain_of(rule.site) for rule in rules}:
            refused += self._put_in_force(site)
            self._witnesses.rules_changed(site)
        for rule in rules:
            if rule in refused:
                continue
            self._frontier.count(stat)
            arguments = {"what": what, "rule": rule, "why": why(rule)}
            logger.info("%(what)s: %(rule)s (%(why)s)", arguments, extra=self._extra)
        self._file.changed(len(rules))
        if tell:
            self._exchange.tell(rules)

    def _take_back(self, rules: list[SiteRule], what: str = "Took back") -> None:
        for rule in rules:
            self._audits.forget(rule)
        self._changed(rules, "learned/retracted", what)

    def _reject(self, rule: SiteRule, note: str) -> None:
        rejected = self._learners.reject(rule, note)
        if rejected is not None:
            self._take_back([rejected])

    def _put_in_force(self, site: str) -> list[SiteRule]:
        """Put the learned rules of *site* in force; return those that do not go with the rest."""
        rules = list(self._learners.active(site))
        refused: list[SiteRule] = []
        while (error := self._refusal(site, rules)) is not None:
            newest = rules.pop()
            refused.append(newest)
            self._learners.reject(newest, str(error))
            logger.info("A learned rule is not applied: %(error)s", {"error": error})
        return refused

    def _refusal(self, site: str, rules: list[SiteRule]) -> SiteRuleError | None:
        """Put *rules* in force; return the error if they do not go together."""
        try:
            self._register.replace(site, rules)
        except SiteRuleError as error:
            return error
        return None

    # --- other crawlers at the same store ---------------------------------------------------

    def _take_news(self, *, at_once: bool = False) -> None:
        """Take over, every few seconds, the rules that others learned; tell them of ours."""
        news = self._exchange.news(at_once=at_once)
        if not news:
            return
        learned, retracted = self._learners.adopt(news)
        if learned:
            self._changed(learned, "learned/shared", "Learned by another crawler")
        # A rule of another crawler may also contradict a page that this crawler has seen.
        theirs = [rule for rule in retracted if rule in news]
        ours = [rule for rule in retracted if rule not in news]
        if theirs:
            self._take_back(theirs, "Taken back by another crawler")
        if ours:
            self._take_back(ours, "Learned by another crawler and not taken over")

    # --- the end, and failures --------------------------------------------------------------

    @safely(Saved())
    def saved(self) -> Saved:
        """Return what this run has saved. Ask at the end, while the database is open."""
        return self._savings.at_end()

    @property
    def in_force(self) -> int:
        """How many learned rules are in force."""
        return sum(len(self._register.rules(site)) for site in self._register.sites())

    @safely(None)
    def close(self) -> None:
        """End mining and write the file of learned rules."""
        if self._mining is not None:
            self._mining.close()
        self._file.close()

    def failed(self, what: str, error: Exception) -> None:
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
