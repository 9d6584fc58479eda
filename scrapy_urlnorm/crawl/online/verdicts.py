"""Verdicts: what the answer to an audit says about the rules, and to a name about its pattern."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import deferred_from_coro

from scrapy_urlnorm.crawl.online.audits import Audit
from scrapy_urlnorm.crawl.online.comparison import Shown, Verdict, identity_in_crawl, verdict
from scrapy_urlnorm.crawl.online.tables import Match, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from scrapy.crawler import Crawler

    from scrapy_urlnorm.crawl.online.aliases import PageAliases
    from scrapy_urlnorm.crawl.online.audits import Audits
    from scrapy_urlnorm.crawl.online.frontier import CrawlFrontier
    from scrapy_urlnorm.crawl.online.keys import ClusterKeys
    from scrapy_urlnorm.crawl.online.tables import Pages
    from scrapy_urlnorm.learning.aliases import Doubt
    from scrapy_urlnorm.logs.page_identity import Identity

logger = logging.getLogger(__name__)


class Verdicts:
    """Tells `Audits` how each audit ended, and *on_differs* which reason is wrong, and why.

    A page with other content than its representative does not prove a rule wrong: the page may
    change by itself from one fetch to the next. So the representative is fetched once more.
    *on_failure* is told what failed, and with which error.
    """

    def __init__(
        self,
        crawler: Crawler,
        keys: ClusterKeys,
        pages: Pages,
        audits: Audits,
        aliases: PageAliases,
        frontier: CrawlFrontier,
        *,
        on_differs: Callable[[Reason, str], None],
        on_failure: Callable[[str, Exception], None],
    ) -> None:
        self._crawler = crawler
        self._keys = keys
        self._pages = pages
        self._audits = audits
        self._aliases = aliases
        self._frontier = frontier
        self._on_differs = on_differs
        self._on_failure = on_failure
        self._fetches = 0

    @property
    def is_waiting(self) -> bool:
        """Whether a representative is being fetched again."""
        return bool(self._fetches)

    def redirected(self, audit: Audit, onto: Request, *, is_known: bool) -> None:
        """Decide about an audit that was answered with a redirect to the URL of *onto*.

        One to the representative agrees. One that leads elsewhere may be the only way to a page,
        however temporary it is. One between these proves at most some of the rules, so the audit
        goes on with the page of *onto*. If the dupefilter knows that (*is_known*), it may be there.
        """
        match, fingerprint = audit.match, self._keys.fingerprint(onto)
        if fingerprint == match.page.fingerprint:
            self._say(audit, Verdict.AGREES)
        elif not match.is_alias and self._keys.cluster_of(onto.url) != match.keys.cluster:
            self._say(audit, Verdict.DIFFERS, f"redirects elsewhere: {onto.url}")
        elif is_known and (page := self._pages.get(fingerprint)) is not None:
            self.page(audit, Shown(onto.url, page.content))
        elif not self._audits.move(audit, fingerprint):
            self._audits.ended(audit)

    def page(self, audit: Audit, found: Shown, again: Shown | None = None) -> None:
        """Decide about an audit that was answered with a page, or fetch its representative again."""
        page = audit.match.page
        said = verdict(Shown(page.url, page.content), found, again, key_of=self._keys.cluster_of)
        if said is not None:
            self._say(audit, said, f"other content than {page.url or 'its twin'}: {audit.url}")
            return
        self._fetches += 1
        deferred_from_coro(self._fetch_again(audit, found))

    async def _fetch_again(self, audit: Audit, found: Shown) -> None:
        url, content = audit.match.page.url, None
        try:
            assert self._crawler.engine is not None
            request = Request(url, callback=NO_CALLBACK, dont_filter=True)
            response = await self._crawler.engine.download_async(request)
            if 200 <= response.status < 300:
                content = identity_in_crawl(response)
        except Exception as error:  # noqa: BLE001 - any failure of a download
            logger.debug("A page could not be fetched again: %(error)r", {"error": error})
        finally:
            self._fetches -= 1
        try:
            self.page(audit, found, Shown(url, content))
        except Exception as error:  # noqa: BLE001 - Twisted would only log it
            self._on_failure("verdict", error)

    def _say(self, audit: Audit, said: Verdict, note: str = "") -> None:
        if said is Verdict.AGREES:
            self._frontier.count("learned/audits_agreed")
            self._audits.agreed(audit)
            return
        if said is Verdict.UNSTABLE:
            self._frontier.count("learned/audits_unstable")
        else:
            self._frontier.count("learned/audits_differed")
            self._on_differs(self._audits.weakest(audit.match.reasons), note)
        self._audits.ended(
            audit
        )  # last: a full disk refuses it, and the rule has to go all the same

    # --- page aliases -----------------------------------------------------------------------

    def doubted(
        self,
        doubts: Iterable[Doubt],
        content: Identity | None,
        *,
        keys: Collection[bytes] | None = None,
        examined: Iterable[Reason] = (),
    ) -> None:
        """Decide about names that showed something else than the page that named them.

        One of each pattern, except those *examined* already. *content* is what arrived, under
        *keys*; ``None`` stands for all.
        """
        blamed = {reason.rule for reason in examined if reason.is_alias}
        for doubt in doubts:
            if doubt.pattern in blamed:
                continue
            blamed.add(doubt.pattern)
            page, names = self._pages.get(doubt.page), self._keys.keys_of(doubt.url)
            if page is None or names is None:
                self._aliases.reject(doubt.pattern, f"other content: {doubt.url}")
                continue
            found = content
            if keys is not None and doubt.key not in keys:  # it arrived before
                arrived = self._pages.get(doubt.key)
                found = None if arrived is None else arrived.content
            names = names._replace(fingerprint=b"")  # it is no request in flight
            match = Match(names, page, (Reason(doubt.pattern, doubt.pattern.support),))
            self.page(Audit(match, doubt.url), Shown(doubt.url, found))
