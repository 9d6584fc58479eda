"""Pages that are compared as a whole, by the rules that are in force."""

from __future__ import annotations

from scrapy import Request
from scrapy.http import HtmlResponse

from scrapy_urlnorm.logs.comparison import is_same
from scrapy_urlnorm.logs.whole import whole_of

ONE, TWO = "http://shop.test/list?sort=up", "http://shop.test/list?sort=down"


def answer(body, url=ONE):
    return HtmlResponse(url, body=f"<html><body>{body}</body></html>".encode())


def page(body, url=ONE):
    return whole_of(answer(body, url))


def from_page(body, referer):
    """Return a page that a request brought from the page at *referer*."""
    response = answer(body, TWO)
    response.request = Request(TWO, headers={"Referer": referer} if referer else None)
    return whole_of(response)


def key_of(url):
    """The rules in force drop ``sort``, and all other URLs are what they are."""
    return url.partition("?sort=")[0]


def at(path, body):
    return page(body, f"http://shop.test{path}")


def same(body, *fetches):
    return is_same(page(body, TWO), [page(each) for each in fetches], key_of)
