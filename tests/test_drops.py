"""The record of drops: what is written down, how it is bounded, and what happens when it fails."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from hashlib import sha1
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopback import Site, crawl, page

from scrapy_urlnorm.exceptions import StoreError
from scrapy_urlnorm.report import drops
from scrapy_urlnorm.report.drops import DropRecord, Drops, Point, rule_in_words
from scrapy_urlnorm.site_rules import SiteRule, load_site_rules, save_site_rules

FIRST = "http://shop.test/a"
URL = "http://shop.test/a?utm_source=x"


def record(path, progress=lambda: Point(0, 0)):
    """Return a record of a crawl that is as far as *progress* says."""
    return DropRecord(path, progress)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "urlnorm.drops"


def test_one_row_for_each_key(path, monkeypatch):
    """With the first drop, the number of them, and the times of the first and the last."""
    clock = iter(range(100, 200, 10))
    monkeypatch.setattr(drops.time, "time", lambda: float(next(clock)))
    written = record(path)
    for number in range(3):
        written.dropped(b"key", f"{URL}{number}", FIRST, ["drop-params"], saves=False)
        written.flush()  # some in memory, some in the file
    written.dropped(b"key", URL, FIRST, ["drop-params"], saves=False)
    written.dropped(b"key", URL, FIRST, ["drop-params"], saves=False)
    written.close()
    with Drops(path) as read:
        assert read.of(b"key") == (f"{URL}0", FIRST, ("drop-params",), 5, 100.0, 140.0)
        assert read.of(b"other") is None
        assert len(list(read.all())) == 1


def test_the_file_is_for_its_owner_alone(path):
    """URLs may carry secrets."""
    record(path).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_was_saved_is_counted_by_host_and_rules(path):
    """Each drop that stock Scrapy would have sent, whatever the rows are a sample of."""
    written = record(path)
    for number in range(10):
        host = "shop.test" if number % 2 else "www.shop.test"
        written.dropped(b"%d" % number, f"http://{host}/", None, ["a", "b"], saves=number < 8)
        if number == 5:
            written.flush()
    written.close()
    with Drops(path) as read:
        assert sorted(read.saved()) == [
            ("shop.test", ("a", "b"), 4),
            ("www.shop.test", ("a", "b"), 4),
        ]


def test_many_hosts_are_counted_as_one(path, monkeypatch):
    """The number of counts is bounded, their sum is right."""
    monkeypatch.setattr(drops, "MAX_COUNTS", 10)
    written = record(path)
    for number in range(100):
        written.dropped(b"key", f"http://h{number}.test/", None, [], saves=True)
        if number % 7 == 0:
            written.flush()
    written.close()
    with Drops(path) as read:
        counts = {host: count for host, _, count in read.saved()}
    assert len(counts) <= 11
    assert sum(counts.values()) == 100
    assert counts[drops.OTHER_HOSTS] == 90


@settings(deadline=None, max_examples=20)
@given(number=st.integers(1, 300), seed=st.integers(0, 1_000))
def test_of_many_keys_a_sample_is_kept(tmp_path_factory, number, seed):
    """The same keys in whatever order, and never more than the most."""
    keys = {sha1(b"%d %d" % (seed, each)).digest() for each in range(number)}
    kept = []
    for order in (sorted(keys), sorted(keys, reverse=True)):
        path = tmp_path_factory.mktemp("job") / "urlnorm.drops"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(drops, "MAX_ROWS", 20)
            written = record(path)
            for at, key in enumerate(order):
                written.dropped(key, URL, FIRST, [], saves=False)
                if at % 10 == 0:
                    written.flush()
            written.close()
        with Drops(path) as read:
            kept.append({key for key in keys if read.of(key)})
            assert kept[-1] == {key for key in keys if crc32(key) % read.parts == 0}
    assert kept[0] == kept[1]
    assert len(kept[0]) <= 20


def test_the_course_of_a_crawl(path, monkeypatch):
    """Points at every saved request, then at every second, fourth; a later run goes on from there."""
    monkeypatch.setattr(drops, "MAX_POINTS", 16)
    for run in range(2):
        saved = 0
        written = record(path, lambda: Point(2 * saved, saved))  # noqa: B023 - as far as it is now
        for number in range(99):
            saved += 1
            written.dropped(b"key", URL, FIRST, [], saves=True)
            if number % 5 == 0:
                written.flush()
        written.close()
        with Drops(path) as read:
            points = read.progress()
        assert len(points) <= 16
        assert points == sorted(points)
        assert all(requests == 2 * saved for requests, saved in points)
        assert points[-1].saved == 99 * (run + 1)


def test_learned_rules_have_the_same_name_in_every_run(tmp_path):
    """In the next run they come from a file, and say so."""
    rule = SiteRule(site="shop.test", kind="drop-param", param="sid")
    save_site_rules(tmp_path / "rules.toml", [rule])
    (read,) = load_site_rules(tmp_path / "rules.toml")
    assert "rules.toml" in str(read)
    assert rule_in_words(read) == rule_in_words(rule) == str(rule)


def test_tests_of_all_runs_are_added(path):
    """Of rules that are there at the end of the last."""
    for run in range(2):
        written = record(path)
        written.tested([("rule", 3), ("untested", 0), (f"of run {run}", 1)])
        written.close()
    with Drops(path) as read:
        assert read.tested() == {"rule": 6, "untested": 0, "of run 1": 1}


# --- failures -------------------------------------------------------------------------------

BAD_FILES = {
    "no database": b"this is no database at all, and it is long enough to be one" * 99,
    "another database": None,
}


@pytest.mark.parametrize("what", BAD_FILES)
def test_a_file_that_is_not_ours_ends_the_record(path, what, caplog):
    """And nothing else; the file stays as it is."""
    if BAD_FILES[what] is None:
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA user_version = 7")
    else:
        path.write_bytes(BAD_FILES[what])
    before = path.read_bytes()
    written = record(path)
    written.dropped(b"key", URL, FIRST, [], saves=True)
    written.tested([("rule", 1)])
    written.flush()
    written.close()
    assert "the crawl goes on" in caplog.text
    assert len(caplog.records) == 1
    assert path.read_bytes() == before


def test_a_record_that_cannot_be_written_ends(path, caplog):
    """Here because another process writes to it; a full disk does the same."""
    written = record(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        written.dropped(b"key", URL, FIRST, [], saves=True)
        written.flush()
        assert "database is locked" in caplog.text
        written.dropped(b"key", URL, FIRST, [], saves=True)
    written.close()
    assert len(caplog.records) == 1


FULL = """
import resource, signal, sys
from pathlib import Path
from scrapy_urlnorm.report.drops import DropRecord, Point

record = DropRecord(Path(sys.argv[1]), lambda: Point(1, 1))
record.dropped(b"before", "http://shop.test/?a", None, [], saves=True)
record.flush()
# To a process, the largest file it may write looks as a full disk does.
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))
for number in range(5_000):
    record.dropped(b"%d" % number, f"http://shop.test/{number}?a", None, [], saves=True)
record.close()
"""


def test_a_full_disk_ends_the_record(path):
    """What was written before can be read."""
    pytest.importorskip("resource", reason="no limits on the size of a file here")
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=True,
        text=True,
    )
    assert done.stderr.count("Dropped requests are not written down") == 1
    with Drops(path) as read:
        assert read.of(b"before") is not None


def test_a_row_that_cannot_be_read_names_the_file(path):
    written = record(path)
    written.dropped(b"key", URL, FIRST, [], saves=True)
    written.close()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE dropped SET rules = '['")
    with Drops(path) as read, pytest.raises(StoreError, match=r"urlnorm\.drops: a row of dropped"):
        read.of(b"key")


# --- crawls ---------------------------------------------------------------------------------

HOME = "http://shop.test/"
SETTINGS = {"ADDONS": {"scrapy_urlnorm.Addon": 900}, "CONCURRENT_REQUESTS": 1}


def tracked(url):
    """A page with links to five others, each of which comes with two tracking parameters."""
    if url != HOME:
        return page(url)
    twins = [f"/{n}{query}" for n in range(5) for query in ("", "?utm_source=x", "?gclid=1", "#f")]
    return page("home", *twins, "/0", "/0")


def test_a_crawl_with_jobdir_writes_down_what_it_drops(tmp_path):
    """Not that the very same URL was met again."""
    with Site(tracked) as site:
        result = crawl(site, [HOME], {**SETTINGS, "JOBDIR": str(tmp_path)})
    assert result.stats["urlnorm/merged"] == 10
    with Drops(tmp_path / "urlnorm.drops") as read:
        rows = list(read.all())
        saved = {rules: count for _, rules, count in read.saved()}
        course = read.progress()
    assert {row.first for row in rows} == {f"{HOME}{n}" for n in range(5)}
    assert {row.url for row in rows} == {f"{HOME}{n}?utm_source=x" for n in range(5)}
    assert {row.times for row in rows} == {3}
    assert saved == {("drop-params",): 10}
    assert course[-1] == (6, 10)


def test_a_crawl_without_jobdir_writes_nothing_down(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with Site(tracked) as site:
        result = crawl(site, [HOME], SETTINGS)
    assert result.stats["urlnorm/merged"] == 10
    assert list(tmp_path.iterdir()) == []


def test_a_record_that_fails_leaves_the_crawl_alone(tmp_path):
    """A folder has its name."""
    (tmp_path / "urlnorm.drops").mkdir()
    with Site(tracked) as site:
        result = crawl(site, [HOME], {**SETTINGS, "JOBDIR": str(tmp_path)})
    assert len(result.items) == 6
    assert result.reason == "finished"
    assert "Dropped requests are not written down" in result.log


def test_a_kill_leaves_what_was_written(path):
    """And the next run goes on with it."""
    program = textwrap.dedent("""
        import sys
        from pathlib import Path
        from scrapy_urlnorm.report.drops import DropRecord, Point

        record = DropRecord(Path(sys.argv[1]), lambda: Point(1, 1))
        record.dropped(b"written", "http://shop.test/?a", None, [], saves=True)
        record.flush()
        record.dropped(b"in memory", "http://shop.test/?b", None, [], saves=True)
        print("ready", flush=True)
        sys.stdin.read()
    """)
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
    with Drops(path) as read:
        assert read.of(b"written") is not None
        assert read.of(b"in memory") is None
    written = record(path)
    written.dropped(b"written", URL, None, [], saves=True)
    written.close()
    with Drops(path) as read:
        assert read.of(b"written").times == 2


def test_it_has_no_pickles(path):
    """Whoever reads it runs nothing of what a site wrote."""
    written = record(path)
    written.dropped(b"key", URL, FIRST, ["a", '"], "x"'], saves=True)
    written.close()
    with closing(sqlite3.connect(path)) as database:
        (rules,) = database.execute("SELECT rules FROM dropped").fetchone()
    assert json.loads(rules) == ["a", '"], "x"']
