"""First crawls of sites made to mislead: mining, audits and bans together, without Scrapy.

The crawl here is a loop: a URL whose learned key a page has already is withheld, or audited. The
fetched rows are mined again and again. In the end, what audits are owed is sent.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.crawl.live.audits import Audits
from scrapy_urlnorm.learning import mine
from tests.simulator import Page, calendar, observations, revisions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_urlnorm.logs import Observation
    from scrapy_urlnorm.site_rules import SiteRule

_PLAIN = Normalizer("default")


class Crawl:
    """One crawl of pages in a given order. ``withheld`` are those never fetched."""

    def __init__(self, *, has_audits: bool = True) -> None:
        self.has_audits = has_audits
        self.rows: list[Observation] = []
        self.withheld: list[Page] = []
        self.audited = 0
        self._audits = Audits()
        self._rules: list[SiteRule] = []
        self._banned: Counter[str] = Counter()
        self._keys = _PLAIN
        self._alone: dict[str, Normalizer] = {}
        self._arrived: dict[str, Page] = {}
        self._pages: list[Page] = []
        self._due = 20

    @property
    def contents(self) -> set[str]:
        return {page.content for page in self._pages}

    def run(self, pages: Iterable[Page]) -> Crawl:
        queue = list(pages)
        while queue:
            for page in queue:
                self._leaves(page)
                if len(self.rows) >= self._due:
                    self._due = int(1.5 * len(self.rows))
                    self._mine()
            queue = [page for page in self.withheld if self._witness(page) is None]
            self.withheld = [page for page in self.withheld if self._witness(page) is not None]
            queue += self._owed() if not queue else []
        return self

    def _witness(self, page: Page) -> Page | None:
        return self._arrived.get(self._keys.normalize(page.url))

    def _leaves(self, page: Page) -> None:
        witness = self._witness(page)
        if witness is None:
            self._fetch(page)
            return
        rules = self._between(page, witness)
        due = self._audits.is_due(rules, page.url, witness.content, witness.url)
        if due and self.has_audits:
            self._audit(page, witness, rules)
        else:
            self.withheld.append(page)

    def _audit(self, page: Page, witness: Page, rules: list[SiteRule]) -> None:
        self.audited += 1
        self._fetch(page)
        if page.content == witness.content:
            self._audits.agreed(rules, witness.content)
            return
        self._audits.undecided(rules, page.url, witness.url)
        blamed = self._audits.to_blame(rules)
        self._banned[blamed.identity] += 50
        self._put_in_force([rule for rule in self._rules if rule != blamed])
        self._mine()

    def _owed(self) -> list[Page]:
        """Send the audits that are owed; return what stands behind no page any more."""
        rules = list(self._rules)
        for page in tuple(self.withheld):
            witness = self._witness(page)
            if witness is None or not self.has_audits:
                continue
            acting = self._between(page, witness)
            if self._audits.is_owed(acting, witness.content):
                self.withheld.remove(page)
                self._audit(page, witness, acting)
                if self._rules != rules:
                    break
        return [page for page in self.withheld if self._witness(page) is None]

    def _fetch(self, page: Page) -> None:
        self._pages.append(page)
        self.rows += observations([page])
        self._arrived.setdefault(self._keys.normalize(page.url), page)

    def _mine(self) -> None:
        found = mine(self.rows, accepted=self._rules, banned=self._banned, wary=True)
        self._put_in_force([rule for rule in found if rule.active])

    def _put_in_force(self, rules: list[SiteRule]) -> None:
        kept = {rule.identity for rule in rules}
        for rule in self._rules:
            if rule.identity not in kept:
                self._audits.forget(rule)
        self._rules = rules
        self._keys = Normalizer("default", site_rules=rules)
        self._arrived = {}
        for page in self._pages:
            self._arrived.setdefault(self._keys.normalize(page.url), page)

    def _between(self, page: Page, witness: Page) -> list[SiteRule]:
        return [
            rule
            for rule in self._rules
            if self._acts(rule, page.url) != self._acts(rule, witness.url)
        ] or self._rules

    def _acts(self, rule: SiteRule, url: str) -> bool:
        alone = self._alone.get(rule.identity)
        if alone is None:
            alone = self._alone[rule.identity] = Normalizer("default", site_rules=[rule])
        return alone.normalize(url) != _PLAIN.normalize(url)


def tracker(rng: random.Random) -> list[Page]:
    """Bugs that are shown whatever project and page are named, and among them long lists.

    In the order of the URLs the bugs come first. Lists have pages, and are of a project.
    """
    base, pages = "http://bugs.example/show?", []
    for number in range(100, 190):
        content = f"bug {number}"
        pages.append(Page(f"{base}entry={number}", content))
        for project, nr in {(rng.randint(1, 6), rng.randint(1, 4)) for _ in range(5)}:
            pages.append(Page(f"{base}entry={number}&pagenum={nr}&project={project}", content))
            pages.append(Page(f"{base}entry={number}&project={project}", content))
            pages.append(Page(f"{base}entry={number}&pagenum={nr}", content))
    for number in range(190, 215):
        pages.append(Page(f"{base}entry={number}", f"list {number}"))
        for project in range(1, 4):
            for nr in range(1, 8):
                url = f"{base}entry={number}&pagenum={nr}&project={project}"
                pages.append(Page(url, f"list {number} {nr} {project}"))
    return sorted({page.url: page for page in pages}.values())


def rooms(rng: random.Random) -> list[Page]:
    """A calendar of six rooms: one month in sixty has an event."""
    return calendar(rng)[: 6 * 120]


def branches(rng: random.Random) -> list[Page]:
    """Revisions, of which the last has two branches: the second one has gone on in some projects.

    In the order of the URLs the pages come first that do not tell.
    """
    pages = []
    for project in range(60):
        has_gone_on = rng.random() < 0.2
        for number in range(6):
            content = f"{project} {number}"
            told = {f"r{project}a{number}": content}
            if number == 5:
                told |= {"main": content, "next": content}
            for name, content in told.items():
                for view in "abcd":
                    own = " and more" if name == "next" and has_gone_on and view > "b" else ""
                    url = f"http://code.example/{view}?p=p{project}&at={name}"
                    pages.append(Page(url, f"{view} {content}{own}"))
    return pages


ORDERS = {
    "its own": list,
    "sorted": sorted,
    "random": lambda pages: random.Random(7).sample(pages, len(pages)),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("site", [rooms, tracker, revisions, branches])
def test_nothing_is_lost(site, order):
    """An event in sixty months, or a list of many pages after ninety bugs that have none."""
    pages = ORDERS[order](site(random.Random(f"{site.__name__} 1")))
    crawl = Crawl().run(pages)
    assert {page.content for page in pages} - crawl.contents == set()
    assert len(crawl.rows) + len(crawl.withheld) == len(pages)


def test_the_sorted_tracker_teaches_a_rule_that_would_lose_pages():
    """Without audits it does: the pages of the lists that are sorted to the end."""
    pages = tracker(random.Random("tracker 1"))
    crawl = Crawl(has_audits=False).run(pages)
    assert len({page.content for page in pages} - crawl.contents) > 100


def test_names_of_one_thing_are_learned_in_the_crawl():
    """Pairs of names that came first prove those that come later."""
    pages = revisions(random.Random("names"))
    random.Random(3).shuffle(pages)
    crawl = Crawl().run(pages)
    assert {page.content for page in pages} - crawl.contents == set()
    assert any(rule.kind == "value-alias" for rule in crawl._rules)
    assert len(crawl.withheld) > 30


def test_few_requests_are_audits():
    """Where a rule is right: a parameter that says where a reader came from."""
    pages = [
        Page(f"http://h.example/{n}/{name}", f"{n}")
        for n in range(200)
        for name in ("", "?via=a", "?via=b", "?via=c", "?via=d", "?via=e")
    ]
    crawl = Crawl().run(pages)
    assert len(crawl.withheld) > 800
    assert crawl.audited < 0.05 * len(crawl.withheld)
