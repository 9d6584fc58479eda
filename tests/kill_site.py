"""A site of many names, and a crawl of it that is killed again and again: which contents are lost?

`killed_crawl` looks at nothing but what the spider saw, what the site was asked for, and the log.
Some crawls are killed while an *audit* is under way, a request for another name that is sent to
test a rule. The site cannot know that, but likely it is one if the log tells of rules in force by
which the name is one that was asked for before (`Watched`).
"""

from __future__ import annotations

import random
import re
import threading
import time
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from hostile_base import WORDS, article
from hostile_runs import Runs
from loopback import Reply, Site, redirect

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Sequence
    from pathlib import Path

HOST = "http://forum.test"
BOARDS = WORDS[:4]
DEADLINE = 120  #: seconds; passes only when a crawl never ends
#: What two names of a content may differ in, with the word for it in a rule.
PARTS: dict[str, Callable[[str], object]] = {
    "The host": lambda url: urlsplit(url).netloc,
    "slash": lambda url: urlsplit(url).path.endswith("/"),
    "order": lambda url: "order=" in url,
    "sid": lambda url: url.partition("sid=")[2],
}
#: When a crawl is killed: at any time, during an audit, during one that finds a rule wrong, or when
#: that was answered and its twin is fetched once more, to be sure.
ANY, AUDIT, DISAGREEING, AGAIN = "any", "audit", "disagreeing", "again"
HOLD = 0.3  #: seconds that the answer to a likely audit is held back
LEARNS = 4  #: seconds that the archive waits for a rule to be wrong in it


class Forum:
    """A forum whose links carry a session, and some of them an order.

    Neither says anything, but in the archive, where each order is a content of its own. The spider
    asks for the archive last: by then a rule is in force that is wrong there, and audits have to
    find that out. (So the sections of the site are few: an audit tests each of the first twelve.)
    Links with ``www.`` or a final slash are redirected; there are some of them everywhere but in the
    archive. If it *redirects_archive*, all links without an order have a final slash there.
    So many *topics* of each board are *ordered*. Each answer takes up to *delay* seconds.
    """

    home = HOST + "/"
    spider = "hostile_spiders.Links"
    settings: ClassVar[dict[str, Any]] = {}
    arguments: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        topics: int = 45,
        archived: int = 30,
        ordered: int = 11,
        *,
        delay: float = 0.0,
        redirects_archive: bool = False,
    ) -> None:
        self.delay = delay
        self.redirects_archive = redirects_archive
        links: dict[str, list[str]] = {"/": ["/archive", *(f"/{board}" for board in BOARDS)]}
        for board in BOARDS:
            plain = [f"/{board}/{number}" for number in range(topics)]
            old = [f"{topic}?order=old" for topic in plain[:ordered]]
            links[f"/{board}"] = [*plain, *old]
            for number, topic in enumerate(plain):
                links[topic] = [plain[number - 1], [*old, *plain[ordered:]][(number + 1) % topics]]
        links["/archive"] = []
        for number in range(archived):
            for order in ("", "?order=old"):
                links["/archive"].append(f"/archive/{number}{order}")
                links[f"/archive/{number}{order}"] = [f"/{BOARDS[number % len(BOARDS)]}"]
        #: Names of all contents, and the links there: those to the archive are followed last.
        self.links = {
            content: [
                (self._dressed(content, link), {"priority": -1 if "/archive" in link else 0})
                for link in found
            ]
            for content, found in links.items()
        }

    def __call__(self, url: str) -> Reply:
        time.sleep(self.delay * random.Random(url).random())
        parts = urlsplit(url)
        if parts.netloc.startswith("www."):
            return redirect(url.replace("//www.", "//", 1))
        if parts.path.endswith("/") and parts.path != "/":
            return redirect(url.replace("/?", "?"))
        content = content_of(url)
        return article(content, *self.links[content]) if content in self.links else Reply(404)

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


SITES: dict[str, Callable[[], Forum]] = {
    "forum": Forum,
    "slow-forum": lambda: Forum(delay=0.1),
    "redirects": lambda: Forum(redirects_archive=True),
    "relearned": lambda: Forum(ordered=45),
}


class Watched:
    """A forum that counts its answers, and notices likely audits. *log* is that of the crawl."""

    def __init__(self, forum: Forum, log: Path) -> None:
        self.forum = forum
        self.answers = 0
        self.likely_audits = 0
        self.waits_for = ""  #: the answer to the next request that this says is held back
        self.is_held = threading.Event()  #: whether an audit is under way that was waited for
        self._log = log
        self._names: dict[str, str] = {}  # the first URL that was asked for, by path
        self._asked: set[str] = set()
        self._doubtful: set[str] = set()  # paths of audits that disagree
        self._targets: set[str] = set()  # of redirects
        self._lock = threading.Lock()

    def __call__(self, url: str) -> Reply:
        with self._lock:
            is_held = self.waits_for in self._what(url)
            if is_held:
                self.waits_for = ""
                self.is_held.set()
        if is_held:
            time.sleep(HOLD)
        if content_of(url) == "/archive":  # until a rule about the order is in force there, too
            end = time.monotonic() + LEARNS
            while time.monotonic() < end and not any("order" in r for r in self._rules("/archive")):
                time.sleep(0.05)
        reply = self.forum(url)
        with self._lock:
            self.answers += 1
            self._targets.add(reply.headers.get("Location", ""))
        return reply

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
        rules = self._rules(path)
        differing = [word for word, part in PARTS.items() if part(url) != part(first)]
        if not all(any(word in rule for rule in rules) for word in differing):
            return ()
        self.likely_audits += 1
        if content_of(url) == content_of(first):
            return (AUDIT,)
        self._doubtful.add(path)
        return (AUDIT, DISAGREEING)

    def _rules(self, path: str) -> list[str]:
        """Return the rules in force that may be for *path*, as the log says."""
        rules: list[str] = []
        for line in self._log.read_text(encoding="utf-8").splitlines():
            rule = line.rpartition(" (")[0].partition(": ")[2].partition(": ")[2]
            if "Learned" in line:
                rules.append(rule)
            elif ("Retracted" in line or "Subsumed" in line) and rule in rules:
                rules.remove(rule)
        section = path.partition("/")[2].partition("/")[0]
        return [r for r in rules if not re.search(r" (?:below|at|in) /|\(", r) or section in r]


def killed_crawl(
    forum: Forum, folder: Path, kills: Sequence[str], chance: random.Random
) -> dict[str, Any]:
    """Crawl *forum*, and kill the crawl as often as there are *kills*, unless it ends before.

    Return what came of it; "audit_kills" were made while a likely audit was under way.
    """
    runs = Runs(forum, folder)  # type: ignore[arg-type]
    runs.settings = {
        "JOBDIR": str(runs.job),
        "CONCURRENT_REQUESTS": 16,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    }
    runs.log.touch()
    runs.record.touch()
    done = audit_kills = 0
    begin = time.monotonic()
    watched = Watched(forum, runs.log)
    with Site(watched) as site, runs:
        for kill in [*kills, ""]:
            watched.waits_for = kill
            watched.is_held.clear()
            if not _kill(runs.start(site), watched, kill, chance):
                break
            done += 1
            audit_kills += watched.is_held.is_set()
    return {
        "contents": len(forum.links),
        "lost": sorted(forum.links.keys() - runs.pages),
        "kills": done,
        "audit_kills": audit_kills,
        "likely_audits": watched.likely_audits,
        "requests": len(site.requests),
        "errors": runs.errors(),
        "seconds": round(time.monotonic() - begin, 1),
    }


def _kill(
    process: subprocess.Popen[bytes], watched: Watched, kill: str, chance: random.Random
) -> bool:
    """Kill *process* when it is time for this *kill*. Return ``False`` if it ended before."""
    enough = watched.answers + chance.randint(1, 250)
    later = chance.uniform(0, 0.1 if kill == ANY else 1.5 * HOLD)  # or when the answer has arrived
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
