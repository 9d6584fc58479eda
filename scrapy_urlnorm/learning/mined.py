"""Mine a site for a running crawl: from its rows, its rules in force and its robots.txt.

A site that answers ``/a/`` with a permanent redirect to ``/a`` says that the two are one resource
(RFC 9110, sections 15.4.2 and 15.4.9), and which of them has the page. The miner reads the first
part: a redirect has the content of its target. `judged` reads the second.
"""

from __future__ import annotations

import os
import sys
from collections import Counter, defaultdict
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from scrapy_urlnorm.learning import proposals, robots
from scrapy_urlnorm.learning.audit import Blame, grouped
from scrapy_urlnorm.learning.corpus import PLAIN, plain_key, slots_of
from scrapy_urlnorm.learning.media import DOOR, ENOUGH_FILES, FILES_ALONE, OF_FILE, OF_WALL, OnFiles
from scrapy_urlnorm.learning.mining import are_proof, survey
from scrapy_urlnorm.learning.priors import prior
from scrapy_urlnorm.learning.risk import Limits, support_needed
from scrapy_urlnorm.learning.rules import joined, reaches, settle
from scrapy_urlnorm.learning.strata import shown
from scrapy_urlnorm.learning.worker import PERMANENT, Job, Mined, receive, send
from scrapy_urlnorm.logs.observation import Observation
from scrapy_urlnorm.rules.data import index_names
from scrapy_urlnorm.site_rules import SiteRule
from scrapy_urlnorm.site_rules.form import Form, Slots
from scrapy_urlnorm.site_rules.operations import Replace
from scrapy_urlnorm.url import join, split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


#: A content has the vote of two at most, see `trials`.
_MOST = 2
#: Redirects that vote about a rule (a choice, for time).
_MOST_REDIRECTS = 2_000


def mined(job: Job) -> Mined:
    """Learn the rules of one site. Nothing is raised.

    A hundred rows take 10 to 50 ms: a crawl may call it by itself, as soon as a few redirects came.
    """
    try:
        rows = [_observation(*row) for row in job.rows if row[3] is None or row[1] in PERMANENT]
        rows = [row._replace(other=job.others.get(row.url)) for row in rows] if job.others else rows
        rules, in_doubt = _mine(job, rows)
        files = on_files(rules, rows)
        alone = {identity for identity, found in files.items() if found.is_alone}
        rules = (_noted(rule, FILES_ALONE, rule.identity in alone) for rule in rules)
        rules = with_doors(rules, rows)
        pairs = shown(rules, rows, without={rule.identity for rule in job.accepted})
    except Exception as error:  # noqa: BLE001 - whatever it is, the crawl has to go on
        return Mined(job.site, (), repr(error))
    return Mined(job.site, rules, on_files=files, shown=pairs, in_doubt=in_doubt)


def _observation(url: str, status: int, content: str | None, target: str | None) -> Observation:
    mime = "" if content is not None and content.startswith(OF_FILE) else None
    return Observation(url, status, content, location=target, mime=mime)


def _mine(
    job: Job, rows: Sequence[Observation]
) -> tuple[Iterable[SiteRule], Sequence[tuple[str, str]]]:
    declared = [rule for rule in job.accepted if rule.source == "robots"]
    others = tuple(rule for rule in job.accepted if rule.source != "robots")
    evidence = rows if job.contents else list(map(_by_its_url, rows))
    rules, against, in_doubt = _found(job, others, evidence)
    if against:
        rules, _, in_doubt = _found(job, others, [*evidence, *against])
    if not job.contents or not any(row.is_page for row in rows):
        known = {rule.identity for rule in others}
        rules = [
            rule
            for rule in rules
            if rule.identity in known or (rule.source == "redirect" and are_proof(rule))
        ]
    return joined(robots.proven([*declared, *job.candidates], rows), rules, job.banned), in_doubt


def _by_its_url(row: Observation) -> Observation:
    """Return a row whose content is that of no other page, but of what the catalogue merges."""
    if row.location is not None or row.status is None or not 200 <= row.status < 300:
        return row
    return row._replace(status=200, content=plain_key(row.url), mime=None)


def _found(
    job: Job, accepted: tuple[SiteRule, ...], rows: Sequence[Observation]
) -> tuple[Sequence[SiteRule], list[Observation], Sequence[tuple[str, str]]]:
    noise = 0.001 if job.contents else 0.0
    reports = list(
        survey(single_steps(rows), accepted=accepted, banned=job.banned, wary=True, noise=noise)
    )
    found = (rule for report in reports for rule in report.active)
    # Pages that the catalogue takes for one are fetched once: too late to tell them apart.
    rules, against = judged([rule for rule in found if not proposals.is_exception(rule)], rows)
    return rules, against, [pair for report in reports for pair in report.in_doubt]


# --- what redirects say ------------------------------------------------------------------------


def single_steps(rows: Sequence[Observation]) -> list[Observation]:
    """Return *rows*, with a redirect for each step of those that do several things at once.

    ``http://shop.example/a`` that leads to ``https://www.shop.example/a/`` says that so does
    ``https://shop.example/a``. What the log has of such a URL goes before.
    """
    known = {row.url for row in rows}
    steps = [
        row._replace(url=url)
        for row in rows
        if row.location is not None
        for url in _between(row.url, row.location)
        if url not in known
    ]
    return [*rows, *steps]


def _between(source: str, target: str) -> Iterator[str]:
    one, other = split(source), split(target)
    if one.host is None or other.host is None or _stem(one.path) != _stem(other.path):
        return
    if (one.userinfo, one.port, one.query) != (other.userinfo, other.port, other.query):
        return
    secure = one._replace(scheme=other.scheme)
    servers = (one, secure, secure._replace(host=other.host))
    steps = {server.with_path(path) for server in servers for path in (one.path, other.path)}
    yield from (join(step) for step in steps - {one, other})


def _stem(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return folder if not name or name in index_names() else path


def judged(
    rules: Sequence[SiteRule], rows: Sequence[Observation]
) -> tuple[Sequence[SiteRule], list[Observation]]:
    """Return *rules* as the redirects of *rows* have them, and rows that speak against some.

    A rule about hosts or schemes makes the URL that redirects the one with the page: a crawl asks
    for that one first. A rule that redirects prove for the greater part has them as its source.
    Where a page was served under a URL from which such a rule leads away, that URL and what the
    rule makes of it are two pages, unless both were compared.
    """
    told, leading = [], []
    for rule, (along, back) in zip(rules, _votes(rules, rows), strict=True):
        turned = _turned(rule) if len(back) > len(along) else None
        if turned is not None:
            rule, along, back = turned, back, along
        votes = max(len(along), len(back))
        if votes and 2 * votes >= (rule.support or 0):
            rule = rule.replace(source="redirect")
        told.append(rule)
        is_told = votes or rule.operation.slots != {"slash"}  # else its direction is not known
        if rule.source == "redirect" and is_told and len(along) >= len(back):
            leading.append(rule)
    return told, list(_against(leading, rows)) if leading else []


def _votes(
    rules: Sequence[SiteRule], rows: Sequence[Observation]
) -> list[tuple[set[str], set[str]]]:
    """Return the targets of redirects from where each rule leads away, and from where it leads to."""
    votes: list[tuple[set[str], set[str]]] = [(set(), set()) for _ in rules]
    redirects = ((row.url, row.location) for row in rows if row.location is not None)
    for url, location in islice(redirects, _MOST_REDIRECTS):
        source, target = slots_of(plain_key(url)), slots_of(plain_key(location))
        if source is None or target is None or settle(source, rules) != settle(target, rules):
            continue
        for rule, (along, back) in zip(rules, votes, strict=True):
            acts = _acts(rule, source)
            if acts is not _acts(rule, target):
                (along if acts else back).add(location)
    return votes


def _acts(rule: SiteRule, slots: Slots) -> bool:
    image = rule.image(slots) if reaches(rule.site, slots["host"]) else None
    return image is not None and image != slots


def _turned(rule: SiteRule) -> SiteRule | None:
    """Return the rule the other way round, if it is about one host or scheme."""
    op = rule.operation
    if not isinstance(op, Replace) or not op.slots <= {"scheme", "host"} or len(op.moves()) > 1:
        return None
    turned = Replace(op.new, op.old)
    return SiteRule.of(rule.site, turned, rule.context, rule.evidence)


def _against(rules: Sequence[SiteRule], rows: Sequence[Observation]) -> Iterator[Observation]:
    contents: dict[str, str | None] = {}
    targets: dict[str, str] = {}
    for row in rows:
        key = plain_key(row.url)
        if row.location is not None:
            targets[key] = plain_key(row.location)
        elif not row.is_file and row.status is not None and 200 <= row.status < 300:
            contents[key] = row.content or contents.get(key)
    for key, content in contents.items():
        slots = slots_of(key)
        for rule in rules:
            if slots is None or not _acts(rule, slots):
                continue
            form = rule.apply(Form(split(key)))
            twin = None if form is None else plain_key(join(form.to_url()))
            if twin is None or targets.get(twin) == key or (content and contents.get(twin)):
                continue
            yield from (Observation(url, 200, url) for url in (key, twin) if not contents.get(url))


# --- which pages the rules are about ----------------------------------------------------------


def on_files(rules: Iterable[SiteRule], rows: Iterable[Observation]) -> dict[str, OnFiles]:
    """Return by identity what *rows* that are files say about *rules*, which are in force together."""
    rules = tuple(rules)
    contents = {row.url: row.content for row in rows if row.is_page and row.is_file}
    if not rules or not contents:
        return {}
    normalizer, blame = PLAIN.replace_site_rules(rules), Blame(rules)
    groups = grouped(contents, normalizer)
    agree: defaultdict[int, set[str | None]] = defaultdict(set)
    differ: Counter[int] = Counter()
    for key, urls in groups.items():
        changed = (url for url in urls if len(urls) > 1 and plain_key(url) != key)
        acting = set().union(*(blame.of(url, normalizer) for url in changed))
        found = {contents[url] for url in urls}
        if len(found) > 1:
            differ.update(acting)
        else:
            for number in acting:
                agree[number] |= found
    return {
        rules[number].identity: OnFiles(
            len(agree[number]),
            differ[number],
            is_alone=len(agree[number]) >= ENOUGH_FILES
            and (rules[number].support or 0) - _MOST * len(agree[number])
            < support_needed(prior(rules[number].operation, rules[number].context), Limits().risk),
        )
        for number in agree.keys() | differ.keys()
    }


def with_doors(rules: Iterable[SiteRule], rows: Sequence[Observation]) -> tuple[SiteRule, ...]:
    """Return *rules*, those with a note that act on URLs of pages that ask for a password alone."""
    rules = tuple(rules)
    pages = [
        (row.url, row.content.startswith(OF_WALL)) for row in rows if row.is_page and row.content
    ]
    if not any(is_wall for _, is_wall in pages):
        return rules
    known = [(slots_of(plain_key(url)), is_wall) for url, is_wall in pages]
    noted = []
    for rule in rules:
        if rule.kind in ("ignore-value", "drop-param"):
            acted = [wall for slots, wall in known if slots and rule.image(slots) is not None]
            rule = _noted(rule, DOOR, bool(acted) and all(acted))
        noted.append(rule)
    return tuple(noted)


def _noted(rule: SiteRule, note: str, holds: bool) -> SiteRule:
    if holds:
        return rule.replace(note=note)
    return rule.replace(note=None) if rule.note == note else rule


def main() -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what anything prints is no answer
    with suppress(EOFError, BrokenPipeError):
        while True:
            send(answers, mined(receive(sys.stdin.buffer)))
