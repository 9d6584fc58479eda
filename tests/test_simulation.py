"""Simulated crawls: no content is lost, each comes to its end, and each is the same every time."""

from __future__ import annotations

import json

import pytest
from simulation.crawl import Crawl, trouble_of
from simulation.plan import Plan, plan_of, smaller

_AT_ONCE = 10


@pytest.mark.parametrize("first", range(0, 200, _AT_ONCE))
def test_nothing_is_lost_and_time_decides_nothing(first):
    """The same when it is repeated, and when the miner is slower; see `trouble_of`."""
    for seed in range(first, first + _AT_ONCE):
        plan = plan_of(seed)
        trouble = trouble_of(plan)
        assert not trouble, f"{trouble}: python -m simulation --first {seed} --seeds 1"


@pytest.mark.parametrize(
    "plan",
    [
        Plan(2519, "tracker", pages=180, latency=0.0, empty=0.1),
        Plan(1259, "tracker", pages=360, empty=0.1),
        Plan(1086, "iis", pages=360, empty=0.1, spelled=0.8),
    ],
    ids=["learned from", "learned from, in another order", "and with merged spellings"],
)
def test_nothing_stands_behind_a_page_without_a_body(plan):
    assert not trouble_of(plan, repeats=False)


def test_the_simulation_can_see_a_loss(monkeypatch):
    """A dupefilter that drops one page in ten is noticed."""
    from scrapy_urlnorm.crawl.dupefilter import UrlNormDupeFilter

    seen = UrlNormDupeFilter.request_seen

    def forgetful(self, request):
        return seen(self, request) or sum(request.url.encode()) % 10 == 3

    monkeypatch.setattr(UrlNormDupeFilter, "request_seen", forgetful)
    crawl = Crawl(Plan(1, "shop")).crawl()
    assert "are lost" in crawl.trouble


def test_a_plan_becomes_smaller_until_nothing_is_left():
    """So a failure is shown by a few pages and one fault; and it can be written in a line."""
    plan = plan_of(11)
    while following := next(smaller(plan), None):
        plan = following
    assert plan == Plan(11, plan.kind, pages=plan.pages)
    assert plan.pages < 20
    assert Plan(**json.loads(json.dumps(plan._asdict()))) == plan._replace(kills=[])
