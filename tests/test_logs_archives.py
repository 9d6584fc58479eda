"""WARC, Parquet and Scrapy's HTTP cache: read as the log that a crawl of the same site writes."""

from __future__ import annotations

import dbm.dumb
import gzip
import hashlib
import json
import os
import pickle
import shutil
import subprocess
from collections import Counter

import pytest
from log_rows import active
from loopback import Reply, Site, crawl, page, redirect

from scrapy_urlnorm.exceptions import LogFormatError
from scrapy_urlnorm.logs import read_log

HOST = "http://shop.test"
HOME = f"{HOST}/"
SETTINGS = {"ADDONS": {"scrapy_urlnorm.Addon": 900}, "URLNORM_LEARN": "off"}
TEXTS = {n: f"product {chr(97 + n) * 3}" for n in range(12)}


def shop(url):
    """Products under two URLs, one of them gzipped; a redirect; a page that is not there."""
    if url == HOME:
        return page("home", *URLS[1:])
    if url.endswith("/old"):
        return redirect("/item/1")
    if "/item/" not in url:
        return Reply(404, b"no such page", {"Content-Type": "text/plain"})
    number = int(url.partition("/item/")[2].partition("?")[0])
    plain = page(TEXTS[number], canonical=f"/item/{number}")
    if "ref" not in url:
        return plain
    return Reply(200, gzip.compress(plain.body), {**plain.headers, "Content-Encoding": "gzip"})


def crawled(tmp_path, **settings):
    """Crawl the shop; return what its crawl log says."""
    path = tmp_path / "crawl.jsonl"
    result = crawl(shop, [HOME], {**SETTINGS, "URLNORM_CRAWL_LOG": str(path), **settings})
    assert result.stats["finish_reason"] == "finished"
    return list(read_log(str(path)))


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Where the crawl log of the shop is."""
    folder = tmp_path_factory.mktemp("shop")
    crawled(folder)
    return folder / "crawl.jsonl"


def read_as(format, path, expected):
    """Return the rows of an archive of this format, which says what the crawl log says."""
    reader = read_log(str(path))
    rows = list(reader)
    assert reader.format == format
    assert_same_rows(rows, expected)
    assert_teaches(rows)
    return rows


def assert_same_rows(rows, expected):
    """The same observations, whatever their order, and whatever a redirect's media type."""
    plain = [
        Counter(row._replace(mime=None) if row.location else row for row in each)
        for each in (rows, expected)
    ]
    assert plain[0] == plain[1]
    assert len(expected) == 2 * len(TEXTS) + 3


def assert_teaches(rows):
    """One rule is mined: ``ref=top`` means nothing."""
    (rule,) = active(rows)
    assert (rule.kind, dict(rule.default), rule.support) == ("drop-default", {"ref": "top"}, 12)


# --- Scrapy's HTTP cache --------------------------------------------------------------------------

FILES, DBM = (
    {"HTTPCACHE_STORAGE": f"scrapy.extensions.httpcache.{kind}CacheStorage"}
    for kind in ("Filesystem", "Dbm")
)
CACHES = {
    "filesystem": FILES,
    "gzipped": {**FILES, "HTTPCACHE_GZIP": True},
    "dbm": DBM,
    "dumb": {**DBM, "HTTPCACHE_DBM_MODULE": "dbm.dumb"},
}


@pytest.fixture(params=CACHES)
def cache(request, tmp_path):
    """Path of the cache of a real crawl, and the rows of its crawl log."""
    folder = tmp_path / "cache"
    settings = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(folder), **CACHES[request.param]}
    rows = crawled(tmp_path, **settings)
    path = min(folder.iterdir())
    if request.param in ("dbm", "dumb"):
        path = path.with_name(path.name.partition(".db")[0] + ".db")
    return path, rows


def test_a_cache_holds_what_the_crawl_log_has(cache):
    """Compressed bodies are decompressed, in the order of the crawl."""
    rows = read_as("httpcache", *cache)
    assert rows[0].url == HOME


def test_damaged_responses_are_named_or_counted(tmp_path):
    """A file that is cut off is one bad row."""
    crawled(tmp_path, HTTPCACHE_ENABLED=True, HTTPCACHE_DIR=str(tmp_path / "cache"))
    (path,) = (tmp_path / "cache").iterdir()
    metas = sorted(path.glob("*/*/meta"))
    metas[0].write_bytes(b"{'url': ")
    (metas[1].parent / "response_headers").unlink()
    with pytest.raises(LogFormatError, match=r"line \d+: the response cannot be read"):
        list(read_log(str(path)))
    reader = read_log(str(path), skip_bad=True)
    assert len(list(reader)) == 2 * len(TEXTS) + 3 - 2
    assert reader.skipped == 2


class Runs:
    """What a forged cache would like to run."""

    def __reduce__(self):
        return os.mkdir, ("forged",)


def test_nothing_in_a_cache_runs(tmp_path, monkeypatch):
    """A pickle in a dbm file may hold data only."""
    monkeypatch.chdir(tmp_path)
    with dbm.dumb.open("spider.db", "c") as database:
        database["aa_time"] = b"1.0"
        database["aa_data"] = pickle.dumps({"url": HOME, "status": 200, "body": Runs()})
    with pytest.raises(LogFormatError, match=r"a response has no (posix|nt)\.mkdir"):
        list(read_log("spider.db"))
    assert not (tmp_path / "forged").exists()


# --- WARC -----------------------------------------------------------------------------------------


def write_warc(path, replies, *, gzipped=True):
    """Write the replies as WARC 1.0, each after its request, a gzip member a record."""
    pytest.importorskip("warcio")
    records = []
    for url, reply in replies.items():
        headers = "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
        answer = f"HTTP/1.1 {reply.status} X\r\n{headers}\r\n".encode() + reply.body
        records += [(url, "request", b"GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n")]
        records += [(f"<{url}>", "response", answer)]
    with path.open("wb") as stream:
        for url, kind, block in records:
            head = (
                f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\n"
                f"Content-Type: application/http; msgtype={kind}\r\n"
                f"WARC-Date: 2026-01-01T00:00:00Z\r\nWARC-Record-ID: <urn:uuid:{len(url)}>\r\n"
                f"Content-Length: {len(block)}\r\n\r\n"
            )
            record = head.encode() + block + b"\r\n\r\n"
            stream.write(gzip.compress(record) if gzipped else record)


ITEMS = [f"{HOST}/item/{n}{ref}" for n in TEXTS for ref in ("", "?ref=top")]
URLS = [HOME, *ITEMS, f"{HOST}/old", f"{HOST}/gone"]


@pytest.mark.parametrize("gzipped", [True, False])
def test_a_warc_holds_what_a_crawl_log_would_have(tmp_path, log, gzipped):
    """Bodies gzipped or chunked, redirects, errors; requests are no rows."""
    replies = {url: shop(url) for url in URLS}
    body = replies[f"{HOST}/item/3"].body
    replies[f"{HOST}/item/3"] = Reply(
        200,
        b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:9], body[9:]))
        + b"0\r\n\r\n",
        {"Content-Type": "text/html", "Transfer-Encoding": "chunked"},
    )
    path = tmp_path / ("a.warc.gz" if gzipped else "archive")
    write_warc(path, replies, gzipped=gzipped)
    read_as("warc", path, list(read_log(str(log))))


def test_a_warc_that_wget_wrote(tmp_path, log):
    """A real crawler writes it, with records that are no responses."""
    pytest.importorskip("warcio")
    if shutil.which("wget") is None:
        pytest.skip("wget is not installed")
    with Site(shop) as site:
        subprocess.run(
            [
                *("wget", "-q", "-r", "-l", "2", "-e", "robots=off", "--max-redirect=0"),
                *("--warc-file=site", "--no-warc-keep-log", "-e", f"http_proxy={site.proxy}"),
                HOME,
            ],
            cwd=tmp_path,
            check=False,  # wget ends with 8, because a page is not there
            timeout=120,
        )
    rows = list(read_log(str(tmp_path / "site.warc.gz")))
    assert {row.url for row in rows} >= {row.url for row in read_log(str(log)) if "item" in row.url}
    assert_teaches(rows)


def test_a_body_that_no_page_has_is_passed_over(tmp_path, monkeypatch):
    """A film in the middle of an archive does not have to fit into memory."""
    monkeypatch.setattr("scrapy_urlnorm.logs.archives._MAX_BODY", 5_000_000)
    film = Reply(200, bytes(6_000_000), {"Content-Type": "video/mp4"})
    replies = {HOME: page("home"), f"{HOST}/film": film, f"{HOST}/item/1": page("one")}
    write_warc(tmp_path / "a.warc.gz", replies)
    rows = list(read_log(str(tmp_path / "a.warc.gz")))
    assert [row.url for row in rows] == [HOME, f"{HOST}/item/1"]


def test_a_warc_that_is_cut_off(tmp_path):
    """What is before the cut is read; the cut is one bad row."""
    path = tmp_path / "a.warc.gz"
    words = " ".join(hashlib.md5(b"%d" % n).hexdigest() for n in range(200))
    replies = {url: shop(url) for url in URLS}
    write_warc(path, {**replies, f"{HOST}/long": page(words)})
    path.write_bytes(path.read_bytes()[:-1000])
    reader = read_log(str(path), skip_bad=True)
    assert [row.url for row in reader] == list(replies)
    assert reader.skipped == 1
    with pytest.raises(LogFormatError, match=r"line 56: the record cannot be read .*missing"):
        list(read_log(str(path)))


# --- Parquet --------------------------------------------------------------------------------------


def parquet(tmp_path, select):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "log.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({select}) TO '{path}' (FORMAT parquet)")
    return path


def test_a_crawl_log_as_parquet(tmp_path, log):
    """It teaches what the crawl log teaches; a folder of such files is one log."""
    path = parquet(tmp_path, f"SELECT *, 7 AS other FROM read_json('{log}')")
    rows = read_as("parquet", path, list(read_log(str(log))))
    folder = tmp_path / "log"
    folder.mkdir()
    shutil.copy(path, folder / "a.parquet")
    assert Counter(read_log(str(folder))) == Counter(rows)


def test_parquet_that_pandas_wrote(tmp_path, log):
    """Missing values are missing, whatever a data frame makes of them."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pytest.importorskip("duckdb")
    lines = log.read_text().splitlines()
    path = tmp_path / "log.parquet"
    pandas.DataFrame(map(json.loads, lines)).to_parquet(path)
    assert_same_rows(list(read_log(str(path))), list(read_log(str(log))))


def test_parquet_with_columns_of_other_types(tmp_path):
    """Bytes for digests and texts, fractions for whole numbers, a time where no time belongs."""
    columns = {
        "url": f"encode('{HOME}')",
        "status": "CAST(200 AS DOUBLE)",
        "digest": "unhex('0AFF')",
        "mime": "CAST('text/html' AS BLOB)",
        "kind": "TIMESTAMPTZ '2026-01-01 00:00:00+00'",
    }
    chosen = ", ".join(f"{value} AS {name}" for name, value in columns.items())
    plain = tmp_path / "log.jsonl"
    row = {"url": HOME, "status": 200, "digest": "0aff", "mime": "text/html"}
    plain.write_text(json.dumps(row) + "\n")
    path = parquet(tmp_path, f"SELECT {chosen}")
    assert list(read_log(str(path))) == list(read_log(str(plain)))


@pytest.mark.parametrize(
    ("select", "message"),
    [
        (r"SELECT '\xFF'::BLOB AS url", r"log\.parquet: .*"),
        ("SELECT 'x' AS link", "no column 'url'; it has 'link'"),
        ("SELECT 1 AS url", "line 1: a row needs an absolute 'url', not 1"),
    ],
)
def test_parquet_without_what_a_row_needs(tmp_path, select, message):
    with pytest.raises(LogFormatError, match=message):
        list(read_log(str(parquet(tmp_path, select))))


@pytest.mark.parametrize(
    ("package", "name", "message"),
    [
        ("duckdb", "x.parquet", r"x\.parquet: "),
        ("warcio", "x.warc", r"x\.warc: it does not begin with a WARC record"),
    ],
)
def test_what_has_only_the_name(tmp_path, package, name, message):
    pytest.importorskip(package)
    (tmp_path / name).write_bytes(b"PAR1 is how one of them begins")
    with pytest.raises(LogFormatError, match=message):
        list(read_log(tmp_path / name))
