"""What memos cost where they never help: new hosts, names or values with every URL.

    python benchmarks/memos.py [FILE] [--most 10000] [--profile default]

Each crawl runs through a normalizer as it is, through one whose memos keep nothing, and through one
that runs all rules on every URL; all in one process, in turns, each round with URLs that were never
seen. The medians of the processor time are compared, and what the memos hold at the end is measured
in bytes. A real crawl (FILE) shows what the memos earn.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import tracemalloc
from typing import TYPE_CHECKING

from speed import ROUNDS, carried, lines_of, seconds

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.caches import BoundedCache
from scrapy_urlnorm.rules import PROFILES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Name -> the URL of a number, no two alike in what a memo is kept of.
CRAWLS: dict[str, Callable[[int], str]] = {
    "new host": lambda i: f"https://h{i}.example.com/a/b.html",
    "new www host": lambda i: f"https://www.h{i}.example.org/a/b/",
    "new domain": lambda i: f"http://www.h{i}.com/a/b.html",
    "new long host": lambda i: f"http://{'a' * 60}.{'b' * 60}.{'c' * 60}.h{i}.example/",
    "new user": lambda i: f"http://u{i}@example.com:8080/a",
    "new name": lambda i: f"http://example.com/?n{i}=1&a=2",
    "new 30 names": lambda i: "http://example.com/?" + "&".join(f"{n}{i}=1" for n in range(30)),
    "new long names": lambda i: f"http://example.com/?{'a' * 400}{i}=1&b=2",
    "new names in both halves": lambda i: f"http://example.com/?z{i}=1&utm_source=2&a{i}=%20",
    "new value": lambda i: f"http://example.com/?q=a%20b:{i}&a=http://h/{i}",
    "new session id": lambda i: f"http://example.com/?sid={i:032x}&PHPSESSID={i:032x}&b=1&a",
    "new path": lambda i: f"http://example.com/a/{i}/index.html",
}


def without_memos(profile: str) -> Normalizer:
    """Return a normalizer whose memos ask their function each time."""
    normalizer = Normalizer(profile)
    for memo in memos_of(normalizer):
        memo._longest = -1
    return normalizer


def without_fast_path(profile: str) -> Normalizer:
    """Return a normalizer that runs all rules on every URL."""
    normalizer = Normalizer(profile)
    object.__setattr__(normalizer, "_fast_key", None)
    return normalizer


def memos_of(normalizer: Normalizer) -> Iterator[BoundedCache[object]]:
    """Yield the memos of the normalizer, and of the objects that it is made of."""
    seen: set[int] = set()
    rest: list[object] = [normalizer._fast_key]
    while rest:
        here = rest.pop()
        if id(here) in seen or isinstance(here, type):
            continue
        seen.add(id(here))
        if isinstance(here, BoundedCache):
            yield here
        if type(here).__module__.partition(".")[0] in ("scrapy_urlnorm", "builtins"):
            rest += gc.get_referents(here) if not isinstance(here, dict) else []


def race(profile: str, url: Callable[[int], str], most: int) -> list[float]:
    """Return the medians of microseconds a URL: with memos, without, by all rules."""
    candidates = [Normalizer(profile), without_memos(profile), without_fast_path(profile)]
    times: list[list[float]] = [[] for _ in candidates]
    for turn in range(ROUNDS):
        urls = [url(i) for i in range(turn * most, (turn + 1) * most)]
        for place in range(3) if turn % 2 else (2, 1, 0):
            times[place].append(seconds(candidates[place].normalize, urls) / most * 1e6)
    return [statistics.median(found) for found in times]


def held(profile: str, url: Callable[[int], str], most: int) -> float:
    """Return the bytes, in millions, that a normalizer holds after *most* URLs."""
    normalizer = Normalizer(profile)
    normalizer.normalize(url(0))
    gc.collect()
    tracemalloc.start()
    for i in range(most):
        normalizer.normalize(url(i))
    gc.collect()
    found, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return found / 1e6


def main() -> None:
    """Print a line for each crawl and profile."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("file", nargs="?", help="URLs of a real crawl, one a line, plain or .gz")
    parser.add_argument("--most", type=int, default=10_000, help="URLs a round")
    parser.add_argument("--profile", choices=PROFILES, action="append")
    args = parser.parse_args()
    crawls = dict(CRAWLS)
    if args.file:
        urls = list(carried(lines_of(args.file)))
        random.Random(7).shuffle(urls)
        crawls["URLs of the file"] = lambda i: urls[i % len(urls)]
    print("| profile | crawl | µs a URL | to without memos | to all rules | MB held |")
    print("|---|---|---|---|---|---|")
    for profile in args.profile or PROFILES:
        for name, url in crawls.items():
            here, without, rules = race(profile, url, args.most)
            cells = f"{here:.2f} | {here / without:.2f} | {here / rules:.2f}"
            size = held(profile, url, 4 * args.most)
            print(f"| {profile} | {name} | {cells} | {size:.1f} |", flush=True)


if __name__ == "__main__":
    main()
