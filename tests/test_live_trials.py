"""Candidates that a site published come into force when pages prove them, and not before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.crawl.live import trials as module
from scrapy_urlnorm.crawl.live.trials import NEEDED, Trials
from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.learning.clean_param import clean_params
from scrapy_urlnorm.logs.page_identity import Identity

HOST = "www.shop.test"
SITE = "shop.test"


def trials_of(*lines, host=HOST, base="default", rules=()):
    trials = Trials(Normalizer(base), rules)
    text = "\n".join(f"Clean-param: {line}" for line in lines).encode()
    trials.propose(host, clean_params(text, host))
    return trials


def tell(trials, *pages, host=HOST):
    """Tell of pages, each "URL content". Return the parameters of the rules they prove, in order."""
    found = []
    for page in pages:
        url, content = page.split()
        found += trials.page(f"http://{host}{url}", Identity(content))
    return [rule.param[0] for rule in found]


PAIRS = [f"/a/{n} {n}" for n in range(NEEDED)] + [f"/a/{n}?ref={n} {n}" for n in range(NEEDED)]


@pytest.mark.parametrize(
    ("lines", "pages", "proven"),
    [
        (["ref"], PAIRS, ["ref"]),
        (["ref"], PAIRS[::-1], ["ref"]),
        (["ref /a"], PAIRS, ["ref"]),
        (["ref /b"], PAIRS, []),
        (["ref"], PAIRS[:-1], []),
        ([], PAIRS, []),
        # One content votes once, however many URLs have it.
        (["ref"], [f"/a?ref={n} one" for n in range(20)], []),
        # One disagreement ends the trial, before or between the votes.
        (["ref"], ["/b x", "/b?ref=1 y", *PAIRS], []),
        (["ref"], [*PAIRS[:-1], "/b x", "/b?ref=1 y", PAIRS[-1]], []),
        # Parameters that come together are tried together, and blamed together.
        (["ref&pos"], [f"/{n}?ref={m}&pos={m} {n}" for n in "abc" for m in "12"], ["ref", "pos"]),
        (["ref&pos"], ["/b?ref=1&pos=1 x", "/b?ref=2&pos=2 y", *PAIRS], []),
        # The trial of the others goes on.
        (["pos&ref"], ["/b?pos=1 x", "/b?pos=2 y", *PAIRS], ["ref"]),
        (["pos&ref"], [*PAIRS, *(f"/c/{n}?pos={m} {n}" for n in "abc" for m in "12")],
         ["ref", "pos"]),
        # What the profile merges anyway proves nothing.
        (["utm_source"], [f"/{n}?utm_source={m} {n}" for n in "abc" for m in "12"], []),
        # Only what differs is proved.
        (["ref&pos"], [f"/{n}?ref={m}&pos=1 {n}" for n in "abc" for m in "12"], ["ref"]),
    ],
)  # fmt: skip
def test_trials(lines, pages, proven):
    trials = trials_of(*lines)
    assert tell(trials, *pages) == proven
    assert [rule.param[0] for rule in trials.active(SITE)] == proven
    assert trials.sites() == ([SITE] if proven else [])


def test_a_proven_rule_tells_its_evidence():
    trials = trials_of("ref /a")
    tell(trials, *PAIRS)
    (rule,) = trials.active(SITE)
    assert (rule.site, rule.path, rule.source) == (HOST, "/a/**", "robots")
    assert (rule.status, rule.support, rule.conflicts) == ("active", NEEDED, 0)
    assert rule.examples[0] == (f"http://{HOST}/a/0", f"http://{HOST}/a/0?ref=0")
    assert trials.rules == (rule,)
    assert not trials.wants(f"http://{HOST}/a")


def test_other_hosts_are_not_concerned():
    """Not even another host of the domain: robots.txt speaks for its own."""
    trials = trials_of("ref")
    assert trials.wants(f"http://{HOST}/")
    assert not trials.wants("http://shop.test/")
    assert tell(trials, *PAIRS, host="shop.test") == []


def test_a_rejected_rule_is_not_tried_again():
    """Nor is what an earlier crawl rejected. The others go on without it."""
    trials = trials_of("ref&pos")
    tell(trials, *PAIRS)
    (rule,) = trials.active(SITE)
    rejected = trials.reject(rule, "other content")
    assert (rejected.status, rejected.conflicts) == ("rejected", 1)
    assert trials.active(SITE) == ()
    assert trials.reject(rule, "again") is None
    later = trials_of("ref&pos", rules=trials.rules)
    for each in (trials, later):
        pages = [f"/{n}?pos={m}&ref={m} {n}{m}" for n in "abc" for m in "12"]
        assert tell(each, *pages, *PAIRS) == []
        assert tell(each, *(f"/d/{n}?pos={m} {n}" for n in "abc" for m in "12")) == ["pos"]


def test_rules_of_earlier_crawls_are_in_force():
    earlier = trials_of("ref")
    tell(earlier, *PAIRS)
    later = trials_of("ref", rules=earlier.rules)
    assert later.active(SITE) == earlier.active(SITE)
    assert not later.wants(f"http://{HOST}/")


def test_crawlers_share_what_they_proved_and_refuted():
    one, other = trials_of("ref"), trials_of("ref")
    tell(one, *PAIRS)
    (rule,) = one.active(SITE)
    assert other.adopt([rule]) == ([rule], [])
    assert other.adopt([rule]) == ([], [])
    rejected = one.reject(rule, "other content")
    assert other.adopt([rejected]) == ([], [rejected])
    assert other.adopt([rule]) == ([], [])
    assert other.active(SITE) == ()


@pytest.mark.parametrize(
    "content", [None, Identity("x", kind="wall"), Identity("x", kind="missing")]
)
def test_walls_and_missing_pages_decide_nothing(content):
    """A login wall is equal under all URLs. Nor does a page decide that did not arrive whole."""
    trials = trials_of("ref")
    for page in PAIRS:
        url = f"http://{HOST}{page.split()[0]}"
        other = content and content._replace(digest=page.split()[1])
        assert trials.page(url, other) == []
    assert tell(trials, *PAIRS) == ["ref"]


def test_only_robots_txt_is_read():
    """Images and the like are downloaded without a callback, too."""
    trials = Trials(Normalizer())
    for url in (f"http://{HOST}/a/robots.txt", f"http://{HOST}/x.png", "robots.txt"):
        trials.robots_txt(url, b"Clean-param: ref")
        assert not trials.wants(f"http://{HOST}/")
    trials.robots_txt(f"http://{HOST}:80/robots.txt", b"Clean-param: ref")
    assert trials.wants(f"http://{HOST}/")


def test_a_file_that_comes_twice_is_tried_once():
    """http and https have a robots.txt each."""
    trials = trials_of("ref")
    tell(trials, *PAIRS[:-1])
    trials.propose(HOST, clean_params(b"Clean-param: ref", HOST))
    assert tell(trials, PAIRS[-1]) == ["ref"]


def test_candidates_that_contradict_the_users_rules_are_left_out():
    """Then there is no trial, and nothing is raised."""

    class Refusing(Normalizer):
        def for_site(self, domain, learned):
            raise SiteRuleError("contradicts a rule of the user")

    trials = Trials(Refusing("default"))
    trials.propose(HOST, clean_params(b"Clean-param: ref", HOST))
    assert not trials.wants(f"http://{HOST}/")


def test_memory_is_bounded(monkeypatch):
    """A flood of hosts, or of pages, takes the place of the oldest; rules in force stay."""
    monkeypatch.setattr(module, "MAX_HOSTS", 3)
    monkeypatch.setattr(module, "MAX_PAGES", 10)
    trials = trials_of("ref")
    tell(trials, *PAIRS)
    for number in range(10):
        host = f"h{number}.flood{number}.test"
        trials.propose(host, clean_params(b"Clean-param: ref&pos", host))
        for page in range(10):
            tell(trials, f"/{page} {page}", host=host)
    assert len(trials.active(SITE)) == 1
    assert len(trials._hosts) == 3
    assert len(trials._pages) == 10
    monkeypatch.setattr(module, "MAX_HOSTS", 1)
    lonely = trials_of("ref")
    tell(lonely, *PAIRS)
    lonely.propose("new.test", clean_params(b"Clean-param: ref", "new.test"))
    assert not lonely.wants("http://new.test/")


PAGES = st.lists(
    st.tuples(
        st.sampled_from(["/a", "/b", "/c/d"]),
        st.sampled_from(["", "?ref=1", "?ref=2", "?pos=1", "?ref=1&pos=2", "?id=1&ref=3"]),
        st.sampled_from("xyz"),
    ).map(lambda page: f"{page[0]}{page[1]} {page[2]}"),
    max_size=40,
)


@given(PAGES)
def test_a_rule_is_proved_by_three_contents_and_no_page_before_it(pages):
    """Every rule that came into force has its three pairs, equal ones, among the pages told."""
    trials = trials_of("ref&pos")
    contents: dict[str, set[str]] = {}
    for page in pages:
        url, content = page.split()
        contents.setdefault(f"http://{HOST}{url}", set()).add(content)
        for rule in trials.page(f"http://{HOST}{url}", Identity(content)):
            assert len(rule.examples) == rule.support == NEEDED
            for one, other in rule.examples:
                assert contents[one] & contents[other]
