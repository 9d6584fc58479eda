"""Real crawls of sites whose pages change by themselves: nothing is lost, and it is written down.

More such sites are crawled in virtual time: `test_simulation_sites`.
"""

from __future__ import annotations

import gzip
import json
import random

import pytest
from hostile_base import IN_ORDER
from loopback import Asked, Reply, crawl
from moving_sites import HOME, Advertised, AllAtOnce, words

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.learning import evaluate, mine
from scrapy_urlnorm.learning.media import looks_like_an_act
from scrapy_urlnorm.logs import read_log

ADDON = {**IN_ORDER, "CONCURRENT_REQUESTS": 4}


def visit(shop, **settings):
    result = crawl(shop, [HOME], {**ADDON, **settings})
    assert "urlnorm/errors" not in result.stats, result.log
    return result


def test_the_log_of_a_crawl_teaches_what_moves(tmp_path):
    """With its pairs in it, the log of a site that moves teaches what that of a still one does.

    How many of the two values of the parameter: that depends on what has changed between the pages.
    """
    shop, path = AllAtOnce(100), str(tmp_path / "crawl.jsonl.gz")
    learning = {"mode": "content", "pairs": 0.5}
    log = {"URLNORM_CRAWL_LOG": path, "URLNORM_LEARN": learning, "CONCURRENT_REQUESTS": 1}
    visit(shop, **log, URLNORM_HELD="last")
    with gzip.open(path, "rt") as lines:
        pairs = [row for row in map(json.loads, lines) if row.get("pair")]
    assert all(row["blocks"] and row["pair"] in ("at once", "late") for row in pairs)
    assert pairs
    rules = [rule for rule in mine(read_log(path)) if rule.active]
    found = evaluate(Normalizer(site_rules=rules), read_log(path))
    assert {slot for rule in rules for slot in rule.operation.slots} == {"q:sort"}
    assert found.found > 1 / 3
    bare = tmp_path / "bare.jsonl"
    with gzip.open(path, "rt") as lines:
        bare.write_text("".join(line for line in lines if '"pair"' not in line))
    assert not [rule for rule in mine(read_log(str(bare))) if rule.active]
    of = {url: shop.name(n, {}) for n, url in enumerate(shop.urls())}
    merged = {}
    for row in read_log(path):
        key = Normalizer(site_rules=rules).normalize(row.url)
        merged.setdefault(key, set()).add(of.get(row.url.partition("?")[0]))
    assert all(len(names) == 1 for names in merged.values())


class Remembers(Advertised):
    """Notes the headers of each request, by URL."""

    def __init__(self, items: int) -> None:
        super().__init__(items)
        self.headers: dict[str, list[str]] = {}

    def __call__(self, url: str) -> Reply:
        assert isinstance(url, Asked)
        self.headers.setdefault(str(url), []).append(str(url.headers.get("Accept-Language")))
        return super().__call__(url)


def test_a_second_fetch_is_a_copy_that_reaches_the_site(tmp_path):
    """With the headers of the first, and past the HTTP cache, where every page holds still."""
    shop = Remembers(60)
    settings = {
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_DIR": str(tmp_path),
        "DEFAULT_REQUEST_HEADERS": {"Accept-Language": "eo"},
    }
    result = visit(shop, **settings)
    twice = [url for url, seen in shop.headers.items() if len(seen) > 1]
    assert len(twice) >= 3
    assert {header for seen in shop.headers.values() for header in seen} == {"eo"}
    assert set(result.pages) == shop.contents()


@pytest.mark.parametrize(
    ("url", "is_act"),
    [
        ("http://a.test/logout", True),
        ("http://a.test/index.php?action=delete&id=1", True),
        ("http://a.test/cart/add/7", True),
        ("http://a.test/poll?vote=3", True),
        ("http://a.test/?add-to-cart=12", True),
        ("http://a.test/unsubscribe?id=1", True),
        ("http://a.test/topic/12?mark=read", True),
        ("http://a.test/", False),
        ("http://a.test/address/12", False),
        ("http://a.test/recipes/candied-order-of-things?page=2", True),  # in doubt, none
        ("http://a.test/products?sort=price", False),
        ("http://logout.test/a", False),
    ],
)
def test_what_looks_like_an_act(url, is_act):
    assert looks_like_an_act(url) is is_act


def test_a_crawl_that_is_stopped_goes_on_with_what_it_knows(tmp_path):
    """The second run knows what moves, says it in its summary, and loses nothing."""
    shop = AllAtOnce(120)
    job = {"JOBDIR": str(tmp_path / "job")}
    first = visit(shop, CLOSESPIDER_PAGECOUNT=150, **job)
    second = visit(shop, **job)
    assert {*first.pages, *second.pages} == shop.contents()
    said = second.log[second.log.index("Pages of shop.test change by themselves") :]
    assert "p: another text at each fetch" in said


def log_in(asked):
    """A page whose form keeps the Referer that came with the request, and changes at each fetch."""
    path = asked.partition("shop.test")[2]
    if path.startswith("/login"):
        token, back = random.random(), asked.headers.get("Referer", "")
        body = f"<form method=post><input type=hidden name=token value={token}>"
        body += f"<input type=hidden name=back value='{back}'><input name=user></form>"
        body += words("log in", 30)
    else:
        body = (
            "".join(f"<a href=/{n}>go</a>" for n in range(60)) if path == "/" else words(path, 30)
        )
        body += f"<a href='/login?next={path}'>log in</a>"
    return Reply(200, f"<html><body><p>{body}".encode(), {"Content-Type": "text/html"})


def test_a_page_may_say_where_it_was_asked_from():
    result = visit(log_in, URLNORM_LEARN="content")
    assert result.stats["urlnorm/learned/rules"] > 0
    assert "urlnorm/learned/audits_differed" not in result.stats
    assert result.stats["urlnorm/learned/audits"] > 0
    assert result.stats["urlnorm/saved"] > 0


def test_what_a_test_fetches_again_shows_what_moves():
    """Without pairs, too: so the next tests need not fetch it."""
    stats = visit(log_in, URLNORM_LEARN={"mode": "content", "pairs": 0}).stats
    assert stats["urlnorm/learned/second_fetches"] < stats["urlnorm/learned/audits"]
    assert stats["urlnorm/saved"] > 0
