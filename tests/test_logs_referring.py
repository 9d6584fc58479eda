"""What a page says of where it was asked from tells no two pages apart."""

from __future__ import annotations

import pytest
from compared_pages import ONE, from_page, key_of
from scrapy import Request
from scrapy.http import HtmlResponse

from scrapy_urlnorm.crawl.online.whole_pages import WholePages
from scrapy_urlnorm.logs.comparison import Movement, is_same
from scrapy_urlnorm.stores.sqlite import Database

BACK = "<form method=post><input type=hidden name=back value=http://shop.test{}></form>"
#: What two pages say, the pages that they were asked from, and whether that tells the two apart.
REFERRED = {
    "a field": (BACK, ("/a", "/b"), ("/a", "/b"), True),
    "a link": ("<a href={}>back</a>", ("/a", "/b"), ("/a", "/b"), True),
    "to elsewhere": ("<a href={}>back</a>", ("/a", "/c"), ("/a", "/b"), False),
    "always to one of them": ("<a href={}>back</a>", ("/a", "/a"), ("/a", "/b"), True),
    "to a part of it": ("<a href={}>back</a>", ("/a", "/b#x"), ("/a", "/b"), True),
    "the server was told of one": (BACK, ("/a", "/b"), ("/a", ""), False),
    "two places": ("<a href={}>1</a><p><a href={}>2</a>", ("/a", "/b"), ("/a", "/b"), True),
    "among links to both": (
        "<a href=/a>1</a><a href=/b>2</a><a href={}>3</a>",
        ("/a", "/b"),
        ("/a", "/b"),
        True,
    ),
    "which is no other link": (
        "<a href=/b>2</a><a href={}>3</a>",
        ("/a", "/c"),
        ("/a", "/b"),
        False,
    ),
    "beside one to it": ("<a href=/a>1</a><p><a href={}>2</a>", ("/a", "/b"), ("/a", "/b"), True),
    "a word": ("<p>{}</p>", ("/a", "/b"), ("/a", "/b"), False),
}


@pytest.mark.parametrize(("body", "says", "asked", "said"), REFERRED.values(), ids=REFERRED)
def test_what_a_page_says_it_was_asked_from(body, says, asked, said):
    one, two = (
        from_page(body.format(path, path), f"http://shop.test{referer}" if referer else "")
        for path, referer in zip(says, asked, strict=True)
    )
    assert is_same(two, [one], key_of) is said
    assert Movement().explains(two, one, key_of) is said
    without = from_page(body.format(says[0], says[0]), "")
    assert is_same(two, [without, one], key_of) is said or not all(asked)


def test_what_it_says_of_that_beside_what_changes():
    body = "<form method=post><input value=t{0}><input value=http://shop.test{1}><input value=u{0}>"
    asked = [(1, "/a"), (2, "/a"), (3, "/b")]
    *fetches, found = (
        from_page(body.format(*each), f"http://shop.test{each[1]}") for each in asked
    )
    assert is_same(found, fetches, key_of)


def test_what_another_element_says_of_that():
    one, two = (
        from_page("<a href=/a>", "http://shop.test/a"),
        from_page("<area href=/b>", "http://shop.test/b"),
    )
    assert not is_same(two, [one], key_of)


def test_a_page_that_is_kept_says_what_it_was_asked_from():
    with Database(None) as database:
        pages = WholePages(database, keys=None)
        request = Request(ONE, headers={"Referer": "http://shop.test/a"})
        pages.add(b"1", HtmlResponse(ONE, body=b"<html><a href=/a>back</a>", request=request))
        assert len(pages.shown(b"1").whole.referring) == 1
