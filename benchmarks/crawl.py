"""What a whole crawl costs: processor time a response, stock Scrapy beside this package.

    python benchmarks/crawl.py [PAGES] [--shop]

Crawls a site on loopback whose every page links to forty others, in one spelling each, so that
all crawls fetch the same pages. The shop, by stock Scrapy and the add-on alone, is a site where learning
saves most: each list of goods comes under 48 URLs, by ``orderby``, ``pagesize`` and ``viewmode``, which
say nothing, beside ``cpu-type``, which does. The site runs in a process of its own; every crawl does
too, on a JOBDIR of its own where it has one. The process that mines is counted. The rounds take
turns, and the fastest counts. With Redis (a
server of its own, on a socket file) the dupefilter of scrapy-redis stands beside ours, both under
Scrapy's scheduler; without redis-server or scrapy-redis they are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import json
import os
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
    others = ((number * 7 + step) % pages for step in range(LINKS))
    targets = (f"/p{other}?c=1&v={other % 2}" for other in others)
    links = "".join(f'<li><a href="{target}">a page of the shop</a></li>\n' for target in targets)
    return f"<html><body><h1>{number}</h1><ul>{links}</ul></body></html>".encode()


CHOICES = {
    "orderby": ("name", "price", "date"),
    "pagesize": ("10", "20", "50"),
    "viewmode": ("grid", "list"),
    "cpu-type": ("a", "b", "c", "d", ""),
}
GOODS = 40  #: of each list


def list_of_goods(url: str) -> bytes:
    """A list of the shop, or the page of one of its goods."""
    path, _, query = url.partition("?")
    chosen = dict(pair.split("=") for pair in query.split("&") if pair)
    links = []
    if path.startswith("/list"):
        for name, values in CHOICES.items():
            for value in values:
                others = {**chosen, name: value}
                links.append(f"{path}?{'&'.join(f'{key}={others[key]}' for key in sorted(others))}")
        kind = chosen.get("cpu-type", "")
        goods = [n for n in range(GOODS) if not kind or "abcd"[n % 4] == kind]
        links += [f"/goods{path}/{n}" for n in goods]
    links += [f"/list{n}" for n in range(20)]
    said = f"{path} {chosen.get('cpu-type', '')}"
    shown = "".join(f'<li><a href="{link}">{link.partition("?")[0]}</a></li>\n' for link in links)
    return f"<html><body><h1>{said}</h1><ul>{shown}</ul></body></html>".encode()


async def serve(pages: int, is_shop: bool) -> None:
    """Answer until standard input ends; print the port first."""
    ready: dict[str, bytes] = {}

    def answered(url: str) -> bytes:
        if url not in ready:
            number = url.partition("?")[0].removeprefix("/p").strip("/")
            body = list_of_goods(url) if is_shop else page(int(number or 0), pages)
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}"
            ready[url] = f"{head}\r\n\r\n".encode() + body
        return ready[url]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                while (await reader.readline()).strip():
                    pass
                writer.write(answered(line.split()[1].decode()))
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


def processor_time() -> float:
    """Return that of this process, and of those that it has waited for."""
    return sum(os.times()[:4])


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
    wall, begin = time.perf_counter(), processor_time()
    process.start()
    seconds, wall = processor_time() - begin, time.perf_counter() - wall
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
    parser.add_argument("--shop", action="store_true", help="a site with much to learn")
    args = parser.parse_args()
    if args.serve:
        asyncio.run(serve(args.pages, args.shop))
        return
    if args.crawl:
        crawl(*json.loads(args.crawl))
        return
    me = [sys.executable, __file__]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    crawls = CRAWLS
    if args.shop:
        crawls = {name: CRAWLS[name] for name in ("stock Scrapy", "scrapy-urlnorm")}
    elif shutil.which("redis-server") and importlib.util.find_spec("scrapy_redis"):
        crawls = CRAWLS | IN_REDIS
    best: dict[str, tuple[float, float]] = {}
    answers: dict[str, list[int]] = {name: [] for name in crawls}
    site = [str(args.pages), *(["--shop"] if args.shop else [])]
    with subprocess.Popen([*me, "--serve", *site], **pipes) as server:
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}/"
        for number in range(ROUNDS):
            for name, settings in crawls.items():
                print(f"round {number + 1} of {ROUNDS}: {name}", file=sys.stderr, flush=True)
                responses, cpu, wall = run(name, settings, url)
                before = best.get(name, (1e9, 1e9))
                answers[name].append(responses)
                best[name] = (min(before[0], cpu / responses), min(before[1], wall / responses))
        server.stdin.close()
    print("| crawl | responses | CPU a response | | time a response | |\n|---|---|---|---|---|---|")
    for name, (cpu, wall) in best.items():
        base = best[next((base for word, base in BASES.items() if word in name), "stock Scrapy")]
        cells = f"{cpu * 1000:.2f} ms | {cpu / base[0]:.2f} | {wall * 1000:.2f} ms"
        least, most = min(answers[name]), max(answers[name])
        told = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        print(f"| {name} | {told} | {cells} | {wall / base[1]:.2f} |")


if __name__ == "__main__":
    main()
