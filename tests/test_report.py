"""The report: its figures from a log and from a crawl, and the page made of them."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from job_tables import job_tables
from loopback import crawl
from lxml import etree
from lxml.html import document_fromstring
from test_cli_why import shop

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.logs import Observation
from scrapy_urlnorm.report import figures as rows_module
from scrapy_urlnorm.report.figures import Host, Left, Suspicion, from_crawl, from_logs, pattern_of
from scrapy_urlnorm.report.filtered import open_job, rule_in_words
from scrapy_urlnorm.report.page import MAX_ROWS
from scrapy_urlnorm.report.page import page as page_of
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
    assert figures.hosts == [Host("shop.test", 6, 6, 3, 1, 1)]
    assert figures.patterns == [
        Left("shop.test/*?id=&sort=", 1, 2, f"{HOST}/b?id=1&sort=up", f"{HOST}/b?sort=down&id=1")
    ]
    (rule,) = figures.rules
    assert (rule.rule, rule.source, rule.spared) == ("drop-params", "catalogue", 1)
    assert figures.kept == 3


def test_a_rule_that_merges_different_pages_is_suspicious():
    rule = SiteRule(
        site="shop.test", kind="drop-param", param="page", source="content", support=7, conflicts=0
    )
    figures = of(("/l?page=1", "one"), ("/l?page=2", "two"), ("/l?page=3", "one"), rules=[rule])
    assert figures.spared == 2
    assert figures.suspicious == [
        Suspicion(
            "different contents under one key",
            f"{HOST}/l?page=1",
            f"{HOST}/l?page=2",
            "The parameter page means nothing.",
        )
    ]
    assert figures.rules[0][:2] == (rule_in_words(rule), "The parameter page means nothing.")
    assert figures.rules[0][2:5] == ("active", "content", 2)
    assert figures.rules[0].support == 7
    assert figures.kept == 1  # it would have lost a page


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
    rules = [
        SiteRule(site="shop.test", kind="drop-param", param="a", status="rejected", note="it lies"),
        SiteRule(site="shop.test", kind="drop-param", param="b", false_merge_upper=0.1),
        SiteRule(site="shop.test", kind="drop-param", param="c", support=9, conflicts=1),
        SiteRule(site="shop.test", kind="drop-param", param="d", support=9, conflicts=0),
    ]
    figures = of(("/a", "A"), rules=rules)
    reasons = {each.rules: each.reason for each in figures.suspicious}
    assert reasons == {
        "The parameter a means nothing.": "retracted: it lies",
        "The parameter b means nothing.": "at most 10.0% of what it merges may be wrong",
        "The parameter c means nothing.": "1 observation against it",
    }


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
    for name in ("MAX_PATTERNS", "MAX_SUSPICIOUS", "MAX_HOSTS"):
        monkeypatch.setattr(rows_module, name, 10)
    rule = SiteRule(site="*.shop.test", kind="drop-param", param="x")
    rows = []
    for number in range(100):
        url = f"http://h{number}.shop.test/{number}"
        rows += [Observation(url, 200, "A"), Observation(f"{url}?x=1", 200, str(number))]
    figures = from_logs(rows, Normalizer(site_rules=[rule]), title="")
    assert len(figures.hosts) == len(figures.suspicious) == 10
    assert figures.suspicions == 100
    assert sum(left.redundant for left in figures.patterns) == figures.left == 99
    assert len(figures.patterns) <= 11


# --- a crawl --------------------------------------------------------------------------------


def test_what_a_crawl_did(tmp_path):
    learned = SiteRule(site="shop.test", kind="drop-param", param="sid", source="content")
    with job_tables(tmp_path) as job:
        for name in "abc":
            job.page(f"{HOST}/{name}", name)
        job.filtered(f"{HOST}/a?utm_source=1", f"{HOST}/a", "drop-params")
        words = rule_in_words(learned)
        job.held(f"{HOST}/b?sid=1", f"{HOST}/b", words, since=1.0)
        job.held(f"{HOST}/c#post", f"{HOST}/c", "permalinks", is_alias=True, saves=False)
        job.rule(learned, agreed=4)
    with open_job(tmp_path) as job:
        figures = from_crawl(job.pages(), job, title="a crawl")
    assert (figures.requests, figures.distinct, figures.spared, figures.left) == (3, 3, 2, 0)
    assert figures.hosts == [Host("shop.test", 3, 3, 3, 2, 0)]
    assert [(rule[0], *rule[2:5], rule.tested, *rule[5:7]) for rule in figures.rules] == [
        (words, "active", "content", 1, 4, f"{HOST}/b", f"{HOST}/b?sid=1"),
        ("drop-params", "active", "catalogue", 1, None, f"{HOST}/a", f"{HOST}/a?utm_source=1"),
    ]
    assert figures.rules[1].sentence.startswith("Remove parameters that do not select content")
    assert "2 requests are suppressed because of what was learned." in figures.notes


SETTINGS = {"ADDONS": {"scrapy_urlnorm.Addon": 900}, "CONCURRENT_REQUESTS": 1}


def tables(html):
    """Return the tables of a page: by name, the rows as dicts by heading; a line for each part."""
    found = {}
    for place in document_fromstring(html).xpath("//*[@data-table]"):
        heads = [cell.text_content() for cell in place.iter("th")]
        for element in (*place.iter("br"), *place.iter("small")):
            element.tail = f"\n{element.tail or ''}"
            element.text = f"\n{element.text}" if element.tag == "small" else None
        rows = [[shown(cell) for cell in row.iter("td")] for row in place.iter("tr")]
        found[place.get("data-table")] = [dict(zip(heads, row, strict=True)) for row in rows if row]
    return found


def shown(cell):
    text = cell.text_content().strip("\n")
    return int(text.replace(",", "") or 0) if cell.get("class") == "number" else text


@pytest.mark.parametrize("written", [(), ("JOBDIR",), ("JOBDIR", "URLNORM_CRAWL_LOG")])
def test_a_crawl_writes_its_report(tmp_path, monkeypatch, written):
    """From its own log, or from one that the settings want too; nothing else is left behind."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    path = tmp_path / "pages" / "report.html"
    settings = {**SETTINGS, "URLNORM_REPORT": str(path)}
    settings |= {name: str(tmp_path / name) for name in written}
    result = crawl(shop, [f"{HOST}/"], settings)
    assert "Wrote the report" in result.log
    html = path.read_text(encoding="utf-8")
    saved = result.stats["urlnorm/saved"]
    assert f"did not send {saved} requests that stock Scrapy" in html
    assert f"got {result.stats['downloader/response_count']} answers" in html
    learned = [row for row in tables(html)["rules"] if row["learned from"] == "redirect"]
    assert sum(row["not sent"] for row in learned) == saved - result.stats["urlnorm/merged"]
    assert any(row["tests passed"] for row in learned)
    assert (tmp_path / "JOBDIR" / "urlnorm-report.jsonl.gz").exists() == (written == ("JOBDIR",))
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("path", ["", "file/report.html"])
@pytest.mark.parametrize("setting", ["URLNORM_REPORT", "URLNORM_CRAWL_LOG"])
def test_a_path_that_cannot_be_written_ends_the_crawl_before_it_begins(tmp_path, setting, path):
    (tmp_path / "file").touch()
    result = crawl(shop, [f"{HOST}/"], {**SETTINGS, setting: str(tmp_path / path)})
    assert result.requests == []
    assert f"ConfigError: {setting} = {str(tmp_path / path)!r} (" in result.error
    assert result.error.partition("; accepted: ")[2].startswith("a path that can be written")


def test_a_report_that_fails_at_the_end_is_an_error_in_the_log(tmp_path):
    path = tmp_path / "pages" / "report.html"

    def answer(url):
        path.mkdir(exist_ok=True)
        return shop(url)

    result = crawl(answer, [f"{HOST}/"], {**SETTINGS, "URLNORM_REPORT": str(path)})
    assert result.reason == "finished"
    assert f"URLNORM_REPORT = {path} cannot be written: " in result.log


@pytest.mark.skipif(os.name == "nt", reason="no such modes there")
def test_only_the_owner_reads_what_a_crawl_writes(tmp_path):
    """Its log and its report have paths and search words; an older file keeps its mode."""
    report, log = tmp_path / "report.html", tmp_path / "log.jsonl"
    settings = {**SETTINGS, "URLNORM_REPORT": str(report), "URLNORM_CRAWL_LOG": str(log)}
    for mode in (0o600, 0o644):
        crawl(shop, [f"{HOST}/"], settings)
        assert [path.stat().st_mode & 0o777 for path in (report, log)] == [mode, mode]
        report.chmod(0o644)
        log.chmod(0o644)


# --- the verb -------------------------------------------------------------------------------


def test_the_report_of_a_job_directory(run, tmp_path):
    job, log, path = tmp_path / "job", tmp_path / "log.jsonl", tmp_path / "report.html"
    settings = {**SETTINGS, "JOBDIR": str(job), "URLNORM_CRAWL_LOG": str(log)}
    result = crawl(shop, [f"{HOST}/"], settings)
    done = run("report", job, "-o", path)
    assert (done.code, done.out, done.err) == (0, "", f"wrote {path}\n")
    of_database = path.read_text(encoding="utf-8")
    saved = result.stats["urlnorm/saved"]
    assert f"did not send {saved} requests" in of_database
    rules = {row["rule"].partition("\n")[2] for row in tables(of_database)["rules"]}
    assert "drop-params" in rules
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


def made_of(html):
    """The tags of a page, and the names of their attributes."""
    elements = list(document_fromstring(html).iter(etree.Element))
    return [each.tag for each in elements], {name for each in elements for name in each.attrib}


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
    tags, attributes = made_of(html)
    known_tags, known_attributes = made_of(plain)
    assert set(tags) <= set(known_tags) | {"table", "br", "a", *TABLE, "small"}
    assert tags.count("script") == 1
    assert attributes <= known_attributes | LINKS
    shown = note.replace("\0", "?")
    assert any(shown in left["two URLs with one content"] for left in tables(html)["patterns"])
    links = document_fromstring(html).xpath("//main//a")
    assert all(link.get("href").startswith("http://shop.test/") for link in links)
    assert all(link.get("rel") == "noopener noreferrer" for link in links)


LINKS = {"data-table", "scope", "href", "rel", "target"}
TABLE = ("caption", "thead", "tbody", "tr", "th", "td")


@pytest.mark.parametrize(
    ("url", "opens"),
    [
        ("http://shop.test/a?b=1&c=%22", True),
        ("HTTPS://shop.test/ünïcode", True),
        (f"http://shop.test/{'long' * 100}", True),
        ("http://shop.test/a b", False),
        ("http://shop.test/?password=hunter2", False),  # the mask opens another page
        ("javascript:alert(1)", False),
        ("data:text/html,x", False),
        ("//shop.test/", False),
        ("http://shop.test/\u202e", False),
        ('http://shop.test/"onclick=alert(1)', False),
        ("ftp://shop.test/", False),
    ],
)
def test_a_url_is_a_link_if_it_is_safe_to_open(url, opens):
    html = page_of(of_urls(url, url + "#x"))
    found = document_fromstring(html).xpath("//*[@data-table='patterns']//a/@href")
    assert found == ([url, url + "#x"] if opens else [])


def of_urls(*urls):
    return from_logs([Observation(url, 200, "A") for url in urls], Normalizer("safe"), title="")


def test_of_very_many_rows_the_first_are_shown():
    html = page_of(of_urls(*(f"http://h{number}.test/" for number in range(1_234))))
    assert len(tables(html)["hosts"]) == MAX_ROWS
    assert "those with most requests first: the first 1,000 of 1,234" in html


@settings(max_examples=50)
@given(st.lists(st.tuples(st.text(), st.sampled_from("ABC")), max_size=8))
def test_any_rows_make_a_page(rows):
    observations = [Observation(url, 200, content) for url, content in rows]
    html = page_of(from_logs(observations, Normalizer("aggressive"), title="any"))
    assert len(tables(html).get("hosts", ())) <= len(rows)
    assert f"<dd>{len(rows)}</dd>" in html


def test_the_page_asks_no_server():
    """It has a policy that forbids it, with our script as the only one, and no address in it."""
    html = page_of(of(("/a?password=hunter2", "A"), ("/b?password=hunter2", "A")))
    assert "hunter2" not in html
    assert "default-src 'none'" in html
    assert not re.search(r"\b(?:src|href)=\"(?!#)", html)
    assert "unsafe-inline'; script-src 'sha256-" in html
