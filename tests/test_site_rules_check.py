"""Checking rule files, and the rules of other tools."""

from __future__ import annotations

import json

from site_rule_cases import rule

from scrapy_urlnorm.cli.rules import _in_words, checked
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.site_rules import SiteRule, save_site_rules
from scrapy_urlnorm.site_rules.importers import import_rules


def report_on(tmp_path, *rules):
    path = tmp_path / "rules.toml"
    save_site_rules(path, rules)
    found = checked(str(path))
    return found["errors"], found["warnings"], _in_words(found)


def test_a_good_file_is_counted(tmp_path):
    """A file without fault gives one line: how many rules, sites and examples it has."""
    sid = rule(
        "drop-param", param="sid", examples=[["http://shop.example/?sid=1", "http://shop.example/"]]
    )
    idle = rule("www", site="b.example", option="keep", status="rejected")
    errors, warnings, text = report_on(tmp_path, sid, idle)
    assert errors == warnings == []
    assert text.endswith("ok: 2 rules for 2 sites (1 active, 1 rejected), 1 example")


def test_an_example_that_is_not_merged_is_an_error(tmp_path):
    """A pair of examples is a promise of the rule; both keys are shown."""
    wrong = rule(
        "drop-param", param="sid", examples=[["http://shop.example/?SID=1", "http://shop.example/"]]
    )
    errors, _, text = report_on(tmp_path, wrong)
    assert len(errors) == 1
    assert "'http://shop.example/?SID=1'" in errors[0]
    assert text.splitlines()[-1].endswith("1 error: 1 rule for 1 site (1 active), 1 example")


def test_examples_of_a_proposed_rule_are_tried_as_if_it_were_active(tmp_path):
    """A rule can be checked before it is let loose, one proposal at a time."""
    examples = [["http://shop.example/?a=1", "http://shop.example/"]]
    one = rule("drop-param", param="a", status="proposed", examples=examples)
    other = rule("drop-param", param="b", status="proposed", examples=examples)
    errors, _, _ = report_on(tmp_path, one, other)
    assert len(errors) == 1
    assert str(other) in errors[0].replace(" in " + str(tmp_path / "rules.toml") + ":7", "")


def test_every_domain_reports_its_own_errors(tmp_path):
    """One bad set does not hide that of another site."""
    bad = [
        SiteRule(site=site, kind="prefix-alias", prefix=prefix, by=by)
        for site in ("a.example", "b.example")
        for prefix, by in (("/a", "/b"), ("/b", "/a"))
    ]
    errors, _, _ = report_on(tmp_path, *bad)
    assert len(errors) == 2
    assert "a.example" in errors[0]
    assert "b.example" in errors[1]


# --- the rules of other tools ----------------------------------------------------------------

DISCARDER = [
    {"args": ["ref"], "order": 0, "processor": "queryRemoval",
     "urlPattern": {"include": ["shop.example", "news.example/world"]}},
    {"args": ["id"], "order": 0, "processor": "queryRemovalExcept",
     "urlPattern": {"include": ["shop.example/item"]}},
    {"args": [0], "order": 0, "processor": "subpathRemoval",
     "urlPattern": {"include": ["shop.example/*/dp"]}},
    {"args": ["utm_x"], "order": 0, "processor": "queryRemoval", "urlPattern": {"include": [""]}},
    {"args": [], "order": 0, "processor": "normalizer", "urlPattern": {"include": ["", "n.example", "n.example/a"]}},
    {"args": ["a"], "order": 0, "processor": "queryRemoval",
     "urlPattern": {"include": ["x.example"], "exclude": ["x.example/a"]}},
    {"args": ["a"], "order": 0, "processor": "queryRemoval",
     "urlPattern": {"include": ["x.example/a*b", "*.x.example"]}},
    {"args": [0], "order": 0, "processor": "subpathRemoval", "urlPattern": {"include": ["x.example"]}},
]  # fmt: skip


def test_duplicate_url_discarder_rules_are_read(tmp_path):
    """The JSON of duplicate-url-discarder becomes site rules and options, and nothing is silent."""
    path = tmp_path / "list"
    path.write_text(json.dumps(DISCARDER), encoding="utf-8")
    found = import_rules(path)
    assert found.options == {
        "drop-params": {"add": ["utm_x"]},
        "www": "remove",
        "trailing-slash": "remove",
    }
    assert found.rows == 12
    reasons = sorted(why for _, why in found.skipped)
    assert reasons[0].startswith("a drop-segment rule has slots like 's0' and a path")
    assert reasons[1:] == [
        "a pattern that is not a host and whole segments",
        "a pattern that is not a host and whole segments",
        "a pattern with exceptions",
    ]
    normalize = Normalizer("default", found.options, found.rules).normalize
    assert normalize("http://www.shop.example/a/dp/1/?ref=x&utm_x=1&q=2") == (
        "http://shop.example/dp/1?q=2"
    )
    assert normalize("http://shop.example/item/1?id=2&x=3") == "http://shop.example/item/1?id=2"
    assert normalize("http://news.example/world/a?ref=1") == "http://news.example/world/a"
    assert normalize("http://news.example/a?ref=1") == "http://news.example/a?ref=1"
    assert "12 rows, 4 not taken" in str(found)
