"""Promises P1 to P4, P7 and P9, held on generated URLs."""

from __future__ import annotations

from importlib.metadata import version

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from strategies import OPTIONS, anything, fragments, plain_urls, urls
from w3lib.url import canonicalize_url, safe_url_string

from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.rules import PROFILES, RULE_NAMES
from scrapy_urlnorm.url import join, parse, split

rule_sets = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from([False, *options]) for name, options in OPTIONS.items()}
)
NORMALIZERS = {profile: Normalizer(profile) for profile in PROFILES}
many = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@given(anything)
@many
def test_split_and_join_lose_nothing(text):
    assert join(split(text)) == text


@given(anything)
@many
def test_parsing_settles(text):
    """What was read as a URL reads the same again, and every component is plain."""
    url = parse(text)
    if url is not None:
        assert parse(join(url)) == url


@pytest.mark.parametrize("profile", PROFILES)
@given(url=anything)
@example(url="http://h/a/..;x")
@example(url="http://h/%%34%31")
@example(url="http://h/index.html/index.html/")
@example(url="http://h/" + "amp/index.html/" * 20)
@many
def test_profiles_are_idempotent_and_total(profile, url):
    """P1 and P2: a normal form is its own normal form, and no string raises."""
    normalizer = NORMALIZERS[profile]
    once = normalizer.normalize(url)
    assert normalizer.normalize(once) == once


@given(profile=st.sampled_from(PROFILES), rules=rule_sets, url=anything)
@example(
    profile="safe", rules={"decode-html-amp": True, "sort-query": True}, url="http://h/?amp;b&a"
)
@example(
    profile="aggressive",
    rules={"drop-params": ["action"]},
    url="http://h/?action=results&sid=0a1b2c3d4e5f60718293a4b5c6d7e8f9",
)
@many
def test_every_rule_set_is_idempotent(profile, rules, url):
    """P1 for any choice of rules and options."""
    normalizer = Normalizer(profile, rules)
    once = normalizer.normalize(url)
    assert normalizer.normalize(once) == once


def without_fast_path(normalizer):
    slow = normalizer.replace_site_rules(normalizer.site_rules)
    object.__setattr__(slow, "_fast_key", lambda url: None)
    return slow


ALONE = [(name, option) for name, options in OPTIONS.items() for option in options]


@pytest.mark.parametrize(("name", "option"), ALONE, ids=lambda value: str(value)[:20])
@given(url=plain_urls())
@example(url="https://www.m.example.com//a%2Cb/(S(lit3py55t21z5v55vlm25s55))/index.html")
@example(url="http://m.www.example.com/a,b//(S(lit3py55t21z5v55vlm25s55))")
@example(url="http://example.com/A/?a&amp;utm_source=b")
@example(url="http://example.com/?")
@settings(max_examples=50, deadline=None)
def test_the_fast_path_agrees_with_every_rule_alone(name, option, url):
    """A rule that is on alone changes nothing that its word calls plain, but for the fast path."""
    normalizer = Normalizer("safe", dict.fromkeys(RULE_NAMES, False) | {name: option})
    assert normalizer.normalize(url) == without_fast_path(normalizer).normalize(url)


@pytest.mark.parametrize("profile", PROFILES)
@given(url=anything)
@many
def test_explaining_is_normalizing(profile, url):
    """P9: a trace ends where normalizing ends, and its steps lead there without a gap."""
    normalizer = NORMALIZERS[profile]
    trace = normalizer.explain(url)
    assert trace.normalized == normalizer.normalize(url)
    here = url
    for step in trace.steps:
        assert step.before == here
        assert step.after != step.before
        assert step.rule in (*RULE_NAMES, "parse", "unsettled")
        assert step.reason
        here = step.after
    assert here == trace.normalized


as_w3lib_2_5 = pytest.mark.skipif(
    version("w3lib") < "2.5", reason="P3 holds for the canonical form of w3lib 2.5"
)


def carried(url):
    """Return *url* as a Scrapy request carries it, or reject the example."""
    try:
        url = safe_url_string(url)
        canonicalize_url(url)
    except (ValueError, UnicodeError):
        assume(False)
    # Scrapy drops tabs and such once more where we have decoded nothing: not a URL of a crawl.
    assume(split(url).host is not None)
    return url


@as_w3lib_2_5
@pytest.mark.parametrize("profile", ["default", "aggressive"])
@given(url=urls())
@example(url="http://h/a/..;x")
@example(url="http://h%4d/?b&a")
@many
def test_a_canonical_form_has_the_same_key(profile, url):
    """P3: a URL and its canonical form by w3lib have one key, so Scrapy's classes stay whole.

    (Where w3lib's form is not its own form, ``/%%34%31`` -> ``/%41`` -> ``/A``, it says nothing.)
    """
    url = carried(url)
    canonical = canonicalize_url(url)
    assume(canonicalize_url(canonical) == canonical)
    normalize = NORMALIZERS[profile].normalize
    assert normalize(url) == normalize(carried(canonical))


@as_w3lib_2_5
@pytest.mark.parametrize("profile", ["default", "aggressive"])
@given(data=st.data(), url=urls())
@many
def test_what_scrapy_merges_is_merged(profile, data, url):
    """P3: two URLs with one canonical form by w3lib have one key."""
    url = carried(url)
    other = carried(data.draw(respelled(url)))
    if canonicalize_url(url) == canonicalize_url(other):
        normalize = NORMALIZERS[profile].normalize
        assert normalize(url) == normalize(other)


@st.composite
def respelled(draw, url):
    """Return *url* with escapes written otherwise, parameters in another order, a new fragment."""
    parts = split(url)
    characters = []
    i = 0
    path = parts.path
    while i < len(path):
        escape = path[i : i + 3]
        if draw(st.booleans()) and path[i].isascii() and path[i] not in "/%?#;":
            characters.append(f"%{ord(path[i]):02{draw(st.sampled_from('xX'))}}")
            i += 1
        elif len(escape) == 3 and escape[0] == "%" and draw(st.booleans()):
            characters.append(draw(st.sampled_from([escape.lower(), escape.upper()])))
            i += 3
        else:
            characters.append(path[i])
            i += 1
    query = parts.query
    if query:
        pieces = draw(st.permutations(query.split("&")))
        query = "&".join(
            p.replace("+", "%20") if draw(st.booleans()) else p.replace("%20", "+") for p in pieces
        )
    return join(parts._replace(path="".join(characters), query=query, fragment=draw(fragments)))


@as_w3lib_2_5
@given(url=urls())
@many
def test_default_writes_what_scrapy_writes(url):
    """Where only the rules that imitate Scrapy have work, the key is w3lib's canonical form."""
    url = carried(url)
    trace = NORMALIZERS["default"].explain(url)
    imitating = {"form-encode-query", "sort-query", "remove-fragment", "remove-empty-query",
                 "decode-path-reserved", "uppercase-escapes", "add-root-slash",
                 "remove-dot-segments"}  # fmt: skip
    assume({step.rule for step in trace.steps} <= imitating)
    parts = split(url)
    assume("%" not in (parts.host or "") + (parts.path or "") and ";" not in parts.path)
    assert trace.normalized == canonicalize_url(url)


@given(url=urls())
@many
def test_safe_keeps_what_rfc_3986_keeps_apart(url):
    """P4: safe changes no reserved character, no order and no parameter of a parsed URL."""
    before = parse(url)
    assume(before is not None)
    after = split(NORMALIZERS["safe"].normalize(url))
    reserved = ":/?#[]@!$&'()*+,;="

    def kept(text):
        return [c for c in text or "" if c in reserved]

    assert before is not None
    assert kept(before.query) == kept(after.query)
    assert (before.query is None) == (after.query is None)
    assert (before.fragment is None) == (after.fragment is None)
    assert [p.partition("=")[1] for p in (before.query or "").split("&")] == [
        p.partition("=")[1] for p in (after.query or "").split("&")
    ]


@as_w3lib_2_5
def test_forged_escapes_are_merged_as_scrapy_merges_them():
    """P3 where w3lib's decoding forges an escape: both spellings of the forgery have one key."""
    assert canonicalize_url("http://h/%%34%31") == canonicalize_url("http://h/%%341")
    normalize = NORMALIZERS["default"].normalize
    assert normalize("http://h/%%34%31") == normalize("http://h/%%341")
