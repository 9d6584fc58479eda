"""What a crawl says of its learning: evidence in words, the summary, and what was saved."""

from __future__ import annotations

from contextlib import closing

import pytest
from online_parts import BARE, SITE, Parts
from scrapy import Request

from scrapy_urlnorm.crawl.online.summary import Bound, summary, why
from scrapy_urlnorm.site_rules import SiteRule
from scrapy_urlnorm.stores.sqlite import Database

SECRET = "0123456789abcdef0123456789abcdef"


def rule(**evidence):
    return SiteRule(site=SITE, kind="drop-param", param="sort", **evidence)


# --- evidence -------------------------------------------------------------------------------


PAIR = ["http://shop.test/?a=1", "http://shop.test/"]
CONTENT = {"source": "content", "support": 1}
EVIDENCE = [
    ({"source": "redirect", "support": 3}, "3 permanent redirects say so"),
    (
        {"source": "content", "support": 1_200, "false_merge_upper": 0.0127},
        "1,200 pages had the same content under two URLs; at most 1.3% of what it merges may be wrong",
    ),
    (
        {**CONTENT, "examples": [PAIR]},
        f"1 page had the same content under two URLs, such as {' and '.join(PAIR)}",
    ),
    ({"source": "content"}, "no evidence"),
    (
        {"source": "user", "support": 3},
        "a rule file proposes it, and 3 pages had the same content under two URLs",
    ),
    ({"source": "user"}, "no evidence"),
    ({**CONTENT, "status": "rejected", "note": "a page"}, "a page"),
    ({"status": "rejected"}, "no reason is known"),
]


@pytest.mark.parametrize(("evidence", "words"), EVIDENCE)
def test_evidence_in_words(evidence, words):
    assert why(rule(**evidence)) == words


def test_no_secret_is_said():
    url = f"http://me:{SECRET}@shop.test/?sid={SECRET}"
    said = why(rule(source="content", support=3, examples=[[url, "http://shop.test/"]]))
    assert SECRET not in said
    said = why(rule(source="content", status="rejected", note=f"other content than {url}: {url}"))
    assert said.startswith("other content than http://")
    assert SECRET not in said


# --- the summary ----------------------------------------------------------------------------


BARREN = {"http://shop.test/calendar/": 1_146, "http://shop.test/a/": 100}


@pytest.mark.parametrize(
    ("stats", "counts", "bound", "barren", "lines"),
    [
        ({"saved": 7, "sent": 0}, {}, None, {}, ["This crawl sent 7 requests fewer than stock Scrapy would have sent."]),
        ({"saved": 275, "sent": 216}, {}, None, {}, ["This crawl sent 216 requests; stock Scrapy would have sent at least 491."]),
        ({"saved": -5, "sent": 1}, {"learned/audits_agreed": 7}, None, {}, ["This crawl sent 1 request; stock Scrapy would have sent at least -4."]),
        (
            {"saved": 0, "sent": 1, "audits": 18}, {"learned/released": 3}, None, {},
            ["18 requests were sent to test what was learned; none of them found another page."],
        ),
        (
            {"saved": 0, "sent": 1, "audits": 18, "audits_differed": 1, "retracted": 2}, {"learned/released": 3}, None, {},
            [("18 requests were sent to test what was learned; 1 of them found another page; 2 rules were retracted "
             "and 3 requests that had been held were sent.")],
        ),
        (
            {"saved": 0, "sent": 1}, {}, Bound(1_614, 119, 49), {},
            [("Of 1,614 requests that were held and not sent, at most 119 may have been other pages, not counting what only they lead to (with 95 % confidence: 49 of the "
             "tests were drawn at random, and agreed). To look: URLNORM_REPORT, or with JOBDIR scrapy urlnorm why URL.")],
        ),
        (
            {"saved": 0, "sent": 1, "dropped": 1}, {}, None, BARREN,
            [("1,146 pages below http://shop.test/calendar/ brought nothing new, and so did those of 1 other place; 1 like "
             "them was dropped.")],
        ),
        (
            {"saved": 0, "sent": 1}, {}, None, {"http://shop.test/a/": 100},
            ["100 pages below http://shop.test/a/ brought nothing new; set URLNORM_FAMILY_LIMIT to drop such pages."],
        ),
    ],
)  # fmt: skip
def test_summary(stats, counts, bound, barren, lines):
    names = {"saved": "urlnorm/saved", "sent": "downloader/request_count"}
    stats = {names.get(name, f"urlnorm/learned/{name}"): number for name, number in stats.items()}
    said = list(summary(stats, counts, bound, barren))
    assert said[0].startswith("This crawl sent ")
    assert said[1:] == lines or said == lines


def test_what_stock_scrapy_sends_is_not_known_with_finer_keys():
    stats = {"urlnorm/saved": 3, "downloader/request_count": 813}
    assert [*summary(stats, {}, is_finer=True)] == ["This crawl sent 813 requests."]


def test_a_crawl_that_sent_nothing_says_nothing():
    assert not [*summary({"urlnorm/saved": 0}, {})]


# --- what was saved -------------------------------------------------------------------------

SORT = rule(source="content", support=500)
URLS = [f"{BARE}/?sort={number}" for number in range(10)]


def begun(database=None, found=SORT, **settings):
    parts = Parts(
        database=database, has_miner=False, has_audits=False, URLNORM_LEARN="content", **settings
    )
    parts.found(found)
    return closing(parts)


def test_what_is_suppressed_at_the_end_is_saved():
    """Not what is coalesced, and no longer what was requeued."""
    with begun() as parts:
        for url in URLS[:3]:
            parts.schedule(Request(url))
        first, *_ = [parts.leave() for _ in range(3)]
        assert parts.learner.saved() == 0
        parts.arrive(first)
        assert parts.learner.saved() == 2
        assert parts.fetch(URLS[3]) == "filtered"
        assert parts.learner.saved() == 3
        parts.found()
        assert parts.learner.saved() == 0


def test_an_earlier_run_saved_for_itself(tmp_path):
    """What a run requeues of it, the whole crawl has not saved."""
    with begun(Database(tmp_path / "db")) as parts:
        assert [parts.fetch(url) for url in (f"{BARE}/", *URLS[:4])] == ["fetched"] + [
            "filtered"
        ] * 4
    with begun(Database(tmp_path / "db")) as parts:
        assert parts.learner.saved() == 0
        assert [parts.fetch(url) for url in URLS[4:6]] == ["filtered"] * 2
        assert parts.learner.saved() == 2
        parts.found()
        assert parts.learner.saved() == -4


def test_what_stock_scrapy_merges_too_is_not_saved():
    """The safe profile tells URLs apart that stock Scrapy does not."""
    pairs = SiteRule(site=SITE, kind="sort-query", option="pairs", source="content")
    with begun(found=pairs, URLNORM_PROFILE="safe") as parts:
        assert parts.fetch(f"{BARE}/?b=1&a=2") == "fetched"
        assert parts.fetch(f"{BARE}/?a=2&b=1") == "filtered"
        assert parts.learner.saved() == 0
        assert parts.held() == [f"{BARE}/?a=2&b=1"]
