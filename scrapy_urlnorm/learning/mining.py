"""Mining: from a log with many sites to rules, site by site."""

from __future__ import annotations

import os
import signal
import sys
from collections import defaultdict, deque
from threading import Thread
from typing import TYPE_CHECKING

from scrapy_urlnorm.learning.evidence import site_of_host
from scrapy_urlnorm.learning.one_site import Job, SiteReport, report_on
from scrapy_urlnorm.learning.risk import Limits
from scrapy_urlnorm.learning.rows_by_site import by_site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from concurrent.futures import Future

    from scrapy_urlnorm.logs import Observation
    from scrapy_urlnorm.site_rules import SiteRule

#: Rows that go to another process at once, and rows under way (choices: a small site is not worth
#: the way, and what waits for a giant one is held in memory).
_CHUNK, _UNDER_WAY = 5_000, 300_000


def mine(
    observations: Iterable[Observation],
    *,
    risk: float = 0.02,
    noise: float = 0.001,
    processes: int = 1,
    progress: Callable[[int, int], None] | None = None,
    accepted: Iterable[SiteRule] = (),
    banned: Mapping[str, int] | None = None,
    wary: bool = False,
    after: str = "",
) -> list[SiteRule]:
    """Learn the rules of every site of a log.

    *risk* is the expected share of wrong merges that a rule may have (0.006 is strict, 0.03 the
    edge). *noise* is the share of pages whose content changes from one fetch to the next; a site
    of which a hundred URLs were fetched twice tells it itself, if it is more.
    *processes* share the sites out (a script that asks for several begins its work below
    ``if __name__ == "__main__"``, as :mod:`multiprocessing` wants it). *progress* is called with sites done and sites in all.

    *accepted* are rules in force already: they stay, unless the log speaks against them. *banned*
    says, by the identity of a rule that was refuted, how many witnesses it needs now. *wary* asks
    for more evidence, as a log needs that a crawl is still writing: its rows are no fair sample.
    Sites whose names come *after* this one are learned from, in the order of their characters: the
    others were done by a run that was interrupted.
    """
    reports = survey(
        observations,
        risk=risk,
        noise=noise,
        processes=processes,
        progress=progress,
        accepted=accepted,
        banned=banned,
        wary=wary,
        after=after,
    )
    return [rule for report in reports for rule in report.rules]


def survey(
    observations: Iterable[Observation],
    *,
    risk: float = 0.02,
    noise: float = 0.001,
    processes: int = 1,
    progress: Callable[[int, int], None] | None = None,
    accepted: Iterable[SiteRule] = (),
    banned: Mapping[str, int] | None = None,
    wary: bool = False,
    after: str = "",
) -> Iterator[SiteReport]:
    """Learn as `mine` does; yield a report for each site, in the order of their names.

    All *observations* are read before the first report. Many of them leave memory: `rows_by_site`.
    """
    limits = Limits(risk, noise, wary)
    known: defaultdict[str, tuple[SiteRule, ...]] = defaultdict(tuple)
    for rule in accepted:
        known[site_of_host(rule.site.removeprefix("*."))] += (rule,)
    with by_site(observations, after) as sites:
        count = len(sites)
        jobs = (Job(site, rows, limits, known[site], banned or {}) for site, rows in sites)
        for done, report in enumerate(_run(jobs, min(processes, count)), 1):
            if progress is not None:
                progress(done, count)
            yield report


def _run(jobs: Iterable[Job], processes: int) -> Iterator[SiteReport]:
    if processes <= 1:
        yield from map(report_on, jobs)
        return
    # Loading these takes longer than learning from a small log.
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    # A process with the threads of DuckDB must not be forked, and its memory need not be.
    context = get_context("spawn" if "duckdb" in sys.modules else None)
    with ProcessPoolExecutor(processes, context, initializer=_begin) as pool:
        under_way: deque[tuple[int, Future[list[SiteReport]]]] = deque()
        for chunk in _chunks(jobs):
            under_way.append((_size(chunk), pool.submit(_reports_on, chunk)))
            while sum(rows for rows, _ in under_way) > _UNDER_WAY and len(under_way) > processes:
                yield from under_way.popleft()[1].result()
        for _, future in under_way:
            yield from future.result()


def _begin() -> None:
    """Begin the work of a process: it ends when it is told to, and when nobody is left to tell it.

    A handler of the process that started it is none for this one. The pipe through which jobs come
    has no end when that process is killed, as this one holds both ends.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    from multiprocessing import connection, parent_process

    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def _chunks(jobs: Iterable[Job]) -> Iterator[list[Job]]:
    """Yield a few small sites together, or a large one."""
    chunk: list[Job] = []
    for job in jobs:
        chunk.append(job)
        if _size(chunk) >= _CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _size(jobs: Iterable[Job]) -> int:
    return sum(len(job.rows) for job in jobs)


def _reports_on(jobs: Iterable[Job]) -> list[SiteReport]:
    return [report_on(job) for job in jobs]
