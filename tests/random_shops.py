"""Shops that nobody thought of: a seed draws lists, what their parameters do, and where they lead.

A list is sorted, turned, filtered, cut into pages, and shown in several views and languages, each by a
parameter that is drawn with the shop. Its links carry that on, or do not. Many lists are so short that
nothing of it shows. Items stand under several URLs; some of their tabs say more.
"""

from __future__ import annotations

import random
from urllib.parse import parse_qsl, urlencode

from lookalike_sites import Link, Shown, Site
from moving_sites import HOME, HOST, words
from random_sites import HEAD, Block

#: What a parameter is called, by what it does.
NAMES = {
    "sort": ("sort", "order", "o", "C"),
    "way": ("dir", "desc", "O", ""),
    "page": ("page", "p", "start"),
    "size": ("limit", "per_page"),
    "view": ("view", "mode"),
    "color": ("color", "f"),
    "language": ("lang", "hl"),
    "from": ("ref", "from", ""),
    "place": ("pos", "i", "", ""),
    "tab": ("tab", "show", ""),
}
LISTS = ("/cat/{}", "/{}/", "/list.php?cat={}")
ITEMS = ("/item/{n}", "/{of}/{n}", "/item.php?id={n}", "/{of}/{name}-{n}.html")


class RandomShop(Site):
    def __init__(self, variant: str, *, moves: bool = False) -> None:
        super().__init__(variant)
        r = random.Random(f"random shop {variant}")
        self.items = r.randint(20, 60)
        self.of = [words(r.random(), 1) for _ in range(r.randint(2, 6))]
        self.colors = [words(r.random(), 1) for _ in range(r.randint(2, 3))]
        most = len(self.of) - 1
        self.goods = [
            {
                "n": n,
                "name": words((variant, n), 2),
                "of": self.of[min(int(r.expovariate(0.5)), most)],
                "color": r.choice(self.colors),
                "price": r.choice((r.randint(1, 900), 10)),
                "date": n if r.random() < 0.8 else r.randint(0, 99),
            }
            for n in range(self.items)
        ]
        self.carries, self.counts = r.random() < 0.5, r.random() < 0.5
        self.names = {does: r.choice(names) for does, names in NAMES.items()}
        for does in r.sample(("size", "view", "color", "language"), 2 if self.carries else 1):
            self.names[does] = ""  # there are enough lists without it
        of_list, of_item = r.choice(LISTS), r.choice(ITEMS)
        self.list_of = {of: HOST + of_list.format(of) for of in (*self.of, "all")}
        self.item_of = [
            HOST + of_item.format(**{**each, "name": each["name"].replace(" ", "-")})
            for each in self.goods
        ]
        self.places = {url: of for of, url in self.list_of.items()}
        self.places |= {url: n for n, url in enumerate(self.item_of)}
        self.sorts = r.sample(("name", "price", "date", "n"), r.randint(1, 3 - self.carries))
        self.order = r.choice(("n", "date", "name"))
        self.size, self.sizes = r.choice((5, 8, 12, 20, 1_000)), r.sample((5, 10, 20, 50), 2)
        self.beyond = r.choice(("the last", "the first", "nothing", "an error"))
        self.in_full = r.choice((0, 0.1, 1))  # items of which a view, or a tab, says more
        self.translated = r.choice((0, 0.1, 1))
        self.blocks = [Block(r, "") for _ in range(r.randint(0, 3))]
        for block in self.blocks:
            block.move = block.move if moves else None

    def url(self, place: str, state: dict[str, object]) -> Link:
        found = [(self.names[does], value) for does, value in state.items() if self.names[does]]
        return Link(f"{place}{'&' if '?' in place else '?'}{urlencode(found)}" if found else place)

    def __call__(self, url: str) -> Shown:
        self.fetch += 1
        if url == HOME:
            return self.answer("home", "home", "", [Link(each) for each in self.list_of.values()])
        place, _, query = url.partition("?")
        if place not in self.places:
            place, _, query = url.partition("&")
        does = {name: does for does, name in self.names.items()}
        state = {does[name]: value for name, value in parse_qsl(query)}
        of = self.places[place]
        return self.item(of, state) if isinstance(of, int) else self.list(of, state)

    def answer(self, content: str, heading: str, body: str, links: list[Link]) -> Shown:
        body += "".join(f'<a href="{link.url}">see</a> ' for link in links)
        body += "".join(block(len(heading), "", self.fetch) for block in self.blocks)
        text = f"<html><head><title>shop</title></head><body><h1>{heading}</h1>{body}</body></html>"
        return Shown(200, HEAD, text.encode(), content, links)

    def is_one_of(self, share: float, what: object) -> bool:
        return random.Random(f"{self.variant} {what}").random() < share

    def item(self, n: int, state: dict[str, str]) -> Shown:
        more = (
            words((n, "tab"), 9)
            if state.get("tab") == "2" and self.is_one_of(self.in_full, n)
            else ""
        )
        links = [self.url(self.item_of[n], {"tab": tab}) for tab in (1, 2)]
        body = f"<p>{words((self.variant, n), 20)}</p><p>{more}</p>"
        return self.answer(f"item {n} {more}", self.goods[n]["name"], body, links)

    def list(self, of: str, state: dict[str, str]) -> Shown:
        wanted = {"of": of, "color": state.get("color", "all")}
        found = [
            each for each in self.goods if all(v in ("all", each[k]) for k, v in wanted.items())
        ]
        found.sort(key=lambda each: (each[state.get("sort", self.order)], each["n"]))
        if state.get("way") == "down":
            found.reverse()
        size, page = int(state.get("size", self.size)), int(state.get("page", 1))
        last = max(1, -(-len(found) // size))
        if page > last and self.beyond == "an error":
            return Shown(404, HEAD, b"<html><body>No such page</body></html>", "", [])
        if page > last:
            page = {"the last": last, "the first": 1}.get(self.beyond, page)
        shown = found[(page - 1) * size : page * size]
        lines = [
            f"{each['name']} {words(each['n'], 6)}"
            if state.get("view") == "long" and self.is_one_of(self.in_full, each["n"])
            else each["name"]
            for each in shown
        ]
        is_translated = state.get("language") == "de" and self.is_one_of(self.translated, of)
        heading = ("Liste " if is_translated else "") + of
        heading += f": {len(found)} found, page {page}" if self.counts else ""
        body = "<ul>" + "".join(f"<li>{line}</li>" for line in lines) + "</ul>"
        content = f"list {heading} {'; '.join(lines)}"
        return self.answer(content, heading, body, self.links(of, state, last, shown))

    def links(self, of: str, state: dict[str, str], last: int, shown: list[dict]) -> list[Link]:
        """Each list links to itself in all the ways that the shop knows, and to its items."""
        always = ("color", "language")
        kept = {k: v for k, v in state.items() if k != "page" and (self.carries or k in always)}
        is_up = state.get("way", "down") == "down"
        changes = [{"sort": each, "way": "up" if is_up else "down"} for each in self.sorts]
        changes += [{"page": page} for page in range(1, last + 2)]
        choices = {"size": self.sizes, "view": ("short", "long")}
        choices |= {"color": self.colors, "language": ("en", "de")}
        changes += [{does: each} for does, all_ in choices.items() for each in all_]
        links = [self.url(self.list_of[of], kept | change) for change in changes]
        for at, each in enumerate(shown):
            ways = ({}, {"from": of}, {"from": of, "place": at})
            links += [self.url(self.item_of[each["n"]], way) for way in ways]
        return links
