"""The scheduler of many crawlers with one queue in Redis: what it takes, and what it refuses."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import scrapy
from loopback import Follow, crawl, crawler_of, page

redis = pytest.importorskip("redis", reason="the extra 'redis' is not installed")

from redis_server import RedisServer

from scrapy_urlnorm import SharedScheduler

HOME = "http://shop.test/"
SHARED = {"ADDONS": {"scrapy_urlnorm.Addon": 900}, "SCHEDULER": "scrapy_urlnorm.SharedScheduler"}


def shop(url):
    links = [f"/{n}{query}" for n in range(1, 6) for query in ("", "?utm_source=a")]
    return page(url.partition("?")[0].removeprefix(HOME) or "home", *links)


def pages(result):
    return sorted(result.pages)


def test_one_crawler_alone(own_redis, tmp_path):
    store = {"URLNORM_STORE": f"{own_redis.url}?prefix=p", "JOBDIR": str(tmp_path / "job")}
    result = crawl(shop, [HOME], {**SHARED, **store})
    assert pages(result) == ["1", "2", "3", "4", "5", "home"]
    assert "ERROR" not in result.log
    assert result.stats["scheduler/enqueued"] == result.stats["scheduler/dequeued"] == 6
    assert result.stats["dupefilter/filtered"] == 6 * 10 - 5
    with redis.Redis.from_url(own_redis.url) as client:
        assert client.keys("*queue*") == []


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "URLNORM_STORE = 'memory'; accepted: a store in Redis"),
        ({"URLNORM_STORE": "sqlite:{folder}/seen"}, "accepted: a store in Redis"),
        (
            {"URLNORM_STORE": "{url}?prefix=p", "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter"},
            "DUPEFILTER_CLASS = BaseDupeFilter; accepted: scrapy_urlnorm.UrlNormDupeFilter",
        ),
    ],
)  # fmt: skip
def test_what_it_cannot_work_with_is_said_at_open(own_redis, tmp_path, more, words):
    more = {key: value.format(url=own_redis.url, folder=tmp_path) for key, value in more.items()}
    result = crawl(shop, [HOME], {**SHARED, **more})
    assert words in (result.error or "") + result.log
    assert result.requests == []


def test_a_redis_that_would_throw_requests_away_is_refused(tmp_path):
    with RedisServer("--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru") as server:
        store = {"URLNORM_STORE": f"{server.url}?prefix=p"}
        result = crawl(shop, [HOME], {**SHARED, **store})
    assert "set noeviction" in result.log
    assert result.requests == []


def test_a_redis_that_is_gone_ends_the_crawl(own_redis):

    def kills(url):
        if url == HOME + "3":
            own_redis.kill()
        return page(url.removeprefix(HOME), *(f"/{n}" for n in range(1, 100)))

    store = {"URLNORM_STORE": f"{own_redis.url}?prefix=p&wait=0.2", "CONCURRENT_REQUESTS": 1}
    result = crawl(kills, [HOME], {**SHARED, **store})
    assert result.reason == "urlnorm_store_error"
    assert "does not answer" in result.log
    assert result.requests[-1] == HOME + "3"


class SendsOdd(Follow):
    """Its requests have something that cannot be pickled, or not be read again."""

    what = "unserializable"

    def parse(self, response):
        yield {"page": response.css("h1::text").get()}
        if self.what == "unserializable":
            carried = {"f": lambda: None}  # with one each, they would be for different things
            yield scrapy.Request(HOME + "odd", meta=carried)
            yield scrapy.Request(HOME + "odd?utm_source=b", meta=carried)
        else:
            yield scrapy.Request(HOME + "odd", meta={"f": Unreadable()})
        yield scrapy.Request(HOME + "plain")


class Unreadable:
    """Its pickle raises."""

    def __reduce__(self):
        return int, ("no number",)


def test_a_request_that_cannot_be_serialized_waits_in_memory(own_redis):
    store = {"URLNORM_STORE": f"{own_redis.url}?prefix=p"}
    result = crawl(shop, [HOME], {**SHARED, **store}, spider=f"{__name__}.SendsOdd")
    assert pages(result) == ["home", "odd", "plain"]
    assert result.stats["scheduler/unserializable"] == 1


def test_a_request_that_cannot_be_read_is_left_to_another_run(own_redis):
    store = {"URLNORM_STORE": f"{own_redis.url}?prefix=p"}
    result = crawl(
        shop, [HOME], {**SHARED, **store}, spider=f"{__name__}.SendsOdd", what="unreadable"
    )
    assert pages(result) == ["home", "plain"]
    assert "left to another run" in result.log
    with redis.Redis.from_url(own_redis.url) as client:
        assert client.hlen("p:{p:queue}:withheld") == 1


def scheduler(url, spider_class):
    crawler = crawler_of(spider_class, {**SHARED, "URLNORM_STORE": f"{url}?prefix=p"})
    crawler.spider = spider_class.from_crawler(crawler, name="shop")
    slot = SimpleNamespace(inprogress=set(), nextcall=None)
    crawler.engine = SimpleNamespace(_slot=slot, downloader=None)
    made = SharedScheduler.from_crawler(crawler)
    made.open(crawler.spider)
    return made, slot.inprogress


def test_what_others_hold_is_pending(own_redis):
    spiders = pytest.importorskip("scrapy_redis.spiders")

    class Waits(spiders.RedisMixin, scrapy.Spider):
        """It is given its start URLs in Redis, when it is idle."""

    one, under_way = scheduler(own_redis.url, scrapy.Spider)
    other, _ = scheduler(own_redis.url, scrapy.Spider)
    waits, _ = scheduler(own_redis.url, Waits)
    all_of_them = (one, other, waits)
    assert [each.has_pending_requests() for each in all_of_them] == [False, False, False]
    assert one.enqueue_request(scrapy.Request(HOME)) is True
    assert one.enqueue_request(scrapy.Request(HOME + "#top")) is False
    assert [each.has_pending_requests() for each in all_of_them] == [True, True, True]
    request = one.next_request()
    under_way.add(request)
    assert request.url == HOME
    assert [each.has_pending_requests() for each in all_of_them] == [False, True, False]
    under_way.clear()
    assert [each.has_pending_requests() for each in all_of_them] == [False, False, False]
    for each in all_of_them:
        each.close("finished")
