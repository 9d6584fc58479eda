"""Mining: from a log with many sites to rules, site by site."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..normalizer import Normalizer
from ..site_rules.domains import registrable_domain
from ..url import split
from . import catalogue, proposals
from .audit import audited
from .emit import site_rule
from .evidence import Evidence, gather, items_of
from .miner import Miner
from .risk import Limits
from .slots import Hasher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ..logs import Observation
    from ..site_rules import SiteRule

Progress = Callable[[int, int], None] if TYPE_CHECKING else None


@dataclass(frozen=True)
class SiteReport:
    """What mining found out about one site.

    ``redundant`` are its URLs beyond one for each content, ``merged`` those of them that the
    active rules (and the catalogue) find on the log itself. ``missing`` says in words what
    evidence would be needed for more.
    """

    site: str
    urls: int
    contents: int
    redundant: int
    merged: int
    rules: tuple[SiteRule, ...]
    missing: tuple[str, ...] = ()

    @property
    def active(self) -> tuple[SiteRule, ...]:
        """The rules that change keys."""
        return tuple(rule for rule in self.rules if rule.active)

    @property
    def proposed(self) -> tuple[SiteRule, ...]:
        """The rules that wait for more evidence, or for a person."""
        return tuple(rule for rule in self.rules if rule.status == "proposed")


def mine(
    observations: Iterable[Observation],
    *,
    risk: float = 0.02,
    noise: float = 0.001,
    processes: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[SiteRule]:
    """Learn the rules of every site of a log.

    *risk* is the expected share of wrong merges that a rule may have (0.006 is strict, 0.03 the
    edge). *noise* is the share of pages whose content changes from one fetch to the next.
    *processes* share the sites out. *progress* is called with sites done and sites in all.
    """
    reports = survey(observations, risk=risk, noise=noise, processes=processes, progress=progress)
    return [rule for report in reports for rule in report.rules]


def survey(
    observations: Iterable[Observation],
    *,
    risk: float = 0.02,
    noise: float = 0.001,
    processes: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[SiteReport]:
    """Learn as `mine` does; yield a report for each site, in the order of their names."""
    limits = Limits(risk, noise)
    by_site: defaultdict[str, list[Observation]] = defaultdict(list)
    sites: dict[str, str] = {}
    for row in observations:
        host = (split(row.url).host or "").lower()
        site = sites.get(host)
        if site is None:
            site = sites[host] = (registrable_domain(host) or host) if host else ""
        if site:
            by_site[site].append(row)
    jobs = [(site, by_site[site], limits) for site in sorted(by_site)]
    for done, report in enumerate(_run(jobs, processes), 1):
        if progress is not None:
            progress(done, len(jobs))
        yield report


_Job = tuple[str, "list[Observation]", Limits]


def _run(jobs: Sequence[_Job], processes: int) -> Iterator[SiteReport]:
    if processes <= 1 or len(jobs) < 2:
        yield from map(_mine_site, jobs)
        return
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415

    with ProcessPoolExecutor(min(processes, len(jobs))) as pool:
        chunk = max(1, min(64, len(jobs) // (processes * 4)))
        yield from pool.map(_mine_site, jobs, chunksize=chunk)


def _mine_site(job: _Job) -> SiteReport:
    site, rows, limits = job
    exceptions = catalogue.exceptions(site, rows, limits)
    normalizer = Normalizer("default", site_rules=exceptions)
    cache: dict[str, str] = {}

    def key(url: str) -> str:
        found = cache.get(url)
        if found is None:
            found = cache[url] = normalizer.normalize(url)
        return found

    evidence = gather(rows, key)
    if not evidence.has_contents:
        return proposals.without_contents(site, rows, key)
    hasher = Hasher()
    items = items_of(evidence, key, hasher)
    hosts = {item.slots["host"] for item in items}
    miner = Miner(items, hasher, limits)
    learned = miner.run()
    name = site if hosts == {site} else f"*.{site}"
    if len(hosts) == 1:
        name = next(iter(hosts))
    pairs = []
    for rule in learned:
        emitted = site_rule(rule, name)
        if emitted is not None:
            pairs.append((rule, emitted))
    pairs = audited(exceptions, pairs, evidence.urls, limits)
    rules = (*exceptions, *(emitted for _, emitted in pairs))
    return _report(site, evidence, rules)


def _report(site: str, evidence: Evidence, rules: tuple[SiteRule, ...]) -> SiteReport:
    normalizer = Normalizer("default", site_rules=rules)
    contents: dict[str, int] = {}
    for url, counted in evidence.urls.items():
        real = [content for content in counted if content >= 0]
        if real:
            contents[url] = max(real, key=lambda c: (counted[c], -c))
    keys = {normalizer.normalize(url) for url in contents}
    distinct = len(set(contents.values()))
    return SiteReport(
        site=site,
        urls=len(contents),
        contents=distinct,
        redundant=len(contents) - distinct,
        merged=len(contents) - len(keys),
        rules=rules,
    )
