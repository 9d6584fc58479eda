"""From site rules to something that applies them: by host, by slot, to a fixpoint.

Order of application, the same whatever the order in the file: within a pass, the kinds in the
order of `KINDS` (host, path, values, sets of slots, single parameters), then the rules of one
kind in the order of their text; passes are repeated until one changes nothing. Kinds that make
slots alike come before kinds that compare them, and `ignore-value`, which destroys, comes last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules import catalogue
from scrapy_urlnorm.site_rules.context import compile_context, parse_pattern, segments_of
from scrapy_urlnorm.site_rules.domains import registrable_domain
from scrapy_urlnorm.site_rules.form import Form
from scrapy_urlnorm.site_rules.model import KINDS, SiteRule
from scrapy_urlnorm.site_rules.operations import OPERATIONS, resolver
from scrapy_urlnorm.site_rules.termination import check_termination

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from scrapy_urlnorm.url import Url

    Recorder = Callable[[str, Url, Url, str], None]

_STRATUM = {kind: number for number, kind in enumerate(KINDS)}
# Rules of the catalogue that have a context stand between those on paths and those on values.
_CATALOGUE_STRATUM = _STRATUM["strip-suffix"] - 0.5
#: A URL on which rules act in more passes than this was made for it: it stays as it was.
_MAX_PASSES = 64


class _Rule(NamedTuple):
    """A compiled rule; `rank` is its place in the order of application."""

    rank: int
    source: SiteRule
    tests: tuple[Callable[[Form], bool], ...]
    operation: Callable[[Form], bool]

    def act(self, form: Form) -> bool:
        """Apply the rule where its context holds; whether it changed something."""
        for test in self.tests:
            if not test(form):
                return False
        return self.operation(form)


class _Site:
    """The rules of one host, found by a slot that each of them needs."""

    __slots__ = ("always", "by_param", "by_segment", "options", "rules")

    def __init__(self, rules: Iterable[SiteRule], options: Mapping[str, object]) -> None:
        self.rules = sorted(rules, key=_order)
        self.options = options
        self.always: list[_Rule] = []
        self.by_param: dict[str, list[_Rule]] = {}
        self.by_segment: dict[str, list[_Rule]] = {}
        for rank, rule in enumerate(self.rules):
            compiled = _compile(rank, rule)
            params, segments = _needs(rule)
            if params:
                for name in params:
                    self.by_param.setdefault(name, []).append(compiled)
            elif segments:
                self.by_segment.setdefault(segments[-1], []).append(compiled)
            else:
                self.always.append(compiled)

    def candidates(self, form: Form) -> Sequence[_Rule]:
        """The rules that may act on *form*, in the order of application."""
        found = self.always
        by_param, by_segment = self.by_param, self.by_segment
        if by_param:
            for param in form.params:
                if param.name in by_param:
                    found = found + by_param[param.name]
        if by_segment:
            for segment in form.segments:
                if segment in by_segment:
                    found = found + by_segment[segment]
        if found is self.always:
            return found
        return [rule for _, rule in sorted({rule.rank: rule for rule in found}.items())]


def _order(rule: SiteRule) -> tuple[float, str]:
    return _STRATUM.get(rule.kind, _CATALOGUE_STRATUM), rule.identity


def _compile(rank: int, rule: SiteRule) -> _Rule:
    tests = compile_context(rule, resolver(rule))
    make = OPERATIONS.get(rule.kind, catalogue.operation)
    return _Rule(rank, rule, tuple(tests), make(rule))


def _needs(rule: SiteRule) -> tuple[list[str], list[str]]:
    """Return parameters of which a URL needs one, and segments of which it needs all."""
    params: list[str] = []
    segments: list[str] = []
    if rule.kind in ("param-to-path", "lowercase-param", "dedupe-param") or (
        rule.kind == "drop-param" and not (rule.slash or rule.semicolons or rule.bare)
    ):
        params = list(rule.param)
    elif rule.kind in ("replace", "drop-default"):
        params = [slot[2:] for slot in rule.old if slot.startswith("q:")][:1]
        params = params or list(rule.default)[:1]
        segments = [v for s, v in rule.old.items() if s[0] == "s" and s[1:].lstrip("-").isdigit()]
    elif rule.slot and rule.slot.startswith("q:"):
        params = [rule.slot[2:]]
    elif rule.slots and all(slot.startswith("q:") for slot in rule.slots):
        params = [slot[2:] for slot in rule.slots]
    elif rule.kind == "strip-segment" and rule.segment:
        segments = [rule.segment]
    elif rule.kind == "prefix-alias" and rule.prefix:
        segments = segments_of(rule.prefix)[0]
    elif rule.kind == "strip-tail" and rule.tail:
        segments = segments_of(rule.tail)[0]
    if not params and not segments:
        has = rule.when.get("has", ())
        params = [has] if isinstance(has, str) else list(has)[:1]
        params = params or list(rule.when.get("params", ()))[:1]
        if rule.path is not None and rule.kind != "param-to-path":
            segments = parse_pattern(rule.path).literals()
    return params, segments


class CompiledSiteRules:
    """Site rules ready to be applied; immutable."""

    __slots__ = ("_domains", "_hosts", "hosts")

    def __init__(self, hosts: dict[str, _Site], domains: dict[str, _Site]) -> None:
        self._hosts = hosts
        self._domains = domains
        self.hosts: Container[str] = _Hosts(self)

    def site(self, host: str) -> _Site | None:
        """The rules of *host*: its own and those of the domains that it is part of."""
        found = self._hosts.get(host)
        if found is None and self._domains:
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


def _site(
    name: str, rules: Iterable[SiteRule], wide: Mapping[str, Mapping[str, SiteRule]]
) -> _Site:
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
    return _Site(acting, _options(switches, acting))


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
            first, second = sorted((other, rule), key=_order)
            raise SiteRuleError(f"these two rules contradict each other: ({first}) and ({second})")
