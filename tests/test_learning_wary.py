"""Wary mining: what the log of a crawl that still runs has to show."""

from __future__ import annotations

import pytest

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.learning import evaluate, mine
from scrapy_urlnorm.learning.corpus import Corpus
from scrapy_urlnorm.learning.cover import Found
from scrapy_urlnorm.learning.slots import Hasher
from scrapy_urlnorm.learning.trials import Count
from scrapy_urlnorm.learning.wary import count_upward, is_coincidence
from scrapy_urlnorm.logs import Observation
from scrapy_urlnorm.site_rules.operations import DropParam, HostAlias, Replace


def page(path, content):
    """A row of a page."""
    return Observation(f"http://h.example{path}", 200, content, mime="text/html")


def rules(rows, **options):
    """The active rules of a log: kind and parameters, or what is exchanged."""
    return [
        (rule.kind, *(rule.param or sorted(rule.default.items())))
        for rule in mine(rows, **options)
        if rule.active
    ]


def both(rows):
    """The rules of a whole log, and those of a log that is still being written."""
    return rules(rows), rules(rows, wary=True)


COUNTING = {
    "1 2 3": True,
    "0 1 2": True,
    "2 3 4 5 7": True,
    "20 40 60": True,
    "0 25 50 100": True,
    "1": True,
    "0": False,
    "": False,
    "a b c": False,
    "1 2 x": False,
    "1032 88 4521": False,
    "17 18 19": False,
    "2010 2011 2012": False,
    "1 2 5000": False,
    "²": False,
    "12345678901 12345678902": False,
}


@pytest.mark.parametrize("values", COUNTING)
def test_values_that_count_upward(values):
    """Steps from the beginning of a list; numbers of tickets and years are none."""
    assert count_upward(values.split(" ")) is COUNTING[values]


def test_a_rule_about_pages_of_a_list_holds_for_those_that_were_tried():
    """Lists of the first sections are short: any page shows the only one. Later ones are long."""
    rows = []
    for number in range(40):
        rows.append(page(f"/list{number}", f"list {number}"))
        rows += [page(f"/list{number}?nr={nr}", f"list {number}") for nr in (1, 2, 3)]
    long = [page(f"/long?nr={nr}", f"long {nr}") for nr in range(4, 30)]
    assert evaluate(Normalizer("default", site_rules=mine(rows)), long).lost == 25
    wary = mine(rows, wary=True)
    assert evaluate(Normalizer("default", site_rules=wary), long).lost == 0
    assert evaluate(Normalizer("default", site_rules=wary), rows).found == 1


def test_a_rule_grows_with_the_values_that_were_tried():
    """The rule for more values takes the place of the one for fewer."""
    rows, known = [], []
    for values in (3, 6, 9):
        for number in range(20):
            name = f"/l{values}-{number}"
            rows.append(page(name, name))
            rows += [page(f"{name}?nr={nr}", name) for nr in range(values)]
        known = [rule for rule in mine(rows, accepted=known, wary=True) if rule.active]
        assert len(known) == 1
        assert evaluate(Normalizer("default", site_rules=known), rows).found == 1


def test_of_parameters_dropped_together_each_has_to_vary_alone():
    """Here ``b`` changes only where ``a`` does, and means something where it does not."""
    rows = []
    for number in range(30):
        rows.append(page(f"/p{number}", f"{number}"))
        rows += [page(f"/p{number}?a={n}x&b={n}y", f"{number}") for n in range(4)]
    whole, wary = both(rows)
    assert whole == [("drop-param", "a", "b")]
    assert "drop-param" not in {kind for kind, *_ in wary}
    for number in range(30):
        rows += [page(f"/p{number}?a={n}x&b={m}y", f"{number}") for n in (1, 2) for m in (3, 4)]
    assert ("drop-param", "a", "b") in rules(rows, wary=True)


def test_one_value_for_none_needs_more_contents():
    """In nine folders one order is that without one; a tenth may have more files."""
    rows = []
    for number in range(19):
        rows += [page(f"/{number}/", f"{number}"), page(f"/{number}/?by=size", f"{number}")]
        rows.append(page(f"/{number}/?by=time", f"{number} by time"))
    assert both(rows) == ([("drop-default", ("by", "size"))], [])
    rows += [page("/z/", "z"), page("/z/?by=size", "z")]
    assert rules(rows, wary=True) == [("drop-default", ("by", "size"))]


COINCIDENCES = {
    "a value for another": (Replace((("q:c", "m"),), (("q:c", "d"),)), 19, True),
    "with more contents": (Replace((("q:c", "m"),), (("q:c", "d"),)), 20, False),
    "a value for none": (Replace((("q:c", "m"),)), 19, True),
    "a value that says as usual": (Replace((("q:c", "1"),)), 9, False),
    "both": (Replace((("q:c", "1"), ("q:d", "m"))), 9, True),
    "a segment": (Replace((("s0", "latest"),), (("s0", "3"),)), 9, False),
    "a host": (HostAlias(("www.h.example",), "h.example"), 3, False),
    "a parameter": (DropParam(("q:c",)), 9, False),
}


@pytest.mark.parametrize("name", COINCIDENCES)
def test_coincidences(name):
    """Exchanges of the values of parameters, by few contents."""
    op, support, expected = COINCIDENCES[name]
    found = Found((), Count(support, 0, support), 0.01)
    assert is_coincidence(op, found, Corpus((), Hasher())) is expected


def versions(articles: int, edited: int) -> list[Observation]:
    """The text of articles, by their address and as version 1. Some have a second version."""
    rows = [page("/other?v=7", "other")]  # so the parameter has more than one value
    for number in range(articles):
        rows += [page(f"/wiki/{number}", f"{number}"), page(f"/wiki/{number}?v=1", f"{number}")]
    return rows + [page(f"/wiki/{number}?v=2", f"{number} v2") for number in range(edited)]


def test_the_only_value_of_a_page_says_nothing_of_a_default():
    """The first version of an article that was never edited is the article; not so of others."""
    default = [("drop-default", ("v", "1"))]
    assert both(versions(60, 0)) == (default, [])
    assert both(versions(60, 2)) == (default, [])
    assert both(versions(60, 3)) == (default, default)


def test_a_value_without_others_may_be_a_default():
    """Where the log has no other value at all, no page could tell."""
    assert both(versions(60, 0)[1:]) == ([("drop-default", ("v", "1"))],) * 2


def lists(section: str, count: int) -> list[Observation]:
    """Lists of one section that are so short that their order does not show."""
    orders = ("", "?k=name", "?k=size", "?k=date", "?k=type")
    return [
        page(f"/{section}/{number}{order}", f"{section} {number}")
        for number in range(count)
        for order in orders
    ]


def test_two_sections_do_not_prove_a_rule_together():
    """What is a dozen pages of one part of a site, and three of another, is known of the first."""
    rows = lists("files", 12) + lists("tickets", 3)
    long = [page(f"/tickets/all?k={order}", order) for order in ("name", "size", "date")]
    for wary, lost in ((False, 2), (True, 0)):
        normalizer = Normalizer("default", site_rules=mine(rows, wary=wary))
        assert evaluate(normalizer, long).lost == lost
        assert evaluate(normalizer, lists("files", 12)).found == 1
    rows += lists("tickets", 12)
    normalizer = Normalizer("default", site_rules=mine(rows, wary=True))
    assert evaluate(normalizer, rows).found == 1


def test_many_sections_speak_for_all():
    """Though each has a page or two."""
    rows = [row for number in range(8) for row in lists(f"part{number}", 2)]
    others = lists("another", 3)
    for wary in (False, True):
        normalizer = Normalizer("default", site_rules=mine(rows, wary=wary))
        assert evaluate(normalizer, others).found == 1


def test_a_page_under_many_values_is_believed_of_log_in_pages_only():
    """A calendar is empty until it is not; a log-in page says where to go afterwards."""
    rows = [page(f"/cal?y=20{n}&m=1", "no event") for n in range(10, 60)]
    rows += [page(f"/login?next=%2Fp{n}", "log in") for n in range(30)]
    rows += [page(f"/p{n}", f"{n}") for n in range(30)]
    whole = Normalizer("default", site_rules=mine(rows))
    wary = Normalizer("default", site_rules=mine(rows, wary=True))
    calls, months = "http://h.example/login?next=%2Fz", "http://h.example/cal?y=2099&m=1"
    assert whole.normalize(calls) == whole.normalize(calls + "1")
    assert whole.normalize(months) == whole.normalize(months.replace("2099", "2098"))
    assert wary.normalize(calls) == wary.normalize(calls + "1")
    assert wary.normalize(months) != wary.normalize(months.replace("2099", "2098"))


def folders(*, tried=0):
    """A site where `rev` means nothing beside `at`, as in a viewer of repositories.

    The folders that a crawl has seen so far all have `at`, but for *tried*, which differ.
    """
    rows = []
    for n in range(12):
        rows += [page(f"/?do=folder&at=t{n}", f"f{n}")]
        rows += [page(f"/?do=folder&at=t{n}&rev=r{n}{i}", f"f{n}") for i in range(3)]
        rows += [page(f"/?do=change&rev=r{n}{i}", f"c{n}{i}") for i in range(2)]
        rows += [page(f"/?do=find&for=w{n}{rev}", f"w{n}") for rev in ("", "&rev=a", "&rev=b")]
    rows += [page(f"/?do=folder&rev=r{n}0", f"alone{n}") for n in range(tried)]
    return [*rows, page("/?do=change", "start"), page("/?do=folder", "root")]


def test_what_explains_the_failures_as_well_is_asked_for_too():
    """The folders without `at` that come later are other pages."""
    rows = folders()
    keys = Normalizer("default", site_rules=[r for r in mine(rows, wary=True) if r.active])
    one, other = (f"http://h.example/?do=folder&rev=r{n}0" for n in (1, 2))
    assert keys.normalize(one) != keys.normalize(other)
    beside = [f"http://h.example/?do=folder&at=t1&rev=r{n}0" for n in (2, 3)]
    assert len(set(map(keys.normalize, beside))) == 1


def test_the_pages_that_were_not_tried_refute_what_was_doubted():
    """Without the doubt the rule would have merged them, and never seen that they differ."""
    rows = folders(tried=6)
    found = [r for r in mine(rows, wary=True) if r.active]
    assert evaluate(Normalizer("default", site_rules=found), rows).false_merges == 0
    before = [r for r in mine(folders(), wary=True) if r.active]
    assert evaluate(Normalizer("default", site_rules=before), rows).false_merges == 0
