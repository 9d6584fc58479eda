"""SeenStoreContract: what every store does, written once; and what its tests share."""

from __future__ import annotations

import random
from hashlib import sha1

import pytest

from scrapy_urlnorm.stores import open_store
from scrapy_urlnorm.stores.seen import Awaited

DIGEST = "0123456789abcdef"


def fingerprint(number):
    return sha1(b"%d" % number, usedforsecurity=False).digest()


def opened(spec, digest=DIGEST, **options):
    store = open_store(spec, digest=digest, spider="test", **options)
    store.open()
    return store


def add_all(store, numbers):
    """Add the fingerprints of *numbers*; return how many were new."""
    return sum(store.add(fingerprint(number)) for number in numbers)


def claim_all(store, numbers):
    return sum(store.claim(fingerprint(number), "http://a.test/") for number in numbers)


class SeenStoreContract:
    """A subclass has ``make()``: a new store object for one and the same place, not opened."""

    lasts = True  #: whether keys are there after another object opens the place

    @pytest.fixture
    def seen(self):
        with self.make() as store:
            yield store

    @pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 16, 19, 20, 21, 32, 255, 4096])
    def test_keys_of_any_length(self, seen, length):
        keys = [b"\0" * length, b"\0" * (length - 1) + b"\1", b"\0" * (length + 1)]
        assert [seen.add(key) for key in keys] == [True, True, True]
        assert [seen.add(key) for key in keys] == [False, False, False]
        assert seen.forget(keys[1])
        assert [key in seen for key in keys] == [True, False, True]

    def test_keys_that_are_not_random(self, seen):
        keys = {number.to_bytes(20, order) for number in range(400) for order in ("big", "little")}
        assert all(seen.add(key) for key in keys)
        assert not any(seen.add(key) for key in keys)
        assert len(seen) == len(keys)

    @pytest.mark.parametrize("bad", ["text", None, b""])
    def test_what_is_no_key_is_refused(self, seen, bad):
        for ask in (seen.add, seen.__contains__, seen.forget):
            with pytest.raises((TypeError, ValueError, IndexError)):
                ask(bad)
        assert len(seen) == 0

    def test_it_does_what_a_set_does(self, seen):
        steps = random.Random(5)
        model = set()
        for _ in range(4000):
            key = fingerprint(steps.randrange(1500))
            step = steps.random()
            if step < 0.7:
                assert seen.add(key) is (key not in model)
                model.add(key)
            elif step < 0.85:
                assert (key in seen) is (key in model)
            else:
                assert seen.forget(key) is (key in model)
                model.discard(key)
        assert len(seen) == len(model)
        assert all(key in seen for key in model)

    def test_a_claimed_key_is_awaited_until_its_page_arrives(self, seen):
        key, other, odd = map(fingerprint, range(3))
        assert seen.claim(key, "http://a.test/é?b=1 2", "parse_item")
        assert not seen.claim(key, "http://a.test/other")
        assert not seen.add(key)
        assert seen.add(other)
        assert [seen.claim(each, "http://b.test/") for each in (key, other, odd)] == [0, 0, 1]
        assert seen.awaited(key) == Awaited("http://a.test/é?b=1 2", "parse_item", 1)
        assert seen.awaited(other) is None  # it was added, and not claimed
        assert seen.awaited(odd) == ("http://b.test/", "", 1)
        assert seen.change_under_way(odd, 1) == ("http://b.test/", "", 2)
        assert [seen.change_under_way(odd, -1).under_way for _ in range(3)] == [1, 0, 0]
        assert seen.awaited(odd).under_way == 0
        assert seen.awaited(key).under_way == 1
        for each in (key, other):
            seen.arrived(each)
            assert seen.awaited(each) is None
            assert seen.change_under_way(each, 1) is None
            assert not seen.claim(each, "http://a.test/")
        seen.expect(key, Awaited("http://a.test/again"))
        assert seen.awaited(key) == ("http://a.test/again", "", 1)
        assert seen.forget(key)
        assert seen.awaited(key) is None
        assert seen.claim(key, "http://a.test/anew")

    def test_opened_and_closed_again_it_has_its_keys(self):
        store = self.make()
        assert "store" in store.name
        store.open()
        store.open()
        assert add_all(store, range(1000)) == 1000
        store.claim(fingerprint(1000), "http://a.test/")
        store.forget(fingerprint(7))
        store.close()
        store.close()
        if not self.lasts:
            return
        store.open()
        assert fingerprint(1) in store
        assert store.awaited(fingerprint(1)) is None
        store.close()
        with self.make() as store:
            assert store.awaited(fingerprint(1000)) == ("http://a.test/", "", 1)
            assert len(store) == 1000
            assert store.add(fingerprint(7)) is True
            assert not any(store.add(fingerprint(number)) for number in range(1000))
