"""Miner: the process that mines sites for a crawl.

The event loop never waits for it: a thread waits for the answer of the process.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

from scrapy.utils.asyncio import is_asyncio_available
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.threads import deferToThread

from scrapy_urlnorm.learning.worker import Job, Mined, receive, send

if TYPE_CHECKING:
    from collections.abc import Callable

#: Not with ``-m``: what it sends would be of classes of ``__main__``.
_COMMAND = (sys.executable, "-c", "from scrapy_urlnorm.learning.mined import main; main()")
#: A process that ends by itself so often is not started again.
_MAX_FAILURES = 3
#: Seconds after which a site is given up. 20,000 rows of a real site take about ten.
LONGEST_SECONDS = 120.0


class Miner:
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
        deferred_from_coro(self._mine(job, answer))
        return answer

    async def _mine(self, job: Job, answer: list[Mined]) -> None:
        try:
            answer.append(await _in_thread(self._ask, job))
        except Exception as error:  # noqa: BLE001 - whatever the process or its answer raises
            self._failures += 1
            if not self._is_closed:
                self._current = None
                self._end()
            answer.append(Mined(job.site, (), f"the worker process: {error!r}"))
        self._current = None
        if not self._is_closed:
            self._on_answer()

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


async def _in_thread(function: Callable[[Job], Mined], job: Job) -> Mined:
    if is_asyncio_available():
        return await asyncio.to_thread(function, job)
    return await deferToThread(function, job)


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
