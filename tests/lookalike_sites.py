"""Sites of lookalikes: URLs look like duplicates, and their pages differ where nobody looks.

Each is a function of a URL. All have items under several URLs: ``ref`` never says anything, and a
view says something on some items only. Which these are is said by the variant of a site:

- spread: one item in three. late: one in three, whose views are the last links of the site.
- moving: one in three, and each page has a counter and an advertisement, new at each fetch.
- kind: one in three, all that are in a folder of their own. rare: one in sixty. all: every item.

Sites of a table have one variant each, in turns.
"""

from __future__ import annotations

import html
import itertools
import random
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from urllib.parse import parse_qsl

from moving_sites import HOME, HOST, words

if TYPE_CHECKING:
    from collections.abc import Iterator


class Link(NamedTuple):
    """What a spider makes of a link."""

    url: str
    callback: str = "parse"
    cb_kwargs: dict[str, str] = {}  # noqa: RUF012 - a default that nobody changes
    meta: dict[str, str] = {}  # noqa: RUF012


class Shown(NamedTuple):
    """What a site answers; *content* names what a spider has to see, "" for no page."""

    status: int
    headers: dict[str, str]
    body: bytes
    content: str
    links: list[Link]
    items: list[dict[str, object]] = []  # noqa: RUF012
    delay: float = 0.0


class Site:
    """Items. `value` says what a view makes of one, `shows` where a page has that."""

    items = 60
    refs: ClassVar[tuple[str, ...]] = ("ref=1", "ref=2")
    views: ClassVar[tuple[str, ...]] = ("view=2", "view=3")
    early: ClassVar[tuple[str, ...]] = ("", *refs)  #: what of an exception is not late
    variants: ClassVar[tuple[str, ...]] = ("spread", "late", "moving", "kind")
    depth_limit = 0
    place = ""  #: a form of what `shows` returns
    latency, thinking = 0.1, 0.0
    start = HOME
    refused = flaky = frozenset()

    def __init__(self, variant: str = "spread") -> None:
        self.variant = variant
        self.draw, self.fetch = random.Random(variant), 0
        self.good: dict[str, str] = {}  # tokens of links

    def is_other(self, n: int) -> bool:
        """Whether an item is an exception."""
        return n % 60 == 31 if self.variant == "rare" else n % 3 == 1

    def value(self, n: int, query: dict[str, str]) -> str:
        return query.get("view", "") if self.is_other(n) else ""

    def shows(self, n: int, value: str) -> str:
        return self.place.format(words((n, value), 1))

    def link(self, n: int, url: str, view: str) -> Link:
        return Link(url)

    def links_of(self, n: int, value: str) -> list[Link]:
        return []

    def page(self, where: str, n: str, query: dict[str, str]) -> tuple[str, str, list[Link]]:
        """Return name, body and links of a page; no name if there is none."""
        number, value = int(n), self.value(int(n), query)
        body = f"<h1>{words(n, 3)}</h1><p>{words(n, 40)}</p>{self.shows(number, value)}"
        return f"item {n} {value}".strip(), body, self.links_of(number, value)

    def links(self) -> Iterator[tuple[bool, Link]]:
        """Yield the links of the first page, and whether each is late."""
        for n in range(self.items * (4 if self.variant == "rare" else 1)):
            is_other = self.is_other(n)
            base = f"{HOST}/{'wall' if is_other and self.variant == 'kind' else 'item'}/{n}"
            for view in ("", *self.refs, *self.views):
                is_late = is_other and self.variant == "late" and view not in self.early
                yield is_late, self.link(n, f"{base}?{view}" if view else base, view)

    def home(self) -> list[Link]:
        links = list(self.links())
        random.Random(7).shuffle(links)
        return [link for _, link in sorted(links, key=lambda each: each[0])]

    def __call__(self, url: str) -> Shown:
        self.fetch += 1
        path, _, query = url.removeprefix(HOST).partition("?")
        where, _, n = path[1:].rpartition("/")
        if path == "/":
            name, body, links = "home", "<h1>home</h1>", self.home()
        elif where == "photo":
            name, body, links = f"photo {n}", f"<h1>A photo</h1><p>{words(n, 30)}</p>", []
        else:
            name, body, links = self.page(where, n, dict(parse_qsl(query)))
        if not name:
            return Shown(404, {}, b"<html><body>there is no such page</body></html>", "", [])
        if self.variant == "moving":
            ad = words(self.draw.random(), 6)
            body += f'<div class="ad">{ad}</div><p>Visitor number {1000 + self.fetch}</p>'
        body += "".join(f'<a href="{html.escape(link.url)}">.</a>' for link in links)
        text = f"<html><head><title>site</title></head><body>{body}</body></html>"
        headers = {"Content-Type": "text/html"}
        if where == "item" or where == "wall":
            headers |= self.headers_of(int(n), dict(parse_qsl(query)))
            items, more = self.got(int(n), url, dict(parse_qsl(query)))
            return Shown(200, headers, text.encode(), name, links + more, items)
        return Shown(200, headers, text.encode(), name, links)

    def headers_of(self, n: int, query: dict[str, str]) -> dict[str, str]:
        return {}

    def got(
        self, n: int, url: str, query: dict[str, str]
    ) -> tuple[list[dict[str, object]], list[Link]]:
        """Return the items that a spider gets out of a page, and links of its own making."""
        return [], []


class LinkTargets(Site):
    """A gallery: its views have the same text, and lead to other photos."""

    variants = (*Site.variants, "rare")

    def links_of(self, n, value):
        return [Link(f"{HOST}/photo/{words((n, value, at), 1)}{n}") for at in range(3)]


#: Where no text is shown, and views differ, by the names of the sites.
PLACES = {
    "Srcset": '<img src="/blank.gif" srcset="/photos/{}.jpg 2x">',
    "State": '<script>window.__INITIAL_STATE__={{"name": "{}"}};</script>',
    "HiddenAttribute": "<div hidden><p>{}</p></div>",
    "Comment": "<!-- {} -->",
}


class TrafficLights(Site):
    """Whether a branch has a book is said by the colour of a picture alone."""

    variants = ("moving", "kind")
    views = ("branch=1", "branch=2")

    def value(self, n, query):
        branch = int(query.get("branch", 0)) if self.is_other(n) else 0
        return ("red", "yellow", "green")[(n // 3 + branch) % 3]

    def shows(self, n, value):
        return f'<p>Available: <img src="/icons/{value}.png"></p>'


class Order(Site):
    """The way back has the words of the way there, in another order."""

    def shows(self, n, value):
        ways = words((n, "way"), 4).title().split()
        at = int(value or 0)
        return self.place.format(*ways[at:], *ways[:at])


ORDERS = {
    "WordOrder": "<p>From {} To {} By {} At {}</p>",
    "CellOrder": f"<table><tr>{4 * '<td>{}</td>'}</tr></table>",
}


class PricesRise(Site):
    """Sizes differ in their prices, all of which rise once, in mid-crawl."""

    refs = ("ref=1", "ref=2", "ref=3")
    views = ("size=S", "size=M", "size=L")
    variants = ("moving", "all")

    def is_other(self, n):
        return self.variant == "all" or super().is_other(n)

    def value(self, n, query):
        return query.get("size", "S") if self.is_other(n) else "S"

    def shows(self, n, value):
        cents = 1000 + 97 * n + 250 * "SML".index(value)
        if self.fetch > (70 if self.variant == "all" else 80):
            cents += cents // 32
        return f'<p class="price">Price: {cents // 100}.{cents % 100:02} EUR</p>'


class ListInTheBox(Site):
    """News have a box of random titles; where it stands, statutes have their own paragraphs."""

    items = 90
    variants = ("late",)
    early = ()

    def is_other(self, n):
        return n >= self.items - 40

    def shows(self, n, value):
        draw = random.Random(f"{n} {value}") if self.is_other(n) else self.draw
        lines = "".join(f"<li>{words(draw.randrange(500), 4)}</li>" for _ in range(4))
        return f'<div class="box"><ul class="list">{lines}</ul></div>'


class Tabs(Site):
    """Reviews have the page of their item; a spider is *asked* to read them in another way."""

    views = ("tab=reviews",)
    variants = ("spread", "late", "kind")
    asked: ClassVar[dict[str, Any]] = {}

    def link(self, n, url, view):
        return Link(url, **self.asked) if view in self.views and self.is_other(n) else Link(url)


TABS = {
    "Tabs": {"callback": "parse_reviews"},
    "TabsByArguments": {"cb_kwargs": {"what": "reviews"}},
    "TabsByMeta": {"meta": {"what": "reviews"}},
}


class Rim(Site):
    """Of lists at depth 2 one in ten is new; what it links to is linked one deeper too."""

    items = 30
    depth_limit = 4
    latency = 0.0
    variants = ("spread", "moving")

    def home(self):
        return [Link(f"{HOST}/section/{n}") for n in range(10)] + super().home()

    def page(self, where, n, query):
        if where == "item":
            return super().page(where, n, {})
        name = f"{where} {n}"
        if where == "section":
            links = [f"list/{n}?sort={at}" for at in range(10)] + [f"index/{n}"]
        elif where == "list" and query["sort"] == "9":
            name, links = f"{name} another", [f"group/{n}-1", f"group/{n}-2"]
        else:
            more = {"index": [f"further/{n}"], "further": [f"group/{n}-1", f"group/{n}-2"]}
            links = more.get(where, [f"rim/{n}"] if where == "group" else [])
        body = f"<h1>{name}</h1><p>{words(name, 30)}</p>"
        return name, body, [Link(f"{HOST}/{each}") for each in links]


class ShortLinks(Site):
    """An item has short links beside its own; its view to print is another page on one in three."""

    variants = ("spread", "moving")
    refs = ("a=1", "s1", "s2", "s3")
    early = ("", *refs)
    views = ("print=1",)

    def links(self):
        """Yield the links, those to print last."""
        for is_late, link in super().links():
            yield ("print" in link.url, is_late), link

    def link(self, n, url, view):
        is_short = view.startswith("s")
        return Link(f"{HOST}/s/{n + 1000 * int(view[1:])}") if is_short else Link(url)

    def value(self, n, query):
        return "in full" if "print" in query and self.is_other(n) else ""

    def shows(self, n, value):
        return f"<p>{words((n, value), 20)}</p>"

    def page(self, where, n, query):
        return super().page(where, str(int(n) % 1000), query)


class Tokens(Site):
    """The links of a list are good until it is shown again."""

    views = ()
    variants = ("spread", "moving")

    def home(self):
        links, lists = super().home(), [Link(f"{HOST}/list/{n}") for n in range(10, 26)]
        return links[:40] + lists[:8] + links[40:70] + lists[8:] + links[70:]

    def page(self, where, n, query):
        if where == "get":
            is_good = self.good.get(n) == query["token"]
            return f"file {n}" if is_good else "", f"<h1>File</h1><p>{words(n, 30)}</p>", []
        if where == "list":
            self.good |= {f"{n}-{at}": f"{self.draw.getrandbits(64):016x}" for at in range(10)}
            urls = [f"{HOST}/get/{k}?token={v}" for k, v in self.good.items() if k[:2] == n]
            return f"list {n}", f"<h1>Files {n}</h1><p>{words(n, 30)}</p>", list(map(Link, urls))
        return super().page(where, n, query)


class ByItem(Site):
    """A page says nothing of its view, but by what a spider reads and no comparison of pages does."""

    def got(self, n, url, query):
        about = {"name": words(n, 3), "url": url, "text": words(n, 40)}
        moves = {"at": 1_700_000_000.5 + self.fetch, "id": f"{self.draw.getrandbits(128):032x}"}
        return [about | moves | {"price": self.price(n, self.value(n, query))}], []

    def price(self, n, value):
        return 10 + n % 7 + len(value)


class ByClass(ByItem):
    """A class says what is in stock."""

    variants = ("late",)
    place = '<ul><li class="size {}">in stock</li></ul>'


class ByHeader(ByItem):
    """A header does."""

    variants = ("moving",)

    def headers_of(self, n, query):
        return {"X-Price": str(self.price(n, self.value(n, query)))}


class ByAnswer(ByItem):
    """A callback asks for the price elsewhere, which takes longer for some pages than for others."""

    variants, thinking = ("spread",), 1.0


class ByRequest(Site):
    """A spider makes a request of its own of the view."""

    variants = ("kind",)

    def page(self, where, n, query):
        if where == "api":
            return f"answer {n}", f"<p>{words(n, 30)}</p>", []
        return super().page(where, n, query)

    def got(self, n, url, query):
        return [], [Link(f"{HOST}/api/{n}-{self.value(n, query)}")]


class Rare(Site):
    """Some of the items, between one in two hundred and one in ten, are others in each view.

    The variant is a seed. Half of these sites have leaves only; in the others a view leads to photos.
    """

    def __init__(self, variant):
        super().__init__(variant)
        draw = random.Random(f"rare {variant}")
        self.items = draw.randint(60, 200)
        share, self.has_photos = 0.005 * 20 ** draw.random(), draw.random() < 0.5
        self.others = {n for n in range(self.items) if draw.random() < share}

    def is_other(self, n):
        return n in self.others

    def links_of(self, n, value):
        return LinkTargets.links_of(self, n, value) if self.has_photos else []

    def page(self, where, n, query):
        name, body, links = super().page(where, n, query)
        return name, body + f"<p>{self.value(int(n), query)}</p>", links


class SeeAlso(Site):
    """Each fetch of an item has a link to another photo, which no other page has."""

    items = 100

    def is_other(self, n):
        return False

    def links_of(self, n, value):
        return [Link(f"{HOST}/photo/{self.fetch}")]


class Loop(Site):
    """A tree in which the folder ``/infra/www/`` is the root again, as a symbolic link makes it."""

    folders: ClassVar = {
        "/": ("infra/", "docs/", "a.html", "b.html", "c.html"),
        "/infra/": ("www/", "x.html", "y.html"),
        "/docs/": ("1.html", "2.html", "3.html", "4.html"),
    }
    contents: ClassVar = {*folders} | {
        f"{folder}{name}" for folder, names in folders.items() for name in names if "." in name
    }

    def __call__(self, url):
        here = url.removeprefix(HOST)
        path = here.replace("/infra/www/", "/")
        while path != (path := path.replace("/infra/www/", "/")):
            pass
        links = [Link(url + name) for name in self.folders.get(path, ())]
        named = "".join(f"<a href={link.url}>{link.url.split('/')[-2:]}</a>" for link in links)
        body = f"<html><body><h1>{words(path, 3)}</h1><p>{words(path, 40)}</p>{named}</body></html>"
        return Shown(200, {"Content-Type": "text/html"}, body.encode(), path, links)


def of_table(base: type[Site], name: str, values: dict[str, Any]) -> list[type[Site]]:
    """Return a kind of site for each of *values* of its attribute *name*."""
    variants = itertools.cycle(base.variants)
    return [
        type(each, (base,), {name: value, "variants": (next(variants),)})
        for each, value in values.items()
    ]


SITES = [ByItem, ByClass, ByHeader, ByAnswer, ByRequest, TrafficLights, LinkTargets]
SITES += [PricesRise, ListInTheBox, Rim, ShortLinks, Tokens]
SITES += of_table(Site, "place", PLACES) + of_table(Order, "place", ORDERS)
SITES += of_table(Tabs, "asked", TABS)
#: All of them, by a name to ask for.
CASES = {f"{kind.__name__}-{each}": (kind, each) for kind in SITES for each in kind.variants}
