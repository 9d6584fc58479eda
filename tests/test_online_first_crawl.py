"""First crawls of sites made to mislead: mining, audits and bans together, without Scrapy.

The crawl here is a loop: a URL whose cluster key a page has already is suppressed, or audited. The
fetched rows are mined again and again. In the end, what audits are outstanding is sent.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from simulator import Page, calendar, observations, revisions

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.crawl.online import tables
from scrapy_urlnorm.crawl.online.audits import Audits
from scrapy_urlnorm.crawl.online.keys import Keys
from scrapy_urlnorm.crawl.online.tables import Match, Reason
from scrapy_urlnorm.learning import mine
from scrapy_urlnorm.logs.page_identity import Identity
from scrapy_urlnorm.report.filtered import rule_in_words
from scrapy_urlnorm.stores.sqlite import Database

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_urlnorm.logs import Observation
    from scrapy_urlnorm.site_rules import SiteRule

_PLAIN = Normalizer("default")


class Crawl:
    """One crawl of pages in a given order. ``suppressed`` are those never fetched."""

    def __init__(self, *, has_audits: bool = True) -> None:
        self.has_audits = has_audits
        self.rows: list[Observation] = []
        self.suppressed: dict[Page, tuple[str, ...]] = {}  # with the rules that counted each
        self.audited = 0
        database = Database()
        database.open()
        database.ensure("CREATE TABLE rule (identity TEXT, agreed INTEGER)")
        self._audits = Audits(database)
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
            queue = self._behind_nothing() or self._outstanding()
            for page in queue:
                del self.suppressed[page]
        return self

    def _representative(self, page: Page) -> Page | None:
        return self._arrived.get(self._keys.normalize(page.url))

    def _leaves(self, page: Page) -> None:
        twin = self._representative(page)
        if twin is None:
            self._fetch(page)
            return
        match = self._match(page, twin)
        if self._audits.is_due(match, page.url) and self.has_audits:
            self._audit(page, twin, match)
        else:
            self.suppressed[page] = _names(match)

    def _match(self, page: Page, twin: Page) -> Match:
        keys = Keys("site", page.url.encode(), b"")
        found = tables.Page(twin.url.encode(), twin.url, Identity(twin.content), 0)
        rules = self._between(page, twin)
        return Match(keys, found, tuple(Reason(rule, rule.support or 0) for rule in rules))

    def _audit(self, page: Page, twin: Page, match: Match) -> None:
        self.audited += 1
        self._audits.begin(match, page.url)
        audit = self._audits.get(match.keys.fingerprint)
        self._fetch(page)
        if page.content == twin.content:
            self._audits.agreed(audit)
            return
        self._audits.ended(audit)
        blamed = self._audits.weakest(match.rules).rule
        self._banned[blamed.identity] += 50
        self._put_in_force([rule for rule in self._rules if rule != blamed])
        self._mine()

    def _outstanding(self) -> list[Page]:
        """Send the outstanding audits; return what stands behind no page any more."""
        if not self.has_audits:
            return []
        rules = list(self._rules)
        for page in tuple(self.suppressed):
            twin = self._representative(page)
            match = self._match(page, twin)
            if self._audits.is_due(match, page.url, self.suppressed[page]):
                del self.suppressed[page]
                self._audit(page, twin, match)
                if self._rules != rules:
                    break
            else:
                self.suppressed[page] = _names(match)
        return self._behind_nothing()

    def _behind_nothing(self) -> list[Page]:
        return [page for page in self.suppressed if self._representative(page) is None]

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
                self._audits.forget(rule.identity)
        self._rules = rules
        self._keys = Normalizer("default", site_rules=rules)
        self._arrived = {}
        for page in self._pages:
            self._arrived.setdefault(self._keys.normalize(page.url), page)

    def _between(self, page: Page, twin: Page) -> list[SiteRule]:
        return [
            rule for rule in self._rules if self._acts(rule, page.url) != self._acts(rule, twin.url)
        ] or self._rules

    def _acts(self, rule: SiteRule, url: str) -> bool:
        alone = self._alone.get(rule.identity)
        if alone is None:
            alone = self._alone[rule.identity] = Normalizer("default", site_rules=[rule])
        return alone.normalize(url) != _PLAIN.normalize(url)


def _names(match: Match) -> tuple[str, ...]:
    return tuple(rule_in_words(reason.rule) for reason in match.rules)


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
    assert len(crawl.rows) + len(crawl.suppressed) == len(pages)


def test_the_sorted_tracker_teaches_a_rule_that_would_lose_pages():
    """Without audits it does: the pages of the lists that are sorted to the end."""
    pages = tracker(random.Random("tracker 1"))
    crawl = Crawl(has_audits=False).run(pages)
    assert len({page.content for page in pages} - crawl.contents) > 100


def test_names_of_one_thing_are_learned_in_the_crawl():
    """Pairs of names that came first prove those that come later."""
    views = ("commit", "log", "patch", "notes", "authors", "stats", "files", "diff")
    pages = [
        Page(f"http://code.example/{p}/{view}?at={name}", f"{view} {p} {n}")
        for p in ("core", "docs", "web")
        for n in range(60)
        for view in views
        for name in (f"{n:x}a{n * 7:x}c{p}", f"v{n}")[: 2 if n % 2 else 1]
    ]
    random.Random(3).shuffle(pages)
    crawl = Crawl().run(pages)
    assert {page.content for page in pages} - crawl.contents == set()
    assert any(rule.kind == "value-alias" for rule in crawl._rules)
    assert len(crawl.suppressed) > 30


def test_few_requests_are_audits():
    """Where a rule is right: a parameter that says where a reader came from."""
    pages = [
        Page(f"http://h.example/{n}/{name}", f"{n}")
        for n in range(200)
        for name in ("", "?via=a", "?via=b", "?via=c", "?via=d", "?via=e")
    ]
    crawl = Crawl().run(pages)
    assert len(crawl.suppressed) > 800
    assert crawl.audited < 0.05 * len(crawl.suppressed)
