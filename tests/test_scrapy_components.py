"""Components: settings are read once a crawl, and every crawl has components of its own."""

from __future__ import annotations

import gc
import weakref
from typing import Any
from unittest import mock

import pytest
from loopback import crawl, crawler_of, page
from scrapy import Spider, signals
from scrapy.settings import Settings
from scrapy.utils.misc import build_from_crawler

from scrapy_urlnorm import SiteRule, save_site_rules, site_rules
from scrapy_urlnorm.crawl.components import Components, components_of
from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter
from scrapy_urlnorm.crawl.middleware import UrlNormDownloaderMiddleware
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
        for name in ("load_site_rules", "RuleSet"):
            patch = mock.patch.object(site_rules, name, wraps=getattr(site_rules, name))
            self.patches.append((name, patch, patch.start()))

    def spider_closed(self) -> None:
        for name, patch, counted in self.patches:
            patch.stop()
            # For a message about one host its own rules are compiled again, which is cheap.
            calls = [each for each in counted.call_args_list if each.args[0] != tuple(RULES[:1])]
            self.crawler.stats.set_value(f"calls/{name}", len(calls))


@pytest.mark.parametrize("more", [{}, {"SCHEDULER": "scrapy.core.scheduler.Scheduler"}])
def test_a_crawl_reads_and_compiles_its_rules_once(tmp_path, more):
    save_site_rules(tmp_path / "rules.toml", RULES)
    settings = {
        "ADDONS": {"test_scrapy_components.CountsWork": 100, **ADDON},
        "URLNORM_SITE_RULES": [str(tmp_path / "rules.toml")],
        **more,
    }
    pages = {HOME: page("home", "/a?sid=1", "/a?sid=2"), HOME + "a?sid=1": page("a")}
    result = crawl(pages, [HOME], settings)
    assert result.pages == ["home", "a"]
    assert result.stats["calls/load_site_rules"] == 1
    assert result.stats["calls/RuleSet"] == 1


def test_a_crawler_that_is_gone_is_not_kept_alive():
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


def test_a_setting_that_changes_is_read_again(parts):
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
