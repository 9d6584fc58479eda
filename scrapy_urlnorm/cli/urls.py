"""Verbs on URLs: explain, dedupe."""

from __future__ import annotations

import re
from collections import Counter
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.cli import NO, YES, UsageError, flush, inputs, out, out_json, say
from scrapy_urlnorm.cli.parser import SPELLINGS
from scrapy_urlnorm.logs.source import Log, blocks, lines_in, open_log, text_of, url_of, urls_in
from scrapy_urlnorm.stores import MemorySeen
from scrapy_urlnorm.text import counted
from scrapy_urlnorm.url import parse

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from scrapy_urlnorm.normalizer import Normalizer

    Keyed = Iterable[tuple[bytes, str]]


def explain(args: argparse.Namespace) -> int:
    normalizer = inputs.build_normalizer(args)
    if bool(args.brief) == bool(args.urls) or len(args.urls) > 2:
        raise UsageError(
            "give one URL, two URLs, or a file of URLs: --brief FILE, - for standard input"
        )
    if args.brief:
        for line, key in _keyed([args.brief], normalizer):
            if args.json:
                out_json({"url": url_of(text_of(line)), "normalized": key})
            else:
                out(key)
        return YES
    found = [_explained(url_of(url), normalizer) for url in args.urls]
    same = len({one["normalized"] for one in found}) == 1
    if args.json:
        out_json({"same": same, "urls": found} if len(found) > 1 else found[0])
    else:
        for one in found:
            _out(one)
        if len(found) > 1:
            out("one key" if same else "different keys")
    return YES if same and (len(found) > 1 or not found[0]["problem"]) else NO


_NO_HOST = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?!//)")


def _explained(url: str, normalizer: Normalizer) -> dict[str, Any]:
    trace, problem = normalizer.explain(url), None
    if parse(url) is None:
        what = "not a URL that a client accepts" if "://" in url else "no http:// in front"
        problem = f"{'a URL without a host' if _NO_HOST.match(url) else what}: it is its own key"
    steps = [step._asdict() for step in trace.steps]
    return {"url": url, "normalized": trace.normalized, "problem": problem, "steps": steps}


def _out(found: dict[str, Any]) -> None:
    out(found["url"])
    if found["problem"]:
        out(f"  {found['problem']}")
    for step in found["steps"]:
        out(f"  {step['rule']}: {step['after']}")
        out(f"    {step['reason']}")
    out(f"= {found['normalized']}")


def dedupe(args: argparse.Namespace) -> int:
    inputs.require_one_standard_input(args.files)
    keyed = _keyed(args.files, inputs.build_normalizer(args))
    if args.groups:
        count, distinct = _grouped(keyed, args.json)
    else:
        count, distinct = _first(keyed, args.json)
    if not args.quiet:
        share = (count - distinct) / count if count else 0
        say(f"{counted(count, 'URL')}, {distinct:,} distinct, {share:.1%} redundant")
    return YES


def _keyed(files: Iterable[str], normalizer: Normalizer) -> Keyed:
    """Yield the lines of *files*, ``-`` for standard input, each with its key.

    Before more is read, what was written goes out: who writes to a pipe may wait for the answer.
    """
    for path in files:
        with open_log(path) as stream:
            for _, block in blocks(stream, Log(path)):
                keys = normalizer.normalize_many(urls_in(block))
                yield from zip(lines_in(block), keys, strict=True)
                flush()


def _first(keyed: Keyed, as_json: bool) -> tuple[int, int]:
    seen = MemorySeen()
    count = 0
    for count, (line, key) in enumerate(keyed, 1):  # noqa: B007 - it is the number of all
        # Of 16 bytes, two of 10^15 keys have the same with a chance of one in 10^9.
        digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if not seen.add(digest):
            continue
        if as_json:
            out_json({"url": text_of(line), "normalized": key})
        else:
            out(line)
    return count, len(seen)


def _grouped(keyed: Keyed, as_json: bool) -> tuple[int, int]:
    counts: Counter[str] = Counter()
    groups: dict[str, list[bytes]] = {}
    for line, key in keyed:
        counts[key] += 1
        lines = groups.setdefault(key, [])
        if len(lines) < SPELLINGS and line not in lines:
            lines.append(line)
    for key, lines in groups.items():
        if len(lines) < 2:
            continue
        count = counts[key]
        if as_json:
            out_json({"normalized": key, "count": count, "spellings": list(map(text_of, lines))})
        else:
            out(f"{count}\t{key}")
            out(b"\n".join(b"\t" + line for line in lines))
    return counts.total(), len(groups)
