"""Verbs on one crawl: why is about a URL, report about all of it, forget takes URLs out of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.cli import NO, YES, Project, UsageError, inputs, out, out_json, say
from scrapy_urlnorm.exceptions import naming
from scrapy_urlnorm.normalizer import KEY_VERSION
from scrapy_urlnorm.report.figures import from_crawl, from_logs
from scrapy_urlnorm.report.filtered import open_job, rule_in_words, sentence_of
from scrapy_urlnorm.report.page import page
from scrapy_urlnorm.stores import DATABASE_NAME, ROWS_NAME, SqliteSeen, open_store
from scrapy_urlnorm.text import counted, moment, own_version, replace_file
from scrapy_urlnorm.url import STOCK_FINGERPRINTER, get_fingerprint

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from scrapy_urlnorm.normalizer import Normalizer, Trace
    from scrapy_urlnorm.report.figures import Figures
    from scrapy_urlnorm.stores import Database, Seen

# --- the place of a crawl -------------------------------------------------------------------


def _open_store(args: argparse.Namespace, normalizer: Normalizer, place: str | None) -> Seen | None:
    """Return the store in *place*, a job directory or database, or else that of the options or of
    the project, not yet opened; ``None`` if none is there that outlived its crawl.

    Raises ConfigError and MissingExtraError; to open it raises StoreMismatchError if the crawl had
    other rules.
    """
    project: Project = args.project
    spec = args.store or project.store
    if place:
        path = Path(place, DATABASE_NAME) if Path(place).is_dir() else place
        spec = f"sqlite:{path}"
    if spec == "memory":
        return None
    store = open_store(
        spec,
        digest=normalizer.digest,
        key_version=KEY_VERSION,
        jobdir=project.jobdir,
        spider=args.spider,
    )
    database = store.database if isinstance(store, SqliteSeen) else None
    return None if database and database.path and not database.path.exists() else store


def _keys_of(args: argparse.Namespace, normalizer: Normalizer, urls: list[str]) -> list[bytes]:
    """Return the keys of *urls* that the project's crawls use.

    Raises UsageError if another fingerprinter makes the keys of the project, and for no whole URL.
    """
    for url in urls:
        if "://" not in url:
            raise UsageError(f"{url!r} has no http:// or https:// in front")
    if (name := args.project.fingerprinter) != STOCK_FINGERPRINTER:
        raise UsageError(
            f"the fingerprints of this project are made by {name}; only those of "
            f"{STOCK_FINGERPRINTER} follow from a URL alone"
        )
    return list(map(get_fingerprint, normalizer.normalize_many(urls)))


# --- why ------------------------------------------------------------------------------------

# What became of a URL, in words.
ARRIVED = "its page arrived"
SAME_KEY = "it was filtered: a page with the same key arrived"
#: By the state of a held request.
HELD = (
    "it is held: by what the crawl learned, another page is the same and represents it",
    (
        "it is coalesced: it waits for the end of a request that is for the same page by what was "
        "learned"
    ),
    "it is deferred: requests of its kind rarely brought a new page, so it is sent last",
    "it is put last: URLs like it brought nothing new for long, so it is sent after all others",
)
ASKED = (
    "it was asked for, under this URL or an equal one, and no HTML page is on record: it waits, "
    "failed, is none, or was forgotten"
)
UNKNOWN = "the crawl has not met it; of a start page, and with dont_filter, it may know nothing"
NO_STORE = (
    "its page has not arrived, and it is not held; whether it was asked for is not known, "
    "because the store of the crawl is not here: name it with --store"
)
#: What is told of a learned rule, and of what is none, such as a page alias.
_TOLD = ("source", "support", "conflicts", "examples")
_UNTOLD: dict[str, Any] = {"sentence": None, **dict.fromkeys(_TOLD), "tested": 0}


def why(args: argparse.Namespace) -> int:
    normalizer = inputs.build_normalizer(args)
    trace = normalizer.explain(args.url)
    answer: dict[str, Any] = {
        "url": trace.url,
        "key": trace.normalized,
        "rules": [step.rule for step in trace.steps],
        "behind": None,  # URL of the page that represents it; "" if that is not known here
        "held": None,
        "learned": [],  # what was learned and holds it
        "filtered": None,  # requests with its key
        **_in_job(args, normalizer, trace),
    }
    if args.json:
        out_json(answer, indent=2)
    else:
        out(str(trace))
        for line in _in_words(answer):
            out(line)
    return NO if answer["state"] in (UNKNOWN, NO_STORE) else YES


def _in_job(args: argparse.Namespace, normalizer: Normalizer, trace: Trace) -> dict[str, Any]:
    project: Project = args.project
    is_sqlite = project.store.startswith("sqlite:")
    place = args.job or (project.store.removeprefix("sqlite:") if is_sqlite else project.jobdir)
    if not place:
        raise UsageError("name the job directory of the crawl with --job: a store has keys alone")
    [key] = _keys_of(args, normalizer, [trace.url])
    with open_job(Path(place)) as job:
        filtered = job.filtered(key)
        answer: dict[str, Any] = {"filtered": filtered and filtered._asdict()}
        if (arrived := job.page(key)) is not None:
            state = ARRIVED if arrived == trace.url else SAME_KEY
            return {"state": state, "behind": arrived, **answer}
        if (held := job.held(key)) is not None:
            known = {
                rule_in_words(rule): {
                    "sentence": sentence_of(rule),
                    **{name: getattr(rule, name) for name in _TOLD},
                    "tested": n,
                }
                for rule, n in job.rules()
            }
            by = [{"rule": name, **known.get(name, _UNTOLD)} for name in held.rules]
            answer |= {"held": held._asdict(), "learned": by}
            return {"state": HELD[held.state], "behind": held.behind, **answer}
        if filtered is not None:
            return {"state": ASKED, "behind": filtered.first, **answer}
        has_store = job.has_store()
    # The database is closed: a store wants it for itself.
    store = None
    if has_store and args.store is None:
        store = _open_store(args, normalizer, place)
    elif args.store or Path(project.jobdir or "") == Path(place):
        store = _open_store(args, normalizer, None)
    if store is None:
        return {"state": NO_STORE}
    with store:
        return {"state": ASKED if key in store else UNKNOWN}


def _in_words(answer: dict[str, Any]) -> Iterator[str]:
    yield f"{answer['url']}: {answer['state']}"
    if answer["behind"] == "":
        yield "  behind a page that has no URL of its own, or arrived at another crawler"
    elif answer["behind"] and answer["behind"] != answer["url"]:
        yield f"  behind {answer['behind']}"
    held, filtered = answer["held"], answer["filtered"]
    if held and held["is_alias"]:
        yield "  that page has a permalink or a short link to it (a page alias)"
    for rule in answer["learned"]:
        said = rule["sentence"]
        yield f"  by the rule: {said}" if said else f"  by {rule['rule']}"
        if rule["source"]:
            support, conflicts = rule["support"], rule["conflicts"] or 0
            votes = "" if support is None else f", {support} for it, {conflicts} against"
            pair = f", such as {' and '.join(rule['examples'][0])}" if rule["examples"] else ""
            yield f"    source {rule['source']}{votes}{pair}"
            sent = f"{counted(rule['tested'], 'request')} sent all the same"
            tests = f"tested: {sent} found what the rule says"
            yield f"    {tests if rule['tested'] else 'no test of it is known'}"
    if held and held["since"]:
        yield f"  since {moment(held['since'])}"
    if filtered:
        rules = f", by {', '.join(filtered['rules'])}" if filtered["rules"] else ""
        times = counted(filtered["times"], "time")
        yield f"  not sent {times}, for example as {filtered['url']}{rules}"
        since, last = moment(filtered["since"]), moment(filtered["last"])
        yield f"  at {since}" if since == last else f"  from {since} to {last}"


# --- report ---------------------------------------------------------------------------------


def report(args: argparse.Namespace) -> int:
    jobs = [
        source
        for source in args.sources
        if Path(source, DATABASE_NAME).is_file() or source.endswith(".sqlite")
    ]
    logs = [source for source in args.sources if source not in jobs]
    if len(jobs) > 1:
        raise UsageError(f"a report is about one crawl: {' and '.join(jobs)} are two")
    figures = _of_job(args, Path(jobs[0]), logs) if jobs else _of_logs(args, logs)
    with naming(args.output):
        replace_file(Path(args.output), page(figures))
    say(f"wrote {args.output}")
    return YES


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
        figures = from_crawl(logged if logs else job.pages(), job, title=f"Crawl in {folder}")
    if logs and not figures.requests:
        raise UsageError(f"{' and '.join(logs)}: no row is of the crawl in {folder}")
    return figures


# --- forget ---------------------------------------------------------------------------------

_MET = (
    "SELECT url, fingerprint FROM page WHERE url > '' UNION ALL SELECT url, fingerprint FROM held"
)
#: The page that represents a held request goes too: the next request would be held behind it.
_FORGET_PAGES = """
DELETE FROM page WHERE fingerprint = ?1 OR cluster IN (
  SELECT cluster FROM page WHERE fingerprint = ?1 UNION
  SELECT cluster FROM held WHERE fingerprint = ?1)
"""  # a cluster that is NULL is in no set
_FORGET_HELD = "DELETE FROM held WHERE fingerprint = ?"


def forget(args: argparse.Namespace) -> int:
    if args.job and args.store:
        raise UsageError("name the crawl with --job or its store with --store, not with both")
    normalizer = inputs.build_normalizer(args)
    keys = dict(zip(args.urls, _keys_of(args, normalizer, args.urls), strict=True))
    if (seen := _open_store(args, normalizer, args.job)) is None:
        raise UsageError(
            f"{args.job or args.store or args.project.store}: no crawl left its keys here; name "
            "its --job JOBDIR, or its --store sqlite:PATH or redis://..."
        )
    with seen as store:
        database = _learned(store)
        if args.prefix:
            if database is None:
                raise UsageError(f"{store.name} has keys and no URLs: name each URL")
            begins = tuple(args.urls)
            keys = {url: key for url, key in database.read(_MET) if url.startswith(begins)}
        forgotten: dict[bytes, bool] = {}
        for key in keys.values():
            if key not in forgotten:
                forgotten[key] = store.forget(key)
                if database is not None:  # its page, too, and what holds a request with it
                    database.write(_FORGET_PAGES, key)
                    forgotten[key] |= database.write(_FORGET_HELD, key) > 0
    # All is done before a word of it: who reads that may have enough of it.
    for url, key in keys.items():
        out(f"{'forgotten' if forgotten[key] else 'not known'}: {url}")
    number = sum(forgotten.values())
    again = " The next run fetches what it meets a link to." if number else ""
    say(f"{counted(number, 'key')} forgotten.{again}")
    return YES if number else NO


def _learned(store: Seen) -> Database | None:
    """Return the database of a crawl that learns: it says which URLs that met, with their keys."""
    if not isinstance(store, SqliteSeen):
        return None
    tables = {name for (name,) in store.database.read("SELECT name FROM sqlite_master")}
    return store.database if tables >= {"page", "held"} else None
