"""Rules that bring a table along: values that name one thing, and numbers of one page."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import simulator
from log_rows import page, taught_by

from scrapy_urlnorm import Normalizer, SiteRule, load_site_rules, save_site_rules
from scrapy_urlnorm.learning import evaluate, mine, value_tables
from scrapy_urlnorm.learning.corpus import Corpus, Hasher, Item, slots_of

# --- Values that name one thing: one rule for a site, and a table of what its log shows

HOST = "http://git.example"
VIEWS = ("log", "show", "diff", "patch", "stats")
#: How a page of a revision is written.
FORMS = {
    "a parameter": HOST + "/{p}?view={view}&rev={rev}",
    "a segment": HOST + "/{p}/{view}/{rev}",
    "a segment in front": HOST + "/{rev}/{view}?p={p}",
}


def revisions(form="a parameter", *, names=12):
    """Two projects, the same names of versions in both."""
    rows = []
    for p in ("core", "docs"):
        for n in range(60):
            told = [f"{n:x}a{n * 7:x}c{p[0]}"] + ([f"v{n}.0"] if n < names else [])
            for view in VIEWS:
                url = FORMS.get(form, form).format(p=p, view=view, rev="{}")
                rows += [page(url.format(rev), f"{view} {p} {n}") for rev in told]
    random.Random(form).shuffle(rows)
    return rows


def tables(rules):
    return [rule for rule in rules if rule.active and rule.operation.has_table]


def measured(rules, rows, path):
    """Return the share of *rows* that *rules* find through a rule file, none wrongly."""
    save_site_rules(path / "rules.toml", rules)
    loaded = load_site_rules(path / "rules.toml")
    assert set(loaded) == set(rules)
    result = evaluate(Normalizer("default", site_rules=loaded), rows)
    assert (result.false_merges, result.lost) == (0, 0)
    return result.found


def test_what_is_given_twice_tells_no_tables_apart(tmp_path):
    """A rule cannot say which of the projects it is. One table for both is right as well here."""
    rows = revisions(HOST + "/?f={p}&f=files&view={view}&rev={rev}")
    rules = mine(rows)
    assert [rule.operation.within for rule in rules] == [()]
    assert measured(rules, rows, tmp_path) == 1


@pytest.mark.parametrize("form", FORMS)
def test_names_of_one_revision_are_learned(form, tmp_path):
    """No pair of names is on enough pages to be proven alone; all of them together are."""
    rows = revisions(form)
    known = [row for n, row in enumerate(rows) if n % 5]
    rules = mine(known)
    (rule,) = tables(rules)
    assert len(rule.within) == 1
    assert measured(rules, rows, tmp_path) > 0.7


def test_what_the_log_does_not_show_twice_is_not_said():
    """Of a pair that was met on one page nothing is known, and of others nothing at all."""
    rows = revisions()
    once = [page(f"{HOST}/core?view=log&rev={rev}", "log core 77") for rev in ("v77.0", "77aa")]
    normalize = taught_by([*rows, *once]).normalize
    url = HOST + "/core?view=diff&rev="
    assert normalize(url + "v77.0") != normalize(url + "77aa")
    assert normalize(url + "v3.0") == normalize(url + "3a15cc")
    assert normalize(url + "v3.0") != normalize(url + "v4.0")
    docs = HOST + "/docs?view=diff&rev="
    assert normalize(docs + "v3.0") == normalize(docs + "3a15cd")


def candidates(rows, *names):
    """Return what could be so of some slots, whatever other rules would say."""
    numbers = {}
    hasher, items = Hasher(), []
    for row in rows:
        slots = slots_of(row.url)
        assert slots is not None
        number = numbers.setdefault(row.content, len(numbers))
        items.append(Item(slots, hasher.of(slots), Counter({number: 1}), number, row.url))
    op = value_tables.candidate(names, Corpus(items, hasher))
    return [] if op is None else [op]


def test_a_slot_that_a_page_ignores_names_nothing():
    """An article stands in every category, which says nothing about the categories."""
    categories = ("cars", "boats", "trains", "planes")
    rows = [page(f"{HOST}/{c}/{n}", f"article {n}") for n in range(60) for c in categories]
    assert candidates(rows, "s0") == []
    assert tables(mine(rows)) == []
    different = [page(f"{HOST}/{c}/{n}", f"{c[0]} {n}") for n in range(60) for c in categories]
    same = [page(f"{HOST}/{c}/{n}", f"c {n}") for n in range(60) for c in ("carts", "corals")]
    assert candidates([*different, *same], "s0")


def test_values_that_differ_somewhere_are_not_joined_by_a_third():
    """What is one with two others makes these no one thing: they were never seen to agree."""
    rows = revisions()
    shown = {
        "one": ("log", "show"),
        "two": ("diff", "patch"),
        "tip": ("log", "show", "diff", "patch"),
    }
    for rev, views in shown.items():
        rows += [page(f"{HOST}/core?view={view}&rev={rev}", f"{view} tip") for view in views]
    (rule,) = candidates(rows, "q:rev")
    assert sum("tip" in each for each in rule.values) == 1
    rows += [page(f"{HOST}/core?view=stats&rev={rev}", f"stats {rev}") for rev in ("one", "two")]
    (rule,) = candidates(rows, "q:rev")
    assert len(rule.values) == 24
    assert not any("tip" in each for each in rule.values)


def test_names_that_agree_by_chance_teach_nothing():
    """Small lists are the same in two orders, large ones are not."""
    rng = random.Random(4)
    rows = []
    for n in range(150):
        for order in ("name", "date", "size", "kind"):
            same = rng.random() < 0.4 and order != "kind"
            rows.append(page(f"{HOST}/d{n}?o={order}", f"{n}" if same else f"{n} {order}"))
    assert tables(mine(rows)) == []


def test_pages_of_a_list_are_no_names():
    """Behind the end of a list there is nothing, on whichever page of whichever list."""
    rows = [
        page(f"{HOST}/l{n}?view={view}&page={at}", f"{n} {view} {at if at < 3 else 'end'}")
        for n in range(60)
        for view in VIEWS
        for at in range(1, 6)
    ]
    assert candidates(rows, "q:page") == []
    assert tables(mine(rows)) == []


def test_a_kind_of_page_that_was_not_compared_is_left_alone():
    """An archive has the name inside: it is not the same under another one."""
    rows = revisions()
    rows += [page(f"{HOST}/core?view=zip&rev={n:x}a{n * 7:x}cc&f=1", f"zip {n}") for n in range(9)]
    rows += [page(f"{HOST}/core?view=zip&rev={n:x}&f=1", f"zip of {n}") for n in range(9, 20)]
    normalize = taught_by(rows).normalize
    url = HOST + "/core?view={}&rev={}&f=1"
    assert normalize(url.format("zip", "v3.0")) != normalize(url.format("zip", "3a15cc"))


def test_a_crawl_asks_for_more():
    """The first names may be those of pages that are empty still."""
    few, many = revisions(names=3), revisions()
    assert tables(mine(few))
    assert tables(mine(few, wary=True)) == []
    assert tables(mine(many, wary=True))


def test_no_secret_comes_into_a_table():
    """Of a parameter that gives access no value is written down; who else reads with one may."""
    rows = revisions()
    secret = [row._replace(url=row.url.replace("rev=", "access_token=s3cr3tT0ken")) for row in rows]
    assert tables(mine(secret)) == []
    beside = [row._replace(url=row.url + "&access_token=s3cr3tT0ken") for row in rows]
    found = tables(mine(beside))
    assert found
    assert not any("token" in str(rule.operation.write()) for rule in found)


def test_a_long_table_is_told_in_short():
    """The reason of a merge names a rule, not a thousand revisions."""
    values = [f"q:h=v{n} q:h={n:x}" for n in range(1000)]
    long = SiteRule(site="git.example", kind="value-alias", slots="q:h", values=values)
    assert "1000 in all" in str(long)
    assert len(str(long)) < 200


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_half_of_a_simulated_site_teaches_nothing_wrong(seed, tmp_path):
    """Some revisions have a name, some change nothing in a folder: only the first are one."""
    known, unseen = simulator.halves(simulator.site("revisions", seed))
    rules = mine(simulator.observations(known))
    assert tables(rules)
    measured(rules, simulator.observations(unseen), tmp_path)


# --- Which page holds number N: one rule for a site, and a table of what its log shows

FORUM = "http://forum.example"
#: How the URL of a post is written, and that of the first page of its topic.
POSTS = {
    "a parameter": (FORUM + "/topic/{t}?post={n}", FORUM + "/topic/{t}"),
    "a number inside a value": (FORUM + "/?topic={t}.msg{n}", FORUM + "/?topic={t}.0"),
    "a number inside a segment": (
        FORUM + "/b/topic,{t}.msg{n}.html",
        FORUM + "/b/topic,{t}.0.html",
    ),
}


def board(form, *, odd=0.0):
    """Topics of one to three pages; the numbers of their posts rise. Some posts are *odd*."""
    rng = random.Random(f"{form} 1")
    post, topic = POSTS[form]
    rows, number = [], 1000
    for t in range(1, 120):
        rows.append(page(topic.format(t=t), f"topic {t}, 0"))
        for at in range(rng.randint(3, 30)):
            number += rng.randint(1, 9)
            content = f"post {number}" if rng.random() < odd else f"topic {t}, {at // 10}"
            rows.append(page(post.format(t=t, n=number), content))
    rng.shuffle(rows)
    return rows


@pytest.mark.parametrize("form", POSTS)
def test_which_page_holds_a_post_is_learned(form, tmp_path):
    """From half of the URLs most of the others are found, through a rule file, none wrongly."""
    rows = board(form)
    known, unseen = rows[::2], rows[1::2]
    rules = mine(known)
    assert {rule.operation.by is None for rule in tables(rules)} == {True, False}
    assert measured(rules, unseen, tmp_path) > 0.45


def test_nothing_is_said_of_posts_that_the_log_does_not_show():
    """Beyond the last post seen, and between two pages, a post is itself."""
    form = POSTS["a parameter"][0]
    rows = [
        page(form.format(t=t, n=100 * t + n), f"topic {t}, {n // 10}")
        for t in range(1, 40)
        for n in range(0, 30, 3)
    ]
    normalize = taught_by(rows).normalize
    key = normalize(form.format(t=7, n=709))
    assert [normalize(form.format(t=7, n=700 + n)) == key for n in (0, 5, 9, 10, 11, 12, 40)] == (
        [True, True, True, False, False, False, False]
    )


@pytest.mark.parametrize("form", POSTS)
def test_odd_posts_teach_nothing(form):
    """Where one post in twenty has a page of its own, a post between two proves nothing."""
    assert tables(mine(board(form, odd=0.05))) == []


def test_numbers_without_order_teach_nothing():
    """Posts dealt out to pages at random stand between two of one page by chance only."""
    rng = random.Random(5)
    form = POSTS["a parameter"][0]
    rows = [
        page(form.format(t=t, n=n), f"topic {t}, {rng.randint(0, 2)}")
        for t in range(80)
        for n in rng.sample(range(1000), 12)
    ]
    assert tables(mine(rows)) == []


@pytest.mark.parametrize("share", [0.05, 0.015, 0.005])
def test_an_empty_calendar_teaches_nothing(share):
    """Days without an event stand between such days; the event that comes is a page of its own."""
    rng = random.Random(3)
    rows = [
        page(
            f"{FORUM}/cal?when={room}.{day}",
            f"event {room} {day}" if rng.random() < share else f"nothing in {room}",
        )
        for room in range(40)
        for day in range(100)
    ]
    rng.shuffle(rows)
    assert tables(mine(rows[::2])) == []


def test_no_token_comes_into_a_table_of_pages():
    """A topic that is read with a token is left out; its URLs stay themselves."""
    rows = [
        row._replace(url=row.url.replace("/topic/7?", "/topic/7?access_token=s3cr3tT0ken&"))
        for row in board("a parameter")
    ]
    found = tables(mine(rows))
    assert found
    assert not any("token" in str(rule.as_dict()) for rule in found)


def changing():
    """``ref`` means nothing; but three pages of 150 of one section change at each fetch."""
    rows = []
    for n in range(300):
        for ref in ("", f"?ref={n * 7 + 1}", f"?ref={n * 3 + 2}"):
            own = ref if n % 100 == 1 else ""
            rows.append(page(f"{FORUM}/{'ab'[n % 2]}/{n}{ref}", f"{n}{own}"))
    return rows


def test_a_parameter_that_means_nothing_is_no_number_of_a_page():
    """Its values have no order: that a few pages change is not explained by one."""
    assert tables(mine(changing())) == []


def test_a_rule_that_changing_pages_fence_off_is_shown_with_its_conflicts():
    """Whether these pages change by themselves, a person may say who knows them."""
    (proposed,) = mine(changing())
    assert (proposed.status, proposed.kind, proposed.param) == ("proposed", "drop-param", ("ref",))
    assert proposed.conflicts == 9
    assert "9 differ" in proposed.note
