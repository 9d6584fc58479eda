"""Sites for crawls that are killed again and again, and the crawls: which contents are lost?

`Forum` is a site of many names. `killed_crawl` crawls it in processes with one JOBDIR, kills each of
them at some moment, and resumes until the crawl ends. It looks at nothing but what the spider saw,
what the site was asked for, and the log. Some are killed while an *audit* is under way, a request
for another name that is sent to test a rule. The site cannot know that, but likely it is one if the
log tells of rules in force by which the name is one that was asked for before (`Watched`).
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import scrapy
from crawl_process import start
from hostile_base import WORDS, article
from loopback import Reply, Site, redirect

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Sequence

HOST = "http://forum.test"
BOARDS = WORDS[:4]
DEADLINE = 120  #: seconds; passes only when a crawl never ends
#: What two names of a content may differ in, with the word for it in a rule.
PARTS: dict[str, Callable[[str], object]] = {
    "host-alias": lambda url: urlsplit(url).netloc,
    "slash": lambda url: urlsplit(url).path.endswith("/"),
    "order": lambda url: "order=" in url,
    "sid": lambda url: url.partition("sid=")[2],
}
#: When a crawl is killed: at any time, during an audit, during one that finds a rule wrong, or when
#: that was answered and its twin is fetched once more, to be sure.
ANY, AUDIT, DISAGREEING, AGAIN = "any", "audit", "disagreeing", "again"
#: How long the answer to a likely audit is held back, in seconds.
HOLD = 0.3
#: How long the archive waits for a rule to be wrong in it.
LEARNS = 4


class Forum:
    """A forum whose links carry a session, and some of them an order.

    Neither says anything, but in the archive, where each order is a content of its own. The spider
    asks for the archive last: by then a rule is in force that is wrong there, and audits have to
    find that out. (So the sections of the site are few: an audit tests each of the first twelve.)
    Links with ``www.`` or a final slash are redirected; there are some of them everywhere but in the
    archive. If it *redirects_archive*, all links without an order have a final slash there.
    Each answer takes up to *delay* seconds.
    """

    def __init__(
        self,
        topics: int = 45,
        archived: int = 30,
        ordered: int = 11,
        *,
        delay: float = 0.0,
        redirects_archive: bool = False,
    ) -> None:
        self.topics = topics  #: of each board
        self.archived = archived
        self.ordered = ordered  #: topics of each board that have an order, too
        self.delay = delay
        self.redirects_archive = redirects_archive
        self.links = self._links()

    @property
    def home(self) -> str:
        """Where the crawl begins."""
        return HOST + "/"

    @property
    def contents(self) -> set[str]:
        """The names of all contents."""
        return set(self.links)

    def __call__(self, url: str) -> Reply:
        time.sleep(self.delay * random.Random(url).random())
        parts = urlsplit(url)
        if parts.netloc.startswith("www."):
            return redirect(url.replace("//www.", "//", 1))
        if parts.path.endswith("/") and parts.path != "/":
            return redirect(url.replace("/?", "?"))
        content = content_of(url)
        return article(content, *self.links[content]) if content in self.links else Reply(404)

    def _links(self) -> dict[str, list[str]]:
        links: dict[str, list[str]] = {"/": ["/archive", *(f"/{board}" for board in BOARDS)]}
        for board in BOARDS:
            topics = [f"/{board}/{number}" for number in range(self.topics)]
            ordered = [f"{topic}?order=old" for topic in topics[: self.ordered]]
            links[f"/{board}"] = [*topics, *ordered]
            for number, topic in enumerate(topics):
                after = (number + 1) % len(topics)
                links[topic] = [topics[number - 1], [*ordered, *topics[self.ordered :]][after]]
        links["/archive"] = []
        for number in range(self.archived):
            for order in ("", "?order=old"):
                links["/archive"].append(f"/archive/{number}{order}")
                links[f"/archive/{number}{order}"] = [f"/{BOARDS[number % len(BOARDS)]}"]
        return {
            content: [self._dressed(content, link) for link in found]
            for content, found in links.items()
        }

    def _dressed(self, content: str, link: str) -> str:
        """Return *link* as the page of *content* has it: with a session, and maybe a redirect."""
        chance = random.Random(content + link)
        path, _, query = link.partition("?")
        host, slash = HOST, ""
        if content != "/archive":
            host = chance.choice((HOST, HOST, HOST, HOST, HOST.replace("//", "//www.")))
            slash = chance.choice(("", "", "", "", "/"))
        elif self.redirects_archive and not query:
            slash = "/"
        session = f"sid={chance.choice('abcd') * 8}"
        return f"{host}{path}{slash}?{'&'.join(filter(None, (query, session)))}"


def content_of(url: str) -> str:
    """Return which content of the forum *url* shows in the end."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/") or "/"
    return f"{path}?order=old" if "/archive/" in path and "order=old" in parts.query else path


#: Sites by name.
SITES: dict[str, Callable[[], Forum]] = {
    "forum": Forum,
    "slow-forum": lambda: Forum(delay=0.1),
    "redirects": lambda: Forum(redirects_archive=True),
    "relearned": lambda: Forum(ordered=45),
}


class Reader(scrapy.Spider):
    """Follows every link, to the archive last. It writes down what it sees before it goes on."""

    name = "reader"
    urls: tuple[str, ...] = ()
    record = ""

    async def start(self) -> Any:
        for url in self.urls:
            yield scrapy.Request(url)

    def parse(self, response: Any) -> Any:
        with Path(self.record).open("a", encoding="utf-8") as file:
            file.write(response.css("h1::text").get() + "\n")
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, priority=-1 if "/archive" in link else 0)


class Watched:
    """A forum that counts its answers, and notices likely audits. *log* is that of the crawl."""

    def __init__(self, forum: Forum, log: Path) -> None:
        self.forum = forum
        self.answers = 0
        self.likely_audits = 0
        self.is_held = threading.Event()  #: whether an audit is under way that was waited for
        self._waits_for = ""
        self._log = log
        self._names: dict[str, str] = {}  # the first URL that was asked for, by path
        self._asked: set[str] = set()
        self._doubtful: set[str] = set()  # paths of audits that disagree
        self._targets: set[str] = set()  # of redirects
        self._lock = threading.Lock()

    def wait_for(self, what: str) -> None:
        """Hold back the answer to the next request that *what* says, one of the likely audits."""
        self._waits_for = what
        self.is_held.clear()

    def __call__(self, url: str) -> Reply:
        with self._lock:
            is_held = self._waits_for in self._what(url)
            if is_held:
                self._waits_for = ""
                self.is_held.set()
        if is_held:
            time.sleep(HOLD)
        if content_of(url) == "/archive":
            self._wait_for_wrong_rule()
        reply = self.forum(url)
        with self._lock:
            self.answers += 1
            self._targets.add(reply.headers.get("Location", ""))
        return reply

    def _wait_for_wrong_rule(self) -> None:
        """Let some time go by until a rule about the order is in force in the archive, too."""
        end = time.monotonic() + LEARNS
        while time.monotonic() < end:
            if any("order" in rule and _is_for(rule, "/archive") for rule in self._rules()):
                return
            time.sleep(0.05)

    def _what(self, url: str) -> tuple[str, ...]:
        """Take note of a request; return what it likely tests."""
        path = urlsplit(url).path.rstrip("/")
        first = self._names.setdefault(path, url)
        is_again = url in self._asked and path in self._doubtful
        self._asked.add(url)
        if is_again:
            return (AUDIT, AGAIN)
        if url == first or url in self._targets:
            return ()
        rules = [rule for rule in self._rules() if _is_for(rule, path)]
        differing = [word for word, part in PARTS.items() if part(url) != part(first)]
        if not all(any(word in rule for rule in rules) for word in differing):
            return ()
        self.likely_audits += 1
        if content_of(url) == content_of(first):
            return (AUDIT,)
        self._doubtful.add(path)
        return (AUDIT, DISAGREEING)

    def _rules(self) -> list[str]:
        """Return the rules in force, as the log says."""
        rules: list[str] = []
        for line in self._log.read_text(encoding="utf-8").splitlines():
            rule = line.partition(" (")[0].partition(": ")[2].partition(": ")[2]
            if "Learned" in line:
                rules.append(rule)
            elif ("Retracted" in line or "Subsumed" in line) and rule in rules:
                rules.remove(rule)
        return rules


def _is_for(rule: str, path: str) -> bool:
    """Whether a rule, as the log has it, may be for *path*."""
    section = path.partition("/")[2].partition("/")[0]
    return not ("path=" in rule or "segments" in rule) or section in rule


@dataclass
class Outcome:
    """What came of one crawl and its kills."""

    contents: int
    lost: list[str]
    runs: int = 0
    kills: int = 0
    audit_kills: int = 0  #: kills while a likely audit was under way
    likely_audits: int = 0
    requests: int = 0
    errors: list[str] = field(default_factory=list)
    seconds: float = 0.0

    as_dict = asdict


def killed_crawl(
    forum: Forum, folder: Path, kills: Sequence[str], chance: random.Random
) -> Outcome:
    """Crawl *forum*, and kill the crawl as often as there are *kills*, unless it ends before."""
    log, record = folder / "log", folder / "record"
    log.touch()
    record.touch()
    outcome = Outcome(len(forum.contents), [])
    begin = time.monotonic()
    watched = Watched(forum, log)
    settings = {
        "JOBDIR": str(folder / "job"),
        "CONCURRENT_REQUESTS": 16,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    }
    with Site(watched) as site:
        for kill in [*kills, ""]:
            watched.wait_for(kill)
            process = start(
                site,
                [forum.home],
                settings,
                log,
                spider="kill_site.Reader",
                record=str(record),
            )
            outcome.runs += 1
            try:
                was_killed = _kill(process, watched, kill, chance)
            finally:
                process.kill()
                process.wait()
            if not was_killed:
                break
            outcome.kills += 1
            outcome.audit_kills += watched.is_held.is_set()
        outcome.requests = len(site.requests)
    outcome.likely_audits = watched.likely_audits
    outcome.lost = sorted(forum.contents - set(record.read_text(encoding="utf-8").splitlines()))
    marks = ("] ERROR", "] CRITICAL", "Traceback ")
    lines = log.read_text(encoding="utf-8").splitlines()
    outcome.errors = [line for line in lines if any(mark in line for mark in marks)]
    outcome.seconds = round(time.monotonic() - begin, 1)
    return outcome


def _kill(
    process: subprocess.Popen[bytes], watched: Watched, kill: str, chance: random.Random
) -> bool:
    """Kill *process* when it is time for this *kill*. Return ``False`` if it ended before."""
    enough = watched.answers + chance.randint(1, 250)
    later = chance.uniform(0, 0.1)
    if kill != ANY:
        later = chance.uniform(0, 1.5 * HOLD)  # or when the answer has arrived
    deadline = time.monotonic() + DEADLINE
    while process.poll() is None:
        is_time = watched.answers >= enough if kill == ANY else watched.is_held.is_set()
        if kill and is_time:
            time.sleep(later)
            if process.poll() is not None:
                break
            process.kill()
            process.wait()
            return True
        assert time.monotonic() < deadline, "the crawl does not end"
        time.sleep(0.005)
    assert process.returncode == 0, f"a crawl ended with {process.returncode}"
    return False
