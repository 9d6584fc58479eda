"""The rows of a crawl log, made of responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.exceptions import IgnoreRequest
from scrapy.http import Headers, HtmlResponse, Request
from scrapy.responsetypes import responsetypes
from w3lib.url import safe_url_string

from scrapy_urlnorm.logs.page_identity import body_digest, read_text
from scrapy_urlnorm.logs.self_links import names_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
    from scrapy.http import Response


def row_of(response: Response, url: str) -> dict[str, Any]:
    """Return the row of a *response* to a GET of *url* that is no redirect.

    Links stand in it as pairs of a URL and the name of an element (`self_links`).
    """
    mime = response.headers.get(b"Content-Type", b"") or b""
    row: dict[str, Any] = {
        "url": url,
        "status": response.status,
        "mime": mime.decode("latin-1").split(";")[0].strip().lower() or None,
        "len": len(response.body),
        "digest": body_digest(response),
        "lines": None,
    }
    if response.status == 200 and row["digest"] and (text := read_text(response)):
        row.update(text._asdict())
        row.update(_names(response, url))
    return row


def _names(response: Response, url: str) -> dict[str, Any]:
    """Return what a page says about its other names, as far as it says anything."""
    assert isinstance(response, HtmlResponse)
    links, shortlink = names_of(response)
    own = url.partition("#")[0]
    others = [link for link in links if link.url != own]
    found: dict[str, Any] = {"self_links": others, "shortlink": shortlink}
    return {name: value for name, value in found.items() if value}


def redirect_row(url: str, status: int, location: str) -> dict[str, Any]:
    """Return the row of a redirect to *location*."""
    return {"url": url, "status": status, "location": location, "lines": None}


class Responses:
    """Makes rows of responses that were stored as they came over the wire.

    Scrapy's own components decompress a body and choose the class of its response, so that the row
    is the one that a crawl would have written.
    """

    def __init__(self) -> None:
        self._decompress = _decompressor()

    def row(
        self, url: str, status: int, headers: Iterable[tuple[str | bytes, str | bytes]], body: bytes
    ) -> dict[str, Any] | None:
        """Return the row of a response to a GET of *url*.

        ``None`` for a body that is too large to be decompressed. Raises ValueError for what no
        response can be made of.
        """
        collected = Headers()
        for name, value in headers:
            collected.appendlist(name, value)
        location = collected.get(b"Location")
        if 300 <= status < 400 and location:
            return redirect_row(url, status, safe_url_string(location))
        kind = responsetypes.from_args(headers=collected, url=url, body=body)
        packed = kind(url, status=status, headers=collected, body=body)
        try:
            response = self._decompress.process_response(Request(url), packed)
        except IgnoreRequest:
            return None
        assert not isinstance(response, Request)
        row = row_of(response, url)
        if links := row.get("self_links"):
            row["self_links"] = [f"{link}#{name}" for link, name in links]
        return row


def _decompressor() -> HttpCompressionMiddleware:
    from scrapy.crawler import Crawler
    from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
    from scrapy.spiders import Spider
    from scrapy.statscollectors import DummyStatsCollector

    crawler = Crawler(Spider)  # it is never run: it holds the default settings
    crawler.stats = DummyStatsCollector(crawler)
    return HttpCompressionMiddleware(crawler=crawler)
