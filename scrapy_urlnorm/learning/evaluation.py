"""Evaluation: what a normalizer finds and what it costs, on a log with contents."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.learning.risk import upper_bound
from scrapy_urlnorm.learning.rows_by_site import Sites, by_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_urlnorm.logs import Observation
    from scrapy_urlnorm.normalizer import Normalizer

#: As they stand in JSON.
_FIGURES = (
    *("urls", "contents", "keys", "merges", "redundant", "found", "false_merges"),
    *("false_merge_rate", "false_merge_upper", "lost", "reduction", "ceiling"),
)


@dataclass(frozen=True)
class Evaluation:
    """Counts over the pages of a log.

    ``urls`` (L) with ``contents`` (D) different contents fall on ``keys`` (U) keys.
    ``false_merges`` (F) is the sum over keys of (contents - 1). ``lost`` contents have no URL
    that is the first of its key, so a crawl in the order of the log would not have met them.
    """

    urls: int
    contents: int
    keys: int
    false_merges: int
    lost: int
    examples: tuple[tuple[str, str], ...] = ()

    @property
    def merges(self) -> int:
        """URLs that share a key with an earlier one: L - U."""
        return self.urls - self.keys

    @property
    def redundant(self) -> int:
        """URLs beyond one for each content: L - D."""
        return self.urls - self.contents

    @property
    def found(self) -> float:
        """Share of the redundant URLs found: (L - U - F) / (L - D); 0 where there are none."""
        return (self.merges - self.false_merges) / self.redundant if self.redundant else 0.0

    @property
    def false_merge_rate(self) -> float:
        """F out of L - U."""
        return self.false_merges / self.merges if self.merges else 0.0

    @property
    def false_merge_upper(self) -> float:
        """Clopper-Pearson upper bound (95 %, one-sided) of the false merge rate."""
        return upper_bound(min(self.false_merges, self.merges), self.merges)

    @property
    def reduction(self) -> float:
        """Share of the fetches saved: 1 - U / L."""
        return self.merges / self.urls if self.urls else 0.0

    @property
    def ceiling(self) -> float:
        """The reduction if every redundant URL were found: 1 - D / L."""
        return self.redundant / self.urls if self.urls else 0.0

    def as_dict(self) -> dict[str, Any]:
        found = {name: getattr(self, name) for name in _FIGURES}
        return found | {"examples": [list(pair) for pair in self.examples]}


def evaluate(
    normalizer: Normalizer,
    observations: Iterable[Observation],
    *,
    examples: int = 10,
) -> Evaluation:
    """Measure *normalizer* on the pages and files of a log (status 200, content known).

    A URL that was fetched more than once counts once, with its first content. At most
    *examples* pairs of falsely merged URLs are kept: of a log whose rows leave memory (see
    `rows_by_site`) those of the first sites, otherwise the first in the log.
    """
    pages = (row for row in observations if row.is_page)
    with by_key(pages, normalizer.normalize) as parts:
        return measured(normalizer, parts, examples=examples)


def measured(normalizer: Normalizer, parts: Sites, *, examples: int = 10) -> Evaluation:
    """Measure as `evaluate` does, on a log in *parts*: no key of *normalizer* is in two of them."""
    urls = key_count = 0
    # Of all contents of a log only the hashes are kept. A content may be in several parts.
    distinct: set[int] = set()
    kept: set[int] = set()
    wrong: list[tuple[str, str]] = []
    false_merges = 0
    for _, rows in parts:
        keys: defaultdict[str, dict[str, str]] = defaultdict(dict)
        contents: dict[str, str] = {}
        for row in rows:
            if row.is_page and row.content is not None:
                contents.setdefault(row.url, row.content)
        for url, content in contents.items():
            keys[normalizer.normalize(url)].setdefault(content, url)
            distinct.add(hash(content))
            urls += 1
        key_count += len(keys)
        for of in keys.values():
            kept.add(hash(next(iter(of))))
            false_merges += len(of) - 1
            if len(of) > 1 and len(wrong) < examples:
                first, second, *_ = of.values()
                wrong.append((first, second))
    return Evaluation(
        urls, len(distinct), key_count, false_merges, len(distinct - kept), tuple(wrong)
    )
