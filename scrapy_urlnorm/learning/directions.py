"""Directions: which of two hosts, or of two schemes, a rule makes of the other.

For keys that does not matter. But a crawl first asks for the URL that the rules make of the others,
so that has to be the one with the page, and not one that redirects to it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scrapy_urlnorm.learning.slots import slots_of
from scrapy_urlnorm.site_rules import SiteRule
from scrapy_urlnorm.site_rules.operations import HostAlias, Replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_urlnorm.logs.observation import Observation
    from scrapy_urlnorm.site_rules.operations import Operation

_SERVER = frozenset(("scheme", "host"))
#: Redirects from one value of a slot to another, with everything else as it was.
_Votes = Counter[tuple[str, str, str]]


def as_redirected(rules: Iterable[SiteRule], rows: Iterable[Observation]) -> tuple[SiteRule, ...]:
    """Turn round the rules about hosts and schemes that most redirects of *rows* contradict."""
    rules = tuple(rules)
    if not any(_turned(rule.operation) for rule in rules):
        return rules
    votes = _votes(rows)
    return tuple(_as_most_say(rule, votes) for rule in rules)


def _votes(rows: Iterable[Observation]) -> _Votes:
    votes: _Votes = Counter()
    for row in rows:
        if row.location is None:
            continue
        old, new = slots_of(row.url), slots_of(row.location)
        if old is None or new is None:
            continue
        names = {name for name, _ in old.items() ^ new.items()}
        if names <= _SERVER:
            votes.update((name, old[name], new[name]) for name in names)
    return votes


def _as_most_say(rule: SiteRule, votes: _Votes) -> SiteRule:
    turned = _turned(rule.operation)
    if turned is None or votes[_vote(turned)] <= votes[_vote(rule.operation)]:
        return rule
    return SiteRule.of(rule.site, turned, rule.context, rule.evidence)


def _turned(op: Operation) -> HostAlias | Replace | None:
    """Return the operation the other way round; ``None`` if it is not about one host or scheme."""
    if isinstance(op, HostAlias) and len(op.hosts) == 1:
        return HostAlias((op.by,), op.hosts[0])
    if isinstance(op, Replace) and [name for name, _ in op.old] == ["scheme"]:
        return Replace(op.new, op.old)
    return None


def _vote(op: Operation) -> tuple[str, str, str]:
    if isinstance(op, HostAlias):
        return "host", op.hosts[0], op.by
    assert isinstance(op, Replace)
    return "scheme", op.old[0][1], op.new[0][1]
