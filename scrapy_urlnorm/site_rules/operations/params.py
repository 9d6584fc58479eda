"""Kinds of rules about parameters, about several slots at once, and about what the catalogue does.

Without a context a rule of the catalogue is a switch: it changes what the catalogue does for the
site. With one it runs among the other site rules, where the context holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy_urlnorm.exceptions import ConfigError, SiteRuleError
from scrapy_urlnorm.rules import RULES
from scrapy_urlnorm.site_rules.form import (
    REPEAT,
    Form,
    Slots,
    exchanged,
    is_bare,
    is_param,
    is_path,
    parts,
    path_and_query,
    place,
    segments,
    with_value,
    without,
)
from scrapy_urlnorm.site_rules.operation import (
    Operation,
    Twins,
    Word,
    all_of,
    check_table,
    is_host,
    is_slot,
    listed,
    refuse,
    scheme,
    shown,
)
from scrapy_urlnorm.site_rules.operations.values import lowercase_first
from scrapy_urlnorm.url import DOT_SEGMENTS, split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from scrapy_urlnorm.site_rules.context import Context, Pair

#: The words for slots that are no parameters, as far as `DropParam` may name them.
_FLAGS = {"slash": "slash", "semicolons": "sep", "bare": "?"}
#: The rules that learning tries, and which paths each may change.
_LEARNED: dict[str, Callable[[list[str]], bool]] = {
    "lowercase-path": lambda path: any(segment != segment.lower() for segment in path),
    "remove-duplicate-slashes": lambda path: "" in path,
}
_BY_NAME = {rule.name: rule for rule in RULES}
# These rules cannot differ from path to path.
_WHOLE_HOST = ("www", "strip-mobile-host", "remove-host-dot", "normalize-ip-host")


@dataclass(frozen=True)
class DropParam(Operation):
    """The slots ``names`` mean nothing, each and together.

    They are parameters (``q:sid``), the final slash (``slash``), ``;`` as a separator (``sep``)
    and tokens that stand alone (``?``).
    """

    words = (Word("drop-param", "{param} means nothing", "", "param slash semicolons bare"),)

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.names:
            raise SiteRuleError("a drop-param rule needs 'param', 'slash', 'semicolons' or 'bare'")

    @classmethod
    def read(cls, word: str, operands: dict[str, Any]) -> DropParam:
        params = (f"q:{name}" for name in operands.get("param", ()))
        return cls((*params, *(slot for flag, slot in _FLAGS.items() if operands.get(flag))))

    def write(self) -> dict[str, Any]:
        params = tuple(name[2:] for name in self.names if name[:2] == "q:")
        flags = {word: True for word, slot in _FLAGS.items() if slot in self.names}
        return ({"param": params} if params else {}) | flags

    def image(self, slots: Slots) -> Slots | None:
        return None if slots.keys().isdisjoint(self.names) else without(slots, self.names)

    def any_of(self) -> tuple[str, ...]:
        return self.names

    def example(self, slots: Slots) -> Slots:
        added = {name: "1" for name in self.names if name != "sep" and name not in slots}
        return slots | ({"q:a": "1", "q:b": "1", "sep": ";"} if "sep" in self.names else {}) | added

    def sentence(self) -> str:
        words = [shown("slots", [name]) for name in self.names if name != "sep"]
        if not words:
            return "a semicolon between parameters is the same as &"
        return f"{all_of(words)} {'means' if len(words) == 1 else 'mean'} nothing"


@dataclass(frozen=True)
class KeepParam(Operation):
    """All parameters but ``param`` mean nothing."""

    words = (Word("keep-param", "of all parameters only {param} counts", "", "param"),)

    param: tuple[str, ...] = ()

    def image(self, slots: Slots) -> Slots | None:
        kept = {f"q:{name}" for name in self.param}
        gone = {slot for slot in slots if is_param(slot) and slot not in kept}
        return without(slots, gone) if gone else None

    def example(self, slots: Slots) -> Slots:
        return slots | {"?": "x1"}

    def sentence(self) -> str:
        return super().sentence() if self.param else "no parameter counts"


def _old_or_new(name: str, table: object) -> tuple[Pair, ...]:
    found = []
    for slot, value in check_table(name, table, listed).items():
        if not (slot in ("scheme", "host", "slash") or is_slot(slot)):
            raise refuse(f"{name} slot", slot, "scheme, host, slash, s0, s1, … s-1, q:NAME, ?")
        if not isinstance(value, str) and not slot.startswith("q:"):
            raise refuse(f"{name}.{slot}", value, "one text (lists are for parameters)")
        if _is_segment(slot) and value in DOT_SEGMENTS:
            raise refuse(f"{name}.{slot}", value, "a segment that is not empty, '.' or '..'")
        found.append((slot, _joined(value)))
    return tuple(found)


def _defaults(name: str, table: object) -> tuple[Pair, ...]:
    found = check_table(name, table, listed)
    return tuple((f"q:{param}", _joined(value)) for param, value in found.items())


@dataclass(frozen=True)
class Replace(Operation):
    """Where all pairs of ``old`` stand together, the pairs of ``new`` stand in their place.

    The values of a repeated parameter are joined by `REPEAT`; so are hosts, of which a URL has
    one. A rule file has words of their own for parameters at their defaults, without ``new``, and
    for hosts alone.
    """

    words = (
        Word("replace", "{old} is the same as {new}", "old", "new"),
        Word("drop-default", "{default}: that is the default, and says nothing", "default"),
        Word("host-alias", "the host {host} is the same as {by}", "host by"),
    )
    readers: ClassVar = {"old": _old_or_new, "new": _old_or_new, "default": _defaults}
    answers = ("new",)

    old: tuple[Pair, ...]
    new: tuple[Pair, ...] = ()

    def __post_init__(self) -> None:
        old, new = dict(self.old), dict(self.new)
        hosts = parts(old.get("host", ""))
        if self.word == "host-alias" and new["host"] in hosts:
            raise SiteRuleError(f"host {new['host']!r} is an alias of itself")
        if old == new:
            raise SiteRuleError("'old' and 'new' are the same")
        if any((slot in old) != (slot in new) for slot in ("host", "scheme")):
            raise SiteRuleError("a host or a scheme is replaced by another: name it in old and new")
        alone = {s for s in old if _is_segment(s)} ^ {s for s in new if _is_segment(s)}
        if alone:
            raise SiteRuleError(
                f"segment {min(alone)!r} stands on one side only; segments are taken away by "
                "strip-segment, strip-tail and prefix-alias"
            )
        for table in (old, new):
            _check_values(table)

    @classmethod
    def read(cls, word: str, operands: dict[str, Any]) -> Replace:
        old, new = operands.get("default") or operands.get("old", ()), operands.get("new", ())
        if word == "host-alias":
            old, new = (("host", REPEAT.join(operands["host"])),), (("host", operands["by"]),)
        return cls(old, new)

    def write(self) -> dict[str, Any]:
        old = {slot: _written(value) for slot, value in self.old}
        new = {slot: _written(value) for slot, value in self.new}
        if self.word == "drop-default":
            return {"default": {slot[2:]: value for slot, value in old.items()}}
        if self.word == "host-alias":
            return {"host": tuple(parts(self.old[0][1])), "by": new["host"]}
        return {"old": old, "new": new} if new else {"old": old}

    @property
    def word(self) -> str:
        if self.is_default:
            return "drop-default"
        return "host-alias" if self.slots == {"host"} and self.new else "replace"

    @property
    def is_default(self) -> bool:
        """Whether the rule drops parameters at some values."""
        return not self.new and all(s[:2] == "q:" for s, _ in self.old)

    def image(self, slots: Slots) -> Slots | None:
        taken = {}
        for name, wanted in self.old:
            slot = place(slots, name) if name[:2] == "s-" else name
            value = slots.get(slot)
            if value is None:
                return None
            if value != wanted and not _same(name, value, wanted):
                return None
            taken[slot] = value
        put = {}
        for name, value in self.new:
            slot = place(slots, name) if name[:2] == "s-" else name
            if slot not in taken and slot in slots:
                return None
            put[slot] = value
        if "slash" in put and "s0" not in slots:
            return None  # the root has its slash already
        new = exchanged(slots, taken, put)
        return None if new == slots else new

    @property
    def slots(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.old + self.new)

    @property
    def key(self) -> object:
        return None if self.is_default else frozenset(self.old)

    def pairs(self) -> list[Pair]:
        return [(name, value) for name, value in self.old if REPEAT not in value]

    def any_of(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.old if name[:2] == "q:")[:1]

    def example(self, slots: Slots) -> Slots:
        for name, value in self.old:
            if name == "host":
                value = slots["host"] if slots["host"] in parts(value) else parts(value)[0]
            slots = with_value(slots, name, value)
        return without(slots, {name for name, _ in self.new} - {name for name, _ in self.old})

    def moves(self) -> list[tuple[str, str]]:
        old, by = dict(self.old).get("host"), dict(self.new).get("host")
        return [(host, by) for host in parts(old) if host != by] if old and by else []

    @property
    def family(self) -> object:
        return self.slots

    def catalogue_options(self) -> dict[str, object]:
        old, new = dict(self.old), dict(self.new)
        undone = {
            "www": self.moves() and new["host"].startswith("www."),
            "force-scheme": "scheme" in new,
            "trailing-slash": "slash" in new and "slash" not in old,
        }
        return {name: False for name, is_so in undone.items() if is_so}

    def sentence(self) -> str:
        if self.new or self.is_default:
            return super().sentence()
        return f"{shown('old', self.write()['old'])} says nothing"


def _is_segment(slot: str) -> bool:
    return slot[0] == "s" and slot[1:].lstrip("-").isdigit()


def _same(name: str, value: str, wanted: str) -> bool:
    """Whether a value is one of the hosts wanted, or has the values wanted, in any order."""
    if name == "host":
        return value in parts(wanted)
    return REPEAT in value and sorted(parts(value)) == sorted(parts(wanted))


def _check_values(table: Mapping[str, str]) -> None:
    if table.get("slash", "1") != "1":
        raise refuse("slash", table["slash"], "'1' for a final slash (none: leave it out)")
    scheme("scheme", table.get("scheme", "http"))
    if not all(is_bare(token, "") for token in parts(table.get("?", "1"))):
        raise refuse("?", table["?"], "a token with a digit, which stands alone: 'thread-12'")
    for host in parts(table.get("host", "h")):
        if not is_host(host):
            raise refuse("host", host, "a lower-case host")


def _joined(value: str | Iterable[str]) -> str:
    return value if isinstance(value, str) else REPEAT.join(sorted(value))


def _written(value: str) -> str | list[str]:
    return value.split(REPEAT) if REPEAT in value else value


@dataclass(frozen=True)
class CatalogueRule(Operation):
    """The rule ``name`` of the catalogue with an option; ``False`` switches it off."""

    words = tuple(
        Word(name, "the rule of the catalogue, for this site", "option") for name in _BY_NAME
    )

    name: str
    option: Any = field(default=True, hash=False)

    def __post_init__(self) -> None:
        if self.name == "replace-ip-with-domain":
            raise SiteRuleError(
                f"{self.name} is not for one site, since it leaves it; it belongs into the rules "
                "of the normalizer"
            )
        try:
            _ = self._compiled
        except ConfigError as error:
            raise SiteRuleError(f"option of {self.name}: {error}") from None

    @classmethod
    def read(cls, word: str, operands: dict[str, Any]) -> CatalogueRule:
        return cls(word, operands["option"])

    def write(self) -> dict[str, Any]:
        return {"option": self.option}

    @property
    def word(self) -> str:
        return self.name

    @property
    def switch(self) -> object:
        """The option for the catalogue; a file may have ``"keep"`` for ``False``."""
        return False if self.option == "keep" else self.option

    @cached_property
    def _compiled(self) -> tuple[Any, Any]:
        return (False, None) if self.switch is False else _BY_NAME[self.name].compile(self.switch)

    @property
    def canonical_option(self) -> Any:
        """The option as JSON has it, to compare two switches of one site."""
        return self._compiled[0]

    def image(self, slots: Slots) -> Slots | None:
        if self.name in _LEARNED and not _LEARNED[self.name](segments(slots)):
            return None  # learning asks for many URLs, and to write each as text takes long
        url = split(f"http://h{path_and_query(slots)}")._replace(
            scheme=slots["scheme"], host=slots["host"]
        )
        form = self.apply(Form(url))
        kept = {n: text for n, text in slots.items() if not (is_path(n) or is_param(n))}
        return None if form is None else kept | form.slots

    def apply(self, form: Form) -> Form | None:
        before = form.to_url()
        after = _BY_NAME[self.name].apply(before, self._compiled[1])
        return None if after == before else form.of(after)

    def check_context(self, context: Context) -> None:
        if not context:
            return
        if self.name in _WHOLE_HOST:
            raise SiteRuleError(f"{self.name} is for a whole site only: without 'path' and 'when'")
        if self.switch is False:
            raise SiteRuleError(
                f"{self.name} is switched off for a whole site only: without 'path' and 'when'"
            )

    @classmethod
    def between(cls, twins: Twins) -> Iterator[CatalogueRule]:
        if not twins.by_path:
            return
        long, short = twins.long, twins.short
        if list(filter(None, long)) == list(filter(None, short)):
            yield cls("remove-duplicate-slashes")
        lowered = [segment.lower() for segment in long]
        if twins.same_slash and lowered == [segment.lower() for segment in short]:
            made = cls("lowercase-path")
            if made.told_by((twins.one, twins.other)):
                yield made

    def told_by(self, urls: Sequence[Slots]) -> bool:
        """URLs that differ in first letters alone are evidence for the edit lowercase-first."""
        if self.name != "lowercase-path":
            return True
        return len({tuple(map(lowercase_first, segments(slots))) for slots in urls}) > 1

    def sentence(self) -> str:
        what = _BY_NAME[self.name].summary.rstrip(".")
        return f"Not here: {what}" if self.switch is False else what
