"""Doors, with and without a password; what is no HTML; pages in no folder."""

from __future__ import annotations

import pytest
from log_rows import active

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.learning import evaluate, mine
from scrapy_urlnorm.learning.media import DOOR, ENOUGH_FILES, OF_WALL, doors
from scrapy_urlnorm.learning.mined import mined, with_doors
from scrapy_urlnorm.learning.strata import Kinds, Place
from scrapy_urlnorm.learning.worker import Job
from scrapy_urlnorm.logs import Observation
from scrapy_urlnorm.site_rules import SiteRule

HOST = "http://board.test"
TOPICS = [(f"{HOST}/topic.php?id={n}", 200, f"topic {n}", None) for n in range(60)]
LOGIN = f"{OF_WALL}login"


def replies(content, count=60):
    return [(f"{HOST}/newreply.php?tid={n}", 200, content(n), None) for n in range(count)]


def rules_of(rows):
    found = mined(Job("board.test", rows, (), {}))
    assert found.error is None
    return found.rules


def test_a_form_that_always_asks_for_a_password_is_a_door():
    (rule,) = rules_of([*TOPICS, *replies(lambda _: LOGIN)])
    assert rule.kind == "ignore-value"
    assert rule.note == DOOR
    assert "newreply" in str(rule)


def test_a_door_whose_parameters_are_separated_by_semicolons():
    urls = [f"{HOST}/index.php?action=report;topic={n}.0;msg={n}" for n in range(60)]
    rules = rules_of([*TOPICS, *((url, 200, LOGIN, None) for url in urls)])
    assert len({Normalizer(site_rules=rules).normalize(url) for url in urls}) == 1


@pytest.mark.parametrize(
    "content",
    [
        lambda _: "no results",  # one page, and no password: an empty list, until it is not
        lambda n: LOGIN if n % 7 else f"reply {n}",
        lambda n: LOGIN if n > 20 else f"reply {n}",  # the session ended
    ],
    ids=["one page", "some are open", "a session ends"],
)
def test_other_forms_are_none(content):
    assert not rules_of([*TOPICS, *replies(content)])


def test_few_are_none():
    assert not rules_of([*TOPICS, *replies(lambda _: LOGIN, 10)])


def test_a_rule_that_acts_on_other_pages_too_is_no_door():
    rule = SiteRule(
        site="board.test", kind="drop-param", param="sid", source="content", support=9, conflicts=0
    )
    rows = [
        Observation(f"{HOST}/a?sid=1", 200, LOGIN),
        Observation(f"{HOST}/b?sid=2", 200, "other"),
    ]
    assert with_doors([rule], rows[:1])[0].note == DOOR
    assert with_doors(with_doors([rule], rows[:1]), rows)[0].note is None
    assert with_doors([rule], rows[1:])[0] == rule


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
        ({"UserLogin": "Who are you?", "raw": "raw {}"}, {"Who are you?"}),  # or a login
        ({"UserLogins": "nothing", "raw": "raw {}"}, set()),
        ({"info": "no", "diff": "no", "raw": "raw {}"}, {"no"}),
        ({"info": "no", "diff": "no", "raw": "no"}, set()),  # most of the site: it is down
    ],
)
def test_a_door_stands_at_every_url_of_its_forms(shown, expected):
    assert doors(_pages(**shown)) == expected


def test_one_page_that_is_not_the_door_opens_its_form():
    pages = _pages(info="no", diff="no", raw="raw {}")
    assert doors([*pages, (f"{WIKI}/SandBox?action=diff", "a difference")]) == set()


def test_a_crawl_believes_in_a_door_and_not_in_an_empty_form():
    pages = _pages(edit="not allowed", info="nothing", raw="raw {}")
    rules = rules_of([(url, 200, content, None) for url, content in pages])
    assert [rule.context[-1].values for rule in rules] == [("edit",)]
    assert {rule.kind for rule in rules} == {"ignore-value"}


def test_pages_in_no_folder_are_no_sections():
    """``/AnyPage?action=print`` is ``/AnyPage``, also for a page that was never seen."""
    pages = _pages(print="page {}", raw="raw {}")
    (rule,) = active(Observation(url, 200, text) for url, text in pages)
    assert rule.kind == "drop-default"
    assert not any(getattr(condition, "slot", "") == "s0" for condition in rule.context)


def test_pages_in_no_folder_are_of_one_kind_but_the_first():
    kinds = Kinds(("q:action",))
    new = [kinds.add(Place(f"{WIKI}/{_name(n)}?action=print")) for n in range(60)]
    assert new[0]
    assert sum(new) == 9  # eight words of a slot are told apart
    programs = Kinds(("q:action",))
    assert all(programs.add(Place(f"{WIKI}/{_name(n)}.php?action=print")) for n in range(20))


LIBRARY = "http://a.example"
HTML, PDF, CSV = "text/html", "application/pdf", "text/csv"


def copies(number, mime, folder="doc"):
    """So many contents, each under three URLs that differ in ``via``, and as many other ones."""
    return [
        Observation(f"{LIBRARY}/{folder}/{n}{via}", 200, f"{folder} {n}", mime=mime)
        for n in range(number)
        for via in ("", "?via=a", "?via=b", "?via=c")
    ]


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


def test_a_content_that_is_html_somewhere_is_no_file():
    """The same bytes under two media types are one content."""
    pages = copies(12, HTML)
    rows = [row._replace(mime=PDF) if "via" in row.url else row for row in pages]
    assert active(rows) == active(pages)


def lists(number, last):
    """Lists in any order are one page; to download, each order is another file."""
    rows = []
    for n in range(number):
        rows += [Observation(f"{LIBRARY}/list/{n}", 200, f"list {n}", mime=HTML)]
        for order in ("name", "date", "size"):
            url = f"{LIBRARY}/list/{n}?order={order}"
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
        Observation(f"{LIBRARY}/list/{n}?a=search&q=x", 200, f"q {n}", mime=HTML) for n in range(9)
    ]
    [rule] = [rule for rule in active(rows) if rule.param == ("order",)]
    assert rule.when == {"params": {"a": ["index", "list", "tree"]}}


def test_files_that_nothing_tells_from_pages_take_no_rule_back():
    """A feed that says its own URL is another file under each: what pages proved still holds."""
    rows = copies(30, HTML)
    feeds = [
        Observation(f"{LIBRARY}/doc/{n}{via}", 200, f"{n} {via}", mime="application/rss+xml")
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
        Observation(f"{LIBRARY}/doc/{n}{via}", 200, f"other {n} {via}", mime=PDF)
        for n in range(100, 200)
        for via in ("", "?via=a", "?via=b", "?via=c")
    ]
    assert active(rows) == []
