"""The site rules of all hosts, ready to be applied: by host, by slot, until none acts.

The order of application does not depend on the order in the file. Within a pass it is that of
the kinds (host, path, values, sets of slots, single parameters), then that of the rules' text;
passes are repeated until one changes nothing.

Rules that would go round for ever are refused when the set is made, as far as example URLs of
the rules show it. Where a crawl meets such a circle all the same, the rules in it are left out
for that URL, and for no other.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from typing import TYPE_CHECKING

from scrapy_urlnorm.domains import MAX_HOST, registrable_domain
from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules.context import (
    Among,
    Has,
    Is,
    No,
    Pair,
    all_hold,
    context_text,
    pairs_of,
)
from scrapy_urlnorm.site_rules.form import Form, Slots, is_bare, is_param, path_and_query
from scrapy_urlnorm.site_rules.operations import CatalogueRule, Replace
from scrapy_urlnorm.text import logger_of
from scrapy_urlnorm.url import Url, split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from scrapy_urlnorm.site_rules.rule import SiteRule

    Recorder = Callable[[str, Url, Url, str], None]
    #: A rule that acted, and what it made.
    Acted = tuple[SiteRule, Form]
    _Table = dict[str, dict[str, SiteRule]]

logger = logger_of(__name__)

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
    said = [f"source {rule.evidence.source}"]
    numbers = ((name, getattr(rule.evidence, name)) for name in ("support", "conflicts"))
    said += [f"{name} {number}" for name, number in numbers if number is not None]
    return f"site rule: {rule}; {', '.join(said)}"


def is_switch(rule: SiteRule) -> bool:
    """Whether *rule* changes what the catalogue does for the whole site."""
    return isinstance(rule.operation, CatalogueRule) and not rule.context


class RulesByDomain:
    """Active site rules, found by the domain whose hosts they can act on.

    They are sorted by site, each written backwards: what is below one domain stands together
    there. The public suffix list is not asked, which would take a second for 100,000 sites.
    """

    def __init__(self, rules: Iterable[SiteRule]) -> None:
        self._rules = sorted((rule for rule in rules if rule.active), key=_name_backwards)
        self._names = list(map(_name_backwards, self._rules))

    def of(self, domain: str) -> tuple[SiteRule, ...]:
        """Return the rules of *domain*, of every name below it, and of those that it is below."""
        backwards = domain[::-1]
        found = self._between(f"{backwards}.", f"{backwards}/")  # "/" comes right after "."
        while backwards and len(backwards) <= MAX_HOST:
            found += self._between(backwards, f"{backwards}\0")
            backwards = backwards.rpartition(".")[0]
        return tuple(found)

    def _between(self, first: str, end: str) -> list[SiteRule]:
        return self._rules[bisect_left(self._names, first) : bisect_left(self._names, end)]


def _name_backwards(rule: SiteRule) -> str:
    return rule.site.removeprefix("*.")[::-1]


class _HostRules:
    """The rules of one host, each found by a slot or by a slot's value that it needs.

    ``options`` are those of the catalogue that the host has for itself. The index is made when
    the first URL of the host comes by: most hosts never do.
    """

    def __init__(self, rules: Iterable[SiteRule], options: Mapping[str, object]) -> None:
        self.rules = sorted(rules, key=lambda rule: rule.order)
        self.options = options

    @cached_property
    def named(self) -> frozenset[str]:
        """Parameters that rules name, and that would be a token where they stand alone."""
        slots: set[str] = set()
        for rule in self.rules:
            slots |= rule.operation.slots
            slots |= {each.slot for each in rule.context if isinstance(each, (Has, No, Is, Among))}
        return frozenset(s[2:] for s in slots if s[:2] == "q:" and is_bare(s[2:], ""))

    @cached_property
    def _index(self) -> tuple[set[int], dict[str | Pair, list[int]]]:
        """Places of rules that may act on any URL, and of others by what a URL needs for them."""
        always: set[int] = set()
        needing: dict[str | Pair, list[int]] = {}
        for rank, rule in enumerate(self.rules):
            needed = _needs(rule)
            for each in needed:
                needing.setdefault(each, []).append(rank)
            if not needed:
                always.add(rank)
        return always, needing

    def candidates(self, form: Form) -> list[SiteRule]:
        """Return the rules that may act on a fresh *form*, in the order of application."""
        ranks, needing = self._index
        found: list[int] = []
        for pair in (*form.slots.items(), ("s-1", form.last_segment())):
            if pair[0] in needing:
                found += needing[pair[0]]
            if pair in needing:
                found += needing[pair]
        rules = self.rules
        return [rules[rank] for rank in sorted(ranks.union(found) if found else ranks)]


def _needs(rule: SiteRule) -> Sequence[str | Pair]:
    """Return slots of which a URL needs one, or a slot with a value that it needs.

    A value is better: hundreds of rules of a site may be about one parameter.
    """
    context = rule.context
    pairs = [*rule.operation.pairs(), *(pair for each in context for pair in pairs_of(each))]
    known = [pair for pair in pairs if pair[0] == "s-1" or pair[0][:2] != "s-"]
    rare = [pair for pair in known if pair[0] not in ("slash", "scheme", "host")]
    if known:
        return ((rare or known)[-1],)
    named = [each.slot for each in context if isinstance(each, (Has, Is))]
    return rule.operation.any_of() or [slot for slot in named if is_param(slot)][:1]


class RuleSet:
    """Site rules ready to be applied.

    Raises `SiteRuleError`, naming the rules, for a rule that would leave its registrable
    domain, for two rules that contradict each other, and for rules that go round for ever.
    *told* are circles that were logged already, by another set of the same rules.
    """

    def __init__(
        self, rules: Iterable[SiteRule], told: set[frozenset[SiteRule]] | None = None
    ) -> None:
        #: What was done to the last URL: who has its key often asks for the rules, too.
        self._last: tuple[Url | None, list[Acted]] = (None, [])
        own, wide, moved = _by_site(rules)
        self.told = set() if told is None else told
        #: How many URLs met a circle of rules.
        self.rules_left_out = 0
        self._domains = {name: _host_rules(name, (), wide) for name in wide}
        self._hosts = {name: _host_rules(name, found.values(), wide) for name, found in own.items()}
        checked: set[object] = set()
        for table in (self._hosts, self._domains):
            for name, site in table.items():
                # Many sites run one software, and have its rules.
                acting = tuple((rule.operation, rule.context) for rule in site.rules)
                if name in moved or (len(acting) > 1 and acting not in checked):
                    checked.add(acting)
                    self._check_examples(name, site.rules)

    def has(self, host: str) -> bool:
        return self._of(host) is not None

    def _of(self, host: str) -> _HostRules | None:
        """Return the rules of *host*: its own and those of the domains that it is part of."""
        found = self._hosts.get(host)
        # A text that is too long for a name is below no domain; to try all its parts takes long.
        if found is None and self._domains and len(host) <= MAX_HOST:
            found = next(filter(None, map(self._domains.get, _parents(host))), None)
        return found

    def catalogue_options(self, host: str) -> Mapping[str, object]:
        """Return the options of catalogue rules that *host* has for itself."""
        site = self._of(host)
        return site.options if site is not None else {}

    def apply(self, url: Url, recorder: Recorder | None = None) -> Url:
        """Apply the rules of the host of *url* until none acts; the same `Url` if none did.

        *recorder* is called with the name of each rule that acted, the URL before and after,
        and the reason.
        """
        result, steps = self._settled(url)
        self._last = url, steps
        if recorder is not None:
            for rule, form in steps:
                before, url = url, form.to_url()
                recorder(rule.kind, before, url, reason(rule))
        return result

    def acting_on(self, url: Url) -> list[SiteRule]:
        """Return the rules that act on *url*, in the order in which they do."""
        known, steps = self._last
        return [rule for rule, _ in (steps if known == url else self._settled(url)[1])]

    def _settled(self, url: Url) -> tuple[Url, list[Acted]]:
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
            return url, steps, _NONE
        trail, starts = [url], [0]  # the URL before each pass, and the steps made by then
        while len(steps) > starts[-1]:
            if current in trail:
                return url, [], frozenset(rule for rule, _ in steps[starts[trail.index(current)] :])
            if len(trail) > _MAX_PASSES:
                return url, [], frozenset(rule for rule, _ in steps[len(steps) // 2 :])
            trail.append(current)
            starts.append(len(steps))
            current = self._pass(current, left_out, steps)
        return current, steps, _NONE

    def _pass(self, url: Url, left_out: frozenset[SiteRule], steps: list[Acted]) -> Url:
        """Apply each rule of the host once, in order; the same `Url` if none acted."""
        site = self._of(url.host or "")
        if site is None or url.path.count("/") > _MAX_SEGMENTS:
            return url
        form = Form(url, site.named)
        for rule in site.candidates(form):
            if left_out and rule in left_out:
                continue
            after = rule.apply(form)
            if after is not None:
                form = after
                steps.append((rule, form))
        return form.to_url()

    def _tell(self, circle: frozenset[SiteRule], url: Url) -> None:
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
        for url in filter(None, (_example(rule, name) for rule in rules)):
            circle = sorted(self._run(url, _NONE)[2], key=lambda rule: rule.order)
            if circle[1:]:
                first, *others = (f"({rule})" for rule in circle)
                raise SiteRuleError(
                    f"these rules undo each other for ever: {first} and {', '.join(others)}"
                )
            if circle:
                raise SiteRuleError(f"this rule acts on its own result for ever: ({circle[0]})")


def _example(rule: SiteRule, host: str) -> Url | None:
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
    while "." in host:
        host = host.partition(".")[2]
        yield host


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
        moves = rule.operation.moves() if isinstance(rule.operation, Replace) else []
        for host, target in moves:
            domain = registrable_domain(name)
            if not domain or {registrable_domain(host), registrable_domain(target)} != {domain}:
                raise SiteRuleError(
                    f"a rule stays in its registrable domain, which is {domain or name!r} here; "
                    f"{host!r} and {target!r} are not both in it: ({rule})"
                )
            own.setdefault(host, {})[rule.identity] = rule
            moved.add(host)
        if not moves:
            table.setdefault(name, {})[rule.identity] = rule
    return own, wide, moved


def _host_rules(name: str, rules: Iterable[SiteRule], wide: _Table) -> _HostRules:
    """Put the rules of one host together with those of the domains it is part of."""
    found = {rule.identity: rule for rule in rules}
    for parent in _parents(name) if wide else ():
        found.update(wide.get(parent, {}))
    acting = [rule for rule in found.values() if not is_switch(rule)]
    if len(acting) > 1:
        _check_contradictions(acting)
    return _HostRules(acting, _options(filter(is_switch, found.values()), acting))


def _options(switches: Iterable[SiteRule], acting: Iterable[SiteRule]) -> dict[str, object]:
    options: dict[str, object] = {}
    for operation in (rule.operation for rule in acting):
        if isinstance(operation, Replace):
            options |= operation.catalogue_options()
    said: dict[tuple[str, bool], SiteRule] = {}
    # A rule of the host itself comes last, and counts more than that of its domain.
    for rule in sorted(switches, key=lambda rule: not rule.site.startswith("*.")):
        other = said.setdefault((rule.kind, rule.site.startswith("*.")), rule)
        one, two = other.operation, rule.operation
        assert isinstance(one, CatalogueRule)
        assert isinstance(two, CatalogueRule)
        if one.canonical_option != two.canonical_option:
            raise _contradiction(other, rule)
        options[rule.kind] = one.switch
    return options


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
