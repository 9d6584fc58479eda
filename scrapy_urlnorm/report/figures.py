"""The figures of a report as plain values: of crawl logs, or of what a crawl left in its database.

URLs may have secrets: the page masks them.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.report.filtered import rule_in_words, sentence_of, summary_of
from scrapy_urlnorm.rules import RULE_NAMES
from scrapy_urlnorm.text import counted, duration, moment, percent, shortened
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from scrapy_urlnorm.logs import Observation
    from scrapy_urlnorm.normalizer import Normalizer
    from scrapy_urlnorm.report.filtered import Job, Run
    from scrapy_urlnorm.site_rules import SiteRule

    About = Sequence[tuple[str, str]]

#: What is kept at most, of each kind. Counts go on beyond.
MAX_PATTERNS, MAX_SUSPICIOUS, MAX_HOSTS = 20_000, 1_000, 5_000
OTHER_PATTERNS = "(other pages)"
#: To find the rules between two URLs takes longer than all else. So of each host a few spared
#: requests tell: more where there are few hosts. Of twice as many every second tells, and so on.
SAMPLE, LEAST_SAMPLE = 1_024, 4
#: A rule in force whose bound on wrong merges is above this is suspicious.
DOUBTFUL = 0.02
_LONGEST_NOTE = 300

_SPARED = "Spared are requests that stock Scrapy would have sent and this crawl did not."
_FORECAST = (
    "A log has only what was fetched. So this is what a crawl with these rules would not have "
    "fetched again; what a crawl learns on its way may spare more."
)
_NO_SITE_RULES = (
    "Only the catalogue was applied. Rules for the sites of this log can be mined from it "
    "(scrapy-urlnorm mine) and given with --site-rules."
)
_NO_CONTENTS = (
    "The contents of the pages are not known, so equal pages are not found here. A crawl with "
    "URLNORM_REPORT or URLNORM_CRAWL_LOG writes them down."
)


@dataclass(slots=True)
class Host:
    """One host. A page counts for the host where its content came first."""

    host: str
    requests: int = 0
    pages: int = 0
    distinct: int = 0
    spared: int = 0
    left: int = 0  #: pages fetched although their content had come before


class RuleFigures(NamedTuple):
    """One rule: of the catalogue, of the user, or learned."""

    rule: str  #: in words, as messages and rule files name it
    sentence: str  #: what it does
    status: str  #: active, proposed, rejected
    source: str
    spared: int
    one: str  #: an example: two URLs that it makes one
    other: str
    support: int | None = None
    conflicts: int | None = None
    upper: float | None = None  #: upper bound on the share of wrong merges
    tested: int | None = None  #: tests that it has passed
    note: str = ""


class Suspicion(NamedTuple):
    """Two URLs that a rule makes one, and why that may be wrong."""

    reason: str
    one: str
    other: str
    rules: str  #: what they do


@dataclass(slots=True)
class Left:
    """Pages of one look that were fetched although their content had come before."""

    pattern: str
    redundant: int = 0
    pages: int = 0
    one: str = ""
    other: str = ""


# --- of logs and of crawls ------------------------------------------------------------------


def from_logs(
    rows: Iterable[Observation], normalizer: Normalizer, *, title: str, about: About = ()
) -> Figures:
    """Return what the rules of *normalizer* would have spared the crawl that made a log."""
    found = Figures(rows, title, normalizer)
    found.about = about
    found.notes.append(_FORECAST)
    if not normalizer.site_rules:
        found.notes.append(_NO_SITE_RULES)
    if found.requests and not found.pages:
        found.notes.append(_NO_CONTENTS)
    tested = [(rule, None) for rule in normalizer.site_rules]
    found.rules = _rule_figures(tested, found.credit, found.examples)
    return found


def from_crawl(rows: Iterable[Observation], job: Job, *, title: str) -> Figures:
    """Return what a crawl did: *rows* it fetched, *job* has what it did not and what it learned."""
    found = Figures(rows, title)
    for (host, names), count in job.saved().items():
        found.spared += count
        if host in found.by_host:
            found.by_host[host].spared += count
        found.credit.update(dict.fromkeys(names, count))
    found.notes.append(_SPARED)
    if held := job.count_held():
        said = f"{counted(held, 'request')} {'is' if held == 1 else 'are'}"
        found.notes.append(f"{said} suppressed because of what was learned.")
    if not found.distinct:
        found.notes.append(_NO_CONTENTS)
    found.rules = _rule_figures(job.rules(), found.credit, job.examples())
    found.about = _about(job.runs())
    return found


def _about(runs: Sequence[Run]) -> About:
    if not runs:
        return ()
    seconds = sum(run.ended - run.started for run in runs)
    several = f" in {len(runs)} runs" if len(runs) > 1 else ""
    began, ended = moment(runs[0].started), moment(runs[-1].ended)
    return (
        ("Crawled", began if began == ended else f"{began} to {ended}"),
        ("Duration", f"{duration(seconds)}{several}"),
        *runs[-1].about,
    )


def _rule_figures(
    rules: Iterable[tuple[SiteRule, int | None]],
    spared: Mapping[str, int],
    examples: Mapping[str, tuple[str, str]],
) -> list[RuleFigures]:
    rest = dict(spared)
    figures = []
    for rule, tested in rules:
        name = rule_in_words(rule)
        one, other = rule.examples[0] if rule.examples else examples.get(name, ("", ""))
        said = name, sentence_of(rule), rule.status, rule.source, rest.pop(name, 0), one, other
        note = shortened(rule.note or "", _LONGEST_NOTE)
        evidence = rule.support, rule.conflicts, rule.false_merge_upper, tested
        figures.append(RuleFigures(*said, *evidence, note))
    for name, number in rest.items():
        source = "catalogue" if name in RULE_NAMES else "learned"
        pair = examples.get(name, ("", ""))
        figures.append(RuleFigures(name, summary_of(name), "active", source, number, *pair))
    return sorted(figures, key=lambda each: (-each.spared, each.rule))


def _doubtful(rules: Iterable[RuleFigures]) -> Iterator[Suspicion]:
    """Yield what is suspicious of *rules*: retracted, or likelier wrong than a rule should be."""
    for rule in rules:
        if rule.status == "rejected":
            reason = f"retracted: {rule.note}" if rule.note else "retracted"
        elif rule.status == "active" and rule.upper is not None and rule.upper > DOUBTFUL:
            reason = f"at most {percent(rule.upper)} of what it merges may be wrong"
        elif rule.status == "active" and rule.conflicts:
            reason = f"{counted(rule.conflicts, 'observation')} against it"
        else:
            continue
        yield Suspicion(reason, rule.one, rule.other, rule.sentence)


# --- rows -----------------------------------------------------------------------------------


class Figures:
    """What a report shows. With a *normalizer*, also what a crawl with its rules would not fetch.

    A row is *spared* when an earlier one has its key and another URL. A redirect onto its own key is
    followed by such a crawl, so its target is not spared. Contents are compared by their names;
    content and key are kept as hashes, 8 bytes each beside the first URL.
    """

    def __init__(
        self, rows: Iterable[Observation], title: str, normalizer: Normalizer | None = None
    ) -> None:
        self.title = title
        self.about: About = ()  #: when and how the crawl ran: a term and its text
        self.notes: list[str] = []  #: what the figures mean, and what is not known
        self.rules: list[RuleFigures] = []
        #: Whether nothing was spared yet: the rules were applied to a log.
        self.is_forecast = normalizer is not None
        self._normalizer = normalizer
        rules = normalizer.site_rules if normalizer is not None else ()
        self._names = {str(rule): rule_in_words(rule) for rule in rules}
        self._sentences = {rule_in_words(rule): sentence_of(rule) for rule in rules}
        self.requests = self.pages = self.spared = self.left = self._doubts = 0
        self.kept = 0  #: distinct pages of a crawl that fetches no spared row
        self.by_host: dict[str, Host] = {}
        self._firsts: dict[int, tuple[str, int | None]] = {}  # by key: URL and content
        self._contents: dict[int, str] = {}  # the first URL of each
        self._fetched: set[int] = set()  # contents of rows that were not spared
        self._targets: set[str] = set()  # of redirects onto their own key
        self._patterns: dict[str, Left] = {}
        self.credit: Counter[str] = Counter()  #: by rule in words, what it spared, about
        self.examples: dict[str, tuple[str, str]] = {}  #: by rule: two URLs that it makes one
        self._suspicious: list[Suspicion] = []
        for row in rows:
            self._add(row)

    def _add(self, row: Observation) -> None:
        self.requests += 1
        name = (split(row.url).host or "").lower()
        host = self.by_host.get(name) or self.by_host.setdefault(name, Host(name))
        host.requests += 1
        content = hash(row.content) if row.is_page else None
        is_spared = self._normalizer is not None and self._is_spared(row, content, host)
        if content is not None:
            self.pages += 1
            host.pages += 1
            first = self._contents.get(content)
            if first is None:
                host.distinct += 1
                self._contents[content] = row.url
            if not is_spared:
                self._fetch(row.url, content, first, host)

    def _fetch(self, url: str, content: int, first: str | None, host: Host) -> None:
        name = pattern_of(url)
        if name not in self._patterns and len(self._patterns) >= MAX_PATTERNS:
            name = OTHER_PATTERNS
        pattern = self._patterns.get(name) or self._patterns.setdefault(name, Left(name))
        pattern.pages += 1
        if content not in self._fetched:
            self._fetched.add(content)
            self.kept += 1
        elif first is not None and url != first:
            self.left += 1
            host.left += 1
            pattern.redundant += 1
            if pattern.redundant == 1:
                pattern.one, pattern.other = first, url

    def _is_spared(self, row: Observation, content: int | None, host: Host) -> bool:
        assert self._normalizer is not None
        url = row.url
        normalized = self._normalizer.normalize(url)
        key = hash(normalized)
        if row.location is not None and self._normalizer.normalize(row.location) == normalized:
            self._targets.add(row.location)
        if key not in self._firsts:
            self._firsts[key] = url, content
            return False
        first, first_content = self._firsts[key]
        if url in self._targets:
            self._targets.discard(url)
            if first_content is None:
                self._firsts[key] = first, content
            return False
        if url == first:
            return False
        self.spared += 1
        host.spared += 1
        is_doubtful = None not in (content, first_content) and content != first_content
        self._explain(first, url, host.spared, is_doubtful=is_doubtful)
        return True

    def _explain(self, first: str, url: str, number: int, *, is_doubtful: bool) -> None:
        """Credit the rules that make two URLs one, if this pair is of the sample."""
        weight = 1
        size = max(LEAST_SAMPLE, SAMPLE // len(self.by_host))
        while number >= 2 * size * weight:
            weight *= 2
        is_sampled = number % weight == 0
        shows = is_doubtful and len(self._suspicious) < MAX_SUSPICIOUS
        self._doubts += is_doubtful
        if not (is_sampled or shows):
            return
        # The rules that changed one of the two and not the other; or else all.
        one, two = self._acted(first), self._acted(url)
        rules = [*(n for n in two if n not in one), *(n for n in one if n not in two)] or [*one]
        if is_sampled:
            for rule in rules:
                self.credit[rule] += weight
                self.examples.setdefault(rule, (first, url))
        if shows:
            said = " ".join(self._sentences.get(name) or summary_of(name) for name in rules)
            reason = "different contents under one key"
            self._suspicious.append(Suspicion(reason, first, url, said))

    def _acted(self, url: str) -> dict[str, None]:
        assert self._normalizer is not None
        names: dict[str, None] = {}
        for step in self._normalizer.explain(url).steps:
            rule, _, source = step.reason.removeprefix("site rule: ").rpartition("; source ")
            names[self._names.get(rule, step.rule) if source else step.rule] = None
        return names

    @property
    def distinct(self) -> int:
        return len(self._contents)

    @property
    def suspicions(self) -> int:
        """All of them; *suspicious* are the first."""
        return self._doubts + len(list(_doubtful(self.rules)))

    @property
    def suspicious(self) -> list[Suspicion]:
        """What to look at: rules with evidence against them, and the first doubtful merges."""
        return [*_doubtful(self.rules), *self._suspicious]

    @property
    def hosts(self) -> list[Host]:
        """The hosts with most requests."""
        hosts = sorted(self.by_host.values(), key=lambda host: (-host.requests, host.host))
        return hosts[:MAX_HOSTS]

    @property
    def patterns(self) -> list[Left]:
        """The looks of pages that were fetched although their content had come before."""
        left = [each for each in self._patterns.values() if each.redundant]
        return sorted(left, key=lambda each: (-each.redundant, each.pattern))


_DIGITS, _PAIRS = re.compile(r"\d+"), re.compile("[&;]")


def pattern_of(url: str) -> str:
    """Return the look of a URL: host, first folder, depth, and names of parameters.

    >>> pattern_of("http://shop.test/forum/topic-7/page-2/?sort=up&id=3")
    'shop.test/forum/*/*/?id=&sort='
    >>> pattern_of("http://shop.test/doku.php?id=start")
    'shop.test/doku.php?id='
    """
    parts = split(url)
    segments = parts.path.split("/")
    last = len(segments) - 1
    shown = [
        _DIGITS.sub("N", segment) if at == 1 and (at < last or "." in segment) else segment and "*"
        for at, segment in enumerate(segments)
    ]
    query = ""
    if parts.query:
        names = {_DIGITS.sub("N", pair.partition("=")[0]) for pair in _PAIRS.split(parts.query)}
        query = "?" + "&".join(f"{name}=" for name in sorted(names))
    return f"{parts.host or ''}{'/'.join(shown)}{query}"
