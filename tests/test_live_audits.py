"""Audits: how much of what a rule withholds is sent all the same."""

from __future__ import annotations

from math import log2

import pytest

from scrapy_urlnorm.crawl.live.audits import MAX_SECTIONS, Audits, section_of
from scrapy_urlnorm.site_rules import SiteRule

URL = "http://shop.test/a/"


def rule(support=0, **operands):
    """A rule of a kind that is right in two of five cases: k is 1.5."""
    operands = operands or {"kind": "drop-param", "param": "sid"}
    return SiteRule(site="shop.test", source="content", support=support, **operands)


def audited(audits, one, requests, *, content=None, url=URL, agree=True):
    """How many of so many requests that *one* would withhold are audits; all agree at once."""
    count = 0
    for number in range(requests):
        vote = number if content is None else content
        if audits.is_due([one], url.format(number), vote):
            count += 1
            if agree:
                audits.agreed([one], vote)
            else:
                audits.undecided([one])
    return count


#: W*(M) = (2 C k M)^(1/3) with C = 20 and k = 1.5.
LAW = {10: 8, 50: 14, 200: 23, 1_000: 39, 5_000: 67}


@pytest.mark.parametrize("requests", LAW)
@pytest.mark.parametrize("support", [0, 3, 6])
def test_witnesses_and_audits_grow_with_the_cube_root(requests, support):
    """Together they are W*(M), to the next whole number, whatever was witnesses at first."""
    count = audited(Audits(), rule(support), requests)
    assert LAW[requests] <= support + count <= LAW[requests] + 1


@pytest.mark.parametrize("requests", LAW)
def test_a_rule_with_many_witnesses_is_audited_at_each_doubling(requests):
    """The floor, log2(1 + M) - 1: witnesses of the past say little of other parts of a site."""
    count = audited(Audits(), rule(10_000), requests)
    assert log2(1 + requests) - 1 <= count < log2(1 + requests)


def test_the_better_a_kind_the_fewer_its_audits():
    """The law takes k = (1 - p) / p from the prior p of the kind."""
    https = rule(kind="force-scheme", option="https")
    assert audited(Audits(), https, 1_000) == 22  # (2 * 20 * 0.25 * 1,000)^(1/3) = 21.5


def test_a_content_votes_once():
    """A thousand requests for one page prove no more than one does: only the floor is left."""
    assert audited(Audits(), rule(), 1_000, content="soft 404") == 9  # below log2(1,001) - 1
    audits, one = Audits(), rule()
    audited(audits, one, 10)
    before = audits.to_blame([one, rule(9)])
    audited(audits, one, 100, content=3)
    assert audits.to_blame([one, rule(9)]) == before


def test_the_first_request_of_a_section_is_an_audit():
    """Then of each tenth, and no more: a site may have as many first folders as it has users."""
    audits, one = Audits(), rule(10_000)
    audited(audits, one, 5_000)
    sent = []
    for number in range(2_000):
        word = "".join("abcdefghij"[int(digit)] for digit in str(number))
        sent.append(audited(audits, one, 1, url=f"http://shop.test/{word}/x"))
        assert not audited(audits, one, 1, url=f"http://shop.test/{word}/y"), number
    assert all(sent[: MAX_SECTIONS - 1])
    assert sum(sent[MAX_SECTIONS - 1 :]) == (500 - MAX_SECTIONS) / 10


SECTIONS = {
    "http://h.test": "h.test/",
    "http://h.test#7": "h.test/",
    "http://h.test?x": "h.test/",
    "http://h.test/": "h.test/",
    "http://h.test/topic-12": "h.test/topic",
    "http://h.test/topic-13?x=/a/b": "h.test/topic",
    "http://h.test/2024": "h.test/",
    "http://h.test/forum/": "h.test/forum",
    "http://h.test/forum/12": "h.test/forum/",
    "http://h.test/forum2/12": "h.test/forum#/",
    "https://h.test/forum13/a/b": "h.test/forum#/",
    "http://www.h.test/forum/12": "www.h.test/forum/",
    "http://h.test/é/1": "h.test/é/",
}


@pytest.mark.parametrize("url", SECTIONS)
def test_sections(url):
    """Host and first folder, digits folded; of a page in no folder, host and first word."""
    assert section_of(url) == SECTIONS[url]


def test_a_rule_is_audited_at_once():
    """The first request that it would withhold is sent, however well it is proved."""
    assert Audits().is_due([rule(10_000)], URL, "a")


def test_audits_under_way_count_until_they_end():
    """While their answers are awaited no others are sent for them; undecided, they are due again."""
    audits, one = Audits(), rule(10_000)
    assert audits.is_due([one], URL, "a")
    assert not audits.is_due([one], URL, "b")
    audits.undecided([one])
    assert audits.is_due([one], URL, "c")


def test_undecided_audits_do_not_end_them():
    """A rule whose audits all fail goes on being audited, and each request is asked for once."""
    assert audited(Audits(), rule(), 50, agree=False) == 50


def test_what_is_owed_when_nothing_else_is_to_do():
    """The same law for requests that were counted before; they do not count again."""
    audits, one = Audits(), rule()
    for number in range(50):
        if audits.is_due([one], URL, number):
            audits.undecided([one])
    owed = 0
    while audits.owes(one):
        assert audits.is_owed([one], f"new {owed}")
        audits.agreed([one], f"new {owed}")
        owed += 1
    assert LAW[50] <= owed <= LAW[50] + 1
    assert not audits.is_owed([one], "another")


def test_the_rule_with_the_least_behind_it_is_to_blame():
    """Support and contents that agreed since count alike."""
    audits = Audits()
    little = rule(3)
    much = rule(8, kind="force-scheme", option="https")
    assert audits.to_blame([much, little]) == little
    for number in range(6):
        audits.is_due([little], URL, number)
        audits.agreed([little], number)
    assert audits.to_blame([much, little]) == much


def test_a_rule_that_comes_back_begins_anew():
    """What a rule did before it was taken back says nothing for it now."""
    audits, one = Audits(), rule()
    assert audited(audits, one, 100) > 10
    audits.forget(one)
    audits.forget(one)
    assert audited(audits, one, 10) >= 8


def test_answers_to_audits_of_a_rule_that_is_gone_do_no_harm():
    """An audit may end after its rule was taken back."""
    audits, one = Audits(), rule()
    audits.undecided([one])
    audits.agreed([one], "a")
    assert audits.is_due([one], URL, "b")
