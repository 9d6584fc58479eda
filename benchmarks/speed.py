"""Speed of one URL: normalizing and fingerprinting, beside other packages, and with site rules.

    python benchmarks/speed.py [FILE]          FILE: one URL a line, plain or gzipped

Without FILE, a seeded generator makes the URLs. URLs are taken as Scrapy requests carry them. Every
candidate runs over the same URLs in the same process, in turns, several rounds; the median of the
processor time counts. What a memo holds after the first round helps in the others, as it does in a
crawl that stays on its sites; "first pass" is the opposite, a new normalizer for each round. Packages
that are not installed are left out. A raised exception counts as an answer.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import random
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import tldextract.tldextract
from scrapy import Request
from scrapy.utils.request import RequestFingerprinter
from scrapy.utils.test import get_crawler
from w3lib.url import canonicalize_url, safe_url_string

from scrapy_urlnorm import Normalizer, UrlNormRequestFingerprinter
from scrapy_urlnorm.rules import PROFILES
from scrapy_urlnorm.site_rules import SiteRule, load_site_rules, save_site_rules

Candidate = tuple[str, Callable[[str], object]]
ROUNDS = 7
IN_FLIGHT = 16  # requests: Scrapy's CONCURRENT_REQUESTS
REMEMBERED = 8_000  # URLs of which the fingerprint is asked for again: fewer than are remembered
# A peer asks the network for the public suffix list when it can: it gets the packaged one.
tldextract.tldextract.TLD_EXTRACTOR = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)
W3LIB, RUST = "w3lib.url.canonicalize_url", "k-url-normalizer (Rust)"


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


def lines_of(path: str | None) -> list[str]:
    """Return the URLs of a file, or generated ones, as they stand there."""
    if path is None:
        return generated_urls(50_000)
    data = Path(path).read_bytes()
    text = (gzip.decompress(data) if path.endswith(".gz") else data).decode(errors="replace")
    return text.splitlines()


def carried(lines: Iterable[str]) -> list[str]:
    """Return URLs as Scrapy requests carry them, each once."""
    urls = {}
    for line in lines:
        try:
            url = safe_url_string(line)
        except ValueError:
            continue
        if "://" in url:
            urls[url] = None
    return list(urls)


def discard() -> Callable[[str], str]:
    from duplicate_url_discarder.url_canonicalizer import UrlCanonicalizer
    from duplicate_url_discarder_rules import RULE_PATHS

    return UrlCanonicalizer(RULE_PATHS or []).process_url


def _discarder() -> Callable[[str], object]:
    process = discard()
    return lambda url: canonicalize_url(process(url))


def _yarl() -> Callable[[str], object]:
    from yarl import URL

    return lambda url: str(URL(url))


#: What other packages offer, by what their users call it.
PEERS: dict[str, Callable[[], Callable[[str], object]]] = {
    RUST: lambda: import_module("keenable_url_helpers").normalize_url,
    "yarl": _yarl,
    "courlan": lambda: import_module("courlan").clean_url,
    "duplicate-url-discarder": _discarder,
    "url-normalize": lambda: import_module("url_normalize").url_normalize,
}


def loaded(load: Callable[[], Any]) -> Any:
    """Return what *load* returns, ``None`` if its package is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return load()
        except ImportError:
            return None


def ours() -> list[Candidate]:
    """Return this package's profiles, and that which they are compared with."""
    profiles = [(f"scrapy-urlnorm {p}", Normalizer(p).normalize) for p in PROFILES]
    return [(W3LIB, canonicalize_url), *profiles]


def normalizers() -> list[Candidate]:
    """Return this package's profiles and every other normalizer that is installed."""
    peers = {name: loaded(load) for name, load in PEERS.items()}
    return ours() + [(name, peer) for name, peer in peers.items() if peer is not None]


def seconds(function: Callable[[Any], object], items: Iterable[Any]) -> float:
    """Return the processor time of one round."""
    gc.collect()
    gc.disable()
    start = time.process_time()
    for item in items:
        try:
            function(item)
        except Exception:  # noqa: BLE001, PERF203, S112 - a refusal is an answer too
            continue
    found = time.process_time() - start
    gc.enable()
    return found


def race(candidates: Callable[[], list[Candidate]], urls: Sequence[str]) -> dict[str, list[float]]:
    """Return the microseconds a URL of every candidate in each round, taking turns."""
    times: dict[str, list[float]] = {}
    for turn in range(ROUNDS):
        for name, function in candidates()[:: 1 if turn % 2 else -1]:
            times.setdefault(name, []).append(seconds(function, urls) / len(urls) * 1e6)
    return times


def print_table(title: str, references: Sequence[str], times: dict[str, list[float]]) -> None:
    """Print one row a candidate: microseconds, and how many times as fast as each reference."""
    medians = {name: statistics.median(rounds) for name, rounds in times.items()}
    known = [name for name in references if name in medians]
    head = "".join(f" against {name} |" for name in known)
    print(f"\n{title}\n\n| | µs a URL |{head}\n|---|---|{'---|' * len(known)}")
    for name, value in sorted(medians.items(), key=lambda item: item[1]):
        cells = "".join(f" {medians[reference] / value:.2f}x |" for reference in known)
        print(f"| {name} | {value:.2f} |{cells}")


def race_fingerprints(urls: list[str]) -> None:
    """Print the time of a fingerprint for a fresh GET request, and for one asked for again."""
    crawler = get_crawler(settings_dict={"LOG_ENABLED": False})
    candidates: list[tuple[str, Callable[[Request], object]]] = [
        ("Scrapy", RequestFingerprinter().fingerprint),
        ("scrapy-urlnorm", UrlNormRequestFingerprinter.from_crawler(crawler).fingerprint),
    ]
    if there := loaded(lambda: import_module("duplicate_url_discarder").Fingerprinter):
        candidates.append(("duplicate-url-discarder", there.from_crawler(crawler).fingerprint))
    rng = random.Random(3)
    asked, others = urls[:REMEMBERED], urls[REMEMBERED:]
    menu = others[:200]
    links = [rng.choice(menu) if rng.random() < 0.9 else url for url in others[:REMEMBERED]]
    found: dict[str, dict[str, list[float]]] = {}
    for turn in range(ROUNDS):
        for name, fingerprint in candidates if turn % 2 else candidates[::-1]:
            first, second, linked = ([Request(url) for url in u] for u in (asked, asked, links))
            # More URLs than are remembered drive out what the last round left.
            many = [Request(url) for url in others]
            seconds(fingerprint, many)
            in_flight = [
                r for i in range(0, len(first), IN_FLIGHT) for r in first[i : i + IN_FLIGHT] * 9
            ]
            for title, requests in (
                ("Fingerprint of a fresh GET request, every URL another", first),
                ("Of the same request again, after all others", first),
                (f"Of the same request again, at once ({IN_FLIGHT} in turns)", in_flight),
                ("Of another request for the same URL", second),
                ("Of fresh requests for links, nine of ten to pages that many link to", linked),
            ):
                cost = seconds(fingerprint, requests) / len(requests) * 1e6
                found.setdefault(title, {}).setdefault(name, []).append(cost)
    for title, times in found.items():
        print_table(title, ["Scrapy"], times)


def print_site_rules(urls: Sequence[str]) -> None:
    """Print what 100,000 rules over 50,000 hosts cost, and 50 of one host."""
    rules = [
        SiteRule(
            site=f"host{i // 2}.example{i % 7}.org",
            kind="drop-param",
            param=f"sid{i % 2}",
            path="/forum/**",
            source="content",
            support=i,
            conflicts=0,
            false_merge_upper=0.007,
            examples=((f"https://a.example/?sid={i}", "https://a.example/?sid=0"),),
        )
        for i in range(100_000)
    ]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "rules.toml"
        timed("save 100,000 rules", lambda: save_site_rules(path, rules))
        rules.clear()
        loaded = timed("load 100,000 rules", lambda: load_site_rules(path))
        ruled = timed("compile and digest them", lambda: Normalizer(site_rules=loaded))
        timed("rewrite the file with one change", lambda: save_site_rules(path, loaded[1:]))
    crowded = [
        SiteRule(site="shop.example", kind="drop-param", param=f"p{i}", when={"has": "id"})
        for i in range(20)
    ] + [
        SiteRule(site="shop.example", kind="prefix-alias", prefix=f"/d{i}/new", by=f"/d{i}/{i}")
        for i in range(15)
    ] + [
        SiteRule(site="shop.example", kind="drop-default", default={f"q{i}": "1"})
        for i in range(15)
    ]  # fmt: skip
    fifty = Normalizer(site_rules=crowded)
    none = [f"https://shop.example/a/b{i}/c.html?id={i}&x=y&z=1" for i in range(10_000)]
    acts = [f"https://shop.example/a/b{i}/c.html?id={i}&p7=y&z=1" for i in range(10_000)]
    for title, with_rules, normalized in (
        ("100,000 rules, none of these hosts", ruled, urls),
        ("50 rules of the host, none acts", fifty, none),
        ("50 rules of the host, one acts", fifty, acts),
    ):
        both = [("without rules", Normalizer().normalize), ("with rules", with_rules.normalize)]
        print_table(title, ["without rules"], race(lambda both=both: both, normalized))


def timed(what: str, work: Callable[[], object]) -> object:
    start = time.process_time()
    result = work()
    print(f"{what:36} {time.process_time() - start:7.2f} CPU s")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("file", nargs="?", help="URLs, one a line, plain or .gz")
    parser.add_argument("--most", type=int, default=20_000, help="how many URLs to normalize")
    args = parser.parse_args()
    urls = carried(lines_of(args.file))
    random.Random(7).shuffle(urls)
    taken = urls[: args.most]
    print(f"{len(taken):,} URLs of {args.file or 'the generator'}, Python {sys.version.split()[0]}")
    candidates = normalizers()
    print_table("Normalize", [W3LIB, RUST], race(lambda: candidates, taken))
    hosts = len({url.split("/")[2] for url in taken})
    title = f"Normalize, first pass over {len(taken):,} URLs of {hosts:,} hosts"
    print_table(title, [W3LIB], race(ours, taken))
    race_fingerprints(urls[: 3 * REMEMBERED])
    print()
    print_site_rules(taken)


if __name__ == "__main__":
    main()
