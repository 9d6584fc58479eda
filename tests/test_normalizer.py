"""Normalizer as an object: immutable, comparable, the same in every process."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys

import pytest

from scrapy_urlnorm import Normalizer, SiteRule, explain
from scrapy_urlnorm.rules import PROFILES, RULE_NAMES, RULES, Rule

URLS = [
    "HTTP://WWW.Example.com:80/a/./b/../c/?utm_source=x&b=2&a=%7e&a=1#top",
    "https://example.com/index.html?",
    "https://example.com/a//b/%2C?q=a%20b;c",
]


def test_equal_options_are_equal_normalizers():
    assert Normalizer("aggressive") == Normalizer(
        "default",
        {
            "www": "remove",
            "force-scheme": True,
            "trailing-slash": "remove",
            "remove-duplicate-slashes": True,
            "remove-directory-index": True,
            "drop-params": "likely",
            "remove-session-ids": "likely",
        },
    )
    assert Normalizer("safe", {"keep-params": ["b", "a"]}) == Normalizer(
        "safe", {"keep-params": ("a", "b", "a")}
    )
    assert Normalizer("safe", {"sort-query": False}) == Normalizer("safe")
    assert Normalizer("safe", {"www": "add"}) != Normalizer("safe", {"www": "remove"})
    assert len({Normalizer(), Normalizer(), Normalizer("safe")}) == 2
    assert Normalizer() != "default"


def test_normalizer_can_be_pickled():
    """Worker processes get the same normalizer."""
    rule = SiteRule(site="example.com", kind="drop-param", param="a")
    normalizer = Normalizer("safe", {"www": "remove", "drop-params": ["x*"]}, [rule])
    copy = pickle.loads(pickle.dumps(normalizer))
    assert copy == normalizer
    assert copy.normalize("http://www.example.com/?a=1&xy=2&b=3") == "http://example.com/?b=3"


def test_keys_do_not_depend_on_the_process():
    """P7: another hash seed and another locale give the same keys and digest."""
    code = (
        "import json; from scrapy_urlnorm import Normalizer; n = Normalizer('aggressive');"
        f"print(json.dumps([n.digest, *n.normalize_many({URLS!r})]))"
    )
    answers = set()
    for seed, locale in (("0", "C"), ("1", "C.UTF-8"), ("2", "tr_TR.UTF-8")):
        env = {**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": locale}
        answers.add(subprocess.check_output([sys.executable, "-c", code], env=env))
    assert len(answers) == 1
    assert json.loads(answers.pop())[0] == Normalizer("aggressive").digest


def test_scrapy_is_not_imported_for_normalizing():
    code = (
        "import sys, scrapy_urlnorm; scrapy_urlnorm.normalize('http://h/');"
        "print([m for m in ('scrapy', 'twisted') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code]).strip() == b"[]"


def test_trace_reads_well():
    """A trace prints the URL and a line for each change with rule and reason."""
    trace = explain("http://example.com/?b=1&a=2#top")
    assert [step.rule for step in trace.steps] == ["sort-query", "remove-fragment"]
    assert str(trace).splitlines()[0] == trace.url
    assert "sort-query: http://example.com/?a=2&b=1#top  (Sort the" in str(trace)


def test_requests_get_a_form_that_can_be_fetched():
    """Rewriting leaves out the rules that only compare: a page may tell ``?a`` from ``?a=``."""
    normalizer = Normalizer().for_requests()
    assert normalizer.normalize("http://h/%2C?b&a%20&utm_id=1#f") == "http://h/%2C?a%20&b"


@pytest.mark.parametrize("rules", [{}, {"strip-amp": True}])
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("url", "message"),
    [
        (b"http://h/", "a URL has to be a str, not bytes: b'http://h/'; decode it first"),
        (None, "a URL has to be a str, not NoneType: None"),
        (7, "a URL has to be a str, not int: 7"),
    ],
)
def test_what_is_no_text_is_refused_in_one_sentence(profile, rules, url, message):
    """Bytes, which w3lib takes, are refused with what to do about it, by every way through."""
    normalizer = Normalizer(profile, rules)
    for call in (
        normalizer.normalize,
        normalizer.explain,
        lambda u: [*normalizer.normalize_many([u])],
    ):
        with pytest.raises(TypeError, match=re.escape(message)):
            call(url)


def shout(url, _=True):
    """Write the path in upper case."""
    return url.with_path(url.path.upper())


@pytest.mark.parametrize("profile", PROFILES)
def test_a_rule_without_a_word_switches_the_fast_path_off(profile, monkeypatch):
    """A new rule that says nothing of plain URLs runs on every URL, as soon as it is on."""
    rule = Rule("shout", "changing", "url", shout)
    monkeypatch.setattr("scrapy_urlnorm.rules.RULES", (*RULES, rule))
    monkeypatch.setattr("scrapy_urlnorm.rules.RULE_NAMES", (*RULE_NAMES, "shout"))
    url = "http://example.com/a/b"
    assert Normalizer(profile)._fast_key(url) is not None
    normalizer = Normalizer(profile, {"shout": True})
    assert normalizer._fast_key(url) is None
    assert normalizer.normalize(url) == "http://example.com/A/B"


def test_normalizer_is_immutable():
    """Nothing of a normalizer can be set, so a key cannot change under way."""
    normalizer = Normalizer()
    with pytest.raises(AttributeError, match="immutable"):
        normalizer.profile = "safe"
