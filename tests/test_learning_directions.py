"""A rule about hosts or schemes makes the URL that redirects the one with the page."""

from __future__ import annotations

import pytest

from scrapy_urlnorm import SiteRule
from scrapy_urlnorm.learning.directions import as_redirected
from scrapy_urlnorm.logs.observation import Observation

BARE, WWW = "shop.test", "www.shop.test"


def rule(**more):
    return SiteRule(site="*.shop.test", support=12, **more)


ALIAS = rule(kind="host-alias", host=WWW, by=BARE)
TURNED = rule(kind="host-alias", host=BARE, by=WWW)
SCHEME = rule(kind="replace", old={"scheme": "https"}, new={"scheme": "http"})
SECURE = rule(kind="replace", old={"scheme": "http"}, new={"scheme": "https"})
OTHERS = [
    rule(kind="drop-param", param="sid"),
    rule(kind="host-alias", host=[WWW, "m.shop.test"], by=BARE),
    rule(kind="replace", old={"q:a": "1"}, new={"q:a": "2"}),
]


def redirects(*pairs, status=301):
    return [Observation(old, status, location=new) for old, new in pairs]


TO_WWW = (f"http://{BARE}/a?b=1", f"http://{WWW}/a?b=1")
TO_BARE = (f"http://{WWW}/c", f"http://{BARE}/c")
TO_BOTH = (f"http://{BARE}/d", f"https://{WWW}/d")


@pytest.mark.parametrize(
    ("rows", "before", "after"),
    [
        (redirects(TO_WWW), ALIAS, TURNED),
        (redirects(TO_WWW), TURNED, TURNED),
        (redirects(TO_WWW), SCHEME, SCHEME),
        (redirects(TO_BOTH), ALIAS, TURNED),
        (redirects(TO_BOTH), SCHEME, SECURE),
        (redirects(TO_BARE, TO_WWW, TO_WWW), ALIAS, TURNED),
        (redirects(TO_BARE, TO_WWW), ALIAS, ALIAS),
        (redirects((f"http://{BARE}/a", f"http://{WWW}/log-in")), ALIAS, ALIAS),
        (redirects((f"http://{BARE}/a", "mailto:a@shop.test")), ALIAS, ALIAS),
        ([Observation(f"http://{BARE}/a", 200, "x")], ALIAS, ALIAS),
    ],
)
def test_the_direction_is_that_of_most_redirects(rows, before, after):
    """Of those that change nothing else. What was proved stays proved."""
    (found,) = as_redirected([before], rows)
    assert found == after
    assert found.support == before.support


def test_other_rules_have_no_direction():
    """Nor have those that make many hosts one."""
    rows = redirects(TO_WWW, (f"http://{BARE}/?a=2", f"http://{BARE}/?a=1"))
    assert as_redirected(OTHERS, rows) == tuple(OTHERS)
