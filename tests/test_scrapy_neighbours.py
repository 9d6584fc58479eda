"""Packages that people run Scrapy with: in a real project, each page is still fetched once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
import urllib.parse
import urllib.request
from importlib.util import find_spec

import pytest
from loopback import Reply, Site, page
from redis_server import free_port
from scrapy.settings import default_settings

BROWSER = shutil.which("chromium") or ""
LINKS = ("/a", "/a#top", "/a?utm_source=mail", "/b?x=1&y=2", "/b?y=2&x=1")
PAGES = ["/", "/a", "/b?x=1&y=2"]

SPIDER = """
import scrapy

class Follow(scrapy.Spider):
    name = "follow"

    def __init__(self, url, **kwargs):
        super().__init__(**kwargs)
        self.url = url

    async def start(self):
        yield scrapy.Request(self.url, meta=self.settings.getdict("META"))

    def parse(self, response):
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, meta=self.settings.getdict("META"))
        yield {"url": response.url}
"""
MONITORS = """
from spidermon import Monitor, MonitorSuite, monitors

@monitors.name("duplicates")
class Duplicates(Monitor):
    @monitors.name("a request was saved")
    def test_a_request_was_saved(self):
        self.assertEqual(self.data.stats["urlnorm/saved"], 1)

class AtTheEnd(MonitorSuite):
    monitors = [Duplicates]
"""
SCRAPYD = """
[settings]
shop = shop.settings

[scrapyd]
http_port = {port}
poll_interval = 0.1
"""


def shop(url):
    path = url.removeprefix("http://").partition("/")[2]
    if path == "favicon.ico":
        return Reply(404)
    return page(path or "home", *(LINKS if not path else ()))


@pytest.fixture
def site():
    with Site(shop) as running:
        yield running


class Project:
    """A Scrapy project on disk, as ``scrapy startproject`` leaves one, with one line of ours."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "shop" / "spiders").mkdir(parents=True)
        self.write("scrapy.cfg", "[settings]\ndefault = shop.settings\n")
        self.write("shop/__init__.py", "")
        self.write("shop/spiders/__init__.py", "")
        self.write("shop/spiders/follow.py", SPIDER)
        self.set()

    def write(self, name, text):
        (self.folder / name).write_text(textwrap.dedent(text), encoding="utf-8")

    def set(self, **settings):
        settings = {
            "BOT_NAME": "shop",
            "SPIDER_MODULES": ["shop.spiders"],
            "ADDONS": {"scrapy_urlnorm.Addon": 900},
            "ROBOTSTXT_OBEY": False,
            "DOWNLOAD_DELAY": 0,
            "TELNETCONSOLE_ENABLED": False,
            **settings,
        }
        lines = [f"{name} = {value!r}" for name, value in settings.items()]
        self.write("shop/settings.py", "\n".join(lines))

    @property
    def environment(self):
        own = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
        return {**own, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

    def crawl(self, site):
        begin = len(site.requests)
        run = subprocess.run(
            [
                *(sys.executable, "-W", "ignore", "-m", "scrapy"),
                *("crawl", "follow", "-a", f"url={site.proxy}/"),
            ],
            check=False,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert run.returncode == 0, run.stderr
        assert "finished" in run.stderr
        assert "Traceback" not in run.stderr, run.stderr
        return paths(site)[begin:], run.stderr


def paths(site):
    asked = (url.removeprefix(site.proxy) for url in site.requests)
    return [path for path in asked if path != "/favicon.ico"]


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def test_without_a_reactor(project, site):
    if not hasattr(default_settings, "TWISTED_REACTOR_ENABLED"):
        pytest.skip("this Scrapy needs a reactor")
    if find_spec("httpx") is None and find_spec("httpx2") is None:
        pytest.skip("httpx is not installed")
    project.set(TWISTED_REACTOR_ENABLED=False, JOBDIR="job", URLNORM_CRAWL_LOG="crawl.jsonl")
    asked, _ = project.crawl(site)
    assert sorted(asked) == PAGES
    assert len((project.folder / "crawl.jsonl").read_text().splitlines()) == len(PAGES)


def test_playwright(project, site):
    pytest.importorskip("scrapy_playwright")
    if not BROWSER:
        pytest.skip("chromium is not installed")
    handler = "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"
    quiet = ["--disable-gpu", "--disable-quic", "--disable-background-networking"]
    quiet += ["--no-first-run", "--disable-component-update", "--disable-sync"]
    project.set(
        DOWNLOAD_HANDLERS={"http": handler, "https": handler},
        PLAYWRIGHT_LAUNCH_OPTIONS={
            "executable_path": BROWSER,
            "args": quiet,
            "chromium_sandbox": False,
        },
        META={"playwright": True},
    )
    asked, log = project.crawl(site)
    assert sorted(asked) == PAGES
    assert "playwright/request_count" in log


def test_spidermon(project, site):
    pytest.importorskip("spidermon")
    project.write("shop/monitors.py", MONITORS)
    project.set(
        EXTENSIONS={"spidermon.contrib.scrapy.extensions.Spidermon": 500},
        SPIDERMON_ENABLED=True,
        SPIDERMON_SPIDER_CLOSE_MONITORS=["shop.monitors.AtTheEnd"],
    )
    asked, log = project.crawl(site)
    assert sorted(asked) == PAGES
    assert "a request was saved... OK" in log


def test_scrapyd(project, site):
    pytest.importorskip("scrapyd")
    port = free_port()
    project.write("scrapy.cfg", SCRAPYD.format(port=port))
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "scrapyd"],
        cwd=project.folder,
        env=project.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as server:
        try:
            following(server.stdout, f"Site starting on {port}")
            job = {"project": "shop", "spider": "follow", "url": f"{site.proxy}/"}
            answer = urllib.request.urlopen(
                f"http://127.0.0.1:{port}/schedule.json", urllib.parse.urlencode(job).encode()
            )
            assert json.load(answer)["status"] == "ok"
            following(server.stdout, "Process finished")
        finally:
            server.terminate()
    (log,) = (project.folder / "logs").rglob("*.log")
    assert "(finished)" in log.read_text()
    assert sorted(paths(site)) == PAGES


def following(lines, text):
    read = []
    for line in lines:
        read.append(line)
        if text in line:
            return line
    raise AssertionError("".join(read))
