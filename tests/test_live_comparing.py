"""Whether two URLs with one text are one page: their relative links have to lead to one, too."""

from __future__ import annotations

import pytest
from scrapy.http import HtmlResponse

from scrapy_urlnorm.crawl.live.comparing import leads_elsewhere

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
