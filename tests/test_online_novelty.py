"""Pages that have a content each and say nothing new, as the months of a calendar, go last."""

from __future__ import annotations

from calendar import month_name
from string import ascii_lowercase

import pytest
from online_parts import crawls, page_of
from scrapy import Request

from scrapy_urlnorm.crawl.online.families import BARREN
from scrapy_urlnorm.crawl.online.novelty import _SEVERAL

HOST = "http://shop.test"
MONTHS, WORDS = [*month_name][1:], ascii_lowercase[:16]
ENOUGH = _SEVERAL * len(MONTHS) + BARREN


@pytest.fixture
def begun():
    with crawls(has_miner=False, URLNORM_LEARN="content") as begin:
        yield begin


def lines(*said):
    menu = [f"to {word}" for word in WORDS]
    return "</p><p>".join((*menu, *said))


def month(n, *said):
    """A month of a calendar, with its days."""
    return lines(f"{MONTHS[n % 12]} {2020 + n // 12}", *map(str, range(1, 31)), *said)


def sees(parts, url, body, leading="", *, items=()):
    """Have a page arrive to which that at *leading* led, and of which the spider gets *items*."""
    request = Request(url, headers={"Referer": leading} if leading else None)
    got = parts.learner.got_of(request, page_of(request, body))
    parts.arrive(request, body)
    for item in items:
        got.add(item)
    parts.learner.got(got)


def see_months(parts, number=ENOUGH, first=0, *, items=(), said=lambda n: ()):
    url = f"{HOST}/cal?n={{}}".format
    for n in range(first, first + number):
        leading = url(n - 1) if n else HOST
        sees(parts, url(n), month(n, *said(n)), leading, items=items)


def is_last(parts, path):
    return parts.fetch(f"{HOST}/{path}") == "held"


def test_a_calendar_goes_last(begun):
    parts = begun()
    see_months(parts, ENOUGH - 1)
    assert not parts.learner.barren
    see_months(parts, 1, first=ENOUGH - 1)
    assert is_last(parts, "cal?n=5001")
    assert parts.learner.barren == {"http://shop.test/": BARREN}
    assert not is_last(parts, "list")


def test_the_rest_of_a_calendar_is_dropped_where_a_limit_says_so(begun):
    parts = begun(URLNORM_FAMILY_LIMIT=20)
    parts.download = lambda request: page_of(request, month(int(request.url.rpartition("=")[2])))
    see_months(parts, ENOUGH - BARREN + 25)
    assert parts.stats["limited"] == 1
    parts.fetch(f"{HOST}/cal?n=5000")
    assert parts.stats["dropped"] == 1


def test_the_months_beside_an_article_go_last(begun):
    """They stand under as many URLs for each article, which leads to them."""
    parts = begun()
    for n in range(ENOUGH):
        url, article = f"{HOST}/news/{n}", [f"{word} of {chr(97 + n)}" for word in WORDS]
        sees(parts, url, month(0, *article), HOST)
        for other in (1, 2):
            sees(parts, f"{url}?month={other}", month(other, *article), url)
    assert is_last(parts, "news/7?month=1000")
    assert not is_last(parts, "news/1000")


#: What each month has of its own. Figures are no dates: there are too many of them.
SAID = {
    "an event": lambda n: [f"{WORDS[n % 16]}{chr(97 + n // 16)} comes"],
    "figures": lambda n: [f"rain {n}{hour} mm" for hour in range(24)],
    "a picture": lambda n: [f"<img src=/p{n}.png>"],
}


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
def test_what_says_something_each_month_does_not(begun, said):
    parts = begun()
    see_months(parts, ENOUGH, said=said)
    assert not is_last(parts, "cal?n=5000")


def test_older_versions_of_pages_do_not(begun):
    """One or two other pages of the family show their lines, and the page that leads to them none."""
    parts = begun()
    for version in (3, 2, 1):
        for n in range(BARREN + 10):
            name = chr(97 + n // 26) + chr(97 + n % 26)
            text = lines(*(f"{word} of {name}" for word in WORDS), f"version {version}")
            sees(parts, f"{HOST}/v{version}/{name}", text, HOST)
    assert not parts.learner.barren


def test_what_leads_to_something_new_does_not(begun):
    parts = begun()
    for n in range(2 * ENOUGH):
        see_months(parts, 1, first=n)
        if not n % 50:
            sees(
                parts,
                f"{HOST}/talk/{n}",
                lines(f"a talk about {chr(97 + n // 50)}"),
                f"{HOST}/cal?n={n}",
            )
    assert not is_last(parts, "cal?n=5000")


@pytest.mark.parametrize(
    ("items", "limit", "is_put_last"),
    [([], None, True), ([{"name": "a thing"}], None, False), ([], BARREN, False)],
    ids=["no items", "items", "a limit"],
)
def test_what_a_list_shows_whole_goes_last_if_the_spider_gets_nothing_of_it(
    begun, items, limit, is_put_last
):
    parts = begun(URLNORM_FAMILY_LIMIT=limit)
    things = [f"{WORDS[n % 16]} {chr(97 + n // 16)}" for n in range(ENOUGH)]
    sees(parts, f"{HOST}/list", lines(*things))
    for n, thing in enumerate(things):
        sees(parts, f"{HOST}/thing/{n}", lines(thing), f"{HOST}/list", items=items)
    assert is_last(parts, "thing/5000") is is_put_last


def test_a_calendar_goes_last_though_the_spider_gets_items_everywhere(begun):
    parts = begun()
    see_months(parts, items=[{"title": "a month"}])
    assert is_last(parts, "cal?n=5000")


def test_without_a_referer_nothing_is_known(begun):
    parts = begun()
    for n in range(2 * ENOUGH):
        sees(parts, f"{HOST}/cal?n={n}", month(n))
    assert not is_last(parts, "cal?n=5000")
