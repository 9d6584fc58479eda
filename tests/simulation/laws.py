"""What is true of every crawl, whatever goes wrong on its way."""

from __future__ import annotations

import json
from math import log2
from typing import TYPE_CHECKING

import simulator

from scrapy_urlnorm import normalize
from simulation.plan import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulation.crawl import Crawl, Run


def broken(crawl: Crawl) -> Iterator[str]:
    """Yield the laws that a crawl has broken at its end, in words."""
    bounds = (run.stat("wrong_at_most", run.stat("suppressed")) for run in crawl.runs)
    # The bound itself is wrong in one crawl of twenty, and then by little.
    most = 2 * sum(bounds) if crawl.plan.kind in simulator.TRAPS else 0
    expected = crawl.expected()
    crawl.lost = expected - crawl.found
    if len(crawl.lost) > most:
        yield f"{len(crawl.lost)} of {len(expected)} contents are lost"
    for run in crawl.runs if isinstance(crawl.site, Site) else ():
        yield from _of_held(run, most)
    errors = sum(run.crawler.stats.get_value("urlnorm/errors", 0) for run in crawl.runs)
    if errors and not (crawl.plan.full or crawl.plan.miner_dies):
        yield f"{errors} errors of learning"


def _of_held(run: Run, most: int) -> Iterator[str]:
    """What holds a request back is a page that the spider has read, and the one it asks for."""
    select = "SELECT url, behind FROM held WHERE state = 0 AND behind > ''"
    pairs = run.database.read(select) if run.learner else ()
    read, contents = run.crawl.read, {u: a.content for u, a in run.crawl.site.answers.items()}
    # A redirect may lead to where the site has nothing.
    others = [each for each in pairs if contents.get(each[0], "") not in ("", read.get(each[1]))]
    wrong = [each for each in others if normalize(each[1]) not in run.crawl.spoilt]
    if len(wrong) > most:
        yield f"{len(wrong)} are held behind other pages, as {wrong[0]}"


def _of_audits(run: Run) -> Iterator[str]:
    """A rule is tested before it holds anything, and once more each time it holds twice as much.

    One test may be one of several rules.
    """
    tests, held, rules = run.stat("audits"), run.stat("suppressed"), run.stat("rules")
    # An earlier run may have made the tests.
    if held and tests < max(1.0, log2(1 + held / max(1, rules)) - 1) and not run.crawl.plan.kills:
        yield f"{held} are held by {rules} rules after {tests} tests"


def note_test(run: Run, url: str) -> None:
    """Note what a request that is sent tests, if it does: behind which page it might be held, and why."""
    if isinstance(run.crawl.site, Site) and run.learner:
        select = "SELECT p.url, reasons FROM audit a, page p WHERE representative = p.fingerprint"
        for twin, reasons in run.database.read(f"{select} AND a.url = ?", url):
            run.tests[url] = twin, set(json.loads(reasons))


def of_tests(run: Run) -> Iterator[str]:
    """A test that finds another page takes back one of the rules that it tests, with its verdict."""
    yield from _of_audits(run)
    read = run.crawl.read
    for url in [url for url in run.tests if url in read]:
        twin, reasons = run.tests[url]
        if read[url] != read.get(twin):
            if run.database.read("SELECT 1 FROM audit WHERE url = ?", url):
                continue  # it is compared, with more fetches
            in_force = {rule.identity for rule in run.learner.rules if rule.active}
            if reasons <= in_force and not (run.stat("audits_unstable") or run.crawl.plan.full):
                yield f"{url} is not {twin}, and the rules that say so stay"
        del run.tests[url]
