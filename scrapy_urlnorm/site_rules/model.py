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
from scrapy_urlnorm.site_rules.kinds import OPERANDS
from scrapy_urlnorm.site_rules.validate import validate

if TYPE_CHECKING:
    from collections.abc import Mapping

_OPERATION = ("site", "kind", *OPERANDS, "path", "when")
_LISTS = ("param", "host", "slots")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
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
    #: The file and line that the rule was read from; no part of what it says.
    origin: str | None = None

    def __post_init__(self) -> None:
        values = self.__dict__
        for name in _LISTS:
            value = values[name]
            if isinstance(value, str):
                values[name] = (value,)
            elif isinstance(value, (list, set, frozenset)):
                values[name] = tuple(value if isinstance(value, list) else sorted(value))
        if isinstance(self.examples, (list, tuple)):
            pairs = (tuple(p) if isinstance(p, (list, tuple)) else (p,) for p in self.examples)
            values["examples"] = tuple(pairs)
        # Keep what is said only; the class has the rest. Rules may be many.
        said = {name: value for name, value in values.items() if value != _DEFAULTS[name]}
        object.__setattr__(self, "__dict__", said)
        validate(self, [name for name in OPERANDS if name in said])
        texts = (self.identity, self.note or "", *(url for pair in self.examples for url in pair))
        try:
            "".join(texts).encode()
        except UnicodeEncodeError:
            raise SiteRuleError(f"not every text of {self.as_dict()!a} is Unicode") from None

    @property
    def active(self) -> bool:
        """Whether the rule changes URLs; a proposed or rejected one is only kept."""
        return self.status == "active"

    def operation(self) -> dict[str, Any]:
        """Everything that decides what the rule does, without evidence and status."""
        values = self.__dict__
        return {name: values[name] for name in _OPERATION if name in values}

    def as_dict(self) -> dict[str, Any]:
        """The fields that differ from their defaults, as a rule file holds them."""
        values = self.__dict__
        return {name: values[name] for name in FIELDS if name in values}

    @cached_property
    def identity(self) -> str:
        """Text that two rules share exactly when they do the same; stable across processes."""
        said = self.operation()
        said |= {name: sorted(said[name]) for name in _LISTS if name in said}
        return json.dumps(said, sort_keys=True, ensure_ascii=False, default=list)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SiteRule) and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        shown = ", ".join(f"{key}={value!r}" for key, value in self.as_dict().items())
        return f"SiteRule({shown})"

    def __str__(self) -> str:
        """One line: the kind, what it acts on, where it holds."""
        shown = {k: v for k, v in self.operation().items() if k not in ("site", "kind")}
        words = " ".join(f"{key}={_short(value)}" for key, value in shown.items())
        where = f" in {self.origin}" if self.origin else ""
        return f"{self.kind} on {self.site}" + (f" [{words}]" if words else "") + where


_DEFAULTS: dict[str, Any] = {
    f.name: (f.default_factory() if callable(f.default_factory) else f.default)
    for f in fields(SiteRule)
}
#: The keys of a [[rule]] table.
FIELDS = tuple(name for name in _DEFAULTS if name != "origin")


# Those of the tables, which a dataclass makes anew for each instance.
for _name in ("default", "old", "new", "when"):
    setattr(SiteRule, _name, MappingProxyType({}))


def _short(value: object) -> str:
    if isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    return json.dumps(value, default=list, ensure_ascii=False)


def rule_from_dict(entry: Mapping[str, Any]) -> SiteRule:
    """Make a rule of one table of a rule file; `SiteRuleError` names an unknown key."""
    unknown = [key for key in entry if key not in _DEFAULTS or key == "origin"]
    if unknown:
        raise SiteRuleError(f"unknown key {unknown[0]!r}; known keys: {', '.join(FIELDS)}")
    missing = [key for key in ("site", "kind") if key not in entry]
    if missing:
        raise SiteRuleError(f"key {missing[0]!r} is missing")
    return SiteRule(**entry)
