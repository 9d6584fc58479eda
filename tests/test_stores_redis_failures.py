"""The store in Redis when something goes wrong, on a real one."""

from __future__ import annotations

import os
import signal
import socket
import threading
from contextlib import contextmanager, suppress

import pytest
from redis_server import RedisServer
from store_contract import DIGEST, add_all, claim_all, fingerprint, opened

from scrapy_urlnorm.exceptions import StoreError, StoreUnavailableError
from scrapy_urlnorm.stores import open_store

redis = pytest.importorskip("redis", reason="the extra 'redis' is not installed")
redis_connection = pytest.importorskip("scrapy_urlnorm.stores.redis_connection")


def test_redis_gone_and_back():
    with RedisServer("--appendonly", "yes", "--appendfsync", "always") as server:
        store = opened(f"{server.url}?wait=0.1")
        store.add(fingerprint(1))
        server.kill()
        for ask in (store.add, store.__contains__, store.forget):
            with pytest.raises(StoreUnavailableError, match="does not answer"):
                ask(fingerprint(1))
        with pytest.raises(StoreUnavailableError, match=r"does not answer.*Resume the crawl"):
            claim_all(store, [1])
        server.start()
        # The first one may find a connection that is dead: that is tried again.
        assert fingerprint(1) in store
        assert store.add(fingerprint(1)) is False
        assert store.add(fingerprint(2)) is True
        store.close()


def test_a_short_absence_is_waited_for():
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


def test_redis_out_of_memory():
    with RedisServer() as server, redis.Redis.from_url(server.url) as client:
        store = opened(server.url)
        add_all(store, range(5000))
        client.config_set("maxmemory", "1")
        for _ in range(2):
            with pytest.raises(StoreError, match="out of memory"):
                store.add(fingerprint(5000))
        with pytest.raises(StoreError, match="out of memory"):
            claim_all(store, [5000])
        assert fingerprint(5000) not in store
        assert fingerprint(4999) in store
        client.config_set("maxmemory", "0")
        assert store.add(fingerprint(5000)) is True
        assert len(store) == 5001
        store.close()


@pytest.mark.parametrize(
    ("refuse", "allow", "said"),
    [
        (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE"), "read only"),
        (
            ("CONFIG", "SET", "min-replicas-to-write", "1"),
            ("CONFIG", "SET", "min-replicas-to-write", "0"),
            "NOREPLICAS",
        ),
    ],
)
def test_a_server_that_takes_no_writes_for_now_is_waited_for(refuse, allow, said):
    with RedisServer() as server, redis.Redis.from_url(server.url) as client:
        store = opened(f"{server.url}?wait=0.1")
        client.execute_command(*refuse)
        with pytest.raises(StoreUnavailableError, match=said):
            store.add(fingerprint(1))
        client.execute_command(*allow)
        assert store.add(fingerprint(1)) is True
        store.close()


@pytest.mark.parametrize("was_seen", [False, True])
def test_a_key_whose_answer_was_lost_is_new(was_seen):
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
    with RedisServer("--requirepass", "right") as server:
        url = server.url.replace("://", "://:wrong@")
        with pytest.raises(StoreError) as error:
            opened(url)
        assert "wrong" not in str(error.value).lower().replace("wrongpass", "")
        opened(server.url.replace("://", "://:right@")).close()


def test_a_store_that_is_not_open_says_so():
    store = open_store("redis://127.0.0.1?prefix=p", digest=DIGEST)
    for ask in (store.add, store.forget, store.__contains__, lambda key: store.claim(key, "")):
        with pytest.raises(StoreError, match="not open"):
            ask(b"x")


# --- how long it takes to fail ----------------------------------------------------------------


class _Stuck:
    """A client for which nothing comes within its time, or that is refused at once."""

    def __init__(self, clock, seconds, attempts):
        self._clock = clock
        self._seconds = seconds
        self._attempts = attempts

    def __getattr__(self, name):
        def fail(*arguments, **options):
            self._clock[0] += self._seconds
            self._attempts.append(name)
            raise redis.TimeoutError("nothing came")

        return fail

    def close(self):
        """Nothing to let go of."""


@pytest.mark.parametrize("wait", [0.0, 0.3, 2.0, 5.0, 60.0])
@pytest.mark.parametrize("takes_time", [True, False])
def test_the_time_to_wait_bounds_all_attempts(monkeypatch, wait, takes_time):
    clock, given = [100.0], []

    def connect(seconds):
        given.append(seconds)
        # A client has five seconds at most, as by default.
        took = min(seconds, redis_connection.DEFAULT_TIMEOUT) if takes_time else 0
        return _Stuck(clock, took, attempts)

    def sleep(seconds):
        clock[0] += seconds

    monkeypatch.setattr(redis_connection, "monotonic", lambda: clock[0])
    monkeypatch.setattr(redis_connection, "sleep", sleep)
    store = open_store(f"redis://127.0.0.1?prefix=p&wait={wait}", digest=DIGEST)
    store.connection._place = store.connection._place._replace(connect=connect)
    for _ in range(2):
        started, attempts = clock[0], []
        with pytest.raises(StoreUnavailableError, match="nothing came"):
            store.open()
        least = redis_connection.LEAST_TIMEOUT
        assert wait / 2 <= clock[0] - started <= max(wait, 2 * least) + 1e-6
        assert len(attempts) >= 2
    assert set(given) == {max(wait / 2, least)}


def test_a_server_that_stands_still_fails_in_time():
    with RedisServer() as server, opened(f"{server.url}?prefix=p&wait=2") as store:
        store.add(fingerprint(1))
        os.kill(server.pid, signal.SIGSTOP)
        try:
            with pytest.raises(StoreUnavailableError, match="does not answer"):
                store.add(fingerprint(2))
        finally:
            os.kill(server.pid, signal.SIGCONT)
        assert store.add(fingerprint(1)) is False
        assert store.add(fingerprint(3)) is True


# --- what is no answer of a store ------------------------------------------------------------


@pytest.mark.parametrize("what", ["identity", "{00}", "{00}:0", "notes", "{00}:pages:0"])
def test_a_value_of_another_type_is_an_error(what):
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

            for key in map(fingerprint, range(200)):
                assert attempt(lambda key=key: store.add(key)) is not False
                assert attempt(lambda key=key: key in store) is not False
                attempt(lambda key=key: store.forget(key))
                attempt(lambda key=key: store.put_page(key, b"value"))
                assert attempt(lambda key=key: store.page(key)) in (b"value", None)
            attempt(store.notes)
            attempt(lambda: store.leave_notes({"a": "b"}))
            attempt(lambda: opened(url).close())
        assert errors
        assert all("WRONGTYPE" in error and "resume" in error for error in errors)


def test_a_note_that_is_no_text_harms_no_other():
    with (
        RedisServer() as server,
        redis.Redis.from_url(server.url) as client,
        opened(f"{server.url}?prefix=p") as store,
    ):
        store.leave_notes({"good": "\u00e9", "other": "2"})
        client.hset("p:notes", b"\xff\xfe", b"1")
        client.hset("p:notes", b"bad", b"\x80")
        assert {"good": "\u00e9", "other": "2"}.items() <= store.notes().items()


@contextmanager
def answering(answer):
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


@pytest.mark.long
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
    with answering(answer) as port:
        store = open_store(f"redis://127.0.0.1:{port}?prefix=p&wait=0.1", digest=DIGEST)
        with pytest.raises(StoreError):
            store.open()
        with RedisServer() as server, opened(f"{server.url}?prefix=p&wait=0.1") as store:
            elsewhere = redis_connection.parse_redis(f"redis://127.0.0.1:{port}?prefix=p&wait=0.1")
            store.connection._place = elsewhere
            store.connection._client = None
            for ask in (
                lambda: claim_all(store, range(50)),
                lambda: store.add(fingerprint(1)) or pytest.fail("it was taken for seen"),
                lambda: fingerprint(1) in store,
                lambda: store.forget(fingerprint(1)),
                lambda: len(store),
                store.notes,
                lambda: store.leave_notes({"a": "b"}),
                lambda: store.put_page(fingerprint(1), b"value"),
                lambda: store.page(fingerprint(1)),
            ):
                with suppress(StoreError):
                    ask()
