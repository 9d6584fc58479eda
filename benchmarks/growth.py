"""How time grows with what a hostile site chooses.

    python benchmarks/growth.py lengths            the time of one URL, from 1 to 64 KB

`lengths`: for each profile the shapes of tests/url_shapes.py that take longest at 64 KB, and the
median of all shapes; processor time in milliseconds, the shortest of three runs. A column is four
times as long as the one before: linear time is four times as much.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("lengths", help="time by the length of a URL")
    verb.add_argument("--worst", type=int, default=5, help="how many shapes to show")
    args = parser.parse_args()
    lengths(args.worst)


if __name__ == "__main__":
    main()
