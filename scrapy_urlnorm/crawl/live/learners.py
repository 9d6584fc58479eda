"""Learners: the rules that redirects taught and those that equal contents taught, as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_urlnorm.crawl.live.content import ContentLearner
from scrapy_urlnorm.crawl.live.trials import SOURCE, Trials
from scrapy_urlnorm.crawl.sites import domain_of
from scrapy_urlnorm.learning.redirect_kinds import difference_of
from scrapy_urlnorm.learning.redirects import RedirectLearner

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_urlnorm.crawl.live.rows import Rows
    from scrapy_urlnorm.normalizer import Normalizer
    from scrapy_urlnorm.site_rules import SiteRule


#: The slot that a rule from redirects changes, where a rule from contents may change it back.
_CHANGES = {"force-scheme": "scheme", "host-alias": "host", "trailing-slash": "slash"}


class Learners:
    """What is known of all sites. Without *rows*, contents teach nothing.

    *base* is what the user configured, *rules* were learned before. Rules of a kind that is not
    learned here are only kept.
    """

    def __init__(self, base: Normalizer, rules: Iterable[SiteRule], rows: Rows | None) -> None:
        of_redirects, of_robots, of_contents = [], [], []
        self._others: list[SiteRule] = []
        for rule in rules:
            if difference_of(rule) is not None:
                of_redirects.append(rule)
            elif rule.source == SOURCE and rule.status != "proposed":
                of_robots.append(rule)
            elif rows is None or rule.status == "proposed":
                self._others.append(rule)
            else:
                of_contents.append(rule)
        self.redirects = RedirectLearner(base, of_redirects)
        self.robots = Trials(base, of_robots)
        self.content = None if rows is None else ContentLearner(rows, of_contents)

    @property
    def rules(self) -> tuple[SiteRule, ...]:
        """Everything worth keeping for the next crawl, in a fixed order."""
        contents = self.content.rules if self.content is not None else ()
        return (*self._others, *self.redirects.rules, *self.robots.rules, *contents)

    def active(self, site: str) -> tuple[SiteRule, ...]:
        """Return the rules in force for *site*, a registrable domain; each only once.

        Contents and redirects may say the same the other way round: that ``https`` is ``http``, and
        that ``http`` is ``https``. Such rules undo each other, and those from contents hold for
        more of a site, so the others stand aside.
        """
        contents = self.content.active(site) if self.content is not None else ()
        changed = {slot for rule in contents for slot in rule.operation.slots}
        redirects = [
            rule for rule in self.redirects.active(site) if _CHANGES.get(rule.kind) not in changed
        ]
        others = (*self.robots.active(site), *redirects)
        found = {rule.identity: rule for rule in (*contents, *others)}
        return tuple(found.values())

    def sites(self) -> list[str]:
        """Return the sites that have rules in force."""
        contents = self.content.sites() if self.content is not None else []
        return list(dict.fromkeys([*self.redirects.sites(), *self.robots.sites(), *contents]))

    def reject(self, rule: SiteRule, note: str) -> SiteRule | None:
        """Take back a rule that is in force; return what is kept of it.

        Others may have learned it too: then all take it back. So do redirects whose rule stood
        aside for one from contents: it would do the same again.
        """
        rejected = self.redirects.reject(rule, note) or self.robots.reject(rule, note)
        if self.content is not None and (refuted := self.content.reject(rule, note)) is not None:
            rejected = refuted
            for other in self.redirects.active(domain_of(rule.site)):
                if _CHANGES.get(other.kind) in rule.operation.slots:
                    self.redirects.reject(other, note)
        return rejected

    def adopt(self, rules: Iterable[SiteRule]) -> tuple[list[SiteRule], list[SiteRule]]:
        """Take over what other crawlers of the same sites learned.

        Return the rules that are in force from now on, and those that are in force no longer, or
        must not be.
        """
        rules = list(rules)
        learned, retracted = self.redirects.adopt(rules)
        change = self.robots.adopt(rule for rule in rules if rule.source == SOURCE)
        learned, retracted = learned + change[0], retracted + change[1]
        rules = [rule for rule in rules if rule.source != SOURCE]
        if self.content is not None:
            change = self.content.adopt(r for r in rules if difference_of(r) is None)
            learned, retracted = learned + change[0], retracted + change[1]
        return learned, retracted
