"""Mining: brings what arrives to the miner, and says when a site is worth mining.

A `Worker` has one site at a time mined by a process, and brings its rules back. The event loop
never waits for it: a thread waits for the answer of the process, and the site for its safe point.
Sites that are worth mining while it is busy, or has used up its budget, wait in `Evidence.later`.
The budget is in rows and not in seconds: what a crawl learns must not depend on the machine.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from scrapy.utils.asyncio import is_asyncio_available
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.threads import deferToThread

from scrapy_urlnorm.crawl.components import ask_again, domain_of, site_of
from scrapy_urlnorm.crawl.online.evidence import Row, named
from scrapy_urlnorm.crawl.online.safe_points import Work
from scrapy_urlnorm.learning.worker import Job, Mined, receive, send
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scrapy import Request
    from twisted.internet.defer import Deferred
    from twisted.python.failure import Failure

    from scrapy_urlnorm.crawl.online.evidence import Evidence
    from scrapy_urlnorm.crawl.online.frontier import CrawlFrontier
    from scrapy_urlnorm.crawl.online.rules import RuleRegistry
    from scrapy_urlnorm.crawl.online.safe_points import SafePoints
    from scrapy_urlnorm.logs.page_identity import Identity
    from scrapy_urlnorm.site_rules import SiteRule

#: Not with ``-m``: what it sends would be of classes of ``__main__``.
_COMMAND = (sys.executable, "-c", "from scrapy_urlnorm.learning.mined import main; main()")
#: A process that ends by itself so often is not started again.
_MAX_FAILURES = 3
#: Seconds after which a site is given up. 20,000 rows of a real site take about ten.
LONGEST_SECONDS = 120.0
#: So many rows may be mined for each page that arrived, and so many more. To begin counts as rows.
ROWS_A_PAGE, ADVANCE, BEGIN = 6, 7_000, 50
#: With so few rows a site that redirects, or that has candidates, is mined while the event loop
#: waits (8 to 30 ms): the process would take longer to begin.
MINED_AT_ONCE = 50
#: Sites with candidates, and after so many of one site no more robots.txt are read.
MAX_SITES_WITH_CANDIDATES, MAX_CANDIDATES = 1_000, 200


@dataclass(eq=False)
class Mining:
    """Fills the evidence and has sites mined when that is worth it.

    Candidates are the rules that robots.txt names, and those *proposed* in the user's rule files.
    Without *contents*, only redirects and candidates teach. A site that waits for a safe point is
    mined later.
    """

    evidence: Evidence
    registry: RuleRegistry
    safe_points: SafePoints
    frontier: CrawlFrontier
    contents: bool
    proposed: Iterable[SiteRule] = ()

    def __post_init__(self) -> None:
        self._worker = Worker(lambda: ask_again(self.frontier.crawler))
        self._budget = ADVANCE  # rows
        self._candidates: dict[str, tuple[SiteRule, ...]] = {}  # by site
        for rule in self.proposed:
            site = domain_of(rule.site)
            self._candidates[site] = (*self._candidates.get(site, ()), rule)

    # --- evidence ---------------------------------------------------------------------------

    def wants_content(self, url: str) -> bool:
        return self.contents or (bool(self._candidates) and site_of(url) in self._candidates)

    def page(self, url: str, status: int, content: Identity | None) -> bool | None:
        """Write down that *url* was answered with a page with this *content*.

        Return whether another URL has it; ``None`` if that is not known.
        """
        name = None if content is None else named(content)
        is_duplicate = self._add(Row(url, status, name, None))
        return None if name is None else is_duplicate

    def redirect(self, request: Request, target: str, status: int) -> None:
        self._add(Row(request.url, status, None, target))

    def robots_txt(self, url: str, body: bytes) -> None:
        parts, site = split(url), site_of(url)
        if parts.path != "/robots.txt" or not parts.host or b"clean-param" not in body.lower():
            return
        from scrapy_urlnorm.learning.robots import clean_params  # few sites say so

        known = self._candidates.get(site, ())
        told = [rule.site for rule in known if rule.source == "robots"]
        if parts.host in told or len(told) >= MAX_CANDIDATES:
            return  # http and https have a file each
        found = clean_params(body, parts.host)
        if found and (known or len(self._candidates) < MAX_SITES_WITH_CANDIDATES):
            self._candidates[site] = (*known, *found)

    def _add(self, row: Row) -> bool | None:
        site = site_of(row.url)
        is_event = self.evidence.add(site, row)
        self._budget += ROWS_A_PAGE
        is_simple = is_event and (row.content is None or site in self._candidates)
        is_small = self.evidence.count(site) <= MINED_AT_ONCE
        self._look_at(site, at_once=bool(is_simple and is_small))
        return is_event

    # --- when to mine -----------------------------------------------------------------------

    def work(self) -> None:
        """Mine the sites that wait for their turn, as far as the miner and its budget allow."""
        self._worker.give_up_late()
        for site in list(self.evidence.later):
            if not self._worker.is_free:
                return
            if site in self.safe_points:
                continue
            if self._is_due(site):
                self._mine(site)
            elif self.evidence.is_due(site, has_budget=True):
                return  # the budget grows: it is its turn first
            self.evidence.later.pop(site, None)

    def _is_due(self, site: str) -> bool:
        has_budget = BEGIN + self.evidence.count(site) <= self._budget
        return self.evidence.is_due(site, has_budget=has_budget)

    def _look_at(self, site: str, *, at_once: bool = False) -> None:
        """Mine a site if that is worth it, and there is a budget; else it waits for that."""
        is_free = (at_once or self._worker.is_free) and site not in self.safe_points
        if is_free and self._is_due(site):
            self._mine(site, at_once=at_once)
        elif self.evidence.is_due(site, has_budget=True):
            self.evidence.later[site] = None

    def look_again(self) -> None:
        """Begin to mine a site that waits for a last look."""
        for site in self.evidence.unmined():
            if self._worker.is_free:
                self._mine(site)

    def _mine(self, site: str, *, at_once: bool = False) -> None:
        self._budget -= BEGIN + self.evidence.count(site)
        try:
            job = Job(
                site,
                self.evidence.take(site),
                self.registry.active(site),
                self.registry.quarantined(site),
                self._candidates.get(site, ()),
                self.contents,
            )
        except Exception as error:  # noqa: BLE001 - damaged rows; other sites have theirs
            self._mined(Mined(site, (), 0.0, repr(error)), error)
        else:
            answer = self._worker.mine_at_once(job) if at_once else self._worker.mine(job)
            self.safe_points.put(site, Work.RULES, self._answered(answer))

    def _answered(self, answer: list[Mined]) -> Iterator[bool]:
        """Wait for the *answer* of the miner, true, and have it act."""
        while not answer:
            yield True
        self._mined(answer[0])

    def _mined(self, found: Mined, error: Exception | None = None) -> None:
        self.frontier.count("learned/minings")
        if found.error is not None:
            self.frontier.failed("mining", error or RuntimeError(found.error))
        try:
            self.evidence.found(found.site, something=self.registry.mined(found))
        except Exception as failure:  # noqa: BLE001 - other sites are mined all the same
            self.frontier.failed("mining", failure)

    def close(self) -> None:
        self._worker.close()


class Worker:
    """Mines one site at a time.

    Each answer, also a failure, comes in the list that `mine` returns; then *on_answer* is called.
    """

    def __init__(self, on_answer: Callable[[], None]) -> None:
        self._on_answer = on_answer
        self._process: subprocess.Popen[bytes] | None = None
        self._current: str | None = None
        self._begun = 0.0
        self._failures = 0
        self._is_closed = False

    @property
    def is_free(self) -> bool:
        return self._current is None and self._failures < _MAX_FAILURES and not self._is_closed

    def give_up_late(self) -> None:
        if self._current is not None and monotonic() - self._begun > LONGEST_SECONDS:
            self._end()

    def mine(self, job: Job) -> list[Mined]:
        self._current = job.site
        self._begun = monotonic()
        answer: list[Mined] = []
        asked = _in_thread(self._ask, job)
        asked.addCallbacks(self._answered, self._failed, (answer,), errbackArgs=(answer, job.site))
        return answer

    def mine_at_once(self, job: Job) -> list[Mined]:
        """Mine a small site in this process, while the event loop waits."""
        from scrapy_urlnorm.learning.mined import mined  # most crawls leave it to the other process

        return [mined(job)]

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

    def _answered(self, found: Mined, answer: list[Mined]) -> None:
        self._current = None
        answer.append(found)
        if not self._is_closed:
            self._on_answer()

    def _failed(self, failure: Failure, answer: list[Mined], site: str) -> None:
        self._failures += 1
        if not self._is_closed:
            self._current = None
            self._end()
        self._answered(Mined(site, (), 0.0, f"the worker process: {failure.value!r}"), answer)

    def close(self) -> None:
        self._is_closed = True
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
