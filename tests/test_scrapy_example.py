"""The example project: one command, four crawls, nothing lost."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from scrapy_urlnorm.site_rules import load_site_rules

EXAMPLE = Path(__file__).resolve().parent.parent / "example_project"
PAGES = 78


def run_in_a_copy(folder):
    """Run ``scrapy crawl shop`` in a copy of the example; return what it printed."""
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", "crawl.jsonl"))
    environment = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    run = subprocess.run(
        [sys.executable, "-m", "scrapy", "crawl", "shop"],
        check=False,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    return run.stdout


def rows(printed):
    """The table: label -> the numbers of the four crawls."""
    found = re.findall(r"^(.+?)" + r"\s+([\d,]+)" * 4 + "$", printed, re.MULTILINE)
    return {
        label.strip(): [int(number.replace(",", "")) for number in numbers]
        for label, *numbers in found
    }


def test_loses_no_page_and_sends_a_fraction_of_the_requests(tmp_path):
    """Stock Scrapy loses the pages behind sorted redirects; the component fetches all, hardly one twice.

    The log and the rules learned from it are there to look at.
    """
    folder = tmp_path / "project"
    printed = run_in_a_copy(folder)
    table = rows(printed)
    assert table[f"lost of the {PAGES} pages of the shop"] == [12, 0, 0, 0]
    assert table["distinct pages"] == [PAGES - 12, PAGES, PAGES, PAGES]
    stock, learning, by_hand, learned = table["requests sent"]
    assert stock == 491
    assert learning < 0.65 * stock  # much of what is held at the end is tested
    assert by_hand < stock / 2
    assert learned < stock / 2
    again = table["the same again, under another URL"]  # the start page, unfiltered, may come again
    assert again[0] > 300
    assert again[1] < 150
    assert again[2] <= 1
    assert again[3] < 20
    assert len((folder / "crawl.jsonl").read_text().splitlines()) == 491
    rules = load_site_rules(folder / "learned.toml")
    assert any(rule.active and rule.support for rule in rules)
    assert "learned.toml: learned from crawl.jsonl" in printed


def test_the_rules_by_hand_say_why():
    rules = load_site_rules(EXAMPLE / "rules.toml")
    assert all(rule.note for rule in rules)
