"""Mining: one process mines site after site, and a crawl never waits for it in vain."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import closing
from functools import partial

import pytest
from online_parts import BARE, SITE, WWW, Parts
from scrapy import Request
from twisted.internet import defer

from scrapy_urlnorm.crawl import frontier
from scrapy_urlnorm.crawl import miner as module
from scrapy_urlnorm.crawl.miner import Miner
from scrapy_urlnorm.crawl.online import mining
from scrapy_urlnorm.crawl.online.evidence import Evidence
from scrapy_urlnorm.crawl.online.safe_points import TURNS
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
    def __iter__(self):
        raise LookupError("odd rows")


class KillsTheMiner:
    """Rows that end the process that reads them."""

    def __reduce__(self):
        return os._exit, (7,)


def test_mining_raises_nothing():
    assert mined(Job(SITE, Broken(), (), {})).error == "LookupError('odd rows')"
    assert mined(Job(SITE, (), (), {})).rules == ()
    (rule,) = mined(a_job()).rules
    assert rule.param == ("sid",)


@pytest.mark.parametrize("content", ["other words", f"http://{SITE}/t/239"])
@pytest.mark.parametrize("is_found", [False, True])
def test_one_other_page_is_noise_unless_a_verdict_found_it(content, is_found):
    """A page in 240 may have changed between two fetches; two that were fetched in turns have not.

    Not even if they have one name by now.
    """
    urls = [f"http://{SITE}/t/{n}" for n in range(240)]
    rows = [(url + query, 200, url, None) for url in urls for query in ("", "?lang=de")]
    rows[-1] = (rows[-1][0], 200, content, None)
    others = {rows[-1][0]: urls[-1]} if is_found else {}
    assert len(mined(Job(SITE, rows, (), {}, others=others)).rules) == (not is_found)


def test_what_a_verdict_found_in_a_folder_says_nothing_of_others():
    urls = [f"http://{SITE}/{folder}/{n}" for folder in "ab" for n in range(60)]
    rows = [(url + query, 200, url, None) for url in urls for query in ("", "?lang=de")]
    rows[-1] = (rows[-1][0], 200, "other words", None)
    (rule,) = mined(Job(SITE, rows, (), {}, others={rows[-1][0]: urls[-1]})).rules
    assert rule.when == {"segments": {"0": "a"}}


@pytest.fixture
def thread(monkeypatch):
    """What is done in a thread waits where it is; another function may take its place."""
    monkeypatch.setattr(module, "deferred_from_coro", defer.Deferred.fromCoroutine)
    run_by = partial(monkeypatch.setattr, module, "_in_thread")
    run_by(defer.execute)
    return run_by


@pytest.fixture
def processes(monkeypatch):
    started, popen = [], subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda *a, **kw: started.append(popen(*a, **kw)) or started[-1]
    )
    return started


@pytest.fixture
def miners(thread):
    """Makes workers, each with the number of times that it said that an answer is there."""
    made = []

    def make():
        told = []
        made.append(Miner(lambda: told.append(True)))
        return made[-1], told

    yield make
    for miner in made:
        miner.close()


def test_a_process_mines_site_after_site(miners, processes):
    """One process answers all; it ends with the crawl."""
    miner, told = miners()
    answers = [*miner.mine(a_job()), *miner.mine(a_job("other.test"))]
    assert [answer.site for answer in answers] == [SITE, "other.test"]
    assert [rule.param for answer in answers for rule in answer.rules] == [("sid",), ("sid",)]
    assert (miner.is_free, len(told)) == (True, 2)
    miner.close()
    (process,) = processes
    assert process.poll() is not None
    assert not miner.is_free


def test_each_site_earns_the_budget_to_be_mined(thread, monkeypatch):
    """A page earns six rows, for its own site: what other sites have mined leaves it as it is."""
    asked = []
    monkeypatch.setattr(mining, "ADVANCE", 50)
    monkeypatch.setattr(mining, "MINED_AT_ONCE", 0)
    thread(
        lambda _, job: asked.append((job.site, len(job.rows))) or defer.succeed(Mined(job.site, ()))
    )
    with closing(Parts()) as parts:
        parts.learn()  # three redirects are mined, and what the others earn is not enough again
        parts.learner.work()
        assert asked == [(SITE, 3)]
        for number in range(20):
            request = Request(f"http://other.test/w{number}")
            parts.learner.redirect(request, f"http://www.other.test/w{number}", status=301)
            parts.learner.work()
        assert asked[1:] == [("other.test", 7), ("other.test", 19)]
        for number in range(8, 16):
            parts.fetch(f"{BARE}/w{number}")
    assert asked[3:] == [(SITE, 14)]


def test_what_was_mined_acts_when_nothing_of_the_site_is_under_way(thread, monkeypatch):
    """Nothing is given out meanwhile, but to other sites; the answer may come at any time."""
    answers = []
    monkeypatch.setattr(mining, "MINED_AT_ONCE", 0)
    thread(lambda _, job: answers.append((defer.Deferred(), mined(job))) or answers[-1][0])
    with closing(Parts(pauses=True)) as parts:
        asked = Request(f"{BARE}/w9")
        parts.under_way.add(asked)
        parts.learn()
        assert parts.learner.is_paused(SITE)
        assert not parts.learner.is_paused("other.test")
        waiting, answer = answers.pop()
        waiting.callback(answer)
        parts.learner.work()
        assert (parts.in_force(), parts.learner.is_paused(SITE)) == ((), True)
        parts.under_way.discard(asked)
        parts.learner.work()
        assert len(parts.in_force()) == 1
        for _ in range(3):  # the engine asks after each job; what came meanwhile is mined too
            while answers:
                waiting, answer = answers.pop()
                waiting.callback(answer)
            parts.learner.work()
        assert not parts.learner.is_paused(SITE)


def test_a_download_that_hangs_holds_no_site_for_long(thread, monkeypatch, caplog):
    """It waits as long as requests of it end; so many seconds after the last one it goes on.

    Not so after a minute in which the event loop was busy, and nobody has heard of what has ended.
    """
    caplog.set_level("DEBUG")
    now = [100.0]
    monkeypatch.setattr(frontier, "monotonic", lambda: now[0])
    with closing(Parts(pauses=True)) as parts:
        hanging, slow = Request(f"{BARE}/hangs"), Request(f"{BARE}/slow")
        parts.under_way |= {hanging, slow}
        parts.learn()
        now[0] += 60.0
        for _ in range(TURNS - 1):
            parts.learner.work()
        parts.under_way.discard(slow)
        parts.learner.work()
        now[0] += 4.0
        parts.learner.work()
        assert parts.learner.is_paused(SITE)
        now[0] += 1.0
        for _ in range(TURNS):
            assert parts.in_force() == ()
            parts.learner.work()
        assert len(parts.in_force()) == 1
    assert "1 downloads hang" in caplog.text


def test_a_small_site_is_mined_while_the_crawl_waits(processes):
    """Three redirects are enough, and no process is started."""
    with closing(Parts()) as parts:
        for number, expected in enumerate((0, 0, 1)):
            parts.learner.redirect(Request(f"{BARE}/{number}"), f"{WWW}/{number}", status=301)
            parts.learner.work()
            assert parts.stats["minings"] == expected
        assert len(parts.in_force()) == 1
    assert processes == []


def test_a_site_whose_rows_cannot_be_read_is_left_without_rules(thread, monkeypatch):
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
    miner, _ = miners()
    miner.mine(a_job())
    os.kill(processes[0].pid, signal.SIGKILL)
    processes[0].wait()
    (answer,) = miner.mine(a_job())
    assert len(answer.rules) == 1


def test_a_process_that_dies_over_a_job_is_given_up(miners):
    """Each failure is an answer that says so; after three no site is mined any more."""
    miner, _ = miners()
    for _ in range(3):
        assert miner.is_free
        (answer,) = miner.mine(Job(SITE, KillsTheMiner(), (), {}))
        assert "worker process" in answer.error
    assert not miner.is_free


def test_a_site_that_takes_too_long_is_given_up(miners, thread, processes, monkeypatch):
    """An idle crawl waits for the miner, so the miner must not take for ever."""
    miner, _ = miners()
    miner.mine(a_job("other.test"))
    waiting = defer.Deferred()
    thread(lambda *_: waiting)
    answer = miner.mine(a_job())
    miner.give_up_late()
    (process,) = processes
    assert (miner.is_free, process.poll()) == (False, None)
    monkeypatch.setattr(module, "LONGEST_SECONDS", 0.0)
    miner.give_up_late()
    assert not miner.is_free  # until the thread has noticed
    assert process.poll() is not None
    for pipe in (process.stdin, process.stdout):
        pipe.close()
    waiting.errback(EOFError("the other end has closed the pipe"))
    assert miner.is_free
    assert "worker process" in answer[0].error
