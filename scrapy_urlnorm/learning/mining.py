"""Mining: from a log with many sites to rules, site by site.

Whatever holds the rows of a log, memory, a table on disk or a cluster, gives those of one site to
`report_on`; so the rules do not depend on it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import defaultdict, deque
from dataclasses import dataclass, replace
from functools import cache
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.caches import no_collection
from scrapy_urlnorm.domains import domain_or_host
from scrapy_urlnorm.learning import proposals
from scrapy_urlnorm.learning.audit import audited
from scrapy_urlnorm.learning.candidates import of_server
from scrapy_urlnorm.learning.corpus import Hasher, most_common, plain_key
from scrapy_urlnorm.learning.evidence import Evidence, gather, items_of, selected
from scrapy_urlnorm.learning.miner import Miner
from scrapy_urlnorm.learning.risk import Limits
from scrapy_urlnorm.learning.rows_by_site import Rows, by_site
from scrapy_urlnorm.learning.rules import joined, said, settle
from scrapy_urlnorm.learning.trials import trials_of
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.site_rules.context import Is
from scrapy_urlnorm.site_rules.operations import DropParam, Replace, StripTail
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from scrapy_urlnorm.logs import Observation
    from scrapy_urlnorm.site_rules import SiteRule

#: Rows that go to another process at once, and rows under way (choices: a small site is not worth
#: the way, and what waits for a giant one is held in memory).
_CHUNK, _UNDER_WAY = 5_000, 300_000
#: A rule that was tried on more hosts than this names none of them (a choice).
_MAX_HOSTS = 100
#: Two observations that agree are the least that could prove anything.
_MIN_ROWS = 2
#: Canonical links that say more than the contents: of fewer nothing is proposed (a choice).
_MIN_DECLARED = 10
_TOO_FEW = "the log has one row only"
_NO_CONTENTS = "the log has canonical links, but no contents to confirm them"
_REDIRECTS_ONLY = "the log has redirects, but no contents: other rules need them"
_NOTHING = "the log has neither contents nor redirect targets: nothing can be proven"


@dataclass(frozen=True)
class SiteReport:
    """What mining found out about one site.

    ``redundant`` are its URLs beyond one for each content, ``merged`` those of them that the
    active rules (and the catalogue) find on the log itself. ``missing`` says in words what the
    log lacks; what a proposed rule lacks, its note says. ``in_doubt`` are pairs of URLs to fetch
    again: rules would be accepted without their difference.
    """

    site: str
    urls: int
    contents: int
    redundant: int
    merged: int
    rules: tuple[SiteRule, ...]
    missing: tuple[str, ...] = ()
    in_doubt: tuple[tuple[str, str], ...] = ()

    @property
    def active(self) -> tuple[SiteRule, ...]:
        """The rules that change keys."""
        return tuple(rule for rule in self.rules if rule.active)

    @property
    def proposed(self) -> tuple[SiteRule, ...]:
        """The rules that wait for more evidence, or for a person."""
        return tuple(rule for rule in self.rules if rule.status == "proposed")


def mine(observations: Iterable[Observation], **options: Any) -> list[SiteRule]:
    """Learn the rules of every site of a log: those of all reports of `survey`, of its *options*."""
    return [rule for report in survey(observations, **options) for rule in report.rules]


def survey(
    observations: Iterable[Observation],
    *,
    risk: float = 0.02,
    noise: float = 0.001,
    processes: int = 1,
    accepted: Iterable[SiteRule] = (),
    banned: Mapping[str, int] | None = None,
    wary: bool = False,
) -> Iterator[SiteReport]:
    """Learn the rules of every site of a log; yield a report for each, in the order of their names.

    All *observations* are read before the first report. Many of them leave memory: `rows_by_site`.

    *risk* is the expected share of wrong merges that a rule may have (0.006 is strict, 0.03 the
    edge). *noise* is the share of pages whose content changes from one fetch to the next; a site
    of which a hundred URLs were fetched twice tells it itself, if it is more.
    *processes* share the sites out (a script that asks for several begins its work below
    ``if __name__ == "__main__"``, as :mod:`multiprocessing` wants it).

    *accepted* are rules in force already: they stay, unless the log speaks against them. *banned*
    says, by the identity of a rule that was refuted, how many witnesses it needs now. *wary* asks
    for more evidence, as a log needs that a crawl is still writing: its rows are no fair sample.
    """
    limits = Limits(risk, noise, wary)
    known: defaultdict[str, tuple[SiteRule, ...]] = defaultdict(tuple)
    for rule in accepted:
        known[domain_or_host(rule.site.removeprefix("*."))] += (rule,)
    with by_site(observations) as sites:
        jobs = (SiteJob(site, rows, limits, known[site], banned or {}) for site, rows in sites)
        yield from _run(jobs, min(processes, len(sites)))


# --- in several processes ---------------------------------------------------------------------


def _run(jobs: Iterable[SiteJob], processes: int) -> Iterator[SiteReport]:
    if processes <= 1:
        yield from map(report_on, jobs)
        return
    # Loading these takes longer than learning from a small log.
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    # A process with the threads of DuckDB must not be forked, and its memory need not be.
    context = get_context("spawn" if "duckdb" in sys.modules else None)
    pool = ProcessPoolExecutor(processes, context, initializer=_begin)
    under_way: deque[tuple[int, Future[list[SiteReport]]]] = deque()
    try:
        for chunk in _chunks(jobs):
            under_way.append((_size(chunk), pool.submit(_reports_on, chunk)))
            while sum(rows for rows, _ in under_way) > _UNDER_WAY and len(under_way) > processes:
                yield from under_way.popleft()[1].result()
        for _, future in under_way:
            yield from future.result()
    finally:
        pool.shutdown(cancel_futures=True)  # of an interrupted run, what waits is not begun


def _begin() -> None:
    """Begin the work of a process: it ends when it is told to, and when nobody is left to tell it.

    A handler of the process that started it is none for this one. The pipe through which jobs come
    has no end when that process is killed, as this one holds both ends.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    from multiprocessing import connection, parent_process

    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def _chunks(jobs: Iterable[SiteJob]) -> Iterator[list[SiteJob]]:
    chunk: list[SiteJob] = []
    for job in jobs:
        chunk.append(job)
        if _size(chunk) >= _CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _size(jobs: Iterable[SiteJob]) -> int:
    return sum(len(job.rows) for job in jobs)


def _reports_on(jobs: Iterable[SiteJob]) -> list[SiteReport]:
    return [report_on(job) for job in jobs]


# --- one site ---------------------------------------------------------------------------------


class SiteJob(NamedTuple):
    """The rows of one site, and the rules that are in force or refuted there."""

    site: str
    rows: Rows
    limits: Limits = Limits()
    accepted: tuple[SiteRule, ...] = ()
    banned: Mapping[str, int] = {}

    @property
    def alone(self) -> SiteJob:
        """This one without rules in force: its evidence proves nothing against them."""
        return self._replace(accepted=(), banned={})

    def beside(self, rules: Iterable[SiteRule]) -> tuple[SiteRule, ...]:
        """Return the rules in force and, after them, *rules* that are not."""
        rules = list(rules)
        found = joined(self.accepted, (rule for rule in rules if rule.active), self.banned)
        known = {rule.identity for rule in found}
        return (*found, *(r for r in rules if not r.active and r.identity not in known))


@no_collection()
def report_on(job: SiteJob) -> SiteReport:
    site, limits, rows = job.site, job.limits, list(job.rows)
    urls = {row.url for row in rows}
    if len(rows) < _MIN_ROWS:
        return SiteReport(site, len(urls), len(urls), 0, 0, job.beside(()), (_TOO_FEW,))
    key = plain_key
    exceptions = proposals.exceptions(site, rows, plain_key, limits)
    if exceptions:
        kept = Normalizer("default", site_rules=exceptions).normalize
        key = cache(lambda url: kept(url) if proposals.is_suspect(url) else plain_key(url))
    evidence = gather(rows, key)
    job = job._replace(limits=limits._replace(noise=evidence.noise(limits.noise)))
    if evidence.pages or (limits.wary and evidence.redirects):
        report = _learn(job, evidence, key, exceptions, "content")
        return report if limits.wary else _beside_declared(report, job, rows, key)
    declared = gather(rows, key, canonical=True)
    if declared.pages:
        report = _learn(job.alone, declared, key, [], "canonical")
        proposed = map(_proposed, report.rules)
        return replace(report, rules=job.beside(proposed), missing=(_NO_CONTENTS,))
    if evidence.redirects:
        report = _learn(job.alone, evidence, key, [], "redirect")
        rules = (
            rule if are_proof(rule) and rule.kind != "drop-param" else _proposed(rule)
            for rule in report.rules
        )
        return replace(report, rules=job.beside(rules), missing=(_REDIRECTS_ONLY,))
    scope = _scope(site, {(split(url).host or "").lower() for url in urls})
    found = job.beside(proposals.from_urls(urls, key, scope))
    return SiteReport(site, len(urls), 0, 0, 0, found, (_NOTHING,))


def _beside_declared(
    report: SiteReport, job: SiteJob, rows: Sequence[Observation], key: Callable[[str], str]
) -> SiteReport:
    """Add as proposals what canonical links say and contents do not.

    Pages that differ a little, in a box of related ones, have one canonical URL and two contents.
    """
    known = Normalizer("default", site_rules=report.active).normalize
    said = sum(row.canonical is not None and known(row.url) != known(row.canonical) for row in rows)
    if said < _MIN_DECLARED:
        return report
    found = _learn(job.alone, gather(rows, key, canonical=True), key, [], "canonical").active
    identities = {rule.identity for rule in report.rules}
    new = (_proposed(rule) for rule in found if rule.identity not in identities)
    return replace(report, rules=(*report.rules, *new))


def _learn(
    job: SiteJob,
    evidence: Evidence,
    key: Callable[[str], str],
    exceptions: Sequence[SiteRule],
    source: str,
) -> SiteReport:
    hasher = Hasher()
    items = items_of(evidence, key, hasher)
    scope = _scope(job.site, {item.slots["host"] for item in items})
    miner = Miner(
        selected(items),
        hasher,
        job.limits,
        scope,
        walls=evidence.walls,
        in_force=job.accepted,
        two=evidence.two,
    )
    learned = (_on_its_hosts(rule.replace(source=source), miner) for rule in miner.run())
    kept = joined(job.accepted, filter(None, learned), job.banned)
    kept, keys = audited(exceptions, kept, evidence.urls, key, job.limits, evidence.two)
    known = {rule.identity for rule in kept}
    unproven = () if job.limits.wary else proposals.unproven(miner)  # nobody looks at a crawl's
    proposed = [rule for rule in unproven if rule.identity not in known]
    contents = [content for of in evidence.urls.values() if (content := most_common(of)) >= 0]
    return SiteReport(
        site=job.site,
        urls=len(contents),
        contents=len(set(contents)),
        redundant=len(contents) - len(set(contents)),
        merged=len(contents) - keys,
        rules=(*exceptions, *kept, *proposed),
        in_doubt=tuple(proposals.in_doubt(miner)),
    )


def are_proof(rule: SiteRule) -> bool:
    """Whether redirects alone prove *rule*: hosts, schemes, final slashes and index files."""
    op = rule.operation
    return isinstance(op, StripTail) or (
        isinstance(op, (Replace, DropParam)) and op.slots <= {"scheme", "host", "slash"}
    )


def _scope(site: str, hosts: Collection[str]) -> str:
    return next(iter(hosts)) if len(hosts) == 1 else f"*.{site}"


def _on_its_hosts(rule: SiteRule, miner: Miner) -> SiteRule | None:
    """Return *rule* for the hosts on which it was tried, where these are not all."""
    hosts = {item.slots["host"] for item in miner.corpus.items}
    is_told = any(isinstance(c, Is) and c.slot == "host" for c in rule.context)
    if len(hosts) < 2 or is_told or of_server(rule.operation):
        return rule
    everywhere = {item.slots["host"] for item in miner.first.items}
    trials = trials_of(rule.operation, miner.first, rule.context)
    agreeing = [trial.slots for trial in trials if trial.content is not None]
    if not agreeing:  # it builds on other rules: where it acts has to do
        agreeing = [i.slots for i in miner.first.items if rule.image(i.slots) is not None]
    servers = [{"host": slots["host"], "scheme": slots["scheme"]} for slots in agreeing]
    tried = {each["host"] for server in servers for each in (server, settle(server, miner.rules))}
    if not tried or everywhere <= tried or len(tried) > _MAX_HOSTS:
        return rule
    where = (*rule.context, Is("host", tuple(sorted(tried))))
    return said(rule.site, rule.operation, where, rule.evidence)


def _proposed(rule: SiteRule) -> SiteRule:
    return rule.replace(status="proposed") if rule.active else rule
