"""Words for messages to people."""

from __future__ import annotations

import pytest

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.exceptions import ConfigError
from scrapy_urlnorm.text import did_you_mean


@pytest.mark.parametrize(
    ("word", "ending"),
    [
        ("sort-querry", "; did you mean 'sort-query'?"),
        ("ww", "; did you mean 'www'?"),
        ("nosuch", "."),
        ("", "."),
    ],
)
def test_an_unknown_word_is_told_the_closest_one(word: str, ending: str) -> None:
    """The sentence ends with the closest known word, or with a full stop where none is close."""
    assert did_you_mean(word, iter(["www", "sort-query"])) == ending


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nosuch", "'nosuch' is not a rule. Known rules: decode-html-amp, "),
        ("www2", "'www2' is not a rule; did you mean 'www'? Known rules: decode-html-amp, "),
        (7, "7 is not a rule. Known rules: decode-html-amp, "),
    ],
)
def test_an_unknown_rule_is_told_in_whole_sentences(name: object, message: str) -> None:
    """The error for an unknown rule is two sentences, each with its end."""
    with pytest.raises(ConfigError) as raised:
        Normalizer(rules={name: True})  # type: ignore[dict-item]
    assert str(raised.value).startswith(message)
