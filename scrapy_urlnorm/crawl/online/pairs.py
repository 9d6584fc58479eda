"""Pairs: which pages are fetched twice, to learn what of them changes by itself.

At once: the 2nd, 6th and 20th page of a family, right after it came. Late: pages that arrived long
ago, at 40, 64, 102, ... pages. What a late fetch finds to be new is fetched once more, at once.
On a site that holds still there are few of them. The share of pages that are fetched twice has a
limit; small sites are left alone. The many sites of a broad crawl share what is fetched in advance;
what a site has earned by its own pages no other can use up.

On a site whose pages change by themselves, two fetches of one page have two names until pairs have
shown what changes there. Such a page would contradict rules that are right. So it waits (`Arrivals`)
until its name is settled, and speaks for rules and page aliases only then.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.crawl.online.safe_points import STEPS, Work
from scrapy_urlnorm.crawl.online.whole_pages import Shown, shown_in_crawl
from scrapy_urlnorm.learning.media import looks_like_an_act
from scrapy_urlnorm.logs.differences import family_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scrapy.http import Response

    from scrapy_urlnorm.crawl.frontier import CrawlFrontier, Fetches
    from scrapy_urlnorm.crawl.online.aliases import Said
    from scrapy_urlnorm.crawl.online.audits import Audit
    from scrapy_urlnorm.crawl.online.names import Arrived, Names
    from scrapy_urlnorm.crawl.online.tables import Page
    from scrapy_urlnorm.crawl.online.whole_pages import WholePages
    from scrapy_urlnorm.crawl.requests import Asked
    from scrapy_urlnorm.logs.page_identity import Identity

#: No page is fetched twice on a site with fewer pages than this.
LEAST_PAGES = 40
#: Fetches beyond the share of the pages, at the start: one more for each so many pages.
ADVANCE, _PAGES_OF_ADVANCE = 8, 10
#: Which pages of a family are fetched again.
_OF_FAMILY = (2, 6, 20, 60, 180)
#: So many pairs without a difference: the site holds still, and one page in so many is fetched again.
_STILL, _ONE_IN = 6, 1_000
#: How much farther apart late fetches are each time, and on a site that holds still.
_FARTHER, _FARTHER_STILL = 1.6, 4.0
_MAX_FAMILIES = 10_000
#: Pages of one site that wait; the oldest speaks with the name that it has.
MAX_WAITING = 1_000


@dataclass(eq=False)
class Pairs:
    """Fetches pages again, and has `Names` learn from it. *share* of the pages is the limit."""

    names: Names
    whole_pages: WholePages
    frontier: CrawlFrontier
    share: float

    def __post_init__(self) -> None:
        self._families: Counter[str] = Counter()
        self._pairs: Counter[str] = Counter()  # that were asked for, by family
        self._under_way: Counter[str] = Counter()  # of these, by site
        self._fetched: Counter[str] = Counter()  # by site
        self._pages = self._all_fetched = 0  # of all sites
        self._late_at: dict[str, int] = {}

    def arrived(self, asked: Asked, shown: Shown) -> None:
        """Take note of a page; fetch it again, or another one, if that may teach something."""
        site, family = asked.site, family_of(asked.url)
        if len(self._families) < _MAX_FAMILIES:
            self._families[family] += 1
        pages = self.names.count(site)
        self._pages += 1
        if not self.share or pages < LEAST_PAGES or not self._has_room(site, pages):
            return
        if self._may_fetch(site, pages) and self._is_wanted(site, family, pages):
            if not looks_like_an_act(asked.url) and not shown.has_expiring_links:
                self._pairs[family] += 1
                self._under_way[site] += 1
                self._fetch(site, self._pair(asked, family, shown))
            return
        is_still = not self.names.units(site).different
        farther = _FARTHER_STILL if is_still else _FARTHER
        if pages >= farther * self._late_at.get(site, 0):
            self._late_at[site] = pages
            for share in (0.3,) if is_still else (0.0, 0.3):
                page = self.names.nth(site, share)
                if page is not None and page.request and self._may_ask_again(page):
                    self._fetch(site, self._late(page))

    def _fetch(self, site: str, job: Fetches[None]) -> None:
        self._fetched[site] += 1
        self._all_fetched += 1
        self.frontier.fetch("pair", site, job)

    def _may_ask_again(self, page: Arrived) -> bool:
        shown = Shown(page.url, None, self.whole_pages.get(page.fingerprint))
        return not looks_like_an_act(page.url) and not shown.has_expiring_links

    def _may_fetch(self, site: str, pages: int) -> bool:
        advance = min(ADVANCE, 1 + (pages - LEAST_PAGES) // _PAGES_OF_ADVANCE)
        return self._fetched[site] < advance + self.share * pages

    def _has_room(self, site: str, pages: int) -> bool:
        if self._fetched[site] + 1 <= self.share * pages:
            return True
        others = self._all_fetched - self._fetched[site]
        return others <= ADVANCE + self.share * (self._pages - pages)

    def _is_wanted(self, site: str, family: str, pages: int) -> bool:
        units, pairs = self.names.units(site), self._pairs[family]
        total = sum(units.pairs.values()) + self._under_way[site]
        if total >= _STILL and not units.different:
            return pages >= _ONE_IN * (total - _STILL + 1)
        return pairs < len(_OF_FAMILY) and self._families[family] >= _OF_FAMILY[pairs]

    def _pair(self, asked: Asked, family: str, first: Shown) -> Fetches[None]:
        try:
            yield from self._at_once(asked, family, first)
        finally:
            self._under_way[asked.site] -= 1

    def _at_once(self, asked: Asked, family: str, first: Shown) -> Fetches[None]:
        second = _shown(asked.url, (yield asked, True))
        if self.names.learn(family, first, second):
            self.whole_pages.learn(first, second)

    def _late(self, page: Arrived) -> Fetches[None]:
        asked = self.frontier.unpack(page.request) if page.request else None
        if asked is None:
            return
        second = _shown(asked.url, (yield asked, False))
        self.whole_pages.learn(self.whole_pages.shown(page.fingerprint), second, is_late=True)
        if second.blocks is not None and self.names.learn_late(page, second.blocks):
            yield from self._at_once(asked, page.family, second)


def _shown(url: str, response: Response | None) -> Shown:
    content, blocks = (None, None) if response is None else shown_in_crawl(response)
    return Shown(url, content, response, blocks)


class Arrival(NamedTuple):
    """A page that arrived, and what it says besides its content."""

    site: str
    url: str
    fingerprint: bytes
    status: int
    content: Identity | None  #: as it was named on arrival
    is_evidence: bool  #: whether it may speak for rules
    said: Said
    page: Page | None  #: if it may be a representative
    audit: Audit | None
    steps: int  #: how long it takes to name it, see `names.steps_of`
    original: bytes | None  #: fingerprint of the page of which it declares to be a copy
    leading: str  #: the URL of the page that led to it; "" where that is not known


class Arrivals:
    """Pages that wait for their names."""

    def __init__(self, names: Names, tell: Callable[[Arrival], None]) -> None:
        self._names, self._tell = names, tell
        self._waiting: dict[str, list[Arrival]] = {}
        self._due: dict[str, list[Arrival]] = {}  # that wait for a safe point as well

    def add(self, arrival: Arrival) -> None:
        """Have a page wait, or speak at once; of too many that wait the oldest one does."""
        waiting = self._waiting.setdefault(arrival.site, [])
        waiting.append(arrival)
        last = len(waiting) - 1
        self._look_at(arrival.site, [0, last] if last >= MAX_WAITING else [last])

    def settle(self, *, is_last: bool = False) -> None:
        """Look at the pages of sites of which more is known; at all, if it *is_last*."""
        more, self._names.news = self._names.news, {}
        for site in list(self._waiting) if is_last else more:
            self._look_at(site, range(len(self._waiting.get(site, ()))), is_last=is_last)

    def _look_at(self, site: str, places: Sequence[int], *, is_last: bool = False) -> None:
        """Tell of the pages at these *places* whose names are settled by now.

        To name many long pages takes so long that it is done in steps, at a safe point.
        """
        waiting = self._waiting.get(site, [])
        settled, last = [], len(waiting) - 1
        for place in reversed(places):
            is_due = is_last or last - place >= MAX_WAITING
            if is_due or self._names.is_settled(site, waiting[place].url):
                settled.append(waiting[place])
                del waiting[place]
        if not waiting:
            self._waiting.pop(site, None)
        if not settled:
            return
        settled.reverse()
        if site not in self._due and sum(each.steps for each in settled) <= STEPS:
            for arrival in settled:
                self._tell_of(arrival)
            return
        self._due.setdefault(site, []).extend(settled)
        points = self._names.safe_points
        if not points.has(site, Work.PAGES):
            points.put(site, Work.PAGES, self._tell_of_due(site))

    def _tell_of_due(self, site: str) -> Iterator[None]:
        while due := self._due[site]:
            arrival = due.pop(0)
            self._tell_of(arrival)
            yield from repeat(None, arrival.steps)
        del self._due[site]

    def _tell_of(self, arrival: Arrival) -> None:
        if self._names.units(arrival.site).different:
            content = self._names.settle(arrival.fingerprint) or arrival.content
            arrival = arrival._replace(content=content)
        self._tell(arrival)
