"""The add-on: one line activates everything, and other add-ons keep their place."""

from __future__ import annotations

import pytest
from loopback import Follow, crawl, page
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


def updated(settings=None):
    settings = Settings(settings or {})
    Addon().update_settings(settings)
    return settings


def test_puts_all_three_components_in_place_once():
    settings = updated()
    assert settings["REQUEST_FINGERPRINTER_CLASS"] is UrlNormRequestFingerprinter
    assert settings["DUPEFILTER_CLASS"] is UrlNormDupeFilter
    assert settings["DOWNLOADER_MIDDLEWARES"][UrlNormDownloaderMiddleware] == PRIORITY
    assert load_object(settings[FALLBACK]) is RequestFingerprinter
    before = {name: settings[name] for name in settings}
    Addon().update_settings(settings)
    assert {name: settings[name] for name in settings} == before


def test_what_a_project_has_set():
    middleware = "scrapy_urlnorm.crawl.middleware.UrlNormDownloaderMiddleware"
    settings = updated(
        {
            "REQUEST_FINGERPRINTER_CLASS": Custom,  # becomes the fallback
            "DOWNLOADER_MIDDLEWARES": {middleware: 655},  # keeps its place
            "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",  # and so does this
        }
    )
    assert settings["REQUEST_FINGERPRINTER_CLASS"] is UrlNormRequestFingerprinter
    assert settings.getpriority("REQUEST_FINGERPRINTER_CLASS") == 20
    assert settings[FALLBACK] is Custom
    assert settings["DOWNLOADER_MIDDLEWARES"].copy_to_dict() == {middleware: 655}
    assert settings["DUPEFILTER_CLASS"] == "scrapy.dupefilters.BaseDupeFilter"


def test_one_line_is_all_that_a_project_needs():
    links = ("/a", "/a#x", "/a?utm_source=m", "/a?", "/x/../a", "HTTP://SHOP.test:80/a")
    result = crawl(
        {HOME: page("home", *links), HOME + "a": page("a", *links)}, [HOME], {"ADDONS": {OURS: 900}}
    )
    assert result.pages == ["home", "a"]
    assert result.requests == [HOME, HOME + "a"]


# --- with the add-ons of others ------------------------------------------------------------


def test_poet_keeps_deciding_by_dependencies():
    pytest.importorskip("scrapy_poet")
    pages = {HOME: page("home", "/a", "/a#x", "/a?utm_source=m"), HOME + "a": page("a")}
    for number in (800, 1000):
        addons = {OURS: 900, "scrapy_poet.Addon": number}
        result = crawl(pages, [HOME], {"ADDONS": addons}, spider="test_scrapy_addon.Chain")
        assert result.error is None
        assert result.requests == [HOME, HOME + "a"]
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
    pytest.importorskip("scrapy_zyte_api")
    pytest.importorskip("zyte_common_items", reason="its add-on wants it beside scrapy-poet")
    addons = {OURS: 900, "scrapy_zyte_api.Addon": zyte}
    if poet is not None:
        addons["scrapy_poet.Addon"] = poet
    settings = {"ADDONS": addons, "ZYTE_API_KEY": "none", "ZYTE_API_TRANSPARENT_MODE": False}
    result = crawl(
        {HOME: page("home", "/a", "/a#x", "/a?utm_source=m"), HOME + "a": page("a")},
        [HOME],
        settings,
        spider="test_scrapy_addon.Chain",
    )
    assert result.error is None
    assert result.requests == [HOME, HOME + "a"]
    chain = result.stats["chain"].split()
    assert chain.count("UrlNormRequestFingerprinter") >= 1
    assert chain.count("ScrapyZyteAPIRequestFingerprinter") >= 1


def test_a_later_addon_that_replaces_the_fingerprinter_is_said():
    addons = {OURS: 900, "test_scrapy_addon.Replaces": 1000}
    result = crawl({HOME: page("home")}, [HOME], {"ADDONS": addons})
    assert result.pages == ["home"]
    assert "Give scrapy_urlnorm.Addon a higher number in ADDONS" in result.log
