"""Pages that several crawlers share, in a real Redis."""

from __future__ import annotations

import itertools
import time

import pytest
from redis_server import RedisServer
from store_contract import DIGEST, fingerprint, opened

from scrapy_urlnorm.exceptions import StoreError, StoreUnavailableError
from scrapy_urlnorm.stores import open_store
from scrapy_urlnorm.stores.seen import MAX_VALUE

redis = pytest.importorskip("redis", reason="the extra 'redis' is not installed")
from scrapy_urlnorm.stores.redis import SeenRecently

_prefixes = map("crawl{}".format, itertools.count())
VALUE = bytes(range(MAX_VALUE))
YEARS = 1_000_000_000  #: seconds


@pytest.fixture(scope="module")
def redis_server():
    """One for all tests here: each has a prefix of its own."""
    with RedisServer() as server:
        yield server


@pytest.fixture
def client(redis_server):
    """A client of redis-py."""
    with redis.Redis.from_url(redis_server.url) as client:
        yield client


@pytest.fixture(params=["", f"&ttl={YEARS}"])
def spec(redis_server, request):
    """A place without keys, of each kind."""
    return f"{redis_server.url}?prefix={next(_prefixes)}{request.param}"


def numbered(number):
    """A value of the greatest length."""
    return b"%048d" % number


def test_what_one_crawler_puts_the_others_get(spec):
    """The value comes back byte by byte, and the last one put stands."""
    with opened(spec) as one, SeenRecently(opened(spec)) as two:
        mine, theirs = one.shared_pages(), two.shared_pages()
        assert theirs.get(fingerprint(1)) is None
        mine.put(fingerprint(1), VALUE)
        mine.put(fingerprint(2), b"")
        assert theirs.get(fingerprint(1)) == VALUE
        assert theirs.get(fingerprint(2)) == b""
        assert theirs.get(fingerprint(3)) is None
        theirs.put(fingerprint(1), b"7")
        assert mine.get(fingerprint(1)) == b"7"


def test_they_are_no_keys(spec):
    """A key that was seen has no page, and one with a page is not seen by that."""
    with opened(spec) as store:
        store.add(fingerprint(1))
        store.shared_pages().put(fingerprint(2), VALUE)
        assert store.shared_pages().get(fingerprint(1)) is None
        assert store.add(fingerprint(2)) is True
        assert len(store) == 2


@pytest.mark.parametrize("ttl", ["", f"&ttl={YEARS}"])
def test_they_are_found_however_many_there_are(redis_server, client, ttl):
    """Buckets split and stay packed; an entry takes at most 24 bytes and its value."""
    count = 20_000
    prefix = next(_prefixes)
    with opened(f"{redis_server.url}?prefix={prefix}{ttl}") as store:
        pages = store.shared_pages()
        for number in range(count):
            pages.put(fingerprint(number), numbered(number))
        for number in range(0, count, 7):
            assert pages.get(fingerprint(number)) == numbered(number)
        assert pages.get(fingerprint(count)) is None
        for number in range(0, count, 2):
            pages.put(fingerprint(number), numbered(number))
    names = list(client.scan_iter(f"{prefix}:*:pages*", count=1000))
    buckets = [name for name in names if b"keys" not in client.hkeys(name)]
    assert sum(client.hlen(name) for name in buckets) == count
    assert {client.object("encoding", name) for name in buckets} == {b"listpack"}
    in_dictionary = 40  # the entry of Redis' own table for a name, and its share of that table
    size = sum(client.memory_usage(name) + in_dictionary for name in names)
    assert size / count < 24 + MAX_VALUE


def test_each_call_is_one_round_trip(redis_server, client, monkeypatch):
    """Once Redis has the script."""
    with opened(f"{redis_server.url}?prefix={next(_prefixes)}") as store:
        pages = store.shared_pages()
        pages.put(fingerprint(0), VALUE)  # Redis has the script now
        sent = []
        real = redis.Connection.send_packed_command

        def send(connection, command, **options):
            sent.append(command)
            return real(connection, command, **options)

        for connection in (redis.Connection, redis.UnixDomainSocketConnection):
            monkeypatch.setattr(connection, "send_packed_command", send)
        for call in calls(pages):
            sent.clear()
            call()
            assert len(sent) == 1


def test_the_script_is_loaded_again(redis_server, client):
    """A Redis that has forgotten the script gets it with the next call."""
    with opened(f"{redis_server.url}?prefix={next(_prefixes)}") as store:
        pages = store.shared_pages()
        for number in range(3):
            client.script_flush()
            pages.put(fingerprint(number), VALUE)
        client.script_flush()
        assert pages.get(fingerprint(2)) == VALUE


def test_an_entry_goes_after_its_time(redis_server, client):
    """Between one and two times the time to live after it was put in."""
    prefix = next(_prefixes)
    with opened(f"{redis_server.url}?prefix={prefix}&ttl=1") as store:
        pages = store.shared_pages()
        started = time.time()
        pages.put(fingerprint(0), VALUE)
        names = list(client.scan_iter(f"{prefix}:*:pages*"))
        assert all(client.ttl(name) != -1 for name in names)
        while pages.get(fingerprint(0)) is not None:
            assert time.time() - started < 10
        assert time.time() - started >= 1


def test_an_entry_of_the_period_before_is_found(redis_server, client):
    """Until its time is over; it can be written over."""
    prefix = next(_prefixes)
    with opened(f"{redis_server.url}?prefix={prefix}&ttl={YEARS}") as store:
        pages = store.shared_pages()
        for number in range(10):
            pages.put(fingerprint(number), VALUE)
        period = b":%d" % (int(time.time()) // YEARS)
        for name in list(client.scan_iter(f"{prefix}:*:pages*")):
            client.rename(name, name.replace(period, b":%d" % (int(period[1:]) - 1)))
        assert all(pages.get(fingerprint(number)) == VALUE for number in range(10))
        pages.put(fingerprint(3), b"new")
        assert pages.get(fingerprint(3)) == b"new"


def test_a_value_that_is_too_long_is_refused(spec):
    """The error says how long it may be; nothing is put in."""
    with opened(spec) as store:
        pages = store.shared_pages()
        with pytest.raises(ValueError, match="at most 48"):
            pages.put(fingerprint(1), VALUE + b"x")
        assert pages.get(fingerprint(1)) is None


def calls(pages):
    """One of each kind."""
    return [
        lambda: pages.put(fingerprint(1), VALUE),
        lambda: pages.get(fingerprint(1)),
    ]


def test_a_store_that_failed_or_is_not_open_says_so(redis_server):
    """Each call is a StoreError while Redis is away, after it came back empty, when closed."""
    with RedisServer() as server:
        store = opened(f"{server.url}?wait=0")
        pages = store.shared_pages()
        pages.put(fingerprint(1), VALUE)
        server.kill()
        for call in calls(pages):
            with pytest.raises(StoreUnavailableError, match="does not answer"):
                call()
        server.start()
        for call in calls(pages):
            with pytest.raises(StoreError, match="lost its keys"):
                call()
        store.close()
        for call in calls(pages):
            with pytest.raises(StoreError, match="not open"):
                call()


def test_a_store_of_one_crawler_has_none(tmp_path):
    """Whoever asks it is told; `is_shared` says so before."""
    for spec in ("memory", f"sqlite:{tmp_path / 'seen'}"):
        with open_store(spec, digest=DIGEST) as store:
            assert not store.is_shared
            with pytest.raises(StoreError, match="is not shared"):
                store.shared_pages()
