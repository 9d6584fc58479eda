"""What a request is for, besides its URL."""

from __future__ import annotations

from functools import partial

import pytest
import scrapy
from scrapy import Request, Selector
from scrapy.loader import ItemLoader

from scrapy_urlnorm.crawl.requests import Asked, note_purpose, purpose_of

URL = "http://shop.test/"


def wrapped(function):
    def wrapper(self, response): ...

    return wrapper


class Spider(scrapy.Spider):
    name = "shop"

    def parse(self, response): ...

    parse_list, parse_item = wrapped(parse), wrapped(parse)

    def parse_reviews(self, response): ...
    def failed(self, failure): ...


class Plain:
    """It says nothing of itself but where it is in memory."""

    def __init__(self, number=0):
        self.number = number

    def parse(self, response): ...


def loader(name):
    made = ItemLoader({})
    made.add_value("name", name)
    return made


SPIDER = Spider()
#: Requests, those on one line are for the same.
SAME = [
    [{}, {"callback": SPIDER.parse}, {"meta": {"depth": 3, "download_slot": "a"}},
     {"meta": {"link_text": "b", "nofollow": True}},
     {"meta": {"_middleware": 1, "redirect_times": 1, "urlnorm": {}}}, {"priority": 5}],
    [{"callback": SPIDER.parse_reviews}, {"callback": Spider().parse_reviews}],
    [{"errback": SPIDER.failed}],
    [{"cb_kwargs": {"a": 1, "b": 2}}, {"cb_kwargs": {"b": 2, "a": 1}, "meta": {"depth": 1}}],
    [{"cb_kwargs": {"a": 1}}],
    [{"meta": {"a": 1}}, {"meta": {"a": 1, "depth": 9}}],
    [{"meta": {"a": Plain()}}, {"meta": {"a": Plain()}}],
    [{"callback": SPIDER.parse_list}], [{"callback": SPIDER.parse_item}],
    [{"callback": partial(SPIDER.parse_item, a=1)}, {"callback": partial(SPIDER.parse_item, a=1)}],
    [{"callback": partial(SPIDER.parse_item, a=2)}], [{"callback": partial(SPIDER.parse_list, a=1)}],
    [{"callback": Plain().parse}, {"callback": Plain().parse}], [{"callback": Plain(1).parse}],
    [{"cb_kwargs": {"a": loader("x")}}, {"cb_kwargs": {"a": loader("x")}}], [{"cb_kwargs": {"a": loader("y")}}],
    [{"meta": {"download_name": 1}}], [{"cookies": {"currency": "EUR"}}], [{"cookies": [{"name": "currency"}]}],
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(SAME)))
def test_what_two_requests_are_for(number):
    purposes = [{purpose_of(Request(URL, **each)) for each in line} for line in SAME]
    assert len(purposes[number]) == 1
    assert all(purposes[number] != other for n, other in enumerate(purposes) if n != number)
    assert " " not in "".join(purposes[number])  # a store writes it beside others


@pytest.mark.parametrize(
    "make",
    [
        lambda: {"callback": lambda response: None},
        lambda: {"meta": {"a": lambda: 1}},
        lambda: {"cb_kwargs": {"a": {"b": ItemLoader({}, Selector(text="<p>"))}}},
        lambda: {"cb_kwargs": {"a": Selector(text="<p>")}},
    ],
)
def test_what_cannot_be_said_in_words_is_like_no_other(make):
    """It is for a page that is to come, and like any other in what the spider got out of a page."""
    one, other = (Request(URL, **make()) for _ in range(2))
    assert purpose_of(one) == purpose_of(one.copy()) != purpose_of(other)
    assert purpose_of(one, is_strict=False) == purpose_of(other, is_strict=False)


class Asking(Request):
    def __init__(self, *args, product=None, **more):
        super().__init__(*args, **more)
        self.product = product


def test_what_a_request_of_a_class_of_its_own_has_counts():
    one, same, other = (Asking(URL, product=product) for product in "aab")
    assert purpose_of(one) == purpose_of(same) != purpose_of(other)


def test_what_a_middleware_adds_later_does_not_count():
    request = Request(URL)
    note_purpose(request)
    request.meta["user_agent"] = "x"
    assert Asked(request).purpose == "" != purpose_of(request)
