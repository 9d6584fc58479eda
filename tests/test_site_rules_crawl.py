"""Site rules in a crawl: every kind saves its requests and loses no page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from loopback import Reply, Site, crawl, page
from site_rule_cases import CASES, path_and_query

from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.site_rules import SiteRule, save_site_rules

HOME = "http://shop.example/-home-"
plain = Normalizer().normalize


def test_a_crawl_fetches_every_page_once(tmp_path: Path) -> None:
    """With its rule each page of a site is fetched once, and the traps beside it are all fetched."""
    rules: list[SiteRule] = []
    contents: dict[str, str] = {}
    for number, (rule, merged, traps) in enumerate(CASES):
        host = f"shop{number}.example"  # a site for each rule
        rules.append(
            SiteRule(**json.loads(json.dumps(rule.as_dict()).replace("shop.example", host)))
        )
        # What a page is: the site answers alike exactly where the rule says so.
        names = {**merged, **{url: url for url in (*merged.values(), *traps)}}
        for url, name in names.items():
            url, name = (path_and_query(u).replace("shop.example", host) for u in (url, name))
            contents[url] = plain(name)
    by_key = {plain(url): name for url, name in contents.items()}

    def answer(url: str) -> Reply:
        return page("home", *contents) if url == HOME else page(by_key.get(plain(url), url))

    save_site_rules(tmp_path / "rules.toml", rules)
    settings = {
        "REQUEST_FINGERPRINTER_CLASS": "scrapy_urlnorm.UrlNormRequestFingerprinter",
        "URLNORM_SITE_RULES": [str(tmp_path / "rules.toml")],
    }
    with Site(answer) as site:
        result = crawl(site, [HOME], settings)
    assert result.error is None
    assert sorted(result.pages) == sorted({"home", *contents.values()})


@pytest.mark.parametrize(
    "text",
    [
        '[[rule]]\nsite = "shop.example"\nkind = "drop-parm"\nparam = "sid"\n',
        (
            '[[rule]]\nsite = "shop.example"\nkind = "drop-param"\nparam = "sid"\n\n'
            '[[rule]]\nsite = "shop.example"\nkind = "prefix-alias"\nprefix = "/a"\nby = "/a/b"\n'
        ),
    ],
)
def test_a_broken_file_stops_the_crawl_at_its_start(text: str, tmp_path: Path) -> None:
    """The error names file and entry, nothing is fetched, and no rule of it is applied."""
    path = f"{tmp_path}/rules.toml"
    Path(path).write_text(text, encoding="utf-8")
    settings = {
        "REQUEST_FINGERPRINTER_CLASS": "scrapy_urlnorm.UrlNormRequestFingerprinter",
        "URLNORM_SITE_RULES": [path],
    }
    with Site({HOME: page("home")}) as site:
        result = crawl(site, [HOME], settings)
    assert result.error is not None
    assert "rules.toml" in result.error
    assert site.requests == []


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
