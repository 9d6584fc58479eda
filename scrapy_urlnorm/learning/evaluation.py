"""Evaluation: what a normalizer finds and what it costs, on a log with contents."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.learning.risk import upper_bound
from scrapy_urlnorm.learning.rows_by_site import by_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_urlnorm.learning.rows_by_site import Sites
    from scrapy_urlnorm.logs import Observation
    from scrapy_urlnorm.normalizer import Normalizer


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
        if not self.redundant:
            return 0.0
        return (self.merges - self.false_merges) / self.redundant

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
        """All numbers, for JSON."""
        return {
            "urls": self.urls,
            "contents": self.contents,
            "keys": self.keys,
            "merges": self.merges,
            "redundant": self.redundant,
            "found": self.found,
            "false_merges": self.false_merges,
            "false_merge_rate": self.false_merge_rate,
            "false_merge_upper": self.false_merge_upper,
            "lost": self.lost,
            "reduction": self.reduction,
            "ceiling": self.ceiling,
            "examples": [list(pair) for pair in self.examples],
        }


def evaluate(
    normalizer: Normalizer,
    observations: Iterable[Observation],
    *,
    ignore_from: int | None = None,
    examples: int = 10,
) -> Evaluation:
    """Measure *normalizer* on the pages and files of a log (status 200, content known).

    A URL that was fetched more than once counts once, with its first content. *ignore_from*
    leaves out contents under so many URLs or more: login walls, empty results. At most
    *examples* pairs of falsely merged URLs are kept: of a log whose rows leave memory (see
    `rows_by_site`) those of the first sites, otherwise the first in the log.
    """
    pages = (row for row in observations if row.is_page)
    with by_key(pages, normalizer.normalize) as parts:
        return measured(normalizer, parts, ignore_from=ignore_from, examples=examples)


def measured(
    normalizer: Normalizer,
    parts: Sites,
    *,
    ignore_from: int | None = None,
    examples: int = 10,
) -> Evaluation:
    """Measure as `evaluate` does, on a log in *parts*: no key of *normalizer* is in two of them."""
    sizes: Counter[int] = Counter()
    if ignore_from is not None:
        for _, rows in parts:
            sizes.update(map(hash, _contents(rows).values()))
    urls = key_count = false_merges = 0
    # Of all contents of a log only the hashes are kept. A content may be in several parts.
    distinct: set[int] = set()
    kept: set[int] = set()
    wrong: list[tuple[str, str]] = []
    for _, rows in parts:
        contents = _contents(rows)
        if ignore_from is not None:
            contents = {url: c for url, c in contents.items() if sizes[hash(c)] < ignore_from}
        keys: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for url, content in contents.items():
            keys[normalizer.normalize(url)].setdefault(content, url)
        urls += len(contents)
        key_count += len(keys)
        distinct.update(map(hash, contents.values()))
        kept.update(hash(next(iter(of))) for of in keys.values())
        for of in keys.values():
            if len(of) > 1:
                false_merges += len(of) - 1
                if len(wrong) < examples:
                    first, second, *_ = of.values()
                    wrong.append((first, second))
    return Evaluation(
        urls=urls,
        contents=len(distinct),
        keys=key_count,
        false_merges=false_merges,
        lost=len(distinct - kept),
        examples=tuple(wrong),
    )


def _contents(rows: Iterable[Observation]) -> dict[str, str]:
    """Return the first content of each URL."""
    contents: dict[str, str] = {}
    for row in rows:
        if row.is_page and row.content is not None:
            contents.setdefault(row.url, row.content)
    return contents
