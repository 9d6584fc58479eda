"""Rules learned during real crawls: they save requests, and never a page, and the log says so."""

from __future__ import annotations

import asyncio
import gzip

from hostile_base import article
from loopback import Follow, Reply, crawl, page, redirect
from scrapy import Request

from scrapy_urlnorm.site_rules import load_site_rules
from scrapy_urlnorm.stores import RULES_NAME

WWW = "http://www.shop.test"
BARE = "http://shop.test"
HOME = WWW + "/"
ADDON = {"ADDONS": {"scrapy_urlnorm.crawl.addon.Addon": 900}, "CONCURRENT_REQUESTS": 1}
#: For tests that count rules: equal pages would teach one more.
REDIRECTS = {**ADDON, "URLNORM_LEARN": "redirects"}
COUNT = 80
LINKS = [f"{host}/{n}" for n in range(COUNT) for host in (BARE, WWW)]
TRACKED = [*LINKS, *(f"{WWW}/{n}?utm_source=home" for n in range(10))]


def shop(links=LINKS):
    """Pages that are linked to under two host names; one redirects to the other."""

    def answer(url):
        if url.startswith(BARE):
            return redirect(url.replace(BARE, WWW))
        if url == HOME:
            return article("home", *links)
        return article(url, *links[:20])

    return answer


def test_the_summary_says_what_was_saved(tmp_path):
    stock = crawl(shop(TRACKED), [HOME], {"CONCURRENT_REQUESTS": 1})
    result = crawl(shop(TRACKED), [HOME], {**ADDON, "JOBDIR": str(tmp_path / "job")})
    saved = result.stats["urlnorm/saved"]
    sent = len(result.requests)
    assert saved == len(stock.requests) - sent
    assert (
        f"This crawl sent {sent} requests; stock Scrapy would have sent at least {sent + saved}."
        in result.log
    )
    assert "sent to test what was learned; none of them found another page" in result.log
    (line,) = [line for line in result.log.splitlines() if "Learned on " in line]
    assert "permanent redirects say so, such as http://" in line


def test_without_learning_the_summary_speaks_of_the_profile():
    result = crawl(shop(TRACKED), [HOME], {**ADDON, "URLNORM_LEARN": "off"})
    assert result.stats["urlnorm/saved"] == 10
    assert "First request saved by a rule" in result.log


def test_robots_files_say_nothing_about_pages():
    """A robots.txt is served under every name of a host; it neither learns nor is dropped."""
    inner = shop()
    asked = []

    def answer(url):
        if url.endswith("/robots.txt"):
            asked.append(url)
            return Reply(200, b"User-agent: *\nDisallow: /3\n", {"Content-Type": "text/plain"})
        return inner(url)

    result = crawl(answer, [HOME], {**REDIRECTS, "ROBOTSTXT_OBEY": True})
    assert sorted(asked) == [f"{BARE}/robots.txt", f"{WWW}/robots.txt"]
    assert result.stats["urlnorm/learned/rules"] == 1
    assert result.stats["robotstxt/forbidden"] >= 11
    assert not [name for name in result.pages if name.startswith(f"{WWW}/3")]


class Lambdas(Follow):
    """Requests with callbacks that no queue on disk could keep."""

    def parse(self, response):
        for request in super().parse(response):
            if isinstance(request, Request):
                request = request.replace(callback=lambda response: self.parse(response))
            yield request


def test_a_request_that_cannot_be_written_down_is_not_suppressed():
    """What could not be requeued is sent: the rule saves nothing then, and loses nothing."""
    settings = {**ADDON, "URLNORM_LEARN": {"pairs": 0}}
    result = crawl(shop(), [HOME], settings, spider="test_scrapy_learning.Lambdas")
    assert set(result.pages) == {"home", *(f"{WWW}/{n}" for n in range(COUNT))}
    assert "learned/suppressed" not in result.counts
    assert len(result.requests) <= 1 + 2 * COUNT


class Fed(Follow):
    """Its ``start()`` waits for what may never come: here, until all pages have."""

    async def start(self):
        heartbeat = self.crawler.engine._slot.heartbeat  # of five seconds
        heartbeat.stop()
        heartbeat.start(0.05)
        yield Request(HOME)
        self.missing, self.is_over = {f"/{n}" for n in range(COUNT)}, asyncio.Event()
        await self.is_over.wait()

    def parse(self, response):
        yield from super().parse(response)
        self.missing.discard(response.url.removeprefix(WWW).partition("?")[0])
        if not self.missing:
            self.is_over.set()


def test_what_waits_is_sent_while_the_spider_waits_for_something_else():
    """Most pages are one, so others like them wait until the crawl has nothing else to do."""
    links = [f"/{n}?p={n}" for n in range(COUNT)]

    def answer(url):
        return article("home", *links) if url == HOME else article(f"{WWW}/wall")

    settings = {**ADDON, "URLNORM_LEARN": {"pairs": 0}, "CLOSESPIDER_TIMEOUT": 100}
    result = crawl(answer, [HOME], settings, spider="test_scrapy_learning.Fed")
    assert result.counts["learned/deferred"] > 0
    assert result.reason == "finished"


def test_a_damaged_file_of_learned_rules_stops_the_start(tmp_path):
    """The crawl says at its start what is wrong with the file, and leaves it alone."""
    path = tmp_path / RULES_NAME
    path.write_text("[[rule]]\nsite = 7\n")
    result = crawl(shop(), [HOME], {**ADDON, "JOBDIR": str(tmp_path)})
    assert result.requests == []
    assert result.error.startswith("SiteRuleError")
    assert str(path) in result.error
    assert path.read_text() == "[[rule]]\nsite = 7\n"


# --- robots.txt -----------------------------------------------------------------------------

#: Every page under three URLs that differ in a parameter.
VIEWS = [f"{WWW}/p{n}{query}" for n in range(20) for query in ("", "?ref=a", "?ref=b")]


def robots(url):
    """Pages on which ``ref`` means nothing, and a robots.txt that says so."""
    if url.endswith("/robots.txt"):
        headers = {"Content-Type": "text/plain", "Content-Encoding": "gzip"}
        return Reply(200, gzip.compress(b"Clean-param: ref\n"), headers)
    if url == HOME:
        return page("home", *VIEWS)
    return page(f"article {url.removeprefix(WWW).partition('?')[0][2:]}")


def test_what_robots_txt_says_is_tried_and_applied(tmp_path):
    result = crawl(robots, [HOME], {**ADDON, "ROBOTSTXT_OBEY": True, "JOBDIR": str(tmp_path)})
    assert set(result.pages) == {"home", *(f"article {n}" for n in range(20))}
    assert len(result.pages) < len(VIEWS) - 5
    assert "Learned on www.shop.test: The parameter ref means nothing (" in result.log
    assert "robots.txt says so, and 3 pages had the same content under two URLs" in result.log
    (rule,) = load_site_rules(tmp_path / RULES_NAME)
    assert (rule.source, rule.status) == ("robots", "active")
