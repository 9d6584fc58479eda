"""Mining: one process mines site after site, and a crawl never waits for it in vain."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import closing

import pytest
from online_parts import BARE, SITE, WWW, Parts
from scrapy import Request
from twisted.internet import defer

from scrapy_urlnorm.crawl.online import mining
from scrapy_urlnorm.crawl.online.evidence import Evidence
from scrapy_urlnorm.crawl.online.mining import Worker
from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.learning.mined import mined
from scrapy_urlnorm.learning.worker import Job, Mined


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


class KillsTheMiner:
    """Rows that end the process that reads them."""

    def __reduce__(self):
        return os._exit, (7,)


def test_mining_raises_nothing():
    """What went wrong is in the answer."""
    assert mined(Job(SITE, Broken(), (), {})).error == "LookupError('odd rows')"
    assert mined(Job(SITE, (), (), {})).rules == ()
    (rule,) = mined(a_job()).rules
    assert rule.param == ("sid",)


@pytest.fixture
def thread(monkeypatch):
    """What is done in a thread waits where it is; another function may take its place."""
    monkeypatch.setattr(mining, "is_asyncio_available", lambda: False)
    monkeypatch.setattr(mining, "deferred_from_coro", defer.Deferred.fromCoroutine)

    def run_by(function):
        monkeypatch.setattr(mining, "deferToThread", function)

    run_by(defer.execute)
    return run_by


@pytest.fixture
def processes(monkeypatch):
    """The processes that were started."""
    started, popen = [], subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda *a, **kw: started.append(popen(*a, **kw)) or started[-1]
    )
    return started


@pytest.fixture
def miners(thread):
    """Makes workers, each with the list of its answers."""
    made = []

    def make():
        answers = []
        made.append(Worker(answers.append))
        return made[-1], answers

    yield make
    for miner in made:
        miner.close()


def test_a_process_mines_site_after_site(miners, processes):
    """One process answers all; it ends with the crawl."""
    miner, answers = miners()
    miner.mine(a_job())
    miner.mine(a_job("other.test"))
    assert [answer.site for answer in answers] == [SITE, "other.test"]
    assert [rule.param for answer in answers for rule in answer.rules] == [("sid",), ("sid",)]
    assert miner.current is None
    miner.close()
    (process,) = processes
    assert process.poll() is not None
    miner.mine(a_job())
    assert len(answers) == 2


def test_mining_takes_a_tenth_of_the_time_of_the_crawl(miners, thread, monkeypatch):
    """And one second more, so that small sites are mined at once."""
    now = [100.0]
    monkeypatch.setattr(mining, "monotonic", lambda: now[0])
    thread(lambda _, job: defer.succeed(Mined(job.site, (), 0.8)))
    miner, _ = miners()
    assert miner.has_time
    miner.mine(a_job())
    assert not miner.has_time  # 0.8 seconds were spent, and the next site may take as long
    now[0] += 6.1
    assert miner.has_time


def test_a_site_is_mined_when_there_is_time_again(thread, monkeypatch):
    """Though no page of it arrives: the crawl may wait for this very site."""
    now, asked = [100.0], []
    monkeypatch.setattr(mining, "monotonic", lambda: now[0])
    monkeypatch.setattr("scrapy_urlnorm.learning.mined.mined", lambda job: Mined(job.site, (), 1.5))
    thread(lambda _, job: asked.append(job.site) or defer.Deferred())
    with closing(Parts()) as parts:
        parts.learn()  # three redirects are mined at once, and the others have no time
        assert (parts.stats["minings"], asked) == (1, [])
        now[0] += 20.1
        parts.learner.work()
        parts.learner.work()
    assert asked == [SITE]


def test_a_small_site_is_mined_while_the_crawl_waits(processes):
    """Three redirects are enough, and no process is started."""
    with closing(Parts()) as parts:
        for number, expected in enumerate((0, 0, 1)):
            parts.learner.redirect(Request(f"{BARE}/{number}"), f"{WWW}/{number}", status=301)
            assert parts.stats["minings"] == expected
        assert len(parts.in_force()) == 1
    assert processes == []


def test_a_site_whose_rows_cannot_be_read_is_left_without_rules(monkeypatch):
    """A crawl that is idle waits for a site that is being mined: this one is not."""

    def damaged(*_):
        raise StoreError("damaged")

    with closing(Parts()) as parts:
        with monkeypatch.context() as patch:
            patch.setattr(Evidence, "take", damaged)
            parts.learn()
        assert parts.in_force() == ()
        assert parts.stats["errors"] >= 1
        parts.learn(first=8)
        assert len(parts.in_force()) == 1


def test_a_process_that_was_killed_is_started_again(miners, processes):
    """Between two jobs nobody notices."""
    miner, answers = miners()
    miner.mine(a_job())
    os.kill(processes[0].pid, signal.SIGKILL)
    processes[0].wait()
    miner.mine(a_job())
    assert len(answers[1].rules) == 1


def test_a_process_that_dies_over_a_job_is_given_up(miners):
    """Each failure is an answer that says so; after three no site is mined any more."""
    miner, answers = miners()
    for _ in range(5):
        miner.mine(Job(SITE, KillsTheMiner(), (), {}))
    assert len(answers) == 3
    assert all("worker process" in answer.error for answer in answers)
    assert miner.current is None


def test_a_site_that_takes_too_long_is_given_up(miners, thread, processes, monkeypatch):
    """An idle crawl waits for the miner, so the miner must not take for ever."""
    miner, answers = miners()
    miner.mine(a_job("other.test"))
    waiting = defer.Deferred()
    thread(lambda *_: waiting)
    miner.mine(a_job())
    (process,) = processes
    assert (miner.current, process.poll()) == (SITE, None)
    monkeypatch.setattr(mining, "LONGEST_SECONDS", 0.0)
    assert miner.current == SITE  # until the thread has noticed
    assert process.poll() is not None
    for pipe in (process.stdin, process.stdout):
        pipe.close()
    waiting.errback(EOFError("the other end has closed the pipe"))
    assert miner.current is None
    assert len(answers) == 2
    assert "worker process" in answers[1].error
