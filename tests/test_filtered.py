"""What a crawl saved, as rows in its database: what is written, how it is bounded, what fails."""

from __future__ import annotations

from hashlib import sha1

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from job_tables import job_tables

from scrapy_urlnorm.report import filtered
from scrapy_urlnorm.report.filtered import FilteredRecord, Job, open_job, rule_in_words
from scrapy_urlnorm.site_rules import SiteRule, load_site_rules, save_site_rules
from scrapy_urlnorm.stores.sqlite import Database

FIRST = "http://shop.test/a"
URL = "http://shop.test/a?utm_source=x"


@pytest.fixture
def database(tmp_path):
    with Database(tmp_path / "urlnorm.sqlite") as database:
        yield database


def job_of(database):
    return Job(database.connection, database.name)


def test_one_row_for_each_key(database, monkeypatch):
    """With the first one, the number of them, and the times of the first and the last."""
    now = 100.0
    monkeypatch.setattr(filtered.time, "time", lambda: now)
    record = FilteredRecord(database)
    for number in range(3):
        record.add(b"key", f"{URL}{number}", FIRST, ["drop-params"], saves=False)
        database.commit()  # some in memory, some in the file
        now += 10
    record.add(b"key", URL, FIRST, ["drop-params"], saves=False)
    now += 10
    record.add(b"key", URL, FIRST, ['a "rule"'], saves=False)
    record.close()
    job = job_of(database)
    assert job.filtered(b"key") == (f"{URL}0", FIRST, ("drop-params",), 5, 100.0, 140.0)
    assert job.filtered(b"other") is None
    assert job.examples() == {"drop-params": (FIRST, f"{URL}0")}


def test_what_was_saved_is_counted_by_host_and_rules(tmp_path):
    with job_tables(tmp_path) as job:
        for number in range(10):
            host = "shop.test" if number % 2 else "www.shop.test"
            job.filtered(f"http://{host}/{number}", "", "a", "b", saves=number < 8)
            if number == 5:
                job.database.commit()
        for number in range(4):
            job.held(f"http://shop.test/?{number}", FIRST, "a", "b", saves=number > 0)
        job.held("http://shop.test/coalesced", FIRST, "a", state=1)
    with open_job(tmp_path) as job:
        assert job.saved() == {("shop.test", ("a", "b")): 7, ("www.shop.test", ("a", "b")): 4}
        assert job.count_held() == 4
    assert (tmp_path / "urlnorm.sqlite").stat().st_mode & 0o777 == 0o600  # URLs carry secrets


def test_many_hosts_are_counted_as_one(database, monkeypatch):
    monkeypatch.setattr(filtered, "MAX_COUNTS", 10)
    record = FilteredRecord(database)
    for number in range(100):
        record.add(b"key", f"http://h{number}.test/", None, [], saves=True)
        if number % 7 == 0:
            record.write()
    record.close()
    counts = job_of(database).saved()
    assert len(counts) <= 11
    assert counts.total() == 100
    assert counts["", ()] == 90


@settings(max_examples=20)
@given(number=st.integers(1, 300), seed=st.integers(0, 1_000))
def test_of_many_keys_a_sample_is_kept(number, seed):
    """The same keys in whatever order, and never more than the most."""
    keys = {sha1(b"%d %d" % (seed, each)).digest() for each in range(number)}
    kept = []
    for order in (sorted(keys), sorted(keys, reverse=True)):
        with Database() as database, pytest.MonkeyPatch.context() as patch:
            patch.setattr(filtered, "MAX_ROWS", 20)
            record = FilteredRecord(database)
            for at, key in enumerate(order):
                record.add(key, URL, FIRST, [], saves=False)
                if at % 10 == 0:
                    record.write()
            record.close()
            job = job_of(database)
            kept.append({key for key in keys if job.filtered(key)})
    assert kept[0] == kept[1]
    assert min(number, 1) <= len(kept[0]) <= 20


def test_learned_rules_have_the_same_name_in_every_run(tmp_path):
    """In the next run they come from a file, and say so."""
    rule = SiteRule(site="shop.test", kind="drop-param", param="sid")
    save_site_rules(tmp_path / "rules.toml", [rule])
    (read,) = load_site_rules(tmp_path / "rules.toml")
    assert "rules.toml" in str(read)
    assert rule_in_words(read) == rule_in_words(rule) == str(rule)


# --- failures -------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_record_that_cannot_be_written_ends(database, when, caplog):
    database.ensure("CREATE TABLE other (value);")
    if when == "before":
        database.ensure("CREATE TABLE filtered (key); CREATE VIEW saved AS SELECT 1;")
    record = FilteredRecord(database)
    for _ in range(2):
        database.write("INSERT INTO other VALUES (1)")
        record.add(b"key", f"{URL}\ud800", FIRST, [], saves=True)  # text that no UTF-8 can hold
        database.commit()
    record.close()
    assert "the crawl goes on" in caplog.text
    assert len(caplog.records) == 1
    assert database.read("SELECT count(*) FROM other") == [(2,)]
