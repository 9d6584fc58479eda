"""Novelty: whether a page says anything that was not read before.

The months of a calendar have a content each, and yet bring nothing: what such a page shows stood on
the page that links to it, or on pages of its family, up to digits. So it is with the months of a
calendar beside an article, under as many URLs for each article.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_urlnorm.caches import BoundedCache
from scrapy_urlnorm.logs.blocks import without_digits

if TYPE_CHECKING:
    from scrapy_urlnorm.crawl.online.keys import ClusterKeys
    from scrapy_urlnorm.crawl.online.names import Names
    from scrapy_urlnorm.logs.blocks import Block

#: Families whose lines are remembered, lines of one, and pages that lead to others.
_MAX_FAMILIES, _MAX_LINES, _MAX_LEADING = 60, 4_000, 100
#: Lines of a page of which the digits alone are new, as a share: more of them are figures.
_FIGURES = 0.1
_Lines = frozenset[int]


@dataclass(eq=False)
class Novelty:
    """Remembers the lines of the last pages of each family, those that were read lately."""

    names: Names
    keys: ClusterKeys

    def __post_init__(self) -> None:
        self._read: OrderedDict[str, dict[int, None]] = OrderedDict()  # by family
        self._leading = BoundedCache(self._lines_at, most=_MAX_LEADING, longest=2_000)

    def is_new(self, family: str, blocks: list[Block], leading: str) -> bool:
        """Whether a page, to which the one at the URL *leading* led, says anything new; remember it."""
        exact, shapes = _lines_of(blocks)
        read, before = self._lines_of_family(family), self._leading[leading]
        new = [line for line in shapes if line not in read and line not in before]
        figures = sum(1 for line in exact if line not in read and line not in before)
        for line in (*exact, *shapes):
            read.pop(line, None)
            read[line] = None
        for line in [*read][: max(0, len(read) - _MAX_LINES)]:
            del read[line]
        return bool(new) or figures > _FIGURES * len(exact)

    def _lines_of_family(self, family: str) -> dict[int, None]:
        read = self._read[family] = self._read.pop(family, {})
        if len(self._read) > _MAX_FAMILIES:
            self._read.popitem(last=False)
        return read

    def _lines_at(self, url: str) -> _Lines:
        page = self.names.page(self.keys.fingerprint_of(url))
        exact, shapes = _lines_of(page.blocks) if page else ([], [])
        return frozenset((*exact, *shapes))


def _lines_of(blocks: list[Block]) -> tuple[list[int], list[int]]:
    """Return the lines of a page, and what they are without their digits, as hashes."""
    lines = [block.line for block in blocks]
    shapes = [without_digits(block.line) if block.is_text else block.line for block in blocks]
    return [*map(hash, lines)], [*map(hash, shapes)]
