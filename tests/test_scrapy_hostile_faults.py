"""What learning keeps is damaged: requests are sent, one line says why."""

from __future__ import annotations

import random
import re
import sqlite3
from contextlib import closing

import pytest
from hostile_runs import DEADLINE, Doors, Runs, pages_without_learning
from hostile_sites import ContradictedLate
from loopback import Site


def lines(log, *levels):
    """The lines of *log* of these levels: ``ERROR [logger] ...`` or ``date [logger] ERROR: ...``."""
    level = "|".join(levels)
    return re.findall(rf"^(?:(?:{level}) \[.*|[\d: -]+\[\S+\] (?:{level}): .*)", log, re.MULTILINE)


def tracebacks(log):
    """The tracebacks in *log* that come from the add-on.

    Scrapy logs one of its own when a crawl ends before its spider was opened.
    """
    found = re.findall(r"Traceback \(most recent call last\):\n(?:.*\n)*?\S+.*", log)
    return [text for text in found if "scrapy_urlnorm" in text]


@pytest.fixture
def killed(tmp_path):
    """A crawl that was killed while requests were suppressed: its runs, site and those twins."""
    hostile = ContradictedLate()
    late_page = hostile.others[3][1]
    doors = Doors(hostile, late_page)
    with Runs(hostile, tmp_path) as runs, Site(doors) as site:
        assert doors.kill_at(late_page, runs.start(site))
        twins = {twin for twin, _ in hostile.victims} - set(site.requests)
        assert len(twins) >= len(hostile.victims) // 2
        for path in databases(runs.job):
            with closing(sqlite3.connect(path)) as database:
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                database.execute("PRAGMA journal_mode = DELETE")
        yield runs, site, twins


def databases(folder):
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and path.read_bytes().startswith(b"SQLite format 3\0")
    ]


def test_suppressed_requests_that_are_damaged_are_reported(killed, tmp_path):
    """A bit of each of them is flipped: the crawl says so, and does all that it can read."""
    runs, site, _ = killed
    flipped = 0
    for path in runs.job.rglob("*"):
        if path.is_file() and path.suffix != ".toml":
            data = path.read_bytes()
            flipped += data.count(b"http://shop.test/new/")
            path.write_bytes(data.replace(b"http://shop.test/new/", b"http://shop.tes\xf4/new/"))
    assert flipped
    runs.log.write_text("")
    runs.finish(site)
    assert pages_without_learning(ContradictedLate(), tmp_path) - runs.pages == set()
    log = runs.log.read_text()
    assert tracebacks(log) == []
    assert 1 <= len(lines(log, "WARNING", "ERROR")) <= 2
    assert not [url for url in site.requests if "tes\xf4" in url]


@pytest.mark.parametrize("damage", ["bits", "half"])
def test_a_damaged_file_ends_clearly_or_loses_nothing(killed, tmp_path, damage):
    """The queue's file was overwritten, or copied in part: the run says so, or has every page."""
    runs, site, _ = killed
    chance = random.Random(damage)
    for path in databases(runs.job):
        data = bytearray(path.read_bytes())
        if damage == "half":
            del data[len(data) // 2 :]
        for _ in range(8 if damage == "bits" else 0):
            data[chance.randrange(100, len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
    runs.log.write_text("")
    runs.start(site).wait(DEADLINE)
    log = runs.log.read_text()
    assert tracebacks(log) == []
    lost = pages_without_learning(ContradictedLate(), tmp_path) - runs.pages
    said = lines(log, "WARNING", "ERROR", "CRITICAL")
    if lost:
        assert said, f"lost without a word: {sorted(lost)[:3]}"
        assert str(runs.job) in "".join(said) or "request" in "".join(said)
