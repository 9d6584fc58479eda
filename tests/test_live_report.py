"""What a crawl says of its learning: evidence in words, the summary, and what was saved."""

from __future__ import annotations

import pickle

import pytest
from scrapy import Request

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.crawl.database import Database
from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter
from scrapy_urlnorm.crawl.live import savings
from scrapy_urlnorm.crawl.live.ledger import PARKED, WITHHELD, Ledger, Page
from scrapy_urlnorm.crawl.live.register import Register
from scrapy_urlnorm.crawl.live.report import Saved, summary, why
from scrapy_urlnorm.crawl.live.savings import Savings
from scrapy_urlnorm.crawl.merges import Behind
from scrapy_urlnorm.site_rules import SiteRule

SITE = "shop.test"
SECRET = "0123456789abcdef0123456789abcdef"


def rule(**evidence):
    return SiteRule(site=SITE, kind="drop-param", param="sort", **evidence)


# --- evidence -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        ({"source": "redirect", "support": 3}, "3 permanent redirects say so"),
        (
            {"source": "content", "support": 1_200, "false_merge_upper": 0.0127},
            "1,200 pages had the same content under two URLs; 1.3% of what it merges may be wrong",
        ),
        (
            {
                "source": "content",
                "support": 1,
                "examples": [["http://shop.test/?a=1", "http://shop.test/"]],
            },
            (
                "1 page had the same content under two URLs, such as http://shop.test/?a=1 and "
                "http://shop.test/"
            ),
        ),
        ({"source": "content"}, "no evidence"),
        ({"source": "user", "support": 3}, "no evidence"),
        ({"source": "content", "support": 3, "status": "rejected", "note": "a page"}, "a page"),
        ({"status": "rejected"}, "no reason is known"),
    ],
)
def test_evidence_in_words(evidence, words):
    assert why(rule(**evidence)) == words


def test_no_secret_is_said():
    """Neither by the examples of a rule nor by the note why it was taken back."""
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
        ({}, Saved(), "This crawl sent no fewer requests than stock Scrapy would have sent."),
        (
            {"urlnorm/merged": 1, "urlnorm/merged/drop-params": 1},
            Saved(),
            (
                "This crawl sent 1 request fewer than stock Scrapy would have sent. It was equal after "
                "normalization: drop-params (1)."
            ),
        ),
        (
            {"urlnorm/merged": 1_000, "urlnorm/merged/www": 900, "urlnorm/merged/drop-params": 200},
            Saved(2_000, {"one": 1_500, "other": 500}, is_estimate=True),
            (
                "This crawl sent 3,000 requests fewer than stock Scrapy would have sent. 1,000 of them "
                "were equal after normalization: www (900), drop-params (200); rules may share a "
                "request. 2,000 of them were withheld because of what was learned: one (about 1,500), "
                "other (about 500)."
            ),
        ),
        (
            learned(audited=3, audits_agreed=2, audits_disagreed=1, retracted=1, put_back=1),
            Saved(2, dict.fromkeys("gfedcba", 1)),
            (
                "This crawl sent 2 requests fewer than stock Scrapy would have sent. All of them were "
                "withheld because of what was learned: a (1), b (1), c (1), d (1), e (1), 2 other "
                "rules; rules may share a request. To test what was learned, 3 requests that could "
                "have been withheld were sent: 2 found what the rules say, 1 did not. 1 rule was taken "
                "back. 1 request that had been kept back was sent after all."
            ),
        ),
        (
            learned(minings=2, mining_seconds=1.25),
            Saved(-5),
            (
                "This crawl sent no fewer requests than stock Scrapy would have sent. Mining took "
                "1.2 s in 2 runs."
            ),
        ),
    ],
)
def test_summary(stats, saved, words):
    assert summary(stats, saved) == words


# --- what was saved -------------------------------------------------------------------------


class Crawl:
    """A ledger and a register, as `Savings` needs them."""

    def __init__(self, profile="default"):
        fingerprinter = UrlNormRequestFingerprinter(Normalizer(profile))
        self.ledger = Ledger(Database.temporary())
        self.register = Register(fingerprinter)
        self.register.replace(SITE, [rule()])

    def savings(self, unpack=pickle.loads):
        return Savings(self.ledger, unpack, self.behind)

    def behind(self, request):
        keys = self.register.keys(request)
        page = self.ledger.witness(keys.learned, keys.own)
        return page and Behind(page.url, self.register.between(request.url, page.url))

    def page(self, url):
        keys = self.register.keys_of(url)
        page = Page(keys.own, url, None, 0)
        self.ledger.add_page(keys.site, keys.learned, page, has_url=True)

    def withhold(self, *urls, is_parked=False):
        for url in urls:
            keys = self.register.keys_of(url)
            self.ledger.keep(keys, pickle.dumps(Request(url)), PARKED if is_parked else WITHHELD)


@pytest.fixture
def crawl():
    return Crawl()


URLS = [f"http://shop.test/?sort={number}" for number in range(10)]
WORDS = 'drop-param on shop.test [param="sort"]'


def test_what_is_withheld_at_the_end_is_saved(crawl):
    """Not what is parked, and no longer what was put back."""
    savings = crawl.savings()
    crawl.page("http://shop.test/")
    crawl.withhold(*URLS[:4])
    crawl.withhold(*URLS[4:6], is_parked=True)
    assert savings.now() == Saved(4, {WORDS: 4}, is_estimate=False)
    crawl.ledger.drop(next(crawl.ledger.withheld(SITE)).number)
    assert savings.now() == Saved(3, {WORDS: 3}, is_estimate=False)


def test_an_earlier_run_saved_for_itself(crawl):
    """What a run puts back of it, the whole crawl has not saved."""
    crawl.page("http://shop.test/")
    crawl.withhold(*URLS[:4])
    savings = crawl.savings()
    assert savings.now().total == 0
    crawl.withhold(*URLS[4:6])
    assert savings.now() == Saved(2, {WORDS: 2}, is_estimate=True)
    for kept in list(crawl.ledger.withheld(SITE))[:3]:
        crawl.ledger.drop(kept.number)
    assert savings.now().total == -1


def test_what_stock_scrapy_merges_too_is_not_saved():
    """The safe profile tells URLs apart that stock Scrapy does not."""
    crawl = Crawl("safe")
    crawl.register.replace(SITE, [SiteRule(site=SITE, kind="sort-query", option="pairs")])
    counted = crawl.savings()
    crawl.page("http://shop.test/?b=1&a=2")
    crawl.withhold("http://shop.test/?a=2&b=1")
    assert counted.now() == Saved(0, {})


def test_of_a_large_site_a_sample_tells_the_rules(crawl, monkeypatch):
    """The total is exact, the numbers by rule are an estimate; small sites only count."""
    monkeypatch.setattr(savings, "MAX_SITES", 1)
    counted = crawl.savings()
    crawl.page("http://shop.test/")
    crawl.withhold(*(f"http://shop.test/?sort={number}" for number in range(500)))
    crawl.register.replace(
        "other.test", [SiteRule(site="other.test", kind="drop-param", param="a")]
    )
    crawl.page("http://other.test/")
    crawl.withhold("http://other.test/?a=1")
    assert counted.now() == Saved(501, {WORDS: 500}, is_estimate=True)


def test_a_request_that_cannot_be_read_is_saved_all_the_same(crawl):
    """It is withheld, by whatever rule."""
    counted = crawl.savings(lambda _: None)
    crawl.page("http://shop.test/")
    crawl.withhold(URLS[0])
    assert counted.now() == Saved(1, {})
