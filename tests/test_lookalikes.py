"""Crawls of sites of lookalikes: no content is lost, and true duplicates are saved all the same."""

from __future__ import annotations

from collections import Counter

import pytest
from lookalike_nodes import Copies
from lookalike_sites import Link, Loop, SeeAlso, Site, Tokens
from lookalikes import CASES, DRAWN, Visit, missed, stock
from loopback import mostly_long
from moving_sites import HOST, words
from simulation.crawl import CallbackError

from scrapy_urlnorm.crawl.online import pairs, whole_pages


@pytest.mark.parametrize("case", mostly_long(CASES, of=4))
def test_no_lookalike_is_lost(case):
    """What stock Scrapy finds is found, under the callback and the arguments that were asked for.

    Where exceptions are rare, as many may be missing as the summary says.
    """
    kind, variant = CASES[case]
    found, sent = stock(kind(variant))
    assert kind.items * (4 if variant == "rare" else 1) + 1 < len(found) < sent
    visit = Visit(kind(variant)).crawl()
    assert not visit.figure("errors")
    if case != "Rim-moving":  # of 30 items, a few of which are seen often enough
        assert visit.figure("learned/rules") > 0, "it has duplicates, and nothing was learned"
    if variant in ("kind", "rare"):  # else one page in three is another one, which costs audits
        # Where content stands between what moves, each audit has to fetch both pages again.
        what = "learned/held_at_end" if case == "Quoted-kind" else "saved"
        assert visit.figure(what) > 0, "it has duplicates, and none was saved"
    most = visit.figure("learned/wrong_at_most") if variant in ("few", "rare") else 0
    assert len(visit.lost) <= most, sorted(visit.lost)[:5]


def test_pages_that_arrived_before_a_rule_are_its_first_audits():
    """They have one name, and their links lead to different pages."""
    kind, variant = CASES["LinkTargets-rare"]
    assert not Visit(kind(variant)).crawl().lost


#: Of shops, those that have fewer than 800 URLs.
SHOPS = (300, 302, 307, 308, 309, 311, 313, 314, 315, 319, 320, 322)
SEEDS = [("--random", seed) for seed in range(300, 324)] + [("--shops", seed) for seed in SHOPS]


@pytest.mark.parametrize("site", mostly_long(SEEDS, of=4))
def test_a_site_that_nobody_thought_of_loses_and_costs_no_more_than_is_said(site):
    """More of them: ``python tests/lookalikes.py --random 1000 100``, or ``--shops``."""
    kind, seed = site
    visit = Visit(DRAWN[kind](str(seed))).crawl()
    _, sent = stock(DRAWN[kind](str(seed)))
    assert len(visit.lost) <= visit.figure("learned/wrong_at_most")
    assert len(visit.sent) < 1.15 * sent + 40


def test_a_crawl_is_the_same_when_it_is_repeated():
    first, second = (Visit(Tokens("moving")).crawl() for _ in range(2))
    assert (first.digest, first.lost) == (second.digest, second.lost)


class Replies(Copies):
    items = 120

    def is_other(self, n):
        return False


def test_pages_that_declare_themselves_to_be_copies_are_saved():
    """Those of WordPress, which are a good third of its pages, differ from their post in two places."""
    visit = Visit(Replies("moving")).crawl()
    assert not visit.lost
    assert sum("reply" in str(url) for url in visit.sent) < 2 * Replies.items - 20


class Plain(Site):
    def is_other(self, n):
        return False


class Commented(Plain):
    """Three posts get a comment right after their first fetch."""

    items, views = 100, ()
    refs = tuple(f"replytocom={n}" for n in range(3))

    def __init__(self, variant):
        super().__init__(variant)
        self.asked = Counter()

    def home(self):
        return [link for _, link in self.links()]

    def page(self, where, n, query):
        name, body, links = super().page(where, n, query)
        self.asked[n] += 1
        is_commented = int(n) < 3 and self.asked[n] > 1
        return name, body + is_commented * f"<h3>Ada says:</h3><p>{words(n, 22)}</p>", links


def test_pages_that_changed_do_not_keep_a_rule_from_being_learned():
    visit = Visit(Commented("moving")).crawl()
    assert not visit.lost
    assert visit.figure("saved") > 30


class Unread(Plain):
    """The spider reads the view out of the URL, and its callback fails where there is none."""

    items = 100


class Strict(Visit):
    def parse(self, request, answer):
        if "/item/" in request.url and "view=" not in request.url:
            raise CallbackError
        yield from super().parse(request, answer)


def test_a_page_whose_callback_failed_stands_for_none():
    visit = Strict(Unread()).crawl()
    read = {url.partition("?")[0] for url in visit.sent if "view=" in url}
    assert len(read) == Unread.items
    assert visit.figure("saved") > 0


class Staging(Plain):
    """Each page asks not to be indexed, and names the one of the public site as canonical."""

    def page(self, where, n, query):
        name, body, links = super().page(where, n, query)
        head = '<meta name="robots" content="noindex"><link rel="canonical" href="https://shop.example/{}/{}">'
        return name, head.format(where, n) + body, links


def test_copies_of_what_is_not_on_the_site_are_pages_of_their_own():
    visit, other = (Visit(kind("moving")).crawl() for kind in (Staging, Plain))
    assert not visit.lost
    assert visit.figure("saved") > 0
    assert visit.sent == other.sent


def test_long_pages_are_compared_in_steps(monkeypatch):
    """What is learned of them is the same, if later."""
    monkeypatch.setattr(whole_pages, "_LONG", 100)
    monkeypatch.setattr(pairs, "STEPS", 1)
    visit = Visit(Tokens("moving")).crawl()
    assert not visit.lost
    assert visit.figure("saved") > 0


class Broad(Plain):
    items = 240

    def link(self, n, url, view):
        return Link(url.replace(HOST, f"http://site{n % 30}.test"))

    def __call__(self, url):
        return super().__call__(HOST + url.partition(".test")[2])


def test_many_sites_share_the_fetches_that_begin():
    visit = Visit(Broad("moving")).crawl()
    assert not visit.lost
    assert 0 < visit.counts["learned/pairs"] <= 8 + 0.03 * len(visit.sent)
    # So do those that compare pages which came before a rule.
    assert visit.figure("learned/rules") > Broad.items / 10
    assert visit.figure("learned/second_fetches") <= 0.04 * len(visit.sent)


class Lessons(Plain):
    """Eight paths lead from lesson to lesson, and each to a photo at its end; no lesson says so."""

    items, refs, views = 100, (), ()

    def home(self):
        paths = [Link(f"{HOST}/item/{path * 11}?from=p{path}") for path in range(8)]
        return super().home() + paths

    def page(self, where, n, query):
        name, body, _ = super().page(where, n, {})
        if "from" not in query:
            return name, body, []
        path, number = query["from"], int(n)
        at = (number - int(path[1:]) * 11) % self.items
        further = f"item/{(number + 1) % self.items}?from={path}" if at < 30 else f"photo/{path}"
        return name, body, [Link(f"{HOST}/{further}")]


def test_a_way_through_held_pages_is_gone_to_its_end():
    """It is found step by step: each page that is sent at the end of the crawl leads to one more."""
    assert not Visit(Lessons()).crawl().lost


class Endless(Visit):
    def expected(self):
        """Return what is there: without the add-on the crawl does not end."""
        return {("parse", (), "", content) for content in self.site.contents}


def test_a_folder_that_is_the_root_again_comes_to_an_end():
    """A crawler that went round and round was shut out of a site by its owner.

    https://github.com/MarginaliaSearch/MarginaliaSearch/issues/110
    """
    visit = Endless(Loop("")).crawl()
    assert not visit.trouble
    assert not visit.lost
    assert len(visit.sent) < 150


@pytest.mark.long
def test_a_crawl_loses_no_more_than_it_says():
    """Of sites with rare exceptions. More of them: ``python tests/lookalikes.py --bounds 1 1000``."""
    crawls = [missed(seed) for seed in range(12)]
    assert all(most <= held for held, _, most, _ in crawls)
    assert sum(lost > most for _, lost, most, _ in crawls) <= 1
    assert sum(lost for _, lost, _, _ in crawls), "no exception is missed, so nothing is tested"


def test_what_leads_to_pages_that_nothing_else_leads_to_is_sent():
    visit = Visit(SeeAlso()).crawl()
    assert visit.counts["learned/drained"] > 50
    assert visit.figure("learned/held_at_end") < 20
