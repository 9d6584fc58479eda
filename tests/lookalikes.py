"""Crawls of sites of lookalikes, in virtual time, and what they lose.

``PYTHONPATH=.:tests python tests/lookalikes.py [NAME ...]`` prints that; with ``--random FIRST N`` or
``--shops FIRST N``, that of sites that N seeds draw; with ``--bounds FIRST N``, how often the bound is broken that N crawls of
sites with rare exceptions say.
"""

from __future__ import annotations

import random
import sys
from collections import deque
from time import perf_counter

import lookalike_nodes
import lookalike_sites
from lookalike_sites import Link, Rare, Shown, Site
from random_shops import RandomShop
from random_sites import RandomSite
from scrapy import Request, Spider
from scrapy.http import HtmlResponse
from scrapy.utils.request import RequestFingerprinter
from simulation.crawl import Crawl
from simulation.plan import Plan

DRAWN = {"--random": RandomSite, "--shops": RandomShop}
CASES = {**lookalike_sites.CASES, **lookalike_nodes.CASES}


class Reader(Spider):
    def parse(self, response, **arguments): ...

    def parse_reviews(self, response, **arguments): ...


def found_by(request: Request, content: str) -> tuple:
    """Return a content, and how the spider was asked to read it."""
    callback = request.callback.__name__ if request.callback else "parse"
    return callback, (*sorted(request.cb_kwargs.items()),), request.meta.get("what", ""), content


def requests(site: Site, links: list[Link], request: Request, spider: Spider) -> list[Request]:
    """Return what a spider asks for after *request*, as far as its DEPTH_LIMIT allows."""
    depth, found = request.meta.get("depth", 0) + 1, []
    for url, callback, cb_kwargs, meta in links if depth <= (site.depth_limit or depth) else ():
        asked = None if callback == "parse" else getattr(spider, callback)
        meta = {**meta, "depth": depth}
        found.append(Request(url, asked, cb_kwargs=dict(cb_kwargs), meta=meta))
    return found


def stock(site: Site) -> tuple[set[tuple], int]:
    """Walk a site as stock Scrapy does: return what it finds, and how many requests it sends."""
    key, spider = RequestFingerprinter().fingerprint, Reader("stock")
    todo, found, sent = deque([Request(site.start)]), set(), 0
    seen = {key(todo[0])}
    while todo:
        request = todo.popleft()
        shown, sent = site(request.url), sent + 1
        if shown.content:
            found.add(found_by(request, shown.content))
        for new in requests(site, shown.links, request, spider):
            if key(new) not in seen:
                seen.add(key(new))
                todo.append(new)
    return found, sent


class Visit(Crawl):
    """A crawl with the add-on of a site that is a function of a URL."""

    spider = Reader

    def __init__(self, site: Site) -> None:
        super().__init__(Plan(1, latency=site.latency))
        self._thought = random.Random(1)
        self.site, self.settings = site, {"DEPTH_LIMIT": site.depth_limit}

    def answer(self, url):
        return Shown(*self.site(url.partition("#")[0]))

    def expected(self):
        return stock(type(self.site)(self.site.variant))[0]

    def thinking(self):
        return self._thought.expovariate(1 / self.site.thinking) if self.site.thinking else 0.0

    def response(self, request, answer):
        status, headers, body, *_ = answer
        return HtmlResponse(request.url, status, headers, body, request=request)

    def parse(self, request, answer):
        if answer.content:
            self.found.add(found_by(request, answer.content))
        asked = requests(self.site, answer.links, request, self.runs[0].crawler.spider)
        return [*answer.items, *asked]

    def figure(self, name: str) -> int:
        return self.stats.get(f"urlnorm/{name}", 0)


def missed(seed: int) -> tuple[int, int, int, int]:
    """Crawl a site with rare exceptions.

    Return how many requests were held at the end, how many of these were other pages, how many of
    these the summary says there may be, and how many pages were found.
    """
    visit = Visit(Rare(str(seed))).crawl()
    lost = sum(found[-1].startswith("item") for found in visit.lost)
    said = visit.figure("learned/held_at_end"), lost, visit.figure("learned/wrong_at_most")
    return *said, len(visit.found)


def bounds(first: int, seeds: int) -> None:
    """Print how often the bound that a crawl says is broken, and how wide it is."""
    crawls = [missed(seed) for seed in range(first, first + seeds)]
    broken = [first + at for at, (_, lost, most, _) in enumerate(crawls) if lost > most]
    widths = sorted(most / found for _, _, most, found in crawls)
    lost, held = sum(each[1] for each in crawls), sum(each[0] for each in crawls)
    print(f"broken in {len(broken)} of {seeds} crawls: {broken}")
    print(
        f"{lost} other pages among {held} held requests; the bound as a share of the pages found:"
    )
    print(
        f"median {widths[seeds // 2]:.3f}, nine in ten {widths[seeds * 9 // 10]:.3f}, most {widths[-1]:.3f}"
    )


def main(cases: dict[str, tuple[type[Site], str]]) -> None:
    """Print a line a site, and the sums; wrong_at_most is how many the summary says may be lost."""
    counted = ("saved", "learned/rules", "learned/audits", "learned/second_fetches")
    counted += ("learned/wrong_at_most", "errors")
    heads = ["contents", "found", "lost", "stock", "add-on", *counted, "seconds"]
    heads = [head.removeprefix("learned/") for head in heads]
    rows = []

    def say(case: str, row: list[int]) -> None:
        said = (f"{number:{len(head)}}" for head, number in zip(heads, row, strict=True))
        print(f"{case:24}", *said, flush=True)

    print(f"{'site':24}", *heads)
    for case, (kind, variant) in cases.items():
        begun, visit = perf_counter(), Visit(kind(variant)).crawl()
        (found, sent), figures = stock(kind(variant)), map(visit.figure, counted)
        row = [len({each[-1] for each in found}), len(found), len(visit.lost), sent]
        rows.append([*row, len(visit.sent), *figures, round(perf_counter() - begun, 1)])
        say(case, rows[-1])
    say("all", [round(sum(column)) for column in zip(*rows, strict=True)])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--bounds"]:
        bounds(*map(int, sys.argv[2:4]))
    elif (kind := DRAWN.get(" ".join(sys.argv[1:2]))) is not None:
        first, seeds = map(int, sys.argv[2:4])
        main({f"seed {each}": (kind, str(each)) for each in range(first, first + seeds)})
    else:
        named = {*sys.argv[1:]}
        main({c: of for c, of in CASES.items() if not named or {c, of[0].__name__} & named})
