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
from scrapy_urlnorm.site_rules.context import Context, all_hold, read_context, write_context
from scrapy_urlnorm.site_rules.operation import LISTS, OPERANDS, checked, is_host, refuse
from scrapy_urlnorm.site_rules.operations import Operation, order, read_operation
from scrapy_urlnorm.text import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scrapy_urlnorm.site_rules.form import Form, Slots

#: Only an active rule changes a URL.
STATUSES = ("active", "proposed", "rejected")
SOURCES = ("user", "redirect", "canonical", "robots", "content", "url-list")
#: A list with more texts than this is shown by its first two.
_SHOWN = 40


def _is_count(value: object) -> bool:
    return value is None or (isinstance(value, int) and 0 <= value < 2**63)  # as TOML has them


#: What each field of evidence may be, and how to say it.
_ACCEPTED = {
    "status": checked(STATUSES.__contains__, ", ".join(STATUSES)),
    "source": checked(SOURCES.__contains__, ", ".join(SOURCES)),
    "support": checked(_is_count, "a number from 0"),
    "conflicts": checked(_is_count, "a number from 0"),
    "false_merge_upper": checked(
        lambda v: v is None or (isinstance(v, (int, float)) and 0 <= v <= 1),
        "a share between 0 and 1",
    ),
    "note": checked(lambda value: value is None or isinstance(value, str), "a text"),
}


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
        for name, check in _ACCEPTED.items():
            check(name, getattr(self, name))
        object.__setattr__(self, "examples", _pairs(self.examples))

    def table(self) -> dict[str, Any]:
        """Return what differs from its default."""
        said = {name: getattr(self, name) for name in EVIDENCE}
        return {name: value for name, value in said.items() if value != EVIDENCE[name]}


def _pairs(examples: Any) -> tuple[tuple[str, str], ...]:
    pairs = examples if isinstance(examples, (list, tuple)) else [examples]
    for pair in pairs:
        is_pair = isinstance(pair, (list, tuple)) and len(pair) == 2
        if not is_pair or not all(isinstance(url, str) for url in pair):
            raise refuse("examples", pair, "pairs of URLs: [[one, other], …]")
    return tuple((one, other) for one, other in pairs)


#: The keys of evidence, with what each is by default.
EVIDENCE = {field.name: field.default for field in fields(Evidence)}
#: The keys of a [[rule]] table.
FIELDS = ("site", "kind", *OPERANDS, "when", *EVIDENCE)
_as_json = json.JSONEncoder(sort_keys=True, ensure_ascii=False, default=list).encode


@dataclass(frozen=True, init=False, eq=False, repr=False)
class SiteRule:
    """One rule; its arguments are the keys of a ``[[rule]]`` table.

    ``site`` is a host, or ``*.shop.example`` for a registrable domain with all its hosts.
    ``path`` and ``when`` say where the rule holds. Slots are named ``scheme``, ``host``, ``s0``,
    ``s1``… (``s-1`` is the last segment), ``slash``, ``q:NAME``.

    Raises `SiteRuleError` for what the kind does not know, does not have or cannot use.
    """

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
        _check_keys(others)
        evidence = evidence_of(others)
        _check_site(site)
        operands = {name: value for name, value in others.items() if name not in EVIDENCE}
        if kind == "param-to-path":  # the path is an operand; of all others it is a condition
            operands["path"], path = path, None
        operation = read_operation(kind, operands)
        context = read_context(path, when or {}, operation.slots)
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
        known = self.__dict__
        known.update(site=site, operation=operation, context=context)
        known.update(evidence=evidence, origin=None)
        # A site has no character that JSON would escape.
        said = self.said()
        said |= {name: sorted(said[name]) for name in LISTS if name in said}
        before = _as_json({name: said[name] for name in said if name < "site"})
        known.update(identity=_as_json(said), _site_at=len(before[:-1] + ', "site": "'))
        self._check_unicode()

    def at(self, site: str, evidence: Evidence, origin: str | None = None) -> SiteRule:
        """Return a rule that does the same on *site*, and stands on *evidence*.

        Raises `SiteRuleError` if *site* is none. Nothing else is read or checked again: of a large
        file, most rules are made like this.
        """
        _check_site(site)
        at = self._site_at
        identity = self.identity[:at] + site + self.identity[at + len(self.site) :]
        made = object.__new__(SiteRule)
        made.__dict__.update(self.__dict__)
        made.__dict__.update(site=site, evidence=evidence, identity=identity, origin=origin)
        made._check_unicode()
        return made

    def replace(self, **evidence: Any) -> SiteRule:
        """Return the rule with other evidence: ``rule.replace(status="rejected")``."""
        return self.at(self.site, replace(self.evidence, **evidence), self.origin)

    def _check_unicode(self) -> None:
        """Refuse half a character, which no file can hold."""
        evidence = self.evidence
        texts = [self.identity, evidence.note or "", *(url for p in evidence.examples for url in p)]
        try:
            "".join(texts).encode()
        except UnicodeEncodeError:
            raise SiteRuleError(f"not every text of {self.as_dict()!a} is Unicode") from None

    def __getattr__(self, name: str) -> Any:
        """Return evidence, or an operand as a rule file has it, by its name."""
        if name in EVIDENCE:
            return getattr(self.evidence, name)
        if name in OPERANDS:
            return self.operation.write().get(name, OPERANDS[name].absent)
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
        written = self.operation.write() | ({"path": path} if path is not None else {})
        said = {"site": self.site, "kind": self.kind}
        said |= {name: written[name] for name in OPERANDS if name in written}
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


def _check_keys(names: Iterable[str]) -> None:
    for name in names:
        if name not in FIELDS:
            hint = did_you_mean(name[:80], FIELDS)  # one may be a megabyte
            raise SiteRuleError(f"unknown key {name!r}{hint} Known keys: {', '.join(FIELDS)}")


def _check_site(site: object) -> None:
    if not is_host(site[2:] if isinstance(site, str) and site.startswith("*.") else site):
        raise refuse("site", site, "a lower-case host like 'shop.example', or '*.shop.example'")


def _short(value: object) -> str:
    if isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    elif isinstance(value, tuple) and len(value) > _SHOWN:
        value = (*value[:2], f"… {len(value)} in all")
    return json.dumps(value, default=list, ensure_ascii=False)


def rule_from_dict(entry: Mapping[str, Any]) -> SiteRule:
    """Make a rule of one table of a rule file; `SiteRuleError` names an unknown key."""
    _check_keys(entry)
    return SiteRule(**{"site": None, "kind": None, **entry})


def evidence_of(entry: Mapping[str, Any]) -> Evidence:
    """Read the evidence in a table of a rule file."""
    return Evidence(**{name: entry[name] for name in EVIDENCE if name in entry})
