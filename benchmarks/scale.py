"""How mining grows: processor time and memory for logs of any size, and whether the rules agree.

    python benchmarks/scale.py ROWS [--ways memory,disk,disk2,spark]

The log is that of scale_log.py. `memory` keeps all rows in memory, `disk` lets them leave it,
`disk2` shares the sites out to two processes, and `spark` (the extra spark) groups
them in PySpark on this machine. Each way runs in a process of its own. Seconds are processor time,
with all children, reading the log included. Memory is the most that all these processes held at one
time, pages that they share counted once (PSS, as Linux tells it, looked at twice a second). Of the
rules a digest is shown: equal digests, equal rules with equal evidence.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import wait
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from processes import new_process, processor_seconds
from scale_log import ROWS_A_SITE, write

from scrapy_urlnorm.learning import mine, rows_by_site
from scrapy_urlnorm.logs import read_log

if TYPE_CHECKING:
    from scrapy_urlnorm import SiteRule


def _mined(path: str, way: str) -> list[SiteRule]:
    if way == "spark":
        from pyspark.sql import SparkSession

        from scrapy_urlnorm import spark

        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        session = builder.getOrCreate()
        rules = spark.mine(session.read.json(path))
        java = session.sparkContext._gateway.proc
        session.stop()
        java.stdin.close()
        java.wait()  # or its time, and that of its children, would not count
        return rules
    # Any log is small, or none.
    rows_by_site._IN_MEMORY = sys.maxsize if way == "memory" else 0
    return mine(read_log(path), processes=2 if way == "disk2" else 1)


def measure(path: str, way: str) -> dict[str, Any]:
    """Mine one way, and return the figures."""
    rules = _mined(path, way)
    text = json.dumps([rule.as_dict() for rule in rules], sort_keys=True)
    return {
        "seconds": processor_seconds(),
        "rules": sum(rule.active for rule in rules),
        "digest": blake2b(text.encode(), digest_size=4).hexdigest(),
    }


def _family(process: int) -> list[int]:
    """Return a process and all below it, as far as they still run."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            children[int(path.read_text().rpartition(")")[2].split()[1])].append(
                int(path.parent.name)
            )
    found = [process]
    for each in found:
        found += children[each]
    return found


def _held(processes: list[int]) -> int:
    """Return the kilobytes that *processes* hold now; a page that several share counts once."""
    held = 0
    for process in processes:
        with suppress(OSError):
            for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    held += int(line.split()[1])
    return held


def watched(path: str, way: str) -> dict[str, Any]:
    """Run `measure` in a process of its own; add the memory of that and of all below it."""
    most, begin = 0, time.monotonic()
    with new_process() as process:
        number = process.submit(os.getpid).result()
        found = process.submit(measure, path, way)
        while not wait([found], 0.5).done:
            most = max(most, _held(_family(number)))
        return found.result() | {"memory": most / 1024, "elapsed": time.monotonic() - begin}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", type=int)
    parser.add_argument("--ways", default="memory,disk,disk2")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log.jsonl")
        with log.open("w") as stream:
            write(args.rows, stream)
        print(
            "| rows | sites | way | processor s | elapsed s | peak memory | active rules | digest |"
        )
        print("|---|---|---|---|---|---|---|---|", flush=True)
        for way in args.ways.split(","):
            found = watched(str(log), way)
            print(
                f"| {args.rows:,} | {max(1, args.rows // ROWS_A_SITE):,} | {way} | {found['seconds']:.0f} "
                f"| {found['elapsed']:.0f} | {found['memory']:,.0f} MB | {found['rules']:,} | `{found['digest']}` |",
                flush=True,
            )


if __name__ == "__main__":
    main()
