"""The verb rules: the catalogue, as a table or one rule with its documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.cli.verb import YES, UsageError, Verb, add_json, out, out_json
from scrapy_urlnorm.rules import PROFILES, RULE_NAMES, RULES
from scrapy_urlnorm.text import did_you_mean

if TYPE_CHECKING:
    import argparse

    from scrapy_urlnorm.rules import Rule


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="one rule, with what it does")
    add_json(parser)


def _described(rule: Rule) -> dict[str, Any]:
    return {
        "rule": rule.name,
        "semantics": rule.semantics,
        **{profile: rule.option(profile) for profile in PROFILES},
        "summary": rule.summary,
    }


def _mark(option: object) -> str:
    if isinstance(option, bool):
        return "x" if option else ""
    return str(option)


def _rules(args: argparse.Namespace) -> int:
    if args.name is not None:
        return _one(args)
    if args.json:
        out_json([_described(rule) for rule in RULES], indent=2)
        return YES
    rows = [["rule", "semantics", *PROFILES, "what it does"]]
    rows += [
        [rule.name, rule.semantics, *(_mark(rule.option(p)) for p in PROFILES), rule.summary]
        for rule in RULES
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        out("  ".join([*cells, row[-1]]))
    return YES


def _one(args: argparse.Namespace) -> int:
    rule = next((rule for rule in RULES if rule.name == args.name), None)
    if rule is None:
        hint = did_you_mean(args.name, RULE_NAMES)
        raise UsageError(f"{args.name!r} is not a rule{hint} Known rules: {', '.join(RULE_NAMES)}")
    if args.json:
        out_json({**_described(rule), "documentation": rule.documentation}, indent=2)
        return YES
    on = [
        p if rule.option(p) is True else f"{p} ({rule.option(p)})"
        for p in PROFILES
        if rule.option(p)
    ]
    out(f"{rule.name} ({rule.semantics}; on in: {', '.join(on) or 'no profile'})")
    out("")
    for line in rule.documentation.splitlines():
        out(line.removeprefix("    "))
    return YES


VERBS = (
    Verb(
        "rules",
        "Print the catalogue in the order in which the rules run: semantics, and the profiles "
        "that have the rule on. With a name, print what that rule does and where it is from.",
        "rules remove-dot-segments",
        _add_arguments,
        _rules,
    ),
)
