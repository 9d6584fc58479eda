"""Addon: ``ADDONS = {"scrapy_urlnorm.Addon": 900}`` is all that a project needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.dupefilters import RFPDupeFilter
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.conf import build_component_list
from scrapy.utils.misc import load_object

from scrapy_urlnorm.crawl.components import Components, components_of
from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter
from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter
from scrapy_urlnorm.crawl.middleware import (
    PRIORITY,
    SPIDER_PRIORITY,
    UrlNormDownloaderMiddleware,
    UrlNormSpiderMiddleware,
)
from scrapy_urlnorm.crawl.scheduler import DISK_QUEUES, FifoDiskQueue, LifoDiskQueue, Scheduler
from scrapy_urlnorm.crawl.settings import FALLBACK_FINGERPRINTER

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from typing_extensions import Self

_FINGERPRINTER = "REQUEST_FINGERPRINTER_CLASS"
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
        return cls(components_of(crawler))

    def __init__(self, components: Components | None = None) -> None:
        self._components = Components() if components is None else components

    def __repr__(self) -> str:
        return "<scrapy_urlnorm.Addon>"

    def update_settings(self, settings: BaseSettings) -> None:
        """Check all settings, and set our components. Raises `ConfigError` for a bad setting."""
        self._components.is_addon_used = True
        _wrap_fingerprinter(settings)
        config = self._components.config(settings)
        if load_object(settings["DUPEFILTER_CLASS"]) is RFPDupeFilter:
            _set(settings, "DUPEFILTER_CLASS", UrlNormDupeFilter)
        _replace_scheduler(settings)
        if getattr(load_object(settings["SCHEDULER"]), "is_shared", False):
            config.require_redis()
        add = settings.setdefault_in_component_priority_dict
        add("DOWNLOADER_MIDDLEWARES", UrlNormDownloaderMiddleware, PRIORITY)
        add("SPIDER_MIDDLEWARES", UrlNormSpiderMiddleware, SPIDER_PRIORITY)
        dupefilter = load_object(settings["DUPEFILTER_CLASS"])
        if config.crawl_log or (config.report and issubclass(dupefilter, UrlNormDupeFilter)):
            from scrapy_urlnorm.crawl.crawl_log import CrawlLog  # most crawls need none of it

            add("EXTENSIONS", CrawlLog, 500)


def _wrap_fingerprinter(settings: BaseSettings) -> None:
    current = settings[_FINGERPRINTER]
    if load_object(current) is not UrlNormRequestFingerprinter:
        if not settings.get(FALLBACK_FINGERPRINTER):
            settings.set(FALLBACK_FINGERPRINTER, current, "addon")
        _set(settings, _FINGERPRINTER, UrlNormRequestFingerprinter)
    # scrapy-poet's add-on replaces any fingerprinter by its own, which builds on the one that
    # this setting names. If that add-on runs after us, it has to build on ours.
    addons = list(map(load_object, build_component_list(settings["ADDONS"])))
    later = addons[addons.index(Addon) + 1 :] if Addon in addons else []
    if any(each.__module__.partition(".")[0] == "scrapy_poet" for each in later):
        settings.set(_POET_BASE, settings.get(_POET_BASE) or UrlNormRequestFingerprinter, "addon")


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
