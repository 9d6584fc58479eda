"""The store in Redis when something goes wrong, on a real one."""

from __future__ import annotations

import os
import signal
import socket
import threading
from contextlib import contextmanager, suppress

import pytest
from redis_server import RedisServer, free_port
from store_contract import DIGEST, fingerprint, opened

from scrapy_urlnorm.exceptions import StoreError, StoreUnavailableError
from scrapy_urlnorm.stores import open_store

redis = pytest.importorskip("redis", reason="the extra 'redis' is not installed")
redis_connection = pytest.importorskip("scrapy_urlnorm.stores.redis_connection")


def test_redis_gone_and_back():
    """An error that names it while it is gone; with its keys on disk, the crawl goes on."""
    with RedisServer("--appendonly", "yes", "--appendfsync", "always") as server:
        store = opened(f"{server.url}?wait=0.1")
        store.add(fingerprint(1))
        server.kill()
        for ask in (store.add, store.__contains__, store.forget):
            with pytest.raises(StoreUnavailableError, match="does not answer"):
                ask(fingerprint(1))
        with pytest.raises(StoreUnavailableError, match=r"does not answer.*Resume the crawl"):
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


def test_a_master_without_its_replicas_is_waited_for():
    """It refuses to write until it has as many as it is told to want."""
    with RedisServer() as server, redis.Redis.from_url(server.url) as client:
        store = opened(f"{server.url}?wait=0.1")
        client.config_set("min-replicas-to-write", "1")
        with pytest.raises(StoreUnavailableError, match="NOREPLICAS"):
            store.add(fingerprint(1))
        client.config_set("min-replicas-to-write", "0")
        assert store.add(fingerprint(1)) is True
        store.close()


@pytest.mark.parametrize("was_seen", [False, True])
def test_a_key_whose_answer_was_lost_is_new(was_seen):
    """It may have been added by the attempt that failed: better fetched twice than lost."""
    with RedisServer() as server, opened(server.url) as store:
        store.add(fingerprint(0))  # Redis has the script now
        if was_seen:
            store.add(fingerprint(1))
        real = store.connection._client.evalsha
        lost = []

        def lose_the_answer(*arguments):
            answer = real(*arguments)
            if not lost:
                lost.append(answer)
                raise redis.ConnectionError("connection reset")
            return answer

        store.connection._client.evalsha = lose_the_answer
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


# --- how long it takes to fail ----------------------------------------------------------------


class _Stuck:
    """A client for which nothing comes within its time, or that is refused at once."""

    def __init__(self, clock, seconds):
        self._clock = clock
        self._seconds = seconds

    def __getattr__(self, name):
        def fail(*arguments, **options):
            self._clock[0] += self._seconds
            raise redis.TimeoutError("nothing came")

        return fail

    def close(self):
        """Nothing to let go of."""


@pytest.mark.parametrize("wait", [0.0, 0.3, 2.0, 5.0, 60.0])
@pytest.mark.parametrize("takes_time", [True, False])
def test_the_time_to_wait_bounds_all_attempts(monkeypatch, wait, takes_time):
    """An attempt has what is left of it, or a second; there are two attempts at least."""
    clock, given = [100.0], []

    def connect(seconds):
        given.append(seconds)
        # A client has five seconds at most, as by default.
        return _Stuck(clock, min(seconds, redis_connection.DEFAULT_TIMEOUT) if takes_time else 0)

    def sleep(seconds):
        clock[0] += seconds

    monkeypatch.setattr(redis_connection, "monotonic", lambda: clock[0])
    monkeypatch.setattr(redis_connection, "sleep", sleep)
    store = open_store(f"redis://127.0.0.1?prefix=p&wait={wait}", digest=DIGEST)
    store.connection._place = redis_connection.Place("redis://127.0.0.1", connect)
    for _ in range(2):
        started = clock[0]
        given.clear()
        with pytest.raises(StoreUnavailableError, match="nothing came"):
            store.open()
        least = redis_connection.LEAST_TIMEOUT
        assert clock[0] - started <= max(wait, 2 * least) + 1e-6
        assert len(given) >= 2
        assert given[0] == max(wait / 2, least)
        assert max(given[1:]) <= max(wait, least)


def watched(store):
    """The seconds that clients of *store* get from now on."""
    place, given = store.connection._place, []

    def connect(seconds):
        given.append(seconds)
        return place.connect(seconds)

    store.connection._place = redis_connection.Place(place.name, connect)
    return given


def test_a_plain_server_that_is_asked_for_tls_fails_in_time():
    """It waits for the rest of a command, and never answers."""
    with RedisServer(port=free_port()) as server:
        url = f"rediss://127.0.0.1:{server.port}?prefix=p&wait=2"
        store = open_store(url, digest=DIGEST)
        given = watched(store)
        with pytest.raises(StoreUnavailableError, match="does not answer"):
            store.open()
        assert len(given) == 2
        assert sum(given) <= 2


def test_a_server_that_stands_still_fails_in_time():
    """It takes connections and does not answer; when it goes on, the store does."""
    with RedisServer() as server, opened(f"{server.url}?prefix=p&wait=2") as store:
        store.add(fingerprint(1))
        given = watched(store)
        os.kill(server._process.pid, signal.SIGSTOP)
        try:
            with pytest.raises(StoreUnavailableError, match="does not answer"):
                store.add(fingerprint(2))
        finally:
            os.kill(server._process.pid, signal.SIGCONT)
        assert len(given) == 1  # besides the client that was there, with half of the time
        assert sum(given) <= 1
        assert store.add(fingerprint(1)) is False
        assert store.add(fingerprint(3)) is True
        assert given[-1] == 1


def test_timeouts_of_the_url_are_the_most():
    """What is left of the time to wait may be less."""
    url = "redis://127.0.0.1?prefix=p&socket_timeout=0.7&socket_connect_timeout=3"
    place, _ = redis_connection.parse_redis(url, {})
    for seconds, expected in ((10, (0.7, 3)), (2, (0.7, 2)), (0.5, (0.5, 0.5))):
        with place.connect(seconds) as client:
            options = client.connection_pool.connection_kwargs
        assert (options["socket_timeout"], options["socket_connect_timeout"]) == expected


# --- what is no answer of a store ------------------------------------------------------------


@pytest.mark.parametrize("what", ["identity", "{00}", "{00}:0", "notes", "{00}:pages:0"])
def test_a_value_of_another_type_is_an_error(what):
    """Somebody else uses the prefix: each call that meets that says so, and no key is seen."""
    with RedisServer() as server, redis.Redis.from_url(server.url) as client:
        url = f"{server.url}?prefix=p"
        with opened(url) as store:
            client.delete(f"p:{what}")
            if what == "identity":
                client.hset("p:identity", "a", "b")
            else:
                client.set(f"p:{what}", "text")
            errors = []

            def attempt(call):
                try:
                    return call()
                except StoreError as error:
                    errors.append(str(error))

            pages = store.shared_pages()
            for key in map(fingerprint, range(200)):
                assert attempt(lambda key=key: store.add(key)) is not False
                assert attempt(lambda key=key: key in store) is not False
                attempt(lambda key=key: store.forget(key))
                attempt(lambda key=key: pages.put(key, b"value"))
                assert attempt(lambda key=key: pages.get(key)) in (b"value", None)
            attempt(store.notes)
            attempt(lambda: store.leave_notes({"a": "b"}))
            attempt(lambda: opened(url).close())
        assert errors
        assert all("WRONGTYPE" in error and "resume" in error for error in errors)


def test_a_note_that_is_no_text_is_passed_over(caplog):
    """Somebody else wrote it: it is said once, and the other notes are read."""
    with RedisServer() as server, redis.Redis.from_url(server.url) as client:
        with opened(f"{server.url}?prefix=p") as store:
            store.leave_notes({"good": "\u00e9", "other": "2"})
            client.hset("p:notes", b"\xff\xfe", b"1")
            client.hset("p:notes", b"bad", b"\x80")
            for _ in range(3):
                assert store.notes() == {"good": "\u00e9", "other": "2"}
        assert caplog.text.count("cannot be read") == 2
        assert "HDEL p:notes" in caplog.text


@contextmanager
def answering(answer):
    """A server that is no Redis: to whatever it is sent it says *answer*. Yields its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            with suppress(OSError):
                while True:
                    threading.Thread(target=talk, args=listener.accept()[:1], daemon=True).start()

        def talk(connection):
            with suppress(OSError), connection:
                while connection.recv(1 << 16):
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"+OK\r\n",
        b":1\r\n",
        b":abc\r\n",
        b"$abc\r\n",
        b"$-1\r\n",
        b"$3\r\n\xff\xfe\xfd\r\n",
        b"*0\r\n",
        b"*-7\r\n",
        b"*1\r\n" * 5000 + b":1\r\n",
        b"-\xff\r\n",
        b"-ERR no\r\n",
        b"-LOADING\r\n",
        b"\0" * 20 + b"\r\n",
        b"\r\n",
    ],
)
def test_a_server_that_is_no_redis_is_an_error(answer):
    """Whatever it says, it is a StoreError: at first, and after it was a Redis."""
    with answering(answer) as port:
        store = open_store(f"redis://127.0.0.1:{port}?prefix=p&wait=0.1", digest=DIGEST)
        with pytest.raises(StoreError):
            store.open()
        with RedisServer() as server, opened(f"{server.url}?prefix=p&wait=0.1") as store:
            elsewhere = redis_connection.parse_redis(f"redis://127.0.0.1:{port}?prefix=p", {})[0]
            store.connection._place = elsewhere
            store.connection._disconnect()
            pages = store.shared_pages()
            for ask in (
                lambda: store.add_many(map(fingerprint, range(50))),
                lambda: store.add(fingerprint(1)) or pytest.fail("it was taken for seen"),
                lambda: fingerprint(1) in store,
                lambda: store.forget(fingerprint(1)),
                lambda: len(store),
                store.notes,
                lambda: store.leave_notes({"a": "b"}),
                lambda: pages.put(fingerprint(1), b"value"),
                lambda: pages.get(fingerprint(1)),
            ):
                with suppress(StoreError):
                    ask()
