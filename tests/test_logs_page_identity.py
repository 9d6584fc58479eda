"""Page identity: two responses are compared by their bytes, their text and their words."""

from __future__ import annotations

import gzip
import json

import pytest
from loopback import Reply, Site, crawl
from scrapy.http import HtmlResponse, Response, TextResponse, XmlResponse

from scrapy_urlnorm.logs import page_identity
from scrapy_urlnorm.logs.page_identity import Identity, identity_of

URL = "http://a.test/page"
TEXT = " ".join(f"word{n}" for n in range(120))


def page(body, url=URL, **more):
    """A page of HTML with enough text not to be short."""
    return HtmlResponse(url, body=f"<p>{body}</p><p>{TEXT}</p>".encode(), **more)


SAME = {
    "equal bytes": (page("a"), page("a", "http://b.test/")),
    "equal text": (page("a <!-- 1 -->"), page("a <!-- 2 -->")),
    "equal words": (page("a</p><p>b"), page("b</p><p>a")),
    "equal bytes, no text": (Response(URL, body=b"\x89PNG"), Response(URL, body=b"\x89PNG")),
    "equal bytes, two types": (Response(URL, body=b"x"), HtmlResponse(URL, body=b"x")),
    "its own address": (page(URL), page("http://a.test/other", "http://a.test/other")),
}
DIFFERENT = {
    "another word": (page("a"), page("b")),
    "other bytes": (Response(URL, body=b"\x89PNG1"), Response(URL, body=b"\x89PNG2")),
    "a feed and its text": (
        XmlResponse(URL, body=b"<a>1</a>"),
        XmlResponse(URL, body=b"<a>1 </a>"),
    ),
    "plain text": (TextResponse(URL, body=b"a b"), TextResponse(URL, body=b"b a")),
    "pictures without a word": (
        HtmlResponse(URL, body=b"<img src=/1.png>"),
        HtmlResponse(URL, body=b"<img src=/2.png>"),
    ),
    "nothing but its own address": (
        HtmlResponse(URL, body=f"<h1>{URL}</h1>".encode()),
        HtmlResponse("http://b.test/page", body=b"<h1>http://b.test/page</h1>"),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_one_content(name):
    """What a reader would call the same page agrees, in both directions."""
    one, other = map(identity_of, SAME[name])
    assert one.agrees(other)
    assert other.agrees(one)


@pytest.mark.parametrize("name", DIFFERENT)
def test_two_contents(name):
    """Without equal bytes, text or words nothing agrees, and what neither has is not equal."""
    one, other = map(identity_of, DIFFERENT[name])
    assert not one.agrees(other)
    assert not other.agrees(one)


def test_each_of_the_three_is_enough():
    """Bytes, text and words each decide alone; the kind of a page decides nothing."""
    one = Identity("1", "2", "3", "wall")
    assert one.agrees(Identity("1", "-", "-"))
    assert one.agrees(Identity("-", "2", "-"))
    assert one.agrees(Identity("-", "-", "3"))
    assert not one.agrees(Identity("-", "-", "-", "wall"))
    assert not Identity("1").agrees(Identity("2"))


@pytest.mark.parametrize(
    "response",
    [
        Response(URL),
        HtmlResponse(URL, body=b""),
        page("a", flags=["dataloss"]),
        page("a", flags=["cached", "download_stopped"]),
    ],
)
def test_what_did_not_arrive_has_no_identity(response):
    """An empty body, and one that was cut off, say nothing about the page."""
    assert identity_of(response) is None


def test_a_body_without_a_length_is_whole():
    """Scrapy calls a body "partial" that ends with the connection: most such bodies are whole."""
    assert identity_of(page("a", flags=["partial"])) == identity_of(page("a"))


def test_a_large_page_is_named_by_its_bytes(monkeypatch):
    """Beyond the bound the text is not read."""
    response = page("a")
    monkeypatch.setattr(page_identity, "MAX_BYTES", len(response.body))
    assert identity_of(response).bag_digest
    monkeypatch.setattr(page_identity, "MAX_BYTES", len(response.body) - 1)
    assert identity_of(response)[1:] == (None, None, None)


def test_walls_say_that_they_are():
    """The kind of a short page is told, so that nobody takes a wall for a page."""
    body = b"<title>Log in</title><input type=password>"
    assert identity_of(HtmlResponse(URL, body=body)).kind == "wall"


def test_the_parsed_tree_is_the_spiders():
    """The page is parsed once, by the response's own selector, and not changed."""
    response = page("<b hidden>x</b>y")
    before = response.selector.root
    identity_of(response)
    assert response.selector.root is before
    assert response.css("b::text").get() == "x"


def test_the_crawl_log_tells_the_same(tmp_path):
    """A row of the crawl log has the digests that a running crawl compares."""
    log = tmp_path / "log.jsonl"
    html = {"Content-Type": "text/html; charset=utf-8"}
    response = page("a <!-- 1 -->")
    packed = Reply(200, gzip.compress(response.body), {**html, "Content-Encoding": "gzip"})
    with Site({URL: packed}) as site:
        crawl(
            site,
            [URL],
            {"URLNORM_CRAWL_LOG": str(log), "EXTENSIONS": {"scrapy_urlnorm.CrawlLog": 500}},
        )

    row = json.loads(log.read_text())
    identity = identity_of(response)
    assert {name: row[name] for name in Identity._fields} == identity._asdict()
