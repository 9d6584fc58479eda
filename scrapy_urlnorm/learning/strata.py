"""Strata: the kinds of requests that a rule withholds, so that an audit can test each kind.

What is true of one part of a site need not be true of another. A list of two pages says nothing
of the third page of a longer list. So the first request of each kind is an audit. The kinds are
coarse, and those of a rule are few:

- the section of the site;
- the names of the parameters in the URL;
- for each slot that the rule is about, the class of its value: small numbers one by one, larger
  ones by their size, words one by one, all else by what it looks like.
"""

from __future__ import annotations

import re
from math import log
from typing import TYPE_CHECKING
from zlib import crc32

from scrapy_urlnorm.site_rules.form import REPEAT, Form, is_param, place
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_urlnorm.site_rules.form import Slots

#: Kinds that are told apart for one rule: sections, sets of names, classes of the values of one
#: slot, and words. Of slots so many are looked at. Further ones are like those before (choices:
#: each is an audit; where a value is the title of a page, every request brings another word). Sets are
#: enough for any combination of five filters.
MAX_SECTIONS, MAX_SETS, MAX_CLASSES, MAX_WORDS, MAX_SLOTS = 50, 40, 24, 8, 8
#: Numbers up to _ONE_BY_ONE are classes of their own; then each class goes up to _STEP times the
#: least number in it, and from _LARGE on to _WIDE_STEP times. Page numbers and offsets are below.
_ONE_BY_ONE, _STEP, _LARGE, _WIDE_STEP = 4, 1.5, 1_000, 8.0
#: A number with more digits than this is a token, and so is a longer word.
_MAX_DIGITS, _MAX_WORD = 15, 12

_DIGITS = re.compile(r"\d+")
_FIRST_WORD = re.compile(r"[^\W\d_]*")


class Place:
    """Where a request stands: its URL, and that of the page it would be suppressed behind."""

    __slots__ = ("slots", "twin", "url")

    def __init__(self, url: str, twin: str = "") -> None:
        self.url = url
        self.slots = slots_of(url)
        self.twin = slots_of(twin) if twin else {}

    def strata(self, about: Iterable[str]) -> Iterator[tuple[str, int, int]]:
        """Yield the kinds that the request is of, for a rule *about* these slots.

        Each is what is told apart, which one it is, and how many of them are told apart at most.
        """
        yield "section", _number(section_of(self.url)), MAX_SECTIONS
        yield "names", _number(*sorted(filter(is_param, self.slots))), MAX_SETS
        for slot in sorted(about)[:MAX_SLOTS]:
            found = class_of(self._value(slot))
            if found[:1] == "=":
                yield f"{slot} word", _number(found), MAX_WORDS
            else:
                yield slot, _number(found), MAX_CLASSES

    def _value(self, slot: str) -> str | None:
        """Return the value of a slot; where the URL does not have it, that of its twin."""
        value = self.slots.get(place(self.slots, slot))
        return self.twin.get(place(self.twin, slot)) if value is None else value

    def neighbourhood(self, about: Iterable[str]) -> int:
        """Return a number that URLs which stand side by side in a sorted list share.

        It is made of the folder and the first parameter that the rule is not *about*; without one,
        of the path.
        """
        about = frozenset(about)
        host, path = self.slots.get("host", ""), split(self.url).path
        for slot, value in self.slots.items():
            if is_param(slot) and slot not in about:
                return _number(host, path.rpartition("/")[0], slot, value)
        return _number(host, path)


class Known:
    """The kinds of requests that one rule was audited for."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, set[int]] = {}

    def add(self, strata: Iterable[tuple[str, int, int]]) -> bool:
        """Note these kinds. Return whether one of them is new, and has to be audited."""
        is_new = False
        for name, number, most in strata:
            known = self._known.setdefault(name, set())
            if number not in known and len(known) < most:
                known.add(number)
                is_new = True
        return is_new


def _number(*texts: str) -> int:
    """Return a number for *texts*, the same in every process."""
    return crc32("\0".join(texts).encode("utf-8", "surrogatepass"))


def slots_of(url: str) -> Slots:
    """Return the slots of a URL, whatever it is like."""
    parts = split(url)
    return {} if parts.host is None else Form(parts).slots


def class_of(value: str | None) -> str:
    """Return the class of a value: the same text for values that are alike."""
    if value is None:
        return "none"
    if REPEAT in value:
        return "several"
    digits = value.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS:
        return f"{value[: -len(digits)]}{_magnitude(int(digits))}"
    if len(value) <= _MAX_WORD and value.replace("-", "").replace("_", "").isalpha():
        return f"={value}"
    if "/" in value:
        return "path"
    if not value:
        return ""
    return "token" if value.isalnum() else "text"


def _magnitude(number: int) -> int:
    """Return the number of the class of a number."""
    if number <= _ONE_BY_ONE:
        return number
    if number < _LARGE:
        return int(log(number, _STEP)) + 10
    return int(log(number, _WIDE_STEP)) + 100


def section_of(url: str) -> str:
    """Return the name of the part of a site that *url* is in.

    That is its host and its first folder, with ``#`` for digits. For a page in no folder it is the
    host and the first word of its name, because pages of one kind are named alike.
    """
    parts = split(url)
    first, slash, rest = parts.path[1:].partition("/")
    if slash and rest:
        return f"{parts.host}/{_DIGITS.sub('#', first)}/"
    return f"{parts.host}/{_FIRST_WORD.match(first).group()}"  # type: ignore[union-attr]
