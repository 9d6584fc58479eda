"""Sites that nobody thought of: a seed draws what of their pages moves, and where they differ.

A page is a list of blocks. Some hold still, some move (`MOVES`), and what a view says of an item that
is an exception stands inside of a block that moves, in place of what moves there, or beside it.
"""

from __future__ import annotations

import random
from itertools import count
from typing import TYPE_CHECKING

from lookalike_sites import Link, Shown, Site
from moving_sites import HOST, words

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = {"Content-Type": "text/html"}


def _list(lines: list[str]) -> str:
    return "<ul>" + "".join(f"<li>{line}</li>" for line in lines) + "</ul>"


class _Moves:
    """What moves. Each is drawn with a site, and says another thing in each fetch, or some."""

    def __init__(self, r: random.Random) -> None:
        self.tag, self.name = r.choice(("div", "p", "section", "span")), words(r.random(), 1)
        self.of, self.every = r.choice((2, 5, 50)), r.choice((1, 5, 40, 300))
        self.draw = random.Random(r.random())
        self.pool = [words(r.random(), r.randint(2, 7)) for _ in range(self.of)]
        self.visits: dict[object, count[int]] = {}

    def one_of_some(self, n: int, fetch: int) -> str:
        return self.draw.choice(self.pool)

    def comes_and_goes(self, n: int, fetch: int) -> str:
        return self.pool[0] if self.draw.random() < 0.5 else ""

    def number(self, n: int, fetch: int) -> str:
        return f"{self.name} {1000 + fetch}"

    def number_of_its_own(self, n: int, fetch: int) -> str:
        return f"{self.name} {next(self.visits.setdefault(n, count(n)))}"

    def own_word_and_number(self, n: int, fetch: int) -> str:
        return f"{words(n, 1)} {next(self.visits.setdefault(n, count(n)))} {self.name}"

    def own_words_and_number(self, n: int, fetch: int) -> str:
        return f"{words(n, 4)} ({next(self.visits.setdefault(n, count(n)))})"

    def time(self, n: int, fetch: int) -> str:
        return f"{self.name} {fetch // 3600 % 24:02}:{fetch // 60 % 60:02}:{fetch % 60:02}"

    def names(self, n: int, fetch: int) -> str:
        return f"{self.name}: " + ", ".join(words(self.draw.randrange(40), 1) for _ in range(4))

    def some_names(self, n: int, fetch: int) -> str:
        most = self.draw.randint(1, 6)
        return f"{self.name}: " + ", ".join(words(self.draw.randrange(40), 1) for _ in range(most))

    def lines(self, n: int, fetch: int) -> str:
        return _list([words(self.draw.randrange(200), 3) for _ in range(4)])

    def links(self, n: int, fetch: int) -> str:
        some = self.draw.sample(range(60), 4)
        return _list([f'<a href="/photo/{other}">{words(other, 2)}</a>' for other in some])

    def shuffled(self, n: int, fetch: int) -> str:
        lines = [words((n, at), 2) for at in range(4)]
        return _list(self.draw.sample(lines, 4))

    def news(self, n: int, fetch: int) -> str:
        return _list([words(("news", fetch // self.every + at), 4) for at in range(4)])

    def greeting(self, n: int, fetch: int) -> str:
        return f"{self.name} {words(fetch // self.every, 3)}"

    def token(self, n: int, fetch: int) -> str:
        return f'<input type="hidden" name="{self.name}" value="{self.draw.getrandbits(64):x}">'

    def signed(self, n: int, fetch: int) -> str:
        return f'<a href="/files/{words(n, 1)}.pdf?signed={self.draw.getrandbits(48):x}">file</a>'

    def picture(self, n: int, fetch: int) -> str:
        return f'<img src="/pictures/{words(self.draw.randrange(self.of), 1)}.png">'

    def script(self, n: int, fetch: int) -> str:
        return f'<script>var {self.name} = "{self.draw.getrandbits(48):x}";</script>'

    def cells(self, n: int, fetch: int) -> str:
        rows = (
            f"<tr><td>{words((n, at), 1)}</td><td>{fetch * at % 97}</td></tr>" for at in range(3)
        )
        return f"<table>{''.join(rows)}</table>"


MOVES = [name for name in vars(_Moves) if not name.startswith("_")]


#: How an exception says what it is.
SAYS = (
    "{}",
    "{}",
    '<img src="/p/{}.png">',
    '<a href="/photo/{}">see</a>',
    '<a href="/files/{}.pdf?signed={:x}">file</a>',
)


class Block:
    """A part of each page. *move* says what of it moves, if so; *holds* where the exception is."""

    def __init__(self, r: random.Random, holds: str) -> None:
        self.moves = _Moves(r)
        self.move: Callable[[int, int], str] | None = None
        if holds or r.random() < 0.6:
            self.move = getattr(self.moves, r.choice(MOVES))
        self.holds, self.words = holds, r.randint(3, 30)
        self.heading = words(r.random(), 2) if r.random() < 0.5 else ""
        self.class_ = f' class="{words(r.random(), 1)}"' if r.random() < 0.5 else ""
        self.is_long = r.random() < 0.5
        self.says = r.choice(SAYS)

    def __call__(self, n: int, value: str, fetch: int) -> str:
        tag = self.moves.tag
        said = (
            self.says.format(words((n, value), 1), self.moves.draw.getrandbits(48))
            if value and self.holds
            else ""
        )
        moving = "" if self.move is None else self.move(n, fetch)
        if said and self.holds == "in place":
            moving, said = said, ""
        body = words((n, self.words), self.words) if self.move is None or self.is_long else ""
        body = f"<{tag}>{body}</{tag}>" if body else ""
        if self.holds == "inside":
            moving, said = f"{said} {moving}", ""
        heading = f"<h3>{self.heading}</h3>" if self.heading else ""
        return f"<div{self.class_}>{heading}{body}<{tag}>{moving}</{tag}>{said}</div>"


class RandomSite(Site):
    def __init__(self, variant: str) -> None:
        super().__init__(variant)
        r = random.Random(f"random site {variant}")
        self.items = r.randint(60, 160)
        self.folders = [words(r.random(), 1) for _ in range(r.randint(1, 3))]
        self.refs = tuple(f"ref={at}" for at in range(r.randint(1, 4)))
        self.views = tuple(f"view={at}" for at in range(r.randint(0, 3)))
        self.rate = r.choice((0, 0, 1 / 60, 1 / 20, 1 / 3)) if self.views else 0
        self.is_late = r.random() < 0.3
        self.others = set(r.sample(range(self.items), round(self.rate * self.items)))
        holds = r.choice(("inside", "in place", "beside")) if self.rate else ""
        blocks = r.randint(2, 6)
        at = r.randrange(blocks)
        self.blocks = [Block(r, holds if each == at else "") for each in range(blocks)]
        self.title = r.random() < 0.7

    def address(self, n: int, query: str) -> str:
        path = f"{HOST}/{self.folders[n % len(self.folders)]}/{n}"
        return f"{path}?{query}" if query else path

    def links(self):
        for n in range(self.items):
            for query in ("", *self.refs, *self.views):
                is_view = query in self.views
                yield self.is_late and is_view and n in self.others, Link(self.address(n, query))

    def __call__(self, url: str) -> Shown:
        self.fetch += 1
        path, _, query = url.removeprefix(HOST).partition("?")
        folder, _, last = path[1:].rpartition("/")
        if path == "/":
            links = self.home()
            body = "".join(f'<a href="{link.url}">.</a>' for link in links)
            return Shown(200, HEAD, f"<html><body>{body}</body></html>".encode(), "home", links)
        if folder in ("photo", "files"):
            body = f"<html><body><h1>{last}</h1><p>{words(last, 30)}</p></body></html>"
            return Shown(200, HEAD, body.encode(), f"photo {last}", [])
        n = int(last)
        value = query.removeprefix("view=") if query in self.views and n in self.others else ""
        body = "".join(block(n, value, self.fetch) for block in self.blocks)
        heading = f"<h1>{words(n, 3)}</h1>" if self.title else ""
        text = f"<html><head><title>site</title></head><body>{heading}{body}</body></html>"
        return Shown(200, HEAD, text.encode(), f"item {n} {value}".strip(), [])
