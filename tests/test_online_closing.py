"""The end of a crawl: what is tested then, what that proves, and what is sent after all."""

from __future__ import annotations

import itertools
import math
import random
import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopback import Reply, crawl
from moving_sites import HOME, HOST, Shop, words
from simulation.plan import Plan
from simulation.walk import Walk

from scrapy_urlnorm.crawl.online.closing import ERROR, SHARE_OF_PAGES, SPENT, Closing, _Sample
from scrapy_urlnorm.learning.risk import at_most, draws_for

ADDON = {"ADDONS": {"scrapy_urlnorm.Addon": 900}}
LEARNED = "urlnorm/learned/"


def visit(shop, plan=Plan(1, concurrency=4), **settings):  # noqa: B008 - nobody changes it
    return Walk(shop, HOME, plan, **settings).crawl()


# --- the bound ----------------------------------------------------------------------------------


@given(st.integers(1, 400), st.data())
def test_the_bound_is_the_largest_number_that_the_draws_leave_likely(held, data):
    """By the chances that none of so many wrong ones is drawn, one after the other."""
    drawn = data.draw(st.integers(0, held))
    found = at_most(drawn / held, 0.05, 0, held)
    chance = [math.prod([1 - drawn / held] * wrong) for wrong in range(held + 2)]
    assert chance[found] >= 0.05 - 1e-9
    assert found == held or chance[found + 1] < 0.05 + 1e-9


@given(st.integers(1, 60), st.integers(1, 60), st.data())
def test_the_bound_holds_however_the_wrong_ones_are_spread_over_parts(one, other, data):
    """By the hypergeometric distribution: parts of different size, drawn from by different chances."""
    parts = [(held, data.draw(st.integers(1, held))) for held in (one, other)]
    failed = data.draw(st.integers(0, 2))
    found = at_most(min(drawn / held for held, drawn in parts), 0.05, failed, one + other)
    for first in range(max(0, found + 1 - other), min(one, found + 1) + 1):
        wrong = first, found + 1 - first
        tails = [
            [
                math.comb(w, k) * math.comb(held - w, drawn - k) / math.comb(held, drawn)
                for k in range(min(failed, w, drawn) + 1)
            ]
            for w, (held, drawn) in zip(wrong, parts, strict=True)
        ]
        pairs = itertools.product(*map(enumerate, tails))
        assert sum(a * b for (i, a), (j, b) in pairs if i + j <= failed) < 0.05 + 1e-9


@given(st.integers(1, 2_000), st.integers(0, 300))
def test_as_many_are_drawn_as_it_takes(held, wrong):
    drawn = draws_for(held, wrong, 0.025)
    assert at_most(drawn / held, 0.025, 0, held) <= wrong
    assert not drawn or at_most((drawn - 1) / held, 0.025, 0, held) > wrong


@pytest.mark.parametrize("share", [0.0, 0.002, 0.01, 0.03, 0.1])
def test_the_bound_holds_in_95_of_100_crawls(share):
    """The best of the bounds of two tests is said, of three samples each. What is drawn is sent."""
    chance, wrong_bounds, crawls = random.Random(7), 0, 1_000
    for _ in range(crawls):
        parts = [
            [chance.random() < share for _ in range(chance.randint(30, 300))] for _ in range(3)
        ]
        error, bounds = ERROR, []
        for size in (0.1, 0.3):
            error, ended = error * (1 - SPENT), error * SPENT
            drawn, rest, shares = [], [], []
            for part in parts:
                chance.shuffle(part)
                of = math.ceil(size * len(part))
                drawn += part[:of]
                rest.append(part[of:])
                shares.append(of / len(part))
            failed = sum(drawn)
            bounds.append(at_most(min(shares), ended, failed, sum(map(len, parts))) - failed)
            parts = rest
        wrong_bounds += sum(map(sum, parts)) > min(bounds)
    assert wrong_bounds <= 0.05 * crawls


def test_the_bound_rests_on_the_least_share_that_was_drawn():
    """Of two samples of one test, one half of what was held and one tenth of it."""
    held, verdicts = SimpleNamespace(count_beside=lambda _: (140, 0)), SimpleNamespace(agreed=set())
    closing = Closing(*[None] * 8)
    closing.held, closing.verdicts, closing._errors = held, verdicts, [0.04]
    for part, drawn in enumerate((50, 10)):
        found = frozenset(bytes([part, number]) for number in range(drawn))
        closing._samples.append(_Sample(1, 100, found))
        verdicts.agreed |= found
    assert closing.bound == (140, at_most(0.1, 0.04, 0, 140), 60)


def test_a_test_after_one_that_found_other_pages_draws_as_many_again():
    """All of them together draw twice as often as the crawl found pages."""
    closing, left = Closing(*[None] * 8), []
    closing.pages, closing.verdicts = SimpleNamespace(contents=400), SimpleNamespace()
    closing.held = SimpleNamespace(find=lambda _: ())
    for _ in range(4):
        closing._begin_test()
        left.append(closing._draws_left)
        closing._drawn += left[-1]
    assert left == [300, 300, 200, 0]


@pytest.mark.parametrize(
    ("query", "is_sent"),
    [("from=d{}", True), ("next=%2Fday%2F{}", False), ("do=edit&page={}", False)],
    ids=["a day", "a door", "an act"],
)
def test_what_says_where_to_come_back_to_is_no_way_to_the_rest_of_the_site(query, is_sent):
    """It is a place that the crawl has; what an empty day stands for may not be."""
    urls = [f"http://a.test/x?{query.format(n)}" for n in range(30)]
    behind = [SimpleNamespace(url=url, rules='["r"]', behind="p", number=url) for url in urls]
    closing, sent = Closing(*[None] * 8), []
    closing.held = SimpleNamespace(find=lambda _: behind, numbered=lambda _: behind)
    closing.pages, closing.frontier = range(40), SimpleNamespace(count=lambda *_: None)
    closing.registry = SimpleNamespace(newest=lambda **_: {"r"})
    closing.suppression = SimpleNamespace(send_at_last=sent.append)
    assert any(closing._put_back()) is is_sent
    assert len(sent) == is_sent * len(urls)


# --- crawls -------------------------------------------------------------------------------------


def test_the_summary_says_the_bound():
    result = crawl(Shop(300), [HOME], {**ADDON, "CONCURRENT_REQUESTS": 4})
    assert set(result.pages) == Shop(300).contents()
    held = result.stats[f"{LEARNED}held_at_end"]
    wrong = result.stats[f"{LEARNED}wrong_at_most"]
    (tested,) = map(
        int, re.findall(r"\(with 95 % confidence: (\d+) of the tests were drawn", result.log)
    )
    assert tested >= 10
    assert wrong <= held
    assert 0 < wrong <= SHARE_OF_PAGES * 301
    assert (
        f"Of {held:,} requests that were held and not sent, at most {wrong:,} may have been other pages"
    ) in result.log
    assert len(result.requests) < 901 - held + 60


def test_where_few_are_held_all_are_sent():
    """To test them takes as many requests."""
    result = visit(Shop(32))
    assert not result.lost
    assert result.counts["learned/drained"] > 0
    assert not {f"{LEARNED}held_at_end", f"{LEARNED}wrong_at_most"} & set(result.stats)


class RareOnes(Shop):
    """*rare* items of 200 are other pages when they are sorted, and nothing tells which."""

    rare = 40

    def name(self, number, query):
        is_other = "sort" in query and number in random.Random(5).sample(range(200), self.rare)
        return super().name(number, query) + (f" by {query['sort'][0]}" if is_other else "")


def test_what_a_sample_finds_is_put_back():
    """One in five: no rule stands, or the sample of the end finds one of them."""
    assert not visit(RareOnes(200)).lost


def test_nothing_is_lost_where_what_is_held_is_sent_last():
    """However rare the exceptions are, and however few audits there were."""

    class Rarest(RareOnes):
        rare = 2

    result = visit(Rarest(200), URLNORM_HELD="last")
    assert not result.lost
    assert len(result.sent) >= 601
    assert f"{LEARNED}held_at_end" not in result.stats
    assert len(set(result.pages[:450])) >= 195  # what is new comes before what is held


def test_what_is_held_is_sent_last_after_a_resume():
    shop = Shop(100)
    plan = Plan(1, concurrency=4, on_disk=True, kills=(300,))
    asked = set(visit(shop, plan, URLNORM_HELD="last").sent)
    assert {f"{url}{query}" for url in shop.urls() for query in shop.queries()} <= asked


def test_a_foreign_scheduler_cannot_send_it_last():
    settings = {"URLNORM_HELD": "last", "SCHEDULER": "scrapy.core.scheduler.Scheduler"}
    result = crawl(Shop(3), [HOME], {**ADDON, **settings})
    assert "URLNORM_HELD = 'last' needs scrapy_urlnorm.Scheduler" in str(result.error)
    assert not result.requests


class Timeline:
    """Days that have no events, one that has, and behind it the rest of the site."""

    #: The first day with an event, of 400, and how many pages are behind it.
    real, behind = 390, 120

    def __call__(self, url):
        path, _, query = url.removeprefix(HOST).partition("?")
        if path == "/timeline":
            day = int(query.partition("from=d")[2].partition("&")[0])
            is_real = day >= self.real
            name = f"day {day}" if is_real else "no events"
            links = [f"/ticket/{n}" for n in range(self.behind)] if is_real else []
            links += [f"/timeline?from=d{n}&daysback=30" for n in (day + 1, day + 2) if n < 400]
        elif path == "/":
            name = "home"
            links = [f"/timeline?from=d{n}&daysback=30" for n in range(0, 400, 2)]
        else:
            name, links = f"ticket {path}", []
        text = f"<h1>{name}</h1><p>{words(name, 40)}</p>"
        text += "".join(f'<a href="{link.replace("&", "&amp;")}">.</a>' for link in links)
        headers = {"Content-Type": "text/html", "X-Content": name}
        return Reply(200, f"<html><body>{text}</body></html>".encode(), headers)


def test_an_empty_day_stands_for_no_other_day():
    result = visit(Timeline())
    tickets = {f"ticket /ticket/{n}" for n in range(Timeline.behind)}
    assert tickets <= set(result.pages)
    assert {f"day {n}" for n in range(Timeline.real, 400)} <= set(result.pages)
