"""Addon: ``ADDONS = {"scrapy_urlnorm.Addon": 900}`` is all that a project needs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.dupefilters import BaseDupeFilter
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.conf import build_component_list
from scrapy.utils.misc import load_object

from scrapy_urlnorm.crawl.components import Components, components_of
from scrapy_urlnorm.crawl.crawl_log import CrawlLog
from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter
from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter
from scrapy_urlnorm.crawl.middleware import (
    PRIORITY,
    SPIDER_PRIORITY,
    UrlNormDownloaderMiddleware,
    UrlNormSpiderMiddleware,
)
from scrapy_urlnorm.crawl.scheduler import DISK_QUEUES, FifoDiskQueue, LifoDiskQueue, Scheduler
from scrapy_urlnorm.crawl.settings import FALLBACK_FINGERPRINTER, is_enabled

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from typing_extensions import Self

logger = logging.getLogger(__name__)

_STOCK_DUPEFILTER = "scrapy.dupefilters.RFPDupeFilter"
_POET_BASE = "SCRAPY_POET_REQUEST_FINGERPRINTER_BASE_CLASS"


class Addon:
    """Puts the fingerprinter, the dupefilter, the scheduler and the middlewares in their places.

    And the crawl log, when a setting names a file for it, or for the report that is made from it.

    The fingerprinter configured before becomes the fallback of ours. A dupefilter other than
    Scrapy's own stays in its place, and so does a scheduler that the project names. All settings
    are checked now, not at the first request.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        addon = cls(components_of(crawler))
        crawler.signals.connect(addon.spider_opened, signals.spider_opened)
        return addon

    def __init__(self, components: Components | None = None) -> None:
        self._components = Components() if components is None else components
        self._is_enabled = False

    def __repr__(self) -> str:
        return "<scrapy_urlnorm.Addon>"

    def update_settings(self, settings: BaseSettings) -> None:
        """Check all settings, and set our components. Raises `ConfigError` for a bad setting."""
        self._is_enabled = is_enabled(settings)
        if not self._is_enabled:
            return
        config = self._components.config(settings)
        self._wrap_fingerprinter(settings)
        if load_object(settings["DUPEFILTER_CLASS"]) is load_object(_STOCK_DUPEFILTER):
            _set(settings, "DUPEFILTER_CLASS", UrlNormDupeFilter)
        _replace_scheduler(settings)
        add = settings.setdefault_in_component_priority_dict
        add("DOWNLOADER_MIDDLEWARES", UrlNormDownloaderMiddleware, PRIORITY)
        if config.learn != "off":
            add("SPIDER_MIDDLEWARES", UrlNormSpiderMiddleware, SPIDER_PRIORITY)
        if config.crawl_log or config.report:
            add("EXTENSIONS", CrawlLog, 500)

    def _wrap_fingerprinter(self, settings: BaseSettings) -> None:
        current = settings["REQUEST_FINGERPRINTER_CLASS"]
        if load_object(current) is not UrlNormRequestFingerprinter:
            if not settings.get(FALLBACK_FINGERPRINTER):
                settings.set(FALLBACK_FINGERPRINTER, current, "addon")
            _set(settings, "REQUEST_FINGERPRINTER_CLASS", UrlNormRequestFingerprinter)
        # scrapy-poet's add-on replaces any fingerprinter by its own, which builds on the one that
        # this setting names. If that add-on runs after us, it has to build on ours.
        if _comes_after_us(settings, "scrapy_poet") and not settings.get(_POET_BASE):
            settings.set(_POET_BASE, UrlNormRequestFingerprinter, "addon")

    def spider_opened(self, spider: Spider) -> None:
        """Warn if one of the components is missing, and say what that means."""
        if not self._is_enabled:
            return
        settings, extra = spider.crawler.settings, {"spider": spider}
        if self._components.find(UrlNormRequestFingerprinter) is None:
            logger.warning(
                "URL normalization has no effect on fingerprints: REQUEST_FINGERPRINTER_CLASS is "
                "%(current)s, set by a component that runs after scrapy_urlnorm.Addon. Give "
                "scrapy_urlnorm.Addon a higher number in ADDONS.",
                {"current": settings["REQUEST_FINGERPRINTER_CLASS"]},
                extra=extra,
            )
        dupefilter = load_object(settings["DUPEFILTER_CLASS"])
        if dupefilter is not BaseDupeFilter and self._components.find(UrlNormDupeFilter) is None:
            logger.warning(
                "DUPEFILTER_CLASS is %(current)s: a redirect onto an equal URL may lose its page, "
                "and no rules are learned. scrapy_urlnorm.UrlNormDupeFilter does both.",
                {"current": dupefilter.__qualname__},
                extra=extra,
            )


def _replace_scheduler(settings: BaseSettings) -> None:
    """Replace Scrapy's scheduler by ours, and its disk queues by ours of the same order.

    Disk queues are used with JOBDIR only. With JOBDIR and disk queues of the project's own, the
    scheduler stays what it is.
    """
    if settings.getpriority("SCHEDULER"):
        return
    ours = {queue.stock: queue for queue in (LifoDiskQueue, FifoDiskQueue)}
    names = [name for name in DISK_QUEUES if settings["JOBDIR"] and settings[name]]
    queues = {name: load_object(settings[name]) for name in names}
    if set(queues.values()) <= set(ours):
        _set(settings, "SCHEDULER", Scheduler)
        for name, queue in queues.items():
            _set(settings, name, ours[queue])


def _set(settings: BaseSettings, name: str, value: type) -> None:
    """Replace a value at its own priority: at "addon" it would lose to the project's value."""
    settings.set(name, value, max(settings.getpriority(name) or 0, SETTINGS_PRIORITIES["addon"]))


def _comes_after_us(settings: BaseSettings, package: str) -> bool:
    """Return whether an add-on of *package* runs after ours."""
    is_after = False
    for path in build_component_list(settings["ADDONS"]):
        addon = load_object(path)
        if addon is Addon:
            is_after = True
        elif is_after and addon.__module__.partition(".")[0] == package:
            return True
    return False
