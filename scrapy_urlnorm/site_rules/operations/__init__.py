"""The kinds of site rules, each one class; see :class:`~.base.Operation`.

A new kind is a class in one of these modules and a line in `KINDS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules.operations.base import Operation, read_operands
from scrapy_urlnorm.site_rules.operations.catalogue import CATALOGUE_NAMES, CatalogueRule
from scrapy_urlnorm.site_rules.operations.edits import EDITS
from scrapy_urlnorm.site_rules.operations.exchange import Replace
from scrapy_urlnorm.site_rules.operations.hosts import HostAlias
from scrapy_urlnorm.site_rules.operations.into_path import ParamToPath, SplitSegment
from scrapy_urlnorm.site_rules.operations.params import DropParam, KeepParam
from scrapy_urlnorm.site_rules.operations.paths import (
    DropSegment,
    PrefixAlias,
    StripSegment,
    StripTail,
)
from scrapy_urlnorm.site_rules.operations.ranges import RangeAlias
from scrapy_urlnorm.site_rules.operations.same_values import ValueAlias
from scrapy_urlnorm.site_rules.operations.values import ANY, EditValue, IgnoreValue
from scrapy_urlnorm.site_rules.paths import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ANY",
    "CATALOGUE_NAMES",
    "EDITS",
    "KINDS",
    "OPERANDS",
    "WORDS",
    "CatalogueRule",
    "DropParam",
    "DropSegment",
    "EditValue",
    "HostAlias",
    "IgnoreValue",
    "KeepParam",
    "Operation",
    "ParamToPath",
    "PrefixAlias",
    "RangeAlias",
    "Replace",
    "SplitSegment",
    "StripSegment",
    "StripTail",
    "ValueAlias",
    "order",
    "owns_path",
    "read_operation",
]

#: The kinds in the order in which their rules run. Kinds that make slots alike come before kinds
#: that compare them, and `IgnoreValue`, which destroys a value, comes last.
KINDS: tuple[type[Operation], ...] = (
    HostAlias,
    PrefixAlias,
    ParamToPath,
    SplitSegment,
    StripSegment,
    DropSegment,
    StripTail,
    CatalogueRule,
    EditValue,
    Replace,
    DropParam,
    KeepParam,
    RangeAlias,
    ValueAlias,
    IgnoreValue,
)
_BY_WORD = {cls.kind: cls for cls in KINDS if cls is not CatalogueRule}
_STRATUM = {cls: number for number, cls in enumerate(KINDS)}
#: Words for one form of a kind, with the operand that a file has in its place.
_SUGAR = {"drop-default": (Replace, "default")}
#: The words for the kinds in a rule file, without those of the catalogue.
WORDS = (*_BY_WORD, *_SUGAR)
#: All operands, in the order in which a rule file has them.
OPERANDS = (
    "param",
    "default",
    "old",
    "new",
    "host",
    "slots",
    "edit",
    "text",
    "prefix",
    "segment",
    "shape",
    "min_length",
    "tail",
    "by",
    "separator",
    "slash",
    "semicolons",
    "bare",
    "option",
    "within",
    "ranges",
    "values",
)


def owns_path(kind: object) -> bool:
    """Whether ``path`` is an operand of *kind* and no condition."""
    return isinstance(kind, str) and kind in _BY_WORD and _BY_WORD[kind].owns_path


def read_operation(kind: object, table: Mapping[str, Any]) -> Operation:
    """Make the operation of a table of a rule file; `SiteRuleError` names what is wrong."""
    if isinstance(kind, str):
        if kind in _SUGAR:
            return _read_sugar(kind, table)
        if kind in _BY_WORD:
            cls = _BY_WORD[kind]
            return cls.read(read_operands(cls, table))
        if kind in CATALOGUE_NAMES:
            operands = read_operands(_named(kind), table)
            return CatalogueRule(kind, operands["option"])
    raise refuse("kind", kind, ", ".join((*WORDS, *CATALOGUE_NAMES)))


def _named(word: str) -> type[Operation]:
    """Return the class of a rule of the catalogue under its own name, for messages."""
    return type(word, (CatalogueRule,), {"kind": word})


def _read_sugar(kind: str, table: Mapping[str, Any]) -> Operation:
    cls, operand = _SUGAR[kind]
    for name in table:
        if name != operand:
            raise SiteRuleError(f"a {kind} rule has no {name!r}; it has: {operand}, path, when")
    if not table.get(operand):
        raise SiteRuleError(
            f"a {kind} rule needs {operand!r} (these parameters, all at these values, are void)"
        )
    return cls.read(table)


def order(operation: Operation) -> tuple[int, int]:
    """Return the place of an operation in the order of application."""
    return _STRATUM[type(operation)], operation.rank
