"""What hostile sites cost a crawl that learns: pages lost, requests, processor time.

    python benchmarks/hostile.py [SITE ...] [--taught 30] [--pages 285] [--layout staged]

Crawls every site of ``tests/hostile_*.py`` on loopback twice, with ``URLNORM_LEARN="off"`` and at
its default (or ``--learn``), and prints a line for each: pages that reached the callback, pages
lost (only with learning off) and gained, requests, and seconds of processor time. ``lost`` must
be 0 in every line.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent / "tests"), str(Path(__file__).parent.parent)]

import hostile_lies
import hostile_sites
import hostile_twins
import hostile_ways
from hostile_base import AT_ONCE, LAYOUTS, RETRYING, named, visit
from loopback import stop_worker

SITES = named(hostile_sites, hostile_twins, hostile_ways, hostile_lies)
HEAD = ("site", "pages", "lost", "new", "requests", "learning", "cpu s", "learning", "ended")
ROW = "{:36} {:>6} {:>5} {:>4} {:>9} {:>9} {:>6} {:>9}  {}"


def main() -> None:
    """Crawl, and print a line for each site."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("site", nargs="*", help="all if none is named")
    parser.add_argument("--taught", type=int, default=30, help="redirects that teach")
    parser.add_argument("--pages", type=int, default=285, help="pages to lose")
    parser.add_argument("--layout", choices=LAYOUTS, default="staged")
    parser.add_argument("--at-once", action="store_true", help="16 requests at once, not 1")
    parser.add_argument("--retries", action="store_true", help="send again what fails")
    parser.add_argument("--learn", help="URLNORM_LEARN, its default if not given")
    parser.add_argument("--deadline", type=float, default=120, help="seconds for a crawl")
    options = parser.parse_args()
    more = {**(AT_ONCE if options.at_once else {}), **(RETRYING if options.retries else {})}
    modes = [{"URLNORM_LEARN": "off"}, {"URLNORM_LEARN": options.learn} if options.learn else {}]
    print(ROW.format(*HEAD), flush=True)
    total = 0
    for name in options.site or SITES:
        results = []
        for mode in modes:
            site = SITES[name](options.taught, options.pages, layout=options.layout)
            with tempfile.TemporaryDirectory() as folder:
                results.append(visit(site, folder, deadline=options.deadline, **more, **mode))
        (off, asked_off), (on, asked_on) = results
        lost, new = set(off.pages) - set(on.pages), set(on.pages) - set(off.pages)
        total += len(lost)
        cells = (len(set(off.pages)), len(lost), len(new), len(asked_off), len(asked_on))
        times = (f"{off.cpu_seconds:.1f}", f"{on.cpu_seconds:.1f}")
        print(ROW.format(name, *cells, *times, on.error or on.reason), flush=True)
    print(f"pages lost in all: {total}")
    stop_worker()


if __name__ == "__main__":
    main()
