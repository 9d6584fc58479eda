"""What a rule does, in words: every kind and every edit has a sentence."""

from __future__ import annotations

import re

import pytest
from site_rule_cases import CASES

from scrapy_urlnorm.report.filtered import sentence_of
from scrapy_urlnorm.site_rules import SiteRule
from scrapy_urlnorm.site_rules.operations import EDITS, WORDS


def test_every_kind_and_every_edit_has_a_sentence():
    """It begins with a capital or a quotation, ends with a stop, and names no slot that has a name."""
    rules = [rule for rule, *_ in CASES if "starts" not in (rule.when or {})]
    assert {rule.kind for rule in rules} >= set(WORDS)
    assert {rule.edit for rule in rules} >= set(EDITS)
    for rule in rules:
        sentence = sentence_of(rule)
        assert re.fullmatch(r"[A-Z“].*\.", sentence), sentence
        assert not re.search(r"\bq:|(?<!the part )\bs-?\d\b(?!=)|None|\{\}$", sentence), sentence


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ({"kind": "drop-param", "param": "sid"}, "The parameter sid means nothing."),
        (
            {"kind": "drop-param", "param": ["a", "b"], "path": "/x/*", "when": {"has": "id"}},
            "The parameter a and the parameter b mean nothing (at /x/*, with id).",
        ),
        ({"kind": "keep-param"}, "No parameter counts."),
        (
            {"kind": "range-alias", "slots": "q:post", "by": "", "ranges": ["/t?post={} -9"]},
            "Numbers in the parameter post count as the page that holds them, as post numbers",
        ),
        (
            {"kind": "edit-value", "slots": "s1", "edit": "lowercase-first"},
            "Upper and lower case of the first letter are the same in the second segment of the path.",
        ),
        ({"kind": "www", "option": "keep"}, "Not here: Remove the label www"),
    ],
)
def test_sentences(rule, sentence):
    assert sentence_of(SiteRule(site="shop.test", **rule)).startswith(sentence)
