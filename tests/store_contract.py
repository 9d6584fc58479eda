"""SeenStoreContract: what every store does, written once; and what its tests share."""

from __future__ import annotations

import random
from hashlib import sha1

import pytest

from scrapy_urlnorm.stores import open_store

DIGEST = "0123456789abcdef"


def fingerprint(number):
    return sha1(b"%d" % number, usedforsecurity=False).digest()


def opened(spec, digest=DIGEST, **options):
    store = open_store(spec, digest=digest, spider="test", **options)
    store.open()
    return store


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

    def test_add_many_counts_the_new_ones(self, seen):
        seen.add(fingerprint(3))
        keys = [fingerprint(number % 3000) for number in range(6000)]
        assert seen.add_many(iter(keys)) == 2999
        assert seen.add_many(keys) == 0
        assert len(seen) == 3000

    def test_opened_and_closed_again_it_has_its_keys(self):
        store = self.make()
        assert "store" in store.name
        store.open()
        store.open()
        assert store.add_many(map(fingerprint, range(1000))) == 1000
        store.forget(fingerprint(7))
        store.close()
        store.close()
        if not self.lasts:
            return
        store.open()
        assert fingerprint(1) in store
        store.close()
        with self.make() as store:
            assert len(store) == 999
            assert store.add(fingerprint(7)) is True
            assert not any(store.add(fingerprint(number)) for number in range(1000))
