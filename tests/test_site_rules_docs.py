"""The reference of site rules says everything, and what it says is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.site_rules import load_site_rules
from scrapy_urlnorm.site_rules.context import SYMBOLS, WHEN_KEYS
from scrapy_urlnorm.site_rules.operation import SHAPES
from scrapy_urlnorm.site_rules.operations import EDITS, ORDER, WORDS
from scrapy_urlnorm.site_rules.rule import FIELDS, SOURCES, STATUSES

TEXT = (Path(__file__).parent.parent / "docs/reference/rule-file.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```toml\n(.*?)```\n((?:- [^\n]*\n)+)", TEXT, re.DOTALL)


@pytest.mark.parametrize(
    "word", [*WORDS, *EDITS, *FIELDS, *WHEN_KEYS, *SHAPES, *SOURCES, *STATUSES, *SYMBOLS]
)
def test_every_word_of_the_language_is_there(word: str) -> None:
    """No kind, key or value of the language goes without a word of documentation."""
    assert re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", TEXT)


@pytest.mark.parametrize(("rules", "lines"), BLOCKS)
def test_every_block_does_what_is_said(rules: str, lines: str, tmp_path: Path) -> None:
    """Each rule file in the text loads, and maps the URLs below it as they stand there."""
    path = tmp_path / "rules.toml"
    path.write_text(rules, encoding="utf-8")
    loaded = load_site_rules(path)
    normalize = Normalizer("safe", site_rules=loaded).normalize
    for line in lines.splitlines():
        urls = re.findall(r"`(.*?)`", line)
        assert len(urls) == (1 if line.endswith("stays") else 2)
        assert normalize(urls[0]) == urls[-1]


def test_every_toml_block_has_lines_that_are_tried() -> None:
    """No example stands in the text untried."""
    assert len(BLOCKS) == TEXT.count("```toml")


def test_the_order_of_the_kinds_is_the_one_that_is_told() -> None:
    """The order of application in the text is that of the code."""
    told = TEXT[TEXT.index("## Kinds") : TEXT.index("## Edits")]
    kinds = re.findall(r"^- (?:`([a-z-]+)`|(rules of the catalogue))", told, re.MULTILINE)
    assert tuple(word or catalogue for word, catalogue in kinds) == ORDER
