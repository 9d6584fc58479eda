"""SiteRule: one rule for one site, as people write it and as learning makes it.

A rule is an operation on the slots of a URL (its scheme, host, path segments, final slash and
parameters, see :mod:`scrapy_urlnorm.site_rules.form`) with literal tokens, a context in which it
holds, and the evidence for it. Nothing in it is ever read as a regular expression.

Tokens (parameter names and values, segments given one by one) are written as people read them,
decoded: ``title = "Special:UserLogin"``. Fields that hold a path (``path``, ``prefix``, ``tail``,
``by`` of a path, ``rest``) may be written decoded or escaped; a ``%`` that is meant literally is
``%25`` there, a slash inside a segment ``%2F``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.masking import placeholders
from scrapy_urlnorm.site_rules.context import all_hold, read_context, write_context
from scrapy_urlnorm.site_rules.operations import (
    OPERANDS,
    order,
    owns_path,
    read_operation,
)
from scrapy_urlnorm.site_rules.operations.base import is_host
from scrapy_urlnorm.site_rules.paths import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy_urlnorm.site_rules.context import Context
    from scrapy_urlnorm.site_rules.form import Form, Slots
    from scrapy_urlnorm.site_rules.operations import Operation

#: Only an active rule changes a URL.
STATUSES = ("active", "proposed", "rejected")
SOURCES = ("user", "redirect", "canonical", "robots", "content", "url-list")
#: Operands that hold several texts; a file may have one text in their place.
LISTS = ("param", "host", "slots", "within", "ranges", "values")


@dataclass(frozen=True)
class Evidence:
    """What a rule stands on: distinct observations for and against it, and who said it.

    ``false_merge_upper`` is the expected share of wrong merges, ``examples`` are pairs of URLs
    that the rule merges.
    """

    status: str = "active"
    source: str = "user"
    support: int | None = None
    conflicts: int | None = None
    false_merge_upper: float | None = None
    examples: tuple[tuple[str, str], ...] = ()
    note: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.examples, (list, tuple)):
            pairs = (tuple(p) if isinstance(p, (list, tuple)) else (p,) for p in self.examples)
            object.__setattr__(self, "examples", tuple(pairs))
        _check_evidence(self)

    def table(self) -> dict[str, Any]:
        """Return what differs from its default."""
        said = {name: getattr(self, name) for name in _EVIDENCE}
        return {name: value for name, value in said.items() if value != _DEFAULTS[name]}


_DEFAULTS = {field.name: field.default for field in fields(Evidence)}
_EVIDENCE = tuple(_DEFAULTS)
#: The keys of a [[rule]] table.
FIELDS = ("site", "kind", *OPERANDS, "path", "when", *_EVIDENCE)


class SiteRule:
    """One rule; its arguments are the keys of a ``[[rule]]`` table.

    ``site`` is a host, or ``*.shop.example`` for a registrable domain with all its hosts.
    ``path`` and ``when`` say where the rule holds. Slots are named ``scheme``, ``host``, ``s0``,
    ``s1``… (``s-1`` is the last segment), ``slash``, ``q:NAME``.

    Raises `SiteRuleError` for what the kind does not know, does not have or cannot use.
    """

    __slots__ = ("_site_at", "context", "evidence", "identity", "operation", "origin", "site")

    site: str
    operation: Operation
    context: Context
    evidence: Evidence
    #: Text that two rules share exactly when they do the same; stable across processes.
    identity: str
    #: The file and line that the rule was read from; no part of what it says.
    origin: str | None
    #: Where the site begins in the identity.
    _site_at: int

    def __init__(
        self,
        *,
        site: str,
        kind: str,
        path: str | None = None,
        when: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> None:
        for name in others:
            if name not in FIELDS:
                raise SiteRuleError(f"unknown key {name!r}; known keys: {', '.join(FIELDS)}")
        _check_site(site)
        evidence = evidence_of(others)
        others = {name: value for name, value in others.items() if name not in _DEFAULTS}
        if path is not None and owns_path(kind):
            others["path"], path = path, None
        operation = read_operation(kind, others)
        context = read_context(path, when or {}, own=operation.slots, symbols=operation.symbols)
        self._fill(site, operation, context, evidence)

    @classmethod
    def of(
        cls,
        site: str,
        operation: Operation,
        context: Context = (),
        evidence: Evidence | None = None,
    ) -> SiteRule:
        """Make a rule of its parts."""
        _check_site(site)
        made = object.__new__(cls)
        made._fill(site, operation, context, evidence or Evidence())
        return made

    def _fill(self, site: str, operation: Operation, context: Context, evidence: Evidence) -> None:
        operation.check_context(context)
        set_slot = object.__setattr__
        set_slot(self, "site", site)
        set_slot(self, "operation", operation)
        set_slot(self, "context", context)
        set_slot(self, "evidence", evidence)
        set_slot(self, "origin", None)
        before, after = _identity_around(self.said())
        set_slot(self, "identity", before + site + after)
        set_slot(self, "_site_at", len(before))
        self._check_unicode()

    def at(self, site: str, evidence: Evidence) -> SiteRule:
        """Return a rule that does the same on *site*, and stands on *evidence*.

        Raises `SiteRuleError` if *site* is none. Nothing else is read or checked again: of a large
        file, most rules are made like this.
        """
        _check_site(site)
        made = object.__new__(SiteRule)
        set_slot = object.__setattr__
        set_slot(made, "site", site)
        set_slot(made, "operation", self.operation)
        set_slot(made, "context", self.context)
        set_slot(made, "evidence", evidence)
        set_slot(made, "origin", None)
        at, identity = self._site_at, self.identity
        set_slot(made, "identity", identity[:at] + site + identity[at + len(self.site) :])
        set_slot(made, "_site_at", at)
        made._check_unicode()
        return made

    def _check_unicode(self) -> None:
        """Raise `SiteRuleError` for half a character, which no file can hold."""
        evidence = self.evidence
        texts = [self.identity, evidence.note or ""]
        for pair in evidence.examples:
            texts += pair
        try:
            "".join(texts).encode()
        except UnicodeEncodeError:
            raise SiteRuleError(f"not every text of {self.as_dict()!a} is Unicode") from None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a SiteRule is immutable: cannot set {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self.site, self.operation, self.context, self.evidence, self.origin)

    def __getattr__(self, name: str) -> Any:
        """Return evidence, or an operand as a rule file has it, by its name."""
        if name in _EVIDENCE:
            return getattr(self.evidence, name)
        if name in _ABSENT:
            return self.operation.write().get(name, _ABSENT[name])
        raise AttributeError(f"a SiteRule has no {name!r}")

    @property
    def kind(self) -> str:
        """The word for the kind of the rule."""
        return self.operation.word

    @property
    def path(self) -> str | None:
        """The path of the rule, as a rule file has it."""
        return self.said().get("path")

    @property
    def when(self) -> dict[str, Any]:
        """The other conditions, as a rule file has them."""
        return write_context(self.context)[1]

    @property
    def active(self) -> bool:
        """Whether the rule changes URLs; a proposed or rejected one is only kept."""
        return self.evidence.status == "active"

    def image(self, slots: Slots) -> Slots | None:
        """Return what the rule makes of *slots*; ``None`` if nothing."""
        return self.operation.image(slots) if all_hold(self.context, slots) else None

    def apply(self, form: Form) -> Form | None:
        """Return what the rule makes of *form*; ``None`` if nothing."""
        return self.operation.apply(form) if all_hold(self.context, form.slots) else None

    def replace(self, **evidence: Any) -> SiteRule:
        """Return the rule with other evidence: ``rule.replace(status="rejected")``."""
        made = object.__new__(SiteRule)
        set_slot = object.__setattr__
        for name in self.__slots__:
            set_slot(made, name, getattr(self, name))
        set_slot(made, "evidence", replace(self.evidence, **evidence))
        return made

    def masked(self) -> SiteRule:
        """Return the rule with `placeholders` in its examples, so that it may be stored or sent.

        A rule that a person wrote is returned as it is.
        """
        known = self.evidence.examples
        if self.evidence.source == "user" or not known:
            return self
        urls = placeholders(url for pair in known for url in pair)
        pairs = tuple(zip(urls[::2], urls[1::2], strict=True))
        return self if pairs == known else self.replace(examples=pairs)

    def said(self) -> dict[str, Any]:
        """Return all that decides what the rule does, without evidence, as a file has it."""
        path, when = write_context(self.context)
        written = self.operation.write()
        if path is not None:
            written["path"] = path
        said = {"site": self.site, "kind": self.kind}
        said |= {name: written[name] for name in _OPERATION if name in written}
        return said | ({"when": when} if when else {})

    def as_dict(self) -> dict[str, Any]:
        """Return the rule as a rule file has it, without what is left at its default."""
        return self.said() | self.evidence.table()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, SiteRule)
            and self.identity == other.identity
            and self.evidence == other.evidence
        )

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        shown = ", ".join(f"{key}={value!r}" for key, value in self.as_dict().items())
        return f"SiteRule({shown})"

    def __str__(self) -> str:
        """One line: the kind, what it acts on, where it holds."""
        shown = {k: v for k, v in self.said().items() if k not in ("site", "kind")}
        words = " ".join(f"{key}={_short(value)}" for key, value in shown.items())
        where = f" in {self.origin}" if self.origin else ""
        return f"{self.kind} on {self.site}" + (f" [{words}]" if words else "") + where

    @property
    def order(self) -> tuple[tuple[int, int], str]:
        """The place in the order in which the rules of a site run."""
        return order(self.operation), self.identity


_OPERATION = (*OPERANDS, "path")
#: What an operand reads as where the kind does not have it.
_ABSENT: dict[str, Any] = (
    dict.fromkeys(OPERANDS)
    | dict.fromkeys(LISTS, ())
    | dict.fromkeys(("slash", "semicolons", "bare"), False)
    | {name: {} for name in ("default", "old", "new")}
)


_as_json = json.JSONEncoder(sort_keys=True, ensure_ascii=False, default=list).encode


def _identity_around(said: dict[str, Any]) -> tuple[str, str]:
    """Return the JSON of what a rule says, keys in order, before and after the text of its site.

    A site has no character that JSON would escape.
    """
    said |= {name: sorted(said[name]) for name in LISTS if name in said}
    after = {name: value for name, value in said.items() if name > "site"}
    before = {name: value for name, value in said.items() if name < "site"}  # kind, for one
    rest = f", {_as_json(after)[1:]}" if after else "}"
    return f'{_as_json(before)[:-1]}, "site": "', f'"{rest}'


def _rebuilt(
    site: str, operation: Operation, context: Context, evidence: Evidence, origin: str | None
) -> SiteRule:
    return with_origin(SiteRule.of(site, operation, context, evidence), origin)


def with_origin(rule: SiteRule, origin: str | None) -> SiteRule:
    """Note the file and the line that *rule* was read from; return the rule."""
    object.__setattr__(rule, "origin", origin)
    return rule


def rule_from_dict(entry: Mapping[str, Any]) -> SiteRule:
    """Make a rule of one table of a rule file; `SiteRuleError` names an unknown key."""
    for key in entry:
        if key not in FIELDS:
            raise SiteRuleError(f"unknown key {key!r}; known keys: {', '.join(FIELDS)}")
    for key in ("site", "kind"):
        if key not in entry:
            raise SiteRuleError(f"key {key!r} is missing")
    return SiteRule(**entry)


def evidence_of(entry: Mapping[str, Any]) -> Evidence:
    """Read the evidence in a table of a rule file."""
    return Evidence(**{name: entry[name] for name in _EVIDENCE if name in entry})


#: A list with more texts than this is shown by its first two.
_SHOWN = 40


def _short(value: object) -> str:
    if isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    elif isinstance(value, tuple) and len(value) > _SHOWN:
        value = (*value[:2], f"… {len(value)} in all")
    return json.dumps(value, default=list, ensure_ascii=False)


def _check_site(site: object) -> None:
    name = site[2:] if isinstance(site, str) and site.startswith("*.") else site
    if not is_host(name):
        raise refuse("site", site, "a lower-case host like 'shop.example', or '*.shop.example'")


def _check_evidence(evidence: Evidence) -> None:
    if evidence.status not in STATUSES:
        raise refuse("status", evidence.status, ", ".join(STATUSES))
    if evidence.source not in SOURCES:
        raise refuse("source", evidence.source, ", ".join(SOURCES))
    for name in ("support", "conflicts"):
        number = getattr(evidence, name)
        if number is not None and (not isinstance(number, int) or number < 0):
            raise refuse(name, number, "a number from 0")
    if evidence.note is not None and not isinstance(evidence.note, str):
        raise refuse("note", evidence.note, "a text")
    share = evidence.false_merge_upper
    if share is not None and not (isinstance(share, (int, float)) and 0 <= share <= 1):
        raise refuse("false_merge_upper", share, "a share between 0 and 1")
    if not isinstance(evidence.examples, tuple):
        raise refuse("examples", evidence.examples, "pairs of URLs: [[one, other], …]")
    for pair in evidence.examples:
        if len(pair) != 2 or not all(isinstance(url, str) for url in pair):
            raise refuse("examples", list(pair), "pairs of URLs: [[one, other], …]")
