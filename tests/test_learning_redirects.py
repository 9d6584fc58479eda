"""What permanent redirects teach a crawl, what speaks against it, and what is bounded."""

from __future__ import annotations

from time import process_time

import pytest

from scrapy_urlnorm import Normalizer, SiteRule
from scrapy_urlnorm.learning.media import OF_FILE
from scrapy_urlnorm.learning.mined import judged, mined
from scrapy_urlnorm.learning.worker import Job
from scrapy_urlnorm.logs.observation import Observation

HOST = "http://www.shop.test"
DOMAIN = "shop.test"
MANY = 12  #: more than any kind needs
MODES = pytest.mark.parametrize("contents", [True, False], ids=["contents", "redirects alone"])

#: The redirects that each kind needs: what the risk allows, with the prior of the kind.
ENOUGH = {"https": 2, "add www": 2, "index": 3, "add slash": 6}


def redirects(source, target, times=MANY, status=301):
    """Rows of redirects; ``{}`` is another word each time."""
    words = [f"w{number}" for number in range(times)]
    return [(source.format(word), status, None, target.format(word)) for word in words]


def served(*urls, content=None):
    return [(url, 200, content and content.format(url), None) for url in urls]


def learned(rows, accepted=(), banned=None, **options):
    """The rules that a crawl has after these rows."""
    found = mined(Job(DOMAIN, rows, tuple(accepted), banned or {}, **options))
    assert found.error is None
    return found.rules


def key(rules, url):
    return Normalizer("default", site_rules=rules).normalize(url)


CASES = {
    "https": (HOST + "/{}", "https://www.shop.test/{}"),
    "http": ("https://www.shop.test/{}", HOST + "/{}"),
    "add www": ("http://shop.test/{}", HOST + "/{}"),
    "remove www": (HOST + "/{}", "http://shop.test/{}"),
    "other host": ("http://m.shop.test/{}", HOST + "/{}"),
    "add slash": (HOST + "/{}", HOST + "/{}/"),
    "remove slash": (HOST + "/{}/", HOST + "/{}"),
    "index": (HOST + "/{}/index.html", HOST + "/{}/"),
    "index and slash": (HOST + "/{}/index.php", HOST + "/{}"),
    "host and scheme": ("http://shop.test/{}", "https://www.shop.test/{}"),
    "all at once": ("http://shop.test/{}/index.html", "https://www.shop.test/{}"),
    "with a query": (HOST + "/{}?b=1&a=2", HOST + "/{}/?a=2&b=1"),
}


@MODES
@pytest.mark.parametrize("content", [None, "{}"])
@pytest.mark.parametrize("name", CASES)
def test_agreeing_redirects_make_rules(name, content, contents):
    """Source and target of a redirect that was never seen have one key from then on.

    A crawl sees the targets as pages, too: these do not speak against the rule.
    """
    source, target = CASES[name]
    rows = redirects(source, target)
    rules = learned([*rows, *served(*(row[3] for row in rows), content=content)], contents=contents)
    assert key(rules, source.format("new")) == key(rules, target.format("new"))
    assert {(rule.source, rule.conflicts) for rule in rules} == {("redirect", 0)}
    assert all(rule.examples for rule in rules)


@MODES
@pytest.mark.parametrize("name", ["https", "http", "add www", "remove www", "other host"])
def test_a_rule_leads_to_the_host_that_has_the_page(name, contents):
    """A crawl asks for that URL, and not for one that redirects to it."""
    source, target = CASES[name]
    rules = learned(redirects(source, target), contents=contents)
    assert key(rules, source.format("new")) == target.format("new")


@MODES
@pytest.mark.parametrize("name", CASES)
def test_rules_in_force_are_found_again_as_they_are(name, contents):
    """Also where the miner has them the other way round."""
    rows = redirects(*CASES[name])
    rules = learned(rows, contents=contents)
    again = learned(rows, rules, contents=contents)
    assert {rule.identity for rule in again} == {rule.identity for rule in rules}


@MODES
@pytest.mark.parametrize("name", ENOUGH)
def test_a_few_redirects_are_enough(name, contents):
    source, target = (part.replace("{}", "folder/{}") for part in CASES[name])
    assert learned(redirects(source, target, ENOUGH[name] - 1), contents=contents) == ()
    assert len(learned(redirects(source, target, ENOUGH[name]), contents=contents)) == 1


NOTHING = {
    "another path": (HOST + "/{}", HOST + "/"),
    "a login": (HOST + "/{}", HOST + "/login?next=%2F{}"),
    "one page of another host": ("http://m.shop.test/{}", HOST + "/"),
    "a dropped parameter": (HOST + "/?id={}", HOST + "/"),
    "another site": ("http://shop.test/{}", "http://shop.example/{}"),
    "a public suffix": ("http://a.co.uk/{}", "http://b.co.uk/{}"),
    "another port": (HOST + ":8080/{}", "http://shop.test:8081/{}"),
    "not a web scheme": (HOST + "/{}", "mailto:{}"),
    "nothing new": (HOST + "/{}?b=1&a=2", HOST + "/{}?a=2&b=1"),
    "a renamed page": (HOST + "/{}", HOST + "/{}-new"),
}


@MODES
@pytest.mark.parametrize("times", [MANY, 60])
@pytest.mark.parametrize("name", NOTHING)
def test_other_redirects_prove_nothing(name, times, contents):
    assert learned(redirects(*NOTHING[name], times), contents=contents) == ()


@MODES
@pytest.mark.parametrize("status", [302, 303, 307])
def test_temporary_redirects_prove_nothing(status, contents):
    assert learned(redirects(*CASES["add www"], status=status), contents=contents) == ()


def test_redirects_alone_prove_nothing_of_parameters():
    """Equal contents do not count where only redirects may teach."""
    rows = redirects(HOST + "/{}?ref=1", HOST + "/{}")
    rows += [
        (f"{HOST}/p{n}{query}", 200, f"c{n}", None) for n in range(30) for query in ("", "?v=1")
    ]
    assert learned(rows, contents=False) == ()
    assert learned(rows) != ()


# --- what speaks against a rule -----------------------------------------------------------------

AGAINST = {
    "https": [HOST + "/old"],
    "http": ["https://www.shop.test/x"],
    "add www": ["http://shop.test/x"],
    "remove www": [HOST + "/x"],
    "remove slash": [HOST + "/x/"],
    "add slash": [HOST + "/x", HOST + "/x/"],
    "index": [HOST + "/x/index.html"],
}


@MODES
@pytest.mark.parametrize("name", AGAINST)
def test_a_page_that_was_served_speaks_against_a_rule(name, contents):
    """The URL from which the rule leads away has a page of its own; nothing merges the two."""
    rows = redirects(*CASES[name])
    url = AGAINST[name][0]
    before = learned(rows, contents=contents)
    rows += served(*AGAINST[name])
    for accepted in (), before:
        rules = learned(rows, accepted, contents=contents)
        assert key(rules, url) == url


@MODES
def test_a_rule_is_taken_back_when_its_redirects_are_forgotten(contents):
    """As in the next crawl: the rule is in force, and all that is known of it."""
    before = learned(redirects(*CASES["add www"]))
    rows = served("http://shop.test/x", HOST + "/y")
    assert learned(rows[1:], before, contents=contents) == before
    assert learned(rows, before, contents=contents) == ()


def test_a_page_with_the_same_content_does_not_speak_against_a_rule():
    rows = redirects(*CASES["add www"])
    both = served("http://shop.test/x", HOST + "/x", content="same")
    assert len(learned(rows + both)) == 1
    assert learned(rows + served("http://shop.test/x", HOST + "/x", content="{}")) == ()


def test_a_file_does_not_speak_against_a_rule():
    """A style sheet may be served where pages redirect."""
    rows = redirects(*CASES["https"])
    assert len(learned(rows + served(HOST + "/x.css", content=OF_FILE + "x"))) == 1


@MODES
def test_a_section_speaks_for_itself(contents):
    """What was served below /~eve/ leaves the rule of /~bob/, and keeps it from /~eve/."""
    rows = redirects(HOST + "/~bob/{}/", HOST + "/~bob/{}")
    rules = learned(rows, contents=contents)
    assert key(rules, HOST + "/~bob/new/") == HOST + "/~bob/new"
    assert key(rules, HOST + "/~eve/new/") == HOST + "/~eve/new/"
    rules = learned(rows + served(*(f"{HOST}/~eve/{n}/" for n in range(3))), contents=contents)
    assert key(rules, HOST + "/~bob/new/") == HOST + "/~bob/new"
    assert key(rules, HOST + "/~eve/new/") == HOST + "/~eve/new/"


@MODES
@pytest.mark.parametrize("names", [("https", "http"), ("add www", "remove www")])
def test_a_site_that_redirects_both_ways_has_no_two_rules(names, contents):
    """Two would go round."""
    one, other = (redirects(*(part.replace("{}", f"{n}{{}}") for part in CASES[n.strip()]))
                  for n in names)  # fmt: skip
    assert len(learned(one + other, contents=contents)) <= 1


@MODES
def test_a_refuted_rule_needs_its_witnesses(contents):
    """Fifty for each page that spoke against it."""
    rows = redirects(*CASES["add www"], times=49)
    (rule,) = learned(rows, contents=contents)
    banned = {rule.identity: 50}
    assert learned(rows, banned=banned, contents=contents) == ()
    rows = redirects(*CASES["add www"], times=50)
    assert len(learned(rows, banned=banned, contents=contents)) == 1


# --- rules that were learned before, or elsewhere ------------------------------------------------


@MODES
def test_rules_in_force_stay(contents):
    """Of any kind: what nothing speaks against needs no new proof."""
    rules = (
        SiteRule(site="shop.test", kind="drop-param", param="ref", source="content", support=20),
        SiteRule(site="shop.test", kind="trailing-slash", option="add", source="redirect"),
    )
    assert set(learned(served(HOST + "/a", HOST + "/b"), rules, contents=contents)) == set(rules)


WWW = SiteRule(site="*.shop.test", kind="host-alias", host="www.shop.test", by=DOMAIN, support=12)
TWO = SiteRule(
    site="*.shop.test", kind="host-alias", host=["a.shop.test", "b.shop.test"], by=DOMAIN, support=9
)


@pytest.mark.parametrize(
    ("rule", "pairs", "host", "source"),
    [
        (WWW, [("http://shop.test/a", HOST + "/a")], DOMAIN, "user"),
        (WWW, [(f"http://shop.test/{n}", f"{HOST}/{n}") for n in range(6)], DOMAIN, "redirect"),
        (WWW, [(f"{HOST}/{n}", f"http://shop.test/{n}") for n in range(6)], "www.shop.test",
         "redirect"),
        (WWW, [("http://shop.test/a", HOST + "/log-in")], "www.shop.test", "user"),
        (WWW, [("http://shop.test/a", "mailto:a@shop.test")], "www.shop.test", "user"),
        (TWO, [(f"http://shop.test/{n}", f"http://a.shop.test/{n}") for n in range(9)],
         "a.shop.test", "redirect"),
    ],
)  # fmt: skip
def test_the_direction_and_the_source_are_those_of_most_redirects(rule, pairs, host, source):
    """A rule that makes several hosts one has no other direction."""
    rows = [Observation(one, 301, location=other) for one, other in pairs]
    ((found,), against) = judged([rule], rows)
    assert (found.host[0], found.source, found.support) == (host, source, rule.support)
    assert against == []


# --- bounds -------------------------------------------------------------------------------------

ODD = [
    "http://shop.test",
    "http://shop.test?x",
    "http:///x",
    "http://[::1]/a",
    "http://[/a",
    "http://shop.test/%ff/%FE",
    "http://shop.test/\ud800/a",
    f"http://{'a.' * 2_500}test/a",
    f"http://{'a' * 5_000}/a",
    "mailto:a@b",
    "",
]


@pytest.mark.parametrize("source", ODD)
@pytest.mark.parametrize("target", ODD)
def test_odd_urls_do_no_harm(source, target):
    rows = [(source, 301, None, target)] * 9 + served(source, target)
    assert learned(rows) == ()
    assert len(learned(redirects(*CASES["add www"]) + rows[:9])) == 1


@MODES
def test_thousands_of_hosts_take_little_time(contents):
    rows = [
        (f"http://h{n}.shop.test/a{n}", 301, None, f"http://h{n + 1}.shop.test/a{n}")
        for n in range(4_000)
    ]
    start = process_time()
    assert len(learned(rows + served(*(row[0] for row in rows)), contents=contents)) < 100
    assert process_time() - start < 20


@MODES
def test_very_long_urls_take_little_time(contents):
    long = "/" + "a/" * 30_000
    rows = [(f"http://shop.test{long}{n}", 301, None, f"{HOST}{long}{n}") for n in range(20)]
    start = process_time()
    learned([*rows, *served(*(row[3] for row in rows))], contents=contents)
    assert process_time() - start < 10
