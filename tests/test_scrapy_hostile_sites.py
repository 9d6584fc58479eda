"""Hostile sites in real crawls: whatever part of Scrapy has the answer, no page is lost.

What the answers themselves can be is a matter of simulated crawls: `test_simulation`.
"""

from __future__ import annotations

import hostile_sites
import pytest
from hostile_base import IN_ORDER, WWW, article, visit
from hostile_sites import Honest
from hostile_spiders import TOP
from loopback import crawl, mostly_long

OFF = {"URLNORM_LEARN": "off"}
SITES = [
    hostile_sites.HttpStartsFailing404,
    hostile_sites.TwinIsFetchedAside,
    hostile_sites.TwinIsAFile,
    hostile_sites.TwinIsReadForItsHeaders,
    hostile_sites.SpiderMiddlewareRefusesTwin,
    hostile_sites.SpiderFollowsRedirects,
    hostile_sites.TwinGoesOnByMeta,
    hostile_sites.TwinIsOffsite,
]


def faults(kind, folder, **settings):
    """What is wrong with a crawl of the site that learns, beside one that does not."""
    without = visit(kind(), folder / "off", **{**settings, **OFF})
    assert without.error is None
    assert without.reason == "finished"
    assert kind().wanted <= set(without.pages)
    learning = visit(kind(), folder / "on", **settings)
    if learning.error:
        return [learning.error]
    found = []
    if set(without.pages) != set(learning.pages):
        found.append(f"lost or new: {sorted(set(without.pages) ^ set(learning.pages))[:3]}")
    if learning.reason != "finished":
        found.append(f"ended with {learning.reason!r}")
    loggers = {line.split()[1] for line in serious(without)}
    if errors := [line for line in serious(learning) if line.split()[1] not in loggers]:
        found.append(f"{len(errors)} errors in the log: {errors[:2]}")
    found += [
        f"{learning.stats[stat]} {stat}: of requests that were suppressed?"
        for stat in ("errback/IgnoreRequest", "spider_exceptions/count")
        if learning.stats.get(stat, 0) > without.stats.get(stat, 0)
    ]
    # Every audit is a request that learning off sends too. Some pages are fetched again, to see
    # what of them changes by itself.
    # Counted by Scrapy: below it a request is repeated when a connection that was kept is dropped.
    sent, sent_without = (
        crawl.stats.get("downloader/request_count", 0) for crawl in (learning, without)
    )
    again = learning.stats.get("urlnorm/learned/second_fetches", 0)
    if again > 20 or sent - again > sent_without:
        found.append(f"{sent} requests instead of {sent_without}, {again} of them again")
    return found


def serious(result):
    """The log lines that tell of a fault."""
    return [line for line in result.log.splitlines() if line.startswith(("ERROR", "CRITICAL"))]


@pytest.mark.parametrize("kind", mostly_long(SITES, of=2))
def test_no_page_is_lost(kind, tmp_path):
    """One request after the other: twins first, then their pages."""
    assert faults(kind, tmp_path) == []


@pytest.mark.long
def test_no_page_is_lost_where_requests_are_rewritten(tmp_path):
    settings = {"URLNORM_REWRITE_REQUESTS": True}
    assert faults(hostile_sites.HttpStartsFailing404, tmp_path, **settings) == []


@pytest.mark.parametrize("jobdir", [False, True], ids=["", "JOBDIR"])
def test_what_is_suppressed_calls_nobody(jobdir, tmp_path):
    """On an honest site learning holds requests, and no errback hears of it."""
    more = {"JOBDIR": str(tmp_path / "job")} if jobdir else {}
    without = visit(Honest(), tmp_path, **OFF)
    learning = visit(Honest(), tmp_path, **more)
    assert set(learning.pages) == set(without.pages)
    assert learning.counts["learned/suppressed"] >= len(Honest().victims) // 2
    assert [stat for stat in learning.stats if stat.startswith("errback/")] == []
    assert learning.stats["spider_callbacks"] == len(learning.pages)


def items_of_a_shop(**settings):
    """Crawl 120 pages with two URLs each; return what came of it, and which are missing.

    Half come under TOP first.
    """
    pages = [f"{WWW}/item/{number}" for number in range(120)]
    links = []
    for number, page in enumerate(pages):
        links += [page + TOP, f"{page}?ref={number}"][:: 1 if number % 2 else -1]
    answers = {WWW + "/": article("home", *links)}
    answers |= {url: article(url.partition("?")[0]) for url in links}
    settings = {**IN_ORDER, **settings}
    found = crawl(answers, [WWW + "/"], settings, spider="hostile_spiders.YieldsItems")
    assert found.stats["urlnorm/learned/rules"]  # or nothing is tested here
    return found, {"home", *pages} - {*found.pages}


@pytest.mark.parametrize("kind", mostly_long(["DropsTops", "FailsWithTops"], of=2))
def test_a_page_whose_item_a_pipeline_loses_stands_for_no_other(kind):
    """The project takes the items of one spelling alone: it gets them, whichever comes first."""
    pipelines = {f"hostile_spiders.{kind}": 50, "loopback.Collect": 100}
    assert items_of_a_shop(ITEM_PIPELINES=pipelines)[1] == set()


def test_an_item_that_a_pipeline_drops_under_each_url_changes_nothing():
    pipelines = {"hostile_spiders.DropsAll": 50, "loopback.Collect": 100}
    found, _ = items_of_a_shop(ITEM_PIPELINES=pipelines)
    assert "urlnorm/learned/retracted" not in found.stats
    assert found.stats["urlnorm/learned/held_at_end"] > 20
