"""Recording: what a crawl writes down for the question why, and for the report at its end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.utils.asyncio import create_looping_call

from scrapy_urlnorm.crawl.parts import parts_of
from scrapy_urlnorm.report.drops import DropRecord, Point
from scrapy_urlnorm.stores import DROPS_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from scrapy.crawler import Crawler

#: A kill loses what was dropped in so many seconds. Of the record: the pages come all the same.
FLUSH_SECONDS = 5.0


class Recording:
    """The record of drops in *folder*, from `open` until the engine has stopped."""

    def __init__(self, crawler: Crawler, folder: Path) -> None:
        self._crawler = crawler
        self._folder = folder
        self._drops: DropRecord | None = None
        self._flushing: Any = None
        crawler.signals.connect(self.close, signals.engine_stopped)

    def open(self) -> None:
        """Open the record, and have it written to disk every few seconds; once."""
        if self._drops is not None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        self._drops = DropRecord(self._folder / DROPS_NAME, self._progress)
        self._flushing = create_looping_call(self._drops.flush)
        self._flushing.start(FLUSH_SECONDS, now=False)

    def dropped(
        self, key: bytes, url: str, first: str | None, rules: Iterable[object], *, saves: bool
    ) -> None:
        """Take note of a request that is not sent: see `DropRecord.dropped`."""
        if self._drops is not None:
            self._drops.dropped(key, url, first, rules, saves=saves)

    def tested(self, results: Iterable[tuple[object, int]]) -> None:
        """Take note of how many tests each learned rule has passed."""
        if self._drops is not None:
            self._drops.tested(results)

    def _progress(self) -> Point:
        stats = self._crawler.stats
        assert stats is not None

        def number(name: str) -> int:
            return int(stats.get_value(name, 0))

        so_far = number("urlnorm/merged") + number("urlnorm/learned/withheld")
        so_far -= number("urlnorm/learned/put_back")
        saved = stats.get_value("urlnorm/saved", so_far)  # known for certain at the end
        return Point(number("downloader/response_count"), int(saved))

    def close(self) -> None:
        """Close the record."""
        if self._flushing is not None:
            self._flushing.stop()
            self._flushing = None
        if self._drops is not None:
            self._drops.close()
            self._drops = None


def recording_of(crawler: Crawler) -> Recording | None:
    """Return the recording of a crawl, made when first asked for; ``None`` without JOBDIR."""
    parts = parts_of(crawler)
    recording = parts.find(Recording)
    config = parts.config(crawler.settings)
    if recording is None and config.jobdir:
        recording = Recording(crawler, Path(config.jobdir))
        parts.put(recording)
    return recording
