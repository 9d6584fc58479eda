"""The rules of one host, compiled, and found by a slot that each of them needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.site_rules import catalogue
from scrapy_urlnorm.site_rules.context import compile_context
from scrapy_urlnorm.site_rules.kinds import KINDS
from scrapy_urlnorm.site_rules.operations import OPERATIONS, resolver
from scrapy_urlnorm.site_rules.paths import parse_pattern, segments_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from scrapy_urlnorm.site_rules.form import Form
    from scrapy_urlnorm.site_rules.model import SiteRule

_STRATUM = {kind: number for number, kind in enumerate(KINDS)}
# Rules of the catalogue that have a context stand between those on paths and those on values.
_CATALOGUE_STRATUM = _STRATUM["strip-suffix"] - 0.5


class Rule(NamedTuple):
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


class Site:
    """The rules of one host, found by a slot that each of them needs."""

    __slots__ = ("_built", "always", "by_param", "by_segment", "options", "rules")

    def __init__(self, rules: Iterable[SiteRule], options: Mapping[str, object]) -> None:
        self.rules = sorted(rules, key=order)
        self.options = options
        self.always: list[Rule] = []
        self.by_param: dict[str, list[Rule]] = {}
        self.by_segment: dict[str, list[Rule]] = {}
        self._built = False

    def _build(self) -> None:
        """Compile the rules, once the first URL of the host comes by."""
        always: list[Rule] = []
        by_param: dict[str, list[Rule]] = {}
        by_segment: dict[str, list[Rule]] = {}
        for rank, rule in enumerate(self.rules):
            compiled = _compile(rank, rule)
            params, segments = _needs(rule)
            if params:
                for name in params:
                    by_param.setdefault(name, []).append(compiled)
            elif segments:
                by_segment.setdefault(segments[-1], []).append(compiled)
            else:
                always.append(compiled)
        self.always, self.by_param, self.by_segment = always, by_param, by_segment
        self._built = True

    def candidates(self, form: Form) -> Sequence[Rule]:
        """The rules that may act on *form*, in the order of application."""
        if not self._built:
            self._build()
        found = self.always
        by_param, by_segment = self.by_param, self.by_segment
        if by_param:
            for name in by_param.keys() & {param.name for param in form.params}:
                found = found + by_param[name]
        if by_segment:
            for segment in by_segment.keys() & set(form.segments):
                found = found + by_segment[segment]
        if found is self.always:
            return found
        return [rule for _, rule in sorted({rule.rank: rule for rule in found}.items())]


def order(rule: SiteRule) -> tuple[float, str]:
    return _STRATUM.get(rule.kind, _CATALOGUE_STRATUM), rule.identity


def _compile(rank: int, rule: SiteRule) -> Rule:
    tests = compile_context(rule, resolver(rule))
    make = OPERATIONS.get(rule.kind, catalogue.operation)
    return Rule(rank, rule, tuple(tests), make(rule))


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
