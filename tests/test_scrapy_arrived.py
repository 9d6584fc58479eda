"""Nothing is dropped for a page that has not arrived: real crawls, beside stock Scrapy's."""

from __future__ import annotations

from contextlib import suppress

import pytest
from arrived_sites import EACH, HOME, KINDS, NAMES, SETTINGS, Articles
from loopback import Site, crawl
from redis_server import RedisServer

with suppress(ImportError):
    from redis import Redis

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


@pytest.fixture
def redis():
    pytest.importorskip("redis")
    with RedisServer() as server:
        yield server.url


def settings_of(mode, request, tmp_path):
    places = {"job": tmp_path / "job"}
    if "{redis}" in str(MODES[mode]):
        places["redis"] = request.getfixturevalue("redis")
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
    with Site(Articles()) as site:
        result = crawl(site, [HOME], settings, spider="arrived_sites.Late")
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
            result = crawl(site, [HOME], settings, spider="arrived_sites.Late")
            assert wanted - set(result.pages) == set()
    assert len(site.requests) == asked
