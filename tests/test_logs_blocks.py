"""Blocks of a page: what is shown and where, and their hashes."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from lxml import etree, html
from scrapy.http import HtmlResponse

from scrapy_urlnorm.logs import blocks as module
from scrapy_urlnorm.logs.blocks import (
    SHOWN,
    Block,
    blocks_of,
    from_hashed,
    hashed,
    packed,
    unpacked,
    without_digits,
)
from scrapy_urlnorm.logs.differences import (
    place_of,
)
from scrapy_urlnorm.logs.page_identity import shown_by

URL = "http://shop.test/item/7"


def read(body, url=URL):
    return blocks_of(html.document_fromstring(f"<html><body>{body}</body></html>"), url)


# --- blocks -------------------------------------------------------------------------------------

BLOCKS = {
    "text": ("<p>a <b>bold</b> word</p>", [("body/p", "a bold word")]),
    "nested": ("<div class='b a'><p>x</p>y</div>", [("body/div.a.b/p", "x"), ("body/div.a.b", "y")]),
    "digits of a place": ("<div id=post12>x</div>", [("body/div#post0", "x")]),
    "columns": (
        "<table><tr><td>a</td><td>b</td></tr></table>",
        [("table/tr/td:1", "a"), ("table/tr/td:2", "b")],
    ),
    "picture": ("<p>x <img src='/a.png?v=1'></p>", [("body/p/img", "\0img /a.png?v=1"), ("body/p", "x")]),
    "picture with a time": (
        "<img src='/a.gif?id=x&1795986732'><img src='/b.gif?t=1795986732123&v=1795986732x'>",
        [("body/img", "\0img /a.gif?id=x&"), ("body/img", "\0img /b.gif?t=&v=1795986732x")],
    ),
    "lazy picture": ("<img src=dot.gif data-src=/b.png>", [("body/img", "\0img /b.png")]),
    "document": ("<object data='/a.pdf'>x</object>", [("body/object", "\0object /a.pdf"), ("body", "x")]),
    "field": ("<input value=hello>", [("body/input", "\0input hello")]),
    "hidden field": ("<input type=hidden value=token>", []),
    "script": ("<script>var x = 1</script><p>x</p>", [("body/p", "x")]),
    "data": (
        '<script type="application/ld+json">{"price":\n 12}</script>',
        [("body/data", '\0data {"price": 12}')],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCKS)
def test_what_a_page_shows_and_where(name):
    body, expected = BLOCKS[name]
    found = [(block.path.removeprefix("html/"), block.line) for block in read(body)]
    assert found == expected


def lines(source, url=URL, canonical=None):
    """The lines of a page, parsed as Scrapy parses it."""
    body = source.encode("utf-8", "replace")
    root = HtmlResponse(url, body=body, encoding="utf-8").selector.root
    return [block.line for block in blocks_of(root, url, canonical)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a <b>b</b><!-- no -->c<p>d<br>e<i>f</i><ul><li>g</ul>&amp; h<?pi x?>i<script>x</script>j",
         ["a bc", "d", "ef", "g", "& hij"]),
        ("<table><td>1<td>2</table>", ["1", "2"]),
        ("<style>.a{}</style><noscript>tracker</noscript><svg>s</svg>x", ["x"]),
        ("<p hidden>nonce</p><p style='color:red; DISPLAY :none'>y<p style='no-display:none'>x", ["x"]),
        ("a<span hidden>b</span>c<div style='visibility:hidden'>d</div>e", ["ac", "e"]),
        ("<th>Name ▲</th><th>▼</th>", ["Name"]),
        ("<p>3 days ago<p>Views: 17<p class=recently_viewed>shoe", ["3 days ago", "Views: 17", "shoe"]),
    ],
)  # fmt: skip
def test_lines_are_what_a_reader_sees(body, expected):
    """Blocks part lines. Nothing is left out by its words or its class."""
    assert lines(f"<html><body>{body}") == expected


@pytest.mark.parametrize(
    ("url", "echo"),
    [
        ("https://a.test/p/42?sid=1", "https://a.test/p/42?sid=1"),
        ("https://a.test/p/42?sid=1", "https://a.test/p/42"),
        ("https://a.test/p/42?sid=1", "&lt;https://a.test/p/42/&gt;."),
        ("https://a.test/p/42?sid=1", "http://a.test/p/42?sid=1#top"),
        ("https://a.test/p/42?sid=1", "/p/42"),
        ("https://a.test/p/42?sid=1", "(/p/42?sid=1)"),
        ("https://a.test/caf%C3%A9", "/café"),
        ("https://a.test/caf%C3%A9", "https://a.test/caf%C3%A9"),
        ("https://a.test/", "http://a.test/"),
        ("https://a.test/?p=7", "https://a.test/declared"),
    ],
)
def test_the_pages_own_url_does_not_count(url, echo):
    """A page that prints where it is says the same under its other URLs."""
    assert lines(f"<p>You are at {echo} now</p>", url, "https://a.test/declared") == [
        "You are at now"
    ]


def test_other_places_count():
    places = f"{URL}1 {URL}/x {URL}.zip {URL}?raw=1 http://b.test/item/7 /item/ and/or"
    assert lines(f"<p>{places}</p>") == [places]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ('{"query":{"sort":"up","id":7}}', '{"query":{"id":7}}'),
        ('["\\u002Flist?sort=up"]', '["\\u002Flist"]'),
        ('{"a":1,"sort":null}', '{"a":1}'),
    ],
    ids=["JSON", "a path", "null"],
)
def test_data_says_nothing_of_the_query_of_the_page(one, two):
    shown = [
        lines(f'<script type="application/json">{data}</script>', f"http://a.test/list{query}")
        for data, query in ((one, "?sort=up"), (two, ""))
    ]
    assert shown[0] == shown[1]


def test_long_data_is_its_digest():
    (one,) = read(f'<script type="application/json">{"x" * 400}</script>')
    (other,) = read(f'<script type="application/json">{"x" * 399}y</script>')
    assert len(one.line) < 60
    assert one != other


@given(
    st.lists(
        st.tuples(st.sampled_from(["p", "td", "img", "script", "input"]), st.text(max_size=40))
    )
)
def test_any_page_is_packed_and_read_again(elements):
    """Whatever stands in it: a block is one line."""
    root = html.document_fromstring("<html><body></body></html>")
    for tag, text in elements:
        element = (
            html.Element(tag, type="application/json") if tag == "script" else html.Element(tag)
        )
        said = "".join(c for c in text if c in "\t\n\r" or (c.isprintable()))
        if tag in ("img", "input"):
            element.set("src" if tag == "img" else "value", said)
        else:
            element.text = said
        root.body.append(element)
    blocks = blocks_of(root, URL)
    assert not blocks or unpacked(packed(blocks)) == blocks


TAGS = (
    "p div span a b td tr table li h1 form textarea script style svg noscript template title head"
)
TAGS = st.sampled_from([*TAGS.split(), *["body", "html", "pre", "br", "o:p", "x-card", "button"]])
ATTRIBUTES = """
 hidden| data-hidden=1| style='color: red; DISPLAY :none'| a"b='c>d'| style='no-display:none'| x<y=1||
 style='display:\nnone'| style='&#100;isplay:none'| style='background: url("a>b"); visibility:hidden'|
 title=' style="display:none"'"""
ATTRIBUTES = st.sampled_from(ATTRIBUTES.replace("|\n", "|").strip("\n").split("|"))
TEXTS = """one| two |x|  |three\n four|&amp;lt;|&lt;b>|a & b|&#13;|\x01|\x0c|\x85|\xa0|\ufdef|<!-- > -->|<!-->|\
<!doctype html>|<?php x > y ?>|<![CDATA[a<b]]>|<|</|&|&#0;|\U0001f600|say style="display:none"|\n"""
TEXTS = st.sampled_from(TEXTS.split("|")) | st.text(max_size=4)
SOURCES = st.lists(
    st.one_of(st.builds("<{}{}>".format, TAGS, ATTRIBUTES), st.builds("</{}>".format, TAGS), TEXTS),
    max_size=30,
).map("".join)


def walked(root):
    """The lines of text, found node by node: slow, and easy to check by reading."""
    parts, found = [], []

    def end():
        found.append(" ".join("".join(parts).split()))
        parts.clear()

    walk = etree.iterwalk(root, events=("start", "end", "comment", "pi"))
    for event, element in walk:
        tag = element.tag
        is_hidden = element.get("hidden") is not None or module.HIDDEN.search(
            element.get("style") or ""
        )
        in_head = any(each.tag == "head" for each in element.iterancestors())
        if event == "start" and (tag in module._UNSEEN or (is_hidden and not in_head)):
            walk.skip_subtree()
            if tag not in (*module._UNSEEN, *module._INLINE):
                end()
        elif event == "start" and tag == "head":
            walk.skip_subtree()
            end()
            parts.append("".join(element.xpath("(.//title)[1]//text()")))
        elif event == "start":
            if tag not in module._INLINE:
                end()
            parts.append(element.text or "")
        else:
            if tag not in (*module._INLINE, *module._UNSEEN) and event == "end":
                end()
            parts.append(element.tail or "")
    end()
    shown = module._without_arrows([line for line in found if line])
    return [line for line in module._without_echoes(shown, URL, None) if line]


@settings(max_examples=200)
@given(SOURCES)
@example("<p></body></html>one<p>two")
@example("<html hidden>one")
@example("<title hidden>one")
@example("a<span hidden>b</span>c<div hidden>d</div>e<svg><svg/>f</svg>g")
def test_it_reads_what_a_walk_reads(source):
    """A stylesheet finds what the nodes have, visited one by one; the spider's tree stays whole."""
    assume(not set(source) & set("\ufdd0\ufdd1\ufdd2\ufdd3"))
    body = source.encode("utf-8", "replace")
    root = HtmlResponse(URL, body=body, encoding="utf-8").selector.root
    before = html.tostring(root)
    for raw in (None, body.decode()):
        found = [block.line for block in blocks_of(root, URL, None, raw) if block.is_text]
        assert found == walked(root)
    assert html.tostring(root) == before


@pytest.mark.parametrize("mark", ["\ufdd0", "&#xFDD3;", "&#064977;", "&#X00fdd2"])
def test_a_page_with_one_of_our_marks_is_not_read(mark):
    """Its bytes name it."""
    response = HtmlResponse(URL, body=f"<p>a{mark}b".encode(), encoding="utf-8")
    with pytest.raises(ValueError, match="no text has"):
        blocks_of(response.selector.root, URL, None, response.text)
    assert shown_by(response)[1] is None
    assert lines("<p>a\ufdd4b fdd0 64976") == ["a\ufdd4b fdd0 64976"]


SLOW = {
    "inline": "<b>x</b>" * 200_000,
    "paragraphs": "<p>" * 500_000,
    "depth": "<div>" * 300_000 + "x",
    "hidden": "<p hidden>" * 100_000 + "<svg>" * 100_000,
    "styles": "<p style='display:none' class='a b c' hidden>" * 20_000,
    "comments": "<!-- " * 500_000,
    "numbers": "&#1;" * 500_000,
    "its own address": "<p>/item/7?" + ")" * 300_000 + "%20x",
    "brackets": "<p>" + "(" * 300_000 + "/item/",
    "one style": "<p style='" + "; " * 150_000 + "'>x",
}


@pytest.mark.parametrize("name", SLOW)
def test_hostile_pages_take_linear_time(name):
    """Megabytes of anything take seconds; by the square of the tags they would take days."""
    assert lines(SLOW[name]) is not None


# --- hashes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "like", "unlike"),
    [
        ("Seen 5 times", "Seen 12 times", "Seen 5 hours"),
        ("1/12", "11/2", "1-12"),
        ("call +49 30 1234567890123", "call +49 30 9999999999999", "call 49 30 1234567890123"),
        ("a b c d 7 f g h i j", "a b c d 9 f g h i j", "a b c d 7 x g h i j"),
    ],
)
def test_hashes_keep_the_shape_of_a_line(line, like, unlike):
    """Lines that differ in their numbers alone have hashes that do; no other lines have."""
    one, other, third = (
        from_hashed(hashed([Block("p", said)]))[0].line for said in (line, like, unlike)
    )
    assert one != other
    assert without_digits(one) == without_digits(other) != without_digits(third)


def test_hashes_keep_what_units_need():
    blocks = [
        Block("html/head/title", "Shop"),
        Block("body/div/h1.big", "Tea and more"),
        Block("body/p", "News: all the latest and greatest that there is today folks"),
        Block("body/p", f"{SHOWN}img /a.png"),
    ]
    title, heading, text, picture = from_hashed(hashed(blocks))
    assert place_of([title, heading]) == f"{title.line} | {heading.line}"
    assert (text.path == picture.path, text.is_text, picture.is_text) == (True, True, False)
    assert "Shop" not in hashed(blocks)
    assert text.line.split()[0] == hashed([Block("", "News:")]).split()[1]
    assert len(text.line.split()) == 7


@given(st.text(max_size=30))
def test_shapes_have_no_other_digits(line):
    assert without_digits(without_digits(line)) == without_digits(line)
