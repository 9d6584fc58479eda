"""Whether two URLs with one text are one page: their relative links have to lead to one, too."""

from __future__ import annotations

import pytest
from scrapy.http import HtmlResponse

from scrapy_urlnorm.crawl.live.comparing import (
    LARGEST_READ,
    identity_in_crawl,
    leads_elsewhere,
    same_content,
)

BASE = "http://shop.test"


def without_index(url):
    return url.replace("/index.php", "")


# The links of the page, its URL, that of the witness, whether they lead elsewhere.
CASES = {
    "a final slash": ('<a href="part">', "/a/", "/a", True),
    "no link": ("text", "/a/", "/a", False),
    "an absolute path": ('<a href="/part">', "/a/", "/a", False),
    "a whole URL": ('<a href="http://shop.test/part">', "/a/", "/a", False),
    "another scheme": ('<a href="mailto:a@shop.test">', "/a/", "/a", False),
    "a place on the page": ('<a href="#part">', "/a/", "/a", False),
    "a query alone": ('<a href="?page=2">', "/a/", "/a", True),
    "as many slashes": ('<a href="part">', "/old/a", "/new/a", False),
    "the rule covers the links": ('<a href="part">', "/index.php/x/a", "/x/a", False),
    "the rule does not": ('<a href="part">', "/index.php5/x/a", "/x/a", True),
    "the page says its base": ('<base href="/x/"><a href="part">', "/a/", "/a", False),
    "a host that is none": ('<a href="//[/part">', "/a/", "/a", False),
}


@pytest.mark.parametrize("name", CASES)
def test_links_that_lead_elsewhere(name):
    """Only relative links depend on the URL of their page (RFC 3986, section 5.2)."""
    body, url, witness, elsewhere = CASES[name]
    page = HtmlResponse(BASE + url, body=body.encode(), encoding="utf-8")
    assert leads_elsewhere(page, BASE + url, BASE + witness, without_index) is elsewhere


def test_a_very_large_page_is_known_by_its_bytes():
    """To read its text would hold the event loop; two such pages are one if all bytes are equal."""
    texts = ["word " * (LARGEST_READ // 5 + extra) for extra in (0, 0, 1)]
    one, same, other = (
        identity_in_crawl(HtmlResponse(BASE, body=text.encode(), encoding="utf-8"))
        for text in (texts[0], texts[1], texts[2])
    )
    assert same_content(one, same)
    assert not same_content(one, other)
    assert one.text_digest is not None
    assert other.text_digest is None
