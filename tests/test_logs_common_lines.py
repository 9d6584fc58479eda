"""The second look at our own logs: lines that stand on most pages of a host do not count."""

from __future__ import annotations

import io
import json
import sys
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.exceptions import LogFormatError
from scrapy_urlnorm.learning import evaluate, mine
from scrapy_urlnorm.logs import common_lines as settle
from scrapy_urlnorm.logs import read_log, twins
from scrapy_urlnorm.logs.page import identify

HOST = "https://wiki.example"
MENU = "<ul><li>Home</li><li>Recent changes</li><li>Random page</li></ul>"
FOOTER = "<footer>About this wiki</footer>"


def row(url, body, status=200):
    """A row as CrawlLog writes it."""
    page = identify(f"<title>Wiki</title>{body}", url)
    return {
        "url": url,
        "status": status,
        "mime": "text/html",
        "digest": blake2b(body.encode()).hexdigest(),
        "text_digest": page.text_digest,
        "bag_digest": page.bag_digest,
        "kind": page.kind,
        "lines": page.lines,
    }


def site(pages):
    """A wiki whose pages all carry a menu and a footer."""
    return [
        row(f"{HOST}/page/{n}", f"{MENU}<p>This is page number {n}</p>{FOOTER}")
        for n in range(pages)
    ]


def contents(tmp_path, rows):
    """Write a log, and read what content each URL has."""
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {seen.url: seen.content for seen in read_log(str(path))}


PRINTABLE = row(f"{HOST}/page/3?printable=yes", "<p>This is page number 3</p>")


@pytest.mark.parametrize("at", [0, 5, 30])
def test_a_printable_view_is_the_same_content(tmp_path, at):
    """Without menu and footer a page says what its printable view says, wherever the row stands."""
    rows = site(30)
    rows.insert(at, PRINTABLE)
    seen = contents(tmp_path, rows)
    assert seen[PRINTABLE["url"]] == seen[f"{HOST}/page/3"]
    assert len(set(seen.values())) == 30


def test_few_pages_decide_nothing(tmp_path):
    """With a handful of pages nobody knows which lines belong to the site."""
    assert len(set(contents(tmp_path, [*site(6), PRINTABLE]).values())) == 7


def test_another_host_has_its_own_lines(tmp_path):
    """What is furniture of one host may be the whole content of another."""
    other = row("https://other.example/", f"{MENU}<p>This is page number 3</p>{FOOTER}")
    seen = contents(tmp_path, [*site(30), PRINTABLE, other])
    assert seen[other["url"]] != seen[PRINTABLE["url"]]


def test_one_page_under_many_urls_is_not_the_site(tmp_path):
    """Lines are counted once a content: a trap of sessions does not turn its page into furniture."""
    trap = [row(f"{HOST}/search?sid={n}", f"{MENU}<p>No results</p>{FOOTER}") for n in range(100)]
    seen = contents(tmp_path, [*site(30), *trap, row(f"{HOST}/x", "<p>No results</p>")])
    assert seen[trap[0]["url"]] == seen[f"{HOST}/x"] == seen[trap[99]["url"]]
    assert seen[trap[0]["url"]] not in {seen[f"{HOST}/page/{n}"] for n in range(30)}


def test_pages_of_common_lines_alone_keep_them(tmp_path):
    """Two pages without anything of their own are still two pages when their text differs."""
    bare = [row(f"{HOST}/a", MENU), row(f"{HOST}/b", MENU + FOOTER)]
    seen = contents(tmp_path, [*site(30), *bare])
    assert seen[f"{HOST}/a"] != seen[f"{HOST}/b"]


def test_one_word_still_counts(tmp_path):
    """Pages that differ in one word of their own remain two."""
    rows = [
        *site(30),
        row(f"{HOST}/a", MENU + "<p>red</p>"),
        row(f"{HOST}/b", MENU + "<p>blue</p>"),
    ]
    seen = contents(tmp_path, rows)
    assert seen[f"{HOST}/a"] != seen[f"{HOST}/b"]


def test_lines_that_exclude_each_other_still_count(tmp_path):
    """Half of all pages are red, the others blue: which of the two a page is remains content."""
    rows = [
        row(f"{HOST}/{colour}/{n}", f"{MENU}<p>{colour}</p><p>number {n}</p>{FOOTER}")
        for n in range(20)
        for colour in ("red", "blue")
    ]
    assert len(set(contents(tmp_path, rows).values())) == 40


def test_order_of_lines_does_not_count(tmp_path):
    """A listing in another order is one content here as well."""
    rows = [row(f"{HOST}/?C=N", "<p>a<br>b<br>b"), row(f"{HOST}/?C=D", "<p>b<br>b<br>a")]
    assert len(set(contents(tmp_path, rows).values())) == 1
    rows = [row(f"{HOST}/?C=N", "<p>a<br>b<br>b"), row(f"{HOST}/?C=D", "<p>b<br>a")]
    assert len(set(contents(tmp_path, rows).values())) == 2, "how often a line stands there does"


def test_walls_of_a_host_are_one_content(tmp_path):
    """What a login wall says around its form does not tell two of them apart."""
    wall = "<h1>Log in</h1><input type=password><p>Topic {}"
    rows = [row(f"{HOST}/t/{n}", wall.format(n)) for n in range(3)]
    assert set(contents(tmp_path, rows).values()) == {"wall"}


def test_errors_do_not_decide(tmp_path):
    """Only pages say what most pages have: a thousand 404s do not make their text furniture."""
    gone = [row(f"{HOST}/gone/{n}", f"<p>Gone</p><p>{n}</p>", status=404) for n in range(100)]
    rows = [*gone, *site(12), row(f"{HOST}/a", "<p>Gone</p><p>x"), row(f"{HOST}/b", "<p>x")]
    seen = contents(tmp_path, rows)
    assert seen[f"{HOST}/a"] != seen[f"{HOST}/b"]


def test_standard_input_is_read_twice_as_well(tmp_path, monkeypatch):
    """A log that is piped gives the contents that its file gives."""
    rows = [*site(30), PRINTABLE]
    expected = contents(tmp_path, rows)
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(data)))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert {seen.url: seen.content for seen in read_log("-")} == expected


def test_memory_is_bounded(tmp_path, monkeypatch):
    """Hosts beyond the bound keep all their lines instead of filling the memory."""
    monkeypatch.setattr(settle, "MAX_LINES", 3)
    first = row("https://first.example/", "<p>a<br>b<br>c<br>d")
    seen = contents(tmp_path, [first, *site(30), PRINTABLE])
    assert seen[PRINTABLE["url"]] != seen[f"{HOST}/page/3"]


def test_a_host_that_is_done_makes_room_for_the_next(tmp_path, monkeypatch):
    """Lines are held once each, and only until enough pages of their host were counted."""
    monkeypatch.setattr(settle, "MAX_LINES", 60)
    monkeypatch.setattr(settle, "PAGES", 30)
    first = [{**r, "url": r["url"].replace("wiki", "first")} for r in site(30) * 2]
    seen = contents(tmp_path, [*first, *site(30), PRINTABLE])
    assert seen[PRINTABLE["url"]] == seen[f"{HOST}/page/3"]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [(3, "8 characters"), ("AAAA", "8 characters"), ("!" * 8, "8 characters"), ("é" * 8, "base64")],
)
def test_damaged_lines_are_a_bad_row(tmp_path, lines, reason):
    """A row whose lines cannot be read is named once, by the pass that gives the rows."""
    path = tmp_path / "log.jsonl"
    path.write_text(
        "".join(json.dumps(r) + "\n" for r in [*site(2), {**PRINTABLE, "lines": lines}, *site(1)])
    )
    with pytest.raises(LogFormatError, match=f"line 3: .*{reason}"):
        list(read_log(str(path)))
    reader = read_log(str(path), skip_bad=True)
    assert len(list(reader)) == 3
    assert reader.skipped == 1


def test_rows_of_files_are_named_by_their_bytes(tmp_path):
    """What is no HTML carries no lines, and its digest is its content."""
    image = {
        "url": f"{HOST}/a.png",
        "status": 200,
        "mime": "image/png",
        "digest": "7",
        "lines": None,
    }
    assert contents(tmp_path, [image, *site(2)])[image["url"]] == "7"


def manual(host, book, n):
    """A page of documentation: each book has a menu of its own."""
    menu = "".join(f"<li>{book} chapter {c}</li>" for c in range(5))
    return row(f"http://{host}/{book}/{n}", f"<ul>{menu}</ul><p>{book} section {n}</p>")


def mirrored():
    """Of a mirror mostly one book was fetched, of the original mostly another."""
    bare = [
        manual("docs.test", book, n) for book, size in (("c", 40), ("d", 90)) for n in range(size)
    ]
    www = [
        manual("www.docs.test", book, n)
        for book, size in (("c", 40), ("d", 5))
        for n in range(size)
    ]
    return [*bare, *www]


def test_a_mirror_has_the_contents_of_its_original(tmp_path):
    """Byte-identical pages are one content although other lines are common on each host."""
    rows = mirrored()
    seen = contents(tmp_path, rows)
    assert {url for url in seen if "www." in url} == {
        url for url in seen if "www." in url and seen[url] == seen[url.replace("www.", "")]
    }
    assert len(set(seen.values())) == 130


def test_mining_and_measuring_see_the_mirror(tmp_path):
    """The rule for the mirror is learned for all of it, and found to find every copy."""
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in mirrored()))
    rules = [rule for rule in mine(read_log(str(path))) if rule.active]
    assert [rule.support for rule in rules] == [45]
    measured = evaluate(Normalizer(site_rules=rules), read_log(str(path)))
    assert (measured.redundant, measured.found, measured.false_merges) == (45, 1.0, 0)


def test_equal_bytes_are_one_content(tmp_path):
    """The original prints its address, the mirror the original's: one text is a line longer."""
    body = "<p>Permalink: https://wiki.example/p/7</p><p>Text</p>"
    rows = [row(f"{HOST}/p/7", body), row("https://www.wiki.example/p/7", body)]
    assert rows[0]["bag_digest"] != rows[1]["bag_digest"]
    assert len(set(contents(tmp_path, [*site(12), *rows]).values())) == 13


def test_equal_words_are_one_content(tmp_path):
    """A listing in one block is the same in another order, although its line is another."""
    rows = [row(f"{HOST}/?C=N", "<pre>a\nb</pre>"), row(f"{HOST}/?C=D", "<pre>b\na</pre>")]
    assert rows[0]["lines"] != rows[1]["lines"]
    assert len(set(contents(tmp_path, [*site(12), *rows]).values())) == 13


def test_equal_bytes_on_two_sites_have_nothing_to_do_with_each_other(tmp_path):
    """What is common on one site leaves the names of another alone."""
    body = f"{MENU}<p>This is page number 3</p>{FOOTER}"
    rows = [row("https://other.example/", body), row("https://other.example/2", f"{body} ")]
    assert rows[0]["digest"] != rows[1]["digest"]
    for order in (rows, rows[::-1]):
        seen = contents(tmp_path, [*site(30), *order])
        assert seen[rows[0]["url"]] == seen[rows[1]["url"]] != seen[f"{HOST}/page/3"]


NAMES = st.sampled_from("abcdef")


@given(st.lists(st.tuples(NAMES, NAMES, st.text("AB", max_size=2)), max_size=12))
def test_equal_digests_are_equal_contents(rows):
    """Whatever the lines, one digest in common is enough, also by way of a third row."""
    named = [
        {"url": HOST, "status": 200, "digest": d, "bag_digest": b, "lines": lines * 8}
        for d, b, lines in rows
    ]
    contents = settle.Contents()
    for each in named:
        contents.add(each)
    contents.finish()
    for one, name in [(one, contents.of(one)) for one in named]:
        for other in named:
            if one["digest"] == other["digest"] or one["bag_digest"] == other["bag_digest"]:
                assert contents.of(other) == name


def test_the_names_that_are_remembered_are_bounded(tmp_path, monkeypatch):
    """Beyond the bound rows are compared by their lines, and known twins stay twins."""
    body = "<p>Permalink: https://wiki.example/p/{}</p><p>Text {}</p>"
    rows = [
        row(f"https://{www}wiki.example/p/{n}", body.format(n, n))
        for n in (7, 8)
        for www in ("", "www.")
    ]
    monkeypatch.setattr(twins, "MAX_NAMES", 2)
    monkeypatch.setattr(settle, "MAX_NAMES", 2)
    first, second, third, fourth = contents(tmp_path, rows).values()
    assert first == second
    assert third != fourth
