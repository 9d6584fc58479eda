"""The store in Redis, on a real one."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time

import pytest
from redis_server import RedisServer
from store_contract import DIGEST, SeenStoreContract, fingerprint, opened

from scrapy_urlnorm.exceptions import StoreError, StoreMismatchError
from scrapy_urlnorm.stores import open_store

redis = pytest.importorskip("redis", reason="the extra 'redis' is not installed")
_prefixes = map("crawl{}".format, itertools.count())


@pytest.fixture(scope="module")
def redis_server():
    """One for all tests here: each has a prefix of its own."""
    with RedisServer() as server:
        yield server


class TestRedis(SeenStoreContract):
    """Redis keeps the contract."""

    options = ""

    @pytest.fixture(autouse=True)
    def _place(self, redis_server):
        self.spec = f"{redis_server.url}?prefix={next(_prefixes)}{self.options}"

    def make(self):
        return open_store(self.spec, digest=DIGEST)


class TestRedisWithTimeToLive(TestRedis):
    """With a time to live that does not end meanwhile, too."""

    options = "&ttl=1000000000"


@pytest.fixture
def client(redis_server):
    """A client of redis-py."""
    with redis.Redis.from_url(redis_server.url) as client:
        yield client


@pytest.mark.parametrize("count", [1_000, 10_000, 60_000])
def test_a_key_takes_few_bytes(redis_server, client, count):
    """At most 25 with all that belongs to it, and every bucket stays a packed set of integers."""
    prefix = next(_prefixes)
    with opened(f"{redis_server.url}?prefix={prefix}") as store:
        assert store.add_many(map(fingerprint, range(count))) == count
        assert len(store) == count
        assert store.add_many(map(fingerprint, range(count))) == 0
    names = list(client.scan_iter(f"{prefix}:*", count=1000))
    buckets = [name for name in names if name.count(b":") == 2]
    in_dictionary = 40  # the entry of Redis' own table for a name, and its share of that table
    size = sum(client.memory_usage(name) + in_dictionary for name in names)
    assert size / count < 25
    assert {client.object("encoding", name) for name in buckets} == {b"intset"}
    sizes = [client.scard(name) for name in buckets]
    assert sum(sizes) == count + len(buckets)  # each has a mark besides
    assert max(sizes) < 400


def test_keys_are_spread_over_the_slots_of_a_cluster(redis_server, client):
    """All buckets of a group share a slot, the groups do not."""
    prefix = next(_prefixes)
    with opened(f"{redis_server.url}?prefix={prefix}") as store:
        store.add_many(map(fingerprint, range(20_000)))
    groups = {}
    for name in client.scan_iter(f"{prefix}:{{*", count=1000):
        tag = name.partition(b"{")[2].partition(b"}")[0]
        groups.setdefault(tag, set()).add(redis.crc.key_slot(name))
    assert len(groups) == 32
    assert all(len(slots) == 1 for slots in groups.values())
    assert len(set.union(*groups.values())) > 25


def test_a_check_is_one_round_trip(redis_server, client):
    """One command for a key that is new, and one for a key that was seen."""
    with opened(f"{redis_server.url}?prefix={next(_prefixes)}") as store:
        store.add(fingerprint(0))
        client.config_resetstat()
        for number in (0, 1, 2):
            store.add(fingerprint(number))
        calls = client.info("commandstats")
    assert calls["cmdstat_evalsha"]["calls"] == 3
    assert "cmdstat_eval" not in calls


def test_the_script_is_loaded_again(redis_server, client):
    """A Redis that has forgotten the script gets it with the next check."""
    with opened(f"{redis_server.url}?prefix={next(_prefixes)}") as store:
        client.script_flush()
        assert store.add(fingerprint(0)) is True
        client.script_flush()
        assert store.add_many(map(fingerprint, range(100))) == 99


def test_a_key_is_forgotten_after_its_time(redis_server, client):
    """Between one and two times the time to live after it was added."""
    prefix = next(_prefixes)
    with opened(f"{redis_server.url}?prefix={prefix}&ttl=1") as store:
        started = time.time()
        assert store.add(fingerprint(0)) is True
        added = time.time()
        while fingerprint(0) in store:
            assert time.time() - started < 10
        assert time.time() - started >= 1
        if time.time() - added < 2:
            assert store.add(fingerprint(0)) is True
            assert store.add(fingerprint(0)) is False
        lasting = {b"%b:identity" % prefix.encode()}
        lasting |= {b"%b:{%02x}" % (prefix.encode(), group) for group in range(32)}
        for name in client.scan_iter(f"{prefix}:*"):
            assert name in lasting or client.ttl(name) >= -2
            assert name in lasting or client.ttl(name) != -1


@pytest.mark.parametrize("other", [{"digest": "f" * 16}, {"key_version": 2}, {"ttl": 60}])
def test_other_rules_or_versions_are_refused(redis_server, other):
    """The error names both and a way on, and the keys stay."""
    url = f"{redis_server.url}?prefix={next(_prefixes)}"
    with opened(url) as store:
        store.add(fingerprint(1))
    with pytest.raises(StoreMismatchError) as error:
        opened(url, **other)
    assert str(next(iter(other.values()))) in str(error.value)
    assert "another prefix" in str(error.value)
    if "ttl" not in other:
        assert DIGEST in str(error.value)
        assert "scrapy-urlnorm rekey" in str(error.value)
    with opened(url) as store:
        assert fingerprint(1) in store


def test_keys_without_their_identity_are_refused(redis_server, client):
    """What says how the keys were made was evicted: they are not taken for ours."""
    prefix = next(_prefixes)
    with opened(f"{redis_server.url}?prefix={prefix}") as store:
        store.add(fingerprint(1))
    client.delete(f"{prefix}:identity")
    for _ in range(2):
        with pytest.raises(StoreError, match="is gone"):
            opened(f"{redis_server.url}?prefix={prefix}")


ADD_ALL = """
import json, random, sys
from hashlib import sha1
from scrapy_urlnorm.stores import open_store
url, digest, seed = sys.argv[1:]
numbers = list(range(3000))
random.Random(seed).shuffle(numbers)
with open_store(url, digest=digest) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps([n for n in numbers if store.add(sha1(b"%d" % n).digest())]))
"""


def test_of_four_crawlers_one_is_told_that_a_key_is_new(redis_server):
    """Four processes add the same keys in different orders: each key is new exactly once."""
    url = f"{redis_server.url}?prefix={next(_prefixes)}"
    crawlers = [
        subprocess.Popen(
            [sys.executable, "-c", ADD_ALL, url, DIGEST, str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in range(4)
    ]
    for crawler in crawlers:
        assert crawler.stdout.readline() == "ready\n"
    for crawler in crawlers:
        crawler.stdin.write("go\n")
        crawler.stdin.flush()
    new = [json.loads(crawler.communicate()[0]) for crawler in crawlers]
    assert sorted(itertools.chain(*new)) == list(range(3000))
    assert sum(map(bool, new)) > 1
    with opened(url) as store:
        assert len(store) == 3000


def test_closing_deletes_nothing(redis_server, client):
    """What was seen is there for the next crawl."""
    prefix = next(_prefixes)
    with opened(f"{redis_server.url}?prefix={prefix}") as store:
        store.add_many(map(fingerprint, range(100)))
        before = set(client.scan_iter(f"{prefix}:*"))
    assert set(client.scan_iter(f"{prefix}:*")) == before
