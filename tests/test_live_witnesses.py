"""Witnesses, case by case: what is sent, parked, withheld and put back, and what trouble changes."""

from __future__ import annotations

from contextlib import closing

import pytest
from live_model import Crawl
from live_sites import SITES, content_of
from scrapy import Request

from scrapy_urlnorm.crawl.live import pages
from scrapy_urlnorm.learning import aliases

SITE = SITES[0]
HTTP, HTTPS = f"http://{SITE}/a", f"https://{SITE}/a"
OTHER_HTTP, OTHER_HTTPS = f"http://{SITE}/c", f"https://{SITE}/c"


@pytest.fixture
def crawl():
    """A crawl in memory, in which http is https."""
    with closing(Crawl()) as crawl:
        crawl.change_rules(SITE, ["https"])
        crawl.work(steps=100)
        yield crawl


@pytest.fixture
def on_disk(tmp_path):
    with closing(Crawl(tmp_path / "pending")) as crawl:
        yield crawl


def fetch(crawl, url):
    """Find a link and have its page arrive, if it is sent."""
    crawl.find(Request(url))
    request = crawl.leave()
    if request is None:
        return False
    crawl.page(request, content_of(url))
    return True


def withhold(crawl, number):
    """Have *number* requests withheld, after the audits that their rule owes."""
    done = 0
    while done < number:
        fetch(crawl, f"https://{SITE}/{crawl.stats['n']}")
        done += not fetch(crawl, f"http://{SITE}/{crawl.stats['n']}")
        crawl.stats["n"] += 1


def test_what_cannot_be_deleted_is_put_back_once(crawl):
    """A row that stays because the disk is full is passed over: it was sent."""
    withhold(crawl, 3)
    crawl.database.refuses = True
    crawl.change_rules(SITE, [])
    crawl.run_to_the_end()
    assert crawl.lost() == []
    assert crawl.stats["learned/put_back"] == 3


def test_what_is_parked_behind_a_failure_is_sent_at_once(crawl):
    """The first of them, as soon as the scheduler is asked; the others go on waiting for it."""
    for url in (HTTPS, HTTP, HTTPS.replace("//", "//www."), OTHER_HTTPS):
        crawl.find(Request(url))
    crawl.change_rules(SITE, ["https", "www"])
    crawl.work(steps=100)
    first = crawl.leave()
    assert crawl.leave() is None
    assert crawl.leave() is None
    crawl.end(first)
    assert [crawl.leave().url for _ in range(2)] == [OTHER_HTTPS, HTTP]
    assert len(crawl.kept(parked=True)) == 1


def test_what_is_parked_behind_a_retry_is_sent_and_so_is_the_retry(crawl):
    """A claim does not wait for another try."""
    crawl.find(Request(HTTPS))
    crawl.find(Request(HTTP))
    first = crawl.leave()
    assert crawl.leave() is None
    crawl.retry(first)
    assert {crawl.leave().url, crawl.leave().url} == {HTTPS, HTTP}


def test_memory_of_claims_ends_with_their_requests(crawl):
    """However many requests a crawl sends, only what is under way is remembered."""
    for number in range(50):
        crawl.find(Request(f"https://{SITE}/{number}"))
        crawl.end(crawl.leave())
        crawl.leave()
        assert not crawl.witnesses._claims
        assert not crawl.witnesses._watched


def test_a_row_that_cannot_be_read_does_not_count_as_having_waited(crawl):
    """It stays where it is, and nothing is remembered of it."""
    crawl.find(Request(HTTPS))
    crawl.find(Request(HTTP))
    first = crawl.leave()
    assert crawl.leave() is None
    crawl.unreadable.add(HTTP)
    crawl.end(first)
    crawl.run_to_the_end()
    assert list(crawl.kept(parked=True).values()) == [HTTP]
    assert not crawl.witnesses._kept_back._waited
    crawl.unreadable.clear()
    crawl.run_to_the_end()
    assert crawl.kept() == {}


def test_rules_that_are_new_in_a_later_run_are_forgotten_with_what_they_withheld(on_disk):
    """Pages of a run without rules, then one that withholds, then one without rules again."""
    fetch(on_disk, OTHER_HTTPS)
    for names in (["https"], []):
        on_disk.commit()
        on_disk.close()
        on_disk.rules[SITE] = tuple(names)
        on_disk.open()
        if names:
            on_disk.work(steps=100)
            withhold(on_disk, 2)
    on_disk.run_to_the_end()
    assert on_disk.lost() == []
    assert on_disk.kept() == {}


def test_what_is_withheld_before_keys_are_made_anew_is_not_forgotten_by_a_kill(on_disk):
    """The rule came, something was withheld at once, and the file of rules was not yet written."""
    fetch(on_disk, HTTP)
    on_disk.change_rules(SITE, ["https"])
    fetch(on_disk, HTTPS)
    on_disk.witnesses._audits.is_due = lambda *_: False
    on_disk.find(Request(f"http://{SITE}/b"))
    on_disk.page(on_disk.leave(), content_of(f"http://{SITE}/b"))
    on_disk.find(Request(f"https://{SITE}/b"))
    assert list(on_disk.kept().values()) == [f"https://{SITE}/b"]
    on_disk.commit()
    on_disk.kill()
    on_disk.rules[SITE] = ()
    on_disk.open()
    on_disk.run_to_the_end()
    assert on_disk.lost() == []


def test_what_is_withheld_by_rules_of_an_earlier_crawl_is_not_forgotten(on_disk):
    """The run began with rules, made no key anew, and the next one has no rules any more."""
    on_disk.close()
    on_disk.rules[SITE] = ("https",)
    on_disk.open()
    on_disk.witnesses._audits.is_due = lambda *_: False
    on_disk.find(Request(HTTP))
    on_disk.page(on_disk.leave(), content_of(HTTP))
    on_disk.find(Request(HTTPS))
    assert list(on_disk.kept().values()) == [HTTPS]
    on_disk.commit()
    on_disk.close()
    on_disk.rules[SITE] = ()
    on_disk.open()
    on_disk.run_to_the_end()
    assert on_disk.lost() == []
    assert on_disk.kept() == {}


def test_a_row_that_one_run_cannot_read_comes_back_in_another(on_disk):
    """Its rule went when nobody could say where it belongs."""
    on_disk.change_rules(SITE, ["https"])
    on_disk.work(steps=100)
    withhold(on_disk, 1)
    (url,) = on_disk.kept().values()
    on_disk.unreadable.add(url)
    on_disk.change_rules(SITE, [])
    on_disk.run_to_the_end()
    assert list(on_disk.kept().values()) == [url]
    on_disk.commit()
    on_disk.close()
    on_disk.unreadable.clear()
    on_disk.open()
    on_disk.run_to_the_end()
    assert on_disk.lost() == []
    assert on_disk.kept() == {}


def test_pages_of_sites_without_rules_are_bounded(crawl, monkeypatch):
    """The oldest are forgotten, and of a site with rules none."""
    monkeypatch.setattr(pages, "MAX_SITES", 10)
    assert fetch(crawl, HTTPS)
    for number in range(100):
        url = f"http://h{number}.example/"
        crawl.witnesses.page(Request(url), content_of(url))
    sites = crawl.ledger.count_pages()
    assert list(sites) == [*(f"h{number}.example" for number in range(91, 100)), SITE]
    crawl.change_rules(SITE, [])
    crawl.work(steps=100)
    for number in range(100, 110):
        url = f"http://h{number}.example/"
        crawl.witnesses.page(Request(url), content_of(url))
    assert SITE not in crawl.ledger.count_pages()
    assert sum(crawl.witnesses._pages._counts.values()) == crawl.witnesses._pages._total == 10


TOPIC = f"http://{SITE}/t?topic="
SHORT = f"http://{SITE}/t?short="


@pytest.fixture
def forum(monkeypatch):
    """A crawl that has accepted short names by one vote, and audits nothing."""
    monkeypatch.setattr(aliases, "VOTES", 1)
    with closing(Crawl(has_audits=False)) as crawl:
        for url in (f"{TOPIC}2", f"{SHORT}2"):
            assert fetch(crawl, url)
        yield crawl


def test_a_name_is_sent_as_soon_as_two_pages_claim_it(forum):
    """It stood behind the one that came first."""
    assert not fetch(forum, f"{SHORT}1")
    assert list(forum.kept().values()) == [f"{SHORT}1"]
    assert fetch(forum, f"{TOPIC}1")
    assert forum.kept() == {}
    assert forum.leave().url == f"{SHORT}1"


def test_what_a_pattern_withheld_is_sent_when_it_is_wrong(forum):
    """The rest of its site as well; then no request of the site has keys any more."""
    assert not fetch(forum, f"{SHORT}1")
    (pattern,) = forum.aliases.accepted(SITE)
    forum.aliases.reject(pattern, "wrong")
    forum.work(steps=100)
    assert forum.kept() == {}
    assert forum.leave().url == f"{SHORT}1"
    assert forum.register.keys_of(f"{SHORT}1") is None


def test_a_name_of_a_page_that_did_not_arrive_is_sent(forum):
    """A page that was no witness, for example since it was asked for again, names nothing."""
    again = Request(f"{TOPIC}1", dont_filter=True)
    forum.find(again)
    forum.page(forum.leave(), content_of(again.url))
    assert fetch(forum, f"{TOPIC}1&post=1")
