"""What a page says about its names, read from its text."""

from __future__ import annotations

import pytest
from scrapy.http import HtmlResponse

from scrapy_urlnorm.logs import self_links
from scrapy_urlnorm.logs.self_links import MAX_NAMES, names_of

PAGE = "http://a.test/t/5?x=1"
#: The text of a page, and the links that it has to its own elements.
CASES = [
    ('<p id="9"><a href="?post=9#9">', ["http://a.test/t/5?post=9#9"]),
    ("<p id=9><a href=?post=9#9>", ["http://a.test/t/5?post=9#9"]),
    ("<a name='p9' HREF = '/t/5?a=1&amp;b=2#p9'>", ["http://a.test/t/5?a=1&b=2#p9"]),
    ('<b id="c-1"><a class=x href="//b.test/t#c-1" title=y>', ["http://b.test/t#c-1"]),
    ('<base href="/sub/"><p id=u><a href="m.html#u">', ["http://a.test/sub/m.html#u"]),
    (
        '<p id=a><a href="x#a"><a href="x#a"><a href="y#a">',
        ["http://a.test/t/x#a", "http://a.test/t/y#a"],
    ),
    ('<p id=9><a Href="x#9">', ["http://a.test/t/x#9"]),
    ('<a href=y><p id=9><A HREF="x#9">', ["http://a.test/t/x#9"]),
    ('<p id="9"><a href="#9">', []),  # a link within the page
    ("<p id='9'><a href='#9'>", []),
    ("<p id=9><a href=#9>", []),
    ("<p id=9><a href=' #9'>", []),
    ('<p id="fff"><a href="x" style="color:#fff">', []),  # no link
    ('<p id="8"><a href="?post=9#9">', []),  # no such element
    ('<p name="9"><a href="?post=9#9">', []),  # only an anchor is named by its name
    ('<p id="9"><img src="?post=9#9">', []),
    ('<p id="9">href="?post=9" #9 ', []),
    ('<p id="9"><a href="mailto:x#9">', []),
    ('<p id="9"><a href="http://[x#9">', []),
    ("", []),
    ("#9", []),
    ('#9"', []),
]


def response(text, **headers):
    return HtmlResponse(PAGE, body=text.encode(), encoding="utf-8", headers=headers)


@pytest.mark.parametrize(("text", "links"), CASES)
def test_permalinks(text, links):
    found, _ = names_of(response(text))
    assert [f"{url}#{name}" for url, name in found] == links


@pytest.mark.parametrize(
    ("text", "headers", "link"),
    [
        ('<head><link rel="shortlink" href="/?p=5">', {}, "http://a.test/?p=5"),
        ("<head><link href=/?p=5 rel='x shortlink'>", {}, "http://a.test/?p=5"),
        ("x", {"Link": "</?p=5>; rel=shortlink"}, "http://a.test/?p=5"),
        ("x", {"Link": '</a>; rel="next", </?p=5>; x=y; rel="shortlink"'}, "http://a.test/?p=5"),
        ("x", {"Link": ["</a>; rel=next", "</?p=5>; rel=shortlink"]}, "http://a.test/?p=5"),
        ("x", {"Link": "</a>; rel=next, </b>; rel=shortlinks"}, None),
        ("x", {"Link": "<http://[x>; rel=shortlink"}, None),
        ("<body><a rel=shortlink href=/?p=5>", {}, None),
        ("x", {}, None),
    ],
)
def test_shortlinks(text, headers, link):
    assert names_of(response(text, **headers))[1] == link


def test_the_work_of_a_hostile_page_is_bounded(monkeypatch):
    text = "".join(f'<p id="p{n}"><a href="?n={n}#p{n}">' for n in range(500))
    assert len(names_of(response(text))[0]) == MAX_NAMES
    monkeypatch.setattr(self_links, "_MAX_LINKS", 10)
    assert len(names_of(response(text))[0]) == 10
    assert names_of(response('<p id=9><a href="' + "=" * 100_000 + '#9">')) == ([], None)
