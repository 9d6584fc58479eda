"""Components: settings are read once a crawl, and every crawl has components of its own."""

from __future__ import annotations

import gc
import weakref
from unittest import mock

import pytest
from loopback import Reply, crawler_of, page
from scrapy import Spider
from scrapy.settings import Settings
from scrapy.utils.misc import build_from_crawler
from simulation.plan import Plan
from simulation.walk import Walk

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


@pytest.mark.parametrize("is_foreign", [False, True])
def test_a_crawl_reads_and_compiles_its_rules_once(tmp_path, monkeypatch, is_foreign):
    save_site_rules(tmp_path / "rules.toml", RULES)
    reads, compiles = (
        mock.Mock(wraps=getattr(site_rules, name)) for name in ("load_site_rules", "RuleSet")
    )
    monkeypatch.setattr(site_rules, "load_site_rules", reads)
    monkeypatch.setattr(site_rules, "RuleSet", compiles)
    pages = {HOME: page("home", "/a?sid=1", "/a?sid=2"), HOME + "a?sid=1": page("a")}
    pages[HOME + "a?sid=2"] = Reply(404)  # it is sent where nothing can wait
    settings = {"URLNORM_SITE_RULES": [str(tmp_path / "rules.toml")]}
    crawl = Walk(pages.__getitem__, HOME, Plan(1, is_foreign=is_foreign), **settings).crawl()
    assert crawl.pages == ["home", "a"]
    assert reads.call_count == 1
    # For a message about one host its own rules are compiled again, which is cheap.
    assert sum(each.args[0] != tuple(RULES[:1]) for each in compiles.call_args_list) == 1


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
