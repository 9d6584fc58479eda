"""Registrable domains, by the public suffix list."""

from __future__ import annotations

import pytest

from scrapy_urlnorm import domains
from scrapy_urlnorm.domains import registrable_domain


def test_nothing_is_kept_of_a_host_too_long_for_a_name() -> None:
    """P8: a site that makes up long hosts does not fill the memory of the public suffix test."""
    before = domains._registrable_domain.cache_info().currsize
    assert registrable_domain("a." * 200 + "com") == "a." * 200 + "com"
    assert domains._registrable_domain.cache_info().currsize == before


@pytest.mark.parametrize(
    ("host", "found"),
    [
        ("www.shop.example.com", "example.com"),
        ("co.uk", "co.uk"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "[::1]"),
        ("localhost", "localhost"),
        ("", ""),
    ],
)
def test_a_host_without_a_registrable_domain_stands_for_itself(host: str, found: str) -> None:
    """Whatever is grouped by domain has a group for a public suffix, an address or a bare name."""
    assert domains.domain_or_host(host) == found


def test_a_registrable_domain_is_the_one_that_tldextract_finds() -> None:
    """For hosts under every rule of the list, which is read in a quicker way."""
    extract = domains._public_suffixes()
    rules, _ = domains._rules()
    hosts = {"127.0.0.1", "256.1.1.1", "01.2.3.4", "localhost", "1.2.3", "nowhere.test"}
    for number, rule in enumerate(sorted(rules)):
        suffix = rule.removeprefix("!").replace("*", "ocs" if number % 2 else "q")
        hosts |= {suffix, f"a.{suffix}", f"www.a.{suffix}", f"z.{suffix.partition('.')[2]}"}
    for host in filter(None, hosts):
        found = extract(host)
        expected = f"{found.domain}.{found.suffix}" if found.domain else ""
        if found.ipv4 or not found.suffix:
            expected = host if found.ipv4 else ".".join(host.split(".")[-2:])
        assert registrable_domain(host) == expected
