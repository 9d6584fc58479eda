"""Audits: how much of what a rule suppresses is sent all the same."""

from __future__ import annotations

from math import log2

import pytest

from scrapy_urlnorm.crawl.online.audits import Audit, Audits
from scrapy_urlnorm.crawl.online.keys import Keys
from scrapy_urlnorm.crawl.online.tables import Match, Page, Reason
from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.learning.aliases import Pattern
from scrapy_urlnorm.logs.page_identity import Identity
from scrapy_urlnorm.report.filtered import rule_in_words
from scrapy_urlnorm.site_rules import SiteRule
from scrapy_urlnorm.stores.sqlite import Database

SITE, URL = "shop.test", "http://shop.test/a/"


def opened(database):
    """Open it with what else `Audits` writes to: the table of the rules."""
    database.open()
    database.ensure("CREATE TABLE IF NOT EXISTS rule (identity TEXT UNIQUE, agreed INTEGER)")
    return database


@pytest.fixture
def database():
    database = opened(Database())
    yield database
    database.close()


@pytest.fixture
def audits(database):
    return Audits(database)


def reason(support=0, name="vx", *, is_binary=False):
    """A rule of a kind that is right in two of five cases: k is 1.5."""
    rule = SiteRule(kind="drop-param", site=SITE, param=name, source="content", support=support)
    return Reason(rule, support, is_binary)


def match_of(reasons, url, content="", twin=""):
    """A request for *url* that the rules make equal to a page with this content."""
    page = Page(b"twin", twin, Identity(str(content)), 0)
    return Match(Keys(SITE, f"{url} {content}".encode(), b"cluster"), page, reasons)


def send(audits, reasons, content, url=URL, twin="", *, counted_by=()):
    """Whether a request is an audit, which begins; return it then."""
    match = match_of(reasons, url, content, twin)
    if not audits.is_due(match, url, [rule_in_words(each.rule) for each in counted_by]):
        return None
    audits.begin(match, url)
    return audits.get(match.keys.fingerprint)


def audited(audits, one, requests, *, content=None, url=URL, agree=True):
    """How many of so many requests that *one* would suppress are audits; all end at once."""
    count = 0
    for number in range(requests):
        vote = number if content is None else content
        audit = send(audits, (one,), vote, url.format(number))
        if audit is not None:
            count += 1
            (audits.agreed if agree else audits.ended)(audit)
    return count


# --- how many ---------------------------------------------------------------------------------

#: W*(M) = (2 C k M)^(1/3) with C = 20 and k = 1.5.
LAW = {10: 8, 50: 14, 200: 23, 1_000: 39, 5_000: 67}


@pytest.mark.parametrize("requests", LAW)
@pytest.mark.parametrize("support", [0, 6])
def test_witnesses_and_audits_grow_with_the_cube_root(audits, requests, support):
    """Together they are W*(M), to the next whole number, whatever was witnesses at first."""
    count = audited(audits, reason(support), requests)
    assert LAW[requests] <= support + count <= LAW[requests] + 1


@pytest.mark.parametrize("requests", LAW)
def test_a_rule_with_many_witnesses_is_audited_at_each_doubling(audits, requests):
    """The floor, log2(1 + M) - 1: witnesses of the past say little of other parts of a site."""
    count = audited(audits, reason(10_000), requests)
    assert log2(1 + requests) - 1 <= count < log2(1 + requests)


def test_the_better_a_kind_the_fewer_its_audits(audits):
    """The law takes k = (1 - p) / p from the prior p of the kind."""
    one = reason(0, "phpsessid")  # p is 0.95
    assert audited(audits, one, 1_000) == 13  # (2 * 20 * 0.05 / 0.95 * 1,000)^(1/3) = 12.8


def test_a_pattern_of_names_is_audited_at_least_at_its_rate(audits):
    """One in fifty of what it suppresses, however well it is proved."""
    pattern = Pattern(SITE, ("link", SITE, "/#", "", "main"), is_single=True)
    assert 100 <= audited(audits, Reason(pattern, 10_000), 5_000) <= 102


def test_a_content_votes_once(audits):
    """A thousand requests for one page prove no more than one does: only the floor is left."""
    assert audited(audits, reason(), 1_000, content="soft 404") == 9  # below log2(1,001) - 1
    assert audits.weakest([reason(), reason(2, "b")]) == reason()


def test_audits_in_flight_count_until_they_end(audits):
    """Meanwhile no others are sent for them; without a verdict, they are due again."""
    one = (reason(10_000),)
    audit = send(audits, one, "a")
    assert not send(audits, one, "b")
    audits.ended(audit)
    assert send(audits, one, "c")
    audits.end_all()
    assert send(audits, one, "d")


def test_audits_without_a_verdict_do_not_end_them(audits):
    assert audited(audits, reason(), 50, agree=False) == 50


@pytest.mark.parametrize("has_answer", [False, True])
def test_what_is_outstanding_is_sent_when_nothing_else_is_to_do(audits, has_answer):
    """The same law for requests that were counted before; they do not count again."""
    one = (reason(),)
    for number in range(50):
        if audit := send(audits, one, number):
            if has_answer:
                audits.answered(audit)
            audits.ended(audit)
    sent = 0
    while audit := send(audits, one, f"new {sent}", counted_by=one):
        audits.agreed(audit)
        sent += 1
    assert LAW[50] <= sent <= LAW[50] + 1
    audits.all_tested(SITE)
    assert not audits.has_outstanding(SITE, one)


def test_a_rule_that_suppresses_nothing_has_no_audit_outstanding(audits):
    """Else an idle crawl looks at all that other rules suppress."""
    assert not audits.has_outstanding(SITE, (reason(), reason(is_binary=True)))
    send(audits, (reason(),), "a")
    assert audits.has_outstanding(SITE, (reason(),))
    assert not audits.has_outstanding(SITE, (reason(is_binary=True),))


def test_html_and_binary_pages_are_audited_apart(audits):
    """What is true of one need not be of the other."""
    assert send(audits, (reason(10_000),), "a")
    assert send(audits, (reason(10_000, is_binary=True),), "b")
    assert not send(audits, (reason(10_000), reason(10_000, is_binary=True)), "c")


# --- which ------------------------------------------------------------------------------------


def test_the_first_request_of_a_kind_is_an_audit(audits):
    """However well the rule is proved."""
    one = reason(10_000)
    audited(audits, one, 1_000)
    for url in [f"http://shop.test/{folder}/{{}}" for folder in "bcdefghijk"] + [
        f"{URL}?vx={number}&n=a{{}}" for number in range(1, 6)
    ]:
        assert audited(audits, one, 2, url=url) == 1


def test_a_kind_without_a_verdict_is_untested(audits):
    """The next request of it is an audit, also one that was suppressed before."""
    one = (reason(10_000),)
    audited(audits, *one, 100)
    assert not audits.has_outstanding(SITE, one)
    for counted_by in ((), one):
        audit = send(audits, one, "a", f"{URL}?vx=3", URL, counted_by=counted_by)
        assert not send(audits, one, "a", f"{URL}?vx=3", URL, counted_by=one)
        audits.ended(audit)
        assert audits.has_outstanding(SITE, one)
        assert not audits.has_outstanding("other.test", ())
    audits.agreed(send(audits, one, "a", f"{URL}?vx=3", URL, counted_by=one))
    assert not send(audits, one, "b", f"{URL}?vx=3", URL, counted_by=one)


# --- other rules ------------------------------------------------------------------------------


def test_the_rule_with_the_least_behind_it_is_the_weakest(audits):
    """Support and contents that agreed since count alike."""
    little, much = reason(3), reason(8, "b")
    assert audits.weakest([much, little]) == little
    assert audited(audits, little, 10) > 5
    assert audits.weakest([much, little]) == much


def test_a_rule_that_comes_back_begins_anew(audits):
    """What it did before it was retracted says nothing for it now. An audit may end after that."""
    one = reason()
    assert audited(audits, one, 100) > 10
    late = [send(audits, (one,), "", f"{URL}?vx={number}") for number in range(2)]
    audits.forget(one.key)
    audits.agreed(late[0])
    audits.ended(late[1])
    assert audited(audits, one, 10) >= 8


def test_a_rule_has_the_audits_of_the_one_that_it_takes_the_place_of(audits):
    """A longer table of the same numbers is the same rule. One that is audited keeps its own."""
    short, long, other = (reason(0, name) for name in "abc")
    before = audited(audits, short, 200)
    audits.pass_on(short.rule, long.rule)
    audits.forget(short.key)
    moved = [send(audits, (long,), number, counted_by=(short,)) for number in range(200)]
    assert sum(map(bool, moved)) <= 2  # they are no 400 requests
    assert audited(audits, long, 200) < before / 2
    audited(audits, other, 20)
    audits.pass_on(other.rule, long.rule)
    assert audits.weakest([long, reason(20, "d")]) == reason(20, "d")
    audits.pass_on(reason(0, "e").rule, other.rule)  # it had none


def test_an_audit_goes_on_behind_a_redirect(audits):
    """Unless another audit is there already."""
    one = (reason(10_000),)
    audit, other = (send(audits, one, "a", url) for url in (URL, f"{URL}?vx=1"))
    assert not audits.move(audit, other.match.keys.fingerprint)
    assert audits.move(audit, b"target")
    assert audits.get(audit.match.keys.fingerprint) is None
    assert audits.get(b"target").url == URL
    audits.agreed(audits.get(b"target"))
    assert audits.get(b"target") is None


def test_audits_of_rules_that_went_end_without_a_verdict(audits):
    """The others go on under the new cluster key."""
    stays, goes = reason(10_000, "a"), reason(10_000, "b")
    urls = [f"{URL}?a=1", f"{URL}?a=1&b=1"]
    one, both = (
        send(audits, reasons, "", url)
        for reasons, url in zip([(stays,), (stays, goes)], urls, strict=True)
    )
    audits.rules_changed(SITE, {stays.key}, lambda _: Keys(SITE, b"", b"new"))
    assert audits.get(both.match.keys.fingerprint) is None
    assert audits.get(one.match.keys.fingerprint).match.keys.cluster == b"new"
    assert audits.has_outstanding(SITE, ())
    audits.rules_changed(SITE, {stays.key}, lambda _: None)
    assert audits.get(one.match.keys.fingerprint) is None


# --- a kill -----------------------------------------------------------------------------------


@pytest.fixture
def again(tmp_path):
    """Opens the file, each time as the next run after a kill."""
    runs = []

    def again():
        if runs:
            runs[-1].commit()
            runs[-1].write("INSERT INTO rule VALUES ('of no transaction that ended', 0)")
            runs[-1].give_up(StoreError("killed"))
        runs.append(opened(Database(tmp_path / "urlnorm.sqlite")))
        return Audits(runs[-1])

    yield again
    runs[-1].close()


def restore(audits, *reasons, page=None):
    audits.restore({each.key: each for each in reasons}, lambda _: page)


def test_what_was_tested_is_known_after_a_kill(again):
    one, killed = reason(10), again()
    assert audited(killed, one, 1_000) > 20
    killed.agreed(send(killed, (one,), "", f"{URL}?vx=3"))
    audits = again()
    assert not send(audits, (one,), "", f"{URL}?vx=3")
    assert audited(audits, one, 100) <= 4
    assert audits.weakest([one, reason(20, "b")]) == reason(20, "b")


@pytest.mark.parametrize("has_answer", [False, True])
@pytest.mark.parametrize("has_page", [False, True])
def test_an_audit_that_a_kill_left_without_a_verdict_is_sent_again(again, has_answer, has_page):
    """It waited in the queue, or had an answer and was about to be compared."""
    one, killed = reason(10_000), again()
    killed.agreed(send(killed, (one,), ""))
    audit = send(killed, (one,), "", f"{URL}?vx=3")
    if has_answer:
        killed.answered(audit)
    audits = again()
    restore(audits, one, page=audit.match.page if has_page else None)
    assert audits.get(audit.match.keys.fingerprint) is None
    assert audits.has_outstanding(SITE, (one,))
    sent = send(audits, (one,), "", f"{URL}?vx=3", counted_by=(one,))
    audits.agreed(sent)
    assert not send(audits, (one,), "", f"{URL}?vx=3", counted_by=(one,))
    assert not any(send(audits, (one,), number) for number in range(4))  # two of six are enough


def test_an_audit_of_a_rule_that_is_gone_is_forgotten(again):
    one, killed = reason(10_000), again()
    audit = send(killed, (one,), "")
    audits = again()
    restore(audits, page=audit.match.page)
    assert audits.get(audit.match.keys.fingerprint) is None
    audits = again()
    restore(audits, one, page=audit.match.page)
    assert not audits.has_outstanding(SITE, ())


def test_one_audit_in_four_is_compared_as_a_whole_whatever_was_proved(audits):
    """What moves on nearly all pages of a family may hold still on one of them."""
    kind, urls = reason(), [f"{URL}?vx={number}" for number in range(100)]
    every = [Audit(match_of((kind,), url), url) for url in urls]
    audits.begin(every[0].match, URL)
    assert not any(map(audits.is_proved, every))
    audits.proved(every[0])
    assert 65 <= sum(map(audits.is_proved, every)) <= 85
