"""Verbs on crawl logs: mine learns rules from them, evaluate measures rules on them."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.cli import inputs
from scrapy_urlnorm.cli import verb as cli
from scrapy_urlnorm.cli.rules import Merged, add_rules, out_rules
from scrapy_urlnorm.exceptions import naming
from scrapy_urlnorm.learning import survey
from scrapy_urlnorm.learning.aliases import offered_by_all
from scrapy_urlnorm.learning.audit import untested
from scrapy_urlnorm.learning.evaluation import measured
from scrapy_urlnorm.learning.rows_by_site import by_key
from scrapy_urlnorm.site_rules import load_site_rules
from scrapy_urlnorm.text import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from scrapy_urlnorm.learning import Evaluation, SiteReport
    from scrapy_urlnorm.learning.aliases import Offer
    from scrapy_urlnorm.learning.audit import Untested
    from scrapy_urlnorm.site_rules import SiteRule

    Columns = dict[str, Evaluation]


def _number(low: float, high: float) -> Callable[[str], float]:
    def number(text: str) -> float:
        value = float(text)
        if not low <= value <= high:
            raise ValueError
        return value

    number.__name__ = f"number from {low:g} to {high:g}"  # argparse names it in its error
    return number


# --- mine -----------------------------------------------------------------------------------


@cli.verb(
    "Learn which URLs of a site count as one from logs that name contents or redirects; access "
    "logs and lists of URLs give proposals only. In a rule file that is there already, "
    "hand-written and rejected rules stay.",
    "mine crawl.jsonl.gz -o rules.toml",
    *inputs.LOGS,
    cli.option("-o --output RULES", "the rule file to write (default: print the rules)"),
    cli.option(
        "--risk", "expected share of wrong merges of a rule", type=_number(0, 1), default=0.02
    ),
    cli.option(
        "--noise",
        "share of contents that change by themselves",
        type=_number(0, 0.5),
        default=0.001,
    ),
    cli.option("--processes N", "work on so many sites at once (default: cores)", type=int),
    cli.option("--after SITE", "mine only the sites whose names come after this one", default=""),
)
def mine(args: argparse.Namespace) -> int:
    if args.output:
        _try_target(args.output)
    logs = inputs.Logs(args)
    processes = args.processes or getattr(os, "process_cpu_count", os.cpu_count)() or 1
    sites = survey(logs, risk=args.risk, noise=args.noise, processes=processes, after=args.after)
    reports: list[SiteReport] = []
    interrupted = None
    try:
        reports.extend(cli.progress(sites, "sites"))
    except KeyboardInterrupt as error:
        if not reports:
            raise
        interrupted = error  # a site is mined or it is not: what is done is worth keeping
    rules = [rule for report in reports for rule in report.rules]
    if args.output:
        with naming(args.output):  # an error names a temporary file
            merged = add_rules(args.output, rules, {report.site for report in reports})
    elif not args.json:
        out_rules(rules)
    if args.json:
        cli.out_json({"sites": [_as_dict(report) for report in reports]}, indent=2)
    else:
        for line in _described(reports):
            (cli.out if args.output else cli.say)(line)
    _say_mined(logs, reports, rules)
    if args.output:
        _say_written(args.output, merged)
    if interrupted:
        last = reports[-1].site
        cli.say(
            f"the sites after {last} were not mined: a rule file keeps what it has of them. "
            f"--after {last} goes on there"
        )
        raise interrupted
    return cli.YES


def _try_target(path: str) -> None:
    """Raise UsageError now if the rule file cannot be written: to read the logs may take long."""
    target = Path(path).resolve()
    if target.is_dir():
        raise cli.UsageError(f"{path}: a rule file cannot be written here, this is a directory")
    if target.exists():
        load_site_rules(path)
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise cli.UsageError(f"{path}: no file can be written here: {error.strerror}") from None


def _say_mined(logs: inputs.Logs, reports: list[SiteReport], rules: list[SiteRule]) -> None:
    status = Counter(rule.status for rule in rules)
    text = f"{counted(logs.rows, 'row')}, {counted(len(reports), 'site')}, "
    text += f"{counted(status['active'], 'rule')} active, {status['proposed']:,} proposed"
    cli.say(text + (f", {status['rejected']:,} rejected" if status["rejected"] else ""))
    if logs.contents:
        inputs.say_left_out(logs.left_out)
    elif logs.rows:
        rest = "redirects are the only evidence" if logs.redirects else "rules are proposals"
        cli.say(
            f"No row names its content, so nothing about contents could be learned: {rest}. "
            "scrapy_urlnorm.CrawlLog writes logs that do."
        )


def _say_written(path: str, merged: Merged) -> None:
    text = f"{path}: {counted(len(merged.rules), 'rule')}, {merged.added:,} of them new"
    if merged.removed:
        text += f"; {merged.removed:,} that these logs no longer bear out are gone"
    if merged.demoted:
        text += f"; {merged.demoted:,} only proposed, for what the file says already"
    cli.say(text)


def _described(reports: list[SiteReport]) -> Iterator[str]:
    silent: Counter[tuple[str, ...]] = Counter()
    for report in reports:
        if not report.rules and not report.redundant and not report.aliases:
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
        for offer in report.aliases:
            yield f"  page alias: {_as_text(offer)}"
        for missing in report.missing:
            yield f"  missing: {missing}"
    for reasons, count in silent.items():
        yield "; ".join([f"{counted(count, 'site')} without redundant URLs", *reasons])


def _as_text(offer: Offer) -> str:
    text = f"{offer.pattern}; support {offer.support}, {counted(offer.merged, 'URL')} merged"
    return text + (f", {offer.wrong:,} of them wrongly" if offer.wrong else "")


def _as_dict(report: SiteReport) -> dict[str, Any]:
    return {
        **{name: getattr(report, name) for name in _COUNTS},
        "rules": [rule.masked().as_dict() for rule in report.rules],
        "missing": list(report.missing),
        "aliases": [offer.as_dict() for offer in report.aliases],
    }


_COUNTS = ("site", "urls", "contents", "redundant", "merged")


# --- evaluate -------------------------------------------------------------------------------


@cli.verb(
    "Measure a rule file on logs that name contents, best on others than it was learned from: "
    "redundant URLs found, false merges, contents that a crawl in the order of the log would "
    "lose, and rules for which the log has no pairs to compare.",
    "evaluate --rules rules.toml crawl.jsonl.gz",
    *inputs.LOGS,
    cli.option(
        "--rules RULES...",
        "a rule file to measure: keys without and with its rules are compared; repeatable",
    ),
    cli.option("--ignore-from N", "leave out contents under N or more URLs: login walls", type=int),
    *cli.NORMALIZER,
)
def evaluate(args: argparse.Namespace) -> int:
    without, rules = inputs.build_normalizer(args), _rules_to_measure(args.rules)
    normalizer = without.replace_site_rules([*without.site_rules, *rules])
    logs = inputs.Logs(args)
    columns: Columns = {}
    pages = urls = 0
    offers: list[Offer] = []
    with by_key((row for row in logs if row.is_page), normalizer.normalize) as parts:
        for name, one, shown in (("without", without, 0), ("with", normalizer, 10)):
            columns[name] = measured(one, parts, ignore_from=args.ignore_from, examples=shown)
        for _, part in parts:
            rows = list(part)
            pages += len(rows)
            urls += len({row.url for row in rows})
            offers += offered_by_all(rows, normalizer.normalize)
        silent = untested(normalizer, without, parts, rules)
    if not pages:
        raise cli.UsageError(
            f"none of {logs.rows:,} rows is a page or a file (200) whose content is named: there is "
            "nothing to measure by"
        )
    _say_pages(logs, pages, urls, columns["with"].urls)
    (_out_json if args.json else _out_table)(columns, silent, offers)
    return cli.YES


def _out_json(columns: Columns, silent: list[Untested], offers: list[Offer]) -> None:
    found: dict[str, Any] = {name: column.as_dict() for name, column in columns.items()}
    found["untested"] = [
        {"urls": each.alone, "tested": each.tested, "rule": each.rule.masked().as_dict()}
        for each in silent
    ]
    if offers:
        found["aliases"] = [offer.as_dict() for offer in offers]
    cli.out_json(found, indent=2)


def _out_table(columns: Columns, silent: list[Untested], offers: list[Offer]) -> None:
    cli.out(f"{'':22}{'without the rules':>20}{'with them':>20}")
    for name, cell in _TABLE:
        cli.out(f"{name:22}" + "".join(f"{cell(column):>20}" for column in columns.values()))
    for each in silent:
        cli.out(f"untested: {each}")
    for offer in offers:
        cli.out(f"page alias: {_as_text(offer)}")
    for first, second in columns["with"].examples:
        cli.out(f"merged wrongly: {first}")
        cli.out(f"                {second}")


def _rules_to_measure(paths: list[str]) -> list[SiteRule]:
    if not paths:
        raise cli.UsageError(
            "--rules RULES is missing, the rule file to measure; --rule and --site-rules say what "
            "the normalizer has in both columns"
        )
    for path in filter(inputs.is_catalogue_rule, paths):
        raise cli.UsageError(
            f"--rules {path}: there is no such file; to switch a rule of the catalogue: "
            f"--rule {path}"
        )
    return [rule for path in paths for rule in load_site_rules(path)]


def _say_pages(logs: inputs.Logs, pages: int, urls: int, measured: int) -> None:
    reasons = logs.left_out.copy()
    reasons["redirect", "redirects"] = logs.rows - pages - reasons.total()
    reasons["page fetched again", "pages fetched again"] = pages - urls
    few = urls - measured
    reasons["page of a content under many URLs", "pages of contents under many URLs"] = few
    cli.say(f"{counted(logs.rows, 'row')}, {counted(measured, 'page')} measured")
    inputs.say_left_out(+reasons)


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
