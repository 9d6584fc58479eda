"""rekey and import-seen: what a crawl with other rules finds in the store they fill."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import example, given
from loopback import Site, crawl, page
from redis_server import RedisServer
from scrapy import Request
from scrapy.dupefilters import RFPDupeFilter
from scrapy.utils.request import RequestFingerprinter
from scrapy.utils.request import fingerprint as stock_fingerprint
from strategies import anything

from scrapy_urlnorm import Normalizer, load_site_rules
from scrapy_urlnorm.cli.stores import fingerprints_of
from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter
from scrapy_urlnorm.normalizer import KEY_VERSION
from scrapy_urlnorm.stores import open_store

URLS = ["http://a.test/", "http://a.test/b?y=1&x=2&utm_source=z", "http://a.test/%7Ec?sid=1#top"]
NOT_SEEN = ["http://a.test/d", "http://a.test/b?x=2", "mailto:a@b.test", "no URL"]
PROFILES = ["safe", "default", "aggressive"]


def seen(store, urls, normalizer=None, **options):
    normalizer = normalizer or Normalizer()
    fingerprint = UrlNormRequestFingerprinter(normalizer).fingerprint
    spec = store if isinstance(store, str) else f"sqlite:{store}"
    options |= {"digest": normalizer.digest, "key_version": KEY_VERSION}
    with open_store(spec, **options) as keys:
        return [fingerprint(Request(url)) in keys for url in urls]


@pytest.fixture
def lists(file):
    return lambda *urls, name="urls": file("".join(f"{url}\n" for url in urls), name)


@pytest.fixture
def log(file):
    return file("".join(json.dumps({"url": url}) + "\n" for url in [*NOT_SEEN, *URLS]))


@pytest.fixture(scope="module")
def server():
    redis = pytest.importorskip("redis")
    with RedisServer() as running, redis.Redis.from_url(running.url) as client:
        yield running.url, client


# --- rekey ----------------------------------------------------------------------------------


def test_rekey_builds_a_store_for_other_rules(run, lists, tmp_path):
    path, rules = tmp_path / "new.seen", tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nsite = "a.test"\nkind = "drop-param"\nparam = "sid"\n')
    argv = ("rekey", lists(*URLS), "--site-rules", rules, "--store", f"sqlite:{path}")
    code, out, err = run(*argv)
    assert (code, out) == (0, "")
    assert "3 rows, 3 new keys" in err
    asked = [*URLS, "http://a.test/~c?sid=2", "http://a.test/b?x=2&y=1", "http://a.test/d"]
    rules = Normalizer(site_rules=load_site_rules(rules))
    assert seen(path, asked, rules) == [True] * 5 + [False]


def test_a_store_of_other_rules_is_refused(run, lists, tmp_path):
    """What is there already stays as it is, and the way on is said. One in memory is of no use."""
    log, path = lists(URLS[0]), tmp_path / "seen"
    assert run("rekey", log, "--store", f"sqlite:{path}").code == 0
    before = path.read_bytes()
    code, _, err = run("rekey", log, "--store", f"sqlite:{path}", "--profile", "aggressive")
    assert code == 2
    assert str(path) in err
    assert path.read_bytes() == before
    assert "0 new keys" in run("rekey", log, "--store", f"sqlite:{path}").err
    for argv in (("rekey", log), ("rekey", log, "--store", "memory"), ("import-seen", "x")):
        code, _, err = run(*argv)
        assert code == 2
        assert "--store" in err


def test_a_store_in_redis_needs_the_name_of_its_spider(run, lists, server):
    url, client = server
    log = lists(URLS[0])
    code, _, err = run("rekey", log, "--store", url)
    assert code == 2
    assert "--spider NAME" in err
    assert "?prefix=SPIDER:urlnorm" in err
    assert run("rekey", log, "--store", url, "--spider", "shoes").code == 0
    assert client.exists("shoes:urlnorm:identity")
    assert run("rekey", log, "--store", url + "?prefix=hats").code == 0
    assert client.exists("hats:identity")


# --- import-seen without a list --------------------------------------------------------------


def write_seen(path, kind, urls=URLS):
    keys = [stock_fingerprint(Request(url)) for url in urls]
    if kind == "text":
        path.write_text("".join(key.hex() + "\n" for key in keys))
    else:
        path.write_bytes(b"".join(b"\0\x14" + key for key in keys))


@pytest.mark.parametrize("kind", ["text", "bytes"])
def test_import_seen_takes_over_what_holds(run, tmp_path, kind):
    path, store = tmp_path / "requests.seen", tmp_path / "new.seen"
    urls = [*URLS[:2], "http://a.test/c?sid=1"]
    write_seen(path, kind, urls)
    code, _, err = run("import-seen", path, "--store", f"sqlite:{store}")
    assert code == 0
    assert "3 fingerprints, 3 of them new" in err
    assert "fetched once more" in err
    assert seen(store, urls) == [True, False, True]
    assert seen(store, ["http://a.test/c?sid=1#x", "http://A.TEST"]) == [True, True]
    # A crawl that was killed leaves half a fingerprint at the end.
    path.write_bytes(path.read_bytes()[:-7])
    assert "2 fingerprints" in run("import-seen", path, "--store", f"sqlite:{store}2").err


def test_import_seen_of_a_real_crawl(run, tmp_path):
    """What this Scrapy writes into its JOBDIR is read, and a crawl with the store believes it."""
    pages = {"http://a.test/": page("home", "/b", "/c"), "http://a.test/b": page("b")}
    pages["http://a.test/c"] = page("c", "/d")
    pages["http://a.test/d"] = page("d")
    old, store = tmp_path / "old", tmp_path / "new.seen"
    with Site({**pages, "http://a.test/c": page("c")}) as site:
        crawl(site, ["http://a.test/"], {"JOBDIR": str(old)})
    assert run("import-seen", old / "requests.seen", "--store", f"sqlite:{store}").code == 0
    settings = {"ADDONS": {"scrapy_urlnorm.Addon": 900}, "URLNORM_STORE": f"sqlite:{store}"}
    with Site(pages) as site:
        result = crawl(site, ["http://a.test/", "http://a.test/d"], settings)
    assert sorted(result.pages) == ["d", "home"], "b and c were seen, d was not"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "does not hold the fingerprints"),
        (b"hello world", "does not hold the fingerprints"),
        (b"\0\x03abc\0\x03abc", "does not hold the fingerprints"),
        (b"ab\ncd\n", "does not hold the fingerprints"),
        (b"SQLite format 3\0", "is a store of this package already"),
    ],
)
def test_what_scrapy_did_not_write_is_refused(run, tmp_path, data, said):
    path = tmp_path / "requests.seen"
    path.write_bytes(data)
    code, _, err = run("import-seen", path, "--store", f"sqlite:{tmp_path}/seen")
    assert code == 2
    assert said in err
    assert not (tmp_path / "seen").exists()


@pytest.mark.parametrize("rule", ["sort-query", "remove-fragment"])
def test_import_seen_is_refused_where_it_would_lose_pages(run, tmp_path, rule):
    path = tmp_path / "requests.seen"
    write_seen(path, "text")
    for options in (["--profile", "safe"], ["--rule", f"{rule}=false"]):
        code, _, err = run("import-seen", path, "--store", f"sqlite:{tmp_path}/x", *options)
        assert code == 2
        assert rule in err
        assert "rekey" in err
    assert not (tmp_path / "x").exists()


# --- import-seen with a list -----------------------------------------------------------------


@pytest.fixture(params=["requests.seen", "scrapy-redis", "scrapy-redis with Scrapy's"])
def old(request, tmp_path):
    """The arguments that name a seen-set which the real dupefilter wrote, of one URL more."""
    requests = [Request(url) for url in [*URLS, "http://a.test/in-no-log"]]
    if request.param == "requests.seen":
        dupefilter = RFPDupeFilter(str(tmp_path), fingerprinter=RequestFingerprinter())
        assert not any(map(dupefilter.request_seen, requests))
        dupefilter.close("finished")
        return (tmp_path / "requests.seen",)
    url, client = request.getfixturevalue("server")
    theirs = pytest.importorskip("scrapy_redis.dupefilter").RFPDupeFilter
    dupefilter = theirs(client, request.node.name)
    if "Scrapy's" in request.param:
        dupefilter.request_fingerprint = lambda each: stock_fingerprint(each).hex()
    assert not any(map(dupefilter.request_seen, requests))
    return (url, "--key", request.node.name)


@pytest.mark.parametrize("profile", PROFILES)
def test_what_was_seen_is_seen_under_any_rules(run, tmp_path, log, old, profile):
    """Of the URLs of the log those of the old set, no other; the rest of the set is counted."""
    path = tmp_path / "new.seen"
    argv = ("--urls", log, "--store", f"sqlite:{path}", "--profile", profile)
    code, out, err = run("import-seen", *old, *argv)
    assert (code, out) == (0, "")
    assert "7 URLs, 3 of them in the old set, 3 new keys. 1 of its 4 fingerprints" in err
    asked = [*URLS, *NOT_SEEN[:2]]
    assert seen(path, asked, Normalizer(profile)) == [True] * 3 + [False] * 2
    assert "3 of them in the old set, 0 new keys" in run("import-seen", *old, *argv).err


def test_several_lists_are_one(run, lists, tmp_path, old):
    one = lists(URLS[0], *URLS, NOT_SEEN[0], name="one")
    two = lists(URLS[0], "http://a.test/in-no-log", name="two")
    argv = ("import-seen", *old, "--store", f"sqlite:{tmp_path}/new.seen", "--urls")
    code, _, err = run(*argv, lists("http://b.test/"))
    assert code == 2
    assert "of 1 URL none is in" in err
    assert not (tmp_path / "new.seen").exists()
    err = run(*argv, one, "--urls", two).err
    assert "7 URLs, 6 of them in the old set, 4 new keys. 0 of its 4 fingerprints" in err


def test_what_is_no_set_of_scrapy_redis_is_named(run, lists, tmp_path, server):
    """Its key, the hashes without URLs, other members, other types; the extra that is missing."""
    url, client = server
    client.set("text", "x")
    client.sadd("other", "hello")
    argv = ("--store", f"sqlite:{tmp_path}/seen")
    assert "name the URLs that were crawled with --urls" in run("import-seen", url, *argv).err
    argv += ("--urls", lists(URLS[0]))
    for place, key, said in (
        (url, (), "name the set of scrapy-redis with --key"),
        (url, ("--key", "other"), "other holds other things"),
        (url, ("--key", "text"), "text: WRONGTYPE"),
        ("redis://h:port", ("--key", "text"), "redis://h:port: "),
    ):
        code, _, err = run("import-seen", place, *key, *argv)
        assert code == 2
        assert said in err
    assert not (tmp_path / "seen").exists()


def test_without_redis_the_extra_is_named(run, log, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "redis", None)
    argv = ("--key", "k", "--urls", log, "--store", f"sqlite:{tmp_path}/seen")
    code, _, err = run("import-seen", "redis://localhost/0", *argv)
    assert code == 2
    assert "pip install 'redis'" in err


def test_from_a_set_in_redis_into_a_store_beside_it(run, log, server):
    url, client = server
    theirs = pytest.importorskip("scrapy_redis.dupefilter").RFPDupeFilter
    assert not theirs(client, "shop:dupefilter").request_seen(Request(URLS[0]))
    argv = ("import-seen", url, "--key", "shop:dupefilter", "--urls", log, "--store", url)
    assert run(*argv).code == 2
    assert run(*argv, "--spider", "shop").code == 0
    assert seen(url, URLS, spider="shop") == [True, False, False]


@given(anything)
@example("http://bücher.test/ü?ß=%E9&a=b c#x")
@example("http://[::1")
def test_fingerprints_are_those_of_the_real_ones(url):
    theirs = pytest.importorskip("scrapy_redis.dupefilter").RFPDupeFilter(None, "key")
    try:
        request = Request(url)
        expected = [stock_fingerprint(request).hex(), theirs.request_fingerprint(request)]
    except ValueError:
        expected = []
    assert [each.hex() for each in fingerprints_of(url)] == expected
