"""The rules of the catalogue as kinds of site rules: their names and their options."""

from __future__ import annotations

from functools import cache


@cache
def catalogue_names() -> tuple[str, ...]:
    """The names of the rules of the catalogue, in their order."""
    from scrapy_urlnorm.rules import RULES

    return tuple(rule.name for rule in RULES)
