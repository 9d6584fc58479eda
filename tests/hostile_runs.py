"""Hostile sites crawled by processes that are killed, resumed, or run beside others."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from crawl_process import start
from hostile_base import IN_ORDER, visit

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from hostile_base import Hostile
    from loopback import Reply, Site

DEADLINE = 240  #: seconds; passes only when something never happens


class Doors:
    """A site that stands still where it is asked for one of *urls* for the first time."""

    def __init__(self, hostile: Hostile, *urls: str) -> None:
        self.hostile = hostile
        self.is_asked = {url: threading.Event() for url in urls}
        self.opens = {url: threading.Event() for url in urls}

    def __call__(self, url: Any) -> Reply:
        if url in self.opens and not self.opens[url].is_set():
            self.is_asked[url].set()
            self.opens[url].wait(DEADLINE)
        return self.hostile(url)

    def kill_at(self, url: str, process: subprocess.Popen[bytes]) -> bool:
        """Kill *process* when it asks for *url*; whether it came to that, or ended before."""
        deadline = time.monotonic() + DEADLINE
        while not self.is_asked[url].is_set():
            if process.poll() is not None:
                return False
            assert time.monotonic() < deadline, f"nobody asks for {url}"
            time.sleep(0.02)
        process.kill()
        process.wait(DEADLINE)
        self.opens[url].set()
        return True


class Runs:
    """Crawls of one site with one JOBDIR or one Redis; as a context it ends with all of them ended."""

    def __init__(self, hostile: Hostile, folder: Path, **settings: Any) -> None:
        self.hostile = hostile
        self.job = folder / "job"
        self.record = folder / "record"
        self.log = folder / "log"
        self.settings = {**IN_ORDER, **hostile.settings, "JOBDIR": str(self.job), **settings}
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Runs:  # noqa: PYI034 - typing.Self is Python 3.11
        return self

    def __exit__(self, *exc: object) -> None:
        for process in self._started:
            process.kill()
            process.wait()

    def start(self, site: Site, *urls: str, **settings: Any) -> subprocess.Popen[bytes]:
        process = start(
            site,
            [*urls] or [self.hostile.home],
            {**self.settings, **settings},
            self.log,
            spider=self.hostile.spider,
            record=str(self.record),
            **self.hostile.arguments,
        )
        self._started.append(process)
        return process

    def finish(self, site: Site, **settings: Any) -> None:
        assert self.start(site, **settings).wait(DEADLINE) == 0

    @property
    def pages(self) -> set[str]:
        """Names of the pages that reached a callback in any run."""
        return set(self.record.read_text(encoding="utf-8").splitlines())

    def errors(self) -> list[str]:
        """Lines of the log that tell of a fault, and tracebacks."""
        marks = ("] ERROR", "] CRITICAL", "Traceback ")
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return [line for line in lines if any(mark in line for mark in marks)]


def pages_without_learning(hostile: Hostile, folder: Path) -> set[str]:
    """Names of the pages that a crawl fetches that does not learn."""
    result = visit(hostile, folder, URLNORM_LEARN="off")
    assert result.reason == "finished"
    assert hostile.wanted <= set(result.pages)
    return set(result.pages)
