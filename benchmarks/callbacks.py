"""How long the event loop is blocked: of each of its callbacks, the processor time.

Where it is long, a sampler says in which functions of this package. Apart stand what Scrapy takes to
parse pages, the spider, and Python's collection of garbage, whose longest is said.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
import threading
from collections import Counter
from time import sleep, thread_time
from typing import TYPE_CHECKING, Any

import parsel.selector
from spider import Links

if TYPE_CHECKING:
    from scrapy.http import Response

LONGEST = 0.05  # seconds


class Clock:
    def __init__(self) -> None:
        self.times: list[float] = []
        self.collections: list[float] = [0.0]
        self.where: Counter[str] = Counter()
        self._apart = 0.0
        self._seen: Counter[str] = Counter()
        self._main = threading.get_ident()
        run, clock = asyncio.Handle._run, self

        def timed(handle: asyncio.Handle) -> None:
            clock._apart, start = 0.0, thread_time()
            clock._seen = Counter()
            run(handle)
            taken = thread_time() - start - clock._apart
            clock.times.append(taken)
            if taken > LONGEST and clock._seen:
                clock.where[clock._seen.most_common(1)[0][0]] += 1

        asyncio.Handle._run = timed
        parsel.selector.create_root_node = self.apart(parsel.selector.create_root_node)
        gc.callbacks.append(self._collects)
        threading.Thread(target=self._sample, daemon=True).start()

    def apart(self, function: object) -> object:
        """Return a function whose time does not count."""

        def call(*args: object, **kwargs: object) -> object:
            start = thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                self._apart += thread_time() - start

        return call

    def __str__(self) -> str:
        times = sorted(self.times, reverse=True)
        longest = ", ".join(f"{1000 * taken:.0f}" for taken in times[:5])
        over = sum(taken > LONGEST for taken in times)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        said = f"longest callbacks {longest} ms, {over} over {1000 * LONGEST:.0f} ms, "
        said += f"longest collection {1000 * max(self.collections):.0f} ms, {memory} MB"
        where = (f"\n  {often} {names}" for names, often in self.where.most_common(12))
        return said + "".join(where)

    def _collects(self, phase: str, _: object) -> None:
        now = thread_time()
        self._collected = now if phase == "start" else now - self._collected
        if phase == "stop":
            self._apart += self._collected
            self.collections.append(self._collected)

    def _sample(self) -> None:
        while True:
            sleep(0.01)
            frame, names = sys._current_frames().get(self._main), []
            while frame is not None:
                if "scrapy_urlnorm" in frame.f_code.co_filename:
                    names.append(frame.f_code.co_name)
                frame = frame.f_back
            if names:
                self._seen[" < ".join(names[-8:])] += 1


class TimedLinks(Links):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.clock = Clock()

    def parse(self, response: Response) -> object:
        return self.clock.apart(lambda: list(super(TimedLinks, self).parse(response)))()
