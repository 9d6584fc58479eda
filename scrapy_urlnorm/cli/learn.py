"""Verbs on crawl logs: mine learns rules from them, evaluate measures rules on them."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.cli.crawl_logs import Logs, add_logs, say_left_out
from scrapy_urlnorm.cli.in_processes import cores
from scrapy_urlnorm.cli.merge import Merged, add_rules
from scrapy_urlnorm.cli.probing import add_probe, probed, require_project
from scrapy_urlnorm.cli.site_rules import out_rules
from scrapy_urlnorm.cli.status import Status
from scrapy_urlnorm.cli.verb import (
    YES,
    UsageError,
    Verb,
    add_normalizer,
    build_normalizer,
    out,
    out_json,
    say,
)
from scrapy_urlnorm.learning import survey
from scrapy_urlnorm.learning.evaluation import measured
from scrapy_urlnorm.learning.offered import offered_by_all
from scrapy_urlnorm.learning.rows_by_site import by_key
from scrapy_urlnorm.learning.untested import untested
from scrapy_urlnorm.rules import RULE_NAMES
from scrapy_urlnorm.site_rules import load_site_rules
from scrapy_urlnorm.text import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from scrapy_urlnorm.learning import Evaluation, SiteReport
    from scrapy_urlnorm.learning.offered import Offer
    from scrapy_urlnorm.learning.rows_by_site import Sites
    from scrapy_urlnorm.normalizer import Normalizer
    from scrapy_urlnorm.site_rules import SiteRule


def _number(low: float, high: float) -> Callable[[str], float]:
    def number(text: str) -> float:
        value = float(text)
        if not low <= value <= high:
            raise ValueError
        return value

    number.__name__ = f"number from {low:g} to {high:g}"  # argparse names it in its error
    return number


def _add_mine_arguments(parser: argparse.ArgumentParser) -> None:
    add_logs(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="RULES",
        help="the rule file to write; what people wrote in it stays (default: print the rules)",
    )
    parser.add_argument(
        "--risk",
        type=_number(0, 1),
        default=0.02,
        help="expected share of wrong merges that a rule may have (default: %(default)s; 0.006 is "
        "strict, 0.03 the edge)",
    )
    parser.add_argument(
        "--noise",
        type=_number(0, 0.5),
        default=0.001,
        help="share of pages whose content changes between two fetches (default: %(default)s)",
    )
    parser.add_argument(
        "--processes", type=int, metavar="N", help="work on so many sites at once (default: cores)"
    )
    parser.add_argument(
        "--after",
        metavar="SITE",
        default="",
        help="mine only the sites whose names come after this one, which an interrupted run names",
    )
    add_probe(parser)


def _mine(args: argparse.Namespace) -> int:
    require_project(args)
    if args.output:
        _try_target(args.output)
    logs = Logs(args, quiet=True)
    reports: list[SiteReport] = []
    interrupted: KeyboardInterrupt | None = None

    def doing() -> str:
        if not logs.read:
            return f"reading: {counted(logs.rows, 'row')}"
        return f"mining: {counted(len(reports), 'site')} done"

    processes = args.processes or cores()
    sites = survey(logs, risk=args.risk, noise=args.noise, processes=processes, after=args.after)
    try:
        with Status(doing):
            reports.extend(sites)
    except KeyboardInterrupt as error:
        if not reports:
            raise
        interrupted = error  # a site is mined or it is not: what is done is worth keeping
    if args.probe and not interrupted:
        reports = probed(args, reports)
    rules = [rule for report in reports for rule in report.rules]
    merged = None
    if args.output:
        merged = _add_rules(args.output, rules, {report.site for report in reports})
    if args.json:
        out_json({"sites": [_as_dict(report) for report in reports]}, indent=2)
    elif args.output:
        for line in _described(reports):
            out(line)
    else:
        out_rules(rules)
        for line in _described(reports):
            say(line)
    _say_mined(logs, reports, rules)
    if merged is not None:
        say(_written(args.output, merged))
    if interrupted:
        last = reports[-1].site
        say(
            f"the sites after {last} were not mined: a rule file keeps what it has of them. "
            f"--after {last} goes on there"
        )
        raise interrupted
    return YES


def _say_mined(logs: Logs, reports: list[SiteReport], rules: list[SiteRule]) -> None:
    """Tell the user how much was read and learned, and which evidence is missing."""
    rows, sites = counted(logs.rows, "row"), counted(len(reports), "site")
    say(f"{rows}, {sites}, {_by_status(rules)}")
    if logs.contents:
        say_left_out(logs.left_out)
    if logs.rows and not logs.contents:
        say(
            "No row names its content, so nothing about contents could be learned: "
            + ("redirects are the only evidence." if logs.redirects else "rules are proposals.")
            + " scrapy_urlnorm.CrawlLog writes logs that do."
        )


def _try_target(path: str) -> None:
    """Raise UsageError now if the rule file cannot be written: to read the logs may take long."""
    target = Path(path).resolve()
    if target.is_dir():
        raise UsageError(f"{path}: a rule file cannot be written here, this is a directory")
    if target.exists():
        load_site_rules(path)
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise UsageError(f"{path}: no file can be written here: {error.strerror}") from None


def _add_rules(path: str, rules: list[SiteRule], mined: set[str]) -> Merged:
    try:
        return add_rules(path, rules, mined)
    except OSError as error:  # it names a temporary file
        raise UsageError(f"{path}: {error.strerror or error}") from None


def _by_status(rules: list[Any]) -> str:
    status = Counter(rule.status for rule in rules)
    text = f"{counted(status['active'], 'rule')} active, {status['proposed']:,} proposed"
    return text + (f", {status['rejected']:,} rejected" if status["rejected"] else "")


def _written(path: str, merged: Merged) -> str:
    text = f"{path}: {counted(len(merged.rules), 'rule')}, {merged.added:,} of them new"
    if merged.removed:
        text += f"; {merged.removed:,} that these logs no longer bear out are gone"
    if merged.demoted:
        text += f"; {merged.demoted:,} only proposed, for what the file says already"
    return text


def _described(reports: list[SiteReport]) -> Iterator[str]:
    """Yield lines: for each site what was found and what is missing, others by their number."""
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
        sites = counted(count, "site")
        yield f"{sites} without redundant URLs" + "".join(f"; {why}" for why in reasons)


def _as_text(offer: Offer) -> str:
    text = f"{offer.pattern}; support {offer.support}, {counted(offer.merged, 'URL')} merged"
    return text + (f", {offer.wrong:,} of them wrongly" if offer.wrong else "")


def _as_dict(report: SiteReport) -> dict[str, Any]:
    return {
        "site": report.site,
        "urls": report.urls,
        "contents": report.contents,
        "redundant": report.redundant,
        "merged": report.merged,
        "rules": [rule.masked().as_dict() for rule in report.rules],
        "missing": list(report.missing),
        "aliases": [offer.as_dict() for offer in report.aliases],
    }


def _add_evaluate_arguments(parser: argparse.ArgumentParser) -> None:
    add_logs(parser)
    parser.add_argument(
        "--rules",
        action="append",
        default=[],
        metavar="RULES",
        help="a rule file to measure: the table compares keys without and with its rules; "
        "repeatable (--site-rules FILE are in both columns, --rule NAME=VALUE switches a rule of "
        "the catalogue in both)",
    )
    parser.add_argument(
        "--ignore-from",
        type=int,
        metavar="N",
        help="leave out contents under N or more URLs: login walls, empty results",
    )
    add_normalizer(parser)


def _evaluate(args: argparse.Namespace) -> int:
    without, rules = build_normalizer(args), _rules_to_measure(args.rules)
    normalizer = without.replace_site_rules([*without.site_rules, *rules])
    logs = Logs(args, quiet=True)
    columns: dict[str, Evaluation] = {}

    def doing() -> str:
        if not logs.read:
            return f"reading: {counted(logs.rows, 'row')}"
        return "measuring " + ("with the rules" if columns else "without the rules")

    pages = (row for row in logs if row.is_page)
    with Status(doing), by_key(pages, normalizer.normalize) as parts:
        for name, one in (("without", without), ("with", normalizer)):
            shown = 10 if columns else 0
            columns[name] = measured(one, parts, ignore_from=args.ignore_from, examples=shown)
        found_pages = _Pages(parts, normalizer)
        silent = untested(normalizer, without, parts, rules)
    if not found_pages.rows:
        raise UsageError(
            f"none of {logs.rows:,} rows is a page or a file (200) whose content is named: there is "
            "nothing to measure by"
        )
    _say_pages(logs, found_pages, columns["with"])
    offers = found_pages.offers
    if args.json:
        found: dict[str, Any] = {name: column.as_dict() for name, column in columns.items()}
        found["untested"] = [
            {"urls": each.alone, "tested": each.tested, "rule": each.rule.masked().as_dict()}
            for each in silent
        ]
        if offers:
            found["aliases"] = [offer.as_dict() for offer in offers]
        out_json(found, indent=2)
        return YES
    _out_table(columns)
    for each in silent:
        out(f"untested: {each}")
    for offer in offers:
        out(f"page alias: {_as_text(offer)}")
    for first, second in columns["with"].examples:
        out(f"merged wrongly: {first}")
        out(f"                {second}")
    return YES


class _Pages:
    """How many pages the parts of a log have, under how many URLs, and which aliases they offer."""

    def __init__(self, parts: Sites, normalizer: Normalizer) -> None:
        self.rows = self.urls = 0
        self.offers: list[Offer] = []
        for _, part in parts:
            rows = list(part)
            self.rows += len(rows)
            self.urls += len({row.url for row in rows})
            self.offers += offered_by_all(rows, normalizer.normalize)


def _rules_to_measure(paths: list[str]) -> list[SiteRule]:
    if not paths:
        raise UsageError(
            "--rules RULES is missing, the rule file to measure; --rule and --site-rules say what "
            "the normalizer has in both columns"
        )
    for path in paths:
        if path.partition("=")[0] in RULE_NAMES and not Path(path).exists():
            raise UsageError(
                f"--rules {path}: there is no such file; to switch a rule of the catalogue: "
                f"--rule {path}"
            )
    return [rule for path in paths for rule in load_site_rules(path)]


def _say_pages(logs: Logs, pages: _Pages, measured: Evaluation) -> None:
    """Tell the user how many rows are measured, and why the others are not."""
    reasons = logs.left_out.copy()
    redirects = logs.rows - pages.rows - reasons.total()
    again = pages.rows - pages.urls
    reasons["redirect", "redirects"] = redirects
    reasons["page fetched again", "pages fetched again"] = again
    few = pages.urls - measured.urls
    reasons["page of a content under many URLs", "pages of contents under many URLs"] = few
    say(f"{counted(logs.rows, 'row')}, {counted(measured.urls, 'page')} measured")
    say_left_out(+reasons)


_ROWS: tuple[tuple[str, Callable[[Evaluation], str]], ...] = (
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


def _out_table(columns: dict[str, Evaluation]) -> None:
    out(f"{'':22}{'without the rules':>20}{'with them':>20}")
    for name, cell in _ROWS:
        out(f"{name:22}" + "".join(f"{cell(column):>20}" for column in columns.values()))


VERBS = (
    Verb(
        "mine",
        "Learn which URLs of a site count as one from logs that name contents or redirects "
        "(JSON lines, CSV, CDX, CDXJ); access logs and lists of URLs give proposals only. Says "
        "for each site what was found and what is missing. In a rule file that is there already, "
        "hand-written and rejected rules stay.",
        "mine crawl.jsonl.gz -o rules.toml",
        _add_mine_arguments,
        _mine,
    ),
    Verb(
        "evaluate",
        "Measure a rule file on logs that name contents, best on others than it was learned "
        "from: redundant URLs found, false merges with their upper bound, contents that a crawl in "
        "the order of the log would lose, and rules for which the log has no pairs to compare.",
        "evaluate --rules rules.toml crawl.jsonl.gz",
        _add_evaluate_arguments,
        _evaluate,
    ),
)
