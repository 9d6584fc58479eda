"""What a seed decides: the site, how it answers, and what goes wrong."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from typing import TYPE_CHECKING, NamedTuple

import simulator

if TYPE_CHECKING:
    from collections.abc import Iterator


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


SITES = {**simulator.SITES, "habits": habits}
_KINDS = [kind for kind in SITES if kind != "dynamic"]


class Plan(NamedTuple):
    """A crawl. Times are in seconds, shares are of the URLs."""

    seed: int
    kind: str = "tiny"  #: one of `SITES`
    pages: int = 90
    learn: str = "content"
    concurrency: int = 8
    latency: float = 0.1
    mining: float = 0.5  #: how long the miner takes at most
    on_disk: bool = False  #: with JOBDIR
    kills: tuple[int, ...] = ()  #: after so many events
    broken: float = 0.0  #: answers 500 each time
    gone: float = 0.0  #: answers 404
    flaky: float = 0.0  #: answers 503 the first time
    moved: float = 0.0  #: redirects to another spelling of the same page, or in a circle
    hangs: float = 0.0  #: takes a minute
    refused: float = 0.0  #: dropped by a middleware, as robots.txt has it
    empty: float = 0.0  #: answers 200 or 204 without a body
    spelled: float = 0.0  #: has up to five more spellings, which the catalogue merges
    restless: bool = False  #: pages show a counter, an advertisement
    full: tuple[int, int] | None = None  #: the disk refuses writes between these events
    miner_dies: bool = False


def plan_of(seed: int) -> Plan:
    r = random.Random(f"plan {seed}")

    def maybe(chance: float, *shares: float) -> float:
        return r.choice(shares) if r.random() < chance else 0.0

    on_disk = r.random() < 0.3
    begin = r.randint(20, 400)
    return Plan(
        seed,
        r.choice(_KINDS),
        r.choice((45, 90, 180, 400)),
        r.choice(("content", "content", "content", "redirects", "off")),
        r.choice((1, 4, 8, 16)),
        r.choice((0.0, 0.1, 1.0)),
        r.choice((0.0, 0.5, 20.0)),
        on_disk,
        tuple(sorted(r.randint(5, 900) for _ in range(r.randint(1, 3)))) if on_disk else (),
        broken=maybe(0.2, 0.02, 0.2),
        gone=maybe(0.2, 0.02, 0.2),
        flaky=maybe(0.2, 0.05, 0.3),
        moved=maybe(0.2, 0.05, 0.2),
        hangs=maybe(0.1, 0.01),
        refused=maybe(0.2, 0.1, 0.4),
        empty=maybe(0.1, 0.1),
        spelled=maybe(0.4, 0.2, 0.8),
        restless=r.random() < 0.3,
        full=(begin, begin + r.randint(1, 200)) if not on_disk and r.random() < 0.15 else None,
        miner_dies=r.random() < 0.1,
    )


def smaller(plan: Plan) -> Iterator[Plan]:
    """Yield plans with less of everything."""
    default = Plan(plan.seed)
    for name in ("on_disk", *Plan._fields[8:], "learn", "concurrency", "latency", "mining"):
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


class Site:
    """A site whose pages hang below one another, as on a real one.

    A content that a crawl never fetches takes its links along.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        r = random.Random(f"site {plan.seed}")
        pages = SITES[plan.kind](r)
        r.shuffle(pages)
        del pages[plan.pages :]
        pages += self._spellings(pages, r)
        self.start = next(page.url for page in pages if page.location is None)
        self.answers = {page.url: self._answer(page, r, pages) for page in pages}
        self.answers[self.start] = Answer(200, dict(pages_of(pages))[self.start])
        self.flaky = {url for url in self.answers if r.random() < plan.flaky}
        self.refused = {url for url in self.answers if r.random() < plan.refused} - {self.start}
        self.links: defaultdict[str, list[str]] = defaultdict(list)
        self._hang(pages)

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
        plan, delay = self.plan, 60.0 if r.random() < self.plan.hangs else 0.0
        if page.location is not None:
            return Answer(301, location=page.location)
        chance = r.random()
        if chance < plan.broken:
            return Answer(500)
        if chance < plan.broken + plan.gone:
            return Answer(404)
        if chance < plan.broken + plan.gone + plan.moved:
            same = [each.url for each in pages if each.content == page.content]
            return Answer(r.choice((301, 302)), location=r.choice(same))
        if chance > 1 - plan.empty:
            return Answer(r.choice((200, 204)), delay=delay)
        return Answer(200, page.content, delay=delay)

    def _hang(self, pages: list) -> None:
        first = self.answers[self.start].content
        known, slots, left = {first}, deque([first]), {first: 8}
        for url in (page.url for page in pages if page.url != self.start):
            while len(slots) > 1 and not left[slots[0]]:
                slots.popleft()
            self.links[slots[0]].append(url)
            left[slots[0]] -= 1
            answer = self.answers[url]
            if answer.content and answer.content not in known:
                known.add(answer.content)
                slots.append(answer.content)
                left[answer.content] = 8

    def contents(self) -> set[str]:
        """What a crawl that drops nothing finds."""
        found: set[str] = set()
        urls, todo = {self.start}, [self.start]
        while todo:
            url = todo.pop()
            answer = Answer(0) if url in self.refused else self.answers.get(url, Answer(404))
            if answer.content:
                found.add(answer.content)
            new = [answer.location] if answer.location else self.links.get(answer.content, ())
            for url in new if answer.status < 400 else ():
                if url not in urls:
                    urls.add(url)
                    todo.append(url)
        return found


def pages_of(pages: list) -> Iterator[tuple[str, str]]:
    return ((page.url, page.content) for page in pages if page.location is None)
