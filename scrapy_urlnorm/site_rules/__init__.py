"""The site-rule language: rules that hold for one site only.

`SiteRule` is one rule, for people and for the miner alike; a rule file holds many of them as
TOML tables.
"""

from __future__ import annotations

from scrapy_urlnorm.site_rules.file import load_site_rules, save_site_rules
from scrapy_urlnorm.site_rules.rule import SiteRule
from scrapy_urlnorm.site_rules.rule_set import RulesByDomain, RuleSet

__all__ = ["RuleSet", "RulesByDomain", "SiteRule", "load_site_rules", "save_site_rules"]
