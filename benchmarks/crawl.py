"""What a whole crawl costs: processor time a response, stock Scrapy beside this package.

    python benchmarks/crawl.py [PAGES] [--shop] [--moving KILOBYTES]

Crawls a site on loopback whose every page links to forty others, in one spelling each, so that
all crawls fetch the same pages. The shop, by stock Scrapy and the add-on alone, is a site where
learning saves most: each list of goods comes under 48 URLs, by ``orderby``, ``pagesize`` and
``viewmode``, which say nothing, beside ``cpu-type``, which does. Moving pages stand under four URLs
each, with an advertisement, a counter, related pages and news, others at each fetch; of their crawls
is said, too, how long they block the event loop (callbacks.py).

Every crawl runs in a process of its own, on a JOBDIR of its own where it has one. The process that
mines is counted. The rounds take turns, and the fastest counts. With Redis (a server of its own, on
a socket file) the dupefilter of scrapy-redis stands beside ours, both under Scrapy's scheduler;
without redis-server or scrapy-redis they are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import random
import shutil
import sys
import tempfile
import threading
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from callbacks import TimedLinks
from processes import apart, processor_seconds
from spider import ADDON, Links, crawl
from stores import redis_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LINKS = 40
ROUNDS = 3
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


def page(pages: int, url: str) -> bytes:
    number = int(url.partition("?")[0].removeprefix("/p").strip("/") or 0)
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


SPELLINGS = ("", "&ref=list", "&ref=menu", "&view=full")
WORDS = [f"{a}{b}{c}" for a in "bdfgklm" for b in "aeiou" for c in ("n", "rt", "st", "ndo", "ki")]
PHRASES = [" ".join(random.Random(n).choices(WORDS, k=6)) for n in range(300)]


def said(draw: random.Random, words: int) -> str:
    """Return phrases of about so many words: they come again, as those of real pages do."""
    return " ".join(draw.choices(PHRASES, k=-(-words // 6)))


def link(number: int, draw: random.Random, words: int = 3) -> str:
    return f'<a class="to" href="/item?id={number}">{said(draw, words)}</a>'


def moving_page(pages: int, size: int, fetches: Iterator[int], url: str) -> bytes:
    """A page of so many bytes, of which some are others at each of its fetches."""
    fetch = next(fetches)
    draw, news = random.Random(fetch), random.Random(fetch // 40)
    related = "".join(f"<li>{link(draw.randrange(pages), draw)}</li>" for _ in range(4))
    moving = (
        f'<div class="ad"><p>{said(draw, 6)}</p></div>'
        f"<p class=count>{said(random.Random(1), 2)} {1000 + fetch}</p>"
        f'<ul class="related">{related}</ul><ul class="news"><li>{said(news, 5)}</li></ul>'
    )
    number = int(url.partition("id=")[2].partition("&")[0] or 0)
    draw = random.Random(number)
    body = [f"<html><head><title>{said(draw, 4)}</title></head><body><h1>{said(draw, 3)}</h1>"]
    body.append(moving)
    for step in range(1, 6):
        for more in SPELLINGS:
            target = f"/item?id={(5 * number + step) % pages}{more.replace('&', '&amp;')}"
            body.append(f'<p><a href="{target}">{said(draw, 2)}</a></p>')
    left = size - sum(map(len, body)) + len(moving)  # so that no post comes and goes with it
    while left > 0:
        body.append(
            f'<div class="post odd" id="p{len(body)}"><h3>{link(number, draw)}</h3>'
            f'<p>{said(draw, 12)} <b>{said(draw, 2)}</b></p><img class="thumb left" src="/i/'
            f'{draw.randrange(99)}.png" alt="{said(draw, 1)}"></div>'
        )
        left -= len(body[-1])
    return "\n".join([*body, "</body></html>"]).encode()


@contextlib.contextmanager
def served(body_of: Callable[[str], bytes]) -> Iterator[str]:
    """Yield the URL of a server that answers each path with what *body_of* makes of it."""

    class Answers(BaseHTTPRequestHandler):
        protocol_version, wbufsize = "HTTP/1.1", -1  # head and body are sent at once

        def do_GET(self) -> None:
            body = body_of(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def measure(
    url: str, name: str, settings: dict[str, Any], spider: type[Links]
) -> tuple[int, float, float]:
    """Crawl; return the responses, and the seconds of processor and wall that each took."""
    quiet = {"LOG_ENABLED": False, "DOWNLOAD_DELAY": 0}
    wide = {"CONCURRENT_REQUESTS": 16, "CONCURRENT_REQUESTS_PER_DOMAIN": 16}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        os.chdir(folder)
        if name in IN_REDIS:
            redis_url = stack.enter_context(redis_server(Path(folder)))
            settings = {"REDIS_URL": redis_url, "URLNORM_STORE": redis_url, **settings}
        crawler, before = crawl(url, {**quiet, **wide, **settings}, spider)
        seconds = processor_seconds() - before
    if isinstance(crawler.spider, TimedLinks):
        print(f"{name}: {crawler.spider.clock}", flush=True)
    stats = crawler.stats.get_stats()
    responses = stats["response_received_count"]
    return responses, seconds / responses, stats["elapsed_time_seconds"] / responses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="?", type=int, default=3000)
    parser.add_argument("--shop", action="store_true", help="a site with much to learn")
    parser.add_argument("--moving", type=int, metavar="KILOBYTES", help="of pages that change")
    args = parser.parse_args()
    crawls, spider = CRAWLS, Links
    body_of: Callable[[str], bytes] = cache(partial(page, args.pages))
    if args.moving:
        body_of, spider = partial(moving_page, args.pages, 1024 * args.moving, count()), TimedLinks
    elif args.shop:
        body_of = cache(list_of_goods)
        crawls = {name: CRAWLS[name] for name in ("stock Scrapy", "scrapy-urlnorm")}
    elif shutil.which("redis-server") and importlib.util.find_spec("scrapy_redis"):
        crawls = CRAWLS | IN_REDIS
    found: dict[str, list[tuple[int, float, float]]] = {name: [] for name in crawls}
    with served(body_of) as url:
        for number in range(ROUNDS):
            for name, settings in crawls.items():
                print(f"round {number + 1} of {ROUNDS}: {name}", file=sys.stderr, flush=True)
                found[name].append(apart(measure, url, name, settings, spider))
    print("| crawl | responses | CPU a response | | time a response | |\n|---|---|---|---|---|---|")
    best = {name: list(map(min, zip(*rounds, strict=True))) for name, rounds in found.items()}
    for name, (least, cpu, wall) in best.items():
        base = best[next((base for word, base in BASES.items() if word in name), "stock Scrapy")]
        cells = f"{cpu * 1000:.2f} ms | {cpu / base[1]:.2f} | {wall * 1000:.2f} ms"
        most = max(found[name])[0]
        told = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        print(f"| {name} | {told} | {cells} | {wall / base[2]:.2f} |")


if __name__ == "__main__":
    main()
