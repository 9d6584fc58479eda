"""Merges: whether stock Scrapy would have merged two URLs as well, and which rules did."""

from __future__ import annotations

from collections import OrderedDict
from functools import lru_cache
from typing import TYPE_CHECKING

from w3lib.url import canonicalize_url

from scrapy_urlnorm.crawl.live.register import site_of
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.rules import RULE_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Keys of stock Scrapy that are remembered, so that each is counted once.
_REMEMBERED = 100_000


class BeyondScrapy:
    """Tells duplicates that stock Scrapy would have fetched from those it filters itself.

    Of several URLs that stock Scrapy takes for one, it would have fetched the first.
    """

    def __init__(self) -> None:
        self._counted: OrderedDict[int, None] = OrderedDict()

    def is_beyond(self, first: str, url: str) -> bool:
        """Whether stock Scrapy would have fetched *url* after *first*, which has the same key."""
        key = stock_key(url)
        if key == stock_key(first):
            return False
        number = hash(key)
        if number in self._counted:
            return False
        self._counted[number] = None
        if len(self._counted) > _REMEMBERED:
            self._counted.popitem(last=False)
        return True


@lru_cache(maxsize=10_000)
def stock_key(url: str) -> str:
    """Return what stock Scrapy compares of a URL."""
    try:
        return canonicalize_url(url)
    except ValueError:
        return url


def rules_between(normalizer: Normalizer, first: str, url: str) -> list[str]:
    """Return the rules without which the two URLs would have different keys.

    Where no rule is needed by itself, because another does the same, it is all that acted.
    """
    local = normalizer.for_site(site_of(url), ())
    acted: dict[str, None] = {}
    for each in (first, url):
        acted.update(dict.fromkeys(step.rule for step in local.explain(each).steps))
    needed = [name for name in acted if not _is_one_without(name, local, first, url)]
    return needed or list(acted)


def _is_one_without(name: str, normalizer: Normalizer, first: str, url: str) -> bool:
    if name not in normalizer.rules:  # a site rule, or a change that is no rule
        normalizer = normalizer.replace_site_rules(())
    else:
        normalizer = _without(normalizer, name)
    return normalizer.normalize(first) == normalizer.normalize(url)


@lru_cache(maxsize=256)
def _without(normalizer: Normalizer, name: str) -> Normalizer:
    options = {each: normalizer.rules.get(each, False) for each in RULE_NAMES}
    return Normalizer(normalizer.profile, options | {name: False}, normalizer.site_rules)


def in_words(first: str | None, rules: Iterable[str]) -> str:
    """Say for the log what a request was merged with and by which rules."""
    names = ", ".join(dict.fromkeys(rules))
    if not names:
        return ""
    return f" merged with {first} by {names}" if first else f" merged by {names}"
