"""What a real crawl says of its learning, and what it learns from robots.txt."""

from __future__ import annotations

import gzip

import pytest
from loopback import Reply, Site, crawl, page, redirect

from scrapy_urlnorm.site_rules import load_site_rules
from scrapy_urlnorm.stores import RULES_NAME

WWW = "http://www.shop.test"
BARE = "http://shop.test"
HOME = WWW + "/"
ADDON = {"ADDONS": {"scrapy_urlnorm.crawl.addon.Addon": 900}, "CONCURRENT_REQUESTS": 1}
COUNT = 60


def aliased(url):
    """A site with two names, of which one redirects to the other, and with tracking links."""
    if url.startswith(BARE):
        return redirect(url.replace(BARE, WWW))
    links = [f"{host}/{n}" for n in range(COUNT) for host in (BARE, WWW)]
    tracked = [f"{WWW}/{n}?utm_source=home" for n in range(10)]
    return page(url.partition("?")[0], *links, *tracked) if url == HOME else page(url)


@pytest.mark.parametrize("jobdir", [False, True])
def test_the_summary_says_what_was_saved(jobdir, tmp_path):
    with Site(aliased) as stock:
        crawl(stock, [HOME], {"CONCURRENT_REQUESTS": 1})
    settings = {**ADDON, "JOBDIR": str(tmp_path / "job")} if jobdir else ADDON
    with Site(aliased) as site:
        result = crawl(site, [HOME], settings)
    saved = result.stats["urlnorm/saved"]
    sent = len(site.requests)
    assert saved == len(stock.requests) - sent
    assert (
        f"This crawl sent {sent} requests; stock Scrapy would have sent {sent + saved}."
        in result.log
    )
    assert "sent to test what was learned; none of them found another page" in result.log
    (line,) = [line for line in result.log.splitlines() if "Learned on " in line]
    assert "permanent redirects say so, such as http://" in line


def test_without_learning_the_summary_speaks_of_the_profile():
    with Site(aliased) as site:
        result = crawl(site, [HOME], {**ADDON, "URLNORM_LEARN": "off"})
    assert result.stats["urlnorm/saved"] == 10
    assert "First request saved by a rule" in result.log


# --- robots.txt -----------------------------------------------------------------------------

#: Every page under three URLs that differ in a parameter.
LINKS = [f"{WWW}/p{n}{query}" for n in range(20) for query in ("", "?ref=a", "?ref=b")]


def robots(url):
    """Pages on which ``ref`` means nothing, and a robots.txt that says so."""
    if url.endswith("/robots.txt"):
        headers = {"Content-Type": "text/plain", "Content-Encoding": "gzip"}
        return Reply(200, gzip.compress(b"Clean-param: ref\n"), headers)
    if url == HOME:
        return page("home", *LINKS)
    return page(f"article {url.removeprefix(WWW).partition('?')[0][2:]}")


def test_what_robots_txt_says_is_tried_and_applied(tmp_path):
    with Site(robots) as site:
        result = crawl(site, [HOME], {**ADDON, "ROBOTSTXT_OBEY": True, "JOBDIR": str(tmp_path)})
    assert set(result.pages) == {"home", *(f"article {n}" for n in range(20))}
    assert len(result.pages) < len(LINKS) - 5
    assert "Learned on www.shop.test: The parameter ref means nothing (" in result.log
    assert "robots.txt says so, and 3 pages had the same content under two URLs" in result.log
    (rule,) = load_site_rules(tmp_path / RULES_NAME)
    assert (rule.source, rule.status) == ("robots", "active")
