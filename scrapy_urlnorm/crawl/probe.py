"""The crawl that decides proposed rules: pairs of pages, with the settings of a project."""

from __future__ import annotations

from collections import Counter, defaultdict
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from lxml import etree  # type: ignore[import-untyped]  # ships no types
from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess
from scrapy.http import HtmlResponse

from scrapy_urlnorm.crawl.components import domain_of
from scrapy_urlnorm.crawl.online.verdicts import Shown, Verdict, same_content, verdict
from scrapy_urlnorm.crawl.settings import ENABLED
from scrapy_urlnorm.exceptions import ConfigError
from scrapy_urlnorm.logs.blocks import blocks_of
from scrapy_urlnorm.logs.page_identity import identity_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from scrapy.http import Response
    from scrapy.settings import Settings
    from twisted.python.failure import Failure

    from scrapy_urlnorm.learning.probe import Pair, Probe
    from scrapy_urlnorm.logs.page_identity import Identity

#: Requests to one registrable domain, at most.
MOST_REQUESTS = 500
#: Words besides URLs that a page must have to be known by them.
_WORDS = 20
#: What a crawl of pairs must not have of a project: what stores or filters what it fetches, and
#: what might answer a request without asking the site. Without cookies every fetch is a visitor's
#: first: what one of two twins remembers of a visit would tell them apart.
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


class ProbeSpider(Spider):
    name = "urlnorm-probe"

    def __init__(self, probes: Iterable[Probe] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._probes: defaultdict[str, list[Probe]] = defaultdict(list)
        for probe in probes:
            self._probes[domain_of(probe.rule.site)].append(probe)
        self._requests: Counter[str] = Counter()

    async def start(self) -> AsyncIterator[Request]:
        for site in self._probes:
            for request in self._next_pair(site):
                yield request

    def _next_pair(self, site: str) -> Iterator[Request]:
        probes = self._probes[site]
        while probes:
            pair = probes[0].next_pair()
            if pair is not None and self._requests[site] < MOST_REQUESTS:
                yield self._next_page(site, pair, [])
                return
            probes.pop(0)

    def _next_page(self, site: str, pair: Pair, shown: list[Shown]) -> Request:
        """Fetch the two URLs of a pair by turns: each of them at most twice."""
        self._requests[site] += 1
        self._probes[site][0].fetches += 1
        return Request(
            pair[len(shown) % 2],
            self._arrived,
            errback=self._failed,
            dont_filter=True,
            cb_kwargs={"site": site, "pair": pair, "shown": shown},
        )

    def _arrived(
        self, response: Response, site: str, pair: Pair, shown: list[Shown]
    ) -> Iterator[Request]:
        probe = self._probes[site][0]
        content = identity_of(response) if response.status == 200 else None
        said: Verdict | None = Verdict.UNSTABLE
        if content is not None and content.text_digest is not None and content.kind is None:
            shown.append(Shown(response.url, _without_urls(response, content)))
            said = _verdict(shown)
        if said is None:
            yield self._next_page(site, pair, shown)
            return
        if said is Verdict.AGREES and shown[0].content is not None:
            probe.agree(shown[0].content.name)
        elif said is Verdict.DIFFERS:
            probe.differed.append(pair)
        else:
            probe.silent += 1
        yield from self._next_pair(site)

    def _failed(self, failure: Failure) -> Iterator[Request]:
        site = failure.request.cb_kwargs["site"]  # type: ignore[attr-defined]  # Scrapy sets it
        self._probes[site][0].silent += 1
        yield from self._next_pair(site)


def _without_urls(response: Response, content: Identity) -> Identity:
    """Return *content* known by the words that are no URLs, if there are some.

    A page may print its permanent URL, which is its own under one of two URLs only.
    """
    if not isinstance(response, HtmlResponse):
        return content
    try:
        blocks = blocks_of(response.selector.root, response.url)
    except (ValueError, etree.LxmlError):  # a bad host in <base>
        return content
    words = sorted(word for _, line in blocks for word in line.split() if "://" not in word)
    if len(words) < _WORDS:
        return content
    digest = blake2b(" ".join(words).encode("utf-8", "surrogatepass"), digest_size=16)
    return content._replace(bag_digest=digest.hexdigest())


def _verdict(shown: list[Shown]) -> Verdict | None:
    """Return what the pages of a pair say, in the order of their fetches; ``None`` for one more.

    Where they differ the first is fetched again, and if it does not change, so is the second: one
    bad answer refutes no rule.
    """
    if len(shown) <= 2:
        return verdict(shown[0], shown[1]) if len(shown) == 2 else None
    contents = [page.content for page in shown]
    if not all(map(same_content, contents, contents[2:])):
        return Verdict.UNSTABLE
    return Verdict.DIFFERS if len(shown) == 4 else None


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
