"""Which page holds number N: one rule for a site, and a table of what its log shows."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from scrapy_urlnorm import Normalizer, SiteRule, load_site_rules, save_site_rules
from scrapy_urlnorm.learning import evaluate, mine
from scrapy_urlnorm.learning.in_force import joined
from scrapy_urlnorm.logs import Observation

if TYPE_CHECKING:
    from pathlib import Path

HOST = "http://forum.example"
#: How the URL of a post is written, and that of the first page of its topic.
FORMS = {
    "a parameter": (HOST + "/topic/{t}?post={n}", HOST + "/topic/{t}"),
    "a number inside a value": (HOST + "/?topic={t}.msg{n}", HOST + "/?topic={t}.0"),
    "a number inside a segment": (HOST + "/b/topic,{t}.msg{n}.html", HOST + "/b/topic,{t}.0.html"),
}


def page(url: str, content: str) -> Observation:
    """Return a row of a page."""
    return Observation(url, 200, content, mime="text/html")


def board(form: str, *, seed: int = 1, odd: float = 0.0) -> list[Observation]:
    """Topics of one to three pages; the numbers of their posts rise. Some posts are *odd*."""
    rng = random.Random(f"{form} {seed}")
    post, topic = FORMS[form]
    rows, number = [], 1000
    for t in range(1, 120):
        rows.append(page(topic.format(t=t), f"topic {t}, 0"))
        for at in range(rng.randint(3, 30)):
            number += rng.randint(1, 9)
            content = f"topic {t}, {at // 10}"
            content = f"post {number}" if rng.random() < odd else content
            rows.append(page(post.format(t=t, n=number), content))
    rng.shuffle(rows)
    return rows


def ranges(rules: list[SiteRule]) -> list[SiteRule]:
    """Return the active rules of the kind."""
    return [rule for rule in rules if rule.active and rule.kind == "range-alias"]


@pytest.mark.parametrize("form", FORMS)
def test_which_page_holds_a_post_is_learned(form: str, tmp_path: Path) -> None:
    """From half of the URLs most of the others are found, through a rule file, none wrongly."""
    rows = board(form)
    known, unseen = rows[::2], rows[1::2]
    rules = mine(known)
    assert {rule.operation.by is None for rule in ranges(rules)} == {True, False}
    save_site_rules(tmp_path / "rules.toml", rules)
    loaded = load_site_rules(tmp_path / "rules.toml")
    assert set(loaded) == set(rules)
    result = evaluate(Normalizer("default", site_rules=loaded), unseen)
    assert result.found > 0.45
    assert (result.false_merges, result.lost) == (0, 0)


def test_nothing_is_said_of_posts_that_the_log_does_not_show() -> None:
    """Beyond the last post seen, and between two pages, a post is itself."""
    form = FORMS["a parameter"][0]
    rows = [
        page(form.format(t=t, n=100 * t + n), f"topic {t}, {n // 10}")
        for t in range(1, 40)
        for n in range(0, 30, 3)
    ]
    normalize = Normalizer("default", site_rules=mine(rows)).normalize
    key = normalize(form.format(t=7, n=709))
    assert [normalize(form.format(t=7, n=700 + n)) == key for n in (0, 5, 9, 10, 11, 12, 40)] == (
        [True, True, True, False, False, False, False]
    )


@pytest.mark.parametrize("form", FORMS)
def test_odd_posts_teach_nothing(form: str) -> None:
    """Where one post in twenty has a page of its own, a post between two proves nothing."""
    assert ranges(mine(board(form, odd=0.05))) == []


def test_numbers_without_order_teach_nothing() -> None:
    """Posts dealt out to pages at random stand between two of one page by chance only."""
    rng = random.Random(5)
    form = FORMS["a parameter"][0]
    rows = [
        page(form.format(t=t, n=n), f"topic {t}, {rng.randint(0, 2)}")
        for t in range(80)
        for n in rng.sample(range(1000), 12)
    ]
    assert ranges(mine(rows)) == []


@pytest.mark.parametrize("share", [0.05, 0.015, 0.005])
def test_an_empty_calendar_teaches_nothing(share: float) -> None:
    """Days without an event stand between such days; the event that comes is a page of its own."""
    rng = random.Random(3)
    rows = [
        page(
            f"{HOST}/cal?when={room}.{day}",
            f"event {room} {day}" if rng.random() < share else f"nothing in {room}",
        )
        for room in range(40)
        for day in range(100)
    ]
    rng.shuffle(rows)
    assert ranges(mine(rows[::2])) == []


def test_a_crawl_asks_for_more() -> None:
    """Numbers that came in the order of their pages look as if each page went on."""
    rows = board("a parameter")
    urls = {f"{HOST}/topic/{t}" for t in range(1, 8)}
    some = [row for row in rows if row.url.partition("?")[0] in urls]
    assert ranges(mine(some))
    assert ranges(mine(some, wary=True)) == []
    assert ranges(mine(rows, wary=True))


def test_no_secret_comes_into_a_table() -> None:
    """A topic that is read with a token is left out; its URLs stay themselves."""
    rows = [
        row._replace(url=row.url.replace("/topic/7?", "/topic/7?access_token=s3cr3tT0ken&"))
        for row in board("a parameter")
    ]
    found = ranges(mine(rows))
    assert found
    assert not any("token" in str(rule.as_dict()) for rule in found)


def rule(*table: str, by: str | None = "", support: int = 20) -> SiteRule:
    """Return a rule with this table."""
    return SiteRule(
        site="forum.example", kind="range-alias", slots="q:post", by=by, ranges=table,
        source="content", support=support,
    )  # fmt: skip


def test_a_longer_table_takes_the_place_of_a_shorter_one() -> None:
    """What a table says and more is enough; what two say differently stays in force twice."""
    old = rule("/t/1?post={} -20", "/t/2?post={} -9")
    new = rule("/t/1?post={} -25", "/t/2?post={} -9", "/t/3?post={} -9")
    assert joined([old], [new]) == [new]
    other = rule("/t/1?post={} -19", "/t/2?post={} -9")
    assert joined([old], [other]) == [old]
    apart = rule("/t/1?post={} -19", "/t/2?post={} -99")
    assert joined([old], [apart]) == [old, apart]
    assert joined([old], [rule("/t/1?post={} 1-20", by=None)])[0] == old


def test_a_refuted_table_does_not_come_back_longer() -> None:
    """What an audit refuted is the hypothesis: another table of it needs as many witnesses."""
    refuted = rule("/t/1?post={} -20")
    new = rule("/t/1?post={} -19", "/t/2?post={} -9", support=30)
    assert joined([], [new], {refuted.identity: 50}) == []
    assert joined([], [new], {refuted.identity: 30}) == [new]


def test_a_long_table_is_told_in_short() -> None:
    """The reason of a merge names a rule, not a thousand topics."""
    long = rule(*(f"/t/{t}?post={{}} -20" for t in range(1000)))
    assert "1000 in all" in str(long)
    assert len(str(long)) < 200


def changing() -> list[Observation]:
    """``ref`` means nothing; but three pages of 150 of one section change at each fetch."""
    rows = []
    for n in range(300):
        for ref in ("", f"?ref={n * 7 + 1}", f"?ref={n * 3 + 2}"):
            own = ref if n % 100 == 1 else ""
            rows.append(page(f"{HOST}/{'ab'[n % 2]}/{n}{ref}", f"{n}{own}"))
    return rows


def test_a_parameter_that_means_nothing_is_no_number_of_a_page() -> None:
    """Its values have no order: that a few pages change is not explained by one."""
    assert ranges(mine(changing())) == []


def test_a_rule_that_changing_pages_fence_off_is_shown_with_its_conflicts() -> None:
    """Whether these pages change by themselves, a person may say who knows them."""
    (proposed,) = mine(changing())
    assert (proposed.status, proposed.kind, proposed.param) == ("proposed", "drop-param", ("ref",))
    assert proposed.conflicts == 9
    assert "9 differ" in proposed.note
