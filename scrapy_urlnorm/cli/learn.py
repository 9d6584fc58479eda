"""Verbs on crawl logs: mine learns rules from them, evaluate measures rules on them."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..learning import evaluate, survey
from ..logs import FORMATS, read_log
from ..masking import masked
from ..site_rules import load_site_rules
from .merge import Merged, add_rules
from .site_rules import out_rules
from .verb import (
    YES,
    Progress,
    UsageError,
    Verb,
    add_json,
    add_normalizer,
    build_normalizer,
    out,
    out_json,
    say,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator
    from types import FrameType

    from ..learning import Evaluation, SiteReport
    from ..logs import Observation


class Logs:
    """The logs of a command line, one after the other, and what there was in them."""

    def __init__(self, args: argparse.Namespace) -> None:
        if args.logs.count("-") > 1:
            raise UsageError("standard input (-) can be read once")
        self._args = args
        self._progress = Progress("rows")
        self.contents = self.redirects = 0

    @property
    def rows(self) -> int:
        """Rows read so far."""
        return self._progress.count

    def __iter__(self) -> Iterator[Observation]:
        for path in self._args.logs:
            yield from self._progress.over(self._read(path))

    def _read(self, path: str) -> Iterator[Observation]:
        args = self._args
        log = read_log(path, format=args.format, skip_bad=args.skip_bad, site=args.site)
        for row in log:
            self.contents += row.content is not None
            self.redirects += row.location is not None
            yield row
        if log.skipped:
            self._progress.clear()
            say(f"{log.skipped:,} rows skipped; the first: {log.first_bad}")


def add_logs(parser: argparse.ArgumentParser) -> None:
    """Offer crawl logs, and how to read them."""
    parser.add_argument(
        "logs", nargs="+", metavar="LOG", help="a crawl log, plain or gzipped; - for standard input"
    )
    add_log_options(parser)
    add_json(parser)


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Offer the ways to read crawl logs."""
    parser.add_argument(
        "--format", choices=tuple(FORMATS), help="of all logs (default: found by their first lines)"
    )
    parser.add_argument(
        "--site", metavar="URL", help="scheme and host of logs that name none (access logs)"
    )
    parser.add_argument(
        "--skip-bad", action="store_true", help="count rows that cannot be read instead of stopping"
    )


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


def _mine(args: argparse.Namespace) -> int:
    logs = Logs(args)
    progress = Progress("sites")
    processes = args.processes or _cores()
    sites = survey(logs, risk=args.risk, noise=args.noise, processes=processes)
    with _no_children_left():
        reports = list(progress.over(sites))
    rules = [rule for report in reports for rule in report.rules]
    merged = None
    if args.output:
        merged = add_rules(args.output, rules, {report.site for report in reports})
    if args.json:
        out_json({"sites": [_as_dict(report) for report in reports]}, indent=2)
    elif args.output:
        for line in _described(reports):
            out(line)
    else:
        out_rules(rules)
        for line in _described(reports):
            say(line)
    say(f"{logs.rows:,} rows, {len(reports):,} sites, {_counted(rules)}")
    if logs.rows and not logs.contents:
        say(
            "No row names its content, so nothing about contents could be learned: "
            + ("redirects are the only evidence." if logs.redirects else "rules are proposals.")
            + " scrapy_urlnorm.CrawlLog writes logs that do."
        )
    if merged is not None:
        say(_written(args.output, merged))
    return YES


@contextmanager
def _no_children_left() -> Iterator[None]:
    """Let Ctrl-C end the processes that work on sites: a pool would wait for what they have."""

    def stop(number: int, frame: FrameType | None) -> None:
        for child in multiprocessing.active_children():
            child.terminate()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def _counted(rules: list[Any]) -> str:
    active = sum(rule.active for rule in rules)
    return f"{active:,} rules active, {len(rules) - active:,} proposed"


def _written(path: str, merged: Merged) -> str:
    text = f"{path}: {len(merged.rules):,} rules, {merged.added:,} of them new"
    if merged.removed:
        text += f"; {merged.removed:,} that these logs no longer bear out are gone"
    if merged.demoted:
        text += f"; {merged.demoted:,} only proposed, for what the file says already"
    return text


def _described(reports: list[SiteReport]) -> Iterator[str]:
    """Say of each site what was found and what is missing; of many without either, how many."""
    silent: Counter[tuple[str, ...]] = Counter()
    for report in reports:
        if not report.rules and not report.redundant:
            silent[report.missing] += 1
            continue
        line = f"{report.site}: {report.urls:,} URLs"
        if report.contents:
            line += (
                f", {report.contents:,} contents; "
                f"{report.merged:,} of {report.redundant:,} redundant ones found"
            )
        yield line
        for rule in report.rules:
            evidence = "" if rule.support is None else f"; support {rule.support}"
            if rule.conflicts:
                evidence += f", conflicts {rule.conflicts}"
            yield f"  {rule.status}: {rule}{evidence}"
        for missing in report.missing:
            yield f"  missing: {missing}"
    for reasons, count in silent.items():
        yield f"{count:,} sites without redundant URLs" + "".join(f"; {why}" for why in reasons)


def _as_dict(report: SiteReport) -> dict[str, Any]:
    return {
        "site": report.site,
        "urls": report.urls,
        "contents": report.contents,
        "redundant": report.redundant,
        "merged": report.merged,
        "rules": [masked(rule).as_dict() for rule in report.rules],
        "missing": list(report.missing),
    }


def _add_evaluate_arguments(parser: argparse.ArgumentParser) -> None:
    add_logs(parser)
    parser.add_argument(
        "--rules",
        action="append",
        default=[],
        required=True,
        metavar="RULES",
        help="the rule file to measure; repeatable",
    )
    parser.add_argument(
        "--ignore-from",
        type=int,
        metavar="N",
        help="leave out contents under N or more URLs: login walls, empty results",
    )
    add_normalizer(parser)


def _evaluate(args: argparse.Namespace) -> int:
    without = build_normalizer(args)
    rules = [rule for path in args.rules for rule in load_site_rules(path)]
    normalizer = without.replace_site_rules([*without.site_rules, *rules])
    logs = Logs(args)
    pages = [row for row in logs if row.is_page]
    if not pages:
        raise UsageError(
            f"none of {logs.rows:,} rows is a page (200, HTML) whose content is named: there is "
            "nothing to measure by"
        )
    columns = {
        "without": evaluate(without, pages, ignore_from=args.ignore_from, examples=0),
        "with": evaluate(normalizer, pages, ignore_from=args.ignore_from),
    }
    if args.json:
        out_json({name: column.as_dict() for name, column in columns.items()}, indent=2)
        return YES
    _out_table(columns)
    for first, second in columns["with"].examples:
        out(f"merged wrongly: {first}")
        out(f"                {second}")
    return YES


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
        "learn rules from crawl logs",
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
        "measure rules on crawl logs",
        "Measure a rule file on logs that name contents, best on others than it was learned "
        "from: redundant URLs found, false merges with their upper bound, contents lost.",
        "evaluate --rules rules.toml crawl.jsonl.gz",
        _add_evaluate_arguments,
        _evaluate,
    ),
)
