"""Site rules in a crawl."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from loopback import Reply, Site, crawl, page

from scrapy_urlnorm.site_rules import SiteRule, save_site_rules

if TYPE_CHECKING:
    from pathlib import Path

HOME = "http://shop.example/-home-"


def test_rules_that_undo_each_other_cost_no_other_rule(tmp_path: Path) -> None:
    """Where a crawl meets a circle of rules, the others of the site act; it is logged and counted."""
    rules = [
        SiteRule(site="shop.example", **fields)
        for fields in (
            {"kind": "replace", "old": {"q:a": "1"}, "new": {"q:b": "1"}, "when": {"has": "x"}},
            {"kind": "replace", "old": {"q:b": "1"}, "new": {"q:a": "1"}, "when": {"has": "y"}},
            {"kind": "drop-param", "param": "sid"},
        )
    ]
    save_site_rules(tmp_path / "rules.toml", rules)
    url = "http://shop.example/p?a=1&x=1&y=1"
    links = [url, f"{url}&sid=1", f"{url}&sid=2", "http://shop.example/q?sid=3"]

    def answer(asked: str) -> Reply:
        return (
            page("home", *links) if asked == HOME else page(asked.partition("sid")[0].rstrip("?&"))
        )

    settings = {
        "ADDONS": {"scrapy_urlnorm.Addon": 900},
        "URLNORM_LEARN": "off",
        "URLNORM_SITE_RULES": [str(tmp_path / "rules.toml")],
    }
    with Site(answer) as site:
        result = crawl(site, [HOME], settings)
    assert result.error is None
    assert sorted(result.pages) == sorted(["home", url, "http://shop.example/q"])
    assert re.search(r"^DEBUG.* rules_left_out [1-9]", result.log, re.MULTILINE)
    assert result.log.count("undo each other for ever") == 1
