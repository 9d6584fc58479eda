"""What is learned in a first crawl: fetches avoided, contents lost, and what it costs.

    python benchmarks/first_crawl.py DATA [--only NAME...] [--orders own sorted random1]
        [--modes redirects content] [--processes 2] [--json FILE] [--keep MODE...]

Every log in DATA/crawls is crawled through Scrapy itself (see `replay.py`), a process a crawl: by
stock Scrapy, by the add-on without learning (the profile), and once in each of the modes of
``URLNORM_LEARN``. Of the applications (app_*) the forum and the blog are those of DATA/crawls2,
which know the permalinks of their pages.

redundant  fetches by stock Scrapy of a content that it had fetched already
avoided    share of these that this crawl did not need; then the same of HTML pages alone
lost       contents that the profile alone finds, and this crawl does not
audits     requests sent to test a rule, and their share of the fetches avoided
cpu        seconds of processor time with all worker processes, and how many times the profile's

The logs of public sites hold login walls and empty results: contents of 50 URLs or more, and of 10
or more of which one is a `wall`, are left out of the measure. A log with fewer than 20 redundant
fetches says nothing about a share, so it is left out of the mean.

The orders of a log besides its own are written to a temporary folder. Its first HTML page stays the
first, because the crawl begins there. Ctrl-C prints what is done by then. FILE has every crawl;
with --keep those of the modes named are taken from there and not repeated.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from learning import walls
from processes import apart
from replay import answer_of, content_of, replay, rows_of
from spider import ADDON

from scrapy_urlnorm.text import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

STOCK, PROFILE = "stock", "profile"
MODES: dict[str, dict[str, Any]] = {
    STOCK: {},
    PROFILE: {**ADDON, "URLNORM_LEARN": "off"},
    "redirects": {**ADDON, "URLNORM_LEARN": "redirects"},
    "content": {**ADDON, "URLNORM_LEARN": "content"},
}
ORDERS = ("own", "sorted", "random1", "random2", "random3")
#: Applications whose log in DATA/crawls has no permalinks, and the one that has.
WITH_PERMALINKS = {"app_blog": "app_blog", "app_forum": "app_forum_complete"}
WORTH = 20
LIMITS = {"CLOSESPIDER_TIMEOUT": 3600}


class Log(NamedTuple):
    """One log in one order."""

    name: str
    order: str
    path: Path
    unfair: frozenset[str]  #: contents that are not measured
    files: frozenset[str]  #: contents that are no HTML

    @property
    def is_app(self) -> bool:
        return self.name.startswith("app_")

    def key(self, mode: str) -> str:
        """Return the name of a crawl of it."""
        return f"{self.name} {self.order} {mode}"


class Row(NamedTuple):
    log: Log
    mode: str
    redundant: int
    saved: int
    of_pages: float
    lost: int
    audits: int
    cpu: float
    ratio: float

    @property
    def avoided(self) -> float:
        return self.saved / self.redundant if self.redundant else 0.0


def logs(data: Path, only: list[str], orders: list[str], folder: Path) -> Iterator[Log]:
    """Return the logs whose names begin like one of *only*, each in all *orders*."""
    for path in sorted((data / "crawls").glob("*.jsonl.gz")):
        name = path.name.removesuffix(".jsonl.gz")
        if only and not name.startswith(tuple(only)):
            continue
        if name in WITH_PERMALINKS:
            path = data / "crawls2" / f"{WITH_PERMALINKS[name]}.jsonl.gz"
        rows = list(rows_of(path))
        if not any(map(_is_start, rows)):
            print(f"{name}: left out, it has no HTML page to begin with", file=sys.stderr)
            continue
        pages = ((content_of(row), row.get("wall")) for row in rows if row["status"] == 200)
        unfair = frozenset() if name.startswith("app_") else walls(pages)
        for order in orders:
            place = path if order == "own" else folder / f"{name}_{order}"
            log = Log(name, order, place, unfair, no_pages(rows))
            if order != "own":
                with gzip.open(log.path, "wt", encoding="utf-8", compresslevel=1) as lines:
                    lines.writelines(json.dumps(row) + "\n" for row in ordered(rows, order))
            yield log


def no_pages(rows: Iterable[dict[str, Any]]) -> frozenset[str]:
    """Return the contents that no HTML page has."""
    answers = [answer for row in rows if (answer := answer_of(row)) is not None]
    pages = {answer.content for answer in answers if answer.is_html}
    return frozenset(a.content for a in answers if a.content is not None) - pages


def _is_start(row: dict[str, Any]) -> bool:
    answer = answer_of(row)
    return answer is not None and answer.is_html


def ordered(rows: list[dict[str, Any]], order: str) -> list[dict[str, Any]]:
    """Return *rows* sorted by URL, or in the random order of that name."""
    start = next(filter(_is_start, rows))
    others = sorted((row for row in rows if row is not start), key=lambda row: row["url"])
    if order != "sorted":
        random.Random(order).shuffle(others)
    return [start, *others]


def row_of(log: Log, mode: str, results: dict[str, dict[str, Any]]) -> Row | None:
    """Return the line of a crawl; ``None`` while it or one it is compared with is not done."""
    keys = [log.key(each) for each in (STOCK, PROFILE, mode)]
    if not results.keys() >= set(keys):
        return None
    stock, profile, mine = (results[key] for key in keys)
    redundant = _redundant(stock, log.unfair)
    of_files = log.unfair | log.files
    return Row(
        log=log,
        mode=mode,
        redundant=redundant,
        saved=redundant - _redundant(mine, log.unfair),
        of_pages=1 - _redundant(mine, of_files) / max(1, _redundant(stock, of_files)),
        lost=len(profile["contents"].keys() - mine["contents"].keys() - log.unfair),
        audits=mine["stats"].get("urlnorm/learned/audits", 0),
        cpu=mine["cpu"],
        ratio=mine["cpu"] / profile["cpu"],
    )


def _redundant(result: dict[str, Any], unfair: frozenset[str]) -> int:
    contents: dict[str, int] = result["contents"]
    return sum(times - 1 for content, times in contents.items() if content not in unfair)


HEAD = (
    f"{'log':36}{'order':9}{'mode':11}{'redundant':>9}{'avoided':>9}{'pages':>7}{'lost':>6}{'audits':>8}"
    f"{'':8}{'cpu':>8}{'ratio':>7}"
)


def line(row: Row) -> str:
    share = f"{row.audits / row.saved:>7.1%} " if row.audits and row.saved > 0 else " " * 8
    return (
        f"{row.log.name:36}{row.log.order:9}{row.mode:11}{row.redundant:>9,}{row.avoided:>9.3f}"
        f"{row.of_pages:>7.3f}{row.lost:>6,}{row.audits:>8,}{share}{row.cpu:>8.1f}{row.ratio:>7.2f}"
    )


def summary(rows: list[Row]) -> Iterator[str]:
    """Return the means and totals of each kind of logs, mode and order."""
    groups: defaultdict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        kind = "applications" if row.log.is_app else "public logs"
        groups[kind, row.mode, row.log.order].append(row)
    for (kind, mode, order), group in groups.items():
        fair = [row for row in group if row.redundant >= WORTH]
        mean = sum(row.avoided for row in fair) / len(fair) if fair else 0.0
        pages = sum(row.of_pages for row in fair) / len(fair) if fair else 0.0
        saved, audits = (sum(getattr(row, what) for row in group) for what in ("saved", "audits"))
        ratio = sum(row.cpu for row in group) / sum(row.cpu / row.ratio for row in group)
        yield (
            f"{kind}, {mode}, {order}: mean of {len(fair)} logs {mean:.3f} avoided "
            f"({pages:.3f} of HTML pages), "
            f"{sum(row.lost for row in group):,} lost, {audits:,} audits for {saved:,} saved"
            f"{f' ({audits / saved:.1%})' if saved > 0 else ''}, processor time x {ratio:.2f}"
        )


def run(jobs: list[tuple[Log, str]], results: dict[str, Any], args: argparse.Namespace) -> None:
    """Do all crawls that are not done yet, and print a line when its crawls are done."""
    printed = set()
    print(HEAD, flush=True)

    def print_lines() -> None:
        for log, mode in jobs:
            row = row_of(log, mode, results) if mode != STOCK else None
            if row is not None and row not in printed:
                printed.add(row)
                print(line(row), flush=True)

    print_lines()
    with ThreadPoolExecutor(args.processes) as pool:
        missing = [(log, mode) for log, mode in jobs if log.key(mode) not in results]
        futures = {
            pool.submit(apart, replay, log.path, {**LIMITS, **MODES[mode]}): log.key(mode)
            for log, mode in missing
        }
        try:
            for number, future in enumerate(as_completed(futures), 1):
                key = futures[future]
                print(f"{number}/{len(futures)} {key}", file=sys.stderr)
                if error := future.exception():
                    print(f"{key}: {error!r}", file=sys.stderr)
                    continue
                results[key] = found = future.result()
                if found["errors"] or found["finish_reason"] != "finished":
                    print(
                        f"{key}: {found['errors']} errors, {found['finish_reason']}",
                        file=sys.stderr,
                    )
                if args.json:
                    replace_file(args.json, json.dumps(results))
                print_lines()
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            pool.shutdown(wait=False, cancel_futures=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--orders", nargs="+", choices=ORDERS, default=["own"])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--keep", nargs="+", choices=MODES, default=[])
    args = parser.parse_args()
    modes = list(dict.fromkeys((STOCK, PROFILE, *args.modes)))  # others are compared with these
    before = json.loads(args.json.read_text()) if args.json and args.json.exists() else {}
    results = {key: each for key, each in before.items() if key.split()[2] in args.keep}
    with tempfile.TemporaryDirectory() as folder:
        wanted = list(logs(args.data, args.only, args.orders, Path(folder)))
        if not wanted:
            parser.error(f"no such logs in {args.data / 'crawls'}")
        run([(log, mode) for log in wanted for mode in modes], results, args)
    rows = [row_of(log, mode, results) for mode in modes[1:] for log in wanted]
    print("\n" + "\n".join(summary([row for row in rows if row is not None])))


if __name__ == "__main__":
    main()
