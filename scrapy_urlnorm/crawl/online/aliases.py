"""PageAliases: what pages say about their own other names, and which of it holds in this crawl.

`scrapy_urlnorm.learning.aliases` decides what to believe. Here it learns which pages arrived, and
requests learn which page represents them: the one that named them, and has arrived.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from scrapy.http import HtmlResponse

from scrapy_urlnorm.crawl.online.tables import Reason
from scrapy_urlnorm.crawl.requests import site_of
from scrapy_urlnorm.learning.aliases import Link, SiteAliases, permalink, shortlink
from scrapy_urlnorm.logs.page_identity import FILE, MAX_BYTES, canonical_of
from scrapy_urlnorm.logs.self_links import names_of
from scrapy_urlnorm.masking import placeholders
from scrapy_urlnorm.text import logger_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from scrapy.http import Response

    from scrapy_urlnorm.crawl.frontier import CrawlFrontier
    from scrapy_urlnorm.crawl.online.keys import ClusterKeys, Keys
    from scrapy_urlnorm.crawl.online.tables import Page, Pages
    from scrapy_urlnorm.crawl.requests import Asked
    from scrapy_urlnorm.learning.aliases import Alias, Doubt, Pattern
    from scrapy_urlnorm.logs.page_identity import Identity
    from scrapy_urlnorm.stores.sqlite import Database

logger = logger_of(__name__)

_TABLE = "CREATE TABLE IF NOT EXISTS alias_site (site TEXT PRIMARY KEY, state TEXT NOT NULL);"
#: Sites, and names of all sites, that are remembered. Sites with accepted patterns are kept.
MAX_SITES = 1_000
MAX_NAMES = 200_000


class Said(NamedTuple):
    """What a page says about its names."""

    site: str
    keys: tuple[bytes, ...]  #: of the URLs that redirected to it, and its own
    links: list[tuple[bytes, Link]]  #: its other names
    counts: bool  #: whether its content will be compared


_NOTHING = Said("", (), [], counts=False)


@dataclass(eq=False)
class PageAliases:
    """The aliases of all sites of a crawl.

    What is known is written down at the end of a run, and taken out when the next begins. So a run
    after a kill learns anew: what is written down may be older than what refuted it.
    """

    keys: ClusterKeys
    pages: Pages
    database: Database
    frontier: CrawlFrontier

    def __post_init__(self) -> None:
        self._sites: dict[str, SiteAliases] = {}
        self._names = 0  # of all sites
        #: Told of patterns whose aliases hold no more, and of the keys of names that pages with
        #: different contents claim.
        self.on_dead: Callable[[Pattern], None] = lambda _: None
        self.on_contested: Callable[[Keys], None] = lambda _: None
        self.database.ensure(_TABLE)

    def begin(self) -> None:
        rows = self.database.read("SELECT site, state FROM alias_site")
        self.database.write("DELETE FROM alias_site")
        for name, state in rows:
            try:
                site = SiteAliases.from_state(name, json.loads(state))
            except (LookupError, TypeError, ValueError) as error:
                logger.warning(
                    "What an earlier run learned of page aliases of %(site)s cannot be read and is "
                    "learned anew: %(error)r",
                    {"site": name, "error": error},
                )
                continue
            self._sites[name] = site
            self._names += len(site)
            if next(site.accepted(), None) is not None:
                self.keys.give_keys(name, has_aliases=True)

    def keep(self) -> None:
        rows = [(site, json.dumps(aliases.state)) for site, aliases in self._sites.items()]
        self.database.write_many("INSERT OR REPLACE INTO alias_site VALUES (?, ?)", rows)

    # --- reading a page ---------------------------------------------------------------------

    def read(self, asked: Asked, response: Response) -> Said:
        """Read what the page in *response* says about its names."""
        if not self.keys.by_url:
            return _NOTHING
        site = asked.site
        links = self._links(asked.url, site, response)
        known = self._sites.get(site)
        if known is None:
            if not links:
                return _NOTHING
            known = self._new_site(site)
        links += known.beside(asked.url)
        keys = tuple(map(self.keys.fingerprint_of, (*asked.redirects, asked.url)))
        open_links = [link for link in links if known.is_open(link.look)]
        keyed = [(self.keys.fingerprint_of(link.url), link) for link in open_links]
        others = [(key, link) for key, link in keyed if key != keys[-1]]
        counts = bool(keyed) or any(map(known.is_named, keys))
        return Said(site, keys, others, counts)

    def _links(self, page: str, site: str, response: Response) -> list[Link]:
        if not isinstance(response, HtmlResponse) or len(response.body) > MAX_BYTES:
            return []
        found, short = names_of(response)
        links = [permalink(page, url, name) for url, name in found if site_of(url) == site]
        canonical = page if short is None else canonical_of(response) or page
        if self.keys.fingerprint_of(canonical) != self.keys.fingerprint_of(page):
            short = None  # it is that of another page, which is what this one repeats
        link = None if short is None else shortlink(page, short)
        return links if link is None else [*links, link]

    def _new_site(self, site: str) -> SiteAliases:
        for other, aliases in tuple(self._sites.items()):
            if len(self._sites) < MAX_SITES and self._names < MAX_NAMES:
                break
            if next(aliases.accepted(), None) is None:
                self._names -= len(self._sites.pop(other))
        return self._sites.setdefault(site, SiteAliases(site))

    # --- votes ------------------------------------------------------------------------------

    def arrived(self, said: Said, content: Identity | None, page: Page | None) -> list[Doubt]:
        """Take note of the *content* of what said so, and of *page* if it may represent others.

        Return the doubts about accepted patterns that came of it.
        """
        site = self._sites.get(said.site)
        if site is None or content is None or not said.counts:
            return []
        name = content.name
        doubts: list[Doubt] = []
        if page is not None and _names(content) and said.links and self._names < MAX_NAMES:
            before = len(site)
            place = page.fingerprint, page.url
            doubts, contested = site.names(place, name, said.links, self._content_of)
            self._names += len(site) - before
            for keys in filter(None, map(self.keys.keys_of, contested)):
                self.on_contested(keys)
        for key in said.keys:
            doubts += site.arrives(key, name)
        self._tell_of_news(site)
        return doubts

    def ended_elsewhere(self, asked: Asked, content: Identity | None) -> list[Doubt]:
        """Take note that a request led to *content* without a page of its own.

        It was redirected to a page that had arrived, or (``None``) there is no such page.
        """
        site = self._sites.get(asked.site)
        if site is None:
            return []
        name = None if content is None else content.name
        keys = map(self.keys.fingerprint_of, (*asked.redirects, asked.url))
        doubts = [doubt for key in keys for doubt in site.arrives(key, name)]
        self._tell_of_news(site)
        return doubts

    def _content_of(self, fingerprint: bytes) -> str | None:
        page = self.pages.get(fingerprint)
        return page.content.name if page and page.content and _names(page.content) else None

    def _tell_of_news(self, site: SiteAliases) -> None:
        news, site.news = site.news, []
        for pattern in news:
            has_patterns = next(site.accepted(), None) is not None
            self.keys.give_keys(site.site, has_aliases=has_patterns)
            if pattern.is_dead:
                self.frontier.count("learned/aliases_retracted")
                self.frontier.count("learned/retracted")
                note = " ".join(placeholders(pattern.note.split(" ")))
                arguments = {"pattern": pattern, "note": note}
                logger.info("Retracted: %(pattern)s (%(note)s)", arguments)
                self.on_dead(pattern)
            else:
                self.frontier.count("learned/aliases")
                self.frontier.count("learned/rules")
                logger.info(
                    "Learned from what pages say of themselves: %(evidence)s",
                    {"evidence": in_words(pattern)},
                )

    # --- what holds -------------------------------------------------------------------------

    def alias(self, keys: Keys, url: str) -> Alias | None:
        """Return which page a request for *url* asks for by another name, and the pattern that says so.

        A name that rules change counts as what they make of it too.
        """
        site = self._sites.get(keys.site)
        if site is None:
            return None
        found = site.alias(keys.fingerprint)
        if found is None and not keys.is_plain:
            fingerprint = self.keys.fingerprint_of_cluster(keys.site, url)
            found = None if fingerprint is None else site.alias(fingerprint)
        return found

    def reasons(self, site: str | None = None) -> Iterator[Reason]:
        for name in self._sites if site is None else (site,):
            if (known := self._sites.get(name)) is not None:
                for pattern in known.accepted():
                    yield Reason(pattern, pattern.support)

    def reject(self, pattern: Pattern, note: str) -> None:
        site = self._sites.get(pattern.site)
        if site is not None and not pattern.is_dead:
            site.kill(pattern, note)
            self._tell_of_news(site)

    def renamed(self, site: str, names: Mapping[str, str]) -> None:
        if (known := self._sites.get(site)) is not None:
            known.rename(names)

    def begin_anew(self, site: str) -> None:
        """Forget what was learned of *site*: its pages turned out to change by themselves."""
        if (known := self._sites.get(site)) is not None:
            self._names -= len(known)
            self.keys.give_keys(site, has_aliases=False)
            self._sites[site] = anew = SiteAliases(site)
            anew.is_restless = True

    def forget_all(self) -> None:
        for site in self._sites:
            self.keys.give_keys(site, has_aliases=False)
        self._sites.clear()
        self._names = 0


def _names(content: Identity) -> bool:
    """Whether a content has a name that another fetch has too: that of a file, or of what is read."""
    return content.kind == FILE or content.bag_digest is not None


def in_words(pattern: Pattern) -> str:
    """Say what an accepted pattern holds for, on what evidence, with examples; secrets masked."""
    urls = placeholders(url for pair in pattern.examples for url in pair)
    pairs = zip(urls[::2], urls[1::2], strict=True)
    examples = ", ".join(f"{name} is {page}" for name, page in pairs)
    return f"{pattern} ({pattern.support} contents agree; for example {examples})"
