"""Evidence: the rows of a log by site, and what they say about its URLs."""

from __future__ import annotations

import random
import sqlite3
import tempfile
from collections import Counter

import pytest
import simulator
from hypothesis import example, given, settings
from hypothesis import strategies as st
from log_rows import active

from scrapy_urlnorm import Normalizer, SiteRule, normalize
from scrapy_urlnorm.domains import domain_or_host
from scrapy_urlnorm.learning import corpus, evaluate, evidence, mine, rows_by_site, survey
from scrapy_urlnorm.learning.corpus import (
    MAX_PARAMS,
    MAX_SEGMENTS,
    Corpus,
    Hasher,
    Item,
    Vocabulary,
    slots_of,
)
from scrapy_urlnorm.learning.evidence import gather, items_of, site_of
from scrapy_urlnorm.logs import Observation
from scrapy_urlnorm.url import split

PLAIN = Normalizer()


@given(st.text("aB.é:/?#@[]1 \n", max_size=30).map("http:".__add__))
@example("http://a.example")
@example("http://a.example?b=/c")
@example("x" * 300 + "://a.example/b")
@example("mailto:a?b=http://c.example/")
def test_the_site_is_that_of_the_host(url):
    """Whatever follows the host, and whatever is remembered of its beginning."""
    assert site_of(url) == domain_or_host((split(url).host or "").lower())


def test_values_of_a_repeated_parameter_are_in_order():
    """And each counts: a URL with too many is not learned from, however few names they have."""
    repeated = slots_of("http://a.example/?a=2&b=3&a=1")
    assert repeated == slots_of("http://a.example/?b=3&a=1&a=2")
    assert slots_of("http://a.example/?" + "a=1&" * MAX_PARAMS) is None
    assert slots_of("http://a.example" + "/a" * (MAX_SEGMENTS + 1)) is None
    assert slots_of("http://a.example" + "/a" * MAX_SEGMENTS) is not None


def test_a_corpus_leaves_the_evidence_as_it_is():
    """Two URLs of one form are one item; what was seen under each stays its own."""
    urls = ["http://a.example/x?a=1&a=2", "http://a.example/x?a=2&a=1"]
    rows = [Observation(url, 200, f"{n}") for n, url in enumerate(urls)]
    evidence, hasher = gather(rows, PLAIN.normalize), Hasher()
    corpus = Corpus(items_of(evidence, PLAIN.normalize, hasher), hasher)
    assert [item.contents for item in corpus.items] == [Counter([0, 1])]
    assert [evidence.urls[url] for url in urls] == [Counter([0]), Counter([1])]


def test_a_redirect_has_what_most_urls_of_its_target_show():
    """The target's key stands for all URLs that have it."""
    shown = {"b#1": "old", "b#2": "new", "b#3": "new"}
    rows = [Observation(f"http://a.example/{url}", 200, of) for url, of in shown.items()]
    rows += [Observation(f"http://a.example/{n}", 301, location="http://a.example/b") for n in "xy"]
    urls = gather(rows, PLAIN.normalize).urls
    assert urls["http://a.example/x"] == urls["http://a.example/y"] == Counter([0])  # "new"


def test_of_many_values_the_first_are_counted(monkeypatch):
    """However often they come; a value beyond them is not there."""
    monkeypatch.setattr(corpus, "_MAX_VALUES", 2)
    values = ["a", "b", "c", "d", *"dddd", "a", "a"]
    items = [
        Item({"host": "h", "q:x": value}, n, Counter([n]), n, "") for n, value in enumerate(values)
    ]
    vocabulary = Vocabulary(items)
    assert vocabulary._counted["q:x"] == {"a": 3, "b": 1, "c": 1}
    assert vocabulary.values["q:x"] == {"a"}


# --- Of a large site the learner looks at a part, and merges no more wrongly than with all


def item(path, content):
    """Return an item; only its URL and its content decide."""
    return Item({}, hash(path), Counter({content: 1}), content, f"http://a.example{path}")


def items():
    """Return pages alone, pages under two URLs, and beside one of these another content."""
    alone = [item(f"/alone/{n}?x={x}", 10 * n + x) for n in range(400) for x in range(2)]
    twins = [item(f"/twin/{n}{query}", 9_000 + n) for n in range(50) for query in ("", "?x=1")]
    beside = [item(f"/twin/{n}?x=2", 9_500 + n) for n in range(50)]
    return [*alone, *twins, *beside]


def test_all_urls_of_a_site_that_is_not_large_are_looked_at(monkeypatch):
    known = items()
    monkeypatch.setattr(evidence, "MOST", len(known))
    assert evidence.selected(known) is known


def test_what_shares_a_content_is_looked_at_with_its_whole_path(monkeypatch):
    """Of other paths a part is, all URLs of a path or none; the order decides nothing."""
    monkeypatch.setattr(evidence, "MOST", 100)
    known = items()
    found = [each.url for each in evidence.selected(known)]
    twins = [url for url in found if "/twin/" in url]
    paths = Counter(url.partition("?")[0] for url in found if "/alone/" in url)
    assert len(twins) == 150
    assert set(paths.values()) == {2}
    assert 20 < len(paths) < 100
    random.Random(1).shuffle(known)
    assert {each.url for each in evidence.selected(known)} == set(found)


def test_rules_of_a_part_are_those_of_the_whole(monkeypatch):
    """What a parameter selects on pages that share nothing still refutes it there."""
    pages = {f"/thread/{n}{query}": f"{n}" for n in range(60) for query in ("", f"?s={n % 5}")}
    pages |= {f"/list/{n}?s={s}": f"list {n} {s}" for n in range(300) for s in range(3)}
    pages |= {f"/news/{n}/story-{n}.html": f"news {n}" for n in range(500)}
    rows = [Observation(f"http://a.example{path}", 200, content) for path, content in pages.items()]
    whole = mine(rows)
    monkeypatch.setattr(evidence, "MOST", 100)
    part = mine(rows)
    assert [rule.said() for rule in part] == [rule.said() for rule in whole]
    assert [rule.param for rule in part if rule.active] == [("s",)]
    result = evaluate(Normalizer(site_rules=part), rows)
    assert (result.found, result.false_merges) == (1, 0)


def test_the_audit_looks_at_all(monkeypatch):
    """A rule that only URLs outside of the part refute is taken back."""
    pages = {f"/{a}/{n}": f"{n}" for n in range(60) for a in ("old", "new")}
    pages |= {f"/old/{n}": f"old {n}" for n in range(100, 400)}
    pages |= {f"/new/{n}": f"new {n}" for n in range(100, 400)}
    rows = [Observation(f"http://a.example{path}", 200, content) for path, content in pages.items()]
    monkeypatch.setattr(evidence, "MOST", 1)
    assert not active(rows)


HOSTS = ("a.example", "www.b.example", "b.example", "x--1.example", "é.example", "10.0.0.1", "日")


@pytest.fixture
def on_disk(monkeypatch):
    monkeypatch.setattr(rows_by_site, "_IN_MEMORY", 0)


def given_sites(rows):
    """Return what learning gets of a log."""
    with rows_by_site.by_site(rows) as sites:
        found = [(site, list(of)) for site, of in sites]
        assert len(sites) == len(found)
    return found


def simulated():
    """Yield the rows of a few simulated sites, each on a host of its own, one after the other."""
    kinds = ("gitweb", "shop", "calendar")
    sites = [list(simulator.observations(simulator.site(kind)))[::2] for kind in kinds]
    for at in range(max(map(len, sites))):
        for number, rows in enumerate(sites):
            if at < len(rows):
                row, host = rows[at], f"://s{number}."
                location = row.location and row.location.replace("://", host, 1)
                yield row._replace(url=row.url.replace("://", host, 1), location=location)


def test_disk_and_processes_give_the_same_reports(monkeypatch):
    """Rules, evidence, counts and the order of sites: all that is said of a log."""
    rows = list(simulated())
    known = list(survey(rows))
    assert sum(len(report.active) for report in known) > 3
    assert list(survey(rows, processes=2)) == known
    monkeypatch.setattr(rows_by_site, "_IN_MEMORY", 100)
    monkeypatch.setattr(rows_by_site, "_BATCH", 999)
    assert list(survey(rows)) == known
    assert list(survey(rows, processes=2)) == known


_TEXT = st.text("a1é日😀,;'\"\\\t\r\n\0\x85\u2028\udc80", max_size=9)
_ROWS = st.builds(
    Observation,
    url=st.builds("http://{}/{}".format, st.sampled_from(HOSTS), _TEXT),
    status=st.none() | st.integers(0, 999),
    content=st.none() | _TEXT,
    location=st.none() | _TEXT,
    canonical=st.none() | _TEXT,
    mime=st.none() | _TEXT,
)


@pytest.mark.usefixtures("on_disk")
def test_any_row_comes_back_from_disk_as_it_was():
    """Line ends, tabs, NUL and bytes that are no text included; sites and rows in their order."""

    @settings(deadline=None, max_examples=20)  # each makes a database
    @given(st.lists(_ROWS, min_size=1, max_size=20))
    def check(rows):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rows_by_site, "_IN_MEMORY", 99)
            known = given_sites(rows)
        assert given_sites(rows) == known

    check()


@pytest.mark.usefixtures("on_disk")
def test_the_longest_line_of_a_log_comes_back():
    """A line of 16 MiB, which is six times as long where it is kept."""
    row = Observation("http://a.example/", 200, "é" * 8 * 1024 * 1024)
    assert given_sites([row]) == [("a.example", [row])]


def test_a_giant_site_gives_the_same_sample_from_disk(monkeypatch):
    """All URLs of some paths; a smaller site beside it comes whole."""
    monkeypatch.setattr(evidence, "MAX_ROWS", 100)
    rows = [Observation(f"http://a.example/{n // 3}?x={n % 3}", 200, f"{n}") for n in range(600)]
    rows += [Observation(f"http://b.example/{n}", 200, f"{n}") for n in range(90)]
    known = dict(given_sites(rows))
    sample = {row.url.partition("?")[0] for row in known["a.example"]}
    assert known["a.example"] == [row for row in rows if row.url.partition("?")[0] in sample]
    assert 10 < len(sample) < 100
    assert len(known["b.example"]) == 90
    monkeypatch.setattr(rows_by_site, "_IN_MEMORY", 0)
    assert dict(given_sites(rows)) == known


@pytest.mark.usefixtures("on_disk")
def test_all_urls_of_a_key_are_in_one_part_of_a_log(monkeypatch):
    """However a host is written; of a giant site too, every row comes, and what names no host."""
    monkeypatch.setattr(evidence, "MAX_ROWS", 10)
    urls = ["http://127.0.0.1/a", "http://0x7f.1/a", "http://2130706433/a", "mailto:a@a.example"]
    urls += ["http://é.example/", "http://xn--9ca.example/", "http://b.example./"]
    urls += [f"http://b.example/{n}" for n in range(99)]
    rows = [Observation(url, 200, "a") for url in urls]
    with rows_by_site.by_key(rows, normalize) as parts:
        found = [list(of) for _, of in parts]
        assert [list(of) for _, of in parts] == found
    assert sorted(row for of in found for row in of) == sorted(rows)
    places = {row.url: at for at, of in enumerate(found) for row in of}
    assert len({places[url] for url in urls[:3]}) == 1
    assert places[urls[4]] == places[urls[5]]
    assert places["http://b.example/7"] not in (places[urls[0]], places[urls[3]], places[urls[4]])


def test_a_log_on_disk_measures_as_one_in_memory(monkeypatch):
    """Contents that several sites have count once, and are lost only if no site keeps them."""
    rule = SiteRule(site="a.example", kind="drop-param", param=["x"])
    normalizer = Normalizer(site_rules=[rule])
    rows = [Observation(f"http://a.example/{n}?x={x}", 200, f"{n}") for n in range(9) for x in "ab"]
    rows += [Observation(f"http://a.example/w?x={n}", 200, f"w{n}") for n in range(9)]
    rows += [Observation(f"http://b.example/{n}", 200, f"w{n}") for n in range(5)]
    rows += [Observation(f"http://c.example/{n}", 200, f"{n}") for n in range(2)]
    rows += [rows[0]._replace(content="later"), Observation("http://c.example/x", 404)]
    known = evaluate(normalizer, rows)
    assert known.false_merges == 8
    assert known.urls == 34
    assert known.lost == 4
    monkeypatch.setattr(rows_by_site, "_IN_MEMORY", 0)
    assert evaluate(normalizer, rows) == known


@pytest.mark.usefixtures("on_disk")
def test_a_disk_that_cannot_hold_the_rows_is_named(monkeypatch, tmp_path):
    """The error of the database is one line about a folder; nothing is left there."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    connect = sqlite3.connect

    def small(path):
        connection = connect(path)
        connection.execute("PRAGMA max_page_count = 10")
        return connection

    monkeypatch.setattr(sqlite3, "connect", small)
    with pytest.raises(OSError, match="the rows of the log: ") as raised:
        given_sites([Observation(f"http://a.example/{n}", 200, "a" * 9_000) for n in range(9)])
    assert raised.value.filename.startswith(str(tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("on_disk")
def test_nothing_stays_on_disk(monkeypatch, tmp_path):
    """Neither after the last site, nor after an error in the middle of a log or of its sites."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    row = Observation("http://a.example/", 200, "a")

    def broken():
        yield row
        raise ValueError("line 2")

    with rows_by_site.by_site([row]) as sites:
        assert [path.name[:13] for path in tmp_path.iterdir()] == ["urlnorm-mine-"]
        assert len(list(sites)) == 1
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="line 2"), rows_by_site.by_site(broken()):
        pass
    reports = survey([row, row._replace(url="http://b.example/")])
    next(reports)
    reports.close()
    assert not list(tmp_path.iterdir())
