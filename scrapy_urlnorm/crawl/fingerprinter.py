"""UrlNormRequestFingerprinter: equal keys give equal fingerprints."""

from __future__ import annotations

import json
from hashlib import sha1
from typing import TYPE_CHECKING
from urllib.parse import quote
from weakref import WeakKeyDictionary, WeakSet

from scrapy import Request, signals
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.request import RequestFingerprinter, RequestFingerprinterProtocol

from scrapy_urlnorm.caches import BoundedCache
from scrapy_urlnorm.crawl.components import components_of, config_of
from scrapy_urlnorm.crawl.requests import Asked, request_in
from scrapy_urlnorm.crawl.settings import FALLBACK_FINGERPRINTER, bad_setting
from scrapy_urlnorm.exceptions import ConfigError
from scrapy_urlnorm.normalizer import normalizer_of
from scrapy_urlnorm.rules import PROFILES
from scrapy_urlnorm.text import logger_of
from scrapy_urlnorm.url import get_fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.statscollectors import StatsCollector
    from typing_extensions import Self

    from scrapy_urlnorm.normalizer import Normalizer

logger = logger_of(__name__)

#: How many URLs the fingerprint is remembered of, and how many characters they have at most.
KNOWN_URLS = 16_384
KNOWN_LENGTH = 1_024

# The class of most requests, if its parts can be read past its properties, which cost more than all
# the rest of a look-up. A subclass may have properties that say something else.
_SLOTS = ("_url", "_body", "_meta")
_WITH_SLOTS = Request if all(hasattr(Request, name) for name in _SLOTS) else None


class UrlNormRequestFingerprinter:
    """Makes the fingerprint that the *fallback* makes of the request with its URL normalized.

    By definition, the fallback gets a copy of the request. The URL of the copy is the key, and its
    meta asks for ``verbatim_url``, so that the fallback does not normalize a second time. Where
    the fallback is Scrapy's own, the bytes are made here without a copy. They are the same, and
    they depend on the key alone, not on the versions of w3lib and Scrapy.

    `fingerprint` never raises. The fingerprint of a GET that is its URL alone is remembered by the
    URL: most links of a page were on the page before it too. That of any other request is
    remembered as long as the request lives.
    """

    def __init__(
        self, normalizer: Normalizer, fallback: RequestFingerprinterProtocol | None = None
    ) -> None:
        self._fallback = RequestFingerprinter() if fallback is None else fallback
        #: Whether the fallback is Scrapy's own: then a GET is known by its URL alone.
        self.is_direct = type(self._fallback) is RequestFingerprinter
        self._apart: WeakSet[Request] = WeakSet()
        self._warned: set[str] = set()
        self._stats: StatsCollector | None = None
        self._processed = self._changed = 0
        self._rare = dict.fromkeys(("left_alone", "bad_meta", "fallback_errors"), 0)
        #: Makes the keys.
        self.normalizer = normalizer
        self._memo: WeakKeyDictionary[Request, bytes] = WeakKeyDictionary()
        self._known = BoundedCache(self._known_get, most=KNOWN_URLS, longest=KNOWN_LENGTH)
        self._find_known_class()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        components, config = components_of(crawler), config_of(crawler)
        try:
            fallback = load_object(config.fallback)
        except (ImportError, NameError, TypeError, ValueError) as error:
            raise bad_setting(FALLBACK_FINGERPRINTER, config.fallback, str(error)) from error
        if isinstance(fallback, type) and issubclass(fallback, UrlNormRequestFingerprinter):
            raise ConfigError(
                f"{FALLBACK_FINGERPRINTER} = {config.fallback!r}: a fingerprinter cannot be its "
                "own fallback; name the class that was there before"
            )
        if components.builds_fingerprinter:  # our fallback asks for us as its own fallback
            return cls(config.normalizer)
        components.builds_fingerprinter = True
        try:
            built = build_from_crawler(fallback, crawler)
        finally:
            components.builds_fingerprinter = False
        fingerprinter = cls(config.normalizer, built)
        components.put(fingerprinter)
        fingerprinter._stats = crawler.stats
        crawler.signals.connect(fingerprinter.spider_opened, signals.spider_opened)
        crawler.signals.connect(fingerprinter.spider_closed, signals.spider_closed)
        return fingerprinter

    def _find_known_class(self) -> None:
        """Find the class of the requests that are known by their URL; ``None`` for no request.

        As long as a request lives that was set apart from its URL, each may be one.
        """
        self._known_class = _WITH_SLOTS if self.is_direct and not self._apart else None

    def fingerprint(self, request: Request) -> bytes:
        """Return the fingerprint of *request*; see the class."""
        if (
            type(request) is self._known_class
            and request.method == "GET"
            and not request._body
            and not (
                (meta := request._meta)
                and ("urlnorm" in meta or "urlnorm_key" in meta or "verbatim_url" in meta)
            )
            and request.callback is not NO_CALLBACK
        ):
            self._processed += 1
            digest, is_changed = self._known[request._url]
            if is_changed:
                self._changed += 1
            return digest
        self._find_known_class()
        found = self._memo.get(request)
        if found is None:
            self._processed += 1
            found = self._memo[request] = self._fingerprint(request)
        return found

    def _known_get(self, url: str) -> tuple[bytes, bool]:
        """Return the fingerprint of a GET that is *url* alone, and whether its key is another."""
        key = self.normalizer.normalize(url)
        return get_fingerprint(key), key is not url and key != url

    def _fingerprint(self, request: Request) -> bytes:
        given = self.given_key(request)
        if given is not None:
            self._changed += given != request.url
            if not self.is_direct and "://" not in given:  # the fallback wants a URL
                given = f"urlnorm-key://{quote(given, safe='')}"
            return self._digest(request, given)
        normalizer = self.normalizer_for(request)
        if normalizer is None:
            self._rare["left_alone"] += 1
            if self.is_direct and request.meta.get("verbatim_url"):
                return _scrapy_digest(request, request.url)  # Scrapy < 2.17 ignores verbatim_url
            return self._ask_fallback(request, request.url)
        key = normalizer.normalize(request.url)
        self._changed += key != request.url
        return self._digest(request, key)

    def _digest(self, request: Request, key: str) -> bytes:
        if self.is_direct:
            return _scrapy_digest(request, key)
        copy = request.replace(url=key, meta={**request.meta, "verbatim_url": True})
        return self._ask_fallback(copy, key)

    @property
    def counts(self) -> dict[str, int]:
        """How many requests were given a fingerprint, and how many of them in which way."""
        return {
            "processed": self._processed,
            "changed": self._changed,
            **self._rare,
            "rules_left_out": self.normalizer.rules_left_out,
        }

    def given_key(self, request: Request) -> str | None:
        """Return the key that *request* brings along, as ``urlnorm_key`` in its meta."""
        given = request.meta.get("urlnorm_key")
        if given is None or (isinstance(given, str) and given):
            return given
        self._refuse("urlnorm_key", given, request, "any text but ''")
        return None

    def normalizer_for(self, request: Request) -> Normalizer | None:
        """Return the normalizer that makes the key of *request*; ``None`` leaves it alone."""
        meta = request.meta
        choice = meta.get("urlnorm", True)
        if (
            choice is False
            or meta.get("verbatim_url")
            or request.callback is NO_CALLBACK  # robots.txt, files and images
        ):
            return None
        if isinstance(choice, str) and choice in PROFILES:
            return normalizer_of(choice)
        if choice is not True and choice is not None:
            self._refuse("urlnorm", choice, request, f"True, False, {', '.join(PROFILES)}")
        return self.normalizer

    def _refuse(self, key: str, value: object, request: Request, accepted: str) -> None:
        self._rare["bad_meta"] += 1
        self._warn_once(
            key, "Ignored %s=%r in the meta of %s; accepted: %s", key, value, request, accepted
        )

    def fingerprint_with(self, asked: Asked, normalize: Callable[[str], str]) -> bytes:
        """Return the fingerprint that a request would have if *normalize* made its key."""
        request = request_in(asked)
        if "urlnorm_key" in request.meta or self.normalizer_for(request) is not self.normalizer:
            return self.fingerprint(request)
        return self._digest(request, normalize(request.url))

    def set_apart(self, request: Request, why: str) -> None:
        """Make the fingerprint of *request* another one, the same for the same *why*.

        Otherwise the HTTP cache would answer it with what an earlier request with its key got: the
        redirect that led here, or what is no page.
        """
        self._memo[request] = sha1(
            self.fingerprint(request) + why.encode(errors="replace"), usedforsecurity=False
        ).digest()
        self._apart.add(request)
        self._find_known_class()

    def _ask_fallback(self, request: Request, key: str) -> bytes:
        try:
            return self._fallback.fingerprint(request)
        except Exception as error:  # noqa: BLE001 - an error raised from here would end the crawl
            self._rare["fallback_errors"] += 1
            self._warn_once(
                "fallback",
                "%s raised %r on %s; its URL is taken as it stands. Further failures are only counted.",
                type(self._fallback).__name__,
                error,
                request,
            )
            return _scrapy_digest(request, key)

    def _warn_once(self, problem: str, message: str, *arguments: object) -> None:
        if problem not in self._warned:
            self._warned.add(problem)
            logger.warning(message, *arguments)

    def spider_opened(self, spider: Spider) -> None:
        """Warn if nothing else of ours, or only the dupefilter, is in its place."""
        if not components_of(spider.crawler).has_middleware:
            logger.warning(
                "Keys are normalized, and that is all: UrlNormDownloaderMiddleware is not in "
                "DOWNLOADER_MIDDLEWARES. Nothing is learned or told, and without UrlNormDupeFilter a "
                "redirect onto an equal URL may lose its page. ADDONS = {'scrapy_urlnorm.Addon': 900} "
                "sets them all.",
                extra={"spider": spider},
            )

    def spider_closed(self) -> None:
        """Write the counts to the statistics: to add each at once would cost more than the work."""
        if self._stats is not None:
            self._stats.set_value("urlnorm/requests/processed", self._processed)
            if failed := self._rare["fallback_errors"]:
                self._stats.inc_value("urlnorm/errors", failed)
        said = ", ".join(f"{name} {number:,}" for name, number in self.counts.items())
        logger.debug("Requests that were given keys: %s", said)


def redirect_hop(fingerprint: Callable[[Request], bytes], request: Request) -> int:
    """Return how many redirects that led to *request* came from a URL with its fingerprint.

    A chain of redirects may pass a URL twice: each URL counts once.
    """
    urls = dict.fromkeys(request.meta.get("redirect_urls", ()))
    own = fingerprint(request)
    return sum(fingerprint(request.replace(url=url)) == own for url in urls)


def _scrapy_digest(request: Request, url: str) -> bytes:
    """Return what ``scrapy.utils.request.fingerprint`` returns for *url* with ``verbatim_url``.

    SHA-1 of a JSON object with body (hex), headers (none), method and URL, keys in order.
    """
    body = request.body
    if request.method == "GET" and not body:
        return get_fingerprint(url)
    data = {"body": body.hex(), "headers": {}, "method": request.method, "url": url}
    return sha1(json.dumps(data).encode("ascii"), usedforsecurity=False).digest()
