"""What `scrapy-urlnorm dedupe` takes for a large list of URLs.

    python benchmarks/dedupe.py FILE [--urls 1000000]

The list is the URLs of FILE (one a line, plain or gzipped), and, until there are enough, the same
again with a parameter more (``v=0``, then ``v=1``, ...). So hosts, paths and names are those of a real
list, nearly every line is another page, and nearly every line has a query, which takes twice the time
of a URL without one. The start is included in the processor time.
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


def measured(path: str) -> tuple[float, float, float]:
    """Return processor seconds, seconds, and the peak memory in MB."""
    start = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "scrapy_urlnorm", "dedupe", "-q", path],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
    )
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"dedupe ended with status {status}")
    return used.ru_utime + used.ru_stime, time.monotonic() - start, used.ru_maxrss / 1024


def main() -> None:
    """Print one line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("file", help="URLs, one a line, plain or .gz")
    parser.add_argument("--urls", type=int, default=1_000_000, help="lines of the list")
    args = parser.parse_args()
    data = Path(args.file).read_bytes()
    lines = (gzip.decompress(data) if args.file.endswith(".gz") else data).splitlines()
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        file.writelines(line + b"\n" for line in islice(spread(lines), args.urls))
        file.flush()
        used, taken, memory = measured(file.name)
    print(
        f"{used / args.urls * 1e6:.1f} µs of processor time a URL, {taken:.1f} s, "
        f"{args.urls / taken:,.0f} URLs a second, {memory:.0f} MB"
    )


if __name__ == "__main__":
    main()
