"""Whatever a log holds, in whatever order, mining comes to an end with rules."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_urlnorm import Normalizer
from scrapy_urlnorm.learning import mine
from scrapy_urlnorm.logs import Observation

#: A joint set of which one parameter stands in no URL that is compared with another.
NEVER_TRIED = """
    /p0?a=0&d=0 /p0?a=5&b=2&d=1 /p11?a=6&b=1 /p11?b=0&c=3 /p11?b=0&d=8 /p4?b=3 /p4?d=7
    /p8?a=7&b=1&c=1&d=3 /p8?b=0&d=6 /q12?b=0&c=1&d=1 /q12?c=6&d=3 /q1?a=0&b=3 /q1?a=1&b=4&c=8
    /q1?b=0&d=1 /q1?b=1 /q1?b=2&c=2&d=3 /q1?b=4&c=8&d=2 /q2? /q2?a=1&d=1 /q2?b=0&c=2&d=0
    /q2?b=4&c=0&d=0 /r0? /r0?a=1&c=1&d=1
"""


def page(url: str, content: str) -> Observation:
    """Return a row of a page."""
    return Observation(url, 200, content, mime="text/html")


def test_a_parameter_that_was_never_tried_is_no_error() -> None:
    """A set of parameters of which one stood in no comparison is refused, not tripped over."""
    rows = [page(f"http://h.example{path}", path.partition("?")[0]) for path in NEVER_TRIED.split()]
    Normalizer("default", site_rules=mine(rows))


NAMES = st.sampled_from(["a", "b", "c", "id", "sid", "page", "utm_source", "7", ""])
VALUES = st.sampled_from(["", "0", "1", "2", "x", "X", "a:b", "/s/p", "12-x", "é", "%", "\x00"])
SEGMENTS = st.sampled_from(["s", "S", "p", "P", "12", "index.html", "a:b", "a b", "~u", "", ".."])


@st.composite
def urls(draw: st.DrawFn) -> str:
    """Draw a URL of one of a few hosts, made of few words so that many are alike."""
    host = draw(st.sampled_from(["h.example", "www.h.example", "u.github.io", "127.0.0.1"]))
    path = "".join("/" + part for part in draw(st.lists(SEGMENTS, max_size=3)))
    pairs = draw(st.lists(st.tuples(NAMES, VALUES), max_size=4))
    query = draw(st.sampled_from("&;")).join(f"{name}={value}" for name, value in pairs)
    return f"http://{host}{path}{'?' if pairs else ''}{query}"


@st.composite
def logs(draw: st.DrawFn) -> list[Observation]:
    """Draw pages of few contents, redirects and errors."""
    rows = []
    for url in draw(st.lists(urls(), max_size=60)):
        content = draw(st.sampled_from(["1", "2", "3", url.partition("?")[0].lower()]))
        kind = draw(st.sampled_from(["page", "page", "page", "page", "redirect", "error"]))
        if kind == "page":
            rows.append(page(url, content))
        elif kind == "redirect":
            rows.append(Observation(url, 301, location=draw(urls())))
        else:
            rows.append(Observation(url, 404, content))
    return rows


@settings(max_examples=150, deadline=None)
@given(logs(), st.randoms(use_true_random=False))
def test_no_log_is_an_error_and_no_order_matters(
    rows: list[Observation], chance: random.Random
) -> None:
    """Any rows can be mined, their order changes nothing, and the rules can be used together."""
    rules = mine(rows)
    chance.shuffle(rows)
    assert mine(rows) == rules
    Normalizer("default", site_rules=rules)


@pytest.mark.parametrize("seed", range(20))
def test_sites_made_of_noise_are_no_error(seed: int) -> None:
    """Pages under many sets of parameters that mean nothing, now and then something."""
    rng = random.Random(seed)
    names = "abcd"[: rng.randint(2, 4)]
    rows = []
    for _ in range(120):
        query = "&".join(
            f"{n}={rng.randint(0, rng.choice((1, 3, 8)))}" for n in names if rng.random() < 0.6
        )
        path = f"{rng.choice('pqr')}{rng.randint(0, 12)}"
        content = path if rng.random() < 0.95 else f"{path} {query}"
        rows.append(page(f"http://h.example/{path}?{query}", content))
    Normalizer("default", site_rules=mine(rows))


def test_many_agreeing_contents_make_one_rule() -> None:
    """Evidence without a conflict is never too much: one rule, not one for each value."""
    rows = []
    for number in range(6_500):
        rows.append(page(f"http://h.example/{number}", f"{number}"))
        rows.append(page(f"http://h.example/{number}?x={number % 7}", f"{number}"))
    (rule,) = mine(rows)
    assert (rule.active, rule.kind, rule.param, rule.support) == (True, "drop-param", ("x",), 6_500)
