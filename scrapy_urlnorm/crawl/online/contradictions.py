"""Contradictions: pages that arrived, that rules make one, and that seem to be two; or the reverse.

Mining compares the names of pages, pages name others, and the spider gets things out of them. None
of this is a verdict: the pages are fetched again, a few of a site, and `Verdicts` decides.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING

from scrapy_urlnorm.crawl.online.audits import Audit
from scrapy_urlnorm.crawl.online.keys import Keys
from scrapy_urlnorm.crawl.online.tables import Match, Page, Reason
from scrapy_urlnorm.crawl.online.verdicts import Verdict
from scrapy_urlnorm.crawl.online.whole_pages import Shown
from scrapy_urlnorm.crawl.online.yields import Other

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from scrapy_urlnorm.crawl.online.aliases import PageAliases
    from scrapy_urlnorm.crawl.online.keys import ClusterKeys
    from scrapy_urlnorm.crawl.online.names import Names
    from scrapy_urlnorm.crawl.online.rules import RuleRegistry
    from scrapy_urlnorm.crawl.online.suppression import Suppression
    from scrapy_urlnorm.crawl.online.tables import Pages
    from scrapy_urlnorm.crawl.online.verdicts import Verdicts
    from scrapy_urlnorm.crawl.online.whole_pages import WholePages
    from scrapy_urlnorm.crawl.online.yields import Yields
    from scrapy_urlnorm.crawl.requests import Asked
    from scrapy_urlnorm.learning.aliases import Doubt
    from scrapy_urlnorm.logs.page_identity import Identity

#: Pairs of pages that are fetched again where mining finds that rules are contradicted; and of a
#: site, that keep rules from being learned, beyond those that agreed.
_MOST_CONTRADICTIONS, _MOST_UNDECIDED = 2, 2
#: Pairs of a site that arrived before rules made them one: compared as a whole, and fetched again.
#: The latter of all sites are no more than those of one, and one for so many pages that arrived.
_MOST_COMPARED, _MOST_DOUBTED, _PAGES_A_DOUBT = 200, 4, 100
_MOST_SEEN = 100_000  #: such pairs of all sites
_BYTES_A_STEP = 2_000  #: of a page that is read as a whole


@dataclass(eq=False)
class Contradictions:
    """Has pages fetched again where what is known of them contradicts rules, or keeps them out."""

    keys: ClusterKeys
    pages: Pages
    aliases: PageAliases
    names: Names
    whole_pages: WholePages
    yields: Yields
    registry: RuleRegistry
    suppression: Suppression
    verdicts: Verdicts

    def __post_init__(self) -> None:
        self._asked: set[tuple[str, str]] = set()  # pairs of URLs
        self._undecided_of: Counter[str] = Counter()  # of these, for rules not in force, by site
        self._doubted_of: Counter[str] = Counter()  # for rules in force
        self._seen: set[bytes] = set()  # pairs of pages that were compared as a whole
        self._seen_of: Counter[str] = Counter()  # and how many of a site
        #: Pairs of pages that gave the spider other things, and that were fetched again for that.
        self._compared: set[bytes] = set()
        self.registry.on_undecided = self._undecided
        self.suppression.on_keyed = self._keyed

    def _undecided(self, site: str, pairs: Sequence[tuple[str, str]]) -> None:
        """Fetch pages again that keep a rule from being learned: one of two may have changed."""
        left = _MOST_UNDECIDED + self.verdicts.paired[site] - self._undecided_of[site]
        for urls in pairs[:left]:
            known = [self.names.page(self.keys.fingerprint_of(url)) for url in urls]
            rows = sorted(filter(None, known))
            pages = [page for row in rows if (page := self.pages.get(row.fingerprint)) is not None]
            if len(pages) < 2 or urls in self._asked:
                continue
            self._asked.add(urls)
            self._undecided_of[site] += 1
            page, other = pages
            keys = Keys(site, b"", other.fingerprint)  # it is no request in flight
            audit = Audit(Match(keys, page, ()), other.url, needs_proof=True)
            self.verdicts.page(audit, self.verdicts.stored(other))

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
                found = self.verdicts.stored(arrived, doubt.url)
            match = Match(names, page, (Reason(doubt.pattern, doubt.pattern.support),))
            self.verdicts.page(_of_arrived(match, doubt.url), found)

    def got(self, asked: Asked) -> None:
        """Compare what the spider got out of a page with what it got out of its representative."""
        match = self.suppression.match(asked, self.keys.keys(asked))
        if match is not None:
            self._compare_yields(match, asked.url)

    def scraped(self, asked: Asked) -> None:
        """Have a page of which the pipelines took an item be another one than its representative.

        So if they dropped one of that: the URL decides. What is dropped because the pipeline had it
        already is dropped of both.
        """
        match = self.suppression.match(asked, self.keys.keys(asked))
        if match is not None and match.page.fingerprint in self.yields.dropped:
            self._differs(match, asked.url, Other(b"", b"", "a pipeline took another item", ()))

    def _compare_yields(self, match: Match, url: str) -> bool:
        """Find out whether the spider got the same things out of a page and its representative.

        If not, and no difference of the pages is where that comes from, it comes of what is no part
        of them: they are no duplicates. Else fetches one after the other decide, with their layout.
        Return whether these are under way.
        """
        pair = match.page.fingerprint[:8] + match.keys.fingerprint[:8]
        other = self.yields.differ(match.page.fingerprint, match.keys.fingerprint)
        if other is None or pair in self._compared:
            return False
        here = self.pages.get(match.keys.fingerprint) or Page(match.keys.fingerprint, url, None, 0)
        shown = {
            each.fingerprint: self.verdicts.stored(each, with_layout=True)
            for each in (here, match.page)
        }
        later, earlier = shown[other.later], shown[other.earlier]
        if later.whole is None or earlier.whole is None:
            is_of_page = not self.whole_pages.same(later, [earlier])
        else:
            is_of_page = other.may_come_of(later.whole, earlier.whole)
        if is_of_page:
            self._compared.add(pair)
            self.verdicts.page(_vetoed(match, url, other), shown[here.fingerprint])
            return True
        self._differs(match, url, other)
        return False

    def _differs(self, match: Match, url: str, veto: Other) -> None:
        """Have a page and its representative be two, for what is no part of them."""
        self.names.set_apart(match.keys.fingerprint)
        self.verdicts.agreed.discard(match.keys.fingerprint)
        self.verdicts.say(_vetoed(match, url, veto), Verdict.DIFFERS)

    def _keyed(self, site: str) -> Iterator[None]:
        """Compare pages that arrived before rules made them one, and what the spider got out of them."""
        left = _MOST_CONTRADICTIONS
        for page, found in self.pages.together(site):
            yield
            may_differ = bool(left) and self.yields.may_differ(page.fingerprint, found.fingerprint)
            is_due = self._is_due(site, page, found)
            match = self._match(site, page, found.url) if may_differ or is_due else None
            if match is None:
                continue
            if may_differ and self._compare_yields(match, found.url):
                left -= 1
            elif is_due:
                shown = self.verdicts.stored(page), self.verdicts.stored(found)
                yield from self._compare(match, *shown)

    def _compare(self, match: Match, page: Shown, found: Shown) -> Iterator[None]:
        """Have two pages fetched again that differ as a whole. Long ones are as many steps as that takes."""
        for each in (page, found):
            _ = each.whole
            body = b"" if each.response is None else each.response.body
            yield from repeat(None, len(body) // _BYTES_A_STEP)
        if self.verdicts.seem_two(page, found):
            self._doubted_of[match.keys.site] += 1
            self.verdicts.page(_of_arrived(match, found.url), found)

    def _is_due(self, site: str, page: Page, found: Page) -> bool:
        """Whether pages of one name are to be compared as a whole, for the first time.

        What the names are made of does not say where a link leads, for instance.
        """
        pair, seen = page.fingerprint[:8] + found.fingerprint[:8], self._seen
        if page.vote != found.vote or pair in seen:
            return False
        if self._seen_of[site] >= _MOST_COMPARED or len(seen) >= _MOST_SEEN:
            return False
        most = _MOST_DOUBTED + self.pages.last // _PAGES_A_DOUBT
        if self._doubted_of[site] >= _MOST_DOUBTED or self._doubted_of.total() >= most:
            return False
        seen.add(pair)
        self._seen_of[site] += 1
        return True

    def _match(self, site: str, page: Page, url: str) -> Match | None:
        keys, reasons = self.keys.keys_of(url), self.registry.between(site, url, page)
        return Match(keys, page, reasons) if keys is not None and reasons else None


def _of_arrived(match: Match, url: str) -> Audit:
    keys = match.keys._replace(fingerprint=b"")  # it is no request in flight
    return Audit(match._replace(keys=keys), url)


def _vetoed(match: Match, url: str, other: Other) -> Audit:
    return _of_arrived(match, url)._replace(needs_proof=True, veto=other)
