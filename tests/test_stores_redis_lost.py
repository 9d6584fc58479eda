"""A Redis that loses keys, or is filled anew by another crawler: a clear stop, never "new"."""

from __future__ import annotations

import itertools
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest
from loopback import Site, crawl, page
from redis_server import RedisServer
from store_contract import DIGEST, fingerprint, opened

from scrapy_urlnorm.exceptions import StoreError, StoreMismatchError
from scrapy_urlnorm.stores import Identity, open_store

redis = pytest.importorskip("redis", reason="the extra 'redis' is not installed")
_prefixes = map("crawl{}".format, itertools.count())
KEYS = 6_000
YEARS = 1_000_000_000  #: seconds


@pytest.fixture(scope="module")
def redis_server():
    """One for all tests here: each has a prefix of its own."""
    with RedisServer() as server:
        yield server


@pytest.fixture
def client(redis_server):
    """A client of redis-py."""
    with redis.Redis.from_url(redis_server.url) as client:
        yield client


@pytest.fixture(params=["", f"&ttl={YEARS}"])
def place(redis_server, request):
    """A prefix that nobody has used, and the URL of a store there, with and without a time."""
    prefix = next(_prefixes)
    return prefix, f"{redis_server.url}?prefix={prefix}{request.param}"


def assert_all_are_lost(store):
    """Whatever it is asked, of a key that it had and of another, it says that keys are lost."""
    pages = store.shared_pages()
    for ask in (
        store.add,
        store.__contains__,
        store.forget,
        lambda key: store.add_many([key, fingerprint(-2)]),
        pages.get,
        lambda key: pages.put(key, b"value"),
    ):
        for key in (fingerprint(1), fingerprint(-1)):
            with pytest.raises(StoreError, match="lost its keys"):
                ask(key)
    with pytest.raises(StoreError, match="lost its keys"):
        len(store)


def answer(store, number):
    """What the store says of a key that it was given: new, seen, or that it lost some."""
    try:
        return "new" if store.add(fingerprint(number)) else "seen"
    except StoreError as error:
        if "lost its keys" not in str(error):
            raise
        return "lost"


def answers(store, numbers):
    """What it says of many."""
    return [answer(store, number) for number in numbers]


@pytest.mark.parametrize("ttl", ["", f"&ttl={YEARS}"])
def test_a_second_crawler_after_a_flush_does_not_hide_it(ttl):
    """It makes a store of its own there; the first one is told that its keys are gone."""
    with RedisServer() as server, redis.Redis.from_url(server.url) as client:
        url = f"{server.url}?prefix=p{ttl}"
        with opened(url) as first:
            first.add_many(map(fingerprint, range(100)))
            client.flushall()
            with opened(url) as second:
                assert second.add(fingerprint(1)) is True
                assert_all_are_lost(first)
                assert second.add(fingerprint(1)) is False
                assert len(second) == 1


def test_a_second_crawler_after_a_restart_does_not_hide_it():
    """Nor when Redis was restarted without persistence."""
    with RedisServer() as server, opened(f"{server.url}?prefix=p") as first:
        first.add_many(map(fingerprint, range(100)))
        server.kill()
        server.start()
        with opened(f"{server.url}?prefix=p"):
            assert_all_are_lost(first)


def test_a_flush_ends_the_crawl():
    """With the reason for a failed store, although another crawler's stands there at once."""
    with RedisServer() as server, redis.Redis.from_url(server.url) as client:
        url = f"{server.url}?prefix=p"
        asked = itertools.count()

        def site_of(asked_for):
            number = next(asked)
            if number == 20:
                opened(f"{url}&db=1", digest=made_with[0]).close()
                client.swapdb(0, 1)  # a flush, and a new store, in one step
            elif not made_with:
                found = Identity.from_bytes(client.get("p:identity").partition(b"\n")[0], "")
                made_with.append(found.digest)
            more = (asked_for + "a", asked_for + "b") if number < 300 else ()
            return page(asked_for, *more)

        made_with = []
        settings = {"ADDONS": {"scrapy_urlnorm.Addon": 900}, "URLNORM_STORE": url}
        with Site(site_of) as site:
            result = crawl(site, ["http://shop.test/"], settings)
    assert result.reason == "urlnorm_store_error"
    assert 20 < len(site.requests) < 100
    assert len(set(site.requests)) == len(site.requests)


def test_lost_buckets_are_noticed(place, client):
    """Half of them thrown away: a key that was seen is never new, and most say what happened."""
    prefix, url = place
    with opened(url) as store:
        assert store.add_many(map(fingerprint, range(KEYS))) == KEYS
        buckets = [name for name in client.scan_iter(f"{prefix}:*") if client.type(name) == b"set"]
        random.Random(3).shuffle(buckets)
        client.delete(*buckets[::2])
        said = answers(store, range(KEYS))
        assert said.count("new") == 0
        assert KEYS / 3 < said.count("lost") < KEYS * 2 / 3
        assert answers(store, range(KEYS)) == said
        for number, what in zip(range(50), said, strict=False):
            for ask in (store.__contains__, store.forget):
                if what == "lost":
                    with pytest.raises(StoreError, match="lost its keys"):
                        ask(fingerprint(number))
                else:
                    assert ask(fingerprint(number)) is True


def test_a_lost_bucket_is_not_made_again_by_a_split(redis_server, client):
    """Keys of other buckets fill the table; the bucket to be split is missing."""
    prefix = next(_prefixes)
    with opened(f"{redis_server.url}?prefix={prefix}") as store:
        store.add_many(map(fingerprint, range(KEYS)))
        sizes = [int(client.hget(f"{prefix}:{{{n:02x}}}", "buckets")) for n in range(32)]
        for number, size in enumerate(sizes):
            client.delete(f"{prefix}:{{{number:02x}}}:{size - 2 ** (size.bit_length() - 1)}")
        answers(store, range(KEYS, 3 * KEYS))
        assert "new" not in answers(store, range(KEYS))


def test_a_lost_group_is_noticed(place, client):
    """Deleted, renamed, or another one in its place: its keys are lost, and no crawler begins."""
    prefix, url = place
    for lose in (
        lambda: client.delete(f"{prefix}:{{00}}"),
        lambda: client.rename(f"{prefix}:{{01}}", f"{prefix}:{{02}}"),
        lambda: client.copy(f"{prefix}:{{05}}", f"{prefix}:{{04}}", replace=True),
    ):
        with opened(url) as store:
            store.add_many(map(fingerprint, range(KEYS)))
            lose()
            said = answers(store, range(KEYS))
            assert "new" not in said
            assert "lost" in said
            with pytest.raises(StoreError, match="lost its keys"):
                opened(url)
        client.delete(*client.scan_iter(f"{prefix}:*"))


def test_a_bucket_of_another_store_in_its_place_is_noticed(redis_server, client):
    """Its keys do not stand for those that were there."""
    mine, other = next(_prefixes), next(_prefixes)
    with opened(f"{redis_server.url}?prefix={other}") as store:
        store.add(fingerprint(1))
    with opened(f"{redis_server.url}?prefix={mine}") as store:
        store.add_many(map(fingerprint, range(1000)))
        client.rename(f"{other}:{{07}}:0", f"{mine}:{{07}}:0")
        said = answers(store, range(1000))
    assert set(said) == {"seen", "lost"}


@pytest.mark.parametrize("which", ["current", "before"])
def test_a_lost_table_of_a_period_is_noticed(redis_server, client, which):
    """With a time to live each period has a table, and the group knows which were made."""
    prefix = next(_prefixes)
    with opened(f"{redis_server.url}?prefix={prefix}&ttl={YEARS}") as store:
        store.add_many(map(fingerprint, range(1000)))
        if which == "before":
            make_a_period_older(client, prefix)
        assert "lost" not in answers(store, range(1000))
        period = int(time.time()) // YEARS - (which == "before")
        client.delete(*[f"{prefix}:{{{number:02x}}}:{period}" for number in range(32)])
        assert set(answers(store, range(1000))) == {"lost"}


def make_a_period_older(client, prefix):
    """Give the tables of the current period to the one before, as time would."""
    period = int(time.time()) // YEARS
    for number in range(32):
        group = f"{prefix}:{{{number:02x}}}"
        for name in list(client.scan_iter(f"{prefix}:*{number:02x}}}:{period}*")):
            client.rename(name, name.replace(b"}:%d" % period, b"}:%d" % (period - 1)))
        if client.hexists(group, "last"):
            client.hset(group, "last", f"{group}:{period - 1}")


def test_keys_of_the_period_before_are_seen(redis_server, client):
    """Until their time is over; they can be forgotten, and then are new."""
    prefix = next(_prefixes)
    with opened(f"{redis_server.url}?prefix={prefix}&ttl={YEARS}") as store:
        store.add_many(map(fingerprint, range(10)))
        make_a_period_older(client, prefix)
        assert len(store) == 10
        assert store.add_many(map(fingerprint, range(10))) == 0
        assert fingerprint(3) in store
        assert store.forget(fingerprint(3)) is True
        assert len(store) == 9
        assert store.add(fingerprint(3)) is True
        assert len(store) == 10


def test_keys_that_are_thrown_away_end_the_crawl():
    """Real eviction: a Redis that is short of memory and set to throw keys away."""
    with RedisServer() as server, redis.Redis.from_url(server.url) as client:
        with opened(f"{server.url}?prefix=p") as store:
            count = 30_000
            store.add_many(map(fingerprint, range(count)))
            client.config_set("maxmemory-policy", "allkeys-random")
            client.config_set("maxmemory", client.info("memory")["used_memory"] - 100_000)
            said = answers(store, range(count))
        assert "new" not in said
        assert "lost" in said


# --- how a store is made -------------------------------------------------------------------


def integers(client, prefix):
    """All that stands for keys at *prefix*."""
    names = [name for name in client.scan_iter(f"{prefix}:*") if client.type(name) == b"set"]
    return set().union(*map(client.smembers, names))


def test_each_store_hashes_with_a_salt_of_its_own(redis_server, client):
    """Nobody can search for two URLs with one hash; crawlers at one store share it."""
    stores = [next(_prefixes) for _ in range(2)]
    for prefix in stores:
        with (
            opened(f"{redis_server.url}?prefix={prefix}") as one,
            opened(f"{redis_server.url}?prefix={prefix}") as two,
        ):
            assert one.add_many(map(fingerprint, range(500))) == 500
            assert two.add_many(map(fingerprint, range(500))) == 0
    found = [integers(client, prefix) for prefix in stores]
    assert len(found[0]) == len(found[1]) == 532  # and the marks
    assert not found[0] & found[1]


class _Killed(BaseException):
    pass


@pytest.mark.parametrize("ttl", ["", f"&ttl={YEARS}"])
def test_a_store_is_whole_although_its_maker_was_killed(redis_server, ttl):
    """Wherever that was between two commands, the next crawler ends what was begun."""
    real = redis.connection.AbstractConnection.send_packed_command
    unmade = 0
    for allowed in range(12):
        url = f"{redis_server.url}?prefix={next(_prefixes)}{ttl}"
        left = iter(range(allowed))

        def send(connection, command, left=left, **options):
            if next(left, None) is None:
                raise _Killed
            return real(connection, command, **options)

        with mock.patch.object(redis.connection.AbstractConnection, "send_packed_command", send):
            try:
                opened(url).close()
            except _Killed:
                unmade += 1
        with opened(url) as one, opened(url) as two:
            assert one.add_many(map(fingerprint, range(100))) == 100
            assert two.add_many(map(fingerprint, range(100))) == 0
    assert 3 < unmade < 12


def test_crawlers_that_begin_at_once_share_one_store(redis_server):
    """Whoever is first makes it, and all have its salt."""
    for _ in range(10):
        url = f"{redis_server.url}?prefix={next(_prefixes)}"
        gate = threading.Barrier(8, timeout=60)

        def begin(number, url=url, gate=gate):
            with open_store(url, digest=DIGEST) as store:
                gate.wait()
                return [n for n in range(100) if store.add(fingerprint((n + number) % 100))]

        with ThreadPoolExecutor(8) as pool:
            new = list(pool.map(begin, range(8)))
        assert sum(map(len, new)) == 100


# --- identities --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"\n",
        b"making ",
        b"making \n0",
        b"something else",
        Identity(DIGEST).to_bytes(),
        Identity(DIGEST).to_bytes() + b"\nsoon",
        Identity(DIGEST).to_bytes() + b"\n\xff",
        Identity(DIGEST)._replace(format=3).to_bytes() + b"\n0",
        Identity(DIGEST)._replace(format=1, salt=b"s" * 16).to_bytes() + b"\n0",
        Identity(DIGEST)._replace(salt=b"s").to_bytes() + b"\n0",
        b"scrapy-urlnorm seen " + b"[" * 100_000,
        b'scrapy-urlnorm seen {"digest": "", "key_version": 1e999, "format": 1}\n0',
        b'scrapy-urlnorm seen {"digest": "", "key_version": 1, "format": 2, "salt": "xyz"}\n0',
        b'scrapy-urlnorm seen {"digest": "", "key_version": 1, "format": 2, "salt": 7}\n0',
        b"scrapy-urlnorm seen []\n0",
    ],
)
def test_a_damaged_identity_is_refused(redis_server, client, record):
    """Whatever stands there, it is a mismatch, and stays as it is."""
    prefix = next(_prefixes)
    client.set(f"{prefix}:identity", record)
    with pytest.raises(StoreMismatchError):
        opened(f"{redis_server.url}?prefix={prefix}")
    assert client.get(f"{prefix}:identity") == record
