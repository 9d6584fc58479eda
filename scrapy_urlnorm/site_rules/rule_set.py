"""The site rules of all hosts, ready to be applied: by host, by slot, until none acts.

The order of application does not depend on the order in the file. Within a pass it is that of
`KINDS` (host, path, values, sets of slots, single parameters), then that of the rules' text;
passes are repeated until one changes nothing.

Rules that would go round for ever are refused when the set is made, as far as example URLs of
the rules show it. Where a crawl meets such a circle all the same, the rules in it are left out
for that URL, and for no other.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy_urlnorm.domains import MAX_HOST, registrable_domain
from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules.context import all_hold, context_text
from scrapy_urlnorm.site_rules.form import Form, Slots, path_and_query
from scrapy_urlnorm.site_rules.host_rules import HostRules
from scrapy_urlnorm.site_rules.operations import CatalogueRule
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping

    from scrapy_urlnorm.site_rules.rule import SiteRule
    from scrapy_urlnorm.url import Url

    Recorder = Callable[[str, Url, Url, str], None]
    #: A rule that acted, and what it made.
    Acted = tuple[SiteRule, Form]

logger = logging.getLogger(__name__)

#: No rules.
_NONE: frozenset[SiteRule] = frozenset()
#: A URL on which rules still act after so many passes grows for ever.
_MAX_PASSES = 64
#: A path with more segments was made to keep us busy: no site rule acts on it.
_MAX_SEGMENTS = 4_000
#: How often rules may act again on what came out without the rules of a circle.
_MAX_ROUNDS = 4


def reason(rule: SiteRule) -> str:
    """Say what a rule is and on what evidence it stands."""
    evidence = [f"source {rule.evidence.source}"]
    if rule.evidence.support is not None:
        evidence.append(f"support {rule.evidence.support}")
    if rule.evidence.conflicts is not None:
        evidence.append(f"conflicts {rule.evidence.conflicts}")
    return f"site rule: {rule}; {', '.join(evidence)}"


def is_switch(rule: SiteRule) -> bool:
    """Whether *rule* changes what the catalogue does for the whole site."""
    return isinstance(rule.operation, CatalogueRule) and not rule.context


class RuleSet:
    """Site rules ready to be applied.

    Raises `SiteRuleError`, naming the rules, for a rule that would leave its registrable
    domain, for two rules that contradict each other, and for rules that go round for ever.
    *told* are circles that were logged already, by another set of the same rules.
    """

    __slots__ = ("_domains", "_hosts", "hosts", "rules_left_out", "told")

    def __init__(
        self, rules: Iterable[SiteRule], told: set[frozenset[SiteRule]] | None = None
    ) -> None:
        own, wide, moved = _by_site(rules)
        self.told = set() if told is None else told
        #: How many URLs met a circle of rules.
        self.rules_left_out = 0
        self._domains = {name: _host_rules(name, (), wide) for name in wide}
        self._hosts = {name: _host_rules(name, found.values(), wide) for name, found in own.items()}
        self.hosts: Container[str] = _Hosts(self)
        checked: set[object] = set()
        for table in (self._hosts, self._domains):
            for name, site in table.items():
                if name in moved:
                    self._check_examples(name, site.rules)
                elif len(site.rules) > 1:  # many sites run one software, and have its rules
                    acting = tuple((rule.operation, rule.context) for rule in site.rules)
                    if acting not in checked:
                        checked.add(acting)
                        self._check_examples(name, site.rules)

    def site(self, host: str) -> HostRules | None:
        """Return the rules of *host*: its own and those of the domains that it is part of."""
        found = self._hosts.get(host)
        # A text that is too long for a name is below no domain; to try all its parts takes long.
        if found is None and self._domains and len(host) <= MAX_HOST:
            found = next(filter(None, map(self._domains.get, _parents(host))), None)
        return found

    def catalogue_options(self, host: str) -> Mapping[str, object]:
        """Return the options of catalogue rules that *host* has for itself."""
        site = self.site(host)
        return site.options if site is not None else {}

    def apply(self, url: Url, recorder: Recorder | None = None) -> Url:
        """Apply the rules of the host of *url* until none acts; the same `Url` if none did.

        *recorder* is called with the name of each rule that acted, the URL before and after,
        and the reason.
        """
        result, steps = self._steps(url)
        if recorder is not None:
            for rule, form in steps:
                before, url = url, form.to_url()
                recorder(rule.kind, before, url, reason(rule))
        return result

    def acting_on(self, url: Url) -> list[SiteRule]:
        """Return the rules that act on *url*, in the order in which they do."""
        return [rule for rule, _ in self._steps(url)[1]]

    def _steps(self, url: Url) -> tuple[Url, list[Acted]]:
        steps: list[Acted] = []
        result = self._pass(url, _NONE, steps)
        if not steps:
            return url, steps
        if self._pass(result, _NONE, []) is not result:  # rare: rules act on what rules made
            return self._apply(url)
        return result, steps

    def _apply(self, url: Url) -> tuple[Url, list[Acted]]:
        """Apply the rules; where some go round in a circle, without these.

        The result is a URL on which the same call changes nothing. If some rules would not come
        to rest on what is left without others either, the URL stays as it was.
        """
        result = url
        steps: list[Acted] = []
        for number in range(_MAX_ROUNDS):
            rested, made, circle = self._run(result, _NONE)
            if not circle:
                return rested, steps + made
            left_out = circle
            while circle:
                rested, made, circle = self._run(result, left_out)
                left_out |= circle
            self.rules_left_out += number == 0
            self._tell(left_out, url)
            if rested == result:
                return result, steps
            result, steps = rested, steps + made
        return url, []

    def _run(
        self, url: Url, left_out: frozenset[SiteRule]
    ) -> tuple[Url, list[Acted], frozenset[SiteRule]]:
        """Apply rules but those *left_out* until none acts; or return the rules of a circle."""
        steps: list[Acted] = []
        current = self._pass(url, left_out, steps)
        if not steps:
            return url, steps, frozenset()
        trail, starts = [url], [0]  # the URL before each pass, and the steps made by then
        for _ in range(_MAX_PASSES):
            if current in trail:
                start = starts[trail.index(current)]
                return url, [], frozenset(rule for rule, _ in steps[start:])
            size = len(steps)
            trail.append(current)
            starts.append(size)
            current = self._pass(current, left_out, steps)
            if len(steps) == size:  # no rule acted
                return current, steps, frozenset()
        return url, [], frozenset(rule for rule, _ in steps[len(steps) // 2 :])

    def _pass(self, url: Url, left_out: frozenset[SiteRule], steps: list[Acted]) -> Url:
        """Apply each rule of the host once, in order; the same `Url` if none acted."""
        site = self.site(url.host or "")
        if site is None or url.path.count("/") > _MAX_SEGMENTS:
            return url
        form = site.form(url)
        acted = False
        for rule in site.candidates(form):
            if left_out and rule in left_out:
                continue
            after = rule.apply(form)
            if after is not None:
                form = after
                acted = True
                steps.append((rule, form))
        return form.to_url() if acted else url

    def _tell(self, circle: frozenset[SiteRule], url: Url) -> None:
        """Log a circle of rules, each once."""
        if circle not in self.told:
            self.told.add(circle)
            logger.warning(
                "These site rules undo each other for ever on some URLs of %s; they are left out "
                "there: %s",
                url.host,
                ", ".join(f"({rule})" for rule in sorted(circle, key=lambda rule: rule.order)),
            )

    def _check_examples(self, name: str, rules: Iterable[SiteRule]) -> None:
        """Raise `SiteRuleError` if rules go round for ever on an example URL of one of them."""
        for rule in rules:
            url = example(rule, name)
            if url is None:
                continue
            _, _, circle = self._run(url, _NONE)
            if circle:
                first, *others = sorted(circle, key=lambda rule: rule.order)
                if not others:
                    raise SiteRuleError(f"this rule acts on its own result for ever: ({first})")
                raise SiteRuleError(
                    f"these rules undo each other for ever: ({first}) and "
                    + ", ".join(f"({other})" for other in others)
                )


class _Hosts:
    """The hosts that have rules, as a container."""

    __slots__ = ("_rules",)

    def __init__(self, rules: RuleSet) -> None:
        self._rules = rules

    def __contains__(self, host: object) -> bool:
        return isinstance(host, str) and self._rules.site(host) is not None


def example(rule: SiteRule, host: str) -> Url | None:
    """Return a URL of *host* on which *rule* acts; ``None`` if none is found."""
    slots: Slots = {"scheme": "http", "host": host, "s0": "x"}
    for _ in range(2):  # what the operation needs may undo what the context needs
        for condition in rule.context:
            slots = condition.example(slots)
        slots = rule.operation.example(slots)
    if not all_hold(rule.context, slots):
        return None
    url = split(f"http://h{path_and_query(slots)}")
    return url._replace(scheme=slots["scheme"], host=slots["host"])


def _parents(host: str) -> Iterator[str]:
    """Yield *host* and every domain that it is part of, the longest first."""
    yield host
    dot = host.find(".")
    while dot >= 0:
        host = host[dot + 1 :]
        yield host
        dot = host.find(".")


_Table = dict[str, dict[str, "SiteRule"]]


def _by_site(rules: Iterable[SiteRule]) -> tuple[_Table, _Table, set[str]]:
    """Sort the active rules by the host, or by the domain, on which they act.

    A rule that moves a URL to another host acts on the hosts that it moves, which come third.
    """
    own: _Table = {}
    wide: _Table = {}
    moved: set[str] = set()
    for rule in rules:
        if not rule.active:
            continue
        table, name = (wide, rule.site[2:]) if rule.site.startswith("*.") else (own, rule.site)
        if table is wide and not registrable_domain(name):
            raise SiteRuleError(f"site = {rule.site!r} is a public suffix, not one site: ({rule})")
        moves = rule.operation.moves()
        for host, target in moves:
            _check_move(rule, name, host, target)
            own.setdefault(host, {})[rule.identity] = rule
            moved.add(host)
        if not moves:
            table.setdefault(name, {})[rule.identity] = rule
    return own, wide, moved


def _check_move(rule: SiteRule, site: str, host: str, target: str) -> None:
    domain = registrable_domain(site)
    if not domain or {registrable_domain(host), registrable_domain(target)} != {domain}:
        raise SiteRuleError(
            f"a rule stays in its registrable domain, which is {domain or site!r} here; "
            f"{host!r} and {target!r} are not both in it: ({rule})"
        )


def _host_rules(
    name: str, rules: Iterable[SiteRule], wide: Mapping[str, Mapping[str, SiteRule]]
) -> HostRules:
    """Put the rules of one host together with those of the domains it is part of."""
    found = {rule.identity: rule for rule in rules}
    if wide:
        for parent in _parents(name):
            found.update(wide.get(parent, {}))
    switches: list[SiteRule] = []
    acting: list[SiteRule] = []
    for rule in found.values():
        (switches if is_switch(rule) else acting).append(rule)
    if len(acting) > 1:
        _check_contradictions(acting)
    return HostRules(acting, _options(switches, acting))


def _options(switches: Iterable[SiteRule], acting: Iterable[SiteRule]) -> dict[str, object]:
    options: dict[str, object] = {}
    for rule in acting:
        options |= rule.operation.catalogue_options()
    said: dict[str, SiteRule] = {}
    for rule in switches:
        first = said.setdefault(rule.kind, rule)
        if _switch(first).canonical_option != _switch(rule).canonical_option:
            # The rule of the host itself counts more than that of its domain.
            own, other = (first, rule) if rule.site.startswith("*.") else (rule, first)
            if own.site.startswith("*.") or not other.site.startswith("*."):
                raise _contradiction(own, other)
            said[rule.kind] = own
        options[rule.kind] = _switch(said[rule.kind]).switch
    return options


def _switch(rule: SiteRule) -> CatalogueRule:
    assert isinstance(rule.operation, CatalogueRule)
    return rule.operation


def _check_contradictions(rules: Iterable[SiteRule]) -> None:
    """Refuse two rules that give the same slots, in the same context, different meanings."""
    seen: dict[object, SiteRule] = {}
    for rule in rules:
        key = rule.operation.key
        if key is None:
            continue
        other = seen.setdefault((rule.kind, key, context_text(rule.context)), rule)
        if other.operation != rule.operation:
            raise _contradiction(*sorted((other, rule), key=lambda rule: rule.order))


def _contradiction(first: SiteRule, second: SiteRule) -> SiteRuleError:
    return SiteRuleError(f"these two rules contradict each other: ({first}) and ({second})")
