"""How two fetches of a page differ, what of it changes by itself, and names without that."""

from __future__ import annotations

import pytest

from scrapy_urlnorm.logs.blocks import Block
from scrapy_urlnorm.logs.differences import (
    Unit,
    changes_in_lines,
    family_of,
    place_of,
    without_span,
)
from scrapy_urlnorm.logs.units import Units

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
    "after a label": (
        ["Online: Ann, Bob, Cid"], ["Online: Dan, Eve, Fay"], {Unit("span", "p", "Online:", "$")},
    ),
    "all": (["tea"], ["ink"], None),
    "one came": (["tea"], ["tea", "ink"], None),
    "none": (["tea", "ink"], ["tea", "ink"], set()),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_how_lines_change(name):
    before, after, expected = CHANGES[name]
    assert changes_in_lines("p", before, after) == expected


def test_thousands_of_lines_are_compared_in_order():
    """To match them would hold a crawl up for hours."""
    before, after = (["ab"[n * step % 3 % 2] for n in range(100_000)] for step in (1, 2))
    assert changes_in_lines("p", before, after) is None
    numbers = [f"{n} views" for n in range(100_000)]
    assert changes_in_lines("p", numbers, [*numbers[1:], "7 views"]) == {
        Unit("shape", "p", "0 views")
    }


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


def learned(*pairs, units=None, family="family"):
    """What a site teaches in pairs of fetches of its pages."""
    units = units or Units()
    for number, (one, two) in enumerate(pairs, 1):
        units.saw(page(number, **one), f"http://h.test/item/{number}")
        units.learn(family, page(number, **one), page(number, **two))
    return units


def name(units, *args, **moving):
    return units.name(page(*args, **moving), units.left_out("family"))


@pytest.mark.parametrize("out", [(), (Unit("path", "p"),)])
def test_a_name_tells_lists_in_another_order_apart(out):
    lists = [Block("ul/li", "one"), Block("ul/li", "two")]
    one, other = (Units().name(blocks, out) for blocks in (lists, lists[::-1]))
    assert one != other


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


def test_numbers_beside_words_of_the_page_are_one_unit():
    """Else each page has a shape of its own, and teaches nothing about others."""
    units = Units()
    for own in ("tea", "ink", "oak"):
        pair = [[Block("body/h1", own), Block("p", f"{own}: {n} views")] for n in (4, 17)]
        units.learn("family", *pair)
    assert units.left_out("family") == {Unit("shape", "p")}
    for own, is_one in (("elm", True), ("fir", False)):
        one, two = [Block("p", "elm: 4 views")], [Block("p", f"{own}: 5 views")]
        assert units.same(one, two, units.left_out("family")) is is_one
    units.learn("family", [Block("p", "fig: 4 views")], [Block("p", "fig: 5 views")])
    assert units.left_out("family") == {Unit("shape", "p")}


def test_lines_that_several_pages_show_are_left_out_where_they_come_and_go():
    """An advertisement among paragraphs."""

    def page(number, *lines):
        own = f"the words of page {'x' * number}"
        return [Block("body/h1", "y" * number), *(Block("p", line) for line in (own, *lines))]

    units = Units()
    for number, ad in enumerate(("buy tea", "sell ink", "buy tea", "sell ink"), 1):
        units.saw(page(number, ad), f"http://h.test/{number}")
    assert not units.left_out("family")
    units.learn("family", page(5, "buy tea"), page(5))
    out = units.left_out("family")
    assert Unit("shared", "p") in out
    assert units.same(page(6, "sell ink"), page(6, "buy tea"), out)
    assert not units.same(page(6, "a word of its own"), page(6), out)
    assert not units.same(page(6), page(7), out)


def test_a_line_is_counted_at_each_page_that_shows_it_where_pages_move():
    """The latest news stand on pages that were seen already, under other URLs."""
    units = learned(({"ad": "tea"}, {"ad": "ink"}))
    for number in (1, 2, 1, 1):
        units.saw(page(number, ad=f"news of {number // 3}"), f"http://h.test/item/{number}")
    assert units.value(Unit("shared", "body/div.ad"), page(9, ad="news of 0")) == ("news of 0",)


ITEM, SORTED, LIST = (
    family_of(f"http://h.test/{each}") for each in ("item?n=1", "item?s=1", "a/b")
)


def test_another_family_is_as_strict_as_before():
    units = learned(({"views": 4}, {"views": 17}), family=ITEM)
    assert not units.left_out(LIST)


def test_siblings_leave_out_the_same():
    """Else no page of one of them bears the name of a page of the other."""
    units = learned(({"views": 4}, {"views": 17}), ({}, {}), family=ITEM)
    assert units.left_out(SORTED) == units.left_out(ITEM)
    learned(({}, {}), ({}, {}), ({}, {}), units=units, family=SORTED)
    assert units.left_out(SORTED) == units.left_out(ITEM) == frozenset()  # one of five


def test_a_family_that_is_clear_asks_no_siblings():
    changes = [({"views": n}, {"views": n + 1}) for n in range(9)]
    units = learned(*changes, family=ITEM)
    learned(*4 * [({}, {})], units=units, family=SORTED)
    assert units.left_out(ITEM)
    assert not units.left_out(SORTED)


def test_what_changes_with_time_is_content_in_other_families():
    """What a visitor looked at last stands on some pages where others have a list: shop goods."""
    units = Units()
    families = [family_of(f"http://h.test/{each}/1") for each in "abcd"]
    for number in range(3):
        units.learn_late(families[number], page(1, views=3), page(1, views=8))
        for each in (units, Units.from_state(units.state)):
            assert each.left_out(families[number])
            assert bool(each.left_out(families[3])) is (number == 2)


def test_what_was_learned_survives_a_run():
    units = learned(({"views": 4}, {"views": 17}), ({"ad": "oak"}, {"ad": "elm"}))
    again = Units.from_state(units.state)
    assert again.left_out("family") == units.left_out("family")
    assert name(again, 3, views=1) == name(units, 3, views=1)


def test_a_site_that_makes_up_its_paths_fills_no_memory(monkeypatch):
    monkeypatch.setattr("scrapy_urlnorm.logs.units._MAX_PATHS", 9)
    units = Units()
    for n in range(20):
        pair = ([Block("p", "this stays as it is"), Block(f"p#{n}", word)] for word in "ab")
        units.learn("family", *pair)
    assert [*units.state["pool"]] == [f"p#{n}" for n in range(9)]
