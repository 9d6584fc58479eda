"""From what was learned to what users get: `SiteRule` objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.learning.ops import (
    Cut,
    Dedupe,
    Drop,
    First,
    Lower,
    Number,
    Op,
    Prefix,
    Slashes,
    Split,
    Subst,
    Suffix,
    Tail,
    Text,
    ToPath,
    Wild,
)
from scrapy_urlnorm.learning.slots import REPEAT, is_segment
from scrapy_urlnorm.site_rules import SiteRule
from scrapy_urlnorm.site_rules.form import encode_segment, new_param

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy_urlnorm.learning.contexts import Context, Literal
    from scrapy_urlnorm.learning.rules import Learned


#: No risk is written as none.
_SMALLEST = 0.0001


def site_rule(
    rule: Learned,
    site: str,
    *,
    hosts: Sequence[str] = (),
    status: str = "active",
    source: str = "content",
    note: str | None = None,
) -> SiteRule | None:
    """Write *rule* as a `SiteRule` for *site* (on *hosts* only); None if it cannot be said."""
    fields = _operation(rule.op, rule.context)
    if fields is None:
        return None
    path, when = _context(rule.op, rule.context)
    if hosts and "host" not in when and fields["kind"] != "host-alias":
        when["host"] = list(hosts)
    if path is not None and "path" not in fields:
        fields["path"] = path
    if when:
        fields["when"] = when
    support, conflicts = int(rule.count.support), rule.count.conflicts
    try:
        return SiteRule(
            site=site,
            **fields,
            status=status,
            source=source,
            support=support,
            conflicts=conflicts,
            false_merge_upper=None if rule.risk is None else max(_SMALLEST, round(rule.risk, 4)),
            examples=tuple(rule.examples),
            note=note,
        )
    except SiteRuleError:  # hosts with odd characters, text that no rule may hold
        return None


def _operation(op: Op, context: Context) -> dict[str, Any] | None:
    if isinstance(op, Drop):
        names = [name[2:] for name in op.names if name[:2] == "q:"]
        fields: dict[str, Any] = {"kind": "drop-param"}
        if names:
            fields["param"] = tuple(names)
        for slot, flag in (("slash", "slash"), ("sep", "semicolons"), ("?", "bare")):
            if slot in op.names:
                fields[flag] = True
        return fields
    if isinstance(op, Wild):
        return {"kind": "ignore-value", "slots": op.names}
    if isinstance(op, Subst):
        return _exchange(op, context)
    if isinstance(op, Tail):
        tail = path_of(op.tail, slash=op.slash_before)
        return {"kind": "strip-tail", "tail": tail, "by": "/" if op.slash_after else ""}
    if isinstance(op, Cut):
        return {"kind": "strip-segment", "prefix": path_of(op.prefix), "segment": op.segment}
    if isinstance(op, Prefix):
        return {"kind": "prefix-alias", "prefix": path_of(op.old), "by": path_of(op.new)}
    if isinstance(op, ToPath):
        hole = f"{encode_segment(op.left)}{{}}{encode_segment(op.right)}"
        parts = [*map(encode_segment, op.before), hole, *map(encode_segment, op.after)]
        fields = {
            "kind": "param-to-path",
            "param": (op.param[2:],),
            "path": _escaped(path_of(op.base, slash=op.base_slash)),
            "by": "/" + "/".join(parts) + ("/" if op.slash else ""),
        }
        if op.separator:
            fields["separator"] = op.separator
        return fields
    return _value_operation(op)


def _value_operation(op: Op) -> dict[str, Any] | None:
    if isinstance(op, Split):
        return {"kind": "split-segment", "separator": op.separator, "prefix": path_of(op.prefix)}
    if isinstance(op, Lower):
        if not op.slot:
            return {"kind": "lowercase-path", "option": True}
        return {"kind": "lowercase-param", "param": (op.slot[2:],)}
    if isinstance(op, First):
        return {"kind": "lowercase-first", "slots": op.names}
    if isinstance(op, Suffix):
        fields: dict[str, Any] = {"kind": "strip-suffix", "slot": op.slot, "suffix": op.suffix}
        return fields | {"slash": True} if op.slash else fields
    if isinstance(op, Number):
        return {"kind": "keep-number", "slot": op.slot, "side": op.side}
    if isinstance(op, Text):
        return {"kind": "replace-text", "slot": op.slot, "text": op.text, "by": op.by}
    if isinstance(op, Dedupe):
        return {"kind": "dedupe-param", "param": (op.slot[2:],)}
    if isinstance(op, Slashes):
        return {"kind": "remove-duplicate-slashes", "option": True}
    return None


def _exchange(op: Subst, context: Context) -> dict[str, Any]:
    old, new = dict(op.old), dict(op.new)
    if set(old) == {"host"} and not context:
        return {"kind": "host-alias", "host": (old["host"],), "by": new["host"]}
    symbols = any(value in ("{namespace}", "{page}") for _, value in op.old + op.new)
    if not new and all(name[:2] == "q:" for name in old):
        fields: dict[str, Any] = {
            "kind": "drop-default",
            "default": {name[2:]: _texts(value) for name, value in old.items()},
        }
        if not symbols:
            return fields
    fields = {
        "kind": "replace",
        "old": {name: _texts(value) for name, value in old.items()},
        "new": {name: _texts(value) for name, value in new.items()},
    }
    if symbols:
        fields["prefix"], fields["separator"] = path_of(op.prefix), op.separator
    return fields


def _texts(value: str) -> str | list[str]:
    return value.split(REPEAT) if REPEAT in value else value


def path_of(path: Iterable[str], *, slash: bool = False) -> str:
    """Write segments as a path; the root is ``/``."""
    text = "/" + "/".join(map(encode_segment, path))
    return text + "/" if slash and text != "/" else text


def _escaped(path: str) -> str:
    return path.replace("*", "%2A")


def _literal(segment: str) -> str:
    """Write a segment so that no path template takes it for a wildcard."""
    return _escaped(encode_segment(segment))


def _context(op: Op, context: Context) -> tuple[str | None, dict[str, Any]]:
    path: str | None = None
    when: dict[str, Any] = {}
    for literal in sorted(context, key=lambda literal: literal[0] != "path"):
        kind, slot = literal[0], literal[1]
        if kind == "path":
            path = _template(literal)
        elif kind == "first" and path is None and len(slot) == 1:
            path = f"/{_literal(slot[0])}/**"
        elif kind == "first":
            when.setdefault("segments", {})["0"] = list(slot)
        elif kind == "rest":
            when["rest"] = _rest(slot)
        elif slot == "slash":
            when["slash"] = kind == "has"
        elif kind in ("has", "no"):
            when[kind] = sorted([*when.get(kind, []), slot[2:]])
        elif slot in ("host", "scheme"):
            when[slot] = literal[2]
        else:
            value = literal[2] if isinstance(literal[2], str) else list(literal[2])
            if is_segment(slot):
                when.setdefault("segments", {})[slot[1:]] = value
            elif kind == "is":
                when.setdefault("params", {})[slot[2:]] = value
            else:
                when.setdefault("among", {})[slot[2:]] = value
    return path, when


def _template(literal: Literal) -> str:
    _, segments, slash = literal
    parts = [
        _literal(text) if kind == "=" else kind + encode_segment(text) for kind, text in segments
    ]
    text = "/" + "/".join(parts)
    return text + "/" if slash and parts else text


def _rest(pairs: Iterable[tuple[str, str]]) -> str:
    slots = dict(pairs)
    path = [
        slots[name]
        for name in sorted(
            (name for name in slots if is_segment(name)), key=lambda name: int(name[1:])
        )
    ]
    query = [
        new_param(name[2:], value).raw if name != "?" else f"{value}="
        for name, values in sorted(slots.items())
        if name == "?" or name[:2] == "q:"
        for value in values.split(REPEAT)
    ]
    text = path_of(path, slash="slash" in slots)
    return f"{text}?{'&'.join(query)}" if query else text
