"""Sites of lookalikes in which what differs stands beside what moves, or on a page that is a copy."""

from __future__ import annotations

import random
from typing import ClassVar
from zlib import crc32

from lookalike_sites import Link, Site, of_table
from moving_sites import HOST, words


class Node(Site):
    """What tells a view stands in one text, attribute or script with what is new at each fetch."""

    variants: ClassVar = ("late",)
    place = ""

    def shows(self, n, value):
        token = f"{self.draw.getrandbits(40):010x}"
        return self.place.format(words((n, value), 1), token, 1_700_000_000 + 7 * self.fetch)


NODES = {
    "Script": '<script>window.__STATE__={{"sku":"{0}","served":{2}}}</script>',
    "Call": '<script>boot({{user:null,page:"{0}",nonce:"{1}"}})</script>',
    "Props": '<div data-props=\'{{"sku":"{0}","csrf":"{1}"}}\'></div>',
    "Remark": "<!-- sku:{0};served:{2} -->",
    "Lazy": '<img src="/blank.gif" data-original="/photos/{0}.jpg?t={1}">',
    "Video": '<video src="https://cdn.test/v/{0}.mp4?Policy={1}"></video>',
    "Field": '<input type=hidden name=product value="{0}.{1}">',
}
#: It stands in another node beside that, of the same kind.
BESIDE = {
    "Fields": '<input type=hidden name=product value="{0}"><input type=hidden name=t value="{1}">',
    "Leaflet": '<a href="/out?{1}">partner</a><a rel=nofollow href="/files/{0}.pdf">leaflet</a>',
}


class Few(Node):
    """One item in sixteen is an exception, and its views are the last links."""

    variants: ClassVar = ("few",)
    items = 120

    def is_other(self, n):
        return n % 16 == 5

    def links(self):
        for is_late, link in super().links():
            n = int(link.url.partition("?")[0].rpartition("/")[2])
            yield is_late or ("view" in link.url and self.is_other(n)), link


class StatusLine(Node):
    """How many look at an item; or that it is sold out in a size."""

    def value(self, n, query):
        return "Sold out" if query.get("view") and self.is_other(n) else ""

    def shows(self, n, value):
        return f"<p>{value or f'{self.draw.randrange(5, 900)} viewing'}</p>"


class Ascii(Node):
    """A board, in which the place of a sign matters."""

    def shows(self, n, value):
        draw = random.Random(f"{n} {value}")
        return "<pre>" + "\n".join(" " * draw.randrange(9) + "x" for _ in range(5)) + "</pre>"


class Tread(Node):
    """A class says how deep a tread is; so does a field of an item, and no crawler's depth."""

    def depth(self, n, value):
        return 3 + crc32(f"{n} {value}".encode()) % 50

    def shows(self, n, value):
        return f'<i class="depth-{self.depth(n, value)}"></i>'

    def got(self, n, url, query):
        return [{"tread_depth": self.depth(n, self.value(n, query)), "name": words(n, 3)}], []


class Quoted(Node):
    """The price that an item says stands in one text between tokens, longer or shorter."""

    variants: ClassVar = ("spread", "kind")
    views = ("view=2", "view=3", "view=4")
    refs = ()

    def is_other(self, n):
        return n % 5 == 2

    def price(self, n, value):
        return 1000 + crc32(f"{n} {value}".encode()) % 9000

    def shows(self, n, value):
        tokens = (words(self.draw.random(), self.draw.randint(1, 4)) for _ in range(2))
        said = '{{"request":"{}","price":{},"csrf":"{}"}}'
        return f"<script>{said.format(next(tokens), self.price(n, value), next(tokens))}</script>"

    def got(self, n, url, query):
        return [{"name": words(n, 3), "price": self.price(n, self.value(n, query))}], []


class Report(Node):
    """The address of a report looks like an act, so no page of it is fetched again."""

    place = '<i data-total="{0}"></i>'

    def link(self, n, url, view):
        return Link(f"{HOST}/report/{url.rpartition('/')[2]}")


class Stub(Few):
    """Whoever asks again for pages is told to slow down, under their title, every other time."""

    variants: ClassVar = ("moving",)

    def __init__(self, variant):
        super().__init__(variant)
        self.asked, self.again = set(), 0

    def page(self, where, n, query):
        name, _, links = super().page(where, n, query)
        other = self.value(int(n), query)
        return name, f"<h1>{words(n, 3)}</h1><p>{words((n, other), 50)}</p>", links

    def __call__(self, url):
        found = super().__call__(url)
        if "/item/" not in url or url not in self.asked:
            self.asked.add(url)
            return found
        self.again += 1
        if self.again % 2:
            return found
        stub = f"<h1>{words(url.partition('?')[0].rpartition('/')[2], 3)}</h1><p>Too many requests.</p>"
        return found._replace(body=stub.encode(), content="", links=[], items=[])


class Copies(Site):
    """Replies say that they are copies of their item; on some, another thing is said *besides*.

    So does WordPress: ``?replytocom=7`` names whom one would answer, and is not to be indexed.
    """

    views = ("reply=2", "reply=3")
    besides = ""

    def links(self):
        """Yield the links, those of replies last: they are on the page of an item."""
        for is_late, link in super().links():
            yield ("reply" in link.url, is_late), link

    def page(self, where, n, query):
        name, body, links = super().page(where, n, {})
        to, author = query.get("reply"), words((n, "author"), 1)
        head = f"Leave a Reply to <a href='?#c'>{author}</a>" if to else "Leave a comment"
        more = self.value(int(n), {"view": to or ""})
        body += f'<p>{author} says to all: the price is 12 or 13</p><a href="?#a">Reply</a><h2>{head}</h2>'
        body += f"<input type=hidden value={to or 0}>{self.besides.format(more) if more else ''}"
        if to:
            body += f'<meta name="robots" content="noindex, follow"><link rel="canonical" href="/{where}/{n}">'
        return f"{name} {more}".strip(), body, links


BESIDES = {
    "CopiesByWord": "<p>red{}</p>",
    "CopiesByNumber": "<p>the price is 1{}</p>",
    "CopiesByData": '<p data-price="1{}">to all</p>',
    "CopiesByPicture": '<img src="/stars/{}.png">',
    "CopiesByText": f"<p>{words(7, 20)} {{}}</p>",
}


class Copy(Node):
    """Views that declare themselves copies say the words of their item, and mean another thing."""

    def says(self, n, value):
        """Return what a page shows: *value* is 0 on the item, and 2 or 3 in a view."""
        raise NotImplementedError

    def shows(self, n, value):
        return self.says(n, int(value or 0))

    def page(self, where, n, query):
        name, body, links = super().page(where, n, query)
        if "view" in query:
            body += (
                f'<meta name="robots" content="noindex"><link rel="canonical" href="/{where}/{n}">'
            )
        return name, body, links


class WayBack(Copy):
    def says(self, n, value):
        ways = words((n, "way"), 4).title().split()
        return "<p>{} to {} by {} at {}</p>".format(*(ways[value:] + ways[:value]))


class Legend(Copy):
    def says(self, n, value):
        lights = [f'<img src="/icons/{colour}.png">' for colour in ("green", "", "red", "yellow")]
        return f"<p>Available: {lights[value]}</p><p>Legend: {''.join(lights)}</p>"


class Fits(Copy):
    def says(self, n, value):
        said = ("maybe", "", "no", "yes")[value]
        return f"<p><b>{said}</b></p><p>Does it fit, yes or no, or maybe? Ask us.</p>"


class Left(Copy):
    """How many are left stands in a text with a counter."""

    def says(self, n, value):
        looking = self.draw.randrange(5, 900)
        return f"<p>Only {40 - 9 * value} left at {10 + value} EUR, {looking} people look</p>"


class Column(Node):
    """When a room is free stands in the column of a table that has an x."""

    items = 100

    def shows(self, n, value):
        draw, rows = random.Random(f"{n} {value}"), ""
        for day in ("Mon", "Tue", "Wed"):
            at = draw.randrange(8)
            rows += f"<tr><th>{day}{at * '<td></td>'}<td>x</td>{(7 - at) * '<td></td>'}"
        return f"<table>{rows}</table>"


class Stars(Node):
    """There are as many stars as elements without a text."""

    def shows(self, n, value):
        return (
            f"<div>{(1 + (n + len(value) + sum(map(ord, value))) % 5) * '<i class=star></i>'}</div>"
        )


class Threads(Node):
    """Who answers whom is how deep an answer is nested."""

    def shows(self, n, value):
        draw, said = random.Random(f"{n} {value}"), ""
        for at in range(6):
            deep = draw.randint(3, 8)
            said += f"{deep * '<blockquote>'}<p>{words((n, at), 8)}</p>{deep * '</blockquote>'}"
        return said


class Features(Few):
    """In a table of yes and no, one cell is another one: both are what most pages say."""

    def shows(self, n, value):
        draw = random.Random(n)
        cells = [draw.choice(("yes", "no")) for _ in range(8)]
        if value:
            cells[int(value)] = {"yes": "no", "no": "yes"}[cells[int(value)]]
        table = "".join(f"<tr><th>{at}<td>{cell}" for at, cell in enumerate(cells))
        return f"<p>Visitor number {self.fetch}</p><table>{table}</table>"


class Wizard(Site):
    """The first page of an item is the same in all views; the next one has what was chosen there."""

    variants = ("rare", "late")

    def page(self, where, n, query):
        step, value = query.get("step", ""), self.value(int(n), query)
        name = f"item {n} {value} {step}" if step else f"item {n}"
        chosen = "&".join(f"{key}={each}" for key, each in {**query, "step": "2"}.items())
        links = [] if step else [Link(f"{HOST}/{where}/{n}?{chosen}")]
        return name, f"<h1>{words(n, 3)}</h1><p>{words(name, 40)}</p>", links


KINDS = [StatusLine, Ascii, Tread, Quoted, Report, WayBack, Stub, Legend, Fits, Left]
KINDS += [Wizard, Column, Stars, Threads, Features]
KINDS += of_table(Node, "place", NODES) + of_table(Few, "place", BESIDE)
KINDS += of_table(Copies, "besides", BESIDES)
CASES = {f"{kind.__name__}-{each}": (kind, each) for kind in KINDS for each in kind.variants}
