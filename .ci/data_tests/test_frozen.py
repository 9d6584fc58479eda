"""Keys and mined rules of the development data stay what they are; see `tests/frozen.py`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "tests"))
import frozen

DATA = Path(os.environ["URLNORM_DATA"])
KNOWN = json.loads(frozen.DIGESTS.read_text())


def test_keys() -> None:
    """Every URL of the lists has the key that it had, in every profile."""
    assert frozen.of_lists(DATA) == KNOWN["keys"]


def test_logs() -> None:
    """Every log is frozen."""
    assert [frozen.name_of(path) for path in frozen.logs(DATA)] == list(KNOWN["logs"])


@pytest.mark.parametrize("path", frozen.logs(DATA), ids=frozen.name_of)
def test_rules(path: Path) -> None:
    """A log teaches the rules that it taught; they, and a person's, give the keys they gave."""
    assert frozen.of_log(path) == KNOWN["logs"][frozen.name_of(path)]
