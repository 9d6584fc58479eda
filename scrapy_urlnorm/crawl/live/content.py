"""ContentLearner: the rules that equal contents taught, site by site.

It keeps the evidence (`rows`), has a site mined when that is worth it (`mining`), and holds the
rules in force and the rules that audits refuted. A rule that was accepted stays until the rows
speak against it: what it withholds is not fetched, so the next mining sees less of what proves it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.crawl.live.known_rules import KnownRules
from scrapy_urlnorm.crawl.sites import domain_of
from scrapy_urlnorm.learning.in_force import says
from scrapy_urlnorm.learning.worker import Job

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from scrapy_urlnorm.crawl.live.rows import Row, Rows
    from scrapy_urlnorm.learning.worker import Mined
    from scrapy_urlnorm.site_rules import SiteRule

#: Witnesses that a refuted rule needs for each disagreement before it is believed again.
WITNESSES_A_DISAGREEMENT = 50


class Change(NamedTuple):
    """What one mining changed: rules that came into force, and rules that are no longer.

    Those *gone* are refuted. Those *replaced* are not: a wider rule does the same.
    """

    came: list[SiteRule]
    gone: list[SiteRule]
    replaced: Sequence[SiteRule] = ()


class ContentLearner(KnownRules):
    """Learns rules from `Rows`. *rules* were learned before: they start with their support."""

    def __init__(self, rows: Rows, rules: Iterable[SiteRule] = ()) -> None:
        super().__init__(rules)
        self._rows = rows

    def reject(self, rule: SiteRule, note: str) -> SiteRule | None:
        """Take back a rule that is wrong, and have its site mined again."""
        rejected = super().reject(rule, note)
        if rejected is not None:
            self._rows.mine_again(domain_of(rule.site))
        return rejected

    # --- evidence ---------------------------------------------------------------------------

    def add(self, site: str, row: Row) -> bool | None:
        """Take note of an answer of *site*. Return whether it brought nothing new.

        ``None`` says that it is no evidence.
        """
        return self._rows.add(site, row)

    def is_due(self, site: str, *, has_time: bool) -> bool:
        """Return whether *site* should be mined now; if not *has_time*, only what cannot wait."""
        return self._rows.is_due(site, has_time=has_time)

    def unmined(self, eager: Collection[str] = ()) -> list[str]:
        """Return the sites that are worth a last look when the crawl has nothing else to do.

        Of the *eager*, a few new duplicates are reason enough.
        """
        return self._rows.unmined(eager)

    def job(self, site: str) -> Job:
        """Return the job of mining *site* now."""
        return Job(site, self._rows.take(site), self.active(site), self._witnesses_needed(site))

    def _witnesses_needed(self, site: str) -> dict[str, int]:
        return {
            identity: WITNESSES_A_DISAGREEMENT * (rule.conflicts or 1)
            for identity, rule in self.rejected(site).items()
        }

    def mined(self, mined: Mined) -> Change:
        """Put the rules that mining found in force, in place of those before.

        A miner that failed leaves no rule standing: nobody has tested them.
        """
        site = mined.site
        before = {rule.identity: rule for rule in self.active(site)}
        needed = self._witnesses_needed(site)
        self.replace(
            site,
            (r for r in mined.rules if (r.support or 0) >= needed.get(r.identity, 0)),
        )
        kept = {rule.identity: rule for rule in self.active(site)}
        came = [rule for identity, rule in kept.items() if identity not in before]
        gone, replaced = [], []
        for identity, rule in before.items():
            if identity in kept:
                continue
            if any(says(other, rule) for other in kept.values()):
                replaced.append(_rejected(rule, "a wider rule takes its place"))
            else:
                note = mined.error or "the pages that arrived refute it"
                gone.append(_rejected(rule, note))
        self._rows.found(site, something=bool(came))
        return Change(came, gone, replaced)


def _rejected(rule: SiteRule, note: str) -> SiteRule:
    return rule.replace(status="rejected", note=note)
