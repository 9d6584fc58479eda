"""scrapy-urlnorm stops a Scrapy crawler from fetching one page under many URLs.

``normalize`` and ``explain`` work on single URLs, ``Normalizer`` with options and site rules;
nothing of that imports Scrapy. The Scrapy components are loaded when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .normalizer import Normalizer, Trace, explain, normalize
from .site_rules import SiteRule, load_site_rules, save_site_rules

if TYPE_CHECKING:
    __version__: str
    from .addon import Addon
    from .crawl_log import CrawlLog
    from .dupefilter import UrlNormDupeFilter
    from .fingerprinter import UrlNormRequestFingerprinter
    from .middleware import UrlNormDownloaderMiddleware
    from .scheduler import Scheduler

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
    "Addon": "addon",
    "CrawlLog": "crawl_log",
    "Scheduler": "scheduler",
    "UrlNormDownloaderMiddleware": "middleware",
    "UrlNormDupeFilter": "dupefilter",
    "UrlNormRequestFingerprinter": "fingerprinter",
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
