"""Bytes a key and checks a second of every store, beside Python's set and scrapy-redis.

    python benchmarks/stores.py 1_000_000 10_000_000

Each store is measured in a process of its own, with the same keys: SHA-1 digests, as Scrapy's
fingerprints are. Making them is not timed. "add" puts in keys that are new, "check" asks for keys
that are there, both one at a time, in Redis one round trip each, as a crawl does: it is measured by
`SAMPLE` keys once it is full. It is started here, on a socket
file and without persistence; a store whose package or program is missing is passed over. "redis
pages" are cluster keys, each with a value of 48 bytes, put in and asked for one at a time.

"memory" is what the process (or Redis: ``used_memory``) grew by, "disk" the size of the file.
"CPU" is the time that the crawler's process needs for one, on a processor of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
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
    from collections.abc import Callable, Iterable, Iterator

DIGEST = "0" * 16
CHUNK = 100_000
SAMPLE = 20_000
COLUMNS = ("store", "keys", "memory a key", "disk a key", "adds/s", "CPU", "checks/s", "CPU")


def keys(begin: int, end: int) -> list[bytes]:
    """Fingerprints number *begin* to *end*."""
    return [sha1(b"%d" % n, usedforsecurity=False).digest() for n in range(begin, end)]


class Clock:
    """Seconds, of the wall and of the processor, spent in calls."""

    def __init__(self) -> None:
        self.calls = 0
        self.wall = self.cpu = 0.0

    def over(self, call: Callable[[bytes], object], items: list[bytes]) -> None:
        """Call it with each item."""
        wall, cpu = time.perf_counter(), time.process_time()
        for item in items:
            call(item)
        self.wall += time.perf_counter() - wall
        self.cpu += time.process_time() - cpu
        self.calls += len(items)


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
        **rates(adds, checks),
    }


def rates(adds: Clock, checks: Clock) -> dict[str, float]:
    """What both clocks say."""
    return {
        "adds": adds.calls / adds.wall,
        "checks": checks.calls / checks.wall,
        "cpu an add": adds.cpu / adds.calls,
        "cpu a check": checks.cpu / checks.calls,
    }


def remote(
    url: str,
    count: int,
    add: Callable[[bytes], object],
    check: Callable[[bytes], object],
    fill: Callable[[Iterable[bytes]], object] | None = None,
) -> dict[str, float]:
    """Measure a store in Redis: filled key by key or by *fill*, then a sample key by key."""
    import redis

    def fill_by_key(chunk: Iterable[bytes]) -> None:
        for key in chunk:
            add(key)

    fill = fill or fill_by_key

    server = redis.Redis.from_url(url)
    fill(keys(-1, 0))  # what connections and scripts need is there now
    before = server.info("memory")["used_memory"]
    begin = time.perf_counter()
    for start in range(0, count, CHUNK):
        fill(keys(start, min(start + CHUNK, count)))
    seconds = time.perf_counter() - begin
    grown = server.info("memory")["used_memory"] - before
    adds, checks = Clock(), Clock()
    adds.over(add, keys(count, count + SAMPLE))
    checks.over(check, keys(0, SAMPLE))
    say(f"  filled at {count / seconds:,.0f} keys/s")
    return {"memory": grown / count, "disk": 0, **rates(adds, checks)}


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
        if kind == "redis pages":
            with open_store(url, digest=DIGEST, spider="spider") as store:
                return pages(url, count, store)
        return scrapy_redis(url, count)


def pages(url: str, count: int, table: Any) -> dict[str, float]:
    """What a crawl puts into the table of pages that it shares."""

    def put(key: bytes) -> None:
        table.put_page(key, key + key + key[:8])

    return remote(url, count, put, table.page)


def scrapy_redis(url: str, count: int) -> dict[str, float]:
    """What scrapy_redis.dupefilter.RFPDupeFilter does with a fingerprint."""
    import redis

    server = redis.Redis.from_url(url)

    def fill(chunk: Iterable[bytes]) -> None:
        pipeline = server.pipeline(transaction=False)
        for key in chunk:
            pipeline.sadd("spider:dupefilter", key.hex())
        pipeline.execute()

    def add(key: bytes) -> bool:
        return server.sadd("spider:dupefilter", key.hex()) == 1

    return remote(url, count, add, add, fill)


KINDS = {
    "set": "Python's set (Scrapy)",
    "memory": "memory",
    "sqlite": "sqlite",
    "redis": "redis",
    "redis pages": "redis pages",
    "scrapy-redis": "scrapy-redis's SET",
}
NEEDS = {"redis": "redis", "redis pages": "redis", "scrapy-redis": "redis"}


def is_missing(kind: str) -> str | None:
    """What *kind* needs and is not there."""
    package = NEEDS.get(kind)
    if package and importlib.util.find_spec(package) is None:
        return f"the package {package}"
    if package == "redis" and shutil.which("redis-server") is None:
        return "redis-server"
    return None


def row(kind: str, count: int, result: dict[str, float]) -> str:
    """One line of the table."""
    cells = (
        KINDS[kind],
        f"{count:,}",
        f"{result['memory']:.1f} B",
        f"{result['disk']:.1f} B" if result["disk"] else "-",
        f"{result['adds']:,.0f}",
        f"{result['cpu an add'] * 1e6:.2f} us",
        f"{result['checks']:,.0f}",
        f"{result['cpu a check'] * 1e6:.2f} us",
    )
    return f"| {' | '.join(cells)} |"


def say(text: str) -> None:
    """Write to standard error: the table alone goes to standard output."""
    print(text, file=sys.stderr, flush=True)


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
            if missing := is_missing(kind):
                say(f"{kind}: needs {missing}, passed over")
                continue
            with tempfile.TemporaryDirectory(dir=args.folder) as folder:
                options = ["--one", "--stores", kind, "--folder", folder, str(count)]
                command = [sys.executable, str(Path(__file__)), *options]
                done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
            print(row(kind, count, json.loads(done.stdout)), flush=True)


if __name__ == "__main__":
    main()
