"""The normalizer of one site, made of the rules of that site alone."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from scrapy_urlnorm import Normalizer, SiteRule
from scrapy_urlnorm.domains import registrable_domain
from scrapy_urlnorm.exceptions import SiteRuleError
from scrapy_urlnorm.site_rules import RulesByDomain

# Domains of which one ends as another does, with hosts below them; suffixes within a domain
# (s3.amazonaws.com, compute.amazonaws.com); hosts without a registrable domain; an address.
HOSTS = {
    "shop.example": ["shop.example", "www.shop.example", "m.shop.example"],
    "myshop.example": ["myshop.example", "www.myshop.example"],
    "shop.co.uk": ["shop.co.uk", "www.shop.co.uk"],
    "amazonaws.com": ["amazonaws.com", "docs.amazonaws.com", "compute.amazonaws.com"],
    "b.s3.amazonaws.com": ["b.s3.amazonaws.com", "www.b.s3.amazonaws.com"],
    "me.github.io": ["me.github.io"],
    "github.io": ["github.io"],
    "localhost": ["localhost"],
    "127.0.0.1": ["127.0.0.1"],
}
WIDE = ["*.shop.example", "*.myshop.example", "*.www.shop.example", "*.amazonaws.com"]
OPERATIONS = [
    {"kind": "drop-param", "param": "a"},
    {"kind": "drop-param", "param": "b", "path": "/x/**"},
    {"kind": "trailing-slash", "option": "remove"},
    {"kind": "trailing-slash", "option": "add"},
    {"kind": "force-scheme", "option": "https"},
    {"kind": "remove-directory-index", "option": ["index.html"]},
    {"kind": "www", "option": "remove"},
    {"kind": "prefix-alias", "prefix": "/x", "by": "/y"},
    {"kind": "host-alias"},
]
domains = st.sampled_from(sorted(HOSTS))


@st.composite
def site_rules(draw, domain=None):
    """Draw a rule, of any site or of one on the hosts of *domain*."""
    domain = domain or draw(domains)
    own = [*HOSTS[domain], *(w for w in WIDE if registrable_domain(w[2:]) == domain)]
    site, status = (draw(st.sampled_from(of)) for of in (own, ["active", "active", "proposed"]))
    operation = draw(st.sampled_from(OPERATIONS))
    if operation["kind"] == "host-alias":
        source, target = draw(st.permutations(HOSTS[domain] * 2))[:2]
        assume(source != target and registrable_domain(source) == registrable_domain(target) != "")
        assume(not site.startswith("*."))
        operation = {"kind": "host-alias", "host": source, "by": target}
    return SiteRule(site=site, status=status, **operation)


MAPPING = {"replace-ip-with-domain": {"127.0.0.1": "shop.example"}}


@given(
    data=st.data(),
    profile=st.sampled_from(["safe", "default", "aggressive"]),
    options=st.sampled_from([{}, MAPPING]),
    rules=st.lists(site_rules(), max_size=8),
    domain=domains,
)
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
def test_keys_of_a_site_are_those_of_all_rules(data, profile, options, rules, domain):
    """On the hosts of a domain its normalizer gives the keys that the rules of all sites give."""
    learned = data.draw(st.lists(site_rules(domain), max_size=3))
    try:
        base = Normalizer(profile, options, rules)
        whole = base.replace_site_rules((*rules, *learned))
    except SiteRuleError:
        assume(False)
    site = base.for_site(domain, learned)
    for host in [*HOSTS[domain], *(f"www.{host}" for host in HOSTS[domain])]:
        for rest in ("/", "/x/y/", "/x/index.html?a=1&b=2&c=3", "/x", "?b=1&a=2#f"):
            for url in (f"http://{host}{rest}", f"HTTPS://{host.upper()}:443{rest}"):
                assert site.normalize(url) == whole.normalize(url)
                assert site.explain(url) == whole.explain(url)


def test_rules_of_other_sites_are_left_out():
    sites = ["a.shop.example", "myshop.example", "*.shop.example", "shop.example.org",
             "shop.example", "shop-example", "*.a.shop.example", "other.example"]  # fmt: skip
    rules = [SiteRule(site=site, kind="drop-param", param="a") for site in sites]
    learned = SiteRule(site="shop.example", kind="drop-param", param="b", source="redirect")
    base = Normalizer(site_rules=rules)
    site = base.for_site("shop.example", [learned])
    assert {rule.site for rule in site.site_rules} == {
        "a.shop.example", "*.shop.example", "shop.example", "*.a.shop.example"
    }  # fmt: skip
    assert site.site_rules[-1] is learned
    assert base.for_site("nosuch.example", ()).site_rules == ()
    assert site.for_site("shop.example", ()).digest == site.digest


def test_the_rules_of_a_domain_within_another_are_those_of_both():
    """A rule for *.amazonaws.com holds for a bucket there, which is a domain of its own."""
    wide = SiteRule(site="*.amazonaws.com", kind="drop-param", param="a")
    site = Normalizer(site_rules=[wide]).for_site("b.s3.amazonaws.com", ())
    assert site.normalize("http://b.s3.amazonaws.com/?a=1") == "http://b.s3.amazonaws.com/"


def test_learned_rules_that_contradict_the_own_are_refused():
    """What `replace_site_rules` refuses for a site, `for_site` refuses."""
    base = Normalizer(
        site_rules=[SiteRule(site="shop.example", kind="trailing-slash", option="add")]
    )
    learned = SiteRule(site="shop.example", kind="trailing-slash", option="remove")
    with pytest.raises(SiteRuleError, match="contradict"):
        base.for_site("shop.example", [learned])
    assert base.for_site("other.example", [learned]).site_rules == (learned,)


def test_the_catalogue_is_compiled_once(monkeypatch):
    """A normalizer of a site shares the compiled catalogue, and asks the index of all rules once."""
    rules = [SiteRule(site="shop.example", kind="drop-param", param="a")]
    base = Normalizer("aggressive", site_rules=rules)
    base.for_site("shop.example", ())

    def fail(*_):
        raise AssertionError("compiled again")

    monkeypatch.setattr("scrapy_urlnorm.normalizer.Catalogue", fail)
    monkeypatch.setattr("scrapy_urlnorm.normalizer.PlainUrls", fail)
    monkeypatch.setattr(RulesByDomain, "__init__", fail)
    site = base.for_site("shop.example", ())
    assert site.normalize("https://www.shop.example/x/?a=1") == "http://shop.example/x"
