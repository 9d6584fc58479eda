"""Mining: hands sites to a worker process, one after the other, and brings their rules back.

The event loop never waits for it. A thread waits for the answer of the process.
"""

from __future__ import annotations

import asyncio
import logging
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

from scrapy_urlnorm.learning.worker import Job, Mined, receive, send

if TYPE_CHECKING:
    from collections.abc import Callable

    from twisted.internet.defer import Deferred
    from twisted.python.failure import Failure

logger = logging.getLogger(__name__)

#: Not with ``-m``: what it sends would be of classes of ``__main__``.
_COMMAND = (sys.executable, "-c", "from scrapy_urlnorm.learning.worker import main; main()")
#: A process that ends by itself so often is not started again.
_MAX_FAILURES = 3
#: Seconds after which a site is given up. 20,000 rows of a real site take about ten.
LONGEST_SECONDS = 120.0
#: Mining may take this share of the time of the crawl, and so many seconds more (choices: with twice
#: as much of either, ten applications learned nothing earlier).
SHARE, ADVANCE = 0.1, 1.0


def in_thread(function: Callable[[Job], Mined], job: Job) -> Deferred[Mined]:
    """Call *function* in a thread, of asyncio where Scrapy uses it, else of Twisted."""

    async def call() -> Mined:
        if is_asyncio_available():
            return await asyncio.to_thread(function, job)
        return await deferToThread(function, job)

    return deferred_from_coro(call())


class Mining:
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
            asked = in_thread(self._ask, job)
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
            mined: Mined = receive(process.stdout)
        except BaseException:
            _close_pipes(process)
            raise
        return mined

    def _answered(self, mined: Mined) -> None:
        self._current = None
        self._last = mined.seconds
        self._spent += mined.seconds
        if not self._is_closed:
            self._on_mined(mined)
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
