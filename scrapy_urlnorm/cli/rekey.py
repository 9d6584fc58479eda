"""The verb rekey: builds a seen-set from crawl logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_urlnorm.cli.crawl_logs import Logs, add_logs
from scrapy_urlnorm.cli.in_processes import add_processes, mapped
from scrapy_urlnorm.cli.stores import add_store, fill, keys_of, new_store
from scrapy_urlnorm.cli.verb import YES, Verb, add_normalizer, build_normalizer, say
from scrapy_urlnorm.text import counted

if TYPE_CHECKING:
    import argparse


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_logs(parser)
    add_store(parser)
    add_processes(parser)
    add_normalizer(parser)


def _rekey(args: argparse.Namespace) -> int:
    normalizer = build_normalizer(args)
    key_of = keys_of(args, normalizer)
    store = new_store(args, normalizer)
    logs = Logs(args)
    urls = (row.url for row in logs)
    new = fill(store, (key for _, key in mapped(key_of, urls, args.processes)))
    say(
        f"{counted(logs.rows, 'row')}, {counted(new, 'new key')}. Requests that still wait are in no log: with "
        "scrapy_urlnorm.Scheduler their keys come to them when the crawl resumes, with another "
        "scheduler their pages may be fetched twice."
    )
    return YES


VERBS = (
    Verb(
        "rekey",
        "Make the keys of every URL of the logs under the rules given and put them into a new "
        "store: the way on when rules have changed and a store is refused. The old store must "
        "be out of the way. URLs whose secrets a log masks get other keys than in the crawl: "
        "their pages are fetched once more.",
        "rekey crawl.jsonl.gz --site-rules rules.toml --store file:crawl/urlnorm.seen",
        _add_arguments,
        _rekey,
    ),
)
