"""What a crawl writes down: its log, what was filtered, and the report at its end."""

from __future__ import annotations

import logging
from contextlib import ExitStack, suppress
from datetime import datetime, timezone
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import scrapy
from scrapy import signals
from scrapy.exceptions import NotConfigured

from scrapy_urlnorm.crawl.components import (
    PAIR_META,
    REDIRECTS,
    components_of,
    config_of,
    database_of,
    target_of,
)
from scrapy_urlnorm.crawl.settings import (
    CRAWL_LOG,
    FALLBACK_FINGERPRINTER,
    PROFILE,
    REPORT,
    SETTINGS,
    STORE,
    bad_setting,
)
from scrapy_urlnorm.exceptions import LogFormatError, StoreError, UrlNormError
from scrapy_urlnorm.logs.page_identity import redirect_row, row_of
from scrapy_urlnorm.logs.writer import LogWriter, mask_key
from scrapy_urlnorm.masking import mask_url, placeholders
from scrapy_urlnorm.report.filtered import FilteredRecord
from scrapy_urlnorm.stores import ROWS_NAME
from scrapy_urlnorm.text import counted, logger_of, own_version, replace_file, shortened, try_file

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Request, Response
    from typing_extensions import Self

    from scrapy_urlnorm.crawl.settings import Config

logger = logger_of(__name__)

#: Settings that a report does not tell: they are shown elsewhere, are of no interest, or are secret.
_NOT_SHOWN = (CRAWL_LOG, FALLBACK_FINGERPRINTER, PROFILE, REPORT, STORE)


class CrawlLog:
    """Writes a row for every response to a GET, redirects included, as JSON lines.

    The setting names the file. It is gzipped if its name ends in ``.gz``. An existing log is
    continued, by a resumed crawl and by any other: each row names its crawl, as *recording* knows
    it, so that a report finds the rows of one. Two signals together tell of all responses:
    ``response_downloaded`` of the redirects, which the redirect middleware turns into requests,
    and ``response_received`` of the rest, decompressed, with a parsed tree that the spider uses
    again.

    A row is about the URL that was fetched, so its URLs have no fragment, unless that may be the
    route of an application (``#!``, ``#/``). Secrets in the URLs of a row are masked alike,
    so that redirects and twins still match; *secrets* leaves the secrets in.
    """

    def __init__(
        self, path: str, *, secrets: bool = False, recording: Recording | None = None
    ) -> None:
        self._recording = recording
        self._crawl = token_hex(8)
        try:
            self._key = None if secrets else mask_key(path)
            self._writer: LogWriter | None = LogWriter(path)
        except (OSError, LogFormatError) as error:
            raise bad_setting(REPORT if secrets else CRAWL_LOG, path, str(error)) from error
        if self._writer.cut:
            message = "%s ended in half a row: its %d bytes were cut off"
            logger.warning(message, path, self._writer.cut)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raise NotConfigured without a path, ConfigError for one that cannot be written.

        Without a path of its own the log is made for the report: it has the URLs as they stand, and
        only its owner may read it.
        """
        settings = crawler.settings
        if not settings.get(CRAWL_LOG) and not settings.get(REPORT):
            raise NotConfigured(f"{CRAWL_LOG} names no file")
        recording = recording_of(crawler)
        secrets = not settings.get(CRAWL_LOG)
        extension = cls(recording.rows, secrets=secrets, recording=recording)
        components_of(crawler).has_crawl_log = True
        connect = crawler.signals.connect
        connect(extension.response_downloaded, signals.response_downloaded)
        connect(extension.response_received, signals.response_received)
        connect(extension.spider_closed, signals.spider_closed)
        return extension

    def response_downloaded(self, response: Response, request: Request, spider: Spider) -> None:
        """Write a redirect before it is followed."""
        if request.method != "GET" or PAIR_META in request.meta:
            return
        if location := target_of(response, request.url):
            self._write(redirect_row(request.url, response.status, location), spider)

    def response_received(self, response: Response, request: Request, spider: Spider) -> None:
        """Write a response that is no redirect, or a redirect from the HTTP cache."""
        if request.method != "GET" or not request.url.startswith(("http://", "https://")):
            return
        cached = "cached" in response.flags
        if cached:
            self._write_cached_redirects(request, spider)
        location = target_of(response, request.url)
        if PAIR_META in request.meta:  # it tells what changes by itself, if it is a page
            row = row_of(response, request.url)
            if row.get("blocks"):
                self._write({**row, "pair": request.meta[PAIR_META]}, spider)
        elif location is None:
            self._write(row_of(response, request.url), spider)
        elif cached:
            self._write(redirect_row(request.url, response.status, location), spider)

    def _write_cached_redirects(self, request: Request, spider: Spider) -> None:
        """Write the redirects that led to *request* and were answered by the HTTP cache.

        They are not downloaded, so no signal tells of them.
        """
        urls = [*request.meta.get("redirect_urls", []), request.url]
        for url, target, status in zip(urls, urls[1:], request.meta.get("redirect_reasons", [])):  # noqa: B905
            if status in REDIRECTS:
                self._write(redirect_row(url, status, target), spider)

    def spider_closed(self, spider: Spider) -> None:
        """Complete the file."""
        writer, self._writer = self._writer, None  # later responses are no part of the crawl
        if writer is None:
            return
        try:
            writer.close()
        except OSError as error:
            self._give_up(writer, error, spider)
        else:
            level = logging.DEBUG if self._key is None else logging.INFO  # it is the report's own
            extra = {"spider": spider}
            logger.log(level, "Wrote %d rows to %s", writer.rows, writer.path, extra=extra)

    def _write(self, row: dict[str, Any], spider: Spider) -> None:
        if self._writer is None:
            return
        for name in ("url", "location", "canonical", "shortlink"):
            if url := row.get(name):
                row[name] = self._as_kept(url)
        if links := row.get("self_links"):
            row["self_links"] = [f"{self._as_kept(url)}#{name}" for url, name in links]
        row["crawl"] = (self._recording and self._recording.crawl) or self._crawl
        try:
            self._writer.write(row)
        except OSError as error:
            writer, self._writer = self._writer, None
            self._give_up(writer, error, spider)

    def _as_kept(self, url: str) -> str:
        bare, _, fragment = url.partition("#")
        if not f"#{fragment}".startswith(("#!", "#/")):
            url = bare
        return url if self._key is None else mask_url(url, self._key)

    @staticmethod
    def _give_up(writer: LogWriter, error: OSError, spider: Spider) -> None:
        """End the log, not the crawl: the disk is full."""
        message = "The crawl log %s ends here after %d rows: %s"
        logger.error(message, writer.path, writer.rows, error, extra={"spider": spider})
        with suppress(OSError):  # the rows that are still in memory are lost
            writer.close()


class Recording:
    """What is filtered, as rows in the database of the crawl, and the report that is made of them."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._report = Path(path_of(crawler, REPORT)) if config.report else None
        self.record: FilteredRecord | None = None  #: while this is open
        self._at_end = ExitStack()
        #: The name of the crawl in its rows, once this is open.
        self.crawl: str | None = None
        #: The crawl log that the report is made from.
        self.rows = path_of(crawler, CRAWL_LOG)
        if not self.rows:
            folder = config.jobdir or self._at_end.enter_context(TemporaryDirectory())
            self.rows = str(Path(folder, ROWS_NAME))
        if self._report is not None:
            try:
                try_file(self._report)
            except OSError as error:
                raise bad_setting(REPORT, str(self._report), str(error)) from error
        crawler.signals.connect(self.close, signals.engine_stopped)

    def open(self) -> None:
        """Begin to write; once."""
        if self.record is not None:
            return
        try:
            database = database_of(self._crawler)
        except StoreError as error:
            logger.warning("Filtered requests are not written down: %s", error)
            return
        # Used until the report is made, whoever hears first that the engine has stopped.
        database.open()
        self._at_end.callback(database.close)
        log, about = str(Path(self.rows).absolute()), _about(self._crawler)
        self.record = FilteredRecord(database, log, about)
        self.crawl = self.record.crawl
        with suppress(StoreError):  # at once: rows of a crawl that is killed have its name
            database.commit()

    def close(self) -> None:
        """Write the rest, and the report if the settings want one."""
        with self._at_end:
            if self.record is not None:
                self.record.close()
                self.record = None
                if self._report is not None and components_of(self._crawler).has_crawl_log:
                    self._write(self._report)

    def _write(self, report: Path) -> None:
        # Most crawls have no report, and need nothing of what makes one.
        from scrapy_urlnorm.report.figures import from_crawl
        from scrapy_urlnorm.report.filtered import Job
        from scrapy_urlnorm.report.page import page

        spider = self._crawler.spider
        extra = {"spider": spider}
        try:
            database = database_of(self._crawler)
            job = Job(database.connection, database.name)
            title = f"Crawl of the spider {spider.name if spider else ''}"
            figures = from_crawl(job.logged(), job, title=title)
            stats = self._crawler.stats
            if stats and (again := stats.get_value("urlnorm/learned/second_fetches")):
                said = f"Besides, this run fetched {counted(again, 'page')} again"
                figures.notes.append(f"{said}, to know what changes by itself.")
            replace_file(report, page(figures))
        except (UrlNormError, OSError) as error:
            logger.error(f"{REPORT} = %s cannot be written: %s", report, error, extra=extra)
        else:
            logger.info("Wrote the report %s", report, extra=extra)


def _about(crawler: Crawler) -> list[tuple[str, str]]:
    """Return versions, profile and those of our settings that are not at their default."""
    given = {
        name: value
        for name, setting in SETTINGS.items()
        if (value := crawler.settings.get(name)) not in (None, setting.default)
        and name not in _NOT_SHOWN
    }
    if store := crawler.settings.get(STORE):
        given[STORE] = str(store).partition(":")[0]  # the rest may have a password
    shown = [shortened(f"{name} = {value!r}", 300) for name, value in given.items()]
    return [
        ("scrapy-urlnorm", own_version()),
        ("Scrapy", scrapy.__version__),
        ("Profile", config_of(crawler).normalizer.profile),
        ("Settings", ", ".join(placeholders(shown)) or "all at their default"),
    ]


class _Names(dict[str, object]):
    """What ``%(name)s`` and the like stand for, as in Scrapy's FEEDS: the time, and the spider."""

    def __init__(self, spider: object) -> None:
        now = datetime.now(tz=timezone.utc).replace(microsecond=0, tzinfo=None)
        super().__init__(time=now.isoformat().replace(":", "-"))
        self._spider = spider

    def __missing__(self, name: str) -> object:
        return getattr(self._spider, name)


def path_of(crawler: Crawler, setting: str) -> str:
    """Return the path that *setting* names, "" for none. Raises `ConfigError` for a bad name in it."""
    path = str(crawler.settings.get(setting) or "")
    try:
        return path % _Names(crawler.spider or crawler.spidercls) if "%" in path else path
    except (AttributeError, TypeError, ValueError) as error:
        raise bad_setting(setting, path, str(error)) from error


def recording_of(crawler: Crawler) -> Recording:
    """Return the recording of a crawl, made when first asked for.

    Raises `ConfigError` where the report cannot be written.
    """
    components = components_of(crawler)
    recording = components.find(Recording)
    if recording is None:
        recording = Recording(crawler, config_of(crawler))
        components.put(recording)
    return recording
