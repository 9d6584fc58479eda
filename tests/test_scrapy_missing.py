"""Where a part of ours is not in its place, one line says which, what that costs and what to set."""

from __future__ import annotations

import pytest
from loopback import crawl, page
from scrapy import signals
from scrapy.dupefilters import RFPDupeFilter
from test_scrapy_fingerprinter import Wrapper

HOME = "http://shop.test/"
PAGES = {HOME: page("home", "/a", "/a?utm_source=mail"), HOME + "a": page("a")}
ADDON = {"ADDONS": {"scrapy_urlnorm.Addon": 900}}
STOCK = "scrapy.utils.request.RequestFingerprinter"
FINGERPRINTER = {"REQUEST_FINGERPRINTER_CLASS": "scrapy_urlnorm.UrlNormRequestFingerprinter"}
OLD_STYLE = {
    **FINGERPRINTER,
    "DUPEFILTER_CLASS": "scrapy_urlnorm.UrlNormDupeFilter",
    "SCHEDULER": "scrapy_urlnorm.Scheduler",
    "DOWNLOADER_MIDDLEWARES": {
        "scrapy_urlnorm.UrlNormDownloaderMiddleware": 610,
        "loopback.ViaSite": 740,
    },
}
WITH_LOG = {"EXTENSIONS": {"scrapy_urlnorm.CrawlLog": 500}}


class Mine(RFPDupeFilter):
    """The dupefilter of a project."""


class WrapsOurs:
    """An add-on whose fingerprinter builds on the one before it, as scrapy-poet's does."""

    def update_settings(self, settings):
        settings.set("REQUEST_FINGERPRINTER_CLASS", Wrapper, "addon")


class Monitor:
    """An extension that reads the statistics when the spider has closed, as Spidermon does."""

    @classmethod
    def from_crawler(cls, crawler):
        monitor = cls()
        monitor.stats = crawler.stats
        crawler.signals.connect(monitor.spider_closed, signals.spider_closed)
        return monitor

    def spider_closed(self):
        for name in ("urlnorm/saved", "urlnorm/requests/processed"):
            self.stats.set_value(f"seen/{name}", self.stats.get_value(name))


def crawled(settings):
    result = crawl(PAGES, [HOME], settings)
    assert result.error is None
    assert sorted(result.pages) == ["a", "home"]
    return result


def warned(result):
    return [line for line in result.log.splitlines() if line.startswith(("WARNING", "ERROR"))]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (ADDON, None),
        ({**OLD_STYLE}, None),
        (
            {**ADDON, "DUPEFILTER_CLASS": "test_scrapy_missing.Mine"},
            (
                "DUPEFILTER_CLASS is test_scrapy_missing.Mine. A redirect onto an equal URL may lose its "
                "page. Nothing is learned in this crawl. scrapy_urlnorm.UrlNormDupeFilter ends this."
            ),
        ),
        (
            {**ADDON, "DUPEFILTER_CLASS": "test_scrapy_missing.Mine", "URLNORM_REPORT": "r.html"},
            "URLNORM_REPORT = 'r.html' is not written. scrapy_urlnorm.UrlNormDupeFilter ends this.",
        ),
        (
            {**ADDON, "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter"},
            "DUPEFILTER_CLASS is scrapy.dupefilters.BaseDupeFilter. Nothing is learned in this crawl.",
        ),
        (
            {"ADDONS": {"scrapy_urlnorm.Addon": 900, "test_scrapy_missing.WrapsOurs": 950}},
            (
                "Nothing is learned in this crawl: REQUEST_FINGERPRINTER_CLASS is "
                "test_scrapy_fingerprinter.Wrapper. It is set by an add-on that runs after ours: Give "
                "scrapy_urlnorm.Addon a higher number in ADDONS."
            ),
        ),
        (
            {**OLD_STYLE, "REQUEST_FINGERPRINTER_CLASS": STOCK},
            (
                f"Nothing is learned in this crawl: REQUEST_FINGERPRINTER_CLASS is {STOCK}. "
                "REQUEST_FINGERPRINTER_CLASS = 'scrapy_urlnorm.UrlNormRequestFingerprinter' ends this."
            ),
        ),
        ({**OLD_STYLE, "REQUEST_FINGERPRINTER_CLASS": STOCK, "URLNORM_LEARN": "off"}, None),
        (
            {**OLD_STYLE, "DUPEFILTER_CLASS": "test_scrapy_missing.Mine", "URLNORM_LEARN": "off"},
            "A redirect onto an equal URL may lose its page. scrapy_urlnorm.UrlNormDupeFilter ends this.",
        ),
        (FINGERPRINTER, "Keys are normalized, and that is all"),
        (
            {**OLD_STYLE, "URLNORM_CRAWL_LOG": "log.jsonl"},
            (
                "URLNORM_CRAWL_LOG = 'log.jsonl' is not written. "
                'EXTENSIONS = {"scrapy_urlnorm.CrawlLog": 500} writes it.'
            ),
        ),
        (
            {**OLD_STYLE, "URLNORM_REPORT": "r.html"},
            (
                "URLNORM_REPORT = 'r.html' is not written. "
                'EXTENSIONS = {"scrapy_urlnorm.CrawlLog": 500} writes it.'
            ),
        ),
    ],
)
def test_one_warning_for_a_missing_part(settings, said):
    lines = warned(crawled(settings))
    assert len(lines) == (said is not None)
    assert said is None or said in lines[0]


def test_a_foreign_dupefilter_leaves_the_savings_unknown():
    result = crawled({**ADDON, "DUPEFILTER_CLASS": "test_scrapy_missing.Mine"})
    assert "What this crawl saved is not known" in result.log
    assert "fewer" not in result.log
    assert "urlnorm/saved" not in result.stats
    assert result.stats["dupefilter/filtered"] == 1


@pytest.mark.parametrize("style", [ADDON, OLD_STYLE])
def test_an_extension_finds_the_last_statistics_when_the_spider_has_closed(style):
    result = crawled({**style, "EXTENSIONS": {"test_scrapy_missing.Monitor": 0}})
    assert result.stats["seen/urlnorm/saved"] == 1
    assert result.stats["seen/urlnorm/requests/processed"] >= 2  # Scrapy 2.14 asks less often


def test_a_project_without_the_add_on_writes_its_log_and_report(tmp_path):
    log, report = tmp_path / "log.jsonl", tmp_path / "report.html"
    files = {"URLNORM_CRAWL_LOG": str(log), "URLNORM_REPORT": str(report)}
    assert warned(crawled({**OLD_STYLE, **WITH_LOG, **files})) == []
    assert len(log.read_text(encoding="utf-8").splitlines()) == 2
    assert "<html" in report.read_text(encoding="utf-8")


def test_a_store_that_does_not_answer_is_told_in_few_lines():
    pytest.importorskip("redis")
    result = crawl(PAGES, [HOME], {**ADDON, "URLNORM_STORE": "redis://127.0.0.1:1/0"})
    assert result.requests == []
    after = result.log.partition("CRITICAL")[2]
    assert "does not answer" in after.splitlines()[0]
    assert "redis/connection.py" not in after
