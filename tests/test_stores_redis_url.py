"""Where a store in Redis is, and what its keys begin with."""

from __future__ import annotations

import time
from unittest import mock

import pytest
from redis_server import RedisServer, free_port
from store_contract import DIGEST, add_all, fingerprint, opened

from scrapy_urlnorm.exceptions import ConfigError, StoreUnavailableError
from scrapy_urlnorm.stores import open_store

redis = pytest.importorskip("redis", reason="the extra 'redis' is not installed")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("redis://h?colour=red", "unknown option 'colour'"),
        ("redis://h?ttl=soon", "ttl='soon'"),
        ("redis://h?ttl=-1", "ttl='-1'"),
        ("redis://h?wait=nan", "wait='nan'"),
        ("redis://h?prefix=a{b}", "prefix="),
        ("redis://h?prefix=", "prefix=''"),
        ("redis://h?prefix=%(spider)s{b}", "prefix='test{b}'"),
        ("redis://h?fallback=memory", "unknown option 'fallback'"),
        ("redis://h:port", "redis://h:port"),
        ("redis+sentinel://h", "SERVICE"),
        ("redis+sentinel://h:port/service", "SERVICE"),
    ],
)
def test_a_bad_option_is_named(spec, words):
    with pytest.raises(ConfigError) as error:
        open_store(spec, digest=DIGEST, spider="test")
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("query", "prefix"),
    [
        ("", "shop:urlnorm"),
        ("?prefix=%(spider)s:seen", "shop:seen"),
        ("?prefix=%25(spider)s:seen", "shop:seen"),
        ("?prefix=a%2525(spider)s", "a%25(spider)s"),
        ("?prefix=50%25:%25(spider)s:%25d", "50%:shop:%d"),
        ("?prefix=shops", "shops"),
    ],
)
def test_a_prefix_has_the_name_of_the_spider(query, prefix, own_redis):
    with open_store(own_redis.url + query, digest=DIGEST, spider="shop") as store:
        store.add(fingerprint(1))
    with redis.Redis.from_url(own_redis.url) as client:
        assert client.keys("*:identity") == [f"{prefix}:identity".encode()]


@pytest.mark.parametrize("query", ["", "?prefix=%(spider)s:seen", "?prefix=%25(spider)s"])
def test_without_a_spider_the_prefix_is_said(query):
    with pytest.raises(ConfigError, match="redis://h needs the name of a spider") as error:
        open_store(f"redis://h{query}", digest=DIGEST)
    for words in ("%(spider)s", "?prefix=SPIDER:urlnorm", "--spider NAME"):
        assert words in str(error.value)
    open_store("redis://h?prefix=p", digest=DIGEST)


def test_the_password_is_in_no_message():
    store = open_store(
        "redis://me:secret@127.0.0.1:1/3?prefix=p&wait=0&password=secret", digest=DIGEST
    )
    assert "secret" not in store.name
    with pytest.raises(StoreUnavailableError) as error:
        store.open()
    assert "secret" not in str(error.value)
    assert "127.0.0.1:1/3" in str(error.value)


def test_a_cluster_shares_the_keys():
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
        with opened(f"redis+cluster://127.0.0.1:{nodes[0].port}") as store:
            assert add_all(store, range(10_000)) == 10_000
            assert store.add(fingerprint(1)) is False
            assert store.forget(fingerprint(1)) is True
            assert len(store) == 9_999
            attempts = []

            def lose_the_answer(*arguments, **options):
                attempts.append(arguments)
                raise redis.ConnectionError("connection reset")

            # Twice by us, who know that the key may be in then, and never by redis-py.
            with mock.patch.object(
                type(store.connection._client), "_execute_command", lose_the_answer
            ):
                store.connection._place = store.connection._place._replace(wait=0)
                with pytest.raises(StoreUnavailableError):
                    store.add(fingerprint(1))
            assert len(attempts) == 2
        sizes = [client.dbsize() for client in clients]
        assert min(sizes) > 20
        for client in clients:
            client.close()


def test_a_sentinel_knows_the_master():
    with RedisServer(port=free_port()) as master:
        config = f"sentinel monitor frontier 127.0.0.1 {master.port} 1\n"
        with RedisServer("--sentinel", port=free_port(), config=config) as sentinel:
            spec = f"redis+sentinel://127.0.0.1:{sentinel.port}/frontier/2?prefix=p"
            with opened(spec) as store:
                assert store.add(fingerprint(1)) is True
            with redis.Redis(port=master.port, db=2) as client:
                assert client.exists("p:identity")
