"""``mine --probe``: has a project fetch pages that decide what the logs leave open."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scrapy_urlnorm.cli.crawl_logs import Logs
from scrapy_urlnorm.cli.merge import domain_of
from scrapy_urlnorm.cli.verb import UsageError, say
from scrapy_urlnorm.learning.evidence import site_of
from scrapy_urlnorm.learning.probe import fitted, probes_for
from scrapy_urlnorm.text import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection

    from scrapy_urlnorm.learning import SiteReport
    from scrapy_urlnorm.learning.probe import Probe
    from scrapy_urlnorm.logs import Observation
    from scrapy_urlnorm.site_rules import SiteRule


def add_probe(parser: argparse.ArgumentParser) -> None:
    """Offer the option."""
    parser.add_argument(
        "--probe",
        action="store_true",
        help="fetch pages that decide proposed rules: some dozen requests for each rule, with the "
        "settings of the project (delays, robots.txt); only as `scrapy urlnorm mine`",
    )


def require_project(args: argparse.Namespace) -> None:
    """Raise UsageError if pages are to be fetched and cannot be."""
    if not args.probe:
        return
    project = args.project
    if project is None or project.probe is None:
        raise UsageError(
            "--probe fetches pages with the settings of a Scrapy project (user agent, delays, "
            "robots.txt, proxies): run `scrapy urlnorm mine --probe` inside one"
        )
    if "-" in args.logs:
        raise UsageError("--probe reads the logs twice: name files, not standard input (-)")


def probed(args: argparse.Namespace, reports: list[SiteReport]) -> list[SiteReport]:
    """Return the reports with their proposed rules decided, as far as pages decide them."""
    proposed = [rule for report in reports for rule in report.proposed]
    probes = probes_for(proposed, Logs(args, quiet=True), args.risk)
    asked = [probe for probe in probes if probe.pairs]
    if asked:
        args.project.probe(asked)
    decided = [probe.decided() for probe in asked]
    sites = {domain_of(rule) for rule in decided if rule.active}
    rows: dict[str, list[Observation]] = {site: [] for site in sites}
    for row in Logs(args, quiet=True) if sites else ():
        site = site_of(row.url)
        if site in rows:
            rows[site].append(row)
    by_identity: dict[str, SiteRule] = {}
    for report in reports:
        of_site = [rule for rule in decided if domain_of(rule) == report.site]
        for rule in fitted(of_site, report.active, rows.get(report.site, ())):
            by_identity[rule.identity] = rule
    _say_probed(probes, by_identity.values())
    return [
        replace(
            report,
            rules=tuple(by_identity.get(rule.identity, rule) for rule in report.rules),
        )
        for report in reports
    ]


def _say_probed(probes: Collection[Probe], decided: Collection[SiteRule]) -> None:
    if not probes:
        say("Nothing to probe: no rule is proposed.")
        return
    found = [rule.status for rule in decided]
    found += ["proposed"] * (len(probes) - len(found))
    say(
        f"{counted(len(probes), 'proposed rule')} probed with "
        f"{counted(sum(probe.fetches for probe in probes), 'request')}: "
        f"{found.count('active'):,} active now, {found.count('rejected'):,} rejected, "
        f"{found.count('proposed'):,} still proposed"
    )
