"""Verdicts: what the answer to an audit says about the rules, and to a name about its pattern.

First the comparison of two pages, then what is made of it: `Audits` hears how each audit ended, the
registry which rules are wrong.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin

from scrapy import Request
from scrapy.http import HtmlResponse
from scrapy.utils.response import get_base_url

from scrapy_urlnorm.crawl.components import site_of
from scrapy_urlnorm.crawl.online.audits import Audit
from scrapy_urlnorm.crawl.online.tables import TOLD_WORDS, Match, Page, Reason
from scrapy_urlnorm.logs.differences import family_of
from scrapy_urlnorm.logs.observation import LEAST_FILE
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from scrapy.http import Response

    from scrapy_urlnorm.crawl.online.aliases import PageAliases
    from scrapy_urlnorm.crawl.online.audits import Audits
    from scrapy_urlnorm.crawl.online.families import Asked
    from scrapy_urlnorm.crawl.online.frontier import CrawlFrontier
    from scrapy_urlnorm.crawl.online.keys import ClusterKeys
    from scrapy_urlnorm.crawl.online.names import Names
    from scrapy_urlnorm.crawl.online.rules import RuleRegistry
    from scrapy_urlnorm.crawl.online.suppression import Suppression
    from scrapy_urlnorm.crawl.online.tables import Pages
    from scrapy_urlnorm.learning.aliases import Doubt
    from scrapy_urlnorm.logs.blocks import Block
    from scrapy_urlnorm.logs.differences import Unit
    from scrapy_urlnorm.logs.page_identity import Identity

#: Bytes of what is no HTML whose digest is made while the event loop waits. What is larger is
#: always fetched.
LARGEST_FILE = 16 * 1024 * 1024
#: Links of a page that are compared.
_MOST_LINKS = 500
#: Pairs of pages that are fetched again where mining finds that rules are contradicted.
_MOST_CONTRADICTIONS = 2


class Verdict(Enum):
    """What two pages say of the rules that make their URLs one."""

    AGREES = "agrees"
    DIFFERS = "differs"
    UNSTABLE = "unstable"  #: one of them has changed by itself, so nothing is proved


class Shown(NamedTuple):
    """What one fetch of a URL showed."""

    url: str  #: "" where it is not known: the page arrived at another crawler
    content: Identity | None
    response: Response | None = None  #: without it the links are not compared
    blocks: list[Block] | None = None


def verdict(
    representative: Shown,
    found: Shown,
    again: tuple[Shown | None, Shown | None] | None = None,
    *,
    key_of: Callable[[str], object] = lambda url: url,
    is_same: Callable[[Shown, Shown], bool | None] | None = None,
) -> Verdict | None:
    """Return whether *found*, the page of a URL, is the one that *representative* showed.

    ``None`` asks the caller to fetch the representative *again*, twice: other content may mean that
    the page changes by itself. *is_same* compares pages that were fetched one after the other.
    *key_of* returns cluster keys, for the links of the page.

    =====================================  ======================================================
    the page equals the representative     agrees
    it equals the representative now       agrees, or unstable if the representative has changed
    it does not                            differs, whatever the representative has become
    the representative does not come       unstable
    =====================================  ======================================================
    """
    is_same = is_same or (lambda one, other: same_content(one.content, other.content))
    if again is None:
        if same_content(representative.content, found.content):
            is_other = leads_elsewhere(representative, found, key_of)
            return Verdict.DIFFERS if is_other else Verdict.AGREES
        return None if representative.url else Verdict.DIFFERS
    now, after = again
    if now is None or after is None or (said := is_same(found, now)) is None:
        return Verdict.UNSTABLE
    if not said or leads_elsewhere(representative, found, key_of):
        return Verdict.DIFFERS
    has_stayed = representative.content is None or is_same(representative, now)
    return Verdict.AGREES if has_stayed else Verdict.UNSTABLE


def is_comparable(response: Response) -> bool:
    """Return whether a page has a content to compare, or a file that is neither small nor huge."""
    if isinstance(response, HtmlResponse):
        return True
    return LEAST_FILE <= len(response.body) <= LARGEST_FILE


def same_content(one: Identity | None, other: Identity | None) -> bool:
    """Return whether two pages have the same content; unknown content equals none."""
    if one is None or other is None:
        return False
    if one.agrees(other):
        return True
    words, others = one.bag_digest, other.bag_digest
    return bool(words and others and words[:TOLD_WORDS] == others[:TOLD_WORDS])


def leads_elsewhere(representative: Shown, found: Shown, key_of: Callable[[str], object]) -> bool:
    """Return whether relative links of a page are others than the same links at the other URL.

    A final slash or one segment more, and ``part-2`` is another page (RFC 3986, section 5.2). Two
    URLs with as many slashes have links side by side, which the rule between them makes one as it
    does the pages.
    """
    response, url, other = found.response, found.url, representative.url
    if not other or split(url).path.count("/") == split(other).path.count("/"):
        return False
    if not isinstance(response, HtmlResponse) or get_base_url(response) != response.url:
        return False  # with a base of its own, its links do not depend on its URL
    for href in response.xpath("//a/@href").getall()[:_MOST_LINKS]:
        link = href.strip()
        if not link or link[0] in "/#" or ":" in link.partition("/")[0]:
            continue
        with suppress(ValueError):  # a bad host in the link
            here, there = urljoin(url, link), urljoin(other, link)
            if here != there and key_of(here) != key_of(there):
                return True
    return False


@dataclass(eq=False)
class Verdicts:
    """Tells `Audits` how each audit ended, and `RuleRegistry` which reasons are wrong, and why.

    A page with other content than its representative does not prove a rule wrong: the page may
    change by itself from one fetch to the next. So the representative is fetched twice more: pages
    that were fetched one after the other are compared.
    """

    keys: ClusterKeys
    pages: Pages
    audits: Audits
    aliases: PageAliases
    names: Names
    registry: RuleRegistry
    suppression: Suppression
    frontier: CrawlFrontier

    def __post_init__(self) -> None:
        #: Audits that wait until their representative, by fingerprint, is fetched again.
        self._waiting: dict[bytes, list[tuple[Audit, Shown]]] = {}
        self._asked: set[tuple[str, str]] = set()  # pairs of URLs that seemed to contradict rules
        #: Fingerprints of audits that agreed, and whether one differed, since somebody cleared them.
        self.agreed: set[bytes] = set()
        self.has_differed = False
        self.registry.on_doubted = self._contradicted

    # --- audits -----------------------------------------------------------------------------

    def redirected(self, audit: Audit, onto: Request, *, is_known: bool) -> None:
        """Decide about an audit that was answered with a redirect to the URL of *onto*.

        One to the representative agrees. One that leads elsewhere may be the only way to a page,
        however temporary it is. One between these proves at most some of the rules, so the audit
        goes on with the page of *onto*. If the dupefilter knows that (*is_known*), it may be there.
        """
        match, fingerprint = audit.match, self.keys.fingerprint(onto)
        if fingerprint == match.page.fingerprint:
            self._say(audit, Verdict.AGREES)
        elif not match.is_alias and self.keys.cluster_of(onto.url) != match.keys.cluster:
            self._say(audit, Verdict.DIFFERS, f"redirects elsewhere: {onto.url}")
        elif is_known and (page := self.pages.get(fingerprint)) is not None:
            self.page(audit, self._stored(page, onto.url))
        elif not self.audits.move(audit, fingerprint):
            self.audits.ended(audit)

    def page(self, audit: Audit, found: Shown) -> None:
        page = self.pages.get(audit.match.page.fingerprint) or audit.match.page
        said = verdict(Shown(page.url, page.content), found, key_of=self.keys.cluster_of)
        if said is Verdict.DIFFERS and not page.url and self._is_restless(found.url):
            said = Verdict.UNSTABLE  # the other crawler names pages by what it knows
        if said is None and any(reason.is_door for reason in audit.match.rules):
            said = Verdict.DIFFERS  # it is open here; what may be an act is not asked for again
        if said is None:
            waiting = self._waiting.setdefault(page.fingerprint, [])
            waiting.append((audit, found))
            if len(waiting) == 1:
                self.frontier.begin("verdict", site_of(page.url), self._fetch_again(page))
        else:
            self._say(audit, said)

    async def _fetch_again(self, page: Page) -> None:
        """Decide about all audits that wait for *page*: by one fetch if they agree, else by two."""
        waiting = self._waiting[page.fingerprint]
        try:
            now = after = await self._shown(page)
            waiting[:] = [each for each in waiting if not self._agrees(page, *each, now)]
            if waiting and now is not None and now.blocks is not None:
                after = await self._shown(page, at_once=True)
        finally:
            del self._waiting[page.fingerprint]
        for audit, found in waiting:
            if found.response is None and now is not None and self._is_restless(page.url):
                found = await self._shown_at(Request(found.url)) or found
            said, has_changed = self._compared(page, found, now, after)
            self._say(audit, said)
            if said is Verdict.UNSTABLE and has_changed:
                self.suppression.representative_changed(page)
        self._learn(page, now, after)

    def _agrees(self, page: Page, audit: Audit, found: Shown, now: Shown | None) -> bool:
        said, _ = self._compared(page, found, now, now)
        if said is Verdict.AGREES:
            self._say(audit, said)
        return said is Verdict.AGREES

    def _compared(
        self, page: Page, found: Shown, now: Shown | None, after: Shown | None
    ) -> tuple[Verdict, bool]:
        """Compare a page with its representative up to what that changes between two fetches.

        Return the verdict, and whether the representative shows something else now.
        """
        before, site = self._stored(page), site_of(page.url)
        first, second = now and now.blocks, after and after.blocks
        moved = self.names.units(site).moved(first, second) if first and second else set()

        def is_same(one: Shown, other: Shown) -> bool | None:
            return self._is_same(one, other, moved, at_once=one is found)

        again, key_of = (now, after), self.keys.cluster_of
        said = verdict(before, found, again, key_of=key_of, is_same=is_same) or Verdict.UNSTABLE
        if now and said is Verdict.DIFFERS and self.names.is_shared(site, now.blocks, page.url):
            said = Verdict.UNSTABLE  # what many URLs show may be an outage
        return said, bool(now and before.content and is_same(before, now) is False)

    def _learn(self, page: Page, now: Shown | None, after: Shown | None) -> None:
        known = self.names.page(page.fingerprint)
        if known is None or now is None or not now.blocks:
            return
        if after and after is not now and after.blocks:
            self.names.learn(site_of(page.url), known.family, now.blocks, after.blocks)
        self.names.learn_late(known, now.blocks)

    def _say(self, audit: Audit, said: Verdict, note: str = "") -> None:
        if said is Verdict.AGREES:
            self.agreed.add(audit.match.keys.fingerprint)
            self.frontier.count("learned/audits_agreed")
            self.audits.agreed(audit)
            return
        if said is Verdict.UNSTABLE:
            self.frontier.count("learned/audits_unstable")
        else:
            self.has_differed = True
            self.frontier.count("learned/audits_differed")
            other = audit.match.page.url or "its twin"
            note = note or f"other content than {other}: {audit.url}"
            self.registry.contradicted(audit.match.rules, note)
        # Last: a full disk refuses it, and the rule has to go all the same.
        self.audits.ended(audit)

    def _contradicted(self, site: str) -> None:
        """Fetch pages again that rules make one and that have two names: a name may be wrong."""
        asked = 0
        for page, found in self.pages.contradictions(site):
            one, other = page.url, found.url
            names, reasons = self.keys.keys_of(other), self.registry.between(other, page)
            if names is None or not reasons or (one, other) in self._asked:
                continue
            self._asked.add((one, other))
            match = Match(names._replace(fingerprint=b""), page, reasons)
            self.page(Audit(match, other), self._stored(found))
            asked += 1
            if asked == _MOST_CONTRADICTIONS:
                return

    # --- pages that are fetched again -------------------------------------------------------

    def _stored(self, page: Page, url: str = "") -> Shown:
        shown = self.names.page(page.fingerprint)
        return Shown(url or page.url, page.content, blocks=shown.blocks if shown else None)

    async def _shown(self, page: Page, *, at_once: bool = False) -> Shown | None:
        """Return what the URL of a page shows now: its request is sent again as it was."""
        known = self.names.page(page.fingerprint)
        request = self.frontier.unpack(known.request) if known and known.request else None
        return await self._shown_at(request or Request(page.url), at_once=at_once)

    async def _shown_at(self, request: Request, *, at_once: bool = False) -> Shown | None:
        shown = await self.frontier.fetch_again(request, at_once=at_once)
        if shown is None:
            return None
        content, blocks = shown
        if content is not None and blocks is not None:
            name = self.names.units(site_of(request.url)).name(blocks, ())
            content = content._replace(bag_digest=name)
        return Shown(request.url, content, blocks=blocks)

    def _is_restless(self, url: str) -> bool:
        return bool(self.names.units(site_of(url)).different)

    def _is_same(
        self, one: Shown, other: Shown, moved: Collection[Unit] = (), *, at_once: bool = False
    ) -> bool | None:
        """Whether two fetches show the same but for what changes by itself; ``None``: unknown.

        That is what pairs have shown to, and what has *moved* in the last one. Of two fetches *at
        once* what tells the time may have gone on in between, which proves nothing.
        """
        if same_content(one.content, other.content):
            return True
        if not one.blocks or not other.blocks:
            return False
        units, out = self.names.units(site_of(other.url)), set(moved)
        for url in (one.url, other.url):
            out |= units.left_out(family_of(url))
        is_same = units.same(one.blocks, other.blocks, out | units.timed)
        if at_once and is_same:
            return units.same(one.blocks, other.blocks, out) or None
        return is_same

    async def _unchanged(self, page: Page) -> Shown | None:
        now = await self._shown(page)
        return now if now is not None and self._is_same(self._stored(page), now) else None

    async def recheck(self, pages: Sequence[Page]) -> None:
        """Fetch one of some representatives with one content again: it may have been an outage."""
        if await self._unchanged(pages[0]) is None:
            for page in pages:
                self.suppression.representative_changed(page)

    async def answer(self, asked: Asked) -> None:
        """Find out what `Families` wants to know, and answer it."""
        is_endless = False
        if (now := await self._unchanged(asked.page)) is not None:
            if asked.other is None:
                is_endless = True
            else:
                other = Page(self.keys.fingerprint(Request(asked.other)), asked.other, None, 0)
                beside = await self._shown(other)
                is_endless = beside is not None and not self._is_same(beside, now)
        asked.answer(is_endless)

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
            page, names = self.pages.get(doubt.page), self.keys.keys_of(doubt.url)
            if page is None or names is None:
                self.aliases.reject(doubt.pattern, f"other content: {doubt.url}")
                continue
            found = Shown(doubt.url, content if keys is None or doubt.key in keys else None)
            if (arrived := self.pages.get(doubt.key)) is not None:
                found = self._stored(arrived, doubt.url)
            names = names._replace(fingerprint=b"")  # it is no request in flight
            match = Match(names, page, (Reason(doubt.pattern, doubt.pattern.support),))
            self.page(Audit(match, doubt.url), found)
