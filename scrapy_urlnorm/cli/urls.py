"""Verbs on single URLs: normalize, explain, compare."""

from __future__ import annotations

import re
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from scrapy_urlnorm.cli.in_processes import add_processes, mapped_lines
from scrapy_urlnorm.cli.verb import (
    NO,
    YES,
    Progress,
    Verb,
    add_json,
    add_normalizer,
    add_urls,
    build_normalizer,
    bytes_of,
    given,
    given_urls,
    json_of,
    out,
    out_json,
    out_lines,
)
from scrapy_urlnorm.logs.source import url_of, urls_in
from scrapy_urlnorm.url import parse

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from scrapy_urlnorm.normalizer import Normalizer
    from scrapy_urlnorm.trace import Trace


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_urls(parser)
    add_json(parser)
    add_normalizer(parser)


def _add_normalize_arguments(parser: argparse.ArgumentParser) -> None:
    _add_arguments(parser)
    add_processes(parser)


def _normalize(args: argparse.Namespace) -> int:
    progress = Progress("URLs", streams=True)
    streams = "-" in (*args.urls, *args.file)
    normal_forms = partial(_normal_forms, build_normalizer(args), args.json)
    for _, lines in mapped_lines(normal_forms, given(args), args.processes, streams=streams):
        out_lines(lines)
        progress.add(len(lines))
    progress.clear()
    return YES


def _normal_forms(
    normalizer: Normalizer, as_json: bool, parcel: Iterable[bytes | str]
) -> list[bytes]:
    """Return a line for each URL of *parcel*."""
    urls = list(chain.from_iterable(map(urls_in, parcel)))
    keys = normalizer.normalize_many(urls)
    if not as_json:
        return list(map(bytes_of, keys))
    pairs = zip(urls, keys, strict=True)
    return [json_of({"url": url, "normalized": key}).encode() for url, key in pairs]


def _explain(args: argparse.Namespace) -> int:
    normalizer = build_normalizer(args)
    code = YES
    for url in Progress("URLs", streams=True).over(given_urls(args)):
        trace, problem = normalizer.explain(url), _problem(url)
        if problem is not None:
            code = NO
        if args.json:
            out_json(
                {
                    "url": trace.url,
                    "normalized": trace.normalized,
                    "problem": problem,
                    "steps": [step._asdict() for step in trace.steps],
                }
            )
        else:
            _out_trace(trace, problem)
    return code


def _out_trace(trace: Trace, problem: str | None) -> None:
    out(trace.url)
    if problem is not None:
        out(f"  {problem}")
    for step in trace.steps:
        out(f"  {step.rule}: {step.after}")
        out(f"    {step.reason}")
    out(f"= {trace.normalized}")


_NO_HOST = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?!//)")


def _problem(url: str) -> str | None:
    """Return the reason why no rule applies to *url*; None if rules do."""
    if parse(url) is not None:
        return None
    what = "a URL without a host" if _NO_HOST.match(url) else "not a URL that a client accepts"
    return f"{what}: it is its own key"


def _add_compare_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="a URL")
    parser.add_argument("b", metavar="B", help="another one")
    add_json(parser)
    add_normalizer(parser)


def _compare(args: argparse.Namespace) -> int:
    normalizer = build_normalizer(args)
    traces = [normalizer.explain(url_of(url)) for url in (args.a, args.b)]
    keys = [trace.normalized for trace in traces]
    same = keys[0] == keys[1]
    rules = [list(dict.fromkeys(step.rule for step in trace.steps)) for trace in traces]
    if args.json:
        out_json({"same": same, "keys": keys, "rules": rules})
    else:
        out("same" if same else "different")
        for key, names in zip(keys, rules, strict=True):
            out(f"  {key}" + (f"  ({', '.join(names)})" if names else ""))
    return YES if same else NO


VERBS = (
    Verb(
        "normalize",
        "Print the normalized form of each URL, one a line, in order. A byte that is no UTF-8 is "
        "percent-encoded, as clients send it; what is no URL comes out as it went in.",
        "normalize 'HTTP://Example.com:80/a?utm_source=x&b=1#top'",
        _add_normalize_arguments,
        _normalize,
    ),
    Verb(
        "explain",
        "Print each URL, every change with its rule and reason, and the normalized form. The exit "
        "code is 1 when one of them is not a URL that a client accepts, or has no host: such text "
        "is its own key.",
        "explain 'http://example.com/%7Efoo/?b=2&a=1'",
        _add_arguments,
        _explain,
    ),
    Verb(
        "compare",
        "Print whether two URLs have one normalized form, and the rules that had a part in it. "
        "The exit code is 0 when they do, 1 when they do not.",
        "compare 'http://example.com/?a=1&b=2' 'http://example.com/?b=2&a=1'",
        _add_compare_arguments,
        _compare,
    ),
)
