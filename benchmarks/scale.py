"""How mining grows: processor time and memory for logs of any size, and whether the rules agree.

    python benchmarks/scale.py ROWS [--ways memory,disk,disk2,spark]

The log is that of scale_log.py. `memory` keeps all rows in memory, `disk` lets them leave it (the
extra learn), `disk2` shares the sites out to two processes, and `spark` (the extra spark) groups
them in PySpark on this machine. Each way runs in a process of its own. Seconds are processor time,
with all children, reading the log included. Memory is the peak of the process and, where there are
others, the largest of those times their number: more than is ever held at once, as they share some.
For Spark it is that of Java and of the Python that starts it. Of the rules a digest is shown: equal
digests, equal rules with equal evidence.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_urlnorm.learning import mine, rows_by_site
from scrapy_urlnorm.logs import read_log

if TYPE_CHECKING:
    from scrapy_urlnorm import SiteRule

WAYS = ("memory", "disk", "disk2", "spark")


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


def measure(path: str, way: str) -> None:
    """Mine one way, and print the figures as JSON."""
    rules = _mined(path, way)
    text = json.dumps([rule.as_dict() for rule in rules], sort_keys=True)
    own, others = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    kilobytes = own.ru_maxrss + others.ru_maxrss * {"disk2": 2, "spark": 1}.get(way, 0)
    found = {
        "seconds": own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime,
        "memory": kilobytes / 1024,
        "rules": sum(rule.active for rule in rules),
        "digest": blake2b(text.encode(), digest_size=4).hexdigest(),
    }
    print(json.dumps(found))


def main() -> None:
    """Make the log, and measure each way."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rows")
    parser.add_argument("way", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("--ways", default="memory,disk,disk2")
    args = parser.parse_args()
    if args.way:
        measure(args.rows, args.way)
        return
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log.jsonl")
        generator = Path(__file__).with_name("scale_log.py")
        with log.open("wb") as stream:
            subprocess.run([sys.executable, generator, args.rows], stdout=stream, check=True)
        print("| rows | sites | way | processor seconds | peak memory | active rules | digest |")
        print("|---|---|---|---|---|---|---|", flush=True)
        rows = int(args.rows)
        for way in args.ways.split(","):
            command = [sys.executable, __file__, str(log), way]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
            found = json.loads(done.stdout.splitlines()[-1])
            print(
                f"| {rows:,} | {max(1, rows // 100):,} | {way} | {found['seconds']:.0f} "
                f"| {found['memory']:,.0f} MB | {found['rules']:,} | `{found['digest']}` |",
                flush=True,
            )


if __name__ == "__main__":
    main()
