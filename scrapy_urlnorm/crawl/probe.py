"""The crawl that decides proposed rules: pairs of pages, with the settings of a project."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from lxml import etree  # type: ignore[import-untyped]  # ships no types
from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess
from scrapy.http import HtmlResponse

from scrapy_urlnorm.crawl.live.comparing import same_content
from scrapy_urlnorm.crawl.settings import ENABLED
from scrapy_urlnorm.crawl.sites import domain_of
from scrapy_urlnorm.exceptions import ConfigError
from scrapy_urlnorm.learning.probe import Comparison
from scrapy_urlnorm.logs.page import visible_lines
from scrapy_urlnorm.logs.page_identity import Identity, identity_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from scrapy.http import Response
    from scrapy.settings import Settings
    from twisted.python.failure import Failure

    from scrapy_urlnorm.learning.probe import Probe

#: Requests to one registrable domain, at most.
MOST_REQUESTS = 500

#: Words besides URLs that a page must have to be known by them.
_WORDS = 20

#: What a crawl of pairs must not have of a project: what stores or filters what it fetches, and
#: what might answer a request without asking the site. Without cookies every fetch is a visitor's first:
#: what one of two twins remembers of a visit would tell them apart.
_OVERRIDES: dict[str, Any] = {
    ENABLED: False,
    "SCHEDULER": "scrapy.core.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",
    "JOBDIR": None,
    "HTTPCACHE_ENABLED": False,
    "COOKIES_ENABLED": False,
    "ITEM_PIPELINES": {},
    "FEEDS": {},
    "DEPTH_LIMIT": 0,
    "DEPTH_PRIORITY": 0,
    "REFERER_ENABLED": False,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
    "CONCURRENT_REQUESTS_PER_IP": 0,
}


class Shown(NamedTuple):
    """What a page shows: its content, and its words but for URLs, if there are some words."""

    content: Identity
    words: tuple[str, ...]


def shown(response: Response) -> Shown | None:
    """Return what a page shows; ``None`` for an error, a login wall, and what is no HTML."""
    content = identity_of(response) if response.status == 200 else None
    if content is None or content.text_digest is None or content.kind is not None:
        return None
    assert isinstance(response, HtmlResponse)
    try:
        lines = visible_lines(response.selector.root, response.url)
    except (ValueError, etree.LxmlError):  # a bad host in <base>
        lines = []
    words = sorted(word for line in lines for word in line.split() if "://" not in word)
    return Shown(content, tuple(words) if len(words) >= _WORDS else ())


def same_shown(one: Shown, other: Shown) -> bool:
    """Return whether two pages show the same, or differ in nothing but URLs that they print.

    A page may print its permanent URL, which is its own under one of two URLs only.
    """
    return same_content(one.content, other.content) or bool(one.words and one.words == other.words)


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
            yield self._next_page(site, Comparison(pair, same_shown, control=control))
            return

    def _next_page(self, site: str, comparison: Comparison[Shown]) -> Request:
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
        self, response: Response, site: str, comparison: Comparison[Shown]
    ) -> Iterator[Request]:
        probe = self._probes[site][0]
        content = shown(response)
        if content is None:
            probe.say_nothing()
            yield from self._next_pair(site)
            return
        comparison.add(content)
        if comparison.outcome is None:
            yield self._next_page(site, comparison)
            return
        if comparison.outcome == "agrees":
            probe.agree(comparison.content.content.name)
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
    a process. Raises `ConfigError` if a crawl with these settings does not begin.
    """
    overridden = settings.copy()
    overridden.setdict(_OVERRIDES, priority=1_000)
    process = CrawlerProcess(overridden)
    failures: list[Failure] = []
    process.crawl(ProbeSpider, probes=list(probes)).addErrback(failures.append)
    process.start()
    if failures:
        error = failures[0].value
        raise ConfigError(f"no crawl with the settings of this project: {error!r}") from error
