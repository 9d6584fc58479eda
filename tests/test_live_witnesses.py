"""Witnesses, case by case: what is sent, parked, withheld and put back, and what trouble changes."""

from __future__ import annotations

from contextlib import closing

import pytest
from live_model import SITES, Crawl, content_of
from scrapy import Request

SITE = SITES[0]
HTTP, HTTPS = f"http://{SITE}/a", f"https://{SITE}/a"
OTHER_HTTP, OTHER_HTTPS = f"http://{SITE}/c", f"https://{SITE}/c"


@pytest.fixture
def crawl():
    """A crawl in memory, in which http is https."""
    with closing(Crawl()) as crawl:
        crawl.change_rules(SITE, ["https"])
        crawl.work(steps=100)
        yield crawl


@pytest.fixture
def on_disk(tmp_path):
    with closing(Crawl(tmp_path / "pending")) as crawl:
        yield crawl


def fetch(crawl, url):
    """Find a link and have its page arrive, if it is sent."""
    crawl.find(Request(url))
    request = crawl.leave()
    if request is None:
        return False
    crawl.page(request, content_of(url))
    return True


def withhold(crawl, number):
    """Have *number* requests withheld, after the audits that their rule owes."""
    done = 0
    while done < number:
        fetch(crawl, f"https://{SITE}/{crawl.stats['n']}")
        done += not fetch(crawl, f"http://{SITE}/{crawl.stats['n']}")
        crawl.stats["n"] += 1


def test_what_cannot_be_deleted_is_put_back_once(crawl):
    """A row that stays because the disk is full is passed over: it was sent."""
    withhold(crawl, 3)
    crawl.database.refuses = True
    crawl.change_rules(SITE, [])
    crawl.run_to_the_end()
    assert crawl.lost() == []
    assert crawl.stats["learned/put_back"] == 3
