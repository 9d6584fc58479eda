"""KnownRules: the rules in force of all sites, and those that were refuted, as one learner has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_urlnorm.crawl.sites import domain_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scrapy_urlnorm.site_rules import SiteRule

#: Rules in force for one site, and refuted rules remembered for it.
MAX_RULES = 64
MAX_REJECTED = 256


class KnownRules:
    """Rules by site and identity. *rules* were learned before."""

    def __init__(self, rules: Iterable[SiteRule] = ()) -> None:
        self._active: dict[str, dict[str, SiteRule]] = {}
        self._rejected: dict[str, dict[str, SiteRule]] = {}
        for rule in rules:
            into = self._active if rule.active else self._rejected
            into.setdefault(domain_of(rule.site), {})[rule.identity] = rule

    @property
    def rules(self) -> tuple[SiteRule, ...]:
        """Everything worth keeping: rules in force and rejected, in a fixed order."""
        tables = (*self._active.values(), *self._rejected.values())
        found = [rule for table in tables for rule in table.values()]
        return tuple(sorted(found, key=lambda rule: (rule.site, rule.order)))

    def active(self, site: str) -> tuple[SiteRule, ...]:
        """Return the rules in force for *site*, a registrable domain."""
        return tuple(self._active.get(site, {}).values())

    def rejected(self, site: str) -> Mapping[str, SiteRule]:
        """Return the refuted rules of *site* by their identities."""
        return self._rejected.get(site, {})

    def sites(self) -> list[str]:
        """Return the sites that have rules in force."""
        return [site for site, rules in self._active.items() if rules]

    def put(self, rules: Iterable[SiteRule]) -> None:
        """Have *rules* in force beside those that are."""
        for rule in rules:
            self._active.setdefault(domain_of(rule.site), {})[rule.identity] = rule

    def replace(self, site: str, rules: Iterable[SiteRule]) -> None:
        """Have *rules*, the first `MAX_RULES` of them and no others, in force for *site*."""
        kept = {rule.identity: rule for rule in rules}
        self._active[site] = dict(list(kept.items())[:MAX_RULES])

    def release(self, rule: SiteRule) -> SiteRule | None:
        """Take a rule out of force that is not known to be wrong; return it if it was there."""
        return self._active.get(domain_of(rule.site), {}).pop(rule.identity, None)

    def reject(self, rule: SiteRule, note: str) -> SiteRule | None:
        """Take back a rule that is in force and wrong; return what is kept of it."""
        known = self.release(rule)
        if known is None:
            return None
        table = self._rejected.setdefault(domain_of(rule.site), {})
        before = table.pop(rule.identity, known)
        conflicts = (before.conflicts or 0) + 1
        rejected = known.replace(status="rejected", conflicts=conflicts, note=note)
        table[rule.identity] = rejected
        if len(table) > MAX_REJECTED:
            del table[next(iter(table))]
        return rejected

    def adopt(self, rules: Iterable[SiteRule]) -> tuple[list[SiteRule], list[SiteRule]]:
        """Take over what other crawlers of the same sites learned, and what they refuted.

        Return the rules that are in force from now on, and those that are in force no longer. A
        rule that one of us refuted stays refuted.
        """
        came, gone = [], []
        for rule in rules:
            site = domain_of(rule.site)
            active = self._active.setdefault(site, {})
            rejected = self._rejected.setdefault(site, {})
            if not rule.active:
                if rule.identity not in rejected and len(rejected) < MAX_REJECTED:
                    rejected[rule.identity] = rule
                if active.pop(rule.identity, None) is not None:
                    gone.append(rule)
            elif rule.identity not in active.keys() | rejected.keys() and len(active) < MAX_RULES:
                active[rule.identity] = rule
                came.append(rule)
        return came, gone
