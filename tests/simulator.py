"""Simulated sites with ground truth: which URLs show one content, and which do not.

Every site is a function from a seeded random generator to pages, written after what software of
its kind really does. ``content`` names the truth; `observations` turns pages into log rows, with
transient noise on request. The traps (`calendar`, `soft_404`) hold many equal pages among which
a few differ: a learner that trusts frequency loses those.
"""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.logs import Observation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class Page(NamedTuple):
    """A URL and what is there; with a ``location``, a redirect."""

    url: str
    content: str = ""
    location: str | None = None


def observations(
    pages: Iterable[Page], *, noise: float = 0.0, seed: int = 0
) -> Iterator[Observation]:
    """Turn pages into rows; a share of *noise* of them changed by itself when fetched."""
    chance = random.Random(f"noise {seed}")
    for number, page in enumerate(pages):
        if page.location is not None:
            yield Observation(page.url, 301, location=page.location, mime="text/html")
            continue
        content = page.content
        if chance.random() < noise:
            content = f"{content} changed {number}"
        yield Observation(page.url, 200, content, mime="text/html")


def halves(pages: Iterable[Page]) -> tuple[list[Page], list[Page]]:
    """Cut pages into two halves by a hash of the URL."""
    parts: tuple[list[Page], list[Page]] = ([], [])
    for page in pages:
        digest = hashlib.blake2b(page.url.encode(), digest_size=2).digest()
        parts[digest[0] & 1].append(page)
    return parts


def _token(rng: random.Random, length: int = 32) -> str:
    return "".join(rng.choices("0123456789abcdef", k=length))


def _unique(pages: Iterable[Page]) -> list[Page]:
    return list({page.url: page for page in pages}.values())


def forum(rng: random.Random, host: str = "forum.example") -> list[Page]:
    """A bulletin board: f is implied by t, joint defaults, log-in wall, pages of threads."""
    base, pages = f"http://{host}/", []
    threads = [(t, rng.randint(1, 12), rng.randint(1, 4)) for t in range(10, 260)]
    for t, f, last in threads:
        for page in range(last):
            start = f"&start={page * 20}" if page else ""
            content = f"thread {t} {page}"
            queries = (f"t={t}", f"f={f}&t={t}", f"f={f}&t={t}&sk=t&sd=a&st=0")
            pages += [Page(f"{base}viewtopic.php?{query}{start}", content) for query in queries]
            if not page and rng.random() < 0.4:
                pages.append(Page(f"{base}viewtopic.php?t={t}&start=0", content))
        for mode in ("reply", "quote"):
            number = rng.randint(1, 5000)
            pages.append(Page(f"{base}posting.php?mode={mode}&f={f}&p={number}", "log in"))
        url = f"{base}viewtopic.php?t={t}"
        pages.append(Page(f"{url}&view=print", f"print {t}"))
        pages.append(Page(f"{base}ucp.php?mode=login&redirect={_token(rng, 12)}", "log in form"))
    for f in range(1, 13):
        for page in range(5):
            for order in ("", "&sk=t&sd=d", "&sk=t&sd=a", "&sk=a&sd=d"):
                shown = order if order not in ("", "&sk=t&sd=d") else ""
                start = f"&start={page * 25}" if page else ""
                pages.append(
                    Page(f"{base}viewforum.php?f={f}{order}{start}", f"forum {f} {shown} {page}")
                )
    return _unique(pages)


def shop(rng: random.Random, host: str = "shop.example") -> list[Page]:
    """A shop: the way to a product does not matter, filters and pages of categories do."""
    base, pages = f"https://{host}/index.php?route=", []
    for product in range(1, 220):
        content = f"product {product}"
        url = f"{base}product/product&product_id={product}"
        pages.append(Page(url, content))
        ways = [rng.randint(1, 20) for _ in range(rng.randint(1, 3))]
        pages += [Page(f"{url}&path={way}", content) for way in ways]
        if rng.random() < 0.3:
            pages.append(Page(f"{url}&manufacturer_id={product % 9}", content))
        if rng.random() < 0.2:
            pages.append(Page(f"{url}&tag=tag{rng.randint(1, 30)}", content))
        pages.append(Page(f"{base}account/wishlist/add&product_id={product}", "log in"))
    for path in range(1, 21):
        url = f"{base}product/category&path={path}"
        for page in range(1, 4):
            for sort in ("", "&sort=p.sort_order&order=ASC", "&sort=p.price&order=ASC"):
                shown = "" if "sort_order" in sort else sort
                number = f"&page={page}" if page > 1 or rng.random() < 0.5 else ""
                # In the order of price a category shows the same goods: another page.
                pages.append(Page(f"{url}{sort}{number}", f"category {path} {shown} {page}"))
    return _unique(pages)


def news(rng: random.Random, host: str = "news.example") -> list[Page]:
    """A newspaper on WordPress: reply links, first pages, www, slashes, print and AMP."""
    pages = []
    for number in range(1, 240):
        slug = f"{rng.choice('abcdefgh')}-story-{number}"
        path = f"/20{rng.randint(10, 19)}/{rng.randint(1, 12):02}/{slug}/"
        content = f"story {number}"
        pages.append(Page(f"https://{host}{path}", content))
        if rng.random() < 0.2:
            pages.append(Page(f"http://{host}{path}", location=f"https://{host}{path}"))
        if rng.random() < 0.4:
            pages.append(Page(f"https://www.{host}{path}", content))
        if rng.random() < 0.3:
            pages.append(Page(f"https://{host}{path[:-1]}", location=f"https://{host}{path}"))
        replies = [rng.randint(1, 9999) for _ in range(rng.randint(0, 4))]
        pages += [Page(f"https://{host}{path}?replytocom={n}", content) for n in replies]
        if rng.random() < 0.2:
            pages.append(Page(f"https://{host}{path}amp/", content))
        if rng.random() < 0.1:
            pages.append(Page(f"https://{host}{path}?share=mail&nb=1", content))
    for tag in range(60):
        for page in range(1, rng.randint(2, 5)):
            tail = f"page/{page}/" if page > 1 or rng.random() < 0.7 else ""
            pages.append(Page(f"https://{host}/tag/t{tag}/{tail}", f"tag {tag} {page}"))
    return _unique(pages)


def academic(rng: random.Random, host: str = "dept.example.edu") -> list[Page]:
    """Home pages: index files, versions of a manual, and files that only look alike."""
    pages = []
    for user in range(60):
        home = f"http://{host}/~user{user}/"
        pages.append(Page(home, f"home {user}"))
        if rng.random() < 0.6:
            pages.append(Page(f"{home}index.html", f"home {user}"))
        for paper in range(rng.randint(0, 5)):
            pages.append(Page(f"{home}papers/{paper}.html", f"paper {user} {paper}"))
            pages.append(Page(f"{home}papers/{paper}-draft.html", f"draft {user} {paper}"))
    for page in range(150):
        for version, text in (("latest", "2"), ("2", "2"), ("1", "1")):
            url = f"http://{host}/manual/{version}/page{page}.html"
            pages.append(Page(url, f"manual {text} {page}"))
    return _unique(pages)


def iis(rng: random.Random, host: str = "www.iis.example") -> list[Page]:
    """A server that does not tell upper case from lower case in paths."""
    pages = []
    for page in range(250):
        path = f"/Catalog/{rng.choice(('Tools', 'Paint', 'Garden'))}/Item{page}.aspx"
        pages.append(Page(f"http://{host}{path}", f"item {page}"))
        if rng.random() < 0.6:
            pages.append(Page(f"http://{host}{path.lower()}", f"item {page}"))
        if rng.random() < 0.3:
            pages.append(Page(f"http://{host}{path}?print=1", f"printed {page}"))
    return _unique(pages)


def wiki(rng: random.Random, host: str = "wiki.example") -> list[Page]:
    """MediaWiki: pages under path and query, old versions, log-in links, limits that matter."""
    base, pages = f"http://{host}/index.php", []
    for number in range(220):
        title = f"{rng.choice(('Help:', '', '', 'Talk:'))}Topic_{number}"
        content = f"page {number}"
        pages.append(Page(f"http://{host}/wiki/{title}", content))
        pages.append(Page(f"{base}?title={title}&action=edit", f"edit {number}"))
        pages.append(Page(f"{base}?title={title}&action=history", f"history {number}"))
        if rng.random() < 0.5:
            pages.append(Page(f"{base}?title={title}", content))
        if rng.random() < 0.3:
            pages.append(Page(f"{base}?title={title}&action=view", content))
        if rng.random() < 0.4:
            pages.append(Page(f"{base}?title={title}&redirect=no", content))
        if rng.random() < 0.4:
            pages.append(Page(f"{base}?title={title}&printable=yes", content))
        for old in range(rng.randint(0, 3)):
            revision = number * 10 + old
            pages.append(Page(f"{base}?title={title}&oldid={revision}", f"old {revision}"))
            pages.append(Page(f"{base}?oldid={revision}", f"old {revision}"))
        wall = f"{base}?title=Special:UserLogin&returnto={title}"
        pages.append(Page(wall, "log in"))
        pages.append(Page(f"{wall}&returntoquery=action%3Dedit", "log in"))
        pages.append(Page(f"http://{host}/wiki/Special:WhatLinksHere/{title}", f"links {number}"))
    return _unique(pages)


def farm(rng: random.Random, host: str = "farm.example") -> list[Page]:
    """A wiki farm: forms that any page calls, and views of which some pages have their own."""
    pages = []
    for number in range(260):
        path = f"http://{host}/w/{rng.choice(('ops', 'dev', 'lab'))}{number % 30}/page{number}"
        pages.append(Page(path, f"page {number}"))
        pages.append(Page(f"{path}?do=login", "log in"))
        pages.append(Page(f"{path}?do=register", "register"))
        pages.append(Page(f"{path}?do=backlink", f"links {number}" if number % 9 else "none"))
        own = rng.random() < 0.03
        pages.append(Page(f"{path}?do=media", f"media {number}" if own else "no media"))
        if rng.random() < 0.5:
            pages.append(Page(f"{path}?do=show", f"page {number}"))
    return pages


def tracker(rng: random.Random, host: str = "bugs.example") -> list[Page]:
    """Tickets: queries whose order is dress, tabs, log-in links with the way back."""
    pages = []
    for number in range(1, 260):
        ticket = f"https://{host}/issues/{number}"
        pages.append(Page(ticket, f"ticket {number}"))
        if rng.random() < 0.5:
            pages.append(Page(f"{ticket}?tab=history", f"ticket {number}"))
        if rng.random() < 0.3:
            pages.append(Page(f"{ticket}?tab=notes", f"ticket {number}"))
        pages.append(Page(f"https://{host}/login?back_url=%2Fissues%2F{number}", "log in"))
    for project in range(12):
        for status in ("open", "closed", "*"):
            for order in ("", "id:desc", "id", "updated", "priority:desc"):
                sort = f"&sort={order}" if order else ""
                url = f"https://{host}/projects/p{project}/issues?status_id={status}{sort}"
                pages.append(Page(url, f"list {project} {status}"))
    return _unique(pages)


def gitweb(rng: random.Random, host: str = "git.example") -> list[Page]:
    """Parameters between semicolons; the head is implied by the commit."""
    pages = []
    for project in range(4):
        for number in range(80):
            commit = _token(random.Random(f"{project} {number}"), 40)
            base = f"http://{host}/?p=p{project}.git;a="
            pages.append(Page(f"{base}commit;h={commit}", f"commit {commit}"))
            if rng.random() < 0.6:
                pages.append(Page(f"{base}commit;h={commit};js=1", f"commit {commit}"))
            name = f"src/file{number % 17}.c"
            content = f"blob {project} {number}"
            pages.append(Page(f"{base}blob;f={name};hb={commit}", content))
            blob = _token(random.Random(content), 40)
            if rng.random() < 0.7:
                pages.append(Page(f"{base}blob;f={name};h={blob};hb={commit}", content))
            pages.append(Page(f"{base}tree;h={blob[:20]}{number};hb={commit}", f"tree {commit}"))
    return _unique(pages)


def listing(rng: random.Random, host: str = "files.example") -> list[Page]:
    """Directory listings in every order."""
    pages = []
    for number in range(120):
        path = f"/pub/d{number % 11}/e{number}/"
        pages.append(Page(f"http://{host}{path}", f"dir {number}"))
        for column in "NMSD":
            for order in "AD":
                if rng.random() < 0.7:
                    url = f"http://{host}{path}?C={column};O={order}"
                    pages.append(Page(url, f"dir {number}"))
    return _unique(pages)


def board(rng: random.Random, host: str = "board.example") -> list[Page]:
    """Topics whose posts have numbers that rise: in a parameter, or inside a value."""
    pages, number = [], 1000
    for topic in range(1, 90):
        posts = rng.randint(2, 25)
        size = 10
        for page in range(-(-posts // size)):
            tail = f"/page{page + 1}" if page else ""
            pages.append(Page(f"http://{host}/topic-{topic}{tail}", f"topic {topic} {page}"))
        first = Page(f"http://{host}/read?thread={topic}.0", f"thread {topic} 0")
        pages.append(first)
        for post in range(posts):
            number += rng.randint(1, 5)
            page = post // size
            url = f"http://{host}/topic-{topic}?post={number}"
            pages.append(Page(url, f"topic {topic} {page}"))
            url = f"http://{host}/read?thread={topic}.msg{number}"
            pages.append(Page(url, f"thread {topic} {page}"))
    return _unique(pages)


def timeline(rng: random.Random, host: str = "log.example") -> list[Page]:
    """A log read by the day, an archive by the instant, and reports that have one view."""
    pages = []
    for day in range(1, 29):
        for month in (3, 4, 5):
            date = f"2024-{month:02}-{day:02}"
            content = f"day {date}"
            pages.append(Page(f"http://{host}/day?from={date}", content))
            hours = rng.sample(range(24), 3)
            pages += [Page(f"http://{host}/day?from={date}T{h:02}:00:00Z", content) for h in hours]
            zones = ("10:15:00Z", "12:15:00%2B02:00", "03:15:00-07:00")
            found = rng.sample(zones, 2)
            pages += [Page(f"http://{host}/at?max={date}T{z}", f"at {date}") for z in found]
            pages.append(Page(f"http://{host}/at?max={date}T11:15:00Z", f"later at {date}"))
    for number in range(80):
        name = rng.choice(("Report", "Person", "Place"))
        url = f"http://{host}/show?name={name}:{_token(rng, 5)}{number}"
        pages.append(Page(url, f"show {number}"))
        for view in range(rng.randint(1, 3)):
            shown = "" if name == "Report" else f" {view}"
            pages.append(Page(f"{url}&view={view}", f"show {number}{shown}"))
    return _unique(pages)


def revisions(rng: random.Random, host: str = "code.example") -> list[Page]:
    """Revisions with names, other ones in each project; folders that few revisions change."""
    pages = []
    for project in ("core", "docs", "web"):
        commits = [_token(random.Random(f"{project} {n}"), 12) for n in range(60)]
        for number, commit in enumerate(commits):
            names = [commit]
            if number % 4 == 0:
                names.append(f"v{number // 4}")
            if number == 59:
                names += ["main", "latest"]
            trees = [number // rng.choice((10, 10, 20)) for _ in range(3)]
            for name in names:
                for view in ("commit", "log", "patch", "notes", "authors"):
                    url = f"http://{host}/{project}/{view}?at={name}"
                    pages.append(Page(url, f"{view} {commit}"))
                for folder, changed in enumerate(trees):
                    url = f"http://{host}/{project}/tree/d{folder}?at={name}"
                    pages.append(Page(url, f"tree {project} {folder} {changed}"))
    return _unique(pages)


def calendar(rng: random.Random, host: str = "rooms.example") -> list[Page]:
    """Trap: 40 rooms, 120 months; most months are empty, one and a half per cent are not."""
    pages = []
    for room in range(40):
        for year in range(2010, 2020):
            for month in range(1, 13):
                event = rng.random() < 0.015
                content = f"event {room} {year} {month}" if event else f"no event in room {room}"
                pages.append(Page(f"http://{host}/cal?room={room}&y={year}&m={month}", content))
    return pages


def soft_404(rng: random.Random, host: str = "gone.example") -> list[Page]:
    """Trap: most items are gone and show one page; those that are left do not."""
    pages = []
    for item in range(900):
        content = f"item {item}" if rng.random() < 0.04 else "we are sorry"
        pages.append(Page(f"http://{host}/item?id={item}", content))
        if rng.random() < 0.3:
            lang = rng.choice(("de", "fr"))
            shown = content if content == "we are sorry" else f"{content} {lang}"
            pages.append(Page(f"http://{host}/item?id={item}&lang={lang}", shown))
    return pages


def dynamic(rng: random.Random, host: str = "clock.example") -> list[Page]:
    """No two fetches are alike: nothing can be learned, and nothing may be."""
    return [
        Page(f"http://{host}/page{n % 200}?v={n}&ref={n % 7}", f"at {rng.random()}")
        for n in range(600)
    ]


def tiny(rng: random.Random, host: str = "tiny.example") -> list[Page]:
    """Thirty URLs: a session, a www alias, a print link."""
    pages = []
    for number in range(8):
        pages += [Page(f"http://{www}{host}/p/{number}", f"page {number}") for www in ("", "www.")]
        url = f"http://{host}/p/{number}?visit={_token(rng, 8)}"
        pages.append(Page(url, f"page {number}"))
        pages.append(Page(f"http://{host}/p/{number}?big=1", f"big {number}"))
    return _unique(pages)


_SITES: tuple[Callable[..., list[Page]], ...] = (
    *(forum, shop, news, academic, iis, wiki, farm, tracker, gitweb, listing, board, timeline),
    *(revisions, calendar, soft_404, dynamic, tiny),
)
SITES = {of_kind.__name__: of_kind for of_kind in _SITES}
#: Sites on which nothing, or nearly nothing, is redundant in a way that rules may use.
TRAPS = ("calendar", "soft_404", "dynamic")


def site(kind: str, seed: int = 1) -> list[Page]:
    """Return the pages of one simulated site, in a random order that the seed decides."""
    rng = random.Random(f"{kind} {seed}")
    pages = SITES[kind](rng)
    rng.shuffle(pages)
    return pages
