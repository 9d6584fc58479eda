"""Verbs on URLs: normalize, explain, compare, dedupe."""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from hashlib import blake2b
from itertools import chain, compress
from typing import TYPE_CHECKING

from scrapy_urlnorm.cli import inputs
from scrapy_urlnorm.cli import verb as cli
from scrapy_urlnorm.cli.processes import mapped
from scrapy_urlnorm.logs.source import lines_in, text_of, url_of, urls_in
from scrapy_urlnorm.stores import MemorySeen
from scrapy_urlnorm.text import counted
from scrapy_urlnorm.url import parse

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from scrapy_urlnorm.normalizer import Normalizer

    Answered = Iterable[tuple[list[bytes], list[str], list[bytes]]]


@cli.verb(
    "Print the normalized form of each URL, one a line, in order. A byte that is no UTF-8 is "
    "percent-encoded, as clients send it; what is no URL comes out as it went in.",
    "normalize 'HTTP://Example.com:80/a?utm_source=x&b=1#top'",
    *inputs.URLS,
    cli.JSON,
    *cli.NORMALIZER,
    cli.PROCESSES,
)
def normalize(args: argparse.Namespace) -> int:
    streams = "-" in (*args.urls, *args.file)
    lines_of = partial(_normal_forms, inputs.build_normalizer(args), args.json)
    with (progress := cli.Progress("URLs", streams=True)):
        for _, lines in mapped(lines_of, inputs.given(args), args.processes, streams=streams):
            cli.out_lines(lines)
            progress.count += len(lines)
    return cli.YES


def _normal_forms(
    normalizer: Normalizer, as_json: bool, parcel: Iterable[bytes | str]
) -> list[bytes]:
    """Return a line for each URL of *parcel*."""
    urls = list(chain.from_iterable(map(urls_in, parcel)))
    keys = normalizer.normalize_many(urls)
    if not as_json:
        return list(map(cli.bytes_of, keys))
    pairs = zip(urls, keys, strict=True)
    return [cli.json_of({"url": url, "normalized": key}).encode() for url, key in pairs]


@cli.verb(
    "Print each URL, every change with its rule and reason, and the normalized form. The exit "
    "code is 1 when one of them is not a URL that a client accepts, or has no host: such text "
    "is its own key.",
    "explain 'http://example.com/%7Efoo/?b=2&a=1'",
    *inputs.URLS,
    cli.JSON,
    *cli.NORMALIZER,
)
def explain(args: argparse.Namespace) -> int:
    normalizer = inputs.build_normalizer(args)
    code = cli.YES
    for url in cli.Progress("URLs", streams=True).over(inputs.given_urls(args)):
        trace, problem = normalizer.explain(url), _problem(url)
        if problem is not None:
            code = cli.NO
        if args.json:
            steps = [step._asdict() for step in trace.steps]
            found = {"url": trace.url, "normalized": trace.normalized, "problem": problem}
            cli.out_json({**found, "steps": steps})
            continue
        cli.out(trace.url)
        if problem is not None:
            cli.out(f"  {problem}")
        for step in trace.steps:
            cli.out(f"  {step.rule}: {step.after}")
            cli.out(f"    {step.reason}")
        cli.out(f"= {trace.normalized}")
    return code


_NO_HOST = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?!//)")


def _problem(url: str) -> str | None:
    """Return the reason why no rule applies to *url*; None if rules do."""
    if parse(url) is not None:
        return None
    what = "a URL without a host" if _NO_HOST.match(url) else "not a URL that a client accepts"
    return f"{what}: it is its own key"


@cli.verb(
    "Print whether two URLs have one normalized form, and the rules that had a part in it. "
    "The exit code is 0 when they do, 1 when they do not.",
    "compare 'http://example.com/?a=1&b=2' 'http://example.com/?b=2&a=1'",
    cli.option("a A", "a URL"),
    cli.option("b B", "another one"),
    cli.JSON,
    *cli.NORMALIZER,
)
def compare(args: argparse.Namespace) -> int:
    normalizer = inputs.build_normalizer(args)
    traces = [normalizer.explain(url_of(url)) for url in (args.a, args.b)]
    keys = [trace.normalized for trace in traces]
    same = keys[0] == keys[1]
    rules = [list(dict.fromkeys(step.rule for step in trace.steps)) for trace in traces]
    if args.json:
        cli.out_json({"same": same, "keys": keys, "rules": rules})
    else:
        cli.out("same" if same else "different")
        for key, names in zip(keys, rules, strict=True):
            cli.out(f"  {key}" + (f"  ({', '.join(names)})" if names else ""))
    return cli.YES if same else cli.NO


# --- dedupe ---------------------------------------------------------------------------------

SPELLINGS = 20
"""Most spellings kept of one page: memory must not grow with the number of links to it."""


@cli.verb(
    "Read URLs, one a line, and print those whose normalized form was not there before, as "
    "they stand and in their order. Memory grows with the number of distinct pages only.",
    "dedupe --counts urls.txt.gz",
    cli.option("files FILE...", "URLs, one a line; - for standard input"),
    cli.option("--counts", "print how many lines each URL stands for"),
    cli.option(
        "--groups",
        f"print only what was merged: each normalized form with its spellings, up to {SPELLINGS}",
    ),
    cli.option("-q --quiet", "no progress and no summary"),
    cli.PROCESSES,
    cli.JSON,
    *cli.NORMALIZER,
)
def dedupe(args: argparse.Namespace) -> int:
    inputs.require_one_standard_input(args.files)
    if args.counts and args.groups:
        raise cli.UsageError("--counts or --groups, not both")
    normalizer = inputs.build_normalizer(args)
    blocks = chain.from_iterable(map(inputs.blocks_of, args.files))
    streams = not (args.counts or args.groups)
    progress = cli.Progress("URLs", quiet=args.quiet, streams=streams)

    def answered() -> Answered:
        """Yield lines, many at once, with their keys (where they are shown) and digests."""
        work = partial(_keys_and_digests, normalizer, args.groups or (args.json and streams))
        is_pipe = "-" in args.files
        for parcel, (keys, digests) in mapped(work, blocks, args.processes, streams=is_pipe):
            progress.count += len(digests)
            yield list(chain.from_iterable(map(lines_in, parcel))), keys, digests

    write = _groups if args.groups else _counts if args.counts else _first
    with progress:
        distinct = write(answered(), args.json)
    if not args.quiet:
        count = progress.count
        share = (count - distinct) / count if count else 0
        cli.say(f"{counted(count, 'URL')}, {distinct:,} distinct, {share:.1%} redundant")
    return cli.YES


_empty_digest = blake2b(digest_size=16).copy  # to copy one costs less than to make one


def _keys_and_digests(
    normalizer: Normalizer, wants_keys: bool, parcel: list[bytes]
) -> tuple[list[str], list[bytes]]:
    """Return the keys of the lines of *parcel*, if they are wanted, and 16 bytes for each.

    The chance that any two of 10^15 keys have the same bytes is about one in 10^9.
    """
    keys = list(normalizer.normalize_many(chain.from_iterable(map(urls_in, parcel))))
    digests = []
    for key in keys:
        digest = _empty_digest()
        digest.update(key.encode("utf-8", "surrogatepass"))
        digests.append(digest.digest())
    return (keys if wants_keys else []), digests


def _first(answered: Answered, as_json: bool) -> int:
    seen = MemorySeen()
    for lines, keys, digests in answered:
        is_new = map(seen.add, digests)
        if as_json:
            for line, key in compress(zip(lines, keys, strict=True), is_new):
                cli.out_json({"url": text_of(line), "normalized": key})
        else:
            cli.out_lines(compress(lines, is_new))
    return len(seen)


def _counts(answered: Answered, as_json: bool) -> int:
    counts: dict[bytes, int] = {}
    first: list[bytes] = []  # the spelling of each key, in the order of the keys
    for lines, _, digests in answered:
        for line, digest in zip(lines, digests, strict=True):
            count = counts[digest] = counts.get(digest, 0) + 1
            if count == 1:
                first.append(line)
    for line, count in zip(first, counts.values(), strict=True):
        if as_json:
            cli.out_json({"url": text_of(line), "count": count})
        else:
            cli.out_lines([b"%d\t%b" % (count, line)])
    return len(counts)


def _groups(answered: Answered, as_json: bool) -> int:
    counts: Counter[str] = Counter()
    groups: dict[str, list[bytes]] = {}
    for lines, keys, _ in answered:
        counts.update(keys)
        for line, key in zip(lines, keys, strict=True):
            spellings = groups.setdefault(key, [])
            if len(spellings) < SPELLINGS and line not in spellings:
                spellings.append(line)
    for key, spellings in groups.items():
        if len(spellings) < 2:
            continue
        if as_json:
            texts = list(map(text_of, spellings))
            cli.out_json({"normalized": key, "count": counts[key], "spellings": texts})
        else:
            cli.out(f"{counts[key]}\t{key}")
            cli.out_lines([b"\t" + line for line in spellings])
    return len(groups)
