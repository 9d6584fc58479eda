"""Hostile sites in real crawls: learning at its default loses no page that learning off has."""

from __future__ import annotations

from collections import Counter

import hostile_lies
import hostile_sites
import hostile_twins
import hostile_ways
import pytest
from hostile_base import AT_ONCE, IN_ORDER, RETRYING, SECTIONS, WWW, Hostile, named, visit
from hostile_spiders import Links
from loopback import Site, crawl, mostly_long, page, redirect
from scrapy.exceptions import CloseSpider

OFF = {"URLNORM_LEARN": "off"}
SITES = named(hostile_sites, hostile_twins, hostile_ways, hostile_lies)

#: Sites crawled in the other ways too: with retries, many requests at once, all in the queue.
FAILING = [
    "HttpStartsFailing503",
    "HttpStartsFailing404",
    "HttpStartsFailing429",
    "HttpDeepLinksGoHome",
    "HttpDropsConnections",
    "SlashTwinGoesHome",
    "RobotsOfTheAlias",
    "SpiderFollowsRedirects",
    "NoRedirectMiddleware",
    "SubdomainStealsPages",
    "TenantsAnswer203",
]
AT_ONCE_TOO = [
    *FAILING[1:6],
    "RobotsOfTheAlias",
    "SpiderFollowsRedirects",
    "AliasHasPagesOfItsOwn",
    "TwinAnswers204",
    "TwinAnswers206",
    "TwinIsSilent",
    "TwinIsCutShort",
    "TwinLoops",
    "TwinLeadsToItsNeighbour",
    "TwinGoesOnByMeta",
    "ChainBreaks",
    "TwinIsDroppedFirst",
    "TwinIsDroppedLast",
    "TwinIsLostOnItsWay",
    "TwinIsFetchedAside",
    "SpiderMiddlewareRefusesTwin",
    "TwinFailsOnce",
]
QUEUED_TOO = [
    "HttpStartsFailing404",
    "HttpDropsConnections",
    "HttpDeepLinksGoHome",
    "SlashTwinGoesHome",
    "RobotsOfTheAlias",
    "TenantsAnswer203",
    "TwinLeadsToItsNeighbour",
    "AliasHasPagesOfItsOwn",
    "SpiderFollowsRedirects",
    "TwinAnswers204",
    "TwinIsDroppedFirst",
    "TwinIsThePage",
    "Honest",
]


def faults(name, folder, layout="staged", *, errbacks=True, **settings):
    """What is wrong with a crawl of the site that learns, beside one that does not."""
    without, _ = visit(SITES[name](layout=layout), folder / "off", **{**settings, **OFF})
    assert without.error is None
    assert without.reason == "finished"
    assert SITES[name]().wanted <= set(without.pages)
    learning, _ = visit(SITES[name](layout=layout), folder / "on", **settings)
    if learning.error:
        return [learning.error]
    found = []
    if lost := set(without.pages) - set(learning.pages):
        found.append(f"lost {len(lost)} of {len(set(without.pages))} pages: {sorted(lost)[:3]}")
    if more := set(learning.pages) - set(without.pages):
        found.append(f"has pages that nobody else has: {sorted(more)[:3]}")
    if learning.reason != "finished":
        found.append(f"ended with {learning.reason!r}")
    if errors := [line for line in serious(learning) if line.split()[1] not in loggers(without)]:
        found.append(f"{len(errors)} errors in the log: {errors[:2]}")
    if errbacks and ignored(learning) > ignored(without):
        found.append(f"errbacks hear of {ignored(learning)} dropped requests: those suppressed?")
    if learning.stats.get("spider_exceptions/count") != without.stats.get(
        "spider_exceptions/count"
    ):
        found.append("a callback raised")
    # Every audit is a request that learning off sends too. Some pages are fetched again, to see
    # what of them changes by itself.
    # Counted by Scrapy: below it a request is repeated when a connection that was kept is dropped.
    sent, sent_without = (
        crawl.stats.get("downloader/request_count", 0) for crawl in (learning, without)
    )
    again = learning.stats.get("urlnorm/learned/second_fetches", 0)
    if again > 20:
        found.append(f"{again} pages fetched again")
    if sent - again > sent_without:
        found.append(f"{sent} requests instead of {sent_without}")
    return found


def ignored(result):
    """How often an errback heard that a request was dropped."""
    return result.stats.get("errback/IgnoreRequest", 0)


def serious(result):
    """The log lines that tell of a fault."""
    return [line for line in result.log.splitlines() if line.startswith(("ERROR", "CRITICAL"))]


def loggers(result):
    """Who tells of a fault: ``[scrapy.core.scraper]``."""
    return {line.split()[1] for line in serious(result)}


@pytest.mark.parametrize("name", mostly_long(SITES, of=5))
def test_no_page_is_lost(name, tmp_path):
    """One request after the other: twins first, then their pages."""
    assert faults(name, tmp_path) == []


@pytest.mark.long
@pytest.mark.parametrize("name", SITES)
def test_no_page_is_lost_when_contents_teach_too(name, tmp_path):
    """Rules from equal pages stand beside those from redirects."""
    assert faults(name, tmp_path, URLNORM_LEARN="content") == []


@pytest.mark.parametrize("name", FAILING)
def test_no_page_is_lost_with_retries(name, tmp_path):
    """What fails is sent again, at the end of the queue."""
    assert faults(name, tmp_path, **RETRYING) == []


@pytest.mark.long
@pytest.mark.parametrize("name", AT_ONCE_TOO)
def test_no_page_is_lost_with_many_requests_at_once(name, tmp_path):
    """A page leaves the queue while its twin is under way, whose end is not known yet."""
    assert faults(name, tmp_path, "mixed", **AT_ONCE, **RETRYING) == []


@pytest.mark.long
@pytest.mark.parametrize("layout", ["queued", "queued, pages first"])
@pytest.mark.parametrize("name", QUEUED_TOO)
def test_no_page_is_lost_that_was_queued_before_the_rule(name, layout, tmp_path):
    """Twins and pages are in the queue when the rule comes, in either order."""
    assert faults(name, tmp_path, layout) == []


@pytest.mark.parametrize("name", ["HttpStartsFailing404", "SubdomainStealsPages", "TwinLoops"])
def test_no_page_is_lost_with_scrapys_own_order(name, tmp_path):
    """Newest first, hosts in turn, sixteen at once: what Scrapy does unasked."""
    order = {
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
        "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.LifoMemoryQueue",
        **AT_ONCE,
    }
    assert faults(name, tmp_path, **order) == []


#: Settings of a project that change which part of the add-on decides.
PROJECTS = {
    "Scrapy's scheduler": {"SCHEDULER": "scrapy.core.scheduler.Scheduler"},
    "Scrapy's scheduler and JOBDIR": {
        "SCHEDULER": "scrapy.core.scheduler.Scheduler",
        "JOBDIR": "{folder}",
    },
    "JOBDIR": {"JOBDIR": "{folder}"},
    "rewriting": {"URLNORM_REWRITE_REQUESTS": True},
    "safe": {"URLNORM_PROFILE": "safe", "URLNORM_LEARN": "redirects"},
}


@pytest.mark.long
@pytest.mark.parametrize("project", PROJECTS)
@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("HttpStartsFailing404", "staged"),
        ("SlashTwinGoesHome", "staged"),
        ("AliasHasPagesOfItsOwn", "queued"),
        ("Honest", "queued"),
    ],
)
def test_no_page_is_lost_with_settings_of_a_project(name, layout, project, tmp_path):
    """With Scrapy's scheduler errbacks hear of what is suppressed; pages come all the same."""
    settings = dict(PROJECTS[project])
    errbacks = "SCHEDULER" not in settings
    assert faults(name, tmp_path, layout, errbacks=errbacks, **settings) == []


class Ends(Links):
    """Ends the crawl at the first page that is linked to after the twins."""

    def parse(self, response):
        yield from super().parse(response)
        if response.url.endswith("/stage-2"):
            raise CloseSpider("enough")


def test_a_crawl_that_its_spider_ends_goes_on_later(tmp_path):
    """The spider ends the crawl while requests are suppressed; the next run has the rest."""
    job = {"JOBDIR": str(tmp_path / "job")}
    without, _ = visit(hostile_ways.ContradictedLate(), tmp_path, **OFF)
    site = hostile_ways.ContradictedLate()
    site.spider = "test_scrapy_hostile_sites.Ends"
    first, _ = visit(site, tmp_path, **job)
    assert first.reason == "enough"
    site.spider = hostile_ways.ContradictedLate.spider
    second, _ = visit(site, tmp_path, **job)
    assert second.reason == "finished"
    assert serious(first) == serious(second) == []
    assert set(first.pages) | set(second.pages) == set(without.pages)


# --- what learning is for, and who hears of it ----------------------------------------------------


@pytest.mark.parametrize("layout", ["staged", "queued"])
@pytest.mark.parametrize("jobdir", [False, True], ids=["", "JOBDIR"])
def test_what_is_suppressed_calls_nobody(layout, jobdir, tmp_path):
    """On an honest site learning saves requests, and no errback hears of those it saves."""
    more = {"JOBDIR": str(tmp_path / "job")} if jobdir else {}
    without, asked_without = visit(hostile_ways.Honest(layout=layout), tmp_path, **OFF)
    learning, asked = visit(hostile_ways.Honest(layout=layout), tmp_path, **more)
    assert set(learning.pages) == set(without.pages)
    assert len(asked) <= len(asked_without) - len(hostile_ways.Honest().victims) // 2
    assert [stat for stat in learning.stats if stat.startswith("errback/")] == []
    assert learning.stats["spider_callbacks"] == len(learning.pages)


@pytest.mark.parametrize("jobdir", [False, True], ids=["", "JOBDIR"])
def test_what_comes_back_is_as_it_was(jobdir, tmp_path):
    """A request requeued has its class, label, meta, arguments, headers and flags."""
    more = {"JOBDIR": str(tmp_path / "job")} if jobdir else {}
    without, _ = visit(hostile_ways.PutBackRequestsKeepAll(), tmp_path, **OFF)
    learning, _ = visit(hostile_ways.PutBackRequestsKeepAll(), tmp_path, **more)
    assert set(learning.pages) == set(without.pages)
    assert len([name for name in learning.pages if "label" in name]) >= 2


# --- limits of a crawl ----------------------------------------------------------------------------


def test_a_crawl_that_ends_early_goes_on_later(tmp_path):
    """CLOSESPIDER_PAGECOUNT ends runs while requests are suppressed; the last run finishes all."""
    site = SITES["HttpStartsFailing404"]()
    without, _ = visit(SITES["HttpStartsFailing404"](), tmp_path, **OFF)
    pages, reasons = set(), []
    for _ in range(8):
        run, _ = visit(site, tmp_path, JOBDIR=str(tmp_path / "job"), CLOSESPIDER_PAGECOUNT=25)
        assert serious(run) == []
        pages |= set(run.pages)
        reasons.append(run.reason)
        if run.reason == "finished":
            break
    assert pages == set(without.pages)
    assert set(reasons) == {"closespider_pagecount", "finished"}


def loops(url):
    """Pages that redirect to themselves, and two URLs with one key that redirect to each other."""
    if url == f"{WWW}/":
        return page("home", *(f"/loop{n}" for n in range(10)), "/ab?x=2&y=1")
    swapped = {f"{WWW}/ab?x=2&y=1": "/ab?y=1&x=2", f"{WWW}/ab?y=1&x=2": "/ab?x=2&y=1"}
    return redirect(swapped.get(str(url), url), 302)


@pytest.mark.parametrize("settings", [OFF, {}], ids=["off", "default"])
def test_a_loop_of_redirects_is_left_soon(settings):
    """A request more for each URL that leads to itself, and two for the pair: stock sends 12."""
    with Site(loops) as site:
        result = crawl(site, [f"{WWW}/"], {**IN_ORDER, **settings})
    assert result.reason == "finished"
    assert len(set(site.requests)) == 13
    assert len(site.requests) == 12 + 10 + 2


def test_loops_are_left_soon_when_a_rule_is_known(tmp_path):
    """The same on a site that has taught a rule; each URL stands in two chains."""
    _, asked = visit(SITES["RedirectLoops"](), tmp_path)
    looping = [url for url in asked if "/new/" in url]
    assert {url: n for url, n in Counter(looping).items() if n > 4} == {}


def test_every_site_has_something_to_lose():
    """The sites are as described: twins and pages are told apart, and taught in all sections."""
    for name, kind in SITES.items():
        site = kind()
        assert isinstance(site, Hostile)
        assert site.__doc__ != Hostile.__doc__, name
        assert len({url for pair in site.taught + site.victims for url in pair}) >= 2 * len(
            site.victims
        )
    twins = [twin for twin, _ in hostile_ways.Honest().taught]
    assert {twin.split("/")[3] for twin in twins} == set(SECTIONS)
