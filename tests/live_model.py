"""A crawl without Scrapy, for `Witnesses`: a queue, what is under way, and what was seen.

Beside what the code decides, it notes what is true: which keys were asked for, which requests were
sent and ended, which pages arrived. The rules of its sites are applied a second time by hand, so
a request that is kept back is held to what arrived and not to what the code believes.
"""

from __future__ import annotations

import pickle
from collections import Counter, deque
from typing import TYPE_CHECKING

from live_sites import (
    BASE,
    SITES,
    content_of,
    learned_name,
    named_by,
    own_key,
    response_of,
    rule_of,
    site_of,
)
from scrapy import Request
from scrapy.utils.request import request_from_dict

from scrapy_urlnorm.crawl.database import Database
from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter
from scrapy_urlnorm.crawl.live.alias_doubts import is_by_alias
from scrapy_urlnorm.crawl.live.alias_memory import AliasMemory
from scrapy_urlnorm.crawl.live.audits import Audits
from scrapy_urlnorm.crawl.live.file_uses import FileUses
from scrapy_urlnorm.crawl.live.ledger import Ledger, Page
from scrapy_urlnorm.crawl.live.page_aliases import PageAliases
from scrapy_urlnorm.crawl.live.register import Register
from scrapy_urlnorm.crawl.live.witness import Witnesses
from scrapy_urlnorm.crawl.queue.pending import PendingRequests
from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.learning.aliases import Pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from scrapy_urlnorm.crawl.live.register import Keys
    from scrapy_urlnorm.crawl.live.witness import Audit
    from scrapy_urlnorm.learning.alias_links import Link
    from scrapy_urlnorm.learning.aliases import Doubt
    from scrapy_urlnorm.logs.page_identity import Identity

_QUEUE = "0"
_FINGERPRINTER = UrlNormRequestFingerprinter(BASE)


class NoAudits(Audits):
    """For rules that are proved: all that they withhold is withheld."""

    def is_due(self, *_: object) -> bool:
        return False

    is_owed = is_due


class Refusing:
    """A database that can be told to write nothing, as on a disk that is full."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.refuses = False

    def write(self, statement: str, *values: object) -> int:
        if self.refuses:
            raise StoreError("cannot write: the disk is full")
        return self._database.write(statement, *values)

    def write_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        for row in rows:
            self.write(statement, *row)

    def read(self, select: str, *values: object) -> list[tuple]:
        return self._database.read(select, *values)


class Crawl:
    """One frontier over several runs. With a *path* it survives a kill, else it is in memory."""

    def __init__(self, path: Path | None = None, *, has_audits: bool = True) -> None:
        self.path = path
        self.has_audits = has_audits
        self.asked: dict[bytes, str] = {}
        self.known: set[bytes] = set()
        self.ended: set[bytes] = set()
        self.arrived: dict[bytes, str] = {}  # own keys of pages, and their URLs
        self.shared: dict[bytes, Page] | None = None
        self.elsewhere: set[bytes] = set()  # own keys that only another crawler has asked for
        self.rules: dict[str, tuple[str, ...]] = dict.fromkeys(SITES, ())
        self.unreadable: set[str] = set()
        self.stats: Counter[str] = Counter()
        self.put_back: Counter[str] = Counter()
        self.last_commit: tuple[dict[bytes, str], set[bytes]] = ({}, set())
        #: Patterns that are dead, by look, and who claims a name, by its own key: as a run that
        #: was stopped wrote it down.
        self.written_down: tuple[set[tuple[str, ...]], dict[bytes, set[tuple[Identity, Link]]]] = (
            set(),
            {},
        )
        self.under: set[Request] = set()
        self.open()

    # --- runs -------------------------------------------------------------------------------

    def open(self) -> None:
        """Begin a run with the rules that stand in `rules`."""
        self.under.clear()
        self.queue: deque[Request] = deque()
        self.pending = None if self.path is None else PendingRequests(self.path)
        self.database = Refusing(Database.temporary() if self.pending is None else self.pending)
        self.ledger = Ledger(self.database)  # type: ignore[arg-type]
        self.register = Register(_FINGERPRINTER)
        self.audits = Audits() if self.has_audits else NoAudits()
        for site in SITES:
            self._put_in_force(site)
        self.aliases = PageAliases(
            self.register,
            self.ledger,
            AliasMemory(self.database),  # type: ignore[arg-type]
            count=self.count,
            on_dead=self._pattern_is_dead,
            on_contested=lambda keys: self.witnesses.contested(keys),
        )
        dead, claims = self.written_down
        self.dead = set(dead)
        self.claims = {own: set(contents) for own, contents in claims.items()}
        self.aliases.begin()
        self.witnesses = Witnesses(
            self.register,
            self.ledger,
            self.audits,
            self,
            self.aliases,
            FileUses(),
            max_pages=1_000_000,
        )

    def close(self) -> None:
        self.database._database.close()

    def stop(self) -> None:
        """The run ends as a user ends it. What is under way is asked for by the next run."""
        assert self.pending is not None
        has_kept = self.safely(False, lambda: self.aliases.keep() is None)
        self.pending.commit()
        self.last_commit = dict(self.asked), set(self.known)
        self.written_down = (self.dead, self.claims) if has_kept else (set(), {})
        self.close()

    def kill(self) -> None:
        """All memory is lost, and what was written since the last commit."""
        self.close()
        asked, known = self.last_commit
        self.asked, self.known = dict(asked), set(known)

    def commit(self) -> None:
        if self.pending is not None:
            self.pending.done([each for each in self.pending.handed_out if each not in self.under])
            self.pending.commit()
            self.last_commit = dict(self.asked), set(self.known)
            self.written_down = set(), {}

    def safely(self, answer: object, function: Callable[..., object], *values: object) -> object:
        """What `LiveRules` makes of an exception."""
        try:
            return function(*values)
        except StoreError:
            self.stats["errors"] += 1
            return answer

    # --- the queue --------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.queue) if self.pending is None else len(self.pending)

    def push(self, request: Request) -> None:
        if self.pending is None:
            self.queue.append(request)
        else:
            self.pending.push(_QUEUE, self._bytes(request))

    def pop(self) -> Request | None:
        if self.pending is None:
            return self.queue.popleft() if self.queue else None
        return self.pending.pop(_QUEUE, self._request, newest=False)

    @staticmethod
    def _bytes(request: Request) -> bytes:
        return pickle.dumps(request.to_dict())

    @staticmethod
    def _request(data: bytes) -> Request:
        return request_from_dict(pickle.loads(data))

    # --- what `Witnesses` asks of a crawl ---------------------------------------------------

    def under_way(self) -> set[Request]:
        return self.under

    def pack(self, request: Request) -> bytes:
        return self._bytes(request)

    def unpack(self, data: bytes) -> Request | None:
        request = self._request(data)
        return None if request.url in self.unreadable else request

    def send(self, request: Request) -> None:
        self.put_back[request.url] += 1
        assert self.put_back[request.url] < 50, "it is put back again and again"
        self.push(request)

    def waits_here(self, own: bytes) -> bool:
        return own in self.known and own not in self.elsewhere

    def count(self, stat: str, number: float = 1) -> None:
        self.stats[stat] += 1

    def withheld(self, own: bytes, url: str, behind: object) -> None:
        self.count("learned/withheld")

    def shared_witness(self, keys: Keys) -> Page | None:
        page = (self.shared or {}).get(keys.learned)
        return None if page is None or page.own == keys.own else page

    # --- what happens to a request ----------------------------------------------------------

    def find(self, request: Request) -> None:
        """A request is made: the dupefilter looks at it, and then it is queued or withheld."""
        own = own_key(request.url)
        self.asked[own] = request.url
        if own in self.known and not self._is_onto_itself(request):
            return
        is_new = own not in self.known
        self.known.add(own)
        if is_new:
            self.elsewhere.discard(own)
        if is_new and self.safely(None, self.witnesses.on_arrival, request) is not None:
            self._check_is_kept(request)
        else:
            self.push(request)

    @staticmethod
    def _is_onto_itself(request: Request) -> bool:
        urls = request.meta.get("redirect_urls", ())
        return request.url not in urls and own_key(request.url) in map(own_key, urls)

    def leave(self) -> Request | None:
        """The scheduler gives out a request; ``None`` if that is kept back, or there is none."""
        self.commit()
        self._or_give_up(self.witnesses.look_around)
        request = self.pop()
        if request is None:
            return None
        if self.safely(True, self.witnesses.on_leaving, request):
            self.under.add(request)
            return request
        self._check_is_kept(request)
        if self.pending is not None:
            self.pending.done([request])
        return None

    def _check_is_kept(self, request: Request) -> None:
        """What is not sent stands in the ledger, for reasons that hold."""
        meta = request.meta
        assert not meta.get("retry_times")
        assert not meta.get("redirect_urls")
        own = own_key(request.url)
        states = self.database.read("SELECT is_parked FROM withheld WHERE own = ?", own)
        assert states, f"kept nowhere: {request.url}"
        if states[-1] == (0,):
            assert self.has_witness(request.url), f"withheld behind nothing: {request.url}"
        else:
            keys = self.register.keys(request)
            assert keys is not None
            claim = self.witnesses._claims[keys.learned]
            assert claim.own not in self.elsewhere, f"parked behind another crawler: {request.url}"

    def has_witness(self, url: str) -> bool:
        """Whether a page arrived under another own key, and the same learned key as *url* now.

        Or one that named *url*, and no other page of this run did.
        """
        own, site = own_key(url), site_of(url)
        rules = self.rules[site]
        is_named = any(
            own_key(link.url) == own and link.look not in self.dead
            for page in self.arrived.values()
            for link in named_by(page)
        )
        if is_named and not self.is_contested(own, site):
            return True
        return any(
            site_of(other) == site
            and key != own
            and learned_name(other, rules) == learned_name(url, rules)
            for key, other in self.arrived.items()
        )

    def is_contested(self, own: bytes, site: str) -> bool:
        """Whether pages of several contents claim a name. What a dead pattern says is void."""
        aliases = self.aliases._sites.get(site)
        claims = self.claims.get(own, ()) if aliases is not None else ()
        return len({content for content, link in claims if not aliases._pattern(link).is_dead}) > 1

    # --- how a request ends -----------------------------------------------------------------

    def end(self, request: Request) -> None:
        """It ends without a page: an error, a status that is no 2xx, dropped by a middleware."""
        self.ended.add(own_key(request.url))
        self.under.discard(request)

    def page(self, request: Request, content: Identity) -> None:
        """It ends with a page that reaches the spider."""
        own = own_key(request.url)
        if not request.meta.get("retry_times"):
            self.arrived[own] = request.url
        self.safely(None, self._page, request, content)
        self.end(request)

    def _page(self, request: Request, content: Identity) -> None:
        audit = self.witnesses.open_audits.of(request)
        if audit is not None:
            self.witnesses.open_audits.close(audit)
            if audit.witness.content is not None and audit.witness.content.agrees(content):
                self.audits.agreed(audit.rules, audit.witness.vote)
            else:
                self._disagreed(audit)
        page = self.witnesses.page(request, content)
        links = named_by(request.url)
        if page is not None:
            for link in links:
                self.claims.setdefault(own_key(link.url), set()).add((content, link))
        said = self.aliases.read(request, response_of(request.url))
        self._reject(self.aliases.arrived(said, content, page))

    def _reject(self, doubts: Iterable[Doubt]) -> None:
        for doubt in doubts:
            self.aliases.reject(doubt.pattern, "other content")

    def _pattern_is_dead(self, pattern: Pattern) -> None:
        self.dead.add(pattern.look)
        self.audits.forget(pattern)
        self.witnesses.rules_changed(pattern.site)

    def _disagreed(self, audit: Audit) -> None:
        self.audits.undecided(audit.rules)
        blamed = self.audits.to_blame(audit.rules)
        if isinstance(blamed, Pattern):
            self.aliases.reject(blamed, "an audit disagreed")
            return
        site = audit.keys.site
        left = [name for name in self.rules[site] if rule_of(site, name) != blamed]
        self.change_rules(site, left)

    def retry(self, request: Request) -> None:
        """It failed, and Scrapy's retry middleware asks again."""
        meta = {"retry_times": request.meta.get("retry_times", 0) + 1}
        self.push(request.replace(dont_filter=True, meta={**request.meta, **meta}))
        self.end(request)

    def redirect(self, request: Request, url: str) -> None:
        """It ends with a redirect that Scrapy follows."""
        urls = [*request.meta.get("redirect_urls", ()), request.url]
        target = request.replace(url=url, meta={**request.meta, "redirect_urls": urls})
        self.safely(None, self._redirect, request, Request(url))
        if target.dont_filter:
            self.asked[own_key(url)] = url
            self.push(target)
        else:
            self.find(target)
        self.end(request)

    def _redirect(self, request: Request, onto: Request) -> None:
        own = own_key(onto.url)
        is_known = own != own_key(request.url) and own in self.known
        audit = self.witnesses.open_audits.of(request)
        if audit is not None and is_by_alias(audit):
            if is_known:
                self.witnesses.open_audits.close_undecided(audit)
            else:
                self.witnesses.open_audits.follow(audit, onto)
        elif audit is not None:
            self.witnesses.open_audits.close(audit)
            keys = self.register.keys(onto)
            if keys is not None and keys.learned == audit.keys.learned:
                self.audits.agreed(audit.rules, audit.witness.vote)
            else:
                self._disagreed(audit)
        elif is_known and (page := self.aliases.page_at(own)) is not None:
            self._reject(self.aliases.ended_elsewhere(request, page.content))
        self.witnesses.redirected(request, onto, is_known=is_known)

    # --- rules ------------------------------------------------------------------------------

    def _put_in_force(self, site: str) -> None:
        self.register.replace(site, [rule_of(site, name) for name in self.rules[site]])

    def change_rules(self, site: str, names: Iterable[str]) -> None:
        for name in self.rules[site]:
            if name not in names:
                self.audits.forget(rule_of(site, name))
        self.rules[site] = tuple(names)
        self._put_in_force(site)
        self.safely(None, self.witnesses.rules_changed, site)

    def page_elsewhere(self, url: str) -> None:
        """Another crawler of the same frontier tells of a page."""
        keys = self.register.keys_of(url)
        if keys is not None and self.shared is not None:
            own = own_key(url)
            self.shared[keys.learned] = Page(own, "", content_of(url), 1 << 30)
            self.asked[own] = self.arrived[own] = url
            if own not in self.known:
                self.elsewhere.add(own)
            self.known.add(own)
            self.ended.add(own)

    def asked_elsewhere(self, url: str) -> None:
        """Another crawler at the same store asks for a URL, and may die before its page comes."""
        own = own_key(url)
        if own not in self.known:
            self.known.add(own)
            self.ended.add(own)  # as far as this crawler can do anything about it
            self.elsewhere.add(own)

    # --- the end ----------------------------------------------------------------------------

    def kept(self, *, parked: bool = False) -> dict[bytes, str]:
        """What stands in the ledger, by own key."""
        rows = self.ledger.all_parked() if parked else self.ledger.all_kept()
        return {kept.own: self._request(kept.request).url for kept in rows}

    def drain(self) -> None:
        """Send all that waits; every request gets the page that its site has for it."""
        for request in tuple(self.under):
            self.page(request, content_of(request.url))
        while len(self):
            self.work(steps=100)
            request = self.leave()
            if request is not None:
                self.page(request, content_of(request.url))

    def work(self, *, steps: int) -> None:
        """Make keys anew for so many steps, and give up all rules where that fails."""
        left = iter(range(steps - 1))
        self._or_give_up(self.witnesses.work, lambda: next(left, None) is None)

    def idle(self) -> None:
        self._or_give_up(self.witnesses.idle)

    def _or_give_up(self, function: Callable[..., object], *values: object) -> None:
        try:
            function(*values)
        except StoreError:
            self.stats["given up"] += 1
            for site in SITES:
                self.rules[site] = ()
                self._put_in_force(site)
            self.aliases.forget_all()
            self.safely(None, self.witnesses.release_all)

    def run_to_the_end(self) -> None:
        """Go on until an idle crawl has nothing left to send."""
        self.drain()
        rounds = 3 * len(self.kept()) + 10
        self.idle()
        while len(self):
            self.drain()
            self.idle()
            rounds -= 1
            assert rounds, "it comes to no end"
        self.commit()

    def lost(self) -> list[str]:
        """URLs that were asked for, and neither sent nor withheld behind a page that arrived."""
        kept = self.kept()
        return [
            url
            for own, url in self.asked.items()
            if own not in self.ended
            and not (own in kept and (kept[own] in self.unreadable or self.has_witness(kept[own])))
        ]
