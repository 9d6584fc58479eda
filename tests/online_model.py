"""A crawl over several runs, and what is true of it whatever the code believes.

It notes which URLs were asked for, which requests ended, which pages arrived. The rules of its site
are applied a second time by hand, so a request that is held is held to what arrived.
"""

from __future__ import annotations

import pickle
from collections import deque
from functools import cache, partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from online_parts import Parts
from scrapy.http import HtmlResponse
from scrapy.utils.request import request_from_dict
from twisted.internet.defer import Deferred

from scrapy_urlnorm.crawl.database import RequestQueue
from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.report.filtered import COALESCED, SUPPRESSED
from scrapy_urlnorm.site_rules import SiteRule, save_site_rules
from scrapy_urlnorm.stores import RULES_NAME, MemorySeen
from scrapy_urlnorm.stores.sqlite import Database
from scrapy_urlnorm.url import get_fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from scrapy import Request

MOST_STEPS = 2_000  #: of a crawl that comes to its end
SITE = "shop.test"
RULES = {
    "https": {"kind": "force-scheme", "option": "https"},
    "www": {"kind": "host-alias", "host": (f"www.{SITE}",), "by": SITE, "site": SITE},
}
_BASE = Normalizer()


@cache
def rule_of(name: str) -> SiteRule:
    return SiteRule(**{"site": f"*.{SITE}", "source": "redirect", "support": 9} | RULES[name])


@cache
def key_of(url: str) -> bytes:
    return get_fingerprint(_BASE.normalize(url))


def cluster_name(url: str, rules: Iterable[str]) -> str:
    """What the rules called so make of *url*, by hand."""
    parts = urlsplit(url)
    scheme = "https" if "https" in rules else parts.scheme
    host = parts.netloc.removeprefix("www.") if "www" in rules else parts.netloc
    return f"{scheme} {host} {parts.path} {parts.query}"


def content_of(url: str) -> str:
    """The text that a site shows under *url*, whatever its scheme and host; a topic has two names."""
    name = cluster_name(url, RULES)
    return name.partition("&post=")[0].replace("short=", "topic=")


def names_of(url: str) -> list[tuple[str, str]]:
    """The permalinks of the page of *url*: right ones, and one that the first topic has as well."""
    topic = content_of(url).partition("topic=")[2]
    if not topic:
        return []
    names = [f"topic={topic}&post={topic}", *(f"short={n}" for n in sorted({"1", topic}))]
    return [(f"http://{SITE}/t?{name}", f"{name[0]}{topic}") for name in names]


def response_of(url: str) -> HtmlResponse:
    """The page of *url* with its permalinks."""
    links = "".join(f'<a id="{at}" href="{link}#{at}"></a>' for link, at in names_of(url))
    body = f"<html><body><p>{content_of(url)}</p>{links}</body></html>"
    return HtmlResponse(url, body=body.encode(), encoding="utf-8")


class Refusing(Database):
    """A database that can be told to write nothing, as on a disk that is full."""

    refuses = False

    def write(self, statement: str, *values: object) -> int:
        if self.refuses:
            raise StoreError("cannot write: the disk is full")
        return super().write(statement, *values)

    def write_many(self, statement: str, rows: Iterable[Iterable[object]]) -> int:
        return sum(self.write(statement, *row) for row in rows)


class SharedKeys(MemorySeen):
    """A store that another crawler uses too, who tells of its pages."""

    is_shared = True

    def __init__(self) -> None:
        super().__init__()
        self.page = (pages := dict[bytes, bytes]()).get
        self.put_page = pages.__setitem__


class SharedNotes(SharedKeys):
    """One whose users leave notes to one another."""

    def __init__(self) -> None:
        super().__init__()
        self._notes: dict[str, str] = {}
        self.leave_notes, self.notes = self._notes.update, self._notes.copy


UNREADABLE: set[str] = set()  #: URLs of requests that this run cannot read


class Brittle:
    """Part of a request that some runs cannot read."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __setstate__(self, state: dict[str, str]) -> None:
        if state["url"] in UNREADABLE:
            raise ValueError("this run cannot read it")
        self.__dict__ = state


class DiskQueue:
    """The queue of a crawl with JOBDIR; it can read every request."""

    def __init__(self, database: Database) -> None:
        self.rows = RequestQueue(database, self._encode, self._decode)
        self.append = partial(self.rows.push, "0")
        self.popleft = partial(self.rows.pop, "0", newest=False)

    @staticmethod
    def _encode(request: Request) -> bytes:
        meta = {name: value for name, value in request.meta.items() if name != "_brittle"}
        return pickle.dumps(request.replace(meta=meta).to_dict())

    @staticmethod
    def _decode(data: bytes) -> Request:
        request = request_from_dict(pickle.loads(data))
        request.meta["_brittle"] = Brittle(request.url)
        return request

    def __len__(self) -> int:
        return len(self.rows)


class Run(Parts):
    """One run. With JOBDIR its queue is in the database too."""

    def new_queue(self) -> deque[Request] | DiskQueue:
        return DiskQueue(self.database) if self.database.path else deque()


class Crawl:
    """One frontier. With a *folder* it survives a kill, else it is in memory."""

    def __init__(self, folder: Path | None = None, *, has_audits: bool = True) -> None:
        self.folder = folder
        self.has_audits = has_audits
        self.asked: dict[bytes, str] = {}  # URLs, by fingerprint
        self.ended: set[bytes] = set()
        self.arrived: dict[bytes, str] = {}
        self.begin()

    # --- runs -------------------------------------------------------------------------------

    def begin(self) -> None:
        make = partial(Run, has_miner=False, has_audits=self.has_audits, URLNORM_LEARN="content")
        if self.folder is None:
            self.database = Refusing()
            self.parts = make("memory", self.database)
        else:
            path = self.folder / "urlnorm.sqlite"
            self.database = Database(path)
            self.database.commits_itself = False
            self.parts = make(f"sqlite:{path}", self.database, JOBDIR=str(self.folder))
        self.learner, self.queue = self.parts.learner, self.parts.queue
        self.under_way = self.parts.under_way
        self.fetched_again: list[tuple[str, Deferred]] = []
        self.parts.download = self._download

    def _download(self, request: Request) -> Deferred:
        self.fetched_again.append((request.url, Deferred()))
        return self.fetched_again[-1][1]

    def stop(self) -> None:
        """The run ends as a user ends it. What is under way is asked for by the next run."""
        self.commit()
        self.parts.close()

    def commit(self) -> None:
        """As the scheduler does: what has ended leaves the queue."""
        if self.folder is not None:
            rows = self.queue.rows
            rows.done([each for each in rows.handed_out if each not in self.under_way])
            self.database.commit()

    def edit_rules(self, names: Iterable[str]) -> None:
        """A person writes the file of learned rules between two runs."""
        save_site_rules(self.folder / RULES_NAME, map(rule_of, names))

    def rules(self) -> list[str]:
        """The names of the rules that are active."""
        active = {rule.identity for rule in self.learner.rules if rule.active}
        return [name for name in RULES if rule_of(name).identity in active]

    # --- what happens to a request ----------------------------------------------------------

    def find(self, request: Request) -> None:
        """A request is made: the dupefilter looks at it, and then it is queued or held."""
        key = key_of(request.url)
        request.meta["_brittle"] = Brittle(request.url)
        self.asked[key] = request.url
        is_new = not self.parts.dupefilter.knows(key)
        if not self.parts.schedule(request) and is_new:
            self._check_is_held(request)

    def leave(self) -> Request | None:
        """The scheduler gives out a request; ``None`` if that is held, or there is none."""
        self.commit()
        self.learner.work()
        if not len(self.queue):
            return None
        request = self.queue.popleft()
        if self.learner.on_leaving(request):
            self.under_way.add(request)
            return request
        self._check_is_held(request)
        return None

    def _check_is_held(self, request: Request) -> None:
        """What is not sent stands in the database, for reasons that hold."""
        assert not request.meta.get("retry_times")
        select = "SELECT state FROM held WHERE fingerprint = ? ORDER BY id"
        states = self.database.read(select, key_of(request.url))
        assert states, f"held nowhere: {request.url}"
        if states[-1] == (SUPPRESSED,):
            assert self.has_page(request.url), f"suppressed behind nothing: {request.url}"
        elif states[-1] == (COALESCED,):
            assert self._same(request.url, self.asked), f"it waits for nothing: {request.url}"

    def _same(self, url: str, urls: dict[bytes, str]) -> list[bytes]:
        """Those of *urls* that the rules make equal to *url*, but not the user."""
        key, rules = key_of(url), self.rules()
        name = cluster_name(url, rules)
        return [
            other
            for other, each in urls.items()
            if other != key and cluster_name(each, rules) == name
        ]

    def has_page(self, url: str) -> bool:
        """Whether a page arrived that the rules make equal to *url*, or one that named it.

        A name that is wrong counts as long as its pattern may be accepted.
        """
        accepted = self.parts.stats["aliases"] > self.parts.stats["aliases_retracted"]
        return bool(self._same(url, self.arrived)) or any(
            key_of(name) == key_of(url) and (accepted or content_of(name) == content_of(page))
            for page in self.arrived.values()
            for name, _ in names_of(page)
        )

    # --- how a request ends -----------------------------------------------------------------

    def end(self, request: Request) -> None:
        """It ends without a page: an error, a status that is no 2xx, dropped by a middleware."""
        self.ended.add(key_of(request.url))
        self.under_way.discard(request)

    def page(self, request: Request) -> None:
        """It ends with a page that reaches the spider."""
        if not request.meta.get("retry_times"):
            self.arrived[key_of(request.url)] = request.url
        self.learner.page(request, response_of(request.url))
        self.end(request)

    def retry(self, request: Request) -> None:
        """It failed, and Scrapy's retry middleware asks again."""
        meta = {"retry_times": request.meta.get("retry_times", 0) + 1}
        self.find(request.replace(dont_filter=True, meta={**request.meta, **meta}))
        self.end(request)

    def change_rules(self, *names: str) -> None:
        self.parts.found(*map(rule_of, names), site=SITE)

    # --- the end ----------------------------------------------------------------------------

    def held(self) -> dict[str, int]:
        """The state of each URL that is held."""
        return dict(self.database.read("SELECT url, state FROM held"))

    def run_to_the_end(self) -> None:
        """Send all that waits; every request gets its page, until nothing is left to send."""
        for request in tuple(self.under_way):
            self.page(request)
        for _ in range(MOST_STEPS):
            if self.fetched_again:
                url, answer = self.fetched_again.pop(0)
                answer.callback(response_of(url))
            elif len(self.queue):
                request = self.leave()
                if request is not None:
                    self.page(request)
            elif not self.learner.idle() and not len(self.queue):
                self.commit()
                return
        raise AssertionError("it comes to no end")

    def lost(self) -> list[str]:
        """URLs that were asked for, and neither sent nor suppressed behind a page that arrived."""
        held = {url for url in self.held() if url in UNREADABLE or self.has_page(url)}
        fine = {key_of(url) for url in held}
        return [url for key, url in self.asked.items() if key not in self.ended | fine]
