"""CrawlParts: what the components of one crawl share, and how they find one another.

Scrapy builds every component by itself and hands it the crawler. So the crawler carries this
object: the checked settings, read once, and the components that others ask for. It lives and goes
with the crawler; nothing of it stands at module level.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy_urlnorm.crawl.settings import FALLBACK_FINGERPRINTER, Config, settings_read

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

T = TypeVar("T")

_ATTRIBUTE = "_scrapy_urlnorm"


class CrawlParts:
    """The settings and the components of one crawl.

    A component puts itself here under its class, and others find it there: the dupefilter, the
    fingerprinter (also where one of another package wraps it), the database of waiting requests,
    the live rules, the spider middleware.
    """

    def __init__(self) -> None:
        self._parts: dict[type, Any] = {}
        self._config: Config | None = None
        self._read: dict[str, str] = {}
        #: Classes of which one is being built now. One that is asked for again meanwhile is the
        #: fallback of its own fallback.
        self.under_construction: set[type] = set()

    def config(self, settings: BaseSettings) -> Config:
        """Return the checked *settings* of this crawl. Raises `ConfigError`.

        They are read when first asked for: rule files may be long. They are read again only if a
        setting has changed since, as an add-on that runs later may do. Another fallback
        fingerprinter, which our add-on sets itself, leaves the rest as it is.
        """
        now = settings_read(settings)
        if self._config is None or _but_fallback(now) != _but_fallback(self._read):
            self._config = Config.from_settings(settings)
        elif now != self._read:
            self._config = replace(self._config, fallback=Config.fallback_of(settings))
        self._read = now
        return self._config

    def put(self, part: object) -> None:
        """Have others find *part* by its class or a base class, in place of an earlier one."""
        self._parts |= dict.fromkeys(type(part).__mro__, part)

    def find(self, kind: type[T]) -> T | None:
        """Return the *kind* of this crawl; ``None`` where there is none, or not yet."""
        return self._parts.get(kind)


def parts_of(crawler: Crawler) -> CrawlParts:
    """Return the parts of the crawl that *crawler* runs."""
    # An attribute and no table by crawler: several parts hold the crawler, so a table would keep
    # it alive for ever, with weak references as well.
    parts: CrawlParts | None = getattr(crawler, _ATTRIBUTE, None)
    if parts is None:
        parts = CrawlParts()
        setattr(crawler, _ATTRIBUTE, parts)
    return parts


def _but_fallback(values: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if name != FALLBACK_FINGERPRINTER}
