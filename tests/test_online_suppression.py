"""Suppression, case by case: what is sent, coalesced, suppressed, requeued; and what trouble changes."""

from __future__ import annotations

import pytest
from online_model import SITE, UNREADABLE, Crawl, key_of, response_of
from scrapy import Request

from scrapy_urlnorm.crawl import frontier
from scrapy_urlnorm.crawl.online import closing, safe_points, tables
from scrapy_urlnorm.learning import aliases
from scrapy_urlnorm.report.filtered import COALESCED, SUPPRESSED

HTTP, HTTPS = f"http://{SITE}/a", f"https://{SITE}/a"
OTHER_HTTPS = f"https://{SITE}/c"


@pytest.fixture(autouse=True)
def _whole_steps(monkeypatch):
    monkeypatch.setattr(safe_points, "STEPS", 10**6)
    monkeypatch.setattr(closing, "LEAST_DRAWS", 0)  # else so few are all sent
    yield
    UNREADABLE.clear()


@pytest.fixture
def crawl():
    """A crawl in memory, in which http is https."""
    crawl = Crawl()
    crawl.change_rules("https")
    crawl.learner.work()
    yield crawl
    crawl.parts.close()


@pytest.fixture
def on_disk(tmp_path):
    crawl = Crawl(tmp_path, has_audits=False)
    yield crawl
    crawl.parts.close()


def fetch(crawl, url):
    """Find a link and have its page arrive, if it is sent."""
    crawl.find(Request(url))
    request = crawl.leave()
    if request is not None:
        crawl.page(request)
    return request is not None


def suppress(crawl, number):
    """Have so many requests suppressed, after the audits that their rule needs."""
    done = count = 0
    while done < number:
        fetch(crawl, f"https://{SITE}/p{count}")
        done += not fetch(crawl, f"http://{SITE}/p{count}")
        count += 1


def test_what_cannot_be_deleted_is_sent_once(crawl):
    """A row that stays because the disk is full is passed over: it was sent."""
    suppress(crawl, 3)
    held = {url: key_of(url) for url in crawl.held()}
    assert all(crawl.learner.holds(key, url) for url, key in held.items())
    before = crawl.parts.stats["requeued"]
    crawl.database.refuses = True
    crawl.change_rules()
    crawl.run_to_the_end()
    assert not any(crawl.learner.holds(key, url) for url, key in held.items())
    assert crawl.lost() == []
    assert crawl.parts.stats["requeued"] - before == 3


def test_what_is_held_is_sent_though_a_full_disk_keeps_an_audit(crawl):
    for number in range(40):
        fetch(crawl, f"https://{SITE}/p{number}")
        crawl.find(Request(f"http://{SITE}/p{number}"))
        crawl.leave()
    held = crawl.held()
    assert held
    assert crawl.parts.stats["audits"]
    crawl.database.refuses = True
    crawl.learner.release_all()
    assert {request.url for request in crawl.queue} == set(held)


def test_what_is_held_behind_a_page_that_the_spider_did_not_get_is_sent(crawl):
    """Its callback raised; the first of those that were held stands for the others now."""
    suppress(crawl, 3)
    held = list(crawl.held())
    crawl.learner.raised(Request(held[0].replace("http:", "https:")))
    assert [request.url for request in crawl.queue] == held[:1]
    assert list(crawl.held()) == held[1:]


@pytest.mark.parametrize("less", [{"body": b""}, {"status": 206}, {"flags": ["dataloss"]}], ids=str)
def test_nothing_is_suppressed_behind_what_is_no_whole_page(crawl, less):
    suppress(crawl, 3)
    for url in (f"{HTTPS}{number}" for number in range(9)):
        crawl.find(Request(url))
        request = crawl.leave()
        crawl.learner.page(request, response_of(url).replace(**less))
        crawl.end(request)
        fetch(crawl, url.replace("https", "http"))
    crawl.run_to_the_end()
    assert crawl.lost() == []


def test_what_is_coalesced_behind_a_failure_is_sent_at_once(crawl):
    """The first of them, as soon as the scheduler is asked; the others go on waiting for it."""
    for url in (HTTPS, HTTP, HTTPS.replace("//", "//www."), OTHER_HTTPS):
        crawl.find(Request(url))
    crawl.change_rules("https", "www")
    crawl.learner.work()
    first = crawl.leave()
    assert crawl.leave() is None
    assert crawl.leave() is None
    crawl.end(first)
    assert [crawl.leave().url for _ in range(2)] == [OTHER_HTTPS, HTTP]
    assert list(crawl.held().values()) == [COALESCED]


def test_what_is_coalesced_behind_a_retry_is_sent_and_so_is_the_retry(crawl):
    crawl.find(Request(HTTPS))
    crawl.find(Request(HTTP))
    first = crawl.leave()
    assert crawl.leave() is None
    crawl.retry(first)
    assert {crawl.leave().url, crawl.leave().url} == {HTTPS, HTTP}


#: Has held requests read from what they were packed as.
only_copies = pytest.mark.usefixtures("copies")


@pytest.fixture
def copies(monkeypatch):
    monkeypatch.setattr(frontier, "may_be_copied", lambda request: True)


@only_copies
def test_what_cannot_be_read_stays_until_it_can(crawl):
    """Nothing is remembered of it as having waited."""
    crawl.find(Request(HTTPS))
    crawl.find(Request(HTTP))
    first = crawl.leave()
    assert crawl.leave() is None
    UNREADABLE.add(HTTP)
    crawl.end(first)
    crawl.run_to_the_end()
    assert crawl.held() == {HTTP: COALESCED}
    UNREADABLE.clear()
    crawl.run_to_the_end()
    assert crawl.held() == {}


@only_copies
def test_what_cannot_be_read_is_suppressed_all_the_same(crawl):
    """Its row says enough; and the audit that it was to be comes when it can be read."""
    crawl.find(Request(HTTPS))
    crawl.find(Request(HTTP))
    first = crawl.leave()
    assert crawl.leave() is None
    UNREADABLE.add(HTTP)
    crawl.page(first)
    assert (crawl.held(), crawl.parts.stats["audits"]) == ({HTTP: SUPPRESSED}, 0)
    UNREADABLE.clear()
    crawl.run_to_the_end()
    assert (crawl.held(), crawl.parts.stats["audits"]) == ({}, 1)


def test_what_a_rule_of_a_later_run_suppresses_is_sent_when_a_person_takes_the_rule_out(on_disk):
    fetch(on_disk, OTHER_HTTPS)
    for names in (["https"], []):
        on_disk.stop()
        on_disk.edit_rules(names)
        on_disk.begin()
        if names:
            on_disk.learner.work()
            suppress(on_disk, 2)
    on_disk.run_to_the_end()
    assert on_disk.lost() == []
    assert on_disk.held() == {}


@only_copies
def test_a_row_that_one_run_cannot_read_comes_back_in_another(on_disk):
    """Its rule went when nobody could say where it belongs."""
    on_disk.change_rules("https")
    on_disk.learner.work()
    suppress(on_disk, 1)
    (url,) = on_disk.held()
    UNREADABLE.add(url)
    on_disk.change_rules()
    on_disk.run_to_the_end()
    assert on_disk.held() == {url: SUPPRESSED}
    on_disk.stop()
    UNREADABLE.clear()
    on_disk.begin()
    on_disk.run_to_the_end()
    assert on_disk.lost() == []
    assert on_disk.held() == {}


def test_pages_are_bounded(crawl, monkeypatch):
    """Those that came first are forgotten, and what they would have represented is sent."""
    monkeypatch.setattr(tables, "MAX_PAGES", 10)
    monkeypatch.setattr(tables, "_FORGOTTEN", 5)
    assert fetch(crawl, HTTPS)
    for number in range(29):
        assert fetch(crawl, f"http://h{number}.example/")
    urls = [url for (url,) in crawl.database.read("SELECT url FROM page ORDER BY id")]
    assert urls == [f"http://h{number}.example/" for number in range(19, 29)]
    crawl.find(Request(HTTP))
    crawl.run_to_the_end()
    assert crawl.held() == {}


TOPIC, SHORT = f"http://{SITE}/t?topic=", f"http://{SITE}/t?short="


@pytest.fixture
def forum(monkeypatch):
    """A crawl that has accepted short names by one vote, and audits nothing."""
    monkeypatch.setattr(aliases, "VOTES", 1)
    crawl = Crawl(has_audits=False)
    for url in (f"{TOPIC}2", f"{SHORT}2"):
        assert fetch(crawl, url)
    yield crawl
    crawl.parts.close()


def test_a_name_is_sent_as_soon_as_two_pages_claim_it(forum):
    """It stood behind the one that came first."""
    assert not fetch(forum, f"{SHORT}1")
    assert forum.held() == {f"{SHORT}1": SUPPRESSED}
    assert fetch(forum, f"{TOPIC}1")
    assert forum.held() == {}
    assert forum.leave().url == f"{SHORT}1"


def test_a_name_of_a_page_that_represents_nothing_is_sent(forum):
    """It was asked for again, so nobody knows whether it is the same as before."""
    again = Request(f"{TOPIC}1", dont_filter=True)
    forum.find(again)
    forum.page(forum.leave())
    assert fetch(forum, f"{TOPIC}1&post=1")
