"""What two pages say of the rules that make their URLs one, and what a redirect says."""

from __future__ import annotations

from contextlib import closing

import pytest
from online_parts import Parts, no_page, page_of
from scrapy import Request
from scrapy.http import HtmlResponse, Response
from twisted.internet.defer import Deferred

from scrapy_urlnorm.crawl.online import whole_pages
from scrapy_urlnorm.crawl.online.tables import same_content
from scrapy_urlnorm.crawl.online.whole_pages import (
    LARGEST_FILE,
    LARGEST_READ,
    Shown,
    is_comparable,
    shown_in_crawl,
)
from scrapy_urlnorm.logs.differences import family_of
from scrapy_urlnorm.logs.page_identity import Identity
from scrapy_urlnorm.site_rules import SiteRule

BASE = "http://shop.test"


def test_other_crawlers_tell_a_part_of_the_digest_of_the_words():
    told, page = Identity("", "0123456789abcdef" + "01234567"), Identity("x", "0" * 32)
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


def test_what_cannot_be_read_whole_has_to_have_the_same_bytes(crawl):
    """That it has others at each fetch says nothing of another URL."""
    pages = crawl.learner._whole_pages
    one, same, other, third = (
        Shown(f"{BASE}/{n}", Identity(digest)) for n, digest in enumerate(("a", "a", "b", "c"))
    )
    assert pages.same(one, [same])
    assert not pages.same(one, [other, third])
    assert not pages.same(Shown(BASE, None), [Shown(BASE, None)])


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
    parts.download = lambda request: page_of(
        request, "the page" if request.url == PAGE else "another"
    )
    yield parts
    parts.close()


#: What the page and its representative show whenever they are fetched: the audit, the representative
#: again, the page, and so on in turns; and the verdict. "-" is no page.
TURNS = {
    "as it was": ("the page", "", [1, 0, 0], 0),
    "another one": ("other", "the page, other, the page", [0, 1, 0], 3),
    "it has changed, and the representative as well": ("new", "new", [0, 0, 1], 1),
    "the representative does not come": ("other", "-", [0, 0, 1], 1),
    "it does not come again": ("other", "the page, -", [0, 1, 0], 2),
    "it differs at any time": (
        "own a",
        "the page b, own c, the page d, own e, the page f",
        [0, 1, 0],
        5,
    ),
    "all of both changes": ("a", "b, c", [0, 0, 1], 2),
    "the page alone changes in a word": ("one page", "the page, two page, the page", [0, 1, 0], 3),
    "it was between two changes": ("a", "the page, the page", [1, 0, 0], 2),
}


@pytest.mark.parametrize("name", TURNS)
def test_a_page_and_its_representative_are_fetched_in_turns(crawl, name):
    found, again, said, fetched = TURNS[name]
    answers = iter(again.split(", "))

    def download(request):
        said = next(answers)
        return no_page(request) if said == "-" else page_of(request, said)

    crawl.download = download
    crawl.arrive(crawl.audit, found)
    assert verdicts(crawl) == said
    assert crawl.stats["second_fetches"] == fetched


@pytest.mark.parametrize(
    ("found", "telling"), [("another", ()), ("the page<!-- 2 -->", ("q:sid",))]
)
def test_slots_tell_pages_apart_where_what_they_show_does_not(found, telling):
    with closing(Parts(has_miner=False, URLNORM_LEARN="content")) as crawl:
        crawl.fetch(PAGE, "the page")
        crawl.found(RULES[0])
        crawl.schedule(Request(f"{PAGE}?sid=1"))
        crawl.download = lambda request: page_of(
            request, "the page" if request.url == PAGE else found
        )
        crawl.arrive(crawl.leave(), found)
        assert crawl.stats["audits_differed"] == 1
        assert crawl.learner._names.units("shop.test").telling(family_of(PAGE)) == telling
        assert crawl.learner._evidence.others("shop.test") == {f"{PAGE}?sid=1": PAGE}
        apart = crawl.database.read("SELECT apart FROM shown WHERE apart != ''")
        assert apart == [(slots,) for slots in telling]  # another name tells them apart already


@pytest.mark.parametrize(("still", "said"), [(0, [1, 0, 0]), (4, [0, 1, 0])])
def test_what_moves_on_half_of_the_pages_may_hold_still_on_this_one(crawl, still, said):
    """Also where a rule was proved on others of its family. Statutes stand where news move."""
    crawl.learner._audits.is_proved = lambda _: True
    for number in range(4 + still):
        pair = [f"news{fetch}" if number < 4 else "statutes" for fetch in "ab"]
        url = f"{PAGE}{number}"
        shown = (Shown(url, None, page_of(Request(url), text)) for text in pair)
        crawl.learner._whole_pages.learn(*shown)
    crawl.arrive(crawl.audit, "another")
    assert verdicts(crawl) == said


def test_what_both_may_show_by_chance_is_fetched_more_often(crawl):
    """An advertisement is on half of the fetches, and each of two pages held still in some."""
    answers = iter(["the page", "another"] * 3 + ["the page"] * 2)
    for text in ("news", "news", "statutes", "statutes"):
        shown = (
            Shown(PAGE, None, page_of(Request(PAGE), f"{text}{n}")) for n in (1, text == "news")
        )
        crawl.learner._whole_pages.learn(*shown)
    crawl.download = lambda request: page_of(request, next(answers))
    crawl.arrive(crawl.audit, "another")
    assert verdicts(crawl) == [1, 0, 0]
    assert not list(answers)


def test_what_a_page_showed_again_serves_later_audits(crawl):
    assert crawl.schedule(Request(f"{BASE}/p?sid=word"))
    audits, answers = (crawl.audit, crawl.leave()), iter(("old page", "red page", "new page"))
    pages = (page_of(Request(PAGE), f"{word} page") for word in ("red", "tan"))
    shown = (Shown(PAGE, None, page, shown_in_crawl(page)[1]) for page in pages)
    assert crawl.learner._names.learn(family_of(PAGE), *shown)
    crawl.download = lambda request: page_of(request, next(answers))
    for word, audit in zip(("red", "tan"), audits, strict=True):
        crawl.arrive(audit, f"{word} page")
    assert verdicts(crawl) == [2, 0, 0]
    assert crawl.stats["second_fetches"] == 3


def test_tests_that_take_more_fetches_than_they_save_are_left_alone(crawl, monkeypatch):
    """What is drawn at the end is decided whatever that takes: a bound rests on it."""
    monkeypatch.setattr("scrapy_urlnorm.crawl.online.verdicts._FREE", 0)
    crawl.arrive(crawl.audit, "another")
    assert verdicts(crawl) == [0, 0, 1]
    assert not crawl.stats["second_fetches"]


def test_audits_that_wait_for_one_page_share_its_second_fetch(crawl):
    assert crawl.schedule(Request(f"{BASE}/p?sid=word"))
    audits, answer = (crawl.audit, crawl.leave()), Deferred()
    assert crawl.stats["audits"] == 2
    crawl.download = lambda _: answer
    for audit in audits:
        crawl.arrive(audit, "neither")
    assert crawl.stats["second_fetches"] == 1
    answer.callback(page_of(Request(PAGE), "neither"))
    assert crawl.stats["second_fetches"] == 1
    assert verdicts(crawl) == [0, 0, 2]  # the representative has become the page


def test_what_is_fetched_again_when_the_crawl_ends_decides_nothing():
    """Its answer may come when the database is closed."""
    crawl, answer = Parts(has_miner=False, URLNORM_LEARN="content"), Deferred()
    crawl.fetch(PAGE, "the page")
    crawl.found(*RULES)
    crawl.schedule(Request(FOUND))
    crawl.download = lambda _: answer
    crawl.arrive(crawl.leave(), "another")
    crawl.close()
    answer.callback(page_of(Request(PAGE), "the page"))
    assert crawl.stats["second_fetches"] == 1
    assert not crawl.stats["errors"]


@pytest.mark.parametrize(
    ("path", "is_known", "is_last", "said"),
    [
        ("/p", False, True, [0, 1, 0]),
        ("/q", False, True, [0, 1, 0]),
        ("/q", False, False, [0, 0, 1]),
        ("/q", True, True, [1, 0, 0]),
    ],
)
def test_what_a_list_carries_on_refutes_a_rule_and_no_other(path, is_known, is_last, said):
    """The rule is for the first page of a list only. That page is no other one for that.

    If the crawl has the URLs that it carries its parameter on to, nothing is lost with it. While
    other requests are under way, it may yet get to know them.
    """
    narrow = {"kind": "drop-param", "param": "sid", "when": {"no": "page"}}
    crawl = Parts(has_miner=False, URLNORM_LEARN="content")

    def shown(url):
        carried = "&amp;sid=1" if "sid" in url else ""
        return f'the page <a href="{path}?page=2{carried}">next</a>'

    crawl.download = lambda request: page_of(request, shown(request.url))
    assert crawl.fetch(PAGE, shown(PAGE)) == "fetched"
    crawl.found(SiteRule(site="shop.test", source="content", support=400, **narrow))
    audit = Request(f"{PAGE}?sid=1")
    crawl.schedule(audit)
    audit = crawl.leave()
    if is_known:
        crawl.schedule(Request(f"{BASE}{path}?page=2&sid=1"))
    if not is_last:
        crawl.schedule(Request(f"{BASE}/other"))
        crawl.leave()
    crawl.arrive(audit, shown(audit.url))
    assert (verdicts(crawl), len(crawl.in_force())) == (said, not said[1])
    is_apart = path == "/q" and said[1]
    assert crawl.database.read("SELECT sum(apart != '') FROM shown") == [(is_apart,)]
    crawl.close()


def test_links_that_rules_make_one_are_equal_though_the_crawl_has_some_of_them():
    """What a page carries on is what its representative carries on, under another value."""
    values = {"old": {"q:size": "100"}, "new": {"q:size": "50"}}
    crawl = Parts(has_miner=False, URLNORM_LEARN="content")

    def shown(url):
        size = url.partition("size=")[2]
        return "".join(f'<a href="/q?sort={n}&amp;size={size}">by {n}</a>' for n in range(3))

    assert crawl.fetch(f"{PAGE}?size=50", shown("size=50")) == "fetched"
    crawl.found(SiteRule(kind="replace", site="shop.test", source="content", support=400, **values))
    crawl.schedule(Request(f"{PAGE}?size=100"))
    audit = crawl.leave()
    crawl.schedule(Request(f"{BASE}/q?sort=1&size=100"))
    crawl.arrive(audit, shown(audit.url))
    assert (verdicts(crawl), crawl.stats["second_fetches"]) == ([1, 0, 0], 0)
    crawl.close()


def test_links_of_a_cluster_that_the_crawl_has_are_known(crawl):
    """Be it from another page, or from the representative."""
    assert crawl.fetch(f"{BASE}/seen?n=1", "another page") == "fetched"
    links = ["/seen?n=1&amp;sid=1", "/beside?sid=1", "/new?sid=1", "mailto:us?sid=1"]
    found = page_of(Request(FOUND), "".join(f'<a href="{link}">go</a>' for link in links))
    page = page_of(Request(PAGE), '<a href="/beside">go</a>')
    shown = Shown(FOUND, None, found), Shown(PAGE, None, page)
    known = crawl.learner._whole_pages.known_links(*shown, crawl.learner._verdicts._is_known)
    assert [*known.values()] == [True, True, False]


@pytest.mark.parametrize(("last", "said"), [("Ada", True), ("Bob", False)])
def test_a_copy_of_what_is_the_same_as_a_page_is_a_copy_of_that(crawl, last, said):
    """A post of a blog shows the last page of its comments, and that page has replies."""

    def shown(url, who, reply="", parent=0, head=""):
        text = f'{head}<a href="#7">{who}</a> says hi<h3>Reply{reply}</h3>'
        return page_of(Request(url), f"{text}<input name=to type=hidden value={parent}>")

    pages = crawl.learner._whole_pages
    head = f'<meta name=robots content=noindex><link rel=canonical href="{PAGE}/2">'
    copy = shown(f"{PAGE}/2?re=7", "Ada", ' to <a href="#7">Ada</a>', 7, head)
    one, two = Shown(copy.url, None, copy), Shown(PAGE, None, shown(PAGE, "Ada"))
    assert not pages.same(one, [two])
    pages.add(pages.keys.fingerprint_of(f"{PAGE}/2"), shown(f"{PAGE}/2", last))
    assert pages.same(one, [two]) is said


@pytest.mark.parametrize("is_known", [True, False])
def test_links_may_say_what_the_other_page_has_chosen(crawl, is_known):
    def shown(url, up, down, to):
        body = (
            f'<select name=h><option {up}>up<option {down}>down</select><a href="/q?h={to}">go</a>'
        )
        return Shown(url, None, page_of(Request(url), body))

    page = shown(PAGE, "selected", "", "up")
    found = shown(f"{PAGE}?h=down", "", "selected", "down")
    found.known = {f"{BASE}/q?h=down": is_known}
    pages = crawl.learner._whole_pages
    assert pages.same(found, [page]) is is_known
    assert pages.same_but_for_links(found, [page])


@pytest.mark.parametrize(
    ("rel", "is_followed", "said"),
    [("alternate", False, True), ("alternate", True, False), ("next", False, False)],
)
def test_in_the_head_of_a_page_a_spider_follows_what_it_has_from_the_other(
    crawl, rel, is_followed, said
):
    """A feed that it has of no page is lost with none."""
    head = '<link rel={} href="/feed{}"><link rel=stylesheet href="/a.css">'
    found = Shown(FOUND, None, page_of(Request(FOUND), head.format(rel, "?sid=1")))
    page = Shown(PAGE, None, page_of(Request(PAGE), head.format("alternate", "?n=1")))
    if is_followed:
        assert crawl.fetch(f"{BASE}/feed?n=1", "a feed") == "fetched"
    known = crawl.learner._whole_pages.known_links(found, page, crawl.learner._verdicts._is_known)
    assert known == {f"{BASE}/feed?sid=1": said}


@pytest.mark.parametrize(
    ("links", "said"), [("/any?to={0}", [1, 0, 0]), ("/any?to={0} /only?to={1}", [0, 1, 0])]
)
def test_a_link_that_the_audited_page_alone_has_stays_unknown(links, said):
    """The spider asks for it before the page is fetched again. Other links change at each fetch."""
    crawl, turns = Parts(has_miner=False, URLNORM_LEARN="content"), iter(range(9))

    def shown(url):
        n, sid = next(turns), "&amp;sid=1" if "sid" in url else ""
        return "".join(f'<a href="{link}{sid}">go</a>' for link in links.format(n, 0).split())

    def download(request):
        if crawl.schedule(Request(f"{BASE}/only?to=0&sid=1")):
            crawl.leave()
        return page_of(request, shown(request.url))

    crawl.download = download
    assert crawl.fetch(PAGE, shown(PAGE)) == "fetched"
    narrow = {"kind": "drop-param", "param": "sid", "path": "/p"}
    crawl.found(SiteRule(site="shop.test", source="content", support=400, **narrow))
    for n in range(2, 9):
        crawl.schedule(Request(f"{BASE}/any?to={n}&sid=1"))
    crawl.schedule(Request(f"{PAGE}?sid=1"))
    audit = next(request for request in iter(crawl.leave, None) if PAGE in request.url)
    crawl.arrive(audit, shown(audit.url))
    assert verdicts(crawl) == said
    crawl.close()


def test_a_test_of_the_end_waits_until_the_crawl_knows_what_its_page_links_to(monkeypatch):
    """While anything is in the queue, it may get that from other pages."""
    narrow = {"kind": "drop-param", "param": "sid", "when": {"no": "page"}}
    crawl = Parts(has_miner=False, URLNORM_LEARN="content")
    learner, pages = crawl.learner, 'the page <a href="/q?page=2{}">next</a>'
    assert crawl.fetch(PAGE, pages.format("")) == "fetched"
    crawl.found(SiteRule(site="shop.test", source="content", support=400, **narrow))
    crawl.schedule(Request(f"{PAGE}?sid=1"))
    asked = crawl.leave()
    key = learner._keys.fingerprint_of(asked.url)
    audit = learner._audits.get(key)._replace(is_drawn=True)
    monkeypatch.setattr(learner._frontier, "queued", lambda: 1)
    shown = Shown(asked.url, None, page_of(asked, pages.format("&amp;sid=1")))
    learner._verdicts.page(audit, shown)
    assert verdicts(crawl) == [0, 0, 0]
    crawl.schedule(Request(f"{BASE}/q?page=2&sid=1"))
    assert learner._verdicts.decide_open()
    assert verdicts(crawl) == [1, 0, 0]
    assert not learner._verdicts.decide_open()
    crawl.close()


@pytest.mark.parametrize("is_last", [False, True])
def test_a_page_that_moves_waits_for_its_links_too(is_last):
    """It takes second fetches to see that it differs in nothing else."""
    crawl, turns = Parts(has_miner=False, URLNORM_LEARN="content"), iter(range(9))

    def shown(url):
        carried = "&amp;sid=1" if "sid" in url else ""
        return f'{next(turns)} visitors <a href="/q?page=2{carried}">next</a>'

    crawl.download = lambda request: page_of(request, shown(request.url))
    assert crawl.fetch(PAGE, shown(PAGE)) == "fetched"
    narrow = {"kind": "drop-param", "param": "sid", "when": {"no": "page"}}
    crawl.found(SiteRule(site="shop.test", source="content", support=400, **narrow))
    audit = Request(f"{PAGE}?sid=1")
    crawl.schedule(audit)
    crawl.leave()
    if not is_last:
        crawl.schedule(Request(f"{BASE}/other"))
    crawl.arrive(audit, shown(audit.url))
    assert verdicts(crawl) == ([0, 1, 0] if is_last else [0, 0, 1])
    crawl.close()


def test_a_bad_link_hides_no_others_and_most_links_are_not_asked_for(crawl, monkeypatch):
    monkeypatch.setattr(whole_pages, "_MOST_LINKS", 4)
    links = ["http://[/?sid=1", *(f"/{n}?sid=1" for n in range(9))]
    page = page_of(Request(FOUND), "".join(f'<a href="{link}">go</a>' for link in links))
    one, two = Shown(FOUND, None, page), Shown(PAGE, None)
    known = crawl.learner._whole_pages.known_links(one, two, lambda _: True)
    assert known == {f"{BASE}/{n}?sid=1": True for n in range(4)}


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


def test_long_pages_that_are_compared_when_a_rule_comes_take_several_steps(crawl):
    """So the event loop has its turn between them."""
    match = crawl.learner._audits.get(crawl.learner._keys.fingerprint_of(FOUND)).match
    texts = ((PAGE, "a" * 10_000), (FOUND, "b" * 20_000))
    page, found = (Shown(url, None, page_of(Request(url), text)) for url, text in texts)
    assert len(list(crawl.learner._contradictions._compare(match, page, found))) >= 15
    assert crawl.stats["second_fetches"] > 0
