"""The kinds of site rules, each one class; see :class:`~scrapy_urlnorm.site_rules.operation.Operation`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules.operation import OPERANDS, Operation, refuse
from scrapy_urlnorm.site_rules.operations.moves import ParamToPath
from scrapy_urlnorm.site_rules.operations.params import CatalogueRule, DropParam, KeepParam, Replace
from scrapy_urlnorm.site_rules.operations.paths import PrefixAlias, StripSegment, StripTail
from scrapy_urlnorm.site_rules.operations.tables import RangeAlias, ValueAlias
from scrapy_urlnorm.site_rules.operations.values import ANY, EDITS, EditValue, IgnoreValue

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ANY",
    "EDITS",
    "KINDS",
    "WORDS",
    "CatalogueRule",
    "DropParam",
    "EditValue",
    "IgnoreValue",
    "KeepParam",
    "Operation",
    "ParamToPath",
    "PrefixAlias",
    "RangeAlias",
    "Replace",
    "StripSegment",
    "StripTail",
    "ValueAlias",
    "order",
    "read_operation",
]

#: Every kind: each module above defines some.
KINDS = tuple(Operation.__subclasses__())
_BY_WORD = {each.word: (cls, each) for cls in KINDS for each in cls.words}
_CATALOGUE_NAMES = tuple(each.word for each in CatalogueRule.words)
_CATALOGUE = "rules of the catalogue"
#: The words in the order in which their rules run. Kinds that make slots alike come before kinds
#: that compare them, and `ignore-value`, which destroys a value, comes last.
ORDER = (
    *("host-alias", "prefix-alias", "param-to-path", "split-segment", "drop-repeated-segment"),
    *("strip-segment", "drop-segment", "strip-tail", _CATALOGUE, "edit-value", "replace"),
    *("drop-default", "drop-param", "keep-param", "range-alias", "value-alias", "ignore-value"),
)
_STRATUM = dict.fromkeys(_CATALOGUE_NAMES, ORDER.index(_CATALOGUE))
_STRATUM |= {word: number for number, word in enumerate(ORDER)}
#: The words for the kinds in a rule file, without those of the catalogue.
WORDS = tuple(word for word in ORDER if word != _CATALOGUE)


def read_operation(word: object, table: Mapping[str, Any]) -> Operation:
    """Make the operation of a table of a rule file; `SiteRuleError` names what is wrong."""
    if not isinstance(word, str) or word not in _BY_WORD:
        raise refuse("kind", word, ", ".join((*WORDS, *_CATALOGUE_NAMES)))
    cls, spec = _BY_WORD[word]
    allowed = f"{spec.required} {spec.optional}".split()
    for name in table:
        if name not in allowed:
            known = ", ".join(sorted({*allowed, "path", "when"}, key=[*OPERANDS, "when"].index))
            raise SiteRuleError(f"a {word} rule has no {name!r}; it has: {known}")
    for name in spec.required.split():
        # An empty text says something ("by" nothing); an empty list or table does not.
        if table.get(name) in (None, (), [], {}):
            says = spec.says.format(**{each: f"`{each}`" for each in OPERANDS})
            raise SiteRuleError(f"a {word} rule needs {name!r} ({says})")
    given = {name: table[name] for name in allowed if table.get(name) is not None}
    readers = {name: cls.readers.get(name, OPERANDS[name].read) for name in given}
    return cls.read(word, {name: readers[name](name, value) for name, value in given.items()})


def order(operation: Operation) -> tuple[int, int]:
    """Return the place of an operation in the order of application."""
    edit = [*EDITS].index(operation.edit) if isinstance(operation, EditValue) else 0
    return _STRATUM[operation.word], edit
