"""What a whole crawl costs: processor time a response, stock Scrapy beside this package.

    python benchmarks/crawl.py [PAGES]

Crawls a site on loopback whose every page links to forty others, in one spelling each, so that
all crawls fetch the same pages. The site runs in a process of its own; every crawl does too, on
a JOBDIR of its own where it has one. The rounds take turns, and the fastest counts. With Redis (a
server of its own, on a socket file) the dupefilter of scrapy-redis stands beside ours, both under
Scrapy's scheduler; without redis-server or scrapy-redis they are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from stores import redis_server

LINKS = 40
ROUNDS = 3
ADDON = {"ADDONS": {"scrapy_urlnorm.Addon": 900}}
OUR_SCHEDULER_OFF = {"SCHEDULER": "scrapy.core.scheduler.Scheduler"}
CRAWLS = {
    "stock Scrapy": {},
    "scrapy-urlnorm, learning off": {**ADDON, "URLNORM_LEARN": "off"},
    "scrapy-urlnorm": ADDON,
    "stock Scrapy, JOBDIR": {"JOBDIR": "job"},
    "scrapy-urlnorm, JOBDIR, Scrapy's scheduler": {**ADDON, **OUR_SCHEDULER_OFF, "JOBDIR": "job"},
    "scrapy-urlnorm, JOBDIR": {**ADDON, "JOBDIR": "job"},
}
IN_REDIS = {
    "scrapy-redis's dupefilter": {"DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter"},
    "scrapy-urlnorm, store in Redis": ADDON,
}
BASES = {"JOBDIR": "stock Scrapy, JOBDIR", "edis": "scrapy-redis's dupefilter"}


def page(number: int, pages: int) -> bytes:
    """A page of the site."""
    targets = (f"/p{(number * 7 + step) % pages}?c=1&v={step % 2}" for step in range(LINKS))
    links = "".join(f'<li><a href="{target}">a page of the shop</a></li>\n' for target in targets)
    return f"<html><body><h1>{number}</h1><ul>{links}</ul></body></html>".encode()


async def serve(pages: int) -> None:
    """Answer until standard input ends; print the port first."""
    ready = {}
    for number in range(pages):
        body = page(number, pages)
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n\r\n"
        ready[number] = head.encode() + body

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                while (await reader.readline()).strip():
                    pass
                path = line.split()[1].partition(b"?")[0]
                writer.write(ready[int(path.removeprefix(b"/p") if path != b"/" else 0)])
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


def crawl(url: str, settings: dict[str, object]) -> None:
    """Run one crawl here; print its responses and its processor time."""
    import scrapy
    from scrapy.crawler import CrawlerProcess

    class Spider(scrapy.Spider):
        name = "shop"

        async def start(self):
            yield scrapy.Request(url)

        def parse(self, response):
            for href in response.css("a::attr(href)").getall():
                yield response.follow(href)

    quiet = {"LOG_ENABLED": False, "TELNETCONSOLE_ENABLED": False, "DOWNLOAD_DELAY": 0}
    wide = {"CONCURRENT_REQUESTS": 16, "CONCURRENT_REQUESTS_PER_DOMAIN": 16}
    process = CrawlerProcess({**quiet, **wide, **settings})
    crawler = process.create_crawler(Spider)
    process.crawl(crawler)
    wall, begin = time.perf_counter(), time.process_time()
    process.start()
    seconds, wall = time.process_time() - begin, time.perf_counter() - wall
    print(json.dumps([crawler.stats.get_value("response_received_count"), seconds, wall]))


def run(name: str, settings: dict[str, object], url: str) -> tuple[int, float, float]:
    """Run one crawl in a process of its own: responses, seconds of processor and wall."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        if name in IN_REDIS:
            redis_url = stack.enter_context(redis_server(Path(folder)))
            settings = {**settings, "REDIS_URL": redis_url}
            if "ADDONS" in settings:
                settings["URLNORM_STORE"] = redis_url
        job = [sys.executable, __file__, "--crawl", json.dumps([url, settings])]
        done = subprocess.run(job, cwd=folder, stdout=subprocess.PIPE, check=True)
    return tuple(json.loads(done.stdout))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="?", type=int, default=3000)
    parser.add_argument("--crawl", help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        asyncio.run(serve(args.pages))
        return
    if args.crawl:
        crawl(*json.loads(args.crawl))
        return
    me = [sys.executable, __file__]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    crawls = CRAWLS
    if shutil.which("redis-server") and importlib.util.find_spec("scrapy_redis"):
        crawls = CRAWLS | IN_REDIS
    best: dict[str, tuple[float, float]] = {}
    with subprocess.Popen([*me, "--serve", str(args.pages)], **pipes) as server:
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}/"
        for number in range(ROUNDS):
            for name, settings in crawls.items():
                print(f"round {number + 1} of {ROUNDS}: {name}", file=sys.stderr, flush=True)
                responses, cpu, wall = run(name, settings, url)
                before = best.get(name, (1e9, 1e9))
                best[name] = (min(before[0], cpu / responses), min(before[1], wall / responses))
        server.stdin.close()
    print(f"{args.pages:,} pages, {responses:,} responses")
    print("| crawl | CPU a response | | time a response | |\n|---|---|---|---|---|")
    for name, (cpu, wall) in best.items():
        base = best[next((base for word, base in BASES.items() if word in name), "stock Scrapy")]
        cells = f"{cpu * 1000:.2f} ms | {cpu / base[0]:.2f} | {wall * 1000:.2f} ms"
        print(f"| {name} | {cells} | {wall / base[1]:.2f} |")


if __name__ == "__main__":
    main()
