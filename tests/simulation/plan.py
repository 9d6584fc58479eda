"""What a seed decides: the site, how it answers, and what goes wrong."""

from __future__ import annotations

import html
import random
from collections import defaultdict, deque
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin

import simulator

from scrapy_urlnorm import normalize

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator


def habits(rng: random.Random, host: str = "shop.test") -> list[simulator.Page]:
    """Redirects that teach a rule on most of a site, and a section in which none of them holds."""
    pages, has_section = [], rng.random() < 0.5
    habits = rng.sample(["host", "slash", "index"], rng.randint(1, 3))
    for number in range(400):
        is_own = has_section and number % 7 == 0
        page = f"http://www.{host}/{'own' if is_own else 'd'}{number}/"
        if "slash" not in habits:
            page = page.removesuffix("/")
        urls = {page}
        if "host" in habits:
            urls |= {url.replace("www.", "") for url in urls}
        if "slash" in habits:
            urls |= {url.rstrip("/") for url in urls}
            urls |= {f"{page}index.html"} if "index" in habits else set()
        for url in sorted(urls):
            content = url if is_own else page
            is_page = is_own or url == page
            pages.append(simulator.Page(url, content, None if is_page else page))
    return pages


def views(rng: random.Random, host: str = "wares.test") -> list[simulator.Page]:
    """A parameter that says nothing on most of a site, and selects a page in one of its folders."""
    pages, has_folder = [], rng.random() < 0.5
    for number in range(150):
        folder = ("tea", "ink", "oak", "own")[number % (4 if has_folder else 3)]
        for view in ("", "?view=a", "?view=b", "?view=c"):
            content = f"{folder} {number}{view if folder == 'own' else ''}"
            pages.append(simulator.Page(f"http://{host}/{folder}/{number}{view}", content))
    return pages


SITES = {**simulator.SITES, "habits": habits, "views": views}
_KINDS = [kind for kind in SITES if kind != "dynamic"]
#: Of these a URL has one at most.
FAULTS = ("broken", "gone", "moved", "astray", "empty", "cut")


class Plan(NamedTuple):
    """A crawl. Times are in seconds, moments in events, shares are of the URLs."""

    seed: int
    kind: str = "tiny"  #: one of `SITES`
    pages: int = 90
    learn: str = "content"
    concurrency: int = 8
    latency: float = 0.1
    mining: float = 0.5  #: how long the miner takes at most
    crawlers: int = 1  #: with queues of their own, at one store
    is_foreign: bool = False  #: Scrapy's own scheduler
    newest_first: bool = False
    on_disk: bool = False  #: with JOBDIR
    kills: tuple[int, ...] = ()  #: moments
    late: bool = False  #: the faults of URLs strike those alone that are linked to last
    broken: float = 0.0  #: answers 500 each time
    gone: float = 0.0  #: answers 404
    flaky: float = 0.0  #: answers 503 the first time
    moved: float = 0.0  #: redirects to another spelling of the same page, or in a circle
    astray: float = 0.0  #: redirects elsewhere: home, to another page, in a loop, far, nowhere
    hollow: float = 0.0  #: answers 200 with no page of its own: a login form, an error, a file
    halved: float = 0.0  #: answers with half of its page
    cut: float = 0.0  #: the connection breaks, the first time or always
    hangs: float = 0.0  #: takes a minute
    refused: float = 0.0  #: dropped by a middleware, as robots.txt has it
    swallowed: float = 0.0  #: answered, and the answer is dropped on its way to the spider
    raises: float = 0.0  #: the callback fails when it has done all that it does
    empty: float = 0.0  #: answers 200 or 204 without a body
    spelled: float = 0.0  #: has up to five more spellings, which the catalogue merges
    expiring: float = 0.0  #: answers 403 or 404 from some moment on
    changing: float = 0.0  #: of contents: shows another page for good from some moment on
    outage: tuple[int, int] | None = None  #: between these moments every URL answers one page
    callbacks: bool = False  #: links with a mark of the catalogue's have another callback
    restless: bool = False  #: pages show a counter, an advertisement
    full: tuple[int, int] | None = None  #: the disk refuses writes between these moments
    miner_dies: bool = False
    misled: int = 0  #: pages more, each under URLs whose parameter says nothing: but one value may


def plan_of(seed: int) -> Plan:
    r = random.Random(f"plan {seed}")

    def maybe(chance: float, *shares: float) -> float:
        return r.choice(shares) if r.random() < chance else 0.0

    on_disk = r.random() < 0.3
    pages = r.choice((40, 60, 80, 120))
    begin = r.randint(20, 20 + pages)
    return Plan(
        seed,
        r.choice(_KINDS),
        pages,
        r.choice((*["content"] * 8, "redirects", "off")),
        r.choice((1, 4, 8, 16)),
        r.choice((0.0, 0.1, 1.0)),
        r.choice((0.0, 0.5, 20.0)),
        crawlers=1 if on_disk or r.random() < 0.9 else 2,
        is_foreign=not on_disk and r.random() < 0.1,
        newest_first=r.random() < 0.2,
        on_disk=on_disk,
        kills=tuple(sorted(r.choices(range(5, 2 * pages), k=r.randint(1, 3)))) if on_disk else (),
        late=r.random() < 0.3,
        broken=maybe(0.2, 0.02, 0.2),
        gone=maybe(0.2, 0.02, 0.2),
        flaky=maybe(0.2, 0.05, 0.3),
        moved=maybe(0.2, 0.05, 0.2),
        astray=maybe(0.15, 0.03, 0.2),
        hollow=maybe(0.15, 0.03, 0.2),
        cut=maybe(0.15, 0.03, 0.2),
        hangs=maybe(0.1, 0.01),
        refused=maybe(0.2, 0.1, 0.4),
        swallowed=maybe(0.1, 0.03, 0.2),
        raises=maybe(0.1, 0.03, 0.2),
        empty=maybe(0.1, 0.1),
        spelled=maybe(0.4, 0.2, 0.8),
        expiring=maybe(0.15, 0.1, 0.4),
        changing=maybe(0.15, 0.05, 0.3),
        restless=r.random() < 0.3,
        full=(begin, begin + r.randint(1, pages)) if not on_disk and r.random() < 0.15 else None,
        miner_dies=r.random() < 0.1,
        misled=24 if r.random() < 0.2 else 0,
    )


def smaller(plan: Plan) -> Iterator[Plan]:
    """Yield plans with less of everything."""
    default = Plan(plan.seed)
    for name in (*Plan._fields[7:], "learn", "concurrency", "latency", "mining"):
        value = getattr(default, name)
        if getattr(plan, name) != value and (name != "on_disk" or not plan.kills):
            yield plan._replace(**{name: value})
    if len(plan.kills) > 1:
        yield from (plan._replace(kills=(kill,)) for kill in plan.kills)
    for pages in (plan.pages // 2, plan.pages * 9 // 10):
        if pages >= 10:
            yield plan._replace(pages=pages)


class Answer(NamedTuple):
    """What the site answers to one URL."""

    status: int
    content: str = ""
    location: str = ""
    delay: float = 0.0  #: seconds more than others
    shown: str = ""  #: what is there in place of a content: one of `HOLLOW`
    breaks: int = 0  #: how many times the connection breaks before there is an answer


#: Pages that are no content of their own, and no other page is dropped behind them.
HOLLOW = {
    "login": b"<title>Log in</title><form>Log in: <input type=password></form>",
    "missing": b"<title>404 Not Found</title><h1>Page not found</h1>",
    "part": b"<h1>the first words of",
    "file": b"%PDF-1.4",
    "down": b"<h1>Down</h1><p>We are back soon. Thank you for your patience.</p>",
}
FAR = "http://far.test/"  #: where redirects go round, or on and on


class Site:
    """A site whose pages hang below one another, as on a real one.

    A content that a crawl never fetches takes its links along.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        r = random.Random(f"site {plan.seed}")
        pages = _some(SITES[plan.kind](r), plan.pages // (4 if plan.misled else 1), r)
        pages += self._spellings(pages, r) + _misleading(plan, pages[0].url)
        start = next(page for page in pages if page.location is None)
        self.start = start.url
        first = plan.pages // 2 if plan.late else 0
        self._sound = {normalize(page.url) for page in pages[:first]}
        self._targets: list[str] = []
        self.answers = {page.url: self._answer(page, r, pages) for page in pages}
        self.answers |= _far()
        self.answers[self.start] = Answer(200, start.content)

        def some(share: float, of: Iterable[str]) -> dict[str, int]:
            """Draw so many, each with a moment."""
            return {each: r.randint(20, 20 + 2 * plan.pages) for each in of if r.random() < share}

        urls = [url for url in self.answers if url != self.start]
        self.flaky = some(plan.flaky, self.answers).keys()
        self.refused = some(plan.refused, urls).keys()
        self.swallowed = some(plan.swallowed, urls).keys()
        self.raises = some(plan.raises, urls).keys()
        self.expires = some(plan.expiring, urls)
        contents = {answer.content: None for answer in self.answers.values() if answer.content}
        self.changes = some(plan.changing, contents)
        self.links: defaultdict[str, list[str]] = defaultdict(list)
        self._hang(pages)
        # Behind a page the redirect of another of its spellings is not followed.
        self.links[self.answers[self.start].content] += self._targets

    def _spellings(self, pages: list, r: random.Random) -> list:
        """More URLs of pages, each of which may answer in its own way."""
        found = []
        for page in pages:
            if r.random() < self.plan.spelled:
                mark = "&" if "?" in page.url else "?"
                urls = [f"{page.url}{mark}utm_source={n}" for n in range(r.randint(1, 5))]
                found += [page._replace(url=url) for url in urls]
        return found

    def _answer(self, page: simulator.Page, r: random.Random, pages: list) -> Answer:
        key, plan = normalize(page.url), self.plan
        if key in self._sound:
            plan = plan._replace(**dict.fromkeys((*FAULTS, "hollow", "halved"), 0.0))
        delay, chance = 60.0 if r.random() < plan.hangs else 0.0, r.random()
        fault = ""
        for name in FAULTS:
            if 0 <= chance < getattr(plan, name):
                fault = name
            chance -= getattr(plan, name)
        # Behind any page the catalogue drops its spellings: all of them are hollow, or none.
        own = random.Random(f"hollow {plan.seed} {key}")
        if own.random() < plan.hollow:
            return Answer(200, shown=own.choice(("login", "missing", "file")))
        if own.random() < plan.halved:
            return Answer(own.choice((200, 206)), shown="part")
        if fault in ("broken", "gone"):
            return Answer(500 if fault == "broken" else 404)
        if fault == "moved":
            same = [each.url for each in pages if each.content == page.content]
            return Answer(r.choice((301, 302)), location=r.choice(same))
        if fault == "astray":
            far = [self.start, f"{FAR}loop1", f"{FAR}hop1", f"{FAR}hop20", "http://[", ""]
            target = r.choice((r.choice(far), r.choice(pages).url))
            self._targets += [target] * (target not in far)
            return Answer(r.choice((301, 302)), location=target)
        if fault == "empty":
            return Answer(r.choice((200, 204)), delay=delay)
        breaks = r.choice((1, 1_000)) if fault == "cut" else 0
        if page.location is not None:
            return Answer(301, location=page.location, breaks=breaks)
        return Answer(200, page.content, delay=delay, breaks=breaks)

    def _hang(self, pages: list) -> None:
        """Hang eight pages below each; more where there is no content left to hang them below."""
        first = self.answers[self.start].content
        known, slots = {first: None}, deque([first] * 8)
        for url in (page.url for page in pages if page.url != self.start):
            slots = slots or deque(known)
            self.links[slots.popleft()].append(url)
            answer = self.answers[url]
            if answer.content and answer.breaks < 2 and answer.content not in known:
                known[answer.content] = None
                slots += [answer.content] * 8

    def contents(self, spoilt: Collection[str] = ()) -> set[str]:
        """What a crawl that drops nothing finds, if those URLs have answered nothing.

        They are given as the catalogue normalizes them.
        """
        found: set[str] = set()
        urls, todo = {self.start}, [self.start]
        while todo:
            url = todo.pop()
            answer = self.answers.get(url, Answer(404))
            if answer.breaks > 1 or url in self.refused or normalize(url) in spoilt:
                continue
            is_read = answer.content and url not in self.swallowed
            if is_read:
                found.add(answer.content)
            new = self.links.get(answer.content, ()) if is_read else ()
            for url in [answer.location] if answer.location else new:
                if url not in urls:
                    urls.add(url)
                    todo.append(url)
        return found


def _some(pages: list, number: int, r: random.Random) -> list:
    """Return so many of *pages*, in random order: a sample of the contents, with most of their URLs.

    Of a content that nearly every page has, only a part: else a small site has no other.
    """
    r.shuffle(pages)
    groups: defaultdict[str, list] = defaultdict(list)
    for page in pages:
        groups[page.location or page.content].append(page)
    most = max(8, number // 8)
    found = [page for group in groups.values() for page in group[:most]][:number]
    r.shuffle(found)
    return found


def _misleading(plan: Plan, beside: str) -> list[simulator.Page]:
    """Return pages that four values of a parameter show alike; those of a fifth, met late, are others."""
    r, base = random.Random(f"misleading {plan.seed}"), urljoin(beside, "/pile/")
    pages, views = range(plan.misled), ("ab", "cd")  # a rule is there when half of them came
    found = [f"{base}{page}?as={view}" for some in views for page in pages for view in some]
    for page in r.sample(pages, r.choice((0, 1, 1, 3)) if found else 0):
        # Not the last one: that is sent in any case when the crawl ends.
        found.insert(r.randint(len(found) * 3 // 4, len(found) - 3), f"{base}{page}?as=own")
    return [simulator.Page(url, url if "own" in url else url.partition("?")[0]) for url in found]


def _far() -> dict[str, Answer]:
    """A chain of redirects that leads nowhere, and a loop of three."""
    chain = {f"{FAR}hop{n}": Answer(301, location=f"{FAR}hop{n + 1}") for n in range(30)}
    loop = {f"{FAR}loop{n}": Answer(302, location=f"{FAR}loop{(n + 1) % 3}") for n in range(3)}
    return {**chain, **loop}


@lru_cache(maxsize=10_000)
def _words(content: str) -> str:
    draw = random.Random(content)
    return " ".join(f"w{draw.randint(0, 9999)}" for _ in range(30))


def body_of(content: str, links: Iterable[str], visitor: int = 0) -> bytes:
    """A page of some words of its own; it greets a *visitor*."""
    text = _words(content)
    shown = f"<p>{html.escape(content)} {text}</p>"
    if visitor:
        shown += f"<div class=ad>visitor {visitor}, ad {visitor * 7919 % 97}</div>"
    shown += "".join(f'<a href="{html.escape(url)}">go</a>' for url in links)
    head = f"<head><title>{text[:20]}</title></head>"
    return f"<html>{head}<body>{shown}</body></html>".encode()
