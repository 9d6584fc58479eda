"""SafePoints: where what was learned of a site comes into force.

A rule, a name or a key that changes while requests are under way acts on some of them and not on
others, and on which ones would depend on how fast machine and miner are. So such work waits: as
long as there is some, no request of its site is given out, and when all that were under way have
ended, it is done, one thing after the other. So two crawls of a site that answers alike send the
same requests in the same order. Requests of other sites go out meanwhile.

Where somebody else gives requests out, no request waits, and the work is done at once.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.text import logger_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy_urlnorm.crawl.frontier import CrawlFrontier

logger = logger_of(__name__)

#: So much learning is done before the event loop has its turn: about ten milliseconds. Steps and no
#: seconds, because what a crawl sends must not depend on how fast the machine is.
STEPS = 50
#: A site of which no request has ended for so long waits no more for those that are under way: a
#: download may hang. The engine asks every five seconds, so it waits five more at most.
LONGEST_SECONDS = 5.0
#: And not before the event loop has had so many turns: where it was busy for so long, requests may have
#: ended that nobody has heard of.
TURNS = 100


class Work(IntEnum):
    """What waits for a safe point, in the order in which it is done there."""

    VERDICTS = 0  #: long pages are compared
    NAMES = 1  #: pages are named anew
    PAGES = 2  #: pages speak for rules, as their names are settled
    KEYS = 3  #: cluster keys are made anew, and what is held behind them is looked at again
    RULES = 4  #: the answer of the miner


class _Waiting(NamedTuple):
    """How many requests of a site are under way, since when, and for how many turns too long."""

    number: int
    since: float
    turns: int = 0


class SafePoints:
    """Work by site. An iterator yields after each step; true if something else has to come first."""

    def __init__(self, frontier: CrawlFrontier) -> None:
        self._frontier = frontier
        self._jobs: dict[str, dict[Work, Iterator[object]]] = {}
        self._waiting: dict[str, _Waiting] = {}
        #: Whether our scheduler gives the requests out: another one does not stop for anything.
        self.can_pause = False

    def put(self, site: str, kind: Work, job: Iterator[object]) -> None:
        """Have a *job* done at the next safe point of *site*, in place of another one of its kind."""
        self._jobs.setdefault(site, {})[kind] = job
        self._frontier.ask_again()

    def drop(self, site: str, kind: Work) -> None:
        self._jobs.get(site, {}).pop(kind, None)

    def clear(self) -> None:
        self._jobs.clear()
        self._waiting.clear()

    def has(self, site: str, kind: Work) -> bool:
        return kind in self._jobs.get(site, ())

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __contains__(self, site: str) -> bool:
        return site in self._jobs

    def is_paused(self, site: str) -> bool:
        """Whether no request of *site* is given out now."""
        return self.can_pause and site in self._jobs

    def work(self) -> bool:
        """Do what can be done now, a slice of it; return whether to come again at once."""
        is_over = new_slice()
        for site in [each for each in self._jobs if self._is_safe(each)]:
            if self._work_at(site, is_over):
                return True
            if not self._jobs.get(site):
                self._jobs.pop(site, None)
                self._waiting.pop(site, None)
        return False

    def _work_at(self, site: str, is_over: Callable[[], bool]) -> bool:
        """Do one job, or a slice of it; return whether there is more to be done at once.

        A page may have waited for that job alone: it speaks before the next one, whether that is
        there already or comes later.
        """
        jobs = self._jobs[site]
        kind = min(jobs)
        job = jobs[kind]
        for waits in job:
            if waits or is_over():
                return not waits
        if jobs.get(kind) is job:  # no other one has taken its place meanwhile
            del jobs[kind]
        return bool(jobs)

    def _is_safe(self, site: str) -> bool:
        if not self.can_pause or not (number := self._frontier.under_way(site)):
            return True
        now, waiting = self._frontier.now(), self._waiting.get(site)
        if waiting is None or waiting.number != number:
            self._waiting[site] = _Waiting(number, now)
            return False
        if now - waiting.since < LONGEST_SECONDS:
            return False
        turns = waiting.turns + 1
        self._waiting[site] = waiting._replace(turns=turns)
        if turns < TURNS:
            self._frontier.ask_again()
            return False
        if turns == TURNS:
            message = (
                "What is learned of %(site)s comes into force early: %(number)d downloads hang"
            )
            logger.debug(message, {"site": site, "number": number}, extra=self._frontier.extra)
        return True


def new_slice() -> Callable[[], bool]:
    """Return what says, asked after each step, whether `STEPS` steps are done."""
    left = iter(range(STEPS - 1))
    return lambda: next(left, None) is None
