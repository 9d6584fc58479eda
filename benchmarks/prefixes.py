"""What a crawl may learn too early: mining again and again while the rows of a log come in.

    python benchmarks/prefixes.py DIRECTORY [NAME...] [--rash] [--rules]

Every log (DIRECTORY/NAME.jsonl.gz, optionally in DIRECTORY/crawls) is walked through in its own
order, sorted by URL, and in two random orders. Its fetched rows are mined after 20, 30, 45, ...
rows; the rules in force are handed to the next mining. A URL of which an earlier row has the key,
under the rules in force, is withheld, and nothing is audited. *found* is the share of the
redundant URLs that are withheld, *lost* are contents that stand behind withheld URLs alone, and
*at risk* those that would be if the rules that were in force at any one time had stayed to the end.
The profile alone loses some, too: they count for *default*.

``--rash`` mines as for a whole log, ``--rules`` prints the rules that lose something.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.learning import mine
from scrapy_urlnorm.logs.observation import from_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_urlnorm.logs import Observation
    from scrapy_urlnorm.site_rules import SiteRule

ORDERS = ("own", "sorted", "random 1", "random 2")
FIRST, FACTOR = 20, 1.5
#: Larger logs are cut off: a crawl of the first so many rows.
MAX_ROWS = 3_000


class Walk(NamedTuple):
    """What came of one log in one order."""

    log: str
    order: str
    redundant: int
    found: float
    lost: int
    at_risk: int
    default: int
    wrong: dict[str, int]  #: contents at risk while a set of rules was in force, by its text


def rows_of(path: Path, order: str) -> list[Observation]:
    rows: dict[str, Observation] = {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = from_row(json.loads(line))
            rows.setdefault(row.url, row)
            if len(rows) >= MAX_ROWS:
                break
    found = list(rows.values())
    if order == "sorted":
        found.sort(key=lambda row: row.url)
    elif order != "own":
        random.Random(order).shuffle(found)
    return found


def walk(job: tuple[Path, str, bool]) -> Walk:
    path, order, wary = job
    rows = rows_of(path, order)
    keys = Normalizer("default")
    rules: list[SiteRule] = []
    fetched: list[Observation] = []
    seen: set[str] = set()
    due = FIRST
    at_risk: set[str] = set()
    wrong: dict[str, int] = {}
    withheld = 0
    plain = unreached(rows, 0, set(), keys)
    for at, row in enumerate(rows):
        if len(fetched) >= due:
            due = int(len(fetched) * FACTOR)
            before = {rule.identity for rule in rules}
            rules = [r for r in mine(fetched, accepted=rules, wary=wary) if r.active]
            if {rule.identity for rule in rules} != before:
                keys = Normalizer("default", site_rules=rules)
                pages = [r for r in fetched if r.is_page]
                seen = {keys.normalize(r.url) for r in pages}
                found = unreached(rows, at, {r.content or "" for r in pages}, keys, seen) - plain
                at_risk |= found
                if found:
                    new = [str(rule) for rule in rules if rule.identity not in before]
                    wrong["\n        ".join(new) or "fewer rules"] = len(found)
        if row.is_page and row.content is not None:
            key = keys.normalize(row.url)
            if key in seen:
                withheld += 1
                continue
            seen.add(key)
        fetched.append(row)
    pages = [row for row in rows if row.is_page and row.content is not None]
    contents = {row.content for row in pages}
    reached = {row.content for row in fetched}
    redundant = len(pages) - len(contents)
    lost = len(contents - reached - plain)
    share = (withheld - lost - len(plain)) / redundant if redundant else 0.0
    name = path.name.removesuffix(".jsonl.gz")
    return Walk(name, order, redundant, share, lost, len(at_risk), len(plain), wrong)


def unreached(
    rows: list[Observation],
    start: int,
    reached: set[str],
    keys: Normalizer,
    seen: set[str] | None = None,
) -> set[str]:
    """Return the contents that are not fetched from row *start* on with these keys."""
    known, reached = set(seen or ()), set(reached)
    withheld = set()
    for row in rows[start:]:
        if row.is_page and row.content is not None:
            key = keys.normalize(row.url)
            (withheld if key in known else reached).add(row.content)
            known.add(key)
    return withheld - reached


def walks(paths: list[Path], *, wary: bool) -> Iterator[Walk]:
    jobs = [(path, order, wary) for path in paths for order in ORDERS]
    jobs.sort(key=lambda job: -job[0].stat().st_size)
    with ProcessPoolExecutor(2) as pool:
        for number, found in enumerate(pool.map(walk, jobs), 1):
            print(f"{number}/{len(jobs)} {found.log} {found.order}", file=sys.stderr)
            yield found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("names", nargs="*", help="how the logs begin; all")
    parser.add_argument("--rash", action="store_true")
    parser.add_argument("--rules", action="store_true")
    arguments = parser.parse_args()
    directory = arguments.directory
    if (directory / "crawls").is_dir():
        directory = directory / "crawls"
    wanted = tuple(arguments.names or [""])
    paths = [path for path in directory.glob("*.jsonl.gz") if path.name.startswith(wanted)]
    if not paths:
        parser.error(f"no logs (*.jsonl.gz) in {directory}")
    by_log: defaultdict[str, dict[str, Walk]] = defaultdict(dict)
    for found in walks(paths, wary=not arguments.rash):
        by_log[found.log][found.order] = found
    print(f"{'found, lost/at risk':36}" + "".join(f"{order:>18}" for order in ORDERS))
    shares: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    totals: Counter[tuple[str, str, str]] = Counter()
    for log, of in sorted(by_log.items()):
        cells = [of[order] for order in ORDERS]
        kind = "applications" if log.startswith("app_") else "public logs"
        for each in cells:
            if each.redundant >= 20:
                shares[kind, each.order].append(each.found)
            totals[kind, each.order, "lost"] += each.lost
            totals[kind, each.order, "risk"] += each.at_risk
        print(f"{log:36}" + "".join(_cell(e.found, e.lost, e.at_risk) for e in cells))
        if arguments.rules:
            for each in cells:
                for rules, count in each.wrong.items():
                    print(f"    {each.order}: {count} at risk\n        {rules}")
    for kind in sorted({kind for kind, _ in shares}):
        print(f"{kind:36}" + "".join(
            _cell(
                sum(shares[kind, order]) / max(1, len(shares[kind, order])),
                totals[kind, order, "lost"],
                totals[kind, order, "risk"],
            )
            for order in ORDERS
        ))  # fmt: skip


def _cell(found: float, lost: int, at_risk: int) -> str:
    return f"{found:.3f} {lost}/{at_risk}".rjust(18)


if __name__ == "__main__":
    main()
