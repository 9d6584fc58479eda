"""What permanent redirects prove about a site while it is being crawled.

A site that answers ``/a`` with a permanent redirect to ``/a/`` says that the two are one
resource (RFC 9110, sections 15.4.2 and 15.4.9). Seen often enough on a host, for the same
difference and never the other way round, that is a rule: scheme, host name, final slash, index
file. The first redirect of each group is what it costs; what it saves is every one after.

No Scrapy here: `RedirectLearner` is told what came back and keeps a `Normalizer`.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.domains import registrable_domain
from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.rules.data import index_names
from scrapy_urlnorm.rules.path import trailing_slash
from scrapy_urlnorm.site_rules import SiteRule
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_urlnorm.normalizer import Normalizer
    from scrapy_urlnorm.url import Url

logger = logging.getLogger(__name__)

#: So many redirects to different targets, and nothing against it, make a rule. With that many
#: and no failure the share of failures is below 9.5 % at 95 % confidence (Clopper-Pearson).
ENOUGH = 30
#: Hosts that come after so many others are not learned about: what is known of the first is kept.
MAX_HOSTS = 10_000
#: Different differences counted for one host, and examples kept for a rule.
MAX_OPERATIONS = 8
MAX_EXAMPLES = 3
_CONFIDENCE = 0.95


class Operation(NamedTuple):
    """One way in which source and target of a redirect differ."""

    host: str  #: the host the rule is for
    kind: str  #: the kind of the `SiteRule`
    value: str  #: its operand


class _Host:
    """What was seen of one host: bounded, whatever the host sends."""

    __slots__ = ("served", "votes")

    def __init__(self) -> None:
        #: Traits of URLs that were answered with a page: each rules out an operation.
        self.served: set[tuple[str, str]] = set()
        self.votes: dict[Operation, _Votes] = {}


class _Votes:
    """Redirects that agree on one operation: how many different targets, and some examples."""

    __slots__ = ("examples", "targets")

    def __init__(self) -> None:
        self.targets: set[int] = set()
        self.examples: list[tuple[str, str]] = []

    def add(self, source: str, target: str) -> int:
        self.targets.add(hash(target))
        if len(self.examples) < min(MAX_EXAMPLES, len(self.targets)):
            self.examples.append((source, target))
        return len(self.targets)


class RedirectLearner:
    """Learns rules for hosts from permanent redirects, and takes back what a page contradicts.

    *base* is what the user configured; :attr:`normalizer` has the learned rules besides. *rules*
    were learned before (a rejected one is not learned again).
    """

    def __init__(
        self, base: Normalizer, rules: Iterable[SiteRule] = (), *, enough: int = ENOUGH
    ) -> None:
        self.base = base
        self.normalizer = base
        self._enough = enough
        self._hosts: dict[str, _Host] = {}
        self._active: dict[Operation, SiteRule] = {}
        self._pending: dict[Operation, SiteRule] = {}
        self._rejected: dict[Operation, SiteRule] = {}
        self._others: list[SiteRule] = []  # of the file, but not of a kind that is learned here
        for rule in rules:
            operation = _operation_of(rule)
            if operation is None:
                self._others.append(rule)
            elif rule.active:
                self._active[operation] = rule
            else:
                self._rejected[operation] = rule
        if self._active:
            try:
                self._rebuild()
            except SiteRuleError:  # not all go with those that the user has now
                self._pending, self._active = self._active, {}
                self._apply_pending()

    @property
    def rules(self) -> tuple[SiteRule, ...]:
        """Everything worth keeping: rules in force, waiting and rejected, in a fixed order."""
        found = self._active | self._pending | self._rejected
        return (*self._others, *(found[operation] for operation in sorted(found)))

    @property
    def active(self) -> tuple[SiteRule, ...]:
        """The rules that :attr:`normalizer` has besides those of *base*."""
        return tuple(self._active.values())

    def redirect(self, source: str, target: str) -> list[SiteRule]:
        """Take note of a permanent redirect; return the rules that are in force from now on."""
        source, target = (url.partition("#")[0] for url in (source, target))
        before, after = split(self.base.normalize(source)), split(self.base.normalize(target))
        operations = list(_differences(before, after))
        for operation in operations:
            self._vote(operation, source, target)
        return self._apply_pending() if self._pending else []

    def page(self, url: str) -> list[SiteRule]:
        """Take note of a URL that was answered with a page; return the rules it contradicts."""
        parts = split(self.base.normalize(url.partition("#")[0]))
        if parts.host is None or (known := self._host(parts.host)) is None:
            return []
        retracted = []
        for trait in _traits(parts):
            if trait not in known.served:
                known.served.add(trait)
                retracted += self._retract(parts.host, trait, url)
        if retracted:
            self._rebuild()
        return retracted

    def adopt(self, rules: Iterable[SiteRule]) -> tuple[list[SiteRule], list[SiteRule]]:
        """Take over what other crawlers of the same sites learned.

        Return the rules that are in force from now on, and those that are no longer. A rule that
        one of us rejected stays rejected.
        """
        retracted = []
        for rule in rules:
            operation = _operation_of(rule)
            if operation is None or operation in self._rejected:
                continue
            if not rule.active:
                self._rejected[operation] = rule
                self._pending.pop(operation, None)
                if self._active.pop(operation, None) is not None:
                    retracted.append(rule)
            elif self._is_ruled_out(operation):
                self._rejected[operation] = replace(
                    rule, status="rejected", conflicts=1, note="contradicted by a page"
                )
            elif operation not in self._active:
                self._pending[operation] = rule
        if retracted:
            self._rebuild()
        return (self._apply_pending() if self._pending else []), retracted

    def _host(self, host: str) -> _Host | None:
        known = self._hosts.get(host)
        if known is None and len(self._hosts) < MAX_HOSTS:
            known = self._hosts[host] = _Host()
        return known

    def _vote(self, operation: Operation, source: str, target: str) -> None:
        if operation in self._active or operation in self._pending or operation in self._rejected:
            return
        known = self._host(operation.host)
        if known is None or self._is_ruled_out(operation):
            return
        votes = known.votes.get(operation)
        if votes is None:
            if len(known.votes) >= MAX_OPERATIONS:
                return
            votes = known.votes[operation] = _Votes()
        if votes.add(source, target) >= self._enough:
            self._pending[operation] = _rule(operation, votes)
            del known.votes[operation]

    def _is_ruled_out(self, operation: Operation) -> bool:
        """Whether a page was served that the operation would take for another."""
        if operation.kind == "host-alias":
            host, trait = operation.value, ("host", "")
        else:
            host, trait = operation.host, (operation.kind, operation.value)
        known = self._hosts.get(host)
        return known is not None and trait in known.served

    def _apply_pending(self) -> list[SiteRule]:
        """Put pending rules in force.

        Compiling takes time by the number of rules: with many in force, new ones wait for
        company.
        """
        if len(self._pending) * 8 <= len(self._active):
            return []
        applied = []
        for operation, rule in list(self._pending.items()):
            del self._pending[operation]
            if self._is_ruled_out(operation):  # while it was waiting
                continue
            self._active[operation] = rule
            try:
                self._rebuild()
            except SiteRuleError as error:
                del self._active[operation]
                self._rejected[operation] = replace(rule, status="rejected", note=str(error))
                self._rebuild()
                logger.warning(
                    "A rule learned from redirects is not applied: %(error)s", {"error": error}
                )
            else:
                applied.append(rule)
        return applied

    def _retract(self, host: str, trait: tuple[str, str], url: str) -> list[SiteRule]:
        retracted = []
        for operation, rule in list(self._active.items()):
            contradicted = (
                operation.kind == "host-alias" and operation.value == host
                if trait == ("host", "")
                else operation == (host, *trait)
            )
            if contradicted:
                del self._active[operation]
                rule = replace(rule, status="rejected", conflicts=1, note=f"served: {url}")
                self._rejected[operation] = rule
                retracted.append(rule)
        return retracted

    def _rebuild(self) -> None:
        self.normalizer = self.base.replace_site_rules(
            (*self.base.site_rules, *self._active.values())
        )


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
    host, kind, value = operation
    support = len(votes.targets)
    operands: dict[str, object]
    if kind == "host-alias":
        operands = {"host": (value,), "by": host}
    elif kind == "remove-directory-index":
        operands = {"option": [value]}
    else:
        operands = {"option": value}
    return SiteRule(
        site=host,
        kind=kind,
        source="redirect",
        support=support,
        conflicts=0,
        false_merge_upper=round(1 - (1 - _CONFIDENCE) ** (1 / support), 4),
        examples=tuple(votes.examples),
        **operands,  # type: ignore[arg-type]
    )


def _operation_of(rule: SiteRule) -> Operation | None:
    """The operation that a rule of a file stands for, if it is one that is learned here."""
    if rule.source != "redirect" or rule.path is not None or rule.when:
        return None
    if rule.kind == "host-alias" and len(rule.host) == 1 and rule.by:
        return Operation(rule.by, rule.kind, rule.host[0])
    if rule.kind in ("force-scheme", "trailing-slash") and isinstance(rule.option, str):
        return Operation(rule.site, rule.kind, rule.option)
    option = rule.option
    if rule.kind == "remove-directory-index" and isinstance(option, (list, tuple)):
        return Operation(rule.site, rule.kind, str(option[0])) if len(option) == 1 else None
    return None
