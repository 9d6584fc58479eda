"""Register: learned keys, what they depend on, and which rules stand between two URLs."""

from __future__ import annotations

import pytest
from scrapy import Request
from scrapy.utils.request import RequestFingerprinter

from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter
from scrapy_urlnorm.crawl.live.register import Register
from scrapy_urlnorm.crawl.sites import domain_of, site_of
from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.normalizer import Normalizer
from scrapy_urlnorm.site_rules import SiteRule

SITE = "shop.test"
HTTPS = SiteRule(site="*.shop.test", kind="force-scheme", option="https", source="redirect")
SLASH = SiteRule(site="*.shop.test", kind="trailing-slash", option="remove", source="redirect")
WWW = SiteRule(
    site="shop.test", kind="host-alias", host=("www.shop.test",), by="shop.test", source="redirect"
)


@pytest.fixture
def register():
    return Register(UrlNormRequestFingerprinter(Normalizer()))


def learned(register, url):
    return register.keys_of(url).learned


def test_a_site_without_rules_has_no_learned_keys(register):
    """Whether there are none at all, or only some for other sites."""
    assert register.keys_of("http://shop.test/a") is None
    register.replace("other.test", [])
    register.replace(SITE, [HTTPS])
    assert register.keys_of("http://other.test/a") is None
    assert list(register.sites()) == [SITE]
    register.replace(SITE, [])
    assert register.keys_of("http://shop.test/a") is None
    assert register.rules(SITE) == ()


def test_the_own_key_is_what_the_user_configured(register):
    """The learned key is what the rules make equal, on every host of the site."""
    register.replace(SITE, [HTTPS, WWW])
    request = Request("http://www.shop.test/a?utm_source=x")
    keys = register.keys(request)
    assert keys.site == SITE
    assert keys.own == register.own_key(request)
    assert keys.own == UrlNormRequestFingerprinter(Normalizer()).fingerprint(
        Request("http://www.shop.test/a")
    )
    assert keys.learned == learned(register, "https://shop.test/a") != keys.own
    assert keys.learned != learned(register, "https://shop.test/a/")


def test_method_and_body_belong_to_a_learned_key(register):
    """A POST is not the GET of its URL."""
    register.replace(SITE, [HTTPS])
    post = Request("http://shop.test/a", method="POST", body=b"x")
    assert register.keys(post).learned != learned(register, "http://shop.test/a")


def test_a_request_with_its_own_say_is_not_touched(register):
    """Learned rules change no key of a request that asks to be left alone."""
    register.replace(SITE, [HTTPS])
    for meta in ({"urlnorm": False}, {"verbatim_url": True}):
        one, other = (Request(f"{s}://shop.test/a", meta=meta) for s in ("http", "https"))
        assert register.keys(one).learned != register.keys(other).learned


def test_a_learned_key_is_salted_with_the_rules(register):
    """When a rule comes or goes no key of before means anything, nor does a salt."""
    found = {}
    for rules in ([HTTPS], [HTTPS, SLASH], [SLASH]):
        register.replace(SITE, rules)
        found[learned(register, "https://shop.test/a")] = register.salt(SITE)
    assert len(found) == len(set(found.values())) == 3
    register.replace(SITE, [])
    assert register.salt(SITE) == b""


def test_the_salt_does_not_depend_on_the_order_of_rules_or_their_evidence(register):
    """So a run that resumes knows the keys of the run before."""
    register.replace(SITE, [HTTPS, SLASH])
    before = register.salt(SITE), learned(register, "https://shop.test/a")
    other = Register(UrlNormRequestFingerprinter(Normalizer()))
    more = SiteRule(**{**HTTPS.as_dict(), "support": 99, "note": "seen again"})
    other.replace(SITE, [SLASH, more])
    assert (other.salt(SITE), learned(other, "https://shop.test/a")) == before


def test_rules_that_do_not_go_together_change_nothing(register):
    """The error says so, and the rules of before stay in force."""
    register.replace(SITE, [HTTPS])
    before = learned(register, "http://shop.test/a")
    http = SiteRule(site="*.shop.test", kind="force-scheme", option="http", source="redirect")
    with pytest.raises(SiteRuleError):
        register.replace(SITE, [HTTPS, http])
    assert register.rules(SITE) == (HTTPS,)
    assert learned(register, "http://shop.test/a") == before


BETWEEN = {
    "one rule": ("http://shop.test/a", "https://shop.test/a", [HTTPS]),
    "the other way round": ("https://shop.test/a", "http://shop.test/a", [HTTPS]),
    "two rules": ("http://shop.test/a/", "https://shop.test/a", [HTTPS, SLASH]),
    "one on each side": ("http://shop.test/a", "https://shop.test/a/", [HTTPS, SLASH]),
    "one that acts on both": ("http://shop.test/a/", "http://shop.test/a", [SLASH]),
    "both alike": ("http://www.shop.test/a", "http://www.shop.test/a", [HTTPS, WWW]),
    "none that tells": ("https://shop.test/a", "https://shop.test/a", [HTTPS, SLASH, WWW]),
    "an unknown page": ("http://shop.test/a/", "", [HTTPS, SLASH]),
    "an unknown page, no rule acts": ("https://shop.test/a", "", [HTTPS, SLASH, WWW]),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_the_rules_between_two_urls(register, name):
    """Those that acted on one of them and not on both; where none did, all may have."""
    url, other, rules = BETWEEN[name]
    register.replace(SITE, [HTTPS, SLASH, WWW])
    assert list(register.between(url, other)) == rules


def test_the_key_of_the_url_that_the_rules_make(register):
    """It is the own key of that URL; where a URL alone makes no key there is none."""
    assert register.own_of_learned(Request("http://shop.test/a")) is None
    register.replace(SITE, [HTTPS])
    own = register.own_of_learned(Request("http://shop.test/a"))
    assert own == register.own_key(Request("https://shop.test/a"))

    class Own(RequestFingerprinter):
        """Looks at more than the URL."""

    other = Register(UrlNormRequestFingerprinter(Normalizer(), Own()))
    other.replace(SITE, [HTTPS])
    assert not other.by_url
    assert other.own_of_learned(Request("http://shop.test/a")) is None


REQUESTS = [
    Request("http://shop.test/a"),
    Request("http://shop.test/a", method="POST"),
    Request("http://shop.test/a", body=b"x"),
    Request("http://shop.test/a", meta={"urlnorm": False}),
    Request("http://shop.test/a?utm_source=x", meta={"urlnorm": "safe"}),
    Request("http://shop.test/a", meta={"urlnorm_key": "http://shop.test/b"}),
    Request("http://shop.test/a?utm_source=y", meta={"verbatim_url": True}),
]


def test_what_a_url_alone_does_not_make_is_not_remembered_by_it(register):
    """Each request has its own key, and another learned key than all others, in any order."""
    register.replace(SITE, [HTTPS])
    fingerprint = UrlNormRequestFingerprinter(Normalizer()).fingerprint
    for request in (*REQUESTS, *reversed(REQUESTS)):
        assert register.keys(request).own == fingerprint(request)
    assert len({register.keys(request).learned for request in REQUESTS}) == len(REQUESTS)


def test_keys_are_made_anew_for_other_rules_and_aliases(register):
    """What was remembered by URL is forgotten with each change, also of another site."""
    request = Request("http://shop.test/a")
    assert register.keys(request) is None
    register.give_keys(SITE, has_aliases=True)
    assert register.keys(request).is_plain
    learned_keys = set()
    for rules in ([HTTPS], [HTTPS, WWW], [WWW]):
        register.replace(SITE, rules)
        learned_keys.add(register.keys(request).learned)
    assert len(learned_keys) == 3
    elsewhere = SiteRule(site="*.other.test", kind="force-scheme", option="https", source="user")
    register.replace("other.test", [elsewhere])
    assert register.keys(request).learned in learned_keys
    register.replace(SITE, ())
    assert register.keys(request).is_plain
    register.give_keys(SITE, has_aliases=False)
    assert register.keys(request) is None


def test_all_pages_of_a_site_get_the_keys_that_they_get_one_by_one(register):
    """With rules, with page aliases alone, and without either."""
    urls = [f"http://{host}shop.test/{path}" for host in ("", "www.") for path in ("a?b&a", "c/")]
    for rules, has_aliases in (((HTTPS, WWW), False), ((), True), ((SLASH,), True)):
        register.replace(SITE, rules)
        register.give_keys(SITE, has_aliases=has_aliases)
        keys = [register.learned_of_page(SITE, url) for url in urls]
        assert keys == [learned(register, url) for url in urls]
    register.replace(SITE, ())
    register.give_keys(SITE, has_aliases=False)
    assert register.learned_of_page(SITE, urls[0]) is None


SITES = {
    "http://www.shop.test/a": "shop.test",
    "http://a.b.shop.co.uk/": "shop.co.uk",
    "http://localhost/": "localhost",
    "http://10.0.0.1:8000/": "10.0.0.1",
    "http://h.test": "h.test",
    "http://h.test#7": "h.test",
    "http://h.test?x": "h.test",
    "no URL": "",
}


@pytest.mark.parametrize("url", SITES)
def test_the_site_of_a_url(url):
    """Its registrable domain, or its host where there is none."""
    assert site_of(url) == SITES[url]


def test_the_site_of_a_rule():
    """Whatever hosts it is for."""
    assert domain_of("*.shop.test") == domain_of("WWW.shop.test") == domain_of(SITE) == SITE
