"""ContentLearner: the rules that equal contents taught, site by site.

It keeps the evidence (`rows`), has a site mined when that is worth it (`mining`), and holds the
rules in force and the rules that audits refuted. A rule that was accepted stays until the rows
speak against it: what it withholds is not fetched, so the next mining sees less of what proves it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.crawl.sites import domain_of
from scrapy_urlnorm.learning.in_force import says
from scrapy_urlnorm.learning.worker import Job

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_urlnorm.crawl.live.rows import Row, Rows
    from scrapy_urlnorm.learning.worker import Mined
    from scrapy_urlnorm.site_rules import SiteRule

#: Witnesses that a refuted rule needs for each disagreement before it is believed again.
WITNESSES_A_DISAGREEMENT = 50
#: Rules in force for one site, and refuted rules remembered for it.
MAX_RULES = 64
MAX_REJECTED = 256


class Change(NamedTuple):
    """What one mining changed: rules that came into force, and rules that are no longer."""

    came: list[SiteRule]
    gone: list[SiteRule]


class ContentLearner:
    """Learns rules from `Rows`. *rules* were learned before: they start with their support."""

    def __init__(self, rows: Rows, rules: Iterable[SiteRule] = ()) -> None:
        self._rows = rows
        self._active: dict[str, dict[str, SiteRule]] = {}  # by site, by identity
        self._rejected: dict[str, dict[str, SiteRule]] = {}
        for rule in rules:
            into = self._active if rule.active else self._rejected
            into.setdefault(domain_of(rule.site), {})[rule.identity] = rule

    # --- rules ------------------------------------------------------------------------------

    @property
    def rules(self) -> tuple[SiteRule, ...]:
        """Everything worth keeping: rules in force and rejected, in a fixed order."""
        tables = (*self._active.values(), *self._rejected.values())
        found = [rule for table in tables for rule in table.values()]
        return tuple(sorted(found, key=lambda rule: (rule.site, rule.order)))

    def active(self, site: str) -> tuple[SiteRule, ...]:
        """Return the rules in force for *site*, a registrable domain."""
        return tuple(self._active.get(site, {}).values())

    def sites(self) -> list[str]:
        """Return the sites that have rules in force."""
        return [site for site, rules in self._active.items() if rules]

    def reject(self, rule: SiteRule, note: str) -> SiteRule | None:
        """Take back a rule that is in force; return what is kept of it."""
        site = domain_of(rule.site)
        known = self._active.get(site, {}).pop(rule.identity, None)
        if known is None:
            return None
        self._rows.mine_again(site)
        return self._keep_rejected(site, known, note)

    def release(self, rule: SiteRule) -> bool:
        """Take a rule out of force that is not known to be wrong; return whether it was there."""
        return self._active.get(domain_of(rule.site), {}).pop(rule.identity, None) is not None

    def _keep_rejected(self, site: str, rule: SiteRule, note: str) -> SiteRule:
        table = self._rejected.setdefault(site, {})
        before = table.pop(rule.identity, None)
        conflicts = (before.conflicts or 0 if before else rule.conflicts or 0) + 1
        rejected = rule.replace(status="rejected", conflicts=conflicts, note=note)
        table[rule.identity] = rejected
        if len(table) > MAX_REJECTED:
            del table[next(iter(table))]
        return rejected

    def adopt(self, rules: Iterable[SiteRule]) -> Change:
        """Take over what other crawlers of the same sites learned, and what they refuted."""
        change = Change([], [])
        for rule in rules:
            site = domain_of(rule.site)
            active = self._active.setdefault(site, {})
            rejected = self._rejected.setdefault(site, {})
            if not rule.active:
                if rule.identity not in rejected and len(rejected) < MAX_REJECTED:
                    rejected[rule.identity] = rule
                if active.pop(rule.identity, None) is not None:
                    change.gone.append(rule)
            elif (
                rule.identity not in active
                and rule.identity not in rejected
                and len(active) < MAX_RULES
            ):
                active[rule.identity] = rule
                change.came.append(rule)
        return change

    # --- evidence ---------------------------------------------------------------------------

    def add(self, site: str, row: Row) -> bool:
        """Take note of an answer of *site*. Return whether the site should be mined now."""
        self._rows.add(site, row)
        return self._rows.is_due(site)

    def unmined(self) -> list[str]:
        """Return the sites that are worth a last look when the crawl has nothing else to do."""
        return self._rows.unmined()

    def job(self, site: str) -> Job:
        """Return the job of mining *site* now."""
        return Job(site, self._rows.take(site), self.active(site), self._witnesses_needed(site))

    def _witnesses_needed(self, site: str) -> dict[str, int]:
        return {
            identity: WITNESSES_A_DISAGREEMENT * (rule.conflicts or 1)
            for identity, rule in self._rejected.get(site, {}).items()
        }

    def mined(self, mined: Mined) -> Change:
        """Put the rules that mining found in force, in place of those before.

        A miner that failed leaves no rule standing: nobody has tested them.
        """
        site = mined.site
        before = self._active.get(site, {})
        needed = self._witnesses_needed(site)
        found = {
            rule.identity: rule
            for rule in mined.rules
            if (rule.support or 0) >= needed.get(rule.identity, 0)
        }
        kept = dict(list(found.items())[:MAX_RULES])
        came = [rule for identity, rule in kept.items() if identity not in before]
        gone = [
            rule.replace(status="rejected", note=mined.error or _why_gone(rule, kept.values()))
            for identity, rule in before.items()
            if identity not in kept
        ]
        self._active[site] = kept
        self._rows.found(site, something=bool(came))
        return Change(came, gone)


def _why_gone(rule: SiteRule, others: Iterable[SiteRule]) -> str:
    if any(says(other, rule) for other in others):
        return "a wider rule takes its place"
    return "the pages that arrived refute it"
