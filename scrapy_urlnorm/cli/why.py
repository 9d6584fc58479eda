"""The verb why: what became of a URL in a crawl with JOBDIR, and which rule is behind it.

The database of the crawl has the pages that arrived, the requests that wait and those that were withheld, each
by its key; the record of drops says when, how often and by which rules requests with a key were not sent.
"""

from __future__ import annotations

from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.cli.crawl_logs import add_log_options
from scrapy_urlnorm.cli.stores import keys_of
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
from scrapy_urlnorm.report.drops import Drops, rule_in_words
from scrapy_urlnorm.report.job import Job
from scrapy_urlnorm.stores import DROPS_NAME, FILE_NAME, LMDB_NAME, default_spec, open_store
from scrapy_urlnorm.text import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from scrapy_urlnorm.cli.verb import Project
    from scrapy_urlnorm.normalizer import Normalizer
    from scrapy_urlnorm.report.drops import Drop
    from scrapy_urlnorm.site_rules import SiteRule
    from scrapy_urlnorm.trace import Trace

#: What became of a URL, in words.
ARRIVED = "its page arrived"
SAME_KEY = "it was dropped: a page with the same key arrived"
WITHHELD = "it is withheld: what the crawl learned says that its page arrived under another URL"
PARKED = "it waits: a request that what was learned takes for the same was under way"
ASKED = "it was asked for, under this URL or an equal one, and no HTML page arrived: it waits, failed, or is none"
UNKNOWN = "the crawl has not met it"
NOT_LOGGED = (
    "no URL with its key was fetched; whether it was withheld is not in a log, but in the job directory of "
    "the crawl: name it with --job"
)
NO_STORE = (
    "its page has not arrived, and it is not withheld; whether it was asked for is not known, because the "
    "store of the crawl is not here: name it with --store"
)


class Answer(NamedTuple):
    """What is known of one URL. *rules* are learned ones, as a rule file has them."""

    trace: Trace
    state: str
    behind: str | None = None  #: the URL of the page that it stands behind
    rules: tuple[SiteRule, ...] = ()
    names: bool = False  #: whether that page names the URL as one of its own
    drop: Drop | None = None  #: of requests with its key
    tested: Mapping[str, int] = {}  #: by learned rule, in words, how many tests it has passed


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="the URL that you miss")
    parser.add_argument(
        "--job", metavar="JOBDIR", help="the job directory of the crawl (in a project: its own)"
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
    if args.log:
        answer = _from_log(args, normalizer)
    else:
        project = getattr(args, "project", None)
        job = args.job or (project.jobdir if project else None)
        if not job:
            raise UsageError(
                "name the job directory of the crawl with --job, or its log with --log"
            )
        key = keys_of(args, normalizer)(args.url)
        with closing(Job(Path(job))) as database:
            answer = _with_record(_answer(args, database, normalizer, key), Path(job), key)
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


def _answer(args: argparse.Namespace, job: Job, normalizer: Normalizer, key: bytes) -> Answer:
    url = args.url
    trace = normalizer.explain(url)
    arrived = job.page(key)
    if arrived is not None:
        return Answer(trace, ARRIVED if arrived == url else SAME_KEY, arrived)
    withheld = job.withheld(key)
    if withheld is not None:
        state, behind = PARKED if withheld.is_parked else WITHHELD, withheld.behind
        if behind is None and (named_by := job.named_by(key)) is not None:
            return Answer(trace, state, named_by, names=True)
        return Answer(trace, state, behind, _acting(normalizer, job.rules_for(url), url, behind))
    if job.holds(key):
        return Answer(trace, ASKED)
    spec = _store_of(args, job.folder)
    if spec is None:
        return Answer(trace, NO_STORE)
    return Answer(trace, ASKED if _has(args, normalizer, spec, key) else UNKNOWN)


def _with_record(answer: Answer, folder: Path, key: bytes) -> Answer:
    """Add what the record of drops knows."""
    path = folder / DROPS_NAME
    if not path.is_file():  # an older version, or the crawl could not write one
        return answer
    with Drops(path) as drops:
        drop = drops.of(key)
        behind = answer.behind or (drop.first if drop is not None else None)
        return answer._replace(behind=behind, drop=drop, tested=drops.tested())


def _store_of(args: argparse.Namespace, folder: Path) -> str | None:
    """Return the store of the crawl: named, or in its folder, or that of the project.

    ``None`` where there is none that outlived the crawl. One that is not there is not made.
    """
    spec: str | None = args.store
    project: Project | None = getattr(args, "project", None)
    if spec is None and any((folder / name).exists() for name in (LMDB_NAME, FILE_NAME)):
        return default_spec(str(folder))
    if spec is None and project is not None and Path(project.jobdir or "") == folder:
        spec = project.store
    if spec is None:
        return None
    kind, _, path = spec.partition(":")
    is_there = {"memory": False, "file": Path(path).exists(), "lmdb": Path(path).exists()}
    return spec if is_there.get(kind, True) else None


def _has(args: argparse.Namespace, normalizer: Normalizer, spec: str, key: bytes) -> bool:
    """Return whether a store has *key*. Raises StoreMismatchError if the crawl had other rules."""
    project: Project | None = getattr(args, "project", None)
    is_own = project is not None and project.store == spec
    store = open_store(
        spec,
        digest=normalizer.digest,
        key_version=KEY_VERSION,
        spider=args.spider,
        jobdir=None,
        **(project.store_options if project is not None and is_own else {}),
    )
    with store:
        return key in store


def _acting(
    normalizer: Normalizer, learned: tuple[SiteRule, ...], url: str, behind: str | None
) -> tuple[SiteRule, ...]:
    """Return the learned rules without which the two URLs would not be one."""
    if behind is None:
        return learned
    both = [*normalizer.site_rules, *learned]

    def are_one(rules: list[SiteRule]) -> bool:
        normalize = normalizer.replace_site_rules(rules).normalize
        return normalize(url) == normalize(behind)

    if not are_one(both):
        return ()
    return tuple(
        rule for rule in learned if not are_one([each for each in both if each is not rule])
    )


def _in_words(answer: Answer) -> Iterator[str]:
    yield str(answer.trace)
    yield f"{answer.trace.url}: {answer.state}"
    if answer.behind and answer.behind != answer.trace.url:
        yield f"  behind {answer.behind}"
    if answer.names:
        yield "  that page has a permalink or a short link to it (a page alias)"
    for rule in answer.rules:
        yield f"  by {rule}"
        yield f"    {_evidence(rule)}"
        yield f"    {_tests(answer.tested.get(rule_in_words(rule), 0))}"
    if answer.drop is not None:
        yield from _times(answer.drop)


def _times(drop: Drop) -> Iterator[str]:
    rules = f", by {', '.join(drop.rules)}" if drop.rules else ""
    yield f"  not sent {counted(drop.times, 'time')}, for example as {drop.url}{rules}"
    since, last = _when(drop.since), _when(drop.last)
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
        "names": answer.names,
        "learned": [
            {
                "rule": str(rule),
                "source": rule.source,
                "support": rule.support,
                "tested": answer.tested.get(rule_in_words(rule), 0),
            }
            for rule in answer.rules
        ],
        "dropped": answer.drop and answer.drop._asdict(),
    }


VERBS = (
    Verb(
        "why",
        "Say whether the page of a URL arrived, or behind which page its request was dropped or "
        "withheld, by which rules, when and how often. The crawl has to have ended or to be paused. The exit code is "
        "1 when the crawl has not met the URL. A log (--log) knows nothing of what was learned.",
        "why 'http://shop.example/list?sort=price' --job crawls/shop",
        _add_arguments,
        _why,
    ),
)
