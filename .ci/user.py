"""What a user writes: it runs, without a warning, and its types are known."""

from __future__ import annotations

from pathlib import Path

import scrapy_urlnorm
from scrapy_urlnorm import (
    Normalizer,
    SiteRule,
    explain,
    load_site_rules,
    normalize,
    save_site_rules,
)
from scrapy_urlnorm.testing import assert_distinct, assert_same_key

key: str = normalize("http://Example.COM:80/a?utm_source=x#top")
assert key == "http://example.com/a", key
assert explain("http://example.com/a?utm_source=x").normalized == "http://example.com/a"

path = Path("rules.toml")
path.write_text('[[rule]]\nsite = "example.com"\nkind = "drop-param"\nparam = "ref"\n')
rules: tuple[SiteRule, ...] = load_site_rules(path)
normalizer = Normalizer(site_rules=rules)
assert normalizer.normalize("http://example.com/a?ref=1") == "http://example.com/a"
save_site_rules(path, rules)

assert_same_key("http://example.com/a", "http://example.com/a?fbclid=1")
assert_distinct("http://example.com/a", "http://example.com/b")

for name in scrapy_urlnorm.__all__:
    getattr(scrapy_urlnorm, name)
