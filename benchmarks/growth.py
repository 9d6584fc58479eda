"""How time grows with what a hostile site chooses.

    python benchmarks/growth.py lengths            the time of one URL, from 1 to 64 KB
    python benchmarks/growth.py hosts              learning on up to 10,000 hosts

`lengths`: for each profile the shapes of tests/url_shapes.py that take longest at 64 KB, and the
median of all shapes; processor time in milliseconds, the shortest of three runs. A column is four
times as long as the one before: linear time is four times as much.

`hosts`: each host has pages under http that redirect to https, three of them asked for, until that
is a rule; then one page arrives and its other spelling is found. The processor time of all that
for one host, in milliseconds, which is to be the same whatever their number; with the file of
learned rules, so that writing it is in there.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy import Request

if TYPE_CHECKING:
    from collections.abc import Callable

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from online_parts import Parts
from url_shapes import SHAPES, rule_sets

KILOBYTES = (1, 4, 16, 64)


def milliseconds(function: Callable[[str], object], url: str) -> float:
    """Return the shortest processor time of three runs."""
    times = []
    for _ in range(3):
        start = time.process_time()
        function(url)
        times.append(time.process_time() - start)
    return min(times) * 1e3


def lengths(worst: int) -> None:
    """Print time by length, for the *worst* shapes of every rule set and for the median shape."""
    print("| rules | shape | " + " | ".join(f"{size} KB" for size in KILOBYTES) + " |")
    print("|---|---|" + "---|" * len(KILOBYTES))
    for rules, normalizer in rule_sets().items():
        rows = {
            name: [milliseconds(normalizer.normalize, shape(size * 1024)) for size in KILOBYTES]
            for name, shape in SHAPES.items()
        }
        slowest = sorted(rows, key=lambda name: rows[name][-1], reverse=True)[:worst]
        median = [statistics.median(column) for column in zip(*rows.values(), strict=True)]
        for name, times in [*((name, rows[name]) for name in slowest), ("(median)", median)]:
            cells = " | ".join(f"{value:.2f}" for value in times)
            print(f"| {rules} | {name} | {cells} |")


HOSTS = (250, 500, 1_000, 2_000, 4_000, 10_000)


def hosts(counts: tuple[int, ...]) -> None:
    """Print the time of learning one rule on each of so many hosts."""
    print("| hosts | rules | requests suppressed or audited | ms a host |")
    print("|---|---|---|---|")
    for count in counts:
        with tempfile.TemporaryDirectory() as folder, closing(Parts(JOBDIR=folder)) as parts:
            start = time.process_time()
            for number in range(count):
                _visit(parts, f"h{number}.example")
            parts.learner.idle()
            parts.learner.close()
            taken = time.process_time() - start
            seen = parts.stats["suppressed"] + parts.stats["audits"]
            print(
                f"| {count:,} | {parts.stats['rules']:,} | {seen:,} | {taken / count * 1e3:.2f} |"
            )


def _visit(parts: Parts, host: str) -> None:
    for folder in "abc":
        parts.schedule(Request(f"http://{host}/{folder}/1"))
        request = parts.leave()
        assert request is not None
        parts.learner.redirect(request, f"https://{host}/{folder}/1", status=301)
        parts.under_way.discard(request)
    parts.fetch(f"https://{host}/a/2")
    parts.fetch(f"http://{host}/a/2")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("lengths", help="time by the length of a URL")
    verb.add_argument("--worst", type=int, default=5, help="how many shapes to show")
    verb = verbs.add_parser("hosts", help="time of learning by the number of hosts")
    verb.add_argument("--count", type=int, nargs="+", default=HOSTS, help="how many hosts")
    args = parser.parse_args()
    if args.verb == "hosts":
        hosts(tuple(args.count))
    else:
        lengths(args.worst)


if __name__ == "__main__":
    main()
