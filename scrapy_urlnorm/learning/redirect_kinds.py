"""What a permanent redirect can prove: one difference of two URLs of a site, and its rule.

Four kinds of `SiteRule` say such a difference: host-alias, force-scheme, trailing-slash and
remove-directory-index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.domains import registrable_domain
from scrapy_urlnorm.learning.risk import risk
from scrapy_urlnorm.rules.data import index_names
from scrapy_urlnorm.rules.path import trailing_slash
from scrapy_urlnorm.site_rules import SiteRule
from scrapy_urlnorm.site_rules.form import Form

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_urlnorm.url import Url

#: How likely a redirect of a kind holds for its whole scope, before the site has said anything.
PRIORS = {
    "force-scheme": 0.8,
    "host-alias": 0.7,
    "remove-directory-index": 0.7,
    "trailing-slash": 0.5,
}


class Difference(NamedTuple):
    """One way in which source and target of a redirect differ, and where that holds."""

    host: str  #: the host the rule is for
    kind: str  #: the kind of the `SiteRule`
    value: str  #: its operand
    segment: str = ""  #: the first path segment that it holds for; "" for the whole host

    @property
    def anywhere(self) -> Difference:
        """The same for the whole host."""
        return self._replace(segment="")


def first_segment(url: Url) -> str:
    """Return the first path segment as the context of a rule has it, decoded; "" for the root."""
    return Form(url).slots.get("s0", "")


def differences(source: Url, target: Url) -> Iterator[Difference]:
    """Yield the differences that lead from *source* to *target*; none if anything else differs."""
    if source.host is None or target.host is None or source == target:
        return
    if (source.userinfo, source.port, source.query) != (
        target.userinfo,
        target.port,
        target.query,
    ):
        return
    if source.port is not None and (source.scheme, source.host) != (target.scheme, target.host):
        return
    found = []
    host = target.host
    if source.host != host:
        domain = registrable_domain(host)
        if not domain or registrable_domain(source.host) != domain:
            return
        found.append(Difference(host, "host-alias", source.host))
    if source.scheme != target.scheme:
        if {source.scheme, target.scheme} != {"http", "https"}:
            return
        found.append(Difference(host, "force-scheme", str(target.scheme)))
    path = source.path
    if path != target.path:
        folder, _, name = path.rpartition("/")
        if name in index_names() and target.path in (folder, folder + "/"):
            found.append(Difference(host, "remove-directory-index", name))
            path = folder + "/"
        if path != target.path:
            if path == target.path + "/":
                found.append(Difference(host, "trailing-slash", "remove"))
            elif path + "/" == target.path and _has_end(source, "add"):
                found.append(Difference(host, "trailing-slash", "add"))
            else:
                return
    yield from found


def traits(url: Url) -> Iterator[tuple[str, str]]:
    """Yield kind and value of the differences on its host that a page at *url* refutes."""
    yield "host", ""
    if url.scheme in ("http", "https"):
        yield "force-scheme", "http" if url.scheme == "https" else "https"
    for mode in ("add", "remove"):
        if _has_end(url, mode):
            yield "trailing-slash", mode
    name = url.path.rpartition("/")[2]
    if name in index_names():
        yield "remove-directory-index", name


def _has_end(url: Url, mode: str) -> bool:
    """Whether the rule for final slashes would change *url*."""
    return trailing_slash(url, mode) is not url


def rule_of(difference: Difference, support: int, examples: Iterable[tuple[str, str]]) -> SiteRule:
    """Return the rule that says a difference; `SiteRuleError` for text that no rule may hold."""
    host, kind, value, segment = difference
    operands: dict[str, Any]
    if kind == "host-alias":
        operands = {"host": (value,), "by": host}
    elif kind == "remove-directory-index":
        operands = {"option": [value]}
    else:
        operands = {"option": value}
    if segment:
        operands["when"] = {"segments": {"0": segment}}
    return SiteRule(
        site=host,
        kind=kind,
        source="redirect",
        support=support,
        conflicts=0,
        false_merge_upper=round(risk(support, 0, PRIORS[kind]), 4),
        examples=tuple(examples),
        **operands,
    )


def difference_of(rule: SiteRule) -> Difference | None:
    """Return the difference that a rule of a file says, if it is one that is learned here."""
    if rule.source != "redirect" or rule.path is not None:
        return None
    segment = ""
    if rule.when:
        segments = rule.when.get("segments", {})
        if len(rule.when) != 1 or list(segments) != ["0"] or not isinstance(segments["0"], str):
            return None
        segment = segments["0"]
    if rule.kind == "host-alias" and len(rule.host) == 1 and rule.by:
        domain = registrable_domain(rule.by)
        if not domain or registrable_domain(rule.host[0]) != domain:
            return None  # anybody may have written the rule: `differences` finds no such one
        return Difference(rule.by, rule.kind, rule.host[0], segment)
    if rule.kind in ("force-scheme", "trailing-slash") and isinstance(rule.option, str):
        return Difference(rule.site, rule.kind, rule.option, segment)
    option = rule.option
    if rule.kind == "remove-directory-index" and isinstance(option, (list, tuple)):
        return (
            Difference(rule.site, rule.kind, str(option[0]), segment) if len(option) == 1 else None
        )
    return None


def contradicted(
    active: Iterable[Difference], host: str, trait: tuple[str, str], segment: str
) -> list[Difference]:
    """Return the differences that a page with this trait contradicts."""
    return [
        difference
        for difference in active
        if difference.segment in ("", segment)
        and (
            difference.kind == "host-alias" and difference.value == host
            if trait == ("host", "")
            else difference[:3] == (host, *trait)
        )
    ]


def undoes(difference: Difference, other: Difference) -> bool:
    """Whether one takes a URL back to where the other takes it from."""
    if difference.kind != other.kind or difference.kind == "remove-directory-index":
        return False
    if difference.kind == "host-alias":
        return (difference.host, difference.value) == (other.value, other.host)
    return difference.host == other.host and difference.value != other.value
