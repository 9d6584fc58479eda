"""The store in Redis, on a real one."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
import time
from unittest import mock

import pytest
from redis_server import RedisServer, free_port
from store_contract import DIGEST, SeenStoreContract, fingerprint

from scrapy_urlnorm.exceptions import (
    ConfigError,
    StoreError,
    StoreMismatchError,
    StoreUnavailableError,
)
from scrapy_urlnorm.stores import open_store

redis = pytest.importorskip("redis", reason="the extra 'redis' is not installed")
_prefixes = map("crawl{}".format, itertools.count())


@pytest.fixture(scope="module")
def redis_server():
    """One for all tests here: each has a prefix of its own."""
    with RedisServer() as server:
        yield server


def open_redis(url, digest=DIGEST, **options):
    store = open_store(url, digest=digest, **options)
    store.open()
    return store


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


class TestRedisWithFallback(TestRedis):
    """So does Redis with a local store to fall back on."""

    options = "&fallback=memory"


@pytest.fixture
def client(redis_server):
    """A client of redis-py."""
    with redis.Redis.from_url(redis_server.url) as client:
        yield client


@pytest.mark.parametrize("count", [1_000, 10_000, 60_000])
def test_a_key_takes_few_bytes(redis_server, client, count):
    """At most 25 with all that belongs to it, and every bucket stays a packed set of integers."""
    prefix = next(_prefixes)
    with open_redis(f"{redis_server.url}?prefix={prefix}") as store:
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
    assert sum(sizes) == count
    assert max(sizes) < 400


def test_keys_are_spread_over_the_slots_of_a_cluster(redis_server, client):
    """All buckets of a group share a slot, the groups do not."""
    prefix = next(_prefixes)
    with open_redis(f"{redis_server.url}?prefix={prefix}") as store:
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
    with open_redis(f"{redis_server.url}?prefix={next(_prefixes)}") as store:
        store.add(fingerprint(0))
        client.config_resetstat()
        for number in (0, 1, 2):
            store.add(fingerprint(number))
        calls = client.info("commandstats")
    assert calls["cmdstat_evalsha"]["calls"] == 3
    assert "cmdstat_eval" not in calls


def test_the_script_is_loaded_again(redis_server, client):
    """A Redis that has forgotten the script gets it with the next check."""
    with open_redis(f"{redis_server.url}?prefix={next(_prefixes)}") as store:
        client.script_flush()
        assert store.add(fingerprint(0)) is True
        client.script_flush()
        assert store.add_many(map(fingerprint, range(100))) == 99


def test_a_key_is_forgotten_after_its_time(redis_server, client):
    """Between one and two times the time to live after it was added."""
    prefix = next(_prefixes)
    with open_redis(f"{redis_server.url}?prefix={prefix}&ttl=1") as store:
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


def test_keys_of_the_period_before_are_seen(redis_server, client):
    """Until their time is over; they can be forgotten, and then are new."""
    prefix = next(_prefixes)
    with open_redis(f"{redis_server.url}?prefix={prefix}&ttl=1000000000") as store:
        store.add_many(map(fingerprint, range(10)))
        period = b":%d" % (int(time.time()) // 1_000_000_000)
        for name in list(client.scan_iter(f"{prefix}:*")):
            client.rename(name, name.replace(period, b":%d" % (int(period[1:]) - 1)))
        assert len(store) == 10
        assert store.add_many(map(fingerprint, range(10))) == 0
        assert fingerprint(3) in store
        assert store.forget(fingerprint(3)) is True
        assert len(store) == 9
        assert store.add(fingerprint(3)) is True
        assert len(store) == 10


@pytest.mark.parametrize("other", [{"digest": "f" * 16}, {"key_version": 2}, {"ttl": 60}])
def test_other_rules_or_versions_are_refused(redis_server, other):
    """The error names both and a way on, and the keys stay."""
    url = f"{redis_server.url}?prefix={next(_prefixes)}"
    with open_redis(url) as store:
        store.add(fingerprint(1))
    with pytest.raises(StoreMismatchError) as error:
        open_redis(url, **other)
    assert str(next(iter(other.values()))) in str(error.value)
    assert "another prefix" in str(error.value)
    if "ttl" not in other:
        assert DIGEST in str(error.value)
        assert "scrapy-urlnorm rekey" in str(error.value)
    with open_redis(url) as store:
        assert fingerprint(1) in store


def test_keys_without_their_identity_are_refused(redis_server, client):
    """What says how the keys were made was evicted: they are not taken for ours."""
    prefix = next(_prefixes)
    with open_redis(f"{redis_server.url}?prefix={prefix}") as store:
        store.add(fingerprint(1))
    client.delete(f"{prefix}:identity")
    for _ in range(2):
        with pytest.raises(StoreError, match="is gone"):
            open_redis(f"{redis_server.url}?prefix={prefix}")


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
    with open_redis(url) as store:
        assert len(store) == 3000


# --- what goes wrong ------------------------------------------------------------------------


def test_redis_gone_and_back():
    """An error that names it while it is gone; with its keys on disk, the crawl goes on."""
    with RedisServer("--appendonly", "yes", "--appendfsync", "always") as server:
        store = open_redis(f"{server.url}?wait=0.1")
        store.add(fingerprint(1))
        server.kill()
        for ask in (store.add, store.__contains__, store.forget):
            with pytest.raises(StoreUnavailableError, match="does not answer"):
                ask(fingerprint(1))
        with pytest.raises(StoreUnavailableError, match="does not answer"):
            store.add_many([fingerprint(1)])
        server.start()
        # The first one may find a connection that is dead: that is tried again.
        assert fingerprint(1) in store
        assert store.add(fingerprint(1)) is False
        assert store.add(fingerprint(2)) is True
        store.close()


def test_a_short_absence_is_waited_for():
    """Within the time to wait, a restart is not even an error."""
    with RedisServer("--appendonly", "yes", "--appendfsync", "always") as server:
        store = open_redis(f"{server.url}?wait=30")
        store.add(fingerprint(1))
        server.kill()
        restart = threading.Timer(0.2, server.start)
        restart.start()
        assert store.add(fingerprint(2)) is True
        restart.join()
        assert fingerprint(1) in store
        assert fingerprint(2) in store
        store.close()


def test_redis_back_without_its_keys():
    """Restarted empty, it is not asked any more: all would be new."""
    with RedisServer() as server:
        store = open_redis(f"{server.url}?wait=5")
        store.add(fingerprint(1))
        server.kill()
        server.start()
        for ask in (store.add, store.__contains__, store.forget):
            with pytest.raises(StoreError, match="lost its keys"):
                ask(fingerprint(1))
        with pytest.raises(StoreError, match="lost its keys"):
            store.add_many(map(fingerprint, range(10)))
        store.close()


def test_redis_out_of_memory():
    """An error with the way on; the key that could not be added is not seen."""
    with RedisServer() as server, redis.Redis.from_url(server.url) as client:
        store = open_redis(server.url)
        store.add_many(map(fingerprint, range(5000)))
        client.config_set("maxmemory", "1")
        for _ in range(2):
            with pytest.raises(StoreError, match="out of memory"):
                store.add(fingerprint(5000))
        with pytest.raises(StoreError, match="out of memory"):
            store.add_many([fingerprint(5000)])
        assert fingerprint(5000) not in store
        assert fingerprint(4999) in store
        client.config_set("maxmemory", "0")
        assert store.add(fingerprint(5000)) is True
        assert len(store) == 5001
        store.close()


def test_a_replica_is_no_place_to_write():
    """After a failover the old master refuses: that is waited for, then an error."""
    with RedisServer() as server, redis.Redis.from_url(server.url) as client:
        store = open_redis(f"{server.url}?wait=0.1")
        client.replicaof("127.0.0.1", "1")
        with pytest.raises(StoreUnavailableError, match="read only"):
            store.add(fingerprint(1))
        client.replicaof("NO", "ONE")
        assert store.add(fingerprint(1)) is True
        store.close()


@pytest.mark.parametrize("was_seen", [False, True])
def test_a_key_whose_answer_was_lost_is_new(redis_server, was_seen):
    """It may have been added by the attempt that failed: better fetched twice than lost."""
    with open_redis(f"{redis_server.url}?prefix={next(_prefixes)}") as store:
        if was_seen:
            store.add(fingerprint(1))
        real = store._redis.evalsha
        lost = []

        def lose_the_answer(*arguments):
            answer = real(*arguments)
            if not lost:
                lost.append(answer)
                raise redis.ConnectionError("connection reset")
            return answer

        store._redis.evalsha = lose_the_answer
        assert store.add(fingerprint(1)) is True
        assert store.add(fingerprint(1)) is False
        assert len(lost) == 1


def test_a_wrong_password_is_said_at_once_and_not_repeated():
    """The message names the store without the password that was tried."""
    with RedisServer("--requirepass", "right") as server:
        url = server.url.replace("://", "://:wrong@")
        with pytest.raises(StoreError) as error:
            open_redis(url)
        assert "wrong" not in str(error.value).lower().replace("wrongpass", "")
        open_redis(server.url.replace("://", "://:right@")).close()


@pytest.mark.parametrize(
    ("policy", "options", "warns"),
    [("allkeys-lru", "", True), ("noeviction", "", False), ("volatile-ttl", "", False),
     ("volatile-ttl", "&ttl=60", True)],
)  # fmt: skip
def test_a_redis_that_throws_keys_away_is_warned_of(caplog, policy, options, warns):
    """Pages would be crawled again without a word."""
    with RedisServer("--maxmemory", "100mb", "--maxmemory-policy", policy) as server:
        open_redis(f"{server.url}?prefix=p{options}").close()
    assert (policy in caplog.text) is warns


def test_closing_deletes_nothing(redis_server, client):
    """What was seen is there for the next crawl."""
    prefix = next(_prefixes)
    with open_redis(f"{redis_server.url}?prefix={prefix}") as store:
        store.add_many(map(fingerprint, range(100)))
        before = set(client.scan_iter(f"{prefix}:*"))
    assert set(client.scan_iter(f"{prefix}:*")) == before


def test_a_store_that_is_not_open_says_so(redis_server):
    """Adding without opening is an error, not a key lost."""
    store = open_store(redis_server.url, digest=DIGEST)
    for ask in (store.add, store.forget, store.__contains__, lambda key: store.add_many([key])):
        with pytest.raises(StoreError, match="not open"):
            ask(b"x")


# --- where it is ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("redis://h?colour=red", "unknown option 'colour'"),
        ("redis://h?ttl=soon", "ttl='soon'"),
        ("redis://h?ttl=-1", "ttl='-1'"),
        ("redis://h?wait=nan", "wait='nan'"),
        ("redis://h?prefix=a{b}", "prefix="),
        ("redis://h?prefix=", "prefix=''"),
        ("redis://h?fallback=tape", "fallback='tape'"),
        ("redis://h?fallback=redis://i", "fallback='redis://i'"),
        ("redis://h:port", "redis://h:port"),
        ("redis+sentinel://h", "SERVICE"),
        ("redis+sentinel://h:port/service", "SERVICE"),
    ],
)
def test_a_bad_option_is_named(spec, words):
    """The error names the option, its value and the store."""
    with pytest.raises(ConfigError) as error:
        open_store(spec, digest=DIGEST)
    assert words in str(error.value)


def test_the_password_is_in_no_message():
    """The name of the store has neither user nor password."""
    store = open_store("redis://me:secret@127.0.0.1:1/3?wait=0&password=secret", digest=DIGEST)
    assert "secret" not in store.name
    with pytest.raises(StoreUnavailableError) as error:
        store.open()
    assert "secret" not in str(error.value)
    assert "127.0.0.1:1/3" in str(error.value)


def test_a_cluster_shares_the_keys():
    """Two nodes, each with half the slots, get about half the keys."""
    nodes = [
        RedisServer("--cluster-enabled", "yes", "--cluster-node-timeout", "2000", port=free_port())
        for _ in range(2)
    ]
    with nodes[0], nodes[1]:
        clients = [redis.Redis(port=node.port) for node in nodes]
        clients[0].execute_command("CLUSTER ADDSLOTSRANGE", 0, 8191)
        clients[1].execute_command("CLUSTER ADDSLOTSRANGE", 8192, 16383)
        clients[0].execute_command("CLUSTER MEET", "127.0.0.1", nodes[1].port)
        deadline = time.monotonic() + 30
        while any(client.cluster("info")["cluster_state"] != "ok" for client in clients):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with open_redis(f"redis+cluster://127.0.0.1:{nodes[0].port}") as store:
            assert store.add_many(map(fingerprint, range(10_000))) == 10_000
            assert store.add(fingerprint(1)) is False
            assert store.forget(fingerprint(1)) is True
            assert len(store) == 9_999
            attempts = []

            def lose_the_answer(*arguments, **options):
                attempts.append(arguments)
                raise redis.ConnectionError("connection reset")

            # Twice by us, who know that the key may be in then, and never by redis-py.
            with mock.patch.object(type(store._redis), "_execute_command", lose_the_answer):
                store._wait = 0
                with pytest.raises(StoreUnavailableError):
                    store.add(fingerprint(1))
            assert len(attempts) == 2
        sizes = [client.dbsize() for client in clients]
        assert min(sizes) > 20
        for client in clients:
            client.close()


def test_a_sentinel_knows_the_master():
    """The sentinels are asked where the service is."""
    with RedisServer(port=free_port()) as master:
        config = f"sentinel monitor frontier 127.0.0.1 {master.port} 1\n"
        with RedisServer("--sentinel", port=free_port(), config=config) as sentinel:
            spec = f"redis+sentinel://127.0.0.1:{sentinel.port}/frontier/2?prefix=p"
            with open_redis(spec) as store:
                assert store.add(fingerprint(1)) is True
            with redis.Redis(port=master.port, db=2) as client:
                assert client.exists("p:identity")
