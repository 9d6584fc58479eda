"""The verb rules: the catalogue, and files of rules for single sites.

Rules that people wrote into a file are never overwritten: `add_rules`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.cli import NO, YES, UsageError, out, out_json, say
from scrapy_urlnorm.domains import domain_or_host
from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.rules import PROFILES, RULE_NAMES, RULES, Rule
from scrapy_urlnorm.site_rules import RuleSet, load_site_rules, save_site_rules
from scrapy_urlnorm.site_rules.file import table_of, write_block
from scrapy_urlnorm.site_rules.importers import import_rules
from scrapy_urlnorm.text import counted, did_you_mean

if TYPE_CHECKING:
    import argparse
    from collections.abc import Container, Iterable, Sequence

    from scrapy_urlnorm.site_rules import SiteRule

# --- list -----------------------------------------------------------------------------------


def catalogue(args: argparse.Namespace) -> int:
    if args.name is not None:
        _out_one(args.name, args.json)
    elif args.json:
        out_json([_described(rule) for rule in RULES], indent=2)
    else:
        rows: list[tuple[str, ...]] = [("rule", "semantics", *PROFILES, "what it does")]
        for rule in RULES:
            marks = (rule.option(profile) for profile in PROFILES)
            cells = (("x" if m is True else "" if m is False else str(m)) for m in marks)
            rows.append((rule.name, rule.semantics, *cells, rule.summary))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for *row, summary in rows:
            out("  ".join([*map(str.ljust, row, widths), summary]))
    return YES


def _described(rule: Rule) -> dict[str, Any]:
    options = {profile: rule.option(profile) for profile in PROFILES}
    said = {"rule": rule.name, "semantics": rule.semantics}
    return {**said, **options, "summary": rule.summary}


def _out_one(name: str, as_json: bool) -> None:
    rule = next((rule for rule in RULES if rule.name == name), None)
    if rule is None:
        hint = did_you_mean(name, RULE_NAMES)
        raise UsageError(f"{name!r} is not a rule{hint} Known rules: {', '.join(RULE_NAMES)}")
    if as_json:
        out_json({**_described(rule), "documentation": rule.documentation}, indent=2)
        return
    on = [p if value is True else f"{p} ({value})" for p in PROFILES if (value := rule.option(p))]
    out(f"{rule.name} ({rule.semantics}; on in: {', '.join(on) or 'no profile'})\n")
    for line in rule.documentation.splitlines():
        out(line.removeprefix("    "))


# --- check ----------------------------------------------------------------------------------


def check(args: argparse.Namespace) -> int:
    found = [checked(path, args.profile or args.project.profile) for path in args.files]
    for one in found:
        if args.json:
            out_json(one)
        else:
            out(_in_words(one))
    return NO if any(one["errors"] for one in found) else YES


def checked(path: str, profile: str = "default") -> dict[str, Any]:
    """Check that a rule file is valid, that its rules come to an end and contradict nothing.

    Every pair of ``examples`` must get one key under *profile*; a proposed rule is tried as if it
    were active. ``errors`` say why the file cannot be used, or which examples its rules contradict;
    ``warnings`` name proposed rules that could not be active. Raises `OSError` only.
    """
    rules: Sequence[SiteRule] = ()
    errors: list[str] = []
    warnings: list[str] = []
    examples = 0
    try:
        rules = load_site_rules(path)
    except SiteRuleError as error:
        errors.append(str(error))
    for of_domain in _by_domain(rules).values():
        try:
            RuleSet(of_domain)
        except SiteRuleError as error:  # noqa: PERF203  # each site is tried by itself
            errors.append(str(error))
        else:
            examples += _try_examples(of_domain, profile, errors, warnings)
    return {
        "file": path,
        "ok": not errors,
        "rules": len(rules),
        "sites": len({rule.site for rule in rules}),
        "statuses": dict(sorted(Counter(rule.status for rule in rules).items())),
        "examples": examples,
        "errors": errors,
        "warnings": warnings,
    }


def _try_examples(
    rules: list[SiteRule], profile: str, errors: list[str], warnings: list[str]
) -> int:
    """Try the examples of the rules of a domain, and return how many pairs there were."""
    active = [rule for rule in rules if rule.active]
    rules = [rule for rule in rules if rule.examples and rule.status != "rejected"]
    if not rules:
        return 0  # a normalizer for each of ten thousand sites takes a while
    usual = Normalizer(profile, site_rules=active)
    count = 0
    for rule in rules:
        normalizer = usual
        if not rule.active:
            try:
                as_active = rule.replace(status="active")
                normalizer = Normalizer(profile, site_rules=[*active, as_active])
            except SiteRuleError as error:
                warnings.append(f"could not be active beside the others: {error}")
                continue
        for first, second in rule.examples:
            count += 1
            one, other = normalizer.normalize(first), normalizer.normalize(second)
            if one != other:
                errors.append(
                    f"an example is not merged: {first!r} is {one!r} and {second!r} is {other!r}; "
                    f"another rule may be needed beside ({rule})"
                )
            errors += [
                f"the key {key!r} of an example is not its own key: ({rule})"
                for key in {one, other}
                if normalizer.normalize(key) != key
            ]
    return count


def _in_words(found: dict[str, Any]) -> str:
    statuses = ", ".join(f"{count:,} {status}" for status, count in found["statuses"].items())
    summary = f"{counted(found['rules'], 'rule')} for {counted(found['sites'], 'site')}"
    summary += f" ({statuses})" if statuses else ""
    verdict = "ok" if found["ok"] else counted(len(found["errors"]), "error")
    lines = [f"error: {text}" for text in found["errors"]]
    lines += [f"warning: {text}" for text in found["warnings"]]
    examples = counted(found["examples"], "example")
    return "\n".join([*lines, f"{found['file']}: {verdict}: {summary}, {examples}"])


# --- import, merge --------------------------------------------------------------------------


def import_(args: argparse.Namespace) -> int:
    found = [import_rules(path) for path in args.files]
    rules = [rule for one in found for rule in one.rules]
    if args.output:
        add_rules(Path(args.output), rules)
    elif not args.json:
        out_rules(rules)
    for one in found:
        if args.json:
            rows = {"file": one.source, "rows": one.rows}
            taken = {"rules": [rule.as_dict() for rule in one.rules], "options": one.options}
            out_json({**rows, **taken, "skipped": [list(row) for row in one.skipped]})
        else:
            say(str(one))
    return YES


def merge(args: argparse.Namespace) -> int:
    paths = dict.fromkeys(args.files)
    if args.output and Path(args.output).exists():
        paths = {args.output: None, **paths}
    rules = [rule for path in paths for rule in load_site_rules(path)]
    best: dict[str, SiteRule] = {}
    for rule in sorted(
        rules, key=lambda r: (r.source != "user", r.status != "rejected", -(r.support or 0))
    ):
        best.setdefault(rule.identity, rule)
    merged = combined((), list(best.values()))
    of = {rule.identity: rule for rule in merged.rules}
    kept = [of[identity] for identity in dict.fromkeys(rule.identity for rule in rules)]
    if args.output:
        save_site_rules(args.output, kept)
    else:
        out_rules(kept)
    text = f"{counted(len(rules), 'rule')} in {counted(len(paths), 'file')}: {len(kept):,} kept"
    say(text + (f", {merged.demoted:,} of them only proposed" if merged.demoted else ""))
    return YES


def out_rules(rules: Iterable[SiteRule]) -> None:
    """Write rules to standard output in the form of a rule file."""
    for number, rule in enumerate(rules):
        if number:
            out("")
        for line in write_block(table_of(rule)):
            out(line)


# --- adding to a file -----------------------------------------------------------------------


class Merged(NamedTuple):
    """The rules of the file, and how many were added, removed, and could not be active."""

    rules: list[SiteRule]
    added: int
    removed: int
    demoted: int

    def __str__(self) -> str:
        text = f"{counted(len(self.rules), 'rule')}, {self.added:,} of them new"
        if self.removed:
            text += f"; {self.removed:,} that these logs no longer bear out are gone"
        if self.demoted:
            text += f"; {self.demoted:,} only proposed, for what the file says already"
        return text


def add_rules(path: Path, rules: Iterable[SiteRule], mined: Container[str] = ()) -> Merged:
    """Add *rules* to the file at *path*, in one step.

    Hand-written rules (``source = "user"``) and rejected ones stay as they are, and a learned
    rule that a person made active stays active. Learned rules of the domains in *mined* that
    are not among *rules* are removed. A rule that cannot be active beside those of the file
    becomes ``proposed``, with the reason as its note.

    Raises `SiteRuleError` and OSError; the file is then as it was.
    """
    old = load_site_rules(path) if path.exists() else ()
    merged = combined(old, list(rules), mined)
    save_site_rules(path, merged.rules)
    return merged


def combined(
    old: Sequence[SiteRule], rules: Sequence[SiteRule], mined: Container[str] = ()
) -> Merged:
    """Combine rules as `add_rules` does, without a file."""
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
    return domain_or_host(rule.site.removeprefix("*."))
