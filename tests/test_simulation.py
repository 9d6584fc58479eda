"""Simulated crawls: no content is lost, each comes to its end, and each is the same every time."""

from __future__ import annotations

import json

import pytest
from simulation.crawl import Crawl, trouble_of
from simulation.plan import Plan, plan_of, smaller

from scrapy_urlnorm.crawl.online.audits import Audits
from scrapy_urlnorm.crawl.online.rules import RuleRegistry
from scrapy_urlnorm.crawl.online.verdicts import Verdicts

_AT_ONCE, _REPEATED = 5, 5


@pytest.mark.parametrize("first", range(0, 100, _AT_ONCE))
def test_nothing_is_lost_and_time_decides_nothing(first):
    """The same when it is repeated, one in `_REPEATED`, and when the miner is slower.

    `.ci/run` crawls hundreds of others.
    """
    for seed in range(first, first + _AT_ONCE):
        trouble = trouble_of(plan_of(seed), repeats=not seed % _REPEATED)
        assert not trouble, f"{trouble}: python -m simulation --first {seed} --seeds 1"


#: What can happen to a crawl, each in a plan of its own: late, when there are rules.
FAULTS = {
    "pages answer 500": {"broken": 0.2},
    "pages are gone": {"gone": 0.2},
    "pages answer 503 once": {"flaky": 0.3},
    "pages redirect to other spellings of themselves": {"moved": 0.3},
    "pages redirect home, to others, in circles, nowhere": {"astray": 0.2},
    "pages are log-in forms, errors and files under 200": {"hollow": 0.2},
    "connections break, once or always": {"cut": 0.2},
    "pages take a minute": {"hangs": 0.05},
    "robots.txt forbids pages": {"refused": 0.3},
    "a middleware drops answers": {"swallowed": 0.2},
    "callbacks fail": {"raises": 0.3},
    "pages have no body": {"empty": 0.2},
    "half of a page arrives": {"halved": 0.05},
    "pages have spellings that the catalogue merges": {"spelled": 0.8, "broken": 0.2},
    "links have another callback": {"callbacks": True, "spelled": 0.8, "gone": 0.1},
    "links expire": {"expiring": 0.4},
    "pages become others for good": {"changing": 0.4},
    "all are down for a while": {"outage": (160, 190)},
    "pages move": {"restless": True},
    "the disk is full for a while": {"full": (130, 210)},
    "the miner dies": {"miner_dies": True},
    "the crawl is killed": {"on_disk": True, "kills": (40, 110, 190), "spelled": 0.8, "gone": 0.1},
    "two crawlers share a store": {"crawlers": 2, "gone": 0.1},
    "Scrapy has its own scheduler": {"is_foreign": True, "gone": 0.1},
    "the newest request is the first": {"newest_first": True, "gone": 0.1},
    "a value says nothing nearly everywhere": {"misled": 30},
    "one request at a time": {"concurrency": 1, "gone": 0.1},
}


PLAIN = {kind: Plan(1, kind, pages=160, late=True) for kind in ("habits", "views")}


@pytest.fixture(scope="module", params=PLAIN)
def plain(request):
    """A crawl of a site that teaches by redirects, and of one that does by equal pages."""
    return Crawl(PLAIN[request.param]).crawl()


def test_there_is_something_to_lose(plain):
    assert plain.counts["learned/suppressed"] > 20


@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_is_lost_when(fault, plain):
    crawl = Crawl(plain.plan._replace(**FAULTS[fault])).crawl()
    assert not crawl.trouble
    assert crawl.digest != plain.digest, "it does not happen"


#: Plans that were in trouble once, by what they show.
FOUND = {
    "the page that came first is another one than all others": Plan(
        201161,
        kind="iis",
        pages=80,
        concurrency=16,
        newest_first=True,
        on_disk=True,
        kills=(27, 79),
        hangs=0.01,
        spelled=0.8,
        misled=24,
    ),
    "pages get their names when the miner has its answer, or before": Plan(
        201848, "views", pages=120, concurrency=4, expiring=0.1, restless=True
    ),
    "a page becomes another one while it is tested": Plan(
        403914, "forum", 120, concurrency=4, moved=0.2, spelled=0.2, changing=0.3, misled=24
    ),
    "a full disk keeps the rows of what was sent, and its other spellings wait": Plan(
        *(310527, "board"),
        pages=120,
        concurrency=16,
        late=True,
        broken=0.2,
        astray=0.2,
        cut=0.2,
        spelled=0.2,
        full=(134, 250),
    ),
}


@pytest.mark.parametrize("what", FOUND)
def test_there_is_no_trouble_where(what):
    assert not trouble_of(FOUND[what])


def test_the_simulation_can_see_a_loss(monkeypatch):
    from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter

    seen = UrlNormDupeFilter.request_seen

    def forgetful(self, request):
        return seen(self, request) or sum(request.url.encode()) % 10 == 3

    monkeypatch.setattr(UrlNormDupeFilter, "request_seen", forgetful)
    crawl = Crawl(Plan(1, "shop")).crawl()
    assert "are lost" in crawl.trouble


def test_what_is_lost_is_said_whatever_else_is_wrong(monkeypatch):
    monkeypatch.setattr("simulation.crawl.of_tests", lambda _: iter(["too few tests"]))
    monkeypatch.setattr(Crawl, "expected", lambda _: {"a page that is nowhere"})
    crawl = Crawl(Plan(1, "shop", pages=40)).crawl()
    assert crawl.trouble == "too few tests"
    assert crawl.lost == {"a page that is nowhere"}


BREAKS = {
    "no test takes a rule back": (RuleRegistry, "contradicted", None),
    "other pages agree": (Verdicts, "_agrees", True),
    "nothing is tested": (Audits, "is_due", False),
}


@pytest.mark.parametrize("name", BREAKS)
def test_the_simulation_can_see_that(name, monkeypatch):
    """Of a rule that is wrong in few places: a sample that is drawn at the end may miss these."""
    kind, method, answer = BREAKS[name]
    plan = Plan(5, "views", pages=10, late=True, misled=30)
    assert not trouble_of(plan)
    monkeypatch.setattr(kind, method, lambda *_, **__: answer)
    assert trouble_of(plan, repeats=False)


def test_a_plan_becomes_smaller_until_nothing_is_left():
    """So a failure is shown by a few pages and one fault; and it can be written in a line."""
    plan = plan_of(11)
    while following := next(smaller(plan), None):
        plan = following
    assert plan == Plan(11, plan.kind, pages=plan.pages)
    assert plan.pages < 20
    assert Plan(**json.loads(json.dumps(plan._asdict()))) == plan._replace(kills=[])
