"""The example with four crawlers: ``python -m shop.many``."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

EXAMPLE = Path(__file__).resolve().parent.parent / "example_project"
PAGES = 418
CRAWLERS = 4


def start(*arguments):
    environment = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(
        [sys.executable, "-m", "shop.many", *arguments],
        cwd=EXAMPLE,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_four_crawlers_lose_no_page_and_fetch_each_once():
    """With a Redis that the example starts: the sums are right, and somebody learned."""
    pytest.importorskip("redis")
    if shutil.which("redis-server") is None:
        pytest.skip("no redis-server on this machine")
    example = start()
    printed, errors = example.communicate(timeout=180)
    assert (example.returncode, errors) == (0, "")
    rows = [
        list(map(int, row.replace(",", "").split()))
        for row in re.findall(r"^(?:crawler \d|together)\s+(.+)$", printed, re.MULTILINE)
    ]
    *crawlers, together = rows
    assert len(crawlers) == CRAWLERS
    assert [sum(column) for column in zip(*crawlers, strict=True)] == together
    requests, redirects, fetched, twice, learned = together
    assert requests == redirects + fetched + twice
    assert f"distinct pages {PAGES}, lost of the {PAGES} of the shop: 0" in printed
    (home,) = map(int, re.findall(r"the start page came (\d+) times", printed))
    # One start request for each crawler at most, and the first link; all else comes once.
    assert 1 <= home <= CRAWLERS + 1
    assert fetched == PAGES - 1 + home
    assert learned


def test_an_unfinished_crawl_is_not_mixed_with(own_redis):
    """A Redis that has such keys is refused, and they are left alone."""
    import redis

    with redis.Redis.from_url(own_redis.url) as client:
        client.set("shop:seen:identity", "?")
        example = start("--redis", own_redis.url)
        _, errors = example.communicate(timeout=60)
        assert example.returncode == 1
        assert "has keys like shop:seen:*" in errors
        assert client.keys() == [b"shop:seen:identity"]


def test_an_end_from_outside_leaves_nothing_behind(own_redis):
    """After SIGTERM no crawler runs on, and the Redis is left as it was."""
    import redis

    with redis.Redis.from_url(own_redis.url) as client:
        example = start("--redis", own_redis.url)
        deadline = time.monotonic() + 60
        while not client.exists("shop:seen:identity"):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        example.terminate()
        _, errors = example.communicate(timeout=60)
        assert example.returncode == 1
        assert errors.endswith("ended\n")
        assert client.keys() == []
        assert len(client.client_list()) == 1  # this one


@pytest.mark.parametrize(
    ("module", "function", "message"),
    [
        ("importlib.util", "find_spec", "redis is not installed: pip install redis"),
        ("shutil", "which", "redis-server is not installed: apt-get install redis-server"),
    ],
)
def test_says_what_is_missing(monkeypatch, module, function, message):
    if function == "which":
        pytest.importorskip("redis")
    monkeypatch.syspath_prepend(EXAMPLE)
    monkeypatch.setattr(sys, "argv", ["many"])
    many = importlib.import_module("shop.many")
    monkeypatch.setattr(f"{module}.{function}", lambda name: None)
    with pytest.raises(SystemExit, match=message):
        many.main()
