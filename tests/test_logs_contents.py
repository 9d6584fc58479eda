"""The contents of our own logs: twins are one, what moves is left out."""

from __future__ import annotations

import io
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_rows import active
from scrapy.http import HtmlResponse

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.exceptions import LogFormatError
from scrapy_urlnorm.learning import evaluate
from scrapy_urlnorm.logs import contents as settle
from scrapy_urlnorm.logs import read_log
from scrapy_urlnorm.logs.page_identity import row_of

HOST = "https://wiki.example"
MENU = "<ul><li>Home</li><li>Recent changes</li><li>Random page</li></ul>"
FOOTER = "<footer>About this wiki</footer>"


def row(url, body, status=200, **more):
    """A row as CrawlLog writes it."""
    text = f"<title>Wiki</title>{body}"
    response = HtmlResponse(url, body=text.encode(), headers={"Content-Type": "text/html"})
    return {**row_of(response, url), "status": status, **more}


def site(pages):
    """A wiki whose pages all carry a menu and a footer."""
    return [
        row(f"{HOST}/page/{n}", f"{MENU}<p>This is page number {n}</p>{FOOTER}")
        for n in range(pages)
    ]


def written(tmp_path, rows):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def contents(tmp_path, rows):
    """Write a log, and read what content each URL has."""
    return {seen.url: seen.content for seen in read_log(written(tmp_path, rows))}


def test_order_of_lines_does_not_count(tmp_path):
    rows = [row(f"{HOST}/?C=N", "<p>a<br>b<br>b"), row(f"{HOST}/?C=D", "<p>b<br>b<br>a")]
    assert len(set(contents(tmp_path, rows).values())) == 1
    rows = [row(f"{HOST}/?C=N", "<p>a<br>b<br>b"), row(f"{HOST}/?C=D", "<p>b<br>a")]
    assert len(set(contents(tmp_path, rows).values())) == 2, "how often a word stands there does"


def test_walls_of_a_host_are_one_content(tmp_path):
    """What a login wall says around its form does not tell two of them apart."""
    wall = "<h1>Log in</h1><input type=password><p>Topic {}"
    rows = [row(f"{HOST}/t/{n}", wall.format(n)) for n in range(3)]
    assert set(contents(tmp_path, rows).values()) == {"wall"}


def test_damaged_blocks_are_a_bad_row(tmp_path):
    """A row whose blocks cannot be read is named once, by the pass that gives the rows."""
    path = written(tmp_path, [*site(2), {**site(1)[0], "blocks": 3}, *site(1)])
    with pytest.raises(LogFormatError, match="line 3: 'blocks' must be text, not 3"):
        list(read_log(path))
    reader = read_log(path, skip_bad=True)
    assert len(list(reader)) == 3
    assert reader.skipped == 1


def test_rows_of_files_are_named_by_their_bytes(tmp_path):
    """What is no HTML carries no lines, and its digest is its content."""
    image = {"url": f"{HOST}/a.png", "status": 200, "mime": "image/png", "digest": "7"}
    assert contents(tmp_path, [image, *site(2)])[image["url"]] == "7"


def manual(host, book, n):
    """A page of documentation: each book has a menu of its own."""
    menu = "".join(f"<li>{book} chapter {c}</li>" for c in range(5))
    return row(f"http://{host}/{book}/{n}", f"<ul>{menu}</ul><p>{book} section {n}</p>")


def mirrored():
    """Of a mirror mostly one book was fetched, of the original mostly another."""
    fetched = (("docs.test", 40, 90), ("www.docs.test", 40, 5))
    return [
        manual(host, book, n)
        for host, *sizes in fetched
        for book, size in zip("cd", sizes, strict=True)
        for n in range(size)
    ]


def test_mining_and_measuring_see_the_mirror(tmp_path):
    """The rule for the mirror is learned for all of it, and found to find every copy."""
    path = written(tmp_path, mirrored())
    rules = active(read_log(path))
    assert [rule.support for rule in rules] == [45]
    measured = evaluate(Normalizer(site_rules=rules), read_log(path))
    assert (measured.redundant, measured.found, measured.false_merges) == (45, 1.0, 0)


NAMES = st.sampled_from("abcdef")


@given(st.lists(st.tuples(NAMES, NAMES, st.text("AB", max_size=2)), max_size=12))
def test_equal_digests_are_equal_contents(rows):
    """Whatever the lines, one digest in common is enough, also by way of a third row."""
    named = [
        {"url": HOST, "status": 200, "digest": d, "bag_digest": b, "blocks": lines}
        for d, b, lines in rows
    ]
    contents = settle.Contents(lambda mark: named if not mark else [])
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
    monkeypatch.setattr(settle, "MAX_NAMES", 2)
    first, second, third, fourth = contents(tmp_path, rows).values()
    assert first == second
    assert third != fourth


# --- logs with pairs ------------------------------------------------------------------------------


def moving(n, visit):
    """A page whose box and footer are others at each fetch."""
    box = f"<div class=ad>{hex(7919 * visit)[2:]} {hex(104729 * visit)[2:]} offer</div>"
    return (
        f"<title>Item {n}</title>{MENU}<h1>Item {n}</h1><p>It is {'very ' * n}good</p>{box}"
        f"<footer>Seen {visit * 37} times</footer>"
    )


def restless(pages, *, pairs):
    """Each page under two URLs; *pairs* of them were fetched twice."""
    rows, visits = [], iter(range(1, 10**6))
    for n in range(pages):
        for query in ("", "?ref=top"):
            url = f"{HOST}/item/{n}{query}"
            rows.append(row(url, moving(n, next(visits))))
            if n < pairs:
                rows.append(row(url, moving(n, next(visits)), pair="at once"))
    return rows


def test_what_pairs_show_to_move_does_not_count(tmp_path):
    """Second fetches are no rows of their own, and tell what of all pages is left out."""
    rows = [row(f"{HOST}/about/{n}", f"{MENU}<p>All about {n}") for n in range(30)]
    seen = contents(tmp_path, [*rows, *restless(30, pairs=4)])
    seen = {url: content for url, content in seen.items() if "about" not in url}
    assert len(seen) == 60
    assert len(set(seen.values())) == 30
    assert all(seen[url] == seen[f"{url}?ref=top"] for url in seen if "?" not in url)


def test_without_pairs_every_page_is_another(tmp_path):
    assert len(set(contents(tmp_path, restless(30, pairs=0)).values())) == 60


def test_what_holds_still_in_pairs_is_content(tmp_path):
    rows = restless(30, pairs=4)
    price = "<p class=price>{} EUR</p>"
    rows += [row(f"{HOST}/item/40?c={c}", moving(40, 500 + c) + price.format(c)) for c in (1, 2)]
    seen = contents(tmp_path, rows)
    assert seen[f"{HOST}/item/40?c=1"] != seen[f"{HOST}/item/40?c=2"]


def test_what_tells_the_time_is_left_out_beside_its_neighbours(tmp_path, monkeypatch):
    """The news are the same on all pages at a time; a page of news is what it says."""
    rows = []
    for n in range(120):
        news = f"<div class=news>{'abcdefgh'[n // 15]} {'stuvwxyz'[n // 15]} happened</div>"
        text = f"<h1>Item {n % 60}</h1><p>It is {'very ' * (n % 60)}good</p>"
        rows.append(row(f"{HOST}/item/{n % 60}{'?ref=top' * (n >= 60)}", f"{text}{news}"))
        if n in (40, 64, 102):
            again = f"<h1>Item {n - 40}</h1><p>It is {'very ' * (n - 40)}good</p>{news}"
            rows += [row(f"{HOST}/item/{n - 40}", again, pair="late")]
    told = "<h1>News</h1><p>What there was to be told of the village</p>"
    texts = [f"{told}<div class=news>{n} {n * n} happened</div>" for n in range(4)]
    rows += [row(f"{HOST}/news/{n}", text) for n, text in enumerate(texts)]
    seen = contents(tmp_path, rows)
    data = (tmp_path / "log.jsonl").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))
    assert {row.url: row.content for row in read_log("-")} == seen  # it is read twice as well
    items = [url for url in seen if "/item/" in url and "?" not in url]
    assert sum(seen[url] == seen[f"{url}?ref=top"] for url in items) >= 55
    assert len({seen[url] for url in items}) == 60
    assert len({seen[f"{HOST}/news/{n}"] for n in range(4)}) == 4
