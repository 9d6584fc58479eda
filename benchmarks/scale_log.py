"""Logs of any size with long tails, to measure how mining grows.

    python benchmarks/scale_log.py 810000 > log.jsonl    the same rows in every run

One site for some two thousand rows; the share of the n-th site is 1/n of the largest (Zipf). Each
is a forum with session ids, a shop, a blog or a listing of files, as crawlers meet them: most URLs
are seen once, pages come under several, log-in pages and lists in any order are between them. No
site is a copy of another: names, sizes, hosts and the share of each form come from its own seed.
The rows of a site come in a random order between those of the others.
"""

from __future__ import annotations

import json
import random
import sys
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROWS_A_SITE = 2_165
_WORDS = [f"{a}{b}{c}" for a in ("ka", "lo", "mi", "su") for b in "rnst" for c in ("a", "em", "on")]
#: The status, what the URL is without its host, and its content or the target of a redirect.
_Row = tuple[int, str, str]


class _Site:
    """What all kinds have: names, numbers, and one form of URL after the other."""

    def __init__(self, number: int, rows: int) -> None:
        self.chance = chance = random.Random(f"site {number}")
        self.host = f"{chance.choice(['', 'www.'])}{chance.choice(_WORDS)}{number}.example"
        self.words = chance.sample(_WORDS, 12)
        self.size = max(3, int(rows * chance.uniform(0.1, 0.5)))  # topics, products, posts, files
        self.session = chance.choice(["sid", "s", "zenid", "view_id"])
        self.has_session = chance.uniform(0.1, 0.6)
        forms = self.forms()
        self.weights = [chance.uniform(0.2, 1) * weight for weight in forms.values()]
        self.choices = list(forms)

    def forms(self) -> dict[Callable[[int], _Row], float]:
        raise NotImplementedError

    def row(self) -> dict[str, Any]:
        """Return the next row of the log."""
        form = self.chance.choices(self.choices, self.weights)[0]
        # Some pages are linked to far more often than others.
        number = min(self.size, 1 + int(self.chance.paretovariate(0.6)) + self.some(self.size // 3))
        status, path, shown = form(number)
        row: dict[str, Any] = {"url": f"http://{self.host}{path}", "status": status}
        if status != 200:
            return row | {"location": f"http://{self.host}{shown}"}
        mime = "application/pdf" if path.endswith(".pdf") else "text/html"
        return row | {"mime": mime, "digest": shown}

    def some(self, below: int) -> int:
        return self.chance.randrange(max(1, below))

    def sometimes(self, share: float, text: str) -> str:
        return text if self.chance.random() < share else ""

    def sid(self) -> str:
        return self.sometimes(
            self.has_session, f"&{self.session}={self.chance.getrandbits(128):032x}"
        )


class _Forum(_Site):
    def forms(self) -> dict[Callable[[int], _Row], float]:
        forms = {self.topic: 6, self.post: 2, self.board: 1, self.profile: 1, self.reply: 1}
        return {**forms, self.login: 0.5, self.printed: 0.5}

    def topic(self, n: int) -> _Row:
        page = self.some(1 + n % 7)
        start = f"&start={20 * page}" if page else self.sometimes(0.1, "&start=0")
        order = self.sometimes(0.05, "&sk=t&sd=a")
        path = f"/viewtopic.php?f={n % 23}&t={n}{start}{order}{self.sid()}"
        return 200, path, f"topic {n} {page}"

    def post(self, n: int) -> _Row:
        post = self.some(20 * (1 + n % 7))
        return 200, f"/viewtopic.php?p={n * 140 + post}{self.sid()}", f"topic {n} {post // 20}"

    def board(self, n: int) -> _Row:
        page = self.some(30)
        start = f"&start={25 * page}" if page else ""
        return 200, f"/viewforum.php?f={n % 23}{start}{self.sid()}", f"board {n % 23} {page}"

    def profile(self, n: int) -> _Row:
        shown = "log in" if self.has_session > 0.3 else f"profile {n}"
        return 200, f"/memberlist.php?mode=viewprofile&u={n}{self.sid()}", shown

    def reply(self, n: int) -> _Row:
        return 200, f"/posting.php?mode=reply&f={n % 23}&t={n}{self.sid()}", "log in"

    def login(self, n: int) -> _Row:
        return 200, f"/ucp.php?mode=login&redirect=viewtopic.php%3Ft%3D{n}{self.sid()}", "log in"

    def printed(self, n: int) -> _Row:
        return 200, f"/viewtopic.php?f={n % 23}&t={n}&view=print", f"printed {n}"


class _Shop(_Site):
    def forms(self) -> dict[Callable[[int], _Row], float]:
        forms = {self.product: 5, self.category: 3, self.facets: 2, self.review: 1}
        return {**forms, self.cart: 0.5, self.short: 0.5}

    def product(self, n: int) -> _Row:
        via = self.sometimes(0.3, f"{self.words[n % 12]}/")
        query = self.sometimes(0.3, f"?{self.words[0]}={self.chance.choice(_WORDS)}")
        return 200, f"/{via}{self.words[n % 7]}-{n}.html{query}", f"product {n}"

    def category(self, n: int) -> _Row:
        c, page, order = n % 40, self.some(12) + 1, self.chance.choice(["", "price", "name"])
        query = "&".join(
            filter(None, (self.sometimes(page > 1, f"p={page}"), order and f"order={order}"))
        )
        mode = self.sometimes(0.2, "&mode=list")
        return 200, f"/{self.words[c % 12]}/{c}/?{query}{mode}", f"category {c} {page} {order}"

    def facets(self, n: int) -> _Row:
        names = self.chance.sample(self.words[:6], self.some(3) + 1)
        values = {name: self.some(5) for name in names}
        query = "&".join(f"{name}={value}" for name, value in values.items())
        shown = sorted(values.items()) if n % 3 else "nothing found"
        return 200, f"/{self.words[n % 12]}/{n % 40}/?{query}", f"facets {n % 40} {shown}"

    def review(self, n: int) -> _Row:
        return 200, f"/review/product/list/id/{n}/category/{self.some(40)}/", f"reviews {n}"

    def cart(self, n: int) -> _Row:
        key = self.chance.getrandbits(64)
        return 302, f"/checkout/cart/add/product/{n}/form_key/{key:016x}/", "/checkout/cart/"

    def short(self, n: int) -> _Row:
        return 301, f"/catalog/product/view/id/{n}", f"/{self.words[n % 7]}-{n}.html"


class _Blog(_Site):
    def forms(self) -> dict[Callable[[int], _Row], float]:
        forms = {self.post: 5, self.reply: 3, self.short: 1, self.tag: 2, self.share: 1}
        return {**forms, self.amp: 0.5}

    def place(self, n: int) -> str:
        return f"/{2000 + n % 20}/{n % 12 + 1:02}/{self.words[n % 12]}-{n}/"

    def post(self, n: int) -> _Row:
        query = self.sometimes(0.2, f"?{self.words[1]}={self.some(9)}")
        return 200, self.place(n) + (query or self.sometimes(0.1, "index.html")), f"post {n}"

    def reply(self, n: int) -> _Row:
        return 200, f"{self.place(n)}?replytocom={n * 50 + self.some(1 + n % 40)}", f"post {n}"

    def short(self, n: int) -> _Row:
        return 301, f"/?p={n}", self.place(n)

    def tag(self, n: int) -> _Row:
        page = self.some(1 + n % 9) + 1
        path = f"/tag/{self.words[n % 12]}{n % 97}/" + self.sometimes(page > 1, f"page/{page}/")
        return 200, path, f"tag {n % 12} {n % 97} {page if '/page/' in path else 1}"

    def share(self, n: int) -> _Row:
        return 302, f"{self.place(n)}?share={self.chance.choice(self.words)}", "/wp-login.php"

    def amp(self, n: int) -> _Row:
        return 200, f"{self.place(n)}amp/", f"amp {n}"


class _Files(_Site):
    def forms(self) -> dict[Callable[[int], _Row], float]:
        return {self.folder: 3, self.file: 4, self.slashless: 0.5, self.raw: 1}

    def folder(self, n: int) -> _Row:
        column, order = self.chance.choice("NMSD"), self.chance.choice("AD")
        query = self.sometimes(0.7, f"?C={column};O={order}")
        shown = f"{column}{order}" if n % 4 == 0 and query else ""  # others hold one file
        return 200, f"/pub/{self.words[n % 9]}/{n}/{query}", f"folder {n} {shown}"

    def file(self, n: int) -> _Row:
        name = f"{self.words[n % 9]}/{n}/{self.words[self.some(5)]}"
        return 200, f"/{self.chance.choice(['pub', 'mirror'])}/{name}.pdf", f"file {name}"

    def slashless(self, n: int) -> _Row:
        return 301, f"/pub/{self.words[n % 9]}/{n}", f"/pub/{self.words[n % 9]}/{n}/"

    def raw(self, n: int) -> _Row:
        view = self.chance.choice(["", "?format=raw", "?format=raw&inline=1"])
        return 200, f"/view/{n}{view}", f"view {n} {'raw' if view else ''}"


def rows(count: int) -> Iterator[dict[str, Any]]:
    """Yield *count* rows of a log."""
    chance = random.Random("log")
    number = max(1, count // ROWS_A_SITE)
    shares = [1 / rank for rank in range(1, number + 1)]
    kinds = (_Forum, _Shop, _Blog, _Files)
    sites = [kinds[n % 4](n, int(count * share / sum(shares))) for n, share in enumerate(shares)]
    batch = 10_000
    for start in range(0, count, batch):
        for site in chance.choices(sites, shares, k=min(batch, count - start)):
            yield site.row()


def write(count: int, stream: TextIO) -> None:
    dumps = json.JSONEncoder(separators=(",", ":")).encode
    stream.writelines(dumps(row) + "\n" for row in rows(count))


if __name__ == "__main__":
    write(int(sys.argv[1]), sys.stdout)
