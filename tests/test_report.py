"""The report: its figures from a log and from a crawl, and the page made of them."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
from cli_runner import Runner
from hypothesis import given, settings
from hypothesis import strategies as st
from job_tables import job_tables
from loopback import Site, crawl
from test_cli_why import shop

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.logs import Observation
from scrapy_urlnorm.report import plots
from scrapy_urlnorm.report import rows as rows_module
from scrapy_urlnorm.report.figures import Host, Left, Point, Suspicion
from scrapy_urlnorm.report.filtered import rule_in_words
from scrapy_urlnorm.report.gather import from_crawl, from_logs, rows_of
from scrapy_urlnorm.report.job import open_job
from scrapy_urlnorm.report.page import page as page_of
from scrapy_urlnorm.report.rows import pattern_of
from scrapy_urlnorm.site_rules import SiteRule

HOST = "http://shop.test"


def of(*rows, rules=()):
    """Return the figures of a log. A row is a path and the name of its content."""
    observations = [Observation(HOST + path, 200, content) for path, content in rows]
    return from_logs(observations, Normalizer(site_rules=rules), title="Crawl log test")


def test_what_a_log_says():
    """Spared is what has the key of an earlier row under another URL; left is equal all the same."""
    figures = of(
        ("/a", "A"),
        ("/a?utm_source=x", "A"),
        ("/a", "A"),  # the same request again: no rule would spare it
        ("/b?id=1&sort=up", "B"),
        ("/b?sort=down&id=1", "B"),
        ("/c", "C"),
    )
    assert (figures.requests, figures.pages, figures.distinct) == (6, 6, 3)
    assert (figures.spared, figures.left, figures.suspicions) == (1, 1, 0)
    assert figures.hosts == (Host("shop.test", 6, 6, 3, 1, 1),)
    assert figures.patterns == (
        Left("shop.test/*?id=&sort=", 1, 2, f"{HOST}/b?id=1&sort=up", f"{HOST}/b?sort=down&id=1"),
    )
    (rule,) = figures.rules
    assert (rule.rule, rule.source, rule.spared) == ("drop-params", "catalogue", 1)
    assert [group.pages for group in figures.groups] == [3, 2]
    assert figures.course[0] == Point("as logged", 0, 0)
    assert Point("as logged", 6, 3) in figures.course
    assert figures.course[-1] == Point("with these rules", 5, 3)


def test_a_rule_that_merges_different_pages_is_suspicious():
    """With both URLs and its name, and its evidence in the table of rules."""
    rule = SiteRule(
        site="shop.test", kind="drop-param", param="page", source="content", support=7, conflicts=0
    )
    figures = of(("/l?page=1", "one"), ("/l?page=2", "two"), ("/l?page=3", "one"), rules=[rule])
    assert figures.spared == 2
    assert figures.suspicious == (
        Suspicion(
            "different contents under one key",
            f"{HOST}/l?page=1",
            f"{HOST}/l?page=2",
            rule_in_words(rule),
        ),
    )
    assert figures.rules[0][:5] == (rule_in_words(rule), "active", "content", 2, 7)
    assert figures.course[-1] == Point("with these rules", 1, 1)  # it would have lost a page


def test_a_redirect_onto_its_own_key_spares_nothing():
    """A crawl follows it."""
    rows = [
        Observation(f"{HOST}/a?utm_source=x", 301, location=f"{HOST}/a"),
        Observation(f"{HOST}/a", 200, "A"),
        Observation(f"{HOST}/a#top", 200, "B"),
    ]
    figures = from_logs(rows, Normalizer(), title="")
    assert (figures.spared, figures.suspicions) == (1, 1)


def test_rules_with_evidence_against_them_come_first():
    """Retracted, or likelier wrong than a rule should be."""
    rules = [
        SiteRule(site="shop.test", kind="drop-param", param="a", status="rejected", note="it lies"),
        SiteRule(site="shop.test", kind="drop-param", param="b", false_merge_upper=0.1),
        SiteRule(site="shop.test", kind="drop-param", param="c", support=9, conflicts=1),
        SiteRule(site="shop.test", kind="drop-param", param="d", support=9, conflicts=0),
    ]
    figures = of(("/a", "A"), rules=rules)
    reasons = {each.rules: each.reason for each in figures.suspicious}
    assert reasons == {
        rule_in_words(rules[0]): "retracted: it lies",
        rule_in_words(rules[1]): "10.0% of what it merges may be wrong",
        rule_in_words(rules[2]): "1 observation against it",
    }


def test_secrets_are_masked():
    """The page may be shown to others."""
    figures = of(("/a?password=hunter2", "A"), ("/b?password=hunter2", "A"), ("/a?x=1", "B"))
    assert "hunter2" not in page_of(figures)


@pytest.mark.parametrize(
    ("url", "pattern"),
    [
        ("http://shop.test/", "shop.test/"),
        ("http://shop.test/about-us", "shop.test/*"),
        ("http://shop.test/a1/b2/c3", "shop.test/aN/*/*"),
        ("http://shop.test/doku.php?id=x;do=y", "shop.test/doku.php?do=&id="),
        ("http://shop.test/x?p1=a&p2=b&p3", "shop.test/*?pN="),
        ("no URL", "*"),
    ],
)
def test_the_look_of_a_url(url, pattern):
    """Host, first folder, depth, names of parameters; numbers are all alike."""
    assert pattern_of(url) == pattern


def test_of_many_spared_rows_a_sample_tells_the_rules(monkeypatch):
    """Their number is about right, and the work does not grow with it."""
    explained = []
    explain = Normalizer.explain
    monkeypatch.setattr(rows_module, "SAMPLE", 32)
    monkeypatch.setattr(
        Normalizer, "explain", lambda self, url: explained.append(url) or explain(self, url)
    )
    rows = [("/a", "A"), *((f"/a?utm_source={number}", "A") for number in range(10_000))]
    figures = of(*rows)
    assert figures.spared == 10_000
    assert figures.rules[0].spared == pytest.approx(10_000, rel=0.05)
    assert len(explained) < 1_000


def test_what_is_kept_is_bounded(monkeypatch):
    """However many hosts, patterns and suspicions there are; the sums stay right."""
    for name in ("MAX_PATTERNS", "MAX_SUSPICIOUS", "MAX_GROUPS", "MAX_HOSTS", "MAX_POINTS"):
        monkeypatch.setattr(rows_module, name, 10)
    rule = SiteRule(site="*.shop.test", kind="drop-param", param="x")
    rows = []
    for number in range(100):
        url = f"http://h{number}.shop.test/{number}"
        rows += [Observation(url, 200, "A"), Observation(f"{url}?x=1", 200, str(number))]
    figures = from_logs(rows, Normalizer(site_rules=[rule]), title="")
    assert len(figures.hosts) == len(figures.suspicious) == len(figures.groups) + 9 == 10
    assert figures.suspicions == 100
    assert len(figures.course) <= 2 * 12
    assert sum(left.redundant for left in figures.patterns) == figures.left == 99
    assert len(figures.patterns) <= 11


# --- a crawl --------------------------------------------------------------------------------


def test_what_a_crawl_did(tmp_path, monkeypatch):
    """What it fetched, what it did not by host and rule, and stock Scrapy beside it."""
    clock = iter(range(100))
    monkeypatch.setattr("time.time", lambda: float(next(clock)))
    learned = SiteRule(site="shop.test", kind="drop-param", param="sid", source="content")
    with job_tables(tmp_path) as job:
        for name in "abc":
            job.page(f"{HOST}/{name}", name)
        job.record.answered()
        job.filtered(f"{HOST}/a?utm_source=1", f"{HOST}/a", "drop-params")
        job.record.answered()
        words = rule_in_words(learned)
        job.held(f"{HOST}/b?sid=1", f"{HOST}/b", words, since=float(next(clock)))
        job.held(f"{HOST}/c#post", f"{HOST}/c", "permalinks", is_alias=True, saves=False)
        job.record.answered()
        job.rule(learned, agreed=4)
    with open_job(tmp_path) as job:
        figures = from_crawl(rows_of(job), job, title="a crawl")
    assert (figures.requests, figures.distinct, figures.spared, figures.left) == (3, 3, 2, 0)
    assert figures.hosts == (Host("shop.test", 3, 3, 3, 2, 0),)
    assert [rule[:4] + rule[7:10] for rule in figures.rules] == [
        (words, "active", "content", 1, 4, f"{HOST}/b", f"{HOST}/b?sid=1"),
        ("drop-params", "active", "catalogue", 1, None, f"{HOST}/a", f"{HOST}/a?utm_source=1"),
    ]
    assert [p for p in figures.course if p.line == "stock Scrapy"] == [
        ("stock Scrapy", 0, 0),
        ("stock Scrapy", 1, 1),
        ("stock Scrapy", 3, 2),
        ("stock Scrapy", 5, 3),
        ("stock Scrapy", 5, 3),
    ]
    assert "2 requests are suppressed because of what was learned." in figures.notes


SETTINGS = {"ADDONS": {"scrapy_urlnorm.Addon": 900}, "CONCURRENT_REQUESTS": 1}


def tables(html):
    """Return the tables of a page: by name, the rows as dicts."""
    data = json.loads(
        re.search(r'<script type="application/json" id="data">(.*?)</script>', html)[1]
    )
    return {
        name: [
            dict(zip([column["name"] for column in table["columns"]], row, strict=True))
            for row in table["rows"]
        ]
        for name, table in data.items()
    }


@pytest.mark.parametrize("jobdir", [False, True])
def test_a_crawl_writes_its_report(tmp_path, monkeypatch, jobdir):
    """With JOBDIR and without; nothing else is left behind."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    path = tmp_path / "pages" / "report.html"
    settings = {**SETTINGS, "URLNORM_REPORT": str(path)}
    if jobdir:
        settings["JOBDIR"] = str(tmp_path / "job")
    with Site(shop) as site:
        result = crawl(site, [f"{HOST}/"], settings)
    assert "Wrote the report" in result.log
    html = path.read_text(encoding="utf-8")
    saved = result.stats["urlnorm/saved"]
    assert f"spared {saved} requests that stock Scrapy" in html
    assert f"got {result.stats['downloader/response_count']} answers" in html
    learned = [row for row in tables(html)["rules"] if row["learned from"] == "redirect"]
    assert sum(row["spared"] for row in learned) == saved - result.stats["urlnorm/merged"]
    assert any(row["tests passed"] for row in learned)
    assert "stock Scrapy: " in html
    assert (tmp_path / "job" / "urlnorm-report.jsonl.gz").exists() == jobdir
    assert list(temporary.iterdir()) == []


def test_the_crawl_log_is_the_log_of_the_report(tmp_path):
    """Where the settings want both, responses are looked at once."""
    settings = {
        **SETTINGS,
        "URLNORM_REPORT": str(tmp_path / "report.html"),
        "URLNORM_CRAWL_LOG": str(tmp_path / "log.jsonl"),
        "JOBDIR": str(tmp_path / "job"),
    }
    with Site(shop) as site:
        crawl(site, [f"{HOST}/"], settings)
    assert (tmp_path / "report.html").exists()
    assert not (tmp_path / "job" / "urlnorm-report.jsonl.gz").exists()


def test_a_report_that_cannot_be_written_is_an_error_in_the_log(tmp_path):
    """The crawl has ended well."""
    (tmp_path / "report.html").mkdir()
    settings = {**SETTINGS, "URLNORM_REPORT": str(tmp_path / "report.html")}
    with Site(shop) as site:
        result = crawl(site, [f"{HOST}/"], settings)
    assert result.reason == "finished"
    assert "URLNORM_REPORT = " in result.log
    assert "cannot be written: " in result.log


# --- the verb -------------------------------------------------------------------------------


@pytest.fixture
def run(capfdbinary, monkeypatch):
    return Runner(capfdbinary, monkeypatch)


def test_the_report_of_a_job_directory(run, tmp_path):
    """From its database, or with the log of the same crawl."""
    job, log, path = tmp_path / "job", tmp_path / "log.jsonl", tmp_path / "report.html"
    settings = {**SETTINGS, "JOBDIR": str(job), "URLNORM_CRAWL_LOG": str(log)}
    with Site(shop) as site:
        result = crawl(site, [f"{HOST}/"], settings)
    done = run("report", job, "-o", path)
    assert (done.code, done.out, done.err) == (0, "", f"wrote {path}\n")
    of_database = path.read_text(encoding="utf-8")
    saved = result.stats["urlnorm/saved"]
    assert f"spared {saved} requests" in of_database
    assert {row["rule"] for row in tables(of_database)["rules"]} >= {"drop-params"}
    assert run("report", job, log, "-o", path).code == 0
    of_log = path.read_text(encoding="utf-8")
    assert f"got {result.stats['downloader/response_count']} answers" in of_log
    assert tables(of_log)["rules"] == tables(of_database)["rules"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.jsonl", "-o", "page.html"), "nowhere.jsonl: No such file"),
        (("rows.jsonl", "-o", "nowhere/page.html"), "nowhere/page.html: No such file"),
        (("rows.jsonl",), "the following arguments are required: -o/--output"),
        (("one", "two", "-o", "page.html"), "a report is about one crawl: one and two are two"),
        (("one", "-o", "page.html"), "one/urlnorm.sqlite: file is not a database"),
    ],
)
def test_what_cannot_be_reported_is_named(run, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text('{"url": "http://shop.test/", "status": 200}\n')
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "urlnorm.sqlite").write_text("no database, and long enough" * 99)
    done = run("report", *arguments)
    assert done.code == 2
    assert message in done.err


# --- the page -------------------------------------------------------------------------------

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "javascript:alert(1)",
    "${alert}$script&amp;&lt;",
    "\ud800 \u2028 \x00 \u202e",
]


class _Tags(HTMLParser):
    """Counts the tags of a page that are not in its plots."""

    def __init__(self, html):
        super().__init__()
        self.tags = []
        self.attributes = []
        self.feed(re.sub(r"<figure.*?</figure>", "", html, flags=re.DOTALL))

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attributes]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_is_text_wherever_it_comes_from(text):
    """It makes no tag and no attribute, and is in the tables as it was."""
    harmless = SiteRule(site="shop.test", kind="drop-param", param="x")
    plain = page_of(of(("/a", "A"), rules=[harmless]))
    note = text.encode("utf-8", "replace").decode()  # a rule file holds nothing else
    rule = SiteRule(site="shop.test", kind="drop-param", param="x", status="rejected", note=note)
    rows = [
        Observation(f"http://shop.test/{text}{more}", 200, "A") for more in ("", "?a", "?x=1", "#f")
    ]
    rows.append(Observation(text, 200, "B"))
    html = page_of(from_logs(rows, Normalizer(site_rules=[rule]), title=f"Crawl log {text}"))
    html.encode("utf-8")
    assert _Tags(html).tags == _Tags(plain).tags
    assert set(_Tags(html).attributes) == set(_Tags(plain).attributes)
    assert any(text in group["the first of them"] for group in tables(html)["groups"])


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.text(), st.sampled_from("ABC")), max_size=8))
def test_any_rows_make_a_page(rows):
    """Whatever a log has as URLs."""
    observations = [Observation(url, 200, content) for url, content in rows]
    html = page_of(from_logs(observations, Normalizer("aggressive"), title="any"))
    assert len(tables(html)["hosts"]) <= len(rows)
    assert f"<dd>{len(rows)}</dd>" in html


def test_the_page_asks_no_server():
    """It has a policy that forbids it, with our script as the only one, and no address in it."""
    html = page_of(of(("/a", "A")))
    assert "default-src 'none'" in html
    assert not re.search(r"\b(?:src|href)=\"(?!#)", html)
    assert "unsafe-inline'; script-src 'sha256-" in html


def test_without_the_package_that_draws_the_page_says_so(monkeypatch):
    """It is complete but for the plots."""
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    html = page_of(of(("/a", "A"), ("/a?utm_source=x", "A")))
    assert "There is no plot here: a plot needs the package &#x27;vl-convert-python&#x27;" in html
    assert "scrapy-urlnorm[report]" in html
    assert len(tables(html)["groups"]) == 1


def test_a_drawing_that_fails_takes_nothing_along(monkeypatch):
    """Its process may even crash."""
    monkeypatch.setattr(plots, "find_spec", lambda name: name)
    monkeypatch.setattr(plots, "_DRAW", "import os; os.abort()")
    html = page_of(of(("/a", "A"), ("/a?utm_source=x", "A")))
    assert html.count("There is no plot here: the plots could not be drawn") == 2


SHAPES = {"figure", "svg", "g", "path", "line", "rect", "text"}


def test_plots_are_drawn_in_the_colours_of_the_page():
    """One drawing for light and dark; names of hosts are text."""
    pytest.importorskip("vl_convert")
    rows = [Observation(f"http://{text}/{n}", 200, "A") for text in HOSTILE for n in range(3)]
    html = page_of(from_logs(rows, Normalizer(), title=""))
    figures = re.findall(r"<figure.*?</figure>", html, re.DOTALL)
    assert len(figures) == 2
    for figure in figures:
        assert "var(--one)" in figure
        tags = _Tags(figure.replace("figure", "figures"))
        assert {tag.removesuffix("s") for tag in tags.tags} <= SHAPES
        assert not [name for name in tags.attributes if name.startswith("on")]
