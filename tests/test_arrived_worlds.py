"""On small random sites the add-on sees every content that stock Scrapy sees."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
SEEDS = 200


def lost(number, first, *settings):
    """Crawl so many sites in a process of its own; return what it says of those that lost something."""
    path = os.pathsep.join([str(HERE), *filter(None, sys.path)])
    said = subprocess.run(
        [sys.executable, "-W", "ignore", HERE / "arrived_worlds.py", str(number), str(first), *settings],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    ).stdout.splitlines()  # fmt: skip
    assert said[-1].startswith(f"{len(said) - 1} of {number} worlds lost a content")
    return said[:-1]


@pytest.mark.parametrize(
    "settings",
    [
        ["URLNORM_LEARN=off"],
        [],
        pytest.param(["URLNORM_LEARN=redirects"], marks=pytest.mark.long),
        pytest.param(["URLNORM_PROFILE=aggressive"], marks=pytest.mark.long),
        pytest.param(["SCHEDULER=scrapy.core.scheduler.Scheduler"], marks=pytest.mark.long),
    ],
    ids=" ".join,
)
def test_every_content_of_stock_scrapy_is_seen(settings):
    assert lost(SEEDS if not settings else SEEDS // 2, 0, *settings) == []
