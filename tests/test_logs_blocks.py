"""Blocks of a page, how two fetches differ, and what of a site changes by itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import html

from scrapy_urlnorm.logs.blocks import Block, blocks_of, packed, unpacked, without_digits
from scrapy_urlnorm.logs.differences import (
    Unit,
    changes_in_lines,
    family_of,
    place_of,
    without_span,
)
from scrapy_urlnorm.logs.units import Units

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
    "lazy picture": ("<img src=dot.gif data-src=/b.png>", [("body/img", "\0img /b.png")]),
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


def test_what_a_page_says_of_its_own_url_is_left_out():
    assert [block.line for block in read(f"<p>Share {URL} now</p>")] == ["Share now"]


def test_long_data_is_its_digest():
    (one,) = read(f'<script type="application/json">{"x" * 400}</script>')
    (other,) = read(f'<script type="application/json">{"x" * 399}y</script>')
    assert len(one.line) < 60
    assert one != other


LINES = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1)


@given(
    st.lists(st.tuples(st.from_regex(r"[a-z]{1,4}(/[a-z.#0]{1,4}){0,2}", fullmatch=True), LINES))
)
def test_packed_blocks_are_read_again(pairs):
    blocks = [Block(path, line) for path, line in pairs]
    assert not blocks or unpacked(packed(blocks)) == blocks


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


# --- differences --------------------------------------------------------------------------------

FAMILIES = [
    ("http://h.test/a/1?x=1&y=2", "http://h.test/a/22?y=5&x=0", True),
    ("http://h.test/board12/7", "http://h.test/board9/7", True),
    ("http://h.test/a/1", "http://h.test/b/1", False),
    ("http://h.test/a/1", "http://h.test/a/1/2", False),
    ("http://h.test/a?x=1", "http://h.test/a?z=1", False),
    ("http://h.test/index.php?/a/b", "http://h.test/index.php?/c/d", True),
    ("http://h.test/a", "https://h.test/a", False),
]


@pytest.mark.parametrize(("one", "other", "expected"), FAMILIES)
def test_families(one, other, expected):
    assert (family_of(one) == family_of(other)) is expected


CHANGES = {
    "numbers": (["Seen 5 times"], ["Seen 12 times"], {Unit("shape", "p", "Seen 0 times")}),
    "the end": (["Latest news: tea"], ["Latest news: no ink"], {Unit("span", "p", "news:", "$")}),
    "between": (
        ["Hello dear Ann and welcome back"],
        ["Hello dear Bob Ross and welcome back"],
        {Unit("span", "p", "dear", "and")},
    ),
    "all": (["tea"], ["ink"], None),
    "one came": (["tea"], ["tea", "ink"], None),
    "none": (["tea", "ink"], ["tea", "ink"], set()),
}


@pytest.mark.parametrize("name", CHANGES)
def test_how_lines_change(name):
    before, after, expected = CHANGES[name]
    assert changes_in_lines("p", before, after) == expected


SPANS = [
    ("News: tea is back", ("News:", "$"), ("News:", "tea is back")),
    ("Hello dear Ann and so on", ("dear", "and"), ("Hello dear and so on", "Ann")),
    ("tea for two", ("^", "for"), ("for two", "tea")),
    ("nothing of it", ("News:", "$"), None),
    ("News: a very long line of all sorts of words", ("News:", "$"), None),
]


@pytest.mark.parametrize(("line", "ends", "expected"), SPANS)
def test_a_line_without_a_span(line, ends, expected):
    assert without_span(line, Unit("span", "p", *ends), longest=6) == expected


def test_title_and_heading_tell_pages_apart():
    blocks = [Block("html/head/title", "shop"), Block("html/body/h1", "Tea"), Block("body/p", "x")]
    assert place_of(blocks) == "shop | Tea"
    assert place_of(blocks[2:]) == ""


# --- units --------------------------------------------------------------------------------------


def page(number, ad="", views=0):
    """A page of a site: its own text, and what moves."""
    own = [
        Block("body/h1", f"item {'abc' * number}"),
        Block("body/p", f"{'tea ' * 20}{number * 'x'}"),
    ]
    return [*own, Block("body/div.ad", ad), Block("body/div.foot", f"Seen {views} times")]


def learned(*pairs):
    """What a site teaches in pairs of fetches of its pages."""
    units = Units()
    for number, (one, two) in enumerate(pairs, 1):
        units.saw(page(number, **one), f"http://h.test/item/{number}")
        units.learn("family", page(number, **one), page(number, **two))
    return units


def name(units, *args, **moving):
    return units.name(page(*args, **moving), units.left_out("family"))


def test_nothing_is_left_out_before_a_pair():
    units = Units()
    assert name(units, 1, ad="tea") != name(units, 1, ad="ink")
    assert not units.left_out("family")


def test_what_a_pair_shows_to_change_is_left_out():
    units = learned(({"ad": "buy tea"}, {"ad": "sell ink"}), ({"ad": "oak"}, {"ad": "elm"}))
    assert name(units, 3, ad="one") == name(units, 3, ad="two")
    assert name(units, 3) != name(units, 4)
    assert name(units, 3, views=1) != name(units, 3, views=2)  # that held still


def test_a_counter_is_a_shape():
    units = learned(({"views": 4}, {"views": 17}), ({"views": 8}, {"views": 9}))
    assert units.left_out("family") == {Unit("shape", "body/div.foot", "Seen 0 times")}
    assert name(units, 3, views=1) == name(units, 3, views=2)


def test_another_family_is_as_strict_as_before():
    units = learned(({"views": 4}, {"views": 17}))
    assert not units.left_out("another")


def test_two_pages_are_the_same_up_to_what_changes():
    units = learned(({"ad": "buy tea"}, {"ad": "sell ink"}), ({"ad": "oak"}, {"ad": "elm"}))
    out = units.left_out("family")
    assert units.same(page(3, ad="x"), page(3, ad="y"), out)
    assert not units.same(page(3), page(4), out)


def test_what_was_learned_survives_a_run():
    units = learned(({"views": 4}, {"views": 17}), ({"ad": "oak"}, {"ad": "elm"}))
    again = Units.from_state(units.state)
    assert again.left_out("family") == units.left_out("family")
    assert name(again, 3, views=1) == name(units, 3, views=1)


@given(st.text(max_size=30))
def test_shapes_have_no_other_digits(line):
    assert without_digits(without_digits(line)) == without_digits(line)
