"""Shops whose pages change from fetch to fetch, and some that mislead whoever learns from it.

A shop has items, each under its URL and under ``?sort=...``, which says nothing, unless a site
says otherwise. What a spider has to see is what the header ``X-Content`` names.
"""

from __future__ import annotations

import html
import random
from collections import Counter
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from loopback import Reply

if TYPE_CHECKING:
    from collections.abc import Hashable

HOST = "http://shop.test"
HOME = f"{HOST}/"
SORTS = ("price", "name")
FOLDERS = ("tea", "ink", "oak")


@lru_cache(maxsize=10_000)
def words(seed: Hashable, number: int) -> str:
    """Text that is the same for one seed."""
    draw = random.Random(str(seed))
    return " ".join(
        "".join(draw.choices("abcdefghiklmnoprstu", k=draw.randint(3, 8))) for _ in range(number)
    )


class Shop:
    """*items* in folders. A page differs from itself by what `noise` says."""

    def __init__(self, items: int = 90, seed: int = 1) -> None:
        self.items = items
        self.draw = random.Random(seed)
        self.fetches = count()
        self.views: Counter[str] = Counter()

    def urls(self) -> list[str]:
        """The URLs of the items, without parameters."""
        return [f"{HOST}/{FOLDERS[n % len(FOLDERS)]}/{n}" for n in range(self.items)]

    def __call__(self, url: str) -> Reply:
        parts = urlsplit(url)
        fetch = next(self.fetches)
        self.views[parts.path] += 1
        if parts.path == "/":
            name, body = "home", "<h1>home</h1>" + self.links()
        else:
            number, query = int(parts.path.rpartition("/")[2]), parse_qs(parts.query)
            name, body = self.name(number, query), self.item(number, query)
        body = self.noise(url, fetch, body)
        text = f"<html><head><title>shop</title></head><body>{body}</body></html>"
        headers = {"Content-Type": "text/html; charset=utf-8", "X-Content": name}
        return Reply(200, text.encode(), headers)

    def links(self) -> str:
        urls = [f"{url}{query}" for url in self.urls() for query in self.queries()]
        return "".join(f'<a href="{html.escape(url)}">.</a>' for url in urls)

    def queries(self) -> list[str]:
        return ["", *(f"?sort={sort}" for sort in SORTS)]

    def name(self, number: int, query: dict[str, list[str]]) -> str:
        """What the page is: a spider has to see each."""
        return f"item {words(number, 3)}"

    def item(self, number: int, query: dict[str, list[str]]) -> str:
        name = self.name(number, query)
        return f"<h1>{name}</h1><p>{words(name, 30)}</p>"

    def contents(self) -> set[str]:
        """What a crawl without this package sees."""
        found = {"home"}
        for number, url in enumerate(self.urls()):
            for query in self.queries():
                found.add(self.name(number, parse_qs(urlsplit(url + query).query)))
        return found

    def noise(self, url: str, fetch: int, body: str) -> str:
        return body


def box(name: str, *lines: str) -> str:
    return f'<div class="{name}">' + "".join(f"<p>{line}</p>" for line in lines) + "</div>"


class Advertised(Shop):
    """One of forty advertisements at each fetch."""

    def noise(self, url, fetch, body):
        return box("ad", words(("ad", self.draw.randrange(40)), 6)) + body


class Counted(Shop):
    """A counter, and who is online."""

    def noise(self, url, fetch, body):
        names = sorted(words(("user", n), 1) for n in range(20) if self.draw.random() < 0.3)
        online = f"Online: {', '.join(names)}"
        return body + box("foot", f"Visitor number {1000 + fetch}", online)


class Related(Shop):
    """A box of four of its items, drawn anew."""

    def noise(self, url, fetch, body):
        drawn = self.draw.sample(range(self.items), 4)
        return body + box("related", *(words(n, 3) for n in drawn))


class News(Shop):
    """The latest news, which change every 40 fetches."""

    def noise(self, url, fetch, body):
        news = [words(("news", fetch // 40 + n), 4) for n in range(4)]
        return box("news", *news) + body


class Greeting(Shop):
    """A line of the visitor's own, which changes now and then."""

    def noise(self, url, fetch, body):
        return f"<p>Last seen: {words(('seen', fetch // 90), 3)}</p>" + body


class AllAtOnce(Advertised):
    def noise(self, url, fetch, body):
        for kind in (Counted, Related, News, Greeting):
            body = kind.noise(self, url, fetch, body)
        return super().noise(url, fetch, body)


class EveryReaderCounts(Shop):
    """Each fetch changes the number of views of that page."""

    def noise(self, url, fetch, body):
        return body + f"<p class=v>Views: {self.views[urlsplit(url).path]}</p>"


class NoiseThatBeginsLate(Related):
    """The pages hold still, until the 120th fetch."""

    def noise(self, url, fetch, body):
        return super().noise(url, fetch, body) if fetch > 120 else body


class TwoLayouts(Shop):
    """Each fetch has one of two menus, drawn at random."""

    def noise(self, url, fetch, body):
        if self.draw.random() < 0.5:
            return box("menu", "tea", "ink", "oak") + f"<main>{body}</main>"
        return f"<section>{body}</section>" + box("bar", "all", "new", "old")


# --- sites that mislead -------------------------------------------------------------------------


class SortMatters(AllAtOnce):
    """In one folder every third item is another page when it is sorted."""

    def name(self, number, query):
        is_other = "sort" in query and number % 3 == 2 and number % 9 == 2
        return super().name(number, query) + (f" by {query['sort'][0]}" if is_other else "")


class Outage(AllAtOnce):
    """For a while all pages are one, under status 200."""

    def noise(self, url, fetch, body):
        if 150 <= fetch < 170:
            return "<h1>down</h1><p>We are back soon. Thank you for your patience.</p>"
        return super().noise(url, fetch, body)


MOVING = (Shop, AllAtOnce, EveryReaderCounts, NoiseThatBeginsLate)
MISLEADING = (SortMatters, Outage, TwoLayouts)
