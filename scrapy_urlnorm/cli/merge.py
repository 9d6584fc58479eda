"""Adds new rules to a rule file, in which rules that people wrote are never overwritten."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_urlnorm.domains import domain_or_host
from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules import RuleSet, load_site_rules, save_site_rules

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from scrapy_urlnorm.site_rules import SiteRule


@dataclass
class Merged:
    """The rules of the file, and how many were added, removed, and could not be active."""

    rules: list[SiteRule]
    added: int = 0
    removed: int = 0
    demoted: int = 0


def domain_of(rule: SiteRule) -> str:
    """Return the registrable domain that a rule is for."""
    return domain_or_host(rule.site.removeprefix("*."))


def add_rules(path: str, rules: Iterable[SiteRule], mined: Container[str] = ()) -> Merged:
    """Add ``rules`` to the file at ``path``, in one step.

    Hand-written rules (``source = "user"``) and rejected ones stay as they are, and a learned
    rule that a person made active stays active. Learned rules of the domains in ``mined`` that
    are not among ``rules`` are removed. A rule that cannot be active beside those of the file becomes
    ``proposed``, with the reason as its note.

    Raises `SiteRuleError` and OSError; the file is then as it was.
    """
    old = load_site_rules(path) if Path(path).exists() else ()
    merged = merge(old, list(rules), mined)
    save_site_rules(path, merged.rules)
    return merged


def merge(old: Sequence[SiteRule], rules: Sequence[SiteRule], mined: Container[str] = ()) -> Merged:
    """Merge as `add_rules` does, without a file."""
    new = {rule.identity: rule for rule in rules}
    known = {rule.identity for rule in old}
    kept = []
    for rule in old:
        found = new.get(rule.identity)
        if rule.source == "user" or rule.status == "rejected":
            kept.append(rule)
        elif found is not None:
            status = "active" if rule.active else found.status
            kept.append(found.replace(status=status, note=rule.note or found.note))
        elif domain_of(rule) not in mined:
            kept.append(rule)
    added = [rule for identity, rule in new.items() if identity not in known]
    result = Merged([], added=len(added), removed=len(old) - len(kept))
    by_domain: dict[str, tuple[list[SiteRule], list[SiteRule]]] = {}
    for at, rules_of in enumerate((kept, added)):
        for rule in rules_of:
            by_domain.setdefault(domain_of(rule), ([], []))[at].append(rule)
    accepted: dict[str, SiteRule] = {}
    for old_ones, new_ones in by_domain.values():
        for rule in _compatible(old_ones, new_ones):
            accepted[rule.identity] = rule
    result.rules = [*kept, *(accepted[rule.identity] for rule in added)]
    result.demoted = sum(rule.active and not accepted[rule.identity].active for rule in added)
    return result


def _compatible(old: list[SiteRule], new: list[SiteRule]) -> list[SiteRule]:
    """Return the new rules of one domain, proposed where they cannot be active with the old."""
    try:
        RuleSet([*old, *new])
    except SiteRuleError:
        RuleSet(old)  # raises if the rules of the file are wrong by themselves
    else:
        return new
    accepted: list[SiteRule] = []
    for rule in new:
        try:
            RuleSet([*old, *accepted, rule])
        except SiteRuleError as error:  # noqa: PERF203  # each rule is tried by itself
            accepted.append(rule.replace(status="proposed", note=str(error)))
        else:
            accepted.append(rule)
    return accepted
