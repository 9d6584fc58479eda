"""On files: what the files of a log say about its rules, which pages may have proved alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from scrapy_urlnorm.learning.audit import Blame
from scrapy_urlnorm.learning.files import ENOUGH_FILES
from scrapy_urlnorm.learning.priors import prior
from scrapy_urlnorm.learning.risk import support_needed
from scrapy_urlnorm.normalizer import Normalizer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy_urlnorm.logs import Observation
    from scrapy_urlnorm.site_rules import SiteRule

_PLAIN = Normalizer("default")
#: A content has the vote of two at most, see `trials`.
_MOST = 2
#: The note of a rule that files alone have proved: it goes with the rule to the next crawl.
FILES_ALONE = "files alone agree: it says nothing of pages"


class OnFiles(NamedTuple):
    """What files say about a rule.

    Attributes
    ----------
    agree: contents that are under several URLs which the rule makes one.
    differ: groups of URLs which it makes one, and which have several contents.
    is_alone: whether without files the rule would not be proved: it says nothing of pages.
    """

    agree: int = 0
    differ: int = 0
    is_alone: bool = False


def on_files(
    rules: Sequence[SiteRule], rows: Iterable[Observation], risk: float = 0.02
) -> dict[str, OnFiles]:
    """Return by identity what *rows* that are files say about *rules*, which are in force together.

    *risk* is that with which the rules were accepted.
    """
    contents = {row.url: row.content for row in rows if row.is_page and row.is_file}
    if not rules or not contents:
        return {}
    normalizer, blame = Normalizer("default", site_rules=rules), Blame(rules)
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for url in contents:
        groups[normalizer.normalize(url)].append(url)
    agree: defaultdict[int, set[str | None]] = defaultdict(set)
    differ: Counter[int] = Counter()
    for key, urls in groups.items():
        if len(urls) < 2:
            continue
        acting = set().union(
            *(blame.of(url, normalizer) for url in urls if _PLAIN.normalize(url) != key)
        )
        shown = {contents[url] for url in urls}
        if len(shown) > 1:
            differ.update(acting)
        else:
            for number in acting:
                agree[number] |= shown
    return {
        rules[number].identity: OnFiles(
            len(agree[number]),
            differ[number],
            is_alone=len(agree[number]) >= ENOUGH_FILES
            and (rules[number].support or 0) - _MOST * len(agree[number])
            < support_needed(prior(rules[number].operation, rules[number].context), risk),
        )
        for number in agree.keys() | differ.keys()
    }


def with_note(rule: SiteRule, found: OnFiles | None) -> SiteRule:
    """Return *rule* with a note that files alone have proved it, or without, as they say now."""
    if found is not None and found.is_alone:
        return rule.replace(note=FILES_ALONE)
    return rule.replace(note=None) if rule.note == FILES_ALONE else rule
