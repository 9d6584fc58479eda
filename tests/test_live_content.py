"""What equal contents teach a running crawl: rows, when to mine, rules that come and go."""

from __future__ import annotations

import os
import signal

import pytest
from live_parts import Parts
from scrapy import Request
from twisted.internet import defer

from scrapy_urlnorm.crawl.database import Database
from scrapy_urlnorm.crawl.live import mining, rows
from scrapy_urlnorm.crawl.live.content import WITNESSES_A_DISAGREEMENT, ContentLearner
from scrapy_urlnorm.crawl.live.learners import Learners
from scrapy_urlnorm.crawl.live.likely import Likely
from scrapy_urlnorm.crawl.live.mining import Mining
from scrapy_urlnorm.crawl.live.rows import Row, Rows
from scrapy_urlnorm.crawl.live.site_mining import SiteMining
from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.learning.worker import Job, Mined, mined
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.site_rules import SiteRule

SITE = "shop.test"
SID = SiteRule(site=SITE, kind="drop-param", param="sid", source="content", support=12)
WWW = SiteRule(
    site=SITE, kind="host-alias", host="www.shop.test", by=SITE, source="redirect", support=9
)


@pytest.fixture
def database():
    database = Database.temporary()
    yield database
    database.close()


def page(number: int, content: object, query: str = "") -> Row:
    return Row(f"http://{SITE}/p/{number}{query}", 200, str(content), None)


def fill(table: Rows, pages: int, twins: int, site: str = SITE) -> None:
    for number in range(pages):
        table.add(site, page(number, number))
    for number in range(twins):
        table.add(site, page(number, number, "?sid=1"))


def is_due(table: Rows, site: str = SITE) -> bool:
    return table.is_due(site, has_time=True)


def test_a_page_whose_content_is_known_is_an_event(database):
    """Three events make a site worth mining, then three again and 5 % more rows."""
    table = Rows(database)
    fill(table, 80, 2)
    assert not is_due(table)
    table.add(SITE, page(2, 2, "?sid=1"))
    assert is_due(table)
    assert len(table.take(SITE)) == 83
    for number in range(3, 7):
        assert not is_due(table)
        table.add(SITE, page(number, number, "?sid=1"))
    assert not is_due(table)
    table.add(SITE, page(7, 7, "?sid=1"))
    assert is_due(table)
    assert not table.is_due(SITE, has_time=False)


def test_a_site_where_nothing_new_is_found_is_mined_more_rarely(database):
    """After a fifth of new rows at most. What is found makes it 5 % again."""
    table = Rows(database)
    fill(table, 100, 0)
    shares = []
    for number, something in enumerate([False, False, False, False, True, True]):
        before = len(table.take(SITE))
        table.found(SITE, something=something)
        added = 0
        while not is_due(table):
            table.add(SITE, page(added, added, f"?sid={number}"))
            added += 1
        shares.append(added / before)
    assert shares == pytest.approx([0.1, 0.2, 0.2, 0.2, 0.05, 0.05], abs=0.01)


def test_a_refuted_rule_has_its_site_mined_at_once(database):
    """Also where nothing new has come, and the miner has used up its time."""
    table = Rows(database)
    fill(table, 20, 10)
    table.take(SITE)
    table.mine_again(SITE)
    assert table.is_due(SITE, has_time=False)
    table.take(SITE)
    assert not is_due(table)


def test_a_last_look_is_for_a_tenth_of_new_events(database):
    """It costs as much as all before it: three events more say nothing new after forty."""
    table = Rows(database)
    fill(table, 60, 40)
    assert table.unmined() == [SITE]
    table.take(SITE)
    for number in range(40, 43):
        table.add(SITE, page(number, number, "?sid=1"))
    assert table.unmined() == []
    table.add(SITE, page(43, 43, "?sid=1"))
    assert table.unmined() == [SITE]


@pytest.mark.parametrize(("status", "due"), [(301, True), (308, True), (302, False)])
def test_a_permanent_redirect_is_an_event(database, status, due):
    """A temporary one is a row and no event."""
    table = Rows(database)
    for number in range(3):
        url = f"http://{SITE}/{number}"
        table.add(SITE, Row(url, status, None, url + "/"))
    assert is_due(table) is due
    assert len(table.take(SITE)) == 3


def test_the_same_url_again_is_no_event(database):
    """Nor is it a second row."""
    table = Rows(database)
    for _ in range(5):
        table.add(SITE, page(1, 1))
    assert not is_due(table)
    assert len(table.take(SITE)) == 1


def test_a_very_long_url_is_no_evidence(database):
    """It would take the miner long."""
    table = Rows(database)
    table.add(SITE, page(1, 1, "?x=" + "a" * rows.LONGEST_URL))
    assert table.take(SITE) == []


def test_a_large_site_is_thinned_out_by_path(database, monkeypatch):
    """All URLs of a path stay or go together."""
    monkeypatch.setattr(rows, "MAX_ROWS", 100)
    table = Rows(database)
    for number in range(300):
        table.add(SITE, page(number, number))
        table.add(SITE, page(number, number, "?sid=1"))
    kept = table.take(SITE)
    assert 20 <= len(kept) <= 100
    paths = {row.url.partition("?")[0] for row in kept}
    assert len(kept) == 2 * len(paths)


def test_a_site_that_was_thinned_out_is_mined_again(database, monkeypatch):
    """It never has more rows than it had when it was mined last."""
    monkeypatch.setattr(rows, "MAX_ROWS", 100)
    table = Rows(database)
    fill(table, 49, 49)
    table.take(SITE)
    for number in range(49, 100):
        table.add(SITE, page(number, number))
        table.add(SITE, page(number, number, "?sid=1"))
    assert is_due(table)


def test_sites_are_bounded(database, monkeypatch):
    """The site that was met first is forgotten."""
    monkeypatch.setattr(rows, "MAX_SITES", 3)
    table = Rows(database)
    for number in range(5):
        fill(table, 3, 3, f"{number}.test")
    assert not is_due(table, "0.test")
    assert table.take("1.test") == []
    assert len(table.take("4.test")) == 6


def test_a_new_run_goes_on_with_the_rows_of_the_last(database):
    """They are in the database of JOBDIR."""
    fill(Rows(database), 10, 2)
    table = Rows(database)
    for number in range(5, 8):
        table.add(SITE, page(number, number, "?sid=1"))
    assert is_due(table)
    assert len(table.take(SITE)) == 15


# --- rules ----------------------------------------------------------------------------------------


def learner(database, *known):
    return ContentLearner(Rows(database), known)


def test_rules_come_stay_and_go(database):
    """What a later mining does not name any more is taken back."""
    content = learner(database)
    assert content.mined(Mined(SITE, (SID,), 0.1)).came == [SID]
    assert content.active(SITE) == (SID,)
    more = SID.replace(support=40)
    assert content.mined(Mined(SITE, (more,), 0.1)) == ([], [], [])
    assert content.active(SITE)[0].support == 40
    (gone,) = content.mined(Mined(SITE, (), 0.1)).gone
    assert (gone.identity, gone.status) == (SID.identity, "rejected")
    assert content.active(SITE) == ()


def test_a_rule_that_a_wider_one_replaces_was_not_wrong():
    """It is counted and told apart from those that pages contradicted."""
    narrow = SiteRule(
        site=SITE, kind="drop-param", param="sid", path="/t/**", source="content", support=12
    )
    parts = Parts(URLNORM_LEARN="content")
    for rule in (narrow, SID):
        change = parts.rules._learners.content.mined(Mined(SITE, (rule,), 0.1))
        parts.rules._mined(Mined(SITE, (rule,), 0.1), change)
    assert [rule.identity for rule in change.replaced] == [narrow.identity]
    assert change.gone == []
    assert parts.rules._register.rules(SITE) == (SID,)
    assert parts.stats["rules"] == 2
    assert parts.stats["replaced"] == 1
    assert parts.stats["retracted"] == 0
    parts.close()


def test_a_miner_that_fails_leaves_no_rule_standing(database):
    """Nobody has tested them on what arrived since."""
    content = learner(database, SID)
    (gone,) = content.mined(Mined(SITE, (), 0.1, "IndexError()")).gone
    assert gone.note == "IndexError()"
    assert content.sites() == []


def test_a_refuted_rule_needs_fifty_witnesses_a_disagreement(database):
    """It is asked of the miner, and of what it answers."""
    content = learner(database, SID)
    rejected = content.reject(SID, "other content")
    assert (rejected.status, rejected.conflicts) == ("rejected", 1)
    assert content.reject(SID, "other content") is None
    needed = WITNESSES_A_DISAGREEMENT
    assert content.job(SITE).banned == {SID.identity: needed}
    assert content.mined(Mined(SITE, (SID.replace(support=needed - 1),), 0.1)) == ([], [], [])
    again = SID.replace(support=needed)
    assert content.mined(Mined(SITE, (again,), 0.1)).came == [again]
    content.reject(again, "other content")
    assert content.job(SITE).banned == {SID.identity: 2 * needed}


def test_rules_of_other_crawlers(database):
    """A rule that one of us refuted stays refuted."""
    content = learner(database)
    assert content.adopt([SID]) == ([SID], [])
    refuted = SID.replace(status="rejected")
    assert content.adopt([refuted]) == ([], [refuted])
    assert content.adopt([SID]) == ([], [])
    assert content.active(SITE) == ()


def test_rules_of_an_earlier_crawl(database):
    """Each goes to whom it belongs to; a proposed one is only kept."""
    proposed = SID.replace(status="proposed")
    learners = Learners(Normalizer("default"), [WWW, SID], Rows(database))
    assert set(learners.active(SITE)) == {SID, WWW}
    assert set(learners.rules) == {SID, WWW}
    learners = Learners(Normalizer("default"), [WWW, proposed], Rows(database))
    assert learners.active(SITE) == (WWW,)
    assert set(learners.rules) == {proposed, WWW}
    learners = Learners(Normalizer("default"), [WWW, SID], None)
    assert learners.active(SITE) == (WWW,)
    assert set(learners.rules) == {SID, WWW}


def test_a_rule_that_stood_aside_goes_with_the_one_it_stood_aside_for(database):
    """What redirects said would do again what an audit has refuted."""
    alias = SiteRule(
        site="*.shop.test", kind="host-alias", host=SITE, by="www.shop.test", source="content"
    )
    learners = Learners(Normalizer("default"), [WWW, alias, SID], Rows(database))
    assert set(learners.active(SITE)) == {alias, SID}
    assert learners.reject(alias, "other content").status == "rejected"
    assert learners.active(SITE) == (SID,)
    learners.reject(SID, "other content")
    assert learners.active(SITE) == ()


def test_a_rule_that_no_site_may_have_takes_no_other_along():
    """Another client of the store may have written it; which one came first decides nothing."""
    foreign = SiteRule(
        site=SITE, kind="host-alias", host="other.example", by=SITE, source="content", support=99
    )
    for news in ([foreign, SID], [SID, foreign]):
        parts = Parts(URLNORM_LEARN="content")
        in_force = parts.rules._rules
        in_force._exchange.news = lambda news=news, **_: news
        in_force.take_news()
        assert parts.rules._register.rules(SITE) == (SID,)
        assert parts.stats["shared"] == 1
        parts.close()


# --- the worker process ---------------------------------------------------------------------------


def a_job(site: str = SITE) -> Job:
    found = [
        (f"http://{site}/t/{number}{query}", 200, str(number), None)
        for number in range(30)
        for query in ("", "?sid=1a", "?sid=2b", "?sid=3c")
    ]
    return Job(site, found, (), {})


class Broken:
    """Rows that no miner can read."""

    def __iter__(self):
        raise LookupError("odd rows")


def test_mining_raises_nothing():
    """What went wrong is in the answer."""
    assert mined(Job(SITE, Broken(), (), {})).error == "LookupError('odd rows')"
    assert mined(Job(SITE, (), (), {})).rules == ()
    (rule,) = mined(a_job()).rules
    assert rule.param == ("sid",)


@pytest.fixture
def miners(monkeypatch):
    """Makes minings whose threads are not: they wait where they are."""
    monkeypatch.setattr(mining, "in_thread", defer.execute)
    made = []

    def make(job_of=a_job):
        answers = []
        miner = Mining(job_of, answers.append)
        made.append(miner)
        return miner, answers

    yield make
    for miner in made:
        miner.close()


def test_a_process_mines_site_after_site(miners):
    """One process answers all; it ends with the crawl."""
    miner, answers = miners()
    miner.request(SITE)
    process = miner._process
    miner.request("other.test")
    assert miner._process is process
    assert [answer.site for answer in answers] == [SITE, "other.test"]
    assert [rule.param for answer in answers for rule in answer.rules] == [("sid",), ("sid",)]
    assert miner.current is None
    miner.close()
    assert process.poll() is not None
    miner.request(SITE)
    assert len(answers) == 2


def test_mining_takes_a_tenth_of_the_time_of_the_crawl(miners, monkeypatch):
    """And one second more, so that small sites are mined at once. What waits counts, too."""
    now = [100.0]
    monkeypatch.setattr(mining, "monotonic", lambda: now[0])
    miner, _ = miners()
    monkeypatch.setattr(miner, "_ask", lambda job: Mined(job.site, (), 0.8))
    assert miner.has_time
    miner.request(SITE)
    assert not miner.has_time  # 0.8 seconds were spent, and the next site may take as long
    now[0] += 6.1
    assert miner.has_time
    never = defer.Deferred()
    monkeypatch.setattr(mining, "in_thread", lambda *_: never)
    miner.request(SITE)
    assert not miner.has_time
    now[0] += 8
    assert miner.has_time
    miner.request("other.test")
    assert not miner.has_time


def test_a_site_is_mined_when_there_is_time_again(database, monkeypatch):
    """Though no page of it arrives: the crawl may wait for this very site."""
    now, asked = [100.0], []
    monkeypatch.setattr(mining, "monotonic", lambda: now[0])
    monkeypatch.setattr(Mining, "request", lambda _, site: asked.append(site))
    site_mining = SiteMining(
        learner(database),
        Likely(),
        count=lambda *_: None,
        on_change=lambda *_: None,
        on_error=pytest.fail,
    )
    site_mining._mining._spent = 1.5
    for number in range(3):
        url = f"http://{SITE}/{number}"
        site_mining.redirect(Request(url), f"{url}/", 301)
    site_mining.work()
    assert asked == []
    now[0] += 5.1
    site_mining.work()
    site_mining.work()
    assert asked == [SITE]


def test_a_site_whose_rows_cannot_be_read_is_left_without_rules(miners):
    """A crawl that is idle waits for a site that is being mined: this one is not."""

    def job_of(site):
        if site == SITE:
            raise StoreError("damaged")
        return a_job(site)

    miner, answers = miners(job_of)
    miner.request(SITE)
    assert miner.current is None
    miner.request("other.test")
    assert [(answer.site, len(answer.rules)) for answer in answers] == [
        (SITE, 0),
        ("other.test", 1),
    ]
    assert [answer.error for answer in answers] == ["StoreError('damaged')", None]


def test_a_process_that_was_killed_is_started_again(miners):
    """Between two jobs nobody notices."""
    miner, answers = miners()
    miner.request(SITE)
    first = miner._process
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    miner.request(SITE)
    assert len(answers[1].rules) == 1


class KillsTheMiner:
    """Rows that end the process that reads them."""

    def __reduce__(self):
        return os._exit, (7,)


def test_a_process_that_dies_over_a_job_is_given_up(miners):
    """Each failure is an answer that says so; after three no site is mined any more."""
    miner, answers = miners(lambda site: Job(site, KillsTheMiner(), (), {}))
    for _ in range(5):
        miner.request(SITE)
    assert len(answers) == 3
    assert all("worker process" in answer.error for answer in answers)
    assert miner.current is None


def test_a_site_that_takes_too_long_is_given_up(miners, monkeypatch):
    """An idle crawl waits for the miner, so the miner must not take for ever."""
    waiting = []
    monkeypatch.setattr(
        mining, "in_thread", lambda ask, job: waiting.append(defer.Deferred()) or waiting[-1]
    )
    miner, answers = miners()
    miner.request(SITE)
    assert miner.current == SITE
    miner._process = process = mining._started()
    assert miner.current == SITE
    assert process.poll() is None
    monkeypatch.setattr(mining, "LONGEST_SECONDS", 0.0)
    assert miner.current == SITE  # until the thread has noticed
    assert process.poll() is not None
    mining._close_pipes(process)
    waiting[0].errback(EOFError("the other end has closed the pipe"))
    assert miner.current is None
    assert len(answers) == 1
    assert "worker process" in answers[0].error
