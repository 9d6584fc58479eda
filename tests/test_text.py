"""Words for messages to people."""

from __future__ import annotations

import pytest

from scrapy_urlnorm.text import counted, did_you_mean, shortened


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
    ("number", "text"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1_000, "1,000 rows")]
)
def test_one_is_the_only_singular(number: int, text: str) -> None:
    """A count and its word agree, and thousands are set apart."""
    assert counted(number, "row") == text
    assert counted(number, "page lost", "pages lost").endswith(
        " page lost" if number == 1 else " pages lost"
    )


def test_a_long_text_keeps_both_ends() -> None:
    """A message is never longer than asked for, and one that is short enough stays as it is."""
    assert shortened("a" * 20, 20) == "a" * 20
    assert shortened("a" * 30 + "z" * 30, 20) == "a" * 10 + " … " + "z" * 7
