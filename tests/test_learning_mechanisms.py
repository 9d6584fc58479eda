"""What kinds of sites need beyond single parameters: each mechanism on a small site of its own."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from log_rows import HOST, active, merged, page

# Every site is a list of (URL, content), made so that nothing but the mechanism explains it. Beside
# what has to be merged stand URLs that look alike and are other pages.


def learned(site, **options):
    return active((page(HOST + url, content) for url, content in site), **options)


def headed():
    """``view`` means nothing on reports, whose names begin alike, and something on other pages."""
    site = []
    for n in range(30):
        for kind in ("Report", "Page", "Topic"):
            url = f"/w?page={kind}:{chr(97 + n % 26)}{n}"
            site.append((url, f"{kind} {n}"))
            for view in "abcd"[: 1 + n % 4]:
                shown = "" if kind == "Report" else view
                site.append((f"{url}&view={view}", f"{kind} {n}{shown and ' as ' + shown}"))
    return site


def test_what_a_value_begins_with_is_a_condition():
    rules = learned(headed())
    assert [rule.when.get("starts") for rule in rules] == [{"q:page": "Report:"}]
    assert merged(rules, "/w?page=Report:new", "/w?page=Report:new&view=e")
    assert not merged(rules, "/w?page=Page:new", "/w?page=Page:new&view=a")


def test_what_a_value_begins_with_keeps_a_rule_from_reaching_far():
    """Seen on reports alone, ``view`` is not taken for nothing on the pages, which are many."""
    site = [(u, c) for u, c in headed() if "view" not in u or "Report" in u]
    rules = learned(site)
    assert merged(rules, "/w?page=Report:new", "/w?page=Report:new&view=a")
    site += [(f"/w?page=Page:zz{n}&view=a", f"Page {n} as a") for n in range(30)]
    assert not merged(learned(site), "/w?page=Page:new", "/w?page=Page:new&view=a")


def test_an_edit_may_be_for_values_with_a_head():
    """Names of users do not care for case, names of pages do."""
    site = []
    for n in range(20):
        for name in (f"Ann{n}", f"aNN{n}", f"ann{n}"):
            site += [(f"/w?title=User:{name}", f"user {n}"), (f"/w?title=Page:{name}", name)]
    rules = learned(site)
    assert merged(rules, "/w?title=User:Bob", "/w?title=User:bOB")
    assert not merged(rules, "/w?title=Page:Bob", "/w?title=Page:bOB")


def timetable(lines):
    """Most lines go on Fridays as on all other days, and all as on Mondays from Tuesday on."""
    days = {"": "Mo", "mo": "Mo", "tu": "Mo", "we": "Mo", "th": "Mo", "sa": "Su", "su": "Su"}
    return [
        (f"/line/{n}{day and '?day='}{day}", f"line {n} {shown}")
        for n in range(lines)
        for day, shown in {**days, "fr": "Fr" if n % 8 == 3 else "Mo"}.items()
    ]


def test_values_that_never_differ_are_told_from_one_that_seldom_does():
    """Only where each was seen so often that it is no luck."""
    rules = learned(timetable(60), wary=True)
    assert merged(rules, "/line/9", *(f"/line/9?day={day}" for day in ("mo", "tu", "we", "th")))
    assert merged(rules, "/line/9?day=sa", "/line/9?day=su")
    for few in (rules, learned(timetable(16), wary=True)):
        assert not merged(few, "/line/9", "/line/9?day=fr")
        assert not merged(few, "/line/9", "/line/9?day=sa")


def test_a_move_takes_constants_along_and_meets_an_edit():
    """``title=Special:Links&target=Y Z`` is ``/wiki/Special:Links/Y_Z``."""
    site = []
    for n in range(40):
        target = f"Page {n}" if n % 2 else f"Page{n}"
        site.append((f"/w?title=Special:Links&target={target.replace(' ', '+')}", f"links {n}"))
        site.append((f"/wiki/Special:Links/{target.replace(' ', '_')}", f"links {n}"))
        site.append((f"/w?title=Special:Log&target={target.replace(' ', '+')}", f"log {n}"))
    rules = learned(site)
    assert merged(rules, "/w?title=Special:Links&target=Any+New", "/wiki/Special:Links/Any_New")
    assert not merged(rules, "/w?title=Special:Log&target=Any", "/wiki/Special:Links/Any")


def test_tokens_without_a_value_are_exchanged():
    """``?view-1&lang=en`` is ``?lang=uk``, but ``?view-2&lang=en`` is not."""
    site = []
    for n in range(20):
        site += [(f"/p/{n}?view-1&lang=en", f"{n} uk"), (f"/p/{n}?lang=uk", f"{n} uk")]
        site += [(f"/p/{n}?view-2&lang=en", f"{n} in two"), (f"/p/{n}?lang=en", f"{n} en")]
    rules = learned(site)
    assert merged(rules, "/p/new?view-1&lang=en", "/p/new?lang=uk")
    assert not merged(rules, "/p/new?view-2&lang=en", "/p/new?lang=uk")


def pooled(words):
    """``old`` means nothing on half of the kinds of pages; none of them has much evidence."""
    site = []
    for at, kind in enumerate(words):
        for n in range(4):
            own = "" if at % 2 else " with old {}"
            url = f"/show?act={kind}&id={at}{n}"
            site.append((url, f"{kind} {n}"))
            site += [
                (f"{url}&old={old}", f"{kind} {n}{own.format(old)}")
                for old in (1000 * at + n, 5000 + 7 * at + n)
            ]
    return site


WORDS = ["diff", "blob", "tree", "log", "tags", "heads", "stats", "users", "forks", "notes"]


def test_values_that_are_words_are_taken_together():
    """Five kinds of pages agree, with four pages each, and five do not."""
    rules = learned(pooled(WORDS))
    assert [rule.when["params"]["act"] for rule in rules] == [sorted(WORDS[1::2])]
    assert merged(rules, "/show?act=blob&id=new", "/show?act=blob&id=new&old=3")
    assert not merged(rules, "/show?act=diff&id=new", "/show?act=diff&id=new&old=3")


@pytest.mark.parametrize("name", ["{}", "d{}"])
def test_values_that_are_numbers_are_not(name):
    """Sections where everything fits one page so far have nothing in common."""
    rules = learned(pooled([name.format(n) for n in range(len(WORDS))]))
    act = name.format(1)
    assert not merged(rules, f"/show?act={act}&id=new", f"/show?act={act}&id=new&old=3")


def test_a_parameter_that_is_never_absent_is_ignored_before_edits():
    """Where ``s`` is always there, its value is ignored: an edit of it explains a part only."""
    site = []
    for n in range(30):
        for token in (f"{n * 131 + 7}", f"{n * 131 + 7}-1", f"{n * 977 + 5}"):
            site.append((f"/list/{n}?s={token}", f"list {n}"))
            site.append((f"/list/{n}?page=1&s={token}", f"list {n}"))
            site.append((f"/list/{n}?page=2&s={token}", f"list {n}, 2"))
    rules = learned(site)
    assert {rule.kind for rule in rules if "q:s" in rule.slots} == {"ignore-value"}
    assert merged(rules, "/list/new?s=1", "/list/new?s=2", "/list/new?page=1&s=3")
    assert not merged(rules, "/list/new?s=1", "/list/new?page=2&s=1")


def looped():
    """A picture of each page links to itself by a relative link; in each archive a word recurs."""
    site = []
    for n in range(30):
        site.append((f"/p{n}/", f"page {n}"))
        site += [(f"/p{n}/{'img/' * k}", f"picture {n}") for k in range(1, 5)]
        site += [(f"/2011/{n}/{n}/", f"day {n}"), (f"/2011/{n}/", f"month {n}")]
    return site


def asked_again():
    """Each search has a link that adds its parameter once more; without it, all is listed."""
    site = []
    for n in range(30):
        site.append((f"/find/{n}", f"all {n}"))
        for value in ("a", "b"):
            for k in range(1, 5):
                query = "&".join([f"q={value}"] * k)
                site.append((f"/find/{n}?{query}", f"found {value} in {n}"))
    return site


def test_segments_that_only_repeat():
    """Any number of them is one; what stands there once, a number, and another word count."""
    rules = learned(looped())
    assert "drop-repeated-segment" in {rule.kind for rule in rules}
    assert merged(rules, "/new/img/", "/new/img/img/", f"/new/{'img/' * 9}")
    assert not merged(rules, "/new/", "/new/img/")
    assert not merged(rules, "/2011/11/", "/2011/11/11/")


def test_segments_that_repeat_and_tell_pages_apart():
    """Where as many loops show another page there is no such rule."""
    site = looped()
    site += [(f"/p{n}/{'more/' * k}", f"more {n} {k}") for n in range(30) for k in range(1, 4)]
    assert not merged(learned(site), "/new/more/", "/new/more/more/")


def test_parameters_that_only_repeat():
    """Any number of one value is one; none is another page, and so is another value beside it."""
    rules = learned(asked_again())
    assert [str(rule.operation.write()) for rule in rules] == [
        str({"slots": ("q:q",), "edit": "drop-repeats"})
    ]
    assert merged(rules, "/find/x?q=c", "/find/x?q=c&q=c", f"/find/x?{'&'.join(['q=c'] * 9)}")
    assert not merged(rules, "/find/x", "/find/x?q=c")
    assert not merged(rules, "/find/x?q=c", "/find/x?q=c&q=d")


@pytest.mark.parametrize("site", [headed, looped, asked_again, lambda: pooled(WORDS)])
def test_a_crawl_that_runs_does_not_believe_more(site):
    rules = {rule.identity for rule in learned(site(), wary=True)}
    assert rules <= {rule.identity for rule in learned(site())}


# --- Upper and lower case: what pairs of URLs prove of the first letter, and of all the others

TITLES = ("dec", "demigod", "email", "unix", "hacker", "kernel")


def wiki(form):
    """A wiki that folds the first letter of a title, and 200 pages of their own."""
    site = [(form.format(each), title) for title in TITLES for each in (title, title.capitalize())]
    return site + [(form.format(f"Topic_{n}"), f"topic {n}") for n in range(200)]


@pytest.mark.parametrize(
    ("form", "slot"),
    [("/wiki/{}", "s1"), ("/w/index.php?title={}", "q:title"), ("/w/index.php/{}", "s2")],
)
def test_pairs_of_first_letters_prove_only_that(form, slot):
    """``dec`` and ``Dec`` are one page; whether ``AEGIS`` and ``Aegis`` are, nobody has seen."""
    rules = learned(wiki(form))
    assert [(rule.edit, rule.slots) for rule in rules] == [("lowercase-first", (slot,))]
    assert merged(rules, form.format("Ghost"), form.format("ghost"))
    assert not merged(rules, form.format("AEGIS"), form.format("Aegis"))


def test_first_letters_that_matter_are_kept():
    """One pair of titles that differ in it and in their content refutes the rule."""
    rules = learned([*wiki("/wiki/{}"), ("/wiki/topic_1", "else")])
    assert not merged(rules, "/wiki/Dec", "/wiki/dec")


def titles(form, *spellings):
    """Pages in nine sections, each under all spellings of its title."""
    return [
        (form.format(n, spelled(title)), f"{n} {title}")
        for n in range(9)
        for title in TITLES
        for spelled in spellings
    ]


def test_pairs_that_differ_elsewhere_prove_more():
    assert merged(learned(titles("/{}/{}", str, str.upper)), "/1/NeW", "/1/new")


def test_first_letters_of_several_segments_are_one_rule():
    """Where they differ together, they are folded together; one alone is no evidence for all."""
    alone = learned(titles("/{}/Blue/{}", str, str.title))
    assert merged(alone, "/1/Blue/New", "/1/Blue/new")
    assert not merged(alone, "/1/Blue/New", "/1/blue/New")
    together = learned(titles("/{}/Blue/{}", str) + titles("/{}/blue/{}", str.title))
    assert merged(together, "/1/Blue/New", "/1/blue/new")
    assert not merged(together, "/1/Blue/New", "/1/bLUE/New", "/1/Blue/NEW")


def test_a_parameter_is_no_exception():
    edits = {rule.edit for rule in learned(titles("/{}?q={}", str, str.capitalize))}
    assert edits == {"lowercase-first"}
    spelled = titles("/{}?q={}", str, str.capitalize, str.upper)
    assert "lowercase" in {rule.edit for rule in learned(spelled)}


def test_accents_that_make_no_difference_are_folded():
    """Where ``café`` and ``cafe`` are one page, so are other names; a letter is another one."""
    names = {"café": "cafe", "crêpe": "crepe", "naïve": "naive", "mañana": "manana", "été": "ete"}
    names |= {"señor": "senor", "déjà": "deja"}
    rules = learned(
        [
            (f"/?name={quote(spelled)}&n={n}", f"{name} {n}")
            for name, plain in names.items()
            for spelled in (name, plain)
            for n in range(4)
        ]
    )
    assert [(rule.edit, rule.slots) for rule in rules] == [("fold-accents", ("q:name",))]
    assert merged(rules, "/?name=ber%C3%A9t&n=9", "/?name=beret&n=9")
    assert not merged(rules, "/?name=berot&n=9", "/?name=beret&n=9")
