"""A shared store in a crawl is not asked again what it said a moment ago."""

from __future__ import annotations

import pytest
from store_contract import SeenStoreContract, fingerprint

from scrapy_urlnorm.exceptions import StoreUnavailableError
from scrapy_urlnorm.stores import MemorySeen

recent = pytest.importorskip("scrapy_urlnorm.stores.redis")
SeenRecently = recent.SeenRecently


class Counting(MemorySeen):
    """Counts the questions, and fails while it is told to."""

    is_shared = True

    def __init__(self):
        super().__init__()
        self.asked = 0
        self.fails = False

    def add(self, key):
        self._ask()
        return super().add(key)

    def __contains__(self, key):
        self._ask()
        return super().__contains__(key)

    def _ask(self):
        self.asked += 1
        if self.fails:
            raise StoreUnavailableError("no answer")


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still; set ``clock[0]``."""
    now = [1000.0]
    monkeypatch.setattr(recent, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def store():
    return Counting()


@pytest.fixture
def seen(clock, store):
    return SeenRecently(store)


class TestContract(SeenStoreContract):
    """It is a store like any other."""

    lasts = False

    def make(self):
        return SeenRecently(MemorySeen())


def test_a_key_is_asked_for_once(seen, store):
    """Whether it was new, seen, or looked up: after that the answer is known."""
    store.add(fingerprint(2))
    store.add(fingerprint(3))
    store.asked = 0
    assert [seen.add(fingerprint(1)), seen.add(fingerprint(2))] == [True, False]
    assert fingerprint(3) in seen
    for number in (1, 2, 3):
        assert not seen.add(fingerprint(number))
        assert fingerprint(number) in seen
    assert store.asked == 3


def test_what_is_not_there_is_asked_for_again(seen, store):
    """Another crawler may have added it meanwhile."""
    assert fingerprint(1) not in seen
    store.add(fingerprint(1))
    assert fingerprint(1) in seen


def test_what_another_crawler_took_out_is_new_in_time(seen, store, clock):
    """At the latest after twice the time for which a key is remembered."""
    seen.add(fingerprint(1))
    store.forget(fingerprint(1))
    assert not seen.add(fingerprint(1))
    clock[0] += recent.SECONDS
    assert not seen.add(fingerprint(1))
    clock[0] += recent.SECONDS
    assert seen.add(fingerprint(1))


def test_after_a_pause_nothing_is_remembered(seen, store, clock):
    """However long ago the halves last changed places."""
    seen.add(fingerprint(1))
    store.forget(fingerprint(1))
    clock[0] += 2 * recent.SECONDS
    assert seen.add(fingerprint(1))


def test_a_key_that_comes_again_and_again_is_looked_up_again(seen, store, clock):
    """Being asked for does not make it younger: what was taken out is noticed all the same."""
    seen.add(fingerprint(1))
    store.forget(fingerprint(1))
    answers = []
    for _ in range(10):
        clock[0] += recent.SECONDS / 5
        answers.append(seen.add(fingerprint(1)))
    assert answers.count(True) == 1


def test_what_this_crawler_takes_out_is_new_at_once(seen):
    """Wherever it is remembered."""
    seen.add(fingerprint(1))
    assert seen.forget(fingerprint(1))
    assert seen.add(fingerprint(1))


def test_memory_is_bounded(seen, monkeypatch):
    """When there is no room the older half goes."""
    monkeypatch.setattr(recent, "MAX_KEYS", 10)
    for number in range(100):
        seen.add(fingerprint(number))
    assert len(seen._new) + len(seen._old) <= 20
    assert not seen.add(fingerprint(99))


def test_a_failed_answer_is_not_remembered(seen, store):
    """What the store could not do is an error as often as it is asked, and then done."""
    store.fails = True
    for _ in range(2):
        with pytest.raises(StoreUnavailableError):
            seen.add(fingerprint(1))
    store.fails = False
    assert seen.add(fingerprint(1))
