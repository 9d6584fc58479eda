"""Verbs on rule files: check-rules, import-rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_urlnorm.cli.check_rules import check_site_rules
from scrapy_urlnorm.cli.merge import add_rules
from scrapy_urlnorm.cli.verb import NO, YES, Verb, add_json, out, out_json, say
from scrapy_urlnorm.rules import PROFILES
from scrapy_urlnorm.site_rules.file import table_of
from scrapy_urlnorm.site_rules.importers import import_rules
from scrapy_urlnorm.site_rules.toml import write_block

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from scrapy_urlnorm.site_rules import SiteRule


def out_rules(rules: Iterable[SiteRule]) -> None:
    """Write rules to standard output in the form of a rule file."""
    for number, rule in enumerate(rules):
        if number:
            out("")
        for line in write_block(table_of(rule)):
            out(line)


def _add_check_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="a rule file")
    parser.add_argument(
        "--profile", choices=PROFILES, help="the profile under which the examples must merge"
    )
    add_json(parser)


def _check(args: argparse.Namespace) -> int:
    project = args.project
    profile = args.profile or (project.profile if project else "default")
    reports = [check_site_rules(path, profile) for path in args.files]
    for report in reports:
        if args.json:
            out_json(
                {
                    "file": report.path,
                    "ok": report.ok,
                    "rules": len(report.rules),
                    "examples": report.examples,
                    "errors": report.errors,
                    "warnings": report.warnings,
                }
            )
        else:
            out(str(report))
    return YES if all(report.ok for report in reports) else NO


def _add_import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="duplicate-url-discarder's JSON, ClearURLs' data.min.json or an AdGuard list",
    )
    parser.add_argument(
        "-o", "--output", metavar="RULES", help="add the rules to this file (default: print them)"
    )
    add_json(parser)


def _import(args: argparse.Namespace) -> int:
    found = [import_rules(path) for path in args.files]
    rules = [rule for one in found for rule in one.rules]
    if args.output:
        add_rules(args.output, rules)
    elif not args.json:
        out_rules(rules)
    for one in found:
        if args.json:
            out_json(
                {
                    "file": one.source,
                    "rows": one.rows,
                    "rules": [rule.as_dict() for rule in one.rules],
                    "options": one.options,
                    "skipped": [list(row) for row in one.skipped],
                }
            )
        else:
            say(str(one))
    return YES


VERBS = (
    Verb(
        "check-rules",
        "Say whether every rule of a file is valid, whether they come to an end and keys stay as "
        "they are, whether each pair of examples is merged, and which rules contradict or shadow "
        "one another. The exit code is 1 when something keeps the file from being used.",
        "check-rules rules.toml",
        _add_check_arguments,
        _check,
    ),
    Verb(
        "import-rules",
        "Read your copy of duplicate-url-discarder's rules, of ClearURLs' data or of an AdGuard "
        "list of removed parameters, and print the rules as a rule file or add them to one. What "
        "could not be taken is said on standard error.",
        "import-rules data.min.json -o rules.toml",
        _add_import_arguments,
        _import,
    ),
)
