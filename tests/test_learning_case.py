"""Upper and lower case: what pairs of URLs prove of the first letter, and of all the others."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.learning import mine
from scrapy_urlnorm.logs import Observation

TITLES = ("dec", "demigod", "email", "unix", "hacker", "kernel")


def page(url: str, content: str) -> Observation:
    """Return a row of a page."""
    return Observation(url, 200, content, mime="text/html")


def wiki(form: str) -> list[Observation]:
    """Return rows of a wiki that folds the first letter of a title, and 200 pages of their own."""
    rows = [page(form.format(title), title) for title in TITLES]
    rows += [page(form.format(title.capitalize()), title) for title in TITLES]
    return rows + [page(form.format(f"Topic_{n}"), f"topic {n}") for n in range(200)]


@pytest.mark.parametrize(
    ("form", "slot"),
    [
        ("http://wiki.example/wiki/{}", "s1"),
        ("http://wiki.example/w/index.php?title={}", "q:title"),
        ("http://wiki.example/w/index.php/{}", "s2"),
    ],
)
def test_pairs_of_first_letters_prove_only_that(form: str, slot: str) -> None:
    """``dec`` and ``Dec`` are one page; whether ``AEGIS`` and ``Aegis`` are, nobody has seen."""
    rules = [rule for rule in mine(wiki(form)) if rule.active]
    assert [(rule.edit, rule.slots) for rule in rules] == [("lowercase-first", (slot,))]
    normalize = Normalizer("default", site_rules=rules).normalize
    assert normalize(form.format("Ghost")) == normalize(form.format("ghost"))
    assert normalize(form.format("AEGIS")) != normalize(form.format("Aegis"))


def test_a_page_below_a_title_is_another_matter() -> None:
    """What was seen of titles says nothing of the segments below them."""
    normalize = Normalizer(
        "default", site_rules=mine(wiki("http://wiki.example/wiki/{}"))
    ).normalize
    assert normalize("http://wiki.example/wiki/Unix/Talk") == ("http://wiki.example/wiki/unix/Talk")


def test_pairs_that_differ_elsewhere_prove_more() -> None:
    """Where ``/DEC`` is ``/dec``, all letters of the path are folded."""
    rows = [page(f"http://a.example/{n}/{t}", f"{n} {t}") for n in range(9) for t in TITLES]
    rows += [
        page(f"http://a.example/{n}/{t.upper()}", f"{n} {t}") for n in range(9) for t in TITLES
    ]
    normalize = Normalizer("default", site_rules=mine(rows)).normalize
    assert normalize("http://a.example/1/NeW") == "http://a.example/1/new"


def test_first_letters_of_several_segments_are_one_rule() -> None:
    """Where they differ together, they are folded together; one alone is no evidence for all."""
    rows = [page(f"http://a.example/{n}/Blue/{t}", f"{n} {t}") for n in range(9) for t in TITLES]
    one = [
        page(f"http://a.example/{n}/Blue/{t.title()}", f"{n} {t}") for n in range(9) for t in TITLES
    ]
    both = [
        page(f"http://a.example/{n}/blue/{t.title()}", f"{n} {t}") for n in range(9) for t in TITLES
    ]
    alone = Normalizer("default", site_rules=mine(rows + one)).normalize
    together = Normalizer("default", site_rules=mine(rows + both)).normalize
    assert alone("http://a.example/1/Blue/New") == "http://a.example/1/Blue/new"
    assert together("http://a.example/1/Blue/New") == "http://a.example/1/blue/new"
    assert together("http://a.example/1/bLUE/NEW") == "http://a.example/1/bLUE/nEW"


def test_a_parameter_is_no_exception() -> None:
    """Of a parameter, too, first letters prove nothing about the others."""
    rows = [page(f"http://a.example/?q={t}", t) for t in TITLES * 2]
    rows += [page(f"http://a.example/?q={t.capitalize()}", t) for t in TITLES]
    edits = {rule.edit for rule in mine(rows)}
    assert "lowercase-first" in edits
    assert "lowercase" not in edits
    rows += [page(f"http://a.example/?q={t.upper()}", t) for t in TITLES]
    assert "lowercase" in {rule.edit for rule in mine(rows)}


def test_first_letters_that_matter_are_kept() -> None:
    """One pair of titles that differ in it and in their content refutes the rule."""
    rows = [*wiki("http://wiki.example/wiki/{}"), page("http://wiki.example/wiki/topic_1", "else")]
    normalize = Normalizer("default", site_rules=mine(rows)).normalize
    assert normalize("http://wiki.example/wiki/Dec") != normalize("http://wiki.example/wiki/dec")


def test_accents_that_make_no_difference_are_folded() -> None:
    """Where ``caf\u00e9`` and ``cafe`` are one page, so are other names; a letter is another one."""
    names = (
        "caf\u00e9",
        "cr\u00eape",
        "na\u00efve",
        "ma\u00f1ana",
        "\u00e9t\u00e9",
        "se\u00f1or",
        "d\u00e9j\u00e0",
    )
    plain = ("cafe", "crepe", "naive", "manana", "ete", "senor", "deja")
    url = "http://a.example/?name={}&n={}".format
    rows = [page(url(quote(name), n), f"{name} {n}") for name in names for n in range(4)]
    rows += [
        page(url(other, n), f"{name} {n}")
        for name, other in zip(names, plain, strict=True)
        for n in range(4)
    ]
    rules = [rule for rule in mine(rows) if rule.active]
    assert [(rule.edit, rule.slots) for rule in rules] == [("fold-accents", ("q:name",))]
    normalize = Normalizer("default", site_rules=rules).normalize
    assert normalize(url("ber%C3%A9t", 9)) == url("beret", 9).replace(
        "name=beret&n=9", "n=9&name=beret"
    )
    assert normalize(url("berot", 9)) != normalize(url("beret", 9))
