"""What several verbs read: the normalizer of the options, lists of URLs, crawl logs, stores."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_urlnorm.cli.verb import JSON, WHICH_RULES, UsageError, flush, option, progress, say
from scrapy_urlnorm.exceptions import ConfigError
from scrapy_urlnorm.logs import ARCHIVES, FORMATS, read_log
from scrapy_urlnorm.logs.source import Log, blocks, open_log, urls_in
from scrapy_urlnorm.normalizer import KEY_VERSION, Normalizer
from scrapy_urlnorm.rules import RULE_NAMES, RULES
from scrapy_urlnorm.site_rules import load_site_rules
from scrapy_urlnorm.stores import DATABASE_NAME, Database, Identity, SqliteSeen, open_store
from scrapy_urlnorm.text import counted
from scrapy_urlnorm.url import STOCK_FINGERPRINTER, get_fingerprint

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from scrapy_urlnorm.cli.verb import Project
    from scrapy_urlnorm.logs import Observation
    from scrapy_urlnorm.stores import Seen

# --- the normalizer -------------------------------------------------------------------------


def build_normalizer(args: argparse.Namespace) -> Normalizer:
    """Return the normalizer of the options, which add to the project's settings if there are any.

    Raises ConfigError, OSError, and UsageError for a file in place of a rule or a rule in place
    of a file.
    """
    project: Project | None = args.project
    profile: str = args.profile or (project.profile if project else "default")
    rules: dict[str, object] = dict(project.rules) if project else {}
    site_rules = list(project.site_rules) if project else []
    for text in args.rule:
        name, value = _rule_option(text)
        if name not in RULE_NAMES and Path(text).suffix == ".toml":
            raise UsageError(f"--rule {text}: a file is no rule of the catalogue. {WHICH_RULES}")
        rules[name] = value
    for path in args.site_rules:
        if is_catalogue_rule(path):
            raise UsageError(f"--site-rules {path}: there is no such file. {WHICH_RULES}")
        site_rules += load_site_rules(path)
    return Normalizer(profile, rules, site_rules)


def is_catalogue_rule(path: str) -> bool:
    """Return whether *path*, given as a file of rules, is an option of the catalogue instead."""
    return path.partition("=")[0] in RULE_NAMES and not Path(path).exists()


def _rule_option(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    words = {"true": True, "false": False}
    if not equals or value.lower() in words:
        return name, words.get(value.lower(), True)
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        found = value.split(",") if "," in value else value
    rule = next((rule for rule in RULES if rule.name == name), None)
    if rule is not None and isinstance(found, str):
        try:
            rule.compile(found)
        except ConfigError:
            return name, [found]  # perhaps a list of one; if not, the normalizer raises the error
    return name, found


# --- lists of URLs --------------------------------------------------------------------------

URLS = (
    option("urls [URL...]", "a URL, or - for standard input"),
    option("-f --file FILE...", "a file of URLs, one a line; - for standard input; repeatable"),
)


def given_urls(args: argparse.Namespace) -> Iterator[str]:
    """Yield the URLs of the command line, then those of its files.

    Before more is read, what was written goes out: who writes to a pipe may wait for the answer.
    """
    for block in _given(args):
        yield from urls_in(block)
        flush()


def _given(args: argparse.Namespace) -> Iterator[str | bytes]:
    if not args.urls and not args.file:
        raise UsageError("give URLs, a file of them (-f FILE), or - for standard input")
    for url in args.urls:
        if url == "-":
            yield from blocks_of(url)
            continue
        with suppress(OSError, ValueError):
            if "://" not in url and Path(url).is_file():
                say(f"{url!r} is a file, and was taken for a URL: -f {url} reads the URLs in it")
        yield url
    for path in args.file:
        yield from blocks_of(path)


def blocks_of(path: str) -> Iterator[bytes]:
    """Yield the lines of a file of URLs, or of standard input for ``-``, many at once."""
    with open_log(path) as stream:
        for _, block in blocks(stream, Log(path)):
            yield block


def require_one_standard_input(paths: list[str]) -> None:
    if paths.count("-") > 1:
        raise UsageError("standard input (-) can be read once")


# --- crawl logs -----------------------------------------------------------------------------

LOG_OPTIONS = (
    option("--format", "of all logs (default: found out)", choices=(*FORMATS, *ARCHIVES)),
    option("--site URL", "scheme and host of logs that name none (access logs)"),
    option("--skip-bad", "count rows that cannot be read instead of stopping"),
)
LOGS = (
    option(
        "logs LOG...",
        "a crawl log, a WARC or Parquet file, the HTTP cache of a spider; - for standard input",
    ),
    *LOG_OPTIONS,
    JSON,
)


class Logs:
    """The rows of all logs of a command line, and counts of them.

    Of logs that several crawls wrote, only the rows of *crawl* are read.
    """

    def __init__(
        self,
        args: argparse.Namespace,
        paths: list[str] | None = None,
        *,
        crawl: str | None = None,
    ) -> None:
        self._args = args
        self._paths: list[str] = args.logs if paths is None else paths
        self._crawl = crawl
        require_one_standard_input(self._paths)
        self.rows = self.contents = self.redirects = 0
        #: Rows that are no pages and no redirects, by the reason.
        self.left_out: Counter[tuple[str, str]] = Counter()

    def __iter__(self) -> Iterator[Observation]:
        args = self._args
        options = {"format": args.format, "skip_bad": args.skip_bad, "site": args.site}
        for path in self._paths:
            log = read_log(path, crawl=self._crawl, **options)
            for row in progress(log, "rows"):
                self.rows += 1
                self.contents += row.content is not None
                self.redirects += row.location is not None
                if (reason := _left_out(row)) is not None:
                    self.left_out[reason] += 1
                yield row
            if log.skipped:
                say(f"{counted(log.skipped, 'row')} skipped; the first: {log.first_bad}")


def _left_out(row: Observation) -> tuple[str, str] | None:
    if row.is_page or row.location is not None or row.status is None:
        return None
    if 300 <= row.status < 400:
        return "redirect without a target", "redirects without a target"
    if row.status >= 400:
        return "error (status 400 and above)", "errors (status 400 and above)"
    if row.status != 200:
        return "other answer (not 200)", "other answers (not 200)"
    if row.is_file:
        return "small file", "small files"
    return "page without a content", "pages without a content"


def say_left_out(reasons: Counter[tuple[str, str]]) -> None:
    if reasons:
        ranked = sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
        say("left out: " + ", ".join(counted(count, *words) for words, count in ranked))


# --- stores ---------------------------------------------------------------------------------

STORE = (
    option(
        "--store SPEC",
        "the store of the crawl: sqlite:PATH or redis://... (default: that of the project)",
    ),
    option("--spider NAME", "whose store it is: stands in the prefix of one in Redis"),
)
JOB = option(
    "--job JOBDIR", "the job directory of the crawl, or its database (in a project: its own)"
)


def store_spec(args: argparse.Namespace) -> str:
    """Return the store that the command line names, or else that of the project."""
    return args.store or (args.project.store if args.project else "memory")


def named_store(args: argparse.Namespace, normalizer: Normalizer) -> Seen:
    """Return the store of `store_spec`, not yet opened. Raises UsageError if it does not last."""
    project: Project | None = args.project
    if (spec := store_spec(args)) == "memory":
        raise UsageError("name the store to fill with --store, such as sqlite:PATH")
    return open_store(
        spec,
        digest=normalizer.digest,
        key_version=KEY_VERSION,
        jobdir=project.jobdir if project else None,
        spider=args.spider,
    )


def store_of_job(place: Path, normalizer: Normalizer) -> SqliteSeen:
    """Return the store in the database *place*, or in that of the job directory, not yet opened."""
    path = place / DATABASE_NAME if place.is_dir() else place
    return SqliteSeen(Database(path), Identity(normalizer.digest, KEY_VERSION))


def keys_of(args: argparse.Namespace, normalizer: Normalizer, urls: Iterable[str]) -> list[bytes]:
    """Return the keys of *urls* that the project's crawls use.

    Raises UsageError if another fingerprinter makes the keys of the project.
    """
    project: Project | None = args.project
    if project is not None and project.fingerprinter != STOCK_FINGERPRINTER:
        raise UsageError(
            f"the fingerprints of this project are made by {project.fingerprinter}; only those of "
            f"{STOCK_FINGERPRINTER} follow from a URL alone"
        )
    return list(map(get_fingerprint, normalizer.normalize_many(urls)))
