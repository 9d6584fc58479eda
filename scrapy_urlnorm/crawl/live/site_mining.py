"""SiteMining: brings what arrives to the miner, and the rules that it finds back to the crawl."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_urlnorm.crawl.live.mining import Mining
from scrapy_urlnorm.crawl.live.rows import Row
from scrapy_urlnorm.crawl.sites import site_of
from scrapy_urlnorm.learning.worker import OF_FILE
from scrapy_urlnorm.logs.page_identity import FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from scrapy import Request
    from scrapy.http import Response

    from scrapy_urlnorm.crawl.live.content import Change, ContentLearner
    from scrapy_urlnorm.crawl.live.likely import Likely
    from scrapy_urlnorm.learning.worker import Mined
    from scrapy_urlnorm.logs.page_identity import Identity


class SiteMining:
    """Fills the rows of *content* and has its sites mined when that is worth it.

    *likely* counts how many pages bring nothing new. *count* adds to a statistic. *on_change* is
    told what the miner said of a site, and which rules came and went; *on_error* of what went wrong
    in the miner.
    """

    def __init__(
        self,
        content: ContentLearner,
        likely: Likely,
        *,
        count: Callable[[str, float], None],
        on_change: Callable[[Mined, Change], None],
        on_error: Callable[[str], None],
    ) -> None:
        self._content = content
        self._likely = likely
        self._count = count
        self._on_change = on_change
        self._on_error = on_error
        self._mining = Mining(content.job, self._mined)
        self._later: set[str] = set()  # sites for which there was no time

    def page(
        self, request: Request, response: Response, content: Identity, *, is_audit: bool
    ) -> None:
        """Write down that *request* was answered with a page with this *content*.

        That an audit brings nothing new says nothing of the other URLs of its kind.
        """
        name = OF_FILE + content.name if content.kind == FILE else content.name
        is_duplicate = self._add(Row(request.url, response.status, name, None))
        if is_duplicate is not None and not is_audit:
            self._likely.add(site_of(request.url), request.url, is_duplicate=is_duplicate)

    def redirect(self, request: Request, target: str, status: int) -> None:
        """Write down that *request* was redirected to *target*."""
        self._add(Row(request.url, status, None, target))

    def _add(self, row: Row) -> bool | None:
        site = site_of(row.url)
        is_event = self._content.add(site, row)
        if self._content.is_due(site, has_time=self._mining.has_time):
            self._mining.request(site)
        elif self._content.is_due(site, has_time=True):
            self._later.add(site)
        return is_event

    def work(self) -> None:
        """Mine a site for which there was no time when its last page arrived."""
        if self._later and self._mining.has_time:
            site = self._later.pop()
            if self._content.is_due(site, has_time=True):
                self._mining.request(site)

    def look_again(self, eager: Collection[str], *, is_last: bool) -> bool:
        """Begin to mine the sites that wait for a last look, if it *is_last*.

        Of the *eager*, a few new duplicates are enough. Return whether a site is being mined.
        """
        for site in self._content.unmined(eager) if is_last else ():
            self._mining.request(site)
        return self._mining.current is not None

    def _mined(self, mined: Mined) -> None:
        self._count("learned/minings", 1)
        self._count("learned/mining_seconds", mined.seconds)
        if mined.error is not None:
            self._on_error(mined.error)
        try:
            self._on_change(mined, self._content.mined(mined))
        except Exception as error:  # noqa: BLE001 - Twisted would only log it
            self._on_error(repr(error))

    def close(self) -> None:
        """End the process of the miner."""
        self._mining.close()
