"""The verb why: what became of a URL in a crawl with JOBDIR, and which rule is behind it.

A crawl writes down no list of the requests that it dropped. Its database has the pages that arrived, the
requests that wait and those that were withheld, each by its key; what happened to a URL follows from that.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
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
from scrapy_urlnorm.domains import domain_or_host
from scrapy_urlnorm.logs import read_log
from scrapy_urlnorm.normalizer import KEY_VERSION, Trace
from scrapy_urlnorm.site_rules import load_site_rules
from scrapy_urlnorm.stores import FILE_NAME, LMDB_NAME, default_spec, open_store
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from scrapy_urlnorm.normalizer import Normalizer
    from scrapy_urlnorm.site_rules import SiteRule

DATABASE = "urlnorm.pending"  #: in JOBDIR
LEARNED = "urlnorm-rules.toml"

#: What became of a URL, in words.
ARRIVED = "its page arrived"
SAME_KEY = "it was dropped: a page with the same key arrived"
WITHHELD = "it is withheld: what the crawl learned says that its page arrived under another URL"
PARKED = "it waits: a request that what was learned takes for the same was under way"
ASKED = "it was asked for, under this URL or an equal one, and no HTML page arrived: it waits, failed, or is none"
UNKNOWN = "the crawl has not met it"


class Answer(NamedTuple):
    """What is known of one URL. *rules* are learned ones, as a rule file has them."""

    trace: Trace
    state: str
    behind: str | None = None  #: the URL of the page that it stands behind
    rules: tuple[SiteRule, ...] = ()
    names: bool = False  #: whether that page names the URL as one of its own


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="the URL that you miss")
    parser.add_argument(
        "--job", metavar="JOBDIR", help="the job directory of the crawl (in a project: its own)"
    )
    parser.add_argument(
        "--log", metavar="LOG", help="the log of a crawl that has no job directory (mine --help)"
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
        with closing(_Job(Path(job))) as database:
            answer = _answer(database, normalizer, args.url, key)
    if args.json:
        out_json(_as_dict(answer), indent=2)
    else:
        for line in _in_words(answer):
            out(line)
    return NO if answer.state == UNKNOWN else YES


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
    return Answer(trace, UNKNOWN if same is None else SAME_KEY, same)


def _answer(job: _Job, normalizer: Normalizer, url: str, key: bytes) -> Answer:
    trace = normalizer.explain(url)
    arrived = job.page(key)
    if arrived is not None:
        return Answer(trace, ARRIVED if arrived == url else SAME_KEY, arrived)
    withheld = job.withheld(key)
    if withheld is not None:
        behind, is_parked = withheld
        state = PARKED if is_parked else WITHHELD
        if behind is None and (named_by := job.named_by(key)) is not None:
            return Answer(trace, state, named_by, names=True)
        return Answer(trace, state, behind, _acting(normalizer, job.learned(url), url, behind))
    is_known = job.has_key(normalizer, key)
    return Answer(trace, ASKED if is_known else UNKNOWN)


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


class _Job:
    """The database of a crawl with JOBDIR, opened for reading. Raises UsageError for none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        path = folder / DATABASE
        if not path.is_file():
            raise UsageError(f"{folder}: there is no {DATABASE} in it, so it is no job directory")
        try:
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0
            )
            self._read("SELECT 1 FROM page LIMIT 1")
        except sqlite3.Error as error:
            hint = ": a crawl uses it, ask when that has ended" if "locked" in str(error) else ""
            raise UsageError(f"{path}: {error}{hint}") from error

    def close(self) -> None:
        self._connection.close()

    def _read(self, select: str, *values: object) -> list[Any]:
        return self._connection.execute(select, values).fetchall()

    def page(self, key: bytes) -> str | None:
        """Return the URL of the page that arrived under *key*."""
        rows = self._read("SELECT url FROM page WHERE own = ?", key)
        return None if not rows else rows[0][0] or ""

    def withheld(self, key: bytes) -> tuple[str | None, bool] | None:
        """Return the URL that a kept request stands behind, and whether it only waits."""
        rows = self._read(
            "SELECT withheld.is_parked, page.url FROM withheld LEFT JOIN page"
            " ON page.learned = withheld.learned AND page.own != withheld.own"
            " WHERE withheld.own = ? LIMIT 1",
            key,
        )
        return None if not rows else (rows[0][1], bool(rows[0][0]))

    def named_by(self, key: bytes) -> str | None:
        """Return the URL of the page that names *key* as another name of its own."""
        for (state,) in self._read("SELECT state FROM alias_site"):
            for name, page, *_ in json.loads(state)["claims"]:
                if name == key.hex() and (url := self.page(bytes.fromhex(page))):
                    return url
        return None

    def learned(self, url: str) -> tuple[SiteRule, ...]:
        """Return the rules in force that the crawl learned for the site of *url*."""
        path = self._folder / LEARNED
        if not path.is_file():
            return ()
        domain = domain_or_host((split(url).host or "").lower())
        return tuple(
            rule
            for rule in load_site_rules(path)
            if rule.active and domain_or_host(rule.site.removeprefix("*.")) == domain
        )

    def has_key(self, normalizer: Normalizer, key: bytes) -> bool:
        """Return whether *key* is in the store in the folder.

        Raises StoreMismatchError if the crawl had other rules.
        """
        if not any((self._folder / name).exists() for name in (LMDB_NAME, FILE_NAME)):
            return False
        spec = default_spec(str(self._folder))
        with open_store(spec, digest=normalizer.digest, key_version=KEY_VERSION) as store:
            return key in store


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
            {"rule": str(rule), "source": rule.source, "support": rule.support}
            for rule in answer.rules
        ],
    }


VERBS = (
    Verb(
        "why",
        "Say whether the page of a URL arrived, or behind which page its request was dropped or "
        "withheld, and by which rules. The crawl has to have ended or to be paused. The exit code is "
        "1 when the crawl has not met the URL. A log (--log) knows nothing of what was learned.",
        "why 'http://shop.example/list?sort=price' --job crawls/shop",
        _add_arguments,
        _why,
    ),
)
