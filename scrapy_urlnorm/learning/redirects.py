"""What permanent redirects say of the rules of a site that is being crawled.

A site that answers ``/a/`` with a permanent redirect to ``/a`` says that the two are one resource
(RFC 9110, sections 15.4.2 and 15.4.9), and which of them has the page. The miner reads the first
part: a redirect has the content of its target. The rest is here.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from scrapy_urlnorm.learning.in_force import reaches
from scrapy_urlnorm.learning.rules import settle
from scrapy_urlnorm.learning.slots import slots_of
from scrapy_urlnorm.logs.observation import Observation
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.rules.data import index_names
from scrapy_urlnorm.site_rules import SiteRule
from scrapy_urlnorm.site_rules.form import Form
from scrapy_urlnorm.site_rules.operations import DropParam, HostAlias, Replace, StripTail
from scrapy_urlnorm.url import join, split

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrapy_urlnorm.site_rules.form import Slots

PERMANENT = frozenset((301, 308))
_PLAIN = Normalizer("default")
_SERVER = frozenset(("scheme", "host"))
#: Redirects that vote about a rule (a choice, for time).
_MOST = 2_000
#: Different targets of redirects that a rule makes one with their sources: from where the rule
#: leads away, and from where it leads to.
_Votes = tuple[set[str], set[str]]


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


def are_proof(rule: SiteRule) -> bool:
    """Whether redirects alone prove *rule*: hosts, schemes, final slashes and index files."""
    op = rule.operation
    return isinstance(op, (HostAlias, StripTail)) or (
        isinstance(op, (Replace, DropParam)) and op.slots <= {*_SERVER, "slash"}
    )


def judged(
    rules: Sequence[SiteRule], rows: Sequence[Observation]
) -> tuple[tuple[SiteRule, ...], list[Observation]]:
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
    return tuple(told), list(_against(leading, rows)) if leading else []


def _votes(rules: Sequence[SiteRule], rows: Sequence[Observation]) -> list[_Votes]:
    votes: list[_Votes] = [(set(), set()) for _ in rules]
    redirects = ((row.url, row.location) for row in rows if row.location is not None)
    for url, location in islice(redirects, _MOST):
        source, target = slots_of(_PLAIN.normalize(url)), slots_of(_PLAIN.normalize(location))
        if source is None or target is None or settle(source, rules) != settle(target, rules):
            continue
        for rule, (along, back) in zip(rules, votes, strict=True):
            acts = _acts(rule, source)
            if acts is not _acts(rule, target):
                (along if acts else back).add(location)
    return votes


def _acts(rule: SiteRule, slots: Slots) -> bool:
    if not reaches(rule.site, slots["host"]):
        return False
    image = rule.image(slots)
    return image is not None and image != slots


def _turned(rule: SiteRule) -> SiteRule | None:
    """Return the rule the other way round, if it is about one host or scheme."""
    op = rule.operation
    if isinstance(op, HostAlias) and len(op.hosts) == 1:
        turned: HostAlias | Replace = HostAlias((op.by,), op.hosts[0])
    elif isinstance(op, Replace) and {name for name, _ in op.old + op.new} <= _SERVER:
        turned = Replace(op.new, op.old)
    else:
        return None
    return SiteRule.of(rule.site, turned, rule.context, rule.evidence)


def _against(rules: Sequence[SiteRule], rows: Sequence[Observation]) -> Iterator[Observation]:
    contents: dict[str, str | None] = {}
    targets: dict[str, str] = {}
    for row in rows:
        key = _PLAIN.normalize(row.url)
        if row.location is not None:
            targets[key] = _PLAIN.normalize(row.location)
        elif not row.is_file and row.status is not None and 200 <= row.status < 300:
            contents[key] = row.content or contents.get(key)
    for key, content in contents.items():
        slots = slots_of(key)
        if slots is None or not any(_acts(rule, slots) for rule in rules):
            continue
        for rule in rules:
            form = rule.apply(Form(split(key))) if _acts(rule, slots) else None
            twin = None if form is None else _PLAIN.normalize(join(form.to_url()))
            if twin is None or targets.get(twin) == key or (content and contents.get(twin)):
                continue
            yield from (Observation(url, 200, url) for url in (key, twin) if not contents.get(url))
