"""Verbs on rules: rules is the catalogue, check-rules and import-rules are on files for sites.

Rules that people wrote into a file are never overwritten: `add_rules`.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.cli import verb as cli
from scrapy_urlnorm.domains import domain_or_host
from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.rules import PROFILES, RULE_NAMES, RULES, Rule
from scrapy_urlnorm.site_rules import RuleSet, load_site_rules, save_site_rules
from scrapy_urlnorm.site_rules.file import table_of, write_block
from scrapy_urlnorm.site_rules.importers import import_rules as imported_from
from scrapy_urlnorm.text import counted, did_you_mean

if TYPE_CHECKING:
    import argparse
    from collections.abc import Container, Iterable, Sequence

    from scrapy_urlnorm.site_rules import SiteRule

# --- rules ----------------------------------------------------------------------------------


@cli.verb(
    "Print the catalogue in the order in which the rules run: semantics, and the profiles "
    "that have the rule on. With a name, print what that rule does and where it is from.",
    "rules remove-dot-segments",
    cli.option("name [NAME]", "one rule, with what it does"),
    cli.JSON,
)
def rules(args: argparse.Namespace) -> int:
    if args.name is not None:
        _out_one(args.name, args.json)
    elif args.json:
        cli.out_json([_described(rule) for rule in RULES], indent=2)
    else:
        rows: list[tuple[str, ...]] = [("rule", "semantics", *PROFILES, "what it does")]
        for rule in RULES:
            marks = (rule.option(profile) for profile in PROFILES)
            cells = (("x" if m is True else "" if m is False else str(m)) for m in marks)
            rows.append((rule.name, rule.semantics, *cells, rule.summary))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for *row, summary in rows:
            cli.out("  ".join([*map(str.ljust, row, widths), summary]))
    return cli.YES


def _described(rule: Rule) -> dict[str, Any]:
    options = {profile: rule.option(profile) for profile in PROFILES}
    said = {"rule": rule.name, "semantics": rule.semantics}
    return {**said, **options, "summary": rule.summary}


def _out_one(name: str, as_json: bool) -> None:
    rule = next((rule for rule in RULES if rule.name == name), None)
    if rule is None:
        hint = did_you_mean(name, RULE_NAMES)
        raise cli.UsageError(f"{name!r} is not a rule{hint} Known rules: {', '.join(RULE_NAMES)}")
    if as_json:
        cli.out_json({**_described(rule), "documentation": rule.documentation}, indent=2)
        return
    on = [p if value is True else f"{p} ({value})" for p in PROFILES if (value := rule.option(p))]
    cli.out(f"{rule.name} ({rule.semantics}; on in: {', '.join(on) or 'no profile'})\n")
    for line in rule.documentation.splitlines():
        cli.out(line.removeprefix("    "))


# --- check-rules ----------------------------------------------------------------------------


@cli.verb(
    "Say whether every rule of a file is valid, whether they come to an end, and whether each pair "
    "of examples is merged. The exit code is 1 when something keeps the file from being used.",
    "check-rules rules.toml",
    cli.option("files FILE...", "a rule file"),
    cli.option("--profile", "the profile under which the examples must merge", choices=PROFILES),
    cli.JSON,
)
def check_rules(args: argparse.Namespace) -> int:
    profile = args.profile or (args.project.profile if args.project else "default")
    checks = [check_site_rules(path, profile) for path in args.files]
    for check in checks:
        if args.json:
            counts = {"rules": len(check.rules), "examples": check.examples}
            found = {"errors": check.errors, "warnings": check.warnings}
            cli.out_json({"file": check.path, "ok": not check.errors, **counts, **found})
        else:
            cli.out(str(check))
    return cli.NO if any(check.errors for check in checks) else cli.YES


@dataclass
class Check:
    """What `check_site_rules` found; ``str(check)`` is the text for people."""

    path: str
    rules: tuple[SiteRule, ...] = ()
    #: Reasons why the file cannot be used, and examples that its rules contradict.
    errors: list[str] = field(default_factory=list)
    #: Proposed rules that could not be active.
    warnings: list[str] = field(default_factory=list)
    examples: int = 0

    def __str__(self) -> str:
        by_status = Counter(rule.status for rule in self.rules)
        statuses = ", ".join(f"{number:,} {status}" for status, number in sorted(by_status.items()))
        lines = [f"error: {text}" for text in self.errors]
        lines += [f"warning: {text}" for text in self.warnings]
        sites = len({rule.site for rule in self.rules})
        summary = f"{counted(len(self.rules), 'rule')} for {counted(sites, 'site')}"
        if statuses:
            summary += f" ({statuses})"
        verdict = counted(len(self.errors), "error") if self.errors else "ok"
        examples = counted(self.examples, "example")
        return "\n".join([*lines, f"{self.path}: {verdict}: {summary}, {examples}"])


def check_site_rules(path: str | os.PathLike[str], profile: str = "default") -> Check:
    """Check that a rule file is valid, that its rules come to an end and contradict nothing.

    Every pair of ``examples`` must get one key under *profile*; a proposed rule is tried as if it
    were active. Raises `OSError` only.
    """
    check = Check(os.fspath(path))
    try:
        check.rules = load_site_rules(path)
    except SiteRuleError as error:
        check.errors.append(str(error))
    for rules in _by_domain(check.rules).values():
        try:
            RuleSet(rules)
        except SiteRuleError as error:  # noqa: PERF203  # each site is tried by itself
            check.errors.append(str(error))
        else:
            _check_examples(rules, profile, check)
    return check


def _check_examples(rules: list[SiteRule], profile: str, check: Check) -> None:
    active = [rule for rule in rules if rule.active]
    rules = [rule for rule in rules if rule.examples and rule.status != "rejected"]
    if not rules:
        return  # a normalizer for each of ten thousand sites takes a while
    usual = Normalizer(profile, site_rules=active)
    for rule in rules:
        normalizer = usual
        if not rule.active:
            try:
                as_active = rule.replace(status="active")
                normalizer = Normalizer(profile, site_rules=[*active, as_active])
            except SiteRuleError as error:
                check.warnings.append(f"could not be active beside the others: {error}")
                continue
        for first, second in rule.examples:
            check.examples += 1
            one, other = normalizer.normalize(first), normalizer.normalize(second)
            if one != other:
                check.errors.append(
                    f"an example is not merged: {first!r} is {one!r} and {second!r} is {other!r}: "
                    f"({rule})"
                )
            check.errors += [
                f"the key {key!r} of an example is not its own key: ({rule})"
                for key in {one, other}
                if normalizer.normalize(key) != key
            ]


# --- import-rules ---------------------------------------------------------------------------


@cli.verb(
    "Read the rules of duplicate-url-discarder, and print them as a rule file or add them to one. "
    "What could not be taken is said on standard error.",
    "import-rules rules.json -o rules.toml",
    cli.option("files FILE...", "a copy of what another tool reads"),
    cli.option("-o --output RULES", "add the rules to this file (default: print them)"),
    cli.JSON,
)
def import_rules(args: argparse.Namespace) -> int:
    found = [imported_from(path) for path in args.files]
    rules = [rule for one in found for rule in one.rules]
    if args.output:
        add_rules(args.output, rules)
    elif not args.json:
        out_rules(rules)
    for one in found:
        if args.json:
            rows = {"file": one.source, "rows": one.rows}
            taken = {"rules": [rule.as_dict() for rule in one.rules], "options": one.options}
            cli.out_json({**rows, **taken, "skipped": [list(row) for row in one.skipped]})
        else:
            cli.say(str(one))
    return cli.YES


def out_rules(rules: Iterable[SiteRule]) -> None:
    """Write rules to standard output in the form of a rule file."""
    for number, rule in enumerate(rules):
        if number:
            cli.out("")
        for line in write_block(table_of(rule)):
            cli.out(line)


# --- adding to a file -----------------------------------------------------------------------


@dataclass
class Merged:
    """The rules of the file, and how many were added, removed, and could not be active."""

    rules: list[SiteRule]
    added: int
    removed: int
    demoted: int


def add_rules(path: str, rules: Iterable[SiteRule], mined: Container[str] = ()) -> Merged:
    """Add *rules* to the file at *path*, in one step.

    Hand-written rules (``source = "user"``) and rejected ones stay as they are, and a learned
    rule that a person made active stays active. Learned rules of the domains in *mined* that
    are not among *rules* are removed. A rule that cannot be active beside those of the file
    becomes ``proposed``, with the reason as its note.

    Raises `SiteRuleError` and OSError; the file is then as it was.
    """
    old = load_site_rules(path) if Path(path).exists() else ()
    merged = merge(old, list(rules), mined)
    save_site_rules(path, merged.rules)
    return merged


def merge(old: Sequence[SiteRule], rules: Sequence[SiteRule], mined: Container[str] = ()) -> Merged:
    """Merge as `add_rules` does, without a file."""
    new = {rule.identity: rule for rule in rules}
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
    known = {rule.identity for rule in old}
    added = [rule for identity, rule in new.items() if identity not in known]
    kept_of, added_of = _by_domain(kept), _by_domain(added)
    accepted = {
        rule.identity: rule
        for domain in {**kept_of, **added_of}
        for rule in _compatible(kept_of[domain], added_of[domain])
    }
    demoted = sum(rule.active and not accepted[rule.identity].active for rule in added)
    merged = [*kept, *(accepted[rule.identity] for rule in added)]
    return Merged(merged, len(added), len(old) - len(kept), demoted)


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


def _by_domain(rules: Iterable[SiteRule]) -> defaultdict[str, list[SiteRule]]:
    found = defaultdict(list)
    for rule in rules:
        found[domain_of(rule)].append(rule)
    return found


def domain_of(rule: SiteRule) -> str:
    """Return the registrable domain that a rule is for."""
    return domain_or_host(rule.site.removeprefix("*."))
