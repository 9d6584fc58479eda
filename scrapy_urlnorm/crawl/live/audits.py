"""Audits: how many of the requests that a rule withholds are sent all the same, to test it.

A rule with W witnesses that agree, of an operation that is right with prior probability p, merges
wrongly about k / W^2 of the requests that it withholds, with k = (1 - p) / p (the spike and slab
of `scrapy_urlnorm.learning.risk`). It withholds M requests. If a lost page costs as much as C
fetches, then the total cost with a audits is a + C k M / (W + a)^2 fetches. It is least where
W + a = (2 C k M)^(1/3). So the number of audits grows with the cube root of M.

Witnesses from one part of a site say little about the others. So the first request of each kind
(`strata`) is an audit too, whatever its rules have proved, and so is one request at each doubling
of M. And where URLs stand in a sorted list, a hundred neighbours are not a hundred witnesses: until
the witnesses from different neighbourhoods are enough, the first request of each is an audit.

All audits of a site are to be few: `SHARE` of what its rules withhold, and a handful. The rules
that withhold most are audited first. What a small rule withheld is given back in the end, if its
audits find no place within that (`too_small`). The first request of a kind is sent in any case: a
page that is fetched twice is a mild fault, a page that is lost is not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, log2
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.crawl.sites import domain_of
from scrapy_urlnorm.learning import priors, redirects
from scrapy_urlnorm.learning.strata import Known, Place
from scrapy_urlnorm.learning.wary import exchanges_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy_urlnorm.crawl.merges import Reason

#: What a lost page costs, in fetches: C of the law.
COST_OF_A_LOSS = 20
#: The audits of a site: this share of what is withheld, and a handful.
SHARE, HANDFUL = 0.05, 5
#: A rule that withheld no more than this gives it back, where its audits find no place.
LITTLE = 10
#: How likely it is right, in a crawl, that one value of a parameter means another (a choice).
_EXCHANGE = 0.1
#: Contents remembered for a rule. The law asks for 67 where a rule withholds 5,000 requests.
_MAX_VOTES = 500


@dataclass
class _Site:
    """What the rules of one site withhold together."""

    name: str
    withheld: int = 0
    audits: int = 0
    records: list[_Record] = field(default_factory=list)

    @property
    def room(self) -> float:
        """How many more audits may be sent."""
        return HANDFUL + SHARE * self.withheld - self.audits

    def has_room_for(self, record: _Record) -> bool:
        """Whether there is room for an audit of a rule, beside those that withhold more."""
        larger = (each for each in self.records if each.withheld > record.withheld)
        return self.room >= 1 + sum(each.missing for each in larger)


@dataclass(eq=False)
class _Record:
    """How many requests one rule would withhold, and how its audits ended."""

    site: _Site
    about: tuple[str, ...]  #: slots
    doubt: float  #: k of the law, from how likely a rule of this kind is right
    rate: float  #: the least share of what is withheld that is audited
    support: int  #: when the rule came into force
    proved: int  #: the support that was told last
    is_bounded: bool = True  #: whether its audits need room beside those of other rules
    withheld: int = 0  #: requests that it would withhold, audits included: M of the law
    agreed: int = 0
    under_way: int = 0
    votes: set[int] = field(default_factory=set)  #: contents that agreed: each has one vote
    asked: set[int] = field(default_factory=set)  #: contents of which an audit was sent
    places: set[int] = field(default_factory=set)  #: neighbourhoods that audits were sent to
    known: Known = field(default_factory=Known)

    @property
    def witnesses(self) -> int:
        """The contents that speak for the rule: those of the miner, or more by audits."""
        return max(self.proved, self.support + len(self.votes))

    @property
    def _spread(self) -> int:
        """The neighbourhoods that speak for it."""
        return max(self.proved, self.support + len(self.places))

    @property
    def _wanted(self) -> float:
        """W + a of the law."""
        return float((2 * COST_OF_A_LOSS * self.doubt * self.withheld) ** (1 / 3))

    @property
    def _least(self) -> float:
        """The audits that it needs whatever its witnesses are."""
        return max(1.0, log2(1 + self.withheld) - 1, self.rate * self.withheld)

    @property
    def missing(self) -> int:
        """How many audits it needs more."""
        audits = self.agreed + self.under_way
        witnesses = self.witnesses + self.under_way
        return max(0, ceil(self._least - audits), ceil(self._wanted - witnesses))

    def is_due(self, content: int, place: int | None = None) -> bool:
        """Return whether one more audit is needed, and *content* can still say something."""
        if self.agreed + self.under_way < self._least:
            return True
        if self.witnesses + self.under_way < self._wanted and content not in self.asked:
            return True
        return place is not None and self._spread < self._wanted and place not in self.places

    @property
    def is_too_small(self) -> bool:
        """Whether it needs more audits, finds no room for them, and withheld little.

        Without any audit it is not: what other rules withheld may stand behind it now.
        """
        is_little = self.agreed > 0 and self.withheld <= LITTLE
        return is_little and bool(self.missing) and not self.site.has_room_for(self)


class Audits:
    """Counts, for each rule in force, the requests it withheld and the results of audits.

    A rule is any object with ``identity``, ``site``, ``support`` and ``source``. If it is no `SiteRule`, its
    ``prior`` says how likely it is right, and ``audit_rate`` which share is audited at least. With
    ``is_bounded = False`` it is audited though the site has no room for it.
    """

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}
        self._sites: dict[str, _Site] = {}

    def is_due(self, rules: Sequence[Reason], url: str, content: object, twin: str = "") -> bool:
        """Count a request that *rules* would withhold. Return whether to send it as an audit.

        *content* is that of the page it would stand behind, *twin* the URL. After ``True``, the
        caller has to call `agreed`, `undecided` or `forget` when the audit has ended.
        """
        where = Place(url, twin)
        due = False
        for record in map(self._record, rules):
            record.withheld += 1
            due |= record.known.add(where.strata(record.about))
            if not due and record.is_due(hash(content), where.neighbourhood(record.about)):
                due = not record.is_bounded or record.site.has_room_for(record)
        if due:
            self._begin(rules, content, where)
        else:
            self._record(rules[0]).site.withheld += 1
        return due

    def shown(self, rule: Reason, pairs: Iterable[tuple[str, str]]) -> None:
        """Take note of equal pages that *rule* makes one: their kinds have had their test.

        Each of *pairs* are the URLs of a request that *rule* would withhold, and of its twin.
        """
        record = self._record(rule)
        for url, twin in pairs:
            record.known.add(Place(url, twin).strata(record.about))

    def is_owed(self, rules: Sequence[Reason], content: object) -> bool:
        """Return whether to send a withheld request as an audit, when the crawl is idle.

        That is, if one of *rules* had fewer audits than it needs. The request was counted before.
        """
        records = map(self._record, rules)
        owed = any(each.is_due(hash(content)) and not each.is_too_small for each in records)
        if owed:
            self._begin(rules, content)
            self._record(rules[0]).site.withheld -= 1
        return owed

    def owes(self, rule: Reason) -> bool:
        """Return whether *rule* had fewer audits than it needs, and has to have them."""
        record = self._record(rule)
        return bool(record.missing) and not record.is_too_small

    def passed(self, rule: Reason) -> int:
        """Return how many audits have agreed with *rule* in this run."""
        record = self._records.get(rule.identity)
        return 0 if record is None else record.agreed

    def too_small(self, rules: Iterable[Reason]) -> list[Reason]:
        """Return those of *rules* that should give back what they withheld, without a ban.

        Such a rule needs audits for which the site has no room, and it withheld little.
        """
        return [rule for rule in rules if self._record(rule).is_too_small]

    def _begin(self, rules: Sequence[Reason], content: object, where: Place | None = None) -> None:
        first = self._record(rules[0])
        first.site.audits += first.is_bounded
        for record in map(self._record, rules):
            record.under_way += 1
            if len(record.asked) < _MAX_VOTES:
                record.asked.add(hash(content))
            if where is not None and len(record.places) < _MAX_VOTES:
                record.places.add(where.neighbourhood(record.about))

    def agreed(self, rules: Iterable[Reason], content: object) -> None:
        """Take note of an audit that agreed with *rules*. Both pages have *content*."""
        for record in self._ended(rules):
            record.agreed += 1
            if len(record.votes) < _MAX_VOTES:
                record.votes.add(hash(content))

    def undecided(self, rules: Iterable[Reason], url: str = "", twin: str = "") -> None:
        """Take note of an audit of *url* without an answer: it counts as not sent."""
        where = Place(url, twin)
        for record in self._ended(rules):
            record.known.discard(where.strata(record.about))
            record.places.discard(where.neighbourhood(record.about))

    def _ended(self, rules: Iterable[Reason]) -> Iterator[_Record]:
        """Count an audit as ended; yield the records of the rules that are still in force."""
        for rule in rules:
            record = self._records.get(rule.identity)
            if record is not None:
                record.under_way = max(0, record.under_way - 1)
                yield record

    def to_blame(self, rules: Sequence[Reason]) -> Reason:
        """Return which of *rules* to reject when an audit disagrees: the one with least support."""
        return min(rules, key=lambda rule: self._record(rule).witnesses)

    def pass_on(self, rule: Reason, to: Reason) -> None:
        """Let a rule that is new have what is known of one that it takes the place of."""
        if rule.identity in self._records and to.identity not in self._records:
            record = self._records[to.identity] = self._records.pop(rule.identity)
            record.under_way = 0  # the answers to these are about the rule that went

    def forget(self, rule: Reason) -> None:
        """Forget a rule that is no longer in force."""
        record = self._records.pop(rule.identity, None)
        if record is not None:
            record.site.records.remove(record)
            if not record.site.records:
                del self._sites[record.site.name]

    def _record(self, rule: Reason) -> _Record:
        record = self._records.get(rule.identity)
        support = rule.support or 0
        if record is None:
            likely = prior(rule)
            name = domain_of(rule.site)
            site = self._sites.setdefault(name, _Site(name))
            record = _Record(
                site=site,
                about=tuple(about(rule)),
                doubt=(1 - likely) / likely,
                rate=getattr(rule, "audit_rate", 0.0),
                support=support,
                proved=support,
                is_bounded=getattr(rule, "is_bounded", True),
            )
            self._records[rule.identity] = record
            site.records.append(record)
        record.proved = max(record.proved, support)
        return record


def prior(rule: Any) -> float:
    """Return how likely a rule was right before there was any evidence."""
    if rule.source == "redirect":
        return redirects.prior(rule)
    operation = getattr(rule, "operation", None)
    if operation is None:
        return float(rule.prior)
    likely = priors.prior(operation)
    return min(_EXCHANGE, likely) if exchanges_values(operation) else likely


def about(rule: Any) -> frozenset[str]:
    """Return the slots that a rule reads or changes."""
    operation = getattr(rule, "operation", None)
    return frozenset() if operation is None else operation.slots
