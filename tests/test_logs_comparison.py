"""What changes by itself, and copies of a page that say so."""

from __future__ import annotations

from itertools import pairwise

import pytest
from compared_pages import ONE, TWO, answer, at, key_of, page, same

from scrapy_urlnorm.logs.comparison import NEARLY_ALL, Movement, is_same
from scrapy_urlnorm.logs.whole import copy_of


def test_links_that_change_at_each_fetch_may_carry_on_what_means_nothing():
    shown = (f'<a href="/{n}?sort={sort}">go</a>' for n, sort in enumerate(("up", "up", "down")))
    one, two, found = shown
    assert same(found, one, two)
    assert not same(found.replace("/2", "/other/2"), one, two)


SHOP = "<h1>Lamp</h1><p>{} visitors</p><ul>{}</ul><p>Price: {} EUR</p>"


# Two fetches of one page, another page, and whether it is the same but for what changes there.
MOVING = {
    "a number": ((1, "<li>a"), (2, "<li>a"), (7, "<li>a"), True),
    "a list drawn anew": ((1, "<li>a<li>b"), (2, "<li>c<li>d"), (3, "<li>e<li>f"), True),
    "of another length": ((1, "<li>a<li>b"), (2, "<li>c<li>d<li>e"), (3, "<li>f"), True),
    "that is empty once": ((1, ""), (2, "<li>a"), (3, "<li>b"), True),
    "a list that holds still": ((1, "<li>a"), (2, "<li>a"), (3, "<li>b"), False),
    "a list that grows without end": ((1, "<li>a"), (2, "<li>b"), (3, "<li>x" * 40), False),
    "another element": ((1, "<li>a"), (2, "<li>b"), (3, "<li><del>c</del>"), False),
}


@pytest.mark.parametrize("name", MOVING)
def test_what_changes_between_two_fetches_may_differ(name):
    *fetches, found, said = MOVING[name]
    shown = [SHOP.format(*each, 12) for each in fetches]
    assert same(SHOP.format(*found, 12), *shown) is said
    assert not same(SHOP.format(*found, 13), *shown)  # the price holds still


def test_what_each_fetch_of_a_page_shows_does_not_come_and_go():
    """It stands among advertisements, of which another page has as many, and nothing else."""
    fetches = [page("<h1>a</h1>" + text) for text in ("<p>ad 1", "<p>ad 2<p>ad 3<p>ad 4")]
    found, again = (page(f"<h1>a</h1><p>said<p>ad {n}", TWO) for n in (5, 6))
    assert is_same(found, fetches, key_of)
    assert not is_same(found, fetches, key_of, beside=[found])
    assert not is_same(again, fetches, key_of, beside=[found, again])
    ad = page("<h1>a</h1><p>ad 7", TWO)
    assert is_same(ad, fetches, key_of, beside=[found, ad])
    family = Movement()
    for number in range(2):
        family.learn(page(f"<h1>{number}"), page(f"<h1>{number}</h1><p>said<p>ad 5"), key_of)
    assert is_same(found, fetches, key_of, family, beside=[found])


def test_of_a_text_that_changes_in_a_word_the_others_count():
    text = "<p>Seen {} times, price {} EUR, sold by {}"
    shown = [text.format(number, 12, "Ann") for number in (1, 2)]
    assert same(text.format(3, 12, "Ann"), *shown)
    assert not same(text.format(3, 13, "Ann"), *shown)
    assert not same(text.format(3, 12, "Bob"), *shown)


def test_of_a_text_that_changes_the_words_count_that_hold_still_on_pages_of_its_family():
    """Two counters in a text rarely both move between two fetches."""
    text, family = "<p>Seen {} times, sold {}, price {} EUR", Movement()
    shown = [page(text.format(number, 5, 12)) for number in (1, 2)]
    for _ in range(2):
        assert not is_same(page(text.format(2, 6, 12), TWO), shown, key_of, family)
        family.learn(page(text.format(1, 7, 9)), page(text.format(2, 8, 9)), key_of)
    assert is_same(page(text.format(2, 6, 12), TWO), shown, key_of, family)
    assert not is_same(page(text.format(2, 6, 13), TWO), shown, key_of, family)
    assert not is_same(page(text.format(2, 6, 12), TWO), shown[:1], key_of, family)


AGO = ("just now", "two hours before", "yesterday at noon", "1 hour 12 minutes ago", "last week")


@pytest.mark.parametrize(
    "body",
    [
        "<p>Seen {} - {} - booked {}",
        '<script>show({{at: "{}", of: "{}", by: "{}"}})</script>',
        '<i title="{}: {} ({})"></i>',
        "<!-- {} | {} | {} -->",
        '<div data-live="{}/{}/{}"></div>',
    ],
)
def test_what_all_fetches_have_between_what_moves_counts(body):
    shown = [body.format(now, "the red one", then) for now, then in pairwise(AGO)]
    assert same(body.format(AGO[4], "the red one", AGO[0]), *shown[:3])
    assert not same(body.format(AGO[4], "the blue one", AGO[0]), *shown[:3])
    assert not same(body.format(AGO[4], "the red", AGO[0]), *shown[:3])


def test_a_word_among_numbers_that_move_counts():
    for one, two in (("North", "South"), ("A", "B")):
        fetches = f"<p>{one} 4 17 238", f"<p>{one} 6 19 240"
        assert same(f"<p>{one} 5 18 239", *fetches)
        assert not same(f"<p>{two} 5 18 239", *fetches)


@pytest.mark.parametrize("is_content", [False, True])
def test_where_each_page_has_words_of_its_own_a_family_explains_nothing(is_content):
    """Though much of the text moves at each fetch. But both pages may have moved there by chance."""
    body, movement = "<p>Seen {} - {} - booked {}", Movement()
    for n in range(5):
        said = f"board {n}{n}" if is_content else "board"
        times = (AGO[(n + k) % 5] for k in range(4))
        pairs = zip(times, times, strict=True)
        fetches = (at(f"/{n}", body.format(now, said, then)) for now, then in pairs)
        movement.learn(*fetches, key_of)
    one, two = (page(body.format(now, "board", AGO[1])) for now in (AGO[2], AGO[4]))
    assert movement.explains(one, two, key_of, share=NEARLY_ALL) is not is_content
    assert movement.explains(one, two, key_of)


def test_what_comes_and_goes_is_no_content_where_it_stays():
    movement, ads = Movement(), ("aa", "bb cc dd", "ee ff", "gg hh ii jj", "kk")
    texts = ["<p>text</p>", *(f'<p>text</p><p class="ad">buy tea {ad}</p>' for ad in ads)]
    for n, pair in enumerate(pairwise(texts)):
        movement.learn(*(at(f"/{n}", text) for text in pair), key_of)
    assert movement.explains(page(texts[2]), page(texts[5]), key_of)


def test_a_uuid_is_one_word_whatever_digits_it_has():
    said = "<label for=note-58-{}>open</label>".format
    fetches = map(
        said, ("36e74184-28e8-4be2-82ad-89e4b759967b", "3f4c2d3c-1a2b-4bb1-9e3d-5fc24d98b0b0")
    )
    found = said("69436383-3570-4381-9226-045483657123")
    assert same(found, *(shown := [*fetches]))
    assert not same(found.replace("58", "59"), *shown)


def test_a_token_is_one_word_whatever_hyphens_it_has():
    said = '<script>nonce = "{}", page = {}</script>'.format
    tokens = "Um5gh75ue0F0lkD0vvNgoYvnJHYK0aTl", "Pk4XwzdYugfcx6_VWI8v12jUr3TVC5jw"
    found = "LnSSoR2Jrn8qt-nDqJH_FFSkQH5-hGEP"
    shown = [said(token, 1) for token in tokens]
    assert same(said(found, 1), *shown)
    assert not same(said(found, 2), *shown)


def test_of_a_link_that_changes_in_a_word_the_others_count():
    text = '<a href="/files/{}.pdf?signed={}">file</a>'
    shown = [text.format("tea", number) for number in (1, 2)]
    assert same(text.format("tea", 3), *shown)
    assert not same(text.format("ink", 3), *shown)


def test_pages_of_a_family_change_where_others_of_it_do():
    """Unless something else stands there, or the place is another one."""
    body = '<h1>{}</h1><div class="ad">{}</div><div class="text">{}</div>'
    movement = Movement()

    def explains(one, two):
        return movement.explains(page(body.format(*one)), page(body.format(*two), TWO), key_of)

    for _ in range(2):  # once may be an event
        assert not explains(("b", "v", "u"), ("b", "w", "u"))
        movement.learn(page(body.format("a", "x", "t")), page(body.format("a", "y", "t")), key_of)
    assert explains(("b", "v", "u"), ("b", "w", "u"))
    assert not explains(("b", "v", "u"), ("b", "w", "v"))
    assert not explains(("b", "v", "u"), ("c", "w", "u"))


def test_what_has_a_class_of_its_own_is_known_after_any_number_of_others():
    body, movement = '{}<p class="views">Viewed {} times</p>', Movement()
    for text in ("<p>one", "<p>one<p>two"):
        movement.learn(page(body.format(text, 1)), page(body.format(text, 2)), key_of)
    one, two = (page(body.format("<p>one<p>two<p>three", number)) for number in (3, 4))
    assert movement.explains(one, two, key_of)
    assert not movement.explains(one, page(body.format("<p>one<p>two<p>four", 3)), key_of)


def test_what_came_and_went_on_several_pages_is_no_content():
    """Even where it holds still as often as not; of what was never seen to move, nobody knows."""
    with_ad, without = page("<p>text</p><p>buy tea</p>"), page("<p>text</p><p></p>")
    movement = Movement()
    for said in (True, False, False):
        assert movement.explains(with_ad, without, key_of, share=NEARLY_ALL) is False
        movement.learn(with_ad, without if said else with_ad, key_of)
    movement.learn(without, with_ad, key_of)
    assert movement.explains(with_ad, without, key_of, share=NEARLY_ALL)
    other = page("<p>text</p><p>sold out</p>")
    assert not movement.explains(with_ad, other, key_of, share=NEARLY_ALL)


def test_what_changes_on_nearly_all_pages_of_a_site_changes_on_those_of_a_family():
    """Unless pairs of the family show that it holds still there."""
    one, two = page('<p class="ad">x</p>'), page('<p class="ad">y</p>')
    site = Movement()
    new, still = Movement(site), Movement(site)
    still.learn(one, one, key_of)
    for _ in range(4):
        assert not new.explains(one, two, key_of)
        site.learn(one, two, key_of)
    assert new.explains(one, two, key_of)
    assert not still.explains(one, two, key_of)


def test_what_the_pages_beside_show_may_differ():
    one, two = page("<p>news of May</p><p>text"), page("<p>news of June</p><p>text", TWO)
    movement, of_time = Movement(), [{each.nodes[0]} for each in (one, two)]
    assert not movement.explains(one, two, key_of)
    assert not movement.explains(one, two, key_of, of_time), "it has never changed by itself"
    movement.learn_late(one, two, key_of)
    assert movement.explains(one, two, key_of, of_time)
    assert not movement.explains(one, page("<p>news of June</p><p>other", TWO), key_of, of_time)


def test_rows_that_repeat_are_compared_in_their_order():
    rows = [f"<tr><td>{n % 3}" for n in range(3_000)]
    table = "<table>{}<p>{}"
    assert same(table.format("".join(rows), 3), *(table.format("".join(rows), n) for n in (1, 2)))
    rows[1_500] = "<tr><td>3"
    assert not same(table.format("".join(rows), 3), *(table.format("", n) for n in (1, 2)))


COPY = """<meta name="robots" content="{}"><link rel="canonical" href="{}"><p>Ada says: hi to all
<h3>{}</h3><input type="hidden" name="parent" value="{}"><a href="/{}">go</a><a href="#7">a</a>"""
ORIGINAL, TO_ADA = COPY.format("index", ONE, "Reply", 0, "a"), 'Reply to <a href="#7">Ada</a>'
ASIDES = {
    "words of the other page": (("noindex, follow", ONE, TO_ADA, 7, "a"), True),
    "words that point nowhere": (("noindex", ONE, "Reply to Ada", 7, "a"), False),
    "words that no field names": (("noindex", ONE, TO_ADA, 0, "a"), False),
    "a name that no field has": (("noindex", ONE, TO_ADA.replace(" to", ""), 0, "a"), False),
    "no copy, as it says": (("follow", ONE, TO_ADA, 7, "a"), False),
    "a copy of another page": (("noindex", "/other", TO_ADA, 7, "a"), False),
    "who stands elsewhere": (("noindex", ONE, TO_ADA.replace("Ada", "Bob"), 7, "a"), True),
    "who is in another part": (("noindex", ONE, TO_ADA.replace('7">Ada', '9">Bob'), 7, "a"), False),
    "new words": (("noindex", ONE, f"{TO_ADA} Bob", 7, "a"), False),
    "a name said again": (("noindex", ONE, f"{TO_ADA.replace('Ada', 'Bob')} Bob", 7, "a"), False),
    "a number that is not in its URL": (("noindex", ONE, "Reply", 8, "a"), False),
    "another link": (("noindex", ONE, "Reply", 7, "b"), False),
    "many words": (("noindex", ONE, TO_ADA * 9, 7, "a"), False),
    "more than a few nodes": (("noindex", ONE, f"{TO_ADA}<b>to</b>all<b>Ada</b>hi", 7, "a"), False),
}


#: What a page has, what its mirror has, and whether they are one.
MIRRORED = [
    ('<img src="/a.png">', '<img src="/a.png">', True),
    ('<img src="http://shop.test/a.png">', '<img src="/a.png">', True),
    ('<img src="/a.png">', '<img src="/b.png">', False),
    ('<img src="http://cdn.test/a.png">', '<img src="/a.png">', False),
    ("<p style='background: url(a.png)'>", "<p style='background: url(a.png)'>", True),
    ("<script src=/a.js></script>", "<script src=/a.js></script>", True),
]


@pytest.mark.parametrize(("one", "other", "is_one"), MIRRORED)
def test_a_mirror_serves_the_pictures_with_its_pages(one, other, is_one):
    pages = page(one, "http://shop.test/p/1"), page(other, "http://www.shop.test/p/1")
    assert is_same(pages[1], [pages[0]], lambda url: url.replace("//www.", "//")) is is_one


def test_no_word_points_at_whom_one_would_answer():
    """It may be what the page is about."""
    original = page(ORIGINAL)
    for name, is_one in (("Ada", True), ("Bob", False)):
        said = TO_ADA.replace("7", "red").replace("Ada", name)
        copy = page(COPY.format("noindex", ONE, said, "red", "a"), f"{ONE}&in=red")
        assert is_same(copy, [original], key_of, is_copy=True) is is_one


@pytest.mark.parametrize(
    ("said", "is_one"),
    [
        ('Reply to <a href="#9">Bob</a>', True),
        ('Reply to <a href="#7">Bob</a>', False),
        ('Write to <a href="#9">Bob</a>', False),
    ],
)
def test_two_copies_of_one_page_may_name_whom_one_would_answer(said, is_one):
    one, two = (
        page(COPY.format("noindex", ONE, text, number, "a"), f"{ONE}&reply={number}")
        for text, number in ((TO_ADA, 7), (said, 9))
    )
    assert is_same(two, [one], key_of, is_copy=True) is is_one


@pytest.mark.parametrize(
    ("to", "is_one"),
    [
        (("/a", "/b"), True),
        (("http://shop.test/a", "http://shop.test/b"), True),
        (("L3BhZ2UvYQ", "L3BhZ2UvYg"), True),  # "/page/a" and "/page/b"
        (("L3BhZ2UvYS8,", "L3BhZ2UvYi8="), True),  # "/page/a/" and "/page/b/"
        (("cGFnZS9h", "cGFnZS9i"), False),  # "page/a" and "page/b"
        (("L100", "L110"), False),  # "/]4" and "/]t", by chance
        (("a", "b"), False),
    ],
)
def test_a_form_may_post_where_one_comes_back_to(to, is_one):
    """As the one of a login does: only a number or a word may be what the page is about."""
    form = "<form method=post><input type=hidden name=to value={}><input type=password></form>"
    one, two = (page(form.format(each), f"{ONE}&to={each}") for each in to)
    assert is_same(two, [one], key_of) is is_one


@pytest.mark.parametrize("named", ["http://[shop", "http://shop.test:99999/", "javascript:go()"])
def test_a_copy_of_what_no_request_can_ask_for_is_none(named):
    assert copy_of(answer(COPY.format("noindex", named, "Reply", 7, "a"))) is None


@pytest.mark.parametrize(("said", "is_one"), ASIDES.values(), ids=ASIDES)
def test_a_declared_copy_may_say_some_words_of_the_page_elsewhere(said, is_one):
    text, url = COPY.format(*said), f"{ONE}&reply=7"
    original, copy = page(ORIGINAL), page(text, url)
    is_copy = copy_of(answer(text, url)) == original.url
    assert is_same(copy, [original], key_of, is_copy=is_copy) is is_one
    movement = Movement()
    assert movement.explains(original, copy, key_of, is_copy=is_copy) is is_one
