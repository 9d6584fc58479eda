"""What 100,000 site rules cost.

    python benchmarks/site_rules.py [URL_FILE]     loading, rewriting and normalizing

What the rules of `benchmarks/site_rules` find in crawl logs, `.ci/data_tests` tells.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from speed import lines_of, race

from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.site_rules import SiteRule, load_site_rules, save_site_rules

if TYPE_CHECKING:
    from collections.abc import Callable


def speed(url_file: str | None) -> None:
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
        urls = lines_of(url_file)[:50_000]
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
    times = race(lambda: [("plain", plain), ("ruled", ruled)], urls)
    before, after = min(times["plain"]), min(times["ruled"])
    print(
        f"{what:36} {before:7.2f} us -> {after:.2f} us a URL "
        f"({after - before:+.2f} us, {after / before - 1:+.0%})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("urls", nargs="?")
    speed(parser.parse_args().urls)


if __name__ == "__main__":
    main()
