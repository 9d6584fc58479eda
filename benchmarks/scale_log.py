"""Logs of any size with long tails, to measure how mining grows.

    python benchmarks/scale_log.py 1000000 > log.jsonl    the same rows in every run

One site for a hundred rows; the share of the n-th site is 1/n of the largest (Zipf). Each site has
pages of two to six kinds, most of which never show one content twice, and its rows come in a random
order between those of the others. No site is a copy of another: which kinds it has, its names and
numbers, hosts and the share of pages that are seen again come from its own seed.
"""

from __future__ import annotations

import json
import random
import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ROWS_A_SITE = 100
_WORDS = [f"{a}{b}{c}" for a in ("ka", "lo", "mi", "su") for b in "rnst" for c in ("a", "em", "on")]


class Page(NamedTuple):
    """A URL, without its host; what is there; with ``location``, a redirect."""

    path: str
    content: str = ""
    location: str | None = None


class _Site:
    """A site, whose pages come one after the other."""

    def __init__(self, number: int) -> None:
        self.chance = chance = random.Random(f"site {number}")
        self.host = f"{chance.choice(['', 'www.'])}{chance.choice(_WORDS)}{number}.example"
        self.words = chance.sample(_WORDS, 12)
        self.kinds = chance.sample(_KINDS, chance.randint(2, min(6, len(_KINDS))))
        self.weights = [1 / rank for rank in range(1, len(self.kinds) + 1)]
        self.again = chance.uniform(0.1, 0.5)
        self.pages = dict.fromkeys(self.kinds, 0)

    def row(self) -> dict[str, object]:
        """Return the next row of the log."""
        chance = self.chance
        kind = chance.choices(self.kinds, self.weights)[0]
        if kind in _ONCE or not self.pages[kind] or chance.random() > self.again:
            self.pages[kind] += 1
            number = self.pages[kind]
        else:  # new pages are linked to more often than old ones
            pages = self.pages[kind]
            number = max(1, pages - int(chance.expovariate(20 / pages)))
        page = kind(number, chance, self.words)
        row: dict[str, object] = {"url": f"http://{self.host}{page.path}", "mime": "text/html"}
        if page.location is not None:
            return row | {"status": 301, "location": f"http://{self.host}{page.location}"}
        return row | {"status": 200, "digest": f"{kind.__name__} {page.content}"}


# --- kinds of pages: what software does with its URLs ------------------------------------------


def _plain(n: int, chance: random.Random, words: list[str]) -> Page:
    return Page(f"/{words[n % 5]}/{words[n % 7]}-{n}.html", f"{n}")


def _numbered(n: int, chance: random.Random, words: list[str]) -> Page:
    return Page(f"/{words[1]}.php?id={n}", f"{n}")


def _tracked(n: int, chance: random.Random, words: list[str]) -> Page:
    source = chance.choice(["", f"?{words[0]}={chance.choice(words)}"])
    return Page(f"/{words[2]}/{n}{source}", f"{n}")


def _default(n: int, chance: random.Random, words: list[str]) -> Page:
    at = chance.choice([None, 1, 1, 2, 3])
    return Page(
        f"/{words[3]}/{n}" + (f"?{words[6]}={at}" if at is not None else ""), f"{n} {at or 1}"
    )


def _sorted(n: int, chance: random.Random, words: list[str]) -> Page:
    order = chance.choice(["", "?C=N&O=D", "?C=M&O=A", "?C=S&O=A", "?C=D&O=D"])
    return Page(f"/pub/{words[n % 9]}{n}/{order}", f"{n}")


def _slug(n: int, chance: random.Random, words: list[str]) -> Page:
    # The title was changed: an old link has words of its own.
    slug = chance.choice(
        [f"{words[n % 12]}-{words[n // 12 % 12]}", "-".join(chance.sample(_WORDS, 3))]
    )
    return Page(f"/{words[4]}/{n}/{slug}", f"{n}")


def _index(n: int, chance: random.Random, words: list[str]) -> Page:
    return Page(f"/{words[5]}/{n}/{chance.choice(['', 'index.html'])}", f"{n}")


def _moved(n: int, chance: random.Random, words: list[str]) -> Page:
    place = f"/{words[7]}/{n}"
    if chance.random() < 0.5:
        return Page(f"{place}/", location=place)
    return Page(place, f"{n}")


def _thread(n: int, chance: random.Random, words: list[str]) -> Page:
    # A parameter that is noise in threads and selects in lists, under one name.
    if n % 3:
        return Page(f"/thread/{n}" + chance.choice(["", f"?s={chance.randint(1, 5)}x"]), f"{n}")
    at = chance.randint(1, 5)
    return Page(f"/list/{n}?s={at}x", f"list {n} {at}")


def _login(n: int, chance: random.Random, words: list[str]) -> Page:
    return Page(f"/login?next=%2F{words[n % 12]}%2F{n}", "login")


def _calendar(n: int, chance: random.Random, words: list[str]) -> Page:
    # Most days are empty, and one content; some are not.
    day = f"{2000 + n % 30}-{n % 12 + 1:02}"
    room = n % 17
    event = f"{room} {day}" if (n * 7919) % 50 == 0 else f"{room}"
    return Page(f"/calendar/{room}?day={day}", event)


def _facets(n: int, chance: random.Random, words: list[str]) -> Page:
    names = chance.sample(words, chance.randint(1, 3))
    query = "&".join(f"{name}={n % 4}" for name in names)
    return Page(f"/shop/{n % 40}?{query}&show=list", f"{n % 40} {sorted(names)} {n % 4}")


_KINDS: list[Callable[[int, random.Random, list[str]], Page]] = [
    _plain,
    _numbered,
    _tracked,
    _default,
    _sorted,
    _slug,
    _index,
    _moved,
    _thread,
    _login,
    _calendar,
    _facets,
]
#: Of these a page has one URL, which a crawl fetches once.
_ONCE = {_plain, _numbered, _login, _calendar}


def rows(count: int) -> Iterator[dict[str, object]]:
    """Yield *count* rows of a log."""
    chance = random.Random("log")
    number = max(1, count // _ROWS_A_SITE)
    sites = [_Site(n) for n in range(number)]
    shares = [1 / rank for rank in range(1, number + 1)]
    batch = 10_000
    for start in range(0, count, batch):
        for site in chance.choices(sites, shares, k=min(batch, count - start)):
            yield site.row()


def main() -> None:
    """Write a log to standard output."""
    dumps = json.JSONEncoder(separators=(",", ":")).encode
    for row in rows(int(sys.argv[1])):
        sys.stdout.write(dumps(row) + "\n")


if __name__ == "__main__":
    main()
