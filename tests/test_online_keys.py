"""ClusterKeys: what cluster keys depend on, and which rules stand between two URLs."""

from __future__ import annotations

import pytest
from scrapy import Request
from scrapy.utils.request import RequestFingerprinter

from scrapy_urlnorm.crawl.fingerprinter import UrlNormRequestFingerprinter
from scrapy_urlnorm.crawl.online.keys import ClusterKeys
from scrapy_urlnorm.crawl.requests import Asked, asked_for, domain_of, site_of
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
def clusters():
    return ClusterKeys(UrlNormRequestFingerprinter(Normalizer()))


def cluster(clusters, url):
    return clusters.keys_of(url).cluster


def test_a_site_without_rules_has_no_cluster_keys(clusters):
    """Whether there are none at all, or only some for other sites."""
    assert clusters.keys_of("http://shop.test/a") is None
    clusters.replace("other.test", [])
    clusters.replace(SITE, [HTTPS])
    assert clusters.keys_of("http://other.test/a") is None
    assert list(clusters.sites()) == [SITE]
    clusters.replace(SITE, [])
    assert clusters.keys_of("http://shop.test/a") is None
    assert clusters.rules(SITE) == ()


def test_the_fingerprint_is_what_the_user_configured(clusters):
    """The cluster key is what the rules make equal, on every host of the site."""
    clusters.replace(SITE, [HTTPS, WWW])
    request = asked_for("http://www.shop.test/a?utm_source=x")
    keys = clusters.keys(request)
    assert keys.site == SITE
    assert keys.fingerprint == clusters.fingerprint(request)
    assert keys.fingerprint == UrlNormRequestFingerprinter(Normalizer()).fingerprint(
        Request("http://www.shop.test/a")
    )
    assert keys.cluster == cluster(clusters, "https://shop.test/a") != keys.fingerprint
    assert keys.cluster != cluster(clusters, "https://shop.test/a/")


def test_the_salt_does_not_depend_on_the_order_of_rules_or_their_evidence(clusters):
    """So a run that resumes knows the keys of the run before."""
    clusters.replace(SITE, [HTTPS, SLASH])
    other = ClusterKeys(UrlNormRequestFingerprinter(Normalizer()))
    other.replace(SITE, [SLASH, HTTPS.replace(support=99, note="seen again")])
    url = "https://shop.test/a"
    assert cluster(other, url) == cluster(clusters, url) != clusters.keys_of(url).fingerprint


def test_rules_that_do_not_go_together_change_nothing(clusters):
    """The error says so, and the rules of before stay in force."""
    clusters.replace(SITE, [HTTPS])
    before = cluster(clusters, "http://shop.test/a")
    http = SiteRule(site="*.shop.test", kind="force-scheme", option="http", source="redirect")
    with pytest.raises(SiteRuleError):
        clusters.replace(SITE, [HTTPS, http])
    assert clusters.rules(SITE) == (HTTPS,)
    assert cluster(clusters, "http://shop.test/a") == before


BETWEEN = {
    "one rule": ("http://shop.test/a", "https://shop.test/a", [HTTPS]),
    "the other way round": ("https://shop.test/a", "http://shop.test/a", [HTTPS]),
    "two rules": ("http://shop.test/a/", "https://shop.test/a", [HTTPS, SLASH]),
    "one on each side": ("http://shop.test/a", "https://shop.test/a/", [HTTPS, SLASH]),
    "one that acts on both": ("http://shop.test/a/", "http://shop.test/a", [SLASH]),
    "both alike": ("http://www.shop.test/a", "http://www.shop.test/a", [HTTPS, WWW]),
    "none acts": ("https://shop.test/a", "https://shop.test/b", []),
    "an unknown page": ("http://shop.test/a/", "", [HTTPS, SLASH]),
    "an unknown page, no rule acts": ("https://shop.test/a", "", [HTTPS, SLASH, WWW]),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_the_rules_between_two_urls(clusters, name):
    """Those that acted on one of them and not on both; where none did, all may have."""
    url, other, rules = BETWEEN[name]
    clusters.replace(SITE, [HTTPS, SLASH, WWW])
    assert list(clusters.between(SITE, url, other)) == rules


def test_a_rule_that_is_out_of_force_is_no_reason_and_leaves_none(clusters):
    """A page may still have the key that it made, and what is found there refutes no other rule."""
    clusters.replace(SITE, [SLASH])
    assert clusters.between(SITE, "http://shop.test/a", "https://shop.test/a") == ()
    assert clusters.between(SITE, "http://shop.test/a", "http://shop.test/a/") == (SLASH,)


def test_the_key_of_the_url_that_the_rules_make(clusters):
    """It is the fingerprint of that URL; where a URL alone makes no key there is none."""
    assert clusters.fingerprint_of_cluster(SITE, "http://shop.test/a") is None
    clusters.replace(SITE, [HTTPS])
    fingerprint = clusters.fingerprint_of_cluster(SITE, "http://shop.test/a")
    assert fingerprint == clusters.fingerprint(asked_for("https://shop.test/a"))

    class Own(RequestFingerprinter):
        def fingerprint(self, request):
            return super().fingerprint(request)[::-1]

    other = ClusterKeys(UrlNormRequestFingerprinter(Normalizer(), Own()))
    other.replace(SITE, [HTTPS])
    assert not other.by_url
    request = asked_for("http://shop.test/a?utm_source=x")
    assert other.fingerprint_of_cluster(SITE, request.url) is None
    for each in (clusters, other):  # the one and the other know a request for a URL
        assert each.fingerprint_of(request.url) == each.fingerprint(request)
        assert each.keys_of(request.url) == each.keys(request)


REQUESTS = [
    Request("http://shop.test/a"),
    Request("http://shop.test/a", method="POST"),
    Request("http://shop.test/a", body=b"x"),
    Request("http://shop.test/a", meta={"urlnorm": False}),
    Request("http://shop.test/a?utm_source=x", meta={"urlnorm": "safe"}),
    Request("http://shop.test/a", meta={"urlnorm_key": "http://shop.test/b"}),
    Request("http://shop.test/a?utm_source=y", meta={"verbatim_url": True}),
]


def test_what_a_url_alone_does_not_make_is_not_remembered_by_it(clusters):
    """Each request has its own fingerprint, and another cluster key than all others, in any order."""
    clusters.replace(SITE, [HTTPS])
    fingerprint = UrlNormRequestFingerprinter(Normalizer()).fingerprint
    for request in (*REQUESTS, *reversed(REQUESTS)):
        assert clusters.keys(Asked(request)).fingerprint == fingerprint(request)
    assert len({clusters.keys(Asked(request)).cluster for request in REQUESTS}) == len(REQUESTS)


@pytest.mark.parametrize(
    "url", ["http://shop.test/a/?utm_source=x", "http://shop.test/a", "https://shop.test/a"]
)
def test_the_first_key_of_a_page_makes_its_cluster_key(clusters, url):
    """As its URL does: it is kept, so that the catalogue need not act once more."""
    first = clusters.normalized(url), clusters.fingerprint_of(url)
    assert clusters.cluster_of_plain(SITE, *first) is None
    clusters.give_keys(SITE, has_aliases=True)
    assert clusters.cluster_of_plain(SITE, *first) == clusters.keys_of(url).cluster == first[1]
    clusters.replace(SITE, [HTTPS, SLASH])
    assert clusters.cluster_of_plain(SITE, *first) == clusters.keys_of(url).cluster != first[1]


def test_keys_are_made_anew_for_other_rules_and_aliases(clusters):
    """What was remembered by URL is forgotten with each change, also of another site."""
    request = asked_for("http://shop.test/a")
    assert clusters.keys(request) is None
    clusters.give_keys(SITE, has_aliases=True)
    assert clusters.keys(request).is_plain
    cluster_keys = set()
    for rules in ([HTTPS], [HTTPS, WWW], [WWW]):
        clusters.replace(SITE, rules)
        cluster_keys.add(clusters.keys(request).cluster)
    assert len(cluster_keys) == 3
    elsewhere = SiteRule(site="*.other.test", kind="force-scheme", option="https", source="user")
    clusters.replace("other.test", [elsewhere])
    assert clusters.keys(request).cluster in cluster_keys
    clusters.replace(SITE, ())
    assert clusters.keys(request).is_plain
    clusters.give_keys(SITE, has_aliases=False)
    assert clusters.keys(request) is None


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
    assert domain_of("*.shop.test") == domain_of("WWW.shop.test") == domain_of(SITE) == SITE
