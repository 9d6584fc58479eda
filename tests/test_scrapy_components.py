"""Components: settings are read once a crawl, and every crawl has components of its own."""

from __future__ import annotations

import gc
import weakref
from typing import Any
from unittest import mock

import pytest
from loopback import Site, crawl, crawler_of, page
from scrapy import Spider, signals
from scrapy.settings import Settings
from scrapy.utils.misc import build_from_crawler

from scrapy_urlnorm import SiteRule, normalizer, save_site_rules
from scrapy_urlnorm.crawl import settings as settings_module
from scrapy_urlnorm.crawl.components import Components, components_of
from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter
from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter
from scrapy_urlnorm.crawl.middleware import UrlNormDownloaderMiddleware
from scrapy_urlnorm.crawl.settings import Config
from scrapy_urlnorm.exceptions import ConfigError

HOME = "http://www.shop.test/"
ADDON = {"scrapy_urlnorm.Addon": 900}
RULES = [
    SiteRule(site=f"www.{name}.test", kind="drop-param", param="sid") for name in ("shop", "blog")
]


class CountsWork:
    """An add-on before ours: counts how often rule files are read and all rules are compiled."""

    def __init__(self, crawler: Any) -> None:
        self.crawler = crawler
        self.patches: list[Any] = []

    @classmethod
    def from_crawler(cls, crawler: Any) -> CountsWork:
        addon = cls(crawler)
        crawler.signals.connect(addon.spider_closed, signals.spider_closed)
        return addon

    def update_settings(self, settings: Any) -> None:
        for module, name in (
            (settings_module, "load_site_rules"),
            (normalizer, "RuleSet"),
        ):
            patch = mock.patch.object(module, name, wraps=getattr(module, name))
            self.patches.append((name, patch, patch.start()))

    def spider_closed(self) -> None:
        for name, patch, counted in self.patches:
            patch.stop()
            # For a message about one host its own rules are compiled again, which is cheap.
            calls = [each for each in counted.call_args_list if each.args[0] != tuple(RULES[:1])]
            self.crawler.stats.set_value(f"calls/{name}", len(calls))


@pytest.mark.parametrize("more", [{}, {"SCHEDULER": "scrapy.core.scheduler.Scheduler"}])
def test_a_crawl_reads_and_compiles_its_rules_once(tmp_path, more):
    """However many components ask for the settings."""
    save_site_rules(tmp_path / "rules.toml", RULES)
    settings = {
        "ADDONS": {"test_scrapy_components.CountsWork": 100, **ADDON},
        "URLNORM_SITE_RULES": [str(tmp_path / "rules.toml")],
        **more,
    }
    pages = {HOME: page("home", "/a?sid=1", "/a?sid=2"), HOME + "a?sid=1": page("a")}
    with Site(pages) as site:
        result = crawl(site, [HOME], settings)
    assert result.pages == ["home", "a"]
    assert result.stats["calls/load_site_rules"] == 1
    assert result.stats["calls/RuleSet"] == 1


def test_two_crawlers_share_nothing():
    """Each has its own settings and components, also in one process."""
    safe, default = (
        crawler_of(Spider, {"ADDONS": ADDON, "URLNORM_PROFILE": profile})
        for profile in ("safe", "default")
    )
    ours = [components_of(crawler).find(UrlNormRequestFingerprinter) for crawler in (safe, default)]
    assert [each.normalizer.profile for each in ours] == ["safe", "default"]
    assert components_of(safe) is components_of(safe)
    build_from_crawler(UrlNormDupeFilter, safe)
    assert components_of(safe).find(UrlNormDupeFilter) is not None
    assert components_of(default).find(UrlNormDupeFilter) is None


def test_a_crawler_that_is_gone_is_not_kept_alive():
    """Its parts refer to it, and go with it."""
    crawler = crawler_of(Spider, {"ADDONS": ADDON})
    dupefilter = build_from_crawler(UrlNormDupeFilter, crawler)
    middleware = build_from_crawler(UrlNormDownloaderMiddleware, crawler)
    left = [weakref.ref(crawler), weakref.ref(components_of(crawler)), weakref.ref(dupefilter)]
    del crawler, dupefilter, middleware
    gc.collect()
    assert [reference() for reference in left] == [None, None, None]


@pytest.fixture
def parts():
    return Components()


def test_the_settings_are_read_once(parts):
    """Whoever asks gets the same object."""
    settings = Settings({"URLNORM_PROFILE": "safe"})
    assert parts.config(settings) is parts.config(settings.copy())


def test_a_setting_that_changes_is_read_again(parts):
    """An add-on that runs later may change one, also in place, and it is checked again."""
    settings = Settings({"URLNORM_RULES": {"www": "remove"}})
    assert parts.config(settings).normalizer.rules["www"] == "remove"
    settings["URLNORM_RULES"]["www"] = "add"
    assert parts.config(settings).normalizer.rules["www"] == "add"
    settings.set("JOBDIR", "job")
    assert parts.config(settings).jobdir == "job"
    settings.set("URLNORM_NOSUCH", 1)
    with pytest.raises(ConfigError, match="URLNORM_NOSUCH"):
        parts.config(settings)
    with pytest.raises(ConfigError, match="URLNORM_NOSUCH"):
        parts.config(settings)


def test_the_fallback_alone_is_taken_over(parts, monkeypatch):
    """Our add-on sets it after the check, which is no reason to read rule files again."""
    settings = Settings()
    config = parts.config(settings)
    settings.set("URLNORM_FALLBACK_REQUEST_FINGERPRINTER_CLASS", "a.Class")
    monkeypatch.setattr(Config, "from_settings", None)
    changed = parts.config(settings)
    assert changed.fallback == "a.Class"
    assert changed.normalizer is config.normalizer


class Part:
    """What a component may be."""


class SpecialPart(Part):
    """What somebody has made of it."""


def test_a_part_is_found_by_its_class_and_a_base_class(parts):
    """One that was not put there is not found; a later one takes the place of an earlier one."""
    assert parts.find(Part) is None
    plain, special = Part(), SpecialPart()
    parts.put(plain)
    assert parts.find(Part) is plain
    parts.put(special)
    assert parts.find(Part) is parts.find(SpecialPart) is special
