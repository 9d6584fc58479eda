"""Families: forms of URLs that bring little new, or nothing for long, as a calendar without end.

A *family* is all URLs with one host, first folder, depth and names of parameters.

Where most pages of one were duplicates, the next ones likely are too. That proves nothing about any
one of them, so they are *deferred*: sent when the crawl is idle. By then a rule may be known that
says which of them to send.

A family is *barren* after so many pages in a row whose content was there already under another URL,
or which say nothing that was not read before (`novelty`). Answers that are no page, as those of a rate
limiter, count neither for nor against it. One page that is new ends it, or that leads to one: so a
list of new things is never barren. The requests of a barren family are sent after all others; if its
pages have contents of their own, with what is deferred. Where the settings limit families, the rest
of one is dropped.
First two pages are fetched again: while a site answers everything with one page, as in an outage,
every family would look barren.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.crawl.online.evidence import named
from scrapy_urlnorm.crawl.online.tables import Page
from scrapy_urlnorm.crawl.settings import FAMILY_LIMIT
from scrapy_urlnorm.learning.media import looks_like_an_act
from scrapy_urlnorm.logs.differences import family_of
from scrapy_urlnorm.masking import placeholders
from scrapy_urlnorm.report.filtered import DEFERRED, LAST
from scrapy_urlnorm.text import logger_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_urlnorm.crawl.frontier import CrawlFrontier
    from scrapy_urlnorm.crawl.online.evidence import Evidence
    from scrapy_urlnorm.crawl.online.novelty import Novelty
    from scrapy_urlnorm.crawl.online.pairs import Arrival
    from scrapy_urlnorm.crawl.settings import Config
    from scrapy_urlnorm.stores.sqlite import Database

logger = logger_of(__name__)

_TABLE = """
CREATE TABLE IF NOT EXISTS family (
  name TEXT PRIMARY KEY, barren INTEGER NOT NULL, is_over INTEGER NOT NULL) WITHOUT ROWID;
"""
#: The next URLs of a family likely repeat what is known after so many duplicates, if so large a
#: share of its pages are (measured on ten applications: with half of the pages, too much waits that
#: is new).
LEAST_DUPLICATES, SHARE = 6, 0.7
#: A family is put last after so many pages in a row without anything new.
BARREN = 100
#: Families whose pages are counted: of one site, and of all. Of further ones nothing is known.
MAX_OF_SITE, MAX_FAMILIES = 500, 100_000
#: A value that may be good for a while only: letters and digits without a meaning.
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9])(?=[A-Za-z]*\d[A-Za-z0-9]*[A-Za-z]|\d*[A-Za-z][A-Za-z0-9]*\d)[A-Za-z0-9]{12,}"
)


class Question(NamedTuple):
    """Asks whether a page still shows what it did, and another URL something else."""

    page: Page
    other: str | None
    answer: Callable[[bool], None]


@dataclass(eq=False)
class Families:
    """Counts the pages of each family, and says which of its requests wait."""

    database: Database
    evidence: Evidence
    frontier: CrawlFrontier
    config: Config
    novelty: Novelty

    def __post_init__(self) -> None:
        self._limit = self.config.family_limit
        self._said: dict[str, int] = {}  # pages without anything new of families that were told of
        self._counts: dict[str, tuple[int, int]] = {}  # pages and duplicates of a family
        self._of_site: Counter[str] = Counter()  # families that are counted
        self._expiring: set[str] = set()  # families with links that are answered no more
        self._asked: set[str] = set()  # families of which two pages are being fetched again
        self._giving: set[str] = set()  # families of which the spider got items
        #: Barren families, of which pages have a content of their own that says nothing new.
        self._repeating: set[str] = set()
        self.database.ensure(_TABLE)
        rows = self.database.read("SELECT name, barren, is_over FROM family")
        self._barren: dict[str, int] = {name: barren for name, barren, _ in rows}
        limit = self._limit or 0
        self._over = {name for name, barren, is_over in rows if is_over and barren >= limit}

    # --- pages ------------------------------------------------------------------------------

    def arrived(self, arrival: Arrival, *, is_new: bool) -> Question | None:
        """Take note of a page, and whether its content was not there under another URL.

        Return what to find out before the rest of its family is dropped, if that is to be decided.
        That an audit brings nothing new says nothing of the other URLs of its family.
        """
        family = family_of(arrival.url)
        if arrival.audit is None:
            self._add(arrival.site, family, is_duplicate=not is_new)
        if is_new and self._says_something(family, arrival):
            self._begin_anew(family)
            if arrival.leading:
                self._begin_anew(family_of(arrival.leading))
        elif arrival.audit is None and (family in self._barren or len(self._barren) < MAX_FAMILIES):
            self._barren[family] = self._barren.get(family, 0) + 1
            if is_new:
                self._repeating.add(family)
            if family in self._said:
                self._said[family] += 1
            self._write(family)
            return self._judge(family, arrival)
        return None

    def _says_something(self, family: str, arrival: Arrival) -> bool:
        """Whether a page of new content says anything that was not read before, as far as is known.

        It does if it is of a family that the spider gets items of, unless its family led to it; and so
        does any, where the rest of a family is to be dropped.
        """
        if not arrival.leading:
            return True
        is_wanted = family in self._giving or self._limit is not None
        is_new = self.novelty.is_new(family, arrival.fingerprint, arrival.leading)
        return is_new or (is_wanted and family_of(arrival.leading) != family)

    def gives_items(self, url: str) -> None:
        """Take note that the spider got an item of a page."""
        if len(self._giving) < MAX_FAMILIES:
            self._giving.add(family_of(url))

    def _add(self, site: str, family: str, *, is_duplicate: bool) -> None:
        if family not in self._counts:
            if self._of_site[site] >= MAX_OF_SITE or len(self._counts) >= MAX_FAMILIES:
                return
            self._of_site[site] += 1
        pages, duplicates = self._counts.get(family, (0, 0))
        self._counts[family] = pages + 1, duplicates + is_duplicate

    def expire(self, url: str) -> bool:
        """Take note that a URL with a token is answered no more; return whether that is new."""
        family = family_of(url)
        if len(self._expiring) >= MAX_OF_SITE or not _TOKEN.search(url):
            return False
        is_new = family not in self._expiring
        self._expiring.add(family)
        return is_new

    def _judge(self, family: str, arrival: Arrival) -> Question | None:
        url, content, number = arrival.url, arrival.content, self._barren[family]
        if self._limit is None or number < self._limit:
            if number == BARREN and self._may_wait:
                what = f"go after all others ({FAMILY_LIMIT} would drop them)"
                self._say(family, url, "learned/put_last", what)
            return None
        if content is None or looks_like_an_act(url) or family in self._asked | self._over:
            return None
        self._asked.add(family)
        other = self.evidence.beside(arrival.site, url, named(content))
        page = Page(arrival.fingerprint, url, content, depth=0)
        return Question(page, other, lambda said: self._answered(family, url, said))

    def _begin_anew(self, family: str) -> None:
        if self._barren.pop(family, None) is not None:
            self._over.discard(family)
            self._repeating.discard(family)
            self.database.write("DELETE FROM family WHERE name = ?", family)

    def _write(self, family: str) -> None:
        row = family, self._barren[family], family in self._over
        self.database.write("INSERT OR REPLACE INTO family VALUES (?, ?, ?)", *row)

    def _answered(self, family: str, url: str, is_endless: bool) -> None:
        self._asked.discard(family)
        if not is_endless:
            self._begin_anew(family)
        elif family in self._barren:  # else something new has come meanwhile
            self._over.add(family)
            self._write(family)
            self._say(family, url, "learned/limited", "are dropped")

    def _say(self, family: str, url: str, stat: str, what: str) -> None:
        self.frontier.count(stat)
        if family not in self._said:
            self.frontier.count("learned/barren_families")
            self._said[family] = self._barren[family]
        where, depth, names = family.split(" ", 2)
        logger.info(
            "The last %(number)d pages like %(url)s (%(where)s, depth %(depth)s, parameters: "
            "%(names)s) brought nothing new: other requests of this family %(what)s",
            {"number": self._barren[family], "url": placeholders([url])[0], "where": where}
            | {"depth": depth, "names": names or "none", "what": what},
            extra=self.frontier.extra,
        )

    def barren(self) -> dict[str, int]:
        places: Counter[str] = Counter()
        for family, number in self._said.items():
            scheme, _, where = family.split(" ", 1)[0].partition("://")
            places[placeholders([f"{scheme}://{where.removesuffix('/')}/"])[0]] += number
        return places

    # --- requests ---------------------------------------------------------------------------

    @property
    def _may_wait(self) -> bool:
        return self.config.defers_duplicates and self.frontier.has_own_queue

    def state_of(self, url: str) -> int | None:
        if not self._may_wait or (not self._counts and not self._barren):
            return None
        family = family_of(url)
        if self._barren.get(family, 0) >= min(BARREN, self._limit or BARREN):
            return DEFERRED if family in self._repeating else LAST
        pages, duplicates = self._counts.get(family, (0, 0))
        is_high = duplicates >= LEAST_DUPLICATES and duplicates >= SHARE * pages
        return DEFERRED if is_high and family not in self._expiring else None

    def is_over(self, url: str) -> bool:
        """Return whether a request for *url* is dropped with the rest of its family; count it."""
        is_over = bool(self._over) and self._limit is not None and family_of(url) in self._over
        if is_over:
            self.frontier.count("learned/dropped")
        return is_over
