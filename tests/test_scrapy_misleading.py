"""Real crawls of sites where what is true of most URLs is not true of all: no page is lost."""

from __future__ import annotations

import pytest
from loopback import Site, crawl, mostly_long
from misleading_sites import (
    SITES,
    BehindOneDoor,
    Doors,
    DoorsBehindRedirects,
    SomeDoorsAreOpen,
    SomeRedirectsLeadOn,
)
from moving_sites import HOME
from test_online_closing import ADDON

SPIDER = "test_online_closing.Seen"


def visit(shop, **settings):
    with Site(shop) as site:
        return crawl(site, [HOME], {**ADDON, **settings}, spider=SPIDER)


#: Sites of which a few pages are like none of their kind: each crawl says how many it may have missed.
RARE = (SomeDoorsAreOpen, SomeRedirectsLeadOn)
#: Whether what misleads comes late in the crawl.
LATE = [
    pytest.param(False, id="spread"),
    pytest.param(True, id="late", marks=pytest.mark.long),
]


@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize("kind", mostly_long(SITES, of=4))
def test_no_page_is_lost(kind, late):
    result = visit(kind(1, late=late))
    lost = kind(1, late=late).contents() - set(result.pages)
    bound = result.stats.get("urlnorm/learned/wrong_at_most", 0) if kind in RARE else 0
    assert len(lost) <= bound, lost
    assert "urlnorm/errors" not in result.stats, result.log


@pytest.mark.parametrize("late", LATE)
def test_the_one_page_that_no_sample_finds_is_sent_last(late):
    result = visit(BehindOneDoor(2, late=late), URLNORM_HELD="last")
    assert set(result.pages) == BehindOneDoor(2, late=late).contents()


def test_a_login_page_at_each_address_is_fetched_a_few_times():
    """The first of a kind and some more are audits; what is held in the end is saved.

    How many that is of 330 requests for it hangs on how early the rules come: a crawl that would end
    with more held than fetched sends some of them after all.
    """
    result = visit(Doors(1, late=False))
    assert result.stats["urlnorm/learned/rules"] == 3
    assert result.stats["urlnorm/learned/audits"] == result.counts["learned/audits_agreed"]
    assert result.stats["urlnorm/saved"] > 20


def test_a_redirect_to_a_login_page_is_followed_a_few_times():
    """Of 220 requests, each redirected to it."""
    shop = DoorsBehindRedirects(1, late=False)
    visit(shop)
    logins = [link for link in shop.asked if link.startswith("/login.php")]
    assert len(logins) < 180
