"""Checks a rule file before a crawl depends on it."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scrapy_urlnorm.domains import registrable_domain
from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.site_rules.file import load_site_rules
from scrapy_urlnorm.site_rules.operations import DropParam, EditValue, IgnoreValue, Replace
from scrapy_urlnorm.site_rules.rule_set import RuleSet
from scrapy_urlnorm.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy_urlnorm.site_rules.operations import Operation
    from scrapy_urlnorm.site_rules.rule import SiteRule


@dataclass
class Report:
    """What `check_site_rules` found; ``str(report)`` is the text for people."""

    path: str
    rules: tuple[SiteRule, ...] = ()
    #: Reasons why the file cannot be used, and examples that its rules contradict.
    errors: list[str] = field(default_factory=list)
    #: Rules that do no harm but may be a mistake.
    warnings: list[str] = field(default_factory=list)
    examples: int = 0

    @property
    def ok(self) -> bool:
        """Whether the file can be used and its examples hold."""
        return not self.errors

    def __str__(self) -> str:
        by_status = Counter(rule.status for rule in self.rules)
        statuses = ", ".join(f"{number:,} {status}" for status, number in sorted(by_status.items()))
        lines = [f"error: {text}" for text in self.errors]
        lines += [f"warning: {text}" for text in self.warnings]
        sites = len({rule.site for rule in self.rules})
        summary = f"{counted(len(self.rules), 'rule')} for {counted(sites, 'site')}"
        if statuses:
            summary += f" ({statuses})"
        verdict = "ok" if self.ok else counted(len(self.errors), "error")
        examples = counted(self.examples, "example")
        return "\n".join([*lines, f"{self.path}: {verdict}: {summary}, {examples}"])


def check_site_rules(path: str | os.PathLike[str], profile: str = "default") -> Report:
    """Check that a rule file is valid, that its rules come to an end and contradict nothing.

    Every pair of ``examples`` must get one key under *profile*; a proposed rule is tried as if it
    were active. Rules that are there twice, that another rule makes superfluous, or that may say
    different things about one URL are warnings. Raises `OSError` only.
    """
    report = Report(os.fspath(path))
    try:
        report.rules = load_site_rules(path)
    except SiteRuleError as error:
        report.errors.append(str(error))
        return report
    by_domain: dict[str, list[SiteRule]] = {}
    for rule in report.rules:
        by_domain.setdefault(registrable_domain(rule.site.removeprefix("*.")), []).append(rule)
    for rules in by_domain.values():
        _check_domain(rules, profile, report)
    return report


def _check_domain(rules: list[SiteRule], profile: str, report: Report) -> None:
    active = [rule for rule in rules if rule.active]
    try:
        RuleSet(rules)
    except SiteRuleError as error:
        report.errors.append(str(error))
    else:
        _check_examples(rules, active, profile, report)
    report.warnings += _twice(rules)
    report.warnings += shadowed(active)
    report.warnings += _ambiguous(active)


def _check_examples(
    rules: Iterable[SiteRule], active: list[SiteRule], profile: str, report: Report
) -> None:
    rules = [rule for rule in rules if rule.examples and rule.status != "rejected"]
    if not rules:
        return  # a normalizer for each of ten thousand sites takes a while
    usual = Normalizer(profile, site_rules=active)
    for rule in rules:
        normalizer = usual
        if not rule.active:
            try:
                normalizer = Normalizer(
                    profile, site_rules=[*active, rule.replace(status="active")]
                )
            except SiteRuleError as error:
                report.warnings.append(f"could not be active beside the others: {error}")
                continue
        for first, second in rule.examples:
            report.examples += 1
            one, other = normalizer.normalize(first), normalizer.normalize(second)
            if one != other:
                report.errors.append(
                    f"an example is not merged: {first!r} is {one!r} and {second!r} is {other!r}: "
                    f"({rule})"
                )
            report.errors += [
                f"the key {key!r} of an example is not its own key: ({rule})"
                for key in {one, other}
                if normalizer.normalize(key) != key
            ]


def _twice(rules: Iterable[SiteRule]) -> list[str]:
    first: dict[str, SiteRule] = {}
    found = []
    for rule in rules:
        other = first.setdefault(rule.identity, rule)
        if other is not rule:
            found.append(f"these two rules say the same: ({other}) and ({rule})")
    return found


def shadowed(rules: Sequence[SiteRule]) -> list[str]:
    """Return a line for each rule that changes nothing that a more general one does not.

    Only a rule without a context is more general. Such rules are looked up by their site and
    operation: a file of many thousand rules is not compared rule by rule.
    """
    dropping: dict[tuple[str, str], dict[str, int]] = {}  # (site, slot): rules by identity
    saying: dict[tuple[str, str], int] = {}  # (site, operation): the first rule
    for at, rule in enumerate(rules):
        if not rule.context:
            saying.setdefault((rule.site, _said(rule)), at)
            for slot in rule.operation.slots if isinstance(rule.operation, DropParam) else ():
                dropping.setdefault((rule.site, slot), {}).setdefault(rule.identity, at)
    found = []
    for rule in rules:
        own = own_params(rule.operation)
        others = []
        for site in _covering(rule.site):
            if own:
                dropped = min((dropping.get((site, slot), {}) for slot in own), key=len)
                found_at = (at for identity, at in dropped.items() if identity != rule.identity)
                others += [at for at in found_at if own <= rules[at].operation.slots]
            same = (site, _said(rule))
            if not isinstance(rule.operation, DropParam) and rule.context and same in saying:
                others.append(saying[same])
        if others:
            found.append(f"({rule}) is superfluous beside ({rules[min(others)]})")
    return found


def own_params(operation: Operation) -> frozenset[str]:
    """Return the parameters that *operation* is about; none where it is about more than these."""
    on_values = isinstance(operation, (DropParam, EditValue, IgnoreValue))
    if not on_values and not (isinstance(operation, Replace) and operation.is_default):
        return frozenset()
    slots = operation.slots
    return slots if all(slot[:2] == "q:" for slot in slots) else frozenset()


def _covering(site: str) -> Iterator[str]:
    """Yield the sites whose rules hold for all of *site*."""
    if not site.startswith("*."):
        yield site
    host = site.removeprefix("*.")
    while host:
        yield f"*.{host}"
        host = host.partition(".")[2]


def _said(rule: SiteRule) -> str:
    """Return what a rule does, wherever it does it."""
    said = {
        name: sorted(value) if isinstance(value, tuple) else value
        for name, value in rule.operation.write().items()
    }
    return rule.kind + json.dumps(said, sort_keys=True, default=list)


def _ambiguous(rules: Sequence[SiteRule]) -> list[str]:
    """Return a line for each two rules that give one thing two meanings in two contexts."""
    found = []
    meanings: dict[tuple[str, str, object], list[SiteRule]] = {}
    for rule in rules:
        key = rule.operation.key
        if key is not None:
            meanings.setdefault((rule.site, rule.kind, key), []).append(rule)
    for same in meanings.values():
        for at, rule in enumerate(same):
            found += [
                f"where both hold, the first of these decides: ({rule}) and ({other})"
                for other in same[at + 1 :]
                if rule.operation != other.operation
            ]
    return found
