"""Audits: how much of what a rule withholds is sent all the same."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

import pytest

from scrapy_urlnorm.crawl.live import audits as module
from scrapy_urlnorm.crawl.live.audits import HANDFUL, LITTLE, SHARE, Audits
from scrapy_urlnorm.site_rules import SiteRule

URL = "http://shop.test/a/"


@pytest.fixture
def room(monkeypatch):
    """Room for any number of audits of a site."""
    monkeypatch.setattr(module, "HANDFUL", 1_000_000)


def rule(support=0, **operands):
    """A rule of a kind that is right in two of five cases: k is 1.5."""
    operands = operands or {"kind": "drop-param", "param": "vx"}
    return SiteRule(**{"site": "shop.test", "source": "content", "support": support} | operands)


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
@pytest.mark.usefixtures("room")
def test_witnesses_and_audits_grow_with_the_cube_root(requests, support):
    """Together they are W*(M), to the next whole number, whatever was witnesses at first."""
    count = audited(Audits(), rule(support), requests)
    assert LAW[requests] <= support + count <= LAW[requests] + 1


@pytest.mark.parametrize("requests", LAW)
@pytest.mark.usefixtures("room")
def test_a_rule_with_many_witnesses_is_audited_at_each_doubling(requests):
    """The floor, log2(1 + M) - 1: witnesses of the past say little of other parts of a site."""
    count = audited(Audits(), rule(10_000), requests)
    assert log2(1 + requests) - 1 <= count < log2(1 + requests)


@pytest.mark.usefixtures("room")
def test_the_better_a_kind_the_fewer_its_audits():
    """The law takes k = (1 - p) / p from the prior p of the kind."""
    https = rule(kind="force-scheme", option="https", source="redirect")
    assert audited(Audits(), https, 1_000) == 22  # (2 * 20 * 0.25 * 1,000)^(1/3) = 21.5


@pytest.mark.usefixtures("room")
def test_a_content_votes_once():
    """A thousand requests for one page prove no more than one does: only the floor is left."""
    assert audited(Audits(), rule(), 1_000, content="soft 404") == 9  # below log2(1,001) - 1
    audits, one = Audits(), rule()
    audited(audits, one, 10)
    before = audits.to_blame([one, rule(9)])
    audited(audits, one, 100, content=3)
    assert audits.to_blame([one, rule(9)]) == before


def test_the_first_request_of_a_kind_is_an_audit():
    """However well the rule is proved, and whether the site has room for it or not."""
    audits, one = Audits(), rule(10_000)
    audited(audits, one, 5_000)
    for folder in "bcdefghijk":
        assert audited(audits, one, 1, url=f"http://shop.test/{folder}/x")
        assert not audited(audits, one, 1, url=f"http://shop.test/{folder}/y")
    for number in range(1, 6):
        assert audited(audits, one, 1, url=f"{URL}?vx={number}")
        assert not audited(audits, one, 1, url=f"{URL}?vx={number}")


def test_a_kind_that_got_no_answer_is_audited_again():
    """The audit of the kind ended without one."""
    audits, one = Audits(), rule(10_000)
    audited(audits, one, 100)
    assert audits.is_due([one], f"{URL}?vx=3", "a", URL)
    audits.undecided([one], f"{URL}?vx=3", URL)
    assert audits.is_due([one], f"{URL}?vx=3", "a", URL)


@pytest.mark.usefixtures("room")
def test_the_first_request_of_a_neighbourhood_is_an_audit_until_they_are_enough():
    """A hundred neighbours are not a hundred witnesses, also where each has its own content."""
    audits, one = Audits(), rule(12)
    assert audited(audits, one, 300, url=f"{URL}?z=0&vx=7&n={{}}") < 20
    sent = [audited(audits, one, 1, url=f"{URL}?z={z}&vx=7", content="c") for z in range(100)]
    assert sent[1:10] == [1] * 9
    assert sum(sent[40:]) <= 3  # M doubles, and grows


def test_all_audits_of_a_site_are_few():
    """A twentieth of what is withheld and a handful, whatever the law asks of many rules."""
    audits = Audits()
    rules = [rule(6, kind="drop-param", param=f"n{number}") for number in range(30)]
    sent = sum(
        audited(audits, one, 1, content=f"{turn} {one}") for turn in range(40) for one in rules
    )
    withheld = 40 * 30 - sent
    kinds = 30  # the first request of each rule
    assert sent <= kinds + SHARE * withheld + HANDFUL
    assert sent > kinds


def test_the_rules_that_withhold_most_are_audited_first():
    """What room there is, they get; a small rule waits."""
    audits, large, small = Audits(), rule(6), rule(6, kind="drop-param", param="small")
    audited(audits, large, 60, agree=False)
    assert audited(audits, small, 15) == 1  # the first of its kind
    assert audits.owes(large)


def test_a_small_rule_without_room_gives_back_what_it_withheld():
    """Its audits would cost more than they are worth. A large one is audited all the same."""
    audits, large, small = Audits(), rule(6), rule(0, kind="drop-param", param="small")
    assert audits.too_small([large, small]) == []
    audited(audits, large, 100, agree=False)
    audited(audits, small, LITTLE)
    assert audits.too_small([large, small]) == [small]
    assert not audits.owes(small)
    assert not audits.is_owed([small], "new")
    assert audits.owes(large)
    assert audits.is_owed([large], "new")


@dataclass(frozen=True)
class Pattern:
    """What is no site rule and is audited all the same."""

    identity: str = "U#comment-#"
    site: str = "shop.test"
    support: int = 30
    source: str = "permalink"
    prior: float = 0.5
    audit_rate: float = 0.02


def test_a_pattern_is_audited_at_least_at_its_rate():
    """One in fifty of what it withholds, however well it is proved."""
    assert 100 <= audited(Audits(), Pattern(support=10_000), 5_000) <= 102
    assert audited(Audits(), Pattern(), 20) == 4  # at each doubling: log2(21) - 1


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


@pytest.mark.usefixtures("room")
def test_undecided_audits_do_not_end_them():
    """A rule whose audits all fail goes on being audited, and each request is asked for once."""
    assert audited(Audits(), rule(), 50, agree=False) == 50


@pytest.mark.usefixtures("room")
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


@pytest.mark.usefixtures("room")
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


@pytest.mark.usefixtures("room")
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


@pytest.mark.usefixtures("room")
def test_a_rule_has_the_audits_of_the_one_that_it_takes_the_place_of():
    """A longer table of the same numbers is the same rule. One that is audited keeps its own."""
    short, long, other = (rule(kind="drop-param", param=name) for name in ("a", "b", "c"))
    audits = Audits()
    before = audited(audits, short, 200)
    audits.pass_on(short, long)
    audits.forget(short)
    assert audited(audits, long, 200) < before / 2
    before = audits.to_blame([long, rule(200)])
    audited(audits, other, 20)
    audits.pass_on(other, long)
    assert audits.to_blame([long, rule(200)]) == before
    audits.pass_on(rule(), other)  # it had none


@pytest.mark.usefixtures("room")
def test_what_was_under_way_for_a_rule_that_went_has_no_answer():
    """Its place is not counted as taken."""
    short, long = (rule(kind="drop-param", param=name) for name in "ab")
    audits = Audits()
    while not audits.is_due([short], URL, 1):
        pass
    audits.pass_on(short, long)
    audits.undecided([short])
    assert audits.is_due([long], URL, 2)
