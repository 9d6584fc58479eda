"""What a log cannot show: rules that change its URLs, but for which it has no pairs to compare.

A rule merges rightly what it merges in the log, and no log has all. Where the URLs that a rule
changes stand alone under their keys, the log says nothing about it; that is told beside what was
measured, so that nobody takes silence for a proof.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.learning.audit import Blame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_urlnorm.learning.rows_by_site import Sites
    from scrapy_urlnorm.normalizer import Normalizer
    from scrapy_urlnorm.site_rules import SiteRule

#: Contents with a pair of URLs from which on a rule counts as tested (a choice).
_ENOUGH = 3
#: Of more URLs that the rules change, an even sample is explained; of the sites that come when so
#: many are, a sample of this size (choices, for time).
_MAX_EXPLAINED, _MIN_EXPLAINED = 20_000, 100


class Untested(NamedTuple):
    """A rule with the number of URLs that it changes and that stand alone under their keys."""

    rule: SiteRule
    alone: int
    tested: int

    def __str__(self) -> str:
        urls = "1 URL" if self.alone == 1 else f"{self.alone:,} URLs"
        pairs = f"only {self.tested}" if self.tested else "none"
        return f"{urls} that this rule changes ({pairs} could be compared): {self.rule}"


def untested(
    normalizer: Normalizer, plain: Normalizer, parts: Sites, rules: Sequence[SiteRule]
) -> list[Untested]:
    """Return those of *rules* that act on pages, but on too few pairs of URLs of one key.

    *plain* is the normalizer without them. A page counts if its content is known. The log comes in
    *parts*: no key of *normalizer* is in two of them.
    """
    active = [rule for rule in rules if rule.active]
    blame = Blame(active)
    alone: Counter[int] = Counter()
    tested: defaultdict[int, set[int]] = defaultdict(set)
    left = _MAX_EXPLAINED
    for _, rows in parts:
        groups: defaultdict[str, set[str]] = defaultdict(set)
        contents: dict[str, str] = {}
        for row in rows:
            if row.is_page and row.content is not None:
                groups[normalizer.normalize(row.url)].add(row.url)
                contents.setdefault(row.url, row.content)
        changed = [
            (url, urls)
            for key, urls in groups.items()
            for url in urls
            if plain.normalize(url) != key
        ]
        changed.sort(key=lambda pair: pair[0])
        sample = changed[:: -(-len(changed) // max(left, _MIN_EXPLAINED)) or 1]
        left -= len(sample)
        for url, urls in sample:
            for number in blame.of(url, normalizer):
                if len(urls) == 1:
                    alone[number] += 1
                else:
                    tested[number].add(hash(contents[url]))
    return [
        Untested(active[number], count, len(tested[number]))
        for number, count in sorted(alone.items(), key=lambda pair: (-pair[1], pair[0]))
        if len(tested[number]) < _ENOUGH
    ]
