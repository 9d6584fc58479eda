"""Verdicts: what the answer to an audit says about the rules, and to a name about its pattern."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.utils.defer import deferred_from_coro

from scrapy_urlnorm.crawl.components import site_of
from scrapy_urlnorm.crawl.online.audits import Audit
from scrapy_urlnorm.crawl.online.comparison import (
    Shown,
    Verdict,
    same_content,
    shown_in_crawl,
    verdict,
)
from scrapy_urlnorm.crawl.online.tables import Match, Reason
from scrapy_urlnorm.logs.differences import family_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from scrapy_urlnorm.crawl.online.aliases import PageAliases
    from scrapy_urlnorm.crawl.online.audits import Audits
    from scrapy_urlnorm.crawl.online.frontier import CrawlFrontier
    from scrapy_urlnorm.crawl.online.keys import ClusterKeys
    from scrapy_urlnorm.crawl.online.names import Names
    from scrapy_urlnorm.crawl.online.pairs import Pairs
    from scrapy_urlnorm.crawl.online.rules import RuleRegistry
    from scrapy_urlnorm.crawl.online.tables import Page, Pages
    from scrapy_urlnorm.learning.aliases import Doubt
    from scrapy_urlnorm.logs.page_identity import Identity


#: Pairs of pages that are fetched again where mining finds that rules are contradicted.
_MOST_CONTRADICTIONS = 2


def _other(page: Page, audit: Audit) -> str:
    return f"other content than {page.url or 'its twin'}: {audit.url}"


class Verdicts:
    """Tells `Audits` how each audit ended, and *on_differs* which reasons are wrong, and why.

    A page with other content than its representative does not prove a rule wrong: the page may
    change by itself from one fetch to the next. So the representative is fetched twice more: pages
    that were fetched one after the other are compared. *on_changed* is told of a representative
    that is another page now, *on_failure* what failed, and with which error, *on_verdict* of each
    verdict.
    """

    def __init__(
        self,
        keys: ClusterKeys,
        pages: Pages,
        audits: Audits,
        aliases: PageAliases,
        frontier: CrawlFrontier,
        names: Names,
        pairs: Pairs,
        registry: RuleRegistry,
        *,
        on_differs: Callable[[Collection[Reason], str], None],
        on_changed: Callable[[Page], None],
        on_failure: Callable[[str, Exception], None],
        on_verdict: Callable[[Audit, Verdict], None],
    ) -> None:
        self._keys = keys
        self._pages = pages
        self._audits = audits
        self._aliases = aliases
        self._frontier = frontier
        self._names = names
        self._pairs = pairs
        self._registry = registry
        self._asked: set[tuple[str, str]] = set()  # pairs of URLs that seemed to contradict rules
        self._on_differs = on_differs
        self._on_changed = on_changed
        self._on_failure = on_failure
        self._on_verdict = on_verdict
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
            self.page(audit, self._stored(onto.url, page))
        elif not self._audits.move(audit, fingerprint):
            self._audits.ended(audit)

    def page(self, audit: Audit, found: Shown) -> None:
        """Decide about an audit that was answered with a page, or fetch its representative again."""
        page = self._pages.get(audit.match.page.fingerprint) or audit.match.page
        said = verdict(Shown(page.url, page.content), found, key_of=self._keys.cluster_of)
        if said is Verdict.DIFFERS and not page.url and self._is_restless(found.url):
            said = Verdict.UNSTABLE  # the other crawler names pages by what it knows
        if said is None and any(reason.is_door for reason in audit.match.reasons):
            said = Verdict.DIFFERS  # it is open here; what may be an act is not asked for again
        if said is None:
            self._fetches += 1
            deferred_from_coro(self._fetch_again(audit, page, found))
        else:
            self._say(audit, said, _other(page, audit))

    async def _fetch_again(self, audit: Audit, page: Page, found: Shown) -> None:
        is_fresh = found.response is not None
        try:
            request = self._request_of(page)
            now = await self._shown(request)
            if not is_fresh and now is not None and self._is_restless(page.url):
                found = await self._shown(Request(found.url)) or found
            after = now
            if now is not None and now.blocks is not None:
                after = await self._shown(request)
            self._decide(audit, page, found, now, after)
        except Exception as error:  # noqa: BLE001 - Twisted would only log it
            self._on_failure("verdict", error)
        finally:
            self._fetches -= 1

    def _is_restless(self, url: str) -> bool:
        return bool(self._names.units(site_of(url)).different)

    def _request_of(self, page: Page) -> Request:
        shown = self._names.page(page.fingerprint)
        request = self._frontier.unpack(shown.request) if shown and shown.request else None
        return request or Request(page.url)

    async def _shown(self, request: Request) -> Shown | None:
        response = await self._pairs.response(request)
        if response is None:
            return None
        content, blocks = shown_in_crawl(response)
        if content is not None and blocks is not None:
            content = content._replace(bag_digest=self._names.strict_name(request.url, blocks))
        return Shown(request.url, content, blocks=blocks)

    def _decide(
        self, audit: Audit, page: Page, found: Shown, now: Shown | None, after: Shown | None
    ) -> None:
        """Compare a page with its representative up to what that changes between two fetches."""
        known, site = self._names.page(page.fingerprint), site_of(page.url)
        before = Shown(page.url, page.content, blocks=known.blocks if known else None)
        units, families = self._names.units(site), {family_of(page.url), family_of(found.url)}
        out = {unit for family in families for unit in units.left_out(family)}
        if now and after and now.blocks and after.blocks:
            out |= units.moved(now.blocks, after.blocks)

        def is_same(one: Shown, other: Shown) -> bool | None:
            if same_content(one.content, other.content):
                return True
            if not one.blocks or not other.blocks:
                return False
            at_all_times = units.same(one.blocks, other.blocks, out | units.timed)
            if one is before or not at_all_times:
                return at_all_times
            # What tells the time may have gone on between the two fetches: that proves nothing.
            return units.same(one.blocks, other.blocks, out) or None

        again, key_of = (now, after), self._keys.cluster_of
        said = verdict(before, found, again, key_of=key_of, is_same=is_same) or Verdict.UNSTABLE
        if now and said is Verdict.DIFFERS and self._names.is_shared(site, now.blocks, page.url):
            said = Verdict.UNSTABLE  # what many URLs show may be an outage
        if known is not None and now and after and now.blocks and after.blocks:
            self._pairs.learn(site, known.family, now.blocks, after.blocks)
            self._pairs.learn_late(site, known, now.blocks)
        self._say(audit, said, _other(page, audit))
        if said is Verdict.UNSTABLE and now and before.content and is_same(before, now) is False:
            self._on_changed(page)

    def _say(self, audit: Audit, said: Verdict, note: str = "") -> None:
        self._on_verdict(audit, said)
        if said is Verdict.AGREES:
            self._frontier.count("learned/audits_agreed")
            self._audits.agreed(audit)
            return
        if said is Verdict.UNSTABLE:
            self._frontier.count("learned/audits_unstable")
        else:
            self._frontier.count("learned/audits_differed")
            self._on_differs(audit.match.reasons, note)
        self._audits.ended(
            audit
        )  # last: a full disk refuses it, and the rule has to go all the same

    def _stored(self, url: str, page: Page) -> Shown:
        shown = self._names.page(page.fingerprint)
        return Shown(url, page.content, blocks=shown.blocks if shown else None)

    def contradicted(self, site: str) -> None:
        """Fetch pages again that rules make one and that have two names: a name may be wrong."""
        asked = 0
        for (one, page), (other, found) in self._pages.contradictions(site):
            names, reasons = self._keys.keys_of(other), self._registry.between(other, page)
            if names is None or not reasons or (one, other) in self._asked:
                continue
            self._asked.add((one, other))
            match = Match(names._replace(fingerprint=b""), page, reasons)
            self.page(Audit(match, other), self._stored(other, found))
            asked += 1
            if asked == _MOST_CONTRADICTIONS:
                return

    def recheck(self, pages: Sequence[Page]) -> None:
        """Fetch one of some representatives with one content again: it may have been an outage."""
        self._fetches += 1
        deferred_from_coro(self._recheck(pages))

    async def _recheck(self, pages: Sequence[Page]) -> None:
        try:
            now = await self._shown(self._request_of(pages[0]))
            before = self._stored(pages[0].url, pages[0])
            is_same: bool | None = now is not None and same_content(before.content, now.content)
            if now is not None and before.blocks and now.blocks and not is_same:
                units = self._names.units(site_of(now.url))
                out = units.left_out(family_of(now.url)) | units.timed
                is_same = units.same(before.blocks, now.blocks, out)
            for page in () if is_same else pages:
                self._on_changed(page)
        except Exception as error:  # noqa: BLE001 - Twisted would only log it
            self._on_failure("verdict", error)
        finally:
            self._fetches -= 1

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
            found = Shown(doubt.url, content if keys is None or doubt.key in keys else None)
            if (arrived := self._pages.get(doubt.key)) is not None:
                found = self._stored(doubt.url, arrived)
            names = names._replace(fingerprint=b"")  # it is no request in flight
            match = Match(names, page, (Reason(doubt.pattern, doubt.pattern.support),))
            self.page(Audit(match, doubt.url), found)
