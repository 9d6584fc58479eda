"""Speed of one URL: normalizing and fingerprinting, beside other packages.

    python benchmarks/speed.py [FILE]          FILE: one URL a line, plain or gzipped

Without FILE, a seeded generator makes the URLs. Every candidate runs over the same URLs in the
same process, in turns, several rounds; the median round counts. Packages that are not installed
are left out. A raised exception counts as an answer. Bytes a key: benchmarks/stores.py.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import tldextract.tldextract
from scrapy import Request
from scrapy.utils.request import RequestFingerprinter
from scrapy.utils.test import get_crawler
from w3lib.url import canonicalize_url, safe_url_string

from scrapy_urlnorm import Normalizer, UrlNormRequestFingerprinter

Candidate = tuple[str, Callable[[str], object]]
ROUNDS = 5


def generated_urls(count: int) -> list[str]:
    """Return *count* URLs of the shapes that crawls meet, from a fixed seed."""
    rng = random.Random(1)
    words = ["news", "forum", "viewtopic.php", "shop", "item", "2024", "a-long-title", "img", "tag"]
    names = ["id", "page", "sort", "q", "lang", "utm_source", "ref", "t", "sid"]
    urls = []
    for i in range(count):
        path = "/".join(rng.choices(words, k=rng.randrange(1, 5)))
        url = f"https://www.site{i % 997}.example.com/{path}/{rng.randrange(10**6)}"
        if rng.random() < 0.35:
            pairs = [f"{n}={rng.randrange(1000)}" for n in rng.sample(names, rng.randrange(1, 4))]
            url += "?" + "&".join(pairs)
        if rng.random() < 0.05:
            url = url.replace("news", "n%c3%a9ws").replace("https://www", "HTTPS://WWW")
        if rng.random() < 0.05:
            url += "#top"
        urls.append(url)
    return urls


def carried_urls(path: str | None) -> list[str]:
    """Return the URLs as Scrapy requests carry them, each once."""
    if path is None:
        lines = generated_urls(50_000)
    else:
        data = Path(path).read_bytes()
        text = (gzip.decompress(data) if path.endswith(".gz") else data).decode(errors="replace")
        lines = text.splitlines()
    urls = {}
    for line in lines:
        try:
            url = safe_url_string(line)
        except ValueError:
            continue
        if "://" in url:
            urls[url] = None
    return list(urls)


def normalizers() -> list[Candidate]:
    """Return this package's profiles and every other normalizer that is installed."""
    # A peer asks the network for the public suffix list when it can: it gets the packaged one.
    tldextract.tldextract.TLD_EXTRACTOR = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)
    found: list[Candidate] = [("w3lib.url.canonicalize_url", canonicalize_url)]
    found += [
        (f"scrapy-urlnorm {p}", Normalizer(p).normalize) for p in ("safe", "default", "aggressive")
    ]
    try:
        from keenable_url_helpers import normalize_url

        found.append(("k-url-normalizer (Rust)", normalize_url))
    except ImportError:
        pass
    try:
        from can_ada import parse

        found.append(("can-ada (C++, parse only)", lambda url: parse(url).href))
    except ImportError:
        pass
    try:
        from yarl import URL

        found.append(("yarl", lambda url: str(URL(url))))
    except ImportError:
        pass
    try:
        from courlan import clean_url

        found.append(("courlan", clean_url))
    except ImportError:
        pass
    try:
        from duplicate_url_discarder.url_canonicalizer import UrlCanonicalizer
        from duplicate_url_discarder_rules import RULE_PATHS

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            discarder = UrlCanonicalizer(RULE_PATHS or [])
        found.append(
            ("duplicate-url-discarder", lambda url: canonicalize_url(discarder.process_url(url)))
        )
    except ImportError:
        pass
    try:
        from url_normalize import url_normalize

        found.append(("url-normalize", url_normalize))
    except ImportError:
        pass
    return found


def race(candidates: list[Candidate], urls: list[str]) -> dict[str, float]:
    """Return the median microseconds a URL of every candidate, taking turns."""
    times: dict[str, list[float]] = {name: [] for name, _ in candidates}
    for turn in range(ROUNDS):
        for name, function in candidates:
            print(f"\rround {turn + 1}/{ROUNDS}: {name:<40}", end="", file=sys.stderr)
            start = time.perf_counter()
            for url in urls:
                try:
                    function(url)
                except Exception:  # noqa: BLE001, PERF203, S112 - a refusal is an answer too
                    continue
            times[name].append((time.perf_counter() - start) / len(urls) * 1e6)
    print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    return {name: statistics.median(rounds) for name, rounds in times.items()}


def print_table(title: str, reference: str, times: dict[str, float]) -> None:
    """Print one row a candidate: microseconds, and how many times as fast as the reference."""
    print(f"\n{title}\n\n| | µs a URL | against {reference} |\n|---|---|---|")
    for name, value in sorted(times.items(), key=lambda item: item[1]):
        print(f"| {name} | {value:.2f} | {times[reference] / value:.1f}x |")


def race_fingerprints(urls: list[str]) -> None:
    """Print the time of a fingerprint for a fresh GET request, and for one asked for again."""
    crawler = get_crawler(settings_dict={"LOG_ENABLED": False})
    ours = UrlNormRequestFingerprinter.from_crawler(crawler)
    candidates: list[tuple[str, Callable[[Request], object]]] = [
        ("Scrapy", RequestFingerprinter().fingerprint),
        ("scrapy-urlnorm", ours.fingerprint),
    ]
    try:
        from duplicate_url_discarder import Fingerprinter

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            candidates.append(
                ("duplicate-url-discarder", Fingerprinter.from_crawler(crawler).fingerprint)
            )
    except ImportError:
        pass
    rng = random.Random(3)
    menu = urls[:200]
    links = [rng.choice(menu) if rng.random() < 0.9 else url for url in urls]
    stream: dict[str, list[float]] = {name: [] for name, _ in candidates}
    fresh: dict[str, list[float]] = {name: [] for name, _ in candidates}
    again: dict[str, list[float]] = {name: [] for name, _ in candidates}
    for _ in range(ROUNDS):
        for name, fingerprint in candidates:
            requests = [Request(url) for url in urls]
            gc.collect()
            for times in (fresh[name], again[name]):
                start = time.perf_counter()
                for request in requests:
                    fingerprint(request)
                times.append((time.perf_counter() - start) / len(urls) * 1e6)
        for name, fingerprint in candidates:
            requests = [Request(url) for url in links]
            gc.collect()
            start = time.perf_counter()
            for request in requests:
                fingerprint(request)
            stream[name].append((time.perf_counter() - start) / len(urls) * 1e6)
    for title, times in (
        ("Fingerprint of a fresh GET request, every URL another", fresh),
        ("Of fresh requests for links, nine of ten to pages that many link to", stream),
        ("Of a request that was asked before", again),
    ):
        print_table(title, "Scrapy", {n: statistics.median(t) for n, t in times.items()})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("file", nargs="?", help="URLs, one a line, plain or .gz")
    parser.add_argument("--most", type=int, default=40_000, help="how many URLs to take")
    args = parser.parse_args()
    urls = carried_urls(args.file)
    random.Random(7).shuffle(urls)
    urls = urls[: args.most]
    print(f"{len(urls):,} URLs of {args.file or 'the generator'}, Python {sys.version.split()[0]}")
    candidates = normalizers()
    print_table("Normalize", "w3lib.url.canonicalize_url", race(candidates, urls))
    normalize = Normalizer().normalize
    work = [url for url in urls if normalize(url) != url]
    title = f"Normalize the {len(work):,} URLs that need work in the default profile"
    pair = [
        c for c in candidates if c[0] in ("w3lib.url.canonicalize_url", "scrapy-urlnorm default")
    ]
    print_table(title, "w3lib.url.canonicalize_url", race(pair, work))
    race_fingerprints(urls[:20_000])


if __name__ == "__main__":
    main()
