"""The operands of rules: every word of the language, and how a rule file says it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules.form import path_text, segments_of

# A host as the catalogue writes it: lower case, ASCII (or an IP literal), without a port.
_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]{0,252})|\[[0-9a-f:.]+\]")
_SLOT = re.compile(r"\?|s-?\d{1,2}|q:.+", re.DOTALL)
#: What a path segment may look like where its text is not known beforehand.
SHAPES = {
    "digits": re.compile("[0-9]+"),
    "hex": re.compile("[0-9A-Fa-f]+"),
    "alphanumeric": re.compile("[0-9A-Za-z]+"),
}

Reader = Callable[[str, Any], Any]


def refuse(what: str, value: object, accepted: str) -> SiteRuleError:
    """Return the error for a value that a rule may not hold."""
    return SiteRuleError(f"{what} = {value!r} is not accepted; accepted: {accepted}")


def is_host(value: object) -> bool:
    """Whether *value* is a host as the catalogue writes it."""
    return isinstance(value, str) and _HOST.fullmatch(value) is not None


def is_slot(name: str) -> bool:
    return _SLOT.fullmatch(name) is not None


def checked(check: Callable[[Any], object], accepted: str) -> Reader:
    def read(name: str, value: Any) -> Any:
        if not check(value):
            raise refuse(name, value, accepted)
        return value

    return read


def listed(name: str, value: Any) -> tuple[str, ...]:
    """Return the texts of a text or a list, which may repeat them."""
    found = (value,) if isinstance(value, str) else value
    if not isinstance(found, (list, tuple)) or not found or not all(map(_is_text, found)):
        raise refuse(name, value, "a text, or a list of texts")
    return tuple(found)


def texts(name: str, value: Any) -> tuple[str, ...]:
    """Return different texts of a text, a list or a set; a list may be empty."""
    value = sorted(value) if isinstance(value, (set, frozenset)) else value
    found = listed(name, value) if value not in ((), []) else ()
    if len(set(found)) < len(found):
        raise refuse(name, value, "a text, or a list of different texts")
    return found


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def check_table(name: str, table: object, check_value: Reader | None = None) -> Mapping[str, Any]:
    if not isinstance(table, Mapping):
        raise refuse(name, table, "a table")
    for key, value in table.items():
        if not isinstance(key, str):
            raise refuse(f"{name} key", key, "a text")
        if check_value is not None:
            check_value(f"{name}.{key}", value)
    return table


def check_path(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.startswith("/"):
        raise refuse(name, value, "a path that starts with '/'")
    if "?" in value:
        raise refuse(name, value, "a path without '?' (write %3F if it is part of a segment)")
    return value


def folder(name: str, value: object) -> tuple[str, ...]:
    """Return the segments of a path, whether it ends in a slash or not."""
    return segments_of(check_path(name, value))[0]


def _slots(name: str, value: object) -> tuple[str, ...]:
    found = texts(name, value)
    for slot in found:
        if not is_slot(slot):
            accepted = "s0, s1, … s-1 (the last segment), q:NAME, ? (a token alone)"
            raise refuse("slot", slot, accepted)
    return found


class Operand(NamedTuple):
    """How a word of the language is read and written, and what a rule without it has there."""

    read: Reader = lambda name, value: value
    absent: Any = None
    write: Callable[[Any], Any] = lambda value: value


flag = checked(lambda value: isinstance(value, bool), "true or false")
_text = checked(lambda value: isinstance(value, str) and value, "a text that is not empty")
_any_text = checked(_is_text, "a text")
_shape = checked(lambda value: value in tuple(SHAPES), ", ".join(map(repr, SHAPES)))
_length = checked(lambda value: type(value) is int and value > 0, "a number of characters from 1")
#: All operands, in the order in which a rule file has them. What is here is read alike in all
#: kinds; a kind may have a reader of its own.
OPERANDS = {
    "param": Operand(texts, ()),
    "default": Operand(check_table, {}, dict),
    "old": Operand(check_table, {}),
    "new": Operand(check_table, {}),
    "host": Operand(texts, ()),
    "slots": Operand(_slots, ()),
    "edit": Operand(_any_text),
    "text": Operand(_text),
    "prefix": Operand(folder, None, path_text),
    "segment": Operand(_text),
    "shape": Operand(_shape),
    "min_length": Operand(_length),
    "tail": Operand(check_path),
    "by": Operand(_any_text, write=lambda by: path_text(by) if isinstance(by, tuple) else by),
    "separator": Operand(_text),
    "slash": Operand(flag, False),
    "semicolons": Operand(flag, False),
    "bare": Operand(flag, False),
    "option": Operand(),
    "within": Operand(_slots, ()),
    "ranges": Operand(texts, ()),
    "values": Operand(texts, ()),
    "path": Operand(check_path),
}
#: Operands that hold several texts; a file may have one text in their place.
LISTS = tuple(word for word, operand in OPERANDS.items() if operand.absent == ())
