"""What is no HTML: what mining says of it, and a crawl in which audits of it differ."""

from __future__ import annotations

import pytest
from loopback import Reply, crawl

from scrapy_urlnorm import SiteRule, save_site_rules
from scrapy_urlnorm.learning.media import FILES_ALONE, OF_FILE, OnFiles
from scrapy_urlnorm.learning.mined import mined, on_files
from scrapy_urlnorm.learning.worker import Job
from scrapy_urlnorm.logs import Observation
from scrapy_urlnorm.stores import RULES_NAME

SITE = "files.test"
BARE = f"http://{SITE}"
VIA = SiteRule(
    site=SITE, kind="drop-param", param="via", source="content", support=500, conflicts=0
)
VIA_ELSEWHERE = SiteRule(site="other.test", kind="drop-param", param="via")


def body(name, size=1_000):
    return (name.encode() * size)[:size]


# --- what mining says of files -------------------------------------------------------------------


def rows(number, name, is_file=True, odd=()):
    """So many contents under four URLs each, in one folder; those *odd* are others under each."""
    mark = OF_FILE if is_file else ""
    return [
        (f"{BARE}/in/{name}{n}{via}", 200, f"{mark}{name} {n} {via if n in odd else ''}", None)
        for n in range(number)
        for via in ("", "?via=a", "?via=b", "?via=c")
    ]


PAGES = rows(100, "page", is_file=False)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (PAGES, None),
        (PAGES + rows(5, "file"), OnFiles(5, 0, is_alone=False)),
        (rows(30, "file"), OnFiles(30, 0, is_alone=True)),
        (PAGES + rows(50, "file"), OnFiles(50, 0, is_alone=False)),
    ],
)
def test_the_miner_says_what_files_say(rows, expected):
    """By the rules of a job: contents that agree, groups that differ, and whether files are all."""
    answer = mined(Job(SITE, rows, (), {}))
    [rule] = answer.rules
    assert answer.on_files.get(rule.identity) == expected


def observed(rows):
    return [Observation(url, status, content, mime="") for url, status, content, _ in rows]


def test_files_say_whether_they_are_one():
    """Of rules that do not act on them, nothing."""
    found = on_files([VIA], observed(rows(9, "file", odd=(1, 2))))
    assert found == {VIA.identity: OnFiles(7, 2)}
    assert on_files([VIA_ELSEWHERE], observed(rows(9, "file"))) == {}
    assert on_files([VIA], []) == on_files([], observed(rows(9, "file"))) == {}


def test_that_files_alone_have_proved_a_rule_goes_with_it():
    """To the next crawl, until pages prove it too."""
    [rule] = mined(Job(SITE, rows(30, "file"), (), {})).rules
    assert rule.note == FILES_ALONE
    [rule] = mined(Job(SITE, rows(30, "file") + PAGES, (rule,), {})).rules
    assert rule.note is None


# --- a real crawl --------------------------------------------------------------------------------

NUMBER, NAMES = 40, ("", "?via=a", "?via=b", "?via=c")


def shop(url):
    """Pages and documents under four names each; tables that are others under each name."""
    path, _, query = url.removeprefix(f"{BARE}/").partition("?")
    kind = path.partition("/")[0]
    if kind == "doc":
        return Reply(200, body(path), {"Content-Type": "application/pdf"})
    if kind == "table":
        return Reply(200, body(f"{path} {query}"), {"Content-Type": "text/csv"})
    kinds = () if path else ("item", "doc", "table")
    links = [f"/{kind}/{n}{name}" for kind in kinds for n in range(NUMBER) for name in NAMES]
    anchors = "".join(f'<a href="{link}">.</a>' for link in links)
    text = f"<html><body><h1>this is {path}</h1>{anchors}</body></html>"
    return Reply(200, text.encode(), {"Content-Type": "text/html"})


def test_a_rule_of_pages_spares_documents_and_loses_no_table(tmp_path):
    """The first audit of a table takes the rule back for all files, documents too.

    Another one may be under way by then, if the crawl is slow.
    """
    save_site_rules(tmp_path / RULES_NAME, [VIA])
    settings = {
        "ADDONS": {"scrapy_urlnorm.Addon": 900},
        "URLNORM_LEARN": "content",
        "JOBDIR": str(tmp_path),
        "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
        "CONCURRENT_REQUESTS": 1,
    }
    result = crawl(shop, [f"{BARE}/"], settings=settings)
    asked = [url.removeprefix(f"{BARE}/") for url in result.requests]
    sent = {
        kind: {url for url in asked if url.startswith(kind)} for kind in ("item", "doc", "table")
    }
    assert len({url.partition("?")[0] for url in sent["item"]}) == NUMBER
    assert len(sent["item"]) < 3 * NUMBER
    assert len(sent["table"]) == len(sent["doc"]) == NUMBER * len(NAMES)
    assert 1 <= result.stats["urlnorm/learned/audits_differed"] < 5
    assert result.counts["learned/released"] > NUMBER
