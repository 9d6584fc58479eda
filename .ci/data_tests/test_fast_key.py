"""The fast path gives every URL of the development data the key that the rules give."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from w3lib.url import safe_url_string

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "tests"))
import frozen
from test_normalizer_properties import without_fast_path

from scrapy_urlnorm import Normalizer

URLS = list(frozen.lists(Path(os.environ["URLNORM_DATA"])))
CHOICES = {
    "safe": Normalizer("safe"),
    "default": Normalizer("default"),
    "aggressive": Normalizer("aggressive"),
    "other modes": Normalizer(
        "aggressive",
        {
            "www": "add",
            "trailing-slash": "add",
            "force-scheme": "https",
            "sort-query": "stable",
            "lowercase-path": True,
            "strip-mobile-host": True,
            "decode-html-amp": True,
            "form-encode-query": False,
            "decode-path-reserved": False,
            "drop-default-params": {"page": "1"},
            "remove-fragment": ["!"],
        },
    ),
}


def carried(url: str) -> str:
    """Return *url* as a request carries it, or as it is if no request can."""
    try:
        return safe_url_string(url)
    except ValueError:
        return url


@pytest.mark.parametrize("choice", CHOICES)
def test_keys_are_those_of_the_rules(choice: str) -> None:
    """As the URLs stand in the list, and as requests carry them."""
    normalizer = CHOICES[choice]
    slow = without_fast_path(normalizer)
    others = []
    for line in URLS:
        for url in {line, carried(line)}:
            key = normalizer.normalize(url)
            if key != slow.normalize(url):
                others.append((url, key, slow.normalize(url)))
    assert others == []
