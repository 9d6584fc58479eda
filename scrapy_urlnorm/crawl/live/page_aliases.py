"""PageAliases: what pages say about their own other names, and which of it holds in this crawl.

`scrapy_urlnorm.learning.aliases` decides what to believe. Here it learns which pages arrived, and
requests learn behind which page they may be withheld: the one that named them, and has arrived.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from scrapy.http import HtmlResponse

from scrapy_urlnorm.crawl.sites import site_of
from scrapy_urlnorm.learning.alias_links import Link, permalink, shortlink
from scrapy_urlnorm.learning.aliases import SiteAliases
from scrapy_urlnorm.logs.page_identity import MAX_BYTES
from scrapy_urlnorm.logs.self_links import names_of
from scrapy_urlnorm.masking import placeholders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy import Request
    from scrapy.http import Response

    from scrapy_urlnorm.crawl.live.alias_memory import AliasMemory
    from scrapy_urlnorm.crawl.live.ledger import Ledger, Page
    from scrapy_urlnorm.crawl.live.register import Keys, Register
    from scrapy_urlnorm.learning.aliases import Alias, Doubt, Pattern
    from scrapy_urlnorm.logs.page_identity import Identity

logger = logging.getLogger(__name__)

#: Sites, and names of all sites, that are remembered. Sites with accepted patterns are kept.
MAX_SITES = 1_000
MAX_NAMES = 200_000
#: So many pages of a site that name nobody but themselves are compared all the same: a page that
#: comes later may name them.
_PAGES_ON_TRIAL = 100


class Said(NamedTuple):
    """What a page says about its names."""

    site: str
    keys: tuple[bytes, ...]  #: of the URLs that redirected to it, and its own
    links: list[tuple[bytes, Link]]  #: its other names
    counts: bool  #: whether its content will be compared


_NOTHING = Said("", (), [], counts=False)


class PageAliases:
    """The aliases of all sites of a crawl.

    *memory* has what an earlier run of the crawl learned. *count* adds one to a statistic. *on_dead* is told of patterns whose aliases hold no more, and
    *on_contested* of the keys of names that pages with different contents claim.
    """

    def __init__(
        self,
        register: Register,
        ledger: Ledger,
        memory: AliasMemory,
        *,
        count: Callable[[str], None],
        on_dead: Callable[[Pattern], None],
        on_contested: Callable[[Keys], None],
    ) -> None:
        self._register = register
        self._ledger = ledger
        self._memory = memory
        self._count = count
        self._on_dead = on_dead
        self._on_contested = on_contested
        self._sites: dict[str, SiteAliases] = {}
        self._on_trial: dict[str, int] = {}  # pages compared though they name only themselves
        self._names = 0  # of all sites

    def begin(self) -> None:
        """Go on with what an earlier run of the crawl learned.

        Raises `StoreError` if it cannot be read.
        """
        for site in self._memory.take():
            self._sites[site.site] = site
            self._names += len(site)
            if next(site.accepted(), None) is not None:
                self._register.give_keys(site.site, has_aliases=True)

    def keep(self) -> None:
        """Write down what the next run of the crawl goes on with.

        Raises `StoreError` if it cannot be written.
        """
        self._memory.keep(self._sites.values())

    # --- reading a page ---------------------------------------------------------------------

    def read(self, request: Request, response: Response) -> Said:
        """Read what the page in *response* says about its names."""
        if not self._register.by_url:
            return _NOTHING
        site = site_of(request.url)
        links = self._links(request.url, site, response)
        known = self._sites.get(site)
        if known is None:
            if not links:
                return _NOTHING
            known = self._new_site(site)
        urls = (*request.meta.get("redirect_urls", ()), request.url)
        keys = tuple(map(self._register.own_key_of, urls))
        open_links = [link for link in links if known.is_open(link.look)]
        keyed = [(self._register.own_key_of(link.url), link) for link in open_links]
        others = [(key, link) for key, link in keyed if key != keys[-1]]
        counts = bool(others) or any(map(known.is_named, keys))
        if not counts and keyed:
            counts = self._may_be_named(site, known, keyed[0][1])
        return Said(site, keys, others, counts)

    def _links(self, page: str, site: str, response: Response) -> list[Link]:
        if not isinstance(response, HtmlResponse) or len(response.body) > MAX_BYTES:
            return []
        found, short = names_of(response)
        links = [permalink(page, url, name) for url, name in found if site_of(url) == site]
        link = None if short is None else shortlink(page, short)
        return links if link is None else [*links, link]

    def _may_be_named(self, site: str, known: SiteAliases, link: Link) -> bool:
        """Return whether a page that names only itself may be named by one that comes later."""
        if known.has_open_place(link.look):
            return True
        self._on_trial[site] = number = self._on_trial.get(site, 0) + 1
        return number <= _PAGES_ON_TRIAL

    def _new_site(self, site: str) -> SiteAliases:
        """Begin to learn about a site; forget the oldest ones that have taught nothing."""
        for other, aliases in tuple(self._sites.items()):
            if len(self._sites) < MAX_SITES and self._names < MAX_NAMES:
                break
            if next(aliases.accepted(), None) is None:
                self._names -= len(self._sites.pop(other))
                self._on_trial.pop(other, None)
        return self._sites.setdefault(site, SiteAliases(site))

    # --- votes ------------------------------------------------------------------------------

    def arrived(self, said: Said, content: Identity | None, page: Page | None) -> list[Doubt]:
        """Take note of the *content* of what said so, and of *page* if it may be a witness.

        Return the doubts about accepted patterns that came of it.
        """
        site = self._sites.get(said.site)
        if site is None or content is None or not said.counts:
            return []
        name = content.bag_digest or content.digest
        doubts: list[Doubt] = []
        if page is not None and content.bag_digest and said.links and self._names < MAX_NAMES:
            before = len(site)
            place = page.own, page.url
            doubts, contested = site.names(place, name, said.links, self._content_of)
            self._names += len(site) - before
            self._tell_of_contested(contested)
        for key in said.keys:
            doubts += site.arrives(key, name)
        self._tell_of_news(site)
        return doubts

    def ended_elsewhere(self, request: Request, content: Identity | None) -> list[Doubt]:
        """Take note that *request* led to *content* without a page of its own.

        It was redirected to a page that had arrived, or (``None``) there is no such page.
        """
        site = self._sites.get(site_of(request.url))
        if site is None:
            return []
        name = None if content is None else content.bag_digest or content.digest
        urls = (*request.meta.get("redirect_urls", ()), request.url)
        keys = map(self._register.own_key_of, urls)
        doubts = [doubt for key in keys for doubt in site.arrives(key, name)]
        self._tell_of_news(site)
        return doubts

    def page_at(self, own: bytes) -> Page | None:
        """Return the page that arrived under an own key."""
        return self._ledger.page(own)

    def _content_of(self, own: bytes) -> str | None:
        """Return the content of a page that arrived, where its text was read."""
        page = self._ledger.page(own)
        return None if page is None or page.content is None else page.content.bag_digest

    def _tell_of_contested(self, urls: list[str]) -> None:
        for url in urls:
            keys = self._register.keys_of(url)
            if keys is not None:
                self._on_contested(keys)

    def _tell_of_news(self, site: SiteAliases) -> None:
        news, site.news = site.news, []
        for pattern in news:
            has_patterns = next(site.accepted(), None) is not None
            self._register.give_keys(site.site, has_aliases=has_patterns)
            if pattern.is_dead:
                self._count("learned/aliases_retracted")
                note = " ".join(placeholders(pattern.note.split(" ")))
                arguments = {"pattern": pattern, "note": note}
                logger.info("Took back: %(pattern)s (%(note)s)", arguments)
                self._on_dead(pattern)
            else:
                self._count("learned/aliases")
                logger.info(
                    "Learned from what pages say of themselves: %(evidence)s",
                    {"evidence": in_words(pattern)},
                )

    # --- what holds -------------------------------------------------------------------------

    def alias(self, keys: Keys, request: Request) -> Alias | None:
        """Return which page *request* asks for by another name, and the pattern that says so.

        A name that rules change counts as what they make of it too.
        """
        site = self._sites.get(keys.site)
        if site is None:
            return None
        found = site.alias(keys.own)
        if found is None and not keys.is_plain:
            own = self._register.own_of_learned(request)
            found = None if own is None else site.alias(own)
        return found

    def can_wait(self, keys: Keys, request: Request) -> bool:
        """Return whether the page of *request* is likely to arrive under another name first."""
        site = self._sites.get(keys.site)
        return site is not None and site.can_wait(request.url)

    def accepted(self, site: str) -> Iterator[Pattern]:
        """Return the patterns of *site* by whose aliases requests are withheld."""
        known = self._sites.get(site)
        return iter(()) if known is None else known.accepted()

    def reject(self, pattern: Pattern, note: str) -> None:
        """Take note that a pattern is wrong."""
        site = self._sites.get(pattern.site)
        if site is not None and not pattern.is_dead:
            site.kill(pattern, note)
            self._tell_of_news(site)

    def forget_all(self) -> None:
        """Forget all that was learned: no alias holds any more."""
        for site in self._sites:
            self._register.give_keys(site, has_aliases=False)
        self._sites.clear()
        self._on_trial.clear()
        self._names = 0


def in_words(pattern: Pattern) -> str:
    """Say what an accepted pattern holds for, on what evidence, with examples; secrets masked."""
    urls = placeholders(url for pair in pattern.examples for url in pair)
    pairs = zip(urls[::2], urls[1::2], strict=True)
    examples = ", ".join(f"{name} is {page}" for name, page in pairs)
    return f"{pattern} ({pattern.support} contents agree; for example {examples})"
