"""What two pages say of the rules that make their URLs one, and what a redirect says."""

from __future__ import annotations

import pytest
from online_parts import Parts, page_of
from scrapy import Request
from scrapy.http import HtmlResponse, Response
from twisted.internet.defer import Deferred

from scrapy_urlnorm.crawl.online.frontier import LARGEST_READ, shown_in_crawl
from scrapy_urlnorm.crawl.online.verdicts import (
    LARGEST_FILE,
    Shown,
    Verdict,
    is_comparable,
    leads_elsewhere,
    same_content,
    verdict,
)
from scrapy_urlnorm.logs.page_identity import Identity
from scrapy_urlnorm.site_rules import SiteRule

BASE = "http://shop.test"


def without_index(url):
    return url.replace("/index.php", "")


# The links of the page, its URL, that of the representative, whether they lead elsewhere.
CASES = {
    "a final slash": ('<a href="part">', "/a/", "/a", True),
    "no link": ("text", "/a/", "/a", False),
    "an absolute path": ('<a href="/part">', "/a/", "/a", False),
    "a whole URL": ('<a href="http://shop.test/part">', "/a/", "/a", False),
    "another scheme": ('<a href="mailto:a@shop.test">', "/a/", "/a", False),
    "a place on the page": ('<a href="#part">', "/a/", "/a", False),
    "a query alone": ('<a href="?page=2">', "/a/", "/a", True),
    "as many slashes": ('<a href="part">', "/old/a", "/new/a", False),
    "the rule covers the links": ('<a href="part">', "/index.php/x/a", "/x/a", False),
    "the rule does not": ('<a href="part">', "/index.php5/x/a", "/x/a", True),
    "the page says its base": ('<base href="/x/"><a href="part">', "/a/", "/a", False),
    "a host that is none": ('<a href="//[/part">', "/a/", "/a", False),
}


@pytest.mark.parametrize("name", CASES)
def test_links_that_lead_elsewhere(name):
    """Only relative links depend on the URL of their page (RFC 3986, section 5.2)."""
    body, url, other, elsewhere = CASES[name]
    page = HtmlResponse(BASE + url, body=body.encode(), encoding="utf-8")
    content = Identity("same")
    shown, found = Shown(BASE + other, content), Shown(BASE + url, content, page)
    assert leads_elsewhere(shown, found, without_index) is elsewhere
    said = Verdict.DIFFERS if elsewhere else Verdict.AGREES
    assert verdict(shown, found, key_of=without_index) is said
    assert verdict(shown, found._replace(response=None)) is Verdict.AGREES


@pytest.mark.parametrize(
    ("before", "found", "again", "said"),
    [
        ("a", "a", None, Verdict.AGREES),
        ("a", "b", None, None),
        ("a", "", None, None),
        ("", "a", None, None),
        ("a", "b", "aa", Verdict.DIFFERS),
        ("a", "b", "bb", Verdict.UNSTABLE),  # the representative has become the page
        ("a", "b", "cc", Verdict.DIFFERS),  # whatever the representative has become
        ("a", "b", "a-", Verdict.UNSTABLE),  # it does not come any more: no proof
        ("a", "b", "-a", Verdict.UNSTABLE),
        ("", "b", "cc", Verdict.DIFFERS),
        ("", "b", "bb", Verdict.AGREES),  # nothing was to be compared when it arrived
        ("", "", "--", Verdict.UNSTABLE),
    ],
)
def test_verdicts(before, found, again, said):
    """A page is compared with its representative as that is now, which is fetched twice."""
    one, other = (Shown(BASE, Identity(each) if each else None) for each in (before, found))
    if again is not None:
        again = tuple(None if each == "-" else Shown(BASE, Identity(each)) for each in again)
    assert verdict(one, other, again) is said


@pytest.mark.parametrize(
    ("is_same", "said"),
    [
        ({"found": True, "before": True}, Verdict.AGREES),
        ({"found": True, "before": False}, Verdict.UNSTABLE),
        ({"found": False, "before": True}, Verdict.DIFFERS),
        ({"found": None, "before": True}, Verdict.UNSTABLE),  # nothing of their own is left
    ],
)
def test_verdicts_of_pages_that_change_by_themselves(is_same, said):
    """Who asks says what two pages that were fetched one after the other have in common."""
    shown = {name: Shown(BASE, Identity(name)) for name in ("before", "found", "now", "after")}

    def compare(one, _):
        return is_same[one.content.digest]

    again = (shown["now"], shown["after"])
    assert verdict(shown["before"], shown["found"], again, is_same=compare) is said


def test_a_page_of_another_crawler_cannot_be_fetched_again():
    assert verdict(Shown("", Identity("a")), Shown(BASE, Identity("b"))) is Verdict.DIFFERS
    assert verdict(Shown("", Identity("a")), Shown(BASE, Identity("a"))) is Verdict.AGREES


def test_other_crawlers_tell_a_part_of_the_digest_of_the_words():
    told, page = Identity("", None, "0123456789abcdef" + "01234567"), Identity("x", "y", "0" * 32)
    assert same_content(told, page._replace(bag_digest="0123456789abcdef" * 2))
    assert not same_content(told, page)
    assert not same_content(None, None)


def test_a_very_large_page_is_known_by_its_bytes():
    """To read its text would hold the event loop; two such pages are one if all bytes are equal."""
    texts = ["word " * (LARGEST_READ // 5 + extra) for extra in (0, 0, 1)]
    one, same, other = (
        shown_in_crawl(HtmlResponse(BASE, body=text.encode(), encoding="utf-8")) for text in texts
    )
    assert same_content(one[0], same[0])
    assert not same_content(one[0], other[0])
    assert (one[1] is None, other[1] is None) == (False, True)


def test_files_that_are_small_or_huge_are_not_compared():
    assert is_comparable(HtmlResponse(BASE))
    sizes = (10, 100_000, LARGEST_FILE + 1)
    assert [is_comparable(Response(BASE, body=bytes(size))) for size in sizes] == [0, 1, 0]


# --- audits that are redirected ---------------------------------------------------------------

RULES = [
    SiteRule(kind="drop-param", site="shop.test", param=name, source="content", support=400)
    for name in ("sid", "via")
]
PAGE, OTHER, FOUND = f"{BASE}/p", f"{BASE}/p?via=1", f"{BASE}/p?sid=1&via=1"


@pytest.fixture
def crawl(request):
    """A crawl in which the audit of *FOUND* is in flight; the page was shown under *PAGE*."""
    parts = Parts(has_miner=False, URLNORM_LEARN="content")
    if other := getattr(request, "param", ""):  # what was shown before, farther from the start
        parts.schedule(Request(OTHER, meta={"depth": 1}))
        parts.arrive(parts.leave(), other)
    assert parts.fetch(PAGE, "the page") == "fetched"
    parts.found(*RULES)
    assert parts.schedule(Request(FOUND))
    parts.audit = parts.leave()
    assert parts.stats["audits"] == 1
    parts.download = lambda request: page_of(request, "the page")
    yield parts
    parts.close()


@pytest.mark.parametrize(("now", "said"), [("the page", [0, 2, 0]), ("neither", [0, 0, 2])])
def test_audits_that_wait_for_one_page_share_its_second_fetches(crawl, now, said):
    """It is fetched twice for two audits that show another page, and not four times."""
    assert crawl.schedule(Request(f"{BASE}/p?sid=word"))
    audits, answer = (crawl.audit, crawl.leave()), Deferred()
    assert crawl.stats["audits"] == 2
    crawl.download = lambda _: answer
    for audit in audits:
        crawl.arrive(audit, "neither")
    assert crawl.stats["second_fetches"] == 1
    crawl.download = lambda request: page_of(request, now)
    answer.callback(page_of(Request(PAGE), now))
    assert crawl.stats["second_fetches"] == 2
    assert verdicts(crawl) == said


def redirect(crawl, target):
    """The audit is answered with a redirect; return the request for its target, if it is sent."""
    crawl.learner.redirect(crawl.audit, target, status=302)
    crawl.under_way.discard(crawl.audit)
    request = crawl.audit.replace(url=target, meta={"redirect_urls": [FOUND]})
    return crawl.leave() if crawl.schedule(request) else None


def verdicts(crawl):
    names = ("audits_agreed", "audits_differed", "audits_unstable")
    return [crawl.stats[name] for name in names]


def test_a_redirect_to_the_representative_agrees_at_once(crawl):
    assert redirect(crawl, PAGE) is None
    assert verdicts(crawl) == [1, 0, 0]
    assert len(crawl.in_force()) == 2


def test_a_redirect_out_of_the_cluster_differs(crawl):
    assert redirect(crawl, f"{BASE}/q") is not None
    assert verdicts(crawl) == [0, 1, 0]
    assert len(crawl.in_force()) == 1


@pytest.mark.parametrize(
    ("body", "said"), [("the page", [1, 0, 0]), ("another", [0, 1, 0]), (None, [0, 0, 0])]
)
def test_a_redirect_within_the_cluster_is_followed(crawl, body, said):
    """It proves at most one of the two rules, so what arrives behind it decides."""
    request = redirect(crawl, OTHER)
    assert verdicts(crawl) == [0, 0, 0]
    if body is None:
        crawl.under_way.discard(request)
        crawl.learner.work()
    else:
        crawl.arrive(request, body)
    assert verdicts(crawl) == said
    assert len(crawl.in_force()) == 2 - said[1]


@pytest.mark.parametrize(
    ("crawl", "said"), [("the page", [1, 0, 0]), ("another", [0, 1, 0])], indirect=["crawl"]
)
def test_behind_a_redirect_to_a_page_that_arrived_that_page_decides(crawl, said):
    assert redirect(crawl, OTHER) is None
    assert verdicts(crawl) == said
