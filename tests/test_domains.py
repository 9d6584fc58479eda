"""Registrable domains, by the public suffix list."""

from __future__ import annotations

import pytest

from scrapy_urlnorm import domains
from scrapy_urlnorm.domains import registrable_domain


def test_nothing_is_kept_of_a_host_too_long_for_a_name():
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
        ("a.github.io", "a.github.io"),
        ("x.nowhere.test", "nowhere.test"),
        ("", ""),
    ],
)
def test_every_host_has_a_group(host, found):
    """A registrable domain; a public suffix, an address or a bare name stands for itself."""
    assert domains.domain_or_host(host) == found
