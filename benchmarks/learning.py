"""What learning finds: rules from one half of a log's URLs, measured on the other half.

    python benchmarks/learning.py DIRECTORY [NAME...]    every log, beside other normalizers

A log is DIRECTORY/NAME.jsonl.gz (optionally in DIRECTORY/crawls). URLs are cut into halves by a
hash of their text, with the salts a and b: two runs a log, and their mean. Content is what
`scrapy_urlnorm.logs` reads; logs not named app_* leave out contents of 50 URLs or more, and of
10 or more of which one is a `wall` (login pages and empty results), from what is measured (not
from what is learned). With L URLs, D contents, U keys and F false merges (the contents of a key
beyond its first), the share found is (L - U - F) / (L - D), false merges are F of L - U, and a
content is lost when no URL that comes first under its key has it.

All of this is of HTML alone. `files` are the URLs that are no HTML: how many redundant ones are
found, of how many (most have nothing in common but their bytes: one licence of many packages),
and how many of these merges are false.

Other normalizers stand beside where they are installed. "by hand" are the rules of
benchmarks/site_rules, written with the whole log in view.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
from collections import Counter, defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from speed import PEERS, discard, loaded
from w3lib.url import canonicalize_url

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.learning import Evaluation, evaluate, mine
from scrapy_urlnorm.logs.observation import from_row
from scrapy_urlnorm.site_rules import load_site_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from scrapy_urlnorm.logs import Observation

BY_HAND = Path(__file__).with_name("site_rules")
SALTS = "ab"
#: Logs with fewer redundant URLs in a half say nothing about a share.
WORTH = 10


def fields_of(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def walls(pages: Iterable[tuple[str | None, object]]) -> frozenset[str]:
    """Return the contents that stand for no page, of all with what says whether it is a wall."""
    sizes: Counter[str] = Counter()
    with_form = set()
    for content, is_wall in pages:
        if content is not None:
            sizes[content] += 1
            if is_wall:
                with_form.add(content)
    return frozenset(c for c, n in sizes.items() if n >= 50 or (n >= 10 and c in with_form))


class Log:
    """One log: its rows, and the contents that are no fair test."""

    def __init__(self, path: Path) -> None:
        self.name = path.name.removesuffix(".jsonl.gz")
        read = [(from_row(fields), fields.get("wall")) for fields in fields_of(path)]
        self.rows = [row for row, _ in read]
        pages = ((row.content, is_wall) for row, is_wall in read if row.is_page)
        self.unfair = frozenset() if self.is_app else walls(pages)

    @property
    def is_app(self) -> bool:
        return self.name.startswith("app_")

    def halves(self, salt: str) -> tuple[list[Observation], list[Observation]]:
        parts: tuple[list[Observation], list[Observation]] = ([], [])
        for row in self.rows:
            text = (salt + row.url).encode("utf-8", "surrogatepass")
            parts[hashlib.blake2b(text, digest_size=4).digest()[0] & 1].append(row)
        return parts

    def fair(self, rows: Iterable[Observation]) -> list[Observation]:
        return [row for row in rows if row.content not in self.unfair]


def others() -> dict[str, SimpleNamespace]:
    """Return the other normalizers that are installed."""
    found = {
        "w3lib": canonicalize_url,
        "dud": loaded(discard),
        **{name: loaded(PEERS[name]) for name in ("courlan", "url-normalize")},
        "default": Normalizer("default").normalize,
    }
    return {name: SimpleNamespace(normalize=_never_raising(f)) for name, f in found.items() if f}


def _never_raising(normalize: Callable[[str], str | None]) -> Callable[[str], str]:
    def safe(url: str) -> str:
        try:
            return normalize(url) or url
        except Exception:  # noqa: BLE001 - whatever another library raises, the URL stands for itself
            return url

    return safe


def logs(paths: Sequence[Path], **options: float) -> None:
    beside = others()
    names = [*beside, "by hand"]
    print(f"{'log':34}{'redundant':>10}{'LEARNED':>9}{'false':>12}{'lost':>5}{'files':>14}", end="")
    print("".join(f"{name:>14}" for name in names))
    shares: defaultdict[str, list[list[float]]] = defaultdict(list)
    totals: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for path in paths:
        log = Log(path)
        kind = "applications" if log.is_app else "public logs"
        results: defaultdict[str, list[Evaluation]] = defaultdict(list)
        for salt in SALTS:
            known, unseen = log.halves(salt)
            unseen = log.fair(unseen)
            normalizer = Normalizer("default", site_rules=mine(known, **options))
            files = [row for row in unseen if row.is_file]
            results["files"].append(evaluate(normalizer, files))
            unseen = [row for row in unseen if not row.is_file]
            results["learned"].append(evaluate(normalizer, unseen))
            for name, other in beside.items():
                results[name].append(evaluate(other, unseen))  # type: ignore[arg-type]
            rules = BY_HAND / f"{log.name}.toml"
            if rules.exists():
                by_hand = Normalizer("default", site_rules=load_site_rules(rules))
                results["by hand"].append(evaluate(by_hand, unseen))
        own, of_files = results["learned"], results["files"]
        redundant, merges, wrong = (
            total(own, what) for what in ("redundant", "merges", "false_merges")
        )
        if not redundant:
            continue
        false = total(of_files, "false_merges")
        found = f"{total(of_files, 'merges') - false:>4} of {total(of_files, 'redundant'):<4}"
        lost, by_profile = total(own, "lost"), total(results["default"], "false_merges")
        totals[kind].update(merges=merges, false=wrong, lost=lost, by_profile=by_profile)
        row = [share(results[name]) for name in names]
        if redundant >= WORTH * len(SALTS):
            shares[kind].append([share(own), *row])
        print(f"{log.name:34}{redundant:>10}{share(own):>9.3f}{wrong:>5} of {merges:<4}", end="")
        print(
            f"{lost:>4} {found}{false:>3}" + "".join(_cell(results[name]) for name in names),
            flush=True,
        )
    for kind, rows in shares.items():
        means = [sum(column) / len(column) for column in zip(*rows, strict=True)]
        sums = totals[kind]
        print(f"\nmean of {len(rows)} {kind}: {means[0]:.3f} found, false merges "
              f"{sums['false']} of {sums['merges']} ({sums['by_profile']} of them by the profile "
              f"alone), contents lost {sums['lost']}; "
              + ", ".join(f"{n} {m:.3f}" for n, m in zip(names, means[1:], strict=True)))  # fmt: skip


def total(results: Sequence[Evaluation], what: str) -> int:
    return sum(getattr(result, what) for result in results)


def share(results: Sequence[Evaluation]) -> float:
    return sum(r.found for r in results) / len(results) if results else 0.0


def _cell(results: Sequence[Evaluation]) -> str:
    if not results:
        return f"{'-':>14}"
    wrong = total(results, "false_merges")
    return f"{share(results):>9.3f}" + (f"({wrong})".ljust(5) if wrong else " " * 5)


def logs_in(directory: Path, names: Sequence[str]) -> list[Path]:
    """Return the logs of a folder whose names begin like one of *names*; all if there are none."""
    if (directory / "crawls").is_dir():
        directory = directory / "crawls"
    beginnings = tuple(names or [""])
    return [p for p in sorted(directory.glob("*.jsonl.gz")) if p.name.startswith(beginnings)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("names", nargs="*", help="how the logs begin; all")
    parser.add_argument("--risk", type=float, default=0.02)
    parser.add_argument("--noise", type=float, default=0.001)
    arguments = parser.parse_args()
    paths = logs_in(arguments.directory, arguments.names)
    if not paths:
        parser.error(f"no logs (*.jsonl.gz) in {arguments.directory}")
    logs(paths, risk=arguments.risk, noise=arguments.noise)


if __name__ == "__main__":
    main()
