"""Gathers the figures of a report: from crawl logs, or from what a crawl left in its folder."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.logs import Observation
from scrapy_urlnorm.masking import placeholders
from scrapy_urlnorm.report.figures import Figures, Point, RuleFigures, Suspicion
from scrapy_urlnorm.report.filtered import rule_in_words
from scrapy_urlnorm.report.rows import RowFigures
from scrapy_urlnorm.rules import RULE_NAMES
from scrapy_urlnorm.text import counted, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from scrapy_urlnorm.normalizer import Normalizer
    from scrapy_urlnorm.report.figures import Host
    from scrapy_urlnorm.report.job import Job
    from scrapy_urlnorm.report.job import Point as Progress
    from scrapy_urlnorm.site_rules import SiteRule

_LONGEST_URL, _LONGEST_NOTE = 160, 300
MAX_RULES = 10_000
#: A rule in force whose bound on wrong merges is above this is suspicious.
DOUBTFUL = 0.02

AS_LOGGED, WITH_RULES = "as logged", "with these rules"
THIS_CRAWL, STOCK = "this crawl", "stock Scrapy"


def from_logs(rows: Iterable[Observation], normalizer: Normalizer, *, title: str) -> Figures:
    """Return what the rules of *normalizer* would have spared the crawl that made a log."""
    found = RowFigures(normalizer)
    found.add_all(rows)
    rules = _rule_figures(normalizer.site_rules, found.credit, {}, found.example)
    notes = [_FORECAST]
    if not normalizer.site_rules:
        notes.append(_NO_SITE_RULES)
    if found.requests and not found.pages:
        notes.append(_NO_CONTENTS)
    course = found.course(AS_LOGGED, WITH_RULES)
    hosts = found.hosts()
    return _figures(title, notes, found, rules, hosts, course, found.spared, is_forecast=True)


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


def from_crawl(rows: Iterable[Observation], job: Job, *, title: str) -> Figures:
    """Return what a crawl did: *rows* it fetched, *job* has what it did not and what it learned."""
    found = RowFigures()
    found.add_all(rows)
    by_host: Counter[str] = Counter()
    by_rule: Counter[str] = Counter()
    for (host, names), count in job.saved().items():
        by_host[host] += count
        by_rule.update(dict.fromkeys(names, count))
    examples = job.examples()
    learned = job.rules()
    tested = {rule_in_words(rule): agreed for rule, agreed in learned}
    figures = _rule_figures(
        [rule for rule, _ in learned], by_rule, tested, lambda rule: examples.get(rule, ("", ""))
    )
    notes = ["Spared are requests that stock Scrapy would have sent and this crawl did not."]
    if held := job.count_held():
        notes.append(
            f"{counted(held, 'request')} {'is' if held == 1 else 'are'} suppressed because of what "
            "was learned."
        )
    if not found.distinct:
        notes.append(_NO_CONTENTS)
    course = _beside_stock(found.course(THIS_CRAWL, None), job.progress())
    hosts = [host._replace(spared=by_host[host.host]) for host in found.hosts()]
    return _figures(title, notes, found, figures, hosts, course, by_host.total(), is_forecast=False)


def _figures(
    title: str,
    notes: Iterable[str],
    found: RowFigures,
    rules: Sequence[RuleFigures],
    hosts: Iterable[Host],
    course: Iterable[Point],
    spared: int,
    *,
    is_forecast: bool,
) -> Figures:
    doubtful = _doubtful(rules)
    return Figures(
        title=title,
        notes=tuple(notes),
        is_forecast=is_forecast,
        requests=found.requests,
        pages=found.pages,
        distinct=found.distinct,
        spared=spared,
        left=found.left,
        suspicions=found.suspicions + len(doubtful),
        course=tuple(course),
        hosts=tuple(hosts),
        rules=tuple(rules),
        suspicious=tuple(_masked([*doubtful, *found.suspicious()])),
        groups=tuple(_masked(found.groups())),
        patterns=tuple(_masked(found.patterns())),
    )


def rows_of(job: Job) -> Iterator[Observation]:
    """Return the pages that a crawl wrote down in JOBDIR, as rows of a log."""
    for url, content in job.pages():
        if url:
            yield Observation(url, 200, content)


def _beside_stock(course: Sequence[Point], progress: Sequence[Progress]) -> Iterator[Point]:
    """Yield *course* and the line of stock Scrapy, which needs more requests for the same pages.

    *progress* counts all answers, *course* those that were written down: the share of all is what
    the two have in common.
    """
    yield from course
    if not progress or not progress[-1].requests or not course[-1].requests:
        return
    marks = [point.requests for point in progress]
    for point in course:
        at = point.requests / course[-1].requests * marks[-1]
        known = bisect_right(marks, at)
        saved = progress[known - 1].saved if known else 0
        yield Point(STOCK, point.requests + max(0, saved), point.distinct)


def _rule_figures(
    rules: Sequence[SiteRule],
    spared: Mapping[str, int],
    tested: Mapping[str, int],
    example: Callable[[str], tuple[str, str]],
) -> list[RuleFigures]:
    """Return all rules: those that spared most first, then the other rules of the sites."""
    rest = Counter(spared)
    figures = []
    for rule in rules:
        name = rule_in_words(rule)
        one, other = rule.examples[0] if rule.examples else example(name)
        figures.append(
            RuleFigures(
                name,
                rule.status,
                rule.source,
                rest.pop(name, 0),
                rule.support,
                rule.conflicts,
                rule.false_merge_upper,
                tested.get(name),
                one,
                other,
                shortened(rule.note or "", _LONGEST_NOTE),
            )
        )
    for name, number in rest.items():
        source = "catalogue" if name in RULE_NAMES else "learned"
        one, other = example(name)
        figures.append(
            RuleFigures(name, "active", source, number, None, None, None, None, one, other, "")
        )
    figures.sort(key=lambda each: (-each.spared, each.rule))
    return list(_masked(figures[:MAX_RULES]))


def _doubtful(rules: Iterable[RuleFigures]) -> list[Suspicion]:
    """Return what is suspicious of *rules*: retracted, or likelier wrong than a rule should be."""
    found = []
    for rule in rules:
        if rule.status == "rejected":
            reason = f"retracted: {rule.note}" if rule.note else "retracted"
        elif rule.status == "active" and (rule.upper or 0) > DOUBTFUL:
            reason = f"{rule.upper:.1%} of what it merges may be wrong"
        elif rule.status == "active" and rule.conflicts:
            reason = f"{counted(rule.conflicts, 'observation')} against it"
        else:
            continue
        found.append(Suspicion(reason, rule.one, rule.other, rule.rule))
    return found


def _masked(rows: Iterable[Any]) -> Iterator[Any]:
    """Return *rows* with the secrets in their URLs masked, and with long texts shortened."""
    for row in rows:
        changed = {}
        for name in ("one", "other", "examples", "note", "reason"):
            text = getattr(row, name, None)
            if text:
                split_at = "\n" if name == "examples" else " "
                words = placeholders(text.split(split_at))
                changed[name] = split_at.join(shortened(word, _LONGEST_URL) for word in words)
        yield row._replace(**changed)
