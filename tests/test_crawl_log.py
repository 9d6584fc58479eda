"""CrawlLog: every response of a crawl is a row, and the rows outlive the crawler."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from loopback import Reply, Site, crawl, page, redirect
from scrapy.http import HtmlResponse, Request, Response

from scrapy_urlnorm.crawl_log import CrawlLog
from scrapy_urlnorm.exceptions import LogFormatError
from scrapy_urlnorm.learning import mine
from scrapy_urlnorm.logs import read_log
from scrapy_urlnorm.logs.writer import BATCH, LogWriter

HTML = {"Content-Type": "text/html; charset=utf-8"}
SETTING = "URLNORM_CRAWL_LOG"
EXTENSION = {"EXTENSIONS": {"scrapy_urlnorm.CrawlLog": 500}}

PAGES = {
    "http://a.test/": page(
        "home", "/old", "/gone", "/a.png", "/b?x=1", "/packed", "/self", "/loop"
    ),
    "http://a.test/old": redirect("/b?x=1"),
    "http://a.test/b?x=1": page("b", canonical="/b"),
    "http://a.test/a.png": Reply(200, b"\x89PNG", {"Content-Type": "image/png"}),
    "http://a.test/packed": Reply(
        200, gzip.compress(b"<p>b"), {**HTML, "Content-Encoding": "gzip"}
    ),
    "http://a.test/self": redirect("//a.test/b?x=1#top", 302),
    "http://a.test/loop": redirect("/", 308),
}


def rows(path):
    """The rows of a log by URL."""
    return {row.url: row for row in read_log(str(path))}


@pytest.fixture
def log(tmp_path):
    """The path of a log that is not there yet, in a folder that is not there yet."""
    return tmp_path / "logs" / "crawl.jsonl"


def test_every_response_is_a_row(log):
    """Pages, redirects, errors and files: one row each, with what a learner needs of them."""
    with Site(PAGES) as site:
        result = crawl(site, ["http://a.test/"], {SETTING: str(log), **EXTENSION})
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
    assert f"Wrote {len(log.read_text().splitlines())} rows" in result.log


def test_pages_are_unpacked_before_they_are_read(log):
    """A compressed response has the content of its text."""
    pages = {
        "http://a.test/": page("home", "/one", "/two"),
        "http://a.test/one": Reply(200, b"<p>text", HTML),
        "http://a.test/two": Reply(
            200, gzip.compress(b"<p>text"), {**HTML, "Content-Encoding": "gzip"}
        ),
    }
    with Site(pages) as site:
        crawl(site, ["http://a.test/"], {SETTING: str(log), **EXTENSION})
    seen = rows(log)
    assert seen["http://a.test/one"].content == seen["http://a.test/two"].content


def test_a_redirect_is_a_row_although_its_target_was_seen(log):
    """What the dupefilter drops behind a redirect is evidence all the same."""
    pages = {
        "http://a.test/": page("home", "/b", "/old"),
        "http://a.test/b": page("b"),
        "http://a.test/old": redirect("/b"),
    }
    with Site(pages) as site:
        result = crawl(
            site, ["http://a.test/"], {SETTING: str(log), **EXTENSION, "CONCURRENT_REQUESTS": 1}
        )
    assert result.stats["dupefilter/filtered"] == 1
    assert rows(log)["http://a.test/old"].location == "http://a.test/b"
    assert len(log.read_text().splitlines()) == 3, "no row twice"


def test_the_addon_needs_one_setting(log):
    """With the add-on the path alone turns the log on."""
    with Site(PAGES) as site:
        crawl(
            site, ["http://a.test/"], {SETTING: str(log), "ADDONS": {"scrapy_urlnorm.Addon": 900}}
        )
    assert set(rows(log)) >= set(PAGES)


def test_without_a_path_there_is_no_log(tmp_path):
    """The extension alone does nothing, and says what it lacks."""
    with Site(PAGES) as site:
        result = crawl(site, ["http://a.test/b?x=1"], EXTENSION)
    assert result.reason == "finished"
    assert f"{SETTING} names no file" in result.log


def test_the_http_cache_hides_nothing(tmp_path):
    """A crawl answered from Scrapy's HTTP cache writes the same rows, redirects included."""
    cache = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(tmp_path / "cache"), **EXTENSION}
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    with Site(PAGES) as site:
        crawl(site, ["http://a.test/"], {SETTING: str(first), **cache})
        fetched = len(site.requests)
        crawl(site, ["http://a.test/"], {SETTING: str(second), **cache})
        assert len(site.requests) == fetched, "the second crawl came from the cache"
    missing = {"http://a.test/old", "http://a.test/self", "http://a.test/loop"}
    assert (
        rows(second).items()
        >= {url: row for url, row in rows(first).items() if url not in missing}.items()
    )


def test_redirects_out_of_the_cache_are_known_by_their_target(tmp_path):
    """Where a cached redirect was followed, its row is written with its status and target."""
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
    first, second = map(rows, logs)
    assert first == second
    assert [(row.status, row.location) for row in second.values()][:2] == [
        (301, "http://a.test/2"),
        (302, "http://a.test/3"),
    ]


def test_a_log_is_continued(log):
    """A second crawl adds to the log, packed or not."""
    for path in (log, log.with_suffix(".jsonl.gz")):
        with Site(PAGES) as site:
            for url in ("http://a.test/a.png", "http://a.test/b?x=1"):
                crawl(site, [url], {SETTING: str(path), **EXTENSION})
        assert list(rows(path)) == ["http://a.test/a.png", "http://a.test/b?x=1"]
    assert path.read_bytes()[:2] == b"\x1f\x8b"


def test_a_path_that_cannot_be_written_stops_the_crawl_at_start(tmp_path):
    """Not after a day of crawling: the setting and its value are named, and nothing is fetched."""
    (tmp_path / "file").write_text("")
    with Site(PAGES) as site:
        result = crawl(
            site, ["http://a.test/"], {SETTING: str(tmp_path / "file" / "log"), **EXTENSION}
        )
        assert site.requests == []
    assert result.error.startswith("ConfigError: ")
    assert SETTING in result.error
    assert "file/log" in result.error


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_ends_the_log_and_not_the_crawl():
    """Every page is still crawled, and the loss is said once."""
    with Site(PAGES) as site:
        result = crawl(site, ["http://a.test/"], {SETTING: "/dev/full", **EXTENSION})
    assert result.reason == "finished"
    assert "b" in result.pages
    assert result.log.count("ends here after") == 1


def test_broken_pages_are_rows_too(log):
    """Odd bytes, no media type and bad links neither stop the log nor lose the row."""
    pages = {
        "http://a.test/": page("home", "/empty", "/bytes", "/plain", "/canonical", "/nowhere"),
        "http://a.test/empty": Reply(200, b"", HTML),
        "http://a.test/bytes": Reply(200, b"\xff\xfe<p>\x00\xd8", HTML),
        "http://a.test/plain": Reply(200, b"x"),
        "http://a.test/canonical": Reply(200, b"<link rel=CANONICAL href='http://[x'><p>y", HTML),
        "http://a.test/nowhere": Reply(301, b""),
    }
    with Site(pages) as site:
        result = crawl(site, ["http://a.test/"], {SETTING: str(log), **EXTENSION})
    assert "Error caught on signal handler" not in result.log
    assert set(rows(log)) == set(pages)
    assert rows(log)["http://a.test/nowhere"].location is None
    assert rows(log)["http://a.test/plain"].mime == ""


def test_a_redirect_that_nobody_follows_is_one_row(log):
    """With the redirect middleware off both hooks see it, and one writes it."""
    settings = {SETTING: str(log), **EXTENSION, "REDIRECT_ENABLED": False}
    with Site(PAGES) as site:
        crawl(site, ["http://a.test/old"], settings)
    [row] = map(json.loads, log.read_text().splitlines())
    assert (row["status"], row["location"]) == (301, "http://a.test/b?x=1")


def test_only_what_a_get_brought_is_a_row(log):
    """The answer to a form is no page of its URL, and files and data: URLs are no crawl."""
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
    extension._writer.close()
    assert log.read_text() == ""


def test_a_huge_page_is_named_by_its_bytes(log, monkeypatch):
    """Its text is not worth the time: it has a digest, and no lines."""
    monkeypatch.setattr("scrapy_urlnorm.page_identity.MAX_BYTES", 10)
    extension = CrawlLog(str(log))
    for n, body in enumerate((b"<p>" + b"x" * 7, b"<p>" + b"x" * 8)):
        url = f"http://a.test/{n}"
        extension.response_received(HtmlResponse(url, body=body), Request(url), None)
    extension._writer.close()
    small, huge = map(json.loads, log.read_text().splitlines())
    assert small["lines"]
    assert small["bag_digest"]
    assert huge["lines"] is None
    assert huge["digest"]
    assert "bag_digest" not in huge


def test_a_base_that_is_no_url_is_not_our_end(log):
    """Scrapy's selector raises on it; where such a response gets through, its row is written."""
    body = b"<base href='http://[x'><link rel=canonical href=a><p>y"
    response = HtmlResponse("http://a.test/", body=body)
    extension = CrawlLog(str(log))
    extension.response_received(response, Request("http://a.test/"), None)
    extension._writer.close()
    assert list(rows(log)) == ["http://a.test/"]


KILLED = """
import sys
from scrapy_urlnorm.logs.writer import LogWriter
writer = LogWriter(sys.argv[1])
for n in range(100_000):
    writer.write({"url": f"http://a.test/{n}", "pad": "x" * 50})
    if n >= int(sys.argv[2]):
        print(n, flush=True)
"""


@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz"])
def test_a_killed_crawl_loses_a_few_rows_at_most(tmp_path, name):
    """After kill -9 all but the last batch is there, and the next crawl goes on from it."""
    path = tmp_path / name
    written = 0
    for start in (10, 100, 333):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(path), str(start)],
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": ":".join(sys.path)},
        )
        assert process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.communicate()
        writer = LogWriter(path)  # repairs
        writer.write({"url": "http://a.test/after"})
        writer.close()
        read = len(list(read_log(str(path))))
        assert read >= written + start + 1 - BATCH
        written = read


@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz"])
def test_a_half_written_end_is_cut_off(tmp_path, name):
    """Cut at any byte, a log keeps its complete rows and takes new ones."""
    path = tmp_path / name
    writer = LogWriter(path)
    for n in range(2 * BATCH + 3):
        writer.write({"url": f"http://a.test/{n}"})
    writer.close()
    data = path.read_bytes()
    urls = list(rows(path))
    for end in range(len(data) // 2, len(data) - 1, 7):
        path.write_bytes(data[:end])
        writer = LogWriter(path)
        writer.write({"url": "http://a.test/new"})
        writer.close()
        *old, new = rows(path)
        assert old == urls[: len(old)]
        assert new == "http://a.test/new"
        assert len(old) >= (BATCH if name.endswith("gz") else data[:end].count(b"\n"))


def test_what_was_cut_off_is_said(tmp_path):
    """The number of bytes lost stands in the crawl's log."""
    path = tmp_path / "log.jsonl"
    path.write_text('{"url": "http://a.test/1"}\n{"url": "htt')
    with Site(PAGES) as site:
        result = crawl(site, ["http://a.test/b?x=1"], {SETTING: str(path), **EXTENSION})
    assert "12 bytes were cut off" in result.log
    assert list(rows(path)) == ["http://a.test/1", "http://a.test/b?x=1"]


def test_a_row_that_lacks_only_its_line_end_is_kept(tmp_path):
    """A log edited by hand may end without a line feed."""
    path = tmp_path / "log.jsonl"
    path.write_text('{"url": "http://a.test/1"}')
    writer = LogWriter(path)
    writer.write({"url": "http://a.test/2"})
    writer.close()
    assert writer.cut == 0
    assert [json.loads(line)["url"][-1] for line in path.read_text().splitlines()] == ["1", "2"]


def test_a_gz_that_is_none_is_not_touched(tmp_path):
    """A file that only looks like a log by its name is refused, not emptied."""
    path = tmp_path / "log.jsonl.gz"
    for data in (b'{"url": "http://a.test/"}\n', gzip.compress(b"x" * 100_000)[:-9]):
        path.write_bytes(data)
        with pytest.raises(LogFormatError, match="move it away"):
            LogWriter(path)
        assert path.read_bytes() == data


def test_rules_can_be_learned_from_it(tmp_path):
    """A crawl's log is enough to learn what means nothing, although no two responses are equal."""
    fetched = iter(range(10**6))
    log = tmp_path / "crawl.jsonl.gz"
    menu = "<ul><li><a href=/>Home</a><li><a href=/about>About</a></ul>"
    links = "".join(
        f"<a href='/item?id={n}'>.</a><a href='/item?id={n}&ref=x{n}'>.</a>"
        f"<a href='/item?id={n}&print=1'>.</a>"
        for n in range(30)
    )

    def answer(url):
        n = next(fetched)
        item = url.partition("id=")[2].partition("&")[0]
        text = menu + (url if not item else "")
        if url == "http://a.test/":
            text += links
        elif item:
            text = f"<h1>Item {item}</h1><p>It weighs {int(item) * 7} grams</p>"
            if "print=1" not in url:
                text = f"{menu}{text}<p>Page generated in 0.{n:05} seconds</p>"
        return Reply(200, f"<title>Shop</title>{text}<!-- {n} -->".encode(), HTML)

    with Site(answer) as site:
        crawl(site, ["http://a.test/"], {SETTING: str(log), **EXTENSION})
    dropped = {name for rule in mine(read_log(str(log))) if rule.active for name in rule.param}
    dropped |= {name for rule in mine(read_log(str(log))) if rule.active for name in rule.default}
    assert dropped == {"ref", "print"}
