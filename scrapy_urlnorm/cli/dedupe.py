"""The verb dedupe: a URL list without the URLs that count as one with an earlier line."""

from __future__ import annotations

from collections import Counter
from functools import partial
from hashlib import blake2b
from itertools import chain, compress
from typing import TYPE_CHECKING, TypeVar

from scrapy_urlnorm.cli.in_processes import add_processes, mapped_lines
from scrapy_urlnorm.cli.verb import (
    YES,
    Progress,
    UsageError,
    Verb,
    add_json,
    add_normalizer,
    blocks_of,
    build_normalizer,
    out,
    out_json,
    out_lines,
    say,
)
from scrapy_urlnorm.logs.source import lines_in, text_of, urls_in
from scrapy_urlnorm.stores import open_store
from scrapy_urlnorm.text import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator

    from scrapy_urlnorm.normalizer import Normalizer

_Answer = TypeVar("_Answer")

# To copy a digest costs less than to make one with options.
_empty_digest = blake2b(digest_size=16).copy

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
    progress = Progress("URLs", quiet=args.quiet, streams=not (args.counts or args.groups))
    if args.groups:
        distinct = _groups(_answered(args, partial(_keys, normalizer), progress), args.json)
    elif args.counts:
        distinct = _counts(_answered(args, partial(_digests, normalizer), progress), args.json)
    elif args.json:
        distinct = _first_with_keys(_answered(args, partial(_keys, normalizer), progress))
    else:
        distinct = _first(_answered(args, partial(_digests, normalizer), progress))
    progress.clear()
    if not args.quiet:
        count = progress.count
        share = (count - distinct) / count if count else 0
        say(f"{counted(count, 'URL')}, {distinct:,} distinct, {share:.1%} redundant")
    return YES


def _answered(
    args: argparse.Namespace, function: Callable[[list[bytes]], list[_Answer]], progress: Progress
) -> Iterator[tuple[list[bytes], list[_Answer]]]:
    """Yield the lines of the files, many at once, and the answer of *function* for each."""
    blocks = (block for path in args.files for block in blocks_of(path))
    streams = "-" in args.files
    for parcel, answers in mapped_lines(function, blocks, args.processes, streams=streams):
        progress.add(len(answers))
        yield list(chain.from_iterable(map(lines_in, parcel))), answers


def _keys(normalizer: Normalizer, parcel: list[bytes]) -> list[str]:
    """Return the key of each line."""
    return list(normalizer.normalize_many(chain.from_iterable(map(urls_in, parcel))))


def _digests(normalizer: Normalizer, parcel: list[bytes]) -> list[bytes]:
    """Return the digest of the key of each line."""
    return list(map(_digest, _keys(normalizer, parcel)))


def _digest(key: str) -> bytes:
    """Return 16 bytes that stand for a key.

    The chance that any two of 10^15 keys have the same bytes is about one in 10^9.
    """
    digest = _empty_digest()
    digest.update(key.encode("utf-8", "surrogatepass"))
    return digest.digest()


def _first(answered: Iterable[tuple[list[bytes], list[bytes]]]) -> int:
    seen = open_store("memory", digest="")
    for lines, digests in answered:
        out_lines(compress(lines, map(seen.add, digests)))
    return len(seen)


def _first_with_keys(answered: Iterable[tuple[list[bytes], list[str]]]) -> int:
    seen = open_store("memory", digest="")
    for line, key in _one_by_one(answered):
        if seen.add(_digest(key)):
            out_json({"url": text_of(line), "normalized": key})
    return len(seen)


def _counts(answered: Iterable[tuple[list[bytes], list[bytes]]], as_json: bool) -> int:
    counts: dict[bytes, int] = {}
    first: list[bytes] = []  # the spelling of each key, in the order of the keys
    for line, digest in _one_by_one(answered):
        count = counts.get(digest, 0)
        counts[digest] = count + 1
        if not count:
            first.append(line)
    for line, count in zip(first, counts.values(), strict=True):
        if as_json:
            out_json({"url": text_of(line), "count": count})
        else:
            out_lines([b"%d\t%b" % (count, line)])
    return len(counts)


def _groups(answered: Iterable[tuple[list[bytes], list[str]]], as_json: bool) -> int:
    groups: dict[str, list[bytes]] = {}
    counts: Counter[str] = Counter()
    for line, key in _one_by_one(answered):
        counts[key] += 1
        spellings = groups.setdefault(key, [])
        if len(spellings) < SPELLINGS and line not in spellings:
            spellings.append(line)
    for key, spellings in groups.items():
        if len(spellings) < 2:
            continue
        if as_json:
            texts = list(map(text_of, spellings))
            out_json({"normalized": key, "count": counts[key], "spellings": texts})
        else:
            out(f"{counts[key]}\t{key}")
            out_lines([b"\t" + line for line in spellings])
    return len(groups)


def _one_by_one(
    answered: Iterable[tuple[list[bytes], list[_Answer]]],
) -> Iterator[tuple[bytes, _Answer]]:
    for lines, answers in answered:
        yield from zip(lines, answers, strict=True)


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
