"""Merges: which URL a filtered request was merged with, and which rules made the two one."""

from __future__ import annotations

from collections import OrderedDict
from functools import lru_cache
from typing import TYPE_CHECKING

from w3lib.url import canonicalize_url

from scrapy_urlnorm.domains import domain_or_host
from scrapy_urlnorm.masking import placeholders
from scrapy_urlnorm.report.filtered import summary_of
from scrapy_urlnorm.rules import RULE_NAMES
from scrapy_urlnorm.text import listed, logger_of
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy import Request

    from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter
    from scrapy_urlnorm.normalizer import Normalizer

logger = logger_of(__name__)

#: Of so many keys the URL seen first is remembered, to name it when a duplicate is filtered.
REMEMBERED_URLS = 10_000
#: Keys of stock Scrapy that are remembered, so that each is counted once.
_REMEMBERED = 100_000


class Merges:
    """Remembers the first URL of each of the latest keys, and counts merges by rule.

    Duplicates that stock Scrapy would have fetched are told from those that it filters itself.

    *explainer* names the rules; without one nothing is explained. *count* adds one to a statistic.
    """

    def __init__(
        self, explainer: UrlNormRequestFingerprinter | None, count: Callable[[str], None]
    ) -> None:
        self._explainer = explainer
        self._count = count
        #: By key: URL of the first request, name of its callback, whether it went into the queue.
        self.firsts: OrderedDict[bytes, tuple[str, str, bool]] = OrderedDict()
        self._stock_keys: OrderedDict[int, None] = OrderedDict()  # of what it would have fetched
        self._told: set[str] = set()  # rules; their number is that of the catalogue

    def remember(self, key: bytes, url: str, callback: str = "", *, is_queued: bool) -> None:
        """Remember *url* as the first one with *key*, and whether it went into the queue."""
        self.firsts[key] = url, callback, is_queued
        if len(self.firsts) > REMEMBERED_URLS:
            self.firsts.popitem(last=False)

    def has_queued(self, key: bytes) -> bool:
        """Return whether the first URL with *key* is still remembered, and went into the queue."""
        return self.firsts.get(key, ("", "", False))[2]

    def merged_by(
        self, request: Request, key: bytes, *, needs_rules: bool, saves: bool = True
    ) -> tuple[str | None, list[str], bool]:
        """Return what *request* was merged with, and count it if stock Scrapy would not have merged.

        That is the URL that was there first, ``None`` if it is no longer remembered; the rules that
        made the two one, as far as somebody asked; and whether stock Scrapy would have sent it.
        *needs_rules* is false where the rules are of interest only if they are counted: to find
        them takes a while. Of a request for the very URL that was there first there are none. With
        *saves* false it is known that stock Scrapy drops it too.
        """
        first = self.firsts.get(key, (None,))[0]
        if first is None or first == request.url or self._explainer is None:
            return first, [], False
        self.firsts.move_to_end(key)
        normalizer = self._explainer.normalizer_for(request)
        is_beyond = saves and normalizer is not None and self.is_beyond(first, request.url)
        if normalizer is None or not (is_beyond or needs_rules):
            return first, [], False
        if self._explainer.given_key(request) is not None:
            rules = ["urlnorm_key"]
        else:
            rules = rules_between(normalizer, first, request.url)
        if is_beyond:
            self._count("urlnorm/merged")
            for rule in rules:
                self._count(f"urlnorm/merged/{rule}")
            self._tell(first, request.url, [rule for rule in rules if rule not in self._told])
        return first, rules, is_beyond

    def is_beyond(self, first: str, url: str) -> bool:
        """Return whether stock Scrapy would have fetched *url* after *first* with the same key.

        Of several URLs that stock Scrapy takes for one, it would have fetched the first.
        """
        if stock_key(url) == stock_key(first) or hash(stock_key(url)) in self._stock_keys:
            return False
        self.sent(url)
        return True

    def sent(self, url: str) -> None:
        """Note that *url* is sent though its key was there: to drop it from now on saves nothing."""
        self._stock_keys[hash(stock_key(url))] = None
        if len(self._stock_keys) > _REMEMBERED:
            self._stock_keys.popitem(last=False)

    def _tell(self, first: str, url: str, rules: list[str]) -> None:
        """Say what rules do that save a request for the first time in a run."""
        if rules:
            self._told.update(rules)
            first, url = placeholders((first, url))
            said = listed([summary_of(rule).rstrip(".") for rule in rules])
            logger.info("First request saved by a rule (%s): %s counts as %s", said, url, first)


def rules_between(normalizer: Normalizer, first: str, url: str) -> list[str]:
    """Return the names of the rules without which the two URLs would have different keys.

    Where no rule is needed by itself, because another rule does the same, return all that acted.
    """
    if normalizer.site_rules:  # only those of this site: to make a normalizer takes a while
        normalizer = normalizer.for_site(domain_or_host((split(url).host or "").lower()), ())
    acted = dict.fromkeys(
        step.rule for each in (first, url) for step in normalizer.explain(each).steps
    )
    needed = []
    for name in acted:
        if name in normalizer.rules:
            without = _without(normalizer, name)
        else:  # a site rule, or a change that is no rule
            without = normalizer.replace_site_rules(())
        if without.normalize(first) != without.normalize(url):
            needed.append(name)
    return needed or list(acted)


@lru_cache(maxsize=256)
def _without(normalizer: Normalizer, name: str) -> Normalizer:
    options = {each: normalizer.rules.get(each, False) for each in RULE_NAMES}
    return normalizer.replace_rules(options | {name: False})


@lru_cache(maxsize=10_000)
def stock_key(url: str) -> str:
    """Return the text by which stock Scrapy compares *url* with others."""
    try:
        return canonicalize_url(url)
    except ValueError:
        return url


def in_words(first: str | None, rules: Iterable[str]) -> str:
    """Say for the log what a request was merged with and by which rules."""
    names = ", ".join(dict.fromkeys(rules))
    if not names:
        return ""
    return f" merged with {first} by {names}" if first else f" merged by {names}"
