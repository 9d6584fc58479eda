"""Audits: how much of what a rule withholds is sent all the same, to compare.

A rule with W witnesses that agree, of an operation that is right with prior probability p, merges
wrongly about k / W^2 of what it withholds, k = (1 - p) / p (the spike and slab of
`scrapy_urlnorm.learning.risk`). It withholds M requests. If a lost page is worth C fetches, then
a audits cost a + C k M / (W + a)^2 fetches, which is least where W + a = (2 C k M)^(1/3). So
audits grow with the cube root of what a rule does.

Witnesses of the past say little of other parts of a site. So besides, whatever a rule has proved,
the first request of a section is an audit, and each doubling of M calls for one more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import log2
from typing import TYPE_CHECKING

from scrapy_urlnorm.learning.redirects import prior
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy_urlnorm.site_rules import SiteRule

#: What a lost page is worth, in fetches.
COST_OF_A_LOSS = 20
#: Sections of a site in which a rule is audited each; then in each tenth, of so many in all.
MAX_SECTIONS = 50
_MAX_REMEMBERED = 500
#: Contents that are remembered for a rule. The law asks for 67 where 5,000 requests are withheld.
_MAX_VOTES = 500

_DIGITS = re.compile(r"\d+")
_FIRST_WORD = re.compile(r"[^\W\d_]*")


@dataclass
class _Record:
    """What one rule did and how its audits ended."""

    support: int
    doubt: float  #: k of the law
    withheld: int = 0  #: requests that it would have kept back, audits among them
    agreed: int = 0
    under_way: int = 0
    votes: set[int] = field(default_factory=set)  #: contents that agreed: each has one vote
    sections: set[int] = field(default_factory=set)

    def is_due(self, content: int) -> bool:
        """Whether the law asks for one more audit, and *content* has not voted yet."""
        audits = self.agreed + self.under_way
        if audits < max(1, log2(1 + self.withheld) - 1):
            return True
        witnesses = self.support + len(self.votes) + self.under_way
        wanted = (2 * COST_OF_A_LOSS * self.doubt * self.withheld) ** (1 / 3)
        return witnesses < wanted and content not in self.votes

    def is_new(self, section: str) -> bool:
        """Whether this is the first request of a section, and of one to be audited."""
        seen = len(self.sections)
        if seen < _MAX_REMEMBERED:
            self.sections.add(hash(section))
        if len(self.sections) == seen:
            return False
        return seen < MAX_SECTIONS or seen % 10 == 0


class Audits:
    """Counts, for each rule in force, what it withheld and what audits said of it."""

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}

    def is_due(self, rules: Sequence[SiteRule], url: str, content: object) -> bool:
        """Count a request that *rules* would withhold; whether to send it as an audit.

        *content* is that of the page it would stand behind. If so, :meth:`agreed`, :meth:`undecided` or :meth:`forget` must follow.
        """
        section = section_of(url)
        due = False
        for rule in rules:
            record = self._record(rule)
            record.withheld += 1
            due |= record.is_new(section) or record.is_due(hash(content))
        if due:
            self._begin(rules)
        return due

    def is_owed(self, rules: Sequence[SiteRule], content: object) -> bool:
        """Whether one of *rules* has had fewer audits than what it withheld calls for.

        Asked when there is nothing else to do, of a request that was counted before.
        """
        owed = any(self._record(rule).is_due(hash(content)) for rule in rules)
        if owed:
            self._begin(rules)
        return owed

    def owes(self, rule: SiteRule) -> bool:
        """Whether *rule* has had fewer audits than what it withheld calls for."""
        return self._record(rule).is_due(hash(None))

    def _begin(self, rules: Iterable[SiteRule]) -> None:
        for rule in rules:
            self._record(rule).under_way += 1

    def agreed(self, rules: Iterable[SiteRule], content: object) -> None:
        """An audit found what the rules say; *content* is that of both pages."""
        for rule in rules:
            record = self._end(rule)
            record.agreed += 1
            if len(record.votes) < _MAX_VOTES:
                record.votes.add(hash(content))

    def undecided(self, rules: Iterable[SiteRule]) -> None:
        """An audit ended without an answer: it counts as not sent."""
        for rule in rules:
            self._end(rule)

    def _end(self, rule: SiteRule) -> _Record:
        record = self._record(rule)
        record.under_way = max(0, record.under_way - 1)
        return record

    def to_blame(self, rules: Sequence[SiteRule]) -> SiteRule:
        """Return which of *rules* is to go when an audit disagrees: the one with least support."""
        return min(rules, key=self._support)

    def _support(self, rule: SiteRule) -> int:
        record = self._record(rule)
        return record.support + len(record.votes)

    def forget(self, rule: SiteRule) -> None:
        """A rule is no longer in force."""
        self._records.pop(rule.identity, None)

    def _record(self, rule: SiteRule) -> _Record:
        record = self._records.get(rule.identity)
        if record is None:
            probability = prior(rule)
            record = _Record(rule.support or 0, (1 - probability) / probability)
            self._records[rule.identity] = record
        return record


def section_of(url: str) -> str:
    """Return the part of a site that *url* is in.

    That is its host and its first folder, digits folded; of a page in no folder, host and first
    word: pages of one kind are named alike.
    """
    parts = split(url)
    first, slash, rest = parts.path[1:].partition("/")
    if slash and rest:
        return f"{parts.host}/{_DIGITS.sub('#', first)}/"
    return f"{parts.host}/{_FIRST_WORD.match(first).group()}"  # type: ignore[union-attr]
