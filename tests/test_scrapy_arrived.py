"""Nothing is dropped for a page that has not arrived: real crawls, beside stock Scrapy's."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from loopback import Follow, Reply, Site, crawl, page, redirect
from scrapy.exceptions import IgnoreRequest

with suppress(ImportError):
    from redis import Redis

HOST = "http://shop.test"
HOME = f"{HOST}/"
#: Why an article has no page under the first spelling.
KINDS = ("robots", "ignored", "down", "missing", "login", "empty")
EACH = 4  #: articles of a kind
ARTICLES = {f"/{kind}/{number}" for kind in KINDS for number in range(EACH)}
NAMES = {"/", "/late", "/sign-in", *ARTICLES}

SETTINGS = {
    "ROBOTSTXT_OBEY": True,
    "RETRY_ENABLED": True,
    "RETRY_TIMES": 2,
    "RETRY_PRIORITY_ADJUST": 0,
    "DOWNLOADER_MIDDLEWARES": {"loopback.ViaSite": 740, "test_scrapy_arrived.Refusing": 120},
}


class Articles:
    """Two links to each article are on the home page, and a third one on a page that comes last.

    Of the three only the last, or for every second article the second and the last, have the page.
    An article that is *down* answers from the fourth time on, under any spelling.
    """

    def __init__(self):
        self.times = {}

    def __call__(self, url):
        parts = urlsplit(url)
        path, query = parts.path, parts.query
        if path == "/robots.txt":
            return Reply(200, b"User-agent: *\nDisallow: /robots/*?utm_")
        if path == "/":
            links = [f"{name}?utm_source=a" for name in sorted(ARTICLES)]
            links += [f"{name}{second(name)}" for name in sorted(ARTICLES)]
            return page("/", *links, "/late")
        if path == "/late":
            return page(path, *(f"{name}{third(name)}" for name in sorted(ARTICLES)))
        if path in ARTICLES:
            return self._article(path, query)
        return page(path) if path == "/sign-in" else Reply(404)

    def _article(self, path, query):
        kind = path.split("/")[1]
        if kind == "down":
            self.times[path] = self.times.get(path, 0) + 1
            return Reply(503) if self.times[path] < 4 else page(path)
        if not query:
            return page(path)
        answers = {"missing": Reply(404), "login": redirect("/sign-in", 302), "empty": Reply(200)}
        return answers.get(kind) or page(path)


def _is_even(name):
    return int(name.rpartition("/")[2]) % 2 == 0


def second(name):
    return "" if _is_even(name) else "?utm_source=b"


def third(name):
    return "?utm_source=c" if _is_even(name) else ""


class Refusing:
    """A downloader middleware that drops some requests."""

    def process_request(self, request):
        if "/ignored/" in request.url and "utm_" in request.url:
            raise IgnoreRequest("not with utm_")


class Late(Follow):
    """Follows all links, and asks for the page that comes last when all else is done."""

    name = "late"

    def parse(self, response):
        for each in super().parse(response):
            if getattr(each, "url", "").endswith("/late"):
                each = each.replace(priority=-10)
            yield each


ADDON = {"ADDONS": {"scrapy_urlnorm.Addon": 900}}
MODES = {
    "stock": {},
    "plain": ADDON,
    "without learning": {**ADDON, "URLNORM_LEARN": "off"},
    "job": {**ADDON, "JOBDIR": "{job}"},
    "job without learning": {**ADDON, "JOBDIR": "{job}", "URLNORM_LEARN": "off"},
    "redis": {**ADDON, "URLNORM_STORE": "{redis}"},
    "job and redis": {**ADDON, "URLNORM_STORE": "{redis}", "JOBDIR": "{job}"},
    "shared": {
        **ADDON,
        "URLNORM_STORE": "{redis}?prefix=p",
        "SCHEDULER": "scrapy_urlnorm.SharedScheduler",
    },
    "stock scheduler": {**ADDON, "SCHEDULER": "scrapy.core.scheduler.Scheduler"},
    "scrapy-redis": {
        **ADDON,
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_urlnorm.UrlNormDupeFilter",
        "REDIS_URL": "{redis}",
    },
}
FOREIGN = ("stock scheduler", "scrapy-redis")
WHY = ("robots", "ignored", "http_404", "redirect", "no_body")


def settings_of(mode, request, tmp_path):
    places = {"job": tmp_path / "job"}
    if "{redis}" in str(MODES[mode]):
        places["redis"] = request.getfixturevalue("own_redis").url
    if mode == "scrapy-redis":
        pytest.importorskip("scrapy_redis")
    formatted = {
        name: value.format(**places) if isinstance(value, str) else value
        for name, value in MODES[mode].items()
    }
    return {**SETTINGS, **formatted}


@pytest.mark.parametrize("mode", MODES)
def test_every_page_of_stock_scrapy_arrives(mode, request, tmp_path):
    settings = settings_of(mode, request, tmp_path)
    result = crawl(Articles(), [HOME], settings, spider="test_scrapy_arrived.Late")
    assert result.error is None
    assert NAMES - set(result.pages) == set()
    if mode == "stock":
        return
    # Of the 72 links to articles, each of which stock Scrapy follows, those behind an article.
    behind = result.stats["urlnorm/saved"]
    assert behind == result.stats["urlnorm/merged"]
    if mode in FOREIGN:
        assert "urlnorm/requeued" not in result.stats
        return
    assert behind == len(KINDS) * EACH // 2 + 2
    requeued = {
        name.rpartition("/")[2]: number
        for name, number in result.stats.items()
        if name.startswith("urlnorm/requeued/")
    }
    # Every second article has its page under the second spelling, the others under the third.
    assert requeued == {**dict.fromkeys(WHY, EACH * 3 // 2), "http_503": EACH}
    assert result.stats["urlnorm/requeued"] == sum(requeued.values())
    if mode == "shared":  # nothing waits there, withheld or not
        with Redis.from_url(settings["URLNORM_STORE"].partition("?")[0]) as client:
            assert client.keys("*queue*") == []


def test_another_crawl_finds_every_page_in_the_http_cache(tmp_path):
    settings = {**SETTINGS, **ADDON, "HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(tmp_path)}
    # What was down is in the cache as it was then, and all of its spellings.
    wanted = {name for name in NAMES if "/down/" not in name}
    with Site(Articles()) as site:
        for _ in range(2):
            asked = len(site.requests)
            result = crawl(site, [HOME], settings, spider="test_scrapy_arrived.Late")
            assert wanted - set(result.pages) == set()
    assert len(site.requests) == asked
