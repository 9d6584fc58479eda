"""Novelty: whether a page says anything that was not read before.

The months of a calendar have a content each, and yet bring nothing: what such a page shows stood on
the page that links to it, or on several pages of its family, up to digits. So it is with the months
of a calendar beside an article, under as many URLs for each article.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.caches import BoundedCache
from scrapy_urlnorm.logs.blocks import SHOWN, without_digits

if TYPE_CHECKING:
    from scrapy_urlnorm.crawl.online.keys import ClusterKeys
    from scrapy_urlnorm.crawl.online.names import Names

#: Families whose lines are remembered, lines of one, and pages of which they are. A page with more
#: lines is new.
_MAX_FAMILIES, _MAX_LINES, _MAX_PAGES = 60, 4_000, 200
#: So many pages of a family that show a line: what one or two do may be older versions of a page.
_SEVERAL = 3
#: Lines of a page of which the digits alone are new, as a share: more of them are figures.
_FIGURES = 0.1


class _Lines(NamedTuple):
    """The lines of a page, and what they are without their digits, as hashes."""

    exact: frozenset[int]
    shapes: frozenset[int]


@dataclass(eq=False)
class Novelty:
    """Remembers the lines of the last pages of each family, those that were read lately."""

    names: Names
    keys: ClusterKeys

    def __post_init__(self) -> None:
        self._families: OrderedDict[str, dict[int, int]] = OrderedDict()
        self._pages = BoundedCache(self._lines_of, most=_MAX_PAGES, longest=20)

    def is_new(self, family: str, fingerprint: bytes, leading: str) -> bool:
        """Whether a page, to which the one at the URL *leading* led, says anything new; remember it."""
        lines = self._pages[fingerprint]
        if not lines.exact:
            return True
        before = frozenset().union(*self._pages[self.keys.fingerprint_of(leading)])
        read = self._families[family] = self._families.pop(family, {})
        if len(self._families) > _MAX_FAMILIES:
            self._families.popitem(last=False)
        new, figures = (
            sum(1 for line in found if read.get(line, 0) < _SEVERAL and line not in before)
            for found in (lines.shapes, lines.exact)
        )
        for line in lines.exact | lines.shapes:
            read[line] = read.pop(line, 0) + 1
        for line in [*islice(read, max(0, len(read) - _MAX_LINES))]:
            del read[line]
        return new > 0 or figures > _FIGURES * len(lines.exact)

    def _lines_of(self, fingerprint: bytes) -> _Lines:
        page = self.names.page(fingerprint)
        blocks = page.blocks if page and len(page.blocks) <= _MAX_LINES else []
        shapes = (without_digits(line) if line[:1] != SHOWN else line for _, line in blocks)
        return _Lines(frozenset(hash(line) for _, line in blocks), frozenset(map(hash, shapes)))
