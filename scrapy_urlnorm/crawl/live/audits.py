"""Audits: how many of the requests that a rule withholds are sent all the same, to test it.

A rule with W witnesses that agree, of an operation that is right with prior probability p, merges
wrongly about k / W^2 of the requests that it withholds, with k = (1 - p) / p (the spike and slab
of `scrapy_urlnorm.learning.risk`). It withholds M requests. If a lost page costs as much as C
fetches, then the total cost with a audits is a + C k M / (W + a)^2 fetches. It is least where
W + a = (2 C k M)^(1/3). So the number of audits grows with the cube root of M.

Witnesses from one part of a site say little about the others. So the first request of each section
is an audit too, whatever its rules have proved, and so is one request at each doubling of M.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import log2
from typing import TYPE_CHECKING

from scrapy_urlnorm.learning.aliases import Pattern
from scrapy_urlnorm.learning.redirects import prior
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy_urlnorm.crawl.merges import Reason

#: What a lost page costs, in fetches: C of the law.
COST_OF_A_LOSS = 20
#: A rule is audited in each of the first so many sections of a site, then in every tenth, as long
#: as sections are remembered.
MAX_SECTIONS = 50
_MAX_REMEMBERED = 500
#: Contents remembered for a rule. The law asks for 67 where a rule withholds 5,000 requests.
_MAX_VOTES = 500

_DIGITS = re.compile(r"\d+")
_FIRST_WORD = re.compile(r"[^\W\d_]*")


@dataclass
class _Record:
    """How many requests one rule would withhold, and how its audits ended."""

    support: int
    doubt: float  #: k of the law, from how likely a rule of this kind is right
    rate: float  #: the share of what it withholds that is audited at least
    withheld: int = 0  #: requests that it would withhold, audits included: M of the law
    agreed: int = 0
    under_way: int = 0
    votes: set[int] = field(default_factory=set)  #: contents that agreed: each has one vote
    asked: set[int] = field(default_factory=set)  #: contents of which an audit was sent
    sections: set[int] = field(default_factory=set)

    def is_due(self, content: int, support: int | None) -> bool:
        """Return whether one more audit is needed, and *content* was not asked for its vote yet.

        The *support* of a rule is what it was when the rule came; that of a pattern grows.
        """
        audits = self.agreed + self.under_way
        if audits < max(1, log2(1 + self.withheld) - 1, self.rate * self.withheld):
            return True
        witnesses = max(support or 0, self.support + len(self.votes)) + self.under_way
        wanted = (2 * COST_OF_A_LOSS * self.doubt * self.withheld) ** (1 / 3)
        return witnesses < wanted and content not in self.asked

    def is_new(self, section: str) -> bool:
        """Return whether this is the first request of a section that has to be audited."""
        seen = len(self.sections)
        if seen < _MAX_REMEMBERED:
            self.sections.add(hash(section))
        if len(self.sections) == seen:
            return False
        return seen < MAX_SECTIONS or seen % 10 == 0


class Audits:
    """Counts, for each rule in force, the requests it withheld and the results of audits."""

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}

    def is_due(self, rules: Sequence[Reason], url: str, content: object) -> bool:
        """Count a request that *rules* would withhold. Return whether to send it as an audit.

        *content* is that of the page it would stand behind. After ``True``, the caller has to
        call `agreed`, `undecided` or `forget` when the audit has ended.
        """
        section = section_of(url)
        due = False
        for rule in rules:
            record = self._record(rule)
            record.withheld += 1
            due |= record.is_new(section) or record.is_due(hash(content), rule.support)
        if due:
            self._begin(rules, content)
        return due

    def is_owed(self, rules: Sequence[Reason], content: object) -> bool:
        """Return whether to send a withheld request as an audit, when the crawl is idle.

        That is, if one of *rules* had fewer audits than it needs. The request was counted before.
        """
        owed = any(self._record(rule).is_due(hash(content), rule.support) for rule in rules)
        if owed:
            self._begin(rules, content)
        return owed

    def owes(self, rule: Reason) -> bool:
        """Return whether *rule* had fewer audits than it needs."""
        return self._record(rule).is_due(hash(None), rule.support)

    def _begin(self, rules: Iterable[Reason], content: object) -> None:
        for rule in rules:
            record = self._record(rule)
            record.under_way += 1
            if len(record.asked) < _MAX_VOTES:
                record.asked.add(hash(content))

    def agreed(self, rules: Iterable[Reason], content: object) -> None:
        """Take note of an audit that agreed with *rules*. Both pages have *content*."""
        for rule in rules:
            record = self._end(rule)
            record.agreed += 1
            if len(record.votes) < _MAX_VOTES:
                record.votes.add(hash(content))

    def undecided(self, rules: Iterable[Reason]) -> None:
        """Take note of an audit that ended without an answer: it counts as not sent."""
        for rule in rules:
            self._end(rule)

    def _end(self, rule: Reason) -> _Record:
        record = self._record(rule)
        record.under_way = max(0, record.under_way - 1)
        return record

    def to_blame(self, rules: Sequence[Reason]) -> Reason:
        """Return which of *rules* to reject when an audit disagrees: the one with least support."""
        return min(rules, key=self._support)

    def _support(self, rule: Reason) -> int:
        record = self._record(rule)
        return record.support + len(record.votes)

    def forget(self, rule: Reason) -> None:
        """Forget a rule that is no longer in force."""
        self._records.pop(rule.identity, None)

    def _record(self, rule: Reason) -> _Record:
        record = self._records.get(rule.identity)
        if record is None:
            if isinstance(rule, Pattern):
                probability, rate = rule.prior, rule.audit_rate
            else:
                probability, rate = prior(rule), 0.0
            record = _Record(rule.support or 0, (1 - probability) / probability, rate)
            self._records[rule.identity] = record
        return record


def section_of(url: str) -> str:
    """Return the name of the part of a site that *url* is in.

    That is its host and its first folder, with ``#`` for digits. For a page in no folder it is the
    host and the first word of its name, because pages of one kind are named alike.
    """
    parts = split(url)
    first, slash, rest = parts.path[1:].partition("/")
    if slash and rest:
        return f"{parts.host}/{_DIGITS.sub('#', first)}/"
    return f"{parts.host}/{_FIRST_WORD.match(first).group()}"  # type: ignore[union-attr]
