"""scrapy-urlnorm stops a Scrapy crawler from fetching one page under many URLs.

``normalize`` and ``explain`` work on single URLs, ``Normalizer`` with options and site rules;
nothing of that imports Scrapy. What is in other modules is loaded when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.normalizer import Normalizer, Trace, explain, normalize
from scrapy_urlnorm.text import own_version

if TYPE_CHECKING:
    from scrapy_urlnorm.crawl.addon import Addon
    from scrapy_urlnorm.crawl.crawl_log import CrawlLog
    from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter
    from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter
    from scrapy_urlnorm.crawl.middleware import UrlNormDownloaderMiddleware
    from scrapy_urlnorm.crawl.scheduler import Scheduler
    from scrapy_urlnorm.crawl.shared_scheduler import SharedScheduler as SharedScheduler
    from scrapy_urlnorm.site_rules import SiteRule, load_site_rules, save_site_rules

    __version__: str

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

_MODULES = {
    "Addon": "crawl.addon",
    "CrawlLog": "crawl.crawl_log",
    "Scheduler": "crawl.scheduler",
    "SharedScheduler": "crawl.shared_scheduler",  # needs an extra: `import *` leaves it out
    "SiteRule": "site_rules",
    "UrlNormDownloaderMiddleware": "crawl.middleware",
    "UrlNormDupeFilter": "crawl.dupefilter",
    "UrlNormRequestFingerprinter": "crawl.fingerprinter",
    "load_site_rules": "site_rules",
    "save_site_rules": "site_rules",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return own_version()
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
