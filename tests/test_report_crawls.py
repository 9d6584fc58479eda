"""The report of one crawl among others: one log of several crawls, resumed, killed, side by side."""

from __future__ import annotations

import re
import signal

import pytest
import scrapy
from crawl_process import start
from loopback import Site, crawl, page
from lxml.html import document_fromstring

HOST = "http://shop.test"
HOME = f"{HOST}/"
ADDON = {"ADDONS": {"scrapy_urlnorm.Addon": 900}, "CONCURRENT_REQUESTS": 1}


def shop(url):
    """A chain of 20 pages, each with a tracked twin of the next one."""
    number = int(re.sub(r"\D", "", url.partition("?")[0].removeprefix(HOST)) or 0)
    links = [f"/{number + 1}", f"/{number + 1}?utm_source=x"] if number < 20 else []
    return page(f"page {number}", *links)


def answers(path):
    text = path.read_text(encoding="utf-8")
    found = re.search(r"got ([\d,]+) answers?, and did not send ([\d,]+) requests?", text)
    return tuple(int(number.replace(",", "")) for number in found.groups())


@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz"])
def test_a_second_crawl_counts_its_own_rows(tmp_path, name):
    report, log = tmp_path / "report.html", tmp_path / name
    settings = {**ADDON, "URLNORM_REPORT": str(report), "URLNORM_CRAWL_LOG": str(log)}
    for first in (HOME, f"{HOST}/11"):
        result = crawl(shop, [first], settings)
        assert answers(report)[0] == len(result.requests)
    assert answers(report) == (10, 9)


def test_second_fetches_are_told_apart(tmp_path):
    """Answers and pages that were fetched again are together what the server sent."""
    report = tmp_path / "report.html"

    def many(url):
        number = url.removeprefix(f"{HOST}/")
        return page(f"page {number}", *(map(str, range(60)) if not number else ()))

    result = crawl(many, [HOME], {**ADDON, "URLNORM_REPORT": str(report)})
    again = re.search(r"fetched (\d+) pages again", report.read_text(encoding="utf-8"))
    assert answers(report)[0] == 61
    assert answers(report)[0] + int(again[1]) == len(result.requests)


@pytest.mark.parametrize("logs", [["one.jsonl", "one.jsonl"], ["one.jsonl", "two.jsonl.gz"], []])
def test_a_resumed_crawl_counts_all_of_its_runs(run, tmp_path, logs):
    """Whether they write one log, two, or only what the report needs; another crawl is not theirs."""
    report = tmp_path / "report.html"
    settings = {**ADDON, "URLNORM_REPORT": str(report)}
    if logs:
        crawl(shop, [HOME], {**settings, "URLNORM_CRAWL_LOG": str(tmp_path / logs[0])})
    settings["JOBDIR"] = str(tmp_path / "job")
    seen = 0
    for at in range(2):
        if logs:
            settings["URLNORM_CRAWL_LOG"] = str(tmp_path / logs[at])
        result = crawl(shop, [HOME], {**settings, "CLOSESPIDER_PAGECOUNT": 0 if at else 6})
        seen += len(result.requests)
        assert answers(report)[0] == seen
    assert seen >= 21
    done = run("report", "-o", report, tmp_path / "job", *(tmp_path / log for log in {*logs}))
    assert "wrote " in done.err
    assert answers(report)[0] == seen


def test_two_spiders_in_one_process_count_their_own_rows(tmp_path):
    """Also where both write one log, row by row."""
    settings = {
        **ADDON,
        "URLNORM_CRAWL_LOG": str(tmp_path / "log.jsonl"),
        "URLNORM_REPORT": str(tmp_path / "%(name)s.html"),
    }
    other = {"name": "b", "urls": [HOME.replace("shop", "other")]}
    with Site(shop) as site:
        process = start(site, [HOME], settings, tmp_path / "log", beside=[other], name="a")
        assert process.wait(60) == 0
    seen = [sum(f"//{host}." in url for url in site.requests) for host in ("shop", "other")]
    assert [answers(tmp_path / f"{name}.html")[0] for name in "ab"] == seen
    assert min(seen) >= 1


def about(path):
    """The line of a report about when and how its crawl ran: the texts by term."""
    (place,) = document_fromstring(path.read_text(encoding="utf-8")).xpath("//*[@class='about']")
    return {each.findtext("dt"): each.findtext("dd") for each in place.iter("div")}


def test_the_report_says_when_and_how_the_crawl_ran(tmp_path):
    """Two reports of one spider can be told apart; no password of a store is in them."""
    report = tmp_path / "report.html"
    settings = {
        **ADDON,
        "URLNORM_REPORT": str(report),
        "URLNORM_STORE": f"sqlite:{tmp_path / 'password=hunter2.sqlite'}",
        "URLNORM_PROFILE": "aggressive",
        "URLNORM_LEARN": "redirects",
    }
    for run in range(2):
        crawl(shop, [f"{HOST}/{run}"], settings)
        said = about(report)
        assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d UTC( to .*)?", said["Crawled"])
        assert re.fullmatch(r"\d+ seconds?" + " in 2 runs" * run, said["Duration"])
        assert said["Scrapy"] == scrapy.__version__
        assert said["Profile"] == "aggressive"
        assert said["Settings"] == "URLNORM_LEARN = 'redirects', URLNORM_STORE = 'sqlite'"
        assert "hunter2" not in report.read_text(encoding="utf-8")


def test_paths_have_the_placeholders_of_feeds(tmp_path):
    """Name, time and what else the spider has; a percent sign is written twice."""
    settings = {
        "URLNORM_REPORT": str(tmp_path / "%(name)s" / "%(section)s at %(time)s 100%%.html"),
        "URLNORM_CRAWL_LOG": str(tmp_path / "%(name)s" / "%(section)s at %(time)s 100%%.jsonl"),
    }
    result = crawl(shop, [HOME], {**ADDON, **settings}, section="shoes")
    [report], [log] = (list(tmp_path.glob(f"follow/s*.{kind}")) for kind in ("html", "jsonl"))
    assert re.fullmatch(r"shoes at \d{4}-\d\d-\d\dT\d\d-\d\d-\d\d 100%", report.stem)
    assert answers(report)[0] == len(result.requests) == len(log.read_text().splitlines())


@pytest.mark.parametrize("setting", ["URLNORM_REPORT", "URLNORM_CRAWL_LOG"])
@pytest.mark.parametrize("path", ["%(nam)s.html", "100%.html", "%d"])
def test_a_placeholder_that_there_is_not_is_named(tmp_path, setting, path):
    result = crawl(shop, [HOME], {**ADDON, setting: path})
    assert result.requests == []
    assert f"ConfigError: {setting} = {path!r} (" in result.error
    assert "; accepted: a path that can be written; %(name)s" in result.error


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal here")
@pytest.mark.parametrize("jobdir", [False, True])
def test_a_crawl_after_one_that_was_killed(tmp_path, jobdir):
    """What the killed one wrote counts with the job directory of both, and else not."""
    report, log = tmp_path / "report.html", tmp_path / "log.jsonl"
    settings = {"URLNORM_REPORT": str(report), "URLNORM_CRAWL_LOG": str(log)}
    if jobdir:
        settings["JOBDIR"] = str(tmp_path / "job")
    asked = []

    def answer(url):
        asked.append(url)
        if len(asked) == 12:
            killed.kill()
        return shop(url)

    with Site(answer) as site:
        killed = start(site, [HOME], {**ADDON, **settings}, tmp_path / "killed")
        assert killed.wait(60) == -signal.SIGKILL
    written = len(log.read_text().splitlines())
    assert written >= 10
    result = crawl(shop, [HOME], {**ADDON, **settings})
    assert answers(report)[0] == len(result.requests) + (written if jobdir else 0)
