"""The store in Redis when something goes wrong, on a real one."""

from __future__ import annotations

import threading

import pytest
from redis_server import RedisServer
from store_contract import DIGEST, fingerprint, opened

from scrapy_urlnorm.exceptions import StoreError, StoreUnavailableError
from scrapy_urlnorm.stores import open_store

redis = pytest.importorskip("redis", reason="the extra 'redis' is not installed")


def test_redis_gone_and_back():
    """An error that names it while it is gone; with its keys on disk, the crawl goes on."""
    with RedisServer("--appendonly", "yes", "--appendfsync", "always") as server:
        store = opened(f"{server.url}?wait=0.1")
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
        store = opened(f"{server.url}?wait=30")
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
        store = opened(f"{server.url}?wait=5")
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
        store = opened(server.url)
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
        store = opened(f"{server.url}?wait=0.1")
        client.replicaof("127.0.0.1", "1")
        with pytest.raises(StoreUnavailableError, match="read only"):
            store.add(fingerprint(1))
        client.replicaof("NO", "ONE")
        assert store.add(fingerprint(1)) is True
        store.close()


@pytest.mark.parametrize("was_seen", [False, True])
def test_a_key_whose_answer_was_lost_is_new(was_seen):
    """It may have been added by the attempt that failed: better fetched twice than lost."""
    with RedisServer() as server, opened(server.url) as store:
        store.add(fingerprint(0))  # Redis has the script now
        if was_seen:
            store.add(fingerprint(1))
        real = store._groups._client.evalsha
        lost = []

        def lose_the_answer(*arguments):
            answer = real(*arguments)
            if not lost:
                lost.append(answer)
                raise redis.ConnectionError("connection reset")
            return answer

        store._groups._client.evalsha = lose_the_answer
        assert store.add(fingerprint(1)) is True
        assert store.add(fingerprint(1)) is False
        assert len(lost) == 1


def test_a_wrong_password_is_said_at_once_and_not_repeated():
    """The message names the store without the password that was tried."""
    with RedisServer("--requirepass", "right") as server:
        url = server.url.replace("://", "://:wrong@")
        with pytest.raises(StoreError) as error:
            opened(url)
        assert "wrong" not in str(error.value).lower().replace("wrongpass", "")
        opened(server.url.replace("://", "://:right@")).close()


@pytest.mark.parametrize(
    ("policy", "options", "warns"),
    [("allkeys-lru", "", True), ("noeviction", "", False), ("volatile-ttl", "", False),
     ("volatile-ttl", "&ttl=60", True)],
)  # fmt: skip
def test_a_redis_that_throws_keys_away_is_warned_of(caplog, policy, options, warns):
    """Pages would be crawled again without a word."""
    with RedisServer("--maxmemory", "100mb", "--maxmemory-policy", policy) as server:
        opened(f"{server.url}?prefix=p{options}").close()
    assert (policy in caplog.text) is warns


def test_a_store_that_is_not_open_says_so():
    """Adding without opening is an error, not a key lost."""
    store = open_store("redis://127.0.0.1?prefix=p", digest=DIGEST)
    for ask in (store.add, store.forget, store.__contains__, lambda key: store.add_many([key])):
        with pytest.raises(StoreError, match="not open"):
            ask(b"x")
