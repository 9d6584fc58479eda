"""What a SiteRule may say: the checks made when one is created."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules import catalogue, kinds
from scrapy_urlnorm.site_rules.paths import parse_pattern

if TYPE_CHECKING:
    from scrapy_urlnorm.site_rules.model import SiteRule

# A host as the catalogue writes it: lower case, ASCII (or an IP literal), without a port.
_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]{0,252})|\[[0-9a-f:.]+\]")
_SLOT = re.compile(r"\?|s-?\d{1,2}|q:.+", re.DOTALL)
_REPLACED_SLOT = re.compile(r"scheme|host|slash|s-?\d{1,2}|q:.+", re.DOTALL)
#: What may never become a path segment: it would be resolved away or vanish.
DOT_SEGMENTS = ("", ".", "..")


def validate(rule: SiteRule, given: list[str]) -> None:
    """Raise `SiteRuleError` for whatever *rule*, whose operands *given* are set, may not say."""
    _check_site(rule.site)
    if rule.path is not None:  # the checks of some kinds read it
        _path("path")(rule, rule.path)
    spec = kinds.KINDS.get(rule.kind) if isinstance(rule.kind, str) else None
    if spec is None:
        spec = _catalogue_kind(rule.kind)
    _check_operands(rule, spec, given)
    for name in given:
        check = _CHECKS.get(name)
        if check is not None:
            check(rule, getattr(rule, name))
    _check_kind(rule)
    _check_context(rule)
    _check_evidence(rule)


def _fail(what: str, value: object, accepted: str) -> SiteRuleError:
    return SiteRuleError(f"{what} = {value!r} is not accepted; accepted: {accepted}")


def _catalogue_kind(kind: str) -> kinds.Kind:
    if kind not in catalogue.CATALOGUE_NAMES:
        raise _fail("kind", kind, ", ".join((*kinds.KINDS, *catalogue.CATALOGUE_NAMES)))
    return kinds.Kind(("option",), (), "the rule of the catalogue, for this site")


def _check_site(site: object) -> None:
    host = site[2:] if isinstance(site, str) and site.startswith("*.") else site
    if not isinstance(host, str) or not _HOST.fullmatch(host):
        raise _fail("site", site, "a lower-case host like 'shop.example', or '*.shop.example'")


def _check_operands(rule: SiteRule, spec: kinds.Kind, given: list[str]) -> None:
    allowed = [name for name in (*spec.required, *spec.optional) if name != "path"]
    for name in given:
        if name not in allowed:
            raise SiteRuleError(
                f"a {rule.kind} rule has no {name!r}; it has: {', '.join(allowed)}, path, when"
            )
    for name in spec.required:
        # An empty text says something ("by" nothing); an empty list or table does not.
        if getattr(rule, name) is None or getattr(rule, name) in ((), {}):
            raise SiteRuleError(f"a {rule.kind} rule needs {name!r} ({spec.summary})")


def _text(name: str, *, empty: bool = False) -> Callable[[SiteRule, Any], None]:
    def check(rule: SiteRule, value: Any) -> None:
        if not isinstance(value, str) or not (value or empty):
            raise _fail(name, value, "a text" if empty else "a text that is not empty")

    return check


def _texts(name: str) -> Callable[[SiteRule, Any], None]:
    def check(rule: SiteRule, value: Any) -> None:
        texts = isinstance(value, tuple) and all(isinstance(item, str) for item in value)
        if not texts or len(set(value)) < len(value):
            raise _fail(name, value, "a text, or a list of different texts")

    return check


def _one_of(name: str, accepted: tuple[str, ...]) -> Callable[[SiteRule, Any], None]:
    def check(rule: SiteRule, value: Any) -> None:
        if value not in accepted:
            raise _fail(name, value, ", ".join(map(repr, accepted)))

    return check


def _flag(name: str) -> Callable[[SiteRule, Any], None]:
    def check(rule: SiteRule, value: Any) -> None:
        if not isinstance(value, bool):
            raise _fail(name, value, "true or false")

    return check


def _path(name: str) -> Callable[[SiteRule, Any], None]:
    def check(rule: SiteRule, value: Any) -> None:
        if not isinstance(value, str) or not value.startswith("/"):
            raise _fail(name, value, "a path that starts with '/'")
        if "?" in value:
            raise _fail(name, value, "a path without '?' (write %3F if it is part of a segment)")

    return check


def _default(rule: SiteRule, table: Any) -> None:
    _check_table("default", table, _values_or_list)


def _slot_table(name: str) -> Callable[[SiteRule, Any], None]:
    def check(rule: SiteRule, table: Any) -> None:
        _check_table(name, table, _values_or_list)
        for slot, value in table.items():
            if not _REPLACED_SLOT.fullmatch(slot):
                raise _fail(f"{name} slot", slot, "scheme, host, slash, s0, s1, … s-1, q:NAME")
            if isinstance(value, list) and not slot.startswith("q:"):
                raise _fail(f"{name}.{slot}", value, "one text (lists are for parameters)")
            if slot[0] == "s" and slot[1:].lstrip("-").isdigit() and value in DOT_SEGMENTS:
                raise _fail(f"{name}.{slot}", value, "a segment that is not empty, '.' or '..'")

    return check


def _slots(rule: SiteRule, value: Any) -> None:
    _texts("slots")(rule, value)
    for slot in value:
        if slot == "?":
            raise _fail("slots", "?", "slots with a value; drop-param with bare = true drops it")
        _check_slot(slot)


def _slot(rule: SiteRule, value: Any) -> None:
    _check_slot(value)


def _check_slot(slot: object) -> None:
    if not isinstance(slot, str) or not _SLOT.fullmatch(slot):
        raise _fail("slot", slot, "s0, s1, … s-1 (the last segment), q:NAME, ? (a token alone)")


def _min_length(rule: SiteRule, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _fail("min_length", value, "a number of characters from 1")


_CHECKS: dict[str, Callable[[SiteRule, Any], None]] = {
    "param": _texts("param"),
    "default": _default,
    "old": _slot_table("old"),
    "new": _slot_table("new"),
    "host": _texts("host"),
    "by": _text("by", empty=True),
    "prefix": _path("prefix"),
    "segment": _text("segment"),
    "shape": _one_of("shape", kinds.SHAPES),
    "min_length": _min_length,
    "tail": _path("tail"),
    "suffix": _text("suffix"),
    "slot": _slot,
    "slots": _slots,
    "side": _one_of("side", ("before", "after")),
    "text": _text("text"),
    "separator": _text("separator"),
    "slash": _flag("slash"),
    "semicolons": _flag("semicolons"),
    "bare": _flag("bare"),
}


def _check_table(
    name: str, table: Any, check_value: Callable[[str, Any], None] | None = None
) -> None:
    if not isinstance(table, Mapping):
        raise _fail(name, table, "a table")
    for key, value in table.items():
        if not isinstance(key, str):
            raise _fail(f"{name} key", key, "a text")
        if check_value is not None:
            check_value(f"{name}.{key}", value)


def _values_or_list(name: str, value: Any) -> None:
    if isinstance(value, str):
        return
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise _fail(name, value, "a text, or a list of texts")


def _check_kind(rule: SiteRule) -> None:
    if rule.kind not in kinds.KINDS:
        catalogue.check_option(rule)
    elif (check := _BY_KIND.get(rule.kind)) is not None:
        check(rule)


def _check_drop_param(rule: SiteRule) -> None:
    if not (rule.param or rule.slash or rule.semicolons or rule.bare):
        raise SiteRuleError("a drop-param rule needs 'param', 'slash', 'semicolons' or 'bare'")


def _check_param_to_path(rule: SiteRule) -> None:
    if rule.by is None or not rule.by.startswith("/") or rule.by.count("{}") != 1:
        raise _fail("by", rule.by, "a path with one {}, like '/wiki/{}'")
    if len(rule.param) != 1:
        raise _fail("param", list(rule.param), "one parameter")
    if rule.path is None or "*" in rule.path or "#" in rule.path:
        raise _fail("path", rule.path, "the one path that has the parameter, without wildcards")


def _check_prefix_alias(rule: SiteRule) -> None:
    for name in ("prefix", "by"):
        value = getattr(rule, name)
        if not value.startswith("/") or any(s in DOT_SEGMENTS for s in _inner(value)):
            raise _fail(name, value, "a path like '/docs/latest', without empty or dot segments")


def _check_strip_tail(rule: SiteRule) -> None:
    if rule.by not in ("", "/"):
        raise _fail("by", rule.by, "'' or '/'")
    if any(segment in DOT_SEGMENTS for segment in _inner(rule.tail or "")):
        raise _fail("tail", rule.tail, "the end of a path, like '/index.html' or '/page/1/'")


def _check_strip_segment(rule: SiteRule) -> None:
    if (rule.segment is None) == (rule.shape is None):
        raise SiteRuleError("a strip-segment rule needs either 'segment' or 'shape'")
    if (rule.shape is None) != (rule.min_length is None):
        raise SiteRuleError("'shape' and 'min_length' go together: how long is the segment?")


def _check_split_segment(rule: SiteRule) -> None:
    if "/" in (rule.separator or ""):
        raise _fail("separator", rule.separator, "a text without '/'")


def _check_replace_text(rule: SiteRule) -> None:
    if set(rule.text or "") & set(rule.by or ""):
        raise _fail("by", rule.by, f"a text without any character of text = {rule.text!r}")


def _check_strip_suffix(rule: SiteRule) -> None:
    if rule.slash and rule.slot != "s-1":
        raise _fail("slash", True, "only with slot = 's-1', the last segment")


def _check_host_alias(rule: SiteRule) -> None:
    for host in (*rule.host, rule.by):
        if not isinstance(host, str) or not _HOST.fullmatch(host):
            raise _fail("host", host, "a lower-case host")
    if rule.by in rule.host:
        raise SiteRuleError(f"host {rule.by!r} is an alias of itself")


def _check_swallow(rule: SiteRule) -> None:
    """Refuse a rule that would make one of all paths: something literal must hold it."""
    segments = [slot for slot in rule.slots if slot[0] == "s"]
    literal = rule.path is not None and parse_pattern(rule.path).literals()
    if rule.kind == "drop-segment" and not (literal and len(segments) == len(rule.slots)):
        raise SiteRuleError(
            "a drop-segment rule has slots like 's0' and a path with a literal segment, "
            "or it would swallow any path"
        )
    if rule.kind == "drop-segment" and any("-" in slot for slot in segments):
        raise _fail("slots", list(rule.slots), "segments counted from the first: 's0', 's1', …")
    if "s0" in segments and not (rule.path or rule.when):
        raise SiteRuleError("a rule on 's0' needs 'path' or 'when', or it would swallow any path")


def _check_replace(rule: SiteRule) -> None:
    if rule.old == rule.new:
        raise SiteRuleError("'old' and 'new' are the same")
    if ("host" in rule.old) != ("host" in rule.new) or ("scheme" in rule.old) != (
        "scheme" in rule.new
    ):
        raise SiteRuleError("a host or a scheme is replaced by another: name it in old and new")
    segments = {s for s in rule.old if _is_segment(s)} ^ {s for s in rule.new if _is_segment(s)}
    if segments:
        raise SiteRuleError(
            f"segment {min(segments)!r} stands on one side only; segments are taken away by "
            "strip-segment, strip-tail and prefix-alias"
        )
    for table in (rule.old, rule.new):
        if table.get("slash", "1") != "1":
            raise _fail("slash", table["slash"], "'1' for a final slash (none: leave it out)")
        if table.get("scheme", "http") not in ("http", "https"):
            raise _fail("scheme", table["scheme"], "'http', 'https'")
        if not _HOST.fullmatch(table.get("host", "h")):
            raise _fail("host", table["host"], "a lower-case host")


_BY_KIND: dict[str, Callable[[SiteRule], None]] = {
    "drop-param": _check_drop_param,
    "param-to-path": _check_param_to_path,
    "prefix-alias": _check_prefix_alias,
    "strip-tail": _check_strip_tail,
    "strip-segment": _check_strip_segment,
    "split-segment": _check_split_segment,
    "replace-text": _check_replace_text,
    "strip-suffix": _check_strip_suffix,
    "host-alias": _check_host_alias,
    "replace": _check_replace,
    "ignore-value": _check_swallow,
    "drop-segment": _check_swallow,
}


def _is_segment(slot: str) -> bool:
    return slot[0] == "s" and slot[1:].lstrip("-").isdigit()


def _inner(path: str) -> list[str]:
    """The segments of a path field, without the final slash."""
    segments = path.split("/")[1:]
    return segments[:-1] if not segments[-1] else segments


def _check_context(rule: SiteRule) -> None:
    if rule.path is not None:
        parse_pattern(rule.path)
    when = rule.when
    _check_table("when", when)
    for key, value in when.items():
        if key not in kinds.WHEN_KEYS:
            raise _fail("when key", key, ", ".join(kinds.WHEN_KEYS))
        if key in ("has", "no", "host"):
            _values_or_list(f"when.{key}", value)
        elif key in ("params", "among", "segments"):
            _check_table(f"when.{key}", value, _values_or_list)
        elif key == "slash":
            _flag("when.slash")(rule, value)
        elif key == "scheme":
            _one_of("when.scheme", ("http", "https"))(rule, value)
        elif not isinstance(value, str) or not value.startswith("/"):
            raise _fail("when.rest", value, "a path, with its query if it has one: '/refs?a=1'")
    for position in when.get("segments", ()):
        if not position.lstrip("-").isdigit():
            raise _fail("when.segments", position, "positions: '0', '1', … '-1'")


def _check_evidence(rule: SiteRule) -> None:
    if rule.status not in kinds.STATUSES:
        raise _fail("status", rule.status, ", ".join(kinds.STATUSES))
    if rule.source not in kinds.SOURCES:
        raise _fail("source", rule.source, ", ".join(kinds.SOURCES))
    for name in ("support", "conflicts"):
        number = getattr(rule, name)
        if number is not None and (not isinstance(number, int) or number < 0):
            raise _fail(name, number, "a number from 0")
    if rule.note is not None and not isinstance(rule.note, str):
        raise _fail("note", rule.note, "a text")
    share = rule.false_merge_upper
    if share is not None and not (isinstance(share, (int, float)) and 0 <= share <= 1):
        raise _fail("false_merge_upper", share, "a share between 0 and 1")
    if not isinstance(rule.examples, tuple):
        raise _fail("examples", rule.examples, "pairs of URLs: [[one, other], …]")
    for pair in rule.examples:
        if len(pair) != 2 or not all(isinstance(url, str) for url in pair):
            raise _fail("examples", list(pair), "pairs of URLs: [[one, other], …]")
