"""Where a rule holds: ``path`` and ``when`` as predicates over a `Form`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.site_rules.form import Form
from scrapy_urlnorm.site_rules.kinds import SYMBOLS
from scrapy_urlnorm.site_rules.paths import parse_pattern
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_urlnorm.site_rules.model import SiteRule


def listed(value: Any) -> list[str]:
    """Read a text or a list of texts."""
    return [value] if isinstance(value, str) else list(value)


def compile_context(
    rule: SiteRule, resolve: Callable[[Form, str], str | None]
) -> list[Callable[[Form], bool]]:
    """Return the predicates that all have to hold; *resolve* gives a symbol its text."""
    when = rule.when
    tests: list[Callable[[Form], bool]] = []
    if rule.path is not None and rule.kind != "param-to-path":
        pattern = parse_pattern(rule.path)
        if rule.slash:
            pattern = pattern._replace(slash=None)
        tests.append(pattern.matches)
    if "slash" in when:
        slash = when["slash"]
        tests.append(lambda form: form.slash is slash)
    if "scheme" in when:
        scheme = when["scheme"]
        tests.append(lambda form: form.scheme == scheme)
    if "host" in when:
        hosts = frozenset(listed(when["host"]))
        tests.append(lambda form: form.host in hosts)
    for position, value in when.get("segments", {}).items():
        tests.append(_segment_is(int(position), frozenset(listed(value))))
    if "has" in when:
        has = frozenset(listed(when["has"]))
        tests.append(lambda form: has <= {param.name for param in form.params})
    if "no" in when:
        no = frozenset(listed(when["no"]))
        tests.append(lambda form: not any(param.name in no for param in form.params))
    for name, value in when.get("params", {}).items():
        tests.append(_param_is(name, listed(value), resolve, absent=False))
    for name, value in when.get("among", {}).items():
        tests.append(_param_is(name, listed(value), resolve, absent=True))
    if "rest" in when:
        tests.append(_rest_is(rule))
    return tests


def _segment_is(position: int, values: frozenset[str]) -> Callable[[Form], bool]:
    def test(form: Form) -> bool:
        segments = form.segments
        inside = -len(segments) <= position < len(segments)
        return inside and segments[position] in values

    return test


def _param_is(
    name: str,
    values: list[str],
    resolve: Callable[[Form, str], str | None],
    *,
    absent: bool,
) -> Callable[[Form], bool]:
    accepted = frozenset(values)
    symbols = [value for value in values if value in SYMBOLS]

    def test(form: Form) -> bool:
        found = form.values(name)
        if not found:
            return absent
        resolved = accepted.union(resolve(form, symbol) or symbol for symbol in symbols)
        return all(value in resolved for value in found)

    return test


def _rest_is(rule: SiteRule) -> Callable[[Form], bool]:
    """The URL without the slots of the rule is exactly the path and query given."""
    own = own_params(rule)
    rest = Form(split("http://h" + rule.when["rest"]))
    wanted = Counter((param.name, param.value) for param in rest.params)
    any_slash = rule.slash

    def test(form: Form) -> bool:
        return (
            list(form.segments) == list(rest.segments)
            and (any_slash or form.slash is rest.slash)
            and wanted
            == Counter(
                (param.name, param.value)
                for param in form.params
                if param.name not in own and param.name != ""
            )
        )

    return test


def own_params(rule: SiteRule) -> frozenset[str]:
    """The parameters that the operation of *rule* reads or changes."""
    names = {*rule.param, *rule.default}
    slots = (*rule.old, *rule.new, *rule.slots, rule.slot or "")
    names.update(slot[2:] for slot in slots if slot.startswith("q:"))
    return frozenset(names)
