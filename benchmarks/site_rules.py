"""What hand-written site rules find in crawl logs, and what 100,000 rules cost.

    python benchmarks/site_rules.py crawls DIRECTORY     one line a log, with the rule files beside
    python benchmarks/site_rules.py residue LOG          what the rules of a log do not find
    python benchmarks/site_rules.py speed [URL_FILE]     loading and normalizing

A log is DIRECTORY/NAME.jsonl.gz, its rules are benchmarks/site_rules/NAME.toml. Content is the
last of `digest`, `text_digest`, `bag_digest` that a row with status 200 and an HTML type has;
logs not named app_* leave out contents of 50 URLs or more, and of 10 or more of which one is a
`wall` (login pages and empty results). With L URLs, D contents, U keys and F false merges (the
contents of a key beyond its first), the share found is (L - U - F) / (L - D); a content is lost
when no URL that comes first under its key has it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.site_rules import SiteRule, load_site_rules, save_site_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

RULES = Path(__file__).with_name("site_rules")
#: The share that a person's rules find, where it is known.
BY_HAND = {"app_blog": 0.95, "app_cgit": 0.50, "app_docs": 0.999, "app_doku": 0.99,
           "app_files": 0.99}  # fmt: skip


class Result(NamedTuple):
    urls: int
    contents: int
    found: float
    false_merges: int
    merges: int
    lost: int


def read_contents(path: Path) -> dict[str, str]:
    """Return the content of every URL of a log, in the order of the log."""
    contents: dict[str, str] = {}
    walls = set()
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if row["status"] == 200 and "html" in (row.get("mime") or ""):
                content = row.get("bag_digest") or row.get("text_digest") or row.get("digest")
                contents[row["url"]] = content
                if row.get("wall"):
                    walls.add(content)
    if not path.name.startswith("app_"):
        size = Counter(contents.values())
        left_out = {c for c, n in size.items() if n >= 50 or (n >= 10 and c in walls)}
        contents = {url: c for url, c in contents.items() if c not in left_out}
    return contents


def measure(contents: dict[str, str], key: Callable[[str], str]) -> Result:
    """Compare the keys of the URLs with their contents."""
    by_key = defaultdict(list)
    for url, content in contents.items():
        by_key[key(url)].append(content)
    urls, all_contents, keys = len(contents), set(contents.values()), len(by_key)
    false = sum(len(set(found)) - 1 for found in by_key.values())
    redundant = urls - len(all_contents)
    found = (urls - keys - false) / redundant if redundant else 0.0
    lost = len(all_contents - {found[0] for found in by_key.values()})
    return Result(urls, len(all_contents), found, false, urls - keys, lost)


def crawls(directory: Path) -> None:
    """Print what the rules of each log find."""
    head = ("log", "URLs", "contents", "rules", "without", "found", "by hand", "false", "lost")
    print("{:42} {:>6} {:>8} {:>5} {:>8} {:>8} {:>8} {:>9} {:>5}".format(*head))
    for log in sorted(directory.glob("*.jsonl.gz")):
        name = log.name.removesuffix(".jsonl.gz")
        contents = read_contents(log)
        path = RULES / f"{name}.toml"
        rules = load_site_rules(path) if path.exists() else ()
        plain = measure(contents, Normalizer().normalize)
        ruled = measure(contents, Normalizer(site_rules=rules).normalize)
        hand = f"{BY_HAND[name]:.1%}" if name in BY_HAND else ""
        print(
            f"{name:42} {ruled.urls:6} {ruled.contents:8} {len(rules):5} {plain.found:8.1%} "
            f"{ruled.found:8.1%} {hand:>8} {ruled.false_merges:4}/{ruled.merges:<4} {ruled.lost:5}"
        )


def residue(log: Path, size: int) -> None:
    """Print contents that still have several keys, and keys that have several contents."""
    name = log.name.removesuffix(".jsonl.gz")
    path = RULES / f"{name}.toml"
    normalize = Normalizer(site_rules=load_site_rules(path) if path.exists() else ()).normalize
    contents = read_contents(log)
    keys, wrong = defaultdict(set), defaultdict(dict)
    for url, content in contents.items():
        keys[content].add(normalize(url))
        wrong[normalize(url)].setdefault(content, url)
    for title, groups in (
        ("one content, several keys", [sorted(g) for g in keys.values() if len(g) > 1]),
        ("one key, several contents", [sorted(g.values()) for g in wrong.values() if len(g) > 1]),
    ):
        print(f"{title}: {len(groups)}")
        for group in groups[:: max(1, len(groups) // size)]:
            print("", *group[:8], sep="\n  ")


def speed(url_file: Path | None) -> None:
    """Print what 100,000 rules over 50,000 hosts cost."""
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
        _timed("save 100,000 rules", lambda: save_site_rules(path, rules))
        rules.clear()
        loaded = _timed("load 100,000 rules", lambda: load_site_rules(path))
        ruled = _timed("compile and digest them", lambda: Normalizer(site_rules=loaded))
        _timed("rewrite the file with one change", lambda: save_site_rules(path, loaded[1:]))
    plain = Normalizer()
    if url_file is not None:
        with gzip.open(url_file, "rt", encoding="utf-8") as lines:
            urls = [line.rstrip("\n") for line in lines][:50_000]
    else:
        urls = [f"https://www.shop{i % 900}.example/a/b{i}?id={i}&x=y" for i in range(50_000)]
    _compare("hosts without rules", plain.normalize, ruled.normalize, urls)
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
    fifty = Normalizer(site_rules=crowded).normalize
    urls = [f"https://shop.example/a/b{i}/c.html?id={i}&x=y&z=1" for i in range(10_000)]
    _compare("a host with 50 rules, none acts", plain.normalize, fifty, urls)
    urls = [f"https://shop.example/a/b{i}/c.html?id={i}&p7=y&z=1" for i in range(10_000)]
    _compare("a host with 50 rules, one acts", plain.normalize, fifty, urls)


def _timed(what: str, work: Callable[[], object]) -> object:
    start = time.process_time()
    result = work()
    print(f"{what:36} {time.process_time() - start:7.2f} CPU s")
    return result


def _compare(
    what: str, plain: Callable[[str], str], ruled: Callable[[str], str], urls: list[str]
) -> None:
    """Print the CPU time a URL, side by side, the least of seven runs."""
    runs: dict[str, list[float]] = {"plain": [], "ruled": []}
    for _ in range(7):
        for name, normalize in (("plain", plain), ("ruled", ruled)):
            runs[name].append(_run(normalize, urls))
    before, after = (min(runs[name]) for name in runs)
    print(
        f"{what:36} {before:7.2f} us -> {after:.2f} us a URL "
        f"({after - before:+.2f} us, {after / before - 1:+.0%})"
    )


def _run(normalize: Callable[[str], str], urls: Iterable[str]) -> float:
    start = time.process_time()
    count = 0
    for url in urls:
        normalize(url)
        count += 1
    return (time.process_time() - start) / count * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("crawls").add_argument("directory", type=Path)
    show = verbs.add_parser("residue")
    show.add_argument("log", type=Path)
    show.add_argument("--size", type=int, default=12)
    verbs.add_parser("speed").add_argument("urls", type=Path, nargs="?")
    args = parser.parse_args()
    if args.verb == "crawls":
        crawls(args.directory)
    elif args.verb == "residue":
        residue(args.log, args.size)
    else:
        speed(args.urls)


if __name__ == "__main__":
    main()
