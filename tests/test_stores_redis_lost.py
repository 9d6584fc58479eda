"""A Redis that loses keys, or is filled anew by another crawler: a clear stop, never "new"."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest
from redis_server import RedisServer
from store_contract import DIGEST, add_all, fingerprint, opened

from scrapy_urlnorm.exceptions import StoreError, StoreMismatchError
from scrapy_urlnorm.stores import Identity, open_store

redis = pytest.importorskip("redis", reason="the extra 'redis' is not installed")
KEYS = 3_000
YEARS = 1_000_000_000  #: seconds


@pytest.fixture(params=["", f"&ttl={YEARS}"])
def place(redis_server, request, prefix):
    return prefix, f"{redis_server.url}?prefix={prefix}{request.param}"


def assert_all_are_lost(store):
    for ask in (
        store.add,
        store.__contains__,
        store.forget,
        lambda key: store.claim(key, ""),
        store.page,
        lambda key: store.put_page(key, b"value"),
    ):
        for key in (fingerprint(1), fingerprint(-1)):
            with pytest.raises(StoreError, match="lost its keys"):
                ask(key)
    with pytest.raises(StoreError, match="lost its keys"):
        len(store)


def answer(store, number):
    try:
        return "new" if store.add(fingerprint(number)) else "seen"
    except StoreError as error:
        if "lost its keys" not in str(error):
            raise
        return "lost"


def answers(store, numbers):
    return [answer(store, number) for number in numbers]


@pytest.mark.parametrize("ttl", ["", f"&ttl={YEARS}"])
def test_a_second_crawler_after_a_flush_does_not_hide_it(ttl):
    with RedisServer() as server, redis.Redis.from_url(server.url) as client:
        url = f"{server.url}?prefix=p{ttl}"
        with opened(url) as first:
            add_all(first, range(100))
            client.flushall()
            with opened(url) as second:
                assert second.add(fingerprint(1)) is True
                assert_all_are_lost(first)
                assert second.add(fingerprint(1)) is False
                assert len(second) == 1


def test_lost_buckets_are_noticed(place, redis_client):
    prefix, url = place
    with opened(url) as store:
        assert add_all(store, range(KEYS)) == KEYS
        buckets = [
            name
            for name in redis_client.scan_iter(f"{prefix}:*")
            if redis_client.type(name) == b"set"
        ]
        random.Random(3).shuffle(buckets)
        redis_client.delete(*buckets[::2])
        said = answers(store, range(KEYS))
        assert said.count("new") == 0
        assert KEYS / 3 < said.count("lost") < KEYS * 2 / 3
        assert answers(store, range(KEYS)) == said
        for number, what in zip(range(50), said, strict=False):
            for ask in (store.__contains__, store.forget):
                if what == "lost":
                    with pytest.raises(StoreError, match="lost its keys"):
                        ask(fingerprint(number))
                else:
                    assert ask(fingerprint(number)) is True


def test_a_lost_bucket_is_not_made_again_by_a_split(redis_server, redis_client, prefix):
    with opened(f"{redis_server.url}?prefix={prefix}") as store:
        add_all(store, range(KEYS))
        sizes = [int(redis_client.hget(f"{prefix}:{{{n:02x}}}", "buckets")) for n in range(32)]
        for number, size in enumerate(sizes):
            redis_client.delete(f"{prefix}:{{{number:02x}}}:{size - 2 ** (size.bit_length() - 1)}")
        answers(store, range(KEYS, 3 * KEYS))
        assert "new" not in answers(store, range(KEYS))


def test_a_lost_group_is_noticed(place, redis_client):
    prefix, url = place
    for lose in (
        lambda: redis_client.delete(f"{prefix}:{{00}}"),
        lambda: redis_client.rename(f"{prefix}:{{01}}", f"{prefix}:{{02}}"),
        lambda: redis_client.copy(f"{prefix}:{{05}}", f"{prefix}:{{04}}", replace=True),
    ):
        with opened(url) as store:
            add_all(store, range(300))
            lose()
            said = answers(store, range(300))
            assert "new" not in said
            assert "lost" in said
            with pytest.raises(StoreError, match="lost its keys"):
                opened(url)
        redis_client.delete(*redis_client.scan_iter(f"{prefix}:*"))


@pytest.mark.parametrize("which", ["current", "before"])
def test_a_lost_table_of_a_period_is_noticed(redis_server, redis_client, which, prefix):
    with opened(f"{redis_server.url}?prefix={prefix}&ttl={YEARS}") as store:
        add_all(store, range(1000))
        if which == "before":
            make_a_period_older(redis_client, prefix)
        assert "lost" not in answers(store, range(1000))
        period = int(time.time()) // YEARS - (which == "before")
        redis_client.delete(*[f"{prefix}:{{{number:02x}}}:{period}" for number in range(32)])
        assert set(answers(store, range(1000))) == {"lost"}


def make_a_period_older(client, prefix):
    period = int(time.time()) // YEARS
    for number in range(32):
        group = f"{prefix}:{{{number:02x}}}"
        for name in list(client.scan_iter(f"{prefix}:*{number:02x}}}:{period}*")):
            client.rename(name, name.replace(b"}:%d" % period, b"}:%d" % (period - 1)))
        if client.hexists(group, "last"):
            client.hset(group, "last", f"{group}:{period - 1}")


def test_keys_of_the_period_before_are_seen(redis_server, redis_client, prefix):
    with opened(f"{redis_server.url}?prefix={prefix}&ttl={YEARS}") as store:
        add_all(store, range(10))
        make_a_period_older(redis_client, prefix)
        assert len(store) == 10
        assert add_all(store, range(10)) == 0
        assert fingerprint(3) in store
        assert store.forget(fingerprint(3)) is True
        assert len(store) == 9
        assert store.add(fingerprint(3)) is True
        assert len(store) == 10


# --- how a store is made -------------------------------------------------------------------


class _Killed(BaseException):
    pass


@pytest.mark.parametrize("ttl", ["", f"&ttl={YEARS}"])
def test_a_store_is_whole_although_its_maker_was_killed(redis_server, ttl, prefix):
    real = redis.connection.AbstractConnection.send_packed_command
    unmade = 0
    for allowed in (*range(9), 25, 100):
        url = f"{redis_server.url}?prefix={prefix}{allowed}{ttl}"
        left = iter(range(allowed))

        def send(connection, command, left=left, **options):
            if next(left, None) is None:
                raise _Killed
            return real(connection, command, **options)

        with mock.patch.object(redis.connection.AbstractConnection, "send_packed_command", send):
            try:
                opened(url).close()
            except _Killed:
                unmade += 1
        with opened(url) as one, opened(url) as two:
            assert add_all(one, range(100)) == 100
            assert add_all(two, range(100)) == 0
    assert 3 < unmade < 11


def test_crawlers_that_begin_at_once_share_one_store(redis_server, prefix):
    for number in range(10):
        url = f"{redis_server.url}?prefix={prefix}{number}"
        gate = threading.Barrier(8, timeout=60)

        def begin(number, url=url, gate=gate):
            with open_store(url, digest=DIGEST) as store:
                gate.wait()
                return [n for n in range(100) if store.add(fingerprint((n + number) % 100))]

        with ThreadPoolExecutor(8) as pool:
            new = list(pool.map(begin, range(8)))
        assert sum(map(len, new)) == 100


MADE = "scrapy-urlnorm seen "


@pytest.mark.parametrize(
    "record",
    [
        *(b"", b"\n", b"making ", b"making \n0", b"something else"),
        *(Identity(DIGEST).to_bytes() + end for end in (b"", b"\nsoon", b"\n\xff")),
        Identity(DIGEST, format=3).to_bytes() + b"\n0",
        Identity(DIGEST, format=1, salt=b"s" * 16).to_bytes() + b"\n0",
        Identity(DIGEST, salt=b"s").to_bytes() + b"\n0",
        f"{MADE}{'[' * 100_000}",
        f'{MADE}{{"digest": "", "key_version": 1e999, "format": 1}}\n0',
        f'{MADE}{{"digest": "", "key_version": 1, "format": 3, "salt": "xyz"}}\n0',
        f"{MADE}[]\n0",
    ],
)
def test_a_damaged_identity_is_refused(redis_server, redis_client, record, prefix):
    redis_client.set(f"{prefix}:identity", record)
    before = redis_client.get(f"{prefix}:identity")
    with pytest.raises(StoreMismatchError):
        opened(f"{redis_server.url}?prefix={prefix}")
    assert redis_client.get(f"{prefix}:identity") == before
