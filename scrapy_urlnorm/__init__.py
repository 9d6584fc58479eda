"""scrapy-urlnorm stops a Scrapy crawler from fetching one page under many URLs.

``normalize`` and ``explain`` work on single URLs, ``Normalizer`` with options and site rules;
nothing of that imports Scrapy. The Scrapy components are loaded when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.normalizer import Normalizer, explain, normalize
from scrapy_urlnorm.site_rules import SiteRule, load_site_rules, save_site_rules
from scrapy_urlnorm.trace import Trace

if TYPE_CHECKING:
    __version__: str
    from scrapy_urlnorm.crawl.addon import Addon
    from scrapy_urlnorm.crawl.crawl_log import CrawlLog
    from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter
    from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter
    from scrapy_urlnorm.crawl.middleware import UrlNormDownloaderMiddleware
    from scrapy_urlnorm.crawl.scheduler import Scheduler
    from scrapy_urlnorm.crawl.shared_scheduler import SharedScheduler as SharedScheduler

__all__ = [
    "Addon",
    "CrawlLog",
    "Normalizer",
    "Scheduler",
    "SiteRule",
    "Trace",
    "UrlNormDownloaderMiddleware",
    "UrlNormDupeFilter",
    "UrlNormRequestFingerprinter",
    "explain",
    "load_site_rules",
    "normalize",
    "save_site_rules",
]

_SCRAPY_COMPONENTS = {
    "Addon": "crawl.addon",
    "CrawlLog": "crawl.crawl_log",
    "Scheduler": "crawl.scheduler",
    "SharedScheduler": "crawl.shared_scheduler",  # needs an extra: `import *` leaves it out
    "UrlNormDownloaderMiddleware": "crawl.middleware",
    "UrlNormDupeFilter": "crawl.dupefilter",
    "UrlNormRequestFingerprinter": "crawl.fingerprinter",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    module = _SCRAPY_COMPONENTS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{module}", __name__), name)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("scrapy-urlnorm")
    except PackageNotFoundError:  # a source tree that is on the path and not installed
        return "unknown"


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
