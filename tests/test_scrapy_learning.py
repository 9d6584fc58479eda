"""Rules learned during real crawls: they save requests, and never a page."""

from __future__ import annotations

import pytest
from hostile_base import article
from loopback import Follow, Reply, Site, crawl, page, redirect
from scrapy import Request

from scrapy_urlnorm.stores import RULES_NAME

WWW = "http://www.shop.test"
BARE = "http://shop.test"
HOME = WWW + "/"
ADDON = {"ADDONS": {"scrapy_urlnorm.crawl.addon.Addon": 900}, "CONCURRENT_REQUESTS": 1}
#: For tests that count rules: equal pages would teach one more.
REDIRECTS = {**ADDON, "URLNORM_LEARN": "redirects"}
COUNT = 80


def shop(links=None):
    """Pages that are linked to under two host names; one redirects to the other."""
    links = links or [f"{host}/{n}" for n in range(COUNT) for host in (BARE, WWW)]

    def answer(url):
        if url.startswith(BARE):
            return redirect(url.replace(BARE, WWW))
        if url == HOME:
            return article("home", *links)
        return article(url, *links[:20])

    return answer


def expected():
    return sorted(["home", *(f"{WWW}/{n}" for n in range(COUNT))])


def test_a_learned_rule_saves_the_redirects_that_follow():
    """After a few redirects the second name of the host is known; every page comes once."""
    with Site(shop()) as site:
        result = crawl(site, [HOME], REDIRECTS)
    assert sorted(result.pages) == expected()
    assert result.stats["urlnorm/learned/rules"] == 1
    assert len(site.requests) <= 1 + COUNT + 30 + 20  # some are sent to audit the rule
    assert "Learned on *.shop.test: " in result.log


@pytest.mark.parametrize(
    ("settings", "learns"),
    [
        ({"URLNORM_PROFILE": "safe"}, False),
        ({"URLNORM_PROFILE": "safe", "URLNORM_LEARN": "redirects"}, True),
    ],
)
def test_nothing_is_learned_that_is_not_wanted(settings, learns):
    """Who asks for what RFC 3986 proves gets nothing else, unless asking for that too."""
    with Site(shop()) as site:
        result = crawl(site, [HOME], {**ADDON, **settings})
    assert sorted(result.pages) == expected()
    assert result.stats.get("urlnorm/learned/rules", 0) == learns
    assert learns or len(site.requests) == 1 + 2 * COUNT


def test_robots_files_say_nothing_about_pages():
    """A robots.txt is served under every name of a host; it neither learns nor is dropped."""
    inner = shop()
    asked = []

    def answer(url):
        if url.endswith("/robots.txt"):
            asked.append(url)
            return Reply(200, b"User-agent: *\nDisallow: /3\n", {"Content-Type": "text/plain"})
        return inner(url)

    with Site(answer) as site:
        result = crawl(site, [HOME], {**REDIRECTS, "ROBOTSTXT_OBEY": True})
    assert sorted(asked) == [f"{BARE}/robots.txt", f"{WWW}/robots.txt"]
    assert result.stats["urlnorm/learned/rules"] == 1
    assert result.stats["robotstxt/forbidden"] >= 11
    assert not [name for name in result.pages if name.startswith(f"{WWW}/3")]


class Lambdas(Follow):
    """Requests with callbacks that no queue on disk could keep."""

    def parse(self, response):
        for request in super().parse(response):
            if isinstance(request, Request):
                request = request.replace(callback=lambda response: self.parse(response))
            yield request


def test_a_request_that_cannot_be_written_down_is_not_suppressed():
    """What could not be requeued is sent: the rule saves nothing then, and loses nothing."""
    with Site(shop()) as site:
        settings = {**ADDON, "URLNORM_LEARN": {"pairs": 0}}
        result = crawl(site, [HOME], settings, spider="test_scrapy_learning.Lambdas")
    assert set(result.pages) == set(expected())
    assert "learned/suppressed" not in result.counts
    assert len(site.requests) <= 1 + 2 * COUNT


def test_a_damaged_file_of_learned_rules_stops_the_start(tmp_path):
    """The crawl says at its start what is wrong with the file, and leaves it alone."""
    path = tmp_path / RULES_NAME
    path.write_text("[[rule]]\nsite = 7\n")
    with Site(shop()) as site:
        result = crawl(site, [HOME], {**ADDON, "JOBDIR": str(tmp_path)})
    assert site.requests == []
    assert result.error.startswith("SiteRuleError")
    assert str(path) in result.error
    assert path.read_text() == "[[rule]]\nsite = 7\n"


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("REQUEST_FINGERPRINTER_CLASS", "scrapy.utils.request.RequestFingerprinter"),
        ("DUPEFILTER_CLASS", "scrapy.dupefilters.RFPDupeFilter"),
    ],
)
def test_where_another_component_is_in_the_way_of_learning_the_log_says_so(setting, value):
    """One warning names the setting; with learning off there is none."""
    ours = {
        "REQUEST_FINGERPRINTER_CLASS": "scrapy_urlnorm.UrlNormRequestFingerprinter",
        "DUPEFILTER_CLASS": "scrapy_urlnorm.UrlNormDupeFilter",
        "DOWNLOADER_MIDDLEWARES": {
            "scrapy_urlnorm.UrlNormDownloaderMiddleware": 610,
            "loopback.ViaSite": 740,
        },
        setting: value,
    }
    home = "http://shop.test/"
    with Site({home: page("home")}) as site:
        said = crawl(site, [home], ours).log
        silent = crawl(site, [home], {**ours, "URLNORM_LEARN": "off"}).log
    assert said.count("Nothing is learned in this crawl") == 1
    assert f"{setting} is {value}" in said
    assert "Nothing is learned" not in silent
