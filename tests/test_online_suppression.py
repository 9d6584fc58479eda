"""Suppression, case by case: what is sent, coalesced, suppressed, requeued; and what trouble changes."""

from __future__ import annotations

from contextlib import closing

import pytest
from online_parts import SITE, Parts, Refusing, page_of
from scrapy import Request

from scrapy_urlnorm.crawl import frontier
from scrapy_urlnorm.crawl.online import closing as module
from scrapy_urlnorm.crawl.online import safe_points, tables
from scrapy_urlnorm.learning import aliases
from scrapy_urlnorm.report.filtered import COALESCED, SUPPRESSED
from scrapy_urlnorm.site_rules import SiteRule, save_site_rules
from scrapy_urlnorm.stores import RULES_NAME
from scrapy_urlnorm.stores.sqlite import Database

HTTP, HTTPS = f"http://{SITE}/a", f"https://{SITE}/a"
OTHER_HTTPS = f"https://{SITE}/c"
LEARNED = {"source": "redirect", "support": 9}
IS_HTTPS = SiteRule(site=f"*.{SITE}", kind="force-scheme", option="https", **LEARNED)
NO_WWW = SiteRule(site=SITE, kind="host-alias", host=(f"www.{SITE}",), by=SITE, **LEARNED)
UNREADABLE: set[str] = set()  #: URLs of requests that this run cannot read


class Brittle:
    """Part of a request that some runs cannot read."""

    def __init__(self, url):
        self.url = url

    def __setstate__(self, state):
        if state["url"] in UNREADABLE:
            raise ValueError("this run cannot read it")
        self.__dict__ = state


@pytest.fixture(autouse=True)
def _whole_steps(monkeypatch):
    monkeypatch.setattr(safe_points, "STEPS", 10**6)
    monkeypatch.setattr(module, "LEAST_DRAWS", 0)  # else so few are all sent
    yield
    UNREADABLE.clear()


def begun(**settings):
    parts = Parts(has_miner=False, URLNORM_LEARN="content", **settings)
    parts.download = page_of
    return closing(parts)


@pytest.fixture
def crawl():
    """A crawl in memory, in which http is https."""
    with begun(database=Refusing()) as crawl:
        crawl.found(IS_HTTPS)
        yield crawl


@pytest.fixture
def run(tmp_path):
    """Begins the next run of a crawl on disk; it has the rules that a person wrote between the two."""

    def run(*rules):
        path = tmp_path / "urlnorm.sqlite"
        save_site_rules(tmp_path / RULES_NAME, rules)
        places = {"store": f"sqlite:{path}", "database": Database(path), "JOBDIR": str(tmp_path)}
        return begun(has_audits=False, **places)

    return run


def find(crawl, *urls):
    """Find links; return whether the last one is in the queue now."""
    return [crawl.schedule(Request(url, meta={"_brittle": Brittle(url)})) for url in urls][-1]


def fetch(crawl, url, body=None):
    """Find a link and have its page arrive, if it is sent; return whether it is."""
    request = crawl.leave() if find(crawl, url) else None
    if request is not None:
        crawl.arrive(request, body)
    return request is not None


def suppress(crawl, number):
    """Have so many requests suppressed, after the audits that their rule needs."""
    done = count = 0
    while done < number:
        fetch(crawl, f"https://{SITE}/p{count}")
        done += not fetch(crawl, f"http://{SITE}/p{count}")
        count += 1


def run_to_the_end(crawl):
    """Send all that waits until nothing is left to send; return what was sent."""
    sent = []
    while crawl.queue or crawl.learner.idle() or crawl.queue:
        request = crawl.leave() if crawl.queue else None
        if request is not None:
            sent.append(request.url)
            crawl.arrive(request)
    return sent


def test_what_cannot_be_deleted_is_sent_once(crawl):
    """A row that stays because the disk is full is passed over: it was sent."""
    suppress(crawl, 3)
    held = {url: crawl.dupefilter.key_of(Request(url)) for url in crawl.held()}
    assert all(crawl.learner.holds(key, url) for url, key in held.items())
    crawl.database.refuses = True
    crawl.found()
    assert sorted(run_to_the_end(crawl)) == sorted(held)
    assert not any(crawl.learner.holds(key, url) for url, key in held.items())


def test_what_is_held_is_sent_though_a_full_disk_keeps_an_audit(crawl):
    for number in range(40):
        fetch(crawl, f"https://{SITE}/p{number}")
        if find(crawl, f"http://{SITE}/p{number}"):
            crawl.leave()
    held = crawl.held()
    assert held
    assert crawl.stats["audits"]
    crawl.database.refuses = True
    crawl.learner.release_all()
    assert set(crawl.queued()) == set(held)


def test_what_is_held_behind_a_page_that_the_spider_did_not_get_is_sent(crawl):
    """Its callback raised; the first of those that were held stands for the others now."""
    suppress(crawl, 3)
    held = crawl.held()
    crawl.learner.raised(Request(held[0].replace("http:", "https:")))
    assert crawl.queued() == held[:1]
    assert crawl.held() == held[1:]


@pytest.mark.parametrize("less", [{"body": b""}, {"status": 206}, {"flags": ["dataloss"]}], ids=str)
def test_nothing_is_suppressed_behind_what_is_no_whole_page(crawl, less):
    suppress(crawl, 3)
    urls = [f"{HTTP}{number}" for number in range(9)]
    for url in urls:
        find(crawl, url.replace("http", "https"))
        request = crawl.leave()
        crawl.learner.page(request, page_of(request).replace(**less))
        crawl.under_way.discard(request)
    find(crawl, *urls)
    assert set(urls) <= set(run_to_the_end(crawl))


def test_what_is_coalesced_behind_a_failure_is_sent_at_once(crawl):
    """The first of them, as soon as the scheduler is asked; the others go on waiting for it."""
    find(crawl, HTTPS, HTTP, HTTPS.replace("//", "//www."), OTHER_HTTPS)
    crawl.found(IS_HTTPS, NO_WWW)
    first = crawl.leave()
    assert crawl.leave() is None
    assert crawl.leave() is None
    crawl.under_way.discard(first)
    assert [crawl.leave().url for _ in range(2)] == [OTHER_HTTPS, HTTP]
    assert crawl.states() == {COALESCED: 1}


@pytest.fixture
def first(crawl):
    """A request that is under way, and another one is coalesced behind it."""
    find(crawl, HTTPS, HTTP)
    first = crawl.leave()
    assert crawl.leave() is None
    return first


def test_what_is_coalesced_behind_a_retry_is_sent_and_so_is_the_retry(crawl, first):
    crawl.schedule(first.replace(dont_filter=True, meta={**first.meta, "retry_times": 1}))
    crawl.under_way.discard(first)
    assert {crawl.leave().url, crawl.leave().url} == {HTTPS, HTTP}


#: Has held requests read from what they were packed as.
only_copies = pytest.mark.usefixtures("copies")


@pytest.fixture
def copies(monkeypatch):
    monkeypatch.setattr(frontier, "may_be_copied", lambda request: True)


@only_copies
def test_what_cannot_be_read_stays_until_it_can(crawl, first):
    """Nothing is remembered of it as having waited."""
    UNREADABLE.add(HTTP)
    crawl.under_way.discard(first)
    assert run_to_the_end(crawl) == []
    assert crawl.states() == {COALESCED: 1}
    UNREADABLE.clear()
    assert run_to_the_end(crawl) == [HTTP]


@only_copies
def test_what_cannot_be_read_is_suppressed_all_the_same(crawl, first):
    """Its row says enough; and the audit that it was to be comes when it can be read."""
    UNREADABLE.add(HTTP)
    crawl.arrive(first)
    assert (crawl.states(), crawl.stats["audits"]) == ({SUPPRESSED: 1}, 0)
    UNREADABLE.clear()
    assert run_to_the_end(crawl) == [HTTP]
    assert crawl.stats["audits"] == 1


def test_what_a_rule_of_a_later_run_suppresses_is_sent_when_a_person_takes_the_rule_out(run):
    with run() as crawl:
        fetch(crawl, OTHER_HTTPS)
    with run(IS_HTTPS) as crawl:
        suppress(crawl, 2)
        held = crawl.held()
    with run() as crawl:
        assert sorted(run_to_the_end(crawl)) == sorted(held)


@only_copies
def test_a_row_that_one_run_cannot_read_comes_back_in_another(run):
    """Its rule went when nobody could say where it belongs."""
    with run(IS_HTTPS) as crawl:
        suppress(crawl, 1)
        UNREADABLE.update(held := crawl.held())
        crawl.found()
        assert run_to_the_end(crawl) == []
        assert crawl.states() == {SUPPRESSED: 1}
    UNREADABLE.clear()
    with run() as crawl:
        assert run_to_the_end(crawl) == held


def test_pages_are_bounded(crawl, monkeypatch):
    """Those that came first are forgotten, and what they would have represented is sent."""
    monkeypatch.setattr(tables, "MAX_PAGES", 10)
    monkeypatch.setattr(tables, "_FORGOTTEN", 5)
    assert fetch(crawl, HTTPS)
    for number in range(29):
        assert fetch(crawl, f"http://h{number}.example/")
    urls = [url for (url,) in crawl.database.read("SELECT url FROM page ORDER BY id")]
    assert urls == [f"http://h{number}.example/" for number in range(19, 29)]
    find(crawl, HTTP)
    assert run_to_the_end(crawl) == [HTTP]


TOPIC, SHORT = f"http://{SITE}/t?topic=", f"http://{SITE}/t?short="


def fetch_topic(crawl, url):
    """Fetch the page of a topic: it has permalinks, right ones, and one that the first topic has too."""
    number = url.partition("=")[2].partition("&")[0]
    names = [f"topic={number}&post={number}", *(f"short={n}" for n in sorted({"1", number}))]
    ids = [f"{name[0]}{number}" for name in names]
    links = (
        f'<a id="{at}" href="/t?{name}#{at}"></a>' for name, at in zip(names, ids, strict=True)
    )
    return fetch(crawl, url, f"topic {number}{''.join(links)}")


@pytest.fixture
def forum(monkeypatch):
    """A crawl that has accepted short names by one vote, and audits nothing."""
    monkeypatch.setattr(aliases, "VOTES", 1)
    with begun(has_audits=False) as crawl:
        for url in (f"{TOPIC}2", f"{SHORT}2"):
            assert fetch_topic(crawl, url)
        yield crawl


def test_a_name_is_sent_as_soon_as_two_pages_claim_it(forum):
    """It stood behind the one that came first."""
    assert not fetch_topic(forum, f"{SHORT}1")
    assert forum.states() == {SUPPRESSED: 1}
    assert fetch_topic(forum, f"{TOPIC}1")
    assert forum.queued() == [f"{SHORT}1"]


def test_a_name_of_a_page_that_represents_nothing_is_sent(forum):
    """It was asked for again, so nobody knows whether it is the same as before."""
    forum.schedule(Request(f"{TOPIC}1", dont_filter=True))
    forum.arrive(forum.leave(), "topic 1")
    assert fetch_topic(forum, f"{TOPIC}1&post=1")
