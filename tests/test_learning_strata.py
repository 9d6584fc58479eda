"""The kinds of requests that an audit tests, and those that a log has tested already."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_urlnorm.crawl.online.audits import Audits
from scrapy_urlnorm.crawl.online.keys import Keys
from scrapy_urlnorm.crawl.online.tables import Match, Page, Reason
from scrapy_urlnorm.learning import strata as module
from scrapy_urlnorm.learning.mined import mined
from scrapy_urlnorm.learning.strata import MAX_KINDS, Kinds, Place, class_of, section_of, shown
from scrapy_urlnorm.learning.worker import Job
from scrapy_urlnorm.logs.observation import Observation
from scrapy_urlnorm.logs.page_identity import Identity
from scrapy_urlnorm.site_rules import SiteRule
from scrapy_urlnorm.site_rules.form import REPEAT
from scrapy_urlnorm.stores.sqlite import Database

# --- Strata: which requests are of one kind, and what is audited of each kind

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
    "http://h.test/9f86d081/raw": "h.test/#/",
    "http://h.test/x86_64/raw": "h.test/x#_#/",
}


@pytest.mark.parametrize("url", SECTIONS)
def test_sections(url):
    """Host and first folder, digits folded; of a page in no folder, host and first word."""
    assert section_of(url) == SECTIONS[url]


def test_a_folder_that_stands_there_again_and_again_makes_one_kind():
    """Else each step of a path without end would be tested."""

    def kind(path):
        return frozenset(Place(f"http://h.test{path}").kinds((), lambda *_: True))

    assert kind("/a/rel/rel/") == kind("/a/rel/rel/rel/") == kind(f"/a/{'rel/' * 9}")
    assert kind("/rel/rel/") == kind("/rel/rel/rel/")
    assert kind(f"/{'infra/www/' * 3}a") == kind(f"/{'infra/www/' * 9}b")
    assert len({kind(path) for path in ("/a/rel/", "/a/rel/rel/", "/a/rel/rel/x1/")}) == 3


#: Values of one line are alike, those of two lines are not.
CLASSES = [
    [None],
    [""],
    ["0", "00"],
    ["1", "01"],
    ["2"],
    ["3"],
    ["4"],
    ["5"],
    ["6", "7"],
    ["8", "11"],
    ["12", "17"],
    ["18", "20", "25"],
    ["40", "57"],
    ["60", "80"],
    ["-1"],
    ["5000", "30000"],
    ["100000", "200000"],
    ["asc"],
    ["desc"],
    ["last-page"],
    ["12345678901234567890", "d41d8cd98f", "averylongwordindeed"],
    ["/a/b", "http://h.test/", "a/1"],
    [f"1{REPEAT}2", f"a{REPEAT}b"],
    ["0 1", "9.5"],
]


def test_titles_are_no_sections_but_the_first():
    """Sections with a name of one word are all told apart: of sixty, one may be another's."""
    kinds = Kinds(("q:ref",))
    names = [f"{one}-{two}" for one in "abcdefgh" for two in "abcdefgh"]
    assert (
        sum(kinds.add(Place(f"http://a.test/{name}/dp/{n}?ref=1")) for n, name in enumerate(names))
        == 17
    )
    assert sum(kinds.add(Place(f"http://a.test/{name}/dp/1?ref=1")) for name in "abcdefgh") == 8


def test_values_are_alike_or_not():
    """Small numbers and words one by one, larger numbers by size, others by their looks."""
    of = [{class_of(value) for value in line} for line in CLASSES]
    assert [len(classes) for classes in of] == [1] * len(CLASSES)
    assert len(set.union(*of)) == len(CLASSES)


@given(st.integers(0, 10**14))
def test_numbers_have_few_classes_and_each_doubling_is_a_new_one(number):
    """A page twice as far into a list is of another kind, up to offsets of some hundreds."""
    if 0 < number < 500:
        assert class_of(str(number)) != class_of(str(2 * number))
    assert len({class_of(str(n)) for n in range(number, number + 10)}) <= 10


#: Whether the second request, for a rule about ``page`` and ``project``, is of a new kind.
NEW = {
    "the same": ("/l?page=2", "/l?page=2", False),
    "a value alike": ("/l?page=6", "/l?page=7", False),
    "another small number": ("/l?page=2", "/l?page=3", True),
    "a larger number": ("/l?page=20", "/l?page=40", True),
    "another section": ("/a/l?page=2", "/b/l?page=2", True),
    "another name": ("/l?page=2", "/l?page=2&sort=a", True),
    "another order of names": ("/l?page=2&s=a", "/l?s=b&page=2", False),
    "another value of another name": ("/l?page=2&s=a", "/l?page=2&s=b", False),
    "both": ("/l?page=2&project=1", "/l?page=2&project=2", True),
    "another page of a list beside": ("/l?page=2&sort=1", "/l?page=2&sort=2", True),
    "a section and a value that were there": ("/a/l?page=2", "/a/l?page=4", True),
    "another title in the path": ("/a/some-title", "/a/other-name", False),
    "another id in the path": ("/m/054467e4-e0e0@m.test/t/", "/m/CAHk9WiX2+a_b3@m.test/t/", False),
    "a title in another script": ("/w/%D8%A7%D8%B3?page=2", "/w/%D9%87?page=2", True),
    "a longer one": ("/w/%D8%A7%D8%B3?page=2", "/w/%D8%A7%D9%87%D8%B3?page=2", False),
    "a date or an id": ("/m/2024-11-05/", "/m/054467e4-e0e0/", True),
    "another depth": ("/a/b?page=2", "/a/b/c?page=2", True),
    "bytes": ("/l?page=%FF%FE", "/l?page=%FE%FF", False),
}


@pytest.mark.parametrize("name", NEW)
def test_the_first_of_a_kind_is_new(name):
    """By section, by the names of parameters, by the class of each value that the rule changes."""
    one, other, expected = NEW[name]
    known = Kinds(("q:page", "q:project"))
    assert known.add(Place(f"http://h.test{one}"))
    assert known.add(Place(f"http://h.test{other}")) is expected


def test_filters_that_are_combined_are_told_apart():
    """Of five filters any may be named. The long list is the one with a single filter.

    Needed by app_trac, sorted by URL: ``/query?status=!closed`` comes after ten other sets of names
    (156 contents lost in a third of the crawls).
    """
    known, names = Kinds(("q:page",)), "abcde"
    for number in range(2 ** len(names)):
        query = "&".join(f"{name}=x" for at, name in enumerate(names) if number >> at & 1)
        assert known.add(Place(f"http://h.test/l?page=2&{query}"))


def test_what_only_the_twin_has_counts():
    """Where the page arrived under ``?page=3``, it is the plain URL that is suppressed."""
    known = Kinds(("q:page",))
    assert known.add(Place("http://h.test/l", "http://h.test/l?page=2"))
    assert known.add(Place("http://h.test/l", "http://h.test/l?page=3"))
    assert not known.add(Place("http://h.test/l", "http://h.test/l?page=3"))


def test_each_value_of_a_page_that_stands_for_others_is_a_kind():
    """``?as=a`` and ``?as=b`` are one page; ``?as=own`` is another, and may come first."""
    known = Kinds(("q:as",))
    assert known.add(Place("http://h.test/l?as=a", "http://h.test/l?as=b"))
    assert not known.add(Place("http://h.test/l?as=b", "http://h.test/l?as=a"))
    assert known.add(Place("http://h.test/l?as=a", "http://h.test/l?as=own"))
    assert not known.add(Place("http://h.test/l?as=own", "http://h.test/l?as=b"))


@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3), st.text(max_size=8))))
def test_kinds_are_few(parts):
    """Whatever a site sends: memory and audits are bounded, and no URL is an error."""
    known = Kinds(("q:a", "q:b", "s-1", "slash", "host"))
    audits = 0
    for folder, name, value in parts * 3:
        audits += known.add(Place(f"http://h.test/{folder}/?a={value}&{name}=1"))
    assert audits <= MAX_KINDS


def test_kinds_have_an_end():
    """A site of a thousand folders: what comes after the first kinds is sampled."""
    known = Kinds(("q:page",))
    found = [known.add(Place(f"http://h.test/{'a' * n}/l?page=2")) for n in range(1_000)]
    assert sum(found) == MAX_KINDS


# --- What the log of a crawl has tested already needs no audit

HOST = "http://shop.test"
SID = SiteRule(kind="drop-param", site="shop.test", param="sid", source="content", support=40)
VIA = SiteRule(kind="drop-param", site="shop.test", param="via", source="content", support=40)


def row(url, content, mime="text/html"):
    return Observation(HOST + url, 200, content, mime=mime)


def test_of_each_kind_there_is_one_pair():
    """Pages of the same section with the same names and like values are one test."""
    sids = [("", f"?sid={n}aa{n}bb{n}cc{n}dd") for n in range(9)]
    rows = [row(f"/a/{n}{sid}", f"a{n}") for n, both in enumerate(sids) for sid in both]
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
    monkeypatch.setattr(module, "_MOST_PAIRS", 1)
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
    urls = {f"{HOST}/p/{n}{sid}": f"c{n}" for n in range(40) for sid in ("", f"?sid={n}ab{n}")}
    rows = [(url, 200, content, None) for url, content in urls.items()]
    first = mined(Job("shop.test", rows, (), {}))
    (rule,) = first.rules
    assert first.shown[rule.identity]
    again = mined(Job("shop.test", rows, first.rules, {}))
    assert again.rules
    assert again.shown == {}
