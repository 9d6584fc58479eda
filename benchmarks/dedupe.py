"""What `scrapy-urlnorm dedupe` takes for a large list of URLs.

    python benchmarks/dedupe.py FILE [--urls 1000000] [--processes 1,2]

The list is the URLs of FILE (one a line, plain or gzipped), and, until there are enough, the same
again with a parameter more (``v=0``, then ``v=1``, ...). So hosts, paths and names are those of a real
list, nearly every line is another page, and nearly every line has a query, which takes twice the time
of a URL without one. Processor time is that of all processes, the start included.
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
import time
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def spread(lines: list[bytes]) -> Iterator[bytes]:
    """Yield *lines*, then the same with a parameter more, and so on."""
    yield from lines
    for number in count():
        for line in lines:
            url, mark, fragment = line.partition(b"#")
            yield b"%b%cv=%d%b%b" % (url, b"&" if b"?" in url else b"?", number, mark, fragment)


def measured(path: str, processes: int) -> tuple[float, float, float]:
    """Return processor seconds, seconds, and the peak memory of the largest process in MB."""
    verb = ["dedupe", "-q", path, "--processes", str(processes)]
    start = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "scrapy_urlnorm", *verb],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
    )
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"dedupe ended with status {status}")
    return used.ru_utime + used.ru_stime, time.monotonic() - start, used.ru_maxrss / 1024


def main() -> None:
    """Print a line for each number of processes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("file", help="URLs, one a line, plain or .gz")
    parser.add_argument("--urls", type=int, default=1_000_000, help="lines of the list")
    parser.add_argument("--processes", default="1,2", help="numbers of them, with commas")
    args = parser.parse_args()
    data = Path(args.file).read_bytes()
    lines = (gzip.decompress(data) if args.file.endswith(".gz") else data).splitlines()
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        file.writelines(line + b"\n" for line in islice(spread(lines), args.urls))
        file.flush()
        print("| processes | processor µs a URL | seconds | URLs a second | MB |")
        print("|---|---|---|---|---|")
        for processes in map(int, args.processes.split(",")):
            used, taken, memory = measured(file.name, processes)
            cells = f"{used / args.urls * 1e6:.1f} | {taken:.1f} | {args.urls / taken:,.0f}"
            print(f"| {processes} | {cells} | {memory:.0f} |", flush=True)


if __name__ == "__main__":
    main()
