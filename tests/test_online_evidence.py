"""Evidence: the rows of a site, and when they make it worth mining."""

from __future__ import annotations

import pytest

from scrapy_urlnorm.crawl.online import evidence
from scrapy_urlnorm.crawl.online.evidence import Evidence, Row
from scrapy_urlnorm.stores.sqlite import Database

SITE = "shop.test"


@pytest.fixture
def database():
    with Database() as database:
        yield database


@pytest.fixture
def rows(database):
    return Evidence(database)


def page(number: int, query: str = "") -> Row:
    return Row(f"http://{SITE}/p/{number}{query}", 200, str(number), None)


def fill(rows, pages, twins, site: str = SITE, query: str = "?sid=1") -> None:
    """Add the *pages*, and the *twins*: the same contents under other URLs."""
    for number in pages:
        rows.add(site, page(number))
    for number in twins:
        rows.add(site, page(number, query))


def is_due(rows: Evidence, site: str = SITE) -> bool:
    return rows.is_due(site, advance=10**6)


def test_a_page_whose_content_is_known_is_an_event(rows):
    """Three events make a site worth mining, then three again and 5 % more rows."""
    fill(rows, range(80), range(2))
    assert not is_due(rows)
    assert rows.add(SITE, page(2, "?sid=1"))
    assert is_due(rows)
    assert len(rows.take(SITE)) == 83
    for number in range(3, 8):
        assert not is_due(rows)
        rows.add(SITE, page(number, "?sid=1"))
    assert is_due(rows)
    assert not rows.is_due(SITE, advance=-(10**6))


def test_what_tests_a_rule_is_known_and_no_event(rows):
    fill(rows, range(80), ())
    for number in range(10):
        assert rows.add(SITE, page(number, "?sid=1"), is_audit=True)
    assert not is_due(rows)
    assert not rows.unmined()


def test_a_site_where_nothing_new_is_found_is_mined_more_rarely(rows):
    """After a fifth of new rows at most. What is found makes it 5 % again."""
    fill(rows, range(100), ())
    shares = []
    for number, something in enumerate([False, False, False, False, True, True]):
        before = len(rows.take(SITE))
        rows.found(SITE, something=something)
        added = 0
        while not is_due(rows):
            rows.add(SITE, page(added, f"?sid={number}"))
            added += 1
        shares.append(added / before)
    assert shares == pytest.approx([0.1, 0.2, 0.2, 0.2, 0.05, 0.05], abs=0.01)


def test_a_retracted_rule_has_its_site_mined_at_once(rows):
    """Also where nothing new has come, and the miner has used up its time."""
    fill(rows, range(20), range(10))
    rows.take(SITE)
    rows.mine_again(SITE)
    assert rows.is_due(SITE, advance=-(10**6))
    rows.take(SITE)
    assert not is_due(rows)


def test_a_last_look_is_for_a_tenth_of_new_events(rows):
    """It costs as much as all before it; of an eager site three events are enough."""
    fill(rows, range(60), range(40))
    assert rows.unmined() == [SITE]
    rows.take(SITE)
    fill(rows, (), range(40, 43))
    assert rows.unmined() == []
    rows.eager.add(SITE)
    assert rows.unmined() == [SITE]
    rows.eager.clear()
    fill(rows, (), [43])
    assert rows.unmined() == [SITE]


@pytest.mark.parametrize(("status", "due"), [(301, True), (308, True), (302, False), (200, False)])
def test_a_permanent_redirect_is_an_event(rows, status, due):
    """A temporary one is a row and no event, and so is a page that is compared with none."""
    for number in range(3):
        url = f"http://{SITE}/{number}"
        rows.add(SITE, Row(url, status, None, None if status == 200 else url + "/"))
    assert is_due(rows) is due
    assert len(rows.take(SITE)) == 3


def test_the_same_url_again_is_no_event(rows):
    fill(rows, [1] * 5, ())
    assert not is_due(rows)
    assert len(rows.take(SITE)) == 1


def test_a_very_long_url_is_no_evidence(rows):
    """It would take the miner long."""
    assert rows.add(SITE, page(1, "?x=" + "a" * evidence.LONGEST_URL)) is None
    assert rows.take(SITE) == []


def test_a_large_site_is_thinned_out_by_path(rows, monkeypatch):
    """All URLs of a path stay or go together."""
    monkeypatch.setattr(evidence, "MAX_ROWS", 100)
    for number in range(300):
        fill(rows, [number], [number])
    kept = rows.take(SITE)
    assert 20 <= len(kept) <= 100
    assert len(kept) == 2 * len({row.url.partition("?")[0] for row in kept})


def test_a_site_that_was_thinned_out_is_mined_again(rows, monkeypatch):
    """It never has more rows than it had when it was mined last."""
    monkeypatch.setattr(evidence, "MAX_ROWS", 100)
    fill(rows, range(49), range(49))
    rows.take(SITE)
    for number in range(49, 100):
        fill(rows, [number], [number])
    assert is_due(rows)


def test_sites_are_bounded(rows, monkeypatch):
    monkeypatch.setattr(evidence, "MAX_SITES", 3)
    for number in range(5):
        fill(rows, range(3), range(3), f"{number}.test")
        rows.are_two(f"{number}.test", "/a", "/b")
    assert [len(rows.others(f"{number}.test")) for number in range(5)] == [0, 0, 1, 1, 1]
    assert not is_due(rows, "0.test")
    assert [rows.count(f"{number}.test") for number in range(5)] == [0, 0, 6, 6, 6]
    assert (rows.take("1.test"), len(rows.take("4.test"))) == ([], 6)


def test_a_new_run_goes_on_with_the_rows_of_the_last(database):
    """They are in the database of the crawl."""
    before = Evidence(database)
    fill(before, range(10), range(2))
    before.are_two(SITE, "/a", "/b")
    rows = Evidence(database)
    assert rows.others(SITE) == {"/a": "/b"}
    fill(rows, (), range(5, 8))
    assert is_due(rows)
    assert len(rows.take(SITE)) == 15
