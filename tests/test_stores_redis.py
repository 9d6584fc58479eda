"""The store in Redis, on a real one."""

from __future__ import annotations

import time

import pytest
from store_contract import DIGEST, SeenStoreContract, add_all, claim_all, fingerprint, opened

from scrapy_urlnorm.exceptions import StoreError, StoreMismatchError
from scrapy_urlnorm.stores import open_store
from scrapy_urlnorm.stores.seen import MAX_VALUE

redis = pytest.importorskip("redis", reason="the extra 'redis' is not installed")
module = pytest.importorskip("scrapy_urlnorm.stores.redis")
VALUE = bytes(range(MAX_VALUE))
YEARS = 1_000_000_000  #: seconds


class TestRedis(SeenStoreContract):
    options = ""

    @pytest.fixture(autouse=True)
    def _place(self, redis_server, prefix):
        self.spec = f"{redis_server.url}?prefix={prefix}{self.options}"

    def make(self):
        return open_store(self.spec, digest=DIGEST)


class TestRedisWithTimeToLive(TestRedis):
    options = "&ttl=1000000000"


class TestRedisWithACache(TestRedis):
    """As a crawl uses it."""

    def make(self):
        store = open_store(self.spec, digest=DIGEST)
        store.caches_keys = True
        return store


@pytest.mark.parametrize("count", [1_000, 30_000])
def test_a_key_takes_few_bytes(redis_server, redis_client, count, prefix):
    with opened(f"{redis_server.url}?prefix={prefix}") as store:
        assert add_all(store, range(count)) == count
        assert len(store) == count
        assert add_all(store, range(count)) == 0
    names = list(redis_client.scan_iter(f"{prefix}:*", count=1000))
    buckets = [name for name in names if name.count(b":") == 2]
    in_dictionary = 40  # the entry of Redis' own table for a name, and its share of that table
    size = sum(redis_client.memory_usage(name) + in_dictionary for name in names)
    assert size / count < 25
    assert {redis_client.object("encoding", name) for name in buckets} == {b"intset"}
    sizes = [redis_client.scard(name) for name in buckets]
    assert sum(sizes) == count + len(buckets)  # each has a mark besides
    assert max(sizes) < 400


def test_keys_are_spread_over_the_slots_of_a_cluster(redis_server, redis_client, prefix):
    with opened(f"{redis_server.url}?prefix={prefix}") as store:
        add_all(store, range(2_000))
    groups = {}
    for name in redis_client.scan_iter(f"{prefix}:{{*", count=1000):
        tag = name.partition(b"{")[2].partition(b"}")[0]
        groups.setdefault(tag, set()).add(redis.crc.key_slot(name))
    assert len(groups) == 32
    assert all(len(slots) == 1 for slots in groups.values())
    assert len(set.union(*groups.values())) > 25


def test_a_check_is_one_round_trip(redis_server, redis_client, prefix):
    with opened(f"{redis_server.url}?prefix={prefix}") as store:
        store.add(fingerprint(0))
        redis_client.config_resetstat()
        for number in (0, 1, 2):
            store.add(fingerprint(number))
        calls = redis_client.info("commandstats")
    assert calls["cmdstat_evalsha"]["calls"] == 3
    assert "cmdstat_eval" not in calls


def test_the_script_is_loaded_again(redis_server, redis_client, prefix):
    with opened(f"{redis_server.url}?prefix={prefix}") as store:
        redis_client.script_flush()
        assert store.add(fingerprint(0)) is True
        redis_client.script_flush()
        assert claim_all(store, range(100)) == 99


def test_a_key_is_forgotten_after_its_time(redis_server, redis_client, prefix):
    with opened(f"{redis_server.url}?prefix={prefix}&ttl=1") as store:
        started = time.time()
        assert store.add(fingerprint(0)) is True
        added = time.time()
        while fingerprint(0) in store:
            assert time.time() - started < 10
        assert time.time() - started >= 1
        if time.time() - added < 2:
            assert store.add(fingerprint(0)) is True
            assert store.add(fingerprint(0)) is False
        lasting = {b"%b:identity" % prefix.encode()}
        lasting |= {b"%b:{%02x}" % (prefix.encode(), group) for group in range(32)}
        for name in redis_client.scan_iter(f"{prefix}:*"):
            assert name in lasting or redis_client.ttl(name) >= -2
            assert name in lasting or redis_client.ttl(name) != -1


@pytest.mark.parametrize("other", [{"digest": "f" * 16}, {"key_version": 2}, {"ttl": 60}])
def test_other_rules_or_versions_are_refused(redis_server, other, prefix):
    url = f"{redis_server.url}?prefix={prefix}"
    with opened(url) as store:
        store.add(fingerprint(1))
    with pytest.raises(StoreMismatchError) as error:
        opened(url + "&ttl=60") if "ttl" in other else opened(url, **other)
    assert str(next(iter(other.values()))) in str(error.value)
    assert "another prefix" in str(error.value)
    if "ttl" not in other:
        assert DIGEST in str(error.value)
        assert "keep the old rules" in str(error.value)
    with opened(url) as store:
        assert fingerprint(1) in store


def test_keys_without_their_identity_are_refused(redis_server, redis_client, prefix):
    with opened(f"{redis_server.url}?prefix={prefix}") as store:
        store.add(fingerprint(1))
    redis_client.delete(f"{prefix}:identity")
    for _ in range(2):
        with pytest.raises(StoreError, match="is gone"):
            opened(f"{redis_server.url}?prefix={prefix}")


# --- what it said a moment ago ----------------------------------------------------------------


@pytest.fixture
def caching(redis_server, monkeypatch, prefix):
    clock = [1000.0]
    monkeypatch.setattr(module, "monotonic", lambda: clock[0])
    url = f"{redis_server.url}?prefix={prefix}"
    with opened(url) as seen, opened(url) as other:
        seen.caches_keys = True
        yield seen, other, clock


def test_a_key_is_asked_for_once(caching, redis_client):
    seen, other, _ = caching
    assert fingerprint(1) not in seen
    assert add_all(other, (1, 2, 3)) == 3
    assert fingerprint(3) in seen
    assert [seen.add(fingerprint(number)) for number in (0, 1)] == [True, False]
    redis_client.config_resetstat()
    assert not any(seen.add(fingerprint(number)) for number in (0, 1, 3))
    assert all(fingerprint(number) in seen for number in (0, 1, 3))
    assert "cmdstat_evalsha" not in redis_client.info("commandstats")


@pytest.mark.parametrize("steps", [[1.0], [0.1] * 11], ids=["pause", "often"])
def test_what_another_crawler_took_out_is_new_in_time(caching, steps):
    seen, other, clock = caching
    seen.add(fingerprint(1))
    assert other.forget(fingerprint(1))
    answers = [seen.add(fingerprint(1))]
    for step in steps:
        clock[0] += step * module.SECONDS
        answers.append(seen.add(fingerprint(1)))
    assert answers[0] is False
    assert answers.count(True) == 1


def test_what_it_remembers_is_bounded_and_can_be_forgotten(caching, monkeypatch):
    monkeypatch.setattr(module, "MAX_KEYS", 10)
    seen, _, _ = caching
    for number in range(100):
        seen.add(fingerprint(number))
    assert len(seen._known) <= 10
    assert not seen.add(fingerprint(99))
    assert seen.forget(fingerprint(99))
    assert seen.add(fingerprint(99))


# --- pages ----------------------------------------------------------------------------------


@pytest.fixture(params=["", f"&ttl={YEARS}"])
def spec(redis_server, request, prefix):
    return f"{redis_server.url}?prefix={prefix}{request.param}"


def numbered(number):
    return b"%048d" % number


def test_what_one_crawler_puts_the_others_get(spec):
    with opened(spec) as one, opened(spec) as two:
        assert two.page(fingerprint(1)) is None
        one.put_page(fingerprint(1), VALUE)
        one.put_page(fingerprint(2), b"")
        assert two.page(fingerprint(1)) == VALUE
        assert two.page(fingerprint(2)) == b""
        assert two.page(fingerprint(3)) is None
        two.put_page(fingerprint(1), b"7")
        assert one.page(fingerprint(1)) == b"7"


@pytest.mark.parametrize("ttl", ["", f"&ttl={YEARS}"])
def test_they_are_found_however_many_there_are(redis_server, redis_client, ttl, prefix):
    count = 5_000
    with opened(f"{redis_server.url}?prefix={prefix}{ttl}") as store:
        for number in range(count):
            store.put_page(fingerprint(number), numbered(number))
        for number in range(0, count, 7):
            assert store.page(fingerprint(number)) == numbered(number)
        assert store.page(fingerprint(count)) is None
        for number in range(0, count, 2):
            store.put_page(fingerprint(number), numbered(number))
    names = list(redis_client.scan_iter(f"{prefix}:*:pages*", count=1000))
    buckets = [name for name in names if b"keys" not in redis_client.hkeys(name)]
    assert sum(redis_client.hlen(name) for name in buckets) == count
    assert {redis_client.object("encoding", name) for name in buckets} == {b"listpack"}
    in_dictionary = 40  # the entry of Redis' own table for a name, and its share of that table
    size = sum(redis_client.memory_usage(name) + in_dictionary for name in names)
    assert size / count < 24 + MAX_VALUE


def test_an_entry_goes_after_its_time(redis_server, redis_client, prefix):
    with opened(f"{redis_server.url}?prefix={prefix}&ttl=1") as store:
        started = time.time()
        store.put_page(fingerprint(0), VALUE)
        names = list(redis_client.scan_iter(f"{prefix}:*:pages*"))
        assert all(redis_client.ttl(name) != -1 for name in names)
        while store.page(fingerprint(0)) is not None:
            assert time.time() - started < 10
        assert time.time() - started >= 1


def test_an_entry_of_the_period_before_is_found(redis_server, redis_client, prefix):
    with opened(f"{redis_server.url}?prefix={prefix}&ttl={YEARS}") as store:
        for number in range(10):
            store.put_page(fingerprint(number), VALUE)
        period = b":%d" % (int(time.time()) // YEARS)
        for name in list(redis_client.scan_iter(f"{prefix}:*:pages*")):
            redis_client.rename(name, name.replace(period, b":%d" % (int(period[1:]) - 1)))
        assert all(store.page(fingerprint(number)) == VALUE for number in range(10))
        store.put_page(fingerprint(3), b"new")
        assert store.page(fingerprint(3)) == b"new"


def test_a_value_that_is_too_long_is_refused(spec):
    with opened(spec) as store:
        with pytest.raises(ValueError, match="at most 48"):
            store.put_page(fingerprint(1), VALUE + b"x")
        assert store.page(fingerprint(1)) is None


def test_a_store_of_one_crawler_has_none(tmp_path):
    for spec in ("memory", f"sqlite:{tmp_path / 'seen'}"):
        with open_store(spec, digest=DIGEST) as store:
            assert not store.is_shared
            store.put_page(fingerprint(1), VALUE)
            assert store.page(fingerprint(1)) is None
