"""Pages: the pages that arrived, as far as other requests may be withheld behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.crawl.live.eligible import depth_of
from scrapy_urlnorm.crawl.live.ledger import Page
from scrapy_urlnorm.crawl.sites import site_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from scrapy_urlnorm.crawl.live.file_uses import FileUses
    from scrapy_urlnorm.crawl.live.frontier import Frontier
    from scrapy_urlnorm.crawl.live.ledger import Ledger
    from scrapy_urlnorm.crawl.live.register import Keys, Register
    from scrapy_urlnorm.crawl.merges import Reason
    from scrapy_urlnorm.learning.aliases import Alias, Pattern
    from scrapy_urlnorm.logs.page_identity import Identity

#: Sites, and pages of all sites, that are remembered before there is a rule.
MAX_SITES = 10_000
MAX_PAGES = 500_000


class Witness(NamedTuple):
    """A page that a request may be withheld behind."""

    page: Page
    pattern: Pattern | None  #: by which the page named the request; ``None`` if rules make them one


class Pages:
    """Finds witnesses, and bounds how many pages are remembered.

    *find_alias* returns which page named a request. *max_of_site* bounds the pages of one site. *depth_limit* is Scrapy's ``DEPTH_LIMIT``, 0 for
    none.
    """

    def __init__(
        self,
        register: Register,
        ledger: Ledger,
        frontier: Frontier,
        find_alias: Callable[[Keys, Request], Alias | None],
        file_uses: FileUses,
        *,
        max_of_site: int,
        depth_limit: int,
    ) -> None:
        self._register = register
        self._ledger = ledger
        self._frontier = frontier
        self._find_alias = find_alias
        self._file_uses = file_uses
        self._max_of_site = max_of_site
        self._depth_limit = depth_limit
        self._counts = ledger.count_pages()  # by site
        self._total = sum(self._counts.values())
        #: Sites in the order in which their pages came, without those that have rules.
        self._forgettable = dict.fromkeys(self._counts)

    def witness(self, keys: Keys, request: Request) -> Witness | None:
        """Return a page that *request* may be withheld behind.

        That is one with its learned key, or else the page that named it.
        """
        page = None
        if not keys.is_plain:
            page = self._ledger.witness(keys.learned, keys.own)
            page = page or self._frontier.shared_witness(keys)
        if page is not None and self.is_witness(page, request):
            return Witness(page, None)
        alias = self._find_alias(keys, request)
        if alias is None:
            return None
        page = self._ledger.page(alias.page)
        if page is None or page.own == keys.own or not self.may_stand_for(page, request):
            return None
        return Witness(page, alias.pattern)

    def is_witness(self, page: Page, request: Request) -> bool:
        """Return whether the rules may withhold *request* behind a page with its learned key."""
        rules = self._register.between(request.url, page.url)
        return self._file_uses.allow(page, rules) and self.may_stand_for(page, request)

    def reasons(self, witness: Witness, request: Request) -> tuple[Reason, ...]:
        """Return the rules, or the pattern of the alias, that make *request* and a page one."""
        if witness.pattern is not None:
            return (witness.pattern,)
        rules = self._register.between(request.url, witness.page.url)
        return self._file_uses.reasons(witness.page, rules)

    def may_stand_for(self, page: Page, request: Request) -> bool:
        """Return whether *page* leads as deep into the site as that of *request* would.

        With ``DEPTH_LIMIT``, a page found nearer to the start has links that are followed farther.
        """
        return not self._depth_limit or depth_of(request) >= page.depth

    def add(self, request: Request, keys: Keys | None, content: Identity | None) -> Page | None:
        """Remember the page of *request*. Return ``None`` if the site has too many already."""
        site = keys.site if keys is not None else site_of(request.url)
        number = self._counts.get(site, 0)
        if number >= self._max_of_site:
            return None
        if number == 0:
            self._make_room()
            self._forgettable[site] = None
        own = keys.own if keys is not None else self._register.own_key(request)
        page = Page(own, request.url, content, depth_of(request))
        learned = keys.learned if keys is not None else None
        self._ledger.add_page(site, learned, page, has_url=self._register.by_url)
        self._counts[site] = number + 1
        self._total += 1
        return page

    def rules_changed(self, site: str) -> None:
        """The rules of *site* have changed: without any, its pages may be forgotten."""
        if site in self._counts and not self._register.has_keys(site):
            self._forgettable[site] = None

    def _make_room(self) -> None:
        """Before a page of a new site: forget the oldest of too many sites without rules.

        A site with rules in force, or with page aliases, keeps its pages.
        """
        while self._forgettable and (len(self._counts) >= MAX_SITES or self._total >= MAX_PAGES):
            site = next(iter(self._forgettable))
            del self._forgettable[site]
            if not self._register.has_keys(site):
                self._total -= self._counts.pop(site, 0)
                self._ledger.forget_pages(site)
