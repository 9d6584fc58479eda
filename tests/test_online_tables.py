"""Pages and held requests, in a temporary database and in that of a JOBDIR."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
from scrapy import Request

from scrapy_urlnorm.crawl.online.held import STATES, HeldRequests
from scrapy_urlnorm.crawl.online.keys import Keys
from scrapy_urlnorm.crawl.online.tables import Match, Page, Pages, Reason
from scrapy_urlnorm.crawl.requests import Asked, asked_for
from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.logs.page_identity import Identity
from scrapy_urlnorm.report.filtered import COALESCED, DEFERRED, SUPPRESSED
from scrapy_urlnorm.site_rules import SiteRule
from scrapy_urlnorm.stores.sqlite import Database

KEYS = Keys("shop.test", b"fingerprint", b"cluster")
CONTENT = Identity("bytes", "words", None)
RULE = SiteRule(site="shop.test", kind="drop-param", param="sid", source="content", support=9)


def page(fingerprint=b"fingerprint", url="http://shop.test/a", content=CONTENT, depth=0):
    return Page(fingerprint, url, content, depth)


@pytest.fixture(params=["temporary", "JOBDIR"])
def database(request, tmp_path):
    database = Database(None if request.param == "temporary" else tmp_path / "urlnorm.sqlite")
    with database:
        yield database


def held_in(database):
    """Held requests whose bytes are their URLs, sent to nowhere; a refusal is an error."""

    def refused(stat, _=1):
        assert stat == "learned/released", "refused"

    frontier = SimpleNamespace(
        pack=lambda asked: asked.url.encode(),
        unpack=lambda data: asked_for(data.decode()),
        send=lambda *_: None,
        count=refused,
    )
    return HeldRequests(database, frontier)


@pytest.fixture
def held(database):
    return held_in(database)


@pytest.fixture
def pages(database):
    keys = SimpleNamespace(
        by_url=True, normalized=str, cluster_of_plain=lambda _, plain, __: plain[-3:].encode()
    )
    return Pages(database, keys)


def add(pages, one, *, cluster=b"cluster", site="shop.test"):
    asked = Asked(Request(one.url, meta={"depth": one.depth}))
    return pages.add(asked, Keys(site, one.fingerprint, cluster), one.content)


def representative(pages, cluster, fingerprint):
    return pages.representative(Keys("", fingerprint, cluster))


def urls(found):
    return [each.data.decode() for each in found]


def hold(held, url, state=SUPPRESSED, keys=KEYS, match=None):
    assert held.hold(keys, asked_for(url), state, match)


def test_a_representative_has_another_fingerprint(pages):
    """A page is none for its own URL, and one under another cluster key is none."""
    assert add(pages, page()) == page()
    assert representative(pages, b"cluster", b"fingerprint") is None
    assert representative(pages, b"cluster", b"other") == page()
    assert representative(pages, b"other", b"other") is None


@pytest.mark.parametrize("content", [CONTENT, Identity("bytes"), None])
def test_a_page_comes_back_as_it_was(pages, content):
    add(pages, page(content=content))
    assert pages.get(b"fingerprint") == page(content=content)


def test_the_representative_nearest_to_the_start_is_taken(pages):
    """And of pages with one fingerprint the last stays."""
    add(pages, page(depth=3))
    add(pages, page(depth=2))
    add(pages, page(fingerprint=b"deep", depth=5))
    assert representative(pages, b"cluster", b"other").depth == 2


def test_cluster_keys_are_made_anew_a_page_at_a_step(pages):
    for number in range(450):
        add(pages, page(fingerprint=b"%d" % number, url=f"http://shop.test/{number:03}"))
    assert sum(1 for _ in pages.rekey("shop.test")) == 450
    assert representative(pages, b"cluster", b"x") is None
    assert representative(pages, b"007", b"x").url == "http://shop.test/007"


def test_a_page_is_new_by_its_cluster_key_and_not_by_its_url(pages, held):
    """What was held is sent where a sample leads to new pages: another URL of an old one is none."""
    add(pages, page())
    hold(held, "http://shop.test/drawn", keys=KEYS._replace(fingerprint=b"drawn"))
    hold(held, "http://shop.test/met", DEFERRED, keys=KEYS._replace(fingerprint=b"met"))
    held.note(1)
    last = pages.last
    add(pages, page(fingerprint=b"met"), cluster=b"met before")
    add(pages, page(fingerprint=b"again"))
    add(pages, page(fingerprint=b"drawn"), cluster=b"of the sample")
    assert pages.clusters_since(last) == set()
    add(pages, page(fingerprint=b"other"), cluster=b"new")
    assert pages.clusters_since(last) == {b"new"}


def test_requests_are_found_by_state_site_and_cluster_key_in_order(held, database):
    """A search goes on while others change what it has not come to."""
    for number in range(450):
        hold(held, f"http://shop.test/{number}", (SUPPRESSED, COALESCED)[number % 2])
    hold(held, "http://other.test/", DEFERRED, Keys("other.test", b"x", b"elsewhere"))
    of_state = urls(held.find(COALESCED, cluster=b"cluster"))
    assert of_state == [f"http://shop.test/{number}" for number in range(1, 450, 2)]
    assert urls(held.find(cluster=b"elsewhere")) == ["http://other.test/"]
    assert [held.count(state) for state in STATES] == [225, 225, 1, 0]
    assert held.suppressed == held_in(database).suppressed == {"shop.test": 225}
    assert sorted(held.sites()) == ["other.test", "shop.test"]
    for each in held.find(SUPPRESSED, site="shop.test"):
        held.send(each)
    assert held.count(SUPPRESSED) == held.suppressed["shop.test"] == 0


@pytest.mark.parametrize(
    "which",
    [
        {"site": "shop.test"},
        {"site": "shop.test", "in_order": False},
        {"cluster": b"cluster"},
        {"beside": 1},
        {},
    ],
    ids=lambda which: " ".join(which) or "all",
)
def test_no_search_sorts_all_that_is_held_to_find_the_next(held, database, monkeypatch, which):
    """With 137,000 held, one after the other would take minutes, and four times that with twice as many."""
    read, plan = database.read, []
    hold(held, "http://shop.test/a")

    def explained(statement, *values):
        plan.extend(step for *_, step in read(f"EXPLAIN QUERY PLAN {statement}", *values))
        return read(statement, *values)

    monkeypatch.setattr(database, "read", explained)
    assert urls(held.find(SUPPRESSED, **which)) == ["http://shop.test/a"]
    assert plan
    assert not [step for step in plan if "ORDER BY" in step]


def test_what_is_suppressed_says_behind_what_and_why(held, database):
    """Also when it was coalesced before; what is behind the same URL for stock Scrapy saves none."""
    match = Match(KEYS, page(), (Reason(RULE, 9),))
    hold(held, "http://shop.test/a?sid=1", COALESCED)
    hold(held, "http://shop.test/a#top", SUPPRESSED, match=match)
    (waiting,) = held.find(COALESCED)
    held.suppress(waiting, match)
    assert held.suppressed == {KEYS.site: 2}
    rows = database.read("SELECT state, url, behind, rules, is_alias, saves FROM held ORDER BY id")
    why = "http://shop.test/a", '["drop-param on shop.test [param=\\"sid\\"]"]', 0
    assert rows == [
        (SUPPRESSED, "http://shop.test/a?sid=1", *why, 1),
        (SUPPRESSED, "http://shop.test/a#top", *why, 0),
    ]


def test_a_number_is_never_used_again(held):
    """A search that was interrupted has a row that is gone: it deletes no other request's."""
    hold(held, "http://shop.test/a")
    (old,) = held.find()
    held.send(old)
    hold(held, "http://shop.test/b")
    held.send(old)
    assert urls(held.find()) == ["http://shop.test/b"]


def test_a_damaged_request_is_deleted_and_counted(held, database):
    hold(held, "http://shop.test/a")
    hold(held, "http://shop.test/b")
    database.write("UPDATE held SET request = x'00' WHERE url LIKE '%a'")
    again = held_in(database)
    assert (again.damaged, urls(again.find())) == (1, ["http://shop.test/b"])


def hold_all(held, urls):
    for url in urls:
        hold(held, url)


def test_what_was_held_before_the_disk_was_full_is_whole():
    """A temporary database goes on; what it refused is the one request that could not be held."""
    with Database() as database:
        held = held_in(database)
        hold(held, "http://shop.test/first")
        (pages,) = database.read("PRAGMA page_count")[0]
        database.read(f"PRAGMA max_page_count = {pages}")
        taken = itertools.count()
        with pytest.raises(AssertionError, match="refused"):
            hold_all(held, (f"http://shop.test/{n}{'x' * 3_000}" for n in taken))
        assert len(list(held.find())) == next(taken)


def test_a_row_that_cannot_be_deleted_is_deleted_with_the_next_one(held, database, monkeypatch):
    """Until then it is passed over: its request was sent."""

    def full(*_: object) -> None:
        raise StoreError("the disk is full")

    hold(held, "http://shop.test/a")
    hold(held, "http://shop.test/b")
    one, two = held.find()
    with monkeypatch.context() as patch:
        patch.setattr(database, "write", full)
        held.send(one)
    assert list(held.find()) == [two]
    held.send(two)
    assert database.read("SELECT count(*) FROM held") == [(0,)]
