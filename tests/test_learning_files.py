"""What is no HTML takes part in learning: its bytes are its content, and pages go before it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.learning import evaluate, mine
from scrapy_urlnorm.learning.media import ENOUGH_FILES
from scrapy_urlnorm.logs import Observation

if TYPE_CHECKING:
    from scrapy_urlnorm.site_rules import SiteRule

HOST = "http://a.example"
HTML, PDF, CSV = "text/html", "application/pdf", "text/csv"


def copies(number: int, mime: str, folder: str = "doc") -> list[Observation]:
    """So many contents, each under three URLs that differ in ``via``, and as many other ones."""
    return [
        Observation(f"{HOST}/{folder}/{n}{via}", 200, f"{folder} {n}", mime=mime)
        for n in range(number)
        for via in ("", "?via=a", "?via=b", "?via=c")
    ]


def active(rows: list[Observation]) -> list[SiteRule]:
    return [rule for rule in mine(rows) if rule.active]


@pytest.mark.parametrize(
    ("files", "pages", "is_proven"),
    [
        (ENOUGH_FILES, 0, True),
        (ENOUGH_FILES - 1, 0, False),
        (0, ENOUGH_FILES - 1, True),
        (ENOUGH_FILES - 1, 3, False),
    ],
)
def test_files_prove_a_rule_together(files, pages, is_proven):
    """A dozen pages prove it; of files two dozen have to agree, or none of them has a vote."""
    rules = active([*copies(files, PDF), *copies(pages, HTML)])
    assert [rule.param for rule in rules] == [("via",)] * is_proven


def test_what_too_few_files_say_is_proposed():
    """And the proposal says what it lacks."""
    rules = mine(copies(20, PDF))
    assert {rule.status for rule in rules} == {"proposed"}
    [rule] = [rule for rule in rules if rule.kind == "drop-param"]
    assert (rule.param, rule.support) == (("via",), 20)
    assert rule.note == (
        "0 pages and 20 files agree and none differs; 7 pages or 24 files would do"
    )


def test_the_order_of_rows_decides_nothing():
    rows = [*copies(30, PDF), *copies(5, HTML, "page")]
    shuffled = random.Random(1).sample(rows, len(rows))
    assert mine(rows) == mine(shuffled)


def test_a_content_that_is_html_somewhere_is_no_file():
    """The same bytes under two media types are one content."""
    pages = copies(12, HTML)
    rows = [row._replace(mime=PDF) if "via" in row.url else row for row in pages]
    assert active(rows) == [rule.replace(examples=rule.examples) for rule in active(pages)]


def lists(number: int, last: str) -> list[Observation]:
    """Lists in any order are one page; to download, each order is another file."""
    rows = []
    for n in range(number):
        rows += [Observation(f"{HOST}/list/{n}", 200, f"list {n}", mime=HTML)]
        for order in ("name", "date", "size"):
            url = f"{HOST}/list/{n}?order={order}"
            rows.append(Observation(url, 200, f"list {n}", mime=HTML))
            rows.append(Observation(f"{url}&{last}", 200, f"{n} by {order}", mime=CSV))
    return rows


def test_a_rule_of_pages_keeps_away_from_files_that_refute_it():
    """The condition is what tells files from pages, however few files there are."""
    rows = lists(30, "format=csv")
    for rules in (active(rows), active(rows[:14] + [row for row in rows if row.mime == HTML])):
        [rule] = rules
        assert (rule.param, rule.when) == (("order",), {"no": "format"})
        found = evaluate(Normalizer(site_rules=rules), rows)
        assert (found.false_merges, found.found) == (0, 1.0)


def test_what_tells_files_from_pages_may_be_values():
    """A parameter that every URL has says which are to download."""
    rows = [
        row._replace(url=row.url.replace("?", f"?a={a}&") if "?" in row.url else f"{row.url}?a={a}")
        for shown in ("list", "tree", "index")
        for row in lists(20, "x=y")
        for a in ["raw" if row.mime == CSV else shown]
    ]
    rows = [row._replace(content=f"{row.content} {row.url.partition('a=')[2][:3]}") for row in rows]
    rows += [
        Observation(f"{HOST}/list/{n}?a=search&q=x", 200, f"q {n}", mime=HTML) for n in range(9)
    ]
    [rule] = [rule for rule in active(rows) if rule.param == ("order",)]
    assert rule.when == {"params": {"a": ["index", "list", "tree"]}}


def test_files_that_nothing_tells_from_pages_take_no_rule_back():
    """A feed that says its own URL is another file under each: what pages proved still holds."""
    rows = copies(30, HTML)
    feeds = [
        Observation(f"{HOST}/doc/{n}{via}", 200, f"{n} {via}", mime="application/rss+xml")
        for n in range(100, 110)
        for via in ("", "?via=a")
    ]
    [rule] = active([*rows, *feeds])
    assert rule.param == ("via",)
    assert rule.support == active(rows)[0].support


def test_files_that_refute_are_heard_once_enough_agree():
    """Half of two hundred files are other files with ``via``: no rule that files proved."""
    rows = copies(100, PDF)
    rows += [
        Observation(f"{HOST}/doc/{n}{via}", 200, f"other {n} {via}", mime=PDF)
        for n in range(100, 200)
        for via in ("", "?via=a", "?via=b", "?via=c")
    ]
    assert active(rows) == []


def test_one_file_under_many_names_has_one_vote():
    """An icon in every folder says nothing of a parameter."""
    rows = [
        Observation(f"{HOST}/{n}/icon{via}", 200, "icon", mime="image/png")
        for n in range(100)
        for via in ("", "?via=a", "?via=b", "?via=c")
    ]
    assert active(rows) == []
