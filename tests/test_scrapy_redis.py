"""With scrapy-redis: its scheduler and queues, our dupefilter and fingerprinter."""

from __future__ import annotations

import shutil
import subprocess
import time

import pytest
from loopback import Site, crawl, page, redirect

redis = pytest.importorskip("redis")
pytest.importorskip("scrapy_redis")

HOME = "http://shop.test/"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A Redis of this test alone, on a socket file."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed")
    folder = tmp_path_factory.mktemp("redis")
    path = folder / "socket"
    process = subprocess.Popen(
        [program, "--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(folder)],
        stdout=subprocess.DEVNULL,
    )
    client = redis.Redis(unix_socket_path=str(path))
    try:
        for _ in range(200):
            try:
                client.ping()
                break
            except redis.ConnectionError:
                time.sleep(0.02)
        yield f"unix://{path}"
    finally:
        client.close()
        process.terminate()
        process.wait()


def settings(url, **more):
    return {
        "ADDONS": {"scrapy_urlnorm.Addon": 900},
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_urlnorm.UrlNormDupeFilter",
        "REDIS_URL": url,
        **more,
    }


@pytest.mark.parametrize("queue", ["PriorityQueue", "FifoQueue", "LifoQueue"])
def test_crawls_with_its_scheduler_and_queues(server, queue):
    """Equal URLs are fetched once, and a redirect onto an equal URL is followed."""
    pages = {
        HOME: page("home", "/a", "/a#x", "/a?utm_source=m", "/p?b=1&a=2", "/p?a=2&b=1"),
        HOME + "a": page("a", "/", "/a"),
        HOME + "p?b=1&a=2": redirect("/p?a=2&b=1"),
        HOME + "p?a=2&b=1": page("p"),
    }
    more = {"SCHEDULER_QUEUE_CLASS": f"scrapy_redis.queue.{queue}"}
    with Site(pages) as site:
        result = crawl(site, [HOME], settings(server, **more), filter_start=True)
    assert result.error is None
    assert sorted(result.pages) == ["a", "home", "p"]
    assert result.stats["dupefilter/filtered"] >= 4
    assert result.stats["scheduler/enqueued/redis"] == len(site.requests)


def test_its_own_dupefilter_is_left_in_place_with_a_warning(server):
    """scrapy-redis' dupefilter knows nothing of our keys: a crawl with it says so."""
    more = {"DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter"}
    with Site({HOME: page("home", "/a"), HOME + "a": page("a")}) as site:
        result = crawl(site, [HOME], settings(server, **more))
    assert sorted(result.pages) == ["a", "home"]
    assert "DUPEFILTER_CLASS is RFPDupeFilter: a redirect onto an equal URL may lose" in result.log


def test_crawls_share_what_they_have_seen(server):
    """With the Redis store a second crawl fetches nothing that the first one fetched."""
    shared = {"ADDONS": {"scrapy_urlnorm.Addon": 900}, "URLNORM_STORE": server}
    pages = {HOME: page("home", "/a", "/b"), HOME + "a": page("a"), HOME + "b": page("b")}
    with Site(pages) as site:
        first = crawl(site, [HOME + "a"], shared, filter_start=True)
        second = crawl(site, [HOME], shared, filter_start=True)
    assert (first.error, second.error) == (None, None)
    assert first.pages == ["a"]
    assert sorted(second.pages) == ["b", "home"]


@pytest.mark.parametrize("scheduler", ["scrapy.core.scheduler", "scrapy_redis.scheduler"])
def test_a_crawl_keeps_its_keys_under_the_name_of_its_spider(server, scheduler):
    """Also where scrapy-redis makes the dupefilter."""
    more = {"URLNORM_STORE": server, "SCHEDULER": f"{scheduler}.Scheduler"}
    with Site({HOME: page("home")}) as site:
        assert crawl(site, [HOME], settings(server, **more)).error is None
    with redis.Redis.from_url(server) as client:
        assert client.keys("*:identity") == [b"follow:urlnorm:identity"]


def test_a_redis_that_does_not_answer_stops_the_start(tmp_path):
    """The crawl does not begin, and the log says why and what to do."""
    nowhere = {
        "ADDONS": {"scrapy_urlnorm.Addon": 900},
        "URLNORM_STORE": f"unix://{tmp_path / 'nothing'}",
        "URLNORM_STORE_OPTIONS": {"wait": 0},
    }
    with Site({HOME: page("home", "/a", "/a#x"), HOME + "a": page("a")}) as site:
        result = crawl(site, [HOME], nowhere)
    assert site.requests == []
    assert str(tmp_path) in result.log
    assert "does not answer" in result.log
    assert "Resume the crawl when it does" in result.log
