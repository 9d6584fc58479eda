"""How two fetches of a page differ, line by line; and which URLs are of one family."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.logs.blocks import Block, without_digits
from scrapy_urlnorm.text import common_ends
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_PARAM = re.compile(r"[^&;]+")
_DEEP = 4  #: paths that are deeper are of one family
_SHOWN = 40  #: characters of a line that messages show
#: A longer word is an address, or data: its own words end at signs.
_LONGEST_WORD = 16
_WORDS = re.compile(r"\w+\W?|\W")
#: To match more lines takes seconds, by the square of their number: they are compared in order.
_MOST_LINES = 500


class Unit(NamedTuple):
    """Something on pages that may change by itself."""

    kind: str  #: "path", "shape", "span" or "shared"
    path: str
    start: str = ""  #: the shape; the word before a span, or ``^``
    end: str = ""  #: the word after a span, or ``$``

    def __str__(self) -> str:
        where = _printable(self.path.rpartition("/")[2])
        if self.kind == "path":
            return f"{where}: another text"
        if self.kind == "shared":
            return f"{where}: other lines that several pages show"
        if self.kind == "shape":
            return f"{where}: other numbers" + f" in '{_printable(self.start)}'" * bool(self.start)
        start, end = self.start.removeprefix("^"), self.end.removesuffix("$")
        said = f"{_printable(start)} * {_printable(end)}".strip()
        return f"{where}: other words in '{said}'"


def _printable(said: str) -> str:
    """Return the beginning of what a page says, without characters that steer a terminal."""
    return "".join(each if each.isprintable() else "?" for each in said[:_SHOWN])


def family_of(url: str) -> str:
    """Return the form of a URL: host, first folder, depth, and the names of the parameters."""
    parts = split(url)
    folders = [folder for folder in parts.path.split("/") if folder]
    params = _PARAM.findall(parts.query or "")
    names = {name if is_named else "*" for name, is_named, _ in (p.partition("=") for p in params)}
    first = without_digits(folders[0]) if len(folders) > 1 else ""
    depth = min(len(folders), _DEEP)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.host}{port}/{first} {depth} {'&'.join(sorted(names))}"


def folder_of(family: str) -> str:
    """Return the host and the first folder of a family."""
    return family.partition(" ")[0]


def are_siblings(family: str, other: str) -> bool:
    """Whether two families differ in nothing but the names of their parameters."""
    return family.rpartition(" ")[0] == other.rpartition(" ")[0]


def place_of(blocks: Iterable[Block]) -> str:
    """Return what tells the pages of a site apart at a glance: title and first heading."""
    title = heading = ""
    for path, line in blocks:
        step = path.rpartition("/")[2]
        if step == "title" and not title:
            title = line
        elif step.startswith("h1"):
            heading = line
            break
    return f"{title} | {heading}" if title or heading else ""


def changes_in_lines(path: str, before: list[str], after: list[str]) -> set[Unit] | None:
    """Return how lines changed within; ``None`` if lines came, went or became others."""
    found = set()
    for one, two in _changed(before, after):
        if one is None or two is None:
            return None
        span, shape = _span(one, two), without_digits(one)
        is_shape = shape == without_digits(two)
        if is_shape and (span is None or not _has_long_words(one)):
            found.add(Unit("shape", path, shape))
        elif span is None:
            return None
        else:
            found.add(Unit("span", path, *span))
    return found


def _changed(before: list[str], after: list[str]) -> Iterator[tuple[str | None, str | None]]:
    if max(len(before), len(after)) > _MOST_LINES:
        yield from (pair for pair in zip_longest(before, after) if pair[0] != pair[1])
        return
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag != "equal":
            yield from zip_longest(before[i1:i2], after[j1:j2])


def _span(one: str, two: str) -> tuple[str, str] | None:
    """Return the words between which a line changed; ``None`` if nothing holds the change."""
    before, after = words_of(one), words_of(two)
    first, last = common_ends(before, after)
    common = first + last
    by_chance = common < 2 and common < 0.34 * min(len(before), len(after))
    if not common or (by_chance and not (first and before[0].endswith(":"))):  # a label is none
        return None
    return before[first - 1] if first else "^", before[-last] if last else "$"


def words_of(line: str) -> list[str]:
    """Return the words of a line, and of its long ones the parts that end at signs."""
    words = line.split()
    if not _has_long_words(line):
        return words
    parts = ([w] if len(w) <= _LONGEST_WORD else _WORDS.findall(w) for w in words)
    return list(chain.from_iterable(parts))


def _has_long_words(line: str) -> bool:
    return len(line) > _LONGEST_WORD and max(map(len, line.split()), default=0) > _LONGEST_WORD


def without_span(line: str, unit: Unit, longest: int) -> tuple[str, str] | None:
    """Return a line without a span, and what stood there; ``None`` if it has no such span."""
    words = words_of(line)
    starts = [0] if unit.start == "^" else [n + 1 for n, w in enumerate(words) if w == unit.start]
    for start in starts:
        end = len(words)
        if unit.end != "$":
            if unit.end not in words[start:]:
                continue
            end = words.index(unit.end, start)
        if end - start <= longest:
            return " ".join((*words[:start], *words[end:])), " ".join(words[start:end])
    return None
