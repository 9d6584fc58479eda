"""Words for messages to people."""

from __future__ import annotations

from pathlib import Path

import pytest

import scrapy_urlnorm
from scrapy_urlnorm.text import LONGEST_LINE, counted, did_you_mean, logger_of, shortened


@pytest.mark.parametrize(
    ("word", "ending"),
    [
        ("sort-querry", "; did you mean 'sort-query'?"),
        ("ww", "; did you mean 'www'?"),
        ("nosuch", "."),
        ("", "."),
    ],
)
def test_an_unknown_word_is_told_the_closest_one(word, ending):
    assert did_you_mean(word, iter(["www", "sort-query"])) == ending


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1_000, "1,000 rows")]
)
def test_one_is_the_only_singular(number, text):
    """A count and its word agree, and thousands are set apart."""
    assert counted(number, "row") == text


def test_a_long_text_keeps_both_ends():
    """A message is never longer than asked for, and one that is short enough stays as it is."""
    assert shortened("a" * 20, 20) == "a" * 20
    assert shortened("a" * 30 + "z" * 30, 20) == "a" * 10 + " … " + "z" * 7


def test_no_line_of_the_log_is_too_long(caplog):
    """Each module that logs has the logger that sees to it."""
    logger_of("scrapy_urlnorm.test").warning("%s of %d %%", "a" * 500, 7)
    assert len(caplog.records[0].getMessage()) == LONGEST_LINE
    assert caplog.records[0].getMessage().endswith("a of 7 %")
    logger_of("scrapy_urlnorm.test").error("the path %s", "b" * 299)
    assert caplog.records[1].getMessage() == "the path\n" + "b" * 299
    package = Path(scrapy_urlnorm.__file__).parent
    spelling = {p.name for p in package.rglob("*.py") if "getLogger" in p.read_text("utf-8")}
    assert spelling == {"text.py"}
