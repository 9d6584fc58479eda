"""Verbs on URLs: normalize, explain, compare, dedupe."""

from __future__ import annotations

import re
from collections import Counter
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING

from scrapy_urlnorm.cli import inputs
from scrapy_urlnorm.cli import verb as cli
from scrapy_urlnorm.logs.source import lines_in, text_of, url_of, urls_in
from scrapy_urlnorm.stores import MemorySeen
from scrapy_urlnorm.text import counted
from scrapy_urlnorm.url import parse

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from scrapy_urlnorm.normalizer import Normalizer

    Keyed = Iterable[tuple[bytes, str]]


@cli.verb(
    "Print the normalized form of each URL, one a line, in order. A byte that is no UTF-8 is "
    "percent-encoded, as clients send it; what is no URL comes out as it went in.",
    "normalize 'HTTP://Example.com:80/a?utm_source=x&b=1#top'",
    *inputs.URLS,
    cli.JSON,
    *cli.NORMALIZER,
)
def normalize(args: argparse.Namespace) -> int:
    normalizer = inputs.build_normalizer(args)
    for url in cli.progress(inputs.given_urls(args), "URLs", streams=True):
        key = normalizer.normalize(url)
        if args.json:
            cli.out_json({"url": url, "normalized": key})
        else:
            cli.out(key)
    return cli.YES


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
    for url in cli.progress(inputs.given_urls(args), "URLs", streams=True):
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
    cli.JSON,
    *cli.NORMALIZER,
)
def dedupe(args: argparse.Namespace) -> int:
    inputs.require_one_standard_input(args.files)
    if args.counts and args.groups:
        raise cli.UsageError("--counts or --groups, not both")
    keyed: Keyed = _keyed(args.files, inputs.build_normalizer(args))
    if not args.quiet:
        keyed = cli.progress(keyed, "URLs", streams=not (args.counts or args.groups))
    write = _groups if args.groups else _counts if args.counts else _first
    count, distinct = write(keyed, args.json)
    if not args.quiet:
        share = (count - distinct) / count if count else 0
        cli.say(f"{counted(count, 'URL')}, {distinct:,} distinct, {share:.1%} redundant")
    return cli.YES


def _keyed(files: Iterable[str], normalizer: Normalizer) -> Keyed:
    """Yield the lines of *files*, each with its key. As in `inputs.given_urls`, none has to wait."""
    for block in chain.from_iterable(map(inputs.blocks_of, files)):
        yield from zip(lines_in(block), normalizer.normalize_many(urls_in(block)), strict=True)
        cli.flush()


def _digest(key: str) -> bytes:
    """Return 16 bytes. That any two of 10^15 keys have the same has a chance of one in 10^9."""
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _first(keyed: Keyed, as_json: bool) -> tuple[int, int]:
    seen = MemorySeen()
    count = 0
    for count, (line, key) in enumerate(keyed, 1):  # noqa: B007 - it is the number of all
        if not seen.add(_digest(key)):
            continue
        if as_json:
            cli.out_json({"url": text_of(line), "normalized": key})
        else:
            cli.out(line)
    return count, len(seen)


def _counts(keyed: Keyed, as_json: bool) -> tuple[int, int]:
    counts: dict[bytes, int] = {}
    first: list[bytes] = []  # the spelling of each key, in the order of the keys
    for line, key in keyed:
        digest = _digest(key)
        count = counts[digest] = counts.get(digest, 0) + 1
        if count == 1:
            first.append(line)
    for line, count in zip(first, counts.values(), strict=True):
        if as_json:
            cli.out_json({"url": text_of(line), "count": count})
        else:
            cli.out(b"%d\t%b" % (count, line))
    return sum(counts.values()), len(counts)


def _groups(keyed: Keyed, as_json: bool) -> tuple[int, int]:
    counts: Counter[str] = Counter()
    groups: dict[str, list[bytes]] = {}
    for line, key in keyed:
        counts[key] += 1
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
            cli.out(b"\n".join(b"\t" + line for line in spellings))
    return counts.total(), len(groups)
