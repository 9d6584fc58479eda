"""Mining: brings what arrives to the miner, and says when a site is worth mining.

The `Miner` has one site at a time mined by a process, and brings its rules back at a safe point.
Sites that are worth mining while it is busy wait in `Evidence.later`, each for its turn. Each earns
its budget with its own pages, so that none waits for ever behind others. It is in rows and not in
seconds: what a crawl learns must not depend on the machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_urlnorm.crawl.online.evidence import Row, named
from scrapy_urlnorm.crawl.online.safe_points import Work
from scrapy_urlnorm.crawl.requests import domain_of, site_of
from scrapy_urlnorm.learning.worker import Job, Mined
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_urlnorm.crawl.frontier import CrawlFrontier
    from scrapy_urlnorm.crawl.online.evidence import Evidence
    from scrapy_urlnorm.crawl.online.rules import RuleRegistry
    from scrapy_urlnorm.crawl.online.safe_points import SafePoints
    from scrapy_urlnorm.logs.page_identity import Identity
    from scrapy_urlnorm.site_rules import SiteRule

#: So many more rows may be mined than the sites have earned.
ADVANCE = 7_000
#: With so few rows a site that redirects, or that has candidates, is mined while the event loop
#: waits (8 to 30 ms): the process would take longer to begin.
MINED_AT_ONCE = 50
#: Sites with candidates, and after so many of one site no more robots.txt are read.
MAX_SITES_WITH_CANDIDATES, MAX_CANDIDATES = 1_000, 200


@dataclass(eq=False)
class Mining:
    """Fills the evidence and has sites mined when that is worth it.

    Candidates are the rules that robots.txt names, and those *proposed* in the user's rule files.
    Without *contents*, only redirects and candidates teach. A site that waits for a safe point is
    mined later.
    """

    evidence: Evidence
    registry: RuleRegistry
    safe_points: SafePoints
    frontier: CrawlFrontier
    contents: bool
    proposed: Iterable[SiteRule] = ()

    def __post_init__(self) -> None:
        self._miner = self.frontier.miner
        self._advance = ADVANCE  # rows, for all sites
        self._candidates: dict[str, tuple[SiteRule, ...]] = {}  # by site
        for rule in self.proposed:
            site = domain_of(rule.site)
            self._candidates[site] = (*self._candidates.get(site, ()), rule)

    # --- evidence ---------------------------------------------------------------------------

    def wants_content(self, site: str) -> bool:
        return self.contents or site in self._candidates

    def page(
        self, site: str, url: str, status: int, content: Identity | None, *, is_audit: bool = False
    ) -> bool | None:
        """Write down that *url*, of *site*, was answered with a page with this *content*.

        Return whether another URL has it; ``None`` if that is not known.
        """
        name = None if content is None else named(content)
        is_duplicate = self._add(site, Row(url, status, name, None), is_audit=is_audit)
        return None if name is None else is_duplicate

    def redirect(self, site: str, url: str, target: str, status: int) -> None:
        self._add(site, Row(url, status, None, target))

    def robots_txt(self, url: str, body: bytes) -> None:
        parts, site = split(url), site_of(url)
        if parts.path != "/robots.txt" or not parts.host or b"clean-param" not in body.lower():
            return
        from scrapy_urlnorm.learning.robots import clean_params  # few sites say so

        known = self._candidates.get(site, ())
        told = [rule.site for rule in known if rule.source == "robots"]
        if parts.host in told or len(told) >= MAX_CANDIDATES:
            return  # http and https have a file each
        found = clean_params(body, parts.host)
        if found and (known or len(self._candidates) < MAX_SITES_WITH_CANDIDATES):
            self._candidates[site] = (*known, *found)

    def _add(self, site: str, row: Row, *, is_audit: bool = False) -> bool | None:
        is_known = self.evidence.add(site, row, is_audit=is_audit)
        is_simple = is_known and (row.content is None or site in self._candidates)
        is_small = self.evidence.count(site) <= MINED_AT_ONCE
        self._look_at(site, at_once=bool(is_simple and is_small))
        return is_known

    # --- when to mine -----------------------------------------------------------------------

    def work(self) -> None:
        """Mine the sites that wait for their turn, as far as the miner is free."""
        self._miner.give_up_late()
        for site in list(self.evidence.later):
            if not self._miner.is_free:
                return
            if site in self.safe_points:
                continue
            self.evidence.later.pop(site)
            if self.evidence.is_due(site, self._advance):
                self._mine(site)

    def _look_at(self, site: str, *, at_once: bool = False) -> None:
        """Mine a site if that is worth it: *at once*, or when it is its turn."""
        if not self.evidence.is_due(site, self._advance):
            return
        if at_once and site not in self.safe_points:
            self._mine(site, at_once=True)
        else:
            self.evidence.later[site] = None
            self.work()

    def look_again(self) -> None:
        """Begin to mine a site that waits for a last look."""
        for site in self.evidence.unmined():
            if self._miner.is_free:
                self._mine(site)

    def _mine(self, site: str, *, at_once: bool = False) -> None:
        self._advance = self.evidence.pay(site, self._advance)
        try:
            job = Job(
                site,
                self.evidence.take(site),
                self.registry.active(site),
                self.registry.quarantined(site),
                self._candidates.get(site, ()),
                self.contents,
                self.evidence.others(site),
            )
        except Exception as error:  # noqa: BLE001 - damaged rows; other sites have theirs
            self._mined(Mined(site, (), repr(error)), error)
        else:
            answer = self._miner.mine_at_once(job) if at_once else self._miner.mine(job)
            self.safe_points.put(site, Work.RULES, self._answered(answer))

    def _answered(self, answer: list[Mined]) -> Iterator[bool]:
        """Wait for the *answer* of the miner, true, and have it act."""
        while not answer:
            yield True
        self._mined(answer[0])

    def _mined(self, found: Mined, error: Exception | None = None) -> None:
        self.frontier.count("learned/minings")
        if found.error is not None:
            self.frontier.failed("mining", error or RuntimeError(found.error))
        try:
            self.evidence.found(found.site, something=self.registry.mined(found))
        except Exception as failure:  # noqa: BLE001 - other sites are mined all the same
            self.frontier.failed("mining", failure)
