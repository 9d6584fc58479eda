"""The crawl that decides proposed rules: pairs of pages, with the settings of a project."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess

from scrapy_urlnorm.crawl.live.comparing import same_content
from scrapy_urlnorm.crawl.sites import domain_of
from scrapy_urlnorm.learning.probe import Comparison
from scrapy_urlnorm.logs.page_identity import Identity, identity_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from scrapy.http import Response
    from scrapy.settings import Settings
    from twisted.python.failure import Failure

    from scrapy_urlnorm.learning.probe import Probe

#: Requests to one registrable domain, at most.
MOST_REQUESTS = 500

#: What a crawl of pairs must not have of a project: what stores or filters what it fetches, and
#: what might answer a request without asking the site.
_OVERRIDES: dict[str, Any] = {
    "URLNORM_ENABLED": False,
    "SCHEDULER": "scrapy.core.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",
    "JOBDIR": None,
    "HTTPCACHE_ENABLED": False,
    "ITEM_PIPELINES": {},
    "FEEDS": {},
    "DEPTH_LIMIT": 0,
    "DEPTH_PRIORITY": 0,
    "REFERER_ENABLED": False,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
    "CONCURRENT_REQUESTS_PER_IP": 0,
}


class ProbeSpider(Spider):
    """Fetches the pairs of some probes, one pair after the other for each site."""

    name = "urlnorm-probe"

    def __init__(self, probes: Iterable[Probe] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._probes: dict[str, list[Probe]] = {}
        for probe in probes:
            site = domain_of(probe.rule.site.removeprefix("*."))
            self._probes.setdefault(site, []).append(probe)
        self._requests: Counter[str] = Counter()

    async def start(self) -> AsyncIterator[Request]:
        """Yield the first request of each site."""
        for site in self._probes:
            for request in self._next_pair(site):
                yield request

    def _next_pair(self, site: str) -> Iterator[Request]:
        probes = self._probes[site]
        while probes:
            pair = probes[0].next_pair()
            if pair is None or self._requests[site] >= MOST_REQUESTS:
                probes.pop(0)
                continue
            control = probes[0].wants_control
            yield self._next_page(site, Comparison(pair, same_content, control=control))
            return

    def _next_page(self, site: str, comparison: Comparison[Identity]) -> Request:
        self._requests[site] += 1
        self._probes[site][0].fetches += 1
        return Request(
            comparison.next_url(),
            self._arrived,
            errback=self._failed,
            dont_filter=True,
            cb_kwargs={"site": site, "comparison": comparison},
        )

    def _arrived(
        self, response: Response, site: str, comparison: Comparison[Identity]
    ) -> Iterator[Request]:
        probe = self._probes[site][0]
        content = identity_of(response) if response.status == 200 else None
        if content is None or content.text_digest is None or content.kind is not None:
            probe.say_nothing()
            yield from self._next_pair(site)
            return
        comparison.add(content)
        if comparison.outcome is None:
            yield self._next_page(site, comparison)
            return
        if comparison.outcome == "agrees":
            probe.agree(comparison.content.name)
        elif comparison.outcome == "differs":
            probe.differ(comparison.pair)
        else:
            probe.say_nothing()
        yield from self._next_pair(site)

    def _failed(self, failure: Failure) -> Iterator[Request]:
        site = failure.request.cb_kwargs["site"]  # type: ignore[attr-defined]  # Scrapy sets it
        self._probes[site][0].say_nothing()
        yield from self._next_pair(site)


def run(settings: Settings, probes: Iterable[Probe]) -> None:
    """Fetch the pairs of *probes* with the *settings* of a project, and tell them what was found.

    Delays, robots.txt, proxies and retries are those of the project. Starts the reactor: once in
    a process.
    """
    overridden = settings.copy()
    overridden.setdict(_OVERRIDES, priority=1_000)
    process = CrawlerProcess(overridden)
    process.crawl(ProbeSpider, probes=list(probes))
    process.start()
