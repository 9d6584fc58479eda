"""The verb why: what became of a URL in a crawl with JOBDIR, and which rules are behind it."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.cli.crawl_logs import add_log_options
from scrapy_urlnorm.cli.stores import keys_of, new_store
from scrapy_urlnorm.cli.verb import (
    NO,
    YES,
    Progress,
    UsageError,
    Verb,
    add_json,
    add_normalizer,
    build_normalizer,
    out,
    out_json,
)
from scrapy_urlnorm.logs import read_log
from scrapy_urlnorm.normalizer import KEY_VERSION
from scrapy_urlnorm.report.filtered import rule_in_words
from scrapy_urlnorm.report.job import open_job
from scrapy_urlnorm.stores import Identity
from scrapy_urlnorm.stores.sqlite import DATABASE_NAME, Database, SqliteSeen
from scrapy_urlnorm.text import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from scrapy_urlnorm.cli.verb import Project
    from scrapy_urlnorm.normalizer import Normalizer
    from scrapy_urlnorm.report.job import Filtered, Held
    from scrapy_urlnorm.site_rules import SiteRule
    from scrapy_urlnorm.stores import Seen
    from scrapy_urlnorm.trace import Trace

#: What became of a URL, in words.
ARRIVED = "its page arrived"
SAME_KEY = "it was filtered: a page with the same key arrived"
#: By the state of a held request.
HELD = (
    "it is suppressed: by what the crawl learned, another page is the same and represents it",
    "it is coalesced: it waits for the end of a request that is for the same page by what was learned",
    "it is deferred: requests of its kind rarely brought a new page, so it is sent last",
)
ASKED = "it was asked for, under this URL or an equal one, and no HTML page arrived: it waits, failed, or is none"
UNKNOWN = "the crawl has not met it"
NOT_LOGGED = (
    "no URL with its key was fetched; whether it was suppressed is not in a log, but in the job directory of "
    "the crawl: name it with --job"
)
NO_STORE = (
    "its page has not arrived, and it is not suppressed; whether it was asked for is not known, because the "
    "store of the crawl is not here: name it with --store"
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


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="the URL that you miss")
    parser.add_argument(
        "--job",
        metavar="JOBDIR",
        help="the job directory of the crawl, or its database (in a project: its own)",
    )
    parser.add_argument(
        "--log", metavar="LOG", help="the log of a crawl that has no job directory (mine --help)"
    )
    parser.add_argument(
        "--store",
        metavar="SPEC",
        help="the store of a crawl that has none in its job directory (in a project: its own)",
    )
    parser.add_argument(
        "--spider", metavar="NAME", help="whose store it is: stands in the prefix of one in Redis"
    )
    add_log_options(parser)
    add_json(parser)
    add_normalizer(parser)


def _why(args: argparse.Namespace) -> int:
    normalizer = build_normalizer(args)
    answer = _from_log(args, normalizer) if args.log else _from_job(args, normalizer)
    if args.json:
        out_json(_as_dict(answer), indent=2)
    else:
        for line in _in_words(answer):
            out(line)
    return NO if answer.state in (UNKNOWN, NOT_LOGGED, NO_STORE) else YES


def _from_log(args: argparse.Namespace, normalizer: Normalizer) -> Answer:
    """Look for an answer to the URL in the log of a crawl, or to another one with its key."""
    trace = normalizer.explain(args.url)
    same = None
    rows = read_log(args.log, format=args.format, site=args.site, skip_bad=args.skip_bad)
    for row in Progress("rows").over(rows):
        if row.url == args.url:
            return Answer(trace, f"it was fetched, with status {row.status}", row.url)
        if same is None and normalizer.normalize(row.url) == trace.normalized:
            same = row.url
    return Answer(trace, NOT_LOGGED if same is None else SAME_KEY, same)


def _from_job(args: argparse.Namespace, normalizer: Normalizer) -> Answer:
    place = _place(args)
    key = keys_of(args, normalizer)(args.url)
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
    """Return the JOBDIR or the database of the crawl."""
    project: Project | None = args.project
    if args.job or project is None or not project.store.startswith("sqlite:"):
        place = args.job or (project and project.jobdir)
    else:
        place = project.store.removeprefix("sqlite:")
    if not place:
        raise UsageError("name the job directory of the crawl with --job, or its log with --log")
    return Path(place)


def _store(
    args: argparse.Namespace, normalizer: Normalizer, place: Path, *, is_in_job: bool
) -> Seen | None:
    """Return the store of the crawl: named, or in its database, or that of the project.

    ``None`` where there is none that outlived the crawl. One that is not there is not made. To open
    one raises StoreMismatchError if the crawl had other rules.
    """
    if args.store is None and is_in_job:
        path = place / DATABASE_NAME if place.is_dir() else place
        return SqliteSeen(Database(path), Identity(normalizer.digest, KEY_VERSION))
    project: Project | None = args.project
    is_project = project is not None and Path(project.jobdir or "") == place
    spec = args.store or (project.store if project and is_project else "memory")
    if "://" in spec or Path(spec.partition(":")[2] or "nowhere").exists():
        return new_store(args, normalizer)
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
        yield f"  by {name}"
        if rule is not None:
            yield f"    {_evidence(rule)}"
            yield f"    {_tests(passed)}"
    if answer.held and answer.held.since:
        yield f"  since {_when(answer.held.since)}"
    if filtered := answer.filtered:
        rules = f", by {', '.join(filtered.rules)}" if filtered.rules else ""
        yield f"  not sent {counted(filtered.times, 'time')}, for example as {filtered.url}{rules}"
        since, last = _when(filtered.since), _when(filtered.last)
        yield f"  at {since}" if since == last else f"  from {since} to {last}"


def _when(seconds: float) -> str:
    """Return a time of day in the zone of the user."""
    moment = datetime.fromtimestamp(seconds, timezone.utc).astimezone()
    return moment.isoformat(sep=" ", timespec="seconds")


def _tests(passed: int) -> str:
    if not passed:
        return "no test of it is known"
    return f"tested: {counted(passed, 'request')} sent all the same found what the rule says"


def _evidence(rule: SiteRule) -> str:
    said = f"source {rule.source}"
    if rule.support is not None:
        said += f", {rule.support} for it, {rule.conflicts or 0} against"
    if rule.examples:
        said += ", such as " + " and ".join(rule.examples[0])
    return said


def _as_dict(answer: Answer) -> dict[str, Any]:
    return {
        "url": answer.trace.url,
        "key": answer.trace.normalized,
        "rules": [step.rule for step in answer.trace.steps],
        "state": answer.state,
        "behind": answer.behind,
        "held": answer.held and answer.held._asdict(),
        "learned": [
            {"rule": name, "source": rule and rule.source, "support": rule and rule.support}
            | {"tested": passed}
            for name, rule, passed in answer.rules
        ],
        "filtered": answer.filtered and answer.filtered._asdict(),
    }


VERBS = (
    Verb(
        "why",
        "Say whether the page of a URL arrived, or behind which page its request was filtered or suppressed, by "
        "which rules, when and how often; or what it waits for. The crawl has to have ended or to be paused. The exit "
        "code is 1 when the crawl has not met the URL. A log (--log) knows nothing of what was learned.",
        "why 'http://shop.example/list?sort=price' --job crawls/shop",
        _add_arguments,
        _why,
    ),
)
