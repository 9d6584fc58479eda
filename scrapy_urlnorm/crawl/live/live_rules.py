"""LiveRules: what learning during a crawl means for the requests of a Scrapy crawl.

The dupefilter and the scheduler ask it about requests, the middlewares tell it what came back.
No exception leaves it: whatever fails here is logged, counted, and ends in a request being sent.
"""

from __future__ import annotations

import logging
import pickle
from functools import wraps
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy import Request
from scrapy.http import HtmlResponse
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.request import request_from_dict

from scrapy_urlnorm.crawl.engine import in_progress
from scrapy_urlnorm.crawl.live.audits import Audits
from scrapy_urlnorm.crawl.live.exchange import Exchange
from scrapy_urlnorm.crawl.live.ledger import Ledger, Page
from scrapy_urlnorm.crawl.live.register import Keys, Register, domain_of, site_of
from scrapy_urlnorm.crawl.live.witness import Witnesses, may_be_evidence, may_be_kept_back
from scrapy_urlnorm.crawl.settings import LEARNED_PATH
from scrapy_urlnorm.exceptions import SiteRuleError, StoreError
from scrapy_urlnorm.learning.redirects import RedirectLearner
from scrapy_urlnorm.logs.page_identity import Identity, body_digest, identity_of
from scrapy_urlnorm.masking import masked
from scrapy_urlnorm.site_rules import save_site_rules
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter
    from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter
    from scrapy_urlnorm.crawl.live.witness import Audit, Behind
    from scrapy_urlnorm.crawl.queue.pending import Database
    from scrapy_urlnorm.crawl.settings import Config
    from scrapy_urlnorm.site_rules import SiteRule

logger = logging.getLogger(__name__)

F = TypeVar("F", bound="Callable[..., Any]")

#: How long keys are made anew, and requests kept back, before the event loop has its turn.
SLICE_SECONDS = 0.01
#: Bytes that a login wall or a soft 404 has at most.
LONGEST_WALL = 20_000
#: How often learned rules are written at most, unless they are few.
SAVE_SECONDS = 30.0


def _safely(answer: object) -> Callable[[F], F]:
    """Log and count whatever the method raises, and give *answer*, which sends the request."""

    def decorate(method: F) -> F:
        @wraps(method)
        def call(self: LiveRules, *args: Any, **kwargs: Any) -> Any:
            try:
                return method(self, *args, **kwargs)
            except Exception as error:  # noqa: BLE001 - in Scrapy it would end a worker, or the crawl
                self._failed(method.__name__, error)
                return answer

        return call  # type: ignore[return-value]

    return decorate


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
        self._dupefilter = dupefilter
        self._path = config.learned_path
        self._database = database
        self._learner = RedirectLearner(config.normalizer, config.learned)
        self._register = Register(fingerprinter)
        self._audits = Audits()
        self._exchange = Exchange(dupefilter.store, masked)
        self._table = dupefilter.store.witness_table() if dupefilter.store.is_shared else None
        for site in self._learner.sites():
            self._put_in_force(site)
        self._witnesses = Witnesses(
            self._register,
            Ledger(database),
            self._audits,
            self,
            max_pages=config.max_witnesses,
            depth_limit=crawler.settings.getint("DEPTH_LIMIT"),
        )
        self.decides_on_arrival = True  #: false for a frontier that others take requests from
        self.decides_on_leaving = False  #: a scheduler that asks `on_leaving` says so here
        self._controls = 0  # pages that are fetched again, to see whether they change
        self._failures: set[str] = set()
        self._unsaved = 0
        self._saved = 0  # rules in the file
        self._saved_at = monotonic()

    # --- decisions about requests -----------------------------------------------------------

    @_safely(None)
    def on_arrival(self, request: Request) -> Behind | None:
        """Say what a request whose own key is new is withheld behind; ``None`` to queue it."""
        return self._witnesses.on_arrival(request) if self.decides_on_arrival else None

    @_safely(True)
    def on_leaving(self, request: Request) -> bool:
        """Whether a request that comes out of the queue is sent; if not, it is kept back."""
        return self._witnesses.on_leaving(request)

    @_safely(False)
    def came_through_dupefilter(self, request: Request) -> bool:
        """Whether a request was scheduled, and is not one that a component sends by itself."""
        return self._dupefilter.knows(self._register.own_key(request))

    @_safely(None)
    def work(self) -> None:
        """Do for a short while what has to be done beside the requests."""
        deadline = monotonic() + SLICE_SECONDS
        try:
            self._witnesses.look_around()
            self._witnesses.work(lambda: monotonic() > deadline)
        except Exception as error:  # noqa: BLE001 - as in `_safely`
            self._give_up("work", error)

    @_safely(False)
    def idle(self) -> bool:
        """There is nothing else to do: see to what is kept back. True to wait a little more."""
        self._take_news(at_once=True)
        if self._controls:
            return True
        try:
            self._witnesses.idle()
        except Exception as error:  # noqa: BLE001 - as in `_safely`
            self._give_up("idle", error)
        return False

    def _give_up(self, what: str, error: Exception) -> None:
        """Something is wrong with what is kept back: apply no rules any more, and send it."""
        self._failed(what, error)
        for site in self._register.sites():
            self._register.replace(site, ())
        self._witnesses.release_all()

    @_safely(None)
    def release_all(self) -> None:
        """Send everything that an earlier run kept back."""
        self._witnesses.release_all()

    # --- evidence ---------------------------------------------------------------------------

    @_safely(None)
    def redirect(self, request: Request, target: str, *, is_permanent: bool) -> None:
        """A redirect came back for *request*, and the redirect middleware will follow it."""
        self._take_news()
        onto = Request(target)
        audit = self._witnesses.audit_of(request)
        if audit is not None:
            self._judge_redirect(audit, onto)
        own = self._register.own_key(onto)
        is_known = own != self._register.own_key(request) and self._dupefilter.knows(own)
        self._witnesses.redirected(request, onto, is_known=is_known)
        if is_permanent and may_be_kept_back(request):
            rules = self._learner.redirect(request.url, target)
            if rules:
                self._changed(rules, "learned/rules", "Learned from redirects: %(rule)s")

    @_safely(None)
    def page(self, request: Request, response: Response) -> None:
        """A page with a 2xx status is handed to the spider."""
        self._take_news()
        if not may_be_evidence(request):
            return
        site = site_of(request.url)
        rules_here = self._register.rules(site)
        content = content_of(response, rules_here)
        audit = self._witnesses.audit_of(request) if rules_here else None
        if audit is not None:
            self._witnesses.close_audit(audit)
            if answers_as_said(audit, content):
                self._agreed(audit)
            else:
                self._fetch_again(audit, content)
        elif rules := self._learner.page(request.url):
            self._take_back(rules)
        if self._stands_for_others(request, response, content):
            self._arrived(request, content)

    def _stands_for_others(
        self, request: Request, response: Response, content: Identity | None
    ) -> bool:
        """Whether a page may be a witness: HTML, whole, its own, no wall and no soft 404."""
        if not isinstance(response, HtmlResponse) or (content is not None and content.kind):
            return False
        if response.url == request.url or not self._register.rules(site_of(request.url)):
            return True
        asked, answered = map(self._register.keys_of, (request.url, response.url))
        return asked is not None and answered is not None and asked.learned == answered.learned

    def _arrived(self, request: Request, content: Identity | None) -> None:
        page = self._witnesses.page(request, content)
        if page is not None and self._table is not None and content is not None:
            keys = self._register.keys(request)
            if keys is not None:
                self._table.put(keys.learned, _entry(page.own, content))

    # --- audits -----------------------------------------------------------------------------

    def _judge_redirect(self, audit: Audit, onto: Request) -> None:
        """Decide about an audit that was answered with a redirect.

        One that leads elsewhere may be the only way to a page, however temporary it is.
        """
        self._witnesses.close_audit(audit)
        keys = self._register.keys(onto)
        if keys is not None and keys.learned == audit.keys.learned:
            self._agreed(audit)
        else:
            self._disagreed(audit, f"redirects elsewhere: {onto.url}")

    def _agreed(self, audit: Audit) -> None:
        self.count("learned/audits_agreed")
        self._audits.agreed(audit.rules, audit.witness.vote)

    def _disagreed(self, audit: Audit, note: str) -> None:
        self.count("learned/audits_disagreed")
        self._audits.undecided(audit.rules)
        rule = self._audits.to_blame(audit.rules)
        rejected = self._learner.reject(rule, note)
        if rejected is not None:
            self._take_back([rejected])

    def _fetch_again(self, audit: Audit, content: Identity | None) -> None:
        """Fetch the witness once more: if it differs from itself, the audit proves nothing."""
        if not audit.witness.url:  # it arrived at another crawler
            self._disagreed(audit, f"other content than its twin: {audit.request}")
            return
        self._controls += 1
        deferred_from_coro(self._control(audit, content))

    async def _control(self, audit: Audit, content: Identity | None) -> None:
        again = None
        try:
            engine = self._crawler.engine
            assert engine is not None
            request = Request(audit.witness.url, callback=NO_CALLBACK, dont_filter=True)
            response = await engine.download_async(request)
            if 200 <= response.status < 300:
                again = identity_of(response)
        except Exception as error:  # noqa: BLE001 - any failure of a download
            logger.debug("A page could not be fetched again: %(error)r", {"error": error})
        finally:
            self._controls -= 1
        self._judge(audit, content, again)

    @_safely(None)
    def _judge(self, audit: Audit, content: Identity | None, again: Identity | None) -> None:
        """Decide about an audit that found other content than its witness had *before*.

        Where the witness has changed by itself meanwhile, that may say nothing.
        """
        before = audit.witness.content
        witness = audit._replace(witness=audit.witness._replace(content=again))
        has_changed = again is not None and before is not None and again.digest != before.digest
        if answers_as_said(witness, content):
            self._agreed(audit)
        elif has_changed and (same_content(again, content) or not same_content(again, before)):
            self._audits.undecided(audit.rules)
        else:
            url = audit.request.url if audit.request is not None else "an audit"
            self._disagreed(audit, f"other content than {audit.witness.url}: {url}")

    # --- rules that come and go -------------------------------------------------------------

    def _changed(self, rules: Iterable[SiteRule], stat: str, message: str) -> None:
        rules = list(rules)
        refused: list[SiteRule] = []
        for site in {domain_of(rule.site) for rule in rules}:
            refused += self._put_in_force(site)
            self._witnesses.rules_changed(site)
        for rule in rules:
            if rule in refused:
                continue
            self.count(stat)
            arguments = {"rule": rule, "note": rule.note}
            logger.info(message, arguments, extra={"spider": self._crawler.spider})
        self._save(len(rules))
        self._exchange.tell(rules)

    def _take_back(self, rules: list[SiteRule]) -> None:
        for rule in rules:
            self._audits.forget(rule)
        self._changed(rules, "learned/retracted", "Took back: %(rule)s (%(note)s)")

    def _put_in_force(self, site: str) -> list[SiteRule]:
        """Put the learned rules of *site* in force; return those that do not go with the rest."""
        rules = list(self._learner.active(site))
        refused: list[SiteRule] = []
        while (error := self._refusal(site, rules)) is not None:
            newest = rules.pop()
            refused.append(newest)
            self._learner.reject(newest, str(error))
            logger.warning("A learned rule is not applied: %(error)s", {"error": error})
        return refused

    def _refusal(self, site: str, rules: list[SiteRule]) -> SiteRuleError | None:
        """Put *rules* in force; what is said against it, if they do not go together."""
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
        learned, retracted = self._learner.adopt(news)
        if learned:
            self._changed(learned, "learned/shared", "Learned by another crawler: %(rule)s")
        if retracted:
            for rule in retracted:
                self._audits.forget(rule)
            message = "Taken back by another crawler: %(rule)s (%(note)s)"
            self._changed(retracted, "learned/retracted", message)

    # --- what `Witnesses` asks of the crawl -------------------------------------------------

    def under_way(self) -> Collection[Request]:
        """Return the requests that left the queue and have not ended."""
        return in_progress(self._crawler)

    def pack(self, request: Request) -> bytes:
        """Return *request* as bytes; raises what pickle raises."""
        return pickle.dumps(request.to_dict(spider=self._crawler.spider), protocol=4)

    def unpack(self, data: bytes) -> Request | None:
        """Return the request that was packed; ``None`` for one that this run cannot do."""
        try:
            return request_from_dict(pickle.loads(data), spider=self._crawler.spider)
        except Exception as error:  # noqa: BLE001 - whatever its pickled objects raise
            self._failed("unpack", error)
            return None

    def send(self, request: Request) -> None:
        """Put *request* back into the queue, past the dupefilter."""
        assert self._crawler.engine is not None
        self._dupefilter.let_pass(request)
        self._crawler.engine.crawl(request)

    def is_known(self, own: bytes) -> bool:
        """Whether a request with this own key was ever made."""
        return self._dupefilter.knows(own)

    def count(self, stat: str) -> None:
        """Count one of ``urlnorm/...``."""
        self._crawler.stats.inc_value(f"urlnorm/{stat}")

    def shared_witness(self, keys: Keys) -> Page | None:
        """Return a page that another crawler of the same frontier told of."""
        if self._table is None:
            return None
        try:
            entry = self._table.get(keys.learned)
        except StoreError:
            return None
        if entry is None or entry[:20] == keys.own:
            return None
        return _page(entry)

    # --- the file of learned rules ----------------------------------------------------------

    def _save(self, changes: int) -> None:
        """Write the rules, all of them, when enough have changed: not once for each."""
        self._unsaved += changes
        if self._unsaved * 8 >= self._saved or monotonic() - self._saved_at > SAVE_SECONDS:
            self._write()

    def _write(self) -> None:
        self._unsaved = 0
        self._saved_at = monotonic()
        if self._path is None:
            return
        rules = self._learner.rules
        self._saved = len(rules)
        try:
            save_site_rules(self._path, rules)
        except OSError as error:
            logger.error(
                "Learned rules cannot be written to %(setting)s = %(path)s: %(error)s",
                {"setting": LEARNED_PATH, "path": str(self._path), "error": error},
                extra={"spider": self._crawler.spider},
            )

    @_safely(None)
    def close(self) -> None:
        """Write what was learned."""
        if self._learner.rules:
            self._write()

    def _failed(self, what: str, error: Exception) -> None:
        self.count("learned/errors")
        kind = f"{what} {type(error).__name__}"
        if kind not in self._failures:
            self._failures.add(kind)
            logger.error(
                "Learning failed in %(what)s, the request is sent: %(error)r "
                "(further failures of this kind are only counted)",
                {"what": what, "error": error},
                extra={"spider": self._crawler.spider},
            )
            if not isinstance(error, StoreError):
                logger.debug("This is where learning failed", exc_info=error)


#: Of the words of a page so many hexadecimal digits are told to other crawlers.
_TOLD_WORDS = 24


def content_of(response: Response, rules: Iterable[SiteRule]) -> Identity | None:
    """Name the content of a page as far as *rules* will ever compare it.

    For rules that redirects taught its bytes will do, which spares reading the text of a page that
    is too long for a login wall or a soft 404.
    """
    sources = {rule.source for rule in rules}
    if not sources:
        return None
    if sources != {"redirect"} or len(response.body) <= LONGEST_WALL:
        return identity_of(response)
    digest = body_digest(response) if response.body else None
    return None if digest is None else Identity(digest)


def answers_as_said(audit: Audit, content: Identity | None) -> bool:
    """Whether a page that answered an audit is the one that the rules said.

    Rules learned from redirects said that there is no such page: only the same bytes at the same
    path will do. From another path the same relative links lead to other pages.
    """
    witness = audit.witness.content
    if not said_by_redirects(audit):
        return same_content(witness, content)
    return (
        witness is not None
        and content is not None
        and witness.digest == content.digest
        and audit.request is not None
        and split(audit.request.url).path == split(audit.witness.url).path
    )


def said_by_redirects(audit: Audit) -> bool:
    """Whether a rule that redirects taught would withhold the request of an audit."""
    return any(rule.source == "redirect" for rule in audit.rules)


def same_content(one: Identity | None, other: Identity | None) -> bool:
    """Whether two pages have the same content; what is not known is not the same."""
    if one is None or other is None:
        return False
    if one.agrees(other):
        return True
    words, others = one.bag_digest, other.bag_digest
    return bool(words and others and words[:_TOLD_WORDS] == others[:_TOLD_WORDS])


def _entry(own: bytes, content: Identity) -> bytes:
    """Return what other crawlers are told of a page: 48 bytes."""
    words = (content.bag_digest or content.digest)[:_TOLD_WORDS]
    return own + bytes.fromhex(content.digest) + bytes.fromhex(words)


def _page(entry: bytes) -> Page:
    content = Identity(entry[20:36].hex(), None, entry[36:].hex())
    # Its depth is not known: with DEPTH_LIMIT it stands for no request.
    return Page(entry[:20], "", content, 1 << 30)
