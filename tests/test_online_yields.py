"""What the spider got out of two pages: which differences count."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pytest
from scrapy import Field, Item, Request
from scrapy.http import HtmlResponse

from scrapy_urlnorm.crawl.got import Got
from scrapy_urlnorm.crawl.online.whole_pages import WholePages
from scrapy_urlnorm.crawl.online.yields import Yields
from scrapy_urlnorm.crawl.requests import Asked, asked_for
from scrapy_urlnorm.logs.whole import whole_of
from scrapy_urlnorm.stores.sqlite import Database

ONE, OTHER = "http://shop.test/p/1", "http://shop.test/p/1?view=2"


class Product(Item):
    price = Field()


@dataclass
class Offer:
    price: object


class Broken(Offer):
    def __repr__(self):
        raise ValueError("broken")


class Keys:
    by_url = True

    def cluster_url(self, url):
        return url.partition("#")[0].partition("?view=")[0]


@pytest.fixture
def yields(tmp_path):
    with Database(tmp_path / "urlnorm.sqlite") as database:
        yield Yields(database, Keys(), WholePages(database, Keys()))


def add(yields, url, *things, links=(), referer="http://shop.test/", depth=1):
    asked = Asked(Request(url, headers={"Referer": referer}, meta={"depth": depth}))
    body = "".join(link if "<" in link else f'<a href="{link}">.</a>' for link in links).encode()
    response = HtmlResponse(url, body=b"<p>x</p>" + body)
    got = Got(yields.next_number(), asked, response)
    for each in things:
        got.add(each)
    yields.whole_pages.add(url.encode(), response)
    yields.add(url.encode(), got)


A, B = "http://shop.test/a", "http://shop.test/b"
#: What the earlier page gave, what the later one did, and what is said of it.
CASES = [
    ([{"price": 1}], [{"price": 1}], ""),
    ([{"price": 1}], [{"price": 2}], "another price: '1', '2'"),
    ([Product(price=1)], [Product(price=2)], "another price"),
    ([Offer(1)], [Offer(2)], "another price"),
    ([Offer([1, {"a": 2}])], [Offer([1, {"a": 3}])], "another price"),
    ([{"price": 1}], [Product(price=1)], "another item: 'dict', 'Product'"),
    ([{"text": "x" * 100 + "1"}], [{"text": "x" * 100 + "2"}], "another text"),
    ([{"price": 1}], [{"price": 1, "old": 2}], "another old: '', '2'"),
    ([{"n": 1}, {"n": 2}], [{"n": 2}, {"n": 1}], ""),
    ([{"n": 1}, {"n": 2}], [{"n": 2}], ""),  # the later one adds nothing
    ([{"n": 1}], [], ""),
    ([], [{"n": 1}], "another item: n '1'"),
    ([{"n": 1}], [{"n": 1}, {"n": 2}], "another item"),
    ([{"url": ONE}], [{"url": OTHER}], ""),
    ([{"url": f"see {ONE}"}], [{"url": f"see {OTHER}"}], ""),
    ([{"path": "p/1"}], [{"path": "p/1?view=2"}], "another path"),  # `p/1` may be anything
    ([{"url": ONE}], [{"url": ONE}], ""),  # what both say
    ([{"home": f"{A}/1"}], [{"home": f"{A}/2"}], "another home"),  # no URL of the page
    ([{"next": f"{A}?view=1"}], [{"next": f"{A}?view=2"}], ""),  # one page by the rules
    ([{"crawl_depth": 1}], [{"crawl_depth": 2}], ""),  # that of the request
    ([{"tread_depth": 8}], [{"tread_depth": 9}], "another tread_depth"),
    ([Request(A)], [Request(A)], ""),
    ([Request(A)], [Request(A + "?view=2")], ""),
    ([], [Request(ONE), Request(OTHER)], ""),  # the page itself
    ([], [Request(OTHER, cb_kwargs={"n": 1})], "another request"),  # for something else
    ([Request(A)], [Request(B)], "another request: http://shop.test/b"),
    ([Request(A)], [], ""),
    ([Request(A)], [Request(A, method="POST", body=b"1")], "another request"),
    ([Request(A, cb_kwargs={"n": 1})], [Request(A, cb_kwargs={"n": 2})], "another request"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "said"), CASES)
def test_what_counts(yields, one, other, said):
    add(yields, ONE, *one)
    add(yields, OTHER, *other, referer=A, depth=2)
    found = yields.differ(OTHER.encode(), ONE.encode())
    assert (said in found.words) if said else found is None


def test_a_request_for_a_link_that_one_page_has_is_for_the_comparison_of_pages(yields):
    add(yields, ONE, links=[A])
    add(yields, OTHER, Request(B), links=[A, "/b#top"])
    assert yields.differ(OTHER.encode(), ONE.encode()) is None
    add(yields, ONE, links=["/b"])  # it has the link, and the spider did not ask for it
    add(yields, OTHER, Request(B), links=["/b"])
    assert yields.differ(OTHER.encode(), ONE.encode()) is not None
    add(yields, ONE, links=["<form action=/b></form>"])  # that is sent, and not followed
    add(yields, OTHER, Request(B), links=["/b"])
    assert yields.differ(OTHER.encode(), ONE.encode()) is None


#: Values of a field on pages that come one after the other, and whether it moves by itself.
FIELDS = [
    ([datetime(2026, 1, 1, 8, n) for n in range(3, 13)], True),
    ([f"2026-01-01 08:{n:02}" for n in (3, 3, *range(4, 12))], True),
    ([1_700_000_000.25 + n for n in range(10)], True),
    (["%032x" % (n * 7**40 % 10**38) for n in range(1, 11)], True),
    (list(range(8, 18)), True),  # a counter
    ([5, 3, 8, 1, 9, 2, 7, 4, 6, 0], False),
    ([1] * 10, False),
    (["red", "green"] * 5, False),
    (list(range(5)), False),  # too few to tell
]


@pytest.mark.parametrize(("values", "moves"), FIELDS)
def test_a_field_that_moves_by_itself_does_not_count(yields, values, moves):
    urls = [ONE, *(f"http://shop.test/p/{n}" for n in range(2, len(values))), OTHER]
    for url, value in zip(urls, values, strict=True):
        add(yields, url, {"name": "x", "at": value})
    if values[0] == values[-1]:
        add(yields, OTHER, {"name": "x", "at": "else"})
    found = yields.differ(OTHER.encode(), ONE.encode())
    assert (found is None) is moves


def test_a_page_that_is_not_known_gives_no_answer(yields):
    add(yields, ONE, {"n": 1})
    assert yields.differ(OTHER.encode(), ONE.encode()) is None
    assert yields.differ(OTHER.encode(), ONE.encode()) is None


def test_a_page_with_a_very_long_url_is_compared(yields):
    one, other = (f"{ONE}?{'a' * 60_000}&view={n}" for n in (1, 2))
    for url in (one, other):
        add(yields, url, {"price": 1})
    assert yields.differ(one.encode(), other.encode()) is None


def test_an_object_that_fails_ends_no_callback():
    got = Got(1, asked_for(ONE), HtmlResponse(ONE))
    got.add({"price": Broken(1)})
    assert isinstance(got.error, ValueError)


@pytest.mark.parametrize(
    ("earlier", "later", "may_come_of_page"),
    [
        ("<p>Tea</p>", "<p>Tea</p>", False),  # the pages are one: the spider has counted
        ("<p>Tea</p>", "<p>Tea</p><p>12:07</p>", False),
        ("<p>Tea</p>", "<p>Tea</p><p>Green Ink</p>", True),
    ],
)
def test_an_item_in_addition_comes_of_a_page_only_where_that_shows_it(
    yields, earlier, later, may_come_of_page
):
    add(yields, ONE, {"name": "Tea"})
    add(yields, OTHER, {"name": "Tea"}, {"name": "Green ink", "price": None})
    other = yields.differ(ONE.encode(), OTHER.encode())
    pages = (whole_of(HtmlResponse(ONE, body=body.encode())) for body in (later, earlier))
    assert other.may_come_of(*pages) is may_come_of_page


@pytest.mark.parametrize(
    ("one", "other", "may_come_of_page"),
    [
        ({"look": 1, "price": 5}, {"look": 2, "price": 7}, False),  # the page does not show 7
        ({"look": 1, "price": 5}, {"look": 2, "price": 5}, True),
        ({"look": 1, "price": 5}, {"look": 2, "price": 6}, True),
    ],
)
def test_each_field_that_differs_has_to_come_of_the_page(yields, one, other, may_come_of_page):
    add(yields, ONE, one)
    add(yields, OTHER, other)
    found = yields.differ(ONE.encode(), OTHER.encode())
    later, earlier = wholes("<p>2 look</p><p>6 EUR</p>", "<p>1 looks</p>")
    assert found.may_come_of(later, earlier) is may_come_of_page


def wholes(*bodies):
    return [whole_of(HtmlResponse(ONE, body=body.encode())) for body in bodies]


A7, B7, C5, D5 = wholes(*(f"<p>token {token}: {price} EUR</p>" for token, price in zip("abcd", (7, 7, 5, 5), strict=True)))  # fmt: skip


@pytest.mark.parametrize(
    ("later", "earlier", "stays"),
    [
        ([A7, B7], [C5, D5], True),
        ([A7, C5], [D5], False),  # it is gone
        ([A7], [C5, B7], False),  # the other page has it as well
        (wholes('<a href="/7">x</a>'), wholes('<a href="/5">x</a>'), False),
    ],
)
def test_a_value_stays_where_each_fetch_of_one_page_alone_shows_it(yields, later, earlier, stays):
    add(yields, ONE, {"price": 5})
    add(yields, OTHER, {"price": 7})
    assert yields.differ(ONE.encode(), OTHER.encode()).stays(later, earlier) is stays
