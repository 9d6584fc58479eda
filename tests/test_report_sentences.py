"""What a rule does, in words: every kind and every edit has a sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scrapy_urlnorm.report.filtered import sentence_of
from scrapy_urlnorm.site_rules import SiteRule, load_site_rules
from scrapy_urlnorm.site_rules.operations import EDITS, WORDS

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "rule-file.md"


@pytest.fixture(scope="module")
def documented(tmp_path_factory):
    path = tmp_path_factory.mktemp("rules") / "rules.toml"
    rules = []
    for text in re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        path.write_text(text, encoding="utf-8")
        rules += load_site_rules(path)
    return rules


def test_every_kind_and_every_edit_has_a_sentence(documented):
    """It begins with a capital or a quotation, ends with a stop, and names no slot."""
    assert {rule.kind for rule in documented} >= set(WORDS)
    assert {rule.edit for rule in documented} >= set(EDITS) - {"number-after", "utc"} - UNUSED
    for rule in documented:
        sentence = sentence_of(rule)
        assert re.fullmatch(r"[A-Z“].*\.", sentence), sentence
        assert not re.search(r"\bq:|\bs-?\d\b(?!=)|None|\{\}$", sentence), sentence


#: Edits that the documentation has no example of.
UNUSED = {"fold-accents", "leading-zeros"}


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
