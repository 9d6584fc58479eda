"""UrlNormRequestFingerprinter: equal keys give equal fingerprints."""

from __future__ import annotations

import json
import logging
from hashlib import sha1
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from weakref import WeakKeyDictionary, WeakSet

from scrapy import Request, signals
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.request import RequestFingerprinter, RequestFingerprinterProtocol

from scrapy_urlnorm.caches import BoundedCache
from scrapy_urlnorm.crawl.components import components_of, config_of
from scrapy_urlnorm.crawl.settings import FALLBACK_FINGERPRINTER
from scrapy_urlnorm.exceptions import ConfigError
from scrapy_urlnorm.fingerprints import get_fingerprint
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.rules import PROFILES

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler
    from scrapy.statscollectors import StatsCollector
    from typing_extensions import Self

logger = logging.getLogger(__name__)

#: How many URLs the fingerprint is remembered of, and how many characters they have at most.
KNOWN_URLS = 16_384
KNOWN_LENGTH = 1_024


# The class of most requests, if its parts can be read past its properties, which cost more than all
# the rest of a look-up. A subclass may have properties that say something else.
_WITH_SLOTS = (
    Request if all(hasattr(Request, name) for name in ("_url", "_body", "_meta")) else None
)


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
        self,
        normalizer: Normalizer,
        fallback: RequestFingerprinterProtocol | None = None,
        *,
        media: bool = True,
    ) -> None:
        self._media = media
        self._fallback = RequestFingerprinter() if fallback is None else fallback
        #: Whether the fallback is Scrapy's own: then a GET is known by its URL alone.
        self.is_direct = type(self._fallback) is RequestFingerprinter
        self._digest: Callable[[Request, str], bytes] = (
            _scrapy_digest if self.is_direct else self._fallback_digest
        )
        self._memo: WeakKeyDictionary[Request, bytes] = WeakKeyDictionary()
        self._apart: WeakSet[Request] = WeakSet()
        self._by_url = self.is_direct  # no living request was set apart from its URL
        self._of_profiles: dict[str, Normalizer] = {}  # for requests that name one in their meta
        self._warned: set[str] = set()
        self._stats: StatsCollector | None = None
        self._processed = self._changed = 0
        self._rare = dict.fromkeys(("left_alone", "bad_meta", "fallback_errors"), 0)
        self.normalizer = normalizer

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        components, config = components_of(crawler), config_of(crawler)
        fallback = load_object(config.fallback)
        if isinstance(fallback, type) and issubclass(fallback, UrlNormRequestFingerprinter):
            raise ConfigError(
                f"{FALLBACK_FINGERPRINTER} = {config.fallback!r}: a fingerprinter cannot be its "
                "own fallback; name the class that was there before"
            )
        if components.builds_fingerprinter:  # our fallback asks for us as its own fallback
            return cls(config.normalizer, media=config.media)
        components.builds_fingerprinter = True
        try:
            built = build_from_crawler(fallback, crawler)
        finally:
            components.builds_fingerprinter = False
        fingerprinter = cls(config.normalizer, built, media=config.media)
        components.put(fingerprinter)
        fingerprinter._stats = crawler.stats
        crawler.signals.connect(fingerprinter.spider_closed, signals.spider_closed)
        return fingerprinter

    @property
    def normalizer(self) -> Normalizer:
        """The normalizer that makes the keys. Setting another one forgets all fingerprints."""
        return self._normalizer

    @normalizer.setter
    def normalizer(self, normalizer: Normalizer) -> None:
        self._normalizer = normalizer
        self._normalize: Callable[[str], str] = normalizer.normalize
        self._memo = WeakKeyDictionary()
        self._known = BoundedCache(self._known_get, most=KNOWN_URLS, longest=KNOWN_LENGTH)

    def fingerprint(self, request: Request) -> bytes:
        """Return the fingerprint of *request*; see the class."""
        if self._by_url and type(request) is _WITH_SLOTS:
            meta = request._meta
            if (
                request.method == "GET"
                and not request._body
                and not (
                    meta and ("urlnorm" in meta or "urlnorm_key" in meta or "verbatim_url" in meta)
                )
                and (self._media or request.callback is not NO_CALLBACK)
            ):
                digest, is_changed = self._known[request._url]
                self._processed += 1
                if is_changed:
                    self._changed += 1
                return digest
        return self._remembered(request)

    def _remembered(self, request: Request) -> bytes:
        self._by_url = self.is_direct and not self._apart
        digest = self._memo.get(request)
        if digest is None:
            self._processed += 1
            digest = self._memo[request] = self._fingerprint(request)
        return digest

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
            return self._stock(request)
        url = request.url
        is_url_alone = self.is_direct and request.method == "GET" and not request.body
        if is_url_alone and normalizer is self._normalizer:
            digest, is_changed = self._known[url]
        else:
            key = normalizer.normalize(url)
            digest, is_changed = self._digest(request, key), key != url
        self._changed += is_changed
        return digest

    def _known_get(self, url: str) -> tuple[bytes, bool]:
        """Return the fingerprint of a GET that is *url* alone, and whether its key is another."""
        key = self._normalize(url)
        return get_fingerprint(key), key is not url and key != url

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
        self._rare["bad_meta"] += 1
        self._warn_once(
            "bad_key",
            "Ignored urlnorm_key=%(value)r in the meta of %(request)s; accepted: any text but ''",
            value=given,
            request=request,
        )
        return None

    def normalizer_for(self, request: Request) -> Normalizer | None:
        """Return the normalizer that makes the key of *request*; ``None`` leaves it alone."""
        meta = request.meta
        if meta.get("verbatim_url") or (not self._media and request.callback is NO_CALLBACK):
            return None
        choice = meta.get("urlnorm", True)
        if choice is True or choice is None:
            return self._normalizer
        if choice is False:
            return None
        if isinstance(choice, str) and choice in PROFILES:
            if choice not in self._of_profiles:
                self._of_profiles[choice] = Normalizer(choice)
            return self._of_profiles[choice]
        self._rare["bad_meta"] += 1
        self._warn_once(
            "bad_meta",
            "Ignored urlnorm=%(value)r in the meta of %(request)s; accepted: True, False, "
            + ", ".join(PROFILES),
            value=choice,
            request=request,
        )
        return self._normalizer

    def key(self, request: Request) -> str:
        """Return the normalized URL, or other text, that the fingerprint of *request* is made from."""
        given = self.given_key(request)
        if given is not None:
            return given
        normalizer = self.normalizer_for(request)
        return request.url if normalizer is None else normalizer.normalize(request.url)

    def fingerprint_with(self, request: Request, normalize: Callable[[str], str]) -> bytes:
        """Return the fingerprint that *request* would have if *normalize* made its key."""
        if "urlnorm_key" in request.meta or self.normalizer_for(request) is not self._normalizer:
            return self.fingerprint(request)
        return self._digest(request, normalize(request.url))

    def set_apart(self, request: Request, hop: int) -> None:
        """Make the fingerprint of *request* unique, as the *hop*-th redirect onto its own key.

        Otherwise the HTTP cache would answer it with the redirect that led here: both have one
        key.
        """
        self._memo[request] = sha1(
            self.fingerprint(request) + b"redirect %d" % hop, usedforsecurity=False
        ).digest()
        self._apart.add(request)
        self._by_url = False

    def _fallback_digest(self, request: Request, key: str) -> bytes:
        copy = request.replace(url=key, meta={**request.meta, "verbatim_url": True})
        return self._ask_fallback(copy, key)

    def _stock(self, request: Request) -> bytes:
        """Return the fingerprint of a request that is left alone."""
        if self.is_direct and request.meta.get("verbatim_url"):
            return _scrapy_digest(request, request.url)  # Scrapy < 2.17 ignores verbatim_url
        return self._ask_fallback(request, request.url)

    def _ask_fallback(self, request: Request, key: str) -> bytes:
        try:
            return self._fallback.fingerprint(request)
        except Exception as error:  # noqa: BLE001 - an error raised from here would end the crawl
            self._rare["fallback_errors"] += 1
            self._warn_once(
                "fallback_errors",
                "%(fallback)s raised %(error)r on %(request)s; its URL is taken as it stands. "
                "Further failures are only counted.",
                fallback=type(self._fallback).__name__,
                error=error,
                request=request,
            )
            return _scrapy_digest(request, key)

    def _warn_once(self, problem: str, message: str, **arguments: Any) -> None:
        if problem not in self._warned:
            self._warned.add(problem)
            logger.warning(message, arguments)

    def spider_closed(self) -> None:
        """Write the counts to the statistics: to add each at once would cost more than the work."""
        if self._stats is not None:
            for name, count in self.counts.items():
                if count:
                    self._stats.set_value(f"urlnorm/requests/{name}", count)


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
