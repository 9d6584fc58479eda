"""Doors without a password, and pages in no folder."""

from __future__ import annotations

import pytest

from scrapy_urlnorm.learning import mine
from scrapy_urlnorm.learning.media import doors
from scrapy_urlnorm.learning.mined import mined
from scrapy_urlnorm.learning.strata import Kinds, Place
from scrapy_urlnorm.learning.worker import Job
from scrapy_urlnorm.logs import Observation

WIKI = "http://wiki.example"


def _pages(**shown):
    """Sixty pages of a wiki, and what their actions show, by name; ``{}`` is the page."""
    pages = [(f"{WIKI}/{_name(n)}", f"page {n}") for n in range(60)]
    for action, content in shown.items():
        pages += [(f"{WIKI}/{_name(n)}?action={action}", content.format(n)) for n in range(60)]
    return pages


def _name(number):
    return "".join(chr(97 + int(digit)) for digit in str(number)).title() + "Page"


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ({"raw": "raw {}"}, set()),
        ({"edit": "not allowed", "raw": "raw {}"}, {"not allowed"}),  # it looks like an act
        ({"info": "nothing", "raw": "raw {}"}, set()),  # one form may be empty
        ({"info": "no", "diff": "no", "raw": "raw {}"}, {"no"}),
        ({"info": "no", "diff": "no", "raw": "no"}, set()),  # most of the site: it is down
    ],
)
def test_a_door_stands_at_every_url_of_its_forms(shown, expected):
    assert doors(_pages(**shown)) == expected


def test_one_page_that_is_not_the_door_opens_its_form():
    pages = _pages(info="no", diff="no", raw="raw {}")
    assert doors([*pages, (f"{WIKI}/SandBox?action=diff", "a difference")]) == set()


def test_an_empty_search_is_no_door():
    rows = [(f"http://a.example/find?q=x{n}", "nothing found") for n in range(90)]
    rows += [(f"http://a.example/find?q=y{n}", f"found {n}") for n in range(10)]
    rows += [(f"http://a.example/item/{n}", f"item {n}") for n in range(200)]
    assert doors(rows) == set()


def test_a_crawl_believes_in_a_door_and_not_in_an_empty_form():
    pages = _pages(edit="not allowed", info="nothing", raw="raw {}")
    rows = [(url, 200, content, None) for url, content in pages]
    rules = mined(Job("wiki.example", rows, (), {})).rules
    assert [rule.context[-1].values for rule in rules] == [("edit",)]
    assert {rule.kind for rule in rules} == {"ignore-value"}


def test_pages_in_no_folder_are_no_sections():
    """``/AnyPage?action=print`` is ``/AnyPage``, also for a page that was never seen."""
    rules = mine(
        [Observation(url, 200, text) for url, text in _pages(print="page {}", raw="raw {}")]
    )
    (rule,) = [rule for rule in rules if rule.active]
    assert rule.kind == "drop-default"
    assert not any(getattr(condition, "slot", "") == "s0" for condition in rule.context)


def test_pages_in_no_folder_are_of_one_kind_but_the_first():
    kinds = Kinds(("q:action",))
    new = [kinds.add(Place(f"{WIKI}/{_name(n)}?action=print")) for n in range(60)]
    assert new[0]
    assert sum(new) == 9  # eight words of a slot are told apart
    programs = Kinds(("q:action",))
    assert all(programs.add(Place(f"{WIKI}/{_name(n)}.php?action=print")) for n in range(20))


def test_lists_with_further_pages_are_of_another_kind():
    """On a list of one page every order shows the same."""
    kinds, url, twin = Kinds(("q:sort",)), f"{WIKI}/list?sort=a", f"{WIKI}/list"
    assert kinds.add(Place(url, twin))
    assert kinds.add(Place(url, twin, "page"))
    assert not kinds.add(Place(url, twin, "page"))
