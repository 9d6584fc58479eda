"""The verb why: what became of a URL in a crawl with JOBDIR."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing

import pytest
from hostile_base import IN_ORDER
from job_tables import job_tables
from loopback import crawl, page, redirect

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.cli import Project, main
from scrapy_urlnorm.normalizer import KEY_VERSION
from scrapy_urlnorm.report.filtered import rule_in_words
from scrapy_urlnorm.site_rules import SiteRule
from scrapy_urlnorm.stores import open_store
from scrapy_urlnorm.url import get_fingerprint

HOST = "http://shop.test"
HOME = f"{HOST}/"
RULE = SiteRule(
    site="shop.test",
    kind="drop-param",
    param="ref",
    source="content",
    support=7,
    conflicts=0,
    examples=[(f"{HOST}/1", f"{HOST}/1?ref=a")],
)
ALIAS = "permalinks shop.test/post of the page itself"


@pytest.fixture
def job(tmp_path):
    folder = tmp_path / "job"
    with job_tables(folder) as tables:
        tables.rule(RULE, agreed=3)
        tables.page(f"{HOST}/a")
        tables.shown(HOME)
        tables.filtered(f"{HOST}/a?utm_source=x", f"{HOST}/a", "drop-params")
        words = rule_in_words(RULE)
        tables.held(f"{HOST}/a?ref=1", f"{HOST}/a", words, since=1e9)
        tables.filtered(f"{HOST}/a?ref=1#top", f"{HOST}/a?ref=1", "remove-fragment")
        tables.filtered(f"{HOST}/a?ref=1#end", f"{HOST}/a?ref=1", "remove-fragment")
        tables.held(f"{HOST}/elsewhere?ref=1", "", "a rule of another run")
        tables.held(f"{HOST}/post", f"{HOST}/a", ALIAS, is_alias=True)
        tables.held(f"{HOST}/waits?ref=1", None, words, state=1)
        tables.held(f"{HOST}/later", None, state=2)
        tables.filtered(f"{HOST}/gone?gclid=1", f"{HOST}/gone", "drop-params")
    return folder


@pytest.fixture
def whole_job(job):
    """The same with a store, which has what was asked for."""
    with job_tables(job) as tables:
        tables.asked(f"{HOST}/failed")
    return job


SAID = [
    ("/", ["its page arrived\n"]),
    ("/a", ["its page arrived\n"]),
    (
        "/a?utm_source=x",
        ["it was filtered: a page with the same key", f"  behind {HOST}/a\n", "by drop-params"],
    ),
    (
        "/a?ref=1",
        [
            "it is held: by what the crawl learned, another page is the same",
            f"  behind {HOST}/a\n  by the rule: The parameter ref means nothing.\n",
            f"    source content, 7 for it, 0 against, such as {HOST}/1 and {HOST}/1?ref=a\n",
            "    tested: 3 requests sent all the same found what the rule says\n",
            "  since 2001-09-",
            f"  not sent 2 times, for example as {HOST}/a?ref=1#top, by remove-fragment\n",
        ],
    ),
    (
        "/elsewhere?ref=1",
        [
            "  behind a page that has no URL of its own, or arrived at an",
            "  by a rule of another r",
        ],
    ),
    (
        "/post",
        [f"  behind {HOST}/a\n  that page has a permalink or a short link to it", f"by {ALIAS}\n"],
    ),
    (
        "/waits?ref=1",
        [
            "it is coalesced: it waits for the end",
            "  by the rule: The parameter ref means nothing.",
        ],
    ),
    ("/later", ["it is deferred: requests of its kind rarely brought a new page"]),
    ("/gone", ["it was asked for, under this URL or an equal", "not sent 1 time, for example as"]),
    ("/failed", ["it was asked for, under this URL or an equal"]),
]


@pytest.mark.parametrize(("path", "said"), SAID)
def test_what_became_of_a_url(run, whole_job, path, said):
    done = run("why", HOST + path, "--job", whole_job)
    assert (done.code, done.err) == (0, "")
    for words in said:
        assert words in done.out


def test_what_the_crawl_has_not_met(run, whole_job):
    """The exit code says it too. The database may be named as well as its folder."""
    for place in (whole_job, whole_job / "urlnorm.sqlite"):
        done = run("why", f"{HOST}/nowhere", "--job", place)
        assert (done.code, done.err) == (1, "")
        assert done.out.endswith("may know nothing\n")
    said = run("why", f"{HOST}/a?utm_source=x", "--job", whole_job).out
    assert re.search(r"^  at 20\d\d-\d\d-\d\d \d\d:\d\d UTC$", said, re.MULTILINE)


def test_the_answer_for_programs(run, job):
    answer = json.loads(run("why", f"{HOST}/a?ref=1", "--job", job, "--json").out)
    assert answer["behind"] == f"{HOST}/a"
    assert answer["held"]["rules"] == [rule_in_words(RULE)]
    told = {"source": "content", "support": 7, "conflicts": 0, "tested": 3}
    told |= {"sentence": "The parameter ref means nothing."}
    pairs = [list(pair) for pair in RULE.examples]
    assert answer["learned"] == [{"rule": rule_in_words(RULE), "examples": pairs, **told}]
    assert (answer["filtered"]["times"], answer["filtered"]["first"]) == (2, f"{HOST}/a?ref=1")
    answer = json.loads(run("why", f"{HOST}/post", "--job", job, "--json").out)
    [alias] = answer["learned"]
    assert (alias["rule"], alias["source"], alias["tested"]) == (ALIAS, None, 0)


def test_a_store_outside_of_the_folder(run, job, tmp_path):
    """It is asked if it is named; without it, nothing is said of what only the store knows."""
    asked = f"{HOST}/failed"
    done = run("why", asked, "--job", job)
    assert (done.code, "whether it was asked for is not known" in done.out) == (1, True)
    store = tmp_path / "store.txt"
    missing = run("why", asked, "--job", job, "--store", f"sqlite:{store}")
    assert "whether it was asked for is not known" in missing.out
    assert not store.exists()
    options = {"digest": Normalizer().digest, "key_version": KEY_VERSION}
    with open_store(f"sqlite:{store}", **options) as keys:
        keys.add(get_fingerprint(asked))
    assert "it was asked for" in run("why", asked, "--job", job, "--store", f"sqlite:{store}").out


def test_the_crawl_of_the_project_is_asked(capfdbinary, whole_job):
    database = f"sqlite:{whole_job / 'urlnorm.sqlite'}"
    for spec, folder in (("memory", str(whole_job)), (database, "/nowhere"), (database, None)):
        project = Project(store=spec, jobdir=folder)
        assert main(["why", f"{HOST}/failed"], project=project) == 0
        assert "it was asked for, under" in capfdbinary.readouterr().out.decode()


# --- what cannot be answered ----------------------------------------------------------------


UNREADABLE = {
    "a table of another version": (
        "ALTER TABLE held RENAME COLUMN rules TO others",
        "no such column: rules: another version made it",
    ),
    "rules of a held request": (
        "UPDATE held SET rules = '[' WHERE state = 2",
        "a held request cannot be read: JSONDecodeError",
    ),
    "other JSON than that of rules": (
        "UPDATE held SET rules = '3'",
        "a held request cannot be read: TypeError",
    ),
    "a learned rule": (
        'UPDATE rule SET rule = \'{"site": "shop.test", "kind": "nosuch"}\'',
        "cannot be read: SiteRuleError",
    ),
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_database_that_cannot_be_read_is_named(run, job, what):
    statement, said = UNREADABLE[what]
    with closing(sqlite3.connect(job / "urlnorm.sqlite")) as database, database:
        database.execute(statement)
    done = run("why", f"{HOST}/later", "--job", job)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert f"{job}/urlnorm.sqlite: " in done.err
    assert said in done.err


def test_what_cannot_be_asked_is_named(run, whole_job, tmp_path):
    """No job, no database, other rules than those of the crawl, or a crawl that runs."""
    (tmp_path / "urlnorm.sqlite").write_text("no database, and long enough to be read as one" * 99)
    other = ("--job", whole_job, "--profile", "aggressive")
    for options, said in (
        ((), "name the job directory of the crawl with --job"),
        (("--job", "nowhere"), "nowhere: there is no urlnorm.sqlite in it, so it is no job direc"),
        (("--job", tmp_path), "urlnorm.sqlite: file is not a database"),
        (other, "its keys mean nothing under other rules"),
    ):
        done = run("why", f"{HOST}/nowhere", *options)
        assert done.code == 2
        assert said in done.err.lower() or said in done.err
    for verb in ("why", "forget"):
        assert "'a.example/x' has no http://" in run(verb, "a.example/x", "--job", whole_job).err
    with job_tables(whole_job):
        assert "a crawl uses it" in run("why", HOME, "--job", whole_job).err


# --- crawls ---------------------------------------------------------------------------------

#: The first rule is one from redirects, for each test.
SETTINGS = {**IN_ORDER, "URLNORM_LEARN": "redirects"}


def shop(url):
    """Pages that http redirects to https, and some of which come with a tracking parameter."""
    if url == HOME:
        twins = [f"{HOST}/{part}/{n}" for n in range(12) for part in ("a", "b", "c")]
        pages = [twin.replace("http:", "https:") for twin in twins]
        late = [f"{HOST}/a/last", f"{HOST.replace('http:', 'https:')}/a/last"]
        return page("home", *twins, *pages, f"{pages[0]}?utm_source=x", *late[::-1], f"{HOST}/gone")
    if url.startswith("http:"):
        return redirect(url.replace("http:", "https:"))
    return page(url)


def test_a_real_crawl(run, tmp_path):
    """It arrived, has the key of another, is suppressed by a tested rule, or was never met."""
    job = tmp_path / "job"
    crawl(shop, [HOME], {**SETTINGS, "JOBDIR": str(job)})
    with closing(sqlite3.connect(job / "urlnorm.sqlite")) as database:  # an audit may be any other
        held, behind = database.execute("SELECT url, behind FROM held WHERE state = 0").fetchone()
    for url, said in {
        "https://shop.test/a/0": "its page arrived",
        "https://shop.test/a/0?utm_source=x": "behind https://shop.test/a/0\n",
        held: f"behind {behind}\n  by ",
        "http://shop.test/gone": "it was asked for, under",
        "https://shop.test/nowhere": "the crawl has not met it",
    }.items():
        assert said in run("why", url, "--job", job).out
    answer = json.loads(run("why", held, "--job", job, "--json").out)
    (learned,) = answer["learned"]
    assert learned["source"] == "redirect"
    assert learned["support"] >= 2
    assert learned["tested"] > 0
