"""The fast path: equal to running the rules, by definition; and how far it reaches."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from strategies import plain_urls, urls
from test_normalizer_properties import rule_sets, without_fast_path

from scrapy_urlnorm import Normalizer, SiteRule
from scrapy_urlnorm.rules import PROFILES

ID = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
NORMALIZERS = {profile: Normalizer(profile) for profile in PROFILES}
SLOW = {profile: without_fast_path(normalizer) for profile, normalizer in NORMALIZERS.items()}
many = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))

# What a slip of the pen, or a person who wants to know, puts into a URL.
SLIPS = [
    "%2e", "%2E", "%2F", "%2f", "%41", "%7E", "%3D", "%26", "%20", "+", "%C3%A9", "%", "%4", "%zz",
    "%25", "%2525", "%28", "%3B", ";", "&amp;", "&", "=", "?", "#", "#!", "/", "//", "/./", "/../",
    "/.a", "/(S(lit3py55t21z5v55vlm25s55))", "(", ")", "index.html", "/index.html", "utm_source=x",
    "&fbclid=1", f"sid={ID}", f"&PHPSESSID={ID}", "CFID=1234567&CFTOKEN=12345678", "action=results",
    ";jsessionid=0A1B2C3D4E5F60718293A4B5C6D7E8F9", "www.", "m.", ":80", ":443", ":8080", ":99999",
    "user@", "@", "é", "日本", "\\", "\t", " ", "\n", "\x00", "\x7f", "\xa0", "\ud800", "[", "]",
    "|", "^", "`", "{", "}", "'", '"', "<", ">", "a=b", "a=b=c", "a", "A", "&&", "&=", "=&", "HTTP",
    "ftp", "data", "xn--nxasmq6b", "0x7f.1", "127.1", "[::1]", "..", ".", "*", "$", "!", "~", "_",
    "-", ",", ":", "/amp", "/http://h/", "&a=1&a=0", "&b=%2B&a=+", "&%61=1&a=2",
]  # fmt: skip


@st.composite
def slipped(draw):
    """URLs with a few texts put in, characters taken out, or letters in the other case."""
    url = draw(st.one_of(plain_urls(), urls()))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(url)))
        end = min(len(url), place + draw(st.integers(0, 4)))
        middle = draw(st.one_of(st.sampled_from(SLIPS), st.just(url[place:end].swapcase())))
        url = url[:place] + middle + url[end if draw(st.booleans()) else place :]
    return url


FOUND = [
    # `parse` refuses the authority: the URL stays whole
    "http://h:99999/A?b&a",
    "HTTP://h:x",
    "data://h/A?b&a#c",
    "http://[::1/A?b&a",
    # what ends the authority goes only where it ends the URL
    "http://h\x00",
    "http://h\x00/?b&a",
    "http://h /",
    "http://h\t.com/",
    "http://h\\a?b&a",
    "http://h\x7f/",
    "http://h\xa0",
    # a trailing slash where the path is empty, and where it stays so
    "http://h",
    "http://h?b&a",
    "http://h?",
    "http://h/?&",
    "http://h/?&&#",
    # two runs of the rules
    "http://h/index.html/",
    "http://h/index.html//index.html",
    "http://www.www.h.example/",
    # a path that only decoding shows
    "http://h/%28S(lit3py55t21z5v55vlm25s55))/",
    "http://h/a%2Cb%2525%3b",
    "http://h/%2e%2E/a",
    # names that come twice, in one spelling or two, and those that are none
    "http://h/?a=2&a=1",
    "http://h/?a%20=2&a+=1",
    "http://h/?=2&=1&",
    "http://h/?&utm_source=1",
    "http://h/?a&&b",
    # values that decide
    f"http://h/?sid={ID}&a=1",
    f"http://h/?sid={ID}&action=1",
    "http://h/?sid=7&a=1",
    f"http://h/?SID={ID[:26]}&a",
    "http://h/?CFID=12&CFTOKEN=12345678",
    "http://h/?CFTOKEN=1&a",
    "http://h/?page=1&id=%31",
    "http://h/?page=%31&sort=&amp;a=1",
    # escapes that others would forge
    "http://h/?a=%%34%31&b=%2%30",
    "http://h/?a=%/20&%:=1",
    "http://h/?a=%2c%2C,",
]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("url", FOUND)
def test_what_was_found_on_the_way(profile, url):
    """Cases that some fast path got wrong, or could, have the keys that the rules give."""
    assert NORMALIZERS[profile].normalize(url) == SLOW[profile].normalize(url)


@pytest.mark.parametrize("profile", PROFILES)
@given(url=slipped())
@settings(many, max_examples=300)
def test_profiles_agree_with_the_rules(profile, url):
    assert NORMALIZERS[profile].normalize(url) == SLOW[profile].normalize(url)


@given(profile=st.sampled_from(PROFILES), rules=rule_sets, found=st.lists(slipped(), max_size=8))
@example(profile="safe", rules={"sort-query": True}, found=["http://h/?a%20=2&a+=1"])
@example(profile="safe", rules={"drop-params": ["a"]}, found=["http://h/?a&", "http://h/?&=&a"])
@example(profile="safe", rules={"add-root-slash": False, "trailing-slash": "add"}, found=["ws://h"])
@many
def test_random_options_agree_with_the_rules(profile, rules, found):
    """Equal by definition, whatever rules are on; what one URL leaves behind changes no other."""
    normalizer = Normalizer(profile, rules)
    slow = without_fast_path(normalizer)
    for url in [*found, *FOUND, *found]:
        assert normalizer.normalize(url) == slow.normalize(url)


#: Options, and URLs for which no rule has to run on the whole.
REACHED = [
    ("default", {}, "http://example.com/a?b=2&a=1&utm_source=x#top"),
    ("default", {}, "HTTPS://user@WWW.Example.com:8080/a%2Cb/?q=a%20b;c&a"),
    ("default", {}, "http://exämple.com/?CFID=1&sid=7"),
    ("default", {}, "http://example.com/?&#top"),
    ("default", {"remove-fragment": ["#!"]}, "http://example.com/#top"),
    ("aggressive", {}, "https://www.example.com/a//b/index.html?b=2&a=1"),
    ("aggressive", {}, f"http://example.com/a/?s={ID}&a=1"),
    ("aggressive", {"strip-mobile-host": True, "lowercase-path": True}, "http://m.example.com/A"),
    ("safe", {}, "http://EXAMPLE.com:80?b&a=[1]"),
    ("safe", {"keep-params": ["id"]}, "http://example.com/?id=1&b&a"),
    ("safe", {"drop-default-params": {"page": "1"}}, "http://example.com/?id=1&page=1"),
    ("safe", {"trailing-slash": "add", "www": "add"}, "http://example.com/a?id=1"),
    ("safe", {"remove-userinfo": True, "remove-host-dot": True}, "http://u@example.com./a"),
    ("safe", {"replace-ip-with-domain": {"127.0.0.1": "example.com"}}, "http://127.1/a"),
]


@pytest.mark.parametrize(("profile", "rules", "url"), REACHED)
def test_how_far_the_fast_path_reaches(profile, rules, url):
    """Every option of a rule with a word leaves URLs to the fast path that the rule changes."""
    normalizer = Normalizer(profile, rules)
    assert normalizer._fast_key(url) == without_fast_path(normalizer).normalize(url) != url


@pytest.mark.parametrize("profile", PROFILES)
def test_a_url_that_is_its_own_key_is_returned_itself(profile):
    """Whether a key is the URL can be told without comparing characters."""
    url = "http://example.com/a_b/c.html?a=1&b=2".replace("_", "-")
    assert NORMALIZERS[profile].normalize(url) is url


def test_a_url_of_a_site_with_rules_takes_the_fast_path():
    """The memo of hosts knows which have rules: all others cost what they cost without."""
    drops = SiteRule(site="example.com", kind="drop-param", param="a")
    switch = SiteRule(site="m.example.com", kind="trailing-slash", option="add")
    normalizer = Normalizer(site_rules=[drops, switch])
    assert normalizer._fast_key("http://example.com/?b=1&a=2") == "http://example.com/?b=1"
    assert normalizer._fast_key("http://other.example/?b=1&a=2") == "http://other.example/?a=2&b=1"
    assert normalizer._fast_key("http://m.example.com/a") is None  # a catalogue of its own


def test_memos_are_bounded():
    normalizer = Normalizer("aggressive")
    urls = normalizer._plain_urls
    plans = urls.plans
    for memo, most, key in [
        (urls.heads, 65_536, lambda i: f"https://h{i}"),
        (plans, 16_384, lambda i: (f"n{i}", "a")),
    ]:
        memo._function = lambda key: None
        for i in range(most + 2):
            memo[key(i)]
        assert len(memo) + len(memo.old) <= most
    assert urls.heads["http://" + "a" * 300] is None
    assert max(map(len, urls.heads)) <= 256


def test_a_host_that_stays_as_it_is_is_kept_once():
    """The text that was asked for is the answer: a crawl of many hosts needs half the memory."""
    urls = Normalizer()._plain_urls
    prefix = "https://a.example/x"[:-2]  # no constant, of which there is one anyway
    assert urls.heads[prefix] is prefix
    assert urls.heads["https://A.example"] == prefix


def test_names_without_end_leave_no_plan():
    """A query with too many parameters, or too long names, is normalized without being kept."""
    normalizer = Normalizer()
    plans = normalizer._plain_urls.plans
    for names in (range(9, -1, -1), [f"n{i}" for i in range(50)], ["a" * 1_000, "utm_source"]):
        query = "&".join(f"{name}=1" for name in names)
        url = f"http://h/?{query}"
        assert normalizer.normalize(url) == without_fast_path(normalizer).normalize(url)
    assert [len(names) for names in plans] == [10]
