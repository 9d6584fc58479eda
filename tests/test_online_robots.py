"""What robots.txt says, or a rule file proposes, is tried on the pages that arrive, in every mode."""

from __future__ import annotations

import pytest
from online_parts import BARE, WWW, crawls, page_of
from scrapy import Request
from scrapy.http import Response
from twisted.internet import defer

from scrapy_urlnorm.crawl import miner
from scrapy_urlnorm.crawl.online import mining, safe_points
from scrapy_urlnorm.learning.mined import mined
from scrapy_urlnorm.site_rules import SiteRule, save_site_rules

LINE = b"Clean-param: ref&pos /a/\n"


@pytest.fixture
def begin(monkeypatch):
    """Begins a crawl whose sites are mined where it stands."""
    monkeypatch.setattr(safe_points, "STEPS", 10**6)
    monkeypatch.setattr(miner, "deferred_from_coro", defer.Deferred.fromCoroutine)
    monkeypatch.setattr(miner, "_in_thread", lambda _, job: defer.succeed(mined(job)))
    with crawls() as begin:
        yield begin


def tell(parts, url=f"{BARE}/robots.txt", body=LINE):
    parts.learner.robots_txt(Request(url), Response(url, body=body))


def see_twins(parts, base=BARE, name="ref", count=3, first=0):
    """Fetch pages, and each under another URL."""
    for n in range(first, first + count):
        for query in ("", f"?{name}={n}"):
            parts.fetch(f"{base}/a/{n}{query}", f"page {n}")


def names(parts):
    return sorted(rule.param[0] for rule in parts.in_force())


@pytest.mark.parametrize("learn", ["redirects", "content"])
def test_three_contents_put_it_in_force(begin, learn, caplog):
    """And the next twins are suppressed, but for audits, of which nothing new is learned."""
    caplog.set_level("INFO")
    parts = begin(URLNORM_LEARN=learn)
    tell(parts)
    see_twins(parts)
    assert names(parts) == ["ref"]
    assert "robots.txt says so, and 3 pages had the same content under two URLs" in caplog.text
    minings = parts.stats["minings"]
    see_twins(parts, count=60, first=3)
    assert parts.stats["suppressed"] > 30
    assert parts.stats["minings"] == minings
    assert parts.stats["audits_agreed"] == parts.stats["audits"] > 0


def test_a_site_that_a_process_mines_is_not_mined_beside_it(begin, monkeypatch):
    """The answer of the process, which has seen less, would retract what is found meanwhile."""
    jobs, answer = [], defer.Deferred()
    monkeypatch.setattr(miner, "_in_thread", lambda _, job: jobs.append(job) or answer)
    parts = begin(URLNORM_LEARN="content")
    see_twins(parts)
    tell(parts)
    see_twins(parts, first=3)
    monkeypatch.setattr(miner, "_in_thread", lambda _, job: defer.succeed(mined(job)))
    answer.callback(mined(*jobs))
    parts.learner.work()
    parts.learner.work()  # what came meanwhile is mined next
    assert (names(parts), parts.stats["retracted"]) == (["ref"], 0)


def test_without_robots_txt_pages_are_not_compared_in_the_mode_redirects(begin):
    """Nor with one that names another host, or is none."""
    parts = begin()
    for url in (f"{BARE}/a/robots.txt", f"{BARE}/x.png", "http://other.test/robots.txt"):
        tell(parts, url)
    see_twins(parts, count=20)
    assert (parts.learner.rules, parts.stats["minings"]) == ((), 0)


def test_each_host_of_a_site_speaks_for_itself(begin):
    """Whatever the file of another host says, and whichever came first."""
    parts = begin()
    tell(parts, body=b"Clean-param: pos")
    tell(parts, f"{WWW}/robots.txt", LINE)
    tell(parts, f"{BARE.replace('http', 'https')}/robots.txt", b"Clean-param: ref")
    see_twins(parts, WWW)
    see_twins(parts, BARE, "ref", first=10)
    see_twins(parts, BARE, "pos", first=20)
    assert [(rule.site, rule.param[0]) for rule in parts.in_force()] == [
        ("shop.test", "pos"),
        ("www.shop.test", "ref"),
    ]


def test_what_an_audit_refutes_is_not_proved_by_the_same_pages_again(begin):
    """What it suppressed is sent; the other parameter is tried all the same."""
    parts = begin()
    tell(parts)
    see_twins(parts, count=60)
    held = parts.held()
    assert held

    def download(request):
        number, query, _ = request.url.rpartition("/")[2].partition("?ref=1")
        return page_of(request, f"{'other' if query else 'page'} {number}")

    parts.download = download
    for number in range(1000, 1100):
        if not parts.stats["audits_differed"]:
            parts.fetch(f"{BARE}/a/{number}", f"page {number}")
            parts.fetch(f"{BARE}/a/{number}?ref=1", f"other {number}")
    parts.learner.work()
    assert (names(parts), parts.stats["retracted"]) == ([], 1)
    assert set(held) <= set(parts.queued())
    parts.queue.clear()
    see_twins(parts, name="pos", count=40, first=100)
    assert names(parts) == ["pos"]


def test_candidates_are_bounded(begin, monkeypatch):
    """Further sites, and further hosts of a site, have none."""
    monkeypatch.setattr(mining, "MAX_SITES_WITH_CANDIDATES", 1)
    monkeypatch.setattr(mining, "MAX_CANDIDATES", 2)
    parts = begin()
    bases = BARE, WWW, "http://other.test"
    for base in bases:
        tell(parts, f"{base}/robots.txt")
    for number, base in enumerate(bases):
        see_twins(parts, base, count=5, first=10 * number)
    assert [rule.site for rule in parts.learner.rules] == ["shop.test"]


@pytest.fixture
def proposed(tmp_path):
    """The settings of a crawl whose rule file proposes to drop a parameter."""
    rule = SiteRule(site="*.shop.test", kind="drop-param", param="pos", status="proposed")
    save_site_rules(tmp_path / "rules.toml", [rule])
    return {
        "URLNORM_SITE_RULES": [str(tmp_path / "rules.toml")],
        "URLNORM_LEARN": {"mode": "redirects", "defer": False},
    }


def test_a_rule_that_a_file_proposes_is_tried(begin, proposed, caplog):
    """It needs as many contents as the miner does; then audits test it."""
    caplog.set_level("INFO")
    parts = begin(**proposed)
    see_twins(parts, name="pos", count=3)
    assert names(parts) == []
    see_twins(parts, name="pos", count=100, first=3)
    assert names(parts) == ["pos"]
    assert "a rule file proposes it, and 9 pages had the same content" in caplog.text
    assert parts.stats["suppressed"] > 30
    assert parts.stats["audits_agreed"] == parts.stats["audits"] > 0


def test_a_proposed_rule_that_two_pages_refute_is_not_taken(begin, proposed):
    parts = begin(**proposed)
    parts.fetch(f"{BARE}/a/x?pos=1", "page x")
    parts.fetch(f"{BARE}/a/x?pos=2", "another page")
    see_twins(parts, name="pos", count=100)
    assert names(parts) == []
