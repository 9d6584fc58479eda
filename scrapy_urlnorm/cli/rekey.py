"""The verb rekey: builds a seen-set from crawl logs."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from scrapy_urlnorm.cli.crawl_logs import Logs, add_logs
from scrapy_urlnorm.cli.in_processes import PARCEL, add_processes, in_parcels, mapped
from scrapy_urlnorm.cli.stores import add_store, fill, keys_of, new_store
from scrapy_urlnorm.cli.verb import YES, Verb, add_normalizer, build_normalizer, say
from scrapy_urlnorm.text import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_logs(parser)
    add_store(parser)
    parser.add_argument(
        "--anew",
        action="store_true",
        help="replace the keys that are in the database, and keep the requests that wait there",
    )
    add_processes(parser)
    add_normalizer(parser)


def _rekey(args: argparse.Namespace) -> int:
    normalizer = build_normalizer(args)
    key_of = keys_of(args, normalizer)
    store = new_store(args, normalizer)
    logs = Logs(args)
    parcels = in_parcels((row.url for row in logs), PARCEL)
    keys = mapped(partial(_keys, key_of), parcels, args.processes)
    new = fill(
        store,
        chain.from_iterable(keys_of_parcel for _, keys_of_parcel in keys),
        is_anew=args.anew,
    )
    say(
        f"{counted(logs.rows, 'row')}, {counted(new, 'new key')}. Requests that still wait are in no log: with "
        "scrapy_urlnorm.Scheduler their keys come to them when the crawl resumes, with another "
        "scheduler their pages may be fetched twice."
    )
    return YES


def _keys(key_of: Callable[[str], bytes], urls: list[str]) -> list[bytes]:
    return list(map(key_of, urls))


VERBS = (
    Verb(
        "rekey",
        "Make the keys of every URL of the logs under the rules given and put them into a new "
        "store, or with --anew in the place of those in a database: the way on when rules have "
        "changed and a store is refused. URLs whose secrets a log masks get other keys than in the crawl: "
        "their pages are fetched once more.",
        "rekey crawl.jsonl.gz --site-rules rules.toml --anew --store sqlite:crawl/urlnorm.sqlite",
        _add_arguments,
        _rekey,
    ),
)
