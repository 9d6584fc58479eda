"""SeenStoreContract: what every store does, written once; and what its tests share."""

from __future__ import annotations

import random
from hashlib import sha1

import pytest

from scrapy_urlnorm.stores import open_store

DIGEST = "0123456789abcdef"


def fingerprint(number):
    """A key as Scrapy makes them."""
    return sha1(b"%d" % number, usedforsecurity=False).digest()


def opened(spec, digest=DIGEST, **options):
    """Open the store that *spec* names."""
    store = open_store(spec, digest=digest, spider="test", **options)
    store.open()
    return store


class SeenStoreContract:
    """A subclass has ``make()``: a new store object for one and the same place, not opened."""

    lasts = True  #: whether keys are there after another object opens the place

    @pytest.fixture
    def seen(self):
        """An open, empty store."""
        with self.make() as store:
            yield store

    def test_a_key_is_new_once(self, seen):
        """The first add of a key says new, later ones do not."""
        assert seen.add(fingerprint(1)) is True
        assert seen.add(fingerprint(1)) is False
        assert seen.add(fingerprint(2)) is True
        assert seen.add(fingerprint(1)) is False

    def test_contains_does_not_add(self, seen):
        """Asking leaves no trace."""
        assert fingerprint(1) not in seen
        assert fingerprint(1) not in seen
        assert seen.add(fingerprint(1)) is True
        assert fingerprint(1) in seen

    def test_len_counts_distinct_keys(self, seen):
        """Neither keys added twice nor keys forgotten count."""
        assert len(seen) == 0
        for number in (1, 2, 3, 1, 2):
            seen.add(fingerprint(number))
        assert len(seen) == 3
        seen.forget(fingerprint(3))
        assert len(seen) == 2

    def test_a_forgotten_key_is_new_again(self, seen):
        """Forgetting takes out one key and says whether it was there."""
        seen.add(fingerprint(1))
        seen.add(fingerprint(2))
        assert seen.forget(fingerprint(1)) is True
        assert seen.forget(fingerprint(1)) is False
        assert fingerprint(1) not in seen
        assert fingerprint(2) in seen
        assert seen.add(fingerprint(1)) is True

    @pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 16, 19, 20, 21, 32, 255, 4096])
    def test_keys_of_any_length(self, seen, length):
        """Keys that differ in their last byte alone, or in length alone, are different keys."""
        keys = [b"\0" * length, b"\0" * (length - 1) + b"\1", b"\0" * (length + 1)]
        assert [seen.add(key) for key in keys] == [True, True, True]
        assert [seen.add(key) for key in keys] == [False, False, False]
        assert seen.forget(keys[1])
        assert [key in seen for key in keys] == [True, False, True]

    def test_keys_that_are_not_random(self, seen):
        """Counters, at either end of the key, are as good as fingerprints."""
        keys = {number.to_bytes(20, order) for number in range(400) for order in ("big", "little")}
        assert all(seen.add(key) for key in keys)
        assert not any(seen.add(key) for key in keys)
        assert len(seen) == len(keys)

    @pytest.mark.parametrize("bad", ["text", None, b""])
    def test_what_is_no_key_is_refused(self, seen, bad):
        """It is an error, never a key that is taken as seen."""
        for ask in (seen.add, seen.__contains__, seen.forget):
            with pytest.raises((TypeError, ValueError, IndexError)):
                ask(bad)
        assert len(seen) == 0

    def test_it_does_what_a_set_does(self, seen):
        """Thousands of random steps give the answers that a Python set gives."""
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
        """It does what adding one by one does, keys that come twice among them."""
        seen.add(fingerprint(3))
        keys = [fingerprint(number % 3000) for number in range(6000)]
        assert seen.add_many(iter(keys)) == 2999
        assert seen.add_many(keys) == 0
        assert len(seen) == 3000

    def test_closing_twice_and_opening_again(self):
        """A store that was closed opens again; what lasts is still there."""
        store = self.make()
        store.open()
        store.open()
        store.add(fingerprint(1))
        store.close()
        store.close()
        if self.lasts:
            store.open()
            assert fingerprint(1) in store
            store.close()

    def test_keys_last(self):
        """What one object put in or took out, the next one knows."""
        if not self.lasts:
            assert not self.lasts
            return
        with self.make() as store:
            assert store.add_many(map(fingerprint, range(1000))) == 1000
            store.forget(fingerprint(7))
        with self.make() as store:
            assert len(store) == 999
            assert store.add(fingerprint(7)) is True
            assert not any(store.add(fingerprint(number)) for number in range(1000))

    def test_its_name_is_in_words(self):
        """Messages name the store."""
        assert "store" in self.make().name
