"""What it costs to read the content of a page, beside Scrapy's own parsing of that page.

    python benchmarks/pages.py DIRECTORY [--pages 60] [--rounds 5]

Pages are HTML files below DIRECTORY: the documentation of Python or Django, for example, as
Debian's packages python3.11-doc and python-django-doc hold it (``apt-get download``, ``dpkg -x``).
For each page: Scrapy's parsing and one CSS selection of all links, as most spiders do; what a
crawl that learns reads (`shown_by`, `names_of`), and what the crawl log reads (`row_of`), all of
the tree that the spider uses. Processor time, each work on a response of its
own that is parsed already, medians of the rounds, all work in turn.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from statistics import median
from time import process_time
from typing import TYPE_CHECKING

from scrapy.http import HtmlResponse

from scrapy_urlnorm.logs.page_identity import row_of, shown_by
from scrapy_urlnorm.logs.self_links import names_of

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL = 20_000
"""Bytes. Pages below, and others, are shown apart."""

SCRAPY = ("parse", "links")
WORK: dict[str, Callable[[HtmlResponse], object]] = {
    "parse": lambda response: response.selector,
    "links": lambda response: response.css("a::attr(href)").getall(),
    "shown_by": shown_by,
    "names_of": names_of,
    "crawl log: row_of": lambda response: row_of(response, response.url),
}


def response_of(body: bytes, *, parsed: bool) -> HtmlResponse:
    """Return a response that nothing was read of yet."""
    headers = {"Content-Type": "text/html; charset=utf-8"}
    response = HtmlResponse("https://docs.example/a/page", body=body, headers=headers)
    if parsed:
        _ = response.selector
    return response


def measure(body: bytes, rounds: int) -> dict[str, float]:
    """Return the median seconds of each work on one page."""
    times: dict[str, list[float]] = {name: [] for name in WORK}
    for _ in range(rounds):
        for name, work in WORK.items():
            response = response_of(body, parsed=name != "parse")
            start = process_time()
            work(response)
            times[name].append(process_time() - start)
    return {name: median(found) for name, found in times.items()}


def show(title: str, pages: list[bytes], rounds: int) -> None:
    """Print the mean of all pages, and what share of Scrapy's own work it is."""
    if not pages:
        return
    found = [measure(body, rounds) for body in pages]
    scrapy = sum(times[name] for times in found for name in SCRAPY)
    print(f"{title}: {len(pages)} pages, {sum(map(len, pages)) / len(pages):,.0f} bytes each")
    for name in WORK:
        total = sum(times[name] for times in found)
        print(f"  {name:24} {total / len(pages) * 1e3:8.2f} ms {total / scrapy:8.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--pages", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    files = sorted(args.directory.rglob("*.html"))
    random.Random(1).shuffle(files)
    pages = [path.read_bytes() for path in files[: args.pages]]
    print("ms a page, and the share of parse + links")
    show(f"below {SMALL:,} bytes", [page for page in pages if len(page) < SMALL], args.rounds)
    show("larger", [page for page in pages if len(page) >= SMALL], args.rounds)


if __name__ == "__main__":
    main()
