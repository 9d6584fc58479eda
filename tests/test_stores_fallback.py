"""A local store stands in while Redis does not answer."""

from __future__ import annotations

import pytest
from redis_server import RedisServer
from store_contract import DIGEST, SeenStoreContract, fingerprint

from scrapy_urlnorm.exceptions import StoreError, StoreMismatchError, StoreUnavailableError
from scrapy_urlnorm.stores import MemorySeen, fallback, open_store
from scrapy_urlnorm.stores.fallback import SeenWithFallback


class Away(MemorySeen):
    """A store that does not answer when it is told so."""

    name = "the main store"
    error: StoreError | None = None

    def _check(self):
        if self.error is not None:
            raise self.error

    def open(self):
        self._check()

    def add(self, key):
        self._check()
        return super().add(key)

    def forget(self, key):
        self._check()
        return super().forget(key)

    def __contains__(self, key):
        self._check()
        return super().__contains__(key)


GONE = StoreUnavailableError("the main store does not answer")


@pytest.fixture
def clock(monkeypatch):
    """The time, to be set by a test."""
    now = [0.0]
    monkeypatch.setattr(fallback, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def main():
    """The store that goes away."""
    return Away()


@pytest.fixture
def seen(main, clock):
    """It, with a local store to fall back on."""
    with SeenWithFallback(main, MemorySeen()) as store:
        yield store


class TestWhileItIsThere(SeenStoreContract):
    """The contract holds with both stores."""

    lasts = False

    def make(self):
        return SeenWithFallback(Away(), MemorySeen())


class TestWhileItIsAway(SeenStoreContract):
    """And with the local store alone."""

    lasts = False

    def make(self):
        main = Away()
        main.error = GONE
        return SeenWithFallback(main, MemorySeen())


def test_what_was_seen_before_stays_seen(main, seen, caplog):
    """The local store knows all that this crawler has added or met; it is said once."""
    main.add(fingerprint(1))  # by another crawler
    assert seen.add(fingerprint(1)) is False
    assert seen.add(fingerprint(2)) is True
    main.error = GONE
    assert seen.add(fingerprint(1)) is False
    assert seen.add(fingerprint(2)) is False
    assert fingerprint(2) in seen
    assert seen.add(fingerprint(3)) is True
    assert caplog.text.count("stands in for now") == 1
    assert "does not answer" in caplog.text


def test_the_main_store_is_told_what_it_missed(main, seen, clock, caplog):
    """Keys added and forgotten meanwhile reach it, in order, before it is asked again."""
    caplog.set_level("INFO")
    seen.add(fingerprint(1))
    main.error = GONE
    seen.add(fingerprint(2))
    seen.add(fingerprint(3))
    seen.add(fingerprint(2))
    seen.forget(fingerprint(1))
    seen.forget(fingerprint(3))
    main.error = None
    assert len(main) == 1
    assert seen.add(fingerprint(4)) is True  # too early to ask
    clock[0] = fallback.RETRY_SECONDS
    assert seen.add(fingerprint(2)) is False
    assert fingerprint(2) in main
    assert fingerprint(4) in main
    assert fingerprint(1) not in main
    assert fingerprint(3) not in main
    assert "told the 5 keys" in caplog.text


def test_it_is_not_asked_again_at_every_key(main, seen, clock):
    """Each attempt may take seconds: between two of them some time passes."""
    asked = []

    def fail():
        asked.append(1)
        raise GONE

    main._check = fail
    for number in range(100):
        seen.add(fingerprint(number))
    assert len(asked) == 1
    clock[0] += fallback.RETRY_SECONDS
    seen.add(fingerprint(100))
    assert len(asked) == 2


def test_a_failure_while_it_is_told_loses_nothing(main, seen, clock):
    """What it has not been told yet, it is told the next time."""
    main.error = GONE
    for number in range(10):
        seen.add(fingerprint(number))
    main.error = None
    main.open = lambda: None
    left = iter(range(3))

    def fail_after_three():
        if next(left, None) is None:
            raise GONE

    main._check = fail_after_three
    clock[0] += fallback.RETRY_SECONDS
    seen.add(fingerprint(10))
    assert len(main) == 3
    del main._check
    clock[0] += fallback.RETRY_SECONDS
    assert seen.add(fingerprint(10)) is False
    assert len(main) == 11


def test_closing_tells_it_too(main, clock, caplog):
    """At the end it is asked once more; what it cannot be told is said."""
    main.error = GONE
    with SeenWithFallback(main, MemorySeen()) as seen:
        seen.add(fingerprint(1))
        main.error = None
    assert fingerprint(1) in main
    main.error = GONE
    with SeenWithFallback(main, MemorySeen()) as seen:
        seen.add(fingerprint(2))
    assert "was not told of 1 keys" in caplog.text


def test_other_rules_are_never_replaced(main, clock):
    """A mismatch is raised at once, and also when it shows later."""
    main.error = StoreMismatchError("other rules")
    with pytest.raises(StoreMismatchError):
        SeenWithFallback(main, MemorySeen()).open()
    main.error = GONE
    with SeenWithFallback(main, MemorySeen()) as seen:
        seen.add(fingerprint(1))
        main.error = StoreMismatchError("other rules")
        clock[0] += fallback.RETRY_SECONDS
        with pytest.raises(StoreMismatchError):
            seen.add(fingerprint(2))
        main.error = None


def test_notes_do_not_wait_for_a_store_that_is_away(main, seen, clock, monkeypatch):
    """They are refused at once, without asking it, until a key says that it is back."""
    monkeypatch.setattr(main, "notes", lambda: {"a": "1"})
    monkeypatch.setattr(main, "leave_notes", lambda notes: None)
    assert seen.notes() == {"a": "1"}
    main.error = GONE
    seen.add(fingerprint(1))
    for ask in (seen.notes, lambda: seen.leave_notes({"b": "2"})):
        with pytest.raises(StoreUnavailableError, match="the main store is away"):
            ask()
    main.error = None
    clock[0] += fallback.RETRY_SECONDS
    seen.add(fingerprint(2))
    assert seen.notes() == {"a": "1"}


def test_a_real_redis_goes_and_comes_back(clock):
    """The crawl goes on without it, and it knows all in the end."""
    pytest.importorskip("redis", reason="the extra 'redis' is not installed")
    with RedisServer("--appendonly", "yes", "--appendfsync", "always") as server:
        url = f"{server.url}?prefix=p&wait=0&fallback=memory"
        with open_store(url, digest=DIGEST) as seen:
            seen.add_many(map(fingerprint, range(10)))
            server.kill()
            answers = [seen.add(fingerprint(number)) for number in (3, 10, 11, 10)]
            assert answers == [False, True, True, False]
            server.start()
            clock[0] += fallback.RETRY_SECONDS
            assert seen.add(fingerprint(12)) is True
        with open_store(f"{server.url}?prefix=p", digest=DIGEST) as seen:
            assert len(seen) == 13
