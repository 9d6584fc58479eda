"""With scrapy-redis: its scheduler and queue, our dupefilter and fingerprinter."""

from __future__ import annotations

import pytest
from loopback import crawl, page, redirect

redis = pytest.importorskip("redis")
pytest.importorskip("scrapy_redis")

HOME = "http://shop.test/"


@pytest.fixture
def server(redis_server):
    return redis_server.url


def settings(url, **more):
    return {
        "ADDONS": {"scrapy_urlnorm.Addon": 900},
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_urlnorm.UrlNormDupeFilter",
        "REDIS_URL": url,
        **more,
    }


def test_crawls_with_its_scheduler_and_queue(server):
    pages = {
        HOME: page("home", "/a", "/a#x", "/a?utm_source=m", "/p?b=1&a=2", "/p?a=2&b=1"),
        HOME + "a": page("a", "/", "/a"),
        HOME + "p?b=1&a=2": redirect("/p?a=2&b=1"),
        HOME + "p?a=2&b=1": page("p"),
    }
    result = crawl(pages, [HOME], settings(server), filter_start=True)
    assert result.error is None
    assert sorted(result.pages) == ["a", "home", "p"]
    assert result.stats["dupefilter/filtered"] >= 4
    assert result.stats["scheduler/enqueued/redis"] == len(result.requests)


def test_its_own_dupefilter_is_left_in_place_with_a_warning(server):
    more = {"DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter"}
    result = crawl(
        {HOME: page("home", "/a"), HOME + "a": page("a")}, [HOME], settings(server, **more)
    )
    assert sorted(result.pages) == ["a", "home"]
    said = "DUPEFILTER_CLASS is scrapy_redis.dupefilter.RFPDupeFilter. Nothing is normalized"
    assert said in result.log


@pytest.mark.parametrize("scheduler", ["scrapy.core.scheduler", "scrapy_redis.scheduler"])
def test_a_crawl_keeps_its_keys_under_the_name_of_its_spider(server, scheduler):
    more = {"URLNORM_STORE": server, "SCHEDULER": f"{scheduler}.Scheduler"}
    assert crawl({HOME: page("home")}, [HOME], settings(server, **more)).error is None
    with redis.Redis.from_url(server) as client:
        assert client.keys("*:identity") == [b"follow:urlnorm:identity"]
