"""Rules that are in force already, joined with those that mining has found now.

What a rule in force withholds is not fetched. So the next mining sees less of what proves it, and
may not find it again. That says nothing against it: it stays until the rows speak against it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.learning.wary import exchanges_values
from scrapy_urlnorm.site_rules.context import Among, Is
from scrapy_urlnorm.site_rules.rule import rule_from_dict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scrapy_urlnorm.site_rules import SiteRule
    from scrapy_urlnorm.site_rules.context import Condition


def joined(
    accepted: Iterable[SiteRule],
    found: Iterable[SiteRule],
    banned: Mapping[str, int] | None = None,
) -> list[SiteRule]:
    """Return the rules of both, those in force first, without what another of them says.

    Nothing is left out where no rule was in force. A rule found again has the larger support of
    the two. *banned* says, by the identity of a rule
    that an audit refuted, how many witnesses it needs now. A rule that says all that it says, and
    more, needs as many. So does one that exchanges the same values elsewhere: where a coincidence
    has ended, any condition explains it.
    """
    rules: dict[str, SiteRule] = {}
    accepted = tuple(accepted)
    for rule in (*accepted, *found):
        known = rules.get(rule.identity)
        if known is None or (known.support or 0) < (rule.support or 0):
            rules[rule.identity] = rule
    refuted = [
        (known, least)
        for identity, least in (banned or {}).items()
        if (known := _read(identity)) is not None
    ]
    kept = {
        identity: rule
        for identity, rule in rules.items()
        if not any(
            (rule.support or 0) < least and _is_as_doubtful(rule, other) for other, least in refuted
        )
    }
    if accepted:
        for identity, rule in tuple(kept.items()):
            if any(other != identity and says(wider, rule) for other, wider in kept.items()):
                del kept[identity]
    return list(kept.values())


def _read(identity: str) -> SiteRule | None:
    """Return the rule that has this identity, without its evidence."""
    try:
        return rule_from_dict(json.loads(identity))
    except (SiteRuleError, ValueError, TypeError):
        return None


def says(wider: SiteRule, rule: SiteRule) -> bool:
    """Whether *wider* does the same wherever *rule* does it."""
    return (
        wider.operation.covers(rule.operation)
        and reaches(wider.site, rule.site)
        and all(any(_follows(c, from_) for from_ in rule.context) for c in wider.context)
    )


def has_longer_table(rule: SiteRule, before: SiteRule) -> bool:
    """Whether *rule* is *before* with the pages that arrived since: what was proved still holds."""
    return before.operation.has_table and says(rule, before)


def _is_as_doubtful(rule: SiteRule, refuted: SiteRule) -> bool:
    if exchanges_values(rule.operation):
        return rule.operation == refuted.operation
    if rule.operation.has_table:  # another table does not make it more likely
        return rule.operation.family == refuted.operation.family
    return says(rule, refuted)


def reaches(site: str, other: str) -> bool:
    """Whether the site of a rule takes in a host, or the site of another rule."""
    if site[:2] != "*." or site == other:
        return site == other
    return other == site[2:] or other.endswith(site[1:])


def _follows(condition: Condition, other: Condition) -> bool:
    """Whether *condition* holds wherever *other* does."""
    if condition == other:
        return True
    return (
        isinstance(condition, (Is, Among))
        and type(condition) is type(other)
        and condition._replace(values=()) == other._replace(values=())
        and set(condition.values) >= set(other.values)
    )
