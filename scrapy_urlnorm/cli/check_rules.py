"""Checks a rule file before a crawl depends on it."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from scrapy_urlnorm.domains import registrable_domain
from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.site_rules.compile import compile_site_rules
from scrapy_urlnorm.site_rules.context import own_params
from scrapy_urlnorm.site_rules.file import load_site_rules
from scrapy_urlnorm.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy_urlnorm.site_rules.model import SiteRule

_OF_ONE_PARAM = ("drop-param", "drop-default", "lowercase-param", "dedupe-param", "ignore-value",
                 "strip-suffix", "replace-text", "keep-number", "lowercase-first")  # fmt: skip


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
        compile_site_rules(rules)
    except SiteRuleError as error:
        report.errors.append(str(error))
    else:
        _check_examples(rules, active, profile, report)
    report.warnings += _twice(rules)
    report.warnings += _shadowed(active)
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
                    profile, site_rules=[*active, replace(rule, status="active")]
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


def _shadowed(rules: Sequence[SiteRule]) -> list[str]:
    """Return a warning for each rule that a more general rule makes superfluous.

    Only a rule without a context is more general. Such rules are looked up by their site and
    operation: a file of many thousand rules is not compared rule by rule.
    """
    dropping: dict[tuple[str, str], dict[str, int]] = {}  # (site, parameter): rules by identity
    saying: dict[tuple[str, str], int] = {}  # (site, operation): the first rule
    for at, rule in enumerate(rules):
        if rule.path is None and not rule.when:
            saying.setdefault((rule.site, _said(rule)), at)
            for name in rule.param if rule.kind == "drop-param" else ():
                dropping.setdefault((rule.site, name), {}).setdefault(rule.identity, at)
    found = []
    for rule in rules:
        is_on_params = rule.kind in _OF_ONE_PARAM
        is_on_params = is_on_params and not (rule.slash or rule.semicolons or rule.bare)
        own = own_params(rule) if is_on_params else frozenset()
        others = []
        for site in _covering(rule.site):
            if own:
                dropped = min((dropping.get((site, name), {}) for name in own), key=len)
                found_at = (at for identity, at in dropped.items() if identity != rule.identity)
                others += [at for at in found_at if own <= set(rules[at].param)]
            same = (site, _said(rule))
            if rule.kind != "drop-param" and (rule.path or rule.when) and same in saying:
                others.append(saying[same])
        if others:
            found.append(f"({rule}) is superfluous beside ({rules[min(others)]})")
    return found


def _covering(site: str) -> Iterator[str]:
    """Yield the sites whose rules hold for all of *site*."""
    if not site.startswith("*."):
        yield site
    host = site.removeprefix("*.")
    while host:
        yield f"*.{host}"
        host = host.partition(".")[2]


def _said(rule: SiteRule) -> str:
    """Return the operation of a rule, without its site and context, as text to compare."""
    said = {
        name: sorted(value) if isinstance(value, tuple) else value
        for name, value in rule.operation().items()
        if name not in ("site", "path", "when")
    }
    return json.dumps(said, sort_keys=True, default=list)


def _ambiguous(rules: Sequence[SiteRule]) -> list[str]:
    """Return a warning for each two rules that do different things to the same operand."""
    found = []
    meanings: dict[str, list[SiteRule]] = {}
    for rule in rules:
        what = rule.old or rule.default or rule.prefix or rule.tail or rule.host
        if rule.kind in ("replace", "prefix-alias", "host-alias", "strip-tail"):
            meanings.setdefault(f"{rule.site} {rule.kind} {what!r}", []).append(rule)
    for same in meanings.values():
        for at, rule in enumerate(same):
            found += [
                f"where both hold, the first of these decides: ({rule}) and ({other})"
                for other in same[at + 1 :]
                if (rule.new, rule.by) != (other.new, other.by)
            ]
    return found
