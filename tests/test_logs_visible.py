"""The text of a page is read by a stylesheet: it finds what a walk over the tree finds."""

from __future__ import annotations

import plain_page
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lxml import html
from scrapy.http import HtmlResponse

from scrapy_urlnorm.logs.page import identify, names_of, visible_lines
from scrapy_urlnorm.logs.visible import _NONCHARACTERS

URL = "http://site.test/articles/4%32?sid=1"
CANONICAL = "https://site.test/p/7"

TAGS = st.sampled_from(
    [
        "p",
        "div",
        "span",
        "a",
        "b",
        "td",
        "tr",
        "table",
        "li",
        "ul",
        "h1",
        "h2",
        "legend",
        "form",
        "textarea",
        "script",
        "style",
        "svg",
        "noscript",
        "template",
        "title",
        "head",
        "body",
        "html",
        "pre",
        "br",
        "img",
        "o:p",
        "x-card",
        "button",
        "iframe",
    ]
)
ATTRIBUTES = st.sampled_from(
    [
        *["", "", ""],
        *[" hidden", " hidden=no", " data-hidden=1", " aria-hidden='true'"],
        " style='color: red; DISPLAY :none'",
        " style='display:\nnone'",
        " style='&#100;isplay:none'",
        " style='background: url(\"a>b\"); visibility:hidden'",
        " style='di\u017fplay:none'",
        " style='no-display:none'",
        *[" class=trace", " class='trace x'", " class='breadcrumbs'", " class='x breadcrumbs-2'"],
        *[" class='x age-days'", " class=page-days", " class='age-daysx'"],
        *[" class=recently_viewed", " class=most-viewed", " class='a block-viewed-products-grid'"],
        *[" id=reply-title", " class='x comment-reply-title'", " class='<age-days>'"],
        *[" a\"b='c>d'", " title=' style=\"display:none\"'", " x<y=1"],
    ]
)
TEXTS = st.sampled_from(
    [
        *["one", " two ", "x", "\n", "  ", "three\n four", "3 days ago", "5 ▲ days ago/x", "▼"],
        *[
            "&amp;lt;",
            "&lt;b>",
            "a & b",
            "&#13;",
            "&#x1c;",
            "\x01",
            "\x0c",
            "\x85",
            "\xa0",
            "\ufdd0",
        ],
        *[
            "Leave a reply to Ann",
            "leave a",
            " comment",
            "/articles/42",
            "/p/7?x",
            "%2Fp/7/",
            "a/b",
        ],
        *["views: 7", "İago 3 days ago", "reviews: 7", "Chicago", "vor 3 Tagen", "42 views"],
        *["<!-- > -->", "<!-->", "<!--->", "<!doctype html>", "<?php x > y ?>", "<![CDATA[a<b]]>"],
        *["<", "</", "&", "&#0;", "\U0001f600", "ſ", 'say style="display:none"'],
    ]
) | st.text(max_size=4)
PARTS = st.one_of(
    st.builds("<{}{}>".format, TAGS, ATTRIBUTES),
    st.builds("</{}>".format, TAGS),
    TEXTS,
)


def trees(source: str):
    """The page as Scrapy parses it."""
    return HtmlResponse(URL, body=source.encode("utf-8", "replace"), encoding="utf-8").selector.root


@settings(max_examples=200, deadline=None)
@given(st.lists(PARTS, max_size=30).map("".join))
@example("<p>a\ufdd0b</p>" + _NONCHARACTERS[1:5])
@example("<!DOCTYPE html PUBLIC '-//W3C//DTD XHTML 1.0 Strict//EN' 'x'><script>a<b</script>c")
@example("<p></body></html>one<p>two")
@example("<html hidden>one")
@example("<p>3 ▲ days ▼ ago<p>x ▲ y/z")
@example("<title hidden>one")
@example("a<span hidden>b</span>c<div hidden>d</div>e<svg><svg/>f</svg>g")
@example("<div><h2>Leave a reply to Ann</h2><form><textarea></textarea></form></div>")
def test_it_reads_what_a_walk_reads(source):
    """Every page has the lines that it had when its nodes were visited one by one."""
    root = trees(source)
    before = html.tostring(root)
    found = visible_lines(root, URL, CANONICAL)
    assert found == plain_page.visible_lines(root, URL, CANONICAL)
    assert html.tostring(root) == before, "the spider sees all of the page"


@settings(deadline=None)
@given(st.lists(PARTS, max_size=30).map("".join))
def test_the_names_are_those_of_the_log(source):
    """A running crawl compares what the crawl log has."""
    assert names_of(source, URL) == identify(source, URL)[:3]


def test_a_page_may_have_all_marks():
    """The mark between two blocks is a character that the page has not, as long as there is one."""
    for free in ("", _NONCHARACTERS[7]):
        text = _NONCHARACTERS.replace(free, "") if free else _NONCHARACTERS
        lines = visible_lines(trees(f"<p>{text}<p>b"), URL)
        assert lines[-1] == "b"
        assert "".join(lines) == (text + "b" if free else text[1:] + "b")


@pytest.mark.parametrize(
    "source",
    [
        "<b>x</b>" * 200_000,
        "<p>" * 500_000,
        "<div>" * 500_000 + "x",
        "<p hidden>" * 100_000 + "<svg>" * 100_000,
        "<p style='display:none' class='age-days recently_viewed' hidden>" * 20_000,
        "<div class=breadcrumbs><p class=trace>" * 50_000,
        "<h2>Leave a reply</h2>" * 50_000 + "<form><textarea>",
        "<p class='trace'>" * 100_000,
        "<!-- " * 500_000,
        "&#1;" * 500_000,
    ],
    ids=lambda source: source[:20],
)
def test_a_page_of_many_tags_comes_to_an_end(source):
    """Four megabytes of anything take seconds; by the square of the tags they would take days."""
    assert visible_lines(trees(source), URL) is not None
