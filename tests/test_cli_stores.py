"""Verbs on seen-sets: what a crawl with other rules finds in the store they fill."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from cli_runner import Runner
from loopback import Site, crawl, page
from redis_server import RedisServer
from scrapy import Request
from scrapy.utils.request import fingerprint as stock_fingerprint

from scrapy_urlnorm import Normalizer, load_site_rules
from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter
from scrapy_urlnorm.normalizer import KEY_VERSION
from scrapy_urlnorm.stores import open_store

URLS = ["http://a.test/", "http://a.test/b?y=1&x=2&utm_source=z", "http://a.test/c?sid=1"]


@pytest.fixture
def run(capfdbinary, monkeypatch):
    """Run the command line in this process."""
    return Runner(capfdbinary, monkeypatch)


def seen(path, urls, normalizer=None):
    """Which URLs a store holds, as a crawl would ask it."""
    normalizer = normalizer or Normalizer()
    fingerprint = UrlNormRequestFingerprinter(normalizer).fingerprint
    store = open_store(f"sqlite:{path}", digest=normalizer.digest, key_version=KEY_VERSION)
    store.open()
    try:
        return [fingerprint(Request(url)) in store for url in urls]
    finally:
        store.close()


def test_rekey_builds_a_store_for_other_rules(run, tmp_path):
    """Every URL of the log is seen under the new rules, and so are its other spellings."""
    log, path, rules = tmp_path / "log", tmp_path / "new.seen", tmp_path / "rules.toml"
    log.write_text("".join(json.dumps({"url": url, "status": 200}) + "\n" for url in URLS))
    rules.write_text('[[rule]]\nsite = "a.test"\nkind = "drop-param"\nparam = "sid"\n')
    code, out, err = run("rekey", log, "--site-rules", rules, "--store", f"sqlite:{path}")
    assert (code, out) == (0, "")
    assert "3 rows, 3 new keys" in err
    normalizer = Normalizer(site_rules=load_site_rules(rules))
    asked = [*URLS, "http://a.test/c?sid=2", "http://a.test/b?x=2&y=1", "http://a.test/d"]
    assert seen(path, asked, normalizer) == [True] * 5 + [False]


def test_a_store_of_other_rules_is_refused(run, tmp_path):
    """What is there already stays as it is, and the way on is said."""
    log, path = tmp_path / "log", tmp_path / "seen"
    log.write_text(URLS[0] + "\n")
    assert run("rekey", log, "--store", f"sqlite:{path}").code == 0
    before = path.read_bytes()
    code, _, err = run("rekey", log, "--store", f"sqlite:{path}", "--profile", "aggressive")
    assert code == 2
    assert str(path) in err
    assert path.read_bytes() == before
    assert "0 new keys" in run("rekey", log, "--store", f"sqlite:{path}").err


@pytest.mark.parametrize(
    "argv", [("rekey", "-"), ("import-seen", "x"), ("rekey", "-", "--store", "memory")]
)
def test_a_store_must_be_named(run, argv):
    """Filling a set in memory and forgetting it is no use to anybody."""
    code, _, err = run(*argv, stdin=b"http://a.test/\n")
    assert code == 2
    assert "--store" in err


def write_seen(path, kind, urls=URLS):
    """Write a requests.seen as Scrapy does, or did."""
    keys = [stock_fingerprint(Request(url)) for url in urls]
    if kind == "text":
        path.write_text("".join(key.hex() + "\n" for key in keys))
    else:
        path.write_bytes(b"".join(b"\0\x14" + key for key in keys))


@pytest.mark.parametrize("kind", ["text", "bytes"])
def test_import_seen_takes_over_what_holds(run, tmp_path, kind):
    """URLs that our rules leave as Scrapy does are seen; the others are fetched once more."""
    path, store = tmp_path / "requests.seen", tmp_path / "new.seen"
    write_seen(path, kind)
    code, _, err = run("import-seen", path, "--store", f"sqlite:{store}")
    assert code == 0
    assert "3 fingerprints, 3 of them new" in err
    assert "fetched once more" in err
    assert seen(store, URLS) == [True, False, True]
    assert seen(store, ["http://a.test/c?sid=1#x", "http://A.TEST"]) == [True, True]


@pytest.mark.parametrize("kind", ["text", "bytes"])
def test_a_cut_off_requests_seen_is_read_as_far_as_it_goes(run, tmp_path, kind):
    """A crawl that was killed leaves half a fingerprint at the end."""
    path, store = tmp_path / "requests.seen", tmp_path / "new.seen"
    write_seen(path, kind)
    path.write_bytes(path.read_bytes()[:-7])
    assert "2 fingerprints" in run("import-seen", path, "--store", f"sqlite:{store}").err
    assert seen(store, URLS) == [True, False, False]


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


@pytest.mark.parametrize("data", [b"", b"hello world", b"\0\x03abc\0\x03abc", b"ab\ncd\n"])
def test_what_scrapy_did_not_write_is_refused(run, tmp_path, data):
    """A file of something else, or of another fingerprinter, gives no keys."""
    path = tmp_path / "requests.seen"
    path.write_bytes(data)
    code, _, err = run("import-seen", path, "--store", f"sqlite:{tmp_path}/seen")
    assert code == 2
    assert "does not hold the fingerprints" in err
    assert not (tmp_path / "seen").exists()


@pytest.mark.parametrize("rule", ["sort-query", "remove-fragment"])
def test_import_seen_is_refused_where_it_would_lose_pages(run, tmp_path, rule):
    """Rules that keep apart what Scrapy merged would take pages for seen that were not."""
    path = tmp_path / "requests.seen"
    write_seen(path, "text")
    for options in (["--profile", "safe"], ["--rule", f"{rule}=false"]):
        code, _, err = run("import-seen", path, "--store", f"sqlite:{tmp_path}/x", *options)
        assert code == 2
        assert rule in err
        assert "rekey" in err
    assert not (tmp_path / "x").exists()


def test_our_own_store_is_no_requests_seen(run, tmp_path):
    """Mixing the two up is said, and nothing is written."""
    log, path = tmp_path / "log", tmp_path / "seen"
    log.write_text(URLS[0] + "\n")
    run("rekey", log, "--store", f"sqlite:{path}")
    code, _, err = run("import-seen", path, "--store", f"sqlite:{tmp_path}/new")
    assert code == 2
    assert "already" in err


@pytest.fixture(scope="module")
def server():
    """The client and the URL of a Redis of this module."""
    redis = pytest.importorskip("redis")
    with RedisServer() as running:
        client = redis.Redis.from_url(running.url)
        yield client, running.url
        client.close()


def test_a_store_in_redis_needs_the_name_of_its_spider(run, tmp_path, server):
    """Unless its prefix has none: with --spider the set that the spider's crawl will ask."""
    client, url = server
    log = tmp_path / "log"
    log.write_text(URLS[0] + "\n")
    code, _, err = run("rekey", log, "--store", url)
    assert code == 2
    assert "--spider NAME" in err
    assert "?prefix=SPIDER:urlnorm" in err
    assert run("rekey", log, "--store", url, "--spider", "shop").code == 0
    assert client.exists("shop:urlnorm:identity")
    assert run("rekey", log, "--store", url + "?prefix=shops").code == 0
    assert client.exists("shops:identity")


def test_import_seen_reads_scrapy_redis(run, tmp_path, server):
    """The members of its set are hexadecimal fingerprints; anything else is refused."""
    client, url = server
    client.sadd("spider:seen", stock_fingerprint(Request(URLS[0])).hex())
    argv = ("import-seen", url, "--store", f"sqlite:{tmp_path}/seen")
    assert "--key" in run(*argv).err
    argv += ("--key", "spider:seen")
    assert "--urls" in run(*argv).err
    assert "1 fingerprint, 1 of them new" in run(*argv, "--check", URLS[0]).err
    assert seen(tmp_path / "seen", URLS) == [True, False, False]
    client.sadd("spider:seen", "hello")
    code, _, err = run(*argv, "--check", URLS[0])
    assert code == 2
    assert "other things" in err


def test_fingerprints_of_another_kind_are_not_taken_over(run, tmp_path, server):
    """With what scrapy-redis's own dupefilter makes of a URL, no page would be found again."""
    dupefilter = pytest.importorskip("scrapy_redis.dupefilter").RFPDupeFilter
    client, url = server
    theirs = dupefilter(client, "spider:theirs")
    assert not theirs.request_seen(Request(URLS[0]))
    argv = ("--store", f"sqlite:{tmp_path}/seen", "--check", URLS[0])
    code, _, err = run("import-seen", url, "--key", "spider:theirs", *argv)
    assert code == 2
    assert repr(URLS[0]) in err
    assert "rekey" in err
    path = tmp_path / "requests.seen"
    path.write_text(theirs.request_fingerprint(Request(URLS[0])) + "\n")
    assert run("import-seen", path, *argv).code == 2
    assert not (tmp_path / "seen").exists()
    write_seen(path, "bytes")
    assert run("import-seen", path, *argv).code == 0


def test_without_redis_the_extra_is_named(run, tmp_path, monkeypatch):
    """The error names the package and the command that installs it."""
    monkeypatch.setitem(sys.modules, "redis", None)
    argv = (
        "import-seen",
        "redis://localhost/0",
        "--key",
        "k",
        "--store",
        f"sqlite:{tmp_path}/seen",
    )
    code, _, err = run(*argv, "--check", URLS[0])
    assert code == 2
    assert "pip install 'scrapy-urlnorm[redis]'" in err


def test_inside_a_project_its_own_store_is_filled(tmp_path):
    """scrapy urlnorm rekey takes store and rules from the settings, if it can make their keys."""
    info = tmp_path / "installed-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: installed\nVersion: 0\n")
    (info / "entry_points.txt").write_text(
        "[scrapy.commands]\nurlnorm = scrapy_urlnorm.crawl.command:UrlNormCommand\n"
    )
    store, log = tmp_path / "own.seen", tmp_path / "log"
    log.write_text("".join(url + "\n" for url in URLS))
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = shop_settings\n")
    settings = tmp_path / "shop_settings.py"
    settings.write_text(f"URLNORM_STORE = 'sqlite:{store}'\nURLNORM_PROFILE = 'aggressive'\n")

    def rekey(*options):
        done = subprocess.run(
            [sys.executable, "-m", "scrapy", "urlnorm", *options, "rekey", str(log)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": ":".join([str(tmp_path), *sys.path])},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stderr

    other = "REQUEST_FINGERPRINTER_CLASS=loopback.Follow"
    code, err = rekey("-s", other)
    assert code == 2
    assert "are made by loopback.Follow" in err
    assert not store.exists()
    assert rekey()[0] == 0
    assert seen(store, URLS, Normalizer("aggressive")) == [True, True, True]
