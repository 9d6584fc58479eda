"""Credit: the rules of a normalizer without which two URLs would be two."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from scrapy_urlnorm.domains import domain_or_host
from scrapy_urlnorm.rules import RULE_NAMES
from scrapy_urlnorm.url import split

if TYPE_CHECKING:
    from scrapy_urlnorm.normalizer import Normalizer


def rules_between(normalizer: Normalizer, first: str, url: str) -> list[str]:
    """Return the names of the rules without which the two URLs would have different keys.

    Where no rule is needed by itself, because another rule does the same, return all that acted.
    """
    local = normalizer
    if normalizer.site_rules:  # only those of this site: to make a normalizer takes a while
        local = normalizer.for_site(domain_or_host((split(url).host or "").lower()), ())
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
    return normalizer.replace_rules(options | {name: False})
