"""Four crawlers of the shop with one queue and one seen-set in Redis: ``python -m shop.many``.

Each is ``SCRAPY_PROJECT=many scrapy crawl shop``, with the settings of ``settings_many.py``.
What one of them learns about the shop while it crawls, the others take over.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
CRAWLERS = 4
JOIN_SECONDS = 1.5  # between one crawler and the next: together all would learn the same
ITEMS = "100"  # in a category: of the small shop each would see too little to learn from
KEYS = "shop:seen:*"
COLUMNS = {
    "requests": "requests sent",
    "redirects": "redirects",
    "fetched": "pages fetched",
    "twice": "fetched twice",
    "learned": "rules learned",
}


def main():
    parser = argparse.ArgumentParser(prog="python -m shop.many", description=__doc__)
    parser.add_argument("--redis", metavar="URL", help="a Redis; without it one is started")
    url = parser.parse_args().redis
    if importlib.util.find_spec("redis") is None:
        sys.exit("redis is not installed: pip install redis")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # and clean up, as after Ctrl-C
    with ExitStack() as stack:
        url = url or stack.enter_context(redis_server())
        stack.enter_context(emptied(url))
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        results = [Path(folder, f"{n}.json") for n in range(CRAWLERS)]
        environment = {"SCRAPY_PROJECT": "many", "SHOP_REDIS": url, "SHOP_ITEMS": ITEMS}
        os.environ.update(environment)
        run(results)
        show([json.loads(path.read_text(encoding="utf-8")) for path in results])


@contextmanager
def redis_server():
    """Start a Redis of our own, on a Unix socket and on no port, and end it."""
    program = shutil.which("redis-server")
    if program is None:
        sys.exit(
            "redis-server is not installed: apt-get install redis-server, or brew install redis; "
            "or name one that runs: --redis redis://HOST:6379/0"
        )
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "--port", "0", "--unixsocket", f"{folder}/socket", "--save", ""]
        process = subprocess.Popen([*command, "--dir", folder], stdout=subprocess.DEVNULL)
        try:
            while not Path(folder, "socket").exists():
                if process.poll() is not None:
                    sys.exit(f"redis-server ended with {process.returncode}")
                time.sleep(0.01)
            yield f"unix://{folder}/socket"
        finally:
            process.terminate()
            process.wait()


@contextmanager
def emptied(url):
    """Connect; refuse a Redis in which such a crawl left something, delete what ours leaves."""
    import redis

    def keys():
        return list(client.scan_iter(KEYS))

    with redis.Redis.from_url(url) as client:
        try:
            if keys():
                sys.exit(f"{url} has keys like {KEYS}: delete them, or name another")
        except redis.RedisError as error:
            sys.exit(f"{url} does not answer: {error}")
        try:
            yield
        finally:
            if left := keys():
                client.delete(*left)


def run(results):
    """Run a crawler for each path in *results*, side by side; each leaves there what it counted."""
    crawlers = []
    try:
        for path in results:
            command = [sys.executable, "-m", "scrapy", "crawl", "shop", "-s", f"SHOP_RESULT={path}"]
            crawlers.append(subprocess.Popen(command, cwd=PROJECT))
            time.sleep(JOIN_SECONDS)
        for crawler in crawlers:
            if crawler.wait():
                sys.exit(f"a crawler ended with {crawler.returncode}")
    finally:
        for crawler in crawlers:
            crawler.terminate()
            crawler.wait()


def show(crawls):
    from shop.site import PAGES

    print(f"{'':10}" + "".join(f"{label:>18}" for label in COLUMNS.values()))
    for number, result in enumerate(crawls, 1):
        print(f"crawler {number:<2}" + "".join(f"{result[name]:>18,}" for name in COLUMNS))
    print(f"{'together':10}" + "".join(f"{sum(r[name] for r in crawls):>18,}" for name in COLUMNS))
    pages = [page for result in crawls for page in result["pages"]]
    print(f"distinct pages {len(set(pages))}, lost of the {len(PAGES)} of the shop:", end=" ")
    print(f"{len(PAGES - set(pages))}, the same again: {len(pages) - len(set(pages))}")
    print(f"the start page came {pages.count('home')} times: start requests are not filtered")


if __name__ == "__main__":
    main()
