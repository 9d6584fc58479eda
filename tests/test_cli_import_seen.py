"""import-seen with a list of URLs: what another dupefilter saw, under any rules."""

from __future__ import annotations

import json

import pytest
from cli_runner import Runner
from hypothesis import example, given
from redis_server import RedisServer
from scrapy import Request
from scrapy.dupefilters import RFPDupeFilter
from scrapy.utils.request import RequestFingerprinter
from scrapy.utils.request import fingerprint as stock_fingerprint

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.cli.import_seen import fingerprints_of
from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter
from scrapy_urlnorm.normalizer import KEY_VERSION
from scrapy_urlnorm.stores import open_store
from scrapy_urlnorm.testing.strategies import anything

SEEN = ["http://a.test/", "http://a.test/b?y=1&x=2&utm_source=z", "http://a.test/%7Ec?sid=1#top"]
NOT_SEEN = ["http://a.test/d", "http://a.test/b?x=2", "mailto:a@b.test", "no URL"]
PROFILES = ["safe", "default", "aggressive"]


@pytest.fixture
def run(capfdbinary, monkeypatch):
    """Run the command line in this process."""
    return Runner(capfdbinary, monkeypatch)


@pytest.fixture(scope="module")
def server():
    """A Redis of this module."""
    pytest.importorskip("redis")
    with RedisServer() as running:
        yield running


@pytest.fixture
def log(tmp_path):
    """The log of a crawl with more URLs than the old set."""
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps({"url": url}) + "\n" for url in [*NOT_SEEN, *SEEN]))
    return path


@pytest.fixture(params=["requests.seen", "scrapy-redis", "scrapy-redis with Scrapy's"])
def old(request, tmp_path):
    """The arguments that name a seen-set which the real dupefilter wrote, of one URL more."""
    requests = [Request(url) for url in [*SEEN, "http://a.test/in-no-log"]]
    if request.param == "requests.seen":
        dupefilter = RFPDupeFilter(str(tmp_path), fingerprinter=RequestFingerprinter())
        assert not any(map(dupefilter.request_seen, requests))
        dupefilter.close("finished")
        return (tmp_path / "requests.seen",)
    server = request.getfixturevalue("server")
    redis = pytest.importorskip("redis")
    theirs = pytest.importorskip("scrapy_redis.dupefilter").RFPDupeFilter
    key = request.node.name
    with redis.Redis.from_url(server.url) as client:
        dupefilter = theirs(client, key)
        if "Scrapy's" in request.param:
            dupefilter.request_fingerprint = lambda each: stock_fingerprint(each).hex()
        assert not any(map(dupefilter.request_seen, requests))
    return (server.url, "--key", key)


def keys_in(path, normalizer, asked):
    """Which URLs a store holds, as a crawl would ask it."""
    fingerprint = UrlNormRequestFingerprinter(normalizer).fingerprint
    with open_store(f"sqlite:{path}", digest=normalizer.digest, key_version=KEY_VERSION) as store:
        return [url for url in asked if fingerprint(Request(url)) in store], len(store)


@pytest.mark.parametrize("profile", PROFILES)
def test_what_was_seen_is_seen_under_any_rules(run, tmp_path, log, old, profile):
    """Of the URLs of the log those of the old set, no other; the rest of the set is counted."""
    path = tmp_path / "new.seen"
    argv = ("--urls", log, "--store", f"sqlite:{path}", "--profile", profile)
    code, out, err = run("import-seen", *old, *argv)
    assert (code, out) == (0, "")
    assert "7 URLs, 3 of them in the old set, 3 new keys. 1 of its 4 fingerprints" in err
    assert keys_in(path, Normalizer(profile), [*SEEN, *NOT_SEEN[:2]]) == (SEEN, 3)
    assert "3 of them in the old set, 0 new keys" in run("import-seen", *old, *argv).err


def test_long_logs_are_asked_for_in_batches(run, tmp_path, old, monkeypatch):
    """Wherever a batch ends, and however often a URL comes, the answer is the same."""
    monkeypatch.setattr("scrapy_urlnorm.cli.import_seen._BATCH", 2)
    logs = tmp_path / "one", tmp_path / "two"
    logs[0].write_text("".join(url + "\n" for url in [SEEN[0], *SEEN, NOT_SEEN[0]]))
    logs[1].write_text("".join(url + "\n" for url in [*SEEN[:1], "http://a.test/in-no-log"]))
    path = tmp_path / "new.seen"
    argv = ("--urls", logs[0], "--urls", logs[1], "--store", f"sqlite:{path}")
    err = run("import-seen", *old, *argv).err
    assert "7 URLs, 6 of them in the old set, 4 new keys. 0 of its 4 fingerprints" in err


def test_a_list_of_another_crawl_is_refused(run, tmp_path, old):
    """Nothing is written when no URL is in the set."""
    log, path = tmp_path / "log", tmp_path / "new.seen"
    log.write_text("http://b.test/\n")
    code, _, err = run("import-seen", *old, "--urls", log, "--store", f"sqlite:{path}")
    assert code == 2
    assert "of 1 URL none is in" in err
    assert not path.exists()


def test_a_key_that_is_no_set_is_named(run, tmp_path, log, server):
    """What Redis answers is said, with the key."""
    redis = pytest.importorskip("redis")
    with redis.Redis.from_url(server.url) as client:
        client.set("text", "x")
    argv = ("--urls", log, "--store", f"sqlite:{tmp_path}/new.seen")
    code, _, err = run("import-seen", server.url, "--key", "text", *argv)
    assert code == 2
    assert "text: " in err
    assert "WRONGTYPE" in err
    assert run("import-seen", "redis://h:port", "--key", "text", *argv).code == 2


def test_from_a_set_in_redis_into_a_store_beside_it(run, log, server):
    """The crawl of the spider finds the keys under its name."""
    redis = pytest.importorskip("redis")
    theirs = pytest.importorskip("scrapy_redis.dupefilter").RFPDupeFilter
    with redis.Redis.from_url(server.url) as client:
        assert not theirs(client, "shop:dupefilter").request_seen(Request(SEEN[0]))
    argv = ("--key", "shop:dupefilter", "--urls", log, "--store", server.url)
    assert run("import-seen", server.url, *argv).code == 2
    assert run("import-seen", server.url, *argv, "--spider", "shop").code == 0
    normalizer = Normalizer()
    key = UrlNormRequestFingerprinter(normalizer).fingerprint(Request(SEEN[0]))
    with open_store(
        server.url, digest=normalizer.digest, key_version=KEY_VERSION, spider="shop"
    ) as store:
        assert (key in store, len(store)) == (True, 1)


@given(anything)
@example("http://bücher.test/ü?ß=%E9&a=b c#x")
@example("http://[::1")
def test_fingerprints_are_those_of_the_real_ones(url):
    """Scrapy's and scrapy-redis's, of every URL that a request can have."""
    theirs = pytest.importorskip("scrapy_redis.dupefilter").RFPDupeFilter(None, "key")
    try:
        request = Request(url)
        expected = [stock_fingerprint(request).hex(), theirs.request_fingerprint(request)]
    except ValueError:
        expected = []
    assert [each.hex() for each in fingerprints_of(url)] == expected
