"""Families of URLs that bring nothing new for long are put last, or dropped where that is asked for."""

from __future__ import annotations

import logging

import pytest
from online_parts import crawls, page_of
from scrapy import Request

from scrapy_urlnorm.crawl.online import safe_points
from scrapy_urlnorm.crawl.online.families import BARREN
from scrapy_urlnorm.crawl.online.suppression import FIRST_SENT
from scrapy_urlnorm.report.filtered import DEFERRED, LAST
from scrapy_urlnorm.stores.sqlite import Database

HOST = "http://shop.test"
EMPTY = "nothing happens on this day"
LIMIT = 20


@pytest.fixture
def begun(monkeypatch):
    monkeypatch.setattr(safe_points, "STEPS", 10**6)
    with crawls(has_miner=False, URLNORM_LEARN="content") as begin:
        yield begin


def month(n):
    return f"{HOST}/cal/month?n={n}"


def see_months(parts, number=BARREN, first=0):
    """Have pages of the calendar arrive, all with one content, whatever waits in the queue."""
    parts.arrive(Request(f"{HOST}/empty"), EMPTY)
    for n in range(first, first + number):
        parts.arrive(Request(month(n)), EMPTY)


def is_sent(parts, url):
    return parts.fetch(url) == "fetched"


def test_after_so_many_pages_without_anything_new_a_family_is_put_last(begun, caplog):
    """It is said once, with an example; what comes of it waits for all that is deferred."""
    caplog.set_level(logging.INFO)
    parts = begun()
    see_months(parts, BARREN - 1)
    assert parts.stats["put_last"] == 0
    see_months(parts, 5, first=BARREN)
    assert parts.stats["put_last"] == 1
    said = [record.getMessage() for record in caplog.records if "brought nothing new" in record.msg]
    assert len(said) == 1
    assert "http://shop.test/cal, depth 2, parameters: n" in said[0]
    assert month(BARREN) in said[0]
    assert parts.learner.barren == {"http://shop.test/cal/": BARREN + 4}
    urls = [month(1000 + n) for n in range(40)]
    assert {parts.fetch(url) for url in urls} == {"held"}
    assert parts.states() == {LAST: 40}
    assert is_sent(parts, f"{HOST}/cal/list")
    assert list(map(len, parts.batches())) == [16, 16, 8]


def test_what_was_deferred_before_is_put_last_too(begun):
    """When its turn comes: other deferred requests go first."""
    parts = begun()
    see_months(parts, 10)
    for n in range(10):
        parts.arrive(Request(f"{HOST}/go/x?to={n}"), EMPTY)
    months = [month(100 + n) for n in range(30)]
    others = [f"{HOST}/go/x?to=later{n}" for n in range(FIRST_SENT)]
    assert {parts.fetch(url) for url in months + others} == {"held"}
    see_months(parts, BARREN, first=1000)
    parts.learner.idle()
    assert sorted(parts.queued()) == sorted(others)
    assert parts.states() == {LAST: 30}


def test_what_is_put_last_while_the_last_ones_are_sent_is_sent_too(begun):
    """The search has gone past it: it was deferred before these."""
    parts = begun()
    see_months(parts, 10)
    assert parts.fetch(month(100)) == "held"
    see_months(parts, BARREN, first=1000)
    assert parts.fetch(month(9000)) == "held"
    sending = parts.learner._closing._send_last()
    assert next(sending) is False
    for held in parts.learner._closing.held.find(DEFERRED):
        parts.learner._closing.held.put_last(held)
    assert any(sending)


def test_one_new_page_ends_it(begun):
    parts = begun()
    see_months(parts, BARREN)
    assert not is_sent(parts, month(1000))
    parts.arrive(Request(month(1001)), "a concert")
    for n in range(60):
        parts.arrive(Request(month(2000 + n)), f"concert {n}")
    assert is_sent(parts, month(3000))


def test_a_list_of_new_pages_is_never_put_last(begun):
    """However long it is, and at any limit."""
    parts = begun(URLNORM_FAMILY_LIMIT=1)
    for n in range(3 * BARREN):
        assert parts.fetch(f"{HOST}/list?page={n}", f"page {n}") == "fetched"
    assert parts.stats["put_last"] == parts.stats["limited"] == 0


def test_what_is_no_page_does_not_count(begun):
    """Nor does a page that was not handed to the spider, or came for a request of a session."""
    parts = begun(URLNORM_FAMILY_LIMIT=LIMIT)
    parts.arrive(Request(month(0)), EMPTY)
    for n in range(3 * BARREN):
        parts.learner.missing(Request(month(n + 1)))
        parts.arrive(Request(month(n + 1), meta={"cookiejar": 1}), EMPTY)
    assert is_sent(parts, month(1000))


def answers(parts, pages):
    """Have pages that are fetched again answered by *pages*; the list of what was asked for."""
    asked = []

    def answer(request):
        asked.append(request.url)
        return page_of(request, pages(request.url))

    parts.download = answer
    return asked


def by_site(url):
    """What the site shows while all is well."""
    return EMPTY if "/cal/" in url or url.endswith("/empty") else None


def test_a_limit_drops_the_rest_of_a_family(begun, caplog):
    """When two pages, fetched again, show what they should; and nothing else is dropped."""
    caplog.set_level(logging.INFO)
    parts = begun(URLNORM_FAMILY_LIMIT=LIMIT)
    parts.fetch(f"{HOST}/about")
    asked = answers(parts, by_site)
    see_months(parts, LIMIT)
    assert asked == [month(LIMIT - 1), f"{HOST}/about"]
    assert parts.stats["limited"] == 1
    assert [parts.fetch(month(1000 + n)) for n in range(3)] == ["held"] * 3
    assert parts.stats["dropped"] == 3
    assert parts.held() == []
    assert is_sent(parts, f"{HOST}/cal/list")
    assert sum("are dropped" in record.getMessage() for record in caplog.records) == 1
    for request in (
        Request(month(2000), dont_filter=True),
        Request(month(2001), meta={"redirect_urls": [HOST]}),
    ):
        parts.schedule(request)
        assert parts.leave() is request


@pytest.mark.parametrize(
    "pages",
    [
        pytest.param(lambda url: EMPTY, id="everything shows one page: an outage"),
        pytest.param(lambda url: None, id="the page is another one by now"),
        pytest.param(lambda url: 1 / 0, id="nothing comes"),
    ],
)
def test_in_doubt_nothing_is_dropped(begun, pages):
    """The count begins anew, and the limit is tried again later."""
    parts = begun(URLNORM_FAMILY_LIMIT=LIMIT)
    parts.fetch(f"{HOST}/about")
    answers(parts, pages)
    see_months(parts, LIMIT)
    assert parts.stats["limited"] == parts.stats["dropped"] == 0
    parts.fetch(month(1000))
    parts.learner.idle()
    assert month(1000) not in parts.held()
    answers(parts, by_site)
    see_months(parts, LIMIT, first=2000)
    assert parts.stats["limited"] == 1


def test_the_page_beside_is_of_the_same_family_if_there_is_one(begun):
    """A site may answer one section with one page, and the others as always."""
    parts = begun(URLNORM_FAMILY_LIMIT=LIMIT)
    parts.fetch(f"{HOST}/about")
    parts.fetch(f"{HOST}/cal/week")
    parts.arrive(Request(month(7)), "a concert")
    asked = answers(parts, lambda url: EMPTY if "/cal/" in url else None)
    see_months(parts, LIMIT, first=100)
    assert asked == [month(100 + LIMIT - 1), month(7)]
    assert parts.stats["limited"] == 0


def test_a_link_that_looks_like_an_act_is_not_asked_for(begun):
    parts = begun(URLNORM_FAMILY_LIMIT=LIMIT)
    asked = answers(parts, by_site)
    for n in range(2 * LIMIT):
        parts.arrive(Request(f"{HOST}/topic?action=delete&id={n}"), EMPTY)
    assert asked == []
    assert parts.stats["limited"] == 0


def test_without_the_order_of_its_own_a_crawl_still_has_its_limit(begun):
    parts = begun(URLNORM_LEARN={"defer": False})
    see_months(parts, 2 * BARREN)
    assert is_sent(parts, month(1000))
    assert parts.stats["put_last"] == 0
    limited = begun(URLNORM_LEARN={"defer": False}, URLNORM_FAMILY_LIMIT=LIMIT)
    answers(limited, by_site)
    see_months(limited, LIMIT)
    assert limited.fetch(month(1000)) == "held"
    assert limited.stats["dropped"] == 1


@pytest.mark.parametrize("ends", ["close", "kill"])
def test_the_next_run_goes_on_counting(begun, tmp_path, ends):
    """What was put last is still there, after a kill too, and so is what was limited."""
    path = tmp_path / "job"
    parts = begun(database=Database(path), URLNORM_FAMILY_LIMIT=LIMIT)
    parts.fetch(f"{HOST}/about")
    answers(parts, by_site)
    see_months(parts, LIMIT - 1)
    parts.database.commit()
    if ends == "kill":
        parts.kill()
    else:
        parts.close()
    parts = begun(database=Database(path), URLNORM_FAMILY_LIMIT=LIMIT)
    answers(parts, by_site)
    see_months(parts, 1, first=500)
    assert parts.stats["limited"] == 1
    assert parts.fetch(month(1000)) == "held"
    parts.database.commit()
    parts.close()
    parts = begun(database=Database(path), URLNORM_FAMILY_LIMIT=LIMIT)
    assert parts.fetch(month(1001)) == "held"
    assert parts.stats["dropped"] == 1
    parts.close()
    parts = begun(database=Database(path))
    assert parts.fetch(month(1002)) == "fetched"


@pytest.mark.parametrize("ends", ["close", "kill"])
def test_what_was_put_last_is_sent_by_the_next_run(begun, tmp_path, ends):
    parts = begun(database=Database(tmp_path / "job"))
    see_months(parts)
    urls = [month(1000 + n) for n in range(5)]
    assert {parts.fetch(url) for url in urls} == {"held"}
    parts.database.commit()
    parts.kill() if ends == "kill" else parts.close()
    parts = begun(database=Database(tmp_path / "job"))
    assert parts.held() == urls
    assert parts.fetch(month(2000)) == "held"
    parts.learner.idle()
    assert parts.queued() == [*urls, month(2000)]


def test_a_failure_sends_what_was_put_last_and_drops_nothing_any_more(begun, monkeypatch):
    parts = begun(URLNORM_FAMILY_LIMIT=LIMIT)
    answers(parts, by_site)
    see_months(parts, LIMIT)
    assert parts.fetch(month(1000)) == "held"
    parts.learner.release_all()
    assert is_sent(parts, month(1001))
