"""What a crawl says of its learning: evidence in words, the summary, and what was saved."""

from __future__ import annotations

from contextlib import closing

import pytest
from online_parts import BARE, SITE, Parts
from scrapy import Request

from scrapy_urlnorm.crawl.online.summary import summary, why
from scrapy_urlnorm.report.filtered import HeldFigures
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
        "1,200 pages had the same content under two URLs; 1.3% of what it merges may be wrong",
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


def learned(**stats):
    return {f"urlnorm/learned/{name}": number for name, number in stats.items()}


@pytest.mark.parametrize(
    ("stats", "saved", "words"),
    [
        ({}, HeldFigures(), "This crawl sent no fewer requests than stock Scrapy would have sent."),
        (
            {"urlnorm/merged": 1, "urlnorm/merged/drop-params": 1},
            HeldFigures(),
            (
                "This crawl sent 1 request fewer than stock Scrapy would have sent. It was equal after "
                "normalization: drop-params (1)."
            ),
        ),
        (
            {"urlnorm/merged": 1_000, "urlnorm/merged/www": 900, "urlnorm/merged/drop-params": 200},
            HeldFigures(2_000, {"one": 1_500, "other": 500}),
            (
                "This crawl sent 3,000 requests fewer than stock Scrapy would have sent. 1,000 of them "
                "were equal after normalization: www (900), drop-params (200); rules may share a "
                "request. 2,000 of them were suppressed because of what was learned: one (1,500), other (500)."
            ),
        ),
        (
            learned(audits=3, audits_agreed=2, audits_differed=1, retracted=1, requeued=1),
            HeldFigures(2, dict.fromkeys("gfedcba", 1)),
            (
                "This crawl sent 2 requests fewer than stock Scrapy would have sent. All of them were "
                "suppressed because of what was learned: a (1), b (1), c (1), d (1), e (1), 2 other "
                "rules; rules may share a request. To test what was learned, 3 requests that could "
                "have been suppressed were sent: 2 found what the rules say, 1 did not. 1 rule was "
                "retracted. 1 request that had been held was sent after all."
            ),
        ),
    ],
)
def test_summary(stats, saved, words):
    assert summary(stats, saved) == words


# --- what was saved -------------------------------------------------------------------------

SORT = rule(source="content", support=500)
URLS = [f"{BARE}/?sort={number}" for number in range(10)]
WORDS = 'drop-param on shop.test [param="sort"]'


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
        assert parts.learner.saved() == HeldFigures(0, {})
        parts.arrive(first)
        assert parts.learner.saved() == HeldFigures(2, {WORDS: 2})
        assert parts.fetch(URLS[3]) == "filtered"
        assert parts.learner.saved() == HeldFigures(3, {WORDS: 3})
        parts.found()
        assert parts.learner.saved() == HeldFigures(0, {})


def test_an_earlier_run_saved_for_itself(tmp_path):
    """What a run requeues of it, the whole crawl has not saved."""
    with begun(Database(tmp_path / "db")) as parts:
        assert [parts.fetch(url) for url in (f"{BARE}/", *URLS[:4])] == ["fetched"] + [
            "filtered"
        ] * 4
    with begun(Database(tmp_path / "db")) as parts:
        assert parts.learner.saved() == HeldFigures(0, {})
        assert [parts.fetch(url) for url in URLS[4:6]] == ["filtered"] * 2
        assert parts.learner.saved() == HeldFigures(2, {WORDS: 2})
        parts.found()
        assert parts.learner.saved() == HeldFigures(-4, {})


def test_what_stock_scrapy_merges_too_is_not_saved():
    """The safe profile tells URLs apart that stock Scrapy does not."""
    pairs = SiteRule(site=SITE, kind="sort-query", option="pairs", source="content")
    with begun(found=pairs, URLNORM_PROFILE="safe") as parts:
        assert parts.fetch(f"{BARE}/?b=1&a=2") == "fetched"
        assert parts.fetch(f"{BARE}/?a=2&b=1") == "filtered"
        assert parts.learner.saved() == HeldFigures(0, {})
        assert parts.held() == [f"{BARE}/?a=2&b=1"]
