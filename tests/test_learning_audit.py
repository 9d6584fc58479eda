"""The last audit: a learned rule that merges what differs is found out, whatever its kind."""

from __future__ import annotations

from collections import Counter

import pytest

from scrapy_urlnorm import Normalizer, SiteRule
from scrapy_urlnorm.learning.audit import audited
from scrapy_urlnorm.learning.risk import Limits

PLAIN = Normalizer("default")
#: Kind and option of a rule of the catalogue, and two URLs of a page that it makes one.
SWITCHES = [
    ("lowercase-path", True, "http://a.example/Page{}", "http://a.example/page{}"),
    ("trailing-slash", "remove", "http://a.example/page{}/", "http://a.example/page{}"),
    ("trailing-slash", "add", "http://a.example/page{}/", "http://a.example/page{}"),
    ("remove-directory-index", ["x.html"], "http://a.example/{}/x.html", "http://a.example/{}/"),
    ("force-scheme", "http", "https://a.example/page{}", "http://a.example/page{}"),
]


#: The rule that drops ``x``, which is right in these tests.
NOISE = SiteRule(site="a.example", kind="drop-param", param="x")


@pytest.mark.parametrize("site", ["a.example", "*.a.example"])
@pytest.mark.parametrize(("kind", "option", "one", "other"), SWITCHES)
def test_a_switch_that_merges_different_pages_is_taken_back(
    kind: str, option: object, one: str, other: str, site: str
) -> None:
    """A learned rule of the catalogue is blamed like any other; the right one beside it stays."""
    urls = {}
    for n in range(40):
        urls[one.format(n)] = Counter({2 * n: 1})
        urls[other.format(n)] = Counter({2 * n + 1: 1})
        urls[f"http://a.example/alone{n}"] = Counter({100 + n: 1})
        urls[f"http://a.example/alone{n}?x=1"] = Counter({100 + n: 1})
    rules = [SiteRule(site=site, kind=kind, option=option), NOISE]
    kept, keys = audited((), rules, urls, PLAIN.normalize, Limits())
    assert (kept, keys) == (rules[1:], 120)


@pytest.mark.parametrize(("kind", "option", "one", "other"), SWITCHES)
def test_a_switch_that_merges_equal_pages_stays(
    kind: str, option: object, one: str, other: str
) -> None:
    """Where the two URLs of each page are one, nothing is taken back."""
    urls = {}
    for n in range(40):
        urls[one.format(n)] = urls[other.format(n)] = Counter({n: 1})
    rules = [SiteRule(site="a.example", kind=kind, option=option), NOISE]
    kept, keys = audited((), rules, urls, PLAIN.normalize, Limits())
    assert (kept, keys) == (rules, 40)


def test_a_switch_of_another_host_is_not_blamed() -> None:
    """Two hosts switch the same rule on; only that of the host with different pages goes."""
    urls = {}
    for n in range(40):
        urls[f"http://a.a.example/Page{n}"] = Counter({2 * n: 1})
        urls[f"http://a.a.example/page{n}"] = Counter({2 * n + 1: 1})
        urls[f"http://b.a.example/Page{n}"] = Counter({100 + n: 1})
        urls[f"http://b.a.example/page{n}"] = Counter({100 + n: 1})
    rules = [
        SiteRule(site=f"{host}.a.example", kind="lowercase-path", option=True) for host in "ab"
    ]
    kept, keys = audited((), rules, urls, PLAIN.normalize, Limits())
    assert (kept, keys) == (rules[1:], 120)
