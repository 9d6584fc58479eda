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
import shutil
import subprocess
import tempfile
import time
from hashlib import sha1
from pathlib import Path
from typing import TYPE_CHECKING, Any

from processes import apart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DIGEST = "0" * 16
CHUNK = 100_000
SAMPLE = 20_000
COLUMNS = ("store", "keys", "memory a key", "disk a key", "adds/s", "checks/s")


def keys(begin: int, end: int) -> list[bytes]:
    """Fingerprints number *begin* to *end*."""
    return [sha1(b"%d" % n, usedforsecurity=False).digest() for n in range(begin, end)]


def rate(call: Callable[[bytes], object], *parts: range) -> float:
    """How many calls a second there are, with each of the keys."""
    seconds = 0.0
    for part in parts:
        items = keys(part.start, part.stop)
        begin = time.perf_counter()
        for item in items:
            call(item)
        seconds += time.perf_counter() - begin
    return sum(map(len, parts)) / seconds


def chunks(count: int, step: int = CHUNK) -> list[range]:
    return [range(begin, min(begin + CHUNK, count)) for begin in range(0, count, step)]


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


def local(store: Any, count: int) -> dict[str, float]:
    """Measure a store in this process, key by key."""
    keys(0, CHUNK)  # what the interpreter needs anyway is there now
    before = resident()
    adds = rate(store.add, *chunks(count))
    grown = resident() - before
    checks = rate(store.__contains__, *chunks(count, max(CHUNK, count // 10)))
    return {"memory": grown / count, "adds": adds, "checks": checks}


def remote(
    server: Any, count: int, add: Callable[[bytes], object], check: Callable[[bytes], object]
) -> dict[str, float]:
    """Measure a store in Redis: filled first, then a sample, key by key."""
    add(keys(-1, 0)[0])  # what connections and scripts need is there now
    before = server.info("memory")["used_memory"]
    rate(add, *chunks(count))
    grown = server.info("memory")["used_memory"] - before
    adds, checks = rate(add, range(count, count + SAMPLE)), rate(check, range(SAMPLE))
    return {"memory": grown / count, "adds": adds, "checks": checks}


def measure(kind: str, count: int, folder: Path) -> dict[str, float]:
    """Measure one store with *count* keys."""
    from scrapy_urlnorm.stores import open_store

    if kind == "set":
        return local(set(), count)
    if kind in ("memory", "sqlite"):
        path = folder / kind
        with open_store(kind if kind == "memory" else f"sqlite:{path}", digest=DIGEST) as store:
            found = local(store, count)
        return found | ({"disk": path.stat().st_size / count} if path.exists() else {})
    import redis

    with redis_server(folder) as url:
        server = redis.Redis.from_url(url)
        if kind == "redis":
            with open_store(url, digest=DIGEST, spider="spider") as store:
                return remote(server, count, store.add, store.__contains__)

        def add(key: bytes) -> bool:  # as scrapy_redis.dupefilter.RFPDupeFilter does
            return server.sadd("spider:dupefilter", key.hex()) == 1

        return remote(server, count, add, add)


KINDS = ("set", "memory", "sqlite", "redis", "scrapy-redis")


def row(kind: str, count: int, result: dict[str, float]) -> str:
    sizes = (f"{result[what]:.1f} B" if what in result else "-" for what in ("memory", "disk"))
    rates = (f"{result[what]:,.0f}" for what in ("adds", "checks"))
    return f"| {' | '.join((kind, f'{count:,}', *sizes, *rates))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("counts", nargs="*", type=int, default=[1_000_000], metavar="KEYS")
    parser.add_argument("--stores", default=",".join(KINDS), help="(default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="for the files (default: a temporary one)")
    args = parser.parse_args()
    chosen = args.stores.split(",")
    if unknown := set(chosen) - set(KINDS):
        parser.error(f"unknown stores {sorted(unknown)}; known: {', '.join(KINDS)}")
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    for count in args.counts:
        for kind in chosen:
            if "redis" in kind and shutil.which("redis-server") is None:
                continue
            with tempfile.TemporaryDirectory(dir=args.folder) as folder:
                print(row(kind, count, apart(measure, kind, count, Path(folder))), flush=True)


if __name__ == "__main__":
    main()
