"""What a request is for, besides its URL."""

from __future__ import annotations

import pytest
from scrapy import Request

from scrapy_urlnorm.crawl.requests import Asked, note_purpose, purpose_of

URL = "http://shop.test/"


class Spider:
    def parse(self, response): ...
    def parse_reviews(self, response): ...
    def failed(self, failure): ...


class Plain:
    """It says nothing of itself but where it is in memory."""


SPIDER = Spider()
#: Requests, those on one line are for the same.
SAME = [
    [{}, {"callback": SPIDER.parse}, {"meta": {"depth": 3, "download_slot": "a", "link_text": "b"}},
     {"meta": {"_middleware": 1, "redirect_times": 1, "urlnorm": {}}}, {"priority": 5}],
    [{"callback": SPIDER.parse_reviews}, {"callback": Spider().parse_reviews}],
    [{"errback": SPIDER.failed}],
    [{"cb_kwargs": {"a": 1, "b": 2}}, {"cb_kwargs": {"b": 2, "a": 1}, "meta": {"depth": 1}}],
    [{"cb_kwargs": {"a": 1}}],
    [{"meta": {"a": 1}}, {"meta": {"a": 1, "depth": 9}}],
    [{"meta": {"a": Plain()}}, {"meta": {"a": Plain()}}],
    [{"meta": {"a": lambda: 1}}, {"meta": {"a": lambda: 1}}],
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(SAME)))
def test_what_two_requests_are_for(number):
    purposes = [{purpose_of(Request(URL, **each)) for each in line} for line in SAME]
    assert len(purposes[number]) == 1
    assert all(purposes[number] != other for n, other in enumerate(purposes) if n != number)
    assert " " not in "".join(purposes[number])  # a store writes it beside others


def test_what_a_middleware_adds_later_does_not_count():
    request = Request(URL)
    note_purpose(request)
    request.meta["user_agent"] = "x"
    assert Asked(request).purpose == "" != purpose_of(request)
