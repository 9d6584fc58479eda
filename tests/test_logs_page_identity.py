"""Page identity: two responses are compared by their bytes, their text and their words."""

from __future__ import annotations

import pytest
from scrapy.http import HtmlResponse, Response, TextResponse, XmlResponse

from scrapy_urlnorm.logs import page_identity
from scrapy_urlnorm.logs.page_identity import row_of, shown_by

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
    "another picture": (page("<img src=/1.png?v=1>"), page("<img src=/1.png?v=2>")),
    "other data": (
        page("<script type=application/json>{1}</script>"),
        page("<script type=application/json>{2}</script>"),
    ),
    "another age": (page("3 days ago"), page("5 days ago")),
    "another class": (page("<p class=age-days>3"), page("<p class=age-days>4")),
}


def digests(response):
    """The digests in a row of the crawl log."""
    row = row_of(response, response.url)
    return {name: row[name] for name in ("digest", "text_digest", "bag_digest") if row.get(name)}


@pytest.mark.parametrize(
    ("pair", "is_one"),
    [*((pair, True) for pair in SAME.values()), *((pair, False) for pair in DIFFERENT.values())],
    ids=[*SAME, *DIFFERENT],
)
def test_one_content_or_two(pair, is_one):
    """What a reader would call the same page has a digest in common, and nothing else has."""
    one, other = map(digests, pair)
    assert bool(one.items() & other.items()) is is_one


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
    assert shown_by(response) == (None, None)


def test_a_body_without_a_length_is_whole():
    """Scrapy calls a body "partial" that ends with the connection: most such bodies are whole."""
    assert shown_by(page("a", flags=["partial"])) == shown_by(page("a"))


def test_a_large_page_is_named_by_its_bytes(monkeypatch):
    size = len(page("a").body)
    assert shown_by(page("a"), size)[1]
    assert shown_by(page("a"), size - 1)[1] is None
    monkeypatch.setattr(page_identity, "MAX_BYTES", size - 1)
    assert shown_by(page("a"), size)[1] is None


LOGIN = "<title>{}</title><form method=post><p>{}</p><input type=password></form>"
KINDS = [
    (LOGIN.format("Log in", "To see topic 17, please log in"), "wall"),
    (LOGIN.format("Anmelden", "Bitte anmelden"), "wall"),
    (LOGIN.format("Chapter 1", "Ann went home"), None),  # a login box beside a short text
    ("<title>Log in</title><p>How to log in</p>", None),  # no password asked for
    (f"<h1>Log in</h1><input type=password><p>{TEXT}", None),  # much text
    ("<title>404 Not Found</title>", "missing"),
    ("<title>Shop</title><h1>Error 404</h1><p>b", "missing"),
    ("<title>Page not found</title>", "missing"),
    ("<title>Item 7 does not exist</title>", "missing"),
    ("<title>Seite nicht gefunden</title>", "missing"),
    ("<title>Lot 404</title><p>A vase</p>", None),
    ("<title>Lost and found</title><p>A vase</p>", None),
    ("<title>Shop</title><p>The page was not found by chance</p>", None),
    (f"<h1>404 Not Found: a history</h1><p>{TEXT}", None),
    ("<h1>404</h1>" * 25_000, None),
    ("<h1>404 " * 40_000, None),
    ("<title>" + "404-" * 75_000 + "</title>", None),
]


@pytest.mark.parametrize(("body", "kind"), KINDS, ids=[body[:40] for body, _ in KINDS])
def test_short_pages_may_be_walls_or_missing(body, kind):
    """By title or heading, so that nobody takes a wall for a page; its digests are its own."""
    assert shown_by(HtmlResponse(URL, body=body.encode()))[0].kind == kind


def test_empty_pages_are_one_content():
    """In a log, shells without any text cannot be told apart."""
    shells = [b" ", b"<html></html>", b"<body><div id=root></div><script src=a.js></script>"]
    rows = [row_of(HtmlResponse(URL, body=shell), URL) for shell in shells]
    assert len({row["bag_digest"] for row in rows}) == 1
    assert {row["blocks"] for row in rows} == {""}


def test_a_page_is_read_once(monkeypatch):
    """By the log and by what learns, as long as the response is there."""
    response, read = page("a"), []
    monkeypatch.setattr(page_identity, "blocks_of", lambda *args: read.append(1) or [])
    for _ in range(2):
        shown_by(response)
        row_of(response, URL)
    assert read == [1]


def test_a_page_too_long_for_a_row_has_its_digests():
    row = row_of(page("<p>some words ".join(map(str, range(20_000)))), URL)
    assert row["blocks"] is None
    assert row["bag_digest"]
