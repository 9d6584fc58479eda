"""What the log of a crawl has tested already needs no audit."""

from __future__ import annotations

import pytest

from scrapy_urlnorm.crawl.online.audits import Audits
from scrapy_urlnorm.crawl.online.keys import Keys
from scrapy_urlnorm.crawl.online.tables import Match, Page, Reason
from scrapy_urlnorm.learning import shown as module
from scrapy_urlnorm.learning.shown import shown
from scrapy_urlnorm.learning.worker import Job, mined
from scrapy_urlnorm.logs.observation import Observation
from scrapy_urlnorm.logs.page_identity import Identity
from scrapy_urlnorm.site_rules import SiteRule
from scrapy_urlnorm.stores.sqlite import Database

HOST = "http://shop.test"
SID = SiteRule(kind="drop-param", site="shop.test", param="sid", source="content", support=40)
VIA = SiteRule(kind="drop-param", site="shop.test", param="via", source="content", support=40)


def row(url, content, mime="text/html"):
    return Observation(HOST + url, 200, content, mime=mime)


def test_of_each_kind_there_is_one_pair():
    """Pages of the same section with the same names and like values are one test."""
    rows = [
        each
        for n in range(9)
        for each in (row(f"/a/{n}", f"a{n}"), row(f"/a/{n}?sid={n}aa{n}bb{n}cc{n}dd", f"a{n}"))
    ]
    rows += [row("/b/1?x=1", "b"), row("/b/1?sid=1ab2cd3ef4ab5&x=1", "b")]
    found = shown([SID], rows)
    assert found == {
        SID.identity: (
            (f"{HOST}/a/0?sid=0aa0bb0cc0dd", f"{HOST}/a/0"),
            (f"{HOST}/b/1?sid=1ab2cd3ef4ab5&x=1", f"{HOST}/b/1?x=1"),
        )
    }


@pytest.mark.parametrize(
    "rows",
    [
        [row("/a", "one"), row("/a?sid=1", "another")],
        [row("/a", "one"), row("/a?sid=1", "one"), row("/a?sid=2", "another")],
        [row("/a", "one", ""), row("/a?sid=1", "one", "")],
        [row("/a?sid=1", "one"), row("/b?sid=1", "one")],
        [],
    ],
)
def test_pages_that_differ_and_files_show_nothing(rows):
    assert shown([SID], rows) == {}


def test_each_rule_is_told_of_its_own_pairs_and_of_those_with_others():
    rows = [row("/a", "a"), row("/a?sid=1", "a"), row("/b", "b"), row("/b?sid=1&via=2", "b")]
    found = shown([SID, VIA], rows)
    assert found[VIA.identity] == ((f"{HOST}/b?sid=1&via=2", f"{HOST}/b"),)
    assert len(found[SID.identity]) == 2
    assert shown([SID, VIA], rows, without={SID.identity}).keys() == {VIA.identity}
    assert shown([SID, VIA], rows, without={SID.identity, VIA.identity}) == {}


def test_pairs_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "MOST_PAIRS", 1)
    rows = [row("/a", "a"), row("/a?sid=1", "a"), row("/b/c", "b"), row("/b/c?sid=1", "b")]
    assert len(shown([SID], rows)[SID.identity]) == 1


def match_of(url, twin, content):
    """A request for *url* that *SID* would suppress behind *twin*."""
    keys = Keys("shop.test", url.encode(), b"cluster")
    page = Page(twin.encode(), twin, Identity(content), 0)
    return Match(keys, page, (Reason(SID, SID.support),))


@pytest.mark.parametrize("is_shown", [False, True])
def test_what_was_shown_is_not_audited_as_a_new_kind(is_shown):
    """A rule with many witnesses is audited once, and then for each kind that is new."""
    database = Database()
    database.open()
    database.ensure("CREATE TABLE rule (identity TEXT, agreed INTEGER)")
    audits = Audits(database)
    request, twin = f"{HOST}/b/c?sid=1&x=2", f"{HOST}/b/c?x=2"
    if is_shown:
        audits.covered(Reason(SID, SID.support), [(request, twin)])
    url = f"{HOST}/a/b?sid=1"
    match = match_of(url, f"{HOST}/a/b", "a")
    assert audits.is_due(match, url)
    audits.begin(match, url)
    audits.agreed(audits.get(url.encode()))
    assert audits.is_due(match_of(request, twin, "b"), request) is not is_shown
    database.close()


def test_the_miner_of_a_crawl_tells_what_it_was_shown():
    """For rules that it has found now; those in force were told of before."""
    rows = [
        each
        for n in range(40)
        for each in (
            (f"{HOST}/p/{n}", 200, f"c{n}", None),
            (f"{HOST}/p/{n}?sid={n}ab{n}", 200, f"c{n}", None),
        )
    ]
    first = mined(Job("shop.test", rows, (), {}))
    (rule,) = first.rules
    assert first.shown[rule.identity]
    again = mined(Job("shop.test", rows, first.rules, {}))
    assert again.rules
    assert again.shown == {}
