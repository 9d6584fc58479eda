"""The verb dedupe: a URL list without the URLs that count as one with an earlier line."""

from __future__ import annotations

from collections import Counter
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING

from scrapy_urlnorm.cli.in_processes import add_processes, mapped
from scrapy_urlnorm.cli.verb import (
    YES,
    Progress,
    UsageError,
    Verb,
    add_json,
    add_normalizer,
    build_normalizer,
    lines_of,
    out,
    out_json,
    say,
)
from scrapy_urlnorm.logs.source import url_of
from scrapy_urlnorm.stores import open_store
from scrapy_urlnorm.text import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from scrapy_urlnorm.normalizer import Normalizer

SPELLINGS = 20
"""Most spellings kept of one page: memory must not grow with the number of links to it."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="URLs, one a line; - for standard input"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--counts", action="store_true", help="print how many lines each URL stands for"
    )
    what.add_argument(
        "--groups",
        action="store_true",
        help="print only what was merged: each normalized form with its spellings, "
        f"up to {SPELLINGS}",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress and no summary")
    add_processes(parser)
    add_json(parser)
    add_normalizer(parser)


def _dedupe(args: argparse.Namespace) -> int:
    normalizer = build_normalizer(args)
    if args.files.count("-") > 1:
        raise UsageError("standard input (-) can be read once")
    streams = not (args.counts or args.groups)
    progress = Progress("URLs", quiet=args.quiet, streams=streams)
    lines = progress.over(line for path in args.files for line in lines_of(path))
    # What comes out of a pipe is answered at once, and not when there are enough lines.
    processes = 1 if "-" in args.files else args.processes
    if args.groups or (args.json and not args.counts):
        with_keys = mapped(partial(_key_of, normalizer), lines, processes)
        distinct = (
            _groups(with_keys, as_json=args.json) if args.groups else _first_with_keys(with_keys)
        )
    else:
        with_digests = mapped(partial(_digest_of, normalizer), lines, processes)
        distinct = _counts(with_digests, as_json=args.json) if args.counts else _first(with_digests)
    if not args.quiet:
        count = progress.count
        share = (count - distinct) / count if count else 0
        say(f"{counted(count, 'URL')}, {distinct:,} distinct, {share:.1%} redundant")
    return YES


def _key_of(normalizer: Normalizer, line: str) -> str:
    return normalizer.normalize(url_of(line))


def _digest_of(normalizer: Normalizer, line: str) -> bytes:
    return _digest(_key_of(normalizer, line))


def _digest(key: str) -> bytes:
    """Return 16 bytes that stand for a key.

    The chance that any two of 10^15 keys have the same bytes is about one in 10^9.
    """
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _first(pairs: Iterable[tuple[str, bytes]]) -> int:
    seen = open_store("memory", digest="")
    for url, digest in pairs:
        if seen.add(digest):
            out(url)
    return len(seen)


def _first_with_keys(pairs: Iterable[tuple[str, str]]) -> int:
    seen = open_store("memory", digest="")
    for url, key in pairs:
        if seen.add(_digest(key)):
            out_json({"url": url, "normalized": key})
    return len(seen)


def _counts(pairs: Iterable[tuple[str, bytes]], *, as_json: bool) -> int:
    counts: dict[bytes, int] = {}
    first: list[str] = []  # the spelling of each key, in the order of the keys
    for url, digest in pairs:
        count = counts.get(digest, 0)
        counts[digest] = count + 1
        if not count:
            first.append(url)
    for url, count in zip(first, counts.values(), strict=True):
        if as_json:
            out_json({"url": url, "count": count})
        else:
            out(f"{count}\t{url}")
    return len(counts)


def _groups(pairs: Iterable[tuple[str, str]], *, as_json: bool) -> int:
    groups: dict[str, list[str]] = {}
    counts: Counter[str] = Counter()
    for url, key in pairs:
        counts[key] += 1
        spellings = groups.setdefault(key, [])
        if len(spellings) < SPELLINGS and url not in spellings:
            spellings.append(url)
    for key, spellings in groups.items():
        if len(spellings) < 2:
            continue
        if as_json:
            out_json({"normalized": key, "count": counts[key], "spellings": spellings})
        else:
            out(f"{counts[key]}\t{key}")
            for url in spellings:
                out(f"\t{url}")
    return len(groups)


VERBS = (
    Verb(
        "dedupe",
        "Read URLs, one a line, and print those whose normalized form was not there before, as "
        "they stand and in their order. Memory grows with the number of distinct pages only.",
        "dedupe --counts urls.txt.gz",
        _add_arguments,
        _dedupe,
    ),
)
