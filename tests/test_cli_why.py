"""The verb why: what became of a URL in a real crawl with JOBDIR."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from cli_runner import Runner
from loopback import Site, crawl, page, redirect
from test_scrapy_page_aliases import Forum, post_url, topic_url

from scrapy_urlnorm.cli import main
from scrapy_urlnorm.cli.verb import Project
from scrapy_urlnorm.fingerprints import STOCK_FINGERPRINTER, get_fingerprint
from scrapy_urlnorm.normalizer import Normalizer

HOST = "http://shop.test"
HOME = f"{HOST}/"
SETTINGS = {
    "ADDONS": {"scrapy_urlnorm.Addon": 900},
    "URLNORM_LEARN": "redirects",  # the first rule is one from redirects, for each test
    "CONCURRENT_REQUESTS": 1,
    "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
}


@pytest.fixture
def run(capfdbinary, monkeypatch):
    return Runner(capfdbinary, monkeypatch)


def shop(url):
    """Ten pages that http redirects to https, and some of which come with a tracking parameter."""
    if url == HOME:
        twins = [f"{HOST}/{part}/{n}" for n in range(8) for part in ("a", "b", "c")]
        pages = [twin.replace("http:", "https:") for twin in twins]
        late = [f"{HOST}/a/last", f"{HOST.replace('http:', 'https:')}/a/last"]
        return page("home", *twins, *pages, f"{pages[0]}?utm_source=x", *late[::-1], f"{HOST}/gone")
    if url.startswith("http:"):
        return redirect(url.replace("http:", "https:"))
    return page(url)


@pytest.fixture
def job(tmp_path):
    """The job directory of a crawl of the shop that has ended."""
    with Site(shop) as site:
        result = crawl(site, [HOME], {**SETTINGS, "JOBDIR": str(tmp_path / "job")})
    assert result.stats["finish_reason"] == "finished"
    assert result.stats["urlnorm/learned/withheld"]
    return str(tmp_path / "job")


@pytest.mark.parametrize(
    ("url", "code", "said"),
    [
        ("https://shop.test/a/0", 0, "its page arrived"),
        ("https://shop.test/a/0?utm_source=x", 0, "behind https://shop.test/a/0\n"),
        ("http://shop.test/a/last", 0, "behind https://shop.test/a/last\n"),
        ("http://shop.test/a/last", 0, "by force-scheme"),
        (
            "http://shop.test/a/last",
            0,
            "source redirect, 2 for it, 0 against, such as http://shop.test/",
        ),
        ("https://shop.test/nowhere", 1, "the crawl has not met it"),
    ],
)
def test_what_became_of_a_url(run, job, url, code, said):
    """It arrived, has the key of another, is withheld by a rule, or was never met."""
    done = run("why", url, "--job", job)
    assert (done.code, done.err) == (code, "")
    assert said in done.out


def test_when_and_how_often_a_url_was_dropped(run, job):
    """The record says it, with the rules; of a page that was fetched once it says nothing."""
    dropped = run("why", "https://shop.test/a/0?utm_source=x", "--job", job).out
    assert (
        "not sent 1 time, for example as https://shop.test/a/0?utm_source=x, by drop-p" in dropped
    )
    assert re.search(r"^  at 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d$", dropped, re.MULTILINE)
    withheld = run("why", "http://shop.test/a/last", "--job", job).out
    assert "as http://shop.test/a/last, by force-scheme" in withheld
    assert "not sent" not in run("why", "https://shop.test/a/1", "--job", job).out
    answer = json.loads(run("why", "http://shop.test/a/last", "--job", job, "--json").out)
    assert answer["dropped"]["first"] == "https://shop.test/a/last"
    assert answer["dropped"]["times"] == 1


def test_whether_a_rule_was_tested(run, job):
    """The crawl sent some requests that the rule would have withheld."""
    answer = json.loads(run("why", "http://shop.test/a/last", "--job", job, "--json").out)
    ((learned,),) = [answer["learned"]]
    assert learned["tested"] > 0
    said = run("why", "http://shop.test/a/last", "--job", job).out
    assert f"tested: {learned['tested']} request" in said


def test_a_job_without_a_record(run, job):
    """An older version wrote none: what the database knows is said."""
    Path(job, "urlnorm.drops").unlink()
    done = run("why", "http://shop.test/a/last", "--job", job)
    assert done.code == 0
    assert "behind https://shop.test/a/last" in done.out
    assert "no test of it is known" in done.out


def test_a_record_that_cannot_be_read_is_named(run, job):
    Path(job, "urlnorm.drops").write_text("no database, and long enough to be read as one" * 99)
    done = run("why", "http://shop.test/a/last", "--job", job)
    assert done.code == 2
    assert "urlnorm.drops: file is not a database" in done.err


def test_a_page_that_names_itself(run, tmp_path):
    """A post is withheld behind its topic, which has a permalink to it."""
    with Site(Forum()) as site:
        settings = {**SETTINGS, "JOBDIR": str(tmp_path / "job")}
        result = crawl(site, ["http://forum.test/"], settings)
    assert result.stats["urlnorm/learned/withheld"] > 60
    answers = [
        json.loads(run("why", post_url(topic, 3), "--job", tmp_path / "job", "--json").out)
        for topic in range(25)
    ]
    withheld = [answer for answer in answers if answer["state"].startswith("it is withheld")]
    assert len(withheld) > 15
    for answer in withheld:
        assert answer["names"]
        topic = answer["url"].split("/")[4]
        assert answer["behind"] == topic_url(topic)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name the job directory of the crawl with --job, or its log with --log"),
        (
            ("--job", "nowhere"),
            "nowhere: there is no urlnorm.pending in it, so it is no job directory",
        ),
    ],
)
def test_what_is_no_job_is_named(run, arguments, message):
    done = run("why", HOME, *arguments)
    assert done.code == 2
    assert message in done.err


def test_other_rules_than_those_of_the_crawl_are_refused(run, job):
    """With other rules the key would be another, and the answer wrong."""
    done = run("why", "https://shop.test/nowhere", "--job", job, "--profile", "aggressive")
    assert done.code == 2
    assert "its keys mean nothing under other rules" in done.err.lower()


def test_a_job_that_a_crawl_uses(run, job):
    """It cannot be read meanwhile."""
    from scrapy_urlnorm.crawl.queue.pending import PendingRequests

    with closing(PendingRequests(f"{job}/urlnorm.pending")):
        done = run("why", HOME, "--job", job)
    assert done.code == 2
    assert "a crawl uses it" in done.err


@pytest.mark.parametrize(
    ("url", "code", "said"),
    [
        ("https://shop.test/a/0", 0, "it was fetched, with status 200"),
        ("http://shop.test/a/0", 0, "it was fetched, with status 301"),
        ("https://shop.test/a/0?utm_source=x", 0, "behind https://shop.test/a/0\n"),
        (
            "https://shop.test/nowhere",
            1,
            "no URL with its key was fetched; whether it was withheld is not in a log",
        ),
    ],
)
def test_the_log_of_a_crawl_without_jobdir(run, tmp_path, url, code, said):
    """It has what was fetched."""
    with Site(shop) as site:
        crawl(site, [HOME], {**SETTINGS, "URLNORM_CRAWL_LOG": str(tmp_path / "log")})
    done = run("why", url, "--log", tmp_path / "log")
    assert (done.code, done.err) == (code, "")
    assert said in done.out


def damaged(job, *statements):
    """Change the database of a job by hand."""
    with closing(sqlite3.connect(f"{job}/urlnorm.pending")) as database, database:
        for statement in statements:
            database.execute(statement)


UNREADABLE = {
    "a table that an older version does not have": (
        ["DROP TABLE alias_site"],
        "no such table: alias_site: an older version made it",
    ),
    "a table of later questions": (["DROP TABLE key"], "no such table: key"),
    "JSON of aliases": (
        ["INSERT INTO alias_site VALUES ('shop.test', '{\"claims\"')"],
        "the aliases of shop.test cannot be read: JSONDecodeError",
    ),
    "other JSON than that of aliases": (
        ["INSERT INTO alias_site VALUES ('shop.test', '{\"claims\": [3]}')"],
        "the aliases of shop.test cannot be read: TypeError",
    ),
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_database_that_cannot_be_read_is_named(run, job, what):
    """One line, whichever question fails."""
    statements, said = UNREADABLE[what]
    # A withheld request without a page asks for aliases; one that was never met for the keys.
    kept = "INSERT INTO withheld VALUES (NULL, 'shop.test', x'01', ?, x'00', 0, 0)"
    url = "https://shop.test/kept"
    key = get_fingerprint(Normalizer().normalize(url))
    damaged(job, kept.replace("?", f"x'{key.hex()}'"), *statements)
    asked = "https://shop.test/nowhere" if "key" in statements[0] else url
    done = run("why", asked, "--job", job)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert f"{job}/urlnorm.pending: " in done.err
    assert said in done.err


def test_a_file_that_is_no_database_is_named(run, tmp_path):
    (tmp_path / "urlnorm.pending").write_text("no database, and long enough to be read as one" * 99)
    done = run("why", HOME, "--job", tmp_path)
    assert done.code == 2
    assert "urlnorm.pending: file is not a database" in done.err


def without_store(job):
    """Take the store out of the folder. Return where it is now, as --store has it."""
    lmdb = Path(job, "urlnorm.lmdb")
    kind, store = ("lmdb", lmdb) if lmdb.exists() else ("file", Path(job, "urlnorm.seen"))
    elsewhere = Path(job).with_name("elsewhere")
    store.rename(elsewhere)
    return f"{kind}:{elsewhere}"


def test_a_store_outside_of_the_folder(run, job):
    """It is asked if it is named; without it, nothing is said of what only the store knows."""
    gone = f"{HOST}/gone"  # asked for, and no page came
    assert "it was asked for, under" in run("why", gone, "--job", job).out
    spec = without_store(job)
    done = run("why", gone, "--job", job)
    assert done.code == 1
    assert "whether it was asked for is not known" in done.out
    assert "it was asked for, under" in run("why", gone, "--job", job, "--store", spec).out
    missing = run("why", gone, "--job", job, "--store", f"{spec}.nowhere")
    assert "whether it was asked for is not known" in missing.out
    assert not Path(f"{spec.partition(':')[2]}.nowhere").exists()


def test_the_store_of_the_project_is_asked(capfdbinary, job):
    """Its settings name it, and the job directory too."""
    gone = f"{HOST}/gone"
    spec = without_store(job)
    project = Project("default", {}, (), spec, {}, job, STOCK_FINGERPRINTER)
    assert main(["why", gone], project=project) == 0
    assert "it was asked for, under" in capfdbinary.readouterr().out.decode()


def test_a_key_that_waits_for_the_store(run, job):
    """After a kill the store may not have it yet."""
    url = "https://shop.test/late"
    key = get_fingerprint(Normalizer().normalize(url))
    assert run("why", url, "--job", job).code == 1
    damaged(job, f"INSERT INTO key VALUES (x'{key.hex()}')")
    done = run("why", url, "--job", job)
    assert (done.code, "it was asked for, under" in done.out) == (0, True)
