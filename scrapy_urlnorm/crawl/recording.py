"""Recording: what a crawl writes down for the question why, and for the report at its end."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.utils.asyncio import create_looping_call

from scrapy_urlnorm.crawl.parts import parts_of
from scrapy_urlnorm.crawl.settings import REPORT
from scrapy_urlnorm.exceptions import UrlNormError
from scrapy_urlnorm.logs import read_log
from scrapy_urlnorm.report.drops import DropRecord, Drops, Point
from scrapy_urlnorm.report.gather import from_crawl
from scrapy_urlnorm.report.page import page
from scrapy_urlnorm.stores import DROPS_NAME, ROWS_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from scrapy.crawler import Crawler

    from scrapy_urlnorm.crawl.settings import Config
    from scrapy_urlnorm.site_rules import SiteRule

logger = logging.getLogger(__name__)

#: A kill loses what was dropped in so many seconds. Of the record: the pages come all the same.
FLUSH_SECONDS = 5.0


class Recording:
    """The record of drops, from `open` until the engine has stopped, and then the report.

    They stand in JOBDIR; without one, in a folder that is deleted at the end.
    """

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._report = config.report
        self._cleanup = ExitStack()
        if config.jobdir:
            self._folder = Path(config.jobdir)
        else:
            name = self._cleanup.enter_context(TemporaryDirectory(prefix="urlnorm-"))
            self._folder = Path(name)
        #: The crawl log that the report is made from.
        self.rows = config.crawl_log or str(self._folder / ROWS_NAME)
        self._drops: DropRecord | None = None
        self._rules: tuple[SiteRule, ...] = ()
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

    def learned(self, rules: tuple[SiteRule, ...], tested: Iterable[tuple[object, int]]) -> None:
        """Take note of what was learned, and how many tests each rule has passed."""
        self._rules = rules
        if self._drops is not None:
            self._drops.tested(tested)

    def _number(self, name: str, default: int = 0) -> int:
        assert self._crawler.stats is not None
        return int(self._crawler.stats.get_value(name, default))

    def _progress(self) -> Point:
        # What was put back was withheld, or only parked: for certain this is known at the end.
        unparked = self._number("urlnorm/learned/put_back") - self._number("urlnorm/learned/parked")
        withheld = self._number("urlnorm/learned/withheld") - max(0, unparked)
        saved = self._number("urlnorm/saved", self._number("urlnorm/merged") + withheld)
        return Point(self._number("downloader/response_count"), saved)

    def close(self) -> None:
        """Close the record, and write the report if the settings want one."""
        if self._flushing is not None:
            self._flushing.stop()
            self._flushing = None
        with self._cleanup:
            if self._drops is None:  # the dupefilter is not ours, so it told of no drops
                return
            self._drops.close()
            self._drops = None
            if self._report is not None:
                self._write(self._report)

    def _write(self, report: Path) -> None:
        spider = self._crawler.spider
        extra = {"spider": spider}
        try:
            with Drops(self._folder / DROPS_NAME) as drops:
                figures = from_crawl(
                    read_log(self.rows, format="jsonl"),
                    drops,
                    self._rules,
                    title=f"Crawl of the spider {spider.name if spider else ''}",
                    withheld=max(0, self._number("urlnorm/saved") - self._number("urlnorm/merged")),
                )
            report.parent.mkdir(parents=True, exist_ok=True)
            report.write_text(page(figures), encoding="utf-8")
        except (UrlNormError, OSError) as error:
            message = "%(setting)s = %(path)s cannot be written: %(error)s"
            arguments = {"setting": REPORT, "path": str(report), "error": error}
            logger.error(message, arguments, extra=extra)
        else:
            logger.info("Wrote the report %(path)s", {"path": str(report)}, extra=extra)


def recording_of(crawler: Crawler) -> Recording | None:
    """Return the recording of a crawl, made when first asked for.

    ``None`` for a crawl that has neither a job directory nor a report to write.
    """
    parts = parts_of(crawler)
    recording = parts.find(Recording)
    config = parts.config(crawler.settings)
    if recording is None and (config.jobdir or config.report):
        recording = Recording(crawler, config)
        parts.put(recording)
    return recording
