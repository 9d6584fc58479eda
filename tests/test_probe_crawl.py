"""``scrapy urlnorm mine --probe``: real crawls of sites on which a proposed rule holds, or not."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from cli_runner import Runner
from loopback import Reply, Site

from scrapy_urlnorm import load_site_rules
from scrapy_urlnorm.crawl.probe import MOST_REQUESTS

HERE = Path(__file__).resolve().parent
PAGES = 45  #: of a site, each with a value of the parameter
KNOWN = 5  #: of them stand in the log without it too: too few to prove anything

_counter = itertools.count()


def text(number, more=""):
    """A page that is no login wall and no empty shell."""
    body = f"<h1>Thing {number}</h1><p>All about thing {number}, as said before. {more}</p>"
    return Reply(200, f"<html><body>{body}</body></html>".encode(), {"Content-Type": "text/html"})


def colour_is_noise(number, colour):
    """The rule holds."""
    return text(number)


def colour_selects(number, colour):
    """It does not, but for the pages in the log."""
    return text(number, colour if number >= KNOWN else "")


def pages_change(number, colour):
    """Nobody can tell."""
    return text(number, f"ticket {next(_counter):x}z{time.monotonic_ns():x}")


def pages_fail(number, colour):
    """Nor here."""
    return Reply(500, b"sorry")


def prints_its_name(number, colour):
    """The rule holds; the page has a permanent URL, which is neither of the two."""
    name = (
        f"http://names.test/thing/{number}?colour={colour}" if colour else "http://names.test/of/it"
    )
    words = "and so many words that it is known by them, whatever else there is to be read on it"
    return text(number, f"This is page {number}, {words}: Retrieved from {name} today.")


def one_page(number, colour):
    """All URLs show one page: a login, say. It has one vote."""
    return text("everybody")


SITES = {
    "noise.test": (colour_is_noise, "active"),
    "selects.test": (colour_selects, "rejected"),
    "changes.test": (pages_change, "proposed"),
    "fails.test": (pages_fail, "proposed"),
    "forbidden.test": (colour_is_noise, "proposed"),
    "names.test": (prints_its_name, "active"),
    "one.test": (one_page, "proposed"),
}


def answer(url):
    """What the sites answer."""
    parts = urlsplit(url)
    host, number = parts.hostname, parts.path.rpartition("/")[2]
    if parts.path == "/robots.txt":
        rule = "/" if host == "forbidden.test" else "/nothing"
        return Reply(200, f"User-agent: *\nDisallow: {rule}\n".encode())
    return SITES[host][0](int(number), parse_qs(parts.query).get("colour", [""])[0])


@pytest.fixture
def project(tmp_path):
    """A project, and a log that leaves a rule open for each site."""
    rows = []
    for host in SITES:
        for number in range(PAGES):
            row = {"status": 200, "mime": "text/html", "text_digest": f"{host}{number}"}
            rows.append({**row, "url": f"http://{host}/thing/{number}?colour=c{number % 7}"})
            if number < KNOWN:
                rows.append({**row, "url": f"http://{host}/thing/{number}"})
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    info = tmp_path / "installed-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: installed\nVersion: 0\n")
    (info / "entry_points.txt").write_text(
        "[scrapy.commands]\nurlnorm = scrapy_urlnorm.crawl.command:UrlNormCommand\n"
    )
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = shop_settings\n")
    return tmp_path


def mine(project, site, *arguments, **more):
    """Run the command in the project; what it printed, and its exit code."""
    settings = {
        "ADDONS": {"scrapy_urlnorm.Addon": 900},
        "ROBOTSTXT_OBEY": True,
        "RETRY_ENABLED": False,
        "DOWNLOAD_DELAY": 0,
        "DOWNLOADER_MIDDLEWARES": {"loopback.ViaSite": 740},
        "LOOPBACK_PROXY": site.proxy,
        "TELNETCONSOLE_ENABLED": False,
        "DEPTH_LIMIT": 2,
        "ITEM_PIPELINES": {"nowhere.Pipeline": 1},
        "SCHEDULER": "scrapy_urlnorm.SharedScheduler",
        "URLNORM_STORE": "memory",
        **more,
    }
    lines = [f"{name} = {value!r}\n" for name, value in settings.items()]
    (project / "shop_settings.py").write_text("".join(lines))
    return subprocess.run(
        [sys.executable, "-m", "scrapy", "urlnorm", "mine", "--probe", *arguments],
        cwd=project,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(project), str(HERE), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def test_rules_are_decided_by_pages_and_only_beyond_doubt(project):
    with Site(answer) as site:
        done = mine(project, site, "log.jsonl", "-o", "rules.toml")
    assert done.returncode == 0, done.stderr
    rules = {rule.site.removeprefix("*."): rule for rule in load_site_rules(project / "rules.toml")}
    assert {host: rule.status for host, rule in rules.items()} == {
        host: status for host, (_, status) in SITES.items()
    }
    holds = rules["noise.test"]
    assert (holds.kind, holds.support, holds.conflicts) == ("drop-param", 31, 0)
    assert holds.false_merge_upper <= 0.02
    assert "31 contents agree" in holds.note
    refuted = rules["selects.test"]
    assert refuted.conflicts == 2
    assert all(url.partition("?")[0] == twin for url, twin in refuted.examples)
    assert "2 active now, 1 rejected, 4 still proposed" in done.stderr
    asked = [url for url in site.requests if "robots" not in url]
    by_host = {host: [url for url in asked if urlsplit(url).hostname == host] for host in SITES}
    assert by_host["forbidden.test"] == []
    assert len(by_host["noise.test"]) == 31 * 2
    assert len(by_host["selects.test"]) <= 40
    assert max(map(len, by_host.values())) <= MOST_REQUESTS
    numbers = [urlsplit(url).path for url in by_host["noise.test"]]
    assert len([number for number, _ in itertools.groupby(numbers)]) == 31  # back to back


def test_what_no_crawl_can_run_with_is_an_error(project):
    broken = {"DOWNLOADER_MIDDLEWARES": {"nowhere.Middleware": 740}}
    with Site(answer) as site:
        done = mine(project, site, "log.jsonl", "-o", "rules.toml", **broken)
        twice = mine(project, site, "-")
    assert (twice.returncode, twice.stdout) == (2, "")
    assert "reads the logs twice" in twice.stderr
    assert done.returncode == 2
    assert "no crawl with the settings of this project" in done.stderr
    assert "nowhere" in done.stderr
    assert not (project / "rules.toml").exists()


def test_outside_a_project_it_says_what_it_needs(project, capfdbinary, monkeypatch):
    code, out, err = Runner(capfdbinary, monkeypatch)("mine", "--probe", str(project / "log.jsonl"))
    assert (code, out) == (2, "")
    assert "inside" in err
    assert "scrapy urlnorm mine --probe" in err
