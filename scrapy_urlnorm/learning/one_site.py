"""The heart of mining: from the rows of one site to its rules.

Whatever holds the rows of a log, memory, a table on disk or a cluster, gives those of one site to
`report_on`; so the rules do not depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from scrapy_urlnorm.collector import no_collection
from scrapy_urlnorm.learning import catalogue, proposals
from scrapy_urlnorm.learning.audit import audited
from scrapy_urlnorm.learning.candidates import of_server
from scrapy_urlnorm.learning.corpus import most_common
from scrapy_urlnorm.learning.evidence import gather, items_of
from scrapy_urlnorm.learning.in_force import joined
from scrapy_urlnorm.learning.miner import Miner
from scrapy_urlnorm.learning.offered import offered
from scrapy_urlnorm.learning.redirects import are_proof
from scrapy_urlnorm.learning.risk import Limits
from scrapy_urlnorm.learning.rules import said, settle
from scrapy_urlnorm.learning.selected import selected
from scrapy_urlnorm.learning.slots import Hasher
from scrapy_urlnorm.learning.trials import trials_of
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.site_rules.context import Is
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from scrapy_urlnorm.learning.evidence import Evidence
    from scrapy_urlnorm.learning.offered import Offer
    from scrapy_urlnorm.logs import Observation
    from scrapy_urlnorm.site_rules import SiteRule

#: A rule that was tried on more hosts than this names none of them (a choice).
_MAX_HOSTS = 100
_PLAIN = Normalizer("default")
#: Two observations that agree are the least that could prove anything.
_MIN_ROWS = 2
_TOO_FEW = "the log has one row only"


@dataclass(frozen=True)
class SiteReport:
    """What mining found out about one site.

    ``redundant`` are its URLs beyond one for each content, ``merged`` those of them that the
    active rules (and the catalogue) find on the log itself. ``missing`` says in words what the
    log lacks; what a proposed rule lacks, its note says. ``aliases`` are what the pages of the site
    rightly say about their other names: a crawl uses them, a rule file cannot hold them.
    """

    site: str
    urls: int
    contents: int
    redundant: int
    merged: int
    rules: tuple[SiteRule, ...]
    missing: tuple[str, ...] = ()
    aliases: tuple[Offer, ...] = ()

    @property
    def active(self) -> tuple[SiteRule, ...]:
        """The rules that change keys."""
        return tuple(rule for rule in self.rules if rule.active)

    @property
    def proposed(self) -> tuple[SiteRule, ...]:
        """The rules that wait for more evidence, or for a person."""
        return tuple(rule for rule in self.rules if rule.status == "proposed")


class Rows(Protocol):
    """The rows of one site. Their order decides nothing but which page aliases are offered."""

    def __len__(self) -> int:
        """How many there are."""

    def __iter__(self) -> Iterator[Observation]:
        """Give them."""


class Job(NamedTuple):
    """The rows of one site, and the rules that are in force or refuted there."""

    site: str
    rows: Rows
    limits: Limits = Limits()
    accepted: tuple[SiteRule, ...] = ()
    banned: Mapping[str, int] = {}

    def joined(self, found: Iterable[SiteRule]) -> list[SiteRule]:
        """Return the rules in force and those that were *found* now."""
        return joined(self.accepted, found, self.banned)

    def beside(self, rules: Iterable[SiteRule]) -> tuple[SiteRule, ...]:
        """Return the rules in force and, after them, *rules* that are not."""
        rules = list(rules)
        found = self.joined(rule for rule in rules if rule.active)
        known = {rule.identity for rule in found}
        return (*found, *(r for r in rules if not r.active and r.identity not in known))


def report_on(job: Job) -> SiteReport:
    """Learn the rules of one site from its rows."""
    with no_collection():
        rows = list(job.rows)
        aliases = offered(job.site, rows, _PLAIN.normalize)
        return replace(_mine_site(job, rows), aliases=aliases)


def _mine_site(job: Job, rows: Sequence[Observation]) -> SiteReport:
    site, limits = job.site, job.limits
    if len(rows) < _MIN_ROWS:
        urls = {row.url for row in rows}
        return SiteReport(site, len(urls), len(urls), 0, 0, job.beside(()), (_TOO_FEW,))
    key = _Keys(_PLAIN).__getitem__
    exceptions = catalogue.exceptions(site, rows, key, limits)
    if exceptions:
        plain, special = key, Normalizer("default", site_rules=exceptions)
        keys = _Keys(special)
        keys.update((row.url, plain(row.url)) for row in rows if not catalogue.is_suspect(row.url))
        key = keys.__getitem__
    evidence = gather(rows, key)
    limits = limits._replace(noise=evidence.noise(limits.noise))
    if evidence.pages or (limits.wary and evidence.redirects):
        return _learn(job, evidence, key, limits, exceptions, "content")
    alone = job._replace(accepted=(), banned={})  # these prove nothing against what was accepted
    declared = gather(rows, key, canonical=True)
    if declared.pages:
        report = _learn(alone, declared, key, limits, [], "canonical")
        return replace(
            report,
            rules=job.beside(_proposed(rule) for rule in report.rules),
            missing=("the log has canonical links, but no contents to confirm them",),
        )
    if evidence.redirects:
        report = _learn(alone, evidence, key, limits, [], "redirect")
        rules = (
            rule if are_proof(rule) and rule.kind != "drop-param" else _proposed(rule)
            for rule in report.rules
        )
        return replace(
            report,
            rules=job.beside(rules),
            missing=("the log has redirects, but no contents: other rules need them",),
        )
    urls = {row.url for row in rows}
    hosts = {(split(url).host or "").lower() for url in urls}
    found = proposals.from_urls(urls, key, _scope(site, hosts))
    nothing = "the log has neither contents nor redirect targets: nothing can be proven"
    return SiteReport(site, len(urls), 0, 0, 0, job.beside(found), (nothing,))


class _Keys(dict[str, str]):
    """Remember the keys of URLs: each is asked for several times.

    Those of one site, of which a sample of bounded size is looked at.
    """

    def __init__(self, normalizer: Normalizer) -> None:
        super().__init__()
        self._normalize = normalizer.normalize

    def __missing__(self, url: str) -> str:
        found = self[url] = self._normalize(url)
        return found


def _learn(
    job: Job,
    evidence: Evidence,
    key: Callable[[str], str],
    limits: Limits,
    exceptions: Sequence[SiteRule],
    source: str,
) -> SiteReport:
    hasher = Hasher()
    items = items_of(evidence, key, hasher)
    hosts = {item.slots["host"] for item in items}
    scope = _scope(job.site, hosts)
    miner = Miner(selected(items), hasher, limits, scope, walls=evidence.walls)
    learned = [rule.replace(source=source) for rule in miner.run()]
    kept = [rule for each in learned if (rule := _on_its_hosts(each, miner)) is not None]
    kept = job.joined(kept)
    kept, keys = audited(exceptions, kept, evidence.urls, key, limits)
    known = {rule.identity for rule in kept}
    proposed = [r for r in proposals.unproven(miner) if r.identity not in known]
    contents = [most_common(of) for of in evidence.urls.values()]
    urls = sum(content >= 0 for content in contents)
    distinct = len({content for content in contents if content >= 0})
    return SiteReport(
        site=job.site,
        urls=urls,
        contents=distinct,
        redundant=urls - distinct,
        merged=urls - keys,
        rules=(*exceptions, *kept, *proposed),
    )


def _scope(site: str, hosts: Collection[str]) -> str:
    """Return what a rule is for: the one host, or all hosts of the registrable domain."""
    return next(iter(hosts)) if len(hosts) == 1 else f"*.{site}"


def _on_its_hosts(rule: SiteRule, miner: Miner) -> SiteRule | None:
    """Return *rule* for the hosts on which it was tried, where these are not all."""
    hosts = _hosts_of(rule, miner)
    said_already = any(isinstance(c, Is) and c.slot == "host" for c in rule.context)
    if not hosts or said_already:
        return rule
    context = (*rule.context, Is("host", hosts))
    return said(rule.site, rule.operation, context, rule.evidence)


def _hosts_of(rule: SiteRule, miner: Miner) -> tuple[str, ...]:
    hosts = {item.slots["host"] for item in miner.corpus.items}
    if len(hosts) < 2 or of_server(rule.operation):
        return ()
    everywhere = {item.slots["host"] for item in miner.first.items}
    trials = trials_of(rule.operation, miner.first, rule.context)
    agreeing = [trial.slots for trial in trials if trial.content is not None]
    if not agreeing:  # it builds on other rules: where it acts has to do
        agreeing = [i.slots for i in miner.first.items if rule.image(i.slots) is not None]
    tried = {slots["host"] for slots in agreeing}
    tried |= {
        settle({"host": slots["host"], "scheme": slots["scheme"]}, miner.rules)["host"]
        for slots in agreeing
    }
    if not tried or everywhere <= tried or len(tried) > _MAX_HOSTS:
        return ()
    return tuple(sorted(tried))


def _proposed(rule: SiteRule) -> SiteRule:
    return rule.replace(status="proposed") if rule.active else rule
