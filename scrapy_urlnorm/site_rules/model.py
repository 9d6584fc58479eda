"""SiteRule: one rule for one site, as people write it and as the miner emits it.

A rule is a typed operation on the *slots* of a URL (its scheme, host, path segments, final slash
and parameters, see :mod:`scrapy_urlnorm.site_rules.form`), with literal tokens and a context in
which it holds. Nothing in it is ever read as a regular expression.

Tokens (parameter names and values, segments given one by one) are written as people read them,
decoded: ``title = "Special:UserLogin"``. Fields that hold a path (``path``, ``prefix``, ``tail``,
``by`` of a path, ``rest``) may be written decoded or escaped; a ``%`` that is meant literally is
``%25`` there, a slash inside a segment ``%2F``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.exceptions import SiteRuleError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Only an active rule changes a URL.
STATUSES = ("active", "proposed", "rejected")
SOURCES = ("user", "redirect", "canonical", "content", "url-list")
#: What a path segment may look like where its text is not known beforehand (``strip-segment``).
SHAPES = ("digits", "hex", "alphanumeric")
#: Values that stand for text of the same URL: the segments after ``prefix`` joined by
#: ``separator``, up to the last but one (the namespace of a wiki page) or the last (its name).
SYMBOLS = ("{namespace}", "{page}")
WHEN_KEYS = (
    "has",
    "no",
    "params",
    "among",
    "segments",
    "slash",
    "host",
    "scheme",
    "rest",
)


@dataclass(frozen=True)
class Kind:
    """What one kind of rule needs (`required`), may have besides, and does (`summary`)."""

    required: tuple[str, ...]
    optional: tuple[str, ...]
    summary: str


#: The kinds of this language. Every rule of the catalogue is a kind too, with an ``option``.
KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "host-alias": Kind(("host", "by"), (), "the hosts are the host `by`"),
        "prefix-alias": Kind(("prefix", "by"), (), "what lies below `prefix` lies below `by`"),
        "param-to-path": Kind(
            ("param", "path", "by"),
            ("separator",),
            "the value of `param` at `path` is the {} in the path `by`",
        ),
        "split-segment": Kind(
            ("separator",), ("prefix",), "`separator` inside a segment is the same as a slash"
        ),
        "drop-path-param": Kind(("param",), (), "`;param=value` inside the path means nothing"),
        "strip-segment": Kind(
            ("prefix",),
            ("segment", "shape", "min_length"),
            "the segment after `prefix` means nothing",
        ),
        "strip-tail": Kind(("tail", "by"), (), "a path may end in `tail` or in `by`"),
        "strip-suffix": Kind(
            ("slot", "suffix"), ("slash",), "the end of the slot's value means nothing"
        ),
        "replace-text": Kind(
            ("slot", "text", "by"), (), "`text` inside the slot's value is the same as `by`"
        ),
        "keep-number": Kind(
            ("slot", "side"), (), "of `12-any-words` only the number before (after) them counts"
        ),
        "lowercase-param": Kind(("param",), (), "upper and lower case are the same"),
        "replace": Kind(
            ("old",), ("new", "prefix", "separator"), "all slots of `old` are those of `new`"
        ),
        "drop-default": Kind(("default",), (), "these parameters, all at these values, are void"),
        "drop-param": Kind(
            (), ("param", "slash", "semicolons", "bare"), "the parameters mean nothing"
        ),
        "keep-param": Kind(("param",), (), "all other parameters mean nothing"),
        "dedupe-param": Kind(("param",), (), "the same pair twice is the pair once"),
        "ignore-value": Kind(("slots",), (), "the value of the slots means nothing"),
    }
)

_LISTS = ("param", "host", "slots")
_TABLES = ("default", "old", "new", "when")
_OPERANDS = (
    "param",
    "default",
    "old",
    "new",
    "host",
    "by",
    "prefix",
    "segment",
    "shape",
    "min_length",
    "tail",
    "suffix",
    "slot",
    "slots",
    "side",
    "text",
    "separator",
    "slash",
    "semicolons",
    "bare",
    "option",
)
_EVIDENCE = ("status", "source", "support", "conflicts", "false_merge_upper", "examples", "note")


@dataclass(frozen=True, eq=False, kw_only=True)
class SiteRule:
    """One rule; the keys of a ``[[rule]]`` table are the fields.

    ``site`` is a host, or ``*.shop.example`` for a registrable domain with all its hosts.
    ``path`` and ``when`` say where the rule holds. Slots are named ``scheme``, ``host``, ``s0``,
    ``s1``… (``s-1`` is the last segment), ``slash``, ``q:NAME``.

    Raises `SiteRuleError` for what the kind does not know, does not have or cannot use.
    """

    site: str
    kind: str
    # operands, by kind
    param: tuple[str, ...] = ()
    default: Mapping[str, str] = field(default_factory=dict)
    old: Mapping[str, Any] = field(default_factory=dict)
    new: Mapping[str, Any] = field(default_factory=dict)
    host: tuple[str, ...] = ()
    by: str | None = None
    prefix: str | None = None
    segment: str | None = None
    shape: str | None = None
    min_length: int | None = None
    tail: str | None = None
    suffix: str | None = None
    slot: str | None = None
    slots: tuple[str, ...] = ()
    side: str | None = None
    text: str | None = None
    separator: str | None = None
    slash: bool = False
    semicolons: bool = False
    bare: bool = False
    option: object = None
    # context
    path: str | None = None
    when: Mapping[str, Any] = field(default_factory=dict)
    # evidence
    status: str = "active"
    source: str = "user"
    support: int | None = None
    conflicts: int | None = None
    false_merge_upper: float | None = None
    examples: tuple[tuple[str, str], ...] = ()
    note: str | None = None

    def __post_init__(self) -> None:
        for name in _LISTS:
            value = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))
        object.__setattr__(self, "examples", tuple(tuple(pair) for pair in self.examples))
        from scrapy_urlnorm.site_rules.validate import validate

        validate(self)

    @property
    def active(self) -> bool:
        """Whether the rule changes URLs; a proposed or rejected one is only kept."""
        return self.status == "active"

    def operation(self) -> dict[str, Any]:
        """Everything that decides what the rule does, without evidence and status."""
        return _without_defaults(self, ("site", "kind", *_OPERANDS, "path", "when"))

    def as_dict(self) -> dict[str, Any]:
        """The fields that differ from their defaults, as a rule file holds them."""
        return _without_defaults(self, tuple(f.name for f in fields(self)))

    @cached_property
    def identity(self) -> str:
        """Text that two rules share exactly when they do the same; stable across processes."""
        return json.dumps(self.operation(), sort_keys=True, default=list)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SiteRule) and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash(self.identity)

    def __str__(self) -> str:
        """One line: the kind, what it acts on, where it holds."""
        shown = {k: v for k, v in self.operation().items() if k not in ("site", "kind")}
        words = " ".join(f"{key}={_short(value)}" for key, value in shown.items())
        return f"{self.kind} on {self.site}" + (f" ({words})" if words else "")


_DEFAULTS: dict[str, Any] = {
    f.name: (f.default_factory() if callable(f.default_factory) else f.default)
    for f in fields(SiteRule)
}
FIELDS = tuple(_DEFAULTS)
OPERANDS = _OPERANDS


def _without_defaults(rule: SiteRule, names: tuple[str, ...]) -> dict[str, Any]:
    values = ((name, getattr(rule, name)) for name in names)
    return {name: value for name, value in values if value != _DEFAULTS[name]}


def _short(value: object) -> str:
    if isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    return json.dumps(value, default=list, ensure_ascii=False)


def rule_from_dict(entry: Mapping[str, Any]) -> SiteRule:
    """Make a rule of one table of a rule file; `SiteRuleError` names an unknown key."""
    unknown = [key for key in entry if key not in _DEFAULTS]
    if unknown:
        raise SiteRuleError(f"unknown key {unknown[0]!r}; known keys: {', '.join(FIELDS)}")
    missing = [key for key in ("site", "kind") if key not in entry]
    if missing:
        raise SiteRuleError(f"key {missing[0]!r} is missing")
    return SiteRule(**entry)
