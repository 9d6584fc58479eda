"""The catalogue as one normalizer runs it: the rules that are on, with their options."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.exceptions import ConfigError
from scrapy_urlnorm.rules import NEEDS, PROFILES, RULE_NAMES, RULES
from scrapy_urlnorm.text import did_you_mean

if TYPE_CHECKING:
    from scrapy_urlnorm.rules import Rule
    from scrapy_urlnorm.url import Url

    Step = tuple[Callable[[Url, Any], Url], Any, Rule, bool]


class Catalogue:
    """Rules with their options, compiled once; shared by all normalizers that use the same.

    ``options`` holds the options as JSON has them, ``compiled`` as the rules take them, both by
    the names of the rules that are on. ``steps`` holds what to run, for URLs with or without each
    of what rules need (``NEEDS``).
    """

    __slots__ = ("compiled", "options", "steps")

    def __init__(self, options: Mapping[str, object]) -> None:
        """Compile *options*: True, False or an option for every rule.

        Raises ``ConfigError``, naming the rule, for an option that it does not take.
        """
        self.options: dict[str, Any] = {}
        self.compiled: dict[str, Any] = {}
        for rule in RULES:
            option = options[rule.name]
            if option is False or option is None:
                continue
            try:
                self.options[rule.name], self.compiled[rule.name] = rule.compile(option)
            except ConfigError as error:
                raise ConfigError(f"rule {rule.name!r}: {error}") from None
        self.steps: dict[tuple[bool, bool, bool], tuple[Step, ...]] = {
            present: tuple(
                (rule.apply, self.compiled[rule.name], rule, rule.settles)
                for rule in RULES
                if rule.name in self.compiled
                and (not rule.needs or present[NEEDS.index(rule.needs)])
            )
            for present in product((False, True), (False, True), (False, True))
        }

    def all_options(self) -> dict[str, object]:
        """Return an option for every rule of the catalogue: ``False`` for those that are off."""
        return {name: self.options.get(name, False) for name in RULE_NAMES}


def effective_rules(profile: str, rules: Mapping[str, object]) -> dict[str, object]:
    """Return the option of every rule of the catalogue: the profile's, then the user's."""
    if profile not in PROFILES:
        raise ConfigError(f"{profile!r} is not a profile; accepted: {', '.join(PROFILES)}")
    if not isinstance(rules, Mapping):
        raise ConfigError(f"{rules!r} is not a mapping of rule names to True, False or an option")
    for name in rules:
        if name not in RULE_NAMES:
            hint = did_you_mean(str(name), RULE_NAMES)
            raise ConfigError(f"{name!r} is not a rule{hint} Known rules: {', '.join(RULE_NAMES)}")
    return {rule.name: rules.get(rule.name, rule.option(profile)) for rule in RULES}


@lru_cache(maxsize=1_024)
def switched(catalogue: Catalogue, switches: str) -> Catalogue:
    """Return *catalogue* with the switches of one site (a JSON object of options) in it."""
    return Catalogue(catalogue.all_options() | json.loads(switches))
