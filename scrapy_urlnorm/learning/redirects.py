"""What permanent redirects prove about a site while it is being crawled.

A site that answers ``/a`` with a permanent redirect to ``/a/`` says that the two are one
resource (RFC 9110, sections 15.4.2 and 15.4.9). Seen often enough on a host, for the same
difference and never the other way round, that is a rule: scheme, host name, final slash, index
file. How often is enough follows from the risk bound that rules learned from content have, by
the prior of their kind: three redirects for a host name, six for a final slash.

Redirects of one first path segment alone (``/~bob/``, ``/app1/``) make a rule for that segment:
others may be somebody else's. When two other segments agree, the rule is for the whole host.

No Scrapy here: `RedirectLearner` is told what came back, and says which rules that makes.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from scrapy_urlnorm.domains import registrable_domain
from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.learning.redirect_kinds import (
    PRIORS,
    Difference,
    contradicted,
    difference_of,
    differences,
    first_segment,
    rule_of,
    traits,
    undoes,
)
from scrapy_urlnorm.learning.risk import Limits, support_needed
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_urlnorm.normalizer import Normalizer
    from scrapy_urlnorm.site_rules import SiteRule

_OTHER_KINDS = 0.4
#: The share of wrong merges that is accepted.
RISK = Limits().risk
#: First path segments that have to agree before a rule is for the whole host.
AGREEING_SEGMENTS = 3
#: Sites without a rule that are remembered. One with a rule, in force or rejected, always is.
MAX_SITES = 10_000
#: Hosts remembered for one site, differences counted for one host, segments for one difference.
MAX_HOSTS = 100
MAX_OPERATIONS = 8
MAX_SEGMENTS = 16
#: Targets that are told apart in a segment, and examples kept for a rule.
_MAX_TARGETS = 64
MAX_EXAMPLES = 3


def prior(rule: SiteRule) -> float:
    """Return how likely a rule of its kind is right before there is any evidence."""
    return PRIORS.get(rule.kind, _OTHER_KINDS)


class _Votes:
    """Redirects that agree on one difference: different targets by first path segment."""

    __slots__ = ("examples", "targets")

    def __init__(self) -> None:
        self.targets: dict[str, set[int]] = {}
        self.examples: list[tuple[str, str]] = []

    def add(self, segment: str, source: str, target: str) -> None:
        of_segment = self.targets.get(segment)
        if of_segment is None:
            if len(self.targets) >= MAX_SEGMENTS:
                return
            of_segment = self.targets[segment] = set()
        before = len(of_segment)
        if before < _MAX_TARGETS:
            of_segment.add(hash(target))
        if len(of_segment) > before and len(self.examples) < MAX_EXAMPLES:
            self.examples.append((source, target))

    def support(self, segment: str = "") -> int:
        if segment:
            return len(self.targets.get(segment, ()))
        return sum(map(len, self.targets.values()))


class _Host:
    """What was seen of one host: bounded, whatever the host sends."""

    __slots__ = ("served", "votes")

    def __init__(self) -> None:
        #: Traits of URLs that were answered with a page, and the first path segments they had:
        #: each rules out an difference there. After `MAX_SEGMENTS` they rule it out everywhere.
        self.served: dict[tuple[str, str], set[str]] = {}
        self.votes: dict[Difference, _Votes] = {}


class _Site:
    """What is known of one registrable domain."""

    __slots__ = ("active", "hosts", "rejected")

    def __init__(self) -> None:
        self.hosts: OrderedDict[str, _Host] = OrderedDict()
        self.active: dict[Difference, SiteRule] = {}
        self.rejected: dict[Difference, SiteRule] = {}

    def host(self, name: str) -> _Host:
        known = self.hosts.get(name)
        if known is None:
            known = self.hosts[name] = _Host()
            if len(self.hosts) > MAX_HOSTS:
                self.hosts.popitem(last=False)
        return known


class RedirectLearner:
    """Learns rules for hosts from permanent redirects, and takes back what a page contradicts.

    *base* is what the user configured. *rules* were learned before; a rejected one is not learned
    again.
    """

    def __init__(self, base: Normalizer, rules: Iterable[SiteRule] = ()) -> None:
        self._base = base
        self._sites: dict[str, _Site] = {}
        self._without_rules: dict[str, None] = {}  # when they were looked at last, oldest first
        self._others: list[SiteRule] = []  # of the file, but not of a kind that is learned here
        for rule in rules:
            difference = difference_of(rule)
            if difference is None:
                self._others.append(rule)
            else:
                site = self._site(difference.host)
                (site.active if rule.active else site.rejected)[difference] = rule

    @property
    def rules(self) -> tuple[SiteRule, ...]:
        """Everything worth keeping: rules in force and rejected, in a fixed order."""
        found: dict[Difference, SiteRule] = {}
        for site in self._sites.values():
            found |= site.active | site.rejected
        return (*self._others, *(found[difference] for difference in sorted(found)))

    def active(self, domain: str) -> tuple[SiteRule, ...]:
        """Return the rules in force for the hosts of a registrable domain."""
        site = self._sites.get(domain)
        return () if site is None else tuple(site.active.values())

    def sites(self) -> list[str]:
        """Return the registrable domains that have rules in force."""
        return [domain for domain, site in self._sites.items() if site.active]

    def redirect(self, source: str, target: str) -> list[SiteRule]:
        """Take note of a permanent redirect; return the rules that are in force from now on."""
        source, target = (url.partition("#")[0] for url in (source, target))
        before, after = split(self._base.normalize(source)), split(self._base.normalize(target))
        segment = first_segment(before)
        found = (
            self._vote(difference, segment, source, target)
            for difference in differences(before, after)
        )
        return [rule for rule in found if rule is not None]

    def page(self, url: str) -> list[SiteRule]:
        """Take note of a URL that was answered with a page; return the rules it contradicts."""
        parts = split(self._base.normalize(url.partition("#")[0]))
        if parts.host is None:
            return []
        site = self._site(parts.host)
        host = site.host(parts.host)
        segment = first_segment(parts)
        retracted: list[SiteRule] = []
        for trait in traits(parts):
            segments = host.served.setdefault(trait, set())
            if len(segments) <= MAX_SEGMENTS:
                segments.add(segment)
            wrong = contradicted(site.active, parts.host, trait, segment)
            retracted += [self._reject(site, each, f"served: {url}") for each in wrong]
        return retracted

    def reject(self, rule: SiteRule, note: str) -> SiteRule | None:
        """Take back a rule that is in force; return what is kept of it."""
        difference = difference_of(rule)
        site = None if difference is None else self._sites.get(_domain(difference.host))
        if difference is None or site is None or difference not in site.active:
            return None
        return self._reject(site, difference, note)

    def adopt(self, rules: Iterable[SiteRule]) -> tuple[list[SiteRule], list[SiteRule]]:
        """Take over what other crawlers of the same sites learned.

        Return the rules that are in force from now on, and those that are in force no longer, or
        must not be. A rule that one of us rejected stays rejected.
        """
        learned, retracted = [], []
        for rule in rules:
            difference = difference_of(rule)
            if difference is None:
                continue
            site = self._site(difference.host)
            if difference in site.rejected:
                continue
            if not rule.active:
                site.rejected[difference] = rule
                if site.active.pop(difference, None) is not None:
                    retracted.append(rule)
            elif self._is_ruled_out(site, difference):
                refuted = rule.replace(
                    status="rejected", conflicts=1, note="contradicted by a page"
                )
                site.rejected[difference] = refuted
                retracted.append(refuted)
            elif difference not in site.active:
                site.active[difference] = rule
                learned.append(rule)
        return learned, retracted

    def _site(self, host: str) -> _Site:
        domain = _domain(host)
        site = self._sites.get(domain)
        if site is None:
            site = self._sites[domain] = _Site()
            self._without_rules[domain] = None
            self._forget_oldest()
        return site

    def _forget_oldest(self) -> None:
        """Forget sites without rules, the oldest first. Evidence is lost by that, no retraction."""
        while len(self._without_rules) > MAX_SITES:
            domain = next(iter(self._without_rules))
            del self._without_rules[domain]
            site = self._sites[domain]
            if not site.active and not site.rejected:
                del self._sites[domain]

    def _vote(
        self, difference: Difference, segment: str, source: str, target: str
    ) -> SiteRule | None:
        """Count a redirect; return the rule that it makes, if it makes one."""
        site = self._site(difference.host)
        if difference in site.active or difference in site.rejected:
            return None
        host = site.host(difference.host)
        votes = host.votes.get(difference)
        if votes is None:
            if len(host.votes) >= MAX_OPERATIONS:
                return None
            votes = host.votes[difference] = _Votes()
        votes.add(segment, source, target)
        needed = support_needed(PRIORS[difference.kind], RISK)
        for scoped in (difference, difference._replace(segment=segment)):
            if not scoped.segment and len(votes.targets) < AGREEING_SEGMENTS:
                continue
            if scoped in site.active or scoped in site.rejected:
                continue
            if votes.support(scoped.segment) < needed or self._is_ruled_out(site, scoped):
                continue
            try:
                rule = rule_of(scoped, votes.support(scoped.segment), votes.examples)
            except SiteRuleError:  # a segment or a URL that is no Unicode text
                continue
            for narrower in [each for each in site.active if each.anywhere == scoped]:
                del site.active[narrower]
            site.active[scoped] = rule
            return rule
        return None

    def _is_ruled_out(self, site: _Site, difference: Difference) -> bool:
        """Whether a page was served that the difference would take for another.

        So is what would undo a rule in force: the two would go round.
        """
        if any(undoes(difference, other) for other in site.active):
            return True
        if difference.kind == "host-alias":
            name, trait = difference.value, ("host", "")
        else:
            name, trait = difference.host, (difference.kind, difference.value)
        host = site.hosts.get(name)
        segments = host.served.get(trait, ()) if host is not None else ()
        if not difference.segment or len(segments) > MAX_SEGMENTS:
            return bool(segments)
        return difference.segment in segments

    def _reject(self, site: _Site, difference: Difference, note: str) -> SiteRule:
        rule = site.active.pop(difference)
        rule = rule.replace(status="rejected", conflicts=(rule.conflicts or 0) + 1, note=note)
        site.rejected[difference] = rule
        return rule


def _domain(host: str) -> str:
    return registrable_domain(host) or host
