"""The verb rekey: builds a seen-set from crawl logs."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

from scrapy_urlnorm.cli.learn import Logs, add_logs
from scrapy_urlnorm.cli.verb import YES, UsageError, Verb, add_normalizer, build_normalizer, say
from scrapy_urlnorm.fingerprints import STOCK_FINGERPRINTER, get_fingerprint
from scrapy_urlnorm.normalizer import KEY_VERSION
from scrapy_urlnorm.stores import open_store
from scrapy_urlnorm.text import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

    from scrapy_urlnorm.cli.verb import Project
    from scrapy_urlnorm.normalizer import Normalizer
    from scrapy_urlnorm.stores import Seen


def add_store(parser: argparse.ArgumentParser) -> None:
    """Offer the store to fill."""
    parser.add_argument(
        "--store",
        metavar="SPEC",
        help="the store to fill: file:PATH, lmdb:PATH or redis://... (in a project: its own)",
    )
    parser.add_argument(
        "--spider", metavar="NAME", help="whose store it is: stands in the prefix of one in Redis"
    )


def new_store(args: argparse.Namespace, normalizer: Normalizer) -> Seen:
    """Return the store to fill, not yet opened."""
    project: Project | None = args.project
    spec = args.store or (project.store if project else "memory")
    if spec == "memory":
        raise UsageError("name the store to fill with --store, such as file:PATH")
    return open_store(
        spec,
        digest=normalizer.digest,
        key_version=KEY_VERSION,
        jobdir=project.jobdir if project else None,
        spider=args.spider,
        **(project.store_options if project and not args.store else {}),
    )


def fill(store: Seen, keys: Iterable[bytes]) -> int:
    """Add the keys to the store; return how many were new."""
    rest = iter(keys)
    first = list(islice(rest, 1))  # what cannot be read shall not leave an empty store
    with store:
        return store.add_many(chain(first, rest))


def _add_rekey_arguments(parser: argparse.ArgumentParser) -> None:
    add_logs(parser)
    add_store(parser)
    add_normalizer(parser)


def keys_of(args: argparse.Namespace, normalizer: Normalizer) -> Callable[[str], bytes]:
    """Return what makes the key of a URL, as the project's crawls do."""
    project: Project | None = args.project
    if project is not None and project.fingerprinter != STOCK_FINGERPRINTER:
        raise UsageError(
            f"the fingerprints of this project are made by {project.fingerprinter}; only those of "
            f"{STOCK_FINGERPRINTER} follow from a URL alone"
        )
    return lambda url: get_fingerprint(normalizer.normalize(url))


def _rekey(args: argparse.Namespace) -> int:
    normalizer = build_normalizer(args)
    key_of = keys_of(args, normalizer)
    store = new_store(args, normalizer)
    logs = Logs(args)
    new = fill(store, (key_of(row.url) for row in logs))
    say(
        f"{counted(logs.rows, 'row')}, {counted(new, 'new key')}. Requests that still wait are in no log: with "
        "scrapy_urlnorm.Scheduler their keys come to them when the crawl resumes, with another "
        "scheduler their pages may be fetched twice."
    )
    return YES


VERBS = (
    Verb(
        "rekey",
        "build a seen-set from crawl logs, for other rules",
        "Make the keys of every URL of the logs under the rules given and put them into a new "
        "store: the way on when rules have changed and a store is refused. The old store must "
        "be out of the way. URLs whose secrets a log masks get other keys than in the crawl: "
        "their pages are fetched once more.",
        "rekey crawl.jsonl.gz --site-rules rules.toml --store file:crawl/urlnorm.seen",
        _add_rekey_arguments,
        _rekey,
    ),
)
