"""The site rules of one registrable domain, found among those of all sites."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from scrapy_urlnorm.domains import MAX_HOST

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_urlnorm.site_rules.rule import SiteRule


class RulesByDomain:
    """Active site rules, found by the domain whose hosts they can act on.

    They are sorted by site, each written backwards: what is below one domain stands together
    there. The public suffix list is not asked, which would take a second for 100,000 sites.
    """

    __slots__ = ("_names", "_rules")

    def __init__(self, rules: Iterable[SiteRule]) -> None:
        self._rules = [rule for rule in rules if rule.active]
        self._rules.sort(key=_name_backwards)
        self._names = list(map(_name_backwards, self._rules))

    def of(self, domain: str) -> tuple[SiteRule, ...]:
        """Return the rules of *domain*, of every name below it, and of those that it is below."""
        backwards = domain[::-1]
        found = self._between(f"{backwards}.", f"{backwards}/")  # "/" comes right after "."
        while backwards and len(backwards) <= MAX_HOST:
            found += self._between(backwards, f"{backwards}\0")
            backwards = backwards.rpartition(".")[0]
        return tuple(found)

    def _between(self, first: str, end: str) -> list[SiteRule]:
        """Return the rules whose name is *first* or later, and before *end*."""
        names = self._names
        return self._rules[bisect_left(names, first) : bisect_left(names, end)]


def _name_backwards(rule: SiteRule) -> str:
    return rule.site.removeprefix("*.")[::-1]
