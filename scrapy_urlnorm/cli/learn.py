"""Verbs on crawl logs: mine learns rules from them, evaluate measures rules on them."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.cli import YES, UsageError, inputs, out, out_json, progress, say
from scrapy_urlnorm.cli.rules import add_rules, out_rules
from scrapy_urlnorm.exceptions import naming
from scrapy_urlnorm.learning import survey
from scrapy_urlnorm.learning.evaluation import measured
from scrapy_urlnorm.learning.rows_by_site import by_key
from scrapy_urlnorm.site_rules import load_site_rules
from scrapy_urlnorm.text import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from scrapy_urlnorm.learning import Evaluation, SiteReport

    Columns = dict[str, Evaluation]

# --- mine -----------------------------------------------------------------------------------


def mine(args: argparse.Namespace) -> int:
    target = Path(args.output or "")
    if args.output:  # to read the logs may take long: what cannot be written is said before
        with naming(args.output), TemporaryFile(dir=target.resolve().parent):
            if target.exists():
                load_site_rules(target)
    logs = inputs.Logs(args, args.logs)
    processes = args.processes or getattr(os, "process_cpu_count", os.cpu_count)() or 1
    sites = survey(logs, risk=args.risk, processes=processes)
    reports = list(progress(sites, "sites"))
    rules = [rule for report in reports for rule in report.rules]
    if args.output:
        merged = add_rules(target, rules, {report.site for report in reports})
    elif not args.json:
        out_rules(rules)
    if args.json:
        out_json({"sites": [_as_dict(report) for report in reports]}, indent=2)
    else:
        for line in _described(reports):
            (out if args.output else say)(line)
    status = Counter(rule.status for rule in rules)
    text = f"{counted(logs.rows, 'row')}, {counted(len(reports), 'site')}, "
    text += f"{counted(status['active'], 'rule')} active, {status['proposed']:,} proposed"
    say(text + (f", {status['rejected']:,} rejected" if status["rejected"] else ""))
    if logs.contents:
        inputs.say_left_out(logs.left_out)
    elif logs.rows:
        rest = "redirects are the only evidence" if logs.redirects else "rules are proposals"
        say(
            f"No row names its content, so nothing about contents could be learned: {rest}. "
            "scrapy_urlnorm.CrawlLog writes logs that do."
        )
    if args.output:
        say(f"{args.output}: {merged}")
    return YES


def _described(reports: list[SiteReport]) -> Iterator[str]:
    silent: Counter[tuple[str, ...]] = Counter()
    for report in reports:
        if not report.rules and not report.redundant:
            silent[report.missing] += 1
            continue
        line = f"{report.site}: {counted(report.urls, 'URL')}"
        if report.contents:
            line += (
                f", {counted(report.contents, 'content')}; "
                f"{report.merged:,} of {report.redundant:,} redundant ones found"
            )
        yield line
        for rule in report.rules:
            evidence = "" if rule.support is None else f"; support {rule.support}"
            if rule.conflicts:
                evidence += f", conflicts {rule.conflicts}"
            if rule.false_merge_upper is not None:
                evidence += f", wrong merges at most {rule.false_merge_upper:g}"
            if rule.note and not rule.active:
                evidence += f"; {rule.note}"
            yield f"  {rule.status}: {rule}{evidence}"
        for missing in report.missing:
            yield f"  missing: {missing}"
    for reasons, count in silent.items():
        yield "; ".join([f"{counted(count, 'site')} without redundant URLs", *reasons])


def _as_dict(report: SiteReport) -> dict[str, Any]:
    counts = ("site", "urls", "contents", "redundant", "merged")
    return {
        **{name: getattr(report, name) for name in counts},
        "rules": [rule.masked().as_dict() for rule in report.rules],
        "missing": list(report.missing),
    }


# --- evaluate -------------------------------------------------------------------------------


def evaluate(args: argparse.Namespace) -> int:
    without = inputs.build_normalizer(args)
    rules = [rule for path in args.rules for rule in load_site_rules(path)]
    normalizer = without.replace_site_rules([*without.site_rules, *rules])
    logs = inputs.Logs(args, args.logs)
    columns: Columns = {}
    pages = urls = 0
    with by_key((row for row in logs if row.is_page), normalizer.normalize) as parts:
        for name, one, shown in (("without", without, 0), ("with", normalizer, 10)):
            columns[name] = measured(one, parts, examples=shown)
        for _, part in parts:
            rows = list(part)
            pages += len(rows)
            urls += len({row.url for row in rows})
    if not pages:
        raise UsageError(
            f"none of {logs.rows:,} rows is a page or a file (200) whose content is named: there is "
            "nothing to measure by"
        )
    reasons = logs.left_out.copy()
    reasons["redirect"] = logs.rows - pages - reasons.total()
    reasons["page fetched again"] = pages - urls
    say(f"{counted(logs.rows, 'row')}, {counted(urls, 'page')} measured")
    inputs.say_left_out(+reasons)
    if args.json:
        out_json({name: column.as_dict() for name, column in columns.items()}, indent=2)
    else:
        _out_table(columns)
    return YES


def _out_table(columns: Columns) -> None:
    out(f"{'':22}{'without the rules':>20}{'with them':>20}")
    for name, cell in _TABLE:
        out(f"{name:22}" + "".join(f"{cell(column):>20}" for column in columns.values()))
    for first, second in columns["with"].examples:
        out(f"merged wrongly: {first}")
        out(f"                {second}")


_TABLE: tuple[tuple[str, Callable[[Evaluation], str]], ...] = (
    ("pages", lambda e: f"{e.urls:,}"),
    ("different contents", lambda e: f"{e.contents:,}"),
    ("keys", lambda e: f"{e.keys:,}"),
    ("redundant URLs found", lambda e: f"{e.found:.1%}"),
    ("false merges", lambda e: f"{e.false_merges:,} of {e.merges:,}"),
    ("  at most (95 %)", lambda e: f"{e.false_merge_upper:.2%}" if e.merges else "-"),
    ("contents lost", lambda e: f"{e.lost:,}"),
    ("crawl reduction", lambda e: f"{e.reduction:.1%}"),
    ("  at best", lambda e: f"{e.ceiling:.1%}"),
)
