"""The verb forget: the next run of a crawl fetches a URL again, and nothing else."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

import pytest
from cli_runner import start
from job_tables import job_tables
from loopback import crawl, page
from test_cli_why import ALIAS, HOME, HOST, RULE

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.normalizer import KEY_VERSION
from scrapy_urlnorm.report.filtered import rule_in_words
from scrapy_urlnorm.stores import open_store

PAGES = {
    HOME: page("home", "/a", "/a?utm_source=mail", "/b/1", "/b/2"),
    **{f"{HOST}{path}": page(path) for path in ("/a", "/b/1", "/b/2")},
}
ADDON = {"ADDONS": {"scrapy_urlnorm.Addon": 900}}


def requests_of(settings):
    result = crawl(PAGES, [HOME], {**ADDON, **settings})
    assert result.error is None
    return sorted(result.requests)


@pytest.fixture(params=["jobdir", "sqlite", "redis"])
def crawled(request, tmp_path):
    if request.param == "jobdir":
        place = {"JOBDIR": str(tmp_path / "job")}
        options = ("--job", place["JOBDIR"])
    elif request.param == "sqlite":
        spec = f"sqlite:{tmp_path / 'keys.sqlite'}"
        place, options = {"URLNORM_STORE": spec}, ("--store", spec)
    else:
        server = f"{request.getfixturevalue('redis_server').url}?prefix={tmp_path.name}"
        place, options = {"URLNORM_STORE": server}, ("--store", server)
    assert requests_of(place) == sorted(PAGES)
    return place, options


def test_the_next_run_fetches_it_again_and_nothing_else(run, crawled):
    """Under any spelling. The start page is always asked for."""
    place, options = crawled
    code, out, err = run("forget", f"{HOST}/a?utm_source=mail", f"{HOST}/unknown", *options)
    assert code == 0
    assert out == f"forgotten: {HOST}/a?utm_source=mail\nnot known: {HOST}/unknown\n"
    assert "1 key forgotten" in err
    assert run("forget", f"{HOST}/unknown", *options).code == 1
    assert requests_of(place) == [HOME, f"{HOST}/a"]
    assert requests_of(place) == [HOME]


def test_a_store_without_urls_cannot_tell_what_begins_so(run, tmp_path):
    store = f"sqlite:{tmp_path / 'keys'}"
    with open_store(store, digest=Normalizer().digest, key_version=KEY_VERSION):
        pass
    code, _, err = run("forget", "--prefix", HOME, "--store", store)
    assert code == 2
    assert "has keys and no URLs" in err


def test_a_prefix_takes_what_the_crawl_wrote_down(run, tmp_path):
    """A crawl that learns remembers its pages."""
    settings = {"JOBDIR": str(tmp_path / "job"), "URLNORM_LEARN": "content"}
    requests_of(settings)
    code, out, _ = run("forget", "--prefix", f"{HOST}/b/", "--job", tmp_path / "job")
    assert code == 0
    assert sorted(out.splitlines()) == [f"forgotten: {HOST}/b/{n}" for n in (1, 2)]
    assert requests_of(settings) == [HOME, f"{HOST}/b/1", f"{HOST}/b/2"]


def test_what_is_held_is_let_go_with_the_page_that_represents_it(run, tmp_path):
    """What was learned would hold the next request behind that page."""
    job = tmp_path / "job"
    with job_tables(job) as tables:
        tables.asked(f"{HOST}/a")
        tables.asked(f"{HOST}/a?ref=1")
        tables.rule(RULE, agreed=3)
        tables.page(f"{HOST}/a")
        tables.held(f"{HOST}/a?ref=1", f"{HOST}/a", rule_in_words(RULE))
        tables.held(f"{HOST}/post", f"{HOST}/b", ALIAS, is_alias=True)
    assert run("forget", f"{HOST}/a?ref=1", "--job", str(job)).code == 0
    with closing(sqlite3.connect(job / "urlnorm.sqlite")) as database:
        held = database.execute("SELECT url FROM held").fetchall()
    assert held == [(f"{HOST}/post",)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "memory: no crawl left its keys here; name its --job JOBDIR"),
        (["--job", "nowhere"], "nowhere: no crawl left its keys here"),
        (["--store", "sqlite:nowhere"], "sqlite:nowhere: no crawl left its keys here"),
        (["--job", "a", "--store", "sqlite:b"], "not with both"),
    ],
)
def test_a_place_that_has_nothing_is_wrong_usage(run, tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    code, _, err = run("forget", f"{HOST}/a", *options)
    assert code == 2
    assert said in err
    assert list(tmp_path.iterdir()) == []


def test_a_crawl_that_runs_is_left_alone(run, tmp_path):
    requests_of({"JOBDIR": str(tmp_path)})
    with closing(sqlite3.connect(tmp_path / "urlnorm.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        code, _, err = run("forget", f"{HOST}/a", "--job", str(tmp_path))
    assert code == 2
    assert "another crawl uses it" in err


def test_who_reads_what_was_forgotten_may_have_enough_of_it(run, tmp_path):
    settings = {"JOBDIR": str(tmp_path / "job"), "URLNORM_LEARN": "content"}
    requests_of(settings)
    reads, writes = os.pipe()
    os.close(reads)
    with start("forget", "--prefix", HOME, "--job", tmp_path / "job", stdout=writes) as forget:
        os.close(writes)
        assert b"3 keys forgotten" in forget.communicate()[1]
    assert forget.returncode == 0
    assert run("forget", "--prefix", HOME, "--job", tmp_path / "job").code == 1
