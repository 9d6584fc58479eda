"""Sites that mislead a crawler which learns: what is true of most of their URLs is not true of all.

Each is a function of a URL, and knows its contents. *late* puts the exceptions at the end of the
links, else they are spread.
"""

from __future__ import annotations

import html
import random
from urllib.parse import parse_qs, urlsplit

from loopback import Reply
from moving_sites import HOST, words


class Site:
    """Pages by path and parameters: `name_of` says what each is, `links` which there are."""

    def __init__(self, seed: int, *, late: bool) -> None:
        self.draw = random.Random(seed)
        self.seed = seed
        self.late = late

    def links(self) -> list[str]:
        raise NotImplementedError

    def name_of(self, path: str, query: dict[str, str]) -> str:
        raise NotImplementedError

    def links_of(self, name: str) -> list[str]:
        return []

    def ordered(self, links: list[str]) -> list[str]:
        """The links, those of exceptions last if *late*, else in any order."""
        links = sorted(links)
        self.draw.shuffle(links)
        return sorted(links, key=self.is_exception) if self.late else links

    def is_exception(self, link: str) -> bool:
        return False

    def contents(self) -> set[str]:
        found, todo = {"home"}, self.links()
        seen = set(todo)
        while todo:
            name = self.name(todo.pop())
            if name not in found:
                found.add(name)
                more = [link for link in self.links_of(name) if link not in seen]
                seen.update(more)
                todo += more
        return found

    def name(self, link: str) -> str:
        parts = urlsplit(link)
        return self.name_of(parts.path, {k: v[0] for k, v in parse_qs(parts.query).items()})

    def __call__(self, url: str) -> Reply:
        link = url.removeprefix(HOST)
        is_home = link == "/"
        name = "home" if is_home else self.name(link)
        links = self.ordered(self.links()) if is_home else self.links_of(name)
        return self.reply(link, name, links)

    def reply(self, link: str, name: str, links: list[str]) -> Reply:
        body = f"<h1>{name}</h1><p>{words(name, 40)}</p>"
        body += "".join(f'<a href="{html.escape(each)}">.</a>' for each in links)
        text = f"<html><body><p>menu of the site</p>{body}<p>all rights reserved</p></body></html>"
        return Reply(200, text.encode(), {"Content-Type": "text/html", "X-Content": name})


class ShortAndLongLists(Site):
    """Pages 2 and 3 of a list are page 1 where the list is short; a quarter of them are long."""

    def links(self):
        pages = ["", "?page=1", "?page=2", "?page=3"]
        return [f"/projects/{n}{page}" for n in range(80) for page in pages]

    def is_exception(self, link):
        return int(urlsplit(link).path.rpartition("/")[2]) >= 60

    def name_of(self, path, query):
        page = query.get("page", "1") if self.is_exception(path) else "1"
        return f"list {path} page {page}"


class SortOfFurtherPages(Site):
    """The order says nothing on the first page of a list, and much on the second."""

    def links(self):
        pages = [f"?{page}sort={order}" for page in ("", "page=2&") for order in ("a", "b", "c")]
        return [f"/lists/{n}{page}" for n in range(80) for page in pages]

    def is_exception(self, link):
        return "page=2" in link and int(urlsplit(link).path.rpartition("/")[2]) % 4 == 1

    def name_of(self, path, query):
        order = query["sort"] if "page" in query and self.is_exception(path + "?page=2") else ""
        return f"list {path} {query.get('page', '1')} {order}".strip()


class FewListsHaveTwoPages(Site):
    """Every order shows the same goods, but for the few lists that have a second page."""

    def links(self):
        return [f"/goods?brand={b}&color={c}" for b in range(40, 64) for c in ("red", "blue")]

    def name_of(self, path, query):
        brand, color = query["brand"], query["color"]
        goods = sorted(range(15 if self._is_long(brand, color) else 9), key=lambda n: n * 7 % 15)
        if query.get("sort") == "price":
            goods.sort()
        page = int(query.get("page", 1))
        return f"{brand} {color} {sorted(goods[12 * page - 12 : 12 * page])}"

    def _is_long(self, brand, color):
        return color == "red" and int(brand) % 12 == self.seed % 12

    def is_exception(self, link):
        query = parse_qs(urlsplit(link).query)
        return self._is_long(query["brand"][0], query["color"][0])

    def links_of(self, name):
        if name == "home":
            return []
        brand, color, _ = name.split(" ", 2)
        base = f"/goods?brand={brand}&color={color}"
        more = [f"{base}&page=2"] if self._is_long(brand, color) else []
        return [f"{base}&sort=new", f"{base}&sort=price", f"{base}&view=grid", *more] + [
            f"{base}&sort={sort}&view=grid" for sort in ("new", "price")
        ]


class BehindOneDoor(Site):
    """One value among many that say nothing opens the rest of the site."""

    def links(self):
        views = ("", "?view=a", "?view=b", "?view=c")
        return [f"/news/{n}{view}" for n in range(90) for view in views]

    def is_exception(self, link):
        return link == "/news/77?view=c"

    def name_of(self, path, query):
        if path == "/news/77" and query.get("view") == "c":
            return "the archive"
        return f"news {path}" if "/news" in path else f"archive {path}"

    def links_of(self, name):
        return [f"/archive/{n}" for n in range(200)] if name == "the archive" else []


class Doors(Site):
    """A board: to reply, to quote and to report, visitors have to log in, from every topic."""

    verbs = ("newreply.php?tid", "quote.php?pid", "report.php?post")

    def links(self):
        topics = [f"/topic.php?id={n}" for n in range(110)]
        return topics + [f"/{verb}={n}" for verb in self.verbs for n in range(110)]

    def name_of(self, path, query):
        return f"topic {query['id']}" if path == "/topic.php" else "Log in"

    def reply(self, link, name, links):
        if name != "Log in":
            return super().reply(link, name, links)
        form = f"<h1>{name}</h1><form><input name=user><input type=password name=word></form>"
        form += f'<input type=hidden name=back value="{html.escape(link)}">'
        page = f"<html><head><title>{name}</title></head><body>{form}</body></html>"
        return Reply(200, page.encode(), {"Content-Type": "text/html", "X-Content": name})


class SomeDoorsAreOpen(Doors):
    """Guests may reply to one topic in thirty."""

    def is_exception(self, link):
        return "newreply" in link and int(link.rpartition("=")[2]) % 30 == 17

    def name_of(self, path, query):
        if "tid" in query and self.is_exception(f"/newreply.php?tid={query['tid']}"):
            return f"reply to {query['tid']}"
        return super().name_of(path, query)


class DoorsBehindRedirects(Doors):
    """Whoever edits a topic, or votes for it, is sent to log in."""

    verbs = ("edit.php?tid", "vote.php?tid")

    def name_of(self, path, query):
        if path == "/login.php" and self.is_exception(query["return"]):
            return f"edit {query['return']}"
        return super().name_of(path, query)

    def reply(self, link, name, links):
        if link.startswith(("/edit", "/vote")):
            return Reply(302, b"", {"Location": f"{HOST}/login.php?return={link}"})
        return super().reply(link, name, links)

    def contents(self):
        exceptions = {f"edit {link}" for link in self.links() if self.is_exception(link)}
        return super().contents() | exceptions


class SomeRedirectsLeadOn(DoorsBehindRedirects):
    """Guests may edit one topic in thirty."""

    def is_exception(self, link):
        return "edit.php" in link and int(link.rpartition("=")[2]) % 30 == 17


class PartlyTranslated(Site):
    """A topic is one page in any language, and only its German page links to its German part."""

    def links(self):
        return [f"/topics/{n}{lang}" for n in range(90) for lang in ("", "?lang=de")]

    def is_exception(self, link):
        return int(link.split("/")[2].partition("?")[0]) % 3 == 1

    def name_of(self, path, query):
        is_german = path.endswith("/part") and "lang" in query and self.is_exception(path)
        return path + " in German" * is_german

    def contents(self):
        return {"home", *(self.name(link) for each in self.links() for link in (each, _part(each)))}

    def __call__(self, url):
        link = url.removeprefix(HOST)
        if link == "/" or "/part" in link:
            return super().__call__(url)
        return self.reply(link, self.name(link), [_part(link)])


def _part(link):
    path, mark, query = link.partition("?")
    return f"{path}/part{mark}{query}"


SITES = (
    PartlyTranslated, ShortAndLongLists, Doors, SortOfFurtherPages, FewListsHaveTwoPages,
    DoorsBehindRedirects, SomeDoorsAreOpen, SomeRedirectsLeadOn,
)  # fmt: skip
