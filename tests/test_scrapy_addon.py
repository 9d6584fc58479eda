"""The add-on: one line activates everything, and other add-ons keep their place."""

from __future__ import annotations

import pytest
from loopback import Follow, Site, crawl, page
from scrapy.settings import Settings
from scrapy.utils.misc import load_object
from scrapy.utils.request import RequestFingerprinter

from scrapy_urlnorm.crawl.addon import Addon
from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter
from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter
from scrapy_urlnorm.crawl.middleware import PRIORITY, UrlNormDownloaderMiddleware

HOME = "http://shop.test/"
OURS = "scrapy_urlnorm.crawl.addon.Addon"
FALLBACK = "URLNORM_FALLBACK_REQUEST_FINGERPRINTER_CLASS"


class Custom(RequestFingerprinter):
    """The fingerprinter of a project: counts the user agent in."""

    def fingerprint(self, request):
        return super().fingerprint(request) + request.headers.get("User-Agent", b"")


class Replaces:
    """An add-on that puts its fingerprinter in place of whatever is there."""

    def update_settings(self, settings):
        settings.set("REQUEST_FINGERPRINTER_CLASS", Custom, "addon")


class Chain(Follow):
    """Writes the chain of fingerprinters into the statistics."""

    async def start(self):
        names = []
        link = self.crawler.request_fingerprinter
        while link is not None:
            names.append(type(link).__name__)
            inner = ("_fallback", "_base_request_fingerprinter", "_fallback_request_fingerprinter")
            link = next((getattr(link, name) for name in inner if hasattr(link, name)), None)
        self.crawler.stats.set_value("chain", " ".join(names))
        async for request in super().start():
            yield request


def updated(settings=None, addon=Addon):
    settings = Settings(settings or {})
    addon().update_settings(settings)
    return settings


def test_puts_all_three_components_in_place():
    """Fingerprinter, dupefilter and downloader middleware are ours afterwards."""
    settings = updated()
    assert settings["REQUEST_FINGERPRINTER_CLASS"] is UrlNormRequestFingerprinter
    assert settings["DUPEFILTER_CLASS"] is UrlNormDupeFilter
    assert settings["DOWNLOADER_MIDDLEWARES"][UrlNormDownloaderMiddleware] == PRIORITY
    assert load_object(settings[FALLBACK]) is RequestFingerprinter


def test_wins_over_the_priority_of_a_project_setting():
    """A class set by the project becomes the fallback, at the project's own priority."""
    settings = updated({"REQUEST_FINGERPRINTER_CLASS": Custom})
    assert settings["REQUEST_FINGERPRINTER_CLASS"] is UrlNormRequestFingerprinter
    assert settings.getpriority("REQUEST_FINGERPRINTER_CLASS") == 20
    assert settings[FALLBACK] is Custom


def test_twice_is_once():
    """Applying the add-on again changes nothing: ours never becomes its own fallback."""
    settings = updated()
    before = {name: settings[name] for name in settings}
    Addon().update_settings(settings)
    assert {name: settings[name] for name in settings} == before


@pytest.mark.parametrize(
    "by_hand",
    [
        UrlNormRequestFingerprinter,
        "scrapy_urlnorm.crawl.fingerprinter.UrlNormRequestFingerprinter",
        "scrapy_urlnorm.UrlNormRequestFingerprinter",
    ],
)
def test_the_class_set_by_hand_besides(by_hand):
    """Add-on and setting together name the class once."""
    settings = updated({"REQUEST_FINGERPRINTER_CLASS": by_hand})
    assert load_object(settings["REQUEST_FINGERPRINTER_CLASS"]) is UrlNormRequestFingerprinter
    assert not settings.get(FALLBACK)


def test_a_middleware_placed_by_hand_keeps_its_place():
    """The number that the project gives the middleware stays."""
    path = "scrapy_urlnorm.crawl.middleware.UrlNormDownloaderMiddleware"
    settings = updated({"DOWNLOADER_MIDDLEWARES": {path: 655}})
    assert settings["DOWNLOADER_MIDDLEWARES"].copy_to_dict() == {path: 655}


def test_another_dupefilter_is_left_alone():
    """Only Scrapy's own dupefilter is replaced."""
    settings = updated({"DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter"})
    assert settings["DUPEFILTER_CLASS"] == "scrapy.dupefilters.BaseDupeFilter"


def test_disabled_leaves_everything_as_stock():
    """With URLNORM_ENABLED off no setting changes."""
    before = Settings({"URLNORM_ENABLED": False}).copy_to_dict()
    assert updated({"URLNORM_ENABLED": False}).copy_to_dict() == before


def test_disabled_crawls_as_stock():
    """With URLNORM_ENABLED off a crawl fetches what stock Scrapy fetches."""
    pages = {HOME: page("home", "/?utm_source=a", "/?utm_source=b")}
    with Site(pages) as site:
        stock = crawl(site, [HOME])
        off = crawl(site, [HOME], {"ADDONS": {OURS: 900}, "URLNORM_ENABLED": False})
    assert len(site.requests) == 6
    assert off.stats.keys() == stock.stats.keys()


def test_one_line_is_all_that_a_project_needs():
    """The crawl of the example: equal URLs are fetched once."""
    links = ("/a", "/a#x", "/a?utm_source=m", "/a?", "/x/../a", "HTTP://SHOP.test:80/a")
    with Site({HOME: page("home", *links), HOME + "a": page("a", *links)}) as site:
        result = crawl(site, [HOME], {"ADDONS": {OURS: 900}})
    assert result.pages == ["home", "a"]
    assert site.requests == [HOME, HOME + "a"]
    assert result.stats["urlnorm/requests/changed"] >= 3


def test_a_subclass_of_the_projects_fingerprinter_still_counts():
    """The project's fingerprinter decides on everything but the URL."""
    settings = {
        "ADDONS": {OURS: 900},
        "REQUEST_FINGERPRINTER_CLASS": "test_scrapy_addon.Custom",
        "DUPEFILTER_DEBUG": True,
    }
    with Site({HOME: page("home", "/a", "/a#x"), HOME + "a": page("a")}) as site:
        result = crawl(site, [HOME], settings)
    assert result.pages == ["home", "a"]


# --- with the add-ons of others ------------------------------------------------------------


def test_poet_keeps_deciding_by_dependencies():
    """scrapy-poet's fingerprinter is part of the chain, before and after us in ADDONS."""
    pytest.importorskip("scrapy_poet")
    pages = {HOME: page("home", "/a", "/a#x", "/a?utm_source=m"), HOME + "a": page("a")}
    for number in (800, 1000):
        addons = {OURS: 900, "scrapy_poet.Addon": number}
        with Site(pages) as site:
            result = crawl(site, [HOME], {"ADDONS": addons}, spider="test_scrapy_addon.Chain")
        assert result.error is None
        assert site.requests == [HOME, HOME + "a"]
        assert result.stats["chain"] == (
            "UrlNormRequestFingerprinter ScrapyPoetRequestFingerprinter RequestFingerprinter"
            if number == 800
            else "ScrapyPoetRequestFingerprinter UrlNormRequestFingerprinter RequestFingerprinter"
        )


@pytest.mark.parametrize(
    ("zyte", "poet"),
    # not (1000, 1100): scrapy-poet's add-on replaces the fingerprinter of any before it
    [(300, None), (1000, None), (300, 200), (1000, 200), (300, 1100)],
)
def test_zyte_api_keeps_its_fingerprints(zyte, poet):
    """scrapy-zyte-api's add-on before and after ours, with and without scrapy-poet's."""
    pytest.importorskip("scrapy_zyte_api")
    pytest.importorskip("zyte_common_items", reason="its add-on wants it beside scrapy-poet")
    addons = {OURS: 900, "scrapy_zyte_api.Addon": zyte}
    if poet is not None:
        addons["scrapy_poet.Addon"] = poet
    settings = {
        "ADDONS": addons,
        "ZYTE_API_KEY": "none",
        "ZYTE_API_TRANSPARENT_MODE": False,
    }
    with Site({HOME: page("home", "/a", "/a#x", "/a?utm_source=m"), HOME + "a": page("a")}) as site:
        result = crawl(site, [HOME], settings, spider="test_scrapy_addon.Chain")
    assert result.error is None
    assert site.requests == [HOME, HOME + "a"]
    chain = result.stats["chain"].split()
    assert chain.count("UrlNormRequestFingerprinter") >= 1
    assert chain.count("ScrapyZyteAPIRequestFingerprinter") >= 1


def test_a_later_addon_that_replaces_the_fingerprinter_is_said():
    """When nothing of ours is left in the chain, a warning says what to do."""
    addons = {OURS: 900, "test_scrapy_addon.Replaces": 1000}
    with Site({HOME: page("home")}) as site:
        result = crawl(site, [HOME], {"ADDONS": addons})
    assert result.pages == ["home"]
    assert "Give scrapy_urlnorm.Addon a higher number in ADDONS" in result.log
