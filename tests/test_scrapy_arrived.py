"""Nothing is dropped for a page that has not arrived: real crawls, beside stock Scrapy's."""

from __future__ import annotations

import pytest
from arrived_sites import HOME, NAMES, SETTINGS, Articles
from loopback import Site, crawl
from redis_server import RedisServer

ADDON = {"ADDONS": {"scrapy_urlnorm.Addon": 900}}
MODES = {
    "stock": {},
    "plain": ADDON,
    "without learning": {**ADDON, "URLNORM_LEARN": "off"},
    "redirects": {**ADDON, "URLNORM_LEARN": "redirects"},
    "content": {**ADDON, "URLNORM_LEARN": "content"},
    "aggressive": {**ADDON, "URLNORM_PROFILE": "aggressive"},
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
    with Site(Articles()) as site:
        result = crawl(
            site, [HOME], settings_of(mode, request, tmp_path), spider="arrived_sites.Late"
        )
    assert result.error is None
    assert NAMES - set(result.pages) == set()
    print(len(site.requests), {k: v for k, v in result.stats.items() if "urlnorm/" in k})
