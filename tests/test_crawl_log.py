"""CrawlLog: every response of a crawl is a row, and the rows outlive the crawler."""

from __future__ import annotations

import errno
import gzip
import json
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopback import Reply, Site, crawl, page, redirect
from scrapy.http import HtmlResponse, Request, Response

from scrapy_urlnorm.crawl.crawl_log import CrawlLog
from scrapy_urlnorm.exceptions import ConfigError
from scrapy_urlnorm.logs import read_log
from scrapy_urlnorm.logs.writer import BATCH, LogWriter

HTML = {"Content-Type": "text/html; charset=utf-8"}
SETTING = "URLNORM_CRAWL_LOG"
EXTENSION = {"EXTENSIONS": {"scrapy_urlnorm.CrawlLog": 500}}

LINKS = "/old", "/gone", "/a.png", "/b?x=1", "/packed", "/unpacked", "/self", "/loop"
PAGES = {
    "http://a.test/": page("home", *LINKS),
    "http://a.test/old": redirect("/b?x=1"),
    "http://a.test/b?x=1": page("b", canonical="/b"),
    "http://a.test/a.png": Reply(200, b"\x89PNG", {"Content-Type": "image/png"}),
    "http://a.test/packed": Reply(200, gzip.compress(b"<p>b"), HTML | {"Content-Encoding": "gzip"}),
    "http://a.test/unpacked": Reply(200, b"<p>b", HTML),
    "http://a.test/self": redirect("//a.test/b?x=1#top", 302),
    "http://a.test/loop": redirect("/", 308),
}


def rows(path):
    return {row.url: row for row in read_log(str(path))}


@pytest.fixture
def log(tmp_path):
    """The path of a log that is not there yet, in a folder that is not there yet."""
    return tmp_path / "logs" / "crawl.jsonl"


def test_every_response_is_a_row(log):
    result = crawl(PAGES, ["http://a.test/"], {SETTING: str(log), **EXTENSION})
    assert result.reason == "finished"
    seen = rows(log)
    assert set(seen) >= set(PAGES)
    assert {url: row.status for url, row in seen.items() if row.status != 200} == {
        "http://a.test/old": 301,
        "http://a.test/self": 302,
        "http://a.test/loop": 308,
        "http://a.test/gone": 404,
    }
    assert seen["http://a.test/old"].location == "http://a.test/b?x=1"
    assert seen["http://a.test/loop"].location == "http://a.test/"
    assert seen["http://a.test/b?x=1"].canonical == "http://a.test/b"
    assert seen["http://a.test/b?x=1"].is_page
    assert seen["http://a.test/a.png"].mime == "image/png"
    assert seen["http://a.test/packed"].content == seen["http://a.test/unpacked"].content
    assert f"Wrote {len(log.read_text().splitlines())} rows" in result.log


def test_without_a_path_there_is_no_log(tmp_path):
    result = crawl(PAGES, ["http://a.test/b?x=1"], EXTENSION)
    assert result.reason == "finished"
    assert f"{SETTING} names no file" in result.log


def test_the_http_cache_hides_nothing(tmp_path):
    cache = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(tmp_path / "cache"), **EXTENSION}
    pages = {
        "http://a.test/1": redirect("/2", 301),
        "http://a.test/2": redirect("/3", 302),
        "http://a.test/3": page("end"),
    }
    logs = [tmp_path / "first.jsonl", tmp_path / "second.jsonl"]
    with Site(pages) as site:
        for log in logs:
            crawl(site, ["http://a.test/1"], {SETTING: str(log), **cache})
        assert len(site.requests) == 3, "the second crawl came from the cache"
    first, second = map(rows, logs)
    assert first == second
    assert [(row.status, row.location) for row in second.values()][:2] == [
        (301, "http://a.test/2"),
        (302, "http://a.test/3"),
    ]


def test_broken_pages_are_rows_too(log):
    pages = {
        "http://a.test/": page("home", "/empty", "/bytes", "/plain", "/canonical", "/nowhere"),
        "http://a.test/empty": Reply(200, b"", HTML),
        "http://a.test/bytes": Reply(200, b"\xff\xfe<p>\x00\xd8", HTML),
        "http://a.test/plain": Reply(200, b"x"),
        "http://a.test/canonical": Reply(200, b"<link rel=CANONICAL href='http://[x'><p>y", HTML),
        "http://a.test/nowhere": Reply(301, b""),
    }
    result = crawl(pages, ["http://a.test/"], {SETTING: str(log), **EXTENSION})
    assert "Error caught on signal handler" not in result.log
    assert set(rows(log)) == set(pages)
    assert rows(log)["http://a.test/nowhere"].location is None
    assert rows(log)["http://a.test/plain"].mime == ""


def test_a_redirect_that_nobody_follows_is_one_row(log):
    settings = {SETTING: str(log), **EXTENSION, "REDIRECT_ENABLED": False}
    crawl(PAGES, ["http://a.test/old"], settings)
    [row] = map(json.loads, log.read_text().splitlines())
    assert (row["status"], row["location"]) == (301, "http://a.test/b?x=1")


def test_only_what_a_get_brought_is_a_row(log):
    extension = CrawlLog(str(log))
    html, moved = (
        HtmlResponse("http://a.test/", body=b"x"),
        Response("http://a.test/", status=301, headers={"Location": "/b"}),
    )
    for request in (
        Request("http://a.test/", method="POST"),
        Request("http://a.test/", method="HEAD"),
        Request("data:text/html,x"),
    ):
        extension.response_received(html, request, None)
        if request.url.startswith("http"):
            extension.response_downloaded(moved, request, None)
    extension.spider_closed(None)
    assert log.read_text() == ""


def test_a_huge_page_is_named_by_its_bytes(log, monkeypatch):
    monkeypatch.setattr("scrapy_urlnorm.logs.page_identity.MAX_BYTES", 10)
    bodies = enumerate((b"<p>" + b"x" * 7, b"<p>" + b"x" * 8))
    small, huge = write(log, *(HtmlResponse(f"http://a.test/{n}", body=body) for n, body in bodies))
    assert (bool(small["blocks"]), "bag_digest" in small) == (True, True)
    assert (huge["blocks"], "bag_digest" in huge, bool(huge["digest"])) == (None, False, True)


def write(log, *responses, **more):
    """Write a log of responses, each to a request for its own URL; return its rows."""
    extension = CrawlLog(str(log), **more)
    for response in responses:
        request = Request(response.url)
        extension.response_downloaded(response, request, None)
        extension.response_received(response, request, None)
    extension.spider_closed(None)
    return [json.loads(line) for line in log.read_text().splitlines()]


TOKEN = "http://bob:hunter2@a.test/?token=abc12345def"


def test_a_row_says_what_the_page_calls_itself(log):
    body = (
        "<head><link rel=shortlink href='/?p=5'></head><p id=p9><a href='?post=9#p9'>9</a>"
        f"<a href='/2#p9'>own</a><a href='{TOKEN}#p9'>secret</a>"
    )
    named = HtmlResponse("http://a.test/2", body=body.encode())
    first, second = write(log, named, HtmlResponse("http://a.test/3", body=b"x"))
    links = first["self_links"]
    assert links[0] == "http://a.test/2?post=9#p9"
    assert links[1].endswith("#p9")
    assert "hunter2" not in links[1]
    assert len(links) == 2
    assert not {"self_links", "shortlink"} & set(second)
    assert first["shortlink"] == "http://a.test/?p=5"


def test_secrets_are_masked_alike(log):
    moved = Response("http://a.test/", status=301, headers={"Location": TOKEN})
    landed = HtmlResponse(TOKEN, body=b"x")
    named = HtmlResponse("http://a.test/2", body=f"<link rel=canonical href={TOKEN}>x".encode())
    first, second, third = write(log, moved, landed, named)
    assert first["location"] == second["url"] == third["canonical"] != TOKEN
    for secret in ("bob", "hunter2", "abc12345def"):
        assert secret not in log.read_text()


def test_a_continued_log_masks_as_before(log):
    page = HtmlResponse(TOKEN, body=b"x")
    write(log, page)
    one, other = write(log, page)
    [third] = write(log.with_name("second.jsonl"), page)
    assert one["url"] == other["url"] == third["url"]
    key = log.with_name("urlnorm-log.key")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert key.read_bytes() not in log.read_bytes()
    [elsewhere] = write(log.parent / "other" / "log.jsonl", page)
    assert elsewhere["url"] != one["url"]


def test_a_key_that_is_none_is_not_taken(log):
    log.parent.mkdir()
    log.with_name("urlnorm-log.key").write_bytes(b"short")
    with pytest.raises(ConfigError, match=r"urlnorm-log\.key has 5 bytes .* has 32"):
        CrawlLog(str(log))


def test_the_log_of_the_report_has_what_was_fetched(tmp_path):
    job, url = tmp_path / "job", "http://a.test/?token=abc12345def"
    settings = {"JOBDIR": str(job), "URLNORM_REPORT": str(tmp_path / "report.html")}
    crawl({url: page("x")}, [url], {**settings, "ADDONS": {"scrapy_urlnorm.Addon": 900}})
    log = job / "urlnorm-report.jsonl.gz"
    assert list(rows(log)) == [url]
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert not list(job.glob("*.key"))


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("http://a.test/?post=2630#2630", "http://a.test/?post=2630"),
        ("http://a.test/#", "http://a.test/"),
        ("http://a.test/#!/item/7", "http://a.test/#!/item/7"),
        ("http://a.test/#/item/7", "http://a.test/#/item/7"),
    ],
)
def test_a_row_is_about_what_was_fetched(log, url, kept):
    body = f"<link rel=canonical href='{url}'>x".encode()
    moved = Response("http://a.test/old", status=302, headers={"Location": url})
    page, redirect = write(log, HtmlResponse(url, body=body), moved)
    assert (page["url"], page["canonical"], redirect["location"]) == (kept, kept, kept)


def test_what_comes_after_the_end_is_no_row(log):
    extension = CrawlLog(str(log))
    extension.spider_closed(None)
    extension.response_received(HtmlResponse(TOKEN, body=b"x"), Request(TOKEN), None)
    extension.response_downloaded(HtmlResponse(TOKEN, body=b"x"), Request(TOKEN), None)
    extension.spider_closed(None)
    assert log.read_text() == ""


class Full:
    """A file on a disk that has room for so many writes, and takes only half of the next."""

    def __init__(self, file, writes):
        self._file, self._left = file, writes

    def write(self, data):
        self._left -= 1
        if self._left < 0:
            self._file.write(data[: len(data) // 2])
            self._file.flush()
            raise OSError(errno.ENOSPC, "no space left on device")
        return self._file.write(data)

    def flush(self):
        self._file.flush()

    def close(self):
        self._file.close()


@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz"])
@pytest.mark.parametrize("writes", [0, 1, 2])
def test_a_disk_that_fills_up_never_raises(tmp_path, caplog, name, writes):
    path = tmp_path / name
    pages = [HtmlResponse(f"http://a.test/{n}", body=b"x") for n in range(3 * BATCH)]
    extension = CrawlLog(str(path))
    extension._writer._file = Full(extension._writer._file, writes)
    for response in pages:
        extension.response_received(response, Request(response.url), None)
    extension.spider_closed(None)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    if writes or name.endswith("jsonl"):
        LogWriter(path).close()  # repairs
        assert len(list(read_log(str(path)))) == writes * (BATCH if name.endswith("gz") else 1)


HOSTILE = {
    "deep": "<div>" * 100_000,
    "deep tables": "<table><tr><td>" * 20_000,
    "elements": "<b>x</b>" * 50_000,
    "attribute": "<p class='" + "age-" * 500_000 + "'>x",
    "attributes": "<p " + " ".join(f"a{n}=1" for n in range(2_000)) + ">x",
    "null bytes": "<p>\0\0a\0b<\0p>\0",
    "bad base": "<base href='http://[x'><link rel=canonical href=a>",
    "base of data": "<base href='data:,x'><link rel=canonical href=a>",
    "bad canonical": "<link rel=canonical href='http://[x'>",
    "long canonical": f"<link rel=canonical href='http://a.test/{'x' * 100_000}?token={'y' * 99}'>",
    "many canonicals": "<head>" + "<link rel=canonical href=a>" * 20_000,
    "entities": "&#xD800;&#0;&#x110000;&" + "a" * 100_000,
    "nothing": "",
    "white": " \n\t",
    "comment": "<!--" * 10_000,
    "cdata": "<![CDATA[" * 10_000,
    "doctype": "<!DOCTYPE html [<!ENTITY a 'b'>]>&a;" * 1000,
    "xml": "<?xml version='1.0' encoding='utf-16'?><p>x",
    "json": '{"a": 1}',
    "frameset": "<frameset><frame src=a>" * 1000,
    "titles": "<title>" * 10_000,
    "svg": "<svg><title>x<math>" * 5_000,
    "reply": "<h2>Leave a reply" * 5_000,
}
CHARSETS = ("utf-8", "utf-16", "utf-7", "unicode_escape", "idna", "hex", "x-none", "\0", "a" * 999)


@pytest.mark.parametrize("name", HOSTILE)
def test_no_page_raises(log, name):
    body = HOSTILE[name].encode("utf-8", "surrogatepass")
    types = [f"text/html; charset={charset}" for charset in CHARSETS] if len(body) < 5000 else []
    pages = [
        HtmlResponse("http://a.test/", body=body, headers={"Content-Type": kind})
        for kind in ("text/html; charset=utf-8", "", "\xff;;=", *types)
    ]
    assert [row["url"] for row in write(log, *pages)] == ["http://a.test/"] * len(pages)


@given(st.binary(max_size=300), st.binary(max_size=40), st.sampled_from([200, 301, 404, 0, 999]))
def test_no_bytes_raise(body, header, status):
    with tempfile.TemporaryDirectory() as folder:
        headers = {"Content-Type": header, "Location": header, "Content-Encoding": header}
        response = HtmlResponse("http://a.test/#x", status=status, body=body, headers=headers)
        [row] = write(Path(folder) / "log.jsonl", response)
    assert (row["url"], row["status"]) == ("http://a.test/", status)


def test_what_was_cut_off_is_said(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"url": "http://a.test/1"}\n{"url": "htt')
    result = crawl(PAGES, ["http://a.test/b?x=1"], {SETTING: str(path), **EXTENSION})
    assert "12 bytes were cut off" in result.log
    assert list(rows(path)) == ["http://a.test/1", "http://a.test/b?x=1"]
