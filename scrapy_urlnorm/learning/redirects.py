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
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.domains import registrable_domain
from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.learning.risk import Limits, risk, support_needed
from scrapy_urlnorm.rules.data import index_names
from scrapy_urlnorm.rules.path import trailing_slash
from scrapy_urlnorm.site_rules import SiteRule
from scrapy_urlnorm.site_rules.form import Form
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_urlnorm.normalizer import Normalizer
    from scrapy_urlnorm.url import Url

#: How likely a redirect of a kind holds for its whole scope, before the site has said anything.
_PRIORS = {
    "force-scheme": 0.8,
    "host-alias": 0.7,
    "remove-directory-index": 0.7,
    "trailing-slash": 0.5,
}
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


class Operation(NamedTuple):
    """One way in which source and target of a redirect differ, and where that holds."""

    host: str  #: the host the rule is for
    kind: str  #: the kind of the `SiteRule`
    value: str  #: its operand
    segment: str = ""  #: the first path segment that it holds for; "" for the whole host

    @property
    def anywhere(self) -> Operation:
        """The same for the whole host."""
        return self._replace(segment="")


def prior(rule: SiteRule) -> float:
    """Return how likely a rule of its kind is right before there is any evidence."""
    return _PRIORS.get(rule.kind, _OTHER_KINDS)


class _Votes:
    """Redirects that agree on one operation: different targets by first path segment."""

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
        #: each rules out an operation there. After `MAX_SEGMENTS` they rule it out everywhere.
        self.served: dict[tuple[str, str], set[str]] = {}
        self.votes: dict[Operation, _Votes] = {}


class _Site:
    """What is known of one registrable domain."""

    __slots__ = ("active", "hosts", "rejected")

    def __init__(self) -> None:
        self.hosts: OrderedDict[str, _Host] = OrderedDict()
        self.active: dict[Operation, SiteRule] = {}
        self.rejected: dict[Operation, SiteRule] = {}

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
            operation = _operation_of(rule)
            if operation is None:
                self._others.append(rule)
            else:
                site = self._site(operation.host)
                (site.active if rule.active else site.rejected)[operation] = rule

    @property
    def rules(self) -> tuple[SiteRule, ...]:
        """Everything worth keeping: rules in force and rejected, in a fixed order."""
        found: dict[Operation, SiteRule] = {}
        for site in self._sites.values():
            found |= site.active | site.rejected
        return (*self._others, *(found[operation] for operation in sorted(found)))

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
        segment = _first_segment(before)
        found = (
            self._vote(operation, segment, source, target)
            for operation in _differences(before, after)
        )
        return [rule for rule in found if rule is not None]

    def page(self, url: str) -> list[SiteRule]:
        """Take note of a URL that was answered with a page; return the rules it contradicts."""
        parts = split(self._base.normalize(url.partition("#")[0]))
        if parts.host is None:
            return []
        site = self._site(parts.host)
        host = site.host(parts.host)
        segment = _first_segment(parts)
        retracted: list[SiteRule] = []
        for trait in _traits(parts):
            segments = host.served.setdefault(trait, set())
            if len(segments) <= MAX_SEGMENTS:
                segments.add(segment)
            contradicted = _contradicted(site.active, parts.host, trait, segment)
            retracted += [self._reject(site, each, f"served: {url}") for each in contradicted]
        return retracted

    def reject(self, rule: SiteRule, note: str) -> SiteRule | None:
        """Take back a rule that is in force; return what is kept of it."""
        operation = _operation_of(rule)
        site = None if operation is None else self._sites.get(_domain(operation.host))
        if operation is None or site is None or operation not in site.active:
            return None
        return self._reject(site, operation, note)

    def adopt(self, rules: Iterable[SiteRule]) -> tuple[list[SiteRule], list[SiteRule]]:
        """Take over what other crawlers of the same sites learned.

        Return the rules that are in force from now on, and those that are in force no longer, or
        must not be. A rule that one of us rejected stays rejected.
        """
        learned, retracted = [], []
        for rule in rules:
            operation = _operation_of(rule)
            if operation is None:
                continue
            site = self._site(operation.host)
            if operation in site.rejected:
                continue
            if not rule.active:
                site.rejected[operation] = rule
                if site.active.pop(operation, None) is not None:
                    retracted.append(rule)
            elif self._is_ruled_out(site, operation):
                refuted = replace(
                    rule, status="rejected", conflicts=1, note="contradicted by a page"
                )
                site.rejected[operation] = refuted
                retracted.append(refuted)
            elif operation not in site.active:
                site.active[operation] = rule
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
        self, operation: Operation, segment: str, source: str, target: str
    ) -> SiteRule | None:
        """Count a redirect; return the rule that it makes, if it makes one."""
        site = self._site(operation.host)
        if operation in site.active or operation in site.rejected:
            return None
        host = site.host(operation.host)
        votes = host.votes.get(operation)
        if votes is None:
            if len(host.votes) >= MAX_OPERATIONS:
                return None
            votes = host.votes[operation] = _Votes()
        votes.add(segment, source, target)
        needed = support_needed(_PRIORS[operation.kind], RISK)
        for scoped in (operation, operation._replace(segment=segment)):
            if not scoped.segment and len(votes.targets) < AGREEING_SEGMENTS:
                continue
            if scoped in site.active or scoped in site.rejected:
                continue
            if votes.support(scoped.segment) < needed or self._is_ruled_out(site, scoped):
                continue
            try:
                rule = _rule(scoped, votes)
            except SiteRuleError:  # a segment or a URL that is no Unicode text
                continue
            for narrower in [each for each in site.active if each.anywhere == scoped]:
                del site.active[narrower]
            site.active[scoped] = rule
            return rule
        return None

    def _is_ruled_out(self, site: _Site, operation: Operation) -> bool:
        """Whether a page was served that the operation would take for another.

        So is what would undo a rule in force: the two would go round.
        """
        if any(_undoes(operation, other) for other in site.active):
            return True
        if operation.kind == "host-alias":
            name, trait = operation.value, ("host", "")
        else:
            name, trait = operation.host, (operation.kind, operation.value)
        host = site.hosts.get(name)
        segments = host.served.get(trait, ()) if host is not None else ()
        if not operation.segment or len(segments) > MAX_SEGMENTS:
            return bool(segments)
        return operation.segment in segments

    def _reject(self, site: _Site, operation: Operation, note: str) -> SiteRule:
        rule = site.active.pop(operation)
        rule = replace(rule, status="rejected", conflicts=(rule.conflicts or 0) + 1, note=note)
        site.rejected[operation] = rule
        return rule


def _contradicted(
    active: Iterable[Operation], host: str, trait: tuple[str, str], segment: str
) -> list[Operation]:
    """Return the operations that a page with this trait contradicts."""
    return [
        operation
        for operation in active
        if operation.segment in ("", segment)
        and (
            operation.kind == "host-alias" and operation.value == host
            if trait == ("host", "")
            else operation[:3] == (host, *trait)
        )
    ]


def _undoes(operation: Operation, other: Operation) -> bool:
    """Whether one takes a URL back to where the other takes it from."""
    if operation.kind != other.kind or operation.kind == "remove-directory-index":
        return False
    if operation.kind == "host-alias":
        return (operation.host, operation.value) == (other.value, other.host)
    return operation.host == other.host and operation.value != other.value


def _domain(host: str) -> str:
    return registrable_domain(host) or host


def _first_segment(url: Url) -> str:
    """Return the first path segment as the context of a rule has it, decoded; "" for the root."""
    segments = Form(url).segments
    return segments[0] if segments else ""


def _differences(source: Url, target: Url) -> Iterator[Operation]:
    """The operations that lead from *source* to *target*; none if anything else differs."""
    if source.host is None or target.host is None or source == target:
        return
    if (source.userinfo, source.port, source.query) != (
        target.userinfo,
        target.port,
        target.query,
    ):
        return
    if source.port is not None and (source.scheme, source.host) != (target.scheme, target.host):
        return
    operations = []
    host = target.host
    if source.host != host:
        domain = registrable_domain(host)
        if not domain or registrable_domain(source.host) != domain:
            return
        operations.append(Operation(host, "host-alias", source.host))
    if source.scheme != target.scheme:
        if {source.scheme, target.scheme} != {"http", "https"}:
            return
        operations.append(Operation(host, "force-scheme", str(target.scheme)))
    path = source.path
    if path != target.path:
        folder, _, name = path.rpartition("/")
        if name in index_names() and target.path in (folder, folder + "/"):
            operations.append(Operation(host, "remove-directory-index", name))
            path = folder + "/"
        if path != target.path:
            if path == target.path + "/":
                operations.append(Operation(host, "trailing-slash", "remove"))
            elif path + "/" == target.path and _has_end(source, "add"):
                operations.append(Operation(host, "trailing-slash", "add"))
            else:
                return
    yield from operations


def _traits(url: Url) -> Iterator[tuple[str, str]]:
    """What a page at *url* speaks against: the kind and value of operations on its host."""
    yield "host", ""
    if url.scheme in ("http", "https"):
        yield "force-scheme", "http" if url.scheme == "https" else "https"
    for mode in ("add", "remove"):
        if _has_end(url, mode):
            yield "trailing-slash", mode
    name = url.path.rpartition("/")[2]
    if name in index_names():
        yield "remove-directory-index", name


def _has_end(url: Url, mode: str) -> bool:
    """Whether the rule for final slashes would change *url*."""
    return trailing_slash(url, mode) is not url


def _rule(operation: Operation, votes: _Votes) -> SiteRule:
    host, kind, value, segment = operation
    support = votes.support(segment)
    operands: dict[str, Any]
    if kind == "host-alias":
        operands = {"host": (value,), "by": host}
    elif kind == "remove-directory-index":
        operands = {"option": [value]}
    else:
        operands = {"option": value}
    if segment:
        operands["when"] = {"segments": {"0": segment}}
    return SiteRule(
        site=host,
        kind=kind,
        source="redirect",
        support=support,
        conflicts=0,
        false_merge_upper=round(risk(support, 0, _PRIORS[kind]), 4),
        examples=tuple(votes.examples),
        **operands,
    )


def _operation_of(rule: SiteRule) -> Operation | None:
    """The operation that a rule of a file stands for, if it is one that is learned here."""
    if rule.source != "redirect" or rule.path is not None:
        return None
    segment = ""
    if rule.when:
        segments = rule.when.get("segments", {})
        if len(rule.when) != 1 or list(segments) != ["0"] or not isinstance(segments["0"], str):
            return None
        segment = segments["0"]
    if rule.kind == "host-alias" and len(rule.host) == 1 and rule.by:
        return Operation(rule.by, rule.kind, rule.host[0], segment)
    if rule.kind in ("force-scheme", "trailing-slash") and isinstance(rule.option, str):
        return Operation(rule.site, rule.kind, rule.option, segment)
    option = rule.option
    if rule.kind == "remove-directory-index" and isinstance(option, (list, tuple)):
        return (
            Operation(rule.site, rule.kind, str(option[0]), segment) if len(option) == 1 else None
        )
    return None
