"""The verb report: one HTML page about what a crawl saved, or what rules would save of a log."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_urlnorm.cli.crawl_logs import add_log_options
from scrapy_urlnorm.cli.verb import (
    YES,
    Progress,
    UsageError,
    Verb,
    add_normalizer,
    build_normalizer,
    say,
)
from scrapy_urlnorm.logs import read_log
from scrapy_urlnorm.report.gather import from_crawl, from_logs, rows_of
from scrapy_urlnorm.report.job import open_job
from scrapy_urlnorm.report.page import page
from scrapy_urlnorm.stores import ROWS_NAME
from scrapy_urlnorm.stores.sqlite import DATABASE_NAME

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from scrapy_urlnorm.logs import Observation
    from scrapy_urlnorm.report.figures import Figures


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources",
        nargs="+",
        metavar="LOG|JOBDIR",
        help="crawl logs (mine --help), or the job directory of a crawl; with both, the logs are "
        "those of that crawl",
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="PAGE", help="the HTML file to write"
    )
    add_log_options(parser)
    add_normalizer(parser)


def _report(args: argparse.Namespace) -> int:
    jobs = [
        source
        for source in args.sources
        if Path(source, DATABASE_NAME).is_file() or source.endswith(".sqlite")
    ]
    logs = [source for source in args.sources if source not in jobs]
    if len(jobs) > 1:
        raise UsageError(f"a report is about one crawl: {' and '.join(jobs)} are two")
    figures = _of_job(args, Path(jobs[0]), logs) if jobs else _of_logs(args, logs)
    Path(args.output).write_text(page(figures), encoding="utf-8")
    say(f"wrote {args.output}")
    return YES


def _rows(args: argparse.Namespace, logs: list[str]) -> Iterator[Observation]:
    readers = (
        read_log(log, format=args.format, site=args.site, skip_bad=args.skip_bad) for log in logs
    )
    return Progress("rows").over(chain.from_iterable(readers))


def _of_logs(args: argparse.Namespace, logs: list[str]) -> Figures:
    names = ", ".join("standard input" if log == "-" else Path(log).name for log in logs)
    return from_logs(_rows(args, logs), build_normalizer(args), title=f"Crawl log {names}")


def _of_job(args: argparse.Namespace, folder: Path, logs: list[str]) -> Figures:
    if not logs and (folder / ROWS_NAME).is_file():
        logs = [str(folder / ROWS_NAME)]
    with open_job(folder) as job:
        rows = _rows(args, logs) if logs else rows_of(job)
        return from_crawl(rows, job, title=f"Crawl in {folder}")


VERBS = (
    Verb(
        "report",
        "Write one HTML page about a crawl: what it saved beyond stock Scrapy, by host and by rule, "
        "which merges are suspicious, and what is still fetched twice. Of a crawl log it says what the "
        "rules would have saved. The page needs no network. Plots need the extra report.",
        "report crawl.jsonl.gz --site-rules rules.toml -o report.html",
        _add_arguments,
        _report,
    ),
)
