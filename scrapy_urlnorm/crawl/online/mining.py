"""Mining: brings what arrives to the miner, and says when a site is worth mining.

A `Worker` hands sites to a process, one after the other, and brings their rules back. The event
loop never waits for it: a thread waits for the answer of the process.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import OrderedDict
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

from scrapy.utils.asyncio import is_asyncio_available
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.threads import deferToThread

from scrapy_urlnorm.crawl.components import site_of
from scrapy_urlnorm.crawl.online.evidence import Row
from scrapy_urlnorm.learning.doors import OF_WALL
from scrapy_urlnorm.learning.robots import clean_params
from scrapy_urlnorm.learning.worker import OF_FILE, Job, Mined, mined, receive, send
from scrapy_urlnorm.logs.page_identity import FILE, WALL
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from scrapy import Request
    from twisted.internet.defer import Deferred
    from twisted.python.failure import Failure

    from scrapy_urlnorm.crawl.online.evidence import Evidence
    from scrapy_urlnorm.crawl.online.requests import DuplicateRates
    from scrapy_urlnorm.crawl.online.rules import RuleRegistry
    from scrapy_urlnorm.logs.page_identity import Identity
    from scrapy_urlnorm.site_rules import SiteRule

#: Not with ``-m``: what it sends would be of classes of ``__main__``.
_COMMAND = (sys.executable, "-c", "from scrapy_urlnorm.learning.worker import main; main()")
#: A process that ends by itself so often is not started again.
_MAX_FAILURES = 3
#: Seconds after which a site is given up. 20,000 rows of a real site take about ten.
LONGEST_SECONDS = 120.0
#: Mining may take this share of the time of the crawl, and so many seconds more (choices: with twice
#: as much of either, ten applications learned nothing earlier).
SHARE, ADVANCE = 0.1, 1.0
#: With so few rows a site that redirects, or whose robots.txt names candidates, is mined while the
#: event loop waits (8 to 30 ms): it could be through before the process has begun.
MINED_AT_ONCE = 50
#: Sites whose hosts have a robots.txt that names candidates, and after so many of one site no more
#: files are read.
MAX_SITES_WITH_CANDIDATES, MAX_CANDIDATES = 1_000, 200


class Mining:
    """Fills the evidence and has sites mined when that is worth it.

    Without *contents*, only redirects and robots.txt teach. *rates* counts how many pages bring
    nothing new. *is_settled* says whether the pages of a site bear their names: if not, the site is
    mined later. *count* adds to a statistic. *on_mined* is called with what the miner found, and
    *on_error* with what went wrong in it.
    """

    def __init__(
        self,
        evidence: Evidence,
        registry: RuleRegistry,
        rates: DuplicateRates,
        *,
        contents: bool,
        count: Callable[[str, float], None],
        is_settled: Callable[[str], bool],
        on_mined: Callable[[Mined], None],
        on_error: Callable[[str], None],
    ) -> None:
        self._is_settled = is_settled
        self._evidence = evidence
        self._registry = registry
        self._rates = rates
        self._contents = contents
        self._count = count
        self._on_mined = on_mined
        self._on_error = on_error
        self._worker = Worker(self._job, self._mined)
        self._candidates: dict[str, tuple[SiteRule, ...]] = {}  # of robots.txt, by site
        self._later: set[str] = set()  # sites for which there was no time

    # --- evidence ---------------------------------------------------------------------------

    def wants_content(self, url: str) -> bool:
        """Return whether the content of a page may teach something."""
        return self._contents or (bool(self._candidates) and site_of(url) in self._candidates)

    def page(self, url: str, status: int, content: Identity | None, *, is_audit: bool) -> None:
        """Write down that *url* was answered with a page with this *content*.

        That an audit brings nothing new says nothing of the other URLs of its kind.
        """
        name = None if content is None else _named(content)
        is_duplicate = self._add(Row(url, status, name, None))
        if name is not None and is_duplicate is not None and not is_audit:
            self._rates.add(site_of(url), url, is_duplicate=is_duplicate)

    def redirect(self, request: Request, target: str, status: int) -> None:
        """Write down that *request* was redirected to *target*."""
        self._add(Row(request.url, status, None, target))

    def robots_txt(self, url: str, body: bytes) -> None:
        """Have the miner try what a file says of its host, if *url* is that of a robots.txt."""
        parts, site = split(url), site_of(url)
        if parts.path != "/robots.txt" or not parts.host:
            return
        known = self._candidates.get(site, ())
        if any(rule.site == parts.host for rule in known) or len(known) >= MAX_CANDIDATES:
            return  # http and https have a file each
        found = clean_params(body, parts.host)
        if found and (known or len(self._candidates) < MAX_SITES_WITH_CANDIDATES):
            self._candidates[site] = (*known, *found)

    def _add(self, row: Row) -> bool | None:
        site = site_of(row.url)
        is_event = self._evidence.add(site, row)
        if not self._is_settled(site):
            self._later.add(site)
        elif self._evidence.is_due(site, has_time=self._worker.has_time):
            is_simple = is_event and (row.content is None or site in self._candidates)
            is_small = self._evidence.count(site) <= MINED_AT_ONCE
            if is_simple and is_small and site != self._worker.current:
                self._worker.mine_at_once(site)
            else:
                self._worker.request(site)
        elif self._evidence.is_due(site, has_time=True):
            self._later.add(site)
        return is_event

    def retracted(self, site: str) -> None:
        """Have *site* mined as soon as possible: one of its rules was retracted."""
        self._evidence.mine_again(site)

    # --- when to mine -----------------------------------------------------------------------

    def work(self) -> None:
        """Mine a site for which there was no time when its last page arrived."""
        if self._later and self._worker.has_time:
            site = self._later.pop()
            if not self._is_settled(site):
                self._later.add(site)
            elif self._evidence.is_due(site, has_time=True):
                self._worker.request(site)

    def renamed(self, site: str, url: str, content: Identity) -> None:
        """Take note that the content of a page has another name."""
        self._evidence.rename(site, url, _named(content))
        self._later.add(site)

    def look_again(self, eager: Collection[str], *, is_last: bool) -> bool:
        """Begin to mine the sites that wait for a last look, if it *is_last*.

        Of the *eager*, a few new duplicates are enough. Return whether a site is being mined.
        """
        for site in self._evidence.unmined(eager) if is_last else ():
            self._worker.request(site)
        return self._worker.current is not None

    def _job(self, site: str) -> Job:
        return Job(
            site,
            self._evidence.take(site),
            self._registry.active(site),
            self._registry.quarantined(site),
            self._candidates.get(site, ()),
            self._contents,
        )

    def _mined(self, found: Mined) -> None:
        self._count("learned/minings", 1)
        self._count("learned/mining_seconds", found.seconds)
        if found.error is not None:
            self._on_error(found.error)
        try:
            self._evidence.found(found.site, something=self._registry.mined(found))
            self._on_mined(found)
        except Exception as error:  # noqa: BLE001 - Twisted would only log it
            self._on_error(repr(error))

    def close(self) -> None:
        """End the process of the miner."""
        self._worker.close()


def _named(content: Identity) -> str:
    """Return how a row calls a content: what is no HTML, or asks for a password, says so."""
    kinds = {FILE: OF_FILE, WALL: OF_WALL}
    return kinds.get(content.kind or "", "") + content.name


class Worker:
    """Mines one site at a time. *job_of* makes the job of a site when its turn comes.

    *on_mined* is called with each answer, also with one that says what went wrong.
    """

    def __init__(self, job_of: Callable[[str], Job], on_mined: Callable[[Mined], None]) -> None:
        self._job_of = job_of
        self._on_mined = on_mined
        self._waiting: OrderedDict[str, None] = OrderedDict()
        self._process: subprocess.Popen[bytes] | None = None
        self._current: str | None = None
        self._begun = 0.0
        self._failures = 0
        self._is_closed = False
        self._start = monotonic()
        self._spent = self._last = 0.0  # seconds of processor time: of all sites, of the last one

    @property
    def has_time(self) -> bool:
        """Whether one site more can be mined within the share of the time of the crawl.

        What is asked for already is thought to take as long as the last site did.
        """
        asked = len(self._waiting) + (self._current is not None)
        wanted = self._spent + (asked + 1) * self._last
        return wanted <= ADVANCE + SHARE * (monotonic() - self._start)

    @property
    def current(self) -> str | None:
        """The site that is being mined. One that takes too long is given up."""
        if self._current is not None and monotonic() - self._begun > LONGEST_SECONDS:
            self._end()
        return self._current

    def request(self, site: str) -> None:
        """Mine *site* as soon as those are done that were asked for before."""
        if self._is_closed or self._failures >= _MAX_FAILURES:
            return
        self._waiting[site] = None
        if self._current is None:
            self._next()

    def mine_at_once(self, site: str) -> None:
        """Mine a small *site* in this process, while the event loop waits."""
        self._answered(mined(self._job_of(site)), is_current=False)

    def _next(self) -> None:
        while self._waiting and self._current is None and not self._is_closed:
            site, _ = self._waiting.popitem(last=False)
            try:
                job = self._job_of(site)
            except Exception as error:  # noqa: BLE001 - damaged rows; other sites have theirs
                self._on_mined(Mined(site, (), 0.0, repr(error)))
                continue
            self._current = site
            self._begun = monotonic()
            asked = _in_thread(self._ask, job)
            asked.addCallbacks(self._answered, self._failed, errbackArgs=(site,))

    def _ask(self, job: Job) -> Mined:
        """Wait for the answer to *job*. This runs in a thread, so it touches nothing else."""
        process = self._process
        if process is not None and process.poll() is not None:
            _close_pipes(process)
            process = None
        if process is None:
            process = self._process = _started()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            send(process.stdin, job)
            found: Mined = receive(process.stdout)
        except BaseException:
            _close_pipes(process)
            raise
        return found

    def _answered(self, found: Mined, *, is_current: bool = True) -> None:
        if is_current:
            self._current = None
        self._last = found.seconds
        self._spent += found.seconds
        if not self._is_closed:
            self._on_mined(found)
            self._next()

    def _failed(self, failure: Failure, site: str) -> None:
        self._current = None
        if self._is_closed:
            return
        self._failures += 1
        self._end()
        self._on_mined(Mined(site, (), 0.0, f"the worker process: {failure.value!r}"))
        if self._failures >= _MAX_FAILURES:
            self._waiting.clear()
        self._next()

    def close(self) -> None:
        """End the process. What it was asked is not answered any more."""
        self._is_closed = True
        self._waiting.clear()
        self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        if self._current is None:  # else the thread that waits for the answer closes them
            _close_pipes(process)


def _in_thread(function: Callable[[Job], Mined], job: Job) -> Deferred[Mined]:
    """Call *function* in a thread, of asyncio where Scrapy uses it, else of Twisted."""

    async def call() -> Mined:
        if is_asyncio_available():
            return await asyncio.to_thread(function, job)
        return await deferToThread(function, job)

    return deferred_from_coro(call())


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):  # what could not be written to it any more
                pipe.close()


def _started() -> subprocess.Popen[bytes]:
    # The process imports what this one does, also where the path was changed at run time. In a
    # session of its own, because Ctrl-C is for the crawl, which then ends the process itself.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        _COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
