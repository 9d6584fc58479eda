"""From site rules to something that applies them: by host, by slot, to a fixpoint.

Order of application, the same whatever the order in the file: within a pass, the kinds in the
order of `KINDS` (host, path, values, sets of slots, single parameters), then the rules of one
kind in the order of their text; passes are repeated until one changes nothing. Kinds that make
slots alike come before kinds that compare them, and `ignore-value`, which destroys, comes last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_urlnorm.domains import MAX_HOST, registrable_domain
from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules import catalogue
from scrapy_urlnorm.site_rules.form import Form
from scrapy_urlnorm.site_rules.index import Site, order
from scrapy_urlnorm.site_rules.termination import check_termination

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping

    from scrapy_urlnorm.site_rules.model import SiteRule
    from scrapy_urlnorm.url import Url

    Recorder = Callable[[str, Url, Url, str], None]

#: A URL on which rules act in more passes than this was made for it: it stays as it was.
_MAX_PASSES = 64


class CompiledSiteRules:
    """Site rules ready to be applied; immutable."""

    __slots__ = ("_domains", "_hosts", "hosts")

    def __init__(self, hosts: dict[str, Site], domains: dict[str, Site]) -> None:
        self._hosts = hosts
        self._domains = domains
        self.hosts: Container[str] = _Hosts(self)

    def site(self, host: str) -> Site | None:
        """The rules of *host*: its own and those of the domains that it is part of."""
        found = self._hosts.get(host)
        # What is too long for a name is below no domain; to try all of them would take long.
        if found is None and self._domains and len(host) <= MAX_HOST:
            found = next(filter(None, map(self._domains.get, _parents(host))), None)
        return found

    def catalogue_options(self, host: str) -> Mapping[str, object]:
        """The options of catalogue rules that *host* has for itself."""
        site = self.site(host)
        return site.options if site is not None else {}

    def apply(self, url: Url, recorder: Recorder | None = None) -> Url:
        """Apply the rules of the host of *url* until none acts; the same `Url` if none did.

        *recorder* is called with the name of each rule that acted, the URL before and after,
        and the reason.
        """
        original = url
        for _ in range(_MAX_PASSES):
            site = self.site(url.host or "")
            if site is None:
                return url
            form = Form(url)
            changed = False
            for rule in site.candidates(form):
                if recorder is None:
                    changed |= rule.act(form)
                elif rule.act(form):
                    changed = True
                    after = form.to_url()
                    recorder(rule.source.kind, url, after, reason(rule.source))
                    url = after
            if not changed:
                return url
            url = form.to_url()
        return original


class _Hosts:
    """The hosts that have rules, as a container."""

    __slots__ = ("_rules",)

    def __init__(self, rules: CompiledSiteRules) -> None:
        self._rules = rules

    def __contains__(self, host: object) -> bool:
        return isinstance(host, str) and self._rules.site(host) is not None


def _parents(host: str) -> Iterator[str]:
    """*host* and every domain that it is part of, the longest first."""
    yield host
    dot = host.find(".")
    while dot >= 0:
        host = host[dot + 1 :]
        yield host
        dot = host.find(".")


def reason(rule: SiteRule) -> str:
    """Say what a rule is and on what evidence it stands."""
    evidence = [f"source {rule.source}"]
    if rule.support is not None:
        evidence.append(f"support {rule.support}")
    if rule.conflicts is not None:
        evidence.append(f"conflicts {rule.conflicts}")
    return f"site rule: {rule}; {', '.join(evidence)}"


def compile_site_rules(rules: Iterable[SiteRule]) -> CompiledSiteRules:
    """Compile the active ones of *rules*.

    Raises `SiteRuleError`, naming the rules, for a rule that would leave its registrable
    domain, for two rules that contradict each other, and for rules that may not come to an end.
    """
    own: dict[str, dict[str, SiteRule]] = {}
    wide: dict[str, dict[str, SiteRule]] = {}
    moves: dict[str, dict[str, SiteRule]] = {}
    for rule in rules:
        if not rule.active:
            continue
        table, name = (wide, rule.site[2:]) if rule.site.startswith("*.") else (own, rule.site)
        if table is wide and not registrable_domain(name):
            raise SiteRuleError(f"site = {rule.site!r} is a public suffix, not one site: ({rule})")
        moved = moved_hosts(rule)
        for host, target in moved:
            _check_move(rule, name, host, target)
            own.setdefault(host, {})[rule.identity] = rule
            moves.setdefault(host, {})[target] = rule
        if not moved:
            table.setdefault(name, {})[rule.identity] = rule
    _check_moves(moves)
    domains = {name: _site(name, [], wide) for name in wide}
    hosts = {name: _site(name, found.values(), wide) for name, found in own.items()}
    return CompiledSiteRules(hosts, domains)


def _site(name: str, rules: Iterable[SiteRule], wide: Mapping[str, Mapping[str, SiteRule]]) -> Site:
    """Compile the rules of one host together with those of the domains it is part of."""
    found = {rule.identity: rule for rule in rules}
    if wide:
        for parent in _parents(name):
            found.update(wide.get(parent, {}))
    switches = [rule for rule in found.values() if catalogue.is_switch(rule)]
    acting = [rule for rule in found.values() if not catalogue.is_switch(rule)]
    if len(acting) > 1 or any(rule.kind in ("prefix-alias", "replace") for rule in acting):
        _check_contradictions(acting)
        check_termination([rule for rule in acting if not moved_hosts(rule)])
    return Site(acting, _options(switches, acting))


def _options(switches: list[SiteRule], acting: list[SiteRule]) -> dict[str, object]:
    options: dict[str, object] = {}
    said: dict[str, SiteRule] = {}
    for rule in acting:
        # These say where a URL belongs; the catalogue must not take it away from there again.
        if any(target.startswith("www.") for _, target in moved_hosts(rule)):
            options["www"] = False
        if "scheme" in rule.new:
            options["force-scheme"] = False
        if "slash" in rule.new and "slash" not in rule.old:
            options["trailing-slash"] = False
    for rule in switches:
        first = said.setdefault(rule.kind, rule)
        if catalogue.canonical_option(first) != catalogue.canonical_option(rule):
            # The host's own word counts more than that of its domain.
            own, other = (first, rule) if rule.site.startswith("*.") else (rule, first)
            if own.site.startswith("*.") or not other.site.startswith("*."):
                raise SiteRuleError(f"these two rules contradict each other: ({own}) and ({other})")
            said[rule.kind] = own
        options[rule.kind] = catalogue.switch_option(said[rule.kind])
    return options


def moved_hosts(rule: SiteRule) -> list[tuple[str, str]]:
    """The hosts that *rule* takes to another one, with the other one."""
    if rule.kind == "host-alias":
        return [(host, rule.by or "") for host in rule.host]
    if "host" in rule.old and rule.old["host"] != rule.new["host"]:
        return [(rule.old["host"], rule.new["host"])]
    return []


def _check_move(rule: SiteRule, site: str, host: str, target: str) -> None:
    domain = registrable_domain(site)
    if not domain or {registrable_domain(host), registrable_domain(target)} != {domain}:
        raise SiteRuleError(
            f"a rule stays in its registrable domain, which is {domain or site!r} here; "
            f"{host!r} and {target!r} are not both in it: ({rule})"
        )


def _check_moves(moves: Mapping[str, Mapping[str, SiteRule]]) -> None:
    """Refuse host aliases that go round in a circle, whatever their contexts."""
    done: set[str] = set()
    for start in moves:
        trail: list[tuple[str, Iterator[tuple[str, SiteRule]]]] = [
            (start, iter(moves[start].items()))
        ]
        on_trail = {start: next(iter(moves[start].values()))}
        while trail and start not in done:
            host, targets = trail[-1]
            step = next(targets, None)
            if step is None:
                done.add(host)
                trail.pop()
                on_trail.pop(host, None)
                continue
            target, rule = step
            on_trail[host] = rule
            if target in on_trail:
                raise SiteRuleError(
                    "these two rules go round in a circle of hosts: "
                    f"({on_trail[target]}) and ({rule})"
                )
            if target in moves and target not in done:
                trail.append((target, iter(moves[target].items())))
                on_trail[target] = rule


_SAID = {
    "host-alias": ("host", "by"),
    "prefix-alias": ("prefix", "by"),
    "param-to-path": ("param", "by"),
    "replace": ("old", "new"),
    "replace-text": ("text", "by"),
    "strip-tail": ("tail", "by"),
}


def _check_contradictions(rules: Iterable[SiteRule]) -> None:
    """Refuse two rules that give the same slots, in the same context, different meanings."""
    seen: dict[str, SiteRule] = {}
    for rule in rules:
        if rule.kind not in _SAID:
            continue
        result = _SAID[rule.kind][1]
        question = {key: value for key, value in rule.operation().items() if key != result}
        question.pop("site")
        other = seen.setdefault(repr(sorted(question.items(), key=str)), rule)
        if getattr(other, result) != getattr(rule, result):
            first, second = sorted((other, rule), key=order)
            raise SiteRuleError(f"these two rules contradict each other: ({first}) and ({second})")
