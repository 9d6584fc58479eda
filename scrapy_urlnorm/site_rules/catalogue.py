"""The rules of the catalogue as kinds of site rules.

Without a context such a rule is a switch: it changes what the catalogue does for the site. With
one it runs among the other site rules, where the context holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_urlnorm.exceptions import ConfigError, SiteRuleError
from scrapy_urlnorm.rules import RULES
from scrapy_urlnorm.site_rules.form import Form

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_urlnorm.site_rules.model import SiteRule

_BY_NAME = {rule.name: rule for rule in RULES}
CATALOGUE_NAMES = tuple(_BY_NAME)
# A switch for a whole host: in a context it would be another rule for each path of it.
_WHOLE_HOST = ("www", "strip-mobile-host", "remove-host-dot", "normalize-ip-host")
# It maps one host onto another without regard to the site, which no site rule may.
_NOT_FOR_SITES = ("replace-ip-with-domain",)


def is_switch(rule: SiteRule) -> bool:
    """Whether *rule* changes what the catalogue does for the whole site."""
    return rule.kind in _BY_NAME and rule.path is None and not rule.when


def check_option(rule: SiteRule) -> None:
    """Raise `SiteRuleError` for an option that the rule of the catalogue does not take."""
    if rule.kind in _NOT_FOR_SITES:
        raise SiteRuleError(
            f"{rule.kind} is not for one site, since it leaves it; it belongs into the rules of "
            "the normalizer"
        )
    if rule.kind in _WHOLE_HOST and not is_switch(rule):
        raise SiteRuleError(f"{rule.kind} is for a whole site only: without 'path' and 'when'")
    option = switch_option(rule)
    if option is False:
        if not is_switch(rule):
            raise SiteRuleError(
                f"{rule.kind} is switched off for a whole site only: without 'path' and 'when'"
            )
        return
    try:
        _BY_NAME[rule.kind].compile(option)
    except ConfigError as error:
        raise SiteRuleError(f"option of {rule.kind}: {error}") from None


def switch_option(rule: SiteRule) -> object:
    """Return the option for the catalogue; ``"keep"`` reads better than ``False`` in a file."""
    return False if rule.option == "keep" else rule.option


def operation(rule: SiteRule) -> Callable[[Form], bool]:
    """Return the rule of the catalogue as an operation on a `Form`."""
    entry = _BY_NAME[rule.kind]
    _, option = entry.compile(switch_option(rule))

    def apply(form: Form) -> bool:
        before = form.to_url()
        after = entry.apply(before, option)
        if after == before:
            return False
        Form.__init__(form, after)
        return True

    return apply


def canonical_option(rule: SiteRule) -> Any:
    """Return the option as JSON, for comparing two switches of one site."""
    option = switch_option(rule)
    return False if option is False else _BY_NAME[rule.kind].compile(option)[0]
