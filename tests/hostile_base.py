"""Sites that teach a rule by honest redirects, and then break it where a crawler trusts it.

`visit` crawls one. Sites with a base of `Hostile` come in three stages, each linked to from the page
before: links that teach (a twin that redirects to its page), links to twins of further pages (which
go wrong), links to those pages themselves.
"""

from __future__ import annotations

import html
import json
import random
from typing import Any, ClassVar

from loopback import Crawl, Reply, crawl, redirect

BARE, WWW = "http://shop.test", "http://www.shop.test"

#: So many redirects teach a rule. They are spread over `SECTIONS`: what one section does may
#: be the doing of one of many owners.
TAUGHT, VICTIMS = 36, 12
SECTIONS = ("old", "shop", "help")

#: One request at a time, in the order of the links, whatever its host.
IN_ORDER = {
    "ADDONS": {"scrapy_urlnorm.Addon": 900},
    "CONCURRENT_REQUESTS": 1,
    "CONCURRENT_ITEMS": 4,
    "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue",
    "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
    "RETRY_TIMES": 1,
}

_WORDS = """
amber anchor apple arrow autumn barley basket beacon birch blossom bramble bridge bronze
candle canyon cedar cherry cliff clover copper coral cotton cradle crystal daisy dawn delta
ember falcon feather fern flint forest fountain garden ginger glacier granite harbour hazel
heron honey island ivory jasmine juniper kettle lagoon lantern laurel lemon lilac linen
maple marble meadow melon mirror mountain nectar nettle oak ocean olive orchard otter pearl
pebble pepper pine plum poppy prairie quartz raven reed river robin rose saffron sage salmon
sparrow spruce summit thistle thunder timber tulip valley velvet violet walnut willow winter
"""
WORDS = _WORDS.split()

Link = str | tuple[str, dict[str, Any]]


def article(name: str, *links: Link, head: str = "") -> Reply:
    """A page of a hundred words of its own; a link may carry arguments of its request."""
    chance = random.Random(name)
    text = " ".join(chance.choices(WORDS, k=120))
    anchors = []
    for link in links:
        url, options = link if isinstance(link, tuple) else (link, {})
        data = f" data-request='{json.dumps(options)}'" if options else ""
        anchors.append(f'<li><a href="{html.escape(url)}"{data}>.</a></li>')
    body = f"<h1>{html.escape(name)}</h1><p>{text}</p><ul>{''.join(anchors)}</ul>"
    text = f"<html><head>{head}</head><body>{body}</body></html>"
    return Reply(200, text.encode(), {"Content-Type": "text/html; charset=utf-8"})


class Hostile:
    """Twins on one host redirect to their pages on another, until they do not any more."""

    alias, canonical = BARE, WWW
    spider = "hostile_spiders.Links"
    arguments: ClassVar[dict[str, Any]] = {}
    settings: ClassVar[dict[str, Any]] = {}

    def __init__(self, taught: int = TAUGHT, victims: int = VICTIMS) -> None:
        self.taught = [self.pair(f"/{SECTIONS[n % 3]}/{n}") for n in range(taught)]
        self.victims = [self.pair(f"/new/{n}") for n in range(victims)]
        self.answers: dict[str, Reply] = {}
        for twin, page in self.taught:
            self.answers[twin] = redirect(page)
            self.answers[page] = article(page)
        for twin, page in self.victims:
            self.answers[page] = article(page)
            self.answers[twin] = self.broken(twin, page)
        self.lead(*self.stages())

    @property
    def home(self) -> str:
        return self.canonical + "/"

    @property
    def wanted(self) -> set[str]:
        """Names of pages that a crawl without learning must have fetched."""
        return {page for _, page in self.victims}

    def pair(self, path: str) -> tuple[str, str]:
        """URLs of the twin and of the page that *path* stands for."""
        return self.alias + path, self.canonical + path

    def broken(self, twin: str, page: str) -> Reply:
        """What the twin of a victim is answered with."""
        raise NotImplementedError

    def stages(self) -> list[list[Link]]:
        return [
            [twin for twin, _ in self.taught],
            [self.twin_link(twin) for twin, _ in self.victims],
            [page for _, page in self.victims],
        ]

    def twin_link(self, twin: str) -> Link:
        return twin

    def lead(self, *stages: list[Link]) -> None:
        """Link to each stage from its own page, and there to the next one.

        Priorities keep stages apart: their order holds in any queue.
        """
        hubs = [self.home, *(f"{self.canonical}/stage-{n}" for n in range(1, len(stages)))]
        for n, (hub, links) in enumerate(zip(hubs, stages, strict=True)):
            ranked = [ranked_link(link, -10 * n) for link in links]
            ranked += [ranked_link(link, -10 * n - 5) for link in hubs[n + 1 : n + 2]]
            self.answers[hub] = article(f"hub {n}", *ranked)
        self.answers.setdefault(self.alias + "/", redirect(self.home))

    def __call__(self, url: Any) -> Reply:
        return self.answers.get(url, Reply(404))


def ranked_link(link: Link, priority: int) -> Link:
    url, options = link if isinstance(link, tuple) else (link, {})
    return url, {"priority": priority, **options}


def visit(hostile: Hostile, folder: object, **settings: Any) -> Crawl:
    """Crawl the site; *folder* is what ``{folder}`` in its settings stands for."""
    own = {**IN_ORDER, **hostile.settings, **settings}
    own = json.loads(json.dumps(own).replace("{folder}", str(folder)))
    return crawl(hostile, [hostile.home], own, spider=hostile.spider, **hostile.arguments)
