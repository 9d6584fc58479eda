"""CrawlLog: a Scrapy extension that writes the crawl log that rules are learned from."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import NotConfigured

from scrapy_urlnorm.crawl.recording import recording_of
from scrapy_urlnorm.crawl.redirects import REDIRECTS, target_of
from scrapy_urlnorm.crawl.settings import CRAWL_LOG, REPORT, shows_secrets
from scrapy_urlnorm.exceptions import ConfigError, LogFormatError
from scrapy_urlnorm.logs.mask_key import mask_key
from scrapy_urlnorm.logs.response_row import redirect_row, row_of
from scrapy_urlnorm.logs.writer import LogWriter
from scrapy_urlnorm.masking import mask_url

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Request, Response
    from typing_extensions import Self

logger = logging.getLogger(__name__)

_URLS = ("url", "location", "canonical", "shortlink")
_ROUTES = ("#!", "#/")


class CrawlLog:
    """Writes a row for every response to a GET, redirects included, as JSON lines.

    The setting names the file. It is gzipped if its name ends in ``.gz``. An existing log is
    continued, so that a resumed crawl has one log. Two signals together tell of all responses:
    ``response_downloaded`` of the redirects, which the redirect middleware turns into requests,
    and ``response_received`` of the rest, decompressed, with a parsed tree that the spider uses
    again.

    A row is about the URL that was fetched, so its URLs have no fragment, unless that may be the
    route of an application (``#!``, ``#/``). Secrets in the URLs of a row are masked alike,
    so that redirects and twins still match; *secrets* leaves the secrets in.
    """

    def __init__(self, path: str, *, secrets: bool = False) -> None:
        try:
            self._key = None if secrets else mask_key(path)
            self._writer: LogWriter | None = LogWriter(path)
        except (OSError, LogFormatError) as error:
            raise ConfigError(f"{CRAWL_LOG} = {path!r} cannot be written: {error}") from error
        if self._writer.cut:
            logger.warning(
                "%(path)s ended in half a row: its %(bytes)d bytes were cut off",
                {"path": path, "bytes": self._writer.cut},
            )

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raise NotConfigured without a path, ConfigError for one that cannot be written.

        Without a path of its own the log is made for the report: it has the URLs as they stand, and
        only its owner may read it.
        """
        settings = crawler.settings
        recording = recording_of(crawler) if settings.get(REPORT) else None
        if path := settings.get(CRAWL_LOG):
            extension = cls(str(path), secrets=shows_secrets(settings))
        elif recording is not None:
            extension = cls(recording.rows, secrets=True)
        else:
            raise NotConfigured(f"{CRAWL_LOG} names no file")
        connect = crawler.signals.connect
        connect(extension.response_downloaded, signals.response_downloaded)
        connect(extension.response_received, signals.response_received)
        connect(extension.spider_closed, signals.spider_closed)
        return extension

    def response_downloaded(self, response: Response, request: Request, spider: Spider) -> None:
        """Write a redirect before it is followed."""
        if request.method == "GET" and (location := target_of(response, request.url)):
            self._write(redirect_row(request.url, response.status, location), spider)

    def response_received(self, response: Response, request: Request, spider: Spider) -> None:
        """Write a response that is no redirect, or a redirect from the HTTP cache."""
        if request.method != "GET" or not request.url.startswith(("http://", "https://")):
            return
        cached = "cached" in response.flags
        if cached:
            self._write_cached_redirects(request, spider)
        location = target_of(response, request.url)
        if location is None:
            self._write(row_of(response, request.url), spider)
        elif cached:
            self._write(redirect_row(request.url, response.status, location), spider)

    def _write_cached_redirects(self, request: Request, spider: Spider) -> None:
        """Write the redirects that led to *request* and were answered by the HTTP cache.

        They are not downloaded, so no signal tells of them.
        """
        urls = request.meta.get("redirect_urls", [])
        for url, target, status in zip(
            urls,
            [*urls[1:], request.url],
            request.meta.get("redirect_reasons", []),
            strict=False,
        ):
            if status in REDIRECTS:
                self._write(redirect_row(url, status, target), spider)

    def spider_closed(self, spider: Spider) -> None:
        """Complete the file."""
        if self._writer is None:
            return
        try:
            self._writer.close()
        except OSError as error:
            self._give_up(error, spider)
        else:
            writer, self._writer = self._writer, None  # later responses are no part of the crawl
            logger.info(
                "Wrote %(rows)d rows to %(path)s",
                {"rows": writer.rows, "path": writer.path},
                extra={"spider": spider},
            )

    def _write(self, row: dict[str, Any], spider: Spider) -> None:
        if self._writer is None:
            return
        for name in _URLS:
            if url := row.get(name):
                row[name] = self._as_kept(url)
        if links := row.get("self_links"):
            row["self_links"] = [f"{self._as_kept(url)}#{name}" for url, name in links]
        try:
            self._writer.write(row)
        except OSError as error:
            self._give_up(error, spider)

    def _as_kept(self, url: str) -> str:
        bare, _, fragment = url.partition("#")
        if not f"#{fragment}".startswith(_ROUTES):
            url = bare
        return url if self._key is None else mask_url(url, self._key)

    def _give_up(self, error: OSError, spider: Spider) -> None:
        """End the log, not the crawl, because the disk is full; say so once."""
        assert self._writer is not None
        writer, self._writer = self._writer, None
        logger.error(
            "The crawl log %(path)s ends here after %(rows)d rows: %(error)s",
            {"path": writer.path, "rows": writer.rows, "error": error},
            extra={"spider": spider},
        )
        with suppress(OSError):  # the rows that are still in memory are lost
            writer.close()
