"""The bounded cache answers as its function does, asks it rarely, and never grows beyond bounds."""

from __future__ import annotations

import gc
from contextlib import suppress

import pytest

from scrapy_urlnorm.caches import BoundedCache, no_collection


def test_a_function_is_asked_once_for_a_text():
    asked = []

    def length(text):
        asked.append(text)
        return len(text)

    cache = BoundedCache(length, most=6, longest=5)
    assert [cache[text] for text in ("a", "bb", "a", "bb", "")] == [1, 2, 1, 2, 0]
    assert asked == ["a", "bb", ""]


def test_a_cache_is_bounded_in_entries_and_in_length():
    cache = BoundedCache(len, most=4, longest=5)
    for i in range(100):
        assert cache[str(i)] == len(str(i))
        assert cache["x" * i] == i
        assert len(cache) + len(cache.old) <= 4
        assert max(map(len, [*cache, *cache.old])) <= 5


def test_new_texts_do_not_drive_out_what_is_asked_for_again():
    """A text that comes again within half of the room is never asked for anew."""
    asked = []
    cache = BoundedCache(asked.append, most=8, longest=5)
    for i in range(100):
        cache["often"]
        cache[str(i)]
    assert asked.count("often") == 1


def test_an_argument_may_be_something_else_than_a_text():
    """A function of several texts says how long they are."""
    cache = BoundedCache(len, most=4, longest=3, length=lambda texts: sum(map(len, texts)))
    assert (cache["a", "bb"], cache["a", "bbb"]) == (2, 2)
    assert list(cache) == [("a", "bb")]


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_of_cycles_is_as_it_was(enabled):
    """It is off for a while, and as before then, after an error too."""
    was = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    with suppress(ValueError), no_collection():
        is_on = gc.isenabled()
        raise ValueError
    after = gc.isenabled()
    (gc.enable if was else gc.disable)()
    assert (is_on, after) == (False, enabled)
