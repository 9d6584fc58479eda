"""Verbs on one crawl: why is about a URL, report about all of it."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.cli import inputs
from scrapy_urlnorm.cli import verb as cli
from scrapy_urlnorm.exceptions import naming
from scrapy_urlnorm.report.figures import from_crawl, from_logs, rows_of
from scrapy_urlnorm.report.filtered import open_job, rule_in_words, sentence_of
from scrapy_urlnorm.report.page import page
from scrapy_urlnorm.stores import DATABASE_NAME, ROWS_NAME
from scrapy_urlnorm.text import counted, moment, own_version, replace_file

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from scrapy_urlnorm.cli.verb import Project
    from scrapy_urlnorm.normalizer import Normalizer, Trace
    from scrapy_urlnorm.report.figures import Figures
    from scrapy_urlnorm.report.filtered import Filtered, Held
    from scrapy_urlnorm.site_rules import SiteRule
    from scrapy_urlnorm.stores import Seen

# --- why ------------------------------------------------------------------------------------

# What became of a URL, in words.
ARRIVED = "its page arrived"
SAME_KEY = "it was filtered: a page with the same key arrived"
#: By the state of a held request.
HELD = (
    "it is suppressed: by what the crawl learned, another page is the same and represents it",
    (
        "it is coalesced: it waits for the end of a request that is for the same page by what was "
        "learned"
    ),
    "it is deferred: requests of its kind rarely brought a new page, so it is sent last",
    "it is put last: URLs like it brought nothing new for long, so it is sent after all others",
)
ASKED = (
    "it was asked for, under this URL or an equal one, and no HTML page arrived: it waits, "
    "failed, or is none"
)
UNKNOWN = "the crawl has not met it"
NOT_LOGGED = (
    "no URL with its key was fetched; whether it was suppressed is not in a log, but in the job "
    "directory of the crawl: name it with --job"
)
NO_STORE = (
    "its page has not arrived, and it is not suppressed; whether it was asked for is not known, "
    "because the store of the crawl is not here: name it with --store"
)


class Answer(NamedTuple):
    """What is known of one URL."""

    trace: Trace
    state: str
    behind: str | None = None  #: URL of the page that represents it; "" if it is not known here
    held: Held | None = None
    #: What was learned and holds it, in words; the rule, if it is one; the tests that it passed.
    rules: tuple[tuple[str, SiteRule | None, int], ...] = ()
    filtered: Filtered | None = None  #: requests with its key

    def as_dict(self) -> dict[str, Any]:
        learned = [
            {"rule": name, "source": rule and rule.source, "support": rule and rule.support}
            | {"tested": passed}
            for name, rule, passed in self.rules
        ]
        return {
            "url": self.trace.url,
            "key": self.trace.normalized,
            "rules": [step.rule for step in self.trace.steps],
            "state": self.state,
            "behind": self.behind,
            "held": self.held and self.held._asdict(),
            "learned": learned,
            "filtered": self.filtered and self.filtered._asdict(),
        }


@cli.verb(
    "Say whether the page of a URL arrived, or behind which page its request was filtered or "
    "suppressed, by which rules, when and how often; or what it waits for. The crawl has to have "
    "ended or to be paused. The exit code is 1 when the crawl has not met the URL.",
    "why 'http://shop.example/list?sort=price' --job crawls/shop",
    cli.option("url URL", "the URL that you miss"),
    inputs.JOB,
    cli.option("--log LOG", "the log of a crawl that has no job directory (mine --help)"),
    *inputs.STORE,
    *inputs.LOG_OPTIONS,
    cli.JSON,
    *cli.NORMALIZER,
)
def why(args: argparse.Namespace) -> int:
    normalizer = inputs.build_normalizer(args)
    answer = _from_log(args, normalizer) if args.log else _from_job(args, normalizer)
    if args.json:
        cli.out_json(answer.as_dict(), indent=2)
    else:
        for line in _in_words(answer):
            cli.out(line)
    return cli.NO if answer.state in (UNKNOWN, NOT_LOGGED, NO_STORE) else cli.YES


def _from_log(args: argparse.Namespace, normalizer: Normalizer) -> Answer:
    """Look for an answer to the URL in the log of a crawl, or to another one with its key."""
    trace = normalizer.explain(args.url)
    same = None
    for row in inputs.Logs(args, [args.log]):
        if row.url == args.url:
            return Answer(trace, f"it was fetched, with status {row.status}", row.url)
        if same is None and normalizer.normalize(row.url) == trace.normalized:
            same = row.url
    return Answer(trace, NOT_LOGGED if same is None else SAME_KEY, same)


def _from_job(args: argparse.Namespace, normalizer: Normalizer) -> Answer:
    place = _place(args)
    [key] = inputs.keys_of(args, normalizer, [args.url])
    trace = normalizer.explain(args.url)
    with open_job(place) as job:
        filtered = job.filtered(key)
        if (arrived := job.page(key)) is not None:
            state = ARRIVED if arrived == args.url else SAME_KEY
            return Answer(trace, state, arrived, filtered=filtered)
        if (held := job.held(key)) is not None:
            rules = {rule_in_words(rule): (rule, passed) for rule, passed in job.rules()}
            by = tuple((name, *rules.get(name, (None, 0))) for name in held.rules)
            return Answer(trace, HELD[held.state], held.behind, held, by, filtered)
        if filtered is not None:
            return Answer(trace, ASKED, filtered.first, filtered=filtered)
        has_store = job.has_store()
    # The database is closed: a store wants it for itself.
    store = _store(args, normalizer, place, is_in_job=has_store)
    if store is None:
        return Answer(trace, NO_STORE)
    with store:
        return Answer(trace, ASKED if key in store else UNKNOWN)


def _place(args: argparse.Namespace) -> Path:
    project: Project | None = args.project
    place = args.job
    if not place and project:
        is_sqlite = project.store.startswith("sqlite:")
        place = project.store.removeprefix("sqlite:") if is_sqlite else project.jobdir
    if not place:
        raise cli.UsageError(
            "name the job directory of the crawl with --job, or its log with --log"
        )
    return Path(place)


def _store(
    args: argparse.Namespace, normalizer: Normalizer, place: Path, *, is_in_job: bool
) -> Seen | None:
    """Return the store of the crawl: named, or in its database, or that of the project.

    ``None`` where there is none that outlived the crawl. One that is not there is not made. To open
    one raises StoreMismatchError if the crawl had other rules.
    """
    if args.store is None and is_in_job:
        return inputs.store_of_job(place, normalizer)
    project: Project | None = args.project
    is_project = project is not None and Path(project.jobdir or "") == place
    spec = inputs.store_spec(args) if args.store or is_project else "memory"
    if "://" in spec or Path(spec.partition(":")[2] or "nowhere").exists():
        return inputs.named_store(args, normalizer)
    return None


def _in_words(answer: Answer) -> Iterator[str]:
    yield str(answer.trace)
    yield f"{answer.trace.url}: {answer.state}"
    if answer.behind == "":
        yield "  behind a page that has no URL of its own, or arrived at another crawler"
    elif answer.behind and answer.behind != answer.trace.url:
        yield f"  behind {answer.behind}"
    if answer.held and answer.held.is_alias:
        yield "  that page has a permalink or a short link to it (a page alias)"
    for name, rule, passed in answer.rules:
        yield f"  by {name if rule is None else f'the rule: {sentence_of(rule)}'}"
        if rule is not None:
            yield f"    {_evidence(rule)}"
            tests = (
                f"tested: {counted(passed, 'request')} sent all the same found what the rule says"
            )
            yield f"    {tests if passed else 'no test of it is known'}"
    if answer.held and answer.held.since:
        yield f"  since {_when(answer.held.since)}"
    if filtered := answer.filtered:
        rules = f", by {', '.join(filtered.rules)}" if filtered.rules else ""
        yield f"  not sent {counted(filtered.times, 'time')}, for example as {filtered.url}{rules}"
        since, last = _when(filtered.since), _when(filtered.last)
        yield f"  at {since}" if since == last else f"  from {since} to {last}"


def _when(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, timezone.utc).astimezone()
    return moment.isoformat(sep=" ", timespec="seconds")


def _evidence(rule: SiteRule) -> str:
    said = f"source {rule.source}"
    if rule.support is not None:
        said += f", {rule.support} for it, {rule.conflicts or 0} against"
    if rule.examples:
        said += ", such as " + " and ".join(rule.examples[0])
    return said


# --- report ---------------------------------------------------------------------------------


@cli.verb(
    "Write one HTML page about a crawl: what it saved beyond stock Scrapy, which merges are "
    "suspicious, and what is still fetched twice. Of a crawl log it says what the rules would "
    "have saved. The page needs no network.",
    "report crawl.jsonl.gz --site-rules rules.toml -o report.html",
    cli.option("sources LOG|JOBDIR...", "crawl logs, the job directory of a crawl, or both"),
    cli.option("-o --output PAGE", "the HTML file to write", required=True),
    *inputs.LOG_OPTIONS,
    *cli.NORMALIZER,
)
def report(args: argparse.Namespace) -> int:
    jobs = [
        source
        for source in args.sources
        if Path(source, DATABASE_NAME).is_file() or source.endswith(".sqlite")
    ]
    logs = [source for source in args.sources if source not in jobs]
    if len(jobs) > 1:
        raise cli.UsageError(f"a report is about one crawl: {' and '.join(jobs)} are two")
    figures = _of_job(args, Path(jobs[0]), logs) if jobs else _of_logs(args, logs)
    with naming(args.output):
        replace_file(Path(args.output), page(figures))
    cli.say(f"wrote {args.output}")
    return cli.YES


def _of_logs(args: argparse.Namespace, logs: list[str]) -> Figures:
    names = ", ".join("standard input" if log == "-" else Path(log).name for log in logs)
    normalizer = inputs.build_normalizer(args)
    about = (
        ("Made", moment(time.time())),
        ("scrapy-urlnorm", own_version()),
        ("Profile", normalizer.profile),
        ("Site rules", f"{sum(rule.active for rule in normalizer.site_rules):,} active"),
    )
    rows = inputs.Logs(args, logs)
    return from_logs(rows, normalizer, title=f"Crawl log {names}", about=about)


def _of_job(args: argparse.Namespace, folder: Path, logs: list[str]) -> Figures:
    if not logs and (folder / ROWS_NAME).is_file():
        logs = [str(folder / ROWS_NAME)]
    with open_job(folder) as job:
        logged = inputs.Logs(args, logs, crawl=job.crawl)
        figures = from_crawl(logged if logs else rows_of(job), job, title=f"Crawl in {folder}")
    if logs and not figures.requests:
        raise cli.UsageError(f"{' and '.join(logs)}: no row is of the crawl in {folder}")
    return figures
