"""Names of pages: which are made anew when it is learned what changes by itself, and pairs."""

from __future__ import annotations

import random
from collections import Counter
from string import ascii_letters
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from scrapy_urlnorm.crawl.online import names as module
from scrapy_urlnorm.crawl.online import pairs as pairs_module
from scrapy_urlnorm.crawl.online.names import Names
from scrapy_urlnorm.crawl.online.pairs import Arrivals, Pairs
from scrapy_urlnorm.crawl.online.whole_pages import Shown
from scrapy_urlnorm.crawl.requests import asked_for
from scrapy_urlnorm.logs.blocks import Block
from scrapy_urlnorm.logs.differences import family_of
from scrapy_urlnorm.logs.page_identity import Identity
from scrapy_urlnorm.stores.sqlite import Database

SITE = "shop.test"


@pytest.fixture
def names():
    with Database(None) as database:
        frontier = Mock(pack_bare=lambda asked: asked.url.encode())
        evidence = SimpleNamespace(rename=lambda *_: None)
        yield Names(database, frontier, Mock(), evidence, Mock(), Mock())


def shown(folder, number, at, rng):
    """What a page shows: its own words, and in each folder something else that moves."""
    moves = {"a": f"visits {rng.random()}", "b": f"now {at // 20}", "c": "still"}.get(
        folder, "still"
    )
    own = [
        Block("p", f"word{number % 30} {folder} word{number}"),
        Block("h1", f"{folder} {number}"),
    ]
    box = Block(f"div.{folder}", str(rng.random()) if folder == "d" else "still")
    return [*own, Block("div.box", moves), box, *[Block("img", "\x00img /logo")][: at > 30]]


def arrive(names, folder, number, blocks):
    asked = asked_for(f"http://{SITE}/{folder}/{number}")
    names.arrived(asked, asked.url.encode(), Identity(str(number)), blocks)


def rename(names):
    """Do what waits for a safe point, and return how many pages were named anew."""
    jobs = [call.args[2] for call in names.safe_points.put.call_args_list]
    names.safe_points.put.reset_mock()
    return sum(1 for job in jobs[-1:] for _ in job)


def named(names, url):
    return names.page(url.encode()).name


def test_where_verdicts_found_other_pages_the_urls_tell_them_apart(names):
    """What they show does not: a script differs. Elsewhere on the site, nothing does."""
    urls = [f"http://{SITE}/{folder}/1?n={n}&a={n % 2}" for folder in "ab" for n in range(8)]
    for url in urls:
        asked = asked_for(url)
        names.arrived(asked, url.encode(), Identity(url), [Block("p", "same words")])
    family, other = map(family_of, (urls[0], urls[8]))
    for url in urls[:3]:
        names.set_apart(url.encode(), ["q:n"])
        names.judged(url, ("q:n",), is_other=True)
        names.judged(urls[8], ("q:n",), is_other=url == urls[0])
    rename(names)
    names.aliases.renamed.assert_called_once_with(SITE, {})  # one name became several
    assert names.units(SITE).telling(family) == ("q:n",)
    assert names.units(SITE).telling(other) == ()
    assert len({named(names, url) for url in urls[:8]}) == 8
    assert len({named(names, url) for url in urls[8:]}) == 1
    again = Names(*(getattr(names, each) for each in Names.__dataclass_fields__))
    assert again.units(SITE).telling(family) == ("q:n",)
    late = f"http://{SITE}/a/1?n=3&a=0"  # another parameter means nothing
    names.arrived(asked_for(late), late.encode(), Identity("3"), [Block("p", "same words")])
    assert named(names, late) == named(names, urls[3])
    same = f"http://{SITE}/a/1?n=9"  # it shows the very same bytes
    names.arrived(asked_for(same), same.encode(), Identity(urls[4]), [Block("p", "same words")])
    assert named(names, same) == named(names, urls[4])


def test_slots_that_often_mean_nothing_tell_no_pages_apart(names):
    url = f"http://{SITE}/a/1?n=1"
    for is_other in (True, False, True, False, False, True, False):
        names.judged(url, ("q:n",), is_other=is_other)
    assert names.units(SITE).telling(family_of(url)) == ()


def wrong(names):
    """Return the pages that all named anew would give another name."""
    rows = names._find("site = ?", SITE, most=1_000)
    return [row.url for row in rows if names._name(SITE, row) != row.name]


def test_only_pages_that_may_have_another_name_are_named_anew(names):
    """What changes at once is learned in one folder, what tells the time in another one."""
    rng, shares = random.Random(1), []
    for at in range(240):
        folder = "abc"[at % 3] if at < 120 else "abd"[at % 3]
        first = shown(folder, at, at, rng)
        arrive(names, folder, at, first)
        if at % 8 == 0:
            arrive(names, "again", at, first)
        if at % 30 == 29 or at in (45, 60, 180):
            url = f"http://{SITE}/{folder}/{at}"
            pair = (Shown(url, None, None, each) for each in (first, shown(folder, at, at, rng)))
            assert names.learn(family_of(url), *pair)
            assert names.news == {SITE: None}
        if at % 50 == 49:
            page = names.page(f"http://{SITE}/b/{at % 3 + 1 + 3 * (at // 50)}".encode())
            if page is not None:
                names.learn_late(page, shown("b", int(page.url.rpartition("/")[2]), at, rng))
        names.news.clear()
        if named := rename(names):
            assert names.news == {SITE: None}
            shares.append(named / names.count(SITE))
            assert wrong(names) == []
    assert names.units(SITE).left_out(family_of(f"http://{SITE}/b/1"))
    assert len(shares) > 2
    assert min(shares) < 0.5


@pytest.mark.parametrize("before", ["nothing", "a late fetch", "a run"])
def test_pages_that_came_before_a_pair_are_named_anew(names, before):
    """However little was asked for since: what a pair shows is true of them as well."""
    url = f"http://{SITE}/a/1?n="
    for n in range(4):
        asked = asked_for(f"{url}{n}")
        blocks = [Block("p", "words of tea"), Block("p", f"seen {n} times")]
        names.arrived(asked, asked.url.encode(), Identity(str(n)), blocks)
    if before == "a late fetch":
        names.learn_late(names.page(f"{url}0".encode()), names.page(f"{url}0".encode()).blocks)
    elif before == "a run":
        names = Names(*(getattr(names, each) for each in Names.__dataclass_fields__))
    pair = (Shown(f"{url}1", None, None, names.page(f"{url}{n}".encode()).blocks) for n in (1, 3))
    assert names.learn(family_of(url), *pair)
    assert rename(names)
    assert len({named(names, f"{url}{n}") for n in range(4)}) == 1


@pytest.mark.parametrize(("lines", "kept"), [(1_000, 5), (2, 2)])
def test_many_small_sites_stay_in_memory(names, monkeypatch, lines, kept):
    """Of two sites, and of as many more as have few lines together."""
    monkeypatch.setattr(module, "MAX_SITES", 2)
    monkeypatch.setattr(module, "MAX_LINES", lines)
    for _ in range(2):
        for site in range(5):
            asked = asked_for(f"http://shop{site}.test/")
            block = Block("p", f"word{site}")
            names.arrived(asked, asked.url.encode(), Identity(""), [block] * 3)
    sizes = [units.size for units in names._sites.values()]
    assert len(sizes) == kept
    assert names._lines == sum(sizes)


@pytest.mark.parametrize("at_once", [True, False])
def test_each_site_has_the_second_fetches_that_it_has_earned(at_once):
    """Whichever of many sites fetch in advance, the others have their share all the same."""
    pages, fetched = Counter(), Counter()
    units = SimpleNamespace(pairs=Counter(), different=True)
    names = Mock(units=lambda _: units, nth=lambda *_: None, count=pages.__getitem__)
    frontier = Mock(fetch=lambda _, site, job: fetched.update([site]))
    pairs = Pairs(names, Mock(), frontier, share=0.05)
    arrive = [(f"s{site}.test", number) for site in range(30) for number in range(400)]
    for site, number in sorted(arrive, key=lambda each: each[1]) if at_once else arrive:
        pages[site] += 1
        page = asked_for(f"http://{site}/{ascii_letters[number % 50]}/{number}")
        pairs.arrived(page, SimpleNamespace(has_expiring_links=False))
    assert min(fetched[site] for site in pages) >= 0.05 * 400 - 1
    assert fetched.total() <= 1.05 * 0.05 * pages.total()


def test_pages_speak_as_soon_as_their_names_are_settled(monkeypatch):
    """Only those are looked at of which more may be known by now."""
    monkeypatch.setattr(pairs_module, "MAX_WAITING", 5)
    known, told = set(), []
    is_settled = Mock(side_effect=lambda _, url: url[0] in known)
    still = SimpleNamespace(different=0)
    names = Mock(is_settled=is_settled, units=lambda _: still, news={})
    arrivals = Arrivals(names, lambda arrival: told.append(arrival.url))

    def add(*urls):
        for url in urls:
            arrivals.add(Mock(site=SITE, url=url, steps=0))

    add("a1", "b1", "a2")
    known.add("a")
    arrivals.settle()  # nobody has said so
    assert (told, is_settled.call_count) == ([], 3)
    add("a3")
    names.news[SITE] = None
    arrivals.settle()
    arrivals.settle()
    assert (told, is_settled.call_count) == (["a3", "a1", "a2"], 7)
    add("b2", "b3", "b4", "b5")
    assert told[3:] == []
    add("b6")  # too many wait
    assert told[3:] == ["b1"]
    arrivals.settle(is_last=True)
    assert told[4:] == ["b2", "b3", "b4", "b5", "b6"]
