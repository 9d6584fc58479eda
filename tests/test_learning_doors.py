"""Doors: rules of one page that asks for a password, which a crawl believes."""

from __future__ import annotations

import pytest

from scrapy_urlnorm.learning.media import DOOR, OF_WALL
from scrapy_urlnorm.learning.mined import mined, with_doors
from scrapy_urlnorm.learning.worker import Job
from scrapy_urlnorm.logs import Observation
from scrapy_urlnorm.normalizer import Normalizer
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
