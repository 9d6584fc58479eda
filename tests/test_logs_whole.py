"""What of two pages is compared, and as what."""

from __future__ import annotations

import pytest
from compared_pages import ONE, TWO, at, key_of, page

from scrapy_urlnorm.logs.comparison import is_same
from scrapy_urlnorm.logs.echoes import Echoes
from scrapy_urlnorm.logs.nodes import with_chosen, without_carried

# What two pages show, and whether they are the same.
CHOICE = f'<input type={{}} value="{ONE.partition("?")[0]}?sort={{}}">'
CASES = {
    "text": ("<p>a b", "<p>a b", True),
    "blanks": ("<p>a  b\n", "<p> a b", True),
    "another text": ("<p>a b", "<p>a c", False),
    "what is set in bold": ("<p><b>a</b> b", "<p>a <b>b</b>", False),
    **{
        f"an entry is marked: {to}": (
            f"<li><u id=at>a</u><li>a <a href={to}>go</a>",
            f"<li>a<li><u id=at>a</u> <a href={to}>go</a>",
            to == "/x#at",
        )
        for to in ("/x#at", "#at", f"{ONE}#at", "/list/#at", "/x#on", "/x")
    },
    "what was sought is set in bold": ("<p><b>up</b> down", "<p>up <b>down</b>", True),
    "which link is set in bold": (
        '<p><b><a href="/a">a</a></b> <a href="/b">b</a>',
        '<p><a href="/a">a</a> <a href="/b"><b>b</b></a>',
        True,
    ),
    "what is set in another size": ("<p><font>a</font> b", "<p>a <small>b</small>", True),
    "what is struck out": ("<p><b>a</b>", "<p><del>a</del>", False),
    "words in another order": (
        "<p>from <b>a</b> to <b>b</b>",
        "<p>from <b>b</b> to <b>a</b>",
        False,
    ),
    "cells in another order": ("<table><td>a<td>b", "<table><td>b<td>a", False),
    "a link": ('<a href="/a">go</a>', '<a href="/b">go</a>', False),
    "a link under one cluster key": ('<a href="?sort=a">go</a>', '<a href="?sort=b">go</a>', True),
    "a place on a page": ('<a href="/a#x">go</a>', '<a href="/a#y">go</a>', False),
    "a picture": ('<img src="/red.png">', '<img src="/green.png">', False),
    "a lazy picture": ('<img data-original="/a.png">', '<img data-original="/b.png">', False),
    "a set of pictures": ('<img srcset="/a.png 1x">', '<img srcset="/b.png 1x">', False),
    "a background": (
        '<i style="color:red;background:url(/a.png)"></i>',
        "<i style=\"background:url('/b.png')\"></i>",
        False,
    ),
    "layout": ('<p class="a" id="b" style="display: none">t', '<p class="c" id="d">t', True),
    "a stylesheet": (
        '<link rel=stylesheet href="/a.css"><p>t',
        '<link rel="alternate stylesheet" href="/b.css"><p>t',
        True,
    ),
    "which entry of a menu is current": ("<li aria-current=page>t", "<li>t", True),
    "the entry of a menu for the page itself is no link": (
        '<li><a aria-current="true">up</a><li><a href="/list?sort=down">down</a>',
        '<li><a href="/list?sort=up">up</a><li><a aria-current="true">down</a>',
        True,
    ),
    "an entry of a menu for another page is no link": (
        '<li><a>up</a><li><a href="/down">down</a>',
        '<li><a href="/up">up</a><li><a>down</a>',
        False,
    ),
    "a link to a place on the page itself": ('<a href="#x">t</a>', "<a>t</a>", False),
    "whether a part of it is open": (
        '<input type=checkbox style="display:none" checked>t',
        '<input type=checkbox style="display:none">t',
        True,
    ),
    "whether a task is done": ("<input type=checkbox checked>t", "<input type=checkbox>t", False),
    "what a form sends though nobody sees it": (
        "<input type=checkbox name=a hidden checked>t",
        "<input type=checkbox name=a hidden>t",
        False,
    ),
    "a chart": ('<p style="width:30%">t', '<p style="width:80%">t', False),
    "data of a script": ("<script>state={a:1}</script>", "<script>state={a:2}</script>", False),
    "an attribute of data": ('<p data-price="12">t', '<p data-price="13">t', False),
    "what a click does": ('<p onclick="go(1)">t', '<p onclick="go(2)">t', False),
    "content of meta": (
        '<meta itemprop="x" content="1">',
        '<meta itemprop="x" content="2">',
        False,
    ),
    "hidden text": ("<p hidden>a", "<p hidden>b", False),
    "text not displayed": ('<p style="display:none">a', '<p style="display:none">b', False),
    "a template": ("<template><p>a</template>", "<template><p>b</template>", False),
    "noscript": ("<noscript>a</noscript>", "<noscript>b</noscript>", False),
    "a drawing": ("<svg><text>a</text></svg>", "<svg><text>b</text></svg>", False),
    "a comment": ("<p>t<!-- a -->", "<p>t<!-- b -->", False),
    "text after a comment": ("<p><!-- a -->t", "<p><!-- a -->u", False),
    "the value of a field": ('<input name="a" value="1">', '<input name="a" value="2">', False),
    "its own URL": (f"<p>see {ONE}", f"<p>see {TWO}", True),
    "its own path": ("<p>see /list?sort=up now", "<p>see /list?sort=down now", True),
    "its own URL in a script": (
        '<script>{"u":"http:\\/\\/shop.test\\/list?sort=up"}</script>',
        '<script>{"u":"http:\\/\\/shop.test\\/list?sort=down"}</script>',
        True,
    ),
    "its own query in a script": (
        '<script>push([1,"\\"q\\":\\"?sort=up\\",\\"c\\":\\"list?sort=up\\""])</script>',
        '<script>push([1,"\\"q\\":\\"?sort=down\\",\\"c\\":\\"list?sort=down\\""])</script>',
        True,
    ),
    "its own query as JSON": (
        '<script>{"query":{"sort":"up","n":1},"page":"/list"}</script>',
        '<script>{"query":{"n":1,"sort":"down"},"page":"/list"}</script>',
        True,
    ),
    "its own query as JSON in a text": (
        '<script>push([1,"__PAGE__?{\\"sort\\":\\"up\\"}"])</script>',
        '<script>push([1,"__PAGE__"])</script>',
        True,
    ),
    "its own query in an attribute": (
        """<p data-page='{"url":"\\/list?sort=up","query":{"sort":"up"}}'>t""",
        """<p data-page='{"url":"\\/list?sort=down","query":{"sort":"down"}}'>t""",
        True,
    ),
    "its own query as code, or nothing": (
        '<script>start({path:"\\u002Flist?sort=up",sort:"up"})</script>',
        '<script>start({path:"\\u002Flist?sort=down",sort:null})</script>',
        True,
    ),
    "its own query with each sign of it escaped": (
        """<p onclick="go('\\u003Fsort\\u003Dup')">t""",
        """<p onclick="go('\\u003Fsort\\u003Ddown')">t""",
        True,
    ),
    "another query with each sign of it escaped": (
        """<p onclick="go('\\u003Fa\\u003D1')">t""",
        """<p onclick="go('\\u003Fa\\u003D2')">t""",
        False,
    ),
    "another name in JSON": (
        '<script>{"resort":"up"}</script>',
        '<script>{"resort":"down"}</script>',
        False,
    ),
    "another value in JSON": (
        '<script>{"sort":"upper"}</script>',
        '<script>{"sort":"lower"}</script>',
        False,
    ),
    "a number in JSON": ('<script>{"sort":1}</script>', '<script>{"sort":2}</script>', False),
    "a link in a script": ('<script>go("/a?sort=a")</script>', "<script>go('/b')</script>", False),
    "a link under one cluster key in a script": (
        '<script>go("/a?sort=a")</script>',
        '<script>go("/a?sort=b")</script>',
        True,
    ),
    "where a click leads": (
        """<p onclick="go('/a?sort=a')">t""",
        """<p onclick="go('/a?sort=b')">t""",
        True,
    ),
    "a query to which a click leads": (
        """<p onclick="location='?sort=a&n=1'">t""",
        """<p onclick="location='?sort=b&n=1'">t""",
        True,
    ),
    "another query to which a click leads": (
        """<p onclick="location='?n=1&sort=a'">t""",
        """<p onclick="location='?n=2&sort=a'">t""",
        False,
    ),
    "a piece of a query in code": (
        "<p onclick=\"go('?sort='+a)\">t",
        "<p onclick=\"go('?sort='+b)\">t",
        False,
    ),
    "where to come back to": (
        '<input value="%2Flist%3Fsort%3Dup">',
        '<input value="%2Flist%3Fsort%3Ddown">',
        True,
    ),
    "its own URL in another one": (
        '<input value="http://x.test/?u=%2Flist%3Fsort%3Dup&t=1">',
        '<input value="http://x.test/?u=%2Flist%3Fsort%3Ddown&t=1">',
        True,
    ),
    "a picture below its own URL": (
        '<img src="/list?sort=up&raw=1">',
        '<img src="/list?sort=down&raw=1">',
        False,
    ),
    "a file named as itself": ("<p>see /list?sort=up.zip", "<p>see /list?sort=down.zip", False),
    "what it declares as its URL": (
        '<link rel="canonical" href="/a"><meta property="og:url" content="/a">',
        '<link rel="canonical" href="/b"><meta property="og:url" content="/b">',
        True,
    ),
    "a form that carries on what the page has": (
        '<form action="/find"><input type=hidden name=sort value=up><input name=q></form>',
        '<form action="/find"><input type=hidden name=sort value=down><input name=q></form>',
        True,
    ),
    "a form that carries it on, or not": (
        '<form action="/find"><input name=q></form>',
        '<form action="/find"><input type=hidden name=sort value=down><input name=q></form>',
        True,
    ),
    "a form that leads to the page itself": (
        "<form><input type=hidden name=sort value=up></form>",
        "<form><input type=hidden name=sort value=down></form>",
        True,
    ),
    "a form that sends something else": (
        '<form action="/find"><input type=hidden name=item value=1></form>',
        '<form action="/find"><input type=hidden name=item value=2></form>',
        False,
    ),
    "a form that posts what the page has": (
        '<form action="/buy" method=post><input type=hidden name=sort value=up></form>',
        '<form action="/buy" method=post><input type=hidden name=sort value=down></form>',
        False,
    ),
    "a hidden field of no form": (
        '<form action="/find"></form><input type=hidden name=sort value=up>',
        '<form action="/find"></form><input type=hidden name=sort value=down>',
        False,
    ),
    "a form that leads to another page": (
        '<form action="/a"><input type=hidden name=sort value=up></form>',
        '<form action="/b"><input type=hidden name=sort value=down></form>',
        False,
    ),
    "a choice that a link has too": (
        '<input value="/a?sort=a#"><a href="/a?sort=a">go</a>',
        '<input value="/a?sort=b#"><a href="/a?sort=b">go</a>',
        True,
    ),
    "a choice that no link has": (
        '<input value="/a?sort=a#"><a href="/b">go</a>',
        '<input value="/a?sort=b#"><a href="/b">go</a>',
        False,
    ),
    **{
        f"a choice in the list itself: {kind}": (
            CHOICE.format(kind, "a"),
            CHOICE.format(kind, "b"),
            kind != "text",
        )
        for kind in ("radio", "checkbox", "hidden", "text")
    },
    "a choice in the list itself, with a slash": (
        CHOICE.replace("?", "/?").format("radio", "a"),
        CHOICE.replace("?", "/?").format("radio", "b"),
        True,
    ),
    "what a script asks for, and a link leads to": (
        '<pre data-log="/a?sort=a">t</pre><a href="/a?sort=a">go</a>',
        '<pre data-log="/a?sort=b">t</pre><a href="/a?sort=b">go</a>',
        True,
    ),
    "what a script alone asks for": (
        '<pre data-log="/a?sort=a">t</pre><a href="/b">go</a>',
        '<pre data-log="/a?sort=b">t</pre><a href="/b">go</a>',
        False,
    ),
    "an attribute named as what is chosen": (
        "<p chosen='sort=up'>t",
        "<p chosen='sort=down'>t",
        False,
    ),
    "a picture that a link has too": (
        '<a href="/a.png?sort=a"><img data-original="/a.png?sort=a"></a>',
        '<a href="/a.png?sort=b"><img data-original="/a.png?sort=b"></a>',
        False,
    ),
    "a link that is no URL": ('<a href="//[/x">go</a>', '<a href="//[/x">go</a>', True),
}


@pytest.mark.parametrize("name", CASES)
def test_what_two_pages_have_to_have_in_common(name):
    one, two, said = CASES[name]
    assert is_same(page(two, TWO), [page(one)], key_of) is said


def test_what_a_set_of_pictures_says_of_their_size_is_no_address():
    """So it does not depend on the URL, and it counts."""
    sizes = "/a.png 1.5x, /b.png 800w"
    one, two, other = (
        at(path, f'<img srcset="{said}">')
        for path, said in (("/a", sizes), ("/x/b", sizes), ("/a", sizes.replace("1.5x", "2x")))
    )
    assert is_same(two, [one], lambda url: url)
    assert not is_same(other, [one], lambda url: url)


@pytest.mark.parametrize(
    ("base", "said"), [("", False), ('<base href="/x/">', True)], ids=["relative", "a base"]
)
def test_relative_links_depend_on_the_url(base, said):
    """At ``/a/``, ``part`` is another page than at ``/a`` (RFC 3986, section 5.2)."""
    one, two = (at(path, f'{base}<a href="part">go</a>') for path in ("/a", "/a/"))
    assert is_same(two, [one], lambda url: url) is said


#: Links of two pages, the ends of their URLs, and whether the second links to what the first does.
CARRIED = {
    "to the page itself": (("/list?page=2&n=2", "/list?page=2"), ("?n=2", ""), True),
    "of two values": (("/list?n=2&page=2", "/list?n=9&page=2"), ("?n=2", "?n=9"), True),
    "to another page": (("/item?n=2", "/item"), ("?n=2", ""), True),
    "back to where it says": (("/list?p=7", "/a b"), ("?to=/list?p%3D7", "?to=%2Fa+b"), True),
    "to log in": (("/login?to=%2Flist%3Fn%3D2", "/login?to=%2Flist"), ("?n=2", ""), True),
    "with its query": (("/item?list=n%3D2", "/item?list=n%3D3"), ("?n=2", "?n=3"), True),
    "with its query, which the other has not": (("/item?list=n%3D2", "/item"), ("?n=2", ""), True),
    "with a part of its query": (("/item?list=n%3D2", "/item"), ("?a=1&n=2", "?a=1"), True),
    "with more than its query": (("/item?list=n%3D2%26b%3D1", "/item"), ("?n=2", ""), False),
    "to log in elsewhere": (("/login?to=%2Fa", "/login?to=%2Fb"), ("?n=2", ""), False),
    "back to a bad host": (("/list?p=7", "/list?p=8"), ("?to=http://[x", "?to="), False),
    "back to elsewhere": (("/list?p=7", "/list?p=8"), ("?to=/list?p%3D8", "?to=/list"), False),
    "to the next page": (("/list?page=3", "/list?page=4"), ("?page=2", "?page=3"), False),
    "after a semicolon": (("/list?n=2;page=2", "/list?page=2"), ("?a=1;n=2", "?a=1"), True),
    "in the path": (("/list/a/x.gz", "/list/b/x.gz"), ("/a/T", "/b/T"), True),
    "in the path with a slash": (("/list/a/x.gz", "/list/b/x.gz"), ("/a/T/", "/b/T"), True),
    "in the name of a file": (("/list/a.zip", "/list/b.zip"), ("/a", "/b"), True),
    "in a name that begins like it": (("/list/ab.zip", "/list/bb.zip"), ("/a", "/b"), False),
    "to the next page in the path": (("/list/3/T", "/list/4/T"), ("/2/T", "/3/T"), False),
    "in another place of the path": (("/a/list/x.gz", "/b/list/x.gz"), ("/a/T", "/b/T"), False),
    "of a path of another length": (("/list/a/x.gz", "/list/b/x.gz"), ("/a/T", "/b"), False),
}


@pytest.mark.parametrize(("links", "ends", "said"), CARRIED.values(), ids=CARRIED)
def test_what_a_page_carries_on(links, ends, said):
    one, two = (
        at(f"/list{end}", f'<a href="{link.replace("&", "&amp;")}">go</a>')
        for link, end in zip(links, ends, strict=True)
    )
    assert not is_same(one, [two], lambda url: url)
    for is_known in (True, False):
        key_of = without_carried(one.url, two.url, lambda url: url, lambda _, said=is_known: said)
        assert is_same(one, [two], key_of) is (said and is_known)


LIST = "<select name={}><option {}>up<option value=down {}>sinking</select>"
#: What two lists have chosen, and whether that tells pages apart: not of a parameter of their URLs.
LISTS = {
    "of the URL": (LIST.format("sort", "selected", ""), LIST.format("sort", "", "selected"), True),
    "another": (LIST.format("by", "selected", ""), LIST.format("by", "", "selected"), False),
    "nothing": (LIST.format("by", "", ""), LIST.format("by", "", "selected"), False),
    "both": (LIST.format("by", "selected", "selected"), LIST.format("by", "", "selected"), False),
    "the same": (LIST.format("by", "", "selected"), LIST.format("by", "", "selected"), True),
    "a list without a name": ("<select><option>a", "<select><option selected>a", False),
    "other choices": ("<select name=sort><option>a", "<select name=sort><option>b", False),
    "none of a list": ("<option selected>a", "<option>a", False),
    "after a list": (
        "<select name=sort></select><option selected>a",
        "<select name=sort></select><option>a",
        False,
    ),
}


@pytest.mark.parametrize(("one", "two", "said"), LISTS.values(), ids=LISTS)
def test_what_a_list_has_chosen(one, two, said):
    assert is_same(page(two, TWO), [page(one)], key_of) is said


#: What the list of a page without the parameter has chosen, how its links say that, and whether it
#: is what a page with ``?h=down`` has in its place.
DEFAULTS = [
    ("selected", "/log?h=up", "/log?h=down", True),
    ("selected", "/log?h=old", "/log?h=down", False),
    ("", "/log?h=up", "/log?h=down", False),
    ("selected", "/log", "/log?h=down", True),
]


@pytest.mark.parametrize(("chosen", "link", "other", "said"), DEFAULTS)
def test_a_page_may_say_in_links_what_it_has_chosen(chosen, link, other, said):
    one, two = (
        at(f"/tree{end}", f'{LIST.format("h", *choice)}<a href="{to}">go</a>')
        for end, choice, to in (("", (chosen, ""), link), ("?h=down", ("", "selected"), other))
    )
    assert with_chosen(two, one.url) == two.url
    url = with_chosen(one, two.url)
    assert url == one.url + ("?&h=up" if chosen else "?&h=")
    key_of = without_carried(two.url, url, lambda url: url, lambda _: True)
    assert is_same(two, [one], key_of) is said


def test_a_number_in_bold_is_not_what_was_sought():
    body, base = "<p><strong>1</strong> result", ONE.partition("?")[0]
    assert is_same(page(body, f"{base}?page=1"), [page(body, base)], key_of)


def test_a_form_with_a_field_that_is_the_default_is_the_same_at_both_urls():
    body = '<form action="/find"><input type=hidden name=sort value=up><input name=q></form>'
    base = ONE.partition("?")[0]
    assert is_same(page(body, f"{base}?sort=up"), [page(body, base)], key_of)


def test_a_script_may_say_the_default_that_the_url_of_another_page_says():
    body, base = '<script>{"query":{"sort":"up"}}</script>', ONE.partition("?")[0]
    assert is_same(page(body, f"{base}?sort=up"), [page(body, base)], key_of)
    assert is_same(
        page("<script>{}</script>", base), [page('<script>{"sort":"up"}</script>')], key_of
    )


def test_a_script_may_say_where_the_page_leads_back_to():
    one, two = (at(f"/login?to={to}", f'<script>{{"to":"{to}"}}</script>') for to in ("/a", "/b"))
    assert is_same(one, [two], lambda url: url)


def test_an_address_does_not_grow_with_the_fields_of_its_form():
    field = "<input type=hidden name=a value=b>"
    body = f'<form action="/find">{field * 10_000}</form>'
    assert max(len(node.value) for node in page(body).nodes) < 2_100


@pytest.mark.parametrize(
    ("links", "said"),
    [
        (("#top", "#top"), True),
        (("/b", "/b"), True),
        (("/b", "/a"), True),
        (("#top", "#end"), False),
        (("/b", "/c"), False),
    ],
)
def test_pages_that_are_one_link_to_themselves(links, said):
    """No rule need make their URLs one: a permalink names one page."""
    one, two = map(at, ("/a", "/b"), (f'<a href="{link}">go</a>' for link in links))
    assert is_same(one, [two], lambda url: url) is said


def test_a_word_that_stands_in_its_path_is_a_word():
    one, two = (at(f"/{name}", f"<p>fresh {name}") for name in ("oranges", "bananas"))
    assert not is_same(two, [one], lambda url: url)


def test_a_very_long_url_is_not_looked_for():
    long = f"http://shop.test/{'a' * 60_000}"
    assert is_same(page("<p>text", f"{long}?b"), [page("<p>text", long)], key_of)


@pytest.mark.parametrize(("params", "is_found"), [(20, True), (21, False)])
def test_of_a_query_with_many_parameters_a_page_repeats_none(params, is_found):
    """To look for a thousand of them would take seconds."""
    url = f"{ONE}&{'&'.join(f'n{number}=1' for number in range(params - 1))}"
    assert (Echoes([url]).without('{"sort":"up"}') == "{}") is is_found
