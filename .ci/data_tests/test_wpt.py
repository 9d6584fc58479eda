"""The safe profile against the URL data of web-platform-tests.

The URL Standard and RFC 3986 do not want the same; where they part, a known difference is listed
in ``wpt_differences.tsv`` with its reason. A difference that is not listed fails, and so does a
listed one that is none any more.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from scrapy_urlnorm import normalize
from scrapy_urlnorm.url import parse

DATA = Path(os.environ["URLNORM_DATA"]) / "wpt"
DIFFERENCES = Path(__file__).parent / "wpt_differences.tsv"


def _known() -> dict[tuple[str, str], str]:
    rows = [
        line.split("\t")
        for line in DIFFERENCES.read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    return {(file, json.loads(text)): reason for file, text, reason in rows}


def _differences() -> dict[tuple[str, str], str]:
    """Return every input whose key is not what the URL Standard gives, and what it is."""
    found: dict[tuple[str, str], str] = {}
    for case in json.loads((DATA / "urltestdata.json").read_text(encoding="utf-8")):
        if isinstance(case, str) or case.get("base"):
            continue
        text = case["input"]
        # Only what is of the form scheme://... is ours to normalize.
        url = parse(text)
        if url is None:
            if not case.get("failure") and "://" in text:
                found["urltestdata", text] = f"left alone, standard: {case['href']}"
            continue
        key = normalize(text, "safe")
        if case.get("failure"):
            found["urltestdata", text] = f"{key}, standard: failure"
        elif key != case["href"]:
            found["urltestdata", text] = f"{key}, standard: {case['href']}"
    for case in json.loads((DATA / "toascii.json").read_text(encoding="utf-8")):
        if isinstance(case, str):
            continue
        text = f"http://{case['input']}/"
        key = normalize(text, "safe")
        expected = None if case["output"] is None else f"http://{case['output']}/"
        if key != expected:
            found["toascii", case["input"]] = f"{key}, standard: {expected}"
    return found


def test_differences_are_the_known_ones() -> None:
    """The list of differences is complete and has no entry too many."""
    found, known = _differences(), _known()
    assert {k: v for k, v in found.items() if k not in known} == {}
    assert sorted(set(known) - set(found)) == []
    assert all(reason.strip() for reason in known.values())


@pytest.mark.parametrize("profile", ["safe", "default", "aggressive"])
def test_every_input_is_total_and_idempotent(profile: str) -> None:
    """No input of the test data raises, and every key is its own key."""
    for name in ("urltestdata.json", "toascii.json", "IdnaTestV2.json"):
        for case in json.loads((DATA / name).read_text(encoding="utf-8")):
            if isinstance(case, str):
                continue
            for text in (case["input"], f"http://{case['input']}/"):
                key = normalize(text, profile)
                assert normalize(key, profile) == key
