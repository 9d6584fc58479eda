"""Where a rule holds, what the audit takes back, and that any log can be mined."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from log_rows import corpus_of, page, taught_by, twins

from scrapy_urlnorm import Normalizer, SiteRule
from scrapy_urlnorm.learning import mine
from scrapy_urlnorm.learning.audit import audited
from scrapy_urlnorm.learning.corpus import PLAIN, Vocabulary
from scrapy_urlnorm.learning.cover import cover, earned
from scrapy_urlnorm.learning.risk import Limits
from scrapy_urlnorm.learning.trials import trials_of
from scrapy_urlnorm.logs import Observation
from scrapy_urlnorm.site_rules.context import No
from scrapy_urlnorm.site_rules.operations import DropParam

# --- Where a rule holds: a context is searched for, and has to pay for the search


@pytest.mark.parametrize("seed", [1, 4, 7, 9, 11])
def test_a_conjunction_found_by_chance_is_none(seed):
    """Among all sets of three of many rare parameters one avoids four failures by chance."""
    rng = random.Random(seed)
    rows = []
    for number in range(200):
        given = "&".join(f"p{n}=1" for n in range(40) if rng.random() < 0.03)
        url = f"http://h.example/{number}?{given}"
        rows.append(page(url, f"{number}"))
        different = " and more" if number < 4 else ""
        rows.append(page(f"{url}&x={number % 9}", f"{number}{different}"))
    corpus, op = corpus_of(rows), DropParam(("q:x",))
    assert not cover(op, trials_of(op, corpus), Vocabulary(corpus.items), Limits())


def test_a_context_that_explains_the_failures_is_found():
    """A parameter that matters wherever another one stands is dropped where that is absent."""
    rows = []
    for number in range(80):
        for query in ("a=1", "a=1&list=1"):
            url = f"http://h.example/{number}?{query}"
            rows.append(page(url, f"{number} {query}"))
            matters = f" {number % 9}" if "list" in query else ""
            rows.append(page(f"{url}&x={number % 9}", f"{number} {query}{matters}"))
    corpus, op = corpus_of(rows), DropParam(("q:x",))
    (found,) = cover(op, trials_of(op, corpus), Vocabulary(corpus.items), Limits())
    assert found.context == (No("q:list"),)


def test_each_name_of_a_joint_set_has_evidence_of_its_own():
    """A name that varied once among URLs that agree leaves the set that others bear."""
    rows = []
    for number in range(40):
        rows.append(page(f"http://h.example/{number}", f"{number}"))
        rows.append(page(f"http://h.example/{number}?a={number % 7}&b={number % 5}", f"{number}"))
    rows.append(page("http://h.example/0?a=1&b=2&q=3", "0"))
    op = DropParam(("q:a", "q:b", "q:q"))
    trials = trials_of(op, corpus_of(rows))
    assert earned(op, trials, Limits()) == ("q:a", "q:b")
    assert earned(DropParam(("q:q",)), trials, Limits()) == ("q:q",)


# --- The last audit: a learned rule that merges what differs is found out, whatever its kind

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
def test_a_switch_that_merges_different_pages_is_taken_back(kind, option, one, other, site):
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


def test_a_conflict_that_a_verdict_found_is_no_noise():
    urls = {
        f"http://a.example/{n}{query}": Counter({n: 1}) for n in range(200) for query in ("", "?x")
    }
    urls["http://a.example/7?x"] = Counter({200: 1})
    for two, count in (((), 1), ([frozenset((7, 200))], 0)):
        kept, _ = audited((), [NOISE], urls, PLAIN.normalize, Limits(), two)
        assert len(kept) == count


@pytest.mark.parametrize(("kind", "option", "one", "other"), SWITCHES)
def test_a_switch_that_merges_equal_pages_stays(kind, option, one, other):
    urls = {}
    for n in range(40):
        urls[one.format(n)] = urls[other.format(n)] = Counter({n: 1})
    rules = [SiteRule(site="a.example", kind=kind, option=option), NOISE]
    kept, keys = audited((), rules, urls, PLAIN.normalize, Limits())
    assert (kept, keys) == (rules, 40)


def test_a_switch_of_another_host_is_not_blamed():
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


# --- Canonical links of a log with contents: they propose, and prove nothing

SHOP = "http://shop.test/p/"


def log(products, *, equal):
    """Each product in its own page and five variants, which are one content if *equal*."""
    for product in range(products):
        for variant in range(6):
            query = f"?variant={variant}" if variant else ""
            content = f"{product}" if equal else f"{product} {variant}"
            url, canonical = f"{SHOP}{product}{query}", f"{SHOP}{product}"
            yield Observation(url, 200, content, canonical=canonical, mime="text/html")


@pytest.mark.parametrize(
    ("products", "equal", "expected"),
    [
        (30, False, [("drop-param", "proposed", "canonical")]),
        (30, True, [("drop-param", "active", "content")]),  # no second time
        (1, False, []),  # five links are no pattern
    ],
)
def test_canonical_links_propose_what_contents_do_not_say(products, equal, expected):
    """Pages that differ a little, in a box of related ones, have one canonical URL."""
    rules = mine(log(products, equal=equal))
    assert [(rule.kind, rule.status, rule.source) for rule in rules] == expected


def test_canonical_links_that_name_the_page_itself_propose_nothing():
    """As most do."""
    rows = [
        Observation(f"{SHOP}{n}", 200, str(n), canonical=f"{SHOP}{n}", mime="text/html")
        for n in range(40)
    ]
    rules = mine(rows)
    assert not rules


# --- Whatever a log holds, in whatever order, mining comes to an end with rules

#: A joint set of which one parameter stands in no URL that is compared with another.
NEVER_TRIED = """
    /p0?a=0&d=0 /p0?a=5&b=2&d=1 /p11?a=6&b=1 /p11?b=0&c=3 /p11?b=0&d=8 /p4?b=3 /p4?d=7
    /p8?a=7&b=1&c=1&d=3 /p8?b=0&d=6 /q12?b=0&c=1&d=1 /q12?c=6&d=3 /q1?a=0&b=3 /q1?a=1&b=4&c=8
    /q1?b=0&d=1 /q1?b=1 /q1?b=2&c=2&d=3 /q1?b=4&c=8&d=2 /q2? /q2?a=1&d=1 /q2?b=0&c=2&d=0
    /q2?b=4&c=0&d=0 /r0? /r0?a=1&c=1&d=1
"""


def test_a_parameter_that_was_never_tried_is_no_error():
    rows = [page(f"http://h.example{path}", path.partition("?")[0]) for path in NEVER_TRIED.split()]
    taught_by(rows)


NAMES = st.sampled_from(["a", "b", "c", "id", "sid", "page", "utm_source", "7", ""])
VALUES = st.sampled_from(["", "0", "1", "2", "x", "X", "a:b", "/s/p", "12-x", "é", "%", "\x00"])
SEGMENTS = st.sampled_from(["s", "S", "p", "P", "12", "index.html", "a:b", "a b", "~u", "", ".."])


@st.composite
def urls(draw):
    """Draw a URL of one of a few hosts, made of few words so that many are alike."""
    host = draw(st.sampled_from(["h.example", "www.h.example", "u.github.io", "127.0.0.1"]))
    path = "".join("/" + part for part in draw(st.lists(SEGMENTS, max_size=3)))
    pairs = draw(st.lists(st.tuples(NAMES, VALUES), max_size=4))
    query = draw(st.sampled_from("&;")).join(f"{name}={value}" for name, value in pairs)
    return f"http://{host}{path}{'?' if pairs else ''}{query}"


@st.composite
def logs(draw):
    """Draw pages and files of few contents, redirects and errors."""
    rows = []
    for url in draw(st.lists(urls(), max_size=60)):
        content = draw(st.sampled_from(["1", "2", "3", url.partition("?")[0].lower()]))
        kind = draw(st.sampled_from(["page", "page", "page", "file", "redirect", "error"]))
        if kind in ("page", "file"):
            mime = "text/html" if kind == "page" else "application/pdf"
            rows.append(Observation(url, 200, content, mime=mime))
        elif kind == "redirect":
            rows.append(Observation(url, 301, location=draw(urls())))
        else:
            rows.append(Observation(url, 404, content))
    return rows


@settings(max_examples=150, deadline=None)
@example(
    [page("http://h.example?a=/s/p&7=", "1"), page("http://h.example?a=/s/p&7=&7=", "1")],
    random.Random(0),
)
@given(logs(), st.randoms(use_true_random=False))
def test_no_log_is_an_error_and_no_order_matters(rows, chance):
    """Any rows can be mined, their order changes nothing, and the rules can be used together."""
    rules = mine(rows)
    chance.shuffle(rows)
    assert mine(rows) == rules
    Normalizer("default", site_rules=rules)


def test_many_agreeing_contents_make_one_rule():
    """Evidence without a conflict is never too much: one rule, not one for each value."""
    (rule,) = mine(twins("h.example", "x", 6_500))
    assert (rule.active, rule.kind, rule.param, rule.support) == (True, "drop-param", ("x",), 6_500)


def test_one_session_is_not_taken_for_another():
    """Nobody gets it again. Two words, as many, are."""
    for one, two in (("0f3c9a17b2d84e65", "9d41e07ac35b2f68"), ("rows", "grid")):
        urls = [f"http://a.example/{n}?key={value}" for n in range(30) for value in (one, two)]
        rows = [page(url, url.partition("?")[0]) for url in urls]
        exchanged = [rule for rule in mine(rows) if rule.kind == "replace"]
        assert bool(exchanged) is (one == "rows")
