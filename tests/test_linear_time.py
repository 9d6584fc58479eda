"""P8: normalizing takes time by the length of a URL, whatever the URL."""

from __future__ import annotations

import gc
import re
import time

import pytest
from url_shapes import SHAPES, rule_sets

from scrapy_urlnorm import fast_key
from scrapy_urlnorm.rules import escapes
from scrapy_urlnorm.site_rules.form import Form
from scrapy_urlnorm.url import split

SHORT, LONG = 4_096, 32_768  # characters
#: Eight times the length takes 8 times as long where time is linear, 64 times where it is
#: quadratic: the bound lies between the two, by the same factor from each.
BOUND = 24
_NOISE = 0.002  # seconds; of less, a ratio says nothing
_ATTEMPTS = 40
_MUCH = 0.2  # seconds; a long URL that takes so many is no matter of noise


def growth(function, shape):
    """Return how many times the processor time of the short URL the long one takes.

    The shortest of several runs counts, since whatever else the machine does adds to a run: caches
    that others use made 30 of 8 on a busy one. As long as the answer is above the bound, both are
    measured anew.
    """
    short, long = shape(SHORT), shape(LONG)
    ratio = shortest_long = shortest_short = float("inf")
    for _ in range(_ATTEMPTS):
        shortest_short = min(shortest_short, *(_seconds(function, short) for _ in range(3)))
        shortest_long = min(shortest_long, _seconds(function, long))
        if shortest_long < _NOISE:
            return 1.0
        ratio = shortest_long / max(shortest_short, _NOISE / BOUND)
        if ratio < BOUND or shortest_long > _MUCH:
            break
    return ratio


def _seconds(function, url):
    start = time.process_time()
    function(url)
    return time.process_time() - start


def too_slow(normalizer):
    """Return the shapes whose time grows faster than their length, with the growth."""
    found = {name: growth(normalizer.normalize, shape) for name, shape in SHAPES.items()}
    return {name: round(ratio) for name, ratio in found.items() if ratio >= BOUND}


@pytest.fixture(autouse=True)
def _no_collection():
    """Keep the garbage of other tests out of the times."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("rules", rule_sets())
def test_time_grows_as_the_length(rules):
    """Eight times the length never takes 24 times as long, in any profile and with any rule."""
    assert too_slow(rule_sets()[rules]) == {}


@pytest.mark.parametrize("rules", ["safe", "default", "aggressive", "other modes"])
def test_time_grows_as_the_length_on_python_3_10(rules, monkeypatch):
    """The same where regular expressions have no possessive repetition."""
    token, query = (each.replace("*+", "*") for each in (escapes.FORM_TOKEN, escapes.FORM_QUERY))
    encoded = re.compile(query).fullmatch
    assert encoded("a=%20") is None
    assert encoded("a+b=%C3%A9&c=")
    monkeypatch.setattr(escapes, "is_form_encoded", encoded)
    monkeypatch.setattr(escapes, "_IN_FORM", re.compile(token))
    monkeypatch.setattr(fast_key, "FORM_QUERY", query)
    monkeypatch.setattr(fast_key, "MANY", "*")
    monkeypatch.setattr(fast_key, "MAYBE", "?")
    assert too_slow(rule_sets()[rules]) == {}


def test_a_parameter_that_is_repeated_is_written_in_linear_time():
    """Each of thousands of values takes the place of the one that it had."""

    def written(url):
        form = Form(split(url * 4))
        form.changed(form.slots | {"q:a": form.slots["q:a"].lower()}).to_url()

    assert growth(written, SHAPES["one name, capital values"]) < BOUND


def test_the_measure_tells_linear_from_quadratic():
    """The bound lies between a function that is linear and one that is not."""

    def linear(url):
        for _ in range(50):
            re.sub("/", "//", url)

    assert growth(linear, SHAPES["slashes"]) < BOUND
    assert growth(re.compile("/+x").search, SHAPES["slashes"]) > BOUND
