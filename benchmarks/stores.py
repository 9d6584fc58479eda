"""Bytes a key and checks a second of every store, beside Python's set and scrapy-redis.

    python benchmarks/stores.py 1_000_000 10_000_000

Each store is measured in a process of its own, with the same keys: SHA-1 digests, as Scrapy's
fingerprints are. Making them is not timed. "add" puts in keys that are new, "check" asks for keys
that are there, both one at a time, in Redis one round trip each, as a crawl does: it is measured by
`SAMPLE` keys once it is full. It is started here, on a socket file and without persistence; stores
in it are passed over where there is no redis-server.

"memory" is what the process (or Redis: ``used_memory``) grew by, "disk" the size of the file.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from hashlib import sha1
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DIGEST = "0" * 16
CHUNK = 100_000
SAMPLE = 20_000
COLUMNS = ("store", "keys", "memory a key", "disk a key", "adds/s", "checks/s")


def keys(begin: int, end: int) -> list[bytes]:
    """Fingerprints number *begin* to *end*."""
    return [sha1(b"%d" % n, usedforsecurity=False).digest() for n in range(begin, end)]


class Clock:
    """How many calls a second there are."""

    def __init__(self) -> None:
        self.calls = 0
        self.seconds = 0.0

    def over(self, call: Callable[[bytes], object], items: list[bytes]) -> None:
        """Call it with each item."""
        begin = time.perf_counter()
        for item in items:
            call(item)
        self.seconds += time.perf_counter() - begin
        self.calls += len(items)

    @property
    def rate(self) -> float:
        return self.calls / self.seconds


def resident() -> int:
    """Bytes of memory of this process that are not pages of files."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this needs Linux")


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """Yield the URL of a Redis with nothing in it."""
    path = folder / "redis.sock"
    command = ["redis-server", "--port", "0", "--unixsocket", str(path), "--save", ""]
    server = subprocess.Popen([*command, "--dir", str(folder)], stdout=subprocess.DEVNULL)
    try:
        while not path.exists():
            if server.poll() is not None:
                raise RuntimeError(f"redis-server ended with {server.returncode}")
            time.sleep(0.01)
        yield f"unix://{path}"
    finally:
        server.terminate()
        server.wait()


def local(store: Any, count: int, path: Path | None) -> dict[str, float]:
    """Measure a store in this process, key by key."""
    if hasattr(store, "open"):
        store.open()
    keys(0, CHUNK)  # what the interpreter needs anyway is there now
    before = resident()
    adds, checks = Clock(), Clock()
    for begin in range(0, count, CHUNK):
        adds.over(store.add, keys(begin, min(begin + CHUNK, count)))
    grown = resident() - before
    for begin in range(0, count, max(CHUNK, count // 10)):
        checks.over(store.__contains__, keys(begin, begin + min(CHUNK, count)))
    if hasattr(store, "close"):
        store.close()
    return {
        "memory": grown / count,
        "disk": path.stat().st_size / count if path else 0,
        "adds": adds.rate,
        "checks": checks.rate,
    }


def remote(
    url: str, count: int, add: Callable[[bytes], object], check: Callable[[bytes], object]
) -> dict[str, float]:
    """Measure a store in Redis: filled first, then a sample, key by key."""
    import redis

    server = redis.Redis.from_url(url)
    add(keys(-1, 0)[0])  # what connections and scripts need is there now
    before = server.info("memory")["used_memory"]
    filling, adds, checks = Clock(), Clock(), Clock()
    for start in range(0, count, CHUNK):
        filling.over(add, keys(start, min(start + CHUNK, count)))
    grown = server.info("memory")["used_memory"] - before
    adds.over(add, keys(count, count + SAMPLE))
    checks.over(check, keys(0, SAMPLE))
    return {"memory": grown / count, "disk": 0, "adds": adds.rate, "checks": checks.rate}


def measure(kind: str, count: int, folder: Path) -> dict[str, float]:
    """Measure one store with *count* keys."""
    from scrapy_urlnorm.stores import open_store

    if kind == "set":
        return local(set(), count, None)
    if kind == "memory":
        return local(open_store("memory", digest=DIGEST), count, None)
    if kind == "sqlite":
        path = folder / kind
        return local(open_store(f"sqlite:{path}", digest=DIGEST), count, path)
    with redis_server(folder) as url:
        if kind == "redis":
            with open_store(url, digest=DIGEST, spider="spider") as store:
                return remote(url, count, store.add, store.__contains__)
        return scrapy_redis(url, count)


def scrapy_redis(url: str, count: int) -> dict[str, float]:
    """What scrapy_redis.dupefilter.RFPDupeFilter does with a fingerprint."""
    import redis

    server = redis.Redis.from_url(url)

    def add(key: bytes) -> bool:
        return server.sadd("spider:dupefilter", key.hex()) == 1

    return remote(url, count, add, add)


KINDS = ("set", "memory", "sqlite", "redis", "scrapy-redis")


def row(kind: str, count: int, result: dict[str, float]) -> str:
    """One line of the table."""
    cells = (
        kind,
        f"{count:,}",
        f"{result['memory']:.1f} B",
        f"{result['disk']:.1f} B" if result["disk"] else "-",
        f"{result['adds']:,.0f}",
        f"{result['checks']:,.0f}",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("counts", nargs="*", type=int, default=[1_000_000], metavar="KEYS")
    parser.add_argument("--stores", default=",".join(KINDS), help="(default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="for the files (default: a temporary one)")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    chosen = args.stores.split(",")
    if unknown := set(chosen) - set(KINDS):
        parser.error(f"unknown stores {sorted(unknown)}; known: {', '.join(KINDS)}")
    if args.one:
        print(json.dumps(measure(chosen[0], args.counts[0], args.folder)))
        return
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    for count in args.counts:
        for kind in chosen:
            if "redis" in kind and shutil.which("redis-server") is None:
                continue
            with tempfile.TemporaryDirectory(dir=args.folder) as folder:
                options = ["--one", "--stores", kind, "--folder", folder, str(count)]
                command = [sys.executable, str(Path(__file__)), *options]
                done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
            print(row(kind, count, json.loads(done.stdout)), flush=True)


if __name__ == "__main__":
    main()
