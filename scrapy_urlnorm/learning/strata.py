"""Strata: the kinds of requests that a rule withholds, so that an audit can test each kind.

What is true of one part of a site need not be true of another. A list of two pages says nothing
of the third page of a longer list. So the first request of each kind is an audit. A kind is all of
these together:

- the section of the site, the shape of the rest of the path, and the names of the parameters;
- for each slot that the rule is about, the class of its value: small numbers one by one, larger
  ones by their size, words one by one, all else by what it looks like; the values of the page that
  stands for it are a kind as well, for all others may be equal and that page be another one;
- the same for the values of all other parameters, in coarser classes.

A value that was tested in one section and another section that was tested with another value say
nothing of the two together. Two pages of one kind that the rule makes one, and that are equal in
the log, are the same test: it was made before the rule was known (`shown`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache, partial
from itertools import islice
from math import log
from typing import TYPE_CHECKING
from zlib import crc32

from scrapy_urlnorm.learning.audit import Blame, compiled, grouped
from scrapy_urlnorm.site_rules.context import TITLE, is_title
from scrapy_urlnorm.site_rules.form import REPEAT, Form, Slots, is_param, place
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from scrapy_urlnorm.logs import Observation
    from scrapy_urlnorm.site_rules import SiteRule

#: Two URLs of equal pages: the one that would be suppressed behind the other comes first.
Pair = tuple[str, str]

#: Kinds of one rule that are told apart, words of one slot, and sections named by several. Further ones are sampled, or like
#: each other (choices: each is an audit; where a value is the title of a page, every request brings
#: another word).
MAX_KINDS, _MAX_WORDS, _MAX_SECTIONS = 200, 8, 16
#: Numbers up to _ONE_BY_ONE are classes of their own; then each class goes up to _STEP times the
#: least number in it, and from _LARGE on to _WIDE_STEP times. Page numbers and offsets are below.
_ONE_BY_ONE, _STEP, _LARGE, _WIDE_STEP = 4, 1.5, 1_000, 8.0
#: A number with more digits than this is a token, and so is a longer word.
_MAX_DIGITS, _MAX_WORD = 15, 12
#: Pairs of one site that are looked at, for time: to say which rules act on a URL is slow (a
#: choice: a rule that is found anew has a few dozen).
_MOST_PAIRS = 500

_DIGITS = re.compile(r"\d+")
_LETTERS = re.compile(r"[^\W\d_]+(?:[-_+ .%][^\W\d_]+)*")
_FIRST_WORD = re.compile(r"[^\W\d_]*")
#: A word, with what joins words; where letters and digits change in it. One that changes more often
#: than _MOST_CHANGES is a hash or an id, or encoded: `x86_64` has two changes, half of a UUID six.
_WORD = re.compile(r"[^\W_](?:[-_=~+%.]*[^\W_])*")
_CHANGE = re.compile(r"\d(?=[^\W\d_])|[^\W\d_](?=\d)")
_MOST_CHANGES = 2


class Place:
    """Where a request stands: its URL, and that of the page it would be suppressed behind."""

    __slots__ = ("slots", "twin", "url")

    def __init__(self, url: str, twin: str = "") -> None:
        self.url = url
        self.slots = slots_of(url)
        self.twin = slots_of(twin) if twin else {}

    def kinds(self, about: Iterable[str], is_told: Callable[[str, int], bool]) -> set[int]:
        """Return a number that requests of one kind share, for a rule *about* these slots.

        Another number is that of requests with the values that the page has which stands for it.
        *is_told* says of a slot and the number of a word whether the word is one of the first.
        """
        about = frozenset(about)
        parts = split(self.url)
        folders = parts.path.split("/")
        section = section_of(self.url)
        if len(folders) == 2 and "." not in folders[1] and not is_told("page", _number(section)):
            section = section[: section.index("/") + 1]
        elif is_title(folders[1]) and not is_told("section", _number(section)):
            section = section[: section.index("/") + 1] + TITLE[0]
        if "host" not in about and self.twin:  # another rule makes that host of this one
            section = self.twin["host"] + section[section.index("/") :]
        # However often folders stand after themselves, the kind is the same. Of the others it is told
        # what are letters, digits, and other signs.
        rest = [
            f for at, f in enumerate(folders[2:], 3) if not _repeats(folders[max(0, at - 12) : at])
        ]
        shapes = (_LETTERS.sub("a", _DIGITS.sub("0", _without_ids(f))) for f in rest)
        words = [section, *shapes]
        others = sorted(slot for slot in self.slots if is_param(slot) and slot not in about)
        words += [f"{slot}={_coarse(self.slots[slot])}" for slot in others]

        def told(first: Slots, second: Slots) -> Iterator[str]:
            for slot in sorted(about):
                found = class_of(first.get(place(first, slot)))
                if found == "none":  # the URL does not have it
                    found = class_of(second.get(place(second, slot)))
                is_other = found[:1] == "=" and not is_told(f"{slot} word", _number(found))
                yield f"{slot}:{'=' if is_other else found}"

        both = (told(self.slots, self.twin), told(self.twin, self.slots))
        return {_number(*words, *values) for values in both}


class Kinds:
    """The kinds of requests that were tested of one rule, *about* these slots."""

    def __init__(self, about: Collection[str]) -> None:
        self._about = about
        self._known: defaultdict[str, set[int]] = defaultdict(set)

    def add(self, where: Place) -> bool:
        """Note the kinds of a request. Return whether one is new, and one of the first."""
        kinds = where.kinds(self._about, self._tells)
        return sum(self._add("kinds", kind, MAX_KINDS) for kind in kinds) > 0

    def _tells(self, slot: str, word: int) -> bool:
        return word in self._known[slot] or self._add(slot, word, most_words(slot))

    def _add(self, what: str, value: int, most: int) -> bool:
        known = self._known[what]
        is_new = value not in known and len(known) < most
        if is_new:
            known.add(value)
        return is_new


def most_words(slot: str) -> int:
    """Return how many words of a slot are told apart."""
    return _MAX_SECTIONS if slot == "section" else _MAX_WORDS


def _number(*texts: str) -> int:
    """Return a number for *texts*, the same in every process."""
    return crc32("\0".join(texts).encode("utf-8", "surrogatepass"))


def _without_ids(folder: str) -> str:
    """Return a folder with ``#`` for each hash or id: of a thousand of them none is a kind."""
    return _WORD.sub(lambda word: "#" if _is_id(word[0]) else word[0], folder)


def _is_id(word: str) -> bool:
    return len(_CHANGE.findall(word)) > _MOST_CHANGES


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


def _coarse(value: str) -> str:
    """Return the class of a value that a rule is not about: none, 0, 1, another number, or text."""
    if value in ("", "0", "1"):
        return value
    return "number" if value.isdecimal() else "text"


def _repeats(folders: list[str]) -> bool:
    """Return whether the last folders of a path are one to four that stand there three times."""
    return any(
        folders[-3 * n :] == 3 * folders[-n:] for n in range(1, min(4, len(folders) // 3) + 1)
    )


def _magnitude(number: int) -> int:
    if number <= _ONE_BY_ONE:
        return number
    if number < _LARGE:
        return int(log(number, _STEP)) + 10
    return int(log(number, _WIDE_STEP)) + 100


def section_of(url: str) -> str:
    """Return the name of the part of a site that *url* is in.

    That is its host and its first folder, with ``#`` for digits and ids. For a page in no folder it is the
    host and the first word of its name, because pages of one kind are named alike.
    """
    parts = split(url)
    first, slash, rest = parts.path[1:].partition("/")
    if slash and rest:
        return f"{parts.host}/{_DIGITS.sub('#', _without_ids(first))}/"
    return f"{parts.host}/{_FIRST_WORD.match(first).group()}"  # type: ignore[union-attr]


def shown(
    rules: Sequence[SiteRule], rows: Iterable[Observation], without: Collection[str] = ()
) -> dict[str, tuple[Pair, ...]]:
    """Return, by the identity of a rule, pairs of equal pages that it makes one.

    Of each kind of requests there is one. *rules* are in force together; a pair that needs several
    of them is told of each. Those *without*, by their identities, are told of none. Files say
    nothing of pages, so they are left out.
    """
    if all(rule.identity in without for rule in rules):
        return {}  # to normalize all rows takes long
    contents = {row.url: row.content for row in rows if row.is_page and not row.is_file}
    normalizer, rules = compiled((), rules)
    blame = Blame(rules)
    known = [Kinds(rule.operation.slots) for rule in rules]
    found: defaultdict[str, list[Pair]] = defaultdict(list)
    groups = grouped(contents, normalizer)
    acting = cache(partial(blame.of, normalizer=normalizer))
    for url, twin in islice(_pairs(groups.values(), contents), _MOST_PAIRS):
        place = Place(url, twin)
        for number in (acting(url) ^ acting(twin)) or acting(url):
            rule = rules[number]
            if rule.identity not in without and known[number].add(place):
                found[rule.identity].append((url, twin))
    return {identity: tuple(pairs) for identity, pairs in found.items()}


def _pairs(groups: Iterable[Sequence[str]], contents: dict[str, str | None]) -> Iterator[Pair]:
    """Yield each URL with the first of its group, where all of the group are equal."""
    for urls in groups:
        if len(urls) > 1 and len({contents[url] for url in urls}) == 1:
            for url in urls[1:]:
                yield url, urls[0]
