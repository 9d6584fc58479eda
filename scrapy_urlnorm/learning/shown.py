"""Shown: which kinds of requests the log of a crawl has tested already.

A crawl sends the first request of each kind (`strata`) that a rule withholds, as an audit. Two
pages of that kind that the rule makes one, and that are equal, are the same test: it was made
before the rule was known.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING

from scrapy_urlnorm.learning.audit import Blame, compiled
from scrapy_urlnorm.learning.strata import Kinds, Place

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from scrapy_urlnorm.logs import Observation
    from scrapy_urlnorm.site_rules import SiteRule

#: Two URLs of equal pages: the one that would be suppressed behind the other comes first.
Pair = tuple[str, str]
#: Pairs of one site that are looked at, for time: to say which rules act on a URL is slow (a
#: choice: a rule that is found anew has a few dozen).
MOST_PAIRS = 500


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
    acting: dict[str, set[int]] = {}
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for url in contents:
        groups[normalizer.normalize(url)].append(url)
    for url, twin in islice(_pairs(groups.values(), contents), MOST_PAIRS):
        for each in (url, twin):
            if each not in acting:
                acting[each] = blame.of(each, normalizer)
        place = Place(url, twin)
        for number in (acting[url] ^ acting[twin]) or acting[url]:
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
