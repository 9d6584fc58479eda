"""The catalogue as one normalizer runs it: the rules that are on, with their options."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.caches import BoundedCache
from scrapy_urlnorm.exceptions import ConfigError
from scrapy_urlnorm.rules import NEEDS, PROFILES, RULE_NAMES, RULES
from scrapy_urlnorm.rules.escapes import UNTIDY_ESCAPE
from scrapy_urlnorm.rules.plain import Plain
from scrapy_urlnorm.text import did_you_mean
from scrapy_urlnorm.url import join

if TYPE_CHECKING:
    from scrapy_urlnorm.rules import Rule
    from scrapy_urlnorm.url import Url

    Active = tuple[Callable[[Url, Any], Url], Any, Rule, bool]
    Recorder = Callable[[str, Url, Url, str], None]

_MOST_SITES = 1_024  # sites whose own catalogue is kept
_LONGEST_OPTIONS = 65_536  # characters of JSON


class Catalogue:
    """The rules that are on with their options, compiled once and shared by normalizers.

    ``options`` holds the options as JSON has them, ``compiled`` as the rules take them, both by
    the names of the rules that are on.
    """

    __slots__ = ("_changed", "_steps", "compiled", "options")

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
        # What to run, by whether a URL has each of the NEEDS.
        self._steps: dict[tuple[bool, ...], tuple[Active, ...]] = {
            present: tuple(
                (rule.apply, self.compiled[rule.name], rule, rule.settles)
                for rule in RULES
                if rule.name in self.compiled
                and (rule.needs is None or present[NEEDS.index(rule.needs)])
            )
            for present in product((False, True), repeat=len(NEEDS))
        }
        self._changed: BoundedCache[Catalogue] = BoundedCache(
            lambda text: Catalogue(self.all_options() | json.loads(text)),
            most=_MOST_SITES,
            longest=_LONGEST_OPTIONS,
        )

    def all_options(self) -> dict[str, object]:
        """Return an option for every rule of the catalogue: ``False`` for those that are off."""
        return {rule.name: self.options.get(rule.name, False) for rule in RULES}

    def changed(self, options: Mapping[str, object]) -> Catalogue:
        """Return the catalogue of a site that has *options* of its own for some rules."""
        return self._changed[json.dumps(options, sort_keys=True)]

    def run(self, url: Url, text: str, record: Recorder | None = None) -> tuple[Url, bool]:
        """Run each rule once on *url*, whose text is *text*.

        Also tell whether running them again is known to change nothing. *record* is called with
        each change: rule, URL before and after, reason.
        """
        settles = True
        # Rules that need a part that is not there are left out. A part that another rule brings
        # in within this pass meets them in the next one.
        untidy = "%" in text and UNTIDY_ESCAPE.search(text) is not None
        for apply, option, rule, rule_settles in self._steps[untidy, "?" in text, "#" in text]:
            new = apply(url, option)
            if new is not url:
                if record is not None:
                    record(rule.name, url, new, rule.summary)
                url = new
                settles = settles and rule_settles
        return url, settles

    def run_once(self, url: Url) -> Url | None:
        """Return *url* as one run of the rules leaves it; ``None`` if another would change it."""
        new, settles = self.run(url, join(url))
        if settles or self.run(new, join(new))[0] == new:
            return new
        return None

    def plain(self) -> Plain | None:
        """Describe the URLs that are plain for all rules that are on.

        ``None`` if one of them has no word for it: then no URL may take the fast path.
        """
        plain = Plain()
        for rule in RULES:
            if rule.name in self.compiled:
                if rule.plain_when is None:
                    return None
                rule.plain_when(plain, self.compiled[rule.name])
        return plain


def effective_rules(profile: str, rules: Mapping[str, object]) -> dict[str, object]:
    """Return the option of every rule of the catalogue: the user's, or else the profile's.

    Raises ``ConfigError`` for a profile or a rule that does not exist.
    """
    if profile not in PROFILES:
        raise ConfigError(f"{profile!r} is not a profile; accepted: {', '.join(PROFILES)}")
    if not isinstance(rules, Mapping):
        raise ConfigError(f"{rules!r} is not a mapping of rule names to True, False or an option")
    for name in rules:
        if name not in RULE_NAMES:
            hint = did_you_mean(str(name), RULE_NAMES)
            raise ConfigError(f"{name!r} is not a rule{hint} Known rules: {', '.join(RULE_NAMES)}")
    return {rule.name: rules.get(rule.name, rule.option(profile)) for rule in RULES}
