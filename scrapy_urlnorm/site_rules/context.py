"""Where a rule holds: ``path`` and ``when`` as predicates over a `Form`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules.form import Form, decode
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_urlnorm.site_rules.model import SiteRule


def segments_of(path: str) -> tuple[list[str], bool]:
    """Split a path field of a rule into decoded segments and its final slash."""
    raw = path.split("/")[1:]
    slash = bool(raw) and not raw[-1]
    return [decode(segment) for segment in (raw[:-1] if slash else raw)], slash


class PathPattern(NamedTuple):
    """A path template: ``before`` and, with ``**`` between them, ``after`` (else ``None``).

    An item is a literal, ``*`` (any segment), ``#`` (digits), or one of the two with an
    extension (``*.html``).
    """

    before: tuple[tuple[str, str], ...]
    after: tuple[tuple[str, str], ...] | None
    slash: bool | None

    def matches(self, form: Form) -> bool:
        """Whether the path of *form* is of this template."""
        if self.slash is not None and form.slash is not self.slash:
            return False
        segments = form.segments
        if self.after is None:
            return len(segments) == len(self.before) and all(map(_matches, segments, self.before))
        rest = len(segments) - len(self.after)
        return (
            rest >= len(self.before)
            and all(map(_matches, segments, self.before))
            and all(map(_matches, segments[rest:], self.after))
        )

    def literals(self) -> list[str]:
        """The segments that a path of this template has."""
        return [text for kind, text in (*self.before, *(self.after or ())) if kind == "="]

    def disjoint(self, other: PathPattern) -> bool:
        """Whether no path can be of both templates, as far as their beginnings tell."""
        return any(
            mine[0] == theirs[0] == "=" and mine[1] != theirs[1]
            for mine, theirs in zip(self.before, other.before, strict=False)
        )


def parse_pattern(path: str) -> PathPattern:
    """Read a path template; `SiteRuleError` for a wildcard that is only part of a segment."""
    raw = path.split("/")[1:]
    slash: bool | None = not raw[-1]
    if slash:
        del raw[-1]
    if raw.count("**") > 1:
        raise SiteRuleError(f"path = {path!r} is not accepted; accepted: one '**' at most")
    if raw and raw[-1] == "**":
        slash = None
    items = [_item(segment, path) for segment in raw if segment != "**"]
    if "**" not in raw:
        return PathPattern(tuple(items), None, slash)
    gap = raw.index("**")
    return PathPattern(tuple(items[:gap]), tuple(items[gap:]), slash)


def _item(segment: str, path: str) -> tuple[str, str]:
    if segment in ("*", "#"):
        return segment, ""
    if segment[:2] in ("*.", "#.") and not set(segment[1:]) & set("*#"):
        return segment[0], decode(segment[1:])
    if "*" in segment or "#" in segment:
        raise SiteRuleError(
            f"path = {path!r} is not accepted; accepted in a segment: text, or one of '*', '#', "
            "'*.ext', '#.ext' alone (a literal star is %2A, a literal # is %23)"
        )
    return "=", decode(segment)


def _matches(segment: str, item: tuple[str, str]) -> bool:
    kind, text = item
    if kind == "=":
        return segment == text
    if text:
        if not segment.endswith(text) or len(segment) == len(text):
            return False
        segment = segment[: -len(text)]
    return kind == "*" or (segment.isascii() and segment.isdigit())


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
    symbols = [value for value in values if value in ("{namespace}", "{page}")]

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
