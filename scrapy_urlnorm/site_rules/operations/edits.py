"""What an ``edit-value`` rule may do to the value of a slot.

`EDITS` has every edit; a new one is a function and a row there.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.site_rules.form import REPEAT

if TYPE_CHECKING:
    from collections.abc import Callable

_NUMBER = re.compile("[0-9]+")
#: What may follow a number that ends there; ISO 8601 has a T between the day and the time.
_AFTER = "-_.,;/ ~:T"
#: An instant with its time zone (ISO 8601). A ``+`` that nobody escaped arrives as a space.
_INSTANT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.(?:[0-9]{3}){1,2})?)?)"
    r"(Z|[ +-][0-9]{2}:[0-9]{2})"
)


def strip_suffix(value: str, text: str, by: str) -> str:
    """Take *text* from the end, as often as it stands there; a value is never emptied."""
    end = len(value)
    while end > len(text) and value.endswith(text, 0, end):
        end -= len(text)
    return value[:end]


def replace_text(value: str, text: str, by: str) -> str:
    """Put *by* in place of *text* everywhere, also where a replacement made it."""
    value = value.replace(text, by)
    if text not in value:
        return value
    # Taking "ab" from "aabb" makes another "ab"; `by` shares no character with `text`.
    wanted, size = list(text), len(text)
    kept: list[str] = []
    for character in value:
        kept.append(character)
        if kept[-size:] == wanted:
            del kept[-size:]
    return "".join(kept)


def number_before(value: str, text: str = "", by: str = "") -> str:
    """Of ``12-any-words`` keep the number."""
    number, dash, words = value.partition("-")
    return number if dash and words and number.isascii() and number.isdigit() else value


def number_after(value: str, text: str = "", by: str = "") -> str:
    """Of ``any-words-12`` keep the number."""
    words, dash, number = value.rpartition("-")
    return number if dash and words and number.isascii() and number.isdigit() else value


def lowercase_first(value: str, text: str = "", by: str = "") -> str:
    """Write the first letter in lower case, as a wiki's titles compare."""
    return value[:1].lower() + value[1:]


def drop_repeats(values: list[str], text: str = "", by: str = "") -> list[str]:
    """Keep the first of values of one parameter that are the same."""
    return list(dict.fromkeys(values))


def lowercase(value: str, text: str = "", by: str = "") -> str:
    """Write all letters in lower case."""
    return value.lower()


def fold_accents(value: str, text: str = "", by: str = "") -> str:
    """Write Latin letters without accents (Unicode Standard, canonical decomposition)."""
    # In other scripts the mark makes another letter: U+0439 is not U+0438.
    decomposed = ((letter, unicodedata.normalize("NFD", letter)[0]) for letter in value)
    return "".join([base if base.isascii() else letter for letter, base in decomposed])


def cut_after(value: str, text: str, by: str = "") -> str:
    """Keep what *text* says, which has ``#`` for each number: of a time its day, ``#-#-#``."""
    first, *others = text.split("#")
    if not value.startswith(first):
        return value
    at = len(first)
    for literal in others:
        number = _NUMBER.match(value, at)
        if number is None or not value.startswith(literal, number.end()):
            return value
        at = number.end() + len(literal)
    return value[:at] if value[at : at + 1] in _AFTER else value


def utc(value: str, text: str = "", by: str = "") -> str:
    """Write an instant with a time zone in UTC."""
    match = _INSTANT.fullmatch(value)
    if match is None:
        return value
    offset = "+00:00" if match[2] == "Z" else match[2].replace(" ", "+")
    try:
        moment = datetime.fromisoformat(match[1] + offset).astimezone(timezone.utc)
    except (ValueError, OverflowError):  # a 31st of June; the year 0
        return value
    return moment.isoformat().replace("+00:00", "Z")


def leading_zeros(value: str, text: str = "", by: str = "") -> str:
    """Write a whole number without leading zeros."""
    is_number = value.isascii() and value.isdigit()
    return value.lstrip("0") or "0" if is_number else value


def each(
    function: Callable[[str, str, str], str],
) -> Callable[[list[str], str, str], list[str]]:
    """Return the edit that applies *function* to each value of a slot."""
    return lambda values, text, by: [function(value, text, by) for value in values]


class Edit(NamedTuple):
    """One edit: its function, the operands it takes, and a value that it changes.

    In that value ``{text}`` stands for the operand, ``{digits}`` for it with 1 for each ``#``.

    The function gets all values of a slot (several for a repeated parameter), ``text`` and ``by``.

    ``weaker`` names an edit that explains some of what this one does: URLs that are equal after
    the weaker edit are no evidence for this one. ``cuts`` says that it takes text away, which
    learning believes of many different values only. ``in_path`` says that learning tries the edit
    on segments; of `lowercase` the rule lowercase-path of the catalogue does that. ``only_params``
    says that it means nothing for a segment, which has one value.
    """

    function: Callable[[list[str], str, str], list[str]]
    operands: tuple[str, ...]
    example: str
    weaker: str | None = None
    key_only: bool = False
    cuts: bool = False
    in_path: bool = True
    only_params: bool = False


#: Every edit by its word, in the order in which edits run.
EDITS: dict[str, Edit] = {
    "strip-suffix": Edit(each(strip_suffix), ("text",), "x{text}", cuts=True),
    "replace-text": Edit(each(replace_text), ("text", "by"), "x{text}"),
    "drop-repeats": Edit(drop_repeats, (), f"x{REPEAT}x", in_path=False, only_params=True),
    "number-before": Edit(each(number_before), (), "12-x", key_only=True, cuts=True),
    "number-after": Edit(each(number_after), (), "x-12", key_only=True, cuts=True),
    "lowercase-first": Edit(each(lowercase_first), (), "Xx"),
    "lowercase": Edit(each(lowercase), (), "xX", "lowercase-first", in_path=False),
    "fold-accents": Edit(each(fold_accents), (), "é"),
    "utc": Edit(each(utc), (), "2010-07-12T16:35:00+02:00", key_only=True),
    "leading-zeros": Edit(each(leading_zeros), (), "07"),
    "cut-after": Edit(each(cut_after), ("text",), "{digits}-x", "utc", key_only=True, cuts=True),
}
